/* Send several requests at once, and take the first response. Stop the other fibers. */
#include <weft.h>

#include <stdio.h>

typedef struct source {
    const char *name;
    double seconds; /* until the response */
} source;

static weft_value ask(void *arg)
{
    const source *s = arg;
    WEFT_DEFER(puts, s->name); /* shows that each fiber has ended */
    int rc = weft_sleep(s->seconds);
    return rc < 0 ? rc : (weft_value) "42";
}

int main(void)
{
    source sources[] = {{"server 1", 30.0}, {"server 2", 0.1}, {"server 3", 60.0}};
    weft_fiber fibers[3];
    for (int i = 0; i < 3; i++)
        fibers[i] = weft_spin(ask, &sources[i]);
    puts("The fibers end in this order:");
    weft_value answer;
    int first = weft_select_fibers(fibers, 3, &answer);
    if (first < 0 || weft_is_error(answer))
        return 1;
    printf("%s responds first: %s\n", sources[first].name, (const char *)answer);
}

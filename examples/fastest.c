/* Ask several at once, take the answer that comes first; the others are stopped. */
#include <weft.h>

#include <stdio.h>

typedef struct source {
    const char *name;
    double seconds; /* until it answers */
} source;

static weft_value ask(void *arg)
{
    const source *s = arg;
    WEFT_DEFER(puts, s->name); /* to show that all of them have ended */
    int rc = weft_sleep(s->seconds);
    return rc < 0 ? rc : (weft_value) "42";
}

int main(void)
{
    source sources[] = {{"a far one", 30.0}, {"a near one", 0.1}, {"a farther one", 60.0}};
    weft_fiber fibers[3];
    for (int i = 0; i < 3; i++)
        fibers[i] = weft_spin(ask, &sources[i]);
    puts("Ended, in this order:");
    weft_value answer;
    int first = weft_select_fibers(fibers, 3, &answer);
    if (first < 0 || weft_is_error(answer))
        return 1;
    printf("%s was the fastest: %s\n", sources[first].name, (const char *)answer);
}

/*
 * Two fibers keep each other on the run queue, so that it is never empty. Those who wait for the
 * clock or for the kernel get their turn all the same: a sleeper wakes up, and ends it.
 */
#include <weft.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct player {
    const char *line;
    weft_fiber fiber;
    struct player *other;
} player;

static bool is_over;

/* Print (the first few times), schedule the other one, wait to be scheduled by it. */
static weft_value play(void *arg)
{
    const player *p = arg;
    for (int n = 0; !is_over; n++) {
        if (n < 3)
            weft_write_all(STDOUT_FILENO, p->line, strlen(p->line));
        weft_schedule(p->other->fiber, 0);
        weft_value rc = weft_suspend();
        if (weft_is_error(rc))
            return rc;
    }
    weft_schedule(p->other->fiber, 0); /* if it is still there: it waits for this one */
    return 0;
}

static weft_value sleeper(void *arg)
{
    (void)arg;
    int rc = weft_sleep(0.1);
    is_over = true;
    return rc;
}

int main(void)
{
    player one = {.line = "one\n"}, two = {.line = "two\n", .other = &one};
    one.other = &two;
    one.fiber = weft_spin(play, &one);
    two.fiber = weft_new(play, &two); /* the first one schedules it */
    weft_spin(sleeper, NULL);
    weft_fiber both[] = {one.fiber, two.fiber};
    if (weft_await_all(both, 2, NULL) < 0)
        return 1;
    puts("and a sleeper woke up, though they never paused");
}

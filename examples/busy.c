/*
 * A run queue that is never empty does not starve timers and I/O. Two fibers schedule each other in
 * a loop. A sleeping fiber still wakes on time, and ends the loop.
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

/* Print the first three times. Schedule the other player, and wait until it schedules this one. */
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
    weft_schedule(p->other->fiber, 0); /* the other player may wait for this one */
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
    two.fiber = weft_new(play, &two); /* player one schedules it */
    weft_spin(sleeper, NULL);
    weft_fiber both[] = {one.fiber, two.fiber};
    if (weft_await_all(both, 2, NULL) < 0)
        return 1;
    puts("the sleeper woke although the run queue was never empty");
}

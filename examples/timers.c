/* Timers: a one-shot timer, a periodic timer, and two kinds of deadline. */
#include <weft.h>

#include <errno.h>
#include <stdio.h>

static weft_value notify(void *arg)
{
    printf("later: %s\n", (const char *)arg);
    return 0;
}

static weft_value tick(void *arg)
{
    int *ticks = arg;
    printf("tick %d\n", ++*ticks);
    return *ticks < 3 ? 0 : -ECANCELED; /* ends the timer */
}

/* Run for 60 s, unless interrupted. */
static int perform_query(void)
{
    int rc = weft_sleep(60.0);
    if (rc == -ECANCELED)
        puts("the query was interrupted");
    return rc;
}

int main(void)
{
    weft_fiber later = weft_after(0.1, notify, "tea is ready");
    puts("now: put the kettle on");
    if (weft_await(later) < 0)
        return 1;

    int ticks = 0;
    weft_fiber clock = weft_every(0.1, tick, &ticks); /* does not drift */
    if (weft_await(clock) != -ECANCELED)
        return 1;

    WEFT_MOVE_ON_AFTER(0.1) {
        perform_query();
    }
    puts("moved on");

    int rc;
    WEFT_CANCEL_AFTER(0.1, rc) {
        perform_query();
    }
    if (rc == -ETIMEDOUT)
        puts("the deadline is an error here");
}

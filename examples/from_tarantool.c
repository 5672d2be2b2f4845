/*
 * A consumer takes numbers from a channel until there is no number for a time. A background fiber
 * is cancelled. docs/from.md shows the program beside one for Tarantool.
 */
#include <weft.h>

#include <errno.h>
#include <stdio.h>

static weft_value consume(void *tasks)
{
    weft_value sum = 0;
    for (;;) {
        weft_value n = 0;
        int timed_out;
        WEFT_CANCEL_AFTER(0.3, timed_out) {
            n = weft_chan_recv(tasks);
        }
        if (timed_out < 0)
            return sum;
        if (weft_is_error(n))
            return n;
        sum += n;
    }
}

static weft_value tick(void *arg)
{
    (void)arg;
    int rc;
    while ((rc = weft_sleep(3600.0)) == 0)
        ;
    return rc;
}

int main(void)
{
    weft_chan *tasks = weft_chan_new(2);
    if (tasks == NULL)
        return 1;
    weft_fiber consumer = weft_spin_with(consume, tasks, &(weft_spin_options){.name = "consumer"});
    weft_fiber ticker = weft_spin_with(tick, NULL, &(weft_spin_options){.name = "ticker"});
    for (int n = 1; n <= 4; n++)
        weft_chan_send(tasks, n);
    printf("sum: %d\n", (int)weft_await(consumer));
    weft_cancel(ticker);
    printf("ticker: %s\n", weft_await(ticker) == -ECANCELED ? "-ECANCELED" : "another value");
    weft_chan_free(tasks);
}

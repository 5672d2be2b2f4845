/*
 * A program to look at with `weft top` and `weft profile`: two fibers compute, one twice as much as
 * the other, and three wait for a channel, a lock and an input. See docs/debugging.md.
 */
#include <weft.h>

#include <stdio.h>
#include <unistd.h>

static weft_mutex ledger;
static weft_chan *orders;

/* Compute for about a number of milliseconds. Not inlined, so that profiles have its name. */
__attribute__((noinline)) static void compute_prices(double ms)
{
    double until = weft_now() + ms / 1000;
    for (volatile unsigned i = 0; i % 1000 != 0 || weft_now() < until;)
        i = i + 1;
}

static weft_value price_large(void *arg)
{
    while (weft_sleep(0.010) == 0)
        compute_prices(4);
    return (weft_value)(intptr_t)arg;
}

static weft_value price_small(void *arg)
{
    while (weft_sleep(0.010) == 0)
        compute_prices(2);
    return (weft_value)(intptr_t)arg;
}

/* Hold the lock until the program ends. */
static weft_value close_books(void *arg)
{
    (void)arg;
    weft_mutex_lock(&ledger);
    weft_value order = weft_chan_recv(orders);
    weft_mutex_unlock(&ledger);
    return order;
}

static weft_value post_entry(void *arg)
{
    int rc = weft_mutex_lock(&ledger);
    if (rc == 0)
        weft_mutex_unlock(&ledger);
    return rc == 0 ? (weft_value)(intptr_t)arg : rc;
}

static weft_fiber start(weft_fn *fn, const char *name)
{
    return weft_spin_with(fn, NULL, &(weft_spin_options){.name = name});
}

int main(void)
{
    char line[16];
    orders = weft_chan_new(1);
    start(price_large, "large");
    start(price_small, "small");
    start(close_books, "closing");
    start(post_entry, "posting");
    puts("Press return to stop");
    fflush(stdout);
    return weft_read(STDIN_FILENO, line, sizeof line) < 0;
}

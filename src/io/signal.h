/* Signals for those above: what is done for one in the thread that ordered it, or at once. */
#ifndef WEFT_IO_SIGNAL_H
#define WEFT_IO_SIGNAL_H

#include "core/cord.h"
#include "io/relay.h"

/* What to do for each occurrence of a signal. */
typedef struct weft__signal_order {
    /* Called in the thread that ordered it, for so many occurrences; must not switch. */
    void (*act)(weft__cord *c, const struct weft__signal_order *order, unsigned times);
    int sig;
    weft_fn *fn; /* these two are act's own */
    void *arg;
    bool is_held; /* main's suspend waits for it, and it rules out a deadlock */
    /*
     * First of all; NULL: nothing. An order with this outlasts the main fiber, to the end of the
     * process.
     */
    weft__at_once *at_once;
} weft__signal_order;

/*
 * Install an order, in place of any other for that signal; act NULL: take it back. Errors as
 * weft_on_signal has them.
 */
int weft__signal_handle(const weft__signal_order *order);

/* The signal that a text names: a number, "USR1", "SIGUSR1". -EINVAL: none. */
int weft__signal_parse(const char *text);

#endif

/*
 * Internal signal handlers. A handler runs in the thread that installed it, in the real signal
 * handler (signal_thread.h), or in both.
 */
#ifndef WEFT_CORE_SIGNAL_SIGNAL_H
#define WEFT_CORE_SIGNAL_SIGNAL_H

#include "core/cord/cord.h"
#include "core/signal/signal_thread.h"

/* An internal handler of a signal. */
typedef struct weft__signal_handler {
    /*
     * Handle a number of occurrences, in the thread that installed the handler. The function must
     * not switch. NULL: remove the handler.
     */
    void (*act)(weft__cord *c, const struct weft__signal_handler *handler, unsigned times);
    int sig;
    weft_fn *fn; /* fn and arg are used only by act */
    void *arg;
    bool is_held; /* weft_suspend in main waits for the signal, so there is no deadlock */
    /*
     * Handle the signal in the real signal handler. NULL: none. A handler with this function
     * remains installed until the process ends, even after the end of its main fiber.
     */
    weft__signal_in_handler *in_handler;
} weft__signal_handler;

/*
 * Install a handler, or remove the handler if act is NULL. The new handler replaces any other
 * handler of the signal. Returns 0, or an error of weft_on_signal.
 */
int weft__signal_set_handler(const weft__signal_handler *handler);

/* A wait for signals. */
typedef struct weft__signal_waiter weft__signal_waiter;

/*
 * Catch the signals of a mask (signal_mask.h). Return the lowest signal of the mask that has a
 * stored occurrence, or 0 if there is none. If is_taken is true, take the occurrence. Returns a
 * negative errno on failure, see weft_wait_signal.
 */
int weft__signal_poll(uint64_t mask, bool is_taken);

/*
 * Like weft__signal_poll with is_taken, but if there is no occurrence, begin to wait in the current
 * fiber, and store the waiter in *waiter. When a signal arrives, offer(owner, sig) is called in the
 * thread of the fiber. The waiter is then gone. If offer returns false, the occurrence goes to
 * other waiters, or is stored.
 *
 * Errors in addition to those of weft__signal_poll:
 * -ENOMEM if memory for the waiter is exhausted
 */
int weft__signal_begin(weft__cord *c, uint64_t mask, bool (*offer)(void *owner, int sig),
                       void *owner, weft__signal_waiter **waiter);

/* End a wait. offer will not be called. Call this function in the thread of the fiber. */
void weft__signal_end(weft__signal_waiter *w);

/*
 * Return the signal that text names, for example 10, USR1 or SIGUSR1. Return -EINVAL if text does
 * not name a signal.
 */
int weft__signal_parse(const char *text);

/*
 * If WEFT_DUMP_SIGNAL names a signal, install a handler that writes the fibers of the calling
 * thread to stderr. Only the first call in a process has an effect.
 */
void weft__signal_dump_install(void);

#endif

/*
 * Catching signals: what happens in a handler, and the thread that hears of it. Who is told, and
 * how, is signal.c's matter, under whose lock everything here is called but the handler.
 */
#ifndef WEFT_IO_RELAY_H
#define WEFT_IO_RELAY_H

#include <signal.h>
#include <stdbool.h>

/* One after the last signal: numbers go from 1 to 64 on Linux. */
#define WEFT__SIGNALS_END 65

/*
 * Called in the handler, before the signal is counted; true: that was all, and it is not. It may do
 * only what is safe there.
 */
typedef bool weft__at_once(int sig, const siginfo_t *info);

/*
 * Catch a signal from now on, if it is not caught already. on_bell, always the same, is called in a
 * thread of its own when there may be something to take. 0 or -errno: -EINVAL for a number that the
 * C library keeps to itself, -EAGAIN or -ENOMEM if there is no such thread to be had.
 */
int weft__relay_catch(int sig, void (*on_bell)(void));

bool weft__relay_catches(int sig);

/* What to do in the handler; NULL: nothing. */
void weft__relay_set_at_once(int sig, weft__at_once *fn);

/* How often the signal has come since this was last asked. */
unsigned weft__relay_take(int sig);

/* Put back what was there before, unless someone has put something else over it. */
void weft__relay_release(int sig);

/* In a child by fork: release everything; the thread is not there. */
void weft__relay_reset(void);

#endif

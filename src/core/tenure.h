/*
 * A tenure: a thread that was started as a cord, from weft_cord_start until somebody has joined it.
 * It outlives its cord, and keeps what came of it.
 */
#ifndef WEFT_CORE_TENURE_H
#define WEFT_CORE_TENURE_H

#include "core/cord.h"
#include "core/error.h"

#include <weft/cord.h>

typedef struct weft__tenure {
    weft_cord id;
    weft__cord *cord; /* the thread's own, until it has ended */
    weft_fn *fn;      /* NULL: it serves */
    void *arg;
    void (*drop)(void *arg); /* releases arg if fn is never called; NULL: arg owns nothing */
    bool shares_ports;       /* as the cord's */
    const char *backend;     /* NULL: any */
    char name[WEFT__NAME_BYTES];
    pthread_t thread;   /* set by the thread itself; read after its end */
    weft_value value;   /* what came of it: the thread's to write, then everyone's to read */
    weft__error *words; /* the same; NULL: none */

    /* Under the lock of all tenures. */
    bool has_ended;
    atomic_bool is_cancelled; /* cancel is filled in; the thread reads it without the lock */
    unsigned told;            /* joiners that have been told, and have not taken it yet */
    weft__list joiners;       /* that wait */
    weft__letter cancel;      /* to the main fiber */

    bool is_cancel_heard; /* the thread's own: cancel has been delivered */
} weft__tenure;

/* The cord was cancelled before it called its function: release the argument. */
static inline weft_value weft__tenure_drop(weft__tenure *t)
{
    if (t->drop != NULL)
        t->drop(t->arg);
    return -ECANCELED;
}

/* weft_cord_start. */
weft_cord weft__cord_start(weft_fn *fn, void *arg, const weft_cord_options *o, bool shares_ports);

/*
 * For the thread itself: deliver a cancel of the cord now, before the remote messages that were
 * sent before it. For a fiber that does not let others run.
 */
static inline void weft__tenure_hear_cancel(weft__cord *c)
{
    weft__tenure *t = c->tenure;
    if (t != NULL && atomic_load_explicit(&t->is_cancelled, memory_order_acquire))
        t->cancel.deliver(c, &t->cancel);
}

/* For the thread itself: its function is over; end its fibers, and note what came of it. */
void weft__tenure_settle(weft__tenure *t, weft__cord *c);

/* The cord is gone: tell those who wait. The last thing that the thread does. */
void weft__tenure_end(weft__tenure *t);

/* The same where the thread ends the process: its fibers have ended, and it goes on. */
void weft__tenure_exit(weft__tenure *t);

/*
 * The thread of this cord (NULL: of none) ends the process: whoever is started from now on is
 * cancelled at once.
 */
void weft__tenures_close(const weft__cord *by);

/* Cancel all but this one (NULL: all), with that grace time, which weft_grace tells there. */
void weft__tenures_cancel(const weft__tenure *except, double grace_s);

/* Block the thread until they have ended, at most until then (weft__clock_ns). False: late. */
bool weft__tenures_are_over(const weft__tenure *except, int64_t until_ns);

/*
 * Wait until they have ended, at most WEFT__EXIT_GRACE_S. Report those that have not, and errors
 * that nobody has heard of. True if there was anything to report.
 */
bool weft__tenures_wait(const weft__tenure *except);

/* Say which of them have not ended, by this function; in a handler of a signal, too. */
void weft__tenures_name_left(const weft__tenure *except,
                             void (*say)(weft_cord id, const char *name));

/* In a child of fork(2): none of them is there. */
void weft__tenures_renew(void);

/* thread.c: wait until the process, which another thread has chosen to end, is gone. */
void weft__thread_stay(void);

#endif

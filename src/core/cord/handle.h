/*
 * The handle of a cord that weft_cord_start has started. The handle stores the result of the cord,
 * and exists until the cord is joined.
 */
#ifndef WEFT_CORE_CORD_HANDLE_H
#define WEFT_CORE_CORD_HANDLE_H

#include "core/cord/cord.h"
#include "core/fiber/error.h"

#include <weft/cord.h>

typedef struct weft__cord_handle {
    /* Constant after the start. */
    weft_cord id;
    /* Only the thread of the cord uses this field. Invalid after the end of the cord. */
    weft__cord *cord;
    weft_fn *fn; /* NULL: the cord only runs fibers that other threads create */
    void *arg;
    void (*drop)(void *arg); /* releases arg if fn is never called; NULL: arg owns nothing */
    bool shares_ports;       /* copied to the cord */
    const char *backend;     /* NULL: as in weft__cord_open_backend */
    char name[WEFT__NAME_BYTES];

    /* Written by the thread of the cord. Other threads read these fields after has_ended is set. */
    pthread_t thread;
    weft_value value;
    weft__error *error; /* the error object of value; NULL: none */

    /* Protected by the lock of all handles. */
    bool has_ended;
    /* True if cancel_msg is filled in. The thread of the cord reads this field without the lock. */
    atomic_bool is_cancelled;
    unsigned joiners_notified; /* joiners that have the result, and have not released the handle */
    weft__list joiners;        /* waiting fibers */
    weft__remote_msg cancel_msg; /* to the main fiber */

    bool is_cancel_delivered; /* only the thread of the cord uses this field */
} weft__cord_handle;

/*
 * Like weft_cord_start. If shares_ports is true, weft_listen in the cord uses SO_REUSEPORT.
 * (cord.c)
 */
weft_cord weft__cord_start(weft_fn *fn, void *arg, const weft_cord_options *o, bool shares_ports);

/*
 * If the cord of the calling thread was cancelled, deliver the cancellation now, before earlier
 * messages. Otherwise a fiber that does not switch would not be cancelled.
 */
static inline void weft__cord_handle_check_cancel(weft__cord *c)
{
    weft__cord_handle *h = c->handle;
    if (h != NULL && atomic_load_explicit(&h->is_cancelled, memory_order_acquire))
        h->cancel_msg.deliver(c, &h->cancel_msg);
}

/* Add a handle before its thread is created. If the process is ending, cancel the cord. */
void weft__cord_handle_add(weft__cord_handle *h);

/* Remove a handle, because its thread could not be created. */
void weft__cord_handle_remove(weft__cord_handle *h);

/* Wake the joiners. The caller must have freed the cord, and must not use the handle any more. */
void weft__cord_handle_end(weft__cord_handle *h);

/* Like weft__cord_handle_end, for a thread that ends the process. The handle is never freed. */
void weft__cord_handle_exit(weft__cord_handle *h);

/*
 * Record that the thread of ending_cord ends the process. ending_cord is NULL for a thread without
 * a cord. After the call, new cords are cancelled at once.
 */
void weft__cord_handles_begin_exit(const weft__cord *ending_cord);

/*
 * Cancel all started cords except `except`, which may be NULL. grace_s is the grace time of the
 * cords.
 */
void weft__cord_handles_cancel(const weft__cord_handle *except, double grace_s);

/*
 * Block the thread until all started cords except `except` have ended. `except` may be NULL. Return
 * false if a cord has not ended by until_ns, a time of weft__clock_ns.
 */
bool weft__cord_handles_wait_until(const weft__cord_handle *except, int64_t until_ns);

/*
 * Wait at most WEFT__EXIT_GRACE_S seconds until all started cords except `except` have ended.
 * `except` may be NULL. Report cords that have not ended, and errors of cords that were not joined.
 * Return true if there was a report.
 */
bool weft__cord_handles_end_all(const weft__cord_handle *except);

/*
 * Call print for each started cord that has not ended, except for `except`, which may be NULL. A
 * signal handler may call this function. If the lock is held, do nothing.
 */
void weft__cord_handles_each_running(const weft__cord_handle *except,
                                     void (*print)(weft_cord id, const char *name));

/* Forget all handles in a child of fork(2). */
void weft__cord_handles_reset(void);

#endif

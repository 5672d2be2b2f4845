/*
 * The internals of selectors (include/weft/selector.h):
 *
 *   selector.c  open, close, first use, fork
 *   record.c    the life of an operation: start, completion, cancellation, time limit
 *   poll.c      poll, next, wake; a backend that fails
 *   io.c        operations on descriptors, sleep
 *   process.c   child processes
 *   offload.c   calls on worker threads
 *
 * A selector uses a backend in the hosted mode (is_hosted in backend.h). It does not use cords.
 */
#ifndef WEFT_SELECTOR_SELECTOR_H
#define WEFT_SELECTOR_SELECTOR_H

#include "backend/backend.h"
#include "base/child_process.h"
#include "core/sched/timer.h"

#include <weft/selector.h>

/*
 * The selector's part of a pending operation. The host owns only the weft_selector_op. The record
 * outlives an operation that the host has cancelled, if the kernel still waits for a descriptor.
 */
typedef struct weft__record {
    weft__op op;
    weft_selector *selector;
    weft_selector_op *host; /* NULL: the host has left the operation */
    weft__list link;        /* in records or in free_records of the selector */
    weft__timer timer;      /* the end of a sleep, or the next poll of a child */
    weft__timer limit;      /* the time limit */
    bool is_submitted;      /* the backend has op, and will call done */
    int end_code;           /* the result instead of -ECANCELED, after a cancellation */
    bool is_kept;           /* keep the record until the host takes the completed operation */
    /* Release what the operation owns besides op. NULL: nothing. */
    void (*release)(struct weft__record *r);
    /* Handle that the host has closed the selector, and never gets the result. NULL: nothing. */
    void (*leave)(struct weft__record *r);
    /*
     * Fetch the result when weft_selector_next takes the operation. Returns false if the operation
     * must continue to wait. NULL: the operation has its result when it completes. is_kept must
     * be true.
     */
    bool (*take)(struct weft__record *r, weft_value *result);
    weft__child_process child; /* of wait_process */
    int *status;               /* of wait_process */
} weft__record;

/* The private part of a weft_selector_op. All-zero: not pending. */
typedef struct weft__selector_part {
    weft__list link;      /* in completed of the selector; next is NULL: not completed */
    weft__record *record; /* NULL: not pending, or completed without is_kept */
} weft__selector_part;

_Static_assert(sizeof(weft__selector_part) <= sizeof((weft_selector_op){0}.weft__private),
               "weft_selector_op is too small");

static inline weft__selector_part *weft__selector_part_of(weft_selector_op *op)
{
    return (weft__selector_part *)(void *)op->weft__private;
}

/* Records per allocation. */
#define WEFT__SLAB_RECORDS 16

typedef struct weft__record_slab {
    struct weft__record_slab *next; /* NULL: none */
    weft__record records[WEFT__SLAB_RECORDS];
} weft__record_slab;

struct weft_selector {
    _Atomic(weft__backend *) backend; /* NULL: not opened yet; wake reads it in any thread */
    const char *backend_name;         /* static; NULL: see weft__backend_open */
    const void *thread;               /* see weft__selector_use; NULL: not used yet */
    unsigned forks;                   /* the number of forks when the selector was opened */
    size_t pending;                   /* operations that the host has not got back */
    size_t abandoned;                 /* records without a host operation */
    size_t completed_count;
    weft__list completed; /* weft_selector_op by link of weft__selector_part */
    weft__list records;   /* records in use */
    weft__list free_records;
    weft__record_slab *slabs; /* NULL: none */
    int64_t checked_ns;       /* the time of the last check of the backend */
    weft__backend *retired;   /* backends that have failed; NULL: none */
    weft__backend_none none;  /* if no other backend can be opened */
    atomic_bool is_woken;     /* weft_selector_wake was called since the last poll */
    atomic_bool is_waiting;   /* poll waits, or is about to wait */
    weft__wheel wheel;
};

/* Return whether this process is a child of the process that opened the selector. */
bool weft__selector_is_inherited(const weft_selector *s);

/*
 * Check that this thread may use the selector. The first use opens the backend, and binds the
 * selector to the thread. Returns 0 or -errno.
 */
int weft__selector_use(weft_selector *s);

/*
 * Open the backend with this name, or none if that fails. NULL: the default. Returns 0 or -errno.
 */
int weft__selector_open_backend(weft_selector *s, const char *name);

static inline weft__backend *weft__selector_backend(weft_selector *s)
{
    return atomic_load_explicit(&s->backend, memory_order_relaxed);
}

/*
 * record.c: begin an operation of the host. Store its record in *out. The caller fills in the
 * record, and calls one of the functions below. Returns 0 or -errno.
 */
int weft__record_new(weft_selector *s, weft_selector_op *host, weft__record **out);

/* Free a record. No other part may refer to it. */
void weft__record_free(weft__record *r);

/* Submit the backend operation of a record. Returns its result or WEFT_SELECTOR_PENDING. */
weft_value weft__record_try_submit(weft__record *r);

/* Like weft__record_try_submit. Make the operation pending, or free r and return the result. */
weft_value weft__record_submit(weft__record *r);

/* Make the operation pending without a backend operation. Returns WEFT_SELECTOR_PENDING. */
weft_value weft__record_wait(weft__record *r);

/* Add the operation to the completed operations. Without is_kept, the call frees r. */
void weft__record_complete(weft__record *r, weft_value result);

/*
 * End an operation without a result. Returns false if the kernel or a worker thread uses its
 * buffers. The operation then completes later, with code in place of -ECANCELED. On success, the
 * host operation does not refer to r any more.
 */
bool weft__record_end(weft__record *r, int code);

/* Arm a timer of a record. Returns 0, or -EINVAL if seconds is negative or NaN. */
int weft__record_arm(weft__record *r, weft__timer *timer, double seconds);

/* poll.c: poll the backend. Repair or replace the backend if it has failed. */
void weft__selector_poll_backend(weft_selector *s, int64_t timeout_ns);

#endif

/*
 * Jobs: operations that make a blocking call on a worker thread (worker_queue.h). Examples are
 * reads of files that are not in the page cache, name lookups and functions of the program. This
 * file uses operations and backends, but not fibers.
 */
#ifndef WEFT_BACKEND_WORKERS_JOB_H
#define WEFT_BACKEND_WORKERS_JOB_H

#include "backend/workers/worker_queue.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct weft__op;
struct weft__backend;
struct weft__job;

/*
 * The finished jobs of a backend. If another backend replaces the backend, the new backend takes
 * over the list.
 */
typedef struct weft__finished_jobs {
    _Atomic(struct weft__backend *) backend; /* the backend to wake */
    _Atomic(struct weft__job *) newest;      /* the list of jobs, the newest first; NULL: empty */
    atomic_bool is_waiting;                  /* the backend waits: the next job must wake it */
    atomic_uint posters;      /* threads that are posting a job or waking the backend */
    unsigned fork_generation; /* of the process that created the list */
    /*
     * End an operation. The function must call done. If end is NULL, weft__jobs_collect calls done.
     */
    void (*end)(void *owner, struct weft__op *op, intptr_t result);
    void *owner;
} weft__finished_jobs;

/* Initialise the finished jobs of a new backend. */
void weft__finished_jobs_init(struct weft__backend *b);

/*
 * Wait until no worker thread can wake the backend. A backend calls this function before it is
 * freed. No operation may be pending.
 */
void weft__finished_jobs_close(struct weft__backend *b);

/*
 * Move the jobs of one backend to another backend, with the count of pending operations. No
 * operation of `from` may be pending except jobs. The memory of `from` must remain valid.
 */
void weft__finished_jobs_hand_over(struct weft__backend *from, struct weft__backend *to);

/*
 * Prepare for a wait in poll. Returns true if jobs have finished. poll must then not wait. Until
 * the next weft__jobs_collect, a finished job wakes the backend.
 */
static inline bool weft__finished_jobs_before_wait(weft__finished_jobs *f)
{
    /*
     * The store precedes the load. Either the load finds a new job, or the thread that posts the
     * job finds the flag.
     */
    atomic_store(&f->is_waiting, true);
    return atomic_load(&f->newest) != NULL;
}

/*
 * Run an operation on a worker thread. The thread calls fn for CALL, and weft__call_block for other
 * operations. When the call has returned, the thread wakes the backend if it waits. The next
 * weft__jobs_collect reports the result. The operation counts as pending. The caller may use
 * op->link.
 *
 * Returns WEFT__OP_PENDING, or:
 * -EAGAIN if no worker thread exists and none can be created
 * -ENOMEM if memory is exhausted
 */
intptr_t weft__job_submit(struct weft__backend *b, struct weft__op *op);

/*
 * Run fn(arg) on a worker thread, without a result. Any thread may call this function.
 *
 * Returns 0, or:
 * -EAGAIN if no worker thread exists and none can be created
 * -ENOMEM if memory is exhausted
 */
int weft__job_submit_detached(weft__worker_queue worker_queue, intptr_t (*fn)(void *arg),
                              void *arg);

/*
 * Cancel an operation, like cancel of weft__backend_type. A queued call can be cancelled. A running
 * CALL can be cancelled if drop is not NULL. A running OPEN can be cancelled if it does not create
 * or truncate a file. This is necessary because an OPEN of a FIFO may block indefinitely. A read or
 * write that has transferred bytes cannot be cancelled. On success, remove op->link from its list,
 * and decrement pending.
 */
bool weft__job_cancel(struct weft__backend *b, struct weft__op *op);

/* Report finished jobs. For each operation, remove op->link from its list, and call done. */
void weft__jobs_collect(struct weft__backend *b);

#endif

/*
 * Worker queues: tasks, and the worker threads that run them. Each queue has its own threads, so a
 * slow task blocks only its own queue. Examples of slow tasks are a lookup at a name server that
 * does not respond, and an open of a FIFO without a writer.
 *
 * Below its limit, a queue has as many idle threads as queued tasks, because a task may wait for
 * another task. Idle threads end after some time. This file does not use operations, backends or
 * fibers.
 */
#ifndef WEFT_BACKEND_WORKERS_WORKER_QUEUE_H
#define WEFT_BACKEND_WORKERS_WORKER_QUEUE_H

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum weft__worker_queue {
    WEFT__WORKER_QUEUE_FILES, /* operations on files: read, open, stat */
    WEFT__WORKER_QUEUE_NAMES, /* name lookups */
    /* Functions of the program. Only these functions can wake a fiber. */
    WEFT__WORKER_QUEUE_USER,
    WEFT__WORKER_QUEUE_COUNT,
} weft__worker_queue;

/*
 * The maximum number of threads of the queues for files and for names, and the default limit for
 * functions of the program. 64 threads fill the queue of a disk. A resolver has few servers.
 * Functions of the program often wait longer than they compute, and an idle thread costs only 16
 * KiB.
 */
#define WEFT__FILES_WORKERS_MAX 64
#define WEFT__NAMES_WORKERS_MAX 32
#define WEFT__USER_WORKERS_DEFAULT 64
/* The largest limit that a program can set. A larger value is probably a mistake. */
#define WEFT__WORKERS_LIMIT 4096

typedef enum weft__task_state {
    WEFT__TASK_QUEUED,
    WEFT__TASK_RUNNING,
    WEFT__TASK_DETACHED, /* running, and cancelled */
    WEFT__TASK_ENDED,
} weft__task_state;

/* A task. The caller sets run, end and is_detachable. */
typedef struct weft__task {
    void (*run)(struct weft__task *t);
    /*
     * End the task. The worker thread calls end after run, and does not use t afterwards. If
     * was_detached is true, t was cancelled while run was running.
     */
    void (*end)(struct weft__task *t, bool was_detached);
    bool is_detachable; /* the task can be cancelled while it runs */

    weft__list link; /* in the queue; the queue owns this field and all fields below */
    weft__worker_queue worker_queue;
    weft__task_state state;
    unsigned fork_generation; /* of the process that queued the task */
    int64_t queued_ns;
} weft__task;

/*
 * Queue a task. Any thread may call this function. Returns 0, or -EAGAIN if no thread exists and
 * none can be created.
 */
int weft__worker_queue_add(weft__worker_queue worker_queue, weft__task *t);

typedef enum weft__task_cancel_result {
    WEFT__TASK_IS_REMOVED, /* the task will not run, and belongs to the caller again */
    /* The task runs. The worker thread calls end. The caller must not use t. */
    WEFT__TASK_IS_DETACHED,
    /* The task runs in the parent of this process. t belongs to the caller. */
    WEFT__TASK_IS_INHERITED,
    WEFT__TASK_CANNOT_CANCEL, /* the task runs and cannot be detached, or has ended */
} weft__task_cancel_result;

/*
 * Cancel a task. Only the thread that queued the task may call this function, before end has
 * reported the result.
 */
weft__task_cancel_result weft__worker_queue_cancel(weft__task *t);

/*
 * Set the maximum number of threads of a queue. If threads is 0, set the default limit. Threads
 * above a lower limit end when they are idle. Returns 0, or -EINVAL if threads is more than
 * WEFT__WORKERS_LIMIT.
 */
int weft__worker_queue_limit(weft__worker_queue worker_queue, unsigned threads);

typedef struct weft__worker_queue_counts {
    unsigned threads, idle, queued, running;
    uint64_t done, abandoned;
    int64_t queue_ns, queue_ns_max; /* the time of started tasks in the queue: sum and maximum */
} weft__worker_queue_counts;

/* Store the counters of a queue in *out. */
void weft__worker_queue_count(weft__worker_queue worker_queue, weft__worker_queue_counts *out);

/*
 * Set a function that a worker thread calls after each function of the program has returned. The
 * thread then already counts as idle.
 */
void weft__workers_on_call_end(void (*fn)(void));

/* Set the time after which an idle thread ends, for tests. */
void weft__workers_set_idle_ns(int64_t ns);

/* Restore the signal mask if this thread is the copy of a worker thread in a child of fork. */
void weft__workers_unblock_signals(void);

/* Return a number that differs between a process and its children of fork. */
unsigned weft__workers_fork_generation(void);

/*
 * Lock all queues. Returns the number of worker threads that cannot wake a fiber. These are all
 * threads except those that run, or are about to run, a function of the program. At least this
 * number of threads exists until weft__workers_thaw.
 */
unsigned weft__workers_freeze(void);
/* Unlock all queues. */
void weft__workers_thaw(void);

#endif

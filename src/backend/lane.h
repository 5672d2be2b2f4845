/*
 * Lanes: queues of tasks, each with threads of its own that run them. What waits long in one lane
 * (a name server that does not answer, a FIFO that nobody writes to) does not hold up the others.
 *
 * A lane has as many idle threads as tasks in its queue until its limit is reached, as a task may
 * wait for something that another one does. Idle threads end after a while. It knows nothing of
 * operations, backends and fibers.
 */
#ifndef WEFT_BACKEND_LANE_H
#define WEFT_BACKEND_LANE_H

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum weft__lane {
    WEFT__LANE_FILES, /* what backends hand over: reads, opens, stats */
    WEFT__LANE_NAMES, /* lookups */
    WEFT__LANE_USER,  /* the program's own functions: only these can send anything to a fiber */
    WEFT__LANE_COUNT,
} weft__lane;

/*
 * Threads of a lane at most. Files: enough for a disk to have its queue full, and for some that
 * wait for something else. Names: a resolver has few servers to ask. User: the default; the calls
 * wait for databases and the like far more than they compute, and an idle thread costs 16 KiB.
 */
#define WEFT__LANE_FILES_THREADS 64
#define WEFT__LANE_NAMES_THREADS 32
#define WEFT__LANE_USER_THREADS 64
/* What can be asked for: beyond this it is a mistake rather than a wish. */
#define WEFT__LANE_THREADS_LIMIT 4096

typedef enum weft__task_state {
    WEFT__TASK_QUEUED,
    WEFT__TASK_RUNNING,
    WEFT__TASK_LEFT, /* the same, but given up */
    WEFT__TASK_ENDED,
} weft__task_state;

/* Something to run. The caller fills in run, end and is_leavable. */
typedef struct weft__task {
    void (*run)(struct weft__task *t);
    /*
     * After run, on the same thread, which does not touch t again: it may be freed.
     * was_left: it was given up meanwhile.
     */
    void (*end)(struct weft__task *t, bool was_left);
    bool is_leavable; /* can be given up while it runs */

    weft__list link; /* in the queue; the lane's own, as all that follows */
    weft__lane lane;
    weft__task_state state;
    unsigned process; /* it was queued in; another number in a child of fork */
    int64_t queued_ns;
} weft__task;

/* Queue it. 0, or -EAGAIN: there is no thread and none can be made. From any thread. */
int weft__lane_add(weft__lane lane, weft__task *t);

typedef enum weft__task_fate {
    WEFT__TASK_IS_OUT,    /* it was not begun and is not going to be: t is the caller's again */
    WEFT__TASK_IS_LEFT,   /* it runs: its thread ends it, and t is no longer the caller's */
    WEFT__TASK_IS_ORPHAN, /* it runs in the process that forked this one: t is the caller's */
    WEFT__TASK_STAYS,     /* it runs and cannot be left, or end is on its way */
} weft__task_fate;

/* Give a task up. By the one who added it, before its end has told. */
weft__task_fate weft__lane_give_up(weft__task *t);

/* 0: the default. -EINVAL: too many. Threads beyond a lower limit end when they are idle. */
int weft__lane_limit(weft__lane lane, unsigned threads);

typedef struct weft__lane_counts {
    unsigned threads, idle, queued, running;
    uint64_t done, given_up;
    int64_t queue_ns, queue_ns_max; /* how long tasks that were begun have been in the queue */
} weft__lane_counts;

void weft__lane_count(weft__lane lane, weft__lane_counts *out);

/* Call fn after each call of the program's own, when its thread counts as idle again. */
void weft__lanes_set_call_end(void (*fn)(void));

/* How long a thread is idle before it ends, from now on; for tests. */
void weft__lanes_set_idle_ns(int64_t ns);

/* In a child of fork: if this is the copy of a thread of ours, let it have signals again. */
void weft__lanes_unblock(void);

/* A number that is another one in a child of fork. */
unsigned weft__lanes_process(void);

/*
 * How many threads of all lanes cannot send anything to a fiber: all but those in a function of the
 * program's, or about to be. So many are there at least, and stay as they are until
 * weft__lanes_thaw.
 */
unsigned weft__lanes_freeze(void);
void weft__lanes_thaw(void);

#endif

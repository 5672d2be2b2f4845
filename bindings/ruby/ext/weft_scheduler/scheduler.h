/*
 * The state of a Weft::Scheduler, and the functions that its hooks share.
 *
 * All fields belong to the holder of the GVL. Only weft_selector_poll runs without the GVL, and it
 * changes nothing but the memory of operations. Other threads reach a scheduler through the hooks
 * unblock and fiber_interrupt, which also hold the GVL.
 *
 * There is no scheduler fiber. A fiber that waits takes the next fiber from the ready queue and
 * transfers to it. If the queue is empty, the fiber that waits polls the selector itself. The fiber
 * that called run takes over only to handle interrupts (signals), so that exceptions leave run.
 */
#ifndef WEFT_SCHEDULER_H
#define WEFT_SCHEDULER_H

#include "list.h"

#include <ruby.h>

#include <weft/selector.h>

/* Poll after this number of switches, although fibers are ready: their work must not starve I/O. */
#define SWITCHES_PER_POLL 64

/* A fiber in the ready queue. */
struct ready_entry {
    struct link link;
    VALUE fiber;
    VALUE exception; /* arguments of Fiber#raise in an Array, or Qnil: continue the fiber */
    bool is_owned;   /* the queue frees the entry */
    struct ready_entry **taken; /* set to NULL when the entry leaves the queue, unless NULL */
};

/* A fiber that waits in a hook. Lives in the frame of the hook. */
struct waiter {
    struct link link; /* in scheduler.waiters */
    struct ready_entry ready;
    const char *reason; /* a word for Weft::Scheduler#waiting */
    bool is_woken;
};

struct scheduler;
struct operation;
typedef void operation_complete(struct scheduler *scheduler, struct operation *operation);

/* An operation of the selector with the function that its completion calls. */
struct operation {
    weft_selector_op op;
    operation_complete *complete;
    void *target;    /* of complete: usually the waiter */
    unsigned serial; /* of the selector: an operation of a closed selector does not exist */
    bool is_pending;
    /* Makes an operation in a worker thread return early when it is cancelled. NULL: none. */
    void (*interrupt)(struct operation *operation);
    void *interrupt_arg;
};

struct scheduler {
    VALUE self;
    weft_selector *selector; /* NULL before the first use, after a fork, and after close */
    unsigned selector_serial;
    char *backend;       /* the name that the program asked for, or NULL */
    struct link ready;   /* struct ready_entry */
    struct link waiters; /* struct waiter */
    st_table *blocked;   /* fiber => waiter in block or kernel_sleep, or 0: see block.c */
    VALUE run_fiber;     /* the fiber in run, or Qnil */
    size_t ready_count, waiter_count;
    unsigned switches_before_poll;
    unsigned fills_in_a_row; /* buffers that the current fiber has filled without a wait */
    unsigned fork_epoch;
    bool is_polling; /* a thread may be inside weft_selector_poll without the GVL */
    bool is_stopping;
    bool is_closed;
    bool leaves_run_on_interrupt;
    unsigned char *hints; /* fill_hint.h, by descriptor */
    size_t hints_size;
    double stall_seconds; /* report fibers that run longer; 0: never */
    double resumed_at;    /* when the current fiber began to run; only if stall_seconds > 0 */
    unsigned long polls, switches;
    double idle_seconds;
};

/* scheduler.c */
extern const rb_data_type_t scheduler_type;
struct scheduler *scheduler_get(VALUE self);
weft_selector *scheduler_selector(struct scheduler *scheduler);
bool scheduler_must_leave_run(struct scheduler *scheduler);
NORETURN(void scheduler_raise_errno(const char *what, weft_value result));

/* ready_queue.c */
void ready_queue_init(struct scheduler *scheduler);
void ready_queue_push(struct scheduler *scheduler, struct ready_entry *entry);
struct ready_entry *ready_queue_push_exception(struct scheduler *scheduler, VALUE fiber,
                                               VALUE exception);
void ready_queue_remove(struct scheduler *scheduler, struct ready_entry *entry);
struct ready_entry *ready_queue_first(struct scheduler *scheduler);
void ready_queue_mark(struct scheduler *scheduler);
void ready_queue_clear(struct scheduler *scheduler);

/* poll.c */
void scheduler_poll(struct scheduler *scheduler, double seconds);
bool scheduler_poll_without_gvl(struct scheduler *scheduler);
void scheduler_wake_poll(struct scheduler *scheduler);

/* wait.c */
void waiter_enter(struct scheduler *scheduler, struct waiter *waiter, const char *reason);
void waiter_leave(struct scheduler *scheduler, struct waiter *waiter);
void waiter_wake(struct scheduler *scheduler, struct waiter *waiter);
void waiter_suspend(struct scheduler *scheduler, struct waiter *waiter);
struct ready_entry *scheduler_next(struct scheduler *scheduler);
void scheduler_switch_to(struct scheduler *scheduler, struct ready_entry *entry);

/* block.c */
void scheduler_yield(struct scheduler *scheduler);

/* operation.c */
void operation_init(struct operation *operation, operation_complete *complete, void *target);
void operation_wake(struct scheduler *scheduler, struct operation *operation);
void operation_begin(struct scheduler *scheduler, struct operation *operation);
void operation_cancel(struct scheduler *scheduler, struct operation *operation);
double seconds_of(VALUE seconds);
weft_value operation_wait(struct scheduler *scheduler, struct operation *operation,
                          weft_value started, const char *reason, double limit);

/* Each file of hooks defines its methods. */
void init_block_hooks(VALUE klass);
void init_fiber_hooks(VALUE klass);
void init_io_hooks(VALUE klass);
void init_transfer_hooks(VALUE klass);
void init_names_hooks(VALUE klass);
void init_process_hooks(VALUE klass);
void init_timeout_hooks(VALUE klass);
void init_blocking_operation_hooks(VALUE klass);

#endif

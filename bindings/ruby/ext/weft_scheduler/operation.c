/* Waiting for an operation of the selector. */
#include "scheduler.h"

#include <errno.h>
#include <math.h>

/* A function for operation_init: wake the waiter that is the target. */
void operation_wake(struct scheduler *scheduler, struct operation *operation)
{
    waiter_wake(scheduler, operation->target);
}

void operation_init(struct operation *operation, operation_complete *complete, void *target)
{
    *operation = (struct operation){.complete = complete, .target = target};
    operation->op.owner = operation;
}

/* Note that an operation is pending. */
void operation_begin(struct scheduler *scheduler, struct operation *operation)
{
    operation->is_pending = true;
    operation->serial = scheduler->selector_serial;
}

static void ignore_completion(struct scheduler *scheduler, struct operation *operation)
{
    (void)scheduler, (void)operation;
}

/*
 * End an operation, if it is pending. Return after the kernel has released its buffer.
 *
 * The kernel and the workers of weft release a buffer without the help of Ruby, and soon. The
 * thread therefore waits with the GVL.
 */
void operation_cancel(struct scheduler *scheduler, struct operation *operation)
{
    if (!operation->is_pending || operation->serial != scheduler->selector_serial)
        return;
    operation->complete = ignore_completion;
    if (operation->interrupt != NULL)
        operation->interrupt(operation);
    if (weft_selector_cancel(scheduler->selector, &operation->op) != -EINPROGRESS)
        operation->is_pending = false;
    while (operation->is_pending)
        scheduler_poll(scheduler, INFINITY);
}

/* Convert a duration of Ruby. nil is INFINITY. Raises the errors of Kernel#sleep. */
double seconds_of(VALUE seconds)
{
    if (NIL_P(seconds))
        return INFINITY;
    if (RB_FLOAT_TYPE_P(seconds) && RFLOAT_VALUE(seconds) == INFINITY)
        return INFINITY;
    struct timeval interval = rb_time_interval(seconds);
    return (double)interval.tv_sec + (double)interval.tv_usec / 1e6;
}

struct operation_wait {
    struct scheduler *scheduler;
    struct operation *operation;
    struct waiter waiter;
};

static VALUE operation_wait_suspend(VALUE arg)
{
    struct operation_wait *wait = (struct operation_wait *)arg;
    waiter_suspend(wait->scheduler, &wait->waiter);
    return Qnil;
}

static VALUE operation_wait_end(VALUE arg)
{
    struct operation_wait *wait = (struct operation_wait *)arg;
    operation_cancel(wait->scheduler, wait->operation);
    waiter_leave(wait->scheduler, &wait->waiter);
    return Qnil;
}

/*
 * Suspend the current fiber until an operation completes, and return its result.
 *
 * started is the value of the function that started the operation. If the operation is not pending,
 * it is the result. limit is a time limit in seconds or INFINITY. If the fiber leaves the wait by
 * an exception, the operation is cancelled.
 */
weft_value operation_wait(struct scheduler *scheduler, struct operation *operation,
                          weft_value started, const char *reason, double limit)
{
    if (started != WEFT_SELECTOR_PENDING)
        return started;
    struct operation_wait wait = {.scheduler = scheduler, .operation = operation};
    operation_begin(scheduler, operation);
    operation->target = &wait.waiter;
    waiter_enter(scheduler, &wait.waiter, reason);
    if (isfinite(limit))
        weft_selector_limit(scheduler->selector, &operation->op, limit);
    rb_ensure(operation_wait_suspend, (VALUE)&wait, operation_wait_end, (VALUE)&wait);
    return operation->op.result;
}

/* The hook of Timeout.timeout. */
#include "scheduler.h"

#include <math.h>

struct timeout {
    struct scheduler *scheduler;
    struct operation timer;
    struct ready_entry *entry; /* the queued exception after the time has passed, or NULL */
    VALUE fiber, duration, exception;
};

/* Raise only where the fiber waits: the ready queue raises when it would continue the fiber. */
static void raise_timeout(struct scheduler *scheduler, struct operation *operation)
{
    struct timeout *timeout = operation->target;
    timeout->entry = ready_queue_push_exception(scheduler, timeout->fiber, timeout->exception);
    timeout->entry->taken = &timeout->entry;
}

static VALUE timeout_run(VALUE arg)
{
    return rb_yield(((struct timeout *)arg)->duration);
}

static VALUE timeout_end(VALUE arg)
{
    struct timeout *timeout = (struct timeout *)arg;
    operation_cancel(timeout->scheduler, &timeout->timer);
    if (timeout->entry != NULL)
        ready_queue_remove(timeout->scheduler, timeout->entry);
    return Qnil;
}

/* timeout_after(duration, exception, message) { |duration| ... } */
static VALUE hook_timeout_after(VALUE self, VALUE duration, VALUE exception, VALUE message)
{
    struct timeout timeout = {
        .scheduler = scheduler_get(self),
        .fiber = rb_fiber_current(),
        .duration = duration,
        .exception = rb_ary_new_from_args(2, exception, message),
    };
    double seconds = seconds_of(duration);
    if (!isfinite(seconds))
        return rb_yield(duration);
    operation_init(&timeout.timer, raise_timeout, &timeout);
    weft_value started =
        weft_selector_sleep(scheduler_selector(timeout.scheduler), &timeout.timer.op, seconds);
    if (started != WEFT_SELECTOR_PENDING)
        scheduler_raise_errno("weft_selector_sleep", started);
    operation_begin(timeout.scheduler, &timeout.timer);
    VALUE result = rb_ensure(timeout_run, (VALUE)&timeout, timeout_end, (VALUE)&timeout);
    RB_GC_GUARD(self);
    return result;
}

void init_timeout_hooks(VALUE klass)
{
    rb_define_method(klass, "timeout_after", hook_timeout_after, 3);
}

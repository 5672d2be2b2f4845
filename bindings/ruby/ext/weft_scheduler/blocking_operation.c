/*
 * Blocking operations of Ruby 4.0 (zlib, large integers, opening files) in worker threads of weft.
 *
 * A cancelled operation still uses memory of the caller: the wait ends after the operation.
 */
#include "scheduler.h"

#ifdef HAVE_RB_FIBER_SCHEDULER_BLOCKING_OPERATION_EXTRACT

#include <math.h>
#include <ruby/fiber/scheduler.h>

static weft_value execute(void *work)
{
    return rb_fiber_scheduler_blocking_operation_execute(work);
}

static void interrupt(struct operation *operation)
{
    rb_fiber_scheduler_blocking_operation_cancel(operation->interrupt_arg);
}

/* offload(work): run an operation in a worker thread. Return false if that is not possible. */
static VALUE scheduler_offload(VALUE self, VALUE work)
{
    struct scheduler *scheduler = scheduler_get(self);
    struct operation operation;
    operation_init(&operation, operation_wake, NULL);
    operation.interrupt = interrupt;
    operation.interrupt_arg = rb_fiber_scheduler_blocking_operation_extract(work);
    if (operation.interrupt_arg == NULL)
        return Qfalse;
    weft_value started = weft_selector_offload(scheduler_selector(scheduler), &operation.op,
                                               execute, operation.interrupt_arg, NULL);
    if (started != WEFT_SELECTOR_PENDING)
        return Qfalse;
    operation_wait(scheduler, &operation, started, "work", INFINITY);
    RB_GC_GUARD(self);
    RB_GC_GUARD(work);
    return Qtrue;
}

void init_blocking_operation_hooks(VALUE klass)
{
    rb_define_private_method(klass, "offload", scheduler_offload, 1);
}

#else

void init_blocking_operation_hooks(VALUE klass)
{
    (void)klass;
}

#endif

/* Hooks that wait for descriptors: io_wait, and the parts of io_select and io_close in C. */
#include "io_timeout.h"
#include "scheduler.h"

#include <errno.h>
#include <math.h>
#include <ruby/io.h>

/* The events of Ruby have the numbers of poll(2). */
_Static_assert(RUBY_IO_READABLE == POLLIN && RUBY_IO_PRIORITY == POLLPRI &&
                   RUBY_IO_WRITABLE == POLLOUT,
               "events need a conversion");

static VALUE events_of(weft_value result, int requested)
{
    if (result & (POLLERR | POLLHUP | POLLNVAL))
        return INT2FIX(requested);
    return INT2FIX((int)result & requested);
}

/* io_wait(io, events, timeout): the ready events, or false after the timeout. */
static VALUE hook_io_wait(VALUE self, VALUE io, VALUE events, VALUE timeout)
{
    struct scheduler *scheduler = scheduler_get(self);
    int requested = NUM2INT(events) & (POLLIN | POLLPRI | POLLOUT);
    double seconds = NIL_P(timeout) ? io_timeout_seconds(io) : seconds_of(timeout);
    struct operation operation;
    operation_init(&operation, operation_wake, NULL);
    weft_value result = weft_selector_wait_fd(scheduler_selector(scheduler), &operation.op,
                                              rb_io_descriptor(io), requested);
    result = operation_wait(scheduler, &operation, result, "io", seconds);
    RB_GC_GUARD(self);
    if (result == -ETIMEDOUT && NIL_P(timeout))
        io_timeout_raise();
    if (result == -ETIMEDOUT)
        return Qfalse;
    if (result < 0)
        scheduler_raise_errno("io_wait", result);
    return events_of(result, requested);
}

struct any_wait {
    struct scheduler *scheduler;
    struct waiter waiter;
    struct operation timer;
    struct operation *operations;
    long count;
    VALUE pairs; /* [descriptor, events] */
    double seconds;
};

static void any_start_timer(struct any_wait *wait)
{
    weft_selector *selector = scheduler_selector(wait->scheduler);
    if (isfinite(wait->seconds) &&
        weft_selector_sleep(selector, &wait->timer.op, wait->seconds) == WEFT_SELECTOR_PENDING)
        operation_begin(wait->scheduler, &wait->timer);
}

static void any_start(struct any_wait *wait, VALUE pair)
{
    struct operation *operation = &wait->operations[wait->count];
    operation_init(operation, operation_wake, &wait->waiter);
    weft_value result =
        weft_selector_wait_fd(scheduler_selector(wait->scheduler), &operation->op,
                              NUM2INT(rb_ary_entry(pair, 0)), NUM2INT(rb_ary_entry(pair, 1)));
    if (result == WEFT_SELECTOR_PENDING) {
        operation_begin(wait->scheduler, operation);
        wait->count++;
    } else {
        waiter_wake(wait->scheduler, &wait->waiter);
    }
}

static VALUE any_run(VALUE arg)
{
    struct any_wait *wait = (struct any_wait *)arg;
    any_start_timer(wait);
    for (long i = 0; i < RARRAY_LEN(wait->pairs); i++)
        any_start(wait, RARRAY_AREF(wait->pairs, i));
    waiter_suspend(wait->scheduler, &wait->waiter);
    return Qnil;
}

static VALUE any_end(VALUE arg)
{
    struct any_wait *wait = (struct any_wait *)arg;
    for (long i = 0; i < wait->count; i++)
        operation_cancel(wait->scheduler, &wait->operations[i]);
    operation_cancel(wait->scheduler, &wait->timer);
    waiter_leave(wait->scheduler, &wait->waiter);
    return Qnil;
}

/*
 * wait_any(pairs, timeout): wait until a descriptor of the pairs [descriptor, events] is ready, or
 * until the time has passed.
 */
static VALUE scheduler_wait_any(VALUE self, VALUE pairs, VALUE timeout)
{
    struct any_wait wait = {
        .scheduler = scheduler_get(self), .pairs = pairs, .seconds = seconds_of(timeout)};
    VALUE memory;
    wait.operations = ALLOCV_N(struct operation, memory, RARRAY_LEN(pairs));
    operation_init(&wait.timer, operation_wake, &wait.waiter);
    waiter_enter(wait.scheduler, &wait.waiter, "select");
    rb_ensure(any_run, (VALUE)&wait, any_end, (VALUE)&wait);
    ALLOCV_END(memory);
    RB_GC_GUARD(self);
    RB_GC_GUARD(pairs);
    return Qnil;
}

/* close_descriptor(descriptor): close it, and end the operations on it with Errno::EBADF. */
static VALUE scheduler_close_descriptor(VALUE self, VALUE descriptor)
{
    struct scheduler *scheduler = scheduler_get(self);
    return weft_selector_close_fd(scheduler_selector(scheduler), NUM2INT(descriptor)) == 0 ? Qtrue
                                                                                           : Qfalse;
}

void init_io_hooks(VALUE klass)
{
    rb_define_method(klass, "io_wait", hook_io_wait, 3);
    rb_define_private_method(klass, "wait_any", scheduler_wait_any, 2);
    rb_define_private_method(klass, "close_descriptor", scheduler_close_descriptor, 1);
}

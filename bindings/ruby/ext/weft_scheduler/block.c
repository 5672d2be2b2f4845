/*
 * Hooks that wait for other fibers and for time: block, unblock, kernel_sleep, yield.
 *
 * unblock also wakes kernel_sleep, because ConditionVariable#wait sleeps with Mutex#sleep. A
 * wake-up may arrive before the fiber has reached block, because another thread can run between the
 * entry of the fiber in the list of a lock and the hook. Such a wake-up stays in the table of
 * blocked fibers, as 0, until the next block of the fiber.
 */
#include "scheduler.h"

#include <math.h>

struct block_wait {
    struct scheduler *scheduler;
    struct waiter waiter;
    struct operation timer;
};

static int forget_if_dead(st_data_t fiber, st_data_t waiter, st_data_t arg)
{
    (void)arg;
    return waiter == 0 && !RTEST(rb_fiber_alive_p((VALUE)fiber)) ? ST_DELETE : ST_CONTINUE;
}

/* Keep a wake-up for a fiber that does not block yet. */
static void keep_wake_up(struct scheduler *scheduler, VALUE fiber)
{
    st_foreach(scheduler->blocked, forget_if_dead, 0);
    if (RTEST(rb_fiber_alive_p(fiber)))
        st_insert(scheduler->blocked, (st_data_t)fiber, 0);
}

static bool take_wake_up(struct scheduler *scheduler, VALUE fiber)
{
    st_data_t key = (st_data_t)fiber, waiter;
    if (!st_lookup(scheduler->blocked, key, &waiter) || waiter != 0)
        return false;
    return st_delete(scheduler->blocked, &key, NULL);
}

static VALUE block_suspend(VALUE arg)
{
    struct block_wait *wait = (struct block_wait *)arg;
    waiter_suspend(wait->scheduler, &wait->waiter);
    return Qnil;
}

static VALUE block_end(VALUE arg)
{
    struct block_wait *wait = (struct block_wait *)arg;
    st_data_t fiber = (st_data_t)wait->waiter.ready.fiber;
    st_delete(wait->scheduler->blocked, &fiber, NULL);
    operation_cancel(wait->scheduler, &wait->timer);
    waiter_leave(wait->scheduler, &wait->waiter);
    return Qnil;
}

/* Wait until unblock or until seconds have passed. Return true if the time has not passed. */
static bool block_for(struct scheduler *scheduler, const char *reason, double seconds)
{
    struct block_wait wait = {.scheduler = scheduler};
    if (take_wake_up(scheduler, rb_fiber_current()))
        return true;
    operation_init(&wait.timer, operation_wake, &wait.waiter);
    if (isfinite(seconds)) {
        weft_selector *selector = scheduler_selector(scheduler);
        weft_value started = weft_selector_sleep(selector, &wait.timer.op, seconds);
        if (started != WEFT_SELECTOR_PENDING)
            scheduler_raise_errno("weft_selector_sleep", started);
        operation_begin(scheduler, &wait.timer);
    }
    waiter_enter(scheduler, &wait.waiter, reason);
    st_insert(scheduler->blocked, (st_data_t)wait.waiter.ready.fiber, (st_data_t)&wait.waiter);
    rb_ensure(block_suspend, (VALUE)&wait, block_end, (VALUE)&wait);
    return !isfinite(seconds) || wait.timer.op.result != 0;
}

/* block(blocker, timeout = nil): false after the timeout. */
static VALUE hook_block(int argc, VALUE *argv, VALUE self)
{
    rb_check_arity(argc, 1, 2);
    double seconds = seconds_of(argc > 1 ? argv[1] : Qnil);
    bool is_unblocked = block_for(scheduler_get(self), "block", seconds);
    RB_GC_GUARD(self);
    return is_unblocked ? Qtrue : Qfalse;
}

/* unblock(blocker, fiber): any thread. Never switches, never raises. */
static VALUE hook_unblock(VALUE self, VALUE blocker, VALUE fiber)
{
    (void)blocker;
    struct scheduler *scheduler = scheduler_get(self);
    st_data_t waiter = 0;
    if (scheduler->is_closed)
        return Qnil;
    if (st_lookup(scheduler->blocked, (st_data_t)fiber, &waiter) && waiter != 0)
        waiter_wake(scheduler, (struct waiter *)waiter);
    else
        keep_wake_up(scheduler, fiber);
    scheduler_wake_poll(scheduler);
    return Qnil;
}

/* kernel_sleep(duration = nil): Kernel#sleep leaves the check of its argument to the hook. */
static VALUE hook_kernel_sleep(int argc, VALUE *argv, VALUE self)
{
    rb_check_arity(argc, 0, 1);
    double seconds = seconds_of(argc > 0 ? argv[0] : Qnil);
    block_for(scheduler_get(self), "sleep", seconds);
    RB_GC_GUARD(self);
    return Qtrue;
}

struct yield_wait {
    struct scheduler *scheduler;
    struct waiter waiter;
    bool has_interrupt; /* the fiber in run must handle it */
};

static VALUE yield_suspend(VALUE arg)
{
    struct yield_wait *wait = (struct yield_wait *)arg;
    waiter_wake(wait->scheduler, &wait->waiter);
    if (wait->has_interrupt)
        rb_fiber_transfer(wait->scheduler->run_fiber, 0, NULL);
    waiter_suspend(wait->scheduler, &wait->waiter);
    return Qnil;
}

static VALUE yield_end(VALUE arg)
{
    struct yield_wait *wait = (struct yield_wait *)arg;
    waiter_leave(wait->scheduler, &wait->waiter);
    return Qnil;
}

/* Go to the end of the ready queue. */
void scheduler_yield(struct scheduler *scheduler)
{
    struct yield_wait wait = {
        .scheduler = scheduler,
        .has_interrupt = scheduler_must_leave_run(scheduler),
    };
    waiter_enter(scheduler, &wait.waiter, "yield");
    rb_ensure(yield_suspend, (VALUE)&wait, yield_end, (VALUE)&wait);
}

/* yield: Ruby 4.0 calls it for a pending interrupt. */
static VALUE hook_yield(VALUE self)
{
    scheduler_yield(scheduler_get(self));
    RB_GC_GUARD(self);
    return Qnil;
}

void init_block_hooks(VALUE klass)
{
    rb_define_method(klass, "block", hook_block, -1);
    rb_define_method(klass, "unblock", hook_unblock, 2);
    rb_define_method(klass, "kernel_sleep", hook_kernel_sleep, -1);
    rb_define_method(klass, "yield", hook_yield, 0);
}

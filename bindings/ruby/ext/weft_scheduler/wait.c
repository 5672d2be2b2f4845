/* Fibers that wait: suspend a fiber, switch to the next fiber, wake a fiber. */
#include "scheduler.h"

/* Add the current fiber to the waiters. */
void waiter_enter(struct scheduler *scheduler, struct waiter *waiter, const char *reason)
{
    *waiter = (struct waiter){
        .ready = {.fiber = rb_fiber_current(), .exception = Qnil},
        .reason = reason,
    };
    link_init(&waiter->ready.link);
    link_append(&scheduler->waiters, &waiter->link);
    scheduler->waiter_count++;
}

/* Remove a waiter from all lists. Has no effect if a fork or close has removed the waiter. */
void waiter_leave(struct scheduler *scheduler, struct waiter *waiter)
{
    ready_queue_remove(scheduler, &waiter->ready);
    if (link_is_alone(&waiter->link))
        return;
    link_remove(&waiter->link);
    scheduler->waiter_count--;
}

/* Queue a waiter, once. */
void waiter_wake(struct scheduler *scheduler, struct waiter *waiter)
{
    if (waiter->is_woken)
        return;
    waiter->is_woken = true;
    ready_queue_push(scheduler, &waiter->ready);
}

/* Warn if the current fiber has run for longer than stall_seconds. */
static void check_stall(struct scheduler *scheduler)
{
    double now = weft_selector_now();
    double seconds = now - scheduler->resumed_at;
    scheduler->resumed_at = now;
    if (seconds < scheduler->stall_seconds)
        return;
    rb_funcall(scheduler->self, rb_intern("report_stall"), 2, rb_fiber_current(), DBL2NUM(seconds));
}

/* Return the first ready entry, or NULL. Poll now and then, although fibers are ready. */
struct ready_entry *scheduler_next(struct scheduler *scheduler)
{
    if (scheduler->switches_before_poll-- == 0)
        scheduler_poll(scheduler, 0);
    return ready_queue_first(scheduler);
}

/* Switch to the fiber of an entry, and remove the entry. The fiber may be the current one. */
void scheduler_switch_to(struct scheduler *scheduler, struct ready_entry *entry)
{
    VALUE fiber = entry->fiber, exception = entry->exception;
    ready_queue_remove(scheduler, entry);
    scheduler->switches++;
    if (NIL_P(exception)) {
        if (fiber != rb_fiber_current())
            rb_fiber_transfer(fiber, 0, NULL); /* waiters are alive */
        return;
    }
    if (fiber == rb_fiber_current())
        rb_exc_raise(rb_make_exception(RARRAY_LENINT(exception), RARRAY_CONST_PTR(exception)));
    if (RTEST(rb_fiber_alive_p(fiber)))
        rb_fiber_raise(fiber, RARRAY_LENINT(exception),
                       (VALUE *)RARRAY_CONST_PTR(exception)); /* not const in Ruby 4.0 */
    RB_GC_GUARD(exception);
}

/* Let the fiber in run handle the interrupts of the thread, so that exceptions leave run. */
static void handle_interrupts(struct scheduler *scheduler, VALUE current)
{
    VALUE run_fiber = scheduler->run_fiber;
    if (NIL_P(run_fiber) || run_fiber == current)
        rb_thread_check_ints();
    else
        rb_fiber_transfer(run_fiber, 0, NULL);
}

/*
 * Run other fibers until waiter is woken, or until an exception is raised in the current fiber.
 *
 * The loop also handles returns without a reason: when a fiber ends, Ruby continues the root fiber
 * or the last fiber that it has resumed.
 */
void waiter_suspend(struct scheduler *scheduler, struct waiter *waiter)
{
    if (scheduler->stall_seconds > 0)
        check_stall(scheduler);
    VALUE current = waiter->ready.fiber;
    scheduler->fills_in_a_row = 0;
    while (!waiter->is_woken || !link_is_alone(&waiter->ready.link)) {
        struct ready_entry *entry = scheduler_next(scheduler);
        if (entry != NULL)
            scheduler_switch_to(scheduler, entry);
        else if (!scheduler_poll_without_gvl(scheduler))
            handle_interrupts(scheduler, current);
    }
    if (scheduler->stall_seconds > 0)
        scheduler->resumed_at = weft_selector_now();
}

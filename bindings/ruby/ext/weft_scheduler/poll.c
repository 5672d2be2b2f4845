/* Polling the selector, with and without the GVL. */
#include "scheduler.h"

#include <errno.h>
#include <math.h>
#include <ruby/thread.h>

struct poll_call {
    weft_selector *selector;
    double seconds;
    int result;
    bool has_run;
};

static void *poll_call_run(void *arg)
{
    struct poll_call *call = arg;
    call->has_run = true;
    call->result = weft_selector_poll(call->selector, call->seconds);
    return NULL;
}

static void poll_call_interrupt(void *selector)
{
    weft_selector_wake(selector);
}

/* Hand the completed operations to their waiters. */
static void complete_operations(struct scheduler *scheduler, int result)
{
    scheduler->polls++;
    scheduler->switches_before_poll = SWITCHES_PER_POLL;
    if (result < 0 && result != -EINTR)
        scheduler_raise_errno("weft_selector_poll", result);
    weft_selector_op *op;
    while ((op = weft_selector_next(scheduler->selector)) != NULL) {
        struct operation *operation = op->owner;
        operation->is_pending = false;
        operation->complete(scheduler, operation);
    }
}

/* Poll with the GVL. seconds is 0, or the wait is known to be short. */
void scheduler_poll(struct scheduler *scheduler, double seconds)
{
    complete_operations(scheduler, weft_selector_poll(scheduler_selector(scheduler), seconds));
}

/*
 * Poll without the GVL until an operation completes or another thread makes a fiber ready. Return
 * false, perhaps without a poll, if the thread has an interrupt to handle.
 *
 * No wake-up is lost: other threads enter the ready queue with the GVL, and see is_polling from
 * before the GVL is released. An interrupt either prevents the call of poll_call_run, or calls
 * poll_call_interrupt.
 */
bool scheduler_poll_without_gvl(struct scheduler *scheduler)
{
    if (scheduler_must_leave_run(scheduler))
        return false;
    struct poll_call call = {.selector = scheduler_selector(scheduler), .seconds = INFINITY};
    double start = weft_selector_now();
    scheduler->is_polling = true;
    rb_nogvl(poll_call_run, &call, poll_call_interrupt, call.selector,
             RB_NOGVL_INTR_FAIL | RB_NOGVL_UBF_ASYNC_SAFE);
    scheduler->is_polling = false;
    double end = weft_selector_now();
    scheduler->idle_seconds += end - start;
    scheduler->resumed_at = end;
    if (call.has_run)
        complete_operations(scheduler, call.result);
    if (rb_thread_interrupted(rb_thread_current()))
        return false;
    /* Finalizers and time slices also prevent the call. Each fiber has its own flags for them. */
    if (!call.has_run)
        rb_thread_check_ints();
    return true;
}

/* Make the poll of another thread return. */
void scheduler_wake_poll(struct scheduler *scheduler)
{
    if (scheduler->is_polling && scheduler->selector != NULL)
        weft_selector_wake(scheduler->selector);
}

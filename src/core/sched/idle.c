/*
 * The idle loop of a thread. While no fiber is runnable, the loop waits for events, fires timers,
 * reads the inbox and releases memory. Deadlock detection is in core/cord/deadlock.c.
 */
#include "base/clock.h"
#include "core/cord/deadlock.h"
#include "core/cord/fork.h"
#include "core/cord/inbox.h"
#include "core/cord/inbox_poll.h"
#include "core/lifetime/tree.h"
#include "core/sched/sched.h"
#include "core/sched/trim.h"
#include "core/trace/trace.h"

#include <weft/debug.h>

#include <errno.h>

COLD void weft__account_idle(weft__cord *c)
{
    int64_t now = weft__clock_ns();
    weft__top_add(c, NULL, c->switched_ns, now);
    c->switched_ns = now;
}

/*
 * Return the time at which to expire the wheel next. If many timers have fired in the last
 * WEFT__COALESCE_NS and many are due in the next, timers are coalesced. The due timers then fire
 * together, WEFT__COALESCE_NS after the last timer that fired. With a virtual clock, timers are
 * never coalesced.
 */
static int64_t next_timer(weft__cord *c)
{
    int64_t next_ns = weft__wheel_next(&c->wheel), coalesce_ns = c->fired_ns + WEFT__COALESCE_NS;
    if (c->coalesce_fired < WEFT__COALESCE_TIMERS || next_ns >= coalesce_ns)
        return next_ns;
    bool is_coalesced = !weft__backend_is_virtual(c->backend) &&
                        weft__wheel_has_due(&c->wheel, coalesce_ns, WEFT__COALESCE_TIMERS);
    return is_coalesced ? coalesce_ns : next_ns;
}

/*
 * Return the timeout until foreign threads are counted again. The timeout doubles with each wait.
 * After WEFT__FOREIGN_CHECKS_MAX waits, the timeout is infinite.
 */
static int64_t threads_timeout(weft__cord *c)
{
    if (c->foreign_checks == WEFT__FOREIGN_CHECKS_MAX)
        return WEFT__POLL_FOREVER;
    return WEFT__POLL_REAL(WEFT__FOREIGN_CHECK_NS << c->foreign_checks++);
}

/* Return the timeout for a poll of the backend. */
static int64_t poll_timeout(weft__cord *c, weft__wake_source source)
{
    int64_t next_ns = next_timer(c);
    if (next_ns != WEFT__NEVER)
        return next_ns > c->now_ns ? next_ns - c->now_ns : 0;
    return source == WEFT__WAKE_SOURCE_THREADS ? threads_timeout(c) : WEFT__POLL_FOREVER;
}

/* Return whether the thread has no timer in the next WEFT__TRIM_IDLE_NS. */
static bool is_idle_for_long(weft__cord *c)
{
    int64_t timeout_ns = poll_timeout(c, WEFT__WAKE_SOURCE_SELF);
    return timeout_ns == WEFT__POLL_FOREVER || timeout_ns > WEFT__TRIM_IDLE_NS;
}

/* Fire the due timers of an idle thread. Count the fired timers for coalescing. */
static void timers_expire(weft__cord *c)
{
    size_t before = c->wheel.count;
    weft__wheel_expire(&c->wheel, c->now_ns);
    if (c->wheel.count >= before)
        return;
    if (c->now_ns - c->coalesce_began_ns >= WEFT__COALESCE_NS) {
        c->coalesce_began_ns = c->now_ns;
        c->coalesce_fired = 0;
    }
    c->coalesce_fired += before - c->wheel.count;
    c->fired_ns = c->now_ns;
}

/*
 * Poll the backend. A thread that sends a message reads is_asleep afterwards, and wakes the poll if
 * is_asleep is true. Therefore set is_asleep before checking the inbox.
 */
static int poll_asleep(weft__cord *c, int64_t timeout_ns)
{
    weft__backend *b = c->backend;
    if (timeout_ns == 0)
        return b->type->poll(b, 0);
    int64_t began_ns = c->now_ns;
    atomic_store(&c->is_asleep, true);
    int rc = b->type->poll(b, weft__cord_has_messages(c) ? 0 : timeout_ns);
    bool was_woken = !atomic_exchange(&c->is_asleep, false);
    c->wakes += was_woken;
    weft__inbox_poll_adapt(c, weft__cord_now(c) - began_ns, was_woken);
    return rc;
}

/* Limit a timeout to the time at which memory may be released. */
static int64_t until_trim(const weft__cord *c, int64_t timeout_ns)
{
    int64_t left_ns = c->trim.due_ns - c->now_ns;
    bool is_sooner = left_ns > 0 && (timeout_ns < 0 || left_ns < timeout_ns);
    return c->trim.due_ns != 0 && is_sooner ? left_ns : timeout_ns;
}

/*
 * Return whether the thread must continue to wait: no fiber is runnable, no message has arrived, no
 * wake was requested, and no trim is due.
 */
static bool is_still_idle(weft__cord *c)
{
    bool is_trim_due = c->trim.due_ns != 0 && c->trim.due_ns <= c->now_ns;
    return weft__runqueue_count(&c->runqueue) == 0 && !weft__cord_has_messages(c) &&
           !atomic_load(&c->is_woken) && !is_trim_due;
}

/*
 * Wait for events. Interrupt the wait regularly to check the descriptors of the backend. After a
 * check, continue to wait if the thread is still idle.
 */
static int poll_and_check(weft__cord *c, weft__wake_source source)
{
    int64_t timeout_ns, wait_ns, until_ns;
    int rc;
    atomic_store_explicit(&c->is_woken, false, memory_order_relaxed);
    do {
        timeout_ns = until_trim(c, poll_timeout(c, source));
        if (c->is_accounting)
            weft__account_idle(c); /* for other threads, before the counters are published */
        wait_ns = weft__cord_check_backend(c, timeout_ns);
        until_ns = c->now_ns + wait_ns;
        c->polls_blocking += wait_ns != 0;
        c->polls++;
        rc = poll_asleep(c, wait_ns);
    } while (wait_ns != timeout_ns && wait_ns > 0 && rc == 0 && UNLIKELY(c->now_ns >= until_ns) &&
             is_still_idle(c));
    return rc;
}

static void poll_and_wait(weft__cord *c, weft__wake_source source)
{
    int64_t began_ns = c->now_ns;
    int rc = poll_and_check(c, source);
    if (UNLIKELY(rc < 0))
        weft__cord_recover(c, rc);
    c->must_poll = false;
    int64_t now = weft__cord_now(c);
    if (UNLIKELY(now >= c->latency.due_ns))
        weft__latency_polled(c, began_ns);
    c->polled_ns = c->last_tick_ns = now;
}

/*
 * Call on_idle before the thread waits. The callback may make fibers runnable, in this thread or in
 * other threads. Therefore call on_idle before deadlock detection. Returns true if a fiber of this
 * thread is runnable.
 */
COLD static bool call_on_idle(weft__cord *c)
{
    if (poll_timeout(c, WEFT__WAKE_SOURCE_SELF) == 0)
        return false;
    c->on_idle(c->on_idle_arg);
    return weft__runqueue_count(&c->runqueue) > 0;
}

/*
 * If recent busy polls found messages, busy poll the inbox before the thread sleeps. Returns true
 * if a fiber is runnable or a message has arrived.
 */
static bool poll_inbox(weft__cord *c)
{
    if (!weft__inbox_poll_is_worthwhile(c))
        return false;
    if (c->backend->pending > 0)
        weft__poll_nowait(c); /* submit prepared operations before the busy poll */
    bool is_over = weft__runqueue_count(&c->runqueue) > 0 || weft__inbox_poll(c);
    weft__cord_now(c); /* timers must fire even if messages arrive continuously */
    return is_over;
}

/* Release some memory to the kernel. Returns false if no memory can be released now. */
static bool trim_memory(weft__cord *c)
{
    bool has_excess = c->stacks.excess != 0;
    if (LIKELY(!has_excess && c->trim.due_ns == 0 && !c->stacks.can_trim) || !is_idle_for_long(c))
        return false;
    if (!has_excess)
        return weft__trim_step(c);
    weft__stack_trim_excess(&c->stacks);
    return true;
}

/* Wait for events. If no event can wake a fiber, resolve the deadlock. */
static void idle_wait(weft__cord *c)
{
    if (UNLIKELY(c->give_up_ns != 0) && weft__tree_leave_lock_waiters(c))
        return;
    weft__wake_source source = weft__deadlock_check(c);
    if (source != WEFT__WAKE_SOURCE_NONE)
        poll_and_wait(c, source);
    weft__deadlock_clear(c);
    bool is_deadlock_victim =
        atomic_exchange(&c->is_deadlock_victim, false) && source != WEFT__WAKE_SOURCE_SELF;
    bool is_over = is_deadlock_victim || source == WEFT__WAKE_SOURCE_NONE;
    /* Check for messages last. A thread that has ended may have sent a message before its end. */
    if (is_over && !weft__cord_has_messages(c) && weft__runqueue_count(&c->runqueue) == 0)
        weft__deadlock_resolve(c);
}

/* The cord becomes idle, with one of slow_flags. */
COLD static void idle_begin_slow(weft__cord *c)
{
    if (c->has_trace)
        weft__trace_idle(c);
    if (c->is_accounting)
        weft__account(c);
}

/* The cord is no longer idle, with one of slow_flags. The next fiber is not in the run queue. */
COLD static void idle_end_slow(weft__cord *c)
{
    bool was_sample_due = c->is_sample_due;
    c->is_sample_due = false;
    if (was_sample_due)
        weft__latency_begin(c, 1);
    if (c->is_accounting)
        weft__account_idle(c);
    if (c->has_trace)
        weft__trace_busy(c);
    else if (was_sample_due)
        weft__trace_update(c); /* a tracer may have started */
}

/* Not COLD, because a server runs the idle loop once per request: echo -1.6 % instructions. */
weft__runnable *weft__idle(weft__cord *c)
{
    if (weft__is_copy)
        weft__fork_stop();
    if (UNLIKELY(c->slow_flags != 0))
        idle_begin_slow(c);
    /* A switch saves errno of the waiting fiber later. System calls here must not change it. */
    int error = errno;
    weft__cord_now(c);
    c->foreign_checks = 0;
    for (;;) {
        c->round_switches = 0; /* no fiber is runnable, so a new round begins */
        c->round_messages = WEFT__REMOTE_BATCH;
        if (UNLIKELY(weft__cord_has_messages(c)))
            weft__inbox_read(c);
        timers_expire(c);
        weft__runnable *r = weft__runqueue_pop(&c->runqueue);
        if (r != NULL) {
            if (UNLIKELY(c->slow_flags != 0))
                idle_end_slow(c);
            errno = error;
            return r;
        }
        bool has_more = c->inbox_taken != NULL; /* more messages than one batch were pending */
        if (c->backend->type->is_self_contained && !has_more) {
            weft__poll_nowait(c);
            if (weft__runqueue_count(&c->runqueue) > 0)
                continue;
        }
        if (UNLIKELY(has_more) || trim_memory(c)) {
            weft__poll_nowait(c);
            weft__cord_now(c);
            continue;
        }
        if (poll_inbox(c) || (c->on_idle != NULL && call_on_idle(c)))
            continue;
        idle_wait(c);
    }
}

void weft_on_idle(void (*fn)(void *), void *arg)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return;
    c->on_idle = fn;
    c->on_idle_arg = arg;
}

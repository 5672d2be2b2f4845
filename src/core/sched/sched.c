/*
 * Switching between fibers, and the scheduler tick. There is no scheduler fiber. The blocking fiber
 * pops the run queue and switches directly to the next fiber. If the queue is empty, the blocking
 * fiber runs the idle loop (idle.c).
 */
#include "core/sched/sched.h"

#include "base/clock.h"
#include "core/cord/fork.h"
#include "core/cord/inbox.h"
#include "core/fiber/fpu_env.h"
#include "core/inspect/stack_advice.h"
#include "core/lifetime/cancel.h"
#include "core/lifetime/exit.h"
#include "core/sched/thread_state.h"
#include "core/trace/trace.h"

#include <errno.h>

void weft__park(weft__cord *c, weft__fiber *f)
{
    f->is_parked = true;
    if (weft__runnable_is_queued(&f->queued))
        weft__runqueue_remove(&c->runqueue, &f->queued);
}

void weft__unpark(weft__cord *c, weft__fiber *f)
{
    if (!f->is_parked)
        return;
    f->is_parked = false;
    if (f->waits_in == NULL)
        weft__make_runnable(c, f, f->value, WEFT__TAIL);
}

COLD void weft__make_runnable_slow(weft__cord *c, weft__fiber *f, weft__queue_end where)
{
    if (c->trace != NULL)
        weft__trace_wake(c, f);
    weft__make_runnable_untraced(c, f, f->value, where);
}

bool weft__waitq_abort_wait(weft__fiber *f)
{
    weft__waitq_leave(&f->live->waiter);
    return true;
}

COLD weft__waiter *weft__waitq_claim(weft__waitq *waitq)
{
    for (weft__waiter *w; (w = waitq->first) != NULL; weft__waitq_leave(w)) {
        bool is_ours = !w->has_token || weft__select_token_claim((weft__select_token *)w->value);
        w->has_token = false;
        if (is_ours)
            return w;
    }
    return NULL;
}

COLD void weft__account(weft__cord *c)
{
    int64_t now = weft__clock_ns();
    c->current->live->cpu_ns += now - c->switched_ns;
    weft__top_add(c, c->current, c->switched_ns, now);
    c->switched_ns = now;
}

/* Record and account that current leaves the processor. Returns false if the tick is not over. */
COLD static bool tick_begin_slow(weft__cord *c)
{
    if (c->has_trace && !weft__trace_leave(c))
        return false;
    if (c->is_accounting)
        weft__account(c);
    return true;
}

/* Shorten the ticks, because a tick took too long. Count a stall. */
COLD static void tick_shorten(weft__cord *c, int64_t took)
{
    weft__latency_count_stall(c, took);
    if (c->tick_switches > 1)
        c->tick_switches /= 2;
}

/*
 * End a tick. A tick is a number of switches. Read the clock, read the inbox, fire timers, and poll
 * the backend. The length of the next tick adapts to the time that fibers compute between switches.
 */
COLD static void sched_tick(weft__cord *c)
{
    if (UNLIKELY(c->slow_flags != 0) && !tick_begin_slow(c))
        return;
    weft__backend *b = c->backend;
    int error = errno; /* as in weft__idle */
    if (b->type->tick != NULL)
        b->type->tick(b, c->tick_span);
    int64_t now = weft__cord_now(c);
    int64_t took = now - c->last_tick_ns;
    c->last_tick_ns = now;
    if (took > WEFT__TICK_NS_MAX)
        tick_shorten(c, took);
    else if (took < WEFT__TICK_NS_MAX / 4 && c->tick_switches < WEFT__TICK_SWITCHES_MAX)
        c->tick_switches *= 2;

    if (c->round_switches > c->tick_span)
        c->round_switches -= c->tick_span;
    else
        weft__inbox_begin_round(c);
    weft__inbox_read(c);
    weft__wheel_expire(&c->wheel, now);
    bool is_time = b->pending > 0 && now - c->polled_ns >= WEFT__POLL_EVERY_NS;
    if (is_time || c->must_poll) {
        c->must_poll = false;
        weft__poll_nowait(c);
        /*
         * Delay the next poll by the duration of this poll. With thousands of descriptors, a poll
         * takes a long time.
         */
        c->last_tick_ns = weft__cord_now(c);
        c->polled_ns = c->last_tick_ns + (c->last_tick_ns - now);
    }

    weft__cord_use_thread_states(c);
    uint32_t span = c->is_shuffled || c->is_accounting ? 1 : c->tick_switches;
    weft__tick_set(c, UNLIKELY(c->latency.began_ns != 0) ? weft__latency_end_tick(c, span) : span);
    if (UNLIKELY(now >= c->stats.due_ns)) {
        weft__stats_publish(c);
        weft__latency_begin(c, 0);
        weft__trace_update(c);
    }
    uint64_t random;
    if (c->is_shuffled && weft__runqueue_count(&c->runqueue) > 0 && b->type->choose(b, &random))
        weft__runqueue_shuffle(&c->runqueue, random);
    if (UNLIKELY(c->trace != NULL))
        weft__trace_tick_end(c);
    errno = error;
}

/* Count a switch. If this is the last switch of the tick, end the tick. */
static inline void count_switch(weft__cord *c)
{
    if (UNLIKELY(--c->tick_left == 0))
        sched_tick(c);
}

/* Return the fiber to run after `from`. */
static inline weft__fiber *next_fiber(weft__cord *c, weft__fiber *from)
{
    weft__fiber *starter = from->starter;
    if (UNLIKELY(starter != NULL)) {
        from->starter = NULL;
        starter->waits_in = NULL;
        if (!starter->is_parked)
            return starter;
    }
    weft__runnable *r = weft__runqueue_pop(&c->runqueue);
    if (UNLIKELY(r == NULL))
        r = weft__idle(c);
    return weft__fiber_of_queued(r);
}

/*
 * Swap state that few programs have: C++ exceptions in flight, and FPU environments of single
 * fibers.
 */
static void swap_rare_state(weft__cord *c, weft__fiber *from, weft__fiber *to)
{
    if (c->cxx != NULL) {
        from->live->cxx = *c->cxx;
        *c->cxx = to->live->cxx;
    }
    if (c->fpu_env_owners > 0)
        weft__fpu_env_swap(c, from, to);
    if (c->trace != NULL)
        weft__trace_run(c, from, to);
}

static inline weft_value switch_context(weft__cord *c, weft__fiber *to)
{
    weft__fiber *from = c->current;
    from->switches++;
    c->current = to;
    return weft__context_switch(&from->context, &to->context, to->value);
}

/* Switch, and keep the registered thread states of the waiting fiber on its stack. */
__attribute__((noinline)) static weft_value switch_with_states(weft__cord *c, weft__fiber *to)
{
    weft__saved_states saved;
    weft__thread_states_save(&saved);
    weft_value value = switch_context(c, to);
    weft__thread_states_restore(&saved);
    return value;
}

/*
 * The slow path of switch_to(): the tick ends, or the thread has rare state. In one function,
 * switch_to() would need a stack frame. Without this function: snooze +6 % instructions and +8 to
 * 19 % time (docs/adr/0051).
 */
__attribute__((noinline)) static weft_value switch_slow(weft__cord *c, weft__fiber *to)
{
    count_switch(c);
    if (c->has_slow_switch)
        swap_rare_state(c, c->current, to);
    return c->has_thread_states ? switch_with_states(c, to) : switch_context(c, to);
}

static inline weft_value switch_to(weft__cord *c, weft__fiber *to)
{
    uintptr_t rare = (uintptr_t)(c->tick_left == 1) | c->has_slow_switch;
    if (UNLIKELY(rare != 0))
        return switch_slow(c, to);
    c->tick_left--;
    return switch_context(c, to);
}

weft_value weft__switch_to(weft__cord *c, weft__fiber *to)
{
    return switch_to(c, to);
}

weft_value weft__switch(weft__cord *c)
{
    weft__fiber *to = next_fiber(c, c->current);
    if (LIKELY(to != c->current))
        return switch_to(c, to);
    /* The current fiber is also the next fiber. This case counts as a switch. */
    count_switch(c);
    to->switches++;
    return to->value;
}

/*
 * The slow path of snooze(). The thread is not a cord yet, the call fails, the fiber has a starter,
 * or no other fiber is runnable.
 */
COLD static weft_value snooze_slow(void)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    weft__fiber *f = c->current;
    if (f->pending)
        return weft__call_refuse(c);
    return weft__yield(c, 0);
}

/*
 * The fast path of weft_snooze. This function combines weft__runqueue_push and weft__switch, to
 * load their common data only once. Without this function: snooze +29 % instructions
 * (docs/adr/0051).
 */
static weft_value snooze(void)
{
    weft__cord *c = weft__cord_self;
    if (UNLIKELY(c == NULL))
        return snooze_slow();
    weft__fiber *f = c->current;
    weft__runqueue *q = &c->runqueue;
    weft__runnable *r = weft__runqueue_first(q);
    if (UNLIKELY(f->starter != NULL || r == NULL || f->pending))
        return snooze_slow();
    f->value = 0;
    f->is_wait_open = false;
    weft__runqueue_rotate(q, &f->queued, r);
    return switch_to(c, weft__fiber_of_queued(r));
}

#if WEFT__INT_IS_LOWER_HALF
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Wattribute-alias"
#endif
int weft__switch_int(weft__cord *c) __attribute__((alias("weft__switch")));
int weft_snooze(void) __attribute__((alias("snooze")));
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif
#else
int weft_snooze(void)
{
    return (int)snooze();
}
#endif

/* Leave a fiber that has ended. Not inlined, because the code would add saved registers. */
__attribute__((noinline)) COLD static void leave_rare_state(weft__cord *c, weft__fiber *from,
                                                            weft__fiber *to)
{
    swap_rare_state(c, from, to);
    from->live->cxx = (weft__cxx_globals){0};
    if (c->has_thread_states)
        weft__thread_states_reset();
    if (c->has_stack_advice)
        weft__stack_advice_add(from);
}

/* Account the time of a fiber that has ended, and record its end. */
COLD static void leave_slow(weft__cord *c, const weft__fiber *from)
{
    if (c->has_trace)
        weft__trace_exit(c, from);
    if (c->is_accounting)
        weft__account(c);
}

void weft__switch_away(weft__cord *c)
{
    weft__fiber *from = c->current;
    if (UNLIKELY(c->slow_flags != 0))
        leave_slow(c, from);
    /*
     * The ended fiber may poll in next_fiber(). During the poll, the main fiber is the current
     * fiber.
     */
    c->current = c->main;
    weft__fiber *to = next_fiber(c, from);
    count_switch(c);
    from->switches++;
    if (UNLIKELY(c->has_slow_switch))
        leave_rare_state(c, from, to);
    c->current = to;
    /*
     * This function still runs on the stack of `from`. No code between this point and the switch
     * may acquire a stack.
     */
    weft__fiber_retire(c, from);
    weft__context_leave(&from->context, &to->context, to->value);
}

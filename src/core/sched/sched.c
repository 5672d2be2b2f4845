/*
 * Switching. There is no scheduler fiber: the blocking fiber pops the run queue and switches
 * directly. If the queue is empty, it waits for the outside world itself (idle.c).
 */
#include "core/sched.h"

#include "base/clock.h"
#include "core/alarm.h"
#include "core/end.h"
#include "core/fork.h"
#include "core/modes.h"

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

bool weft__leave_line(weft__fiber *f)
{
    weft__line_leave(&f->life->waiter);
    return true;
}

COLD weft__waiter *weft__line_claim(weft__line *line)
{
    for (weft__waiter *w; (w = line->first) != NULL; weft__line_leave(w)) {
        bool is_ours = !w->is_contested || weft__contest_claim((weft__contest *)w->value);
        w->is_contested = false;
        if (is_ours)
            return w;
    }
    return NULL;
}

COLD void weft__account(weft__cord *c)
{
    int64_t now = weft__clock_ns();
    c->current->life->cpu_ns += now - c->switched_ns;
    weft__top_add(c, c->current, c->switched_ns, now);
    c->switched_ns = now;
}

/*
 * Look at the clock, now that so many switches have passed: fire timers, ask the backend, read the
 * inbox. The number of switches to the next look adapts to how long fibers compute between them.
 */
COLD static void turn(weft__cord *c)
{
    weft__backend *b = c->backend;
    if (b->type->tick != NULL)
        b->type->tick(b, c->turn_span);
    if (c->is_accounting)
        weft__account(c);
    int64_t now = weft__cord_now(c);
    int64_t took = now - c->turned_ns;
    c->turned_ns = now;
    if (took > WEFT__TURN_NS_MAX && c->turn_switches > 1)
        c->turn_switches /= 2;
    else if (took < WEFT__TURN_NS_MAX / 4 && c->turn_switches < WEFT__TURN_SWITCHES_MAX)
        c->turn_switches *= 2;

    if (c->round_switches > c->turn_span)
        c->round_switches -= c->turn_span;
    else
        weft__cord_begin_round(c);
    weft__cord_read_inbox(c);
    weft__wheel_expire(&c->wheel, now);
    bool is_time = b->pending > 0 && now - c->polled_ns >= WEFT__POLL_EVERY_NS;
    if (is_time || c->must_poll) {
        c->must_poll = false;
        weft__poll_quickly(c);
        /* From its end, and as long again: with thousands of descriptors it takes long itself. */
        c->turned_ns = weft__cord_now(c);
        c->polled_ns = c->turned_ns + (c->turned_ns - now);
    }

    weft__set_turn(c, c->is_shuffled || c->is_accounting ? 1 : c->turn_switches);
    uint64_t random;
    if (c->is_shuffled && weft__runqueue_count(&c->runqueue) > 0 && b->type->choose(b, &random))
        weft__runqueue_shuffle(&c->runqueue, random);
}

/* One switch more: is it time for a turn? */
static inline void count_switch(weft__cord *c)
{
    if (UNLIKELY(--c->turn_left == 0))
        turn(c);
}

/* The one to run after `from`. */
static inline weft__fiber *next(weft__cord *c, weft__fiber *from)
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

/* What few programs have: C++ exceptions in flight, floating-point modes of a fiber's own. */
static void swap_more(weft__cord *c, weft__fiber *from, weft__fiber *to)
{
    if (c->cxx != NULL) {
        from->life->cxx = *c->cxx;
        *c->cxx = to->life->cxx;
    }
    if (c->modes_owners > 0)
        weft__modes_swap(c, from, to);
}

/* To another one. */
static inline weft_value go_to(weft__cord *c, weft__fiber *to)
{
    weft__fiber *from = c->current;
    from->switches++;
    c->current = to;
    return weft__context_switch(&from->context, &to->context, to->value);
}

/*
 * Here and below, what is seldom so is asked for in one branch, and then sorted out in a call of
 * its own. Every branch on the way to a switch makes it harder for the processor to tell where that
 * goes: with nine of them a snooze takes twice as long as with three, in many programs.
 */

__attribute__((noinline)) static weft_value switch_rarely(weft__cord *c, weft__fiber *to)
{
    count_switch(c);
    if (c->has_more_to_swap)
        swap_more(c, c->current, to);
    return go_to(c, to);
}

static inline weft_value switch_to(weft__cord *c, weft__fiber *to)
{
    uintptr_t odd = (uintptr_t)(c->turn_left == 1) | c->has_more_to_swap;
    if (UNLIKELY(odd != 0))
        return switch_rarely(c, to);
    c->turn_left--;
    return go_to(c, to);
}

weft_value weft__switch_to(weft__cord *c, weft__fiber *to)
{
    return switch_to(c, to);
}

weft_value weft__switch(weft__cord *c)
{
    weft__fiber *to = next(c, c->current);
    if (LIKELY(to != c->current))
        return switch_to(c, to);
    /* The next to run is the one that switches: that counts, too. */
    count_switch(c);
    to->switches++;
    return to->value;
}

/* Whatever is out of the ordinary: the thread is no cord yet, or nobody else is there to run. */
COLD static weft_value snooze_slowly(void)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    weft__fiber *f = c->current;
    if (f->alarm)
        return weft__refuse(c);
    return weft__yield(c, 0);
}

/*
 * The commonest switch of all: a push and weft__switch in one, so that what both need is loaded
 * once.
 */
static weft_value snooze(void)
{
    weft__cord *c = weft__cord_self;
    if (UNLIKELY(c == NULL))
        return snooze_slowly();
    weft__fiber *f = c->current;
    weft__runqueue *q = &c->runqueue;
    weft__runnable *r = weft__runqueue_first(q);
    uintptr_t odd = (uintptr_t)f->starter | (uintptr_t)(r == NULL) | f->alarm;
    if (UNLIKELY(odd != 0))
        return snooze_slowly();
    f->value = 0;
    f->woken_open = false;
    weft__runqueue_rotate(q, &f->queued, r);
    return switch_to(c, weft__fiber_of_queued(r));
}

#if WEFT__IS_INT_A_HALF
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

void weft__switch_away(weft__cord *c)
{
    weft__fiber *from = c->current;
    if (UNLIKELY(c->is_accounting))
        weft__account(c);
    /* While it polls for the others it is dead: who looks then, looks in the name of main. */
    c->current = c->main;
    weft__fiber *to = next(c, from);
    count_switch(c);
    from->switches++;
    if (UNLIKELY(c->has_more_to_swap)) {
        swap_more(c, from, to);
        from->life->cxx = (weft__cxx_globals){0};
    }
    c->current = to;
    /* Its stack is still in use, by this very function: from here on nobody else can take it. */
    weft__fiber_retire(c, from);
    weft__context_leave(&from->context, &to->context, to->value);
}

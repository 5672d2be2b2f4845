/*
 * What a thread does when no fiber is runnable: wait for the outside world, give memory back, and
 * find out that nothing can wake a fiber any more.
 */
#include "base/clock.h"
#include "core/alarm.h"
#include "core/fork.h"
#include "core/linger.h"
#include "core/port.h"
#include "core/report.h"
#include "core/rest.h"
#include "core/sched.h"

/* Count the time that no fiber has used. */
COLD static void account_idle(weft__cord *c)
{
    int64_t now = weft__clock_ns();
    weft__top_add(c, NULL, c->switched_ns, now);
    c->switched_ns = now;
}

/* The one to tell when nothing can ever wake anyone: main, or whoever ends the process. */
static weft__fiber *responsible(const weft__cord *c)
{
    return c->closer != NULL ? c->closer : c->main;
}

static void tell_stuck(weft__cord *c)
{
    weft__fiber *f = responsible(c);
    if (f->waits_in->is_open) {
        weft__wake(c, f, 0, WEFT__TAIL);
        return;
    }
    weft__report_deadlock();
    weft__error_set(f, weft__error_plain(f, -EDEADLK, "nothing is left that could wake anyone"));
    if (f->waits_in->leave == NULL || f->waits_in->leave(f)) {
        weft__wake(c, f, -EDEADLK, WEFT__TAIL);
        return;
    }
    f->is_interrupted = true; /* in a moment: see weft__settle */
    f->life->interrupt_code = -EDEADLK;
}

/* Could operations that are pending still be completed, by the outside world? */
static bool hopes_for(const weft__cord *c, size_t operations)
{
    return operations > 0 && !c->backend->type->is_closed;
}

/* With nothing runnable: can nothing happen any more, unless another thread sends something? */
static bool is_helpless(const weft__cord *c)
{
    return c->wheel.count == 0 && c->signals_due == 0 && !hopes_for(c, c->backend->pending);
}

/* Daemons do not count for a main fiber that waits until the work is done. */
static bool is_done(const weft__cord *c)
{
    return responsible(c)->waits_in->is_open && c->held_timers == 0 && c->held_signals == 0 &&
           !hopes_for(c, c->held_ops);
}

static weft__resort resort_of(const weft__fiber *f)
{
    if (f->waits_in->is_open)
        return WEFT__RESORT_OPEN;
    return f->waits_in->is_owed ? WEFT__RESORT_OWED : WEFT__RESORT_TOLD;
}

/* With nothing runnable: who could change that? */
static weft__hope hope(weft__cord *c)
{
    const weft__fiber *f = responsible(c);
    if (f->waits_in == NULL || f->is_parked)
        return WEFT__HOPE_ITSELF;
    bool is_dead = is_helpless(c);
    if (!is_dead && !is_done(c))
        return WEFT__HOPE_ITSELF;
    return weft__port_hope(c, is_dead, resort_of(f));
}

/*
 * When the wheel is to be looked at next. If a crowd of timers has fired in the last beat and
 * another is due before the next one, not before that, counted from the last that fired. Virtual
 * time is exact always.
 */
static int64_t next_timer(weft__cord *c)
{
    int64_t next_ns = weft__wheel_next(&c->wheel), beat_ns = c->fired_ns + WEFT__CROWD_BEAT_NS;
    if (c->beat_fired < WEFT__CROWD_TIMERS || next_ns >= beat_ns)
        return next_ns;
    bool is_crowd = c->backend->type->follow == NULL &&
                    weft__wheel_is_crowded(&c->wheel, beat_ns, WEFT__CROWD_TIMERS);
    return is_crowd ? beat_ns : next_ns;
}

/* How long to wait until other threads are counted again: longer each time, then for ever. */
static int64_t threads_timeout(weft__cord *c)
{
    if (c->thread_looks == WEFT__THREAD_LOOKS_MAX)
        return WEFT__POLL_FOR_EVER;
    return WEFT__POLL_REAL(WEFT__THREAD_LOOK_NS << c->thread_looks++);
}

/* How long the backend may wait: until the next timer. */
static int64_t poll_timeout(weft__cord *c, weft__hope who)
{
    int64_t next_ns = next_timer(c);
    if (next_ns != WEFT__NEVER)
        return next_ns > c->now_ns ? next_ns - c->now_ns : 0;
    return who == WEFT__HOPE_THREADS ? threads_timeout(c) : WEFT__POLL_FOR_EVER;
}

/* Has an idle thread nothing to do for a while, unless something happens? */
static bool is_calm(weft__cord *c)
{
    int64_t timeout_ns = poll_timeout(c, WEFT__HOPE_ITSELF);
    return timeout_ns == WEFT__POLL_FOR_EVER || timeout_ns > WEFT__CALM_NS;
}

/* Fire what is due; the thread is idle. */
static void expire(weft__cord *c)
{
    size_t before = c->wheel.count;
    weft__wheel_expire(&c->wheel, c->now_ns);
    if (c->wheel.count >= before)
        return;
    if (c->now_ns - c->beat_began_ns >= WEFT__CROWD_BEAT_NS) {
        c->beat_began_ns = c->now_ns;
        c->beat_fired = 0;
    }
    c->beat_fired += before - c->wheel.count;
    c->fired_ns = c->now_ns;
}

/*
 * Poll, to be woken by others if that may take long: they look at is_asleep after they have sent
 * something, so it is set before the inbox is looked at.
 */
static int poll_asleep(weft__cord *c, int64_t timeout_ns)
{
    weft__backend *b = c->backend;
    if (timeout_ns == 0)
        return b->type->poll(b, 0);
    int64_t began_ns = c->now_ns;
    atomic_store(&c->is_asleep, true);
    int rc = b->type->poll(b, weft__cord_has_letters(c) ? 0 : timeout_ns);
    bool was_woken = !atomic_exchange(&c->is_asleep, false);
    c->wakes += was_woken;
    weft__linger_learn(c, weft__cord_now(c) - began_ns, was_woken);
    return rc;
}

/* Limit the wait to the time when there may be memory to give back. */
static int64_t until_rest(const weft__cord *c, int64_t timeout_ns)
{
    int64_t left_ns = c->rest.due_ns - c->now_ns;
    bool is_sooner = left_ns > 0 && (timeout_ns < 0 || left_ns < timeout_ns);
    return c->rest.due_ns != 0 && is_sooner ? left_ns : timeout_ns;
}

/* Has nothing happened while the cord waited, and is there nothing to do? */
static bool is_quiet(weft__cord *c)
{
    bool is_rest_due = c->rest.due_ns != 0 && c->rest.due_ns <= c->now_ns;
    return weft__runqueue_count(&c->runqueue) == 0 && !weft__cord_has_letters(c) &&
           !atomic_load(&c->is_woken) && !is_rest_due;
}

/*
 * Wait once. The wait is interrupted to check the backend's descriptors, and goes on unless
 * something has happened meanwhile.
 */
static int poll_and_check(weft__cord *c, weft__hope who)
{
    int64_t timeout_ns, most_ns, until_ns;
    int rc;
    atomic_store_explicit(&c->is_woken, false, memory_order_relaxed);
    do {
        timeout_ns = until_rest(c, poll_timeout(c, who));
        most_ns = weft__cord_check_backend(c, timeout_ns);
        until_ns = c->now_ns + most_ns;
        c->polls_blocking += most_ns != 0;
        c->polls++;
        rc = poll_asleep(c, most_ns);
    } while (most_ns != timeout_ns && most_ns > 0 && rc == 0 && UNLIKELY(c->now_ns >= until_ns) &&
             is_quiet(c));
    return rc;
}

static void poll_and_wait(weft__cord *c, weft__hope who)
{
    int rc = poll_and_check(c, who);
    if (UNLIKELY(rc < 0))
        weft__cord_recover(c, rc);
    c->must_poll = false;
    c->polled_ns = c->turned_ns = weft__cord_now(c);
}

/*
 * The thread is about to wait. Before it says that it is helpless: what is called may help someone,
 * here or elsewhere. True: here.
 */
COLD static bool call_on_idle(weft__cord *c)
{
    if (poll_timeout(c, WEFT__HOPE_ITSELF) == 0)
        return false;
    c->on_idle(c->on_idle_arg);
    return weft__runqueue_count(&c->runqueue) > 0;
}

/*
 * Before the thread sleeps, if another one is likely to send something. True: there is something.
 */
static bool linger(weft__cord *c)
{
    if (!weft__linger_pays(c))
        return false;
    if (c->backend->pending > 0)
        weft__poll_quickly(c); /* what is entered must not wait meanwhile */
    bool is_over = weft__runqueue_count(&c->runqueue) > 0 || weft__linger(c);
    weft__cord_now(c); /* timers go on, too, where messages keep coming */
    return is_over;
}

/* Give some memory back to the kernel. False: there is nothing to give back now. */
static bool give_memory_back(weft__cord *c)
{
    bool has_excess = c->stacks.excess != 0;
    if (LIKELY(!has_excess && c->rest.due_ns == 0 && !c->stacks.is_rich) || !is_calm(c))
        return false;
    if (!has_excess)
        return weft__rest_some(c);
    weft__stack_relieve(&c->stacks);
    return true;
}

/* Wait for the outside world. If nothing can wake a fiber any more, make the main fiber go on. */
static void wait_for_others(weft__cord *c)
{
    weft__hope who = hope(c);
    if (who != WEFT__HOPE_NOBODY)
        poll_and_wait(c, who);
    weft__port_go_on(c);
    bool is_let_go = atomic_exchange(&c->is_let_go, false) && who != WEFT__HOPE_ITSELF;
    bool is_over = is_let_go || who == WEFT__HOPE_NOBODY;
    /* In this order: a thread that has ended may have sent a message before. */
    if (is_over && !weft__cord_has_letters(c) && weft__runqueue_count(&c->runqueue) == 0)
        tell_stuck(c);
}

/* The run queue is empty: wait for the outside world until it is not. */
COLD weft__runnable *weft__idle(weft__cord *c)
{
    if (weft__is_copy)
        weft__fork_stop();
    if (c->is_accounting)
        weft__account(c);
    weft__cord_now(c);
    c->thread_looks = 0;
    for (;;) {
        c->round_switches = 0; /* nobody is runnable: a round of its own */
        c->round_messages = WEFT__REMOTE_BATCH;
        if (UNLIKELY(weft__cord_has_letters(c)))
            weft__cord_read_inbox(c);
        expire(c);
        weft__runnable *r = weft__runqueue_pop(&c->runqueue);
        if (r != NULL) {
            if (c->is_accounting)
                account_idle(c);
            return r;
        }
        bool has_more = c->taken != NULL; /* than a batch, which has woken no fiber */
        if (c->backend->type->is_closed && !has_more) {
            weft__poll_quickly(c);
            if (weft__runqueue_count(&c->runqueue) > 0)
                continue;
        }
        if (UNLIKELY(has_more) || give_memory_back(c)) {
            weft__poll_quickly(c);
            weft__cord_now(c);
            continue;
        }
        if (linger(c) || (c->on_idle != NULL && call_on_idle(c)))
            continue;
        wait_for_others(c);
    }
}

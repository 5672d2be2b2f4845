/*
 * Deadlock detection. See deadlock.h.
 *
 * Each cord counts itself as quiescent before it sleeps. The cord that completes the count surveys
 * all other cords, and counts the foreign threads.
 */
#include "core/cord/deadlock.h"

#include "backend/workers/foreign.h"
#include "backend/workers/worker_queue.h"
#include "core/cord/inbox.h"
#include "core/cord/registry.h"
#include "core/debug/diag.h"
#include "core/fiber/error.h"
#include "core/sched/sched.h"

/* The index of a cord that does not exist. */
#define NO_CORD (1u << WEFT__CORDS_BITS)

/* Ways to wake a main fiber in a deadlock, the preferred way first. */
typedef enum main_wait_policy {
    /* The call of the main fiber waits for the end of all work, and returns 0. */
    MAIN_WAIT_FOR_IDLE,
    /* The call of the main fiber fails with -EDEADLK. */
    MAIN_WAIT_FAILS,
    /* The main fiber must not be woken, because other threads use memory of its wait. */
    MAIN_WAIT_UNINTERRUPTIBLE,
} main_wait_policy;
#define MAIN_WAIT_POLICIES 3

static atomic_uint cord_count;          /* cords that exist */
static atomic_uint quiescent_count;     /* cords with is_quiescent set */
static atomic_uint resumed_count;       /* number of times that a cord has cleared is_quiescent */
static atomic_uint thread_waits;        /* cords with waits_for_threads set */
static atomic_bool had_foreign_threads; /* the last count found a foreign thread */

/*
 * Counting cords.
 */

static void recheck_cord(weft__cord *c, void *context)
{
    (void)context;
    if (atomic_load(&c->waits_for_threads))
        weft__cord_wake(c);
}

/*
 * Wake the cords that wait for foreign threads, so that these cords check again. A worker calls
 * this function after it has run a function of the program, because the worker then sends no more
 * messages. A cord sets waits_for_threads before it counts foreign threads. So either the count
 * excludes the worker, or this function wakes the cord.
 */
static void recheck_cords(void)
{
    if (atomic_load(&thread_waits) > 0)
        weft__registry_each(recheck_cord, NULL);
}

void weft__deadlock_add_cord(void)
{
    weft__workers_on_call_end(recheck_cords);
    atomic_fetch_add(&cord_count, 1);
}

static void wake_first_quiescent(weft__cord *c, void *context)
{
    bool *is_done = context;
    if (*is_done || !atomic_load(&c->is_quiescent))
        return;
    *is_done = true;
    weft__cord_wake(c);
}

/* If all remaining cords are quiescent, wake one cord, so that this cord checks again. */
void weft__deadlock_remove_cord(void)
{
    bool is_done = false;
    unsigned left = atomic_fetch_sub(&cord_count, 1) - 1;
    if (left > 0 && atomic_load(&quiescent_count) == left)
        weft__registry_each(wake_first_quiescent, &is_done);
}

void weft__deadlock_reset(bool has_cord)
{
    atomic_store(&cord_count, has_cord);
    atomic_store(&quiescent_count, 0);
    atomic_store(&thread_waits, 0);
    atomic_store(&had_foreign_threads, false);
}

/*
 * The state of one cord.
 */

/* Return the fiber to wake in a deadlock: main, or the fiber that ends all other fibers. */
static weft__fiber *main_or_closer(const weft__cord *c)
{
    return c->closer != NULL ? c->closer : c->main;
}

/*
 * Return true if the operations can complete without a fiber. On the sim backend, only fibers
 * complete operations.
 */
static bool can_complete(const weft__cord *c, size_t operations)
{
    return operations > 0 && !c->backend->type->is_self_contained;
}

/* Return true if only another thread can wake a fiber. The cord must have no runnable fiber. */
static bool is_quiescent(const weft__cord *c)
{
    return c->wheel.count == 0 && c->signals_due == 0 && !can_complete(c, c->backend->pending);
}

/* Return true if main waits for the end of all work, and only daemons wait for events. */
static bool is_work_done(const weft__cord *c)
{
    return main_or_closer(c)->waits_in->is_open && c->held_timers == 0 && c->held_signals == 0 &&
           !can_complete(c, c->held_ops);
}

static main_wait_policy main_wait_policy_of(const weft__fiber *f)
{
    if (f->waits_in->is_open)
        return MAIN_WAIT_FOR_IDLE;
    return f->waits_in->is_uninterruptible ? MAIN_WAIT_UNINTERRUPTIBLE : MAIN_WAIT_FAILS;
}

/*
 * All cords at once.
 */

/* Check the inbox first, because a cord clears is_quiescent before it reads its inbox. */
static bool is_cord_quiescent(weft__cord *c)
{
    return weft__inbox_is_empty(c) && atomic_load(&c->is_quiescent);
}

/* A survey of all cords. */
typedef struct survey {
    const weft__cord *self;
    unsigned count; /* cords, including self; self may be unpublished */
    bool are_others_quiescent;
    /* By policy: the highest index of another cord; NO_CORD: none. */
    uint32_t others[MAIN_WAIT_POLICIES];
} survey;

static void survey_add(weft__cord *c, void *context)
{
    survey *s = context;
    if (c == s->self)
        return;
    s->count++;
    s->are_others_quiescent = s->are_others_quiescent && is_cord_quiescent(c);
    uint32_t *other = &s->others[atomic_load(&c->main_wait_policy)];
    if (*other == NO_CORD || *other < c->index)
        *other = c->index;
}

static survey survey_cords(const weft__cord *c)
{
    survey s = {c, 1, true, {NO_CORD, NO_CORD, NO_CORD}};
    weft__registry_each(survey_add, &s);
    return s;
}

/* Make another cord call weft__deadlock_resolve. */
static void victim_wake(uint32_t index)
{
    weft__cord *c = weft__registry_acquire(index);
    if (c == NULL)
        return;
    atomic_store(&c->is_deadlock_victim, true);
    weft__cord_wake(c);
    weft__registry_release(index);
}

/*
 * Choose the main fiber to wake in a deadlock. policy is the policy of the calling cord. Of several
 * cords with the preferred policy, choose the one with the highest index, whichever cord went to
 * sleep last: the request for a snapshot wakes all cords, and must not change the choice. A thread
 * that joins other threads usually has a lower index, and gets their errors.
 */
static weft__wake_source victim_choose(const survey *s, main_wait_policy policy)
{
    for (main_wait_policy p = MAIN_WAIT_FOR_IDLE; p < MAIN_WAIT_UNINTERRUPTIBLE; p++) {
        bool has_other = s->others[p] != NO_CORD;
        if (p == policy && (!has_other || s->others[p] < s->self->index))
            return WEFT__WAKE_SOURCE_NONE;
        if (!has_other)
            continue;
        victim_wake(s->others[p]);
        return WEFT__WAKE_SOURCE_CORDS;
    }
    return WEFT__WAKE_SOURCE_THREADS; /* no main fiber may be woken, so wait indefinitely */
}

/*
 * Return true if a foreign thread exists. Counting threads reads /proc, which is slow. If the last
 * count found a foreign thread, the cord waits once before it counts again.
 */
static bool has_foreign_threads(weft__cord *c, unsigned cords_count)
{
    if (!atomic_exchange(&c->waits_for_threads, true))
        atomic_fetch_add(&thread_waits, 1);
    if (c->foreign_checks == 0 && atomic_load(&had_foreign_threads))
        return true;
    bool exist = weft__foreign_threads_exist(cords_count);
    atomic_store(&had_foreign_threads, exist);
    return exist;
}

/*
 * Confirm that all cords are quiescent. Survey the cords twice. All cords are quiescent if no cord
 * has resumed between the surveys, and no foreign thread existed between them. A foreign thread
 * could have sent a message and ended. A cord that has resumed checks for a deadlock itself. Check
 * the inbox of the calling cord last. Its messages were sent before the other cords became
 * quiescent.
 */
static weft__wake_source deadlock_confirm(weft__cord *c, main_wait_policy policy)
{
    unsigned before = atomic_load(&resumed_count);
    survey s = survey_cords(c);
    if (!s.are_others_quiescent)
        return WEFT__WAKE_SOURCE_CORDS;
    if (has_foreign_threads(c, s.count))
        return WEFT__WAKE_SOURCE_THREADS;
    s = survey_cords(c);
    if (!s.are_others_quiescent || atomic_load(&resumed_count) != before)
        return WEFT__WAKE_SOURCE_CORDS;
    return weft__cord_has_messages(c) ? WEFT__WAKE_SOURCE_CORDS : victim_choose(&s, policy);
}

weft__wake_source weft__deadlock_check(weft__cord *c)
{
    const weft__fiber *f = main_or_closer(c);
    if (f->waits_in == NULL || f->is_parked)
        return WEFT__WAKE_SOURCE_SELF;
    bool is_stuck = is_quiescent(c);
    if (!is_stuck && !is_work_done(c))
        return WEFT__WAKE_SOURCE_SELF;
    main_wait_policy policy = main_wait_policy_of(f);
    unsigned others_quiescent;
    if (is_stuck) {
        atomic_store(&c->main_wait_policy, (int)policy);
        atomic_store(&c->is_quiescent, true);
        others_quiescent = atomic_fetch_add(&quiescent_count, 1);
    } else {
        others_quiescent = atomic_load(&quiescent_count);
    }
    if (others_quiescent < atomic_load(&cord_count) - 1)
        return WEFT__WAKE_SOURCE_CORDS;
    return deadlock_confirm(c, policy); /* all other cords are quiescent */
}

void weft__deadlock_clear(weft__cord *c)
{
    if (atomic_load_explicit(&c->waits_for_threads, memory_order_relaxed)) {
        atomic_store(&c->waits_for_threads, false);
        atomic_fetch_sub(&thread_waits, 1);
    }
    if (!c->is_quiescent)
        return;
    atomic_store(&c->is_quiescent, false);
    atomic_fetch_sub(&quiescent_count, 1);
    atomic_fetch_add(&resumed_count, 1); /* before the cord reads its inbox (deadlock_confirm) */
}

void weft__deadlock_resolve(weft__cord *c)
{
    weft__fiber *f = main_or_closer(c);
    if (f->waits_in->is_open) {
        weft__wake(c, f, 0, WEFT__TAIL);
        return;
    }
    weft__diag_deadlock();
    weft__error_set(f, weft__error_new_message(f, -EDEADLK, "deadlock: no event can wake a fiber"));
    if (f->waits_in->leave == NULL || f->waits_in->leave(f)) {
        weft__wake_aborted(c, f, -EDEADLK, WEFT__TAIL);
        return;
    }
    f->is_interrupted = true; /* weft__cancel_resolve returns the code when the wait ends */
    f->live->interrupt_code = -EDEADLK;
}

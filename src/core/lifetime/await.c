/*
 * Wait for one fiber, for all of several fibers, or for the first of several fibers to end.
 * weft_terminate cancels a fiber and waits for its end.
 */
#include "core/debug/diag.h"
#include "core/fiber/error.h"
#include "core/lifetime/cancel.h"
#include "core/lifetime/exit.h"
#include "core/lifetime/tree.h"

#include <weft/scope.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const weft__wait_kind waits_await = {"the end of", .is_for_fiber = true,
                                            .leave = weft__waitq_abort_wait};

/*
 * The wait in fiber_join(). The waiting fiber is in WEFT_SHIELD. must_outlive() follows only these
 * waits.
 */
static const weft__wait_kind waits_join = {"the end of", .is_for_fiber = true,
                                           .ignores_interrupts = true,
                                           .leave = weft__waitq_abort_wait};

/*
 * Maximum recursion depth of must_outlive(). If weft_attach moves a fiber during a join, the joins
 * can form a cycle.
 */
#define JOINS_MAX 32

/* The slow path of weft_await. The fiber may be in any state. */
__attribute__((noinline)) static weft_value await_slow(weft__cord *c, weft__fiber *f)
{
    weft__fiber *self = c->current;
    if (f->phase == WEFT__ENDED) {
        /*
         * If the result is not new, a reaper keeps the record and may restart the fiber. The caller
         * may await the fiber in a loop, so let other fibers run.
         */
        bool is_new_result = f->reaper == NULL || f->awaits_left > 0;
        weft_value value = weft__fiber_collect(c, f);
        return is_new_result || self->live->no_switch > 0 ? value : weft__yield(c, value);
    }
    if (UNLIKELY(weft__tree_is_ancestor(f, self)))
        return -EDEADLK;
    if (UNLIKELY(self->pending))
        return weft__call_refuse(c);
    return weft__waitq_wait(c, &f->live->awaiters, &waits_await, f);
}

__attribute__((noinline)) static weft_value await_by_id(weft_fiber fiber)
{
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__fiber_lookup(fiber, &c, &f);
    if (LIKELY(rc == 0))
        return await_slow(c, f);
    weft_value value;
    return rc == -ESRCH && weft__unawaited_take(c, fiber, &value) ? value : rc;
}

/*
 * The fast path handles a child that is first on the run queue, for example directly after
 * weft_spin. Such a child needs no lookup, has not ended, and is not an ancestor of the caller.
 * Without the fast path: spin +16 % instructions (docs/adr/0051).
 */
weft_value weft_await(weft_fiber fiber)
{
    weft__cord *c = weft__cord_self;
    weft__runnable *first = LIKELY(c != NULL) ? weft__runqueue_first(&c->runqueue) : NULL;
    if (first == NULL || weft__fiber_of_queued(first)->id != fiber)
        return await_by_id(fiber);
    weft__fiber *f = weft__fiber_of_queued(first);
    weft__fiber *self = c->current;
    if (UNLIKELY(f->parent != self || self->pending || self->starter != NULL))
        return await_slow(c, f);
    weft__waitq_join(&f->live->awaiters, &self->live->waiter);
    weft__wait_begin(c, &waits_await, f);
    weft__runqueue_take_first(&c->runqueue, first);
    return weft__switch_to(c, f);
}

/*
 * A wait for several fibers. The set is on the heap, because many members do not fit on a small
 * stack.
 */
typedef struct await_set {
    weft__fiber *waiter;
    size_t left; /* fibers that must still end; 0: the wait is over */
    size_t n;
    weft_value *out; /* the values by index; await_first() uses only out[0] */
    /*
     * In await_first(): the index of the fiber that ended. In weft_await_all: the index of the
     * first fiber that failed. -1: none.
     */
    int first;
    struct member {
        weft__waiter waiter;
        struct await_set *await_set;
    } members[];
} await_set;

static void await_set_unqueue(await_set *set)
{
    for (size_t i = 0; i < set->n; i++)
        weft__waitq_leave(&set->members[i].waiter);
}

static bool leave_await_set(weft__fiber *f)
{
    await_set_unqueue(f->wait_object);
    return true;
}

static const weft__wait_kind waits_await_set = {
    "the end of several fibers", .leave = leave_await_set, .forget = leave_await_set};

static void await_set_finish(await_set *set)
{
    await_set_unqueue(set);
    if (set->waiter->waits_in == &waits_await_set)
        weft__wake(weft__cord_self, set->waiter, 0, WEFT__TAIL);
}

static int member_index(const await_set *set, const struct member *m)
{
    return (int)(m - set->members);
}

static void any_fiber_ended(weft__waiter *waiter, weft_value value)
{
    struct member *m = CONTAINER_OF(waiter, struct member, waiter);
    await_set *set = m->await_set;
    set->first = member_index(set, m);
    set->out[0] = value;
    set->left = 0;
    await_set_finish(set);
}

static void each_fiber_ended(weft__waiter *waiter, weft_value value)
{
    struct member *m = CONTAINER_OF(waiter, struct member, waiter);
    await_set *set = m->await_set;
    set->out[member_index(set, m)] = value;
    set->left--;
    if (weft_is_error(value)) {
        set->first = member_index(set, m);
        set->left = 0;
    }
    if (set->left == 0)
        await_set_finish(set);
}

/*
 * Check the arguments of a wait for several fibers. A fiber that has ended may be in f.
 *
 * Returns 0, or:
 * -EDEADLK if a fiber is the caller or an ancestor of the caller
 * -EINVAL if f is NULL and n is not 0
 * -ESRCH if a fiber is gone
 * -EXDEV if a fiber belongs to another thread
 */
static int check_fibers(weft__cord *c, const weft_fiber *f, size_t n)
{
    if (f == NULL && n > 0)
        return -EINVAL;
    for (size_t i = 0; i < n; i++) {
        weft__fiber *target = weft__fiber_find(c, f[i]);
        if (target == NULL && weft__unawaited_find(c, f[i]) != NULL)
            continue;
        if (target == NULL)
            return weft__fiber_find_error(c, f[i]);
        if (target->phase != WEFT__ENDED && weft__tree_is_ancestor(target, c->current))
            return -EDEADLK;
    }
    return 0;
}

static int await_set_new(weft__cord *c, const weft_fiber *f, size_t n, await_set **out)
{
    int rc = check_fibers(c, f, n);
    if (rc < 0)
        return rc;
    await_set *set = malloc(sizeof *set + n * sizeof set->members[0] + n * sizeof(weft_value));
    if (set == NULL)
        return -ENOMEM;
    *set = (await_set){.waiter = c->current, .left = n, .n = n, .first = -1};
    set->out = (weft_value *)&set->members[n];
    for (size_t i = 0; i < n; i++) {
        set->members[i] = (struct member){.waiter.fiber = c->current, .await_set = set};
    }
    *out = set;
    return 0;
}

/* Return the value of f[i], which is in f more than once. An earlier entry has taken the value. */
static weft_value value_of_duplicate(const await_set *set, const weft_fiber *f, size_t i)
{
    size_t first = 0;
    while (f[first] != f[i])
        first++;
    return set->out[first];
}

/*
 * Add a member to the awaiters of each fiber, and wait until left is 0. After the call, no member
 * is in a queue. Returns 0, or the error that interrupted the wait.
 */
static int await_set_wait(weft__cord *c, await_set *set, const weft_fiber *f,
                          void (*ended)(weft__waiter *waiter, weft_value value))
{
    for (size_t i = 0; i < set->n && set->left > 0; i++) {
        weft__fiber *target = weft__fiber_find(c, f[i]);
        weft_value value;
        set->members[i].waiter.on_wake = ended;
        if (target == NULL)
            ended(&set->members[i].waiter,
                  weft__unawaited_take(c, f[i], &value) ? value : value_of_duplicate(set, f, i));
        else if (target->phase == WEFT__ENDED)
            ended(&set->members[i].waiter, weft__fiber_collect(c, target));
        else
            weft__waitq_join(&target->live->awaiters, &set->members[i].waiter);
    }
    if (set->left == 0)
        return 0;
    if (c->current->pending) {
        await_set_unqueue(set);
        return (int)weft__call_refuse(c);
    }
    return weft__wait_int(c, &waits_await_set, set);
}

/*
 * Return whether f can end only after `other` has ended. This is true if f is `other` or an
 * ancestor of `other`. This is also true if f must outlive a fiber that joins one of these fibers.
 */
static bool must_outlive(const weft__fiber *f, const weft__fiber *other, int joins_max)
{
    for (; other != NULL && f != other; other = other->parent) {
        const weft__waiter *first = other->live->awaiters.first, *w = first;
        for (; w != NULL && joins_max > 0; w = w->next != first ? w->next : NULL)
            if (w->fiber != NULL && w->fiber->waits_in == &waits_join &&
                must_outlive(f, w->fiber, joins_max - 1))
                return true;
    }
    return other != NULL;
}

/*
 * Wait for the end of a cancelled fiber. The caller must be in WEFT_SHIELD.
 *
 * Returns the value of the fiber, the error that interrupted the wait, or:
 * -EDEADLK if the fiber can end only after the caller
 */
static weft_value fiber_join(weft__cord *c, weft__fiber *f)
{
    if (must_outlive(f, c->current, JOINS_MAX))
        return -EDEADLK;
    if (UNLIKELY(c->current->pending))
        return weft__call_refuse(c);
    return weft__waitq_wait(c, &f->live->awaiters, &waits_join, f);
}

/* Return whether a cancelled fiber has neither ended nor been restarted. */
static bool is_still_ending(weft__cord *c, weft_fiber id)
{
    const weft__fiber *f = weft__fiber_find(c, id);
    return f != NULL && f->phase != WEFT__ENDED && (f->is_stopped || f->phase == WEFT__ENDING);
}

/*
 * Wait at most `seconds` for the end of a cancelled fiber. If the fiber has already ended, discard
 * its value. The caller must be in WEFT_SHIELD. A timeout is not an error.
 *
 * Returns 0, or:
 * -EDEADLK if the fiber can never end
 */
static int join_within(weft__cord *c, weft_fiber id, double seconds)
{
    const weft__fiber *f = weft__fiber_find(c, id);
    if (f == NULL || f->phase == WEFT__ENDED)
        weft_await(id);
    weft_scope timeout;
    weft_scope_open(&timeout, seconds);
    weft_value rc = 0;
    while (rc != -EDEADLK && is_still_ending(c, id) && !weft_scope_is_cancelled(&timeout))
        rc = fiber_join(c, weft__fiber_find(c, id)); /* again after a restart and a stop */
    weft_scope_close(&timeout);
    return is_still_ending(c, id) && rc == -EDEADLK ? -EDEADLK : 0;
}

/* Cancel the fibers that have not ended, wait for their end, and discard all values. */
static void stop_and_join(weft__cord *c, const weft_fiber *f, size_t n)
{
    /*
     * weft_cancel moves a fiber to the front of the run queue. Cancel the last fiber first, so that
     * the fibers run in the order of f.
     */
    for (size_t i = n; i-- > 0;)
        weft_cancel(f[i]);
    /* Even a cancelled caller waits until all fibers have ended. */
    weft__error *error = weft__error_ref(c->current->error);
    WEFT_SHIELD(INFINITY) {
        for (size_t i = 0; i < n; i++)
            (void)join_within(c, f[i], INFINITY);
    }
    weft__error_set(c->current, error);
}

int weft_await_all(const weft_fiber *f, size_t n, weft_value *out)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    await_set *set;
    int rc = await_set_new(c, f, n, &set);
    if (rc < 0)
        return rc;
    rc = await_set_wait(c, set, f, each_fiber_ended);
    if (set->first >= 0)
        rc = (int)set->out[set->first];
    else if (set->left == 0 && out != NULL)
        memcpy(out, set->out, n * sizeof *out);
    free(set);
    if (rc < 0)
        stop_and_join(c, f, n);
    return rc;
}

/*
 * Wait until one of several fibers has ended. Set *has_ended to false if the wait fails. call is
 * the name of the public function, for the error message.
 */
static int await_first(const char *call, const weft_fiber *f, size_t n, weft_value *out,
                       bool *has_ended)
{
    *has_ended = false;
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (n == 0)
        return weft_fail(-EINVAL, "%s: n is 0", call);
    await_set *set;
    int rc = await_set_new(c, f, n, &set);
    if (rc < 0)
        return rc;
    rc = await_set_wait(c, set, f, any_fiber_ended);
    *has_ended = set->left == 0;
    if (*has_ended) {
        rc = set->first;
        if (out != NULL)
            *out = set->out[0];
    }
    free(set);
    return rc;
}

int weft_await_any(const weft_fiber *f, size_t n, weft_value *out)
{
    bool has_ended;
    return await_first("weft_await_any", f, n, out, &has_ended);
}

int weft_select_fibers(const weft_fiber *f, size_t n, weft_value *out)
{
    bool has_ended;
    int rc = await_first("weft_select_fibers", f, n, out, &has_ended);
    if (has_ended)
        stop_and_join(weft__cord_self, f, n);
    return rc;
}

/*
 * Wait for the end of a cancelled fiber. Report the fiber if it has not ended after grace_s. The
 * caller must be in WEFT_SHIELD.
 *
 * Returns 0, or:
 * -EDEADLK if the fiber can never end
 */
static int join_cancelled(weft__cord *c, weft_fiber id, double grace_s)
{
    if (grace_s == 0) {
        weft_snooze(); /* run the fiber, which is first on the run queue */
        if (weft_state_of(id) != WEFT_DEAD && !is_still_ending(c, id))
            return 0; /* the reaper has already restarted the fiber */
    }
    int rc = join_within(c, id, grace_s);
    if (rc < 0 || !is_still_ending(c, id))
        return rc;
    weft__diag_not_ended(c, weft__fiber_find(c, id), grace_s, true);
    return join_within(c, id, INFINITY);
}

int weft_terminate(weft_fiber fiber, double grace_s)
{
    if (!(grace_s >= 0))
        return weft_fail(-EINVAL, "weft_terminate: grace_s is %g", grace_s);
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__fiber_lookup(fiber, &c, &f);
    weft_value ignored;
    if (rc < 0)
        return rc == -ESRCH && weft__unawaited_take(c, fiber, &ignored) ? 0 : rc;
    if (f->phase != WEFT__ENDED && weft__tree_is_ancestor(f, c->current))
        return -EDEADLK;
    if (f->phase != WEFT__ENDED && c->current->live->no_switch > 0)
        return (int)weft__call_refuse(c);
    if (f->live != NULL)
        f->live->grace_ns = grace_s > 0 ? weft__deadline(c, grace_s) : 0;
    weft_cancel(fiber);
    /*
     * Even a cancelled caller waits, because the caller may then free memory that the fiber uses.
     */
    WEFT_SHIELD(INFINITY)
        rc = join_cancelled(c, fiber, grace_s);
    return rc;
}

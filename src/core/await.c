/* Waiting for fibers to end: one, all of several, the first of several. */
#include "core/alarm.h"
#include "core/end.h"
#include "core/error.h"
#include "core/report.h"
#include "core/tree.h"

#include <weft/scope.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const weft__wait_kind waits_await = {"the end of", .is_for_fiber = true,
                                            .leave = weft__leave_line};

/* The same behind a shield: nothing but that end ends the wait. */
static const weft__wait_kind waits_join = {"the end of", .is_for_fiber = true,
                                           .leave = weft__leave_line};

/* How many joins in a row are followed: fibers attached meanwhile may have made a circle. */
#define JOINS_MAX 32

/* Any fiber, whatever has become of it. */
__attribute__((noinline)) static weft_value await_any(weft__cord *c, weft__fiber *f)
{
    weft__fiber *self = c->current;
    if (f->phase == WEFT__ENDED) {
        /* Its keeper runs it again: who awaits it in a loop must let that happen. */
        bool is_news = f->keeper == NULL || f->awaits_left > 0;
        weft_value value = weft__fiber_collect(c, f);
        return is_news || self->life->no_switch > 0 ? value : weft__yield(c, value);
    }
    if (UNLIKELY(weft__tree_is_above(f, self)))
        return -EDEADLK;
    if (UNLIKELY(self->alarm))
        return weft__refuse(c);
    return weft__line_wait(c, &f->life->awaiters, &waits_await, f);
}

__attribute__((noinline)) static weft_value await_by_id(weft_fiber fiber)
{
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__find(fiber, &c, &f);
    if (LIKELY(rc == 0))
        return await_any(c, f);
    weft_value value;
    return rc == -ESRCH && weft__ended_take(c, fiber, &value) ? value : rc;
}

/*
 * In one piece for a child that is the next to run, as after weft_spin: it need not be looked for,
 * has not ended, and is not above us.
 */
weft_value weft_await(weft_fiber fiber)
{
    weft__cord *c = weft__cord_self;
    weft__runnable *first = LIKELY(c != NULL) ? weft__runqueue_first(&c->runqueue) : NULL;
    if (first == NULL || weft__fiber_of_queued(first)->id != fiber)
        return await_by_id(fiber);
    weft__fiber *f = weft__fiber_of_queued(first);
    weft__fiber *self = c->current;
    if (UNLIKELY(f->parent != self || self->alarm || self->starter != NULL))
        return await_any(c, f);
    weft__line_join_again(&f->life->awaiters, &self->life->waiter);
    weft__enter(c, &waits_await, f);
    weft__runqueue_take_first(&c->runqueue, first);
    return weft__switch_to(c, f);
}

/* A wait for several fibers, on the heap: there may be many, and stacks are small. */
typedef struct crowd {
    weft__fiber *waiter;
    size_t left; /* how many ends are still to be waited for */
    size_t n;
    weft_value *out; /* of all, or of the first; never NULL */
    int first;       /* index of the first to end, or of the first to fail; -1: none yet */
    struct member {
        weft__waiter waiter;
        struct crowd *crowd;
    } members[];
} crowd;

static void leave_members(crowd *w)
{
    for (size_t i = 0; i < w->n; i++)
        weft__line_leave(&w->members[i].waiter);
}

static bool leave_crowd(weft__fiber *f)
{
    leave_members(f->wait_object);
    return true;
}

static const weft__wait_kind waits_crowd = {"fibers to end", .leave = leave_crowd,
                                            .forget = leave_crowd};

static void finish_crowd(crowd *w)
{
    leave_members(w);
    if (w->waiter->waits_in == &waits_crowd)
        weft__wake(weft__cord_self, w->waiter, 0, WEFT__TAIL);
}

static int index_of(const crowd *w, const struct member *m)
{
    return (int)(m - w->members);
}

static void any_ended(weft__waiter *one, weft_value value)
{
    struct member *m = CONTAINER_OF(one, struct member, waiter);
    crowd *w = m->crowd;
    w->first = index_of(w, m);
    w->out[0] = value;
    w->left = 0;
    finish_crowd(w);
}

static void one_of_all_ended(weft__waiter *one, weft_value value)
{
    struct member *m = CONTAINER_OF(one, struct member, waiter);
    crowd *w = m->crowd;
    w->out[index_of(w, m)] = value;
    w->left--;
    if (weft_is_error(value)) {
        w->first = index_of(w, m);
        w->left = 0;
    }
    if (w->left == 0)
        finish_crowd(w);
}

/* Every one of them can be waited for: it exists, and its end does not depend on ours. */
static int check_fibers(weft__cord *c, const weft_fiber *f, size_t n)
{
    if (f == NULL && n > 0)
        return -EINVAL;
    for (size_t i = 0; i < n; i++) {
        weft__fiber *one = weft__fiber_find(c, f[i]);
        if (one == NULL && weft__ended_find(c, f[i]) != NULL)
            continue;
        if (one == NULL)
            return weft__fiber_missing(c, f[i]);
        if (one->phase != WEFT__ENDED && weft__tree_is_above(one, c->current))
            return -EDEADLK;
    }
    return 0;
}

static int crowd_new(weft__cord *c, const weft_fiber *f, size_t n, crowd **out)
{
    int rc = check_fibers(c, f, n);
    if (rc < 0)
        return rc;
    crowd *w = malloc(sizeof *w + n * sizeof w->members[0] + n * sizeof(weft_value));
    if (w == NULL)
        return -ENOMEM;
    *w = (crowd){.waiter = c->current, .left = n, .n = n, .first = -1};
    w->out = (weft_value *)&w->members[n];
    for (size_t i = 0; i < n; i++) {
        w->members[i] = (struct member){.waiter.fiber = c->current, .crowd = w};
    }
    *out = w;
    return 0;
}

/* The i-th fiber was there and is not: it had ended, is named twice, and was collected above. */
static weft_value value_of_twin(const crowd *w, const weft_fiber *f, size_t i)
{
    size_t twin = 0;
    while (f[twin] != f[i])
        twin++;
    return w->out[twin];
}

/*
 * Wait in all places at once until enough of them have ended (left is 0 then). What the wait
 * returned; cut short or not, the members are out of all places afterwards.
 */
static int crowd_wait(weft__cord *c, crowd *w, const weft_fiber *f,
                      void (*ended)(weft__waiter *one, weft_value value))
{
    for (size_t i = 0; i < w->n && w->left > 0; i++) {
        weft__fiber *one = weft__fiber_find(c, f[i]);
        weft_value value;
        w->members[i].waiter.served = ended;
        if (one == NULL)
            ended(&w->members[i].waiter,
                  weft__ended_take(c, f[i], &value) ? value : value_of_twin(w, f, i));
        else if (one->phase == WEFT__ENDED)
            ended(&w->members[i].waiter, weft__fiber_collect(c, one));
        else
            weft__line_join(&one->life->awaiters, &w->members[i].waiter);
    }
    if (w->left == 0)
        return 0;
    if (c->current->alarm) {
        leave_members(w);
        return (int)weft__refuse(c);
    }
    return weft__wait_int(c, &waits_crowd, w);
}

/*
 * Can f end only after another fiber: is it that fiber, an ancestor, or one that joins one of them?
 */
static bool must_outlive(const weft__fiber *f, const weft__fiber *other, int joins_max)
{
    for (; other != NULL && f != other; other = other->parent) {
        const weft__waiter *first = other->life->awaiters.first, *w = first;
        for (; w != NULL && joins_max > 0; w = w->next != first ? w->next : NULL)
            if (w->fiber != NULL && w->fiber->waits_in == &waits_join &&
                must_outlive(f, w->fiber, joins_max - 1))
                return true;
    }
    return other != NULL;
}

/* Wait for the end of a fiber that is ending. The caller is shielded. */
static weft_value join(weft__cord *c, weft__fiber *f)
{
    if (must_outlive(f, c->current, JOINS_MAX))
        return -EDEADLK;
    if (UNLIKELY(c->current->alarm))
        return weft__refuse(c);
    return weft__line_wait(c, &f->life->awaiters, &waits_join, f);
}

/* A fiber that was cancelled has not ended since: it is not kept, nor does it run anew. */
static bool is_still_ending(weft__cord *c, weft_fiber id)
{
    const weft__fiber *f = weft__fiber_find(c, id);
    return f != NULL && f->phase != WEFT__ENDED && (f->is_stopped || f->phase == WEFT__ENDING);
}

/*
 * Wait for a fiber that was cancelled, for so many seconds; its value is taken, if it had ended
 * before. The caller is shielded. 0, also if the time is up; -EDEADLK if it will never end.
 */
static int join_within(weft__cord *c, weft_fiber id, double seconds)
{
    const weft__fiber *f = weft__fiber_find(c, id);
    if (f == NULL || f->phase == WEFT__ENDED)
        weft_await(id);
    weft_scope time;
    weft_scope_open(&time, seconds);
    weft_value rc = 0;
    while (rc != -EDEADLK && is_still_ending(c, id) && !weft_scope_is_cancelled(&time))
        rc = join(c, weft__fiber_find(c, id)); /* again, if it was interrupted */
    weft_scope_close(&time);
    return is_still_ending(c, id) && rc == -EDEADLK ? -EDEADLK : 0;
}

/* Cancel those that have not ended, and wait until they have. */
static void stop_and_join(weft__cord *c, const weft_fiber *f, size_t n)
{
    for (size_t i = n; i-- > 0;)
        weft_cancel(f[i]); /* to the front, so from the last: they run in their order */
    /* Cancelled or not, the caller leaves nobody behind. */
    weft__error *words = weft__error_ref(c->current->error);
    WEFT_SHIELD(INFINITY) {
        for (size_t i = 0; i < n; i++)
            (void)join_within(c, f[i], INFINITY);
    }
    weft__error_set(c->current, words);
}

int weft_await_all(const weft_fiber *f, size_t n, weft_value *out)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    crowd *w;
    int rc = crowd_new(c, f, n, &w);
    if (rc < 0)
        return rc;
    rc = crowd_wait(c, w, f, one_of_all_ended);
    if (w->first >= 0)
        rc = (int)w->out[w->first];
    else if (w->left == 0 && out != NULL)
        memcpy(out, w->out, n * sizeof *out);
    free(w);
    if (rc < 0)
        stop_and_join(c, f, n);
    return rc;
}

/* *has_ended: one of them has, it was not the wait that was cut short. */
static int await_first(const weft_fiber *f, size_t n, weft_value *out, bool *has_ended)
{
    *has_ended = false;
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (n == 0)
        return weft_fail(-EINVAL, "there is no first of no fibers");
    crowd *w;
    int rc = crowd_new(c, f, n, &w);
    if (rc < 0)
        return rc;
    rc = crowd_wait(c, w, f, any_ended);
    *has_ended = w->left == 0;
    if (*has_ended) {
        rc = w->first;
        if (out != NULL)
            *out = w->out[0];
    }
    free(w);
    return rc;
}

int weft_await_any(const weft_fiber *f, size_t n, weft_value *out)
{
    bool has_ended;
    return await_first(f, n, out, &has_ended);
}

int weft_select_fibers(const weft_fiber *f, size_t n, weft_value *out)
{
    bool has_ended;
    int rc = await_first(f, n, out, &has_ended);
    if (has_ended)
        stop_and_join(weft__cord_self, f, n);
    return rc;
}

/* Wait for a fiber that was cancelled. The caller is shielded. 0 or -EDEADLK. */
static int join_cancelled(weft__cord *c, weft_fiber id, double grace_s)
{
    if (grace_s == 0) {
        weft_snooze(); /* it is at the front of the queue: let it */
        if (weft_state_of(id) != WEFT_DEAD && !is_still_ending(c, id))
            return 0; /* its keeper has restarted it already */
    }
    int rc = join_within(c, id, grace_s);
    if (rc < 0 || !is_still_ending(c, id))
        return rc;
    weft__report("fiber #%llu '%s' has not ended %g s after it was cancelled",
                 (unsigned long long)id, weft__fiber_find(c, id)->name, grace_s);
    return join_within(c, id, INFINITY);
}

int weft_terminate(weft_fiber fiber, double grace_s)
{
    if (!(grace_s >= 0))
        return weft_fail(-EINVAL, "a grace time of %g s", grace_s);
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__find(fiber, &c, &f);
    weft_value ignored;
    if (rc < 0)
        return rc == -ESRCH && weft__ended_take(c, fiber, &ignored) ? 0 : rc;
    if (f->phase != WEFT__ENDED && weft__tree_is_above(f, c->current))
        return -EDEADLK;
    if (f->phase != WEFT__ENDED && c->current->life->no_switch > 0)
        return (int)weft__refuse(c);
    if (f->life != NULL)
        f->life->grace_ns = grace_s > 0 ? weft__deadline(c, grace_s) : 0;
    weft_cancel(fiber);
    /* Even if the caller is cancelled: it may free next what the other fiber uses. */
    WEFT_SHIELD(INFINITY)
        rc = join_cancelled(c, fiber, grace_s);
    return rc;
}

/*
 * Select when nothing can happen at once: every clause waits where a call that is about nothing
 * else would wait, in the line of a channel or of a fiber, on a timer, at the backend. The first
 * that is served takes the others out of their places in the same step, before anything can happen
 * to them. So nothing has ever to be given back, and of two selects that face each other no half is
 * left behind.
 *
 * Only to descriptors the kernel may hold on for a while: then the caller waits until it has let
 * go. What it says meanwhile is dropped, for to hear that a descriptor is ready takes nothing.
 *
 * With shared channels others can serve it, too, from their threads: then it is contested. To serve
 * it, wherever that is, is to claim it first; it leaves its other places when it hears of it.
 */
#include "sync/select.h"

#include "core/alarm.h"
#include "core/mailbox.h"
#include "core/op.h"
#include "sync/tour.h"

#include <math.h>
#include <stdlib.h>

/* Descriptors that need no memory of their own. */
#define FDS_ON_STACK 4

/* A descriptor at the backend. */
typedef struct fd_wait {
    weft__op op; /* its owner is the selection */
    weft_clause *clause;
    bool is_pending;
} fd_wait;

/* One select that waits, in the frame of its caller. */
typedef struct selection {
    weft__contest contest; /* the first, as waiters point to it; only if it has a tour */
    weft__tour *tour;      /* of the shared channels; NULL: there are none, or it has been served */
    weft__fiber *fiber;
    weft_clause *clauses;
    size_t n;
    int winner;            /* index of the clause that has happened; -1: none has */
    weft_clause *earliest; /* of the times; NULL: there is none */
    weft__timer timer;     /* for that one */
    fd_wait *fds;
    size_t fds_count;
    size_t fds_pending; /* of these, how many the backend has */
} selection;

_Static_assert(sizeof(weft__waiter) <= sizeof(((weft_clause *)NULL)->weft__private),
               "a clause has room for its place in a line");

/* Its value points to the selection: no place has a use for that. */
static weft__waiter *waiter_of(weft_clause *clause)
{
    return (weft__waiter *)(void *)clause->weft__private;
}

static weft_clause *clause_of(weft__waiter *w)
{
    void *words = w;
    return CONTAINER_OF(words, weft_clause, weft__private);
}

/* Out of all places. */

static bool waits_in_line(const weft_clause *clause)
{
    return clause->kind != WEFT_CLAUSE_NEVER && clause->kind != WEFT_CLAUSE_TIME &&
           clause->kind != WEFT_CLAUSE_FD;
}

static inline void leave_lines(selection *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (waits_in_line(&s->clauses[i]))
            weft__line_leave(waiter_of(&s->clauses[i]));
}

COLD static void leave_shared_lines(selection *s)
{
    weft__tour_lock(s->tour);
    leave_lines(s);
    weft__tour_unlock(s->tour);
}

/* May something happen to it here, or has another thread been faster? */
static bool claim(selection *s)
{
    return LIKELY(s->tour == NULL) || weft__contest_claim(&s->contest);
}

/* It is out of all lines, and no letter is under way. */
static void end_tour(selection *s)
{
    if (LIKELY(s->tour == NULL))
        return;
    weft__tour_free(s->tour);
    s->tour = NULL;
}

/* The backend has let go of it. */
static void release_fd(selection *s, fd_wait *w)
{
    w->is_pending = false;
    s->fds_pending--;
    weft__unhold_op(weft__cord_self, s->fiber);
}

static void cancel_fds(selection *s)
{
    weft__backend *b = weft__cord_self->backend;
    for (size_t i = 0; i < s->fds_count && s->fds_pending > 0; i++)
        if (s->fds[i].is_pending && b->type->cancel(b, &s->fds[i].op))
            release_fd(s, &s->fds[i]);
}

/* True: nobody holds a part of it any more. */
static bool leave_all(selection *s)
{
    if (LIKELY(s->tour == NULL))
        leave_lines(s);
    else
        leave_shared_lines(s);
    weft__unhold_timer(weft__cord_self, s->fiber, &s->timer);
    cancel_fds(s);
    return s->fds_pending == 0;
}

/*
 * Nothing has happened, and nothing will: what the kernel still says is not heard. Or another
 * thread has served it: it leaves its other places, and that letter wakes it.
 */
static bool leave_select(weft__fiber *f)
{
    selection *s = f->wait_object;
    bool is_ours = claim(s), is_released = leave_all(s);
    if (!is_ours)
        return false;
    end_tour(s);
    if (is_released)
        return true;
    f->waits_in = &weft__waits_release;
    return false;
}

/* In a child: shared channels are never looked at again, only the other lines have to be left. */
static bool forget_select(weft__fiber *f)
{
    selection *s = f->wait_object;
    for (size_t i = 0; i < s->n; i++) {
        weft__waiter *w = waiter_of(&s->clauses[i]);
        if (waits_in_line(&s->clauses[i]) && !weft__tour_has(s->tour, w->line))
            weft__line_leave(w);
    }
    return true;
}

static const weft__wait_kind waits_select = {"one of several", .leave = leave_select,
                                             .forget = forget_select};

/* A clause has happened while all were waited for. It is claimed. */
static void happened(selection *s, weft_clause *clause, weft_value value)
{
    clause->value = value;
    s->winner = (int)(clause - s->clauses);
    bool is_released = leave_all(s);
    end_tour(s);
    if (is_released)
        weft__wake(weft__cord_self, s->fiber, s->winner, WEFT__TAIL);
    else
        s->fiber->waits_in = &weft__waits_release;
}

static void clause_served(weft__waiter *w, weft_value value)
{
    happened((selection *)w->value, clause_of(w), value);
}

static void time_is_over(weft__timer *timer)
{
    selection *s = CONTAINER_OF(timer, selection, timer);
    weft__fired_timer(weft__cord_self, s->fiber);
    if (claim(s))
        happened(s, s->earliest, 0);
}

/* Another thread has served it. A fiber that is ended with its thread does not wait any more. */
static void deliver_turn(weft__cord *c, weft__letter *l)
{
    weft__tour *t = CONTAINER_OF(l, weft__tour, turn.letter);
    weft__fiber *f = c != NULL ? weft__fiber_find(c, l->fiber) : NULL;
    selection *s = f != NULL && f->waits_in == &waits_select ? f->wait_object : NULL;
    if (s == NULL || s->tour != t) {
        weft__tour_free(t);
        return;
    }
    weft_clause *clause = clause_of(t->turn.by);
    bool is_value = clause->kind == WEFT_CLAUSE_RECV && clause->item == NULL;
    weft__settle(f, 0); /* what has struck it since came too late */
    happened(s, clause, is_value && l->value == 0 ? clause->value : l->value);
}

/* The kernel has let go of the last descriptor. */
static void released(selection *s)
{
    weft__fiber *f = s->fiber;
    weft_value value = s->winner >= 0 ? s->winner : weft__settle(f, -ECANCELED);
    weft__wake(weft__cord_self, f, value, WEFT__TAIL);
}

static void fd_done(weft__op *op, intptr_t result)
{
    fd_wait *w = CONTAINER_OF(op, fd_wait, op);
    selection *s = op->owner;
    release_fd(s, w);
    if (s->fiber->waits_in == &waits_select) {
        if (claim(s))
            happened(s, w->clause, result);
    } else if (s->fiber->waits_in == &weft__waits_release && s->fds_pending == 0) {
        released(s);
    }
}

/* Into all places. */

static inline void join(selection *s, weft_clause *clause, weft__line *line, bool is_contested)
{
    /* Where an item comes from, or goes to; a receiver that does not say is served with it. */
    bool is_own = clause->kind == WEFT_CLAUSE_SEND && clause->item == NULL;
    weft__waiter *w = waiter_of(clause);
    *w = (weft__waiter){
        .fiber = s->fiber,
        .served = clause_served,
        .value = (weft_value)s,
        .data = is_own ? &clause->value : clause->item,
        .how = WEFT__TAIL,
        .is_contested = is_contested,
    };
    weft__line_join(line, w);
}

__attribute__((always_inline)) static inline void join_at(weft__cord *c, selection *s,
                                                          weft_clause *clause, bool is_contested)
{
    weft__passage *p = weft__clause_passage(c, clause);
    if (p != NULL)
        join(s, clause, clause->kind == WEFT_CLAUSE_SEND ? &p->senders : &p->receivers,
             is_contested);
    else if (clause->kind == WEFT_CLAUSE_ENDED)
        join(s, clause, &weft__fiber_find(c, clause->of.fiber)->life->awaiters, is_contested);
}

static void join_lines(weft__cord *c, selection *s)
{
    for (size_t i = 0; i < s->n; i++)
        join_at(c, s, &s->clauses[i], false);
}

/* With what is received in its place: a letter brings nothing. */
static void join_shared(selection *s, weft_clause *clause, weft__passage *p)
{
    join(s, clause, clause->kind == WEFT_CLAUSE_SEND ? &p->senders : &p->receivers, true);
    if (clause->item == NULL)
        waiter_of(clause)->data = &clause->value;
}

static void join_all(weft__cord *c, selection *s)
{
    for (size_t i = 0; i < s->n; i++) {
        weft__shared *shared = weft__clause_shared(&s->clauses[i]);
        if (shared != NULL)
            join_shared(s, &s->clauses[i], &shared->passage);
        else
            join_at(c, s, &s->clauses[i], true);
    }
}

/* Can something happen in a shared channel by now? They are locked. */
static bool has_news(const selection *s)
{
    for (size_t i = 0; i < s->n; i++) {
        const weft_clause *clause = &s->clauses[i];
        const weft__shared *shared = weft__clause_shared(clause);
        if (shared != NULL &&
            (clause->kind == WEFT_CLAUSE_SEND ? weft__passage_can_put(&shared->passage)
                                              : weft__passage_can_take(&shared->passage)))
            return true;
    }
    return false;
}

/*
 * The same for all lines at once, if some are shared. As soon as the locks are open it may be
 * served, and its channels freed. False: something can happen without waiting.
 */
static bool join_contest(weft__cord *c, selection *s)
{
    s->contest.turn = &s->tour->turn;
    weft__tour_lock(s->tour);
    bool may_wait = !has_news(s);
    if (may_wait)
        join_all(c, s);
    weft__tour_unlock(s->tour);
    return may_wait;
}

static void find_earliest(weft__cord *c, selection *s)
{
    double first_s = INFINITY;
    uint32_t equals = 0;
    for (size_t i = 0; i < s->n; i++) {
        weft_clause *clause = &s->clauses[i];
        if (clause->kind != WEFT_CLAUSE_TIME || clause->of.seconds > first_s)
            continue;
        equals = clause->of.seconds < first_s ? 1 : equals + 1;
        first_s = clause->of.seconds;
        if (weft__lot_falls(c, equals))
            s->earliest = clause;
    }
}

static void arm_timer(weft__cord *c, selection *s)
{
    find_earliest(c, s);
    int64_t at_ns = s->earliest != NULL ? weft__deadline(c, s->earliest->of.seconds) : WEFT__NEVER;
    if (at_ns != WEFT__NEVER)
        weft__hold_timer(c, s->fiber, &s->timer, at_ns);
}

/* Until one of them turns out to have become ready since it was looked at: that has happened. */
static void submit_fds(weft__cord *c, selection *s)
{
    for (size_t i = 0; i < s->n && s->winner < 0; i++) {
        weft_clause *clause = &s->clauses[i];
        if (clause->kind != WEFT_CLAUSE_FD)
            continue;
        fd_wait *w = &s->fds[s->fds_count++];
        *w = (fd_wait){.op = {.done = fd_done, .owner = s}, .clause = clause};
        intptr_t result = weft__clause_submit(c, clause, &w->op);
        if (result == WEFT__OP_PENDING) {
            w->is_pending = true;
            s->fds_pending++;
            weft__hold_op(c, s->fiber);
        } else {
            clause->value = result;
            s->winner = (int)i;
        }
    }
}

static inline bool has(unsigned kinds, weft_clause_kind kind)
{
    return kinds & 1u << kind;
}

/* Until one clause has happened and the kernel has let go of the others. */
static int wait_for_one(weft__cord *c, selection *s, unsigned kinds)
{
    if (has(kinds, WEFT_CLAUSE_FD))
        submit_fds(c, s);
    if (LIKELY(s->winner < 0)) {
        join_lines(c, s);
        if (has(kinds, WEFT_CLAUSE_TIME))
            arm_timer(c, s);
        return weft__wait_int(c, &waits_select, s);
    }
    cancel_fds(s);
    return s->fds_pending == 0 ? s->winner : weft__wait_int(c, &weft__waits_release, s);
}

/* The same with shared channels. */
static int wait_in_contest(weft__cord *c, selection *s, unsigned kinds, bool *is_news)
{
    s->tour = weft__tour_new(c, s->clauses, s->n, deliver_turn);
    if (s->tour == NULL)
        return -ENOMEM;
    *is_news = !join_contest(c, s);
    if (*is_news) {
        end_tour(s);
        return -EAGAIN;
    }
    if (has(kinds, WEFT_CLAUSE_TIME))
        arm_timer(c, s);
    if (has(kinds, WEFT_CLAUSE_FD))
        submit_fds(c, s);
    if (LIKELY(s->winner < 0) || !claim(s)) {
        s->winner = -1; /* of what a descriptor has, nothing is taken by having seen it */
        return weft__wait_int(c, &waits_select, s);
    }
    bool is_released = leave_all(s);
    end_tour(s);
    return is_released ? s->winner : weft__wait_int(c, &weft__waits_release, s);
}

static size_t count_fds(const weft_clause *clauses, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += clauses[i].kind == WEFT_CLAUSE_FD;
    return count;
}

int weft__select_wait(weft__cord *c, weft_clause *clauses, size_t n, unsigned kinds, bool *is_news)
{
    *is_news = false;
    selection s = {.fiber = c->current, .clauses = clauses, .n = n, .winner = -1};
    weft__timer_init(&s.timer, time_is_over);
    if (has(kinds, WEFT_CLAUSE_MESSAGE) && weft__mailbox_of(s.fiber) == NULL)
        return -ENOMEM;
    fd_wait few[FDS_ON_STACK];
    size_t fds_count = has(kinds, WEFT_CLAUSE_FD) ? count_fds(clauses, n) : 0;
    s.fds = fds_count <= FDS_ON_STACK ? few : malloc(fds_count * sizeof *s.fds);
    if (s.fds == NULL)
        return -ENOMEM;
    bool is_contested = kinds & WEFT__KINDS_SHARED;
    int rc = is_contested ? wait_in_contest(c, &s, kinds, is_news) : wait_for_one(c, &s, kinds);
    if (s.fds != few)
        free(s.fds);
    return rc;
}

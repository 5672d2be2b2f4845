/*
 * The wait of a select without a ready clause. Each clause waits where a single call would wait: in
 * a wait queue, in a timer or at the backend. The first clause that is woken removes all other
 * clauses in the same step. No clause can therefore happen twice or be undone, even if two selects
 * wait for each other.
 *
 * Only a poll of a descriptor may take time to cancel. The caller then waits until the kernel has
 * released the poll. A late poll result is discarded. No data is lost, because a poll consumes no
 * data.
 *
 * An event or a signal may come from another thread, and its message may be in flight when another
 * clause wins. An event then delays the return until the message has arrived (clause.h). A message
 * that no select takes goes to the next waiter, or the object stores it.
 *
 * If a clause has a shared channel, other threads can wake the select. Each waker must first claim
 * the weft__select_token of the select. The select leaves its other wait queues when its own thread
 * receives the wake-up.
 */
#include "sync/select.h"

#include "core/fiber/mailbox.h"
#include "core/lifetime/cancel.h"
#include "core/op/op.h"
#include "sync/clause.h"
#include "sync/select_shared.h"

#include <math.h>
#include <stdlib.h>

/* The number of polls that need no heap allocation. */
#define FDS_ON_STACK 4

/* A poll of a descriptor at the backend. */
typedef struct fd_wait {
    weft__op op; /* op.owner is the selection */
    weft_clause *clause;
    bool is_pending;
} fd_wait;

/* A waiting select, in the stack frame of its caller. */
typedef struct selection {
    weft__select_token
        token; /* the first field, because waiters point to it; used only with shared_set */
    /* NULL: no clause has a shared channel, or the select is over. */
    weft__select_shared *shared_set;
    weft__fiber *fiber;
    weft_clause *clauses;
    size_t n;
    int winner;            /* index of the clause that has happened; -1: none */
    weft_clause *earliest; /* the TIME clause with the least time; NULL: none */
    weft__timer timer;     /* for earliest */
    fd_wait *fds;
    size_t fds_count;
    size_t fds_pending; /* polls that the backend still holds */
    bool has_joined;    /* weft__clauses_join was called */
    size_t in_flight;   /* result of weft__clauses_leave, less the offers since */
    int error;          /* the result without a winner */
} selection;

_Static_assert(sizeof(weft__waiter) <= sizeof(((weft_clause *)NULL)->weft__private),
               "the waiter of a clause is too large");

/*
 * Return the waiter of a clause. Its value field points to the selection. Wait queues do not use
 * the value field.
 */
static weft__waiter *waiter_of(weft_clause *clause)
{
    return (weft__waiter *)(void *)clause->weft__private;
}

static weft_clause *clause_of(weft__waiter *w)
{
    void *memory = w;
    return CONTAINER_OF(memory, weft_clause, weft__private);
}

/* Leaving wait queues, the timer and the backend. */

/* The kinds of clauses that do not wait in a wait queue, as bits. */
#define KINDS_WITHOUT_QUEUE \
    (1u << WEFT_CLAUSE_NEVER | 1u << WEFT_CLAUSE_TIME | 1u << WEFT_CLAUSE_FD | WEFT__KINDS_JOINED)

static bool waits_in_queue(const weft_clause *clause)
{
    return !(KINDS_WITHOUT_QUEUE & 1u << clause->kind);
}

static inline void leave_queues(selection *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (waits_in_queue(&s->clauses[i]))
            weft__waitq_leave(waiter_of(&s->clauses[i]));
}

COLD static void leave_shared_queues(selection *s)
{
    weft__select_shared_lock(s->shared_set);
    leave_queues(s);
    weft__select_shared_unlock(s->shared_set);
}

/*
 * Claim the right to complete the select. Returns false if another thread has already claimed it.
 */
static bool selection_claim(selection *s)
{
    return LIKELY(s->shared_set == NULL) || weft__select_token_claim(&s->token);
}

/*
 * Free the set of shared channels. The select must not be in a wait queue, and no wake-up may be in
 * flight.
 */
static void select_shared_end(selection *s)
{
    if (LIKELY(s->shared_set == NULL))
        return;
    weft__select_shared_free(s->shared_set);
    s->shared_set = NULL;
}

/* Record that the backend has released a poll. */
static void fd_wait_released(selection *s, fd_wait *w)
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
            fd_wait_released(s, &s->fds[i]);
}

/* Leave the backend and the objects of clauses. Returns false if one of them is not done. */
static bool leave_sources(selection *s)
{
    cancel_fds(s);
    if (UNLIKELY(s->has_joined))
        s->in_flight = weft__clauses_leave(s->clauses, s->n);
    return s->fds_pending + s->in_flight == 0;
}

/*
 * Leave all wait queues, the timer, the backend and the objects of clauses. Returns false if the
 * backend still holds a poll, or a wake-up is in flight.
 */
static bool selection_leave(selection *s)
{
    if (LIKELY(s->shared_set == NULL))
        leave_queues(s);
    else
        leave_shared_queues(s);
    weft__unhold_timer(weft__cord_self, s->fiber, &s->timer);
    return leave_sources(s);
}

/* The wait of a select that is over, until its polls and the objects of its clauses are done. */
static const weft__wait_kind waits_sources = {.name = "the release of its clauses",
                                              .is_release = true};

/*
 * Cancel a select. Poll results that arrive later are discarded. If another thread has claimed the
 * select, leave the other wait queues and return false. The wake-up in flight then wakes the fiber.
 */
static bool leave_select(weft__fiber *f)
{
    selection *s = f->wait_object;
    bool is_ours = selection_claim(s), is_released = selection_leave(s);
    if (!is_ours)
        return false;
    select_shared_end(s);
    if (is_released)
        return true;
    f->waits_in = &waits_sources;
    return false;
}

/* Leave the local wait queues in a child of weft_fork. The child does not use shared channels. */
static bool forget_select(weft__fiber *f)
{
    selection *s = f->wait_object;
    for (size_t i = 0; i < s->n; i++) {
        weft__waiter *w = waiter_of(&s->clauses[i]);
        if (waits_in_queue(&s->clauses[i]) && !weft__select_shared_has(s->shared_set, w->waitq))
            weft__waitq_leave(w);
    }
    if (s->has_joined)
        weft__clauses_forget(s->clauses, s->n);
    return true;
}

static const weft__wait_kind waits_select = {"a select", .leave = leave_select,
                                             .forget = forget_select};

/* Complete the select with a clause. The caller must have claimed the select. */
static void clause_complete(selection *s, weft_clause *clause, weft_value value)
{
    clause->value = value;
    s->winner = (int)(clause - s->clauses);
    bool is_released = selection_leave(s);
    select_shared_end(s);
    if (is_released)
        weft__wake(weft__cord_self, s->fiber, s->winner, WEFT__TAIL);
    else
        s->fiber->waits_in = &waits_sources;
}

static void clause_woken(weft__waiter *w, weft_value value)
{
    clause_complete((selection *)w->value, clause_of(w), value);
}

static void selection_timed_out(weft__timer *timer)
{
    selection *s = CONTAINER_OF(timer, selection, timer);
    weft__timer_fired(weft__cord_self, s->fiber);
    if (selection_claim(s))
        clause_complete(s, s->earliest, 0);
}

/* Handle a wake-up by another thread. If the fiber has ended with its thread, only free the set. */
static void deliver_wake(weft__cord *c, weft__remote_msg *msg)
{
    weft__select_shared *set = CONTAINER_OF(msg, weft__select_shared, wake.msg);
    weft__fiber *f = c != NULL ? weft__fiber_find(c, msg->fiber) : NULL;
    selection *s = f != NULL && f->waits_in == &waits_select ? f->wait_object : NULL;
    if (s == NULL || s->shared_set != set) {
        weft__select_shared_free(set);
        return;
    }
    weft_clause *clause = clause_of(set->wake.woken);
    bool is_value = clause->kind == WEFT_CLAUSE_RECV && clause->item == NULL;
    weft__cancel_resolve(f, 0); /* a cancellation after the claim is too late */
    clause_complete(s, clause, is_value && msg->value == 0 ? clause->value : msg->value);
}

/* Wake the fiber if the kernel has released all polls, and no wake-up is in flight. */
static void selection_released(selection *s)
{
    weft__fiber *f = s->fiber;
    if (f->waits_in != &waits_sources || s->fds_pending + s->in_flight > 0)
        return;
    weft_value value = s->winner >= 0 ? s->winner : weft__cancel_resolve(f, s->error);
    weft__wake(weft__cord_self, f, value, WEFT__TAIL);
}

static void fd_done(weft__op *op, intptr_t result)
{
    fd_wait *w = CONTAINER_OF(op, fd_wait, op);
    selection *s = op->owner;
    fd_wait_released(s, w);
    if (s->fiber->waits_in == &waits_select) {
        if (selection_claim(s))
            clause_complete(s, w->clause, result);
    } else {
        selection_released(s);
    }
}

bool weft__clause_offer(weft_clause *clause, weft_value value)
{
    selection *s = (selection *)clause->weft__private[0];
    if (s->fiber->waits_in == &waits_select) {
        bool is_ours = selection_claim(s);
        if (is_ours)
            clause_complete(s, clause, value);
        return is_ours;
    }
    s->in_flight--;
    selection_released(s);
    return false;
}

weft_clause *weft__select_clauses(const weft__fiber *f, size_t *n)
{
    if (f->waits_in != &waits_select && f->waits_in != &waits_sources)
        return NULL;
    const selection *s = f->wait_object;
    *n = s->n;
    return s->clauses;
}

/* Joining wait queues, the timer and the backend. */

static inline void clause_join(selection *s, weft_clause *clause, weft__waitq *waitq,
                               bool has_token)
{
    /*
     * data is the source or the destination of the item. If data is NULL in a receiver, the value
     * is the result of the wait.
     */
    bool is_value = clause->kind == WEFT_CLAUSE_SEND && clause->item == NULL;
    weft__waiter *w = waiter_of(clause);
    *w = (weft__waiter){
        .fiber = s->fiber,
        .on_wake = clause_woken,
        .value = (weft_value)s,
        .data = is_value ? &clause->value : clause->item,
        .how = WEFT__TAIL,
        .has_token = has_token,
    };
    weft__waitq_join(waitq, w);
}

static void clause_join_local(weft__cord *c, selection *s, weft_clause *clause, bool has_token)
{
    weft__fifo *fifo = weft__clause_fifo(c, clause);
    if (fifo != NULL)
        clause_join(s, clause, clause->kind == WEFT_CLAUSE_SEND ? &fifo->senders : &fifo->receivers,
                    has_token);
    else if (clause->kind == WEFT_CLAUSE_ENDED)
        clause_join(s, clause, &weft__fiber_find(c, clause->of.fiber)->live->awaiters, has_token);
    else if (clause->kind == WEFT_CLAUSE_SEM)
        clause_join(s, clause, weft__clause_sem.waitq(clause), has_token);
}

static void join_queues(weft__cord *c, selection *s)
{
    for (size_t i = 0; i < s->n; i++)
        clause_join_local(c, s, &s->clauses[i], false);
}

/*
 * Join a wait queue of a shared channel. Set a destination, because a remote message carries no
 * value.
 */
static void clause_join_shared(selection *s, weft_clause *clause, weft__fifo *fifo)
{
    clause_join(s, clause, clause->kind == WEFT_CLAUSE_SEND ? &fifo->senders : &fifo->receivers,
                true);
    if (clause->item == NULL)
        waiter_of(clause)->data = &clause->value;
}

static void join_all_queues(weft__cord *c, selection *s)
{
    for (size_t i = 0; i < s->n; i++) {
        weft__chan_shared *shared = weft__clause_shared(&s->clauses[i]);
        if (shared != NULL)
            clause_join_shared(s, &s->clauses[i], &shared->fifo);
        else
            clause_join_local(c, s, &s->clauses[i], true);
    }
}

/*
 * Return whether a shared channel is ready. The caller must hold the locks of all shared channels.
 */
static bool is_any_ready(const selection *s)
{
    for (size_t i = 0; i < s->n; i++) {
        const weft_clause *clause = &s->clauses[i];
        const weft__chan_shared *shared = weft__clause_shared(clause);
        if (shared != NULL &&
            (clause->kind == WEFT_CLAUSE_SEND ? weft__fifo_can_put(&shared->fifo)
                                              : weft__fifo_can_take(&shared->fifo)))
            return true;
    }
    return false;
}

/*
 * Join all wait queues of a select with shared channels. After the call has released the locks,
 * other threads may wake the select and free its channels. Returns false if a shared channel is
 * ready.
 */
static bool join_with_shared(weft__cord *c, selection *s)
{
    s->token.wake = &s->shared_set->wake;
    weft__select_shared_lock(s->shared_set);
    bool may_wait = !is_any_ready(s);
    if (may_wait)
        join_all_queues(c, s);
    weft__select_shared_unlock(s->shared_set);
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
        if (weft__random_pick(c, equals))
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

/*
 * Submit all polls. If a descriptor has become ready since the check, stop and make its clause the
 * winner.
 */
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

static inline bool has_kind(unsigned kinds, weft_clause_kind kind)
{
    return kinds & 1u << kind;
}

/*
 * Join the objects of clauses, if there are any. Returns false if the select is over, with a winner
 * or an error.
 */
COLD static bool join_objects(weft__cord *c, selection *s)
{
    s->has_joined = true;
    weft__wait_begin(c, &waits_select, s); /* for weft__select_clauses */
    int rc = weft__clauses_join(c, s->clauses, s->n, s, &s->winner);
    if (rc < 0)
        s->error = rc;
    return rc == 0;
}

/* End a select that is in no wait queue. Wait until the polls and the objects are done. */
static int finish_early(weft__cord *c, selection *s)
{
    if (!leave_sources(s))
        return weft__wait_int(c, &waits_sources, s);
    s->fiber->waits_in = NULL;
    return s->winner >= 0 ? s->winner : s->error;
}

/* Wait until one clause has happened and the kernel has released all polls. */
static int wait_local(weft__cord *c, selection *s, unsigned kinds)
{
    if (has_kind(kinds, WEFT_CLAUSE_FD))
        submit_fds(c, s);
    if (UNLIKELY(s->winner >= 0))
        return finish_early(c, s);
    if (UNLIKELY(kinds & WEFT__KINDS_JOINED) && !join_objects(c, s))
        return finish_early(c, s);
    join_queues(c, s);
    if (has_kind(kinds, WEFT_CLAUSE_TIME))
        arm_timer(c, s);
    return weft__wait_int(c, &waits_select, s);
}

/* Like wait_local, but with shared channels. See weft__select_wait for *must_retry. */
static int wait_with_shared(weft__cord *c, selection *s, unsigned kinds, bool *must_retry)
{
    /* Join objects first: a clause may be performed only before other threads can claim. */
    if (UNLIKELY(kinds & WEFT__KINDS_JOINED) && !join_objects(c, s))
        return finish_early(c, s);
    s->shared_set = weft__select_shared_new(c, s->clauses, s->n, deliver_wake);
    *must_retry = s->shared_set != NULL && !join_with_shared(c, s);
    if (s->shared_set == NULL || *must_retry) {
        s->error = *must_retry ? -EAGAIN : -ENOMEM;
        select_shared_end(s);
        return finish_early(c, s);
    }
    if (has_kind(kinds, WEFT_CLAUSE_TIME))
        arm_timer(c, s);
    if (has_kind(kinds, WEFT_CLAUSE_FD))
        submit_fds(c, s);
    if (LIKELY(s->winner < 0) || !selection_claim(s)) {
        s->winner = -1; /* discard the poll result, because a poll consumes no data */
        return weft__wait_int(c, &waits_select, s);
    }
    bool is_released = selection_leave(s);
    select_shared_end(s);
    if (!is_released)
        return weft__wait_int(c, &waits_sources, s);
    s->fiber->waits_in = NULL; /* set by join_objects */
    return s->winner;
}

static size_t count_fds(const weft_clause *clauses, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += clauses[i].kind == WEFT_CLAUSE_FD;
    return count;
}

int weft__select_wait(weft__cord *c, weft_clause *clauses, size_t n, unsigned kinds,
                      bool *must_retry)
{
    *must_retry = false;
    selection s = {
        .fiber = c->current, .clauses = clauses, .n = n, .winner = -1, .error = -ECANCELED};
    weft__timer_init(&s.timer, selection_timed_out);
    if (has_kind(kinds, WEFT_CLAUSE_MESSAGE) && weft__mailbox_of(s.fiber) == NULL)
        return -ENOMEM;
    fd_wait inline_fds[FDS_ON_STACK];
    size_t fds_count = has_kind(kinds, WEFT_CLAUSE_FD) ? count_fds(clauses, n) : 0;
    s.fds = fds_count <= FDS_ON_STACK ? inline_fds : malloc(fds_count * sizeof *s.fds);
    if (s.fds == NULL)
        return -ENOMEM;
    bool has_token = kinds & WEFT__KINDS_SHARED;
    int rc = has_token ? wait_with_shared(c, &s, kinds, must_retry) : wait_local(c, &s, kinds);
    if (s.fds != inline_fds)
        free(s.fds);
    return rc;
}

/*
 * Events. One atomic word holds the state: clear, set, or the id of the leader.
 *
 * The fibers that wait for an event are a batch. The leader is the first fiber of the batch. A
 * batch belongs to one thread. Only that thread accesses the list of the batch. Other threads
 * access only the word.
 *
 * If fibers wait, weft_event_set removes the id from the word and leaves the event clear. If the
 * batch belongs to the calling thread, the call also wakes the batch. Otherwise the call sends a
 * remote message. The fibers remain in their waits until the message arrives, even if the fibers
 * are cancelled. The setting thread does not access the event after the change of the word, because
 * a woken fiber may free the event. Fibers that begin to wait meanwhile are another batch.
 *
 * If the leader leaves the batch before a set, it replaces its id in the word with the id of the
 * next fiber.
 *
 * A select may perform another clause while the message is in flight. The select waits for the
 * message, so that the event exists until then. If no fiber of the batch takes the event, the event
 * is set again.
 *
 * If the leader has ended when the message arrives, the message is discarded. The thread of the
 * leader has then ended too, and the event may already be freed.
 *
 * In a child of weft_fork, the word may be the id of a fiber of another thread, which exists only
 * in the parent. Such an event is clear.
 */
#include "core/cord/inbox.h"
#include "core/lifetime/cancel.h"
#include "sync/clause.h"

#include <weft/error.h>
#include <weft/sync.h>

#include <stdlib.h>

typedef _Atomic(uint64_t) event; /* CLEAR, IS_SET, or the id of the leader */

_Static_assert(sizeof(event) <= sizeof(weft_event), "weft_event is too small");
_Static_assert(_Alignof(event) <= _Alignof(weft_event), "weft_event is aligned too little");

/* States that are not ids. No fiber has the id 0 or 1. */
enum { CLEAR = 0, IS_SET = 1 };

/*
 * The wait of a cancelled fiber after another thread has set the event. The remote message is in
 * flight.
 */
static const weft__wait_kind waits_remote_wake = {.name = "the wake-up by an event"};

static event *event_of(weft_event *handle)
{
    return (event *)(void *)handle;
}

/*
 * Replace the value *from of the word with to, atomically. If the word has another value, store
 * that value in *from and return false. Use acq_rel even if both values are equal, because each set
 * must publish the preceding writes.
 */
static bool event_exchange(event *e, uint64_t *from, uint64_t to)
{
    return atomic_compare_exchange_strong_explicit(e, from, to, memory_order_acq_rel,
                                                   memory_order_acquire);
}

/* A wait for an event: the wait_object of a fiber in weft_event_wait, or the record of a clause. */
typedef struct event_wait {
    weft__list link; /* the batch in FIFO order: a circular list without a head */
    weft__fiber *fiber;
    event *event;        /* NULL: in no batch */
    uint64_t batch;      /* the number of the batch, unique in the thread */
    weft_clause *clause; /* NULL: the fiber is in weft_event_wait */
} event_wait;

_Static_assert(sizeof(event_wait) <= WEFT__CLAUSE_RECORD_BYTES,
               "a record of a clause is too small");

static __thread uint64_t batches; /* the number of the last batch */

static event_wait *wait_of(weft__list *link)
{
    return CONTAINER_OF(link, event_wait, link);
}

static bool is_id(uint64_t word)
{
    return word != CLEAR && word != IS_SET;
}

/*
 * Return whether a leader of another thread does not exist in this process. A leader that leaves
 * changes the word first. So if the word still has the id, no fiber waits.
 */
static bool leader_is_gone(const weft__cord *c, uint64_t word)
{
    bool is_own = c != NULL && weft__fiber_cord(word) == c->index;
    return !is_own && !weft__remote_fiber_exists(word);
}

static const weft__wait_kind waits_event;

/*
 * Return the wait of a fiber in weft_select for an event. A select has at most one wait for each
 * event, even if several clauses have the event.
 */
COLD static event_wait *clause_wait_find(const weft__fiber *f, const event *e)
{
    size_t n = 0;
    weft_clause *clauses = weft__select_clauses(f, &n);
    for (size_t i = 0; clauses != NULL && i < n; i++) {
        event_wait *w = weft__clause_record(&clauses[i]);
        if (clauses[i].kind == WEFT_CLAUSE_EVENT && w->event == e)
            return w;
    }
    return NULL;
}

/*
 * Return the wait of a fiber for an event. Return NULL if the fiber belongs to another thread or
 * does not wait for the event.
 */
static event_wait *wait_find(const weft__cord *c, weft_fiber fiber, const event *e)
{
    weft__fiber *f = weft__fiber_cord(fiber) == c->index ? weft__fiber_find(c, fiber) : NULL;
    if (f == NULL)
        return NULL;
    if (f->waits_in != &waits_event && f->waits_in != &waits_remote_wake)
        return clause_wait_find(f, e);
    event_wait *w = f->wait_object;
    return w->event == e ? w : NULL;
}

/*
 * Leave the batch. Return false if a thread has already set the event for the batch. A thread may
 * set the event after the check of the word. The set then wakes the rest of the batch.
 */
static bool wait_leave(event_wait *w)
{
    uint64_t word = atomic_load_explicit(w->event, memory_order_acquire), next;
    do {
        const event_wait *leader = is_id(word) ? wait_find(weft__cord_self, word, w->event) : NULL;
        if (leader == NULL || leader->batch != w->batch)
            return false;
        if (leader != w)
            break;
        next = weft__list_is_empty(&w->link) ? CLEAR : wait_of(w->link.next)->fiber->id;
    } while (!event_exchange(w->event, &word, next));
    weft__list_remove(&w->link);
    w->event = NULL;
    return true;
}

static bool event_leave(weft__fiber *f)
{
    bool has_left = wait_leave(f->wait_object);
    if (UNLIKELY(!has_left))
        f->waits_in = &waits_remote_wake;
    return has_left;
}

static void describe_event(const weft__fiber *f, weft_info *out)
{
    out->waits_on = ((const event_wait *)f->wait_object)->event;
}

static const weft__wait_kind waits_event = {"an event", .leave = event_leave, .forget = event_leave,
                                            .describe = describe_event};

/* Wake a fiber that has left its batch. Returns false if its select does not take the event. */
static bool wait_wake(weft__cord *c, event_wait *w)
{
    if (UNLIKELY(w->clause != NULL))
        return weft__clause_offer(w->clause, 0);
    weft__wake(c, w->fiber, weft__cancel_resolve(w->fiber, 0), WEFT__TAIL);
    return true;
}

/*
 * Wake a batch, the leader first. The frames of woken fibers are valid until the fibers run. Return
 * false if no fiber has taken the event.
 */
static bool batch_wake(weft__cord *c, event_wait *first)
{
    weft__list batch;
    weft__list_insert(&first->link, &batch);
    bool is_taken = false;
    weft__list *link;
    while ((link = weft__list_pop(&batch)) != NULL) {
        wait_of(link)->event = NULL;
        is_taken |= wait_wake(c, wait_of(link));
    }
    return is_taken;
}

static int event_set_with(event *e, weft__remote_msg *spare);

/* Wake the batch of a leader. If no fiber takes the event, set the event again with msg. */
static void event_wake_remote(weft__cord *c, weft__remote_msg *msg)
{
    event *e = (event *)msg->value;
    event_wait *first = c != NULL ? wait_find(c, msg->fiber, e) : NULL;
    if (first != NULL && UNLIKELY(!batch_wake(c, first)))
        (void)event_set_with(e, msg);
    else
        free(msg);
}

/*
 * Set an event that a batch of another thread waits for. *word must be the id of the leader. If the
 * word has changed, store the new value in *word. The function owns msg if it returns 0.
 *
 * Returns 0, or:
 * -EAGAIN if the word has changed
 */
static int event_set_remote(event *e, uint64_t *word, weft__remote_msg *msg)
{
    *msg = (weft__remote_msg){NULL, event_wake_remote, *word, (weft_value)e, 0};
    if (!event_exchange(e, word, CLEAR))
        return -EAGAIN;
    if (weft__cord_post(msg) < 0)
        free(msg);
    return 0;
}

/*
 * Like event_set_remote, but for a batch of this thread. If no fiber takes the event, set the event
 * again. The selects of the batch then perform other clauses.
 */
static int event_set_local(weft__cord *c, event *e, uint64_t *word)
{
    event_wait *first = wait_find(c, *word, e);
    if (!event_exchange(e, word, CLEAR))
        return -EAGAIN;
    *word = CLEAR;
    return first == NULL || LIKELY(batch_wake(c, first)) ? 0 : -EAGAIN;
}

/*
 * Set an event. spare is memory for a message, or NULL. The function owns spare.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted; not if there is a spare message
 */
static int event_set_with(event *e, weft__remote_msg *spare)
{
    weft__cord *c = weft__cord_self; /* NULL in a plain thread, which may set an event */
    uint64_t word = atomic_load_explicit(e, memory_order_acquire);
    int rc;
    do {
        if (!is_id(word) || leader_is_gone(c, word)) {
            rc = event_exchange(e, &word, IS_SET) ? 0 : -EAGAIN;
        } else if (c != NULL && weft__fiber_cord(word) == c->index) {
            rc = event_set_local(c, e, &word);
        } else {
            /* Allocate before the exchange, which cannot be undone. */
            spare = spare != NULL ? spare : malloc(sizeof *spare);
            rc = spare != NULL ? event_set_remote(e, &word, spare) : -ENOMEM;
            spare = rc == 0 ? NULL : spare;
        }
    } while (rc == -EAGAIN);
    free(spare);
    return rc;
}

int weft_event_set(weft_event *handle)
{
    if (weft__cord_is_forbidden(weft__cord_self))
        return weft__no_cord();
    return event_set_with(event_of(handle), NULL);
}

void weft_event_clear(weft_event *handle)
{
    uint64_t word = IS_SET;
    event_exchange(event_of(handle), &word, CLEAR);
}

bool weft_event_is_set(const weft_event *handle)
{
    return atomic_load_explicit((const event *)(const void *)handle, memory_order_acquire) ==
           IS_SET;
}

/*
 * Join the batch whose leader has the id word. If word is CLEAR or the leader is gone, begin a
 * batch.
 *
 * Another thread may set the event before the fiber has joined. The remote message then also
 * wakes this fiber, because this thread delivers the message later.
 *
 * Returns 0, or:
 * -EAGAIN if the word has changed
 * -EXDEV if the batch belongs to another thread
 */
static int batch_join(weft__cord *c, event_wait *w, event *e, uint64_t word)
{
    if (word != CLEAR && !leader_is_gone(c, word)) {
        event_wait *leader = wait_find(c, word, e);
        if (leader == NULL)
            return -EXDEV;
        w->batch = leader->batch;
        weft__list_insert(&leader->link, &w->link);
    } else {
        w->batch = ++batches;
        weft__list_init(&w->link);
        if (!event_exchange(e, &word, w->fiber->id))
            return -EAGAIN;
    }
    w->event = e;
    return 0;
}

/*
 * Take an event, or begin to wait for it. Retry if another thread sets the event meanwhile.
 *
 * Returns 1 if the event was set, 0 if w waits, the error of a pending cancellation, or:
 * -EXDEV if a fiber of another thread waits for the event
 */
static int event_take_or_join(weft__cord *c, event_wait *w, event *e)
{
    int rc;
    do {
        uint64_t word = IS_SET;
        if (event_exchange(e, &word, CLEAR))
            return 1;
        if (UNLIKELY(c->current->pending))
            return (int)weft__call_refuse(c);
        rc = batch_join(c, w, e, word);
    } while (rc == -EAGAIN);
    if (UNLIKELY(rc < 0))
        return weft_fail(rc, "%s: a fiber of another thread waits for the event",
                         w->clause != NULL ? "weft_select" : "weft_event_wait");
    return 0;
}

int weft_event_wait(weft_event *handle)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    event_wait w = {.fiber = c->current};
    int rc = event_take_or_join(c, &w, event_of(handle));
    if (rc != 0)
        return rc < 0 ? rc : 0;
    return weft__wait_int(c, &waits_event, &w);
}

/* Clauses. */

static int event_clause_check(const weft_clause *clause, const char **fault)
{
    (void)fault;
    return weft_event_is_set(clause->of.event);
}

static bool event_clause_take(weft_clause *clause)
{
    uint64_t word = IS_SET;
    clause->value = 0;
    return event_exchange(event_of(clause->of.event), &word, CLEAR);
}

static int event_clause_join(weft__cord *c, weft_clause *clause)
{
    event *e = event_of(clause->of.event);
    if (clause_wait_find(c->current, e) != NULL)
        return 0; /* another clause waits for the event */
    event_wait *w = weft__clause_record(clause);
    w->fiber = c->current;
    w->clause = clause;
    clause->value = 0;
    return event_take_or_join(c, w, e);
}

static bool event_clause_leave(weft_clause *clause)
{
    event_wait *w = weft__clause_record(clause);
    return w->event == NULL || wait_leave(w);
}

const weft__clause_ops weft__clause_event = {.check = event_clause_check,
                                             .take = event_clause_take,
                                             .join = event_clause_join,
                                             .leave = event_clause_leave,
                                             .forget = event_clause_leave};

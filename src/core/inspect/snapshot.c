/*
 * Snapshots: request a copy of each cord, wait for the replies, and make a snapshot of the copies.
 *
 * A collection has one request per cord. A request is a message in the inbox of the cord, so that
 * the cord replies at its next tick, or when it is woken. A message is only delivered once, and
 * cannot be taken back. Therefore each message holds a reference to the collection. A late reply
 * finds that the request was abandoned, and copies nothing.
 *
 * A cord that blocks in this file does not read its inbox. It searches its inbox for requests
 * instead, so that two cords can wait for each other.
 */
#include "core/inspect/snapshot.h"

#include "base/clock.h"
#include "base/libc.h"
#include "core/cord/inbox.h"
#include "core/cord/registry.h"
#include "core/debug/stall_trace.h"
#include "core/inspect/copy.h"
#include "core/inspect/stack_advice.h"
#include "core/inspect/symbol.h"
#include "core/lifetime/cancel.h"
#include "core/sched/sched.h"

#include <weft/error.h>

#include <stdlib.h>

typedef enum request_state {
    REQUEST_PENDING,   /* in the inbox of the cord */
    REQUEST_COPYING,   /* the cord makes the copy */
    REQUEST_DONE,      /* rc and copy are valid */
    REQUEST_GONE,      /* the cord has ended */
    REQUEST_ABANDONED, /* the cord did not reply in time; a later delivery copies nothing */
} request_state;

typedef struct request {
    weft__remote_msg msg;
    struct collection *collection;
    struct request *next; /* of the same collection; NULL: the last */
    weft_cord cord;
    request_state state; /* protected by lock */
    int rc;              /* result of the copy */
    weft__cord_copy copy;
} request;

typedef struct collection {
    weft__remote_msg reply_msg; /* to the waiting fiber */
    atomic_int refs;            /* the caller, each undelivered message */
    weft_snapshot_options options;
    int64_t posted_ns;
    request *first, **last;
    unsigned count; /* of requests */
    unsigned left;  /* protected by lock; requests that are pending or copying */
    bool is_waited; /* protected by lock; the last reply must send reply_msg */
} collection;

/* Protects the states of all requests. `changed` wakes the blocked threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

void weft__snapshot_after_fork(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    weft__symbols_after_fork();
    weft__stack_advice_after_fork();
}

static void collection_unref(collection *col)
{
    if (atomic_fetch_sub_explicit(&col->refs, 1, memory_order_acq_rel) > 1)
        return;
    while (col->first != NULL) {
        request *r = col->first;
        col->first = r->next;
        weft__cord_copy_free(&r->copy);
        free(r);
    }
    free(col);
}

/*
 * Replies.
 */

/* Take a pending request. Return false if the request was taken or abandoned. */
static bool request_begin(request *r)
{
    pthread_mutex_lock(&lock);
    bool is_ours = r->state == REQUEST_PENDING;
    if (is_ours)
        r->state = REQUEST_COPYING;
    pthread_mutex_unlock(&lock);
    return is_ours;
}

/* End a request. The last reply of a collection wakes the caller. */
static void request_end(request *r, request_state state, int rc)
{
    collection *col = r->collection;
    pthread_mutex_lock(&lock);
    r->state = state;
    r->rc = rc;
    bool must_reply = --col->left == 0 && col->is_waited;
    if (must_reply)
        atomic_fetch_add_explicit(&col->refs, 1, memory_order_relaxed);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    if (must_reply && weft__cord_post(&col->reply_msg) < 0)
        collection_unref(col); /* the cord of the caller has ended */
}

static void request_serve(weft__cord *c, request *r)
{
    if (!request_begin(r))
        return;
    if (c == NULL || c->main->id != r->cord) {
        request_end(r, REQUEST_GONE, 0);
        return;
    }
    int rc = weft__cord_copy_make(c, &r->collection->options, &r->copy);
    request_end(r, REQUEST_DONE, rc);
}

/*
 * A request is not an event for the fibers of the cord. A wait for foreign threads that a request
 * has interrupted does not count (idle.c).
 */
static void deliver_request(weft__cord *c, weft__remote_msg *msg)
{
    request *r = CONTAINER_OF(msg, request, msg);
    if (c != NULL && c->foreign_checks > 0)
        c->foreign_checks--;
    request_serve(c, r);
    collection_unref(r->collection);
}

static void serve_in_inbox(weft__cord *c, weft__remote_msg *msg)
{
    if (msg->deliver == deliver_request)
        request_serve(c, CONTAINER_OF(msg, request, msg));
}

static void deliver_reply(weft__cord *c, weft__remote_msg *msg)
{
    collection *col = CONTAINER_OF(msg, collection, reply_msg);
    weft__fiber *f = weft__fiber_waiting(c, msg->fiber, col);
    if (f != NULL) {
        weft__unhold_timer(c, f, &f->live->timer);
        weft__wake(c, f, weft__cancel_resolve(f, 0), WEFT__TAIL);
    }
    collection_unref(col);
}

/*
 * Requests.
 */

/* Create a request and send it to a cord. The caller's own cord replies at once. */
static int request_post(collection *col, weft__cord *c)
{
    request *r = calloc(1, sizeof *r);
    if (r == NULL)
        return -ENOMEM;
    r->collection = col;
    r->cord = c->main->id;
    r->msg = (weft__remote_msg){.deliver = deliver_request, .fiber = r->cord};
    *col->last = r;
    col->last = &r->next;
    col->count++;
    pthread_mutex_lock(&lock);
    col->left++;
    pthread_mutex_unlock(&lock);
    if (c == weft__cord_self)
        return 0;
    atomic_fetch_add_explicit(&col->refs, 1, memory_order_relaxed);
    weft__inbox_push(c, &r->msg);
    return 0;
}

/* The argument of post_to_cord. */
typedef struct posting {
    collection *collection;
    int rc;
} posting;

static void post_to_cord(weft__cord *c, void *context)
{
    posting *p = context;
    const weft_snapshot_options *o = &p->collection->options;
    bool is_asked = (o->cord == 0 || c->main->id == o->cord) &&
                    (o->fiber == 0 || weft__fiber_cord(o->fiber) == c->index);
    if (is_asked && p->rc == 0)
        p->rc = request_post(p->collection, c);
}

/* Send requests to all cords that the options name. Copy the fibers of the own cord. */
static int collection_post(collection *col)
{
    posting p = {col, 0};
    col->posted_ns = weft__clock_ns();
    weft__registry_each(post_to_cord, &p);
    bool names_one = col->options.cord != 0 || col->options.fiber != 0;
    if (p.rc == 0 && col->count == 0 && names_one)
        return -ESRCH;
    /* Another cord that blocks in this file must look into its inbox. */
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    const weft__cord *self = weft__cord_self;
    for (request *r = col->first; self != NULL && r != NULL; r = r->next)
        if (weft__fiber_cord(r->cord) == self->index)
            request_serve(weft__cord_self, r);
    return p.rc;
}

static collection *collection_new(const weft_snapshot_options *options)
{
    collection *col = calloc(1, sizeof *col);
    if (col == NULL)
        return NULL;
    if (options != NULL)
        col->options = *options;
    if (col->options.timeout_s == 0)
        col->options.timeout_s = WEFT__SNAPSHOT_REPLY_S;
    if (col->options.frames_max > WEFT__FRAMES_MAX)
        col->options.frames_max = WEFT__FRAMES_MAX;
    atomic_init(&col->refs, 1);
    col->last = &col->first;
    return col;
}

/*
 * Waiting.
 */

/* Abandon the requests that no cord has taken yet. The caller must hold the lock. */
static void abandon_pending(collection *col)
{
    for (request *r = col->first; r != NULL; r = r->next)
        if (r->state == REQUEST_PENDING) {
            r->state = REQUEST_ABANDONED;
            col->left--;
        }
}

/* Reply to requests of other threads. The caller must hold the lock, which the call releases. */
static bool serve_own_inbox(void)
{
    weft__cord *c = weft__cord_self;
    if (c == NULL || weft__inbox_is_empty(c))
        return false;
    pthread_mutex_unlock(&lock);
    weft__inbox_each(c, serve_in_inbox);
    pthread_mutex_lock(&lock);
    return true;
}

/*
 * Block the thread until all cords have replied. Abandon the pending requests at until_ns. A cord
 * that makes a copy at that time replies soon.
 */
static void wait_blocking(collection *col, int64_t until_ns)
{
    struct timespec until = weft__clock_spec(until_ns);
    int cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    pthread_mutex_lock(&lock);
    bool is_late = false;
    while (col->left > 0) {
        if (serve_own_inbox())
            continue;
        if (is_late)
            pthread_cond_wait(&changed, &lock);
        else if (pthread_cond_clockwait(&changed, &lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT) {
            is_late = true;
            abandon_pending(col);
        }
    }
    pthread_mutex_unlock(&lock);
    pthread_setcancelstate(cancel_state, NULL);
}

static bool leave_replies(weft__fiber *f)
{
    weft__unhold_timer(weft__cord_self, f, &f->live->timer);
    return true;
}

static const weft__wait_kind waits_replies = {"the state of other threads", .leave = leave_replies};

/* Return whether a reply is missing, and set is_waited. If is_late, first abandon requests. */
static bool is_reply_missing(collection *col, bool is_late)
{
    pthread_mutex_lock(&lock);
    if (is_late)
        abandon_pending(col);
    bool is_waited = col->is_waited = col->left > 0;
    pthread_mutex_unlock(&lock);
    return is_waited;
}

/* Like wait_blocking, but switch to other fibers. Returns 0, or an error of a blocking call. */
static int wait_switching(weft__cord *c, collection *col)
{
    weft__fiber *f = c->current;
    int rc = 0;
    col->reply_msg = (weft__remote_msg){.deliver = deliver_reply, .fiber = f->id};
    int64_t at_ns = weft__deadline(c, col->options.timeout_s);
    for (bool is_late = false; rc == 0 && is_reply_missing(col, is_late); is_late = true) {
        if (f->pending)
            return (int)weft__call_refuse(c);
        if (!is_late && at_ns != WEFT__NEVER)
            weft__hold_timer(c, f, &f->live->timer, at_ns);
        rc = weft__wait_int(c, &waits_replies, col);
    }
    return rc;
}

/*
 * Stalled cords.
 */

static int request_copy_stalled(request *r, bool has_signal)
{
    const collection *col = r->collection;
    uint32_t index = weft__fiber_cord(r->cord);
    weft__cord *c = weft__registry_acquire(index);
    if (c == NULL)
        return 0;
    int rc = 0;
    bool is_same = c->main->id == r->cord;
    if (is_same)
        rc = weft__cord_copy_stalled(c, col->posted_ns, has_signal, &r->copy);
    weft__registry_release(index);
    if (r->copy.is_traced) {
        int trace_rc = weft__cord_copy_add_trace(&r->copy, col->options.frames_max);
        rc = rc < 0 ? rc : trace_rc;
    }
    if (is_same)
        r->rc = rc;
    return rc;
}

static int copy_stalled_cords(collection *col)
{
    bool has_stalls = false;
    for (const request *r = col->first; r != NULL; r = r->next)
        has_stalls = has_stalls || r->state == REQUEST_ABANDONED;
    if (!has_stalls)
        return 0;
    bool has_signal = col->options.frames_max > 0 && weft__stall_signal_reserve() >= 0;
    int rc = 0;
    for (request *r = col->first; r != NULL && rc == 0; r = r->next)
        if (r->state == REQUEST_ABANDONED)
            rc = request_copy_stalled(r, has_signal);
    if (has_signal)
        weft__stall_signal_release();
    return rc;
}

/*
 * Results.
 */

/* Return 0, or the first error of a cord. A fiber of a stalled cord cannot be found by its id. */
static int collection_result(const collection *col)
{
    size_t copies = 0;
    for (const request *r = col->first; r != NULL; r = r->next) {
        if (r->rc < 0)
            return r->rc;
        copies += r->copy.fibers != NULL;
    }
    bool names_one = col->options.cord != 0 || col->options.fiber != 0;
    return names_one && copies == 0 ? -ESRCH : 0;
}

static int collection_finish(collection *col, weft_snapshot **out)
{
    int rc = copy_stalled_cords(col);
    if (rc == 0)
        rc = collection_result(col);
    if (rc < 0)
        return rc;
    weft__cord_copy **copies = calloc(col->count + 1, sizeof *copies);
    if (copies == NULL)
        return -ENOMEM;
    size_t count = 0;
    for (request *r = col->first; r != NULL; r = r->next)
        if (r->copy.fibers != NULL)
            copies[count++] = &r->copy;
    rc = weft__snapshot_make(copies, count, &col->options, out);
    free(copies);
    return rc;
}

static int64_t timeout_ns(const collection *col)
{
    int64_t ns = weft__whole_ns(col->options.timeout_s * 1e9);
    return weft__ns_later(col->posted_ns, ns);
}

static int snapshot_take(weft__cord *c, const weft_snapshot_options *options, weft_snapshot **out)
{
    if (options != NULL && !(options->timeout_s >= 0))
        return weft_fail(-EINVAL, "weft_snapshot_take: timeout_s is %g", options->timeout_s);
    collection *col = collection_new(options);
    if (col == NULL)
        return -ENOMEM;
    int rc = collection_post(col);
    if (rc == 0 && c != NULL)
        rc = wait_switching(c, col);
    else if (rc == 0)
        wait_blocking(col, timeout_ns(col));
    if (rc == 0)
        rc = collection_finish(col, out);
    if (rc < 0) { /* late replies must not wake the caller */
        pthread_mutex_lock(&lock);
        col->is_waited = false;
        abandon_pending(col);
        pthread_mutex_unlock(&lock);
    }
    collection_unref(col);
    return rc;
}

int weft__snapshot_take_blocking(const weft_snapshot_options *options, weft_snapshot **out)
{
    if (weft__is_copy)
        return weft__no_cord();
    return snapshot_take(NULL, options, out);
}

/* A virtual clock does not advance while a thread of the program runs, so block the thread. */
int weft_snapshot_take(const weft_snapshot_options *options, weft_snapshot **out)
{
    weft__cord *c = weft__cord_self;
    if (weft__is_copy)
        return weft__no_cord();
    if (c != NULL && c->current->pending)
        return (int)weft__call_refuse(c);
    bool is_virtual = c != NULL && weft__backend_is_virtual(c->backend);
    return snapshot_take(is_virtual ? NULL : c, options, out);
}

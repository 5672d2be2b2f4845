/* Work: handle the items of a queue until the caller is cancelled. */
#include "hub/jetstream/worker.h"

#include <weft.h>

#include <errno.h>
#include <stdio.h>

#define AT_ONCE_MAX 65536

/* Time limit of a check whether the queue exists. Pulls wait for the check. */
#define CHECK_S 2.0

/* A worker that ends waits so long for the items in transit. */
#define DRAIN_S 1.0

/* The daemon ends at once. Report it if it does not. */
#define PROLONGER_GRACE_S 5.0

/* The hub has a new connection. The server has forgotten the pulls, or sends items to nowhere. */
static void worker_on_connect(weft__hub_watcher *watcher)
{
    weft__worker *w = CONTAINER_OF(watcher, weft__worker, watcher);
    weft__pulls_end(w);
    weft_event_set(&w->wake);
}

static void worker_on_close(weft__hub_watcher *watcher)
{
    weft__worker *w = CONTAINER_OF(watcher, weft__worker, watcher);
    w->failure = -EBADF;
    weft_event_set(&w->wake);
}

/*
 * Return -ENOENT if the queue is deleted, a cancellation, or 0. One attempt only: a consumer whose
 * leader does not reply to this request may still deliver items.
 */
static int worker_check(weft__worker *w)
{
    char subject[WEFT__JS_SUBJECT_BYTES];
    snprintf(subject, sizeof subject, "$JS.API.CONSUMER.INFO.WEFT_Q_%s." WEFT__QUEUE_CONSUMER,
             w->queue);
    weft__publication p = {.subject = weft__slice_of(subject)};
    weft__js_answer answer;
    w->must_check = false;
    int rc = weft__js_attempt(w->hub, &p, CHECK_S, &answer);
    weft__js_answer_free(&answer);
    if (rc == -ENOENT)
        return weft_fail(rc, "weft_hub_work: the queue %s is deleted", w->queue);
    return rc == -EBADF || weft_is_cancelled() ? rc : 0;
}

/* Pull until an error ends the call. Returns the error. */
static int worker_pull(weft__worker *w)
{
    for (;;) {
        double now_s = weft_now();
        double next_s = weft__pulls_check(w, now_s);
        int rc = w->failure < 0 ? w->failure : weft__hub_check(w->hub);
        if (rc == 0 && w->must_check)
            rc = worker_check(w);
        if (rc == 0)
            rc = weft__pull_start(w);
        if (rc == 0)
            rc = weft__js_event_wait(&w->wake, next_s - now_s);
        if (rc < 0)
            return rc;
    }
}

/*
 * Cancel the handlers, and wait for them. Items in transit are given back: their fibers do not run
 * any more. Returns an error that was raised in the caller, or 0.
 */
static int worker_end(weft__worker *w)
{
    w->is_ending = true;
    weft__pulls_drain(w);
    weft_group_cancel(&w->items);
    int rc = weft_group_close(&w->items);
    if (weft__hub_is_connected(w->hub)) {
        WEFT_SHIELD(DRAIN_S) {
            weft__hub_flush(w->hub);
        }
    }
    weft__pulls_end(w);
    return rc == -ECANCELED ? 0 : rc;
}

static int worker_run(weft__worker *w)
{
    const weft_spin_options options = {.name = "hub prolonger", .is_daemon = true};
    weft_fiber prolonger = weft_spin_with(weft__items_prolong, w, &options);
    if (prolonger == 0)
        return weft_error()->code;
    int rc = weft_group_open(&w->items);
    if (rc == 0) {
        weft__hub_watch(w->hub, &w->watcher);
        rc = worker_pull(w);
        weft__hub_unwatch(&w->watcher);
        int raised = worker_end(w);
        rc = rc == -ECANCELED && raised < 0 ? raised : rc;
    }
    weft_terminate(prolonger, PROLONGER_GRACE_S);
    return rc;
}

int weft_hub_work(weft_hub *hub, const char *queue, weft_hub_fn *fn, void *arg, unsigned at_once)
{
    int rc = weft__js_check_token(hub, "weft_hub_work", queue);
    if (rc < 0)
        return rc;
    if (fn == NULL)
        return weft_fail(-EINVAL, "weft_hub_work: fn is NULL");
    if (at_once == 0 || at_once > AT_ONCE_MAX)
        return weft_fail(-EINVAL, "weft_hub_work: at_once is %u", at_once);
    weft__worker worker = {.hub = hub, .queue = queue, .fn = fn, .arg = arg, .at_once = at_once};
    worker.watcher.on_connect = worker_on_connect;
    worker.watcher.on_close = worker_on_close;
    weft__list_init(&worker.pulls);
    weft__list_init(&worker.held);
    weft__hub_hold(hub);
    rc = weft__queue_read(hub, queue, &worker.info);
    if (rc == 0)
        rc = worker_run(&worker);
    weft__hub_release(hub);
    if (rc == -ENOENT)
        return weft_fail(rc, "weft_hub_work: the queue %s does not exist", queue);
    return rc;
}

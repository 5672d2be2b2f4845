/* Run children for other processes: weft_hub_offer. */
#include "hub/jetstream/api.h"
#include "hub/names/place.h"
#include "hub/text/header.h"

#include <weft.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define AT_ONCE_MAX 65536

/* A cancelled offer waits so long for the confirmation of a result. */
#define CONFIRM_S 2.0

/* An offer waits so long for the server to confirm that it sends no more jobs. */
#define DRAIN_S 0.5

/* The state of a call of weft_hub_offer. */
typedef struct weft__offer {
    weft_hub *hub;
    const char *kind;
    weft_hub_fn *fn;
    void *arg;
    unsigned at_once, running;
    weft__subscription *subscription; /* NULL: at_once children run */
    weft__subscription *draining;     /* an earlier subscription that may still get jobs */
    weft_group group;                 /* the fibers of the children */
    weft__list children;
    weft_event changed; /* wakes the caller: failure is set, or a subscription is draining */
    int failure;        /* the error that ends the call; 0: none */
    bool is_ending;
    weft__hub_watcher watcher;
} weft__offer;

typedef struct weft__placed {
    weft__list node; /* in weft__offer.children */
    weft__offer *offer;
    weft_hub_msg *job;
    weft_fiber fiber;
    weft__subscription *subscription;
    double heard_s; /* the last message of the run */
    bool is_running, is_confirmed;
    weft_event confirmed;
    char inbox[WEFT__INBOX_BYTES];
    char run[WEFT__INBOX_BYTES]; /* the subject of the run */
} weft__placed;

static void offer_on_job(void *ctx, const weft__delivery *d);

static void offer_subscribe(weft__offer *o)
{
    char subject[WEFT__JS_SUBJECT_BYTES];
    snprintf(subject, sizeof subject, WEFT__OFFER_SUBJECT, o->kind);
    o->subscription = weft__hub_subscribe(o->hub, subject, WEFT__OFFER_GROUP, offer_on_job, o);
    if (o->subscription == NULL) {
        o->failure = -ENOMEM;
        weft_event_set(&o->changed);
    }
}

/*
 * Take jobs while there is room for children. Without room, leave the queue group: the server then
 * sends further jobs to other hubs. Jobs in transit are refused.
 */
static void offer_update(weft__offer *o)
{
    bool has_room = o->running < o->at_once && !o->is_ending;
    if (has_room && o->subscription == NULL) {
        offer_subscribe(o);
    } else if (!has_room && o->subscription != NULL && o->draining == NULL) {
        weft__hub_drain(o->subscription);
        o->draining = o->subscription;
        o->subscription = NULL;
        weft_event_set(&o->changed);
    }
}

/* End the subscription that is draining, when the server has sent all of its jobs. */
static void offer_drain(weft__offer *o)
{
    while (o->draining != NULL) {
        int rc = 0;
        WEFT_MOVE_ON_AFTER(DRAIN_S) {
            rc = weft__hub_flush(o->hub);
        }
        if (rc < 0 && !o->is_ending)
            return; /* try again later */
        weft__hub_unsubscribe(o->draining);
        o->draining = NULL;
        offer_update(o);
    }
}

/* The child does not need its place any more. */
static void placed_leave(weft__placed *c)
{
    if (!c->is_running)
        return;
    c->is_running = false;
    c->offer->running--;
    offer_update(c->offer);
}

static void placed_free(weft__placed *c)
{
    placed_leave(c);
    weft__list_remove(&c->node);
    weft__hub_unsubscribe(c->subscription);
    weft_hub_free(c->job);
    free(c);
}

/* A message of the run: a ping, a request to cancel, or the confirmation of the result. */
static void placed_on_delivery(void *ctx, const weft__delivery *d)
{
    weft__placed *c = ctx;
    bool is_status = weft__header_status(d->headers) != 0;
    if (is_status) /* no responders: the run has ended, or its hub connects again */
        return;
    c->heard_s = weft_now();
    if (d->reply.bytes == 0) {
        c->is_confirmed = true;
        weft_event_set(&c->confirmed);
        return;
    }
    if (d->payload.bytes > 0 && weft__slice_is(d->payload, WEFT__CHILD_CANCEL) && c->is_running)
        weft_cancel(c->fiber);
    weft__hub_publish_now(c->offer->hub, &(weft__publication){.subject = d->reply});
}

static double offer_lease_s(const weft__offer *o)
{
    return weft__hub_options(o->hub)->lease_s;
}

/* Send the result until the run confirms it. A run that is silent for lease_s has given up. */
static void placed_send_result(weft__placed *c, weft_value value, const char *message)
{
    weft_hub *hub = c->offer->hub;
    char headers[96];
    if (!weft_is_error(value) && value > INT32_MAX) {
        value = -EOVERFLOW;
        message = "weft_hub_run: the value of the child is more than 2^31-1";
    }
    snprintf(headers, sizeof headers, "NATS/1.0\r\n" WEFT__HEADER_VALUE ": %" PRIdPTR "\r\n\r\n",
             value);
    weft__publication p = {.subject = weft__slice_of(c->run),
                           .reply = weft__slice_of(c->inbox),
                           .headers = weft__slice_of(headers),
                           .payload = weft__slice_of(message)};
    int rc = 0;
    while (rc == 0 && !c->is_confirmed && weft_now() - c->heard_s < offer_lease_s(c->offer)) {
        if (weft__hub_is_connected(hub))
            weft__hub_publish_now(hub, &p);
        rc = weft__js_event_wait(&c->confirmed, WEFT__PLACE_PING_S);
        if (rc == 0)
            rc = weft__hub_check(hub);
    }
}

/* The function of the fiber of a child. */
static weft_value placed_run(void *arg)
{
    weft__placed *c = arg;
    weft_value value = c->offer->fn(c->job, c->offer->arg);
    char message[256] = "";
    const weft_error_info *e = weft_is_error(value) ? weft_error() : NULL;
    if (e != NULL && e->code == value)
        snprintf(message, sizeof message, "%s", e->message);
    placed_leave(c);
    placed_send_result(c, value, message);
    if (!c->is_confirmed && weft_is_cancelled()) {
        WEFT_SHIELD(CONFIRM_S) {
            placed_send_result(c, value, message);
        }
    }
    weft_error_clear(); /* errors of children belong to their runs */
    placed_free(c);
    return 0;
}

/* The fiber of the child was cancelled before it ran. */
static void placed_drop(void *arg)
{
    weft__placed *c = arg;
    char headers[64];
    snprintf(headers, sizeof headers, "NATS/1.0\r\n" WEFT__HEADER_VALUE ": %d\r\n\r\n", -ECANCELED);
    weft__publication p = {.subject = weft__slice_of(c->run),
                           .reply = weft__slice_of(c->inbox),
                           .headers = weft__slice_of(headers)};
    weft__hub_publish_now(c->offer->hub, &p);
    placed_free(c);
}

static weft__placed *placed_new(weft__offer *o, const weft__delivery *d)
{
    weft__placed *c = malloc(sizeof *c);
    if (c == NULL)
        return NULL;
    *c = (weft__placed){.offer = o, .heard_s = weft_now()};
    weft__list_init(&c->node);
    memcpy(c->run, d->reply.data, d->reply.bytes);
    weft__hub_inbox(o->hub, c->inbox);
    c->subscription = weft__hub_subscribe(o->hub, c->inbox, NULL, placed_on_delivery, c);
    c->job = weft__hub_msg_new(o->hub, weft__slice_of(o->kind), (weft__slice){0}, (weft__slice){0},
                               d->payload);
    if (c->subscription == NULL || c->job == NULL) {
        placed_free(c);
        return NULL;
    }
    c->job->number = weft__header_number(d->headers, WEFT__HEADER_TOKEN, 0);
    return c;
}

static void offer_reply(const weft__offer *o, const weft__delivery *d, const char *name,
                        const char *value)
{
    char headers[WEFT__INBOX_BYTES + 64];
    snprintf(headers, sizeof headers, "NATS/1.0\r\n%s: %s\r\n\r\n", name, value);
    weft__publication p = {.subject = d->reply, .headers = weft__slice_of(headers)};
    weft__hub_publish_now(o->hub, &p);
}

/* The reply leaves before the child runs, and therefore before its result. */
static void offer_on_job(void *ctx, const weft__delivery *d)
{
    weft__offer *o = ctx;
    if (d->reply.bytes == 0 || d->reply.bytes >= WEFT__INBOX_BYTES)
        return;
    bool has_room = o->running < o->at_once && !o->is_ending;
    weft__placed *c = has_room ? placed_new(o, d) : NULL;
    const weft_spin_options options = {.name = "hub child", .drop = placed_drop};
    if (c != NULL)
        c->fiber = weft_group_spin_with(&o->group, placed_run, c, &options);
    if (c == NULL || c->fiber == 0) {
        if (c != NULL)
            placed_free(c);
        offer_reply(o, d, WEFT__HEADER_BUSY, "1");
        return;
    }
    c->is_running = true;
    o->running++;
    weft__list_insert(&o->children, &c->node);
    offer_reply(o, d, WEFT__HEADER_CHILD, c->inbox);
    offer_update(o);
}

static void offer_on_close(weft__hub_watcher *watcher)
{
    weft__offer *o = CONTAINER_OF(watcher, weft__offer, watcher);
    o->failure = -EBADF;
    weft_event_set(&o->changed);
}

/* Cancel the children whose runs are silent for lease_s. */
static void offer_cancel_orphans(weft__offer *o)
{
    double now_s = weft_now();
    WEFT__LIST_FOR(node, &o->children) {
        weft__placed *c = CONTAINER_OF(node, weft__placed, node);
        if (c->is_running && now_s - c->heard_s > offer_lease_s(o))
            weft_cancel(c->fiber);
    }
}

/* Wait until an error ends the call. Returns the error. */
static int offer_wait(weft__offer *o)
{
    for (;;) {
        int rc = weft__js_event_wait(&o->changed, WEFT__PLACE_PING_S);
        if (rc == 0)
            rc = o->failure;
        if (rc == 0)
            rc = weft__hub_check(o->hub);
        if (rc < 0)
            return rc;
        offer_drain(o);
        offer_cancel_orphans(o);
    }
}

static int offer_run(weft__offer *o)
{
    int rc = weft_group_open(&o->group);
    if (rc < 0)
        return rc;
    weft__hub_watch(o->hub, &o->watcher);
    offer_update(o);
    rc = o->failure == 0 ? offer_wait(o) : o->failure;
    weft__hub_unwatch(&o->watcher);
    o->is_ending = true;
    offer_update(o);
    weft_group_cancel(&o->group);
    int raised = weft_group_close(&o->group);
    WEFT_SHIELD(CONFIRM_S) {
        offer_drain(o);
    }
    return rc == -ECANCELED && raised < 0 ? raised : rc;
}

int weft_hub_offer(weft_hub *hub, const char *kind, weft_hub_fn *fn, void *arg, unsigned at_once)
{
    int rc = weft__js_check_name(hub, "weft_hub_offer", kind);
    if (rc < 0)
        return rc;
    if (fn == NULL)
        return weft_fail(-EINVAL, "weft_hub_offer: fn is NULL");
    if (at_once == 0 || at_once > AT_ONCE_MAX)
        return weft_fail(-EINVAL, "weft_hub_offer: at_once is %u", at_once);
    weft__offer offer = {.hub = hub, .kind = kind, .fn = fn, .arg = arg, .at_once = at_once};
    offer.watcher.on_close = offer_on_close;
    weft__list_init(&offer.watcher.node);
    weft__list_init(&offer.children);
    weft__hub_hold(hub);
    rc = offer_run(&offer);
    weft__hub_release(hub);
    return rc;
}

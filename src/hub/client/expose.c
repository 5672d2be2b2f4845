/*
 * Exposures. A message goes to the mailbox of the fiber at once. If the mailbox is full, a call
 * waits in the exposure until a fiber of the hub, the deliverer, has put it into the mailbox.
 *
 * A recipient is a fiber that exposes names. The messages that it got stay in its list until they
 * are freed. When the fiber ends, the calls among them are answered with an error. Their memory
 * remains, because the fiber may have passed them to other fibers.
 */
#include "hub/client/expose.h"

#include "hub/client/hub.h"

#include <weft/mailbox.h>
#include <weft/time.h>

#include <stdlib.h>

#define CALLS_WAITING_MAX 65536
#define MONITOR_RETRY_S 0.1

typedef struct recipient {
    weft__hash_node by_fiber;
    weft__list node; /* in recipient_list of the hub */
    weft_fiber fiber;
    bool is_monitored;
    weft__list exposures;
    weft__list messages;
} recipient;

struct weft__exposure {
    weft__hash_node by_name;
    weft__list node; /* in exposures of the recipient */
    weft_hub *hub;
    recipient *to;
    weft__subscription *subscription;
    weft__list calls; /* wait for room in the mailbox */
    size_t calls_count;
    weft_fiber deliverer; /* puts calls into the mailbox; 0: none */
    bool is_ended;        /* the deliverer frees the exposure */
    weft__on_exposed_end *on_end;
    void *ctx;
    char name[];
};

static weft__exposure *exposure_of(weft__list *node)
{
    return CONTAINER_OF(node, weft__exposure, node);
}

static recipient *recipient_find(const weft_hub *hub, weft_fiber fiber)
{
    WEFT__HASH_FOR(node, &hub->recipients, weft__hash_number(fiber)) {
        recipient *r = CONTAINER_OF(node, recipient, by_fiber);
        if (r->fiber == fiber)
            return r;
    }
    return NULL;
}

weft__exposure *weft__expose_find(weft_hub *hub, const char *name)
{
    WEFT__HASH_FOR(node, &hub->exposures, weft__hash_bytes(name, strlen(name))) {
        weft__exposure *e = CONTAINER_OF(node, weft__exposure, by_name);
        if (strcmp(e->name, name) == 0)
            return e;
    }
    return NULL;
}

void *weft__expose_ctx(const weft__exposure *e)
{
    return e->ctx;
}

static void message_move(weft__message *m, weft__list *to)
{
    weft__list_unlink(&m->node);
    weft__list_insert(to, &m->node);
}

/* Free a message that the fiber does not get. */
static void message_reject(weft__message *m, int code, const char *text)
{
    m->hub->counters.dropped++;
    weft__message_refuse(m, code, text);
    weft_hub_free(&m->base);
}

/* Reject a message by the error of weft_tell. */
static void message_undeliverable(weft__message *m, int code)
{
    if (code == -ESRCH)
        message_reject(m, -EOWNERDEAD, "the fiber has ended");
    else if (code == -ENOMEM)
        message_reject(m, -ENOMEM, "no memory for the message");
    else if (code == -EAGAIN)
        message_reject(m, -EAGAIN, "too many calls wait for the mailbox");
    else
        message_reject(m, -EHOSTUNREACH, "the name was withdrawn");
}

static void exposure_reject_calls(weft__exposure *e, int code)
{
    weft__list *node;
    while ((node = weft__list_pop(&e->calls)) != NULL)
        message_undeliverable(weft__message_of(node), code);
    e->calls_count = 0;
}

/* The end of the deliverer, also if it never ran. */
static void deliverer_ended(void *arg)
{
    weft__exposure *e = arg;
    e->deliverer = 0;
    if (e->is_ended)
        free(e);
}

/*
 * Deliver one call. After success, the fiber may have freed the message before this fiber runs
 * again. The message therefore belongs to the recipient before the call waits.
 */
static int deliver_one(weft__exposure *e)
{
    weft__message *m = weft__message_of(e->calls.next);
    message_move(m, &e->to->messages);
    e->calls_count--;
    int rc = weft_tell(e->to->fiber, (weft_value)&m->base);
    if (rc < 0)
        message_undeliverable(m, rc);
    return rc;
}

static weft_value deliverer_run(void *arg)
{
    weft__exposure *e = arg;
    int rc = 0;
    while (!e->is_ended && !weft__list_is_empty(&e->calls) && !weft_is_error(rc))
        rc = deliver_one(e);
    deliverer_ended(e);
    return 0;
}

static void exposure_queue_call(weft__exposure *e, weft__message *m)
{
    if (e->calls_count >= CALLS_WAITING_MAX) {
        message_undeliverable(m, -EAGAIN);
        return;
    }
    if (e->deliverer == 0)
        e->deliverer = weft__root_spin(e->hub, deliverer_run, e, deliverer_ended, "hub deliverer");
    if (e->deliverer == 0) {
        message_undeliverable(m, -ENOMEM);
        return;
    }
    message_move(m, &e->calls);
    e->calls_count++;
}

/* Returns -EAGAIN also if earlier calls wait: the message must not overtake them. */
static int exposure_try(weft__exposure *e, const weft__message *m)
{
    if (e->deliverer != 0)
        return -EAGAIN;
    return weft_try_tell(e->to->fiber, (weft_value)&m->base);
}

/* The subscription to the name. */
static void exposure_on_message(void *ctx, const weft__delivery *d)
{
    weft__exposure *e = ctx;
    weft_hub_msg *msg =
        weft__hub_msg_new(e->hub, d->subject, d->reply, (weft__slice){0}, d->payload);
    if (msg == NULL) {
        e->hub->counters.dropped++;
        if (d->reply.bytes > 0)
            weft__hub_refuse(e->hub, d->reply, -ENOMEM, "no memory for the message");
        return;
    }
    weft__message *m = CONTAINER_OF(msg, weft__message, base);
    int rc = exposure_try(e, m);
    if (rc == 0)
        message_move(m, &e->to->messages);
    else if (rc == -EAGAIN && msg->is_call)
        exposure_queue_call(e, m);
    else
        message_undeliverable(m, rc);
}

static recipient *recipient_new(weft_hub *hub, weft_fiber fiber)
{
    recipient *r = calloc(1, sizeof *r);
    if (r == NULL ||
        weft__hash_insert(&hub->recipients, &r->by_fiber, weft__hash_number(fiber)) < 0) {
        free(r);
        return NULL;
    }
    r->fiber = fiber;
    weft__list_insert(&hub->recipient_list, &r->node);
    weft__list_init(&r->exposures);
    weft__list_init(&r->messages);
    return r;
}

/* Free a recipient without exposures. Its messages then belong to the hub. */
static void recipient_free(weft_hub *hub, recipient *r)
{
    weft__list_splice(&hub->messages, &r->messages);
    weft__list_unlink(&r->node);
    weft__hash_remove(&hub->recipients, &r->by_fiber);
    free(r);
}

/* Return the recipient of a fiber. A new one is monitored soon. NULL: no memory. */
static recipient *recipient_get(weft_hub *hub, weft_fiber fiber)
{
    recipient *r = recipient_find(hub, fiber);
    if (r != NULL)
        return r;
    r = recipient_new(hub, fiber);
    if (r != NULL && weft_try_tell(hub->monitor, (weft_value)fiber) < 0) {
        recipient_free(hub, r);
        r = NULL;
    }
    return r;
}

static weft__exposure *exposure_new(weft_hub *hub, const char *name, recipient *to,
                                    const weft__expose_options *options)
{
    size_t bytes = strlen(name) + 1;
    weft__exposure *e = malloc(sizeof *e + bytes);
    if (e == NULL)
        return NULL;
    *e = (weft__exposure){.hub = hub, .to = to, .on_end = options->on_end, .ctx = options->ctx};
    memcpy(e->name, name, bytes);
    weft__list_init(&e->calls);
    if (weft__hash_insert(&hub->exposures, &e->by_name, weft__hash_bytes(name, strlen(name))) < 0) {
        free(e);
        return NULL;
    }
    weft__list_insert(&to->exposures, &e->node);
    e->subscription = weft__hub_subscribe(hub, name, options->queue, exposure_on_message, e);
    if (e->subscription != NULL)
        return e;
    weft__expose_end(e);
    return NULL;
}

/* End an exposure. Calls that wait get the error of code (message_undeliverable). */
static void exposure_end(weft__exposure *e, int code)
{
    weft__hub_unsubscribe(e->subscription);
    weft__hash_remove(&e->hub->exposures, &e->by_name);
    weft__list_unlink(&e->node);
    exposure_reject_calls(e, code);
    e->is_ended = true;
    if (e->deliverer == 0)
        free(e);
    else
        weft_cancel(e->deliverer);
}

void weft__expose_end(weft__exposure *e)
{
    exposure_end(e, -ECANCELED);
}

void weft__exposures_end_all(weft_hub *hub)
{
    weft__list *node;
    while (!weft__list_is_empty(&hub->recipient_list)) {
        recipient *r = CONTAINER_OF(hub->recipient_list.next, recipient, node);
        while ((node = weft__list_pop(&r->exposures)) != NULL)
            exposure_end(exposure_of(node), -ECANCELED);
        recipient_free(hub, r);
    }
}

/* Wait until the server has the subscription. On failure the exposure has ended. */
static int expose_confirm(weft_hub *hub, const char *name, weft__exposure *e)
{
    int rc = weft__hub_flush(hub);
    bool is_alive = weft__expose_find(hub, name) == e;
    if (rc == 0 && !is_alive)
        return -ESRCH;
    if (rc == 0 && weft__hub_is_refused(e->subscription))
        rc = weft_fail(-EPERM, "the server forbids a subscription to %s", name);
    if (rc < 0 && is_alive)
        weft__expose_end(e);
    return rc;
}

int weft__expose_begin(weft_hub *hub, const char *name, weft_fiber fiber,
                       const weft__expose_options *options, weft__exposure **out)
{
    ssize_t rc = weft_mailbox_count(fiber);
    if (rc < 0)
        return (int)rc;
    if (weft__expose_find(hub, name) != NULL)
        return weft_fail(-EEXIST, "the hub exposes %s already", name);
    recipient *to = recipient_get(hub, fiber);
    weft__exposure *e = to != NULL ? exposure_new(hub, name, to, options) : NULL;
    if (e == NULL)
        return weft_fail(-ENOMEM, "no memory to expose %s", name);
    *out = e;
    weft__hub_hold(hub);
    int confirmed = expose_confirm(hub, name, e);
    weft__hub_release(hub);
    return confirmed;
}

/* A fiber has ended: end its exposures, and refuse the calls that it has not answered. */
static void recipient_ended(weft_hub *hub, recipient *r)
{
    WEFT__LIST_FOR(node, &r->messages)
        weft__message_refuse(weft__message_of(node), -EOWNERDEAD, "the fiber has ended");
    while (!weft__list_is_empty(&r->exposures)) {
        weft__exposure *e = exposure_of(r->exposures.next);
        weft__on_exposed_end *on_end = e->on_end;
        void *ctx = e->ctx;
        exposure_end(e, -ESRCH);
        if (on_end != NULL)
            on_end(ctx);
    }
    recipient_free(hub, r);
}

/*
 * Handle a message of the monitor: the id of a new recipient, or of one that has ended. Returns 0
 * or a cancellation.
 */
static int monitor_handle(weft_hub *hub, weft_fiber fiber)
{
    recipient *r = recipient_find(hub, fiber);
    if (r == NULL)
        return 0;
    if (r->is_monitored) {
        weft_unmonitor(fiber); /* weft keeps the value only for other fibers */
        recipient_ended(hub, r);
        return 0;
    }
    int rc = weft_monitor(fiber);
    if (rc == 0)
        r->is_monitored = true;
    else if (rc == -ENOMEM)
        return weft_sleep(MONITOR_RETRY_S) < 0 ? -ECANCELED
                                               : weft_tell(weft_self(), (weft_value)fiber);
    else
        recipient_ended(hub, r);
    return 0;
}

weft_value weft__monitor_run(void *hub)
{
    for (int rc = 0; rc == 0;) {
        weft_value fiber = weft_receive();
        if (weft_is_error(fiber))
            return fiber;
        rc = monitor_handle(hub, (weft_fiber)fiber);
    }
    return 0;
}

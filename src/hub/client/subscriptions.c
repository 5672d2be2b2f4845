/*
 * Subscriptions. A sid is a key of the table (slots.h), so that a message for an ended subscription
 * never reaches another one.
 */
#include "hub/client/hub.h"

#include <stdlib.h>

struct weft__subscription {
    weft_hub *hub;
    uint64_t sid;
    weft__on_delivery *fn;
    void *ctx;
    bool is_refused;             /* by the server, on this connection */
    bool is_drained;             /* the server was told to end the subscription */
    const char *pattern, *queue; /* queue "": none */
};

weft__subscription *weft__subscription_find(const weft_hub *hub, uint64_t sid)
{
    return weft__slots_find(&hub->subscriptions, sid);
}

void weft__subscription_deliver(weft__subscription *s, const weft__delivery *d)
{
    s->fn(s->ctx, d);
}

static weft__subscription *subscription_new(weft_hub *hub, const char *pattern, const char *queue)
{
    size_t pattern_bytes = strlen(pattern) + 1, queue_bytes = strlen(queue) + 1;
    weft__subscription *s = malloc(sizeof *s + pattern_bytes + queue_bytes);
    if (s == NULL)
        return NULL;
    char *text = (char *)(s + 1);
    memcpy(text, pattern, pattern_bytes);
    memcpy(text + pattern_bytes, queue, queue_bytes);
    *s = (weft__subscription){.hub = hub, .pattern = text, .queue = text + pattern_bytes};
    return s;
}

static int subscription_send(const weft__subscription *s, weft__buffer *out)
{
    return weft__output_sub(out, weft__slice_of(s->pattern), weft__slice_of(s->queue), s->sid);
}

/* Without a connection, weft__subscriptions_send sends the subscription later. */
static int subscription_begin(weft__subscription *s)
{
    weft_hub *hub = s->hub;
    s->sid = weft__slots_add(&hub->subscriptions, s);
    if (s->sid == 0)
        return -ENOMEM;
    if (!hub->is_connected)
        return 0;
    int rc = subscription_send(s, &hub->out.next);
    if (rc < 0)
        weft__slots_remove(&hub->subscriptions, s->sid);
    else
        weft__writer_wake(hub);
    return rc;
}

weft__subscription *weft__hub_subscribe(weft_hub *hub, const char *pattern, const char *queue,
                                        weft__on_delivery *fn, void *ctx)
{
    weft__subscription *s = subscription_new(hub, pattern, queue != NULL ? queue : "");
    if (s == NULL || subscription_begin(s) < 0) {
        free(s);
        weft_fail(-ENOMEM, "no memory for a subscription to %s", pattern);
        return NULL;
    }
    s->fn = fn;
    s->ctx = ctx;
    return s;
}

/* If memory is exhausted, the server goes on to send messages. */
void weft__hub_drain(weft__subscription *s)
{
    weft_hub *hub = s->hub;
    if (!s->is_drained && hub->is_connected && !hub->is_closed &&
        weft__output_unsub(&hub->out.next, s->sid) == 0)
        weft__writer_wake(hub);
    s->is_drained = true;
}

void weft__hub_unsubscribe(weft__subscription *s)
{
    if (s == NULL)
        return;
    weft__hub_drain(s);
    weft__slots_remove(&s->hub->subscriptions, s->sid); /* the reader ignores further messages */
    free(s);
}

bool weft__hub_is_refused(const weft__subscription *s)
{
    return s->is_refused;
}

int weft__subscriptions_send(const weft_hub *hub, weft__buffer *out)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < hub->subscriptions.capacity; i++) {
        weft__subscription *s = hub->subscriptions.slots[i].object;
        if (s == NULL || s->is_drained)
            continue;
        s->is_refused = false;
        rc = subscription_send(s, out);
    }
    return rc;
}

void weft__subscriptions_refuse(weft_hub *hub, weft__slice subject)
{
    for (uint32_t i = 0; i < hub->subscriptions.capacity; i++) {
        weft__subscription *s = hub->subscriptions.slots[i].object;
        if (s != NULL && weft__slice_is(subject, s->pattern))
            s->is_refused = true;
    }
}

void weft__subscriptions_free(weft_hub *hub)
{
    for (uint32_t i = 0; i < hub->subscriptions.capacity; i++)
        free(hub->subscriptions.slots[i].object);
    weft__slots_free(&hub->subscriptions);
}

/*
 * Subscriptions. The lowest bits of a sid are a slot of the table. A sid is used once, so that a
 * message for an ended subscription never reaches another one.
 */
#include "hub/client/hub.h"

#include <stdlib.h>

#define SLOT_BITS 24
#define SLOT_NONE UINT32_MAX
#define CAPACITY_MIN 16

struct weft__subscription {
    weft_hub *hub;
    uint64_t sid;
    weft__on_delivery *fn;
    void *ctx;
    bool is_refused;             /* by the server, on this connection */
    bool is_drained;             /* the server was told to end the subscription */
    const char *pattern, *queue; /* queue "": none */
};

typedef struct weft__sid_slot {
    weft__subscription *subscription; /* NULL: free */
    uint32_t next_free;
} weft__sid_slot;

static uint32_t slot_of_sid(uint64_t sid)
{
    return (uint32_t)(sid & ((1u << SLOT_BITS) - 1));
}

weft__subscription *weft__subscription_find(const weft_hub *hub, uint64_t sid)
{
    uint32_t slot = slot_of_sid(sid);
    if (UNLIKELY(slot >= hub->subscriptions.capacity))
        return NULL;
    weft__subscription *s = hub->subscriptions.slots[slot].subscription;
    return s != NULL && s->sid == sid ? s : NULL;
}

void weft__subscription_deliver(weft__subscription *s, const weft__delivery *d)
{
    s->fn(s->ctx, d);
}

/* Double the table. Returns 0 or -ENOMEM. */
static int sid_table_grow(weft__subscriptions *t)
{
    uint32_t capacity = t->capacity > 0 ? 2 * t->capacity : CAPACITY_MIN;
    if (capacity > 1u << SLOT_BITS)
        return -ENOMEM;
    weft__sid_slot *slots = realloc(t->slots, capacity * sizeof *slots);
    if (slots == NULL)
        return -ENOMEM;
    for (uint32_t i = t->capacity; i < capacity; i++)
        slots[i] = (weft__sid_slot){NULL, i + 1 < capacity ? i + 1 : SLOT_NONE};
    t->first_free = t->capacity;
    t->slots = slots;
    t->capacity = capacity;
    return 0;
}

/* Give a subscription its sid. Returns 0 or -ENOMEM. */
static int sid_assign(weft__subscriptions *t, weft__subscription *s)
{
    if ((t->capacity == 0 || t->first_free == SLOT_NONE) && sid_table_grow(t) < 0)
        return -ENOMEM;
    uint32_t slot = t->first_free;
    t->first_free = t->slots[slot].next_free;
    t->slots[slot].subscription = s;
    s->sid = ++t->serial << SLOT_BITS | slot;
    return 0;
}

static void sid_free(weft__subscriptions *t, uint64_t sid)
{
    uint32_t slot = slot_of_sid(sid);
    t->slots[slot] = (weft__sid_slot){NULL, t->first_free};
    t->first_free = slot;
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
    int rc = sid_assign(&hub->subscriptions, s);
    if (rc < 0 || !hub->is_connected)
        return rc;
    rc = subscription_send(s, &hub->out.next);
    if (rc < 0)
        sid_free(&hub->subscriptions, s->sid);
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
    sid_free(&s->hub->subscriptions, s->sid); /* the reader ignores further messages */
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
        weft__subscription *s = hub->subscriptions.slots[i].subscription;
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
        weft__subscription *s = hub->subscriptions.slots[i].subscription;
        if (s != NULL && weft__slice_is(subject, s->pattern))
            s->is_refused = true;
    }
}

void weft__subscriptions_free(weft_hub *hub)
{
    for (uint32_t i = 0; i < hub->subscriptions.capacity; i++)
        free(hub->subscriptions.slots[i].subscription);
    free(hub->subscriptions.slots);
    hub->subscriptions = (weft__subscriptions){0};
}

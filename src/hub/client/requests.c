/*
 * Requests. All replies come through one subscription to "_INBOX.ID.*". The last token is the key
 * of the request (slots.h), in base 32. A reply with an old key is ignored.
 */
#include "hub/client/hub.h"

#include "hub/text/header.h"

#include <weft/scope.h>

#include <math.h>
#include <stdlib.h>

#define DIGIT_BITS 5
#define KEY_DIGITS_MAX 13 /* of 64 bits */

#define STATUS_NO_RESPONDERS 503

/* Write a key in base 32, and return its length. */
static size_t key_write(char *out, uint64_t key)
{
    char digits[KEY_DIGITS_MAX], *end = digits + sizeof digits, *begin = end;
    for (; key > 0; key >>= DIGIT_BITS)
        *--begin = "0123456789abcdefghijklmnopqrstuv"[key & 31];
    memcpy(out, begin, (size_t)(end - begin));
    return (size_t)(end - begin);
}

/* Returns 0, which is not a key, if the text is not valid. */
static uint64_t key_read(weft__slice text)
{
    uint64_t key = 0;
    if (text.bytes > KEY_DIGITS_MAX)
        return 0;
    for (size_t i = 0; i < text.bytes; i++) {
        char c = text.data[i];
        bool is_letter = c >= 'a' && c <= 'v';
        if (!is_letter && (c < '0' || c > '9'))
            return 0;
        key = key << DIGIT_BITS | (uint64_t)(is_letter ? c - 'a' + 10 : c - '0');
    }
    return key;
}

/* End a wait. The caller of the request does not use the table any more. */
static void request_end(weft__requests *r, weft__pending *pending, int rc)
{
    weft__slots_remove(&r->pending, pending->key);
    pending->rc = rc;
    weft_cond_signal(&pending->is_done);
}

/* The subscription to the inbox. */
static void request_on_reply(void *ctx, const weft__delivery *d)
{
    weft_hub *hub = ctx;
    weft__slice token = {d->subject.data + hub->inbox_bytes, d->subject.bytes - hub->inbox_bytes};
    uint64_t key = d->subject.bytes > hub->inbox_bytes ? key_read(token) : 0;
    weft__pending *pending = weft__slots_find(&hub->requests.pending, key);
    if (pending == NULL)
        return; /* the request has ended */
    int rc = d->payload.bytes == 0 && weft__header_status(d->headers) == STATUS_NO_RESPONDERS
                 ? -EHOSTUNREACH
                 : pending->take(pending, d);
    request_end(&hub->requests, pending, rc);
}

int weft__requests_init(weft_hub *hub)
{
    char pattern[WEFT__INBOX_BYTES + 1];
    memcpy(pattern, hub->inbox, hub->inbox_bytes);
    memcpy(pattern + hub->inbox_bytes, "*", 2);
    hub->requests.inbox = weft__hub_subscribe(hub, pattern, NULL, request_on_reply, hub);
    return hub->requests.inbox != NULL ? 0 : -ENOMEM;
}

void weft__requests_free(weft_hub *hub)
{
    weft__slots_free(&hub->requests.pending);
    hub->requests = (weft__requests){0};
}

void weft__requests_fail(weft_hub *hub, int code)
{
    const weft__slots *t = &hub->requests.pending;
    for (uint32_t i = 0; t->count > 0 && i < t->capacity; i++)
        if (t->slots[i].object != NULL)
            request_end(&hub->requests, t->slots[i].object, code);
}

void weft__requests_fail_to(weft_hub *hub, weft__slice subject, int code)
{
    const weft__slots *t = &hub->requests.pending;
    for (uint32_t i = 0; i < t->capacity; i++) {
        weft__pending *pending = t->slots[i].object;
        if (pending != NULL && pending->subject.bytes == subject.bytes &&
            memcmp(pending->subject.data, subject.data, subject.bytes) == 0)
            request_end(&hub->requests, pending, code);
    }
}

/* Wait until a request can be sent at once. Returns 0, -EBADF or a cancellation. */
static int request_wait_turn(weft_hub *hub)
{
    int rc = 0;
    while (rc == 0) {
        rc = weft__hub_wait_connected(hub);
        if (rc == 0)
            rc = weft__writer_wait_room(hub);
        if (rc == 0 && hub->is_connected)
            break;
    }
    return rc;
}

/* Nothing switches between adding the request and its wait: the reply cannot come earlier. */
static int request_send(weft_hub *hub, weft__pending *pending, const weft__publication *p)
{
    char reply[WEFT__INBOX_BYTES];
    pending->key = weft__slots_add(&hub->requests.pending, pending);
    if (UNLIKELY(pending->key == 0))
        return -ENOMEM;
    memcpy(reply, hub->inbox, hub->inbox_bytes);
    size_t bytes = hub->inbox_bytes + key_write(reply + hub->inbox_bytes, pending->key);
    weft__publication request = *p;
    request.reply = (weft__slice){reply, bytes};
    int rc = weft__hub_publish_now(hub, &request);
    if (UNLIKELY(rc < 0))
        weft__slots_remove(&hub->requests.pending, pending->key);
    return rc;
}

int weft__request_run(weft_hub *hub, weft__pending *pending, const weft__publication *p)
{
    int rc = LIKELY(hub->is_connected) ? weft__writer_wait_room(hub) : request_wait_turn(hub);
    if (UNLIKELY(rc == 0 && !hub->is_connected)) /* it broke during the wait for room */
        rc = request_wait_turn(hub);
    if (UNLIKELY(rc < 0))
        return rc;
    pending->subject = p->subject;
    pending->rc = WEFT__PENDING;
    rc = request_send(hub, pending, p);
    if (UNLIKELY(rc < 0))
        return rc;
    rc = weft_cond_wait(&pending->is_done, NULL);
    if (LIKELY(pending->rc != WEFT__PENDING))
        return pending->rc; /* the hub may be freed */
    weft__slots_remove(&hub->requests.pending, pending->key);
    return rc;
}

/* A wait of weft__hub_request. */
typedef struct reply_wait {
    weft__pending pending;
    weft__reply *out;
} reply_wait;

static int reply_take(weft__pending *pending, const weft__delivery *d)
{
    weft__reply *out = CONTAINER_OF(pending, reply_wait, pending)->out;
    size_t headers = d->headers.bytes, payload = d->payload.bytes;
    out->memory = malloc(headers + payload + 1);
    if (out->memory == NULL)
        return -ENOMEM;
    *weft__slice_put(weft__slice_put(out->memory, d->headers), d->payload) = '\0';
    out->headers = (weft__slice){out->memory, headers};
    out->payload = (weft__slice){out->memory + headers, payload};
    out->status = weft__header_status(out->headers);
    return 0;
}

int weft__hub_request(weft_hub *hub, const weft__publication *p, double timeout_s, weft__reply *out)
{
    reply_wait wait = {.pending = {.take = reply_take}, .out = out};
    int rc = 0, timeout_rc = 0;
    *out = (weft__reply){0};
    WEFT_CANCEL_AFTER(timeout_s > 0 ? timeout_s : INFINITY, timeout_rc) {
        rc = weft__request_run(hub, &wait.pending, p);
    }
    return rc == -ECANCELED && timeout_rc < 0 ? timeout_rc : rc;
}

void weft__reply_free(weft__reply *r)
{
    free(r->memory);
    *r = (weft__reply){0};
}

/* Messages: one block of memory each, in a list until they are freed. */
#include "hub/client/hub.h"

#include <stdio.h>
#include <stdlib.h>

#define ERROR_HEADERS_BYTES 64

/* Copy text with a NUL, and advance *end. Returns the copy. */
static const char *text_put(char **end, weft__slice text)
{
    char *copy = *end;
    *end = weft__slice_put(copy, text);
    *(*end)++ = '\0';
    return copy;
}

weft_hub_msg *weft__hub_msg_new(weft_hub *hub, weft__slice to, weft__slice reply, weft__slice id,
                                weft__slice payload)
{
    size_t bytes = payload.bytes + to.bytes + reply.bytes + id.bytes + 4;
    weft__message *m = malloc(sizeof *m + bytes);
    if (UNLIKELY(m == NULL)) {
        weft_fail(-ENOMEM, "no memory for a message of %zu bytes", payload.bytes);
        return NULL;
    }
    char *end = (char *)(m + 1); /* the payload first: its alignment is that of malloc */
    const char *data = text_put(&end, payload);
    *m = (weft__message){
        .base = {.to = text_put(&end, to),
                 .data = data,
                 .bytes = payload.bytes,
                 .is_call = reply.bytes > 0},
        .hub = hub,
        .is_answered = reply.bytes == 0,
    };
    m->reply = text_put(&end, reply);
    m->base.id = text_put(&end, id);
    weft__list_insert(&hub->messages, &m->node);
    return &m->base;
}

static weft__message *message_of(weft_hub_msg *msg)
{
    return CONTAINER_OF(msg, weft__message, base);
}

/* Compose a reply. headers has ERROR_HEADERS_BYTES; without an error it is not used. */
static weft__publication reply_compose(weft__slice to, int code, char *headers, weft__slice payload)
{
    weft__publication p = {.subject = to, .payload = payload};
    if (code < 0) {
        snprintf(headers, ERROR_HEADERS_BYTES, "NATS/1.0\r\nWeft-Error: %d\r\n\r\n", -code);
        p.headers = weft__slice_of(headers);
    }
    return p;
}

void weft__hub_refuse(weft_hub *hub, weft__slice reply, int code, const char *text)
{
    char headers[ERROR_HEADERS_BYTES];
    weft__publication p = reply_compose(reply, code, headers, weft__slice_of(text));
    weft__hub_publish_now(hub, &p); /* if this fails, the caller waits until its deadline */
}

void weft__message_refuse(weft__message *m, int code, const char *text)
{
    if (m->is_answered)
        return;
    m->is_answered = true;
    weft__hub_refuse(m->hub, weft__slice_of(m->reply), code, text);
}

static int message_check(const weft_hub_msg *msg, const char *function)
{
    if (msg == NULL)
        return weft_fail(-EINVAL, "%s: msg is NULL", function);
    const weft__message *m = message_of((weft_hub_msg *)msg);
    int rc = weft__hub_check(m->hub);
    if (rc < 0)
        return rc;
    if (!msg->is_call)
        return weft_fail(-EINVAL, "%s: the message is not a call", function);
    if (m->is_answered)
        return weft_fail(-EALREADY, "%s: the call has a reply", function);
    return 0;
}

/* Send a reply. While the call waits for room in the output, no other fiber can reply. */
static int message_answer(weft__message *m, int code, weft__slice payload)
{
    char headers[ERROR_HEADERS_BYTES];
    weft_hub *hub = m->hub;
    weft__publication p = reply_compose(weft__slice_of(m->reply), code, headers, payload);
    m->is_answered = true;
    weft__hub_hold(hub); /* and its messages */
    int rc = weft__hub_publish(hub, &p);
    m->is_answered = rc == 0 || hub->is_closed;
    weft__hub_release(hub);
    return rc;
}

int weft_hub_reply(weft_hub_msg *msg, const void *data, size_t bytes)
{
    int rc = message_check(msg, "weft_hub_reply");
    if (rc < 0)
        return rc;
    if (data == NULL && bytes > 0)
        return weft_fail(-EINVAL, "weft_hub_reply: data is NULL");
    return message_answer(message_of(msg), 0, (weft__slice){data, bytes});
}

int weft_hub_fail(weft_hub_msg *msg, int code, const char *text)
{
    int rc = message_check(msg, "weft_hub_fail");
    if (rc < 0)
        return rc;
    if (!weft_is_error(code))
        return weft_fail(-EINVAL, "weft_hub_fail: code %d is not an error", code);
    return message_answer(message_of(msg), code, weft__slice_of(text));
}

void weft_hub_free(weft_hub_msg *msg)
{
    if (msg == NULL)
        return;
    weft__message *m = message_of(msg);
    if (!m->is_answered && weft__hub_check(m->hub) == 0)
        weft__message_refuse(m, -EOWNERDEAD, "the fiber freed the call without a reply");
    weft__list_unlink(&m->node);
    free(m);
}

void weft__messages_free(weft__list *messages)
{
    weft__list *node;
    while ((node = weft__list_pop(messages)) != NULL)
        free(weft__message_of(node));
}

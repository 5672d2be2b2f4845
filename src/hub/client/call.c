/* Tell and call: messages to a name. */
#include "hub/client/hub.h"

#include "hub/text/header.h"
#include "hub/text/subject.h"

#include <stdio.h>

#define ERROR_TEXT_BYTES 200

static int name_check(weft_hub *hub, const char *to, const void *data, size_t bytes,
                      const char *function)
{
    int rc = weft__hub_check_start(hub);
    if (UNLIKELY(rc < 0))
        return rc;
    if (UNLIKELY(to == NULL || !weft__name_is_valid(to)))
        return weft_fail(-EINVAL, "%s: the name '%s' is not valid", function,
                         to != NULL ? to : "NULL");
    if (UNLIKELY(data == NULL && bytes > 0))
        return weft_fail(-EINVAL, "%s: data is NULL", function);
    return 0;
}

int weft_hub_tell(weft_hub *hub, const char *to, const void *data, size_t bytes)
{
    int rc = name_check(hub, to, data, bytes, "weft_hub_tell");
    if (UNLIKELY(rc < 0))
        return rc;
    return weft__hub_publish(
        hub, &(weft__publication){.subject = weft__slice_of(to), .payload = {data, bytes}});
}

/* A wait of weft_hub_call. */
typedef struct call_wait {
    weft__pending pending;
    weft_hub *hub;
    bool is_wanted;      /* the caller wants the reply */
    weft_hub_msg *reply; /* NULL: none */
    char error_text[ERROR_TEXT_BYTES];
} call_wait;

/* Take a reply of weft_hub_fail. Returns its code. */
static int call_take_error(call_wait *wait, const weft__delivery *d, uint64_t number)
{
    if (number == 0 || number > 4095) {
        snprintf(wait->error_text, sizeof wait->error_text, "the error of the reply is not valid");
        return -EPROTO;
    }
    snprintf(wait->error_text, sizeof wait->error_text, "%.*s", (int)d->payload.bytes,
             d->payload.data != NULL ? d->payload.data : "");
    return -(int)number;
}

static int call_take(weft__pending *pending, const weft__delivery *d)
{
    call_wait *wait = CONTAINER_OF(pending, call_wait, pending);
    if (d->headers.bytes > 0 && weft__header_find(d->headers, "Weft-Error").data != NULL)
        return call_take_error(wait, d, weft__header_number(d->headers, "Weft-Error", 0));
    if (!wait->is_wanted)
        return 0;
    wait->reply = weft__hub_msg_new(wait->hub, pending->subject, (weft__slice){0}, (weft__slice){0},
                                    d->payload);
    return wait->reply != NULL ? 0 : -ENOMEM;
}

static int call_fail(int code, const char *to, const call_wait *wait)
{
    if (wait->error_text[0] != '\0')
        return weft_fail(code, "%s", wait->error_text);
    if (code == -EHOSTUNREACH)
        return weft_fail(code, "weft_hub_call: no fiber exposes %s", to);
    if (code == -EPERM)
        return weft_fail(code, "weft_hub_call: the server forbids messages to %s", to);
    return code;
}

int weft_hub_call(weft_hub *hub, const char *to, const void *data, size_t bytes,
                  weft_hub_msg **reply)
{
    int rc = name_check(hub, to, data, bytes, "weft_hub_call");
    if (UNLIKELY(rc < 0))
        return rc;
    call_wait wait;
    wait.pending = (weft__pending){.take = call_take};
    wait.hub = hub;
    wait.is_wanted = reply != NULL;
    wait.reply = NULL;
    wait.error_text[0] = '\0';
    rc = weft__request_run(
        hub, &wait.pending,
        &(weft__publication){.subject = weft__slice_of(to), .payload = {data, bytes}});
    if (UNLIKELY(rc < 0))
        return call_fail(rc, to, &wait);
    if (reply != NULL)
        *reply = wait.reply;
    return 0;
}

/* Functions that send a whole reply in one call. Informational responses, priorities. */
#include "http/reply/reply.h"
#include "http/text/field.h"
#include "http/text/format.h"
#include "http/text/status.h"

#include <weft/error.h>

#include <stdarg.h>

#define TEXT_TYPE "text/plain; charset=utf-8"

/* Send the head and the body in one write. */
static int reply_send_whole(weft_http_request *r, const void *body, size_t bytes)
{
    const struct iovec span = {(void *)(uintptr_t)body, bytes};
    bool has_body = bytes > 0 && !r->is_bodiless;
    int rc = weft__reply_send_head(r, &span, has_body, true);
    if (rc < 0) /* written and sent must not count an unsent body */
        return rc;
    r->written = bytes;
    r->sent = has_body ? bytes : 0;
    r->state = WEFT__REPLY_ENDED;
    return 0;
}

static int reply_send_encoded(weft_http_request *r, const void *body, size_t bytes)
{
    ssize_t n = weft_http_write(r, body, bytes);
    return n < 0 ? (int)n : weft_http_end(r);
}

/*
 * Read what has arrived of a chunked body, and decide whether the connection ends after the reply.
 */
static int reply_check_body(weft_http_request *r)
{
    int rc = r->is_body_complete ? 0 : weft__body_discard_arrived(r);
    if (rc == 0 && !weft__body_is_skippable(r))
        r->is_body_abandoned = true;
    return rc;
}

int weft_http_reply(weft_http_request *r, int status, const char *type, const void *body,
                    size_t bytes)
{
    if (r->state != WEFT__REPLY_NONE)
        return -EALREADY;
    if (type != NULL && !weft__field_is_value(type, strlen(type)))
        return weft_fail(-EINVAL, "weft_http_reply: type has an invalid character");
    int rc = reply_check_body(r);
    if (rc < 0)
        return rc;
    r->type = type; /* not copied, because the call sends the head before it returns */
    if (type != NULL)
        weft__reply_drop_field(r, "Content-Type");
    rc = weft_http_begin(r, status, (int64_t)bytes);
    if (rc == 0)
        rc = r->length >= 0 ? reply_send_whole(r, body, bytes) : reply_send_encoded(r, body, bytes);
    r->type = NULL;
    return rc;
}

int weft_http_reply_text(weft_http_request *r, int status, const char *format, ...)
{
    weft__format text;
    va_list args;
    va_start(args, format);
    int rc = weft__format_open(&text, format, args);
    va_end(args);
    if (rc < 0)
        return rc;
    rc = weft_http_reply(r, status, TEXT_TYPE, text.bytes, text.count);
    weft__format_close(&text);
    return rc;
}

/*
 * Let the program reply to an error. Return 1 if the program has sent a reply, 0 if the server must
 * send its own reply, or an error. A rejected request has no head and gets no page.
 */
static int reply_error_page(weft_http_request *r, int status)
{
    const weft_http_options *o = &r->server->options;
    if (status < 400 || o->error_page == NULL || r->head.text == NULL || r->has_error_page ||
        r->state != WEFT__REPLY_NONE)
        return 0;
    r->has_error_page = true; /* the page itself may call weft_http_reply_status */
    int rc = reply_check_body(r);
    if (rc == 0)
        rc = o->error_page(r, status, o->error_page_ctx);
    if (rc == 0 && (r->state == WEFT__REPLY_BEGUN || r->state == WEFT__REPLY_BODY))
        rc = weft_http_end(r);
    if (r->state > WEFT__REPLY_BEGUN)
        return rc < 0 ? rc : 1;
    if (r->state == WEFT__REPLY_BEGUN)
        weft__reply_reset(r);
    return 0;
}

int weft_http_reply_status(weft_http_request *r, int status)
{
    int rc = reply_error_page(r, status);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    return weft_http_reply_text(r, status, "%d %s\n", status, weft__status_text(status));
}

int weft_http_redirect(weft_http_request *r, int status, const char *location)
{
    if (status != 301 && status != 302 && status != 303 && status != 307 && status != 308)
        return weft_fail(-EINVAL, "weft_http_redirect: status is %d", status);
    int rc = weft_http_set(r, "Location", location);
    return rc < 0 ? rc : weft_http_reply_status(r, status);
}

int weft_http_inform(weft_http_request *r, int status)
{
    if (r->state != WEFT__REPLY_NONE)
        return -EALREADY;
    if (status < 100 || status > 199 || status == 101)
        return weft_fail(-EINVAL, "weft_http_inform: status is %d", status);
    if (r->version == 10) /* RFC 9110, 15.2 */
        return 0;
    if (status == 100)
        r->has_continued = true;
    int rc = r->codec->send_interim(r, status, r->fields);
    return rc < 0 ? rc : r->codec->flush(r);
}

int weft_http_set_priority(weft_http_request *r, int urgency, bool is_incremental)
{
    if (urgency < 0 || urgency > 7)
        return weft_fail(-EINVAL, "weft_http_set_priority: urgency is %d", urgency);
    return r->codec->set_priority != NULL ? r->codec->set_priority(r, urgency, is_incremental) : 0;
}

/* Replies in one call. */
#include "http/field.h"
#include "http/format.h"
#include "http/server.h"
#include "http/status.h"

#include <weft/error.h>

#include <stdarg.h>

#define TEXT_TYPE "text/plain; charset=utf-8"

/* Head and body in one write. */
static int send_at_once(weft_http_request *r, const void *body, size_t bytes)
{
    const struct iovec piece = {(void *)(uintptr_t)body, bytes};
    bool has_body = bytes > 0 && !r->is_bodiless;
    int rc = weft__reply_send_head(r, &piece, has_body);
    if (rc < 0) /* it may still be replaced by another; nobody is to think that it was written */
        return rc;
    r->written = bytes;
    r->sent = has_body ? bytes : 0;
    r->state = WEFT__REPLY_ENDED;
    return 0;
}

static int send_encoded(weft_http_request *r, const void *body, size_t bytes)
{
    ssize_t n = weft_http_write(r, body, bytes);
    return n < 0 ? (int)n : weft_http_end(r);
}

int weft_http_reply(weft_http_request *r, int status, const char *type, const void *body,
                    size_t bytes)
{
    if (r->state != WEFT__REPLY_NONE)
        return -EALREADY;
    if (type != NULL && !weft__field_is_value(type, strlen(type)))
        return weft_fail(-EINVAL, "a type with characters that do not belong there");
    int rc = r->conn->message.is_complete ? 0 : weft__body_glance(r);
    if (rc < 0)
        return rc;
    r->type = type; /* goes out before this returns */
    if (type != NULL)
        weft__reply_drop_field(r, "Content-Type");
    if (!r->conn->message.is_complete && !weft__body_is_skippable(r))
        r->conn->is_to_close = true;
    rc = weft_http_begin(r, status, (int64_t)bytes);
    if (rc == 0)
        rc = r->length >= 0 ? send_at_once(r, body, bytes) : send_encoded(r, body, bytes);
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

int weft_http_reply_status(weft_http_request *r, int status)
{
    return weft_http_reply_text(r, status, "%d %s\n", status, weft__status_text(status));
}

int weft_http_redirect(weft_http_request *r, int status, const char *location)
{
    if (status != 301 && status != 302 && status != 303 && status != 307 && status != 308)
        return weft_fail(-EINVAL, "a redirect with status %d", status);
    int rc = weft_http_set(r, "Location", location);
    return rc < 0 ? rc : weft_http_reply_status(r, status);
}

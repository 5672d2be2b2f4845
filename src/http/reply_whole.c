/* Replies in one call. */
#include "http/field.h"
#include "http/server.h"
#include "http/status.h"

#include <weft/error.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

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

static int reply_formatted(weft_http_request *r, int status, const char *format, va_list args,
                           size_t bytes)
{
    char *text = malloc(bytes + 1);
    if (text == NULL)
        return -ENOMEM;
    vsnprintf(text, bytes + 1, format, args);
    int rc = weft_http_reply(r, status, TEXT_TYPE, text, bytes);
    free(text);
    return rc;
}

int weft_http_reply_text(weft_http_request *r, int status, const char *format, ...)
{
    char text[1024];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int bytes = vsnprintf(text, sizeof text, format, args), rc = -EINVAL;
    if (bytes >= (int)sizeof text)
        rc = reply_formatted(r, status, format, again, (size_t)bytes);
    else if (bytes >= 0)
        rc = weft_http_reply(r, status, TEXT_TYPE, text, (size_t)bytes);
    va_end(again);
    va_end(args);
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

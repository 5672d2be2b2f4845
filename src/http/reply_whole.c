/* Replies in one call. */
#include "http/field.h"
#include "http/server.h"
#include "http/status.h"

#include <weft/error.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT_TYPE "text/plain; charset=utf-8"

int weft_http_reply(weft_http_request *r, int status, const char *type, const void *body,
                    size_t bytes)
{
    if (r->state != WEFT__REPLY_NONE)
        return -EALREADY;
    if (type != NULL && !weft__field_is_value(type, strlen(type)))
        return weft_fail(-EINVAL, "a type with characters that do not belong there");
    r->type = type; /* goes out before this returns */
    if (!r->conn->message.is_complete && !weft__body_is_skippable(r))
        r->conn->is_to_close = true;
    ssize_t rc = weft_http_begin(r, status, (int64_t)bytes);
    if (rc == 0 && bytes > 0)
        rc = weft_http_write(r, body, bytes);
    if (rc >= 0)
        rc = weft_http_end(r);
    r->type = NULL;
    return (int)rc;
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

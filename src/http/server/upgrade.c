/* The switch of a connection to another protocol (RFC 9110, 7.8). */
#include "http/server/server.h"
#include "http/text/field.h"

#include <weft/error.h>

static int upgrade_check(weft_http_request *r, const char *protocol)
{
    if (r->state != WEFT__REPLY_NONE)
        return -EALREADY;
    const char *requested = weft__request_join(r, "Upgrade");
    if (requested == NULL)
        return -ENOMEM;
    if (!weft__field_is_value(protocol, strlen(protocol)))
        return weft_fail(-EINVAL, "weft_http_upgrade: protocol is not a valid field value");
    if (!r->conn->message.is_upgrade ||
        !weft__field_has_token(requested, strlen(requested), protocol))
        return weft_fail(-EINVAL, "weft_http_upgrade: the client did not request protocol %s",
                         protocol);
    if (!r->conn->message.is_complete)
        return weft_fail(-EINVAL, "weft_http_upgrade: the request has an unread body");
    return 0;
}

static int upgrade_write_head(weft_http_request *r, const char *protocol)
{
    weft_stream *s = &r->conn->stream;
    ssize_t n = weft_stream_printf(s,
                                   "HTTP/1.1 101 Switching Protocols\r\n"
                                   "Connection: Upgrade\r\nUpgrade: %s\r\n",
                                   protocol);
    for (const weft__reply_field *f = r->fields; f != NULL && n >= 0; f = f->next)
        n = weft_stream_printf(s, "%s: %s\r\n", f->name, f->value);
    if (n >= 0)
        n = weft_stream_puts(s, "\r\n");
    return n < 0 ? (int)n : weft_stream_flush(s);
}

int weft_http_upgrade(weft_http_request *r, const char *protocol, weft_stream **stream)
{
    int rc = upgrade_check(r, protocol);
    if (rc < 0)
        return rc;
    r->status = 101;
    r->state = WEFT__REPLY_UPGRADED;
    r->conn->must_close = true;
    rc = upgrade_write_head(r, protocol);
    if (rc < 0)
        return rc;
    *stream = &r->conn->stream;
    return 0;
}

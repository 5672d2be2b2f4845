/* Handing a connection over to another protocol. */
#include "http/field.h"
#include "http/server.h"

#include <weft/error.h>

static int check(weft_http_request *r, const char *protocol)
{
    if (r->state != WEFT__REPLY_NONE)
        return -EALREADY;
    const char *asked = weft__request_join(r, "Upgrade");
    if (asked == NULL)
        return -ENOMEM;
    if (!weft__field_is_value(protocol, strlen(protocol)) || !r->conn->message.is_upgrade ||
        !weft__field_has_token(asked, strlen(asked), protocol))
        return weft_fail(-EINVAL, "the client did not ask for another protocol");
    if (!r->conn->message.is_complete)
        return weft_fail(-EINVAL, "a request with a body that was not read");
    return 0;
}

static int write_head(weft_http_request *r, const char *protocol)
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
    int rc = check(r, protocol);
    if (rc < 0)
        return rc;
    r->status = 101;
    r->state = WEFT__REPLY_HANDED_OVER;
    r->conn->is_to_close = true;
    rc = write_head(r, protocol);
    if (rc < 0)
        return rc;
    *stream = &r->conn->stream;
    return 0;
}

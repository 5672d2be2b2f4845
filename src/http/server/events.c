/* Server-sent events, as the HTML standard has them (9.2). */
#include "http/server.h"

#include <weft/error.h>

int weft_http_events(weft_http_request *r)
{
    int rc = weft_http_set(r, "Content-Type", "text/event-stream");
    if (rc == 0) /* a proxy that compressed or held it back would break it */
        rc = weft_http_set(r, "Cache-Control", "no-cache, no-transform");
    if (rc == 0)
        rc = weft_http_begin(r, 200, -1);
    return rc < 0 ? rc : weft_http_flush(r);
}

static ssize_t write_line(weft_http_request *r, const char *name, const char *text, size_t bytes)
{
    return weft_http_printf(r, "%s: %.*s\n", name, (int)bytes, text);
}

/* Each line of data is one of its own; \r\n, \n and \r all end one. */
static ssize_t write_data(weft_http_request *r, const char *data)
{
    for (;;) {
        size_t bytes = strcspn(data, "\r\n");
        ssize_t n = bytes > INT32_MAX ? -EMSGSIZE : write_line(r, "data", data, bytes);
        if (n < 0 || data[bytes] == '\0')
            return n;
        data += bytes + (data[bytes] == '\r' && data[bytes + 1] == '\n' ? 2 : 1);
    }
}

int weft_http_event(weft_http_request *r, const char *event, const char *id, const char *data)
{
    if ((event != NULL && event[strcspn(event, "\r\n")] != '\0') ||
        (id != NULL && id[strcspn(id, "\r\n")] != '\0'))
        return weft_fail(-EINVAL, "a line break in the name or the id of an event");
    if (weft_http_is_draining(r))
        return -ESHUTDOWN;
    ssize_t n = 0;
    if (event != NULL)
        n = write_line(r, "event", event, strlen(event));
    if (n >= 0 && id != NULL)
        n = write_line(r, "id", id, strlen(id));
    if (n >= 0)
        n = write_data(r, data);
    if (n >= 0)
        n = weft_http_write(r, "\n", 1);
    return n < 0 ? (int)n : weft_http_flush(r);
}

/* Server-sent events (HTML Standard, 9.2). */
#include "http/server/server.h"

#include <weft/error.h>

int weft_http_events(weft_http_request *r)
{
    int rc = weft_http_set(r, "Content-Type", "text/event-stream");
    if (rc == 0) /* proxies must not compress or buffer events */
        rc = weft_http_set(r, "Cache-Control", "no-cache, no-transform");
    if (rc == 0)
        rc = weft_http_begin(r, 200, -1);
    return rc < 0 ? rc : weft_http_flush(r);
}

static ssize_t event_write_line(weft_http_request *r, const char *name, const char *text,
                                size_t bytes)
{
    return weft_http_printf(r, "%s: %.*s\n", name, (int)bytes, text);
}

/* Write each line of data as a "data" field. Lines end with \r\n, \n or \r. */
static ssize_t event_write_data(weft_http_request *r, const char *data)
{
    for (;;) {
        size_t bytes = strcspn(data, "\r\n");
        ssize_t n = bytes > INT32_MAX ? -EMSGSIZE : event_write_line(r, "data", data, bytes);
        if (n < 0 || data[bytes] == '\0')
            return n;
        data += bytes + (data[bytes] == '\r' && data[bytes + 1] == '\n' ? 2 : 1);
    }
}

int weft_http_event(weft_http_request *r, const char *event, const char *id, const char *data)
{
    if ((event != NULL && event[strcspn(event, "\r\n")] != '\0') ||
        (id != NULL && id[strcspn(id, "\r\n")] != '\0'))
        return weft_fail(-EINVAL, "weft_http_event: event or id contains a line break");
    if (weft_http_is_draining(r))
        return -ESHUTDOWN;
    ssize_t n = 0;
    if (event != NULL)
        n = event_write_line(r, "event", event, strlen(event));
    if (n >= 0 && id != NULL)
        n = event_write_line(r, "id", id, strlen(id));
    if (n >= 0)
        n = event_write_data(r, data);
    if (n >= 0)
        n = weft_http_write(r, "\n", 1);
    return n < 0 ? (int)n : weft_http_flush(r);
}

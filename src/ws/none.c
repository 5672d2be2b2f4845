/* WebSocket in a build without wslay. No call opens a connection. */
#include <weft/error.h>
#include <weft/ws.h>

#include <errno.h>

static int ws_unsupported(void)
{
    return weft_fail(-ENOTSUP, "WebSocket: weft was built without wslay");
}

int weft_ws_accept(weft_http_request *request, const weft_ws_options *options, weft_ws **ws)
{
    (void)options;
    *ws = NULL;
    int rc = weft_http_reply_status(request, 501);
    return rc < 0 ? rc : ws_unsupported();
}

int weft_ws_connect(weft_fetcher *fetcher, const char *url, const weft_ws_options *options,
                    weft_ws **ws)
{
    (void)fetcher, (void)url, (void)options;
    *ws = NULL;
    return ws_unsupported();
}

int weft_ws_recv(weft_ws *ws, weft_ws_message *message)
{
    (void)ws, (void)message;
    return ws_unsupported();
}

int weft_ws_send(weft_ws *ws, weft_ws_kind kind, const void *data, size_t bytes)
{
    (void)ws, (void)kind, (void)data, (void)bytes;
    return ws_unsupported();
}

int weft_ws_printf(weft_ws *ws, const char *format, ...)
{
    (void)ws, (void)format;
    return ws_unsupported();
}

int weft_ws_send_part(weft_ws *ws, weft_ws_kind kind, const void *data, size_t bytes, bool is_last)
{
    (void)ws, (void)kind, (void)data, (void)bytes, (void)is_last;
    return ws_unsupported();
}

int weft_ws_close(weft_ws *ws, int code, const char *reason)
{
    (void)ws, (void)code, (void)reason;
    return ws_unsupported();
}

void weft_ws_free(weft_ws *ws)
{
    (void)ws;
}

int weft_ws_close_code(const weft_ws *ws)
{
    (void)ws;
    return 0;
}

const char *weft_ws_close_reason(const weft_ws *ws)
{
    (void)ws;
    return "";
}

const char *weft_ws_protocol(const weft_ws *ws)
{
    (void)ws;
    return "";
}

int weft_ws_serve(weft_http_request *request, const weft_ws_options *options,
                  const weft_ws_events *events, void *ctx)
{
    (void)events, (void)ctx;
    weft_ws *ws;
    return weft_ws_accept(request, options, &ws);
}

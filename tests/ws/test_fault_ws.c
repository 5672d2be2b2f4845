/*
 * WebSocket with faults: the n-th call fails. Client and server are in one process, so a fault
 * happens at one of them, and the other sees a closed connection. Each message arrives as it was
 * sent, or not at all. Nothing is left of a connection.
 */
#include "http/rest/rest.h"
#include "support/fault.h"
#include "support/suite.h"

#include <weft/web.h>

#include <arpa/inet.h>
#include <netinet/in.h>

/*
 * A time limit that is longer than a process may run (support/fault.h). Whichever call fails, both
 * sides notice the end of the connection, and neither waits for a limit.
 */
#define NEVER_S 1000

/* A server on a free port. */
typedef struct fault_server {
    int listener;
    char url[64];
    weft_http_handler *handler;
} fault_server;

static weft_value run_server(void *arg)
{
    fault_server *own = arg;
    (void)weft_http_serve_fd(own->listener, own->handler, NULL,
                             &(weft_http_options){.drain_s = NEVER_S});
    return 0;
}

static void open_fault_listener(fault_server *own)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t bytes = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    own->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(bind(own->listener, (struct sockaddr *)&at, bytes) == 0);
    REQUIRE(listen(own->listener, 8) == 0);
    REQUIRE(getsockname(own->listener, (struct sockaddr *)&at, &bytes) == 0);
    snprintf(own->url, sizeof own->url, "ws://127.0.0.1:%d/", ntohs(at.sin_port));
}

static const weft_ws_options options = {
    .protocols = "v1", .deflate_bytes_min = 100, .close_s = NEVER_S};

static int echo_messages(weft_http_request *r, void *ctx)
{
    weft_ws *ws;
    weft_ws_message m;
    int rc = weft_ws_accept(r, &options, &ws);
    REQUIRE((rc == 0) == (ws != NULL));
    while (rc >= 0 && (rc = weft_ws_recv(ws, &m)) > 0) {
        REQUIRE(m.data[m.bytes] == '\0');
        rc = weft_ws_send(ws, m.kind, m.data, m.bytes);
    }
    weft_ws_free(ws);
    return rc;
}

static int echo_event(weft_ws *ws, const weft_ws_message *m, void *ctx)
{
    return weft_ws_send(ws, m->kind, m->data, m->bytes);
}

static int opened, closed;

static int count_open_event(weft_ws *ws, void *ctx)
{
    opened++;
    return 0;
}

static void count_close_event(weft_ws *ws, void *ctx)
{
    closed++;
}

static int serve_events(weft_http_request *r, void *ctx)
{
    static const weft_ws_events events = {count_open_event, echo_event, count_close_event};
    return weft_ws_serve(r, &options, &events, NULL);
}

/* Send a text of one kind of byte, whole or in two parts, and receive it. */
static bool exchange_text(weft_ws *ws, size_t bytes, bool has_parts)
{
    static char text[20000];
    weft_ws_message m;
    memset(text, 'x', bytes);
    int rc = has_parts ? weft_ws_send_part(ws, WEFT_WS_TEXT, text, bytes / 2, false) : 0;
    if (rc == 0 && has_parts)
        rc = weft_ws_send_part(ws, WEFT_WS_TEXT, text, bytes - bytes / 2, true);
    else if (rc == 0)
        rc = weft_ws_send(ws, WEFT_WS_TEXT, text, bytes);
    if (rc == 0)
        rc = weft_ws_recv(ws, &m);
    if (rc <= 0) {
        REQUIRE(atomic_load(&fault.injected) > 0);
        return false;
    }
    REQUIRE(m.kind == WEFT_WS_TEXT && m.bytes == bytes && memcmp(m.data, text, bytes) == 0);
    return true;
}

/* The fetcher is freed, so that nothing of it is left. */
static bool talk_over_ws(const char *url, double rest_s)
{
    weft_ws *ws = NULL;
    weft_fetcher *fetcher = weft_fetcher_new(&(weft_fetcher_options){.has_no_proxy = true});
    if (!require_object(fetcher))
        return false;
    int rc = weft_ws_connect(fetcher, url, &options, &ws);
    REQUIRE((rc == 0) == (ws != NULL));
    REQUIRE_UNLESS_FAULT(rc == 0);
    bool is_done = rc == 0 && exchange_text(ws, 10, false) && exchange_text(ws, 12000, false);
    if (is_done && rest_s > 0)
        (void)weft_sleep(rest_s);
    is_done = is_done && exchange_text(ws, 500, true);
    if (is_done)
        is_done = weft_ws_close(ws, 1000, "done") == 0;
    weft_ws_free(ws);
    REQUIRE(weft_fetcher_free(fetcher) == 0);
    return is_done;
}

static bool talk_to(weft_http_handler *handler, double rest_s)
{
    fault_server own = {.handler = handler};
    if (!become_a_cord())
        return false;
    opened = closed = 0;
    WITHOUT_FAULTS(open_fault_listener(&own));
    weft_fiber server = require_created(weft_spin(run_server, &own));
    bool is_done = server != 0 && talk_over_ws(own.url, rest_s);
    if (server != 0) {
        (void)weft_cancel(server);
        (void)weft_await(server);
    }
    close(own.listener);
    REQUIRE(opened == closed);
    return is_done;
}

static bool talk_to_echo(void)
{
    return talk_to(echo_messages, 0);
}

static bool talk_to_events(void)
{
    weft__rest_after_s = 0.002;
    return talk_to(serve_events, 0.01);
}

FAULT_TEST(messages_survive_failing_calls_or_the_connection_ends, talk_to_echo, 1)
FAULT_TEST(connections_without_a_fiber_survive_failing_calls_or_end, talk_to_events, 1)

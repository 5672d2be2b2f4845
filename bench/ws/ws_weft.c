/*
 * Echo WebSocket messages over weft. All limits have their defaults, except the limit per peer. The
 * client of a benchmark has one address for all connections.
 *
 * usage: ws_weft --port N [--loop]
 * WEFT_BACKEND selects the backend. A silent connection has no fiber. With --loop, a fiber for each
 * connection receives and sends in a loop.
 */
#include <weft/web.h>
#include <weft/ws.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PER_PEER_MAX 16384

static int echo_message(weft_ws *ws, const weft_ws_message *m, void *ctx)
{
    (void)ctx;
    return weft_ws_send(ws, m->kind, m->data, m->bytes);
}

static int echo(weft_http_request *r, void *ctx)
{
    static const weft_ws_events events = {.on_message = echo_message};
    return weft_ws_serve(r, NULL, &events, ctx);
}

static int echo_loop(weft_http_request *r, void *ctx)
{
    weft_ws *ws;
    weft_ws_message m;
    int rc = weft_ws_accept(r, NULL, &ws);
    while (rc >= 0 && (rc = weft_ws_recv(ws, &m)) > 0)
        rc = echo_message(ws, &m, ctx);
    weft_ws_free(ws);
    return rc;
}

static void usage(void)
{
    fprintf(stderr, "usage: ws_weft --port N [--loop]\n");
    exit(2);
}

int main(int argc, char **argv)
{
    weft_http_options options = {.limits = {.connections_per_peer_max = PER_PEER_MAX}};
    weft_http_handler *handler = echo;
    char address[64] = "";
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--port") == 0 && i + 1 < argc)
            snprintf(address, sizeof address, "127.0.0.1:%s", argv[++i]);
        else if (strcmp(argv[i], "--loop") == 0)
            handler = echo_loop;
        else
            usage();
    }
    if (address[0] == '\0')
        usage();
    weft_shutdown_on_signals(1.0);
    int rc = weft_http_serve(address, handler, NULL, &options);
    if (rc == -ECANCELED)
        return 0;
    fprintf(stderr, "ws_weft: %s\n", strerror(-rc));
    return 1;
}

/* A WebSocket server that echoes messages, and a client. */
#include <weft/web.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

static int echo(weft_http_request *r, void *ctx)
{
    weft_ws *ws;
    weft_ws_message m;
    (void)ctx;
    int rc = weft_ws_accept(r, &(weft_ws_options){.protocols = "echo.v1"}, &ws);
    while (rc >= 0 && (rc = weft_ws_recv(ws, &m)) > 0)
        rc = weft_ws_send(ws, m.kind, m.data, m.bytes);
    weft_ws_free(ws);
    return rc;
}

static weft_value serve(void *arg)
{
    return weft_http_serve_fd(*(int *)arg, echo, NULL, NULL);
}

/* Listen on a free port. A real server calls weft_http_serve(":8080", ...) instead. */
static int listen_anywhere(char *url, size_t room)
{
    struct sockaddr_in at;
    socklen_t bytes = sizeof at;
    int fd = weft_listen("tcp", "127.0.0.1:0");
    if (fd >= 0 && getsockname(fd, (struct sockaddr *)&at, &bytes) == 0)
        snprintf(url, room, "ws://127.0.0.1:%d/echo", ntohs(at.sin_port));
    return fd;
}

static int talk(const char *url)
{
    weft_ws *ws;
    weft_ws_message m;
    int rc = weft_ws_connect(NULL, url, &(weft_ws_options){.protocols = "echo.v1"}, &ws);
    if (rc < 0)
        return rc;
    printf("connected, %s\n", weft_ws_protocol(ws));
    for (int i = 1; i <= 3 && rc >= 0; i++) {
        rc = weft_ws_printf(ws, "message %d", i);
        if (rc >= 0 && (rc = weft_ws_recv(ws, &m)) > 0)
            printf("received: %s\n", m.data);
    }
    if (rc >= 0)
        rc = weft_ws_close(ws, WEFT_WS_NORMAL, "done");
    printf("closed with %d\n", weft_ws_close_code(ws));
    weft_ws_free(ws);
    return rc;
}

int main(void)
{
    char url[64];
    int listener = listen_anywhere(url, sizeof url);
    if (listener < 0)
        return 1;
    weft_spin(serve, &listener);
    return talk(url) < 0;
} /* the server ends with main */

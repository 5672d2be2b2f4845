/*
 * A web server built from two loops: weft_accept_loop accepts connections, and weft_recv_loop
 * receives data. Each loop is a single call. on_data sends a reply at the end of each request, so
 * requests may be pipelined. Main is a client.
 */
#include <weft.h>

#include <netinet/in.h>
#include <stdio.h>

#define BODY "Hello world!\n"
#define REPLY "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n\r\n" BODY

typedef struct client {
    int fd;
    int newlines; /* in a row, without carriage returns: two end a request */
} client;

static int on_data(const void *data, size_t bytes, void *ctx)
{
    client *c = ctx;
    for (const char *at = data; bytes > 0; at++, bytes--) {
        if (*at != '\r')
            c->newlines = *at == '\n' ? c->newlines + 1 : 0;
        if (c->newlines < 2)
            continue;
        c->newlines = 0;
        char reply[200];
        int n = snprintf(reply, sizeof reply, REPLY, sizeof BODY - 1);
        ssize_t rc = weft_write_all(c->fd, reply, (size_t)n);
        if (rc < 0)
            return (int)rc;
    }
    return 0;
}

static weft_value handle(void *arg)
{
    client c = {.fd = (int)(intptr_t)arg};
    WEFT_DEFER(weft_close, c.fd);
    weft_recv_loop(c.fd, on_data, &c);
    return 0; /* an error here would end the server and all connections */
}

/* Close a connection if its fiber ends before it runs. */
static void drop(void *arg)
{
    weft_close((int)(intptr_t)arg);
}

static int on_conn(int fd, void *ctx)
{
    (void)ctx;
    weft_spin_options options = {.drop = drop};
    if (weft_go_with(handle, (void *)(intptr_t)fd, &options) < 0)
        weft_close(fd);
    return 0;
}

static weft_value serve(void *arg)
{
    return weft_accept_loop(*(int *)arg, on_conn, NULL);
}

int main(void)
{
    int listener = weft_listen("tcp", "127.0.0.1:0"); /* any free port */
    struct sockaddr_in at = {0};
    socklen_t bytes = sizeof at;
    if (listener < 0 || getsockname(listener, (struct sockaddr *)&at, &bytes) < 0)
        return 1;
    weft_spin(serve, &listener);

    char address[32], *line;
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(at.sin_port));
    weft_stream server;
    if (weft_stream_open(&server, weft_dial("tcp", address)) < 0)
        return 1;
    for (int i = 0; i < 2; i++)
        weft_stream_puts(&server, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    for (int i = 0; i < 10 && weft_stream_line(&server, &line, NULL) > 0; i++)
        puts(line);
    weft_stream_close(&server);
}

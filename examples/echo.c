/* A TCP echo server with a fiber for each connection, and two concurrent clients. */
#include <weft.h>

#include <netinet/in.h>
#include <stdio.h>

static weft_value echo(void *arg)
{
    int fd = (int)(intptr_t)arg;
    WEFT_DEFER(weft_close, fd);
    char data[1024];
    ssize_t n;
    while ((n = weft_read(fd, data, sizeof data)) > 0 && n == weft_write_all(fd, data, (size_t)n))
        ;
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
    if (weft_go_with(echo, (void *)(intptr_t)fd, &options) < 0)
        weft_close(fd); /* no memory: refuse this connection, and try the next one */
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

    char address[32], line[80];
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(at.sin_port));
    weft_stream client[2];
    for (int i = 0; i < 2; i++)
        if (weft_stream_open(&client[i], weft_dial("tcp", address)) < 0)
            return 1;
    for (int i = 0; i < 6; i++) {
        weft_stream *s = &client[i % 2];
        weft_stream_printf(s, "client %d, line %d\n", i % 2 + 1, i / 2 + 1);
        if (weft_stream_gets(s, line, sizeof line) > 0)
            fputs(line, stdout);
    }
    for (int i = 0; i < 2; i++)
        weft_stream_close(&client[i]);
} /* the server ends with main */

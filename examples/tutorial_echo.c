/*
 * Tutorial, step 8: a TCP echo server. With an address, for example 127.0.0.1:7000, it serves until
 * Ctrl-C. Without an address, it serves two clients of its own.
 */
#include <weft.h>

#include <netinet/in.h>
#include <stdio.h>

static weft_value echo(void *arg)
{
    int fd = (int)(intptr_t)arg;
    WEFT_DEFER(weft_close, fd);
    char data[1024];
    ssize_t n;
    while ((n = weft_read(fd, data, sizeof data)) > 0)
        if (weft_write_all(fd, data, (size_t)n) < 0)
            break;
    return 0; /* an error of one connection is not an error of the server */
}

/* Close a connection if its fiber ends before it runs. */
static void drop_conn(void *arg)
{
    weft_close((int)(intptr_t)arg);
}

static int on_conn(int fd, void *ctx)
{
    (void)ctx;
    weft_spin_options options = {.name = "echo", .drop = drop_conn};
    if (weft_go_with(echo, (void *)(intptr_t)fd, &options) < 0)
        weft_close(fd);
    return 0;
}

static weft_value serve(void *arg)
{
    return weft_accept_loop((int)(intptr_t)arg, on_conn, NULL);
}

/* Connect to the port of the listener. */
static int dial_listener(int listener)
{
    struct sockaddr_in at = {0};
    socklen_t bytes = sizeof at;
    char address[32];
    if (getsockname(listener, (struct sockaddr *)&at, &bytes) < 0)
        return -1;
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(at.sin_port));
    return weft_dial("tcp", address);
}

/* Send two lines over two connections at the same time. */
static int play_clients(int listener)
{
    weft_stream clients[2];
    char line[80];
    for (int i = 0; i < 2; i++)
        if (weft_stream_open(&clients[i], dial_listener(listener)) < 0)
            return 1;
    for (int i = 0; i < 4; i++) {
        weft_stream_printf(&clients[i % 2], "client %d, line %d\n", i % 2 + 1, i / 2 + 1);
        if (weft_stream_gets(&clients[i % 2], line, sizeof line) > 0)
            fputs(line, stdout);
    }
    for (int i = 0; i < 2; i++)
        weft_stream_close(&clients[i]);
    return 0;
}

int main(int argc, char **argv)
{
    int listener = weft_listen("tcp", argc > 1 ? argv[1] : "127.0.0.1:0"); /* 0: any free port */
    if (listener < 0) {
        fprintf(stderr, "%s\n", weft_error()->message);
        return 1;
    }
    weft_fiber server = weft_spin(serve, (void *)(intptr_t)listener);
    return argc > 1 ? weft_await(server) < 0 : play_clients(listener);
}

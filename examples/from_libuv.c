/*
 * A TCP echo server that closes a connection after a time without input. docs/from.md shows the
 * server beside a program for libuv. Main is a client.
 */
#include <weft.h>

#include <netinet/in.h>
#include <stdio.h>

#define IDLE_S 0.3

static weft_value echo(void *arg)
{
    int fd = (int)(intptr_t)arg;
    WEFT_DEFER(weft_close, fd);
    char data[1024];
    ssize_t n = 0;
    do {
        WEFT_MOVE_ON_AFTER(IDLE_S) {
            n = weft_read(fd, data, sizeof data); /* -ECANCELED after IDLE_S */
        }
    } while (n > 0 && weft_write_all(fd, data, (size_t)n) == n);
    return 0; /* an error here would end the server */
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
        weft_close(fd);
    return 0;
}

static weft_value serve(void *listener)
{
    return weft_accept_loop(*(int *)listener, on_conn, NULL);
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
    weft_stream client;
    if (weft_stream_open(&client, weft_dial("tcp", address)) < 0)
        return 1;
    weft_stream_puts(&client, "hello\n");
    if (weft_stream_gets(&client, line, sizeof line) > 0)
        fputs(line, stdout);
    if (weft_stream_gets(&client, line, sizeof line) == 0)
        puts("the server has closed the idle connection");
    weft_stream_close(&client);
}

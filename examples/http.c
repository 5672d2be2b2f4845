/*
 * A minimal web server. handle reads a request up to the empty line, replies 200 and closes the
 * connection. Main is a client with two connections at once.
 */
#include <weft.h>

#include <netinet/in.h>
#include <stdio.h>

static weft_value handle(void *arg)
{
    weft_stream client;
    weft_stream_open(&client, (int)(intptr_t)arg);
    char *line;
    size_t bytes;
    while (weft_stream_line(&client, &line, &bytes) > 0 && bytes > 0)
        ;
    weft_stream_puts(&client, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    weft_stream_close(&client);
    return 0;
}

/* Close a connection if its fiber ends before it runs. */
static void drop(void *arg)
{
    weft_close((int)(intptr_t)arg);
}

static weft_value serve(void *arg)
{
    weft_spin_options options = {.drop = drop};
    int fd;
    while ((fd = weft_accept(*(int *)arg, NULL, NULL)) >= 0)
        if (weft_go_with(handle, (void *)(intptr_t)fd, &options) < 0)
            weft_close(fd);
    return fd;
}

static void print_answer(weft_stream *server)
{
    char *line;
    while (weft_stream_line(server, &line, NULL) > 0)
        printf("[%s]\n", line);
}

int main(void)
{
    int listener = weft_listen("tcp", "127.0.0.1:0"); /* any free port */
    struct sockaddr_in at = {0};
    socklen_t bytes = sizeof at;
    if (listener < 0 || getsockname(listener, (struct sockaddr *)&at, &bytes) < 0)
        return 1;
    weft_spin(serve, &listener);
    fprintf(stderr, "backend: %s\n", weft_backend_name());

    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(at.sin_port));
    weft_stream calls[2];
    for (int i = 0; i < 2; i++)
        if (weft_stream_open(&calls[i], weft_dial("tcp", address)) < 0)
            return 1;
    for (int i = 1; i >= 0; i--) { /* the second connection sends first */
        weft_stream_puts(&calls[i], "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        print_answer(&calls[i]);
        weft_stream_close(&calls[i]);
    }
}

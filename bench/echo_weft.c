/*
 * Echo servers over weft, as anyone would write them: a fiber a connection, which reads into a
 * buffer of its own, or is called with what has come.
 */
#include "echo.h"

#include <weft.h>

#include <netinet/in.h>
#include <netinet/tcp.h>

static weft_value echo(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char buffer[ECHO_BUFFER_BYTES];
    ssize_t n;
    while ((n = weft_read(fd, buffer, sizeof buffer)) > 0)
        if (weft_write_all(fd, buffer, (size_t)n) < 0)
            break;
    weft_close(fd);
    return 0;
}

static int send_back(const void *data, size_t bytes, void *fd)
{
    ssize_t n = weft_write_all(*(int *)fd, data, bytes);
    return n < 0 ? (int)n : 0;
}

static weft_value echo_loop(void *arg)
{
    int fd = (int)(intptr_t)arg;
    weft_recv_loop(fd, send_back, &fd);
    weft_close(fd);
    return 0;
}

static void serve(int listener, weft_fn *handler)
{
    static const int one = 1;
    int fd;
    while ((fd = weft_accept(listener, NULL, NULL)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        echo_require(weft_go(handler, (void *)(intptr_t)fd) == 0, "weft_go");
    }
}

void echo_weft(int listener)
{
    serve(listener, echo);
}

void echo_weft_loop(int listener)
{
    serve(listener, echo_loop);
}

/*
 * Echo servers over weft, as users write them. Each connection has a fiber. The fiber reads into
 * its own buffer, or a callback receives the bytes. WEFT_BACKEND selects the backend.
 */
#include "listen.h"
#include "works.h"

#include <weft.h>

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

static void serve(size_t port, weft_fn *handler)
{
    int listener = bench_listen(port), fd;
    while ((fd = weft_accept(listener, NULL, NULL)) >= 0)
        bench_require(weft_go(handler, (void *)(intptr_t)fd) == 0);
    bench_fail(__FILE__, __LINE__, "weft_accept(listener, NULL, NULL) >= 0");
}

void work_echo(size_t port, size_t n)
{
    (void)n;
    serve(port, echo);
}

void work_echo_loop(size_t port, size_t n)
{
    (void)n;
    serve(port, echo_loop);
}

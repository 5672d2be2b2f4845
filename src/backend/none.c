/* The backend of last resort: a clock and nothing else. */
#include "backend/backend.h"
#include "backend/call.h"
#include "base/clock.h"

#include <time.h>

/* How late a wake from another thread may be noticed. */
#define SLEEP_NS_MAX 10000000

static void close_none(weft__backend *b)
{
    (void)b;
}

static int64_t now_ns(weft__backend *b)
{
    (void)b;
    return weft__clock_ns();
}

static int error_of(const weft__backend *b)
{
    return ((const weft__backend_none *)(const void *)b)->error;
}

static intptr_t submit(weft__backend *b, weft__op *op)
{
    (void)op;
    return error_of(b);
}

static bool cancel(weft__backend *b, weft__op *op)
{
    return op->job == NULL || weft__pool_cancel(b, op);
}

static int poll_none(weft__backend *b, int64_t timeout_ns)
{
    if (timeout_ns < 0 || timeout_ns > SLEEP_NS_MAX)
        timeout_ns = SLEEP_NS_MAX;
    struct timespec t = {0, timeout_ns};
    nanosleep(&t, NULL);
    if (b->pooled != NULL) /* taken over from a backend that was given up */
        weft__pool_collect(b);
    return 0;
}

static void wake(weft__backend *b)
{
    (void)b; /* poll looks again soon */
}

static int close_fd(weft__backend *b, int fd)
{
    (void)b;
    return weft__call_close(fd);
}

static int make_two(weft__backend *b, int fd[2])
{
    (void)fd;
    return error_of(b);
}

static const weft__backend_type none = {
    .name = "none",
    .close = close_none,
    .now_ns = now_ns,
    .submit = submit,
    .cancel = cancel,
    .poll = poll_none,
    .wake = wake,
    .close_fd = close_fd,
    .shutdown_fd = weft__call_shutdown,
    .pipe = make_two,
    .socketpair = make_two,
};

void weft__backend_none_open(weft__backend_none *b, int error)
{
    *b = (weft__backend_none){.base.type = &none, .error = error};
}

/* The backend of a thread that could not open another backend. It has a clock, but no I/O. */
#include "backend/backend.h"
#include "backend/syscall/call.h"
#include "base/clock.h"

#include <time.h>

/*
 * The maximum time of one poll. A wake does not end a poll, so this is also the maximum delay of a
 * wake.
 */
#define SLEEP_NS_MAX 10000000

static void none_close(weft__backend *b)
{
    (void)b;
}

static int64_t none_now_ns(weft__backend *b)
{
    (void)b;
    return weft__clock_ns();
}

static int none_error(const weft__backend *b)
{
    return ((const weft__backend_none *)(const void *)b)->error;
}

static intptr_t none_submit(weft__backend *b, weft__op *op)
{
    (void)op;
    return none_error(b);
}

static bool none_cancel(weft__backend *b, weft__op *op)
{
    return op->job == NULL || weft__job_cancel(b, op);
}

static int none_poll(weft__backend *b, int64_t timeout_ns)
{
    if (timeout_ns < 0 || timeout_ns > SLEEP_NS_MAX)
        timeout_ns = SLEEP_NS_MAX;
    struct timespec t = {0, timeout_ns};
    nanosleep(&t, NULL);
    if (b->finished_jobs != NULL) /* jobs of a backend that was given up */
        weft__jobs_collect(b);
    return 0;
}

static void none_wake(weft__backend *b)
{
    (void)b; /* poll returns within SLEEP_NS_MAX */
}

static int none_close_fd(weft__backend *b, int fd)
{
    (void)b;
    return weft__call_close(fd);
}

static int none_pipe(weft__backend *b, int fd[2])
{
    (void)fd;
    return none_error(b);
}

static const weft__backend_type none = {
    .name = "none",
    .close = none_close,
    .now_ns = none_now_ns,
    .submit = none_submit,
    .cancel = none_cancel,
    .poll = none_poll,
    .wake = none_wake,
    .close_fd = none_close_fd,
    .shutdown_fd = weft__call_shutdown,
    .pipe = none_pipe,
    .socketpair = none_pipe,
};

void weft__backend_none_open(weft__backend_none *b, int error)
{
    *b = (weft__backend_none){.base.type = &none, .error = error};
}

/* Hooks of epoll_wait, epoll_pwait and epoll_pwait2. */
#include "posix/io/fd_wait.h"
#include "posix/io/seconds.h"
#include "posix/io/sigmask.h"

#include <weft/io.h>

/* A call of epoll_wait. */
typedef struct epoll_call {
    int fd;
    struct epoll_event *events;
    int count;
} epoll_call;

static int epoll_now(const epoll_call *c)
{
    int n = REAL(epoll_wait)(c->fd, c->events, c->count, 0);
    return n < 0 ? -errno : n;
}

/*
 * Wait for at most some seconds. Several fibers may wait for one epoll descriptor, and another
 * fiber may take the events. Pause after the second such wake-up, so that the loop cannot take all
 * time.
 */
static int epoll_for(void *context, double seconds)
{
    const epoll_call *c = context;
    double delay_s = 0;
    intptr_t rc = 0;
    uint32_t generation = weft__fd_generation_here(c->fd);
    weft__hook_wait w;
    weft__hook_wait_begin(&w, WEFT__HOOK_NEVER_RESTARTS,
                          isfinite(seconds) ? seconds : WEFT__HOOK_FOREVER);
    for (bool is_again = false; rc == 0; is_again = true) {
        rc = is_again ? weft__hook_retry_pause(&delay_s) : 0;
        if (rc == 0)
            rc = weft__fd_await(c->fd, POLLIN, generation);
        if (rc >= 0)
            rc = epoll_now(c);
    }
    return (int)weft__fd_wait_end(&w, rc, 0);
}

/* timeout_s is INFINITY, or the limit of the wait. */
static int epoll_in_fiber(epoll_call *c, double timeout_s, const sigset_t *mask)
{
    int error = errno, rc = 0;
    if (weft__mask_unblocks(mask))
        rc = weft__mask_handle(mask);
    if (rc == 0)
        rc = epoll_now(c);
    if (rc == 0 && timeout_s > 0)
        rc = weft__mask_wait(mask, timeout_s, epoll_for, c);
    errno = error;
    return (int)weft__hook_result(rc);
}

static double seconds_of_ms(int timeout_ms)
{
    return timeout_ms < 0 ? INFINITY : timeout_ms / 1e3;
}

HOOK_DEFINE(int, epoll_wait, (int fd, struct epoll_event *events, int count, int timeout_ms))
{
    if (!weft__hook_is_on())
        return REAL(epoll_wait)(fd, events, count, timeout_ms);
    return epoll_in_fiber(&(epoll_call){fd, events, count}, seconds_of_ms(timeout_ms), NULL);
}

HOOK_DEFINE(int, epoll_pwait,
            (int fd, struct epoll_event *events, int count, int timeout_ms, const sigset_t *mask))
{
    if (!weft__hook_is_on())
        return REAL(epoll_pwait)(fd, events, count, timeout_ms, mask);
    return epoll_in_fiber(&(epoll_call){fd, events, count}, seconds_of_ms(timeout_ms), mask);
}

HOOK_DEFINE(int, epoll_pwait2,
            (int fd, struct epoll_event *events, int count, const struct timespec *timeout,
             const sigset_t *mask))
{
    if (!weft__hook_is_on() || (timeout != NULL && !weft__timespec_is_valid(timeout)))
        return REAL(epoll_pwait2)(fd, events, count, timeout, mask);
    double timeout_s = timeout != NULL ? weft__seconds_of_timespec(timeout) : INFINITY;
    return epoll_in_fiber(&(epoll_call){fd, events, count}, timeout_s, mask);
}

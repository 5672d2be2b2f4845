/* Hooks of poll and ppoll. */
#include "posix/io/fd_wait.h"
#include "posix/io/seconds.h"
#include "posix/io/sigmask.h"

#include <weft/io.h>

/* The descriptors of a call. */
typedef struct poll_call {
    struct pollfd *fds;
    nfds_t count;
} poll_call;

static int poll_for(void *context, double seconds)
{
    const poll_call *c = context;
    weft__hook_wait w;
    weft__hook_wait_begin(&w, WEFT__HOOK_NEVER_RESTARTS, WEFT__HOOK_FOREVER);
    return (int)weft__hook_wait_end(&w, weft_poll(c->fds, c->count, seconds));
}

static int poll_in_fiber(struct pollfd *fds, nfds_t count, double timeout_s, const sigset_t *mask)
{
    int error = errno;
    int rc = weft__mask_wait(mask, timeout_s, poll_for, &(poll_call){fds, count});
    errno = error;
    return (int)weft__hook_result(rc);
}

HOOK_DEFINE(int, poll, (struct pollfd * fds, nfds_t count, int timeout_ms))
{
    if (!weft__hook_is_on())
        return REAL(poll)(fds, count, timeout_ms);
    int ready = REAL(poll)(fds, count, 0);
    if (ready != 0 || timeout_ms == 0)
        return ready;
    return poll_in_fiber(fds, count, timeout_ms < 0 ? INFINITY : timeout_ms / 1e3, NULL);
}

HOOK_DEFINE(int, ppoll,
            (struct pollfd * fds, nfds_t count, const struct timespec *timeout,
             const sigset_t *mask))
{
    static const struct timespec no_wait;
    if (!weft__hook_is_on() || (timeout != NULL && !weft__timespec_is_valid(timeout)))
        return REAL(ppoll)(fds, count, timeout, mask);
    double timeout_s = timeout != NULL ? weft__seconds_of_timespec(timeout) : INFINITY;
    int ready = REAL(ppoll)(fds, count, &no_wait, mask);
    if (ready != 0 || timeout_s == 0)
        return ready;
    return poll_in_fiber(fds, count, timeout_s, mask);
}

HOOK_DEFINE(int, __poll_chk, (struct pollfd * fds, nfds_t count, int timeout_ms, size_t room))
{
    if (room / sizeof *fds < count)
        return REAL(__poll_chk)(fds, count, timeout_ms, room);
    return weft__hook_poll(fds, count, timeout_ms);
}

HOOK_DEFINE(int, __ppoll_chk,
            (struct pollfd * fds, nfds_t count, const struct timespec *timeout,
             const sigset_t *mask, size_t room))
{
    if (room / sizeof *fds < count)
        return REAL(__ppoll_chk)(fds, count, timeout, mask, room);
    return weft__hook_ppoll(fds, count, timeout, mask);
}

/*
 * The hook of recvmmsg. As in the kernel, the time limit applies only after the first message, and
 * MSG_WAITFORONE does not wait for more than one message.
 */
#include "posix/io/fd_wait.h"
#include "posix/io/seconds.h"

#include <weft/io.h>
#include <weft/time.h>

#include <math.h>

/* One call of recvmmsg. */
typedef struct recv_batch {
    int fd, flags;
    struct mmsghdr *messages;
    unsigned count, done;
    double deadline; /* on the clock of weft_now */
} recv_batch;

static bool batch_is_complete(const recv_batch *b)
{
    return b->done == b->count || (b->done > 0 && b->flags & MSG_WAITFORONE) ||
           (b->done > 0 && weft_now() >= b->deadline);
}

/* Receive the messages that are there. Returns 0, or -errno; -EAGAIN if no message is there. */
static intptr_t batch_try(recv_batch *b)
{
    int n = REAL(recvmmsg)(b->fd, b->messages + b->done, b->count - b->done,
                           b->flags | MSG_DONTWAIT, NULL);
    if (n < 0)
        return -errno;
    b->done += (unsigned)n;
    return 0;
}

/* Wait for more messages. The next call reports an error after the first message. */
static intptr_t batch_wait(recv_batch *b)
{
    uint32_t generation = weft__fd_generation_here(b->fd);
    weft__hook_wait w;
    double limit_s = weft__fd_recv_limit_s(b->fd, weft__fd_note(b->fd));
    if (b->done > 0 && isfinite(b->deadline)) {
        double left_s = weft__seconds_left(b->deadline, weft_now());
        limit_s = limit_s < 0 ? left_s : weft__seconds_min(limit_s, left_s);
    }
    weft__hook_wait_begin(&w, WEFT__HOOK_RESTARTS, limit_s);
    intptr_t rc = weft__fd_wait_end(&w, weft__fd_await(b->fd, POLLIN, generation), -EAGAIN);
    if (rc < 0)
        return rc;
    return b->done > 0 && rc & POLLERR ? -EIO : 0; /* the error must remain for the next call */
}

static int batch_receive(recv_batch *b)
{
    int error = errno;
    intptr_t rc = batch_try(b);
    while (!batch_is_complete(b) && (rc == 0 || rc == -EAGAIN)) {
        if (rc == -EAGAIN && !weft__fd_may_wait(b->fd))
            break;
        if (rc == -EAGAIN) {
            rc = batch_wait(b);
            if (rc < 0)
                break;
        }
        rc = batch_try(b);
    }
    errno = error;
    return b->done > 0 ? (int)b->done : weft__hook_fail(rc);
}

HOOK_DEFINE(int, recvmmsg,
            (int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout))
{
    bool is_invalid = timeout != NULL && !weft__timespec_is_valid(timeout);
    if (!weft__hook_is_on() || count == 0 || is_invalid ||
        flags & (MSG_DONTWAIT | MSG_ERRQUEUE | MSG_OOB))
        return REAL(recvmmsg)(fd, messages, count, flags, timeout);
    double limit_s = timeout != NULL ? weft__seconds_of_timespec(timeout) : INFINITY;
    recv_batch b = {fd, flags, messages, count, 0, weft_now() + limit_s};
    int n = batch_receive(&b);
    if (timeout != NULL && n >= 0)
        *timeout = weft__timespec_of_seconds(b.deadline - weft_now());
    return n;
}

/*
 * Hooks that send to sockets. All attempts are real calls with MSG_DONTWAIT, so the kernel raises
 * SIGPIPE as without hooks. Between the attempts, the fiber waits until the socket is writable.
 */
#include "posix/io/send.h"

#include "posix/io/fd_wait.h"

#include <weft/io.h>

#include <limits.h>

ssize_t weft__send_attempt(const weft__write_call *c, size_t done)
{
    int flags = c->flags | MSG_DONTWAIT;
    if (done == 0 && c->message != NULL)
        return REAL(sendmsg)(c->fd, c->message, flags);
    if (c->count == 1)
        return REAL(send)(c->fd, (char *)c->pieces->iov_base + done, c->bytes - done, flags);
    struct iovec window[WEFT__IOVEC_WINDOW];
    struct msghdr rest = {.msg_iov = window};
    rest.msg_iovlen = (size_t)weft__iovec_tail(c->pieces, c->count, done, window);
    return REAL(sendmsg)(c->fd, &rest, flags);
}

/*
 * Wait until the next attempt can make progress. retries is the number of attempts that failed
 * although the descriptor was writable. An example is a datagram to a unix socket whose queue is
 * full: no event announces its space.
 */
static intptr_t wait_writable(const weft__write_call *c, uint32_t generation, int retries,
                              double *delay_s)
{
    if (retries <= 1)
        return weft__fd_await(c->fd, POLLOUT, generation);
    int rc = weft__hook_retry_pause(delay_s);
    return weft__fd_generation_here(c->fd) != generation ? -EBADF : rc;
}

/*
 * Write the bytes after the first *done. Returns 0 or -errno.
 *
 * A socket reports its error only once. If a part was written, the next call must report the error,
 * so do not try again after POLLERR or POLLHUP.
 */
static intptr_t write_rest(const weft__write_call *c, uint32_t generation, size_t *done)
{
    double delay_s = 0;
    int retries = 0;
    do {
        intptr_t rc = wait_writable(c, generation, retries, &delay_s);
        if (rc < 0)
            return rc;
        if (c->is_socket && *done > 0 && rc & (POLLERR | POLLHUP))
            return -EPIPE;
        ssize_t n = c->attempt(c, *done);
        if (n < 0 && errno != EAGAIN)
            return -errno;
        retries = n < 0 ? retries + 1 : 0;
        *done += n > 0 ? (size_t)n : 0;
    } while (*done < c->bytes);
    return 0;
}

static ssize_t write_waiting(const weft__write_call *c, size_t done)
{
    uint32_t generation = weft__fd_generation_here(c->fd);
    weft__hook_wait w;
    weft__hook_wait_begin(&w, WEFT__HOOK_RESTARTS,
                          c->is_socket ? weft__fd_send_limit_s(c->fd, weft__fd_note(c->fd))
                                       : WEFT__HOOK_FOREVER);
    intptr_t rc = write_rest(c, generation, &done);
    rc = weft__fd_wait_end(&w, rc, -EAGAIN);
    return done > 0 || rc == 0 ? (ssize_t)done : weft__hook_fail(rc);
}

ssize_t weft__write_in_fiber(const weft__write_call *c)
{
    int error = errno;
    ssize_t n = c->attempt(c, 0);
    if (n < 0 ? errno != EAGAIN : (size_t)n >= c->bytes)
        return n;
    if (!weft__fd_may_wait(c->fd))
        return n;
    errno = error;
    n = write_waiting(c, n > 0 ? (size_t)n : 0);
    if (n >= 0)
        errno = error;
    return n;
}

HOOK_DEFINE(ssize_t, send, (int fd, const void *buffer, size_t bytes, int flags))
{
    if (!weft__hook_is_on() || flags & MSG_DONTWAIT)
        return REAL(send)(fd, buffer, bytes, flags);
    struct iovec piece = {(void *)(uintptr_t)buffer, bytes};
    return weft__write_in_fiber(&(weft__write_call){.fd = fd,
                                                    .flags = flags,
                                                    .pieces = &piece,
                                                    .count = 1,
                                                    .bytes = bytes,
                                                    .attempt = weft__send_attempt,
                                                    .is_socket = true});
}

static ssize_t sendmsg_in_fiber(int fd, const struct msghdr *message, int flags)
{
    if (message->msg_iovlen > IOV_MAX)
        return REAL(sendmsg)(fd, message, flags);
    return weft__write_in_fiber(
        &(weft__write_call){.fd = fd,
                            .flags = flags,
                            .pieces = message->msg_iov,
                            .count = message->msg_iovlen,
                            .bytes = weft__iovec_bytes(message->msg_iov, message->msg_iovlen),
                            .message = message,
                            .attempt = weft__send_attempt,
                            .is_socket = true});
}

HOOK_DEFINE(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags))
{
    if (!weft__hook_is_on() || flags & MSG_DONTWAIT || message == NULL)
        return REAL(sendmsg)(fd, message, flags);
    return sendmsg_in_fiber(fd, message, flags);
}

HOOK_DEFINE(ssize_t, sendto,
            (int fd, const void *buffer, size_t bytes, int flags, const struct sockaddr *address,
             socklen_t address_bytes))
{
    if (!weft__hook_is_on() || flags & MSG_DONTWAIT)
        return REAL(sendto)(fd, buffer, bytes, flags, address, address_bytes);
    if (address == NULL)
        return weft__hook_send(fd, buffer, bytes, flags);
    struct iovec piece = {(void *)(uintptr_t)buffer, bytes};
    struct msghdr message = {.msg_name = (void *)(uintptr_t)address,
                             .msg_namelen = address_bytes,
                             .msg_iov = &piece,
                             .msg_iovlen = 1};
    return sendmsg_in_fiber(fd, &message, flags);
}

/* Send the part of a message that a call of sendmmsg did not send. Returns the bytes, or -1. */
static ssize_t message_finish(int fd, const struct msghdr *message, size_t done, int flags)
{
    struct iovec window[WEFT__IOVEC_WINDOW];
    struct msghdr rest = {.msg_iov = window};
    size_t bytes = weft__iovec_bytes(message->msg_iov, message->msg_iovlen);
    while (done < bytes) {
        rest.msg_iovlen =
            (size_t)weft__iovec_tail(message->msg_iov, message->msg_iovlen, done, window);
        ssize_t n = sendmsg_in_fiber(fd, &rest, flags);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

/* Send the messages one by one. Returns the number of sent messages, at least `done`. */
static int batch_send(int fd, struct mmsghdr *messages, unsigned count, unsigned done, int flags)
{
    for (; done < count; done++) {
        ssize_t n = sendmsg_in_fiber(fd, &messages[done].msg_hdr, flags);
        if (n < 0)
            return done > 0 ? (int)done : -1;
        messages[done].msg_len = (unsigned)n;
    }
    return (int)done;
}

/* Return whether a call of sendmmsg that returned n has sent all bytes of all messages. */
static bool batch_is_sent(const struct mmsghdr *messages, unsigned count, int n)
{
    if (n < 0 || (unsigned)n < count)
        return false;
    const struct mmsghdr *last = &messages[count - 1];
    return last->msg_len >= weft__iovec_bytes(last->msg_hdr.msg_iov, last->msg_hdr.msg_iovlen);
}

/*
 * The kernel stops after a message that it has sent in part. The message counts as sent. If the
 * socket waits, send its rest, and then the other messages.
 */
HOOK_DEFINE(int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned count, int flags))
{
    if (!weft__hook_is_on() || flags & MSG_DONTWAIT || count == 0)
        return REAL(sendmmsg)(fd, messages, count, flags);
    int error = errno;
    int n = REAL(sendmmsg)(fd, messages, count, flags | MSG_DONTWAIT);
    if ((n < 0 && errno != EAGAIN) || batch_is_sent(messages, count, n) || !weft__fd_may_wait(fd))
        return n;
    if (n > 0) {
        struct mmsghdr *last = &messages[n - 1];
        last->msg_len = (unsigned)message_finish(fd, &last->msg_hdr, last->msg_len, flags);
    }
    errno = error;
    return batch_send(fd, messages, count, n > 0 ? (unsigned)n : 0, flags);
}

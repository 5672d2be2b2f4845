/*
 * Hooks that receive from sockets.
 *
 * The real call with MSG_DONTWAIT comes first. Only if it would wait, weft receives. A socket whose
 * last call has waited (fd_note.h) goes directly to weft, which makes the first attempt itself.
 *
 * SO_RCVLOWAT has no effect, because MSG_DONTWAIT ignores it.
 */
#include "posix/io/recv.h"

#include "posix/io/fd_wait.h"

#include <weft/io.h>
#include <weft/net.h>

/* With these flags, a call never waits. */
#define NEVER_WAITS (MSG_DONTWAIT | MSG_ERRQUEUE | MSG_OOB)

static ssize_t recv_real(const weft__recv_call *c, int more_flags)
{
    int flags = c->flags | more_flags;
    if (c->message != NULL)
        return REAL(recvmsg)(c->fd, c->message, flags);
    if (c->address != NULL)
        return REAL(recvfrom)(c->fd, c->buffer, c->bytes, flags, c->address, c->address_bytes);
    return REAL(recv)(c->fd, c->buffer, c->bytes, flags);
}

static ssize_t recv_with_weft(const weft__recv_call *c)
{
    if (c->message != NULL)
        return weft_recvmsg(c->fd, c->message, c->flags);
    return weft_recvfrom(c->fd, c->buffer, c->bytes, c->flags, c->address, c->address_bytes);
}

static ssize_t recv_waiting(const weft__recv_call *c, uint32_t note, bool was_tried)
{
    int error = errno;
    weft__hook_wait w;
    weft__hook_wait_begin(&w, WEFT__HOOK_RESTARTS, weft__fd_recv_limit_s(c->fd, note));
    intptr_t n = weft__fd_wait_end(&w, recv_with_weft(c), -EAGAIN);
    if (n == -EBADF)
        return weft__hook_fail(n); /* the number may belong to another file now */
    weft__fd_note_waited(c->fd, note, was_tried, c->message == NULL && n == (intptr_t)c->bytes);
    errno = error;
    return weft__hook_result(n);
}

/*
 * Receive the rest of a call with MSG_WAITALL. An error of the socket must remain for the next
 * call, so do not receive after POLLERR. The rest may fail only because of a cancellation, which
 * the next call reports, too.
 */
static ssize_t recv_rest(const weft__recv_call *c, size_t done)
{
    int type = SOCK_STREAM;
    socklen_t type_bytes = sizeof type;
    (void)getsockopt(c->fd, SOL_SOCKET, SO_TYPE, &type, &type_bytes);
    if (type != SOCK_STREAM || !weft__fd_may_wait(c->fd))
        return (ssize_t)done;
    int error = errno;
    uint32_t generation = weft__fd_generation_here(c->fd);
    weft__hook_wait w;
    weft__hook_wait_begin(&w, WEFT__HOOK_RESTARTS,
                          weft__fd_recv_limit_s(c->fd, weft__fd_note(c->fd)));
    intptr_t n = weft__fd_await(c->fd, POLLIN, generation);
    if (n >= 0 && !(n & POLLERR))
        n = weft_recv(c->fd, (char *)c->buffer + done, c->bytes - done, c->flags);
    else
        n = n < 0 ? n : 0;
    (void)weft__hook_wait_end(&w, n);
    errno = error;
    return (ssize_t)done + (n > 0 ? n : 0);
}

static bool must_continue(const weft__recv_call *c, ssize_t n)
{
    return n > 0 && c->flags & MSG_WAITALL && !(c->flags & MSG_PEEK) && c->message == NULL &&
           (size_t)n < c->bytes;
}

ssize_t weft__recv_in_fiber(const weft__recv_call *c)
{
    if (c->flags & NEVER_WAITS)
        return recv_real(c, 0);
    int error = errno;
    uint32_t note = weft__fd_note(c->fd);
    /* Several pieces with MSG_WAITALL: only weft_recvmsg continues a partial message. */
    bool is_direct =
        weft__fd_note_expects_wait(note) || (c->message != NULL && c->flags & MSG_WAITALL);
    ssize_t n = is_direct ? -1 : recv_real(c, MSG_DONTWAIT);
    if (n < 0 && (is_direct || errno == EAGAIN) && weft__fd_may_wait(c->fd)) {
        errno = error;
        return recv_waiting(c, note, !is_direct);
    }
    weft__fd_note_ready(c->fd, note);
    if (is_direct)
        return recv_real(c, 0);
    return must_continue(c, n) ? recv_rest(c, (size_t)n) : n;
}

HOOK_DEFINE(ssize_t, recv, (int fd, void *buffer, size_t bytes, int flags))
{
    if (!weft__hook_is_on())
        return REAL(recv)(fd, buffer, bytes, flags);
    return weft__recv_in_fiber(
        &(weft__recv_call){.fd = fd, .flags = flags, .buffer = buffer, .bytes = bytes});
}

HOOK_DEFINE(ssize_t, recvfrom,
            (int fd, void *buffer, size_t bytes, int flags, struct sockaddr *address,
             socklen_t *address_bytes))
{
    if (!weft__hook_is_on())
        return REAL(recvfrom)(fd, buffer, bytes, flags, address, address_bytes);
    return weft__recv_in_fiber(&(weft__recv_call){.fd = fd,
                                                  .flags = flags,
                                                  .buffer = buffer,
                                                  .bytes = bytes,
                                                  .address = address,
                                                  .address_bytes = address_bytes});
}

HOOK_DEFINE(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags))
{
    if (!weft__hook_is_on() || message == NULL)
        return REAL(recvmsg)(fd, message, flags);
    return weft__recv_in_fiber(&(weft__recv_call){.fd = fd, .flags = flags, .message = message});
}

/* The checks of fortified calls: the real call ends the process if the buffer is too small. */

HOOK_DEFINE(ssize_t, __recv_chk, (int fd, void *buffer, size_t bytes, size_t room, int flags))
{
    if (bytes > room)
        return REAL(__recv_chk)(fd, buffer, bytes, room, flags);
    return weft__hook_recv(fd, buffer, bytes, flags);
}

HOOK_DEFINE(ssize_t, __recvfrom_chk,
            (int fd, void *buffer, size_t bytes, size_t room, int flags, struct sockaddr *address,
             socklen_t *address_bytes))
{
    if (bytes > room)
        return REAL(__recvfrom_chk)(fd, buffer, bytes, room, flags, address, address_bytes);
    return weft__hook_recvfrom(fd, buffer, bytes, flags, address, address_bytes);
}

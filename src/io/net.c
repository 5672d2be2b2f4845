/* Calls for sockets. Each call is one operation of the backend, or a loop of operations. */
#include "core/lifetime/cancel.h"
#include "core/lifetime/scope.h"
#include "core/op/op.h"

#include <weft/error.h>
#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/scope.h>

#include <poll.h>

static ssize_t recv_once(int fd, void *buffer, size_t bytes, int flags)
{
    weft__op op = {.code = WEFT__OP_RECV, .fd = fd, .u.packet = {buffer, bytes, flags}};
    return weft__op_run(&op);
}

static ssize_t recvmsg_once(int fd, struct msghdr *message, int flags)
{
    weft__op op = {.code = WEFT__OP_RECVMSG, .fd = fd, .u.message = {message, flags}};
    return weft__op_run(&op);
}

/*
 * Return whether MSG_WAITALL applies. weft implements the flag by several calls, because cancelling
 * a single kernel call could lose bytes. The flag has no effect on message sockets and on calls
 * that do not consume stream data.
 */
static bool must_wait_all(int fd, int flags)
{
    if (!(flags & MSG_WAITALL) || flags & (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE))
        return false;
    int type = SOCK_STREAM;
    socklen_t bytes = sizeof type;
    /* getsockopt fails for a socket of the sim backend, which is a stream socket. */
    (void)getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes);
    return type == SOCK_STREAM;
}

/*
 * Wait for more bytes after a part of the bytes was received. Returns false on an error. The next
 * call must return the error, so do not consume the error. A socket reports its error only once. If
 * an error was raised in the fiber, raise the error again.
 */
static bool wait_for_more(int fd)
{
    const weft_error_info *before = weft_error();
    int events = weft_wait_fd(fd, POLLIN);
    if (events >= 0)
        return !(events & POLLERR) && !weft_is_cancelled();
    const weft_error_info *raised = weft_error();
    if (raised != before && raised->code == events)
        weft__error_deliver_again(weft__cord_self->current, events);
    return false;
}

static ssize_t recv_all(int fd, void *buffer, size_t bytes, int flags)
{
    size_t done = 0;
    do {
        ssize_t n = recv_once(fd, (char *)buffer + done, bytes - done, flags);
        if (n <= 0)
            return done > 0 ? (ssize_t)done : n;
        done += (size_t)n;
    } while (done < bytes && !(flags & MSG_DONTWAIT) && wait_for_more(fd));
    return (ssize_t)done;
}

ssize_t weft_recv(int fd, void *buffer, size_t bytes, int flags)
{
    if (!must_wait_all(fd, flags))
        return recv_once(fd, buffer, bytes, flags & ~MSG_WAITALL);
    uint64_t cancels_before = weft__scope_cancels_so_far();
    ssize_t n = recv_all(fd, buffer, bytes, flags & ~MSG_WAITALL);
    if (n > 0)
        weft__scope_cancels_forget(cancels_before); /* a partial result is a success */
    return n;
}

/* MSG_NOSIGNAL: if the peer has closed the connection, return -EPIPE instead of raising SIGPIPE. */
ssize_t weft_send(int fd, const void *buffer, size_t bytes, int flags)
{
    weft__op op = {
        .code = WEFT__OP_SEND, .fd = fd, .u.packet = {(void *)buffer, bytes, flags | MSG_NOSIGNAL}};
    return weft__op_run(&op);
}

/*
 * Return the part of an iovec that starts with a byte. byte is an index into the bytes of all
 * iovecs. After the last byte, the result is empty.
 */
static struct iovec iovec_from(const struct msghdr *message, size_t byte)
{
    for (size_t i = 0; i < (size_t)message->msg_iovlen; i++) {
        struct iovec piece = message->msg_iov[i];
        if (byte < piece.iov_len)
            return (struct iovec){(char *)piece.iov_base + byte, piece.iov_len - byte};
        byte -= piece.iov_len;
    }
    return (struct iovec){NULL, 0};
}

/*
 * Receive until all iovecs are full, or until control data arrives. Control data belongs to the
 * bytes that are received with it.
 */
static ssize_t recvmsg_all(int fd, struct msghdr *message, int flags)
{
    const size_t control_capacity = message->msg_controllen;
    ssize_t n = recvmsg_once(fd, message, flags);
    if (n <= 0)
        return n;
    size_t done = (size_t)n;
    struct iovec piece;
    while ((piece = iovec_from(message, done)).iov_len > 0 && message->msg_controllen == 0 &&
           !(flags & MSG_DONTWAIT) && wait_for_more(fd)) {
        struct msghdr more = {.msg_iov = &piece,
                              .msg_iovlen = 1,
                              .msg_control = message->msg_control,
                              .msg_controllen = control_capacity};
        n = recvmsg_once(fd, &more, flags);
        if (n <= 0)
            break;
        done += (size_t)n;
        message->msg_controllen = more.msg_controllen;
        message->msg_flags = more.msg_flags;
    }
    return (ssize_t)done;
}

ssize_t weft_recvmsg(int fd, struct msghdr *message, int flags)
{
    if (!must_wait_all(fd, flags))
        return recvmsg_once(fd, message, flags & ~MSG_WAITALL);
    uint64_t cancels_before = weft__scope_cancels_so_far();
    ssize_t n = recvmsg_all(fd, message, flags & ~MSG_WAITALL);
    if (n > 0)
        weft__scope_cancels_forget(cancels_before);
    return n;
}

ssize_t weft_sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct msghdr *header = (struct msghdr *)message; /* only read */
    weft__op op = {.code = WEFT__OP_SENDMSG, .fd = fd, .u.message = {header, flags | MSG_NOSIGNAL}};
    return weft__op_run(&op);
}

ssize_t weft_recvfrom(int fd, void *buffer, size_t bytes, int flags, struct sockaddr *address,
                      socklen_t *address_bytes)
{
    if (address == NULL)
        return weft_recv(fd, buffer, bytes, flags);
    if (address_bytes == NULL)
        return -EFAULT;
    struct iovec piece = {buffer, bytes};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    message.msg_name = address;
    message.msg_namelen = *address_bytes;
    ssize_t n = weft_recvmsg(fd, &message, flags);
    if (n >= 0)
        *address_bytes = message.msg_namelen;
    return n;
}

ssize_t weft_sendto(int fd, const void *buffer, size_t bytes, int flags,
                    const struct sockaddr *address, socklen_t address_bytes)
{
    if (address == NULL)
        return weft_send(fd, buffer, bytes, flags);
    struct iovec piece = {(void *)buffer, bytes};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    message.msg_name = (void *)address;
    message.msg_namelen = address_bytes;
    return weft_sendmsg(fd, &message, flags);
}

int weft_accept(int fd, struct sockaddr *address, socklen_t *bytes)
{
    weft__op op = {.code = WEFT__OP_ACCEPT, .fd = fd, .u.accept = {address, bytes}};
    return (int)weft__op_run(&op);
}

int weft_connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
    weft__op op = {.code = WEFT__OP_CONNECT, .fd = fd, .u.connect = {address, bytes}};
    return (int)weft__op_run(&op);
}

int weft_shutdown(int fd, int how)
{
    weft__cord *c = weft__cord_here();
    return c != NULL ? c->backend->type->shutdown_fd(c->backend, fd, how) : weft__no_cord();
}

int weft_socketpair(int fd[2])
{
    weft__cord *c = weft__cord_here();
    weft__backend *b = c != NULL ? weft__cord_backend(c) : NULL;
    return b != NULL ? b->type->socketpair(b, fd) : weft__no_cord();
}

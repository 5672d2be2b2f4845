/* The calls on sockets: each is one operation of the backend, or a loop of them. */
#include "core/alarm.h"
#include "core/op.h"
#include "core/scope.h"

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
 * MSG_WAITALL is made of several calls: the kernel's own could not be given up without losing a
 * part. It means nothing for messages, which are not glued together, nor for what does not take
 * data from the stream.
 */
static bool is_for_all(int fd, int flags)
{
    if (!(flags & MSG_WAITALL) || flags & (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE))
        return false;
    int type = SOCK_STREAM;
    socklen_t bytes = sizeof type;
    /* It fails for a socket in memory, which is a stream. */
    (void)getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes);
    return type == SOCK_STREAM;
}

/*
 * Some bytes have come: wait for more, unless there is an error. That is for the next call, so it
 * must not be taken here: neither the socket's own, which it tells once, nor one that was raised in
 * the fiber.
 */
static bool wait_for_more(int fd)
{
    const weft_error_info *before = weft_error();
    int events = weft_wait_fd(fd, POLLIN);
    if (events >= 0)
        return !(events & POLLERR) && !weft_is_cancelled();
    const weft_error_info *raised = weft_error();
    if (raised != before && raised->code == events)
        weft__raise_again(weft__cord_self->current, events);
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
    if (!is_for_all(fd, flags))
        return recv_once(fd, buffer, bytes, flags & ~MSG_WAITALL);
    uint64_t cuts = weft__cuts_so_far();
    ssize_t n = recv_all(fd, buffer, bytes, flags & ~MSG_WAITALL);
    if (n > 0)
        weft__cuts_forget(cuts); /* a part of what was asked for is a result, too */
    return n;
}

/* A peer that is gone is an error and no signal. */
ssize_t weft_send(int fd, const void *buffer, size_t bytes, int flags)
{
    weft__op op = {
        .code = WEFT__OP_SEND, .fd = fd, .u.packet = {(void *)buffer, bytes, flags | MSG_NOSIGNAL}};
    return weft__op_run(&op);
}

/* What is left of the piece in which the byte with this number is; empty behind the last. */
static struct iovec piece_from(const struct msghdr *message, size_t byte)
{
    for (size_t i = 0; i < (size_t)message->msg_iovlen; i++) {
        struct iovec piece = message->msg_iov[i];
        if (byte < piece.iov_len)
            return (struct iovec){(char *)piece.iov_base + byte, piece.iov_len - byte};
        byte -= piece.iov_len;
    }
    return (struct iovec){NULL, 0};
}

/* Until all pieces are full, or control data has come: that belongs to the bytes it came with. */
static ssize_t recvmsg_all(int fd, struct msghdr *message, int flags)
{
    const size_t control_room = message->msg_controllen;
    ssize_t n = recvmsg_once(fd, message, flags);
    if (n <= 0)
        return n;
    size_t done = (size_t)n;
    struct iovec piece;
    while ((piece = piece_from(message, done)).iov_len > 0 && message->msg_controllen == 0 &&
           !(flags & MSG_DONTWAIT) && wait_for_more(fd)) {
        struct msghdr more = {.msg_iov = &piece,
                              .msg_iovlen = 1,
                              .msg_control = message->msg_control,
                              .msg_controllen = control_room};
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
    if (!is_for_all(fd, flags))
        return recvmsg_once(fd, message, flags & ~MSG_WAITALL);
    uint64_t cuts = weft__cuts_so_far();
    ssize_t n = recvmsg_all(fd, message, flags & ~MSG_WAITALL);
    if (n > 0)
        weft__cuts_forget(cuts);
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

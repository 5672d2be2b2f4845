/* The calls on sockets: each is one operation of the backend, or a loop of them. */
#include "core/op.h"

#include <weft/net.h>

static ssize_t recv_once(int fd, void *buffer, size_t bytes, int flags)
{
    weft__op op = {.code = WEFT__OP_RECV, .fd = fd, .u.packet = {buffer, bytes, flags}};
    return weft__op_run(&op);
}

/* Until it is full. The kernel's own MSG_WAITALL could not be cancelled without losing a part. */
static ssize_t recv_all(int fd, void *buffer, size_t bytes, int flags)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = recv_once(fd, (char *)buffer + done, bytes - done, flags);
        if (n <= 0 || (size_t)n > bytes - done)
            return done > 0 ? (ssize_t)done : n;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

ssize_t weft_recv(int fd, void *buffer, size_t bytes, int flags)
{
    if (!(flags & MSG_WAITALL))
        return recv_once(fd, buffer, bytes, flags);
    return recv_all(fd, buffer, bytes, flags & ~MSG_WAITALL);
}

ssize_t weft_send(int fd, const void *buffer, size_t bytes, int flags)
{
    weft__op op = {.code = WEFT__OP_SEND, .fd = fd, .u.packet = {(void *)buffer, bytes, flags}};
    return weft__op_run(&op);
}

ssize_t weft_recvmsg(int fd, struct msghdr *message, int flags)
{
    flags &= ~MSG_WAITALL;
    weft__op op = {.code = WEFT__OP_RECVMSG, .fd = fd, .u.message = {message, flags}};
    return weft__op_run(&op);
}

ssize_t weft_sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct msghdr *header = (struct msghdr *)message; /* only read */
    weft__op op = {.code = WEFT__OP_SENDMSG, .fd = fd, .u.message = {header, flags}};
    return weft__op_run(&op);
}

ssize_t weft_recvfrom(int fd, void *buffer, size_t bytes, int flags, struct sockaddr *address,
                      socklen_t *address_bytes)
{
    if (address == NULL)
        return weft_recv(fd, buffer, bytes, flags);
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
    return c != NULL ? c->backend->type->shutdown_fd(c->backend, fd, how) : -ENOMEM;
}

int weft_socketpair(int fd[2])
{
    weft__cord *c = weft__cord_here();
    weft__backend *b = c != NULL ? weft__cord_backend(c) : NULL;
    return b != NULL ? b->type->socketpair(b, fd) : -ENOMEM;
}

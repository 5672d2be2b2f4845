/* System calls on sockets, see call.h. */
#include "backend/syscall/internal.h"
#include "base/libc.h"

#include <poll.h>
#include <stdlib.h>

/*
 * Return whether no event will report that a send can continue. If a datagram is sent to a unix
 * socket with a full queue, the sender's socket remains writable, and no event follows. Each
 * attempt also reduces the write space of the sender's socket for a moment. The restored space
 * causes an event, so waiting for events would loop.
 */
static bool lacks_readiness(const weft__op *op)
{
    return op->code == WEFT__OP_SENDMSG && op->u.message.header->msg_name != NULL &&
           weft__call_ready(op->fd, POLLOUT) > 0;
}

intptr_t weft__call_try_packet(weft__op *op, int extra_flags)
{
    int flags = extra_flags;
    intptr_t n;
    switch (op->code) {
    case WEFT__OP_RECV:
        flags |= op->u.packet.flags;
        n = TEMP_FAILURE_RETRY(
            WEFT__COUNTED(recv(op->fd, op->u.packet.data, op->u.packet.bytes, flags)));
        break;
    case WEFT__OP_SEND:
        flags |= op->u.packet.flags | MSG_NOSIGNAL;
        n = TEMP_FAILURE_RETRY(
            WEFT__COUNTED(send(op->fd, op->u.packet.data, op->u.packet.bytes, flags)));
        break;
    case WEFT__OP_RECVMSG:
        flags |= op->u.message.flags;
        n = TEMP_FAILURE_RETRY(WEFT__COUNTED(recvmsg(op->fd, op->u.message.header, flags)));
        break;
    default:
        flags |= op->u.message.flags | MSG_NOSIGNAL;
        n = TEMP_FAILURE_RETRY(WEFT__COUNTED(sendmsg(op->fd, op->u.message.header, flags)));
        break;
    }
    n = weft__call_result(n);
    if (n == -EAGAIN && lacks_readiness(op))
        op->wait_fd = WEFT__WAIT_RETRY;
    return n;
}

intptr_t weft__call_block_accept(weft__op *op)
{
    struct sockaddr *address = op->u.accept.address;
    socklen_t *bytes = op->u.accept.bytes;
    return weft__call_result(
        TEMP_FAILURE_RETRY(WEFT__COUNTED(accept4(op->fd, address, bytes, SOCK_CLOEXEC))));
}

/*
 * Several threads or processes may wait on one listening socket, and another one may take the
 * connection. Therefore poll(2) before accept would not prevent blocking. The socket becomes
 * non-blocking, and remains non-blocking unless keeps_flags is true.
 */
intptr_t weft__call_try_accept(weft__op *op)
{
    int flags = weft__call_set_nonblock(op->fd);
    if (flags < 0)
        return flags;
    intptr_t result = weft__call_block_accept(op);
    if (op->u.accept.keeps_flags)
        weft__call_restore_flags(op->fd, flags);
    if (result != -EAGAIN)
        return result;
    /* A socket that does not listen is an error, and not a reason to wait. */
    int is_listening = weft__call_socket_option(op->fd, SO_ACCEPTCONN);
    if (is_listening < 0)
        return is_listening;
    return is_listening ? -EAGAIN : -EINVAL;
}

static intptr_t connect_nonblocking(const weft__op *op)
{
    int flags = weft__call_set_nonblock(op->fd);
    if (flags < 0)
        return flags;
    const struct sockaddr *address = op->u.connect.address;
    intptr_t result =
        weft__call_result(WEFT__COUNTED(connect(op->fd, address, op->u.connect.bytes)));
    weft__call_restore_flags(op->fd, flags);
    return result;
}

/* op->progress is 1 while the connection is being established. */
intptr_t weft__call_try_connect(weft__op *op)
{
    /* A second connect(2) returns the outcome and updates the state of the socket. */
    intptr_t result = op->progress == 1 ? weft__call_ready(op->fd, POLLOUT) : 0;
    if (result < 0)
        return result;
    result = connect_nonblocking(op);
    if (op->progress == 1 && result == -EISCONN)
        return 0;
    if (result == -EAGAIN) /* a unix socket with a full backlog */
        op->wait_fd = WEFT__WAIT_RETRY;
    /* EALREADY: an earlier connect was cancelled, and the socket is still connecting. */
    if (result != -EINPROGRESS && result != -EALREADY && result != -EINTR)
        return result;
    op->progress = 1;
    return -EAGAIN;
}

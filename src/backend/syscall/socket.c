/* The calls on sockets, see call.h. */
#include "backend/call_parts.h"
#include "base/libc.h"

#include <poll.h>
#include <stdlib.h>

/*
 * A datagram to a unix socket whose queue is full would block, and the sender's own socket is
 * writable all the while: of that other queue no readiness tells. Worse, each attempt makes the
 * socket a little less writable for a moment, which is an event: to wait for it would be to spin.
 */
static bool is_untold(const weft__op *op)
{
    return op->code == WEFT__OP_SENDMSG && op->u.message.header->msg_name != NULL &&
           weft__call_ready(op->fd, POLLOUT) > 0;
}

intptr_t weft__call_try_packet(weft__op *op, int more_flags)
{
    int flags = more_flags;
    intptr_t n;
    switch (op->code) {
    case WEFT__OP_RECV:
        flags |= op->u.packet.flags;
        n = TEMP_FAILURE_RETRY(recv(op->fd, op->u.packet.data, op->u.packet.bytes, flags));
        break;
    case WEFT__OP_SEND:
        flags |= op->u.packet.flags | MSG_NOSIGNAL;
        n = TEMP_FAILURE_RETRY(send(op->fd, op->u.packet.data, op->u.packet.bytes, flags));
        break;
    case WEFT__OP_RECVMSG:
        flags |= op->u.message.flags;
        n = TEMP_FAILURE_RETRY(recvmsg(op->fd, op->u.message.header, flags));
        break;
    default:
        flags |= op->u.message.flags | MSG_NOSIGNAL;
        n = TEMP_FAILURE_RETRY(sendmsg(op->fd, op->u.message.header, flags));
        break;
    }
    n = weft__call_result(n);
    if (n == -EAGAIN && is_untold(op))
        op->wait_fd = WEFT__WAIT_AGAIN;
    return n;
}

intptr_t weft__call_block_accept(weft__op *op)
{
    struct sockaddr *address = op->u.accept.address;
    socklen_t *bytes = op->u.accept.bytes;
    return weft__call_result(TEMP_FAILURE_RETRY(accept4(op->fd, address, bytes, SOCK_CLOEXEC)));
}

/*
 * Several threads or processes may wait on one listening socket, and one of them takes what all
 * were told of. So it becomes non-blocking, and stays so; to ask by poll first would not do.
 */
intptr_t weft__call_try_accept(weft__op *op)
{
    int flags = weft__call_unblock(op->fd);
    if (flags < 0)
        return flags;
    intptr_t result = weft__call_block_accept(op);
    if (result != -EAGAIN)
        return result;
    /* What does not listen is an error now, not something to wait for. */
    int is_listening = weft__call_socket_option(op->fd, SO_ACCEPTCONN);
    if (is_listening < 0)
        return is_listening;
    return is_listening ? -EAGAIN : -EINVAL;
}

static intptr_t connect_nonblocking(const weft__op *op)
{
    int flags = weft__call_unblock(op->fd);
    if (flags < 0)
        return flags;
    const struct sockaddr *address = op->u.connect.address;
    intptr_t result = weft__call_result(connect(op->fd, address, op->u.connect.bytes));
    weft__call_reblock(op->fd, flags);
    return result;
}

/* op->progress: 1 when it is under way. */
intptr_t weft__call_try_connect(weft__op *op)
{
    /* Under way: the second call tells the outcome, and settles the socket's state. */
    intptr_t result = op->progress == 1 ? weft__call_ready(op->fd, POLLOUT) : 0;
    if (result < 0)
        return result;
    result = connect_nonblocking(op);
    if (op->progress == 1 && result == -EISCONN)
        return 0;
    if (result == -EAGAIN) /* a unix socket whose backlog is full */
        op->wait_fd = WEFT__WAIT_AGAIN;
    /* EALREADY: an earlier call was given up and left the socket connecting. */
    if (result != -EINPROGRESS && result != -EALREADY && result != -EINTR)
        return result;
    op->progress = 1;
    return -EAGAIN;
}

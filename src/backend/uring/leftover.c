/*
 * Leftovers of multishot operations (leftover.h): the list of connections, and the completion of
 * operations from a leftover.
 */
#include "backend/uring/leftover.h"

#include "backend/syscall/count.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The initial capacity of a list. The kernel may accept many waiting connections at once. */
#define CONNS_CAPACITY 1024

/* Connections. */

bool weft__conns_are_empty(const weft__conns *c)
{
    return c == NULL || c->first == c->end;
}

weft__conns *weft__conns_new(void)
{
    weft__conns *c = malloc(sizeof *c + CONNS_CAPACITY * sizeof *c->fd);
    if (c != NULL)
        *c = (weft__conns){.capacity = CONNS_CAPACITY};
    return c;
}

bool weft__conns_append(weft__conns **conns, int fd)
{
    if (*conns == NULL)
        *conns = weft__conns_new(); /* the leftover of the descriptor owns the previous list */
    weft__conns *c = *conns;
    if (c == NULL)
        return false;
    if (weft__conns_are_empty(c))
        c->first = c->end = 0;
    if (c->end == c->capacity) {
        c = realloc(c, sizeof *c + 2 * c->capacity * sizeof *c->fd);
        if (c == NULL)
            return false;
        c->capacity *= 2;
        *conns = c;
    }
    c->fd[c->end++] = fd;
    return true;
}

void weft__conns_close(weft__conns *c)
{
    for (; !weft__conns_are_empty(c); c->first++)
        (void)WEFT__COUNTED(close(c->fd[c->first]));
    free(c);
}

/* Leftovers of a descriptor. */

void weft__uring_drop_leftover(weft__uring *b, weft__uring_fd *f)
{
    weft__uring_leftover *left = f->leftover;
    if (left == NULL)
        return;
    f->leftover = NULL;
    while (left->first != WEFT__URING_NO_BUFFER)
        weft__uring_buffer_recycle(b, weft__uring_buffer_pop(b, &left->first));
    weft__conns_close(left->conns);
}

static void leftover_drop_if_empty(weft__uring *b, weft__uring_fd *f)
{
    if (f->leftover->first == WEFT__URING_NO_BUFFER && weft__conns_are_empty(f->leftover->conns) &&
        f->leftover->error == 0)
        weft__uring_drop_leftover(b, f);
}

static int leftover_take_conn(weft__uring *b, weft__uring_fd *f, const weft__op *op)
{
    if (op->u.accept.address != NULL && op->u.accept.bytes == NULL)
        return -EFAULT;
    weft__conns *c = f->leftover->conns;
    int fd = c->fd[c->first++];
    weft__ready_fd_created(&b->ready, fd);
    if (op->u.accept.address != NULL)
        getpeername(fd, op->u.accept.address, op->u.accept.bytes);
    leftover_drop_if_empty(b, f);
    return fd;
}

/*
 * Copy bytes to one span, from position *used of *buffer on. Advance *buffer and *used. Returns the
 * number of copied bytes.
 */
static size_t leftover_copy(const weft__uring *b, int *buffer, size_t *used, const struct iovec *to)
{
    size_t copied = 0;
    while (copied < to->iov_len && *buffer != WEFT__URING_NO_BUFFER) {
        const weft__uring_buffer_info *info = &b->buffers.infos[*buffer];
        size_t available = info->bytes - *used, wanted = to->iov_len - copied;
        size_t n = available < wanted ? available : wanted;
        memcpy((char *)to->iov_base + copied, weft__uring_buffer_data(b, *buffer) + *used, n);
        copied += n;
        *used = n < available ? *used + n : 0;
        *buffer = n < available ? *buffer : info->next;
    }
    return copied;
}

/* Copy the available bytes. A short result is valid, because the descriptor is a stream. */
static intptr_t leftover_take_data(weft__uring *b, weft__uring_fd *f, const struct msghdr *m,
                                   int flags)
{
    weft__uring_leftover *left = f->leftover;
    int buffer = left->first;
    size_t used = left->used, total = 0;
    for (size_t i = 0; i < m->msg_iovlen; i++)
        total += leftover_copy(b, &buffer, &used, &m->msg_iov[i]);
    if (flags & MSG_PEEK)
        return (intptr_t)total;
    while (left->first != buffer)
        weft__uring_buffer_recycle(b, weft__uring_buffer_pop(b, &left->first));
    left->used = (uint32_t)used;
    leftover_drop_if_empty(b, f);
    return (intptr_t)total;
}

/*
 * Return the error of the multishot operation, and remove the error. The leftover must have no
 * buffers.
 */
static intptr_t leftover_take_error(weft__uring *b, weft__uring_fd *f)
{
    int error = f->leftover->error;
    f->leftover->error = 0;
    leftover_drop_if_empty(b, f);
    return error;
}

/*
 * Describe a read from a stream as a message header and flags. Returns false for other operations,
 * and for flags that a leftover does not support.
 */
static bool stream_read_get(const weft__op *op, struct iovec *single, struct msghdr *m, int *flags)
{
    m->msg_iov = single;
    m->msg_iovlen = 1;
    switch (op->code) {
    case WEFT__OP_READ:
        *single = (struct iovec){op->u.buffer.data, op->u.buffer.bytes};
        return op->u.buffer.offset < 0;
    case WEFT__OP_READV:
        m->msg_iov = (struct iovec *)op->u.vector.pieces;
        m->msg_iovlen = (size_t)op->u.vector.count;
        return op->u.vector.offset < 0 && op->u.vector.count >= 0 && op->u.vector.count <= IOV_MAX;
    case WEFT__OP_RECV:
        *single = (struct iovec){op->u.packet.data, op->u.packet.bytes};
        *flags = op->u.packet.flags;
        return !(*flags & (MSG_OOB | MSG_ERRQUEUE));
    case WEFT__OP_RECVMSG:
        *flags = op->u.message.flags;
        if (op->u.message.header == NULL || *flags & (MSG_OOB | MSG_ERRQUEUE))
            return false;
        m->msg_iov = op->u.message.header->msg_iov;
        m->msg_iovlen = op->u.message.header->msg_iovlen;
        return true;
    default:
        return false;
    }
}

static intptr_t leftover_read(weft__uring *b, weft__uring_fd *f, const weft__op *op,
                              const struct msghdr *m, int flags)
{
    for (size_t i = 0; i < m->msg_iovlen; i++)
        if (m->msg_iov == NULL || (m->msg_iov[i].iov_base == NULL && m->msg_iov[i].iov_len > 0))
            return -EFAULT;
    if (op->code == WEFT__OP_RECVMSG) {
        op->u.message.header->msg_namelen = 0;
        op->u.message.header->msg_controllen = 0;
        op->u.message.header->msg_flags = 0;
    }
    return f->leftover->first != WEFT__URING_NO_BUFFER ? leftover_take_data(b, f, m, flags)
                                                       : leftover_take_error(b, f);
}

intptr_t weft__uring_take_leftover(weft__uring *b, weft__uring_fd *f, weft__op *op)
{
    if (op->code == WEFT__OP_ACCEPT)
        return weft__conns_are_empty(f->leftover->conns) ? WEFT__OP_PENDING
                                                         : leftover_take_conn(b, f, op);
    if (f->leftover->first == WEFT__URING_NO_BUFFER && f->leftover->error == 0)
        return op->code == WEFT__OP_WAIT && op->u.events & POLLIN ? POLLIN : WEFT__OP_PENDING;
    struct iovec single;
    struct msghdr message;
    int flags = 0;
    if (stream_read_get(op, &single, &message, &flags))
        return leftover_read(b, f, op, &message, flags);
    switch (op->code) {
    case WEFT__OP_WAIT:
        return op->u.events & POLLIN ? POLLIN : WEFT__OP_PENDING;
    case WEFT__OP_SPLICE:
    case WEFT__OP_TEE:
        return -EINVAL; /* the kernel does not have the data; the caller then reads and writes */
    default:
        return WEFT__OP_PENDING;
    }
}

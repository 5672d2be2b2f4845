/*
 * What loops have left: the buffers and connections themselves (uring_kept.h), and how an operation
 * that comes after the loop is served from them.
 */
#include "backend/uring_kept.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* 2 MiB for all loops of a cord, touched as they are used. A power of two. */
#define BUFFERS 512
#define BUFFER_BYTES 4096

/* Connections for which there is room from the start: the kernel accepts all that wait at once. */
#define CONNS_ROOM 1024

/* Buffers. */

static size_t ring_bytes(void)
{
    return BUFFERS * sizeof(struct io_uring_buf);
}

char *weft__buffer_data(const weft__uring *b, int buffer)
{
    return b->buffers.memory + (size_t)buffer * BUFFER_BYTES;
}

void weft__buffer_give_back(weft__uring *b, int buffer)
{
    io_uring_buf_ring_add(b->buffers.ring, weft__buffer_data(b, buffer), BUFFER_BYTES,
                          (unsigned short)buffer, io_uring_buf_ring_mask(BUFFERS), 0);
    io_uring_buf_ring_advance(b->buffers.ring, 1);
}

static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void unmap(void *memory, size_t bytes)
{
    if (memory != NULL)
        munmap(memory, bytes);
}

void weft__uring_buffers_free(weft__uring *b)
{
    unmap(b->buffers.ring, ring_bytes());
    unmap(b->buffers.memory, BUFFERS * BUFFER_BYTES);
    free(b->buffers.notes);
    b->buffers = (weft__uring_buffers){0};
}

int weft__buffers_make(weft__uring *b)
{
    if (b->buffers.ring != NULL)
        return 0;
    b->buffers.ring = map(ring_bytes());
    b->buffers.memory = map(BUFFERS * BUFFER_BYTES);
    b->buffers.notes = malloc(BUFFERS * sizeof *b->buffers.notes);
    int rc = -ENOMEM;
    if (b->buffers.ring != NULL && b->buffers.memory != NULL && b->buffers.notes != NULL) {
        struct io_uring_buf_reg registration = {.ring_addr = (uintptr_t)b->buffers.ring,
                                                .ring_entries = BUFFERS,
                                                .bgid = WEFT__BUFFER_GROUP};
        rc = io_uring_register_buf_ring(&b->ring, &registration, 0);
    }
    if (rc < 0) {
        weft__uring_buffers_free(b);
        return rc;
    }
    io_uring_buf_ring_init(b->buffers.ring);
    for (int i = 0; i < BUFFERS; i++)
        weft__buffer_give_back(b, i);
    return 0;
}

void weft__buffer_append(weft__uring *b, int *first, int *final, int buffer)
{
    b->buffers.notes[buffer].next = WEFT__NO_BUFFER;
    if (*first == WEFT__NO_BUFFER)
        *first = buffer;
    else
        b->buffers.notes[*final].next = buffer;
    *final = buffer;
}

int weft__buffer_pop(const weft__uring *b, int *first)
{
    int buffer = *first;
    *first = b->buffers.notes[buffer].next;
    return buffer;
}

/* Connections. */

bool weft__conns_are_empty(const weft__conns *c)
{
    return c == NULL || c->first == c->end;
}

weft__conns *weft__conns_make(void)
{
    weft__conns *c = malloc(sizeof *c + CONNS_ROOM * sizeof *c->fd);
    if (c != NULL)
        *c = (weft__conns){.room = CONNS_ROOM};
    return c;
}

bool weft__conns_append(weft__conns **conns, int fd)
{
    if (*conns == NULL)
        *conns = weft__conns_make(); /* the loop has given its own away, with what was in it */
    weft__conns *c = *conns;
    if (c == NULL)
        return false;
    if (weft__conns_are_empty(c))
        c->first = c->end = 0;
    if (c->end == c->room) {
        c = realloc(c, sizeof *c + 2 * c->room * sizeof *c->fd);
        if (c == NULL)
            return false;
        c->room *= 2;
        *conns = c;
    }
    c->fd[c->end++] = fd;
    return true;
}

void weft__conns_close(weft__conns *c)
{
    for (; !weft__conns_are_empty(c); c->first++)
        close(c->fd[c->first]);
    free(c);
}

/* What was kept for a descriptor. */

void weft__uring_drop_kept(weft__uring *b, weft__flight *f)
{
    weft__kept *k = f->kept;
    if (k == NULL)
        return;
    f->kept = NULL;
    while (k->first != WEFT__NO_BUFFER)
        weft__buffer_give_back(b, weft__buffer_pop(b, &k->first));
    weft__conns_close(k->conns);
}

static void drop_if_used_up(weft__uring *b, weft__flight *f)
{
    if (f->kept->first == WEFT__NO_BUFFER && weft__conns_are_empty(f->kept->conns) &&
        f->kept->error == 0)
        weft__uring_drop_kept(b, f);
}

static int take_conn(weft__uring *b, weft__flight *f, const weft__op *op)
{
    if (op->u.accept.address != NULL && op->u.accept.bytes == NULL)
        return -EFAULT;
    weft__conns *c = f->kept->conns;
    int fd = c->fd[c->first++];
    weft__ready_made(&b->ready, fd);
    if (op->u.accept.address != NULL)
        getpeername(fd, op->u.accept.address, op->u.accept.bytes);
    drop_if_used_up(b, f);
    return fd;
}

/* Copy one piece out of what is kept, from *used bytes into *buffer on, which move along. */
static size_t copy_kept(const weft__uring *b, int *buffer, size_t *used, const struct iovec *to)
{
    size_t at = 0;
    while (at < to->iov_len && *buffer != WEFT__NO_BUFFER) {
        const weft__buffer_note *note = &b->buffers.notes[*buffer];
        size_t there = note->bytes - *used, wanted = to->iov_len - at;
        size_t n = there < wanted ? there : wanted;
        memcpy((char *)to->iov_base + at, weft__buffer_data(b, *buffer) + *used, n);
        at += n;
        *used = n < there ? *used + n : 0;
        *buffer = n < there ? *buffer : note->next;
    }
    return at;
}

/* It is a stream: as much as there is. */
static intptr_t take_data(weft__uring *b, weft__flight *f, const struct msghdr *m, int flags)
{
    weft__kept *k = f->kept;
    int buffer = k->first;
    size_t used = k->used, total = 0;
    for (size_t i = 0; i < m->msg_iovlen; i++)
        total += copy_kept(b, &buffer, &used, &m->msg_iov[i]);
    if (flags & MSG_PEEK)
        return (intptr_t)total;
    while (k->first != buffer)
        weft__buffer_give_back(b, weft__buffer_pop(b, &k->first));
    k->used = used;
    drop_if_used_up(b, f);
    return (intptr_t)total;
}

/* The buffers are read: what the loop ended with is told, once. */
static intptr_t take_error(weft__uring *b, weft__flight *f)
{
    int error = f->kept->error;
    f->kept->error = 0;
    drop_if_used_up(b, f);
    return error;
}

/* How an operation that reads would have it; false: it does not, or wants what no stream has. */
static bool is_reader(const weft__op *op, struct iovec *piece, struct msghdr *m, int *flags)
{
    m->msg_iov = piece;
    m->msg_iovlen = 1;
    switch (op->code) {
    case WEFT__OP_READ:
        *piece = (struct iovec){op->u.buffer.data, op->u.buffer.bytes};
        return op->u.buffer.offset < 0;
    case WEFT__OP_READV:
        m->msg_iov = (struct iovec *)op->u.vector.pieces;
        m->msg_iovlen = (size_t)op->u.vector.count;
        return op->u.vector.offset < 0 && op->u.vector.count >= 0 && op->u.vector.count <= IOV_MAX;
    case WEFT__OP_RECV:
        *piece = (struct iovec){op->u.packet.data, op->u.packet.bytes};
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

static intptr_t take_for_reader(weft__uring *b, weft__flight *f, const weft__op *op,
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
    return f->kept->first != WEFT__NO_BUFFER ? take_data(b, f, m, flags) : take_error(b, f);
}

intptr_t weft__uring_take_kept(weft__uring *b, weft__flight *f, weft__op *op)
{
    if (op->code == WEFT__OP_ACCEPT)
        return weft__conns_are_empty(f->kept->conns) ? WEFT__OP_PENDING : take_conn(b, f, op);
    if (f->kept->first == WEFT__NO_BUFFER && f->kept->error == 0)
        return op->code == WEFT__OP_WAIT && op->u.events & POLLIN ? POLLIN : WEFT__OP_PENDING;
    struct iovec piece;
    struct msghdr message;
    int flags = 0;
    if (is_reader(op, &piece, &message, &flags))
        return take_for_reader(b, f, op, &message, flags);
    switch (op->code) {
    case WEFT__OP_WAIT:
        return op->u.events & POLLIN ? POLLIN : WEFT__OP_PENDING;
    case WEFT__OP_SPLICE:
    case WEFT__OP_TEE: /* the kernel has it no more: -EINVAL sends the caller to read and write */
        return -EINVAL;
    default:
        return WEFT__OP_PENDING;
    }
}

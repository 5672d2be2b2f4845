/*
 * Operations with many results: multishot accept, and multishot receive into buffers that the
 * kernel picks from a ring. What comes waits here until the loop asks for it; when too much waits,
 * the kernel is told to stop until the loop has caught up.
 *
 * When a loop ends, the kernel may have accepted or received what nobody took. It is kept for the
 * descriptor, and is what the next accept or read gets.
 */
#include "backend/uring.h"

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
#define BUFFER_GROUP 0
#define NO_BUFFER (-1)

/* Results of one operation that may wait before the kernel is stopped: a loop whose callee blocks
 * must not hold all of the buffers. */
#define WAITING_MAX 16
/* Connections for which there is room from the start: the kernel accepts all that wait at once. */
#define CONNS_ROOM 1024

typedef struct weft__buffer_note {
    int next; /* in the list that it is in; NO_BUFFER: the last */
    unsigned bytes;
} weft__buffer_note;

/* Accepted connections, the oldest at first. */
typedef struct weft__conns {
    size_t first, end, room;
    int fd[];
} weft__conns;

/* Buffers. */

static size_t ring_bytes(void)
{
    return BUFFERS * sizeof(struct io_uring_buf);
}

static char *data_of(const weft__uring *b, int buffer)
{
    return b->buffers.memory + (size_t)buffer * BUFFER_BYTES;
}

/* Let the kernel have it. */
static void give_back(weft__uring *b, int buffer)
{
    io_uring_buf_ring_add(b->buffers.ring, data_of(b, buffer), BUFFER_BYTES, (unsigned short)buffer,
                          io_uring_buf_ring_mask(BUFFERS), 0);
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

static int make_buffers(weft__uring *b)
{
    if (b->buffers.ring != NULL)
        return 0;
    b->buffers.ring = map(ring_bytes());
    b->buffers.memory = map(BUFFERS * BUFFER_BYTES);
    b->buffers.notes = malloc(BUFFERS * sizeof *b->buffers.notes);
    int rc = -ENOMEM;
    if (b->buffers.ring != NULL && b->buffers.memory != NULL && b->buffers.notes != NULL) {
        struct io_uring_buf_reg registration = {
            .ring_addr = (uintptr_t)b->buffers.ring, .ring_entries = BUFFERS, .bgid = BUFFER_GROUP};
        rc = io_uring_register_buf_ring(&b->ring, &registration, 0);
    }
    if (rc < 0) {
        weft__uring_buffers_free(b);
        return rc;
    }
    io_uring_buf_ring_init(b->buffers.ring);
    for (int i = 0; i < BUFFERS; i++)
        give_back(b, i);
    return 0;
}

static void append_buffer(weft__uring *b, int *first, int *final, int buffer)
{
    b->buffers.notes[buffer].next = NO_BUFFER;
    if (*first == NO_BUFFER)
        *first = buffer;
    else
        b->buffers.notes[*final].next = buffer;
    *final = buffer;
}

static int pop_buffer(const weft__uring *b, int *first)
{
    int buffer = *first;
    *first = b->buffers.notes[buffer].next;
    return buffer;
}

/* Connections. */

static bool conns_are_empty(const weft__conns *c)
{
    return c == NULL || c->first == c->end;
}

static weft__conns *make_conns(void)
{
    weft__conns *c = malloc(sizeof *c + CONNS_ROOM * sizeof *c->fd);
    if (c != NULL)
        *c = (weft__conns){.room = CONNS_ROOM};
    return c;
}

/* False: no memory. */
static bool append_conn(weft__conns **conns, int fd)
{
    if (*conns == NULL)
        *conns = make_conns(); /* the loop has given its own away, with what was in it */
    weft__conns *c = *conns;
    if (c == NULL)
        return false;
    if (conns_are_empty(c))
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

static void close_conns(weft__conns *c)
{
    for (; !conns_are_empty(c); c->first++)
        close(c->fd[c->first]);
    free(c);
}

/* What was kept. */

/* Behind what another loop on the same descriptor has left. False: no memory. */
static bool keep_behind(weft__uring *b, weft__kept *k, weft__many *m)
{
    if (m->skip > 0) {
        weft__buffer_note *note = &b->buffers.notes[m->first];
        note->bytes -= (unsigned)m->skip;
        memmove(data_of(b, m->first), data_of(b, m->first) + m->skip, note->bytes);
    }
    while (m->first != NO_BUFFER)
        append_buffer(b, &k->first, &k->final, pop_buffer(b, &m->first));
    if (k->conns == NULL) {
        k->conns = m->conns;
        return true;
    }
    for (; !conns_are_empty(m->conns); m->conns->first++)
        if (!append_conn(&k->conns, m->conns->fd[m->conns->first]))
            return false;
    free(m->conns);
    return true;
}

/* What the descriptor has told once, and nobody has heard; 0: nothing. */
static int error_of(const weft__many *m)
{
    return m->has_last && m->last < 0 && m->last != -ENOBUFS && !m->is_shut ? m->last : 0;
}

static bool try_keep(weft__uring *b, weft__many *m)
{
    weft__flight *f = m->is_shut ? NULL : weft__uring_note(b, m->op.fd);
    if (f == NULL)
        return false;
    if (f->kept != NULL)
        return keep_behind(b, f->kept, m);
    f->kept = &f->kept_room; /* it takes no memory: what has come must not be lost for want of it */
    *f->kept = (weft__kept){m->first, m->final, m->skip, m->conns, error_of(m)};
    return true;
}

/* What the loop did not take is for who comes next. */
static void keep(weft__uring *b, weft__many *m)
{
    m->is_shut |= weft__ready_life(&b->ready, m->op.fd) != m->life;
    bool is_any = m->first != NO_BUFFER || !conns_are_empty(m->conns);
    is_any |= m->is_closing && m->op.code == WEFT__OP_RECV && error_of(m) != 0;
    if (!is_any || !try_keep(b, m)) {
        while (m->first != NO_BUFFER)
            give_back(b, pop_buffer(b, &m->first));
        close_conns(m->conns);
    }
    m->first = NO_BUFFER;
    m->conns = NULL;
    m->count = 0;
    m->skip = 0;
}

void weft__uring_drop_kept(weft__uring *b, weft__flight *f)
{
    weft__kept *k = f->kept;
    if (k == NULL)
        return;
    f->kept = NULL;
    while (k->first != NO_BUFFER)
        give_back(b, pop_buffer(b, &k->first));
    close_conns(k->conns);
}

static void drop_if_used_up(weft__uring *b, weft__flight *f)
{
    if (f->kept->first == NO_BUFFER && conns_are_empty(f->kept->conns) && f->kept->error == 0)
        weft__uring_drop_kept(b, f);
}

static int take_conn(weft__uring *b, weft__flight *f, const weft__op *op)
{
    if (op->u.accept.address != NULL && op->u.accept.bytes == NULL)
        return -EFAULT;
    weft__conns *c = f->kept->conns;
    int fd = c->fd[c->first++];
    if (op->u.accept.address != NULL)
        getpeername(fd, op->u.accept.address, op->u.accept.bytes);
    drop_if_used_up(b, f);
    return fd;
}

/* Copy one piece out of what is kept, from *used bytes into *buffer on, which move along. */
static size_t copy_kept(const weft__uring *b, int *buffer, size_t *used, const struct iovec *to)
{
    size_t at = 0;
    while (at < to->iov_len && *buffer != NO_BUFFER) {
        const weft__buffer_note *note = &b->buffers.notes[*buffer];
        size_t there = note->bytes - *used, wanted = to->iov_len - at;
        size_t n = there < wanted ? there : wanted;
        memcpy((char *)to->iov_base + at, data_of(b, *buffer) + *used, n);
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
        give_back(b, pop_buffer(b, &k->first));
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
    return f->kept->first != NO_BUFFER ? take_data(b, f, m, flags) : take_error(b, f);
}

intptr_t weft__uring_take_kept(weft__uring *b, weft__flight *f, weft__op *op)
{
    if (op->code == WEFT__OP_ACCEPT)
        return conns_are_empty(f->kept->conns) ? WEFT__OP_PENDING : take_conn(b, f, op);
    if (f->kept->first == NO_BUFFER && f->kept->error == 0)
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

/* The operation itself. */

void weft__uring_prep_many(struct io_uring_sqe *sqe, const weft__op *op)
{
    if (op->code == WEFT__OP_ACCEPT) {
        io_uring_prep_multishot_accept(sqe, op->fd, NULL, NULL, SOCK_CLOEXEC);
    } else {
        io_uring_prep_recv_multishot(sqe, op->fd, NULL, 0, 0);
        sqe->flags |= IOSQE_BUFFER_SELECT;
        sqe->buf_group = BUFFER_GROUP;
    }
    sqe->user_data = op->key;
}

/* What a loop before this one left is what this one begins with. */
static void inherit(weft__many *m, weft__flight *f)
{
    weft__kept *k = f->kept;
    if (k == NULL || m->first != NO_BUFFER || !conns_are_empty(m->conns))
        return;
    f->kept = NULL;
    m->first = k->first;
    m->final = k->final;
    m->skip = k->used;
    if (k->conns != NULL) {
        free(m->conns);
        m->conns = k->conns;
    }
    if (k->error != 0) {
        m->has_last = true;
        m->last = k->error;
    }
}

int weft__uring_many_open(weft__backend *base, weft__many *m)
{
    weft__uring *b = weft__uring_of(base);
    const weft__uring_abilities *a = &b->abilities;
    bool is_accept = m->op.code == WEFT__OP_ACCEPT;
    if (!(is_accept ? a->has_multishot_accept : a->has_multishot_recv))
        return -EOPNOTSUPP;
    weft__flight *f = weft__uring_note(b, m->op.fd);
    if (f == NULL || f->descriptor->is_closing || f->descriptor->is_not_socket || f->has_messages)
        return -EOPNOTSUPP; /* a message may be larger than a buffer */
    weft__conns *conns = is_accept ? make_conns() : NULL;
    if (is_accept ? conns == NULL : make_buffers(b) < 0)
        return -EOPNOTSUPP;
    weft__op op = m->op;
    *m = (weft__many){.op = op, .held = NO_BUFFER, .first = NO_BUFFER, .conns = conns};
    m->life = f->descriptor->life;
    weft__list_init(&m->op.link);
    weft__list_init(&m->op.turn);
    inherit(m, f);
    return 0;
}

static void release_held(weft__uring *b, weft__many *m)
{
    if (m->held != NO_BUFFER)
        give_back(b, m->held);
    m->held = NO_BUFFER;
}

static intptr_t take_result(weft__uring *b, weft__many *m, const void **data)
{
    m->count -= m->count > 0;
    if (m->op.code == WEFT__OP_ACCEPT)
        return m->conns->fd[m->conns->first++];
    m->held = pop_buffer(b, &m->first);
    *data = data_of(b, m->held) + m->skip;
    intptr_t bytes = (intptr_t)(b->buffers.notes[m->held].bytes - m->skip);
    m->skip = 0;
    return bytes;
}

intptr_t weft__uring_many_next(weft__backend *base, weft__many *m, const void **data)
{
    weft__uring *b = weft__uring_of(base);
    release_held(b, m);
    if (m->first != NO_BUFFER || !conns_are_empty(m->conns))
        return take_result(b, m, data);
    if (m->has_last) {
        m->has_last = false;
        return m->last;
    }
    if (m->is_shut)
        return -EBADF;
    if (!m->is_armed) {
        weft__flight *f = weft__uring_flight(b, m->op.fd);
        inherit(m, f); /* from a reader inside the loop, to whom it had to give way */
        if (m->first != NO_BUFFER || !conns_are_empty(m->conns))
            return take_result(b, m, data);
        m->is_armed = true;
        m->is_cancelled = false;
        weft__uring_make_way(b, f, &m->op);
        weft__uring_launch_many(b, m);
    }
    m->is_waited_for = true;
    return WEFT__OP_PENDING;
}

static void add_result(weft__uring *b, weft__many *m, const weft__completion *c)
{
    m->count++;
    if (m->op.code == WEFT__OP_ACCEPT) {
        if (append_conn(&m->conns, c->result))
            return;
        close(c->result); /* more than ever wait at once, and no memory: the loop says so */
        m->has_last = true;
        m->last = -ENOMEM;
        return;
    }
    int buffer = (int)(c->flags >> IORING_CQE_BUFFER_SHIFT);
    b->buffers.notes[buffer].bytes = (unsigned)c->result;
    append_buffer(b, &m->first, &m->final, buffer);
}

/* The kernel has let go of it: told to, or because of this result. */
static void note_end(weft__many *m, int result)
{
    m->is_armed = false;
    if (result > 0 || (result == 0 && m->op.code == WEFT__OP_ACCEPT))
        return; /* it only wants to be started again */
    if (result == -ECANCELED && (m->is_cancelled || m->is_shut))
        return;
    m->has_last = true;
    m->last = result;
}

static void tell(weft__many *m)
{
    m->is_waited_for = false;
    m->op.done(&m->op, 0);
}

void weft__uring_many_completed(weft__uring *b, weft__many *m, const weft__completion *c)
{
    bool is_result = c->result > 0 || (c->result == 0 && m->op.code == WEFT__OP_ACCEPT);
    if (is_result)
        add_result(b, m, c);
    else if (c->flags & IORING_CQE_F_BUFFER) /* the end of the input may come with one */
        give_back(b, (int)(c->flags >> IORING_CQE_BUFFER_SHIFT));
    if (!(c->flags & IORING_CQE_F_MORE)) {
        note_end(m, c->result);
        /* Before others on the descriptor have their turn. */
        if (m->is_closing || weft__uring_has_next(b, m->op.fd, WEFT__LINE_IN))
            keep(b, m);
        weft__uring_land_many(b, m);
        if (m->is_closing) {
            m->op.done(&m->op, 0);
            return;
        }
    } else if (m->count >= WAITING_MAX && !m->is_cancelled) {
        m->is_cancelled = true;
        weft__uring_ask_back(b, &m->op);
    }
    if (m->is_waited_for)
        tell(m);
}

void weft__uring_many_turn(weft__many *m, weft__flight *f)
{
    inherit(m, f);
    if (m->is_waited_for && (m->first != NO_BUFFER || !conns_are_empty(m->conns)))
        tell(m);
}

void weft__uring_many_shut(weft__many *m)
{
    m->is_shut = true;
    m->is_armed = false;
    if (m->is_waited_for)
        tell(m);
}

bool weft__uring_many_close(weft__backend *base, weft__many *m)
{
    weft__uring *b = weft__uring_of(base);
    release_held(b, m);
    m->is_waited_for = false;
    m->is_closing = true;
    if (m->is_armed && m->op.progress & WEFT__STARTED) {
        weft__uring_recall_many(b, m);
        return false;
    }
    keep(b, m); /* before the next one has its turn */
    if (m->is_armed)
        weft__uring_recall_many(b, m);
    weft__uring_start_next(b, m->op.fd, WEFT__LINE_IN);
    return true;
}

/*
 * Pipes and socket pairs in memory, see net.h. Like descriptors of the kernel, they have partial
 * transfers, atomic small writes, end of file, EPIPE and readiness.
 */
#include "backend/sim/net.h"

#include "backend/ready/waiters.h"
#include "backend/syscall/call.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The capacity of one direction: the default of a Linux pipe. */
#define STREAM_BYTES (64u << 10)
#define SLOTS_MIN 16

/* One direction of a pair. */
typedef struct stream {
    unsigned char *data; /* a ring of STREAM_BYTES; NULL until the first write */
    unsigned head;       /* the position of the next byte to read */
    unsigned count;
    bool is_shut; /* shutdown was called at either end: writes fail */
} stream;

typedef struct weft__sim_end {
    int fd; /* -1: closed */
    bool is_closing;
    stream *in;  /* the direction to read from; NULL: write only */
    stream *out; /* the direction to write to; NULL: read only */
    struct sim_pair *pair;
    weft__waiters waiters;
    weft__list active; /* in active of the net, or in no list */
} sim_end;

/* Two ends and the streams between them. The pair is freed when both ends are closed. */
typedef struct sim_pair {
    sim_end ends[2];
    stream streams[2];
} sim_pair;

static sim_end *peer_of(const sim_end *end)
{
    sim_end *first = &end->pair->ends[0];
    return end == first ? first + 1 : first;
}

static bool end_is_open(const sim_end *end)
{
    return end->fd >= 0;
}

static sim_end *end_find(const weft__simnet *net, int fd)
{
    sim_end *end = net->slots != NULL ? net->slots[(unsigned)fd & net->mask] : NULL;
    return end != NULL && end->fd == fd ? end : NULL;
}

/* Try the waiters of an end again in the next run. */
static void end_activate(weft__simnet *net, sim_end *end)
{
    if (weft__list_is_empty(&end->active) && !weft__waiters_is_empty(&end->waiters))
        weft__list_insert(&net->active, &end->active);
}

/*
 * Double the table. Descriptors do not collide, because numbers that differ in the old mask also
 * differ in the new mask.
 */
static int table_grow(weft__simnet *net)
{
    unsigned capacity = net->slots == NULL ? SLOTS_MIN : (net->mask + 1) * 2;
    sim_end **slots = calloc(capacity, sizeof *slots);
    if (slots == NULL)
        return -ENOMEM;
    for (unsigned i = 0; net->slots != NULL && i <= net->mask; i++)
        if (net->slots[i] != NULL)
            slots[(unsigned)net->slots[i]->fd & (capacity - 1)] = net->slots[i];
    free(net->slots);
    net->slots = slots;
    net->mask = capacity - 1;
    return 0;
}

/* Assign the next number that has a free slot. The table must have a free slot. */
static void end_assign_fd(weft__simnet *net, sim_end *end)
{
    while (net->slots[(unsigned)net->fd_next & net->mask] != NULL)
        net->fd_next = net->fd_next == INT_MAX ? WEFT__SIMNET_FD_MIN : net->fd_next + 1;
    end->fd = net->fd_next;
    net->slots[(unsigned)end->fd & net->mask] = end;
    net->count++;
    net->fd_next = net->fd_next == INT_MAX ? WEFT__SIMNET_FD_MIN : net->fd_next + 1;
}

/* Create a pair with numbers but without streams. Returns NULL if memory is exhausted. */
static sim_pair *pair_new(weft__simnet *net, int fd[2])
{
    if ((net->slots == NULL || (net->count + 2) * 2 > net->mask + 1) && table_grow(net) < 0)
        return NULL;
    sim_pair *pair = calloc(1, sizeof *pair);
    if (pair == NULL)
        return NULL;
    for (int i = 0; i < 2; i++) {
        sim_end *end = &pair->ends[i];
        end->pair = pair;
        weft__waiters_init(&end->waiters);
        weft__list_init(&end->active);
        end_assign_fd(net, end);
        fd[i] = end->fd;
    }
    return pair;
}

int weft__simnet_pipe(weft__simnet *net, int fd[2])
{
    sim_pair *pair = pair_new(net, fd);
    if (pair == NULL)
        return -ENOMEM;
    pair->ends[0].in = pair->ends[1].out = &pair->streams[0];
    return 0;
}

int weft__simnet_socketpair(weft__simnet *net, int fd[2])
{
    sim_pair *pair = pair_new(net, fd);
    if (pair == NULL)
        return -ENOMEM;
    pair->ends[0].in = pair->ends[1].out = &pair->streams[0];
    pair->ends[1].in = pair->ends[0].out = &pair->streams[1];
    return 0;
}

static unsigned stream_space(const stream *s)
{
    return STREAM_BYTES - s->count;
}

/* Return the space that a write needs. A write of up to PIPE_BUF bytes is atomic. */
static unsigned space_needed(size_t bytes)
{
    return bytes < PIPE_BUF ? (unsigned)bytes : PIPE_BUF;
}

static bool end_is_socket(const sim_end *end)
{
    return end->in != NULL && end->out != NULL;
}

/* Return whether no further data can enter the stream. */
static bool is_stream_over(const sim_end *end, const stream *s)
{
    return s->is_shut || !end_is_open(peer_of(end));
}

/* The buffers and flags of a read or write. */
typedef struct transfer {
    const struct iovec *pieces;
    size_t count;
    int flags; /* of recv and send */
    struct iovec single;
} transfer;

static size_t transfer_bytes(const transfer *t)
{
    size_t bytes = 0;
    for (size_t i = 0; i < t->count; i++)
        bytes += t->pieces[i].iov_len;
    return bytes;
}

/*
 * Return whether no buffer is NULL. Other invalid addresses crash, although the kernel would return
 * -EFAULT.
 */
static bool transfer_is_valid(const transfer *t)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->pieces == NULL || (t->pieces[i].iov_base == NULL && t->pieces[i].iov_len > 0))
            return false;
    return true;
}

/*
 * Return the memory of the ring at offset bytes after its head. Limit *bytes to the contiguous
 * memory.
 */
static unsigned char *ring_chunk(const stream *s, unsigned offset, size_t *bytes)
{
    unsigned from = (s->head + offset) % STREAM_BYTES;
    if (*bytes > STREAM_BYTES - from)
        *bytes = STREAM_BYTES - from;
    return s->data + from;
}

static unsigned copy_out(const stream *s, const transfer *t)
{
    unsigned done = 0;
    for (size_t i = 0; i < t->count; i++) {
        for (size_t in_piece = 0; in_piece < t->pieces[i].iov_len && done < s->count;) {
            size_t n = t->pieces[i].iov_len - in_piece;
            n = n < s->count - done ? n : s->count - done;
            const unsigned char *from = ring_chunk(s, done, &n);
            memcpy((char *)t->pieces[i].iov_base + in_piece, from, n);
            in_piece += n;
            done += (unsigned)n;
        }
    }
    return done;
}

static unsigned copy_in(stream *s, const transfer *t)
{
    unsigned before = s->count;
    for (size_t i = 0; i < t->count; i++) {
        for (size_t in_piece = 0; in_piece < t->pieces[i].iov_len && stream_space(s) > 0;) {
            size_t n = t->pieces[i].iov_len - in_piece;
            n = n < stream_space(s) ? n : stream_space(s);
            unsigned char *to = ring_chunk(s, s->count, &n);
            memcpy(to, (const char *)t->pieces[i].iov_base + in_piece, n);
            in_piece += n;
            s->count += (unsigned)n;
        }
    }
    return s->count - before;
}

static intptr_t end_read(weft__simnet *net, sim_end *end, const transfer *t)
{
    stream *s = end->in;
    if (s == NULL)
        return -EBADF;
    if (!transfer_is_valid(t))
        return -EFAULT;
    if (transfer_bytes(t) == 0)
        return 0;
    if (s->count == 0)
        return is_stream_over(end, s) ? 0 : -EAGAIN;
    unsigned n = copy_out(s, t);
    if (t->flags & MSG_PEEK)
        return n;
    s->head = (s->head + n) % STREAM_BYTES;
    s->count -= n;
    end_activate(net, peer_of(end));
    return n;
}

static intptr_t end_write(weft__simnet *net, sim_end *end, const transfer *t)
{
    stream *s = end->out;
    if (s == NULL)
        return -EBADF;
    if (!transfer_is_valid(t))
        return -EFAULT;
    size_t bytes = transfer_bytes(t);
    if (bytes == 0)
        return 0;
    if (is_stream_over(end, s))
        return -EPIPE;
    if (stream_space(s) < space_needed(bytes))
        return -EAGAIN;
    if (s->data == NULL && (s->data = malloc(STREAM_BYTES)) == NULL)
        return -ENOMEM;
    unsigned n = copy_in(s, t);
    end_activate(net, peer_of(end));
    return n;
}

/*
 * Return the events that poll(2) would report, or -EAGAIN. Pipes and sockets report a closed peer
 * differently.
 */
static intptr_t end_ready(const sim_end *end, int events)
{
    bool is_peer_closed = !end_is_open(peer_of(end));
    bool is_hung_up =
        is_peer_closed || (end_is_socket(end) && end->in->is_shut && end->out->is_shut);
    int ready = 0;
    if (end->in != NULL &&
        (end->in->count > 0 || (end_is_socket(end) && is_stream_over(end, end->in))))
        ready |= POLLIN;
    if (end->out != NULL &&
        (stream_space(end->out) >= PIPE_BUF || (end_is_socket(end) && is_peer_closed)))
        ready |= POLLOUT;
    if (is_hung_up)
        ready |= end->in != NULL ? POLLHUP : POLLERR;
    ready &= events | POLLHUP | POLLERR;
    return ready != 0 ? ready : -EAGAIN;
}

static intptr_t try_transfer(weft__simnet *net, sim_end *end, const weft__op *op)
{
    bool is_single = op->code == WEFT__OP_READ || op->code == WEFT__OP_WRITE;
    bool is_read = op->code == WEFT__OP_READ || op->code == WEFT__OP_READV;
    int64_t offset = is_single ? op->u.buffer.offset : op->u.vector.offset;
    if (offset != WEFT__OFFSET_CURRENT)
        return -ESPIPE;
    transfer t = {.pieces = &t.single, .count = 1};
    if (is_single)
        t.single = (struct iovec){op->u.buffer.data, op->u.buffer.bytes};
    else if (op->u.vector.count < 0 || op->u.vector.count > IOV_MAX)
        return -EINVAL;
    else
        t.pieces = op->u.vector.pieces, t.count = (size_t)op->u.vector.count;
    return is_read ? end_read(net, end, &t) : end_write(net, end, &t);
}

/* Error queues and urgent bytes are not supported. */
static bool has_unsupported_flags(int flags)
{
    return flags & (MSG_OOB | MSG_ERRQUEUE);
}

static intptr_t try_packet(weft__simnet *net, sim_end *end, const weft__op *op)
{
    transfer t = {.pieces = &t.single, .count = 1, .flags = op->u.packet.flags};
    t.single = (struct iovec){op->u.packet.data, op->u.packet.bytes};
    if (!end_is_socket(end))
        return -ENOTSOCK;
    if (has_unsupported_flags(t.flags))
        return -EOPNOTSUPP;
    return op->code == WEFT__OP_RECV ? end_read(net, end, &t) : end_write(net, end, &t);
}

static intptr_t try_recvmsg(weft__simnet *net, sim_end *end, struct msghdr *header,
                            const transfer *t)
{
    intptr_t result = end_read(net, end, t);
    if (result >= 0) {
        header->msg_namelen = 0;
        header->msg_controllen = 0;
        header->msg_flags = 0;
    }
    return result;
}

/* Ancillary data is not supported. */
static intptr_t try_message(weft__simnet *net, sim_end *end, const weft__op *op)
{
    struct msghdr *header = op->u.message.header;
    if (!end_is_socket(end))
        return -ENOTSOCK;
    if (header == NULL)
        return -EFAULT;
    transfer t = {header->msg_iov, header->msg_iovlen, .flags = op->u.message.flags};
    if (has_unsupported_flags(t.flags))
        return -EOPNOTSUPP;
    if (op->code == WEFT__OP_RECVMSG)
        return try_recvmsg(net, end, header, &t);
    if (header->msg_controllen > 0)
        return -EOPNOTSUPP;
    return header->msg_namelen > 0 ? -EISCONN : end_write(net, end, &t);
}

/* Try an operation. Returns the result or -EAGAIN. */
static intptr_t try_op(weft__simnet *net, sim_end *end, const weft__op *op)
{
    switch (op->code) {
    case WEFT__OP_READ:
    case WEFT__OP_WRITE:
    case WEFT__OP_READV:
    case WEFT__OP_WRITEV:
        return try_transfer(net, end, op);
    case WEFT__OP_RECV:
    case WEFT__OP_SEND:
        return try_packet(net, end, op);
    case WEFT__OP_RECVMSG:
    case WEFT__OP_SENDMSG:
        return try_message(net, end, op);
    case WEFT__OP_WAIT:
        return op->wait_events != 0 ? end_ready(end, op->wait_events) : -EINVAL;
    case WEFT__OP_FSYNC:
        return -EINVAL;
    default: /* CONNECT and ACCEPT need a network */
        return -EOPNOTSUPP;
    }
}

/*
 * Return whether an operation must wait for earlier operations of its queue. WAIT never waits for
 * earlier operations.
 */
static bool must_wait(const weft__list *queue, const weft__op *op)
{
    return !weft__list_is_empty(queue) && op->wait_events != 0 && op->code != WEFT__OP_WAIT &&
           !weft__call_never_waits(op);
}

intptr_t weft__simnet_submit(weft__simnet *net, weft__op *op)
{
    sim_end *end = end_find(net, op->fd);
    if (end == NULL || end->is_closing)
        return -EBADF;
    weft__list_init(&op->secondary_link);
    weft__call_set_wait(op);
    weft__list *queue = weft__waiters_queue(&end->waiters, op);
    if (!must_wait(queue, op)) {
        intptr_t result = try_op(net, end, op);
        if (result != -EAGAIN || weft__call_never_waits(op))
            return result;
    }
    weft__waiters_add(net->backend, queue, op);
    return WEFT__OP_PENDING;
}

void weft__simnet_cancel(weft__simnet *net, weft__op *op)
{
    weft__waiters_remove(net->backend, op);
    end_activate(net, end_find(net, op->fd)); /* a smaller write may wait after op */
}

/*
 * Try the operations of a queue. Returns the number of completed operations. A done callback may
 * close the end and free it.
 */
static size_t end_run_queue(weft__simnet *net, sim_end *end, int fd, weft__list *queue)
{
    size_t completed = 0;
    while (!weft__list_is_empty(queue)) {
        weft__op *op = weft__waiters_first(queue);
        intptr_t result = try_op(net, end, op);
        if (result == -EAGAIN)
            break;
        weft__waiters_end(net->backend, op, result);
        completed++;
        if (end_find(net, fd) != end)
            break;
    }
    return completed;
}

static size_t end_run(weft__simnet *net, sim_end *end)
{
    int fd = end->fd;
    size_t completed = end_run_queue(net, end, fd, &end->waiters.either);
    if (end_find(net, fd) == end)
        completed += end_run_queue(net, end, fd, &end->waiters.readers);
    if (end_find(net, fd) == end)
        completed += end_run_queue(net, end, fd, &end->waiters.writers);
    return completed;
}

size_t weft__simnet_run(weft__simnet *net)
{
    /* Ends that become active meanwhile wait for the next run. Therefore the loop terminates. */
    weft__list batch;
    weft__list_init(&batch);
    weft__list_splice(&batch, &net->active);
    size_t completed = 0;
    weft__list *link;
    while ((link = weft__list_pop(&batch)) != NULL)
        completed += end_run(net, CONTAINER_OF(link, sim_end, active));
    return completed;
}

/* Free a pair. Both ends must be closed. */
static void pair_free(sim_pair *pair)
{
    free(pair->streams[0].data);
    free(pair->streams[1].data);
    free(pair);
}

static void end_unlink(weft__simnet *net, sim_end *end)
{
    net->slots[(unsigned)end->fd & net->mask] = NULL;
    net->count--;
    end->fd = -1;
    weft__list_remove(&end->active);
}

int weft__simnet_close_fd(weft__simnet *net, int fd)
{
    sim_end *end = end_find(net, fd);
    if (end == NULL || end->is_closing)
        return -EBADF;
    end->is_closing = true;
    weft__waiters_end_all(net->backend, &end->waiters, -EBADF);
    end_unlink(net, end);
    if (end_is_open(peer_of(end)))
        end_activate(net, peer_of(end));
    else
        pair_free(end->pair);
    return 0;
}

int weft__simnet_shutdown_fd(weft__simnet *net, int fd, int how)
{
    sim_end *end = end_find(net, fd);
    if (end == NULL || end->is_closing)
        return -EBADF;
    if (!end_is_socket(end))
        return -ENOTSOCK;
    if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
        return -EINVAL;
    if (how != SHUT_WR)
        end->in->is_shut = true;
    if (how != SHUT_RD)
        end->out->is_shut = true;
    end_activate(net, end);
    end_activate(net, peer_of(end));
    return 0;
}

void weft__simnet_open(weft__simnet *net, weft__backend *backend)
{
    *net = (weft__simnet){.backend = backend, .fd_next = WEFT__SIMNET_FD_MIN};
    weft__list_init(&net->active);
}

void weft__simnet_close(weft__simnet *net)
{
    for (unsigned i = 0; net->slots != NULL && i <= net->mask; i++)
        if (net->slots[i] != NULL)
            weft__simnet_close_fd(net, net->slots[i]->fd);
    free(net->slots);
    net->slots = NULL;
}

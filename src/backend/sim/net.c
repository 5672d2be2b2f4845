/*
 * Pipes and socket pairs in memory, see sim_net.h. They behave as the kernel's do where a program
 * can tell: partial reads and writes, small writes in one piece, end of file, EPIPE, readiness.
 */
#include "backend/sim_net.h"

#include "backend/call.h"
#include "backend/waiters.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* What a direction holds: the default of a pipe on Linux. */
#define STREAM_BYTES (64u << 10)
#define SLOTS_MIN 16

/* One direction of a pair. */
typedef struct stream {
    unsigned char *data; /* a ring of STREAM_BYTES; NULL until the first write */
    unsigned head;       /* of the next byte to read */
    unsigned count;
    bool is_shut; /* nothing more is written: by shutdown, from either end */
} stream;

typedef struct weft__sim_end {
    int fd; /* -1: closed */
    bool is_closing;
    stream *in;  /* what it reads; NULL: it cannot */
    stream *out; /* what it writes; NULL: it cannot */
    struct sim_pair *pair;
    weft__waiters waiters;
    weft__list active; /* in the net's list of the same name, or in none */
} sim_end;

/* Two ends and what is between them: lives until both are closed. */
typedef struct sim_pair {
    sim_end ends[2];
    stream streams[2];
} sim_pair;

static sim_end *peer_of(const sim_end *end)
{
    sim_end *first = &end->pair->ends[0];
    return end == first ? first + 1 : first;
}

static bool is_open(const sim_end *end)
{
    return end->fd >= 0;
}

static sim_end *find(const weft__simnet *net, int fd)
{
    sim_end *end = net->slots != NULL ? net->slots[(unsigned)fd & net->mask] : NULL;
    return end != NULL && end->fd == fd ? end : NULL;
}

/* Something has changed for this end: have its waiters tried in the next run. */
static void touch(weft__simnet *net, sim_end *end)
{
    if (weft__list_is_empty(&end->active) && !weft__waiters_is_empty(&end->waiters))
        weft__list_insert(&net->active, &end->active);
}

/* Double the table. Numbers that differ in their low bits differ in one bit more, too. */
static int grow(weft__simnet *net)
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

/* Give an end the next number whose slot is free. There is room. */
static void number(weft__simnet *net, sim_end *end)
{
    while (net->slots[(unsigned)net->fd_next & net->mask] != NULL)
        net->fd_next = net->fd_next == INT_MAX ? WEFT__SIMNET_FD_MIN : net->fd_next + 1;
    end->fd = net->fd_next;
    net->slots[(unsigned)end->fd & net->mask] = end;
    net->count++;
    net->fd_next = net->fd_next == INT_MAX ? WEFT__SIMNET_FD_MIN : net->fd_next + 1;
}

/* A pair whose ends have numbers, but nothing yet to read or write; NULL without memory. */
static sim_pair *make_pair(weft__simnet *net, int fd[2])
{
    if ((net->slots == NULL || (net->count + 2) * 2 > net->mask + 1) && grow(net) < 0)
        return NULL;
    sim_pair *pair = calloc(1, sizeof *pair);
    if (pair == NULL)
        return NULL;
    for (int i = 0; i < 2; i++) {
        sim_end *end = &pair->ends[i];
        end->pair = pair;
        weft__waiters_init(&end->waiters);
        weft__list_init(&end->active);
        number(net, end);
        fd[i] = end->fd;
    }
    return pair;
}

int weft__simnet_pipe(weft__simnet *net, int fd[2])
{
    sim_pair *pair = make_pair(net, fd);
    if (pair == NULL)
        return -ENOMEM;
    pair->ends[0].in = pair->ends[1].out = &pair->streams[0];
    return 0;
}

int weft__simnet_socketpair(weft__simnet *net, int fd[2])
{
    sim_pair *pair = make_pair(net, fd);
    if (pair == NULL)
        return -ENOMEM;
    pair->ends[0].in = pair->ends[1].out = &pair->streams[0];
    pair->ends[1].in = pair->ends[0].out = &pair->streams[1];
    return 0;
}

static unsigned room_of(const stream *s)
{
    return STREAM_BYTES - s->count;
}

/* A write so small goes in whole or not at all, as on a pipe. */
static unsigned room_needed(size_t bytes)
{
    return bytes < PIPE_BUF ? (unsigned)bytes : PIPE_BUF;
}

static bool is_socket(const sim_end *end)
{
    return end->in != NULL && end->out != NULL;
}

/* Will nothing more come through? */
static bool is_over(const sim_end *end, const stream *s)
{
    return s->is_shut || !is_open(peer_of(end));
}

/* Several buffers in a row, and how they are to be read or written. */
typedef struct transfer {
    const struct iovec *pieces;
    size_t count;
    int flags; /* of recv, send */
    struct iovec own;
} transfer;

static size_t bytes_of(const transfer *t)
{
    size_t bytes = 0;
    for (size_t i = 0; i < t->count; i++)
        bytes += t->pieces[i].iov_len;
    return bytes;
}

/* Of a program's memory we can only tell that NULL is none; the kernel knows the rest. */
static bool is_memory(const transfer *t)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->pieces == NULL || (t->pieces[i].iov_base == NULL && t->pieces[i].iov_len > 0))
            return false;
    return true;
}

/* The part of the ring from `at` bytes behind its head on that is in one piece, at most so long. */
static unsigned char *run_of(const stream *s, unsigned at, size_t *bytes)
{
    unsigned from = (s->head + at) % STREAM_BYTES;
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
            const unsigned char *from = run_of(s, done, &n);
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
        for (size_t in_piece = 0; in_piece < t->pieces[i].iov_len && room_of(s) > 0;) {
            size_t n = t->pieces[i].iov_len - in_piece;
            n = n < room_of(s) ? n : room_of(s);
            unsigned char *to = run_of(s, s->count, &n);
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
    if (!is_memory(t))
        return -EFAULT;
    if (bytes_of(t) == 0)
        return 0;
    if (s->count == 0)
        return is_over(end, s) ? 0 : -EAGAIN;
    unsigned n = copy_out(s, t);
    if (t->flags & MSG_PEEK)
        return n;
    s->head = (s->head + n) % STREAM_BYTES;
    s->count -= n;
    touch(net, peer_of(end));
    return n;
}

static intptr_t end_write(weft__simnet *net, sim_end *end, const transfer *t)
{
    stream *s = end->out;
    if (s == NULL)
        return -EBADF;
    if (!is_memory(t))
        return -EFAULT;
    size_t bytes = bytes_of(t);
    if (bytes == 0)
        return 0;
    if (is_over(end, s))
        return -EPIPE;
    if (room_of(s) < room_needed(bytes))
        return -EAGAIN;
    if (s->data == NULL && (s->data = malloc(STREAM_BYTES)) == NULL)
        return -ENOMEM;
    unsigned n = copy_in(s, t);
    touch(net, peer_of(end));
    return n;
}

/* What poll(2) would say. A pipe has one direction, a socket two, and they end differently. */
static intptr_t end_ready(const sim_end *end, int events)
{
    bool is_gone = !is_open(peer_of(end));
    bool is_hung_up = is_gone || (is_socket(end) && end->in->is_shut && end->out->is_shut);
    int ready = 0;
    if (end->in != NULL && (end->in->count > 0 || (is_socket(end) && is_over(end, end->in))))
        ready |= POLLIN;
    if (end->out != NULL && (room_of(end->out) >= PIPE_BUF || (is_socket(end) && is_gone)))
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
    transfer t = {.pieces = &t.own, .count = 1};
    if (is_single)
        t.own = (struct iovec){op->u.buffer.data, op->u.buffer.bytes};
    else if (op->u.vector.count < 0 || op->u.vector.count > IOV_MAX)
        return -EINVAL;
    else
        t.pieces = op->u.vector.pieces, t.count = (size_t)op->u.vector.count;
    return is_read ? end_read(net, end, &t) : end_write(net, end, &t);
}

/* What recv and send know beside these is not here: errors queued, urgent bytes. */
static bool has_unknown_flags(int flags)
{
    return flags & (MSG_OOB | MSG_ERRQUEUE);
}

static intptr_t try_packet(weft__simnet *net, sim_end *end, const weft__op *op)
{
    transfer t = {.pieces = &t.own, .count = 1, .flags = op->u.packet.flags};
    t.own = (struct iovec){op->u.packet.data, op->u.packet.bytes};
    if (!is_socket(end))
        return -ENOTSOCK;
    if (has_unknown_flags(t.flags))
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

/* There are no descriptors or credentials to send along. */
static intptr_t try_message(weft__simnet *net, sim_end *end, const weft__op *op)
{
    struct msghdr *header = op->u.message.header;
    if (!is_socket(end))
        return -ENOTSOCK;
    if (header == NULL)
        return -EFAULT;
    transfer t = {header->msg_iov, header->msg_iovlen, .flags = op->u.message.flags};
    if (has_unknown_flags(t.flags))
        return -EOPNOTSUPP;
    if (op->code == WEFT__OP_RECVMSG)
        return try_recvmsg(net, end, header, &t);
    if (header->msg_controllen > 0)
        return -EOPNOTSUPP;
    return header->msg_namelen > 0 ? -EISCONN : end_write(net, end, &t);
}

/* The result, or -EAGAIN. */
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
    default: /* there is no network in memory to connect through yet */
        return -EOPNOTSUPP;
    }
}

/* Not past those who wait already; readiness is for all of them. */
static bool must_wait(const weft__list *queue, const weft__op *op)
{
    return !weft__list_is_empty(queue) && op->wait_events != 0 && op->code != WEFT__OP_WAIT &&
           !weft__call_never_waits(op);
}

intptr_t weft__simnet_submit(weft__simnet *net, weft__op *op)
{
    sim_end *end = find(net, op->fd);
    if (end == NULL || end->is_closing)
        return -EBADF;
    weft__list_init(&op->turn);
    weft__call_aim(op);
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
    weft__waiters_take(net->backend, op);
    touch(net, find(net, op->fd)); /* a smaller write may have waited behind this one */
}

/* Returns how many were completed. done may close the end: its number tells, it is not reused. */
static size_t run_queue(weft__simnet *net, sim_end *end, int fd, weft__list *queue)
{
    size_t completed = 0;
    while (!weft__list_is_empty(queue)) {
        weft__op *op = weft__waiters_first(queue);
        intptr_t result = try_op(net, end, op);
        if (result == -EAGAIN)
            break;
        weft__waiters_end(net->backend, op, result);
        completed++;
        if (find(net, fd) != end)
            break;
    }
    return completed;
}

static size_t run_end(weft__simnet *net, sim_end *end)
{
    int fd = end->fd;
    size_t completed = run_queue(net, end, fd, &end->waiters.either);
    if (find(net, fd) == end)
        completed += run_queue(net, end, fd, &end->waiters.readers);
    if (find(net, fd) == end)
        completed += run_queue(net, end, fd, &end->waiters.writers);
    return completed;
}

size_t weft__simnet_run(weft__simnet *net)
{
    /* What becomes active meanwhile waits for the next run: two ends cannot keep us here. */
    weft__list batch;
    weft__list_init(&batch);
    weft__list_splice(&batch, &net->active);
    size_t completed = 0;
    weft__list *link;
    while ((link = weft__list_pop(&batch)) != NULL)
        completed += run_end(net, CONTAINER_OF(link, sim_end, active));
    return completed;
}

/* Free a pair of which no end is open. */
static void free_pair(sim_pair *pair)
{
    free(pair->streams[0].data);
    free(pair->streams[1].data);
    free(pair);
}

static void unlink_end(weft__simnet *net, sim_end *end)
{
    net->slots[(unsigned)end->fd & net->mask] = NULL;
    net->count--;
    end->fd = -1;
    weft__list_remove(&end->active);
}

int weft__simnet_close_fd(weft__simnet *net, int fd)
{
    sim_end *end = find(net, fd);
    if (end == NULL || end->is_closing)
        return -EBADF;
    end->is_closing = true;
    weft__waiters_end_each(net->backend, &end->waiters, -EBADF);
    unlink_end(net, end);
    if (is_open(peer_of(end)))
        touch(net, peer_of(end));
    else
        free_pair(end->pair);
    return 0;
}

int weft__simnet_shutdown_fd(weft__simnet *net, int fd, int how)
{
    sim_end *end = find(net, fd);
    if (end == NULL || end->is_closing)
        return -EBADF;
    if (!is_socket(end))
        return -ENOTSOCK;
    if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
        return -EINVAL;
    if (how != SHUT_WR)
        end->in->is_shut = true;
    if (how != SHUT_RD)
        end->out->is_shut = true;
    touch(net, end);
    touch(net, peer_of(end));
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

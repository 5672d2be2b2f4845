/* An operation as an entry of the submission queue. */
#include "backend/uring.h"

#include "backend/call.h"
#include "base/libc.h"

#include <fcntl.h>

/* The opcode that does it; is_socket as far as known. */
static int opcode_of(const weft__op *op, bool is_socket)
{
    switch (op->code) {
    case WEFT__OP_READ:
        return is_socket ? IORING_OP_RECV : IORING_OP_READ;
    case WEFT__OP_WRITE:
        return is_socket ? IORING_OP_SEND : IORING_OP_WRITE;
    case WEFT__OP_READV:
        return IORING_OP_READV;
    case WEFT__OP_WRITEV:
        return IORING_OP_WRITEV;
    case WEFT__OP_RECV:
        return IORING_OP_RECV;
    case WEFT__OP_SEND:
        return IORING_OP_SEND;
    case WEFT__OP_RECVMSG:
        return IORING_OP_RECVMSG;
    case WEFT__OP_SENDMSG:
        return IORING_OP_SENDMSG;
    case WEFT__OP_ACCEPT:
        return IORING_OP_ACCEPT;
    case WEFT__OP_CONNECT:
        return IORING_OP_CONNECT;
    case WEFT__OP_WAIT:
        return IORING_OP_POLL_ADD;
    case WEFT__OP_FSYNC:
        return IORING_OP_FSYNC;
    /* Splice and tee would each block a kernel thread. An open would not block at all: the kernel
     * tries with O_NONBLOCK first, and that opens a named pipe that nobody writes to. */
    default:
        return -1;
    }
}

static bool is_buffer(const weft__op *op)
{
    return op->code == WEFT__OP_READ || op->code == WEFT__OP_WRITE;
}

/* A read or write without an offset, on what is a socket as far as we know. */
static bool is_on_socket(const weft__op *op, const weft__flight *f)
{
    return is_buffer(op) && op->u.buffer.offset < 0 && f != NULL && !f->descriptor->is_not_socket;
}

static bool never_waits(const weft__op *op)
{
    /* Of nothing: as read(2) has it, which does not wait for data either. */
    bool is_of_nothing = op->code == WEFT__OP_READ && op->u.buffer.bytes == 0;
    return is_of_nothing || weft__call_never_waits(op);
}

/* At an offset: the kernel would take a pipe for a file, and wait. */
static bool is_at_offset(const weft__op *op)
{
    if (is_buffer(op))
        return op->u.buffer.offset >= 0;
    return (op->code == WEFT__OP_READV || op->code == WEFT__OP_WRITEV) && op->u.vector.offset >= 0;
}

/*
 * The kernel tries a message to a full queue again with what the first try has left of it: nothing
 * (seen with unix datagrams on Linux 6.18).
 */
static bool is_message(const weft__op *op, const weft__flight *f)
{
    bool is_send = op->code == WEFT__OP_SEND || op->code == WEFT__OP_SENDMSG ||
                   op->code == WEFT__OP_WRITE || op->code == WEFT__OP_WRITEV;
    return is_send && f != NULL && f->has_messages;
}

/* Could it raise SIGPIPE, if not told otherwise? Nobody can close the other end of a disk. */
static bool may_signal(const weft__op *op, const weft__flight *f)
{
    bool is_write =
        op->code == WEFT__OP_WRITEV || (op->code == WEFT__OP_WRITE && !is_on_socket(op, f));
    return is_write && !(f != NULL && f->descriptor->is_on_disk);
}

bool weft__uring_is_native(const weft__uring *b, const weft__op *op, const weft__flight *f)
{
    int opcode = opcode_of(op, is_on_socket(op, f));
    if (opcode < 0 || !weft__uring_has(b, opcode) || never_waits(op) || is_message(op, f))
        return false;
    /* A write to a terminal that is full holds the submitting thread up (Linux 6.18). */
    if (f != NULL && f->is_terminal && opcode != IORING_OP_POLL_ADD)
        return false;
    bool is_on_disk = f != NULL && f->descriptor->is_on_disk;
    if (is_at_offset(op) && !is_on_disk)
        return false;
    if (op->code == WEFT__OP_READV && is_on_disk)
        return false; /* it may be cut short, and to go on in the middle is ready.c's matter */
    return !(b->has_no_nosignal && may_signal(op, f));
}

/* One call moves at most so much, as read(2) does. */
static unsigned one_call(size_t bytes)
{
    return (unsigned)(bytes > INT32_MAX ? INT32_MAX : bytes);
}

static void prep_buffer(struct io_uring_sqe *sqe, const weft__op *op, const weft__flight *f,
                        int opcode)
{
    char *data = (char *)op->u.buffer.data + op->moved;
    size_t bytes = op->u.buffer.bytes - op->moved;
    int64_t offset = op->u.buffer.offset;
    bool is_packet = opcode == IORING_OP_RECV || opcode == IORING_OP_SEND;
    if (is_packet)
        offset = 0;
    else if (offset >= 0)
        offset += (int64_t)op->moved;
    io_uring_prep_rw(opcode, sqe, op->fd, data, one_call(bytes), (uint64_t)offset);
    if (opcode == IORING_OP_SEND)
        sqe->msg_flags = MSG_NOSIGNAL;
    else if (may_signal(op, f))
        sqe->rw_flags = RWF_NOSIGNAL;
}

static void prep_socket(struct io_uring_sqe *sqe, const weft__op *op, int opcode)
{
    switch (op->code) {
    case WEFT__OP_RECV:
    case WEFT__OP_SEND:
        io_uring_prep_rw(opcode, sqe, op->fd, op->u.packet.data, one_call(op->u.packet.bytes), 0);
        sqe->msg_flags = (unsigned)op->u.packet.flags;
        break;
    case WEFT__OP_RECVMSG:
    case WEFT__OP_SENDMSG:
        io_uring_prep_rw(opcode, sqe, op->fd, op->u.message.header, 1, 0);
        sqe->msg_flags = (unsigned)op->u.message.flags;
        break;
    case WEFT__OP_ACCEPT:
        io_uring_prep_accept(sqe, op->fd, op->u.accept.address, op->u.accept.bytes, SOCK_CLOEXEC);
        break;
    default:
        io_uring_prep_connect(sqe, op->fd, op->u.connect.address, op->u.connect.bytes);
        break;
    }
    if (op->code == WEFT__OP_SEND || op->code == WEFT__OP_SENDMSG)
        sqe->msg_flags |= MSG_NOSIGNAL;
}

void weft__uring_prep(const weft__uring *b, struct io_uring_sqe *sqe, const weft__op *op,
                      const weft__flight *f)
{
    int opcode = opcode_of(op, is_on_socket(op, f));
    switch (op->code) {
    case WEFT__OP_READ:
    case WEFT__OP_WRITE:
        prep_buffer(sqe, op, f, opcode);
        break;
    case WEFT__OP_READV:
    case WEFT__OP_WRITEV:
        io_uring_prep_rw(opcode, sqe, op->fd, op->u.vector.pieces, (unsigned)op->u.vector.count,
                         (uint64_t)op->u.vector.offset);
        sqe->rw_flags = may_signal(op, f) ? RWF_NOSIGNAL : 0;
        break;
    case WEFT__OP_WAIT:
        io_uring_prep_poll_add(sqe, op->fd, (unsigned)op->u.events);
        break;
    case WEFT__OP_FSYNC:
        io_uring_prep_fsync(sqe, op->fd, op->u.is_data_only ? IORING_FSYNC_DATASYNC : 0);
        break;
    default:
        prep_socket(sqe, op, opcode);
        break;
    }
    /* There was nothing more when we last looked: to look first would be in vain. */
    if (opcode == IORING_OP_RECV && f->is_drained && b->abilities.has_poll_first)
        sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
    sqe->user_data = op->key;
}

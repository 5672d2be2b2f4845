/*
 * Submission queue entries: the selection of operations that io_uring supports, and the contents of
 * an entry.
 */
#include "backend/uring/uring.h"

#include "backend/syscall/call.h"
#include "base/libc.h"

#include <fcntl.h>

/*
 * Return the opcode for an operation, or -1 if io_uring must not be used. is_socket is false if the
 * file type is unknown.
 */
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
    /*
     * Each SPLICE or TEE would block a kernel thread. OPEN of a named pipe without a writer would
     * return at once, because the kernel first tries O_NONBLOCK.
     */
    default:
        return -1;
    }
}

static bool is_buffer(const weft__op *op)
{
    return op->code == WEFT__OP_READ || op->code == WEFT__OP_WRITE;
}

/* Return whether the operation is a read or write at the current position of a socket. */
static bool is_on_socket(const weft__op *op, const weft__uring_fd *f)
{
    return is_buffer(op) && op->u.buffer.offset < 0 && f != NULL && !f->descriptor->is_not_socket;
}

static bool never_waits(const weft__op *op)
{
    /* read(2) of 0 bytes does not wait for data. */
    bool is_empty_read = op->code == WEFT__OP_READ && op->u.buffer.bytes == 0;
    return is_empty_read || weft__call_never_waits(op);
}

/*
 * Return whether the operation has an offset. With an offset, the kernel would wait for a pipe
 * instead of returning an error.
 */
static bool is_at_offset(const weft__op *op)
{
    if (is_buffer(op))
        return op->u.buffer.offset >= 0;
    return (op->code == WEFT__OP_READV || op->code == WEFT__OP_WRITEV) && op->u.vector.offset >= 0;
}

/*
 * Return whether the operation sends a message. If the queue of the receiver is full, the kernel
 * sends an empty message later (observed with unix datagrams on Linux 6.18).
 */
static bool is_message(const weft__op *op, const weft__uring_fd *f)
{
    bool is_send = op->code == WEFT__OP_SEND || op->code == WEFT__OP_SENDMSG ||
                   op->code == WEFT__OP_WRITE || op->code == WEFT__OP_WRITEV;
    return is_send && f != NULL && f->has_messages;
}

/*
 * Return whether the operation may raise SIGPIPE without a flag. A write to a file on disk never
 * raises SIGPIPE.
 */
static bool may_signal(const weft__op *op, const weft__uring_fd *f)
{
    bool is_write =
        op->code == WEFT__OP_WRITEV || (op->code == WEFT__OP_WRITE && !is_on_socket(op, f));
    return is_write && !(f != NULL && f->descriptor->is_on_disk);
}

bool weft__uring_is_native(const weft__uring *b, const weft__op *op, const weft__uring_fd *f)
{
    int opcode = opcode_of(op, is_on_socket(op, f));
    if (opcode < 0 || !weft__uring_has(b, opcode) || never_waits(op) || is_message(op, f))
        return false;
    /* A write to a full terminal blocks the submitting thread (Linux 6.18). */
    if (f != NULL && f->is_terminal && opcode != IORING_OP_POLL_ADD)
        return false;
    bool is_on_disk = f != NULL && f->descriptor->is_on_disk;
    if (is_at_offset(op) && !is_on_disk)
        return false;
    if (op->code == WEFT__OP_READV && is_on_disk)
        return false; /* only ready.c continues a short vectored read */
    return !(b->lacks_nosignal && may_signal(op, f));
}

/* Limit a size to the maximum of one entry. */
static unsigned clamp_bytes(size_t bytes)
{
    return (unsigned)(bytes > INT32_MAX ? INT32_MAX : bytes);
}

static void prep_buffer(struct io_uring_sqe *sqe, const weft__op *op, const weft__uring_fd *f,
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
    io_uring_prep_rw(opcode, sqe, op->fd, data, clamp_bytes(bytes), (uint64_t)offset);
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
        io_uring_prep_rw(opcode, sqe, op->fd, op->u.packet.data, clamp_bytes(op->u.packet.bytes),
                         0);
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
                      const weft__uring_fd *f)
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
    /* The last receive emptied the stream, so an immediate attempt would find no data. */
    if (opcode == IORING_OP_RECV && f != NULL && f->is_drained && b->abilities.has_poll_first)
        sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
    sqe->user_data = op->key;
}

/*
 * splice(2), tee(2) and sendfile(2), see call.h.
 *
 * SPLICE_F_NONBLOCK is a promise of the pipes alone: a socket or a device looks at O_NONBLOCK of
 * its own (tcp_splice_read, splice_to_socket), and a file on disk at nothing. So the flag is set
 * around the call, and a file is a thread's work; that begins when the pipe is ready for it.
 *
 * sendfile(2) reads the file, and is only called for what is in memory: a slow peer must not keep
 * a thread of the pool. Its position comes back exact, whatever the output took.
 */
#include "backend/call_parts.h"
#include "base/libc.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static intptr_t copy_masked(const weft__op *op, unsigned flags)
{
    weft__sigpipe held;
    weft__sigpipe_hold(&held);
    ssize_t n;
    int out = op->u.copy.fd_out;
    flags |= op->u.copy.flags;
    if (op->code == WEFT__OP_TEE)
        n = TEMP_FAILURE_RETRY(tee(op->fd, out, op->u.copy.bytes, flags));
    else
        n = TEMP_FAILURE_RETRY(splice(op->fd, op->u.copy.offset_in, out, op->u.copy.offset_out,
                                      op->u.copy.bytes, flags));
    intptr_t result = weft__call_result(n);
    weft__sigpipe_release(&held, result);
    return result;
}

/* Wait for the output, or for what no readiness tells of. */
static void aim_at_output(weft__op *op, intptr_t is_ready)
{
    op->wait_fd = is_ready == -EAGAIN ? op->u.copy.fd_out : WEFT__WAIT_AGAIN;
    op->wait_events = POLLOUT;
}

/*
 * It would block: on which side? An input with nothing but an error to tell of (POLLERR for
 * timestamps, say) is not one that can be read.
 */
static intptr_t find_what_blocks(weft__op *op)
{
    intptr_t in = weft__call_ready(op->fd, POLLIN);
    if (in < 0 && in != -EAGAIN)
        return in;
    if (in > 0 && in & (POLLIN | POLLHUP)) {
        intptr_t out = weft__call_ready(op->u.copy.fd_out, POLLOUT);
        if (out < 0 && out != -EAGAIN)
            return out;
        aim_at_output(op, out);
    }
    return -EAGAIN;
}

intptr_t weft__call_try_tee(weft__op *op)
{
    intptr_t result = copy_masked(op, SPLICE_F_NONBLOCK);
    return result == -EAGAIN ? find_what_blocks(op) : result;
}

static int mode_of(int fd, mode_t *mode)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return -errno;
    *mode = status.st_mode;
    return 0;
}

static bool is_on_disk(mode_t mode)
{
    return S_ISREG(mode) || S_ISBLK(mode);
}

/* A file on disk is at one end: when the other is ready, it is a thread's turn. */
static intptr_t try_disk(weft__op *op, bool is_output_on_disk)
{
    intptr_t other = is_output_on_disk ? weft__call_ready(op->fd, POLLIN)
                                       : weft__call_ready(op->u.copy.fd_out, POLLOUT);
    if (other < 0 && other != -EAGAIN)
        return other;
    if (other > 0)
        op->wait_fd = WEFT__WAIT_THREAD;
    else if (!is_output_on_disk)
        aim_at_output(op, -EAGAIN);
    return -EAGAIN;
}

static intptr_t splice_unblocked(const weft__op *op, bool is_in_pipe, bool is_out_pipe)
{
    int in = is_in_pipe ? 0 : weft__call_unblock(op->fd);
    if (in < 0)
        return in;
    int out = is_out_pipe ? 0 : weft__call_unblock(op->u.copy.fd_out);
    intptr_t result = out < 0 ? out : copy_masked(op, SPLICE_F_NONBLOCK);
    if (!is_out_pipe && out >= 0)
        weft__call_reblock(op->u.copy.fd_out, out);
    if (!is_in_pipe)
        weft__call_reblock(op->fd, in);
    return result;
}

intptr_t weft__call_try_splice(weft__op *op)
{
    mode_t in, out;
    int rc = mode_of(op->fd, &in);
    rc = rc < 0 ? rc : mode_of(op->u.copy.fd_out, &out);
    if (rc < 0)
        return rc;
    if (!S_ISFIFO(in) && !S_ISFIFO(out))
        return -EINVAL;
    if (is_on_disk(in) || is_on_disk(out))
        return try_disk(op, is_on_disk(out));
    intptr_t result = splice_unblocked(op, S_ISFIFO(in), S_ISFIFO(out));
    return result == -EAGAIN ? find_what_blocks(op) : result;
}

/* 0 or more if the byte is in memory, or behind the end; -EOPNOTSUPP if it would be waited for. */
static intptr_t ask_memory(int fd, int64_t offset)
{
    char byte;
    struct iovec piece = {&byte, 1};
    intptr_t n = weft__call_result(TEMP_FAILURE_RETRY(preadv2(fd, &piece, 1, offset, RWF_NOWAIT)));
    return n == -EAGAIN ? -EOPNOTSUPP : n;
}

/*
 * The first byte and the last are asked for; what was taken out of memory between them, or since,
 * is waited for after all.
 */
static intptr_t check_memory(const weft__op *op)
{
    int64_t first = *op->u.copy.offset_in;
    intptr_t result = ask_memory(op->fd, first);
    size_t bytes = op->u.copy.bytes;
    return result <= 0 || bytes < 2 ? result : ask_memory(op->fd, first + (int64_t)bytes - 1);
}

static intptr_t sendfile_unblocked(const weft__op *op)
{
    int flags = weft__call_unblock(op->u.copy.fd_out);
    if (flags < 0)
        return flags;
    weft__sigpipe held;
    weft__sigpipe_hold(&held);
    intptr_t result = weft__call_result(TEMP_FAILURE_RETRY(
        sendfile(op->u.copy.fd_out, op->fd, op->u.copy.offset_in, op->u.copy.bytes)));
    /* It sends in several steps, and tells of those that went; the last may have raised it. */
    bool is_short = result >= 0 && (size_t)result < op->u.copy.bytes;
    weft__sigpipe_release(&held, is_short ? -EPIPE : result);
    weft__call_reblock(op->u.copy.fd_out, flags);
    return result;
}

intptr_t weft__call_try_sendfile(weft__op *op)
{
    mode_t out;
    int rc = mode_of(op->u.copy.fd_out, &out);
    if (rc < 0)
        return rc;
    if (!S_ISSOCK(out) && !S_ISFIFO(out)) /* a file would be waited for, too */
        return -EOPNOTSUPP;
    intptr_t result = check_memory(op);
    if (result >= 0)
        result = sendfile_unblocked(op);
    if (result == -EAGAIN)
        aim_at_output(op, weft__call_ready(op->u.copy.fd_out, POLLOUT));
    return result;
}

intptr_t weft__call_block_copy(weft__op *op)
{
    bool is_for_disk = op->wait_fd == WEFT__WAIT_THREAD;
    intptr_t result = copy_masked(op, is_for_disk ? SPLICE_F_NONBLOCK : 0);
    return result == -EAGAIN && !is_for_disk ? find_what_blocks(op) : result;
}

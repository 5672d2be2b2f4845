/*
 * splice(2), tee(2) and sendfile(2), see call.h.
 *
 * SPLICE_F_NONBLOCK affects only pipes. A socket or device uses its own O_NONBLOCK
 * (tcp_splice_read, splice_to_socket). A file on disk ignores both flags. Therefore weft sets
 * O_NONBLOCK during the call. A worker thread splices files on disk, after the pipe has become
 * ready.
 *
 * sendfile(2) waits for the disk, so weft calls it only for data in the page cache. weft does not
 * call sendfile(2) on a worker thread, because a slow peer would block the thread. The returned
 * offset is exact, even if the output accepted less data.
 */
#include "backend/syscall/internal.h"
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
        n = TEMP_FAILURE_RETRY(WEFT__COUNTED(tee(op->fd, out, op->u.copy.bytes, flags)));
    else
        n = TEMP_FAILURE_RETRY(WEFT__COUNTED(splice(
            op->fd, op->u.copy.offset_in, out, op->u.copy.offset_out, op->u.copy.bytes, flags)));
    intptr_t result = weft__call_result(n);
    weft__sigpipe_release(&held, result);
    return result;
}

/*
 * Make the operation wait for the output. If the output is already ready, retry later. ready_result
 * is the result of weft__call_ready for the output.
 */
static void wait_for_output(weft__op *op, intptr_t ready_result)
{
    op->wait_fd = ready_result == -EAGAIN ? op->u.copy.fd_out : WEFT__WAIT_RETRY;
    op->wait_events = POLLOUT;
}

/*
 * Make the operation wait for the descriptor that would block. Returns -EAGAIN, or the error of a
 * descriptor. An input that reports only POLLERR (for example for timestamps) is not readable.
 */
static intptr_t find_blocking_end(weft__op *op)
{
    intptr_t in = weft__call_ready(op->fd, POLLIN);
    if (in < 0 && in != -EAGAIN)
        return in;
    if (in > 0 && in & (POLLIN | POLLHUP)) {
        intptr_t out = weft__call_ready(op->u.copy.fd_out, POLLOUT);
        if (out < 0 && out != -EAGAIN)
            return out;
        wait_for_output(op, out);
    }
    return -EAGAIN;
}

intptr_t weft__call_try_tee(weft__op *op)
{
    intptr_t result = copy_masked(op, SPLICE_F_NONBLOCK);
    return result == -EAGAIN ? find_blocking_end(op) : result;
}

static int mode_of(int fd, mode_t *mode)
{
    struct stat status;
    if (WEFT__COUNTED(fstat(fd, &status)) < 0)
        return -errno;
    *mode = status.st_mode;
    return 0;
}

static bool is_on_disk(mode_t mode)
{
    return S_ISREG(mode) || S_ISBLK(mode);
}

/*
 * Splice if one descriptor is a file on disk. When the other descriptor is ready, a worker thread
 * makes the call.
 */
static intptr_t splice_try_disk(weft__op *op, bool is_output_on_disk)
{
    intptr_t other = is_output_on_disk ? weft__call_ready(op->fd, POLLIN)
                                       : weft__call_ready(op->u.copy.fd_out, POLLOUT);
    if (other < 0 && other != -EAGAIN)
        return other;
    if (other > 0)
        op->wait_fd = WEFT__WAIT_WORKER;
    else if (!is_output_on_disk)
        wait_for_output(op, -EAGAIN);
    return -EAGAIN;
}

static intptr_t splice_unblocked(const weft__op *op, bool is_in_pipe, bool is_out_pipe)
{
    int in = is_in_pipe ? 0 : weft__call_set_nonblock(op->fd);
    if (in < 0)
        return in;
    int out = is_out_pipe ? 0 : weft__call_set_nonblock(op->u.copy.fd_out);
    intptr_t result = out < 0 ? out : copy_masked(op, SPLICE_F_NONBLOCK);
    if (!is_out_pipe && out >= 0)
        weft__call_restore_flags(op->u.copy.fd_out, out);
    if (!is_in_pipe)
        weft__call_restore_flags(op->fd, in);
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
        return splice_try_disk(op, is_on_disk(out));
    intptr_t result = splice_unblocked(op, S_ISFIFO(in), S_ISFIFO(out));
    return result == -EAGAIN ? find_blocking_end(op) : result;
}

/*
 * Check that a byte is in the page cache, or after the end of the file. Returns a value of 0 or
 * more. If a read would wait for the disk, returns -EOPNOTSUPP.
 */
static intptr_t probe_page_cache(int fd, int64_t offset)
{
    char byte;
    struct iovec piece = {&byte, 1};
    intptr_t n = weft__call_result(
        TEMP_FAILURE_RETRY(WEFT__COUNTED(preadv2(fd, &piece, 1, offset, RWF_NOWAIT))));
    return n == -EAGAIN ? -EOPNOTSUPP : n;
}

/*
 * Check the first and the last byte. sendfile waits for the disk if pages between them are missing.
 * It also waits if the kernel evicts pages after the check.
 */
static intptr_t check_page_cache(const weft__op *op)
{
    int64_t first = *op->u.copy.offset_in;
    intptr_t result = probe_page_cache(op->fd, first);
    size_t bytes = op->u.copy.bytes;
    return result <= 0 || bytes < 2 ? result : probe_page_cache(op->fd, first + (int64_t)bytes - 1);
}

static intptr_t sendfile_unblocked(const weft__op *op)
{
    int flags = weft__call_set_nonblock(op->u.copy.fd_out);
    if (flags < 0)
        return flags;
    weft__sigpipe held;
    weft__sigpipe_hold(&held);
    intptr_t result = weft__call_result(TEMP_FAILURE_RETRY(WEFT__COUNTED(
        sendfile(op->u.copy.fd_out, op->fd, op->u.copy.offset_in, op->u.copy.bytes))));
    /*
     * sendfile writes in steps. If the last step has failed and raised SIGPIPE, sendfile returns a
     * short count.
     */
    bool is_short = result >= 0 && (size_t)result < op->u.copy.bytes;
    weft__sigpipe_release(&held, is_short ? -EPIPE : result);
    weft__call_restore_flags(op->u.copy.fd_out, flags);
    return result;
}

intptr_t weft__call_try_sendfile(weft__op *op)
{
    mode_t out;
    int rc = mode_of(op->u.copy.fd_out, &out);
    if (rc < 0)
        return rc;
    if (!S_ISSOCK(out) && !S_ISFIFO(out)) /* a write to another file may wait for the disk */
        return -EOPNOTSUPP;
    intptr_t result = check_page_cache(op);
    if (result >= 0)
        result = sendfile_unblocked(op);
    if (result == -EAGAIN)
        wait_for_output(op, weft__call_ready(op->u.copy.fd_out, POLLOUT));
    return result;
}

intptr_t weft__call_block_copy(weft__op *op)
{
    bool is_for_disk = op->wait_fd == WEFT__WAIT_WORKER;
    intptr_t result = copy_masked(op, is_for_disk ? SPLICE_F_NONBLOCK : 0);
    return result == -EAGAIN && !is_for_disk ? find_blocking_end(op) : result;
}

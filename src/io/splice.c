/*
 * Copies inside the kernel: splice, tee, sendfile, and calls that move a whole input.
 *
 * Bytes that were taken from a socket or a pipe cannot be put back. Some transfers need an
 * intermediate pipe or buffer. Such a transfer takes at most as many bytes as the output can accept
 * without waiting. A call that waits for a slow peer therefore holds no bytes, and a cancellation
 * loses no bytes. Reading a file does not consume its data, so files have no such limit.
 */
#include "core/op/op.h"

#include <weft/error.h>
#include <weft/file.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/scope.h>

#include <fcntl.h>
#include <limits.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Bytes per call. Sending SENDFILE_BYTES takes about 20 microseconds. Other fibers run between two
 * calls. Larger values are not faster.
 */
#define SENDFILE_BYTES ((size_t)128 << 10)
#define SPLICE_BYTES ((size_t)1 << 20)
#define BUFFER_BYTES ((size_t)64 << 10)
/*
 * The capacity of the intermediate pipe, in bytes. Compared with 64 KiB, a transfer between two
 * sockets takes two thirds of the time with 256 KiB, and one third with 1 MiB. However, all pipes
 * of a user share 64 MiB (fs.pipe-user-pages-soft).
 */
#define PIPE_BYTES ((size_t)256 << 10)

/*
 * If a socket has less free space than SPACE_ENOUGH, wait until the socket is writable. A writable
 * socket has at least SPACE_LEAST bytes of free space.
 */
#define SPACE_ENOUGH ((size_t)16 << 10)
#define SPACE_LEAST ((size_t)1 << 10)

/*
 * The maximum delay of a cancellation if the output accepts less than its reported space, in
 * seconds.
 */
#define GRACE_S 5.0

#define CHUNK_BYTES_DEFAULT ((size_t)16 << 10)
#define CHUNK_BYTES_MAX ((size_t)1 << 20)
#define CHUNK_PREFIX_BYTES_MAX 256
/* The maximum number of decimal digits of a size_t. */
#define DIGITS_MAX 20

/*
 * Return whether a call failed because the kernel or the backend does not support these
 * descriptors. Such a call has moved no bytes.
 */
static bool is_unsupported(ssize_t result)
{
    bool is_code = result == -EINVAL || result == -ENOSYS || result == -EOPNOTSUPP;
    return is_code && !weft__was_interrupted();
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

ssize_t weft_splice(int fd_in, int64_t *offset_in, int fd_out, int64_t *offset_out, size_t bytes,
                    unsigned flags)
{
    weft__op op = {.code = WEFT__OP_SPLICE,
                   .fd = fd_in,
                   .u.copy = {offset_in, offset_out, bytes, fd_out, flags}};
    return weft__op_run(&op);
}

ssize_t weft_tee(int fd_in, int fd_out, size_t bytes, unsigned flags)
{
    weft__op op = {.code = WEFT__OP_TEE, .fd = fd_in, .u.copy = {NULL, NULL, bytes, fd_out, flags}};
    return weft__op_run(&op);
}

/* A file that is being sent. */
typedef struct file_send {
    int in, out;
    int64_t offset; /* all bytes before this offset are sent */
    char *buffer;   /* NULL: not allocated */
} file_send;

/*
 * Send by pread and write. Use this function for data that is not in memory, and for descriptors
 * that sendfile(2) does not support.
 */
static ssize_t send_copy(file_send *s, size_t bytes)
{
    if (s->buffer == NULL && (s->buffer = malloc(BUFFER_BYTES)) == NULL)
        return -ENOMEM;
    ssize_t got = weft_pread(s->in, s->buffer, min_size(bytes, BUFFER_BYTES), s->offset);
    for (ssize_t done = 0; done < got;) {
        ssize_t n = weft_write(s->out, s->buffer + done, (size_t)(got - done));
        if (n < 0 || n > got - done)
            return n;
        done += n;
        s->offset += n;
    }
    return got;
}

static ssize_t send_chunk(file_send *s, size_t bytes)
{
    weft__op op = {.code = WEFT__OP_SENDFILE,
                   .fd = s->in,
                   .u.copy = {.offset_in = &s->offset,
                              .bytes = min_size(bytes, SENDFILE_BYTES),
                              .fd_out = s->out}};
    ssize_t n = weft__op_run(&op);
    return is_unsupported(n) ? send_copy(s, bytes) : n;
}

/*
 * Send bytes bytes, or all bytes up to the end of the file. Returns the number of bytes sent, or
 * the error that stopped the call.
 */
static ssize_t send_chunks(file_send *s, size_t bytes)
{
    const int64_t begin = s->offset;
    while ((size_t)(s->offset - begin) < bytes) {
        const int64_t before = s->offset;
        ssize_t n = send_chunk(s, bytes - (size_t)(before - begin));
        if (n == 0)
            break;
        if (n < 0)
            return n;
    }
    return (ssize_t)(s->offset - begin);
}

ssize_t weft_sendfile(int fd_out, int fd_in, off_t *offset, size_t bytes)
{
    file_send s = {.in = fd_in, .out = fd_out};
    s.offset = offset != NULL ? *offset : lseek(fd_in, 0, SEEK_CUR);
    if (s.offset < 0)
        return offset != NULL ? -EINVAL : -errno;
    const int64_t begin = s.offset;
    ssize_t result = send_chunks(&s, bytes);
    free(s.buffer);
    if (offset != NULL)
        *offset = s.offset;
    /* After -EBADF, the number may belong to another file. */
    else if (s.offset != begin && result != -EBADF)
        lseek(fd_in, s.offset, SEEK_SET);
    return result;
}

/*
 * Return whether fd is a regular file with a file position. Reading a regular file does not consume
 * its data.
 */
static bool is_file(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && lseek(fd, 0, SEEK_CUR) >= 0;
}

/* A transfer from an input to an output. Between two chunks, a mover holds no bytes. */
typedef struct mover {
    int in, out;
    size_t buffer_bytes;
    size_t total;      /* input bytes that have been written to the output */
    bool is_to_socket; /* whether out is a socket */
    bool uses_buffer;  /* use buffer instead of pipe */
    int pipe[2];       /* -1: none */
    char *buffer;      /* NULL: not allocated */
    /* The bytes in transit, in the order of output. */
    struct iovec head, data, tail; /* data points into buffer */
    size_t piped;                  /* number of bytes in the pipe */
} mover;

/* Initialise a mover. The caller must set in, out and buffer_bytes. */
static void mover_open(mover *m, size_t pipe_bytes)
{
    struct stat status;
    m->is_to_socket = fstat(m->out, &status) == 0 && S_ISSOCK(status.st_mode);
    m->pipe[0] = m->pipe[1] = -1;
    m->uses_buffer =
        pipe_bytes == 0 || weft_pipe(m->pipe) < 0; /* weft_pipe fails if no descriptor is free */
    /* If the pipe memory of the user is exhausted, the pipe keeps its default capacity. */
    if (!m->uses_buffer)
        fcntl(m->pipe[1], F_SETPIPE_SZ, (int)pipe_bytes);
}

static void mover_close(mover *m)
{
    free(m->buffer);
    if (m->pipe[0] < 0)
        return;
    weft_close(m->pipe[0]);
    weft_close(m->pipe[1]);
}

/*
 * Return the number of bytes that a socket accepts without waiting. The result is half of the free
 * space, because queued bytes occupy more memory than their size. A socket may accept less if there
 * is a concurrent writer, or if the kernel is short of memory. If the output is not a socket,
 * returns SSIZE_MAX.
 */
static size_t mover_space(const mover *m)
{
    uint32_t info[SK_MEMINFO_VARS] = {0};
    socklen_t bytes = sizeof info;
    if (!m->is_to_socket || getsockopt(m->out, SOL_SOCKET, SO_MEMINFO, info, &bytes) < 0)
        return SSIZE_MAX;
    /* TCP updates WMEM_QUEUED. Other protocols update WMEM_ALLOC. */
    uint32_t queued = info[SK_MEMINFO_WMEM_QUEUED];
    if (queued < info[SK_MEMINFO_WMEM_ALLOC])
        queued = info[SK_MEMINFO_WMEM_ALLOC];
    uint32_t limit = info[SK_MEMINFO_SNDBUF];
    return limit > queued ? (limit - queued) / 2 : 0;
}

static ssize_t mover_wait_space(const mover *m)
{
    size_t space = mover_space(m);
    if (space >= SPACE_ENOUGH)
        return (ssize_t)space;
    int events = weft_wait_fd(m->out, POLLOUT);
    if (events < 0)
        return events;
    space = mover_space(m);
    return (ssize_t)(space > SPACE_LEAST ? space : SPACE_LEAST);
}

/* Count the bytes in the pipe. An interrupted splice does not return this number. */
static void count_piped(mover *m)
{
    int bytes = 0;
    m->piped = ioctl(m->pipe[0], FIONREAD, &bytes) == 0 ? (size_t)bytes : 0;
}

static ssize_t read_into_buffer(mover *m, int fd, size_t bytes)
{
    if (m->buffer == NULL && (m->buffer = malloc(m->buffer_bytes)) == NULL)
        return -ENOMEM;
    size_t wanted = min_size(bytes, m->buffer_bytes);
    ssize_t n = weft_read(fd, m->buffer, wanted);
    if (n > 0)
        m->data = (struct iovec){m->buffer, (size_t)n};
    return n;
}

/* Take at most bytes bytes from the input. Returns 0 at the end of the input. */
static ssize_t mover_take(mover *m, size_t bytes)
{
    if (!m->uses_buffer) {
        ssize_t n = weft_splice(m->in, NULL, m->pipe[1], NULL, bytes, 0);
        if (!is_unsupported(n)) {
            count_piped(m);
            return n;
        }
        m->uses_buffer = true;
    }
    return read_into_buffer(m, m->in, bytes);
}

static void iovec_advance(struct iovec *piece, size_t *bytes)
{
    size_t n = min_size(piece->iov_len, *bytes);
    if (n == 0)
        return; /* iov_base may be NULL */
    *piece = (struct iovec){(char *)piece->iov_base + n, piece->iov_len - n};
    *bytes -= n;
}

static ssize_t write_buffer(mover *m)
{
    struct iovec pieces[] = {m->head, m->data, m->tail};
    ssize_t n = weft_writev(m->out, pieces, 3);
    size_t written = n > 0 ? (size_t)n : 0;
    iovec_advance(&m->head, &written);
    iovec_advance(&m->data, &written);
    iovec_advance(&m->tail, &written);
    return n;
}

static ssize_t splice_out(mover *m)
{
    ssize_t n = 0;
    if (!m->uses_buffer)
        n = weft_splice(m->pipe[0], NULL, m->out, NULL, m->piped, 0);
    if (m->uses_buffer || is_unsupported(n)) { /* do not use the pipe for later chunks */
        m->uses_buffer = true;
        n = read_into_buffer(m, m->pipe[0], m->piped);
    }
    count_piped(m);
    return n;
}

static ssize_t mover_write_all(mover *m)
{
    for (;;) {
        ssize_t n = 0;
        if (m->head.iov_len + m->data.iov_len + m->tail.iov_len > 0)
            n = write_buffer(m);
        else if (m->piped > 0)
            n = splice_out(m);
        else
            return 0;
        if (n < 0)
            return n;
    }
}

/*
 * Write all bytes in transit. Delay a cancellation, or an error raised in the fiber, by up to
 * GRACE_S. If the output has failed, the second attempt fails as well. Bytes in transit are lost
 * only if the output fails, or does not accept all of them within GRACE_S.
 */
static ssize_t mover_flush(mover *m)
{
    ssize_t first = mover_write_all(m);
    if (first == 0)
        return 0;
    ssize_t retried = first;
    WEFT_SHIELD(GRACE_S)
        retried = mover_write_all(m);
    if (retried == -ECANCELED)
        return weft_fail(
            -ETIMEDOUT,
            "weft_splice_all or weft_splice_chunks: the output did not accept all bytes in %g s",
            GRACE_S);
    return retried == 0 || first != -ECANCELED ? first : retried;
}

static struct iovec iovec_of_text(const char *text)
{
    return (struct iovec){(void *)text, text != NULL ? strlen(text) : 0};
}

/* Move at most bytes bytes. Returns 0 at the end of the input. */
static ssize_t move_chunk(mover *m, size_t bytes, const weft_chunk_format *format)
{
    char head[CHUNK_PREFIX_BYTES_MAX + DIGITS_MAX + 1];
    ssize_t n = mover_wait_space(m);
    if (n >= 0)
        n = mover_take(m, min_size(bytes, (size_t)n));
    const size_t moved = m->piped + m->data.iov_len;
    if (moved == 0)
        return n;
    if (format->chunk_prefix != NULL) {
        int length = snprintf(head, sizeof head, format->chunk_prefix, moved);
        m->head = (struct iovec){head, (size_t)length};
    }
    m->tail = iovec_of_text(format->chunk_postfix);
    ssize_t rc = mover_flush(m);
    if (rc < 0)
        return rc;
    m->total += moved;
    return (ssize_t)moved;
}

static ssize_t move_all(mover *m, size_t chunk_bytes, const weft_chunk_format *format)
{
    for (;;) {
        ssize_t n = move_chunk(m, chunk_bytes, format);
        if (n <= 0)
            return n < 0 ? n : (ssize_t)m->total;
    }
}

/*
 * Move a whole input by splice. The input or the output must be a pipe. Between two calls, no bytes
 * are in transit.
 */
static ssize_t splice_to_end(int fd_in, int fd_out, size_t *total)
{
    ssize_t n;
    while ((n = weft_splice(fd_in, NULL, fd_out, NULL, SPLICE_BYTES, 0)) > 0)
        *total += (size_t)n;
    return n < 0 ? n : (ssize_t)*total;
}

ssize_t weft_splice_all(int fd_in, int fd_out)
{
    static const weft_chunk_format no_format;
    if (is_file(fd_in))
        return weft_sendfile(fd_out, fd_in, NULL, SIZE_MAX);
    size_t total = 0;
    ssize_t result = splice_to_end(fd_in, fd_out, &total);
    if (!is_unsupported(result))
        return result;
    mover m = {.in = fd_in, .out = fd_out, .buffer_bytes = BUFFER_BYTES, .total = total};
    mover_open(&m, PIPE_BYTES);
    result = move_all(&m, PIPE_BYTES, &no_format);
    mover_close(&m);
    return result;
}

/*
 * Check that format is a printf format with exactly one %zu, %zx or %zX. Any other conversion would
 * read an argument that does not exist.
 */
static int check_prefix(const char *format)
{
    int sizes = 0;
    for (const char *percent = strchr(format, '%'); percent != NULL;
         percent = strchr(percent, '%')) {
        if (percent[1] == '%') {
            percent += 2;
        } else if (percent[1] == 'z' && percent[2] != '\0' && strchr("uxX", percent[2]) != NULL) {
            percent += 3;
            sizes++;
        } else {
            return weft_fail(
                -EINVAL,
                "weft_splice_chunks: chunk_prefix has a conversion other than %%zu, %%zx, %%zX");
        }
    }
    if (sizes != 1)
        return weft_fail(-EINVAL, "weft_splice_chunks: chunk_prefix has %d conversions, not 1",
                         sizes);
    if (strlen(format) > CHUNK_PREFIX_BYTES_MAX)
        return weft_fail(-EMSGSIZE, "weft_splice_chunks: chunk_prefix has %zu bytes",
                         strlen(format));
    return 0;
}

/*
 * Use a buffer instead of a pipe. One read and one writev then move a chunk with its prefix and
 * postfix. These two calls cost half as much as a splice between two writes.
 */
ssize_t weft_splice_chunks(int fd_in, int fd_out, const weft_chunk_format *format)
{
    int rc = format->chunk_prefix != NULL ? check_prefix(format->chunk_prefix) : 0;
    if (rc < 0)
        return rc;
    size_t bytes = format->chunk_bytes_max > 0 ? format->chunk_bytes_max : CHUNK_BYTES_DEFAULT;
    struct iovec prefix = iovec_of_text(format->prefix), postfix = iovec_of_text(format->postfix);
    ssize_t n = weft_write_all(fd_out, prefix.iov_base, prefix.iov_len);
    if (n < 0)
        return n;
    mover m = {.in = fd_in, .out = fd_out, .buffer_bytes = min_size(bytes, CHUNK_BYTES_MAX)};
    mover_open(&m, 0);
    ssize_t result = move_all(&m, bytes, format);
    mover_close(&m);
    if (result < 0)
        return result;
    n = weft_write_all(fd_out, postfix.iov_base, postfix.iov_len);
    return n < 0 ? n : result;
}

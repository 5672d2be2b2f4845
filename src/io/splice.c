/*
 * Copies inside the kernel: splice, tee and sendfile, and what moves a whole input.
 *
 * What has been taken from a socket or a pipe cannot be given back. Where it has to be carried to
 * the output, through a pipe of our own or a buffer, no more is taken than the output has room for,
 * as far as it tells: a call that waits for a slow peer then waits with empty hands, and a
 * cancellation loses nothing. A file keeps what was read of it, and is never carried.
 */
#include "core/op.h"

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
 * Bytes in one call. A file is sent in pieces that take some 20 microseconds, for the other fibers'
 * sake; more at once is not faster.
 */
#define SENDFILE_BYTES ((size_t)128 << 10)
#define SPLICE_BYTES ((size_t)1 << 20)
#define BUFFER_BYTES ((size_t)64 << 10)
/*
 * Our own pipe. Between two sockets this costs two thirds of what 64 KiB cost, 1 MiB a third; but
 * the pipes of a user have 64 MiB together (fs.pipe-user-pages-soft).
 */
#define PIPE_BYTES ((size_t)256 << 10)

/* Below this much room a socket is waited for; when it calls itself writable, it has the least. */
#define ROOM_ENOUGH ((size_t)16 << 10)
#define ROOM_LEAST ((size_t)1 << 10)

/* How long an output that took less than it had room for holds up a cancellation. */
#define GRACE_S 5.0

#define CHUNK_BYTES_DEFAULT ((size_t)16 << 10)
#define CHUNK_BYTES_MAX ((size_t)1 << 20)
#define CHUNK_PREFIX_BYTES_MAX 256
/* Of a size_t. */
#define DIGITS_MAX 20

/* The kernel, or the backend, does not do this for these descriptors; nothing has been moved. */
static bool is_refused(ssize_t result)
{
    bool is_no = result == -EINVAL || result == -ENOSYS || result == -EOPNOTSUPP;
    return is_no && !weft__was_struck();
}

static size_t least(size_t a, size_t b)
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

/* A file on its way out. */
typedef struct sending {
    int in, out;
    int64_t at;   /* all before it has gone out */
    char *buffer; /* NULL: not needed so far */
} sending;

/* By reading and writing: what is not in memory, and between files that sendfile(2) refuses. */
static ssize_t send_copy(sending *s, size_t bytes)
{
    if (s->buffer == NULL && (s->buffer = malloc(BUFFER_BYTES)) == NULL)
        return -ENOMEM;
    ssize_t got = weft_pread(s->in, s->buffer, least(bytes, BUFFER_BYTES), s->at);
    for (ssize_t done = 0; done < got;) {
        ssize_t n = weft_write(s->out, s->buffer + done, (size_t)(got - done));
        if (n < 0 || n > got - done)
            return n;
        done += n;
        s->at += n;
    }
    return got;
}

static ssize_t send_piece(sending *s, size_t bytes)
{
    weft__op op = {
        .code = WEFT__OP_SENDFILE,
        .fd = s->in,
        .u.copy = {.offset_in = &s->at, .bytes = least(bytes, SENDFILE_BYTES), .fd_out = s->out}};
    ssize_t n = weft__op_run(&op);
    return is_refused(n) ? send_copy(s, bytes) : n;
}

/* All of them, or up to the end of the file; the error that stopped it, if one did. */
static ssize_t send_pieces(sending *s, size_t bytes)
{
    const int64_t begin = s->at;
    while ((size_t)(s->at - begin) < bytes) {
        const int64_t before = s->at;
        ssize_t n = send_piece(s, bytes - (size_t)(before - begin));
        if (n == 0)
            break;
        if (n < 0)
            return n;
    }
    return (ssize_t)(s->at - begin);
}

ssize_t weft_sendfile(int fd_out, int fd_in, off_t *offset, size_t bytes)
{
    sending s = {.in = fd_in, .out = fd_out};
    s.at = offset != NULL ? *offset : lseek(fd_in, 0, SEEK_CUR);
    if (s.at < 0)
        return offset != NULL ? -EINVAL : -errno;
    const int64_t begin = s.at;
    ssize_t result = send_pieces(&s, bytes);
    free(s.buffer);
    if (offset != NULL)
        *offset = s.at;
    else if (s.at != begin && result != -EBADF) /* the number may be another file's by now */
        lseek(fd_in, s.at, SEEK_SET);
    return result;
}

/* A file with a position: it can be read without being used up. */
static bool is_file(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && lseek(fd, 0, SEEK_CUR) >= 0;
}

/* What carries an input to an output. Its hands are empty between two pieces. */
typedef struct mover {
    int in, out;
    size_t buffer_bytes;
    size_t total;      /* bytes of the input that have gone out */
    bool is_to_socket; /* what out is */
    bool is_by_buffer; /* and not through the pipe */
    int pipe[2];       /* -1: there is none */
    char *buffer;      /* NULL: not needed so far */
    /* In hand, in the order in which it is to go out. */
    struct iovec head, data, tail; /* data: in the buffer */
    size_t piped;                  /* bytes in the pipe */
} mover;

/* The caller has set in, out and buffer_bytes. */
static void open_mover(mover *m, size_t pipe_bytes)
{
    struct stat status;
    m->is_to_socket = fstat(m->out, &status) == 0 && S_ISSOCK(status.st_mode);
    m->pipe[0] = m->pipe[1] = -1;
    m->is_by_buffer = pipe_bytes == 0 || weft_pipe(m->pipe) < 0; /* no descriptors left */
    if (!m->is_by_buffer) /* as much as the user's other pipes have left */
        fcntl(m->pipe[1], F_SETPIPE_SZ, (int)pipe_bytes);
}

static void close_mover(mover *m)
{
    free(m->buffer);
    if (m->pipe[0] < 0)
        return;
    weft_close(m->pipe[0]);
    weft_close(m->pipe[1]);
}

/*
 * How much a socket takes at once. What it queues costs more than its bytes: half of the free space
 * is sure, but for a writer beside us or a kernel short of memory.
 */
static size_t room_of(const mover *m)
{
    uint32_t info[SK_MEMINFO_VARS] = {0};
    socklen_t bytes = sizeof info;
    if (!m->is_to_socket || getsockopt(m->out, SOL_SOCKET, SO_MEMINFO, info, &bytes) < 0)
        return SSIZE_MAX;
    uint32_t queued = info[SK_MEMINFO_WMEM_QUEUED]; /* TCP counts here, others there */
    if (queued < info[SK_MEMINFO_WMEM_ALLOC])
        queued = info[SK_MEMINFO_WMEM_ALLOC];
    uint32_t limit = info[SK_MEMINFO_SNDBUF];
    return limit > queued ? (limit - queued) / 2 : 0;
}

static ssize_t wait_for_room(const mover *m)
{
    size_t room = room_of(m);
    if (room >= ROOM_ENOUGH)
        return (ssize_t)room;
    int events = weft_wait_fd(m->out, POLLOUT);
    if (events < 0)
        return events;
    room = room_of(m);
    return (ssize_t)(room > ROOM_LEAST ? room : ROOM_LEAST);
}

/* The pipe knows better than a call that was cut short. */
static void count_piped(mover *m)
{
    int bytes = 0;
    m->piped = ioctl(m->pipe[0], FIONREAD, &bytes) == 0 ? (size_t)bytes : 0;
}

static ssize_t read_into_buffer(mover *m, int fd, size_t bytes)
{
    if (m->buffer == NULL && (m->buffer = malloc(m->buffer_bytes)) == NULL)
        return -ENOMEM;
    size_t asked = least(bytes, m->buffer_bytes);
    ssize_t n = weft_read(fd, m->buffer, asked);
    if (n > 0)
        m->data = (struct iovec){m->buffer, (size_t)n};
    return n;
}

/* Take up to so many bytes into our hands. 0 at the end. */
static ssize_t take(mover *m, size_t bytes)
{
    if (!m->is_by_buffer) {
        ssize_t n = weft_splice(m->in, NULL, m->pipe[1], NULL, bytes, 0);
        if (!is_refused(n)) {
            count_piped(m);
            return n;
        }
        m->is_by_buffer = true;
    }
    return read_into_buffer(m, m->in, bytes);
}

static void pass_over(struct iovec *piece, size_t *bytes)
{
    size_t n = least(piece->iov_len, *bytes);
    if (n == 0)
        return; /* it may be no address at all */
    *piece = (struct iovec){(char *)piece->iov_base + n, piece->iov_len - n};
    *bytes -= n;
}

static ssize_t write_buffer(mover *m)
{
    struct iovec pieces[] = {m->head, m->data, m->tail};
    ssize_t n = weft_writev(m->out, pieces, 3);
    size_t written = n > 0 ? (size_t)n : 0;
    pass_over(&m->head, &written);
    pass_over(&m->data, &written);
    pass_over(&m->tail, &written);
    return n;
}

static ssize_t splice_out(mover *m)
{
    ssize_t n = 0;
    if (!m->is_by_buffer)
        n = weft_splice(m->pipe[0], NULL, m->out, NULL, m->piped, 0);
    if (m->is_by_buffer || is_refused(n)) { /* then the pipe is of no use from now on */
        m->is_by_buffer = true;
        n = read_into_buffer(m, m->pipe[0], m->piped);
    }
    count_piped(m);
    return n;
}

static ssize_t give_all(mover *m)
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
 * Give away what is in hand. A cancellation, or an error that was raised in us, waits for it; an
 * output that has failed says so again. Nothing in hand is left behind but by such an output.
 */
static ssize_t give(mover *m)
{
    ssize_t first = give_all(m);
    if (first == 0)
        return 0;
    ssize_t again = first;
    WEFT_SHIELD(GRACE_S)
        again = give_all(m);
    if (again == -ECANCELED)
        return weft_fail(-ETIMEDOUT, "the output took nothing for %g s", GRACE_S);
    return again == 0 || first != -ECANCELED ? first : again;
}

static struct iovec words_of(const char *words)
{
    return (struct iovec){(void *)words, words != NULL ? strlen(words) : 0};
}

/* Move up to so many bytes. 0 at the end. */
static ssize_t move_piece(mover *m, size_t bytes, const weft_chunk_format *format)
{
    char head[CHUNK_PREFIX_BYTES_MAX + DIGITS_MAX + 1];
    ssize_t n = wait_for_room(m);
    if (n >= 0)
        n = take(m, least(bytes, (size_t)n));
    const size_t moved = m->piped + m->data.iov_len;
    if (moved == 0)
        return n;
    if (format->chunk_prefix != NULL) {
        int length = snprintf(head, sizeof head, format->chunk_prefix, moved);
        m->head = (struct iovec){head, (size_t)length};
    }
    m->tail = words_of(format->chunk_postfix);
    ssize_t rc = give(m);
    if (rc < 0)
        return rc;
    m->total += moved;
    return (ssize_t)moved;
}

static ssize_t move_all(mover *m, size_t piece_bytes, const weft_chunk_format *format)
{
    for (;;) {
        ssize_t n = move_piece(m, piece_bytes, format);
        if (n <= 0)
            return n < 0 ? n : (ssize_t)m->total;
    }
}

/* Between a pipe and something else: each call moves all that it takes. */
static ssize_t splice_to_end(int fd_in, int fd_out, size_t *total)
{
    ssize_t n;
    while ((n = weft_splice(fd_in, NULL, fd_out, NULL, SPLICE_BYTES, 0)) > 0)
        *total += (size_t)n;
    return n < 0 ? n : (ssize_t)*total;
}

ssize_t weft_splice_all(int fd_in, int fd_out)
{
    static const weft_chunk_format plain;
    if (is_file(fd_in))
        return weft_sendfile(fd_out, fd_in, NULL, SIZE_MAX);
    size_t total = 0;
    ssize_t result = splice_to_end(fd_in, fd_out, &total);
    if (!is_refused(result))
        return result;
    mover m = {.in = fd_in, .out = fd_out, .buffer_bytes = BUFFER_BYTES, .total = total};
    open_mover(&m, PIPE_BYTES);
    result = move_all(&m, PIPE_BYTES, &plain);
    close_mover(&m);
    return result;
}

/* A printf format with %zu, %zx or %zX once; any other conversion would read what is not there. */
static int check_prefix(const char *format)
{
    int sizes = 0;
    for (const char *at = strchr(format, '%'); at != NULL; at = strchr(at, '%')) {
        if (at[1] == '%') {
            at += 2;
        } else if (at[1] == 'z' && at[2] != '\0' && strchr("uxX", at[2]) != NULL) {
            at += 3;
            sizes++;
        } else {
            return weft_fail(-EINVAL, "a chunk's prefix with something else than %%zu or %%zx");
        }
    }
    if (sizes != 1)
        return weft_fail(-EINVAL, "a chunk's prefix with %d sizes", sizes);
    if (strlen(format) > CHUNK_PREFIX_BYTES_MAX)
        return weft_fail(-EMSGSIZE, "a chunk's prefix of %zu bytes", strlen(format));
    return 0;
}

/*
 * By a buffer: read and writev are two calls for a chunk with all that is around it, and cost half
 * of what a splice with a write before and behind it does.
 */
ssize_t weft_splice_chunks(int fd_in, int fd_out, const weft_chunk_format *format)
{
    int rc = format->chunk_prefix != NULL ? check_prefix(format->chunk_prefix) : 0;
    if (rc < 0)
        return rc;
    size_t bytes = format->chunk_bytes_max > 0 ? format->chunk_bytes_max : CHUNK_BYTES_DEFAULT;
    struct iovec prefix = words_of(format->prefix), postfix = words_of(format->postfix);
    ssize_t n = weft_write_all(fd_out, prefix.iov_base, prefix.iov_len);
    if (n < 0)
        return n;
    mover m = {.in = fd_in, .out = fd_out, .buffer_bytes = least(bytes, CHUNK_BYTES_MAX)};
    open_mover(&m, 0);
    ssize_t result = move_all(&m, bytes, format);
    close_mover(&m);
    if (result < 0)
        return result;
    n = weft_write_all(fd_out, postfix.iov_base, postfix.iov_len);
    return n < 0 ? n : result;
}

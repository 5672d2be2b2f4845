/*
 * Tests of splice, tee, sendfile and chunked copies: the copied bytes, the remaining bytes, and
 * cancellation.
 */
#include "support/net_support.h"
#include "support/suite.h"

/* More than the buffers of a stream hold. */
#define LARGE ((size_t)512 << 10)

/* The kinds of streams, and of files. The kernel refuses to splice to a file with O_APPEND. */
typedef enum kind { PIPE, UNIX, TCP, STREAMS, FILE_PLAIN = STREAMS, FILE_APPEND, KINDS } kind;

/* Create an unlinked file with this number of bytes, at position 0. */
static int open_file(size_t bytes, int flags)
{
    int fd = open_unnamed_file();
    ck_assert_int_eq(fcntl(fd, F_SETFL, flags), 0);
    unsigned char *data = malloc(bytes + 1);
    fill_from(data, bytes, 0);
    ck_assert_int_eq(write(fd, data, bytes), (ssize_t)bytes);
    free(data);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

static void assert_file(int fd, size_t bytes)
{
    unsigned char *data = malloc(bytes + 1);
    ck_assert_int_eq(pread(fd, data, bytes + 1, 0), (ssize_t)bytes);
    assert_bytes_at(data, bytes, 0);
    free(data);
}

static void open_tcp(int fd[2])
{
    endpoint p;
    int listener = listen_tcp(&p, 1), bytes = 1 << 15;
    setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    fd[1] = socket_for(&p);
    setsockopt(fd[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    ck_assert_int_eq(connect(fd[1], &p.u.any, p.bytes), 0);
    fd[0] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(fd[0], 0);
    close(listener);
}

/* Open a stream as weft_pipe does: fd[0] reads, fd[1] writes. A file has one descriptor. */
static void open_kind(kind k, int fd[2], bool is_nonblocking)
{
    if (k >= STREAMS)
        fd[0] = fd[1] = open_file(0, k == FILE_APPEND ? O_APPEND : 0);
    else if (k == TCP)
        open_tcp(fd);
    else
        ck_assert_int_eq(k == PIPE ? weft_pipe(fd) : weft_socketpair(fd), 0);
    for (int i = 0; i < 2 && is_nonblocking; i++)
        fcntl(fd[i], F_SETFL, fcntl(fd[i], F_GETFL) | O_NONBLOCK);
}

/* Return the number of bytes that can be read. */
static size_t queued_bytes(int fd)
{
    int bytes = 0;
    ck_assert_int_eq(ioctl(fd, FIONREAD, &bytes), 0);
    return (size_t)bytes;
}

static void expect_text(int fd, const char *text)
{
    char data[16] = "";
    ck_assert_int_eq(weft_read_full(fd, data, strlen(text)), (ssize_t)strlen(text));
    ck_assert_str_eq(data, text);
}

/* One end of a stream, for a writing or a reading fiber. */
typedef struct stream_end {
    int fd;
    size_t bytes; /* to write, or read so far */
} stream_end;

/* Write the bytes of the test stream and close. Return the error, or 0. */
static weft_value write_and_close(void *arg)
{
    stream_end *e = arg;
    unsigned char *data = malloc(e->bytes + 1);
    fill_from(data, e->bytes, 0);
    ssize_t n = weft_write_all(e->fd, data, e->bytes);
    free(data);
    weft_close(e->fd);
    return n < 0 ? n : 0;
}

/* Read to the end and close. Assert each byte. */
static weft_value read_to_end(void *arg)
{
    stream_end *e = arg;
    unsigned char data[5000];
    ssize_t n;
    while ((n = weft_read(e->fd, data, 1 + random_below(sizeof data))) > 0) {
        assert_bytes_at(data, (size_t)n, e->bytes);
        e->bytes += (size_t)n;
        if (random_below(8) == 0)
            weft_snooze();
    }
    weft_close(e->fd);
    return n;
}

/* A copy, with fibers that write to its input and read its output. */
typedef struct copy {
    int from[2], to[2], in, out; /* copy from in, which is from[0], to out, which is to[1] */
    kind to_kind;
    stream_end writing, reading;
    weft_fiber writer, reader, copier;
    int rounds;
} copy;

static void open_copy(copy *c, kind from, kind to, bool is_nonblocking)
{
    *c = (copy){.to_kind = to};
    open_kind(from, c->from, is_nonblocking);
    open_kind(to, c->to, is_nonblocking);
    c->in = c->from[0];
    c->out = c->to[1];
}

/* Open a copy of these bytes. A fiber writes them unless the input is a file. */
static void feed_copy(copy *c, kind from, kind to, bool is_nonblocking, size_t bytes)
{
    open_copy(c, from < STREAMS ? from : PIPE, to, is_nonblocking);
    if (from >= STREAMS) {
        close_fd_pair(c->from);
        c->in = open_file(bytes, 0);
        return;
    }
    c->writing = (stream_end){c->from[1], bytes};
    c->writer = weft_spin(write_and_close, &c->writing);
}

static void drain_copy(copy *c, weft_fn *fn)
{
    c->reading = (stream_end){c->to[0], 0};
    c->reader = c->to_kind < STREAMS ? weft_spin(fn, &c->reading) : 0;
}

/* Assert that all bytes have arrived, at the end of the copy. */
static void finish_copy(copy *c, size_t bytes)
{
    if (c->writer != 0)
        ck_assert_int_eq(weft_await(c->writer), 0);
    weft_close(c->in);
    if (c->reader == 0)
        assert_file(c->out, bytes);
    weft_close(c->out);
    if (c->reader != 0) {
        ck_assert_int_eq(weft_await(c->reader), 0);
        ck_assert_uint_eq(c->reading.bytes, bytes);
    }
    ck_assert_uint_eq(ops_pending(), 0);
}

/* Calls that copy. */

static weft_value splice_some(void *arg)
{
    copy *c = arg;
    return weft_splice(c->in, NULL, c->out, NULL, LARGE, 0);
}

static weft_value tee_some(void *arg)
{
    copy *c = arg;
    return weft_tee(c->in, c->out, 100, 0);
}

static weft_value splice_everything(void *arg)
{
    copy *c = arg;
    return weft_splice_all(c->in, c->out);
}

static weft_value send_everything(void *arg)
{
    copy *c = arg;
    return weft_sendfile(c->out, c->in, NULL, SIZE_MAX);
}

static weft_value chunk_everything(void *arg)
{
    static const weft_chunk_format format = {
        .chunk_prefix = "%zu ", .chunk_postfix = ";", .chunk_bytes_max = 4000};
    copy *c = arg;
    return weft_splice_chunks(c->in, c->out, &format);
}

/* P69 */
TEST_LOOP(a_splice_moves_available_bytes_and_returns_0_at_the_end, 2 * STREAMS)
{
    copy c;
    open_copy(&c, (kind)(_i / 2), PIPE, _i % 2);
    ck_assert_int_eq(weft_write(c.from[1], "hello", 5), 5);
    ck_assert_int_eq(weft_splice(c.in, NULL, c.out, NULL, 3, 0), 3);
    ck_assert_int_eq(weft_splice(c.in, NULL, c.out, NULL, 8, 0), 2);
    expect_text(c.to[0], "hello");
    ck_assert_int_eq(weft_splice(c.in, NULL, c.out, NULL, 0, 0), 0);
    ck_assert_int_eq(weft_splice(c.in, NULL, c.out, NULL, 8, SPLICE_F_NONBLOCK), -EAGAIN);
    ck_assert_int_eq(weft_close(c.from[1]), 0);
    ck_assert_int_eq(weft_splice(c.in, NULL, c.out, NULL, 8, 0), 0);
}

/* P69 */
TEST_LOOP(a_tee_leaves_the_bytes_in_the_input, 2)
{
    copy c;
    open_copy(&c, PIPE, PIPE, _i);
    ck_assert_int_eq(weft_tee(c.in, c.out, 100, SPLICE_F_NONBLOCK), -EAGAIN);
    ck_assert_int_eq(weft_write(c.from[1], "both", 4), 4);
    ck_assert_int_eq(weft_tee(c.in, c.out, 100, 0), 4);
    expect_text(c.to[0], "both");
    expect_text(c.in, "both");
    weft_close(c.from[1]);
    ck_assert_int_eq(weft_tee(c.in, c.out, 100, 0), 0);
}

static const struct {
    kind from, to;
    weft_fn *call;
} waits[] = {{PIPE, PIPE, splice_some}, {PIPE, UNIX, splice_some}, {PIPE, TCP, splice_some},
             {UNIX, PIPE, splice_some}, {TCP, PIPE, splice_some},  {PIPE, PIPE, tee_some}};

/* What a copy waits for, and how its wait ends. */
enum { INPUT, ROOM, INPUT_THEN_ROOM, WAIT_KINDS };
enum { SERVED, CANCELLED, INPUT_CLOSED, OUTPUT_CLOSED, OUTCOMES };

static void end_wait(const copy *c, int what, int ending, size_t filled)
{
    char *data = malloc(filled + 1);
    if (ending == SERVED) {
        if (what == INPUT)
            ck_assert_int_eq(weft_write(c->from[1], "abc", 3), 3);
        ck_assert_int_eq(weft_read_full(c->to[0], data, filled), (ssize_t)filled);
        ck_assert_int_eq(weft_await(c->copier), 3);
        expect_text(c->to[0], "abc");
    } else if (ending == CANCELLED) {
        weft_cancel(c->copier);
        ck_assert_int_eq(weft_await(c->copier), -ECANCELED);
        if (what == INPUT)
            ck_assert_int_eq(weft_write(c->from[1], "abc", 3), 3);
        expect_text(c->in, "abc"); /* it has moved nothing */
    } else {
        ck_assert_int_eq(weft_close(ending == INPUT_CLOSED ? c->in : c->out), 0);
        ck_assert_int_eq(weft_await(c->copier), -EBADF);
    }
    free(data);
}

/* P65, T98 */
TEST_LOOP(a_waiting_splice_or_tee_completes_or_ends_without_effect, WAIT_KINDS *OUTCOMES)
{
    const int what = _i / OUTCOMES, ending = _i % OUTCOMES;
    for (size_t i = 0; i < COUNT_OF(waits); i++) {
        copy c;
        open_copy(&c, waits[i].from, waits[i].to, i % 2);
        int flags[] = {fcntl(c.in, F_GETFL), fcntl(c.out, F_GETFL)};
        size_t filled = what == INPUT ? 0 : fill_up(c.out);
        if (what == ROOM)
            ck_assert_int_eq(weft_write(c.from[1], "abc", 3), 3);
        c.copier = spin_waiting(waits[i].call, &c);
        ck_assert_int_eq(fcntl(c.in, F_GETFL), flags[0]);
        ck_assert_int_eq(fcntl(c.out, F_GETFL), flags[1]);
        if (what == INPUT_THEN_ROOM) {
            ck_assert_int_eq(weft_write(c.from[1], "abc", 3), 3);
            let_run();
            ck_assert_int_eq(weft_state_of(c.copier), WEFT_WAITING);
        }
        end_wait(&c, what, ending, filled);
        if (ending == SERVED && waits[i].call == tee_some)
            expect_text(c.in, "abc");
        ck_assert_uint_eq(ops_pending(), 0);
    }
}

TEST(readers_and_a_splice_share_an_input)
{
    copy c;
    char *data = malloc(LARGE);
    open_copy(&c, PIPE, PIPE, false);
    size_t filled = fill_up(c.out);
    weft_fiber first = spin_waiting(read_byte, &c.in);
    c.copier = spin_waiting(splice_some, &c);
    weft_fiber second = spin_waiting(read_byte, &c.in);
    ck_assert_int_eq(weft_write(c.from[1], "ab", 2), 2);
    ck_assert_int_eq(weft_await(first), 1);
    ck_assert_int_eq(weft_await(second), 1); /* the splice waits for room, not for input */
    ck_assert_int_eq(weft_write(c.from[1], "c", 1), 1);
    ck_assert_int_eq(weft_read_full(c.to[0], data, filled), (ssize_t)filled);
    ck_assert_int_eq(weft_await(c.copier), 1);
    expect_text(c.to[0], "c");
    free(data);
}

TEST(a_splice_of_a_file_uses_the_given_offsets_and_waits_for_the_pipe)
{
    copy c;
    int from = open_file(1000, 0), to = open_file(0, 0);
    int64_t at = 10, to_at = 0;
    unsigned char data[1000];
    open_copy(&c, PIPE, PIPE, false);
    ck_assert_int_eq(weft_splice(from, &at, c.from[1], NULL, 500, 0), 500);
    ck_assert_int_eq(at, 510);
    ck_assert_int_eq(weft_splice(c.in, NULL, to, &to_at, 500, 0), 500);
    ck_assert_int_eq(to_at, 500);
    ck_assert_int_eq(pread(to, data, sizeof data, 0), 500);
    assert_bytes_at(data, 500, 10);
    ck_assert_int_eq(lseek(from, 0, SEEK_CUR), 0);
    ck_assert_int_eq(lseek(to, 0, SEEK_CUR), 0);
    size_t filled = fill_up(c.out);
    weft_fiber f = spin_waiting(splice_some, &(copy){.in = from, .out = c.out});
    char *sink = malloc(filled);
    ck_assert_int_eq(weft_read_full(c.to[0], sink, filled), (ssize_t)filled);
    free(sink);
    ck_assert_int_eq(weft_await(f), 1000);
    copy to_file = {.in = c.in, .out = to};
    f = spin_waiting(splice_some, &to_file);
    ck_assert_int_eq(weft_write(c.from[1], "abc", 3), 3);
    ck_assert_int_eq(weft_await(f), 3);
    f = spin_waiting(splice_some, &to_file);
    ck_assert_int_eq(weft_close(to), 0);
    ck_assert_int_eq(weft_await(f), -EBADF);
}

TEST(a_splice_of_unsupported_descriptors_fails)
{
    int fd[2], file = open_file(10, 0);
    open_kind(UNIX, fd, false);
    ck_assert_int_eq(weft_splice(file, NULL, file, NULL, 1, 0), -EINVAL); /* neither is a pipe */
    ck_assert_int_eq(weft_splice(fd[0], NULL, fd[1], NULL, 1, 0), -EINVAL);
    ck_assert_int_eq(weft_splice(-1, NULL, fd[1], NULL, 1, 0), -EBADF);
    ck_assert_int_eq(weft_splice(fd[0], NULL, INT32_MAX, NULL, 1, 0), -EBADF);
    ck_assert_int_eq(weft_tee(-1, fd[1], 1, 0), -EBADF);
    ck_assert_int_eq(weft_tee(fd[0], fd[1], 1, 0), -EINVAL);
}

/* P69 */
TEST_LOOP(splice_all_moves_all_bytes_between_any_two_kinds, 2)
{
    static const size_t sizes[] = {0, 1, LARGE + 1};
    warm_up();
    const int before = count_descriptors();
    for (int from = 0; from <= FILE_PLAIN; from++)
        for (int to = 0; to < KINDS; to++)
            for (size_t i = 0; i < COUNT_OF(sizes); i++) {
                copy c;
                feed_copy(&c, (kind)from, (kind)to, _i, sizes[i]);
                drain_copy(&c, read_to_end);
                ck_assert_int_eq(weft_splice_all(c.in, c.out), (ssize_t)sizes[i]);
                if (from == FILE_PLAIN)
                    ck_assert_int_eq(lseek(c.in, 0, SEEK_CUR), (off_t)sizes[i]);
                finish_copy(&c, sizes[i]);
            }
    ck_assert_int_eq(count_descriptors(), before);
}

TEST(splice_all_uses_a_buffer_without_descriptors_for_a_pipe)
{
    copy c;
    feed_copy(&c, UNIX, UNIX, false, LARGE);
    drain_copy(&c, read_to_end);
    weft_sleep(0);
    int next = dup(c.in), none[2];
    close(next);
    struct rlimit old;
    getrlimit(RLIMIT_NOFILE, &old);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)next, old.rlim_max});
    ck_assert_int_eq(weft_pipe(none), -EMFILE);
    ck_assert_int_eq(weft_splice_all(c.in, c.out), (ssize_t)LARGE);
    setrlimit(RLIMIT_NOFILE, &old);
    finish_copy(&c, LARGE);
}

/* Start a copy to a reader that does not read. The writer and the copying fiber wait. */
static void start_blocked_copy(copy *c, weft_fn *fn, kind from, kind to)
{
    feed_copy(c, from, to, false, 4 * LARGE);
    c->copier = weft_spin(fn, c);
    size_t before;
    do { /* TCP delivers asynchronously, in a soft interrupt */
        before = queued_bytes(c->in) + queued_bytes(c->to[0]);
        for (int i = 0; i < 10; i++)
            weft_sleep(100e-6);
    } while (queued_bytes(c->in) + queued_bytes(c->to[0]) != before);
    ck_assert_int_eq(weft_state_of(c->copier), WEFT_WAITING);
    ck_assert_int_eq(weft_state_of(c->writer), WEFT_WAITING);
}

/* P69 */
TEST(a_slow_reader_applies_backpressure_to_the_input)
{
    copy c;
    start_blocked_copy(&c, splice_everything, UNIX, UNIX);
    ck_assert_uint_gt(queued_bytes(c.in), 0);
    ck_assert_uint_le(queued_bytes(c.to[0]), LARGE);
    drain_copy(&c, read_to_end);
    ck_assert_int_eq(weft_await(c.copier), (ssize_t)(4 * LARGE));
    finish_copy(&c, 4 * LARGE);
}

static const kind routes[][2] = {{UNIX, UNIX}, {UNIX, TCP},  {TCP, UNIX},
                                 {TCP, TCP},   {PIPE, UNIX}, {TCP, PIPE}};

/* P61, P63: the reader continues only after the ended call has returned */
TEST_LOOP(a_cancelled_or_interrupted_splice_loses_no_byte, COUNT_OF(routes))
{
    copy c;
    start_blocked_copy(&c, splice_everything, routes[_i][0], routes[_i][1]);
    int rc = _i % 2 ? weft_interrupt(c.copier, -EINTR) : weft_cancel(c.copier);
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(weft_await(c.copier), _i % 2 ? -EINTR : -ECANCELED);
    drain_copy(&c, read_to_end);
    ck_assert_int_gt(weft_splice_all(c.in, c.out), 0);
    finish_copy(&c, 4 * LARGE);
}

/* Interrupt the call at random times and repeat it, until it ends. */
static weft_value repeat_with_timeouts(copy *c, weft_fn *call)
{
    weft_value n = -ECANCELED;
    for (int i = 0; n == -ECANCELED; i++)
        WEFT_MOVE_ON_AFTER(i < 150 ? random_below(200) * 1e-6 : INFINITY)
            n = call(c);
    return n < 0 ? n : 0;
}

/* P61, P63 */
TEST_LOOP(a_storm_of_cancellations_loses_no_byte, COUNT_OF(routes))
{
    copy c;
    feed_copy(&c, routes[_i][0], routes[_i][1], _i % 2, 4 * LARGE);
    drain_copy(&c, read_to_end);
    ck_assert_int_eq(repeat_with_timeouts(&c, splice_everything), 0);
    finish_copy(&c, 4 * LARGE);
}

/* P65, T98 */
TEST_LOOP(closing_an_end_of_splice_all_or_splice_chunks_gives_EBADF, 2)
{
    weft_fn *call = _i == 0 ? splice_everything : chunk_everything;
    copy c;
    open_copy(&c, UNIX, UNIX, false);
    c.copier = spin_waiting(call, &c);
    ck_assert_int_eq(weft_close(c.in), 0);
    ck_assert_int_eq(weft_await(c.copier), -EBADF);
    start_blocked_copy(&c, call, UNIX, UNIX);
    ck_assert_int_eq(weft_close(c.out), 0);
    ck_assert_int_eq(weft_await(c.copier), -EBADF);
    weft_terminate(c.writer, 1);
}

/* P65, T98 */
TEST_LOOP(closing_either_end_of_a_waiting_sendfile_gives_EBADF, 2 * STREAMS)
{
    copy c;
    feed_copy(&c, FILE_PLAIN, (kind)(_i / 2), false, LARGE);
    fill_up(c.out);
    c.copier = spin_waiting(send_everything, &c);
    ck_assert_int_eq(weft_close(_i % 2 ? c.in : c.out), 0);
    ck_assert_int_eq(weft_await(c.copier), -EBADF);
    ck_assert_uint_eq(ops_pending(), 0);
}

/* SIGPIPE would end this process. */
TEST_LOOP(a_closed_peer_gives_EPIPE_without_a_signal, 2)
{
    copy c, waiting;
    int file = open_file(LARGE, 0);
    open_copy(&c, PIPE, (kind)_i, false);
    weft_close(c.to[0]);
    weft_write(c.from[1], "abc", 3);
    ck_assert_int_eq(weft_splice(c.in, NULL, c.out, NULL, 1, 0), -EPIPE);
    ck_assert_int_eq(weft_tee(c.in, c.out, 1, 0), _i == PIPE ? -EPIPE : -EINVAL);
    ck_assert_int_eq(weft_splice_all(c.in, c.out), -EPIPE);
    ck_assert_int_eq(chunk_everything(&c), -EPIPE);
    ck_assert_int_eq(weft_sendfile(c.out, file, NULL, LARGE), -EPIPE);
    ck_assert_int_eq(lseek(file, 0, SEEK_CUR), 0);
    feed_copy(&waiting, FILE_PLAIN, (kind)_i, false, LARGE);
    fill_up(waiting.out);
    waiting.copier = spin_waiting(send_everything, &waiting);
    weft_close(waiting.to[0]);
    weft_value rc = weft_await(waiting.copier); /* unread data resets the connection */
    ck_assert(rc == -EPIPE || rc == -ECONNRESET);
    sigset_t pending;
    sigpending(&pending);
    ck_assert_int_eq(sigismember(&pending, SIGPIPE), 0);
}

#define CHUNK 8

static const weft_chunk_format http_chunks = {.prefix = "head\r\n\r\n",
                                              .postfix = "0\r\n\r\n",
                                              .chunk_prefix = "%zx\r\n",
                                              .chunk_postfix = "\r\n",
                                              .chunk_bytes_max = CHUNK};

/* Encode the test stream in chunks. Return the number of bytes. */
static size_t encode_chunks(char *out, size_t bytes)
{
    size_t n = (size_t)sprintf(out, "head\r\n\r\n");
    for (size_t at = 0; at < bytes; at += CHUNK) {
        size_t chunk = bytes - at < CHUNK ? bytes - at : CHUNK;
        n += (size_t)sprintf(out + n, "%zx\r\n", chunk);
        fill_from((unsigned char *)out + n, chunk, at);
        n += chunk;
        n += (size_t)sprintf(out + n, "\r\n");
    }
    return n + (size_t)sprintf(out + n, "0\r\n\r\n");
}

/* P69 */
TEST(chunks_are_written_exactly_in_their_format)
{
    static const size_t sizes[] = {0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK};
    warm_up();
    const int before = count_descriptors();
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        for (int from = 0; from <= FILE_PLAIN; from++)
            for (int to = 0; to < KINDS; to++) {
                copy c;
                char expected[256], got[256];
                size_t n = encode_chunks(expected, sizes[i]);
                feed_copy(&c, (kind)from, (kind)to, i % 2, sizes[i]);
                ck_assert_int_eq(weft_splice_chunks(c.in, c.out, &http_chunks), (ssize_t)sizes[i]);
                lseek(c.out, 0, SEEK_SET); /* for a file */
                ck_assert_int_eq(read(c.to[0], got, sizeof got), (ssize_t)n);
                ck_assert_mem_eq(got, expected, n);
                weft_close(c.in);
                weft_close(c.to[0]);
                if (to < STREAMS)
                    weft_close(c.out);
            }
    ck_assert_int_eq(count_descriptors(), before);
}

TEST(chunks_may_be_plain_or_large)
{
    int from = open_file(LARGE, 0), to = open_file(0, 0), large = open_file(0, 0);
    ck_assert_int_eq(weft_splice_chunks(from, to, &(weft_chunk_format){0}), (ssize_t)LARGE);
    assert_file(to, LARGE);
    weft_chunk_format format = {.chunk_prefix = "%%%zX;", .chunk_bytes_max = LARGE / 2};
    lseek(from, 0, SEEK_SET);
    ck_assert_int_eq(weft_splice_chunks(from, large, &format), (ssize_t)LARGE);
    char text[8] = "";
    ck_assert_int_eq(pread(large, text, 7, 0), 7);
    ck_assert_str_eq(text, "%40000;");
    ck_assert_int_eq(lseek(large, 0, SEEK_END), (off_t)LARGE + 14);
}

TEST(an_invalid_format_is_refused_before_anything_is_written)
{
    static const char *const wrong[] = {"",     "%",     "%d",      "%s",    "%zd", "%z",
                                        "%zu%", "100%%", "%zu %zx", "%n%zu", "%4zu"};
    int from = open_file(10, 0), to = open_file(0, 0);
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        weft_chunk_format format = {.prefix = "x", .chunk_prefix = wrong[i]};
        ck_assert_fails(weft_splice_chunks(from, to, &format), -EINVAL);
    }
    char text[300] = "%zx";
    memset(text + 3, '-', 253);
    weft_chunk_format format = {.prefix = "x", .chunk_prefix = text};
    ck_assert_int_eq(weft_splice_chunks(from, to, &format), 10);
    ck_assert_int_eq(lseek(to, 0, SEEK_END), 1 + 1 + 253 + 10);
    text[256] = '-';
    ck_assert_fails(weft_splice_chunks(from, to, &format), -EMSGSIZE);
    ck_assert_int_eq(lseek(to, 0, SEEK_END), 1 + 1 + 253 + 10);
}

/*
 * Decode the chunks while they arrive. A stream that breaks off inside a chunk cannot be decoded.
 */
static weft_value read_chunks(void *arg)
{
    stream_end *e = arg;
    unsigned char data[4096];
    for (;;) {
        size_t bytes = 0;
        char c;
        ssize_t n;
        while ((n = weft_read(e->fd, &c, 1)) == 1 && c != ' ')
            bytes = bytes * 10 + (size_t)(c - '0');
        if (n <= 0 || bytes == 0)
            return n;
        ck_assert_uint_lt(bytes, sizeof data);
        ck_assert_int_eq(weft_read_full(e->fd, data, bytes + 1), (ssize_t)bytes + 1);
        ck_assert_int_eq(data[bytes], ';');
        assert_bytes_at(data, bytes, e->bytes);
        e->bytes += bytes;
    }
}

TEST_LOOP(a_cancelled_copy_completes_its_current_chunk, STREAMS)
{
    copy c;
    feed_copy(&c, UNIX, (kind)_i, false, 2 * LARGE);
    drain_copy(&c, read_chunks);
    ck_assert_int_eq(repeat_with_timeouts(&c, chunk_everything), 0);
    finish_copy(&c, 2 * LARGE);
}

/* Send a file from offset at to a stream of this kind. Assert the received bytes. */
static void send_file_to(kind k, int file, off_t at, size_t bytes, size_t expected,
                         bool is_by_position)
{
    int to[2];
    open_kind(k, to, expected % 2);
    stream_end reading = {to[0], (size_t)at};
    weft_fiber reader = weft_spin(read_to_end, &reading);
    off_t offset = at;
    lseek(file, is_by_position ? at : 0, SEEK_SET);
    ssize_t n = weft_sendfile(to[1], file, is_by_position ? NULL : &offset, bytes);
    ck_assert_int_eq(n, (ssize_t)expected);
    weft_close(to[1]);
    ck_assert_int_eq(weft_await(reader), 0);
    ck_assert_uint_eq(reading.bytes, (size_t)at + expected);
    ck_assert_int_eq(offset, is_by_position ? at : at + (off_t)expected);
    ck_assert_int_eq(lseek(file, 0, SEEK_CUR), is_by_position ? at + (off_t)expected : 0);
}

/* The size of the file, the offset, the requested bytes, and the expected bytes. */
static const struct {
    size_t file, at, requested, expected;
} send_cases[] = {
    {10, 0, 10, 10},
    {10, 0, 100, 10},
    {10, 3, 4, 4},
    {0, 0, 10, 0},
    {10, 10, 10, 0},
    {10, 50, 10, 0},
    {10, 5, 0, 0},
    {LARGE, 0, LARGE, LARGE},
    {LARGE, 1, SIZE_MAX, LARGE - 1},
    {LARGE, 4096, LARGE / 2, LARGE / 2},
    {LARGE, 0, 131073, 131073},
};

TEST(a_file_is_sent_from_its_offset_or_its_position)
{
    for (size_t i = 0; i < COUNT_OF(send_cases); i++) {
        int file = open_file(send_cases[i].file, 0);
        for (int k = 0; k < STREAMS; k++)
            for (int round = 0; round < 2; round++)
                send_file_to((kind)k, file, (off_t)send_cases[i].at, send_cases[i].requested,
                             send_cases[i].expected, round);
        close(file);
    }
    ck_assert_uint_eq(ops_pending(), 0);
}

TEST_LOOP(a_file_is_sent_to_a_file, 2)
{
    int from = open_file(LARGE, 0), to = open_file(0, _i == 0 ? 0 : O_APPEND);
    off_t offset = 0;
    ck_assert_int_eq(weft_sendfile(to, from, &offset, 200000), 200000);
    ck_assert_int_eq(weft_sendfile(to, from, &offset, LARGE), (ssize_t)LARGE - 200000);
    assert_file(to, LARGE);
}

TEST_LOOP(a_file_that_is_not_in_memory_can_be_sent, STREAMS)
{
    int file = open_file(LARGE, 0);
    ck_assert_int_eq(fsync(file), 0);
    ck_assert_int_eq(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), 0);
    send_file_to((kind)_i, file, 0, LARGE, LARGE, _i % 2);
}

TEST(sendfile_refuses_an_input_that_is_not_a_file)
{
    int fd[2];
    off_t negative = -1;
    open_kind(UNIX, fd, false);
    ck_assert_int_eq(weft_sendfile(fd[1], fd[0], NULL, 1), -ESPIPE);
    ck_assert_int_eq(weft_sendfile(fd[1], -1, NULL, 1), -EBADF);
    int file = open_file(10, 0);
    ck_assert_int_eq(weft_sendfile(-1, file, NULL, 1), -EBADF);
    ck_assert_int_eq(weft_sendfile(fd[1], file, &negative, 1), -EINVAL);
    ck_assert_int_eq(lseek(file, 0, SEEK_CUR), 0);
}

/* P61, P63: nothing is read before the cancelled call has returned */
TEST_LOOP(the_offset_of_a_cancelled_sendfile_equals_the_sent_bytes, 2 * STREAMS)
{
    copy c;
    feed_copy(&c, FILE_PLAIN, (kind)(_i / 2), _i % 2, 2 * LARGE);
    c.copier = weft_spin(send_everything, &c);
    size_t sent;
    do {
        sent = queued_bytes(c.to[0]);
        weft_sleep(1e-3);
    } while (weft_state_of(c.copier) != WEFT_WAITING || queued_bytes(c.to[0]) != sent);
    weft_cancel(c.copier);
    ck_assert_int_eq(weft_await(c.copier), -ECANCELED);
    weft_close(c.out);
    c.reading = (stream_end){c.to[0], 0};
    ck_assert_int_eq(read_to_end(&c.reading), 0);
    ck_assert_int_eq(lseek(c.in, 0, SEEK_CUR), (off_t)c.reading.bytes);
    ck_assert_uint_gt(c.reading.bytes, 0);
}

/* Send the rest of the file, alternately by its position and by an offset. */
static weft_value send_rest(void *arg)
{
    copy *c = arg;
    off_t offset = lseek(c->in, 0, SEEK_CUR);
    bool is_by_offset = c->rounds++ % 2;
    ssize_t n = weft_sendfile(c->out, c->in, is_by_offset ? &offset : NULL, SIZE_MAX);
    if (is_by_offset)
        lseek(c->in, offset, SEEK_SET);
    return n;
}

/* P61, P63 */
TEST_LOOP(a_file_is_sent_completely_in_a_storm_of_cancellations, STREAMS)
{
    copy c;
    feed_copy(&c, FILE_PLAIN, (kind)_i, _i % 2, 4 * LARGE);
    drain_copy(&c, read_to_end);
    ck_assert_int_eq(repeat_with_timeouts(&c, send_rest), 0);
    finish_copy(&c, 4 * LARGE);
}

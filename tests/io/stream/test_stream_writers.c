/* Tests of several fibers that write to one stream, over socket pairs and TCP connections. */
#include "core/cord/fork_support.h"
#include "io/stream/writers.h"

static void open_streams(writers_link *l, bool is_tcp)
{
    int fd[2];
    open_small_sockets(fd, is_tcp);
    ck_assert_int_eq(weft_stream_open(&l->near, fd[0]), 0);
    ck_assert_int_eq(weft_stream_open(&l->far, fd[1]), 0);
}

static void open_pair(writers_link *l)
{
    open_streams(l, false);
}

static void open_tcp(writers_link *l)
{
    open_streams(l, true);
}

static const writers_transport transports[3] = {{open_pair, NULL, false}, {open_tcp, NULL, true}};

WRITERS_TEST(a_stream_with_queued_writers_is_not_detached)
{
    weft_fiber b = weft_spin(print_b, &l->near);
    ck_assert_int_eq(
        weft_stream_configure(&l->near, &(weft_stream_options){.write_bytes = 2 * UNIT_BYTES}), 0);
    ck_assert_int_eq(print_unit(&l->near), UNIT_BYTES); /* fits into the buffer */
    weft_fiber reader = weft_spin(read_unit, &l->far);
    ck_assert_int_eq(weft_stream_detach(&l->near), -EBUSY);
    ck_assert_error(-EBUSY, "weft_stream_detach: another fiber waits to write to this stream");
    ck_assert_int_eq(weft_await(b), 3);
    ck_assert_int_eq(weft_await(reader), 0);
    int fd = weft_stream_detach(&l->near);
    ck_assert_int_ge(fd, 0);
    expect_line(&l->far, "Bb\n");
    ck_assert_int_eq(weft_close(fd), 0);
}

static weft_value write_then_read(void *arg)
{
    char byte;
    ck_assert_int_eq(print_unit(arg), UNIT_BYTES); /* fits into the buffer */
    return weft_stream_read(arg, &byte, 1);
}

WRITERS_TEST(a_read_that_flushes_passes_the_stream_to_the_next_writer)
{
    ck_assert_int_eq(
        weft_stream_configure(&l->near, &(weft_stream_options){.write_bytes = 2 * UNIT_BYTES}), 0);
    weft_fiber a = spin_waiting(write_then_read, &l->near); /* waits in the flush */
    weft_fiber b = spin_waiting(print_b, &l->near), f = spin_waiting(flush_stream, &l->near);
    expect_unit(&l->far);
    expect_line(&l->far, "Bb\n");
    ck_assert_int_eq(weft_await(b), 3);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(weft_stream_puts(&l->far, "x"), 1);
    ck_assert_int_eq(weft_stream_flush(&l->far), 0);
    ck_assert_int_eq(weft_await(a), 1);
}

/* A transport that writes to its own stream. */

typedef struct recursive_transport {
    weft_stream stream;
    ssize_t results[4];
    char *reserved;
    int closed;
} recursive_transport;

static ssize_t recursive_read(void *ctx, void *data, size_t bytes)
{
    return 0;
}

static void write_to_itself(recursive_transport *t)
{
    t->results[0] = weft_stream_puts(&t->stream, "x");
    t->results[1] = weft_stream_printf(&t->stream, "x");
    t->results[2] = weft_stream_flush(&t->stream);
    t->results[3] = weft_stream_detach(&t->stream);
    t->reserved = weft_stream_reserve(&t->stream, 1);
}

static ssize_t recursive_writev(void *ctx, const struct iovec *pieces, int count)
{
    write_to_itself(ctx);
    return count > 0 ? (ssize_t)pieces[0].iov_len : 0;
}

static int recursive_flush(void *ctx)
{
    write_to_itself(ctx);
    return 0;
}

static int recursive_close(void *ctx)
{
    ((recursive_transport *)ctx)->closed++;
    return 0;
}

static void expect_deadlock(recursive_transport *t)
{
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(t->results[i], -EDEADLK);
    ck_assert_int_eq(t->results[3], -EOPNOTSUPP);
    ck_assert_ptr_null(t->reserved);
    memset(t->results, 0, sizeof t->results);
    t->reserved = (char *)t;
}

TEST(a_transport_cannot_write_to_its_own_stream)
{
    static const weft_stream_type type = {recursive_read, recursive_writev, recursive_close, NULL,
                                          recursive_flush};
    recursive_transport t = {.reserved = (char *)&t};
    ck_assert_int_eq(weft_stream_open_with(&t.stream, &type, &t), 0);
    ck_assert_int_eq(weft_stream_flush(&t.stream), 0); /* calls flush */
    expect_deadlock(&t);
    static const char data[100000];
    ck_assert_int_eq(weft_stream_write(&t.stream, data, sizeof data), sizeof data); /* writev */
    expect_deadlock(&t);
    ck_assert_int_eq(weft_stream_puts(&t.stream, "y"), 1);
    ck_assert_int_eq(weft_stream_close(&t.stream), 0);
    ck_assert_int_eq(t.results[0], -EBADF);
    ck_assert_int_eq(t.closed, 1);
}

/* A transport that closes its own stream. ctx is the stream. */
static ssize_t close_in_read(void *ctx, void *data, size_t bytes)
{
    (void)data;
    (void)bytes;
    return weft_stream_close(ctx);
}

static ssize_t close_in_writev(void *ctx, const struct iovec *pieces, int count)
{
    ck_assert_int_gt(count, 0);
    int rc = weft_stream_close(ctx);
    return rc == -EBADF ? (ssize_t)pieces[0].iov_len : rc;
}

static int close_nothing(void *ctx)
{
    (void)ctx;
    return 0;
}

TEST(a_transport_cannot_close_its_own_stream)
{
    static const weft_stream_type type = {close_in_read, close_in_writev, close_nothing, NULL,
                                          NULL};
    weft_stream s;
    char byte;
    ck_assert_int_eq(weft_stream_open_with(&s, &type, &s), 0);
    ck_assert_int_eq(weft_stream_read(&s, &byte, 1), -EDEADLK);
    ck_assert_error(-EDEADLK, "weft_stream_close: a function of the transport is the caller");
    ck_assert_int_eq(put_c(&s), 3);
    ck_assert_int_eq(weft_stream_flush(&s), -EDEADLK);
    weft_error_clear();
    ck_assert_int_eq(weft_stream_close(&s), 0); /* the stream is already closing in writev */
}

/* A transport without data. A call suspends its fiber if ctx is the name of the function. */
static ssize_t stuck_read(void *ctx, void *data, size_t bytes)
{
    (void)data;
    (void)bytes;
    return strcmp(ctx, "read") == 0 ? weft_suspend() : 0;
}

static ssize_t stuck_writev(void *ctx, const struct iovec *pieces, int count)
{
    ck_assert_int_gt(count, 0);
    return strcmp(ctx, "writev") == 0 ? weft_suspend() : (ssize_t)pieces[0].iov_len;
}

static weft_value read_one_byte(void *arg)
{
    char byte;
    return weft_stream_read(arg, &byte, 1);
}

FIBER(close_stream, weft_stream_close(arg))

TEST(a_close_that_waits_for_the_users_of_a_stream_cannot_be_interrupted)
{
    static const weft_stream_type type = {stuck_read, stuck_writev, close_nothing, NULL, NULL};
    weft_stream s;
    ck_assert_int_eq(weft_stream_open_with(&s, &type, "read"), 0);
    weft_fiber reader = spin_waiting(read_one_byte, &s), closer = spin_waiting(close_stream, &s);
    ck_assert_int_eq(weft_interrupt(closer, -EINTR), -EBUSY);
    ck_assert_int_eq(weft_schedule(reader, 0), 0);
    ck_assert_int_eq(weft_await(reader), 0);
    ck_assert_int_eq(weft_await(closer), 0);
}

/* Use a stream from which a fiber of the parent reads, and a stream to which fibers write. */
static void use_streams_in_child(weft_stream *in, weft_stream *out)
{
    require(read_one_byte(in) == -EOWNERDEAD && weft_stream_wait(in) == -EOWNERDEAD);
    require(put_c(in) == 3 && weft_stream_flush(in) == 0);
    require(weft_stream_close(in) == 0);
    require(put_c(out) == -EOWNERDEAD && weft_stream_flush(out) == -EOWNERDEAD);
    require(weft_stream_reserve(out, 1) == NULL && read_one_byte(out) == 0);
    require(weft_stream_close(out) == -EBADF);
    _exit(0);
}

TEST(a_child_does_not_wait_for_the_fibers_of_its_parent_that_use_a_stream)
{
    static const weft_stream_type type = {stuck_read, stuck_writev, close_nothing, NULL, NULL};
    weft_stream in, out;
    ck_assert_int_eq(weft_stream_open_with(&in, &type, "read"), 0);
    ck_assert_int_eq(weft_stream_open_with(&out, &type, "writev"), 0);
    weft_fiber f[] = {spin_waiting(read_one_byte, &in), spin_waiting(write_unit, &out),
                      spin_waiting(put_c, &out)};
    pid_t pid = weft_fork();
    if (pid == 0)
        use_streams_in_child(&in, &out);
    ck_assert_int_eq(wait_for_exit(pid), 0);
    ck_assert_int_eq(weft_interrupt(f[0], -EINTR), 0);
    ck_assert_int_eq(weft_interrupt(f[1], -EINTR), 0);
    ck_assert_int_eq(weft_await(f[0]), -EINTR);
    ck_assert_int_eq(weft_await(f[1]), -EINTR);
    ck_assert_int_eq(weft_await(f[2]), 3);
    weft_error_clear();
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_stream_close(&out), -ECANCELED); /* the flush */
    }
    ck_assert_int_eq(weft_stream_close(&in), 0);
}

/* Tests of several fibers that write to one stream, over socket pairs and TCP connections. */
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

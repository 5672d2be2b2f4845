/*
 * Tests of streams: waits for input without a buffer, vectored writes, and read buffers of the
 * caller.
 */
#include "support/net_support.h"

#include "io/stream/stream.h"
#include "support/suite.h"

typedef struct connection {
    weft_stream near;
    int far;
} connection;

static void open_connection(connection *l)
{
    int fd[2];
    ck_assert_int_eq(weft_socketpair(fd), 0);
    ck_assert_int_eq(weft_stream_open(&l->near, fd[0]), 0);
    l->far = fd[1];
}

static void close_connection(connection *l)
{
    ck_assert_int_eq(weft_stream_close(&l->near), 0);
    weft_close(l->far);
}

static weft_value wait_for_input(void *arg)
{
    connection *l = arg;
    int rc = weft_stream_wait(&l->near);
    mark(rc == 0 ? "ready " : "failed ");
    return rc;
}

TEST(a_wait_ends_when_data_arrives_and_does_not_flush_output_of_another_fiber)
{
    connection l;
    char received[8] = "";
    open_connection(&l);
    ck_assert_int_eq(weft_stream_puts(&l.near, "hello"), 5);
    weft_fiber waiter = spin_waiting(wait_for_input, &l);
    /* Another fiber has written this output, so the waiter does not flush it. */
    ck_assert_int_eq(weft_stream_flush(&l.near), 0);
    ck_assert_int_eq(weft_read(l.far, received, sizeof received), 5);
    ck_assert_trail("");
    ck_assert_int_eq(weft_write_all(l.far, "abc", 3), 3);
    ck_assert_int_eq(weft_await(waiter), 0);
    ck_assert_trail("ready ");
    ck_assert_int_eq(weft_stream_read(&l.near, received, sizeof received), 3);
    ck_assert_mem_eq(received, "abc", 3);
    close_connection(&l);
}

TEST(a_wait_returns_immediately_if_input_is_buffered)
{
    connection l;
    const void *data;
    open_connection(&l);
    ck_assert_int_eq(weft_write_all(l.far, "abc", 3), 3);
    ck_assert_int_eq(weft_stream_peek(&l.near, 1, &data), 3);
    ck_assert_int_eq(weft_stream_wait(&l.near), 0);
    ck_assert_int_eq(weft_stream_peek(&l.near, 0, &data), 3);
    close_connection(&l);
}

TEST(the_end_of_the_input_ends_a_wait)
{
    connection l;
    char byte;
    open_connection(&l);
    weft_close(l.far);
    ck_assert_int_eq(weft_stream_wait(&l.near), 0);
    ck_assert_int_eq(weft_stream_read(&l.near, &byte, 1), 0);
    ck_assert_int_eq(weft_stream_close(&l.near), 0);
}

TEST(a_wait_ends_when_it_is_cancelled_or_the_stream_is_closed)
{
    connection l;
    open_connection(&l);
    weft_fiber waiter = spin_waiting(wait_for_input, &l);
    ck_assert_int_eq(cancel_and_await(waiter), -ECANCELED);
    waiter = weft_spin(wait_for_input, &l);
    let_run();
    ck_assert_int_eq(weft_stream_close(&l.near), 0);
    ck_assert_int_eq(weft_await(waiter), -EBADF);
    ck_assert_int_eq(weft_stream_wait(&l.near), -EBADF);
    weft_close(l.far);
    assert_nothing_pending();
}

static ssize_t read_until_end(int fd, char *into, size_t room)
{
    size_t all = 0;
    ssize_t n;
    while (all < room && (n = weft_read(fd, into + all, room - all)) > 0)
        all += (size_t)n;
    return (ssize_t)all;
}

static weft_value read_and_check(void *arg)
{
    connection *l = arg;
    static char received[200000];
    ssize_t n = read_until_end(l->far, received, sizeof received);
    for (ssize_t i = 0; i < n; i++)
        ck_assert_int_eq((unsigned char)received[i], byte_at((size_t)i));
    return n;
}

TEST(buffers_of_any_size_are_written_in_order)
{
    static char data[100000];
    struct iovec pieces[40];
    connection l;
    size_t at = 0;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)byte_at(i);
    open_connection(&l);
    weft_fiber reader = weft_spin(read_and_check, &l);
    while (at < sizeof data) {
        int count = 0;
        size_t bytes = 0;
        for (; count < 40 && at + bytes < sizeof data; count++) {
            size_t n = random_below(random_below(4) == 0 ? 9000 : 30);
            if (n > sizeof data - at - bytes)
                n = sizeof data - at - bytes;
            pieces[count] = (struct iovec){data + at + bytes, n};
            bytes += n;
        }
        ck_assert_int_eq(weft_stream_writev(&l.near, pieces, count), (ssize_t)bytes);
        at += bytes;
    }
    ck_assert_int_eq(weft_stream_writev(&l.near, NULL, 0), 0);
    ck_assert_int_eq(weft_stream_writev(&l.near, NULL, -1), -EINVAL);
    ck_assert_int_eq(weft_stream_close(&l.near), 0);
    ck_assert_int_eq(weft_await(reader), (ssize_t)sizeof data);
    weft_close(l.far);
}

TEST(a_stream_reads_into_memory_of_the_caller_if_it_suffices)
{
    static char memory[65], longer[200];
    const weft_stream_options caller_memory = {.read_bytes = 64, .read_memory = memory};
    connection l;
    const void *data;
    memset(longer, 'x', sizeof longer);
    open_connection(&l);
    ck_assert_int_eq(weft_stream_configure(&l.near, &caller_memory), 0);
    ck_assert_int_eq(weft_write_all(l.far, "abc", 3), 3);
    ck_assert_int_eq(weft_stream_peek(&l.near, 1, &data), 3);
    ck_assert_ptr_eq(data, memory);
    ck_assert_int_eq(weft_stream_configure(&l.near, NULL), -EBUSY);
    /* Longer input moves to another buffer. Later input uses the memory of the caller again. */
    ck_assert_int_eq(weft_write_all(l.far, longer, sizeof longer), (ssize_t)sizeof longer);
    ck_assert_int_eq(weft_stream_peek(&l.near, 203, &data), 203);
    ck_assert(data < (void *)memory || data >= (void *)(memory + sizeof memory));
    ck_assert_mem_eq(data, "abcxxx", 6);
    ck_assert_int_eq(weft_stream_skip(&l.near, 203), 0);
    ck_assert_int_eq(weft_write_all(l.far, "def", 3), 3);
    ck_assert_int_eq(weft_stream_peek(&l.near, 1, &data), 3);
    ck_assert_ptr_eq(data, memory);
    close_connection(&l);
}

TEST(an_output_buffer_exists_only_while_output_is_pending)
{
    connection a, b;
    open_connection(&a);
    open_connection(&b);
    ck_assert_int_eq(weft_stream_puts(&a.near, "hello"), 5);
    const char *first = weft__stream_of(&a.near)->out.data;
    ck_assert_ptr_nonnull(first);
    ck_assert_int_eq(weft_stream_flush(&a.near), 0);
    ck_assert_ptr_null(weft__stream_of(&a.near)->out.data);
    ck_assert_int_eq(weft_stream_puts(&b.near, "hello"), 5);
    ck_assert_ptr_eq(weft__stream_of(&b.near)->out.data, first); /* the buffer that was used last */
    close_connection(&a);
    close_connection(&b);
}

TEST(the_descriptor_and_the_context_of_a_stream_can_be_queried)
{
    static const weft_stream_type other;
    connection l;
    open_connection(&l);
    ck_assert_int_ge(weft_stream_fd(&l.near), 0);
    ck_assert_ptr_null(weft_stream_ctx(&l.near, &other));
    close_connection(&l);
    ck_assert_int_eq(weft_stream_fd(&l.near), -EBADF);
}

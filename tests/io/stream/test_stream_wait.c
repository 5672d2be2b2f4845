/*
 * Tests of streams: waits for input without a buffer, vectored writes, and read buffers of the
 * caller.
 */
#include "support/net_support.h"

#include "io/stream/stream.h"
#include "support/suite.h"

/* The connection of the test. */
static struct {
    weft_stream near;
    int far;
} l;

static void begin_test(void)
{
    int fd[2];
    ck_assert_int_eq(weft_socketpair(fd), 0);
    ck_assert_int_eq(weft_stream_open(&l.near, fd[0]), 0);
    l.far = fd[1];
}

static void end_test(void)
{
    if (weft_stream_fd(&l.near) >= 0)
        ck_assert_int_eq(weft_stream_close(&l.near), 0);
    weft_close(l.far); /* -EBADF if the test has closed it */
    assert_nothing_pending();
}

FIXTURE(begin_test, end_test)

static weft_value wait_for_input(void *arg)
{
    int rc = weft_stream_wait(&l.near);
    mark(rc == 0 ? "ready " : "failed ");
    return rc;
}

TEST(a_wait_ends_when_data_arrives_and_does_not_flush_output_of_another_fiber)
{
    char received[8] = "";
    const void *data;
    ck_assert_int_eq(weft_write_all(l.far, "x", 1), 1);
    ck_assert_int_eq(weft_stream_peek(&l.near, 1, &data), 1);
    ck_assert_int_eq(weft_stream_skip(&l.near, 1), 0);
    ck_assert_int_eq(weft_stream_puts(&l.near, "hello"), 5);
    weft_fiber waiter = spin_waiting(wait_for_input, &l);
    ck_assert_ptr_null(weft__stream_of(&l.near)->in.data);
    /* Another fiber has written this output, so the waiter does not flush it. */
    ck_assert_int_eq(weft_stream_flush(&l.near), 0);
    ck_assert_int_eq(weft_read(l.far, received, sizeof received), 5);
    ck_assert_trail("");
    ck_assert_int_eq(weft_write_all(l.far, "abc", 3), 3);
    ck_assert_int_eq(weft_await(waiter), 0);
    ck_assert_trail("ready ");
    ck_assert_int_eq(weft_stream_read(&l.near, received, sizeof received), 3);
    ck_assert_mem_eq(received, "abc", 3);
}

TEST(a_wait_returns_immediately_if_input_is_buffered)
{
    const void *data;
    ck_assert_int_eq(weft_write_all(l.far, "abc", 3), 3);
    ck_assert_int_eq(weft_stream_peek(&l.near, 1, &data), 3);
    ck_assert_int_eq(weft_stream_wait(&l.near), 0);
    ck_assert_int_eq(weft_stream_peek(&l.near, 0, &data), 3);
}

TEST(the_end_of_the_input_ends_a_wait)
{
    char byte;
    weft_close(l.far);
    ck_assert_int_eq(weft_stream_wait(&l.near), 0);
    ck_assert_int_eq(weft_stream_read(&l.near, &byte, 1), 0);
}

TEST(a_wait_ends_when_it_is_cancelled_or_the_stream_is_closed)
{
    weft_fiber waiter = spin_waiting(wait_for_input, &l);
    ck_assert_int_eq(cancel_and_await(waiter), -ECANCELED);
    waiter = weft_spin(wait_for_input, &l);
    let_run();
    ck_assert_int_eq(weft_stream_close(&l.near), 0);
    ck_assert_int_eq(weft_await(waiter), -EBADF);
    ck_assert_int_eq(weft_stream_wait(&l.near), -EBADF);
}

static weft_value read_and_check(void *arg)
{
    static unsigned char received[200000];
    ssize_t n = weft_read_full(l.far, received, sizeof received);
    assert_bytes_at(received, n > 0 ? (size_t)n : 0, 0);
    return n;
}

TEST(buffers_of_any_size_are_written_in_order)
{
    static unsigned char data[100000];
    struct iovec pieces[40];
    size_t at = 0;
    fill_from(data, sizeof data, 0);
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
}

TEST(a_stream_reads_into_memory_of_the_caller_if_it_suffices)
{
    static char memory[65], longer[200];
    const weft_stream_options caller_memory = {.read_bytes = 64, .read_memory = memory};
    const void *data;
    memset(longer, 'x', sizeof longer);
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
}

TEST(an_output_buffer_exists_only_while_output_is_pending)
{
    ck_assert_int_eq(weft_stream_puts(&l.near, "hello"), 5);
    const char *first = weft__stream_of(&l.near)->out.data;
    ck_assert_ptr_nonnull(first);
    ck_assert_int_eq(weft_stream_flush(&l.near), 0);
    ck_assert_ptr_null(weft__stream_of(&l.near)->out.data);
    end_test();
    begin_test();
    ck_assert_int_eq(weft_stream_puts(&l.near, "hello"), 5);
    ck_assert_ptr_eq(weft__stream_of(&l.near)->out.data, first); /* the buffer that was used last */
}

TEST(the_descriptor_and_the_context_of_a_stream_can_be_queried)
{
    static const weft_stream_type other;
    ck_assert_int_ge(weft_stream_fd(&l.near), 0);
    ck_assert_ptr_null(weft_stream_ctx(&l.near, &other));
    ck_assert_int_eq(weft_stream_close(&l.near), 0);
    ck_assert_int_eq(weft_stream_fd(&l.near), -EBADF);
}

/* Move the stream to new memory and back, and destroy the memory that the stream has left. */
static void move_there_and_back(void)
{
    weft_stream *there = malloc(sizeof *there);
    ck_assert_int_eq(weft_stream_move(there, &l.near), 0);
    ck_assert_int_eq(weft_stream_fd(&l.near), -EBADF);
    memset(&l.near, 0xa5, sizeof l.near);
    ck_assert_int_eq(weft_stream_move(&l.near, there), 0);
    memset(there, 0xa5, sizeof *there);
    free(there);
}

TEST_LOOP(a_moved_stream_keeps_its_input_and_its_output, 2)
{
    char memory[16], received[8] = "";
    char *line = NULL;
    const void *data;
    weft_stream_options o = {.read_bytes = 15, .read_memory = _i == 1 ? memory : NULL};
    ck_assert_int_eq(weft_stream_configure(&l.near, &o), 0);
    ck_assert_int_eq(weft_write_all(l.far, "one\ntwo\n", 8), 8);
    ck_assert_int_eq(weft_stream_peek(&l.near, 8, &data), 8);
    ck_assert_int_eq(weft_stream_line(&l.near, &line, NULL), 1);
    ck_assert_int_eq(weft_stream_puts(&l.near, "hello"), 5);
    move_there_and_back();
    memset(memory, 'x', sizeof memory); /* the stream does not use it any more */
    ck_assert_int_eq(weft_stream_line(&l.near, &line, NULL), 1);
    ck_assert_str_eq(line, "two");
    ck_assert_int_eq(weft_stream_flush(&l.near), 0);
    ck_assert_int_eq(weft_read(l.far, received, sizeof received), 5);
    ck_assert_mem_eq(received, "hello", 5);
}

TEST(a_stream_that_a_fiber_uses_is_not_moved)
{
    weft_stream there;
    weft_fiber waiter = spin_waiting(wait_for_input, &l);
    ck_assert_fails(weft_stream_move(&there, &l.near), -EBUSY);
    ck_assert_fails(weft_stream_move(&l.near, &l.near), -EINVAL);
    ck_assert_int_eq(weft_write_all(l.far, "x", 1), 1);
    ck_assert_int_eq(weft_await(waiter), 0);
    move_there_and_back();
    ck_assert_int_eq(weft_stream_close(&l.near), 0);
    ck_assert_int_eq(weft_stream_move(&there, &l.near), -EBADF);
}

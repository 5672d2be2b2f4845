/* Streams that wait without memory, write several pieces, and read into memory that is lent. */
#include "net_support.h"

#include "io/stream.h"

typedef struct line {
    weft_stream near;
    int far;
} line;

static void open_line(line *l)
{
    int fd[2];
    ck_assert_int_eq(weft_socketpair(fd), 0);
    ck_assert_int_eq(weft_stream_open(&l->near, fd[0]), 0);
    l->far = fd[1];
}

static void close_line(line *l)
{
    ck_assert_int_eq(weft_stream_close(&l->near), 0);
    weft_close(l->far);
}

static weft_value wait_for_input(void *arg)
{
    line *l = arg;
    int rc = weft_stream_wait(&l->near);
    mark(rc == 0 ? "ready " : "failed ");
    return rc;
}

START_TEST(waiting_sends_what_was_written_and_ends_when_something_comes)
{
    line l;
    char heard[8] = "";
    open_line(&l);
    ck_assert_int_eq(weft_stream_puts(&l.near, "hello"), 5);
    weft_fiber waiter = weft_spin(wait_for_input, &l);
    let_run();
    /* Another fiber has written that: who waits leaves it alone. */
    ck_assert_int_eq(weft_stream_flush(&l.near), 0);
    ck_assert_int_eq(weft_read(l.far, heard, sizeof heard), 5);
    ck_assert_trail("");
    ck_assert_int_eq(weft_write_all(l.far, "abc", 3), 3);
    ck_assert_int_eq(weft_await(waiter), 0);
    ck_assert_trail("ready ");
    ck_assert_int_eq(weft_stream_read(&l.near, heard, sizeof heard), 3);
    ck_assert_mem_eq(heard, "abc", 3);
    close_line(&l);
}
END_TEST

START_TEST(with_input_in_hand_there_is_nothing_to_wait_for)
{
    line l;
    const void *data;
    open_line(&l);
    ck_assert_int_eq(weft_write_all(l.far, "abc", 3), 3);
    ck_assert_int_eq(weft_stream_peek(&l.near, 1, &data), 3);
    ck_assert_int_eq(weft_stream_wait(&l.near), 0);
    ck_assert_int_eq(weft_stream_peek(&l.near, 0, &data), 3);
    close_line(&l);
}
END_TEST

START_TEST(the_end_of_the_input_ends_the_wait)
{
    line l;
    char byte;
    open_line(&l);
    weft_close(l.far);
    ck_assert_int_eq(weft_stream_wait(&l.near), 0);
    ck_assert_int_eq(weft_stream_read(&l.near, &byte, 1), 0);
    ck_assert_int_eq(weft_stream_close(&l.near), 0);
}
END_TEST

START_TEST(a_wait_can_be_cancelled_and_closed)
{
    line l;
    open_line(&l);
    weft_fiber waiter = weft_spin(wait_for_input, &l);
    let_run();
    ck_assert_int_eq(weft_cancel(waiter), 0);
    ck_assert_int_eq(weft_await(waiter), -ECANCELED);
    waiter = weft_spin(wait_for_input, &l);
    let_run();
    ck_assert_int_eq(weft_stream_close(&l.near), 0);
    ck_assert_int_eq(weft_await(waiter), -EBADF);
    ck_assert_int_eq(weft_stream_wait(&l.near), -EBADF);
    weft_close(l.far);
    assert_nothing_pending();
}
END_TEST

static ssize_t read_until_end(int fd, char *into, size_t room)
{
    size_t all = 0;
    ssize_t n;
    while (all < room && (n = weft_read(fd, into + all, room - all)) > 0)
        all += (size_t)n;
    return (ssize_t)all;
}

static weft_value collect(void *arg)
{
    line *l = arg;
    static char heard[200000];
    ssize_t n = read_until_end(l->far, heard, sizeof heard);
    for (ssize_t i = 0; i < n; i++)
        ck_assert_int_eq((unsigned char)heard[i], byte_at((size_t)i));
    return n;
}

START_TEST(pieces_go_out_in_their_order_whatever_their_sizes)
{
    static char data[100000];
    struct iovec pieces[40];
    line l;
    size_t at = 0;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)byte_at(i);
    open_line(&l);
    weft_fiber reader = weft_spin(collect, &l);
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
END_TEST

START_TEST(it_reads_into_memory_that_is_lent_as_long_as_that_is_enough)
{
    static char memory[65], longer[200];
    const weft_stream_options lent = {.read_bytes = 64, .read_memory = memory};
    line l;
    const void *data;
    memset(longer, 'x', sizeof longer);
    open_line(&l);
    ck_assert_int_eq(weft_stream_configure(&l.near, &lent), 0);
    ck_assert_int_eq(weft_write_all(l.far, "abc", 3), 3);
    ck_assert_int_eq(weft_stream_peek(&l.near, 1, &data), 3);
    ck_assert_ptr_eq(data, memory);
    ck_assert_int_eq(weft_stream_configure(&l.near, NULL), -EBUSY);
    /* More than it holds moves, and comes back when that is over. */
    ck_assert_int_eq(weft_write_all(l.far, longer, sizeof longer), (ssize_t)sizeof longer);
    ck_assert_int_eq(weft_stream_peek(&l.near, 203, &data), 203);
    ck_assert(data < (void *)memory || data >= (void *)(memory + sizeof memory));
    ck_assert_mem_eq(data, "abcxxx", 6);
    ck_assert_int_eq(weft_stream_skip(&l.near, 203), 0);
    ck_assert_int_eq(weft_write_all(l.far, "def", 3), 3);
    ck_assert_int_eq(weft_stream_peek(&l.near, 1, &data), 3);
    ck_assert_ptr_eq(data, memory);
    close_line(&l);
}
END_TEST

START_TEST(there_is_a_buffer_for_output_only_while_some_waits)
{
    line a, b;
    open_line(&a);
    open_line(&b);
    ck_assert_int_eq(weft_stream_puts(&a.near, "hello"), 5);
    const char *first = weft__stream_of(&a.near)->out.data;
    ck_assert_ptr_nonnull(first);
    ck_assert_int_eq(weft_stream_flush(&a.near), 0);
    ck_assert_ptr_null(weft__stream_of(&a.near)->out.data);
    ck_assert_int_eq(weft_stream_puts(&b.near, "hello"), 5);
    ck_assert_ptr_eq(weft__stream_of(&b.near)->out.data, first); /* what was used last */
    close_line(&a);
    close_line(&b);
}
END_TEST

START_TEST(what_it_stands_on_can_be_asked_for)
{
    static const weft_stream_type other;
    line l;
    open_line(&l);
    ck_assert_int_ge(weft_stream_fd(&l.near), 0);
    ck_assert_ptr_null(weft_stream_ctx(&l.near, &other));
    close_line(&l);
    ck_assert_int_eq(weft_stream_fd(&l.near), -EBADF);
}
END_TEST

static const TTest *const *const tests[] = {
    &waiting_sends_what_was_written_and_ends_when_something_comes,
    &with_input_in_hand_there_is_nothing_to_wait_for,
    &the_end_of_the_input_ends_the_wait,
    &a_wait_can_be_cancelled_and_closed,
    &pieces_go_out_in_their_order_whatever_their_sizes,
    &it_reads_into_memory_that_is_lent_as_long_as_that_is_enough,
    &there_is_a_buffer_for_output_only_while_some_waits,
    &what_it_stands_on_can_be_asked_for,
};

int main(void)
{
    return run_suite("stream_wait", tests, COUNT_OF(tests));
}

/* Tests of weft_fd_release, which hands a descriptor over to another cord. */
#include "backend/fd_support.h"
#include "support/suite.h"

TEST(a_released_descriptor_can_be_read_in_another_cord)
{
    open_listener();
    weft_cord this_cord = weft_cord_self(), cord = start_idle_cord();
    for (kind k = PIPE; k < KINDS; k++) {
        source s = open_source(k);
        for (int round = 0; round < 3; round++) {
            weft_cord cords[] = {this_cord, cord};
            for (int i = 0; i < 2; i++) {
                reader r;
                assert_read_later(cords[i], &s, "once");
                weft_fiber caller = spin_reader(&r, cords[i], s.fd);
                ck_assert_int_eq(i == 0 ? weft_fd_release(s.fd) : -EBUSY, -EBUSY);
                feed_source(&s, "more");
                ck_assert_int_eq(weft_await(caller), 0);
                ck_assert_str_eq(r.data, "more");
                ck_assert_int_eq(weft_fd_release(s.fd), 0);
            }
        }
        close_source(&s, cord);
        ck_assert_int_eq(weft_fd_release(s.fd), -EBADF);
    }
    ck_assert_int_eq(weft_fd_release(-1), -EBADF);
    end_cord(cord);
}

/* Send more data while the loop handles the first data, then stop the loop. */
static int feed_and_stop(const void *data, size_t bytes, void *ctx)
{
    ck_assert_mem_eq(data, "first", bytes);
    feed_source(ctx, "rest");
    for (int i = 0; i < 3; i++)
        weft_sleep(0);
    return -ECONNABORTED;
}

/*
 * On io_uring the loop has already received the data. On other backends the data is still in the
 * socket.
 */
TEST(leftover_data_of_a_loop_is_not_lost_by_a_release)
{
    open_listener();
    weft_cord cord = start_idle_cord();
    source s = open_source(TCP);
    feed_source(&s, "first");
    ck_assert_int_eq(weft_recv_loop(s.fd, feed_and_stop, &s), -ECONNABORTED);
    int rc = weft_fd_release(s.fd);
    ck_assert(rc == 0 || rc == -EBUSY);
    assert_read(rc == 0 ? cord : weft_cord_self(), s.fd, "rest");
    ck_assert_int_eq(weft_fd_release(s.fd), 0);
    assert_read_later(cord, &s, "last");
    close_source(&s, cord);
    end_cord(cord);
}

#define LINES 200

static weft_value feed_and_read_lines(void *arg)
{
    const source *s = arg;
    for (int i = 0; i < LINES; i++) {
        reader r = {.fd = s->fd};
        feed_source(s, "line");
        read_some(&r);
        ck_assert_str_eq(r.data, "line");
    }
    return 0;
}

/* Return the number of polls of this thread. */
static uint64_t count_polls(void)
{
    weft_counters counters;
    weft_stats(&counters);
    return counters.polls;
}

TEST(data_on_a_released_descriptor_does_not_wake_the_first_cord)
{
    open_listener();
    weft_cord cord = start_idle_cord();
    source s = open_source(TCP);
    assert_read_later(weft_cord_self(), &s, "first");
    ck_assert_int_eq(weft_fd_release(s.fd), 0);
    uint64_t before = count_polls();
    ck_assert_int_eq(weft_cord_call(cord, feed_and_read_lines, &s), 0);
    ck_assert_uint_lt(count_polls() - before, LINES / 4);
    close_source(&s, cord);
    end_cord(cord);
}

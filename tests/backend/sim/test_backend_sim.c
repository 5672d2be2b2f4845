/* What only the sim backend has: the virtual clock, the seed, numbers that do not come again. */
#include "backend_harness.h"

#include <fcntl.h>
#include <unistd.h>

START_TEST(time_stands_still_until_there_is_nothing_to_do)
{
    int fd[2];
    char got[8];
    trial read = {0};
    int64_t before = type->now_ns(backend);
    ck_assert_int_eq(type->pipe(backend, fd), 0);
    ck_assert(start_read(&read, fd[0], got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    ck_assert(!read.is_done); /* done comes from poll, not from inside the peer's submit */
    ck_assert_int_eq(type->poll(backend, 3600000000000), 0);
    ck_assert(read.is_done);
    ck_assert_int_eq(type->now_ns(backend), before);
    close_both(fd);
}
END_TEST

START_TEST(waiting_moves_the_clock_by_exactly_the_timeout)
{
    int64_t before = type->now_ns(backend);
    type->poll(backend, 0);
    ck_assert_int_eq(type->now_ns(backend), before);
    type->poll(backend, 86400000000000);
    ck_assert_int_eq(type->now_ns(backend), before + 86400000000000);
    type->poll(backend, INT64_MAX);
    ck_assert_int_eq(type->now_ns(backend), INT64_MAX);
}
END_TEST

START_TEST(a_wake_keeps_the_clock_from_jumping)
{
    int64_t before = type->now_ns(backend);
    type->wake(backend);
    type->poll(backend, 1000000);
    ck_assert_int_eq(type->now_ns(backend), before);
}
END_TEST

START_TEST(a_switch_takes_a_microsecond)
{
    int64_t before = type->now_ns(backend);
    type->tick(backend, 64);
    ck_assert_int_eq(type->now_ns(backend), before + 64000);
}
END_TEST

/* Draw with the seed of this text from a backend of its own. False: it does not shuffle. */
static bool draw(const char *seed, uint64_t random[3])
{
    weft__backend *other;
    setenv("WEFT_SEED", seed, 1);
    ck_assert_int_eq(type->open(&other), 0);
    bool is_shuffling = true;
    for (int i = 0; i < 3; i++)
        is_shuffling &= type->choose(other, &random[i]);
    type->close(other);
    return is_shuffling;
}

START_TEST(the_same_seed_chooses_the_same_way)
{
    uint64_t a[3], b[3], c[3];
    ck_assert(draw("42", a));
    ck_assert(draw("0x2a", b));
    ck_assert(draw("43", c));
    ck_assert_mem_eq(a, b, sizeof a);
    ck_assert_mem_ne(a, c, sizeof a);
    ck_assert_uint_ne(a[0], a[1]);
}
END_TEST

START_TEST(without_a_seed_the_order_is_kept)
{
    uint64_t unused[3];
    ck_assert(!draw("", unused));
    ck_assert(!draw("banana", unused));
    ck_assert(!type->choose(backend, unused));
}
END_TEST

START_TEST(numbers_do_not_come_again_and_do_not_pile_up)
{
    int fd[2], kept[2];
    ck_assert_int_eq(type->socketpair(backend, kept), 0);
    int last = kept[1];
    for (int i = 0; i < 1000; i++) {
        ck_assert_int_eq(type->pipe(backend, fd), 0);
        ck_assert_int_gt(fd[0], last);
        last = fd[1];
        close_both(fd);
    }
    ck_assert_int_eq(write_now(kept[0], "x", 1), 1);
    close_both(kept);
}
END_TEST

START_TEST(a_small_write_goes_in_whole_or_waits)
{
    enum { CAPACITY = 64 << 10 };
    static const char all[CAPACITY];
    int fd[2];
    char got[100];
    trial big = {0}, small = {0};
    ck_assert_int_eq(type->pipe(backend, fd), 0);
    ck_assert_int_eq(write_now(fd[1], all, CAPACITY - 10), CAPACITY - 10);
    ck_assert(start_write(&big, fd[1], all, 11) == WEFT__OP_PENDING);
    ck_assert(start_write(&small, fd[1], all, 10) == WEFT__OP_PENDING); /* behind the other */
    ck_assert(type->cancel(backend, &big.op));
    ck_assert_int_eq(finish(&small, WEFT__OP_PENDING), 10);
    ck_assert_int_eq(read_now(fd[0], got, 100), 100);
    close_both(fd);
}
END_TEST

START_TEST(the_ends_of_a_pipe_have_one_direction_and_no_connections)
{
    int fd[2];
    char byte = 0;
    trial t = {0};
    ck_assert_int_eq(type->pipe(backend, fd), 0);
    ck_assert_int_eq(write_now(fd[0], &byte, 1), -EBADF);
    ck_assert_int_eq(read_now(fd[1], &byte, 1), -EBADF);
    ck_assert_int_eq(start(&t, (weft__op){.code = WEFT__OP_ACCEPT, .fd = fd[0]}), -EOPNOTSUPP);
    ck_assert_int_eq(start(&t, (weft__op){.code = WEFT__OP_CONNECT, .fd = fd[0]}), -EOPNOTSUPP);
    close_both(fd);
}
END_TEST

START_TEST(descriptors_of_the_kernel_are_called_plainly)
{
    int fd[2];
    char got[8];
    trial t = {0};
    ck_assert_int_eq(pipe2(fd, O_NONBLOCK), 0);
    ck_assert_int_eq(start_write(&t, fd[1], "abc", 3), 3);
    ck_assert_int_eq(start_wait(&t, fd[0], POLLIN), POLLIN);
    ck_assert_int_eq(start_read(&t, fd[0], got, 8), 3);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
    ck_assert_int_eq(start_write(&t, fd[1], "abc", 3), -EPIPE);
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);
}
END_TEST

START_TEST(what_is_left_open_is_freed_with_the_backend)
{
    int fd[2], half[2];
    ck_assert_int_eq(type->socketpair(backend, fd), 0);
    ck_assert_int_eq(write_now(fd[0], "abc", 3), 3);
    ck_assert_int_eq(type->pipe(backend, half), 0);
    ck_assert_int_eq(type->close_fd(backend, half[0]), 0);
}
END_TEST

int main(void)
{
    setenv("WEFT_BACKEND", "sim", 1);
    unsetenv("WEFT_SEED");
    Suite *suite = suite_create("sim backend");
    TCase *tests = tcase_create("sim backend");
    suite_add_tcase(suite, tests);
    tcase_set_timeout(tests, 30);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, time_stands_still_until_there_is_nothing_to_do);
    tcase_add_test(tests, waiting_moves_the_clock_by_exactly_the_timeout);
    tcase_add_test(tests, a_wake_keeps_the_clock_from_jumping);
    tcase_add_test(tests, a_switch_takes_a_microsecond);
    tcase_add_test(tests, the_same_seed_chooses_the_same_way);
    tcase_add_test(tests, without_a_seed_the_order_is_kept);
    tcase_add_test(tests, numbers_do_not_come_again_and_do_not_pile_up);
    tcase_add_test(tests, a_small_write_goes_in_whole_or_waits);
    tcase_add_test(tests, the_ends_of_a_pipe_have_one_direction_and_no_connections);
    tcase_add_test(tests, descriptors_of_the_kernel_are_called_plainly);
    tcase_add_test(tests, what_is_left_open_is_freed_with_the_backend);
    return run_suite(suite);
}

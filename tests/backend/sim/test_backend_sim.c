/*
 * Tests of the sim backend: the virtual clock, the seed, and descriptor numbers that are not
 * reused.
 */
#include "backend/backend_harness.h"

#include <fcntl.h>

FIXTURE(open_backend, close_backend)

__attribute__((constructor)) static void clear_seed(void)
{
    unsetenv("WEFT_SEED");
}

TEST(the_clock_does_not_advance_while_an_operation_can_complete)
{
    int fd[2];
    char got[8];
    test_op read = {0};
    int64_t before = type->now_ns(backend);
    ck_assert_int_eq(type->pipe(backend, fd), 0);
    ck_assert(start_read(&read, fd[0], got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    ck_assert(!read.is_done); /* poll calls done, the submit of the peer does not */
    ck_assert_int_eq(type->poll(backend, 3600000000000), 0);
    ck_assert(read.is_done);
    ck_assert_int_eq(type->now_ns(backend), before);
    backend_close_pair(fd);
}

TEST(waiting_advances_the_clock_by_exactly_the_timeout)
{
    int64_t before = type->now_ns(backend);
    type->poll(backend, 0);
    ck_assert_int_eq(type->now_ns(backend), before);
    type->poll(backend, 86400000000000);
    ck_assert_int_eq(type->now_ns(backend), before + 86400000000000);
    type->poll(backend, INT64_MAX);
    ck_assert_int_eq(type->now_ns(backend), INT64_MAX);
}

TEST(a_wake_ends_a_poll_without_advancing_the_clock)
{
    int64_t before = type->now_ns(backend);
    type->wake(backend);
    type->poll(backend, 1000000);
    ck_assert_int_eq(type->now_ns(backend), before);
}

TEST(a_switch_takes_a_microsecond)
{
    int64_t before = type->now_ns(backend);
    type->tick(backend, 64);
    ck_assert_int_eq(type->now_ns(backend), before + 64000);
}

/*
 * Draw random numbers from a separate backend with this seed. Return false if it does not shuffle.
 */
static bool draw_random(const char *seed, uint64_t random[3])
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

TEST(the_same_seed_gives_the_same_choices)
{
    uint64_t a[3], b[3], c[3];
    ck_assert(draw_random("42", a));
    ck_assert(draw_random("0x2a", b));
    ck_assert(draw_random("43", c));
    ck_assert_mem_eq(a, b, sizeof a);
    ck_assert_mem_ne(a, c, sizeof a);
    ck_assert_uint_ne(a[0], a[1]);
}

TEST(without_a_seed_the_backend_does_not_shuffle)
{
    uint64_t unused[3];
    ck_assert(!draw_random("", unused));
    ck_assert(!draw_random("banana", unused));
    ck_assert(!type->choose(backend, unused));
}

TEST(closed_numbers_are_not_reused_and_do_not_accumulate)
{
    int fd[2], open_pair[2];
    ck_assert_int_eq(type->socketpair(backend, open_pair), 0);
    int last = open_pair[1];
    for (int i = 0; i < 1000; i++) {
        ck_assert_int_eq(type->pipe(backend, fd), 0);
        ck_assert_int_gt(fd[0], last);
        last = fd[1];
        backend_close_pair(fd);
    }
    ck_assert_int_eq(write_now(open_pair[0], "x", 1), 1);
    backend_close_pair(open_pair);
}

TEST(a_small_write_is_complete_or_waits)
{
    enum { CAPACITY = 64 << 10 };
    static const char all[CAPACITY];
    int fd[2];
    char got[100];
    test_op big = {0}, small = {0};
    ck_assert_int_eq(type->pipe(backend, fd), 0);
    ck_assert_int_eq(write_now(fd[1], all, CAPACITY - 10), CAPACITY - 10);
    ck_assert(start_write(&big, fd[1], all, 11) == WEFT__OP_PENDING);
    ck_assert(start_write(&small, fd[1], all, 10) == WEFT__OP_PENDING); /* queued behind big */
    ck_assert(type->cancel(backend, &big.op));
    ck_assert_int_eq(finish_op(&small, WEFT__OP_PENDING), 10);
    ck_assert_int_eq(read_now(fd[0], got, 100), 100);
    backend_close_pair(fd);
}

TEST(the_ends_of_a_pipe_have_one_direction_and_no_connections)
{
    int fd[2];
    char byte = 0;
    test_op t = {0};
    ck_assert_int_eq(type->pipe(backend, fd), 0);
    ck_assert_int_eq(write_now(fd[0], &byte, 1), -EBADF);
    ck_assert_int_eq(read_now(fd[1], &byte, 1), -EBADF);
    ck_assert_int_eq(start_op(&t, (weft__op){.code = WEFT__OP_ACCEPT, .fd = fd[0]}), -EOPNOTSUPP);
    ck_assert_int_eq(start_op(&t, (weft__op){.code = WEFT__OP_CONNECT, .fd = fd[0]}), -EOPNOTSUPP);
    backend_close_pair(fd);
}

TEST(kernel_descriptors_use_direct_system_calls)
{
    int fd[2];
    char got[8];
    test_op t = {0};
    ck_assert_int_eq(pipe2(fd, O_NONBLOCK), 0);
    ck_assert_int_eq(start_write(&t, fd[1], "abc", 3), 3);
    ck_assert_int_eq(start_wait(&t, fd[0], POLLIN), POLLIN);
    ck_assert_int_eq(start_read(&t, fd[0], got, 8), 3);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
    ck_assert_int_eq(start_write(&t, fd[1], "abc", 3), -EPIPE);
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);
}

TEST(open_descriptors_are_freed_with_the_backend)
{
    int fd[2], half[2];
    ck_assert_int_eq(type->socketpair(backend, fd), 0);
    ck_assert_int_eq(write_now(fd[0], "abc", 3), 3);
    ck_assert_int_eq(type->pipe(backend, half), 0);
    ck_assert_int_eq(type->close_fd(backend, half[0]), 0);
}

/* Select among descriptors, alone and together with clauses on fibers and channels. */
#include "support/suite.h"
#include "sync/select_steps.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>

enum { CLAUSES_MAX = 8 };

static int p[2], q[2], s[2]; /* two pipes and a pair of sockets */
static weft_chan *chan;

FIBER(sleep_an_hour, weft_sleep(3600))

static void open_objects(void)
{
    chan = weft_chan_new(0);
    ck_assert_int_eq(weft_pipe(p), 0);
    ck_assert_int_eq(weft_pipe(q), 0);
    ck_assert_int_eq(weft_socketpair(s), 0);
}

/*
 * Assert that no operation is pending. The main fiber must not wait for an hour: only a daemon is
 * left. Some tests have closed a descriptor.
 */
static void assert_nothing_waits_then_free(void)
{
    const int all[] = {p[0], p[1], q[0], q[1], s[0], s[1]};
    ck_assert(!weft_chan_has_receivers(chan));
    ck_assert_uint_eq(ops_pending(), 0);
    weft_chan_free(chan);
    for (size_t i = 0; i < COUNT_OF(all); i++)
        (void)weft_close(all[i]);
    end_actors();
    weft_spin_options options = {.is_daemon = true};
    weft_fiber daemon = weft_spin_with(sleep_an_hour, NULL, &options);
    let_run();
    double begin = weft_now();
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert(weft_now() - begin < 3000);
    cancel_and_await(daemon);
}

FIXTURE(open_objects, assert_nothing_waits_then_free)

static weft_clause readable(int fd)
{
    return weft_clause_fd(fd, POLLIN);
}

static weft_clause writable(int fd)
{
    return weft_clause_fd(fd, POLLOUT);
}

static weft_value write_x(weft_value fd)
{
    ck_assert_int_eq(weft_write((int)fd, "x", 1), 1);
    return 0;
}

static weft_value read_x(weft_value fd)
{
    char byte;
    ck_assert_int_eq(weft_read((int)fd, &byte, 1), 1);
    ck_assert_int_eq(byte, 'x');
    return 0;
}

/* Write until the descriptor is not writable. */
static weft_value fill(weft_value fd)
{
    static const char data[4096];
    weft_clause c = writable((int)fd);
    while (weft_try_select(&c, 1) == 0)
        ck_assert_int_gt(weft_write((int)fd, data, sizeof data), 0);
    return 0;
}

/* Read all available bytes. */
static weft_value drain(weft_value fd)
{
    static char data[65536];
    weft_clause c = readable((int)fd);
    while (weft_try_select(&c, 1) == 0)
        ck_assert_int_gt(weft_read((int)fd, data, sizeof data), 0);
    return 0;
}

STEP(put, weft_chan_try_send(chan, arg))
STEP(close_fd, weft_close((int)arg))
STEP(pending, ops_pending())

TEST(a_ready_descriptor_is_chosen_without_a_switch)
{
    write_x(p[1]);
    uint64_t switches = stats().switches;
    play({M, pick, CHOSE(0, POLLIN), CLAUSES(readable(p[0]))},
         {M, pick, CHOSE(0, POLLOUT), CLAUSES(writable(p[1]))},
         {M, pick, CHOSE(0, POLLOUT), CLAUSES(weft_clause_fd(s[0], POLLIN | POLLOUT))});
    ck_assert_uint_eq(stats().switches, switches);
    play({M, pending, 0}, {M, read_x, 0, p[0]}); /* the select has read nothing */
}

TEST(a_select_waits_until_a_descriptor_is_readable_writable_or_hung_up)
{
    play({M, fill, 0, q[1]}, {A, pick, WAITS, CLAUSES(weft_clause_time(INFINITY), readable(p[0]))},
         {B, pick, WAITS, CLAUSES(weft_clause_message(), writable(q[1]))}, {M, pending, 2},
         {M, write_x, 0, p[1]}, {A, returns, CHOSE(1, POLLIN)}, {M, drain, 0, q[0]},
         {B, returns, CHOSE(1, POLLOUT)}, {M, read_x, 0, p[0]});
    selection end = {{weft_clause_never(), readable(p[0])}, 2};
    play({A, pick, WAITS, (weft_value)&end}, {M, close_fd, 0, p[1]}, {A, returns, ANY});
    ck_assert_int_eq(end.c[1].value & POLLHUP, POLLHUP);
}

TEST(an_invalid_descriptor_is_chosen_with_the_error_as_value)
{
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(file, 0);
    const weft_clause late = weft_clause_time(1000);
    play({M, close_fd, 0, p[0]}, {M, pick, CHOSE(1, -EBADF), CLAUSES(late, readable(-1))},
         {M, pick, CHOSE(1, -EBADF), CLAUSES(late, readable(p[0]))},
         {M, pick, CHOSE(1, -EBADF), CLAUSES(late, readable(12345))},
         {M, pick, CHOSE(0, -EPERM), CLAUSES(readable(file))}); /* as weft_wait_fd */
    close(file);
}

TEST(closing_the_descriptor_ends_every_select_on_it)
{
    selection j = {{weft_clause_recv(chan), readable(s[0]), readable(s[0]), readable(q[0])}, 4};
    play({A, pick, WAITS, (weft_value)&j},
         {B, pick, WAITS, CLAUSES(readable(q[0]), readable(s[0]))}, {M, close_fd, 0, s[0]},
         {B, returns, CHOSE(1, -EBADF)});
    int i = j.c[1].value == -EBADF ? 1 : 2;
    play({A, returns, CHOSE(i, -EBADF)});
    ck_assert_int_eq(j.c[3 - i].value, 0);
}

TEST(a_ready_channel_wins_over_an_idle_descriptor_without_a_switch)
{
    weft_chan *full = weft_chan_new(1);
    uint64_t switches = stats().switches;
    for (int round = 0; round < 1000; round++) {
        weft_chan_try_send(full, round);
        play({M, pick, CHOSE(1, round), CLAUSES(readable(p[0]), weft_clause_recv(full))},
             {M, pending, 0});
    }
    ck_assert_uint_eq(stats().switches, switches);
    weft_chan_free(full);
}

static weft_value send_numbers(void *arg)
{
    for (int i = 0; i < (int)(intptr_t)arg; i++)
        ck_assert_int_eq(weft_chan_send(chan, i), 0);
    return 0;
}

static size_t bytes_allocated(void)
{
    return is_sanitized() ? 0 : mallinfo2().uordblks;
}

/* Select on n descriptors that are not ready and a channel that wins. */
TEST(a_later_value_wins_over_idle_descriptors_and_leaves_no_operation_or_memory)
{
    enum { ROUNDS = 5000, PIPES = 6 };
    int idle[PIPES][2];
    for (int i = 0; i < PIPES; i++)
        ck_assert_int_eq(weft_pipe(idle[i]), 0);
    for (size_t n = 1; n <= PIPES; n += PIPES - 1) {
        weft_fiber f = weft_spin(send_numbers, as_arg(ROUNDS));
        size_t bytes = 0;
        for (int i = 0; i < ROUNDS; i++) {
            selection j = {.n = n + 1};
            for (size_t k = 0; k < n; k++)
                j.c[k] = readable(idle[k][0]);
            j.c[n] = weft_clause_recv(chan);
            play({M, pick, CHOSE((int)n, i), (weft_value)&j}, {M, pending, 0});
            if (i == ROUNDS / 10)
                bytes = bytes_allocated();
        }
        ck_assert_uint_le(bytes_allocated(), bytes);
        ck_assert_int_eq(weft_await(f), 0);
    }
    for (int i = 0; i < PIPES; i++)
        close_fd_pair(idle[i]);
}

TEST(a_descriptor_that_lost_stays_ready)
{
    selection j = {{readable(p[0]), weft_clause_recv(chan)}, 2};
    play({A, pick, WAITS, (weft_value)&j}, {M, put, 0, 7},
         {M, write_x, 0, p[1]}, /* before the kernel can have released it */
         {A, returns, CHOSE(1, 7)}, {M, pick, CHOSE(0, POLLIN), CLAUSES(readable(p[0]))},
         {M, read_x, 0, p[0]});
    ck_assert_int_eq(j.c[0].value, 0);
}

TEST(a_ready_descriptor_and_a_ready_channel_have_equal_chances)
{
    enum { ROUNDS = 10000 };
    weft_chan *full = weft_chan_new(1);
    int wins = 0;
    for (int round = 0; round < ROUNDS; round++) {
        weft_chan_try_send(full, 1);
        weft_clause c[] = {weft_clause_recv(full), writable(p[1])};
        wins += weft_select(c, 2);
    }
    ck_assert_int_ge(wins, ROUNDS / 2 * 8 / 10);
    ck_assert_int_le(wins, ROUNDS / 2 * 12 / 10);
    weft_chan_free(full);
}

TEST(of_many_descriptors_the_ready_one_is_chosen)
{
    int pipes[CLAUSES_MAX][2];
    for (int i = 0; i < CLAUSES_MAX; i++)
        ck_assert_int_eq(weft_pipe(pipes[i]), 0);
    for (int round = 0; round < 20; round++) {
        int which = round * 5 % CLAUSES_MAX;
        selection j = {.n = CLAUSES_MAX};
        for (int i = 0; i < CLAUSES_MAX; i++)
            j.c[i] = readable(pipes[i][0]);
        play({A, pick, WAITS, (weft_value)&j}, {M, pending, CLAUSES_MAX},
             {M, write_x, 0, pipes[which][1]}, {A, returns, CHOSE(which, POLLIN)},
             {M, read_x, 0, pipes[which][0]});
    }
    for (int i = 0; i < CLAUSES_MAX; i++)
        close_fd_pair(pipes[i]);
}

TEST(one_select_may_wait_for_both_directions_of_a_socket)
{
    play({M, fill, 0, s[0]}, {A, pick, WAITS, CLAUSES(readable(s[0]), writable(s[0]))},
         {M, write_x, 0, s[1]}, {A, returns, CHOSE(0, POLLIN)}, {M, read_x, 0, s[0]},
         {A, pick, WAITS, CLAUSES(readable(s[0]), writable(s[0]))}, {M, drain, 0, s[1]},
         {A, returns, CHOSE(1, POLLOUT)});
}

TEST(all_selects_on_a_descriptor_wake_when_it_is_ready)
{
    selection j[ACTORS];
    for (int i = A; i < ACTORS; i++) {
        j[i] = (selection){{weft_clause_time(1000), readable(p[0])}, 2};
        play({i, pick, WAITS, (weft_value)&j[i]});
    }
    write_x(p[1]);
    for (int i = A; i < ACTORS; i++)
        play({i, returns, CHOSE(1, POLLIN)});
}

TEST(try_select_leaves_no_operation_behind)
{
    int idle[2]; /* a pipe of the kernel on every backend */
    ck_assert_int_eq(pipe(idle), 0);
    uint64_t switches = stats().switches;
    play({M, try_pick, -EAGAIN, CLAUSES(readable(p[0]), readable(idle[0]))}, {M, pending, 0},
         {M, try_pick, CHOSE(2, POLLOUT),
          CLAUSES(readable(p[0]), readable(idle[0]), writable(idle[1]))});
    ck_assert_uint_eq(stats().switches, switches);
    close_fd_pair(idle);
}

static const struct {
    step_call *call;
    weft_value result;
} disturbances[] = {{cancel, -ECANCELED}, {raise_error, RAISED}, {interrupt, -EINTR}};

/* A clause that becomes ready afterwards has no effect. */
TEST_ROWS(an_interrupted_select_returns_after_the_kernel_has_released_its_operations, disturbances)
{
    selection j = {{readable(p[0]), weft_clause_recv(chan), readable(q[0]), weft_clause_time(1000)},
                   4};
    play({A, pick_and_sleep, WAITS, (weft_value)&j}, {M, disturbances[_i].call, 0, A},
         {M, put, -EAGAIN, 1}, {M, write_x, 0, p[1]}, {A, returns, disturbances[_i].result},
         {M, pending, 0});
    ck_assert_int_eq(j.next_result, disturbances[_i].call == cancel ? -ECANCELED : 0);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(j.c[i].value, 0);
}

/* A clause has won, and the parked fiber does not run yet. */
TEST_LOOP(an_error_raised_after_a_clause_has_won_fails_the_next_call, 2)
{
    selection j = {{readable(p[0]), weft_clause_recv(chan), readable(q[0])}, 3};
    play({A, pick_and_sleep, WAITS, (weft_value)&j}, {M, park, 0, A});
    if (_i == 1)
        play({M, put, 0, 7});
    else
        write_x(p[1]);
    play({M, run}, {M, interrupt, -EBUSY, A}, {M, raise_error, 0, A}, {M, unpark, 0, A},
         {A, returns, _i == 1 ? CHOSE(1, 7) : CHOSE(0, POLLIN)});
    ck_assert_int_eq(j.next_result, RAISED);
}

TEST(a_descriptor_may_be_closed_while_the_kernel_releases_its_operation)
{
    for (int round = 0; round < 20; round++) {
        int fd[2];
        ck_assert_int_eq(weft_socketpair(fd), 0);
        selection j = {{readable(fd[0]), weft_clause_recv(chan)}, 2};
        play({A, pick, WAITS, (weft_value)&j}, {M, put, 0, 7}, {M, close_fd, 0, fd[0]},
             {M, close_fd, 0, fd[1]}, {A, returns, CHOSE(1, 7)});
        ck_assert_int_eq(j.c[0].value, 0);
    }
}

TEST(a_descriptor_that_is_always_ready_starves_no_fiber)
{
    int count = 0;
    weft_spin(increment_int, &count);
    while (count == 0)
        play({M, pick, CHOSE(0, POLLOUT), CLAUSES(writable(p[1]))});
}

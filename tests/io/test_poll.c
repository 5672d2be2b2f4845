/*
 * weft_poll and weft_fd_forget: waits for several descriptors, and descriptors that change hands.
 */
#include "support/suite.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#define MANY 100

/* The argument of a polling fiber. */
typedef struct polling {
    struct pollfd fds[2 * MANY];
    size_t count;
    double timeout_s;
} polling;

static weft_value poll_all(void *arg)
{
    polling *p = arg;
    return weft_poll(p->fds, p->count, p->timeout_s);
}

static void open_pipe(int fd[2])
{
    ck_assert_int_eq(pipe2(fd, O_CLOEXEC), 0);
}

static void connect_pair(int fd[2])
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
}

static void put_byte(int fd)
{
    ck_assert_int_eq(write(fd, "x", 1), 1);
}

/* The read ends of `count` pipes. */
static void open_polling(polling *p, int (*pipes)[2], size_t count)
{
    *p = (polling){.count = count, .timeout_s = INFINITY};
    for (size_t i = 0; i < count; i++) {
        open_pipe(pipes[i]);
        p->fds[i] = (struct pollfd){.fd = pipes[i][0], .events = POLLIN};
    }
}

static const size_t counts[] = {1, 2, 8, 9, MANY};

TEST_ROWS(a_poll_returns_when_the_last_descriptor_is_ready, counts)
{
    static polling p;
    static int pipes[MANY][2];
    size_t n = counts[_i];
    open_polling(&p, pipes, n);
    weft_fiber f = spin_waiting(poll_all, &p);
    put_byte(pipes[n - 1][1]);
    ck_assert_int_eq(weft_await(f), 1);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(p.fds[i].revents, i + 1 == n ? POLLIN : 0);
    ck_assert_uint_eq(ops_pending(), 0);
}

TEST_ROWS(a_poll_of_ready_descriptors_reports_all_of_them, counts)
{
    static polling p;
    static int pipes[MANY][2];
    size_t n = counts[_i];
    open_polling(&p, pipes, n);
    for (size_t i = 0; i < n; i++)
        put_byte(pipes[i][1]);
    ck_assert_int_eq(weft_poll(p.fds, n, INFINITY), (int)n);
}

TEST_ROWS(a_poll_returns_0_after_its_time, counts)
{
    static polling p;
    static int pipes[MANY][2];
    open_polling(&p, pipes, counts[_i]);
    double begin = weft_now();
    ck_assert_int_eq(weft_poll(p.fds, counts[_i], 0.01), 0);
    ck_assert_slept(begin, 0.01);
    ck_assert_int_eq(weft_poll(p.fds, counts[_i], 0), 0);
}

TEST_ROWS(a_cancelled_poll_returns_the_cancellation, counts)
{
    static polling p;
    static int pipes[MANY][2];
    open_polling(&p, pipes, counts[_i]);
    ck_assert_int_eq(cancel_and_await(spin_waiting(poll_all, &p)), -ECANCELED);
    ck_assert_uint_eq(ops_pending(), 0);
}

TEST_ROWS(a_deadline_around_a_poll_is_not_its_own_time, counts)
{
    static polling p;
    static int pipes[MANY][2];
    open_polling(&p, pipes, counts[_i]);
    int rc, result = 0;
    WEFT_CANCEL_AFTER(0.01, rc) {
        result = weft_poll(p.fds, counts[_i], 60);
    }
    ck_assert_int_eq(result, -ECANCELED);
    ck_assert_int_eq(rc, -ETIMEDOUT);
}

TEST_ROWS(a_poll_leaves_no_descriptor_open, counts)
{
    static polling p;
    static int pipes[MANY][2];
    open_polling(&p, pipes, counts[_i]);
    ck_assert_int_eq(weft_poll(p.fds, counts[_i], 0.001), 0);
    int before = count_descriptors();
    ck_assert_int_eq(weft_poll(p.fds, counts[_i], 0.001), 0);
    ck_assert_int_eq(cancel_and_await(spin_waiting(poll_all, &p)), -ECANCELED);
    ck_assert_int_eq(count_descriptors(), before);
}

TEST(a_poll_without_descriptors_sleeps)
{
    double begin = weft_now();
    ck_assert_int_eq(weft_poll(NULL, 0, 0.01), 0);
    struct pollfd none[] = {{.fd = -1, .events = POLLIN}, {.fd = -7, .events = POLLOUT}};
    ck_assert_int_eq(weft_poll(none, 2, 0.01), 0);
    ck_assert_slept(begin, 0.02);
}

TEST(a_poll_ignores_negative_descriptors_among_others)
{
    int fd[2];
    open_pipe(fd);
    polling p = {.fds = {{-1, POLLIN, 99}, {fd[0], POLLIN, 0}}, .count = 2, .timeout_s = 60};
    weft_fiber f = spin_waiting(poll_all, &p);
    put_byte(fd[1]);
    ck_assert_int_eq(weft_await(f), 1);
    ck_assert_int_eq(p.fds[0].revents, 0);
    ck_assert_int_eq(p.fds[1].revents, POLLIN);
}

/* The number of further entries makes the poll use another way to wait. */
static const size_t duplicates[] = {2, 4, 12};

TEST_ROWS(a_poll_with_a_descriptor_several_times_reports_each_entry, duplicates)
{
    int fd[2];
    connect_pair(fd);
    static polling p;
    p = (polling){.count = duplicates[_i], .timeout_s = INFINITY};
    for (size_t i = 0; i < p.count; i++)
        p.fds[i] = (struct pollfd){.fd = fd[0], .events = i % 2 == 0 ? POLLIN : POLLPRI};
    weft_fiber f = spin_waiting(poll_all, &p);
    put_byte(fd[1]);
    ck_assert_int_eq(weft_await(f), (int)(p.count / 2));
    for (size_t i = 0; i < p.count; i++)
        ck_assert_int_eq(p.fds[i].revents, i % 2 == 0 ? POLLIN : 0);
}

TEST(a_poll_for_the_end_of_input_returns_when_the_peer_shuts_down)
{
    int fd[2];
    connect_pair(fd);
    polling p = {.fds = {{fd[0], POLLRDHUP, 0}}, .count = 1, .timeout_s = INFINITY};
    weft_fiber f = spin_waiting(poll_all, &p);
    put_byte(fd[1]); /* not an event for this poll */
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    ck_assert_int_eq(shutdown(fd[1], SHUT_WR), 0);
    ck_assert_int_eq(weft_await(f), 1);
    ck_assert_int_eq(p.fds[0].revents, POLLRDHUP);
}

TEST(a_poll_without_events_returns_when_the_peer_closes)
{
    int fd[2];
    connect_pair(fd);
    polling p = {.fds = {{fd[0], 0, 0}}, .count = 1, .timeout_s = INFINITY};
    weft_fiber f = spin_waiting(poll_all, &p);
    ck_assert_int_eq(weft_close(fd[1]), 0);
    ck_assert_int_eq(weft_await(f), 1);
    ck_assert_int_eq(p.fds[0].revents, POLLHUP);
}

TEST(a_regular_file_is_ready_at_once)
{
    char path[] = "/tmp/weft-poll-XXXXXX";
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    unlink(path);
    int fd[2];
    open_pipe(fd);
    struct pollfd fds[] = {{fd[0], POLLIN, 0}, {file, POLLIN | POLLOUT, 0}};
    ck_assert_int_eq(weft_poll(fds, 2, INFINITY), 1);
    ck_assert_int_eq(fds[1].revents, POLLIN | POLLOUT);
    fds[1].events = POLLPRI; /* never ready */
    ck_assert_int_eq(weft_poll(&fds[1], 1, 0.001), 0);
    ck_assert_int_eq(weft_poll(fds, 2, 0.001), 0);
}

TEST(a_number_that_is_not_open_is_reported_as_invalid)
{
    struct pollfd p = {1000, POLLIN, 0};
    ck_assert_int_eq(weft_poll(&p, 1, INFINITY), 1);
    ck_assert_int_eq(p.revents, POLLNVAL);
}

TEST(a_close_ends_the_poll_of_its_descriptor)
{
    static polling p;
    static int pipes[2][2];
    open_polling(&p, pipes, 2);
    weft_fiber f = spin_waiting(poll_all, &p);
    ck_assert_int_eq(weft_close(pipes[1][0]), 0);
    ck_assert_int_eq(weft_await(f), -EBADF);
}

TEST(a_poll_rejects_a_time_that_is_not_a_number_of_seconds)
{
    ck_assert_int_eq(weft_poll(NULL, 0, NAN), -EINVAL);
    ck_assert_any_error(-EINVAL);
    ck_assert_int_eq(weft_poll(NULL, 0, -1), -EINVAL);
}

TEST(a_forgotten_descriptor_wakes_its_waiters_and_stays_open)
{
    int fd[2];
    connect_pair(fd);
    weft_fiber reader = spin_waiting(read_byte, &fd[0]);
    polling p = {.fds = {{fd[0], POLLIN, 0}}, .count = 1, .timeout_s = INFINITY};
    weft_fiber poller = spin_waiting(poll_all, &p);
    ck_assert_int_eq(weft_fd_forget(fd[0]), 0);
    ck_assert_int_eq(weft_await(reader), -EBADF);
    ck_assert_int_eq(weft_await(poller), -EBADF);
    put_byte(fd[1]);
    char byte;
    ck_assert_int_eq(weft_read(fd[0], &byte, 1), 1);
    ck_assert_uint_eq(ops_pending(), 0);
}

TEST(a_replaced_descriptor_gets_no_data_of_the_old_file)
{
    int old[2], new[2];
    connect_pair(old);
    connect_pair(new);
    weft_fiber waits = spin_waiting(read_byte, &old[0]);
    ck_assert_int_eq(weft_fd_forget(old[0]), 0);
    ck_assert_int_eq(dup2(new[0], old[0]), old[0]);
    weft_fiber next = spin_waiting(read_byte, &old[0]);
    put_byte(new[1]);
    ck_assert_int_eq(weft_await(waits), -EBADF);
    ck_assert_int_eq(weft_await(next), 1);
}

static void *forget_in_thread(void *arg)
{
    return (void *)(intptr_t)weft_fd_forget(*(int *)arg);
}

TEST(any_thread_may_forget_a_descriptor)
{
    int fd[2];
    connect_pair(fd);
    put_byte(fd[1]);
    char byte;
    ck_assert_int_eq(weft_read(fd[0], &byte, 1), 1);
    ck_assert_ptr_null(join_thread(start_thread(forget_in_thread, &fd[0])));
    ck_assert_int_eq(weft_fd_forget(-1), -EBADF);
}

/*
 * The end of waits in hooks: cancellation, signal handlers with and without SA_RESTART, and close
 * by another fiber.
 */
#include "posix/posix_io_support.h"

#include "support/sockets.h"

#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/select.h>

FIXTURE(adopt_in_cord, NULL)

static char buffer[1 << 20];

/* Open descriptors whose first is never readable. */
static int open_empty_pipe(void)
{
    int fd[2];
    open_pipe(fd);
    return fd[0];
}

static int open_empty_socket(void)
{
    int fd[2];
    open_pair(fd, SOCK_STREAM);
    return fd[0];
}

static int open_full_pipe(void)
{
    int fd[2];
    open_pipe(fd);
    set_nonblocking(fd[1]);
    while (write(fd[1], buffer, sizeof buffer) > 0) {}
    ck_assert_int_eq(fcntl(fd[1], F_SETFL, O_WRONLY), 0);
    return fd[1];
}

static int open_full_socket(void)
{
    int fd[2];
    open_pair(fd, SOCK_STREAM);
    while (send(fd[1], buffer, sizeof buffer, MSG_DONTWAIT) > 0) {}
    return fd[1];
}

static int open_listener(void)
{
    address a = loopback_address(AF_INET);
    return listen_address(&a, 0, 1);
}

static int open_epoll(void)
{
    return epoll_create1(EPOLL_CLOEXEC);
}

/* A file that another description of it has locked. */
static int open_locked_file(void)
{
    int fd = open_temporary_file();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int other = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_eq(flock(other, LOCK_EX), 0);
    struct flock all = {.l_type = F_WRLCK};
    ck_assert_int_eq(fcntl(other, F_OFD_SETLK, &all), 0);
    return fd;
}

static ssize_t call_read(int fd)
{
    return read(fd, buffer, 1);
}

static ssize_t call_recv(int fd)
{
    return recv(fd, buffer, 1, 0);
}

static ssize_t call_recvmmsg(int fd)
{
    struct iovec piece = {buffer, 1};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &piece, .msg_iovlen = 1}};
    return recvmmsg(fd, &message, 1, 0, NULL);
}

static ssize_t call_write(int fd)
{
    return write(fd, buffer, 1);
}

static ssize_t call_send(int fd)
{
    return send(fd, buffer, 1, 0);
}

static ssize_t call_accept(int fd)
{
    return accept(fd, NULL, NULL);
}

static ssize_t call_poll(int fd)
{
    return poll(&(struct pollfd){fd, POLLIN, 0}, 1, -1);
}

static ssize_t call_select(int fd)
{
    fd_set reads;
    FD_ZERO(&reads);
    FD_SET(fd, &reads);
    return select(fd + 1, &reads, NULL, NULL, NULL);
}

static ssize_t call_epoll(int fd)
{
    struct epoll_event event;
    return epoll_wait(fd, &event, 1, -1);
}

static ssize_t call_flock(int fd)
{
    return flock(fd, LOCK_EX);
}

static ssize_t call_ofd_lock(int fd)
{
    struct flock all = {.l_type = F_WRLCK};
    return fcntl(fd, F_OFD_SETLKW, &all);
}

static ssize_t call_nanosleep(int fd)
{
    return nanosleep(&(struct timespec){.tv_sec = 1000}, NULL);
}

static ssize_t call_usleep(int fd)
{
    return usleep(900000000);
}

static ssize_t call_clock_nanosleep(int fd)
{
    errno = clock_nanosleep(CLOCK_REALTIME, 0, &(struct timespec){.tv_sec = 1000}, NULL);
    return errno != 0 ? -1 : 0;
}

/* A wait that never ends by itself. */
typedef struct endless {
    int (*open)(void);
    ssize_t (*call)(int fd);
    bool never_restarts; /* a handler with SA_RESTART ends the wait, too */
    bool is_sleep;       /* has no descriptor */
} endless;

static const endless waits[] = {
    {open_empty_pipe, call_read},
    {open_empty_socket, call_read},
    {open_empty_socket, call_recv},
    {open_empty_socket, call_recvmmsg},
    {open_full_pipe, call_write},
    {open_full_socket, call_write},
    {open_full_socket, call_send},
    {open_listener, call_accept},
    {open_empty_pipe, call_poll, .never_restarts = true},
    {open_empty_pipe, call_select, .never_restarts = true},
    {open_epoll, call_epoll, .never_restarts = true},
    {open_locked_file, call_flock},
    {open_locked_file, call_ofd_lock},
    {open_empty_pipe, call_nanosleep, .never_restarts = true, .is_sleep = true},
    {open_empty_pipe, call_usleep, .never_restarts = true, .is_sleep = true},
    {open_empty_pipe, call_clock_nanosleep, .never_restarts = true, .is_sleep = true},
};

typedef struct running {
    const endless *wait;
    int fd;
} running;

static weft_value run_wait(void *arg)
{
    const running *r = arg;
    return result_of(r->wait->call(r->fd));
}

TEST_ROWS(a_cancellation_gives_ECANCELED, waits)
{
    running r = {&waits[_i], waits[_i].open()};
    ck_assert_int_eq(cancelled_result(run_wait, &r), -ECANCELED);
}

TEST_ROWS(a_deadline_gives_ECANCELED_and_the_scope_times_out, waits)
{
    running r = {&waits[_i], waits[_i].open()};
    weft_value result = 0;
    int rc;
    WEFT_CANCEL_AFTER(0.01, rc) {
        result = run_wait(&r);
    }
    ck_assert_int_eq(result, -ECANCELED);
    ck_assert_int_eq(rc, -ETIMEDOUT);
}

TEST_ROWS(a_cancelled_fiber_does_not_wait, waits)
{
    running r = {&waits[_i], waits[_i].open()};
    weft_scope scope;
    ck_assert_int_eq(weft_scope_open(&scope, INFINITY), 0);
    ck_assert_int_eq(weft_scope_cancel(&scope), 0);
    ck_assert_int_eq(run_wait(&r), -ECANCELED);
    ck_assert_int_eq(weft_scope_close(&scope), 0);
}

TEST_ROWS(a_raised_error_is_the_error_of_the_wait, waits)
{
    running r = {&waits[_i], waits[_i].open()};
    weft_fiber f = spin_waiting(run_wait, &r);
    ck_assert_int_eq(weft_raise(f, -ENOTTY, "raised"), 0);
    ck_assert_int_eq(weft_await(f), -ENOTTY);
}

TEST_ROWS(a_handler_without_SA_RESTART_gives_EINTR, waits)
{
    running r = {&waits[_i], waits[_i].open()};
    handle_signal(SIGUSR1, 0);
    weft_fiber f = spin_waiting(run_wait, &r);
    ck_assert_int_eq(pthread_kill(pthread_self(), SIGUSR1), 0);
    ck_assert_int_eq(weft_await(f), -EINTR);
    ck_assert_int_eq(signals_seen, 1);
}

TEST_ROWS(a_handler_with_SA_RESTART_ends_only_some_waits, waits)
{
    running r = {&waits[_i], waits[_i].open()};
    handle_signal(SIGUSR1, SA_RESTART);
    weft_fiber f = spin_waiting(run_wait, &r);
    weft_fiber sleeper = spin_waiting(run_wait, &(running){&waits[COUNT_OF(waits) - 1], -1});
    ck_assert_int_eq(pthread_kill(pthread_self(), SIGUSR1), 0);
    ck_assert_int_eq(weft_await(sleeper), -EINTR); /* the handler's effect has arrived */
    let_run();
    if (waits[_i].never_restarts) {
        ck_assert_int_eq(weft_await(f), -EINTR);
    } else {
        ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
        cancel_and_await(f);
    }
}

TEST_ROWS(a_close_by_another_fiber_gives_EBADF, waits)
{
    if (waits[_i].is_sleep)
        return;
    running r = {&waits[_i], waits[_i].open()};
    weft_fiber f = spin_waiting(run_wait, &r);
    ck_assert_int_eq(close(r.fd), 0);
    ck_assert_int_eq(weft_await(f), -EBADF);
}

TEST_ROWS(a_number_that_is_used_again_gives_nothing_to_the_old_wait, waits)
{
    if (waits[_i].is_sleep)
        return;
    running r = {&waits[_i], waits[_i].open()};
    weft_fiber f = spin_waiting(run_wait, &r);
    int fd[2];
    open_pair(fd, SOCK_STREAM);
    ck_assert_int_eq(send(fd[1], "data", 4, 0), 4);
    ck_assert_int_eq(dup2(fd[0], r.fd), r.fd);
    ck_assert_int_eq(weft_await(f), -EBADF);
    char text[8] = "";
    ck_assert_int_eq(recv(r.fd, text, sizeof text, 0), 4);
    ck_assert_str_eq(text, "data");
}

/* Tests of connections: connect, accept, shutdown, and the wake-ups when a side closes. */
#include "support/sockets.h"
#include "support/suite.h"

TEST_LOOP(a_shutdown_wakes_a_receiver_on_either_side, COUNT_OF(blocking_modes))
{
    const int mode = blocking_modes[_i];
    for (int kind = 0; kind < KINDS; kind++) {
        for (int side = 0; side < 2; side++) {
            int fd[2];
            receiving r;
            if (!connect_sockets(fd, kind, mode))
                continue;
            weft_fiber f = spin_receiver(&r, fd[0], 4, 0);
            ck_assert_int_eq(weft_shutdown(fd[side], side == 0 ? SHUT_RD : SHUT_WR), 0);
            ck_assert_int_eq(weft_await(f), 0);
            close_idle_fd_pair(fd);
        }
    }
    ck_assert_int_eq(weft_shutdown(-1, SHUT_RD), -EBADF);
}

TEST_LOOP(sending_to_a_closed_peer_is_an_error_without_a_signal, COUNT_OF(blocking_modes))
{
    const int mode = blocking_modes[_i];
    int fd[2];
    unix_pair(fd, SOCK_STREAM, mode);
    ck_assert_int_eq(weft_close(fd[1]), 0);
    fd_message p = {.byte = 'x'};
    fd_message_wrap(&p)->msg_controllen = 0;
    ck_assert_int_eq(weft_send(fd[0], "x", 1, 0), -EPIPE);
    ck_assert_int_eq(weft_sendmsg(fd[0], &p.header, 0), -EPIPE);
    ck_assert_int_eq(weft_sendto(fd[0], "x", 1, 0, NULL, 0), -EPIPE);
    ck_assert_int_eq(weft_write(fd[0], "x", 1), -EPIPE);
    ck_assert_int_eq(weft_writev(fd[0], &(struct iovec){"x", 1}, 1), -EPIPE);
    ck_assert_int_eq(weft_close(fd[0]), 0);
    connect_sockets(fd, TCP4, mode);
    ck_assert_int_eq(weft_shutdown(fd[0], SHUT_WR), 0);
    ck_assert_int_eq(weft_send(fd[0], "x", 1, 0), -EPIPE);
    close_idle_fd_pair(fd);
}

/* T95 */
TEST_LOOP(a_connect_fails_as_the_system_call_does, COUNT_OF(blocking_modes))
{
    const int mode = blocking_modes[_i];
    static const int families[] = {AF_INET, AF_INET6};
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        address a = loopback_address(families[i]);
        int listener = listen_address(&a, mode, 1);
        if (listener < 0)
            continue;
        ck_assert_int_eq(weft_close(listener), 0);
        int fd = new_stream_socket(families[i], mode);
        ck_assert_int_eq(weft_connect(fd, sockaddr_of(&a), a.bytes), -ECONNREFUSED);
        ck_assert_int_eq(weft_connect(fd, sockaddr_of(&a), 1), -EINVAL);
        assert_blocking_mode(fd, mode);
        ck_assert_int_eq(weft_close(fd), 0);
    }
    address a = abstract_address(3);
    int fd = new_stream_socket(AF_UNIX, mode);
    ck_assert_int_eq(weft_connect(fd, sockaddr_of(&a), a.bytes), -ECONNREFUSED);
    ck_assert_int_eq(weft_accept(fd, NULL, NULL), -EINVAL);
    ck_assert_int_eq(weft_close(fd), 0);
    ck_assert_int_eq(weft_connect(-1, sockaddr_of(&a), a.bytes), -EBADF);
    ck_assert_int_eq(weft_accept(-1, NULL, NULL), -EBADF);
    int pipe_fd[2];
    ck_assert_int_eq(weft_pipe(pipe_fd), 0);
    ck_assert_int_eq(weft_accept(pipe_fd[0], NULL, NULL), -ENOTSOCK);
}

typedef struct connect_target {
    int fd;
    address to;
} connect_target;

static weft_value connect_to_target(void *arg)
{
    connect_target *c = arg;
    return weft_connect(c->fd, sockaddr_of(&c->to), c->to.bytes);
}

TEST_LOOP(a_connect_waits_for_room_in_the_backlog_of_a_unix_listener, COUNT_OF(blocking_modes))
{
    const int mode = blocking_modes[_i];
    connect_target c = {.to = abstract_address(4)};
    int listener = listen_address(&c.to, mode, 0), first = new_stream_socket(AF_UNIX, mode);
    ck_assert_int_eq(weft_connect(first, sockaddr_of(&c.to), c.to.bytes), 0);
    c.fd = new_stream_socket(AF_UNIX, mode);
    WEFT_MOVE_ON_AFTER(0.003)
        ck_assert_int_eq(connect_to_target(&c), -ECANCELED);
    ck_assert_uint_eq(ops_pending(), 0);
    weft_fiber f = spin_waiting(connect_to_target, &c);
    ck_assert_int_eq(weft_close(weft_accept(listener, NULL, NULL)), 0);
    ck_assert_int_eq(weft_await(f), 0);
    assert_blocking_mode(c.fd, mode);
    int fd[2] = {c.fd, weft_accept(listener, NULL, NULL)};
    ck_assert_int_eq(weft_send(c.fd, "x", 1, 0), 1);
    close_idle_fd_pair(fd);
}

/* P63. A full backlog drops the SYN, and the kernel retries after 1 s. */
TEST(a_cancelled_connect_can_be_repeated)
{
    connect_target c[COUNT_OF(blocking_modes)];
    int listener[COUNT_OF(blocking_modes)], first[COUNT_OF(blocking_modes)];
    weft_fiber f[COUNT_OF(blocking_modes)];
    for (size_t i = 0; i < COUNT_OF(blocking_modes); i++) {
        c[i].to = loopback_address(AF_INET);
        listener[i] = listen_address(&c[i].to, blocking_modes[i], 0);
        first[i] = new_stream_socket(AF_INET, blocking_modes[i]);
        ck_assert_int_eq(weft_connect(first[i], sockaddr_of(&c[i].to), c[i].to.bytes), 0);
        c[i].fd = new_stream_socket(AF_INET, blocking_modes[i]);
        WEFT_MOVE_ON_AFTER(0.002)
            ck_assert_int_eq(connect_to_target(&c[i]), -ECANCELED);
        assert_blocking_mode(c[i].fd, blocking_modes[i]);
        f[i] = weft_spin(connect_to_target, &c[i]);
        let_run();
        ck_assert_int_eq(weft_state_of(f[i]), WEFT_WAITING);
        ck_assert_int_eq(weft_close(weft_accept(listener[i], NULL, NULL)), 0);
    }
    for (size_t i = 0; i < COUNT_OF(blocking_modes); i++) {
        ck_assert_int_eq(weft_await(f[i]), 0);
        int fd[2] = {c[i].fd, weft_accept(listener[i], NULL, NULL)};
        ck_assert_int_eq(weft_send(fd[0], "x", 1, 0), 1);
        weft_close(fd[0]);
        weft_close(fd[1]);
        weft_close(first[i]);
        weft_close(listener[i]);
    }
    ck_assert_uint_eq(ops_pending(), 0);
}

FIBER(accept_conn, weft_accept(*(int *)arg, NULL, NULL))

/* P61, for connections */
TEST_LOOP(a_cancelled_accept_loses_no_connection, COUNT_OF(blocking_modes))
{
    const int mode = blocking_modes[_i];
    address a = loopback_address(AF_INET);
    int listener = listen_address(&a, mode, 64), connected = 0, accepted = 0;
    for (int i = 0; i < 50; i++) {
        weft_fiber f = weft_spin(accept_conn, &listener);
        let_run();
        int fd = -1;
        if (i % 3 > 0) {
            fd = new_stream_socket(AF_INET, mode);
            ck_assert_int_eq(weft_connect(fd, sockaddr_of(&a), a.bytes), 0);
            connected++;
        }
        weft_interrupt(f, -ECANCELED);
        int got = (int)weft_await(f);
        if (got >= 0) {
            accepted++;
            weft_close(got);
        }
        if (fd >= 0)
            weft_close(fd);
    }
    /* the remaining connections can still be accepted, although their peers have closed */
    for (; accepted < connected; accepted++)
        ck_assert_int_eq(weft_close(weft_accept(listener, NULL, NULL)), 0);
    ck_assert_uint_eq(ops_pending(), 0);
}

typedef struct timed_receive {
    receiving r;
    double limit_s;
} timed_receive;

static weft_value receive_with_deadline(void *arg)
{
    timed_receive *t = arg;
    int rc = 0;
    ssize_t n = 0;
    WEFT_CANCEL_AFTER(t->limit_s, rc)
        n = receive(&t->r);
    return n == -ECANCELED ? rc : n;
}

/* T97 */
TEST_LOOP(two_receivers_of_one_descriptor_have_independent_deadlines, COUNT_OF(blocking_modes))
{
    const int mode = blocking_modes[_i];
    /* the receiver with the deadline: first, second */
    for (int shorter = 0; shorter < 2; shorter++) {
        int fd[2];
        timed_receive t[2];
        weft_fiber f[2];
        unix_pair(fd, SOCK_STREAM, mode);
        for (int i = 0; i < 2; i++) {
            t[i] = (timed_receive){.r = {.fd = fd[0], .bytes = 4}};
            t[i].limit_s = i == shorter ? 0.002 : INFINITY;
            f[i] = weft_spin(receive_with_deadline, &t[i]);
        }
        ck_assert_int_eq(weft_await(f[shorter]), -ETIMEDOUT);
        ck_assert_int_eq(weft_state_of(f[!shorter]), WEFT_WAITING);
        ck_assert_int_eq(weft_send(fd[1], "data", 4, 0), 4);
        ck_assert_int_eq(weft_await(f[!shorter]), 4);
        ck_assert_mem_eq(t[!shorter].r.data, "data", 4);
        close_idle_fd_pair(fd);
    }
}

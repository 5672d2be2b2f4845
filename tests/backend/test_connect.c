/* Connections: how they are made, how one side learns that the other goes, and who is woken. */
#include "sockets.h"

START_TEST(a_shutdown_wakes_who_receives_on_either_side)
{
    for (const int *mode = modes; mode < modes + COUNT_OF(modes); mode++) {
        for (int kind = 0; kind < KINDS; kind++) {
            for (int side = 0; side < 2; side++) {
                int fd[2];
                receiving r;
                if (!connected(fd, kind, *mode))
                    continue;
                weft_fiber f = spin_receiver(&r, fd[0], 4, 0);
                ck_assert_int_eq(weft_shutdown(fd[side], side == 0 ? SHUT_RD : SHUT_WR), 0);
                ck_assert_int_eq(weft_await(f), 0);
                close_both(fd);
            }
        }
    }
    ck_assert_int_eq(weft_shutdown(-1, SHUT_RD), -EBADF);
}
END_TEST

START_TEST(sending_to_one_who_is_gone_is_an_error_and_no_signal)
{
    for (const int *mode = modes; mode < modes + COUNT_OF(modes); mode++) {
        int fd[2];
        unix_pair(fd, SOCK_STREAM, *mode);
        ck_assert_int_eq(weft_close(fd[1]), 0);
        parcel p = {.byte = 'x'};
        wrap(&p)->msg_controllen = 0;
        ck_assert_int_eq(weft_send(fd[0], "x", 1, 0), -EPIPE);
        ck_assert_int_eq(weft_sendmsg(fd[0], &p.header, 0), -EPIPE);
        ck_assert_int_eq(weft_sendto(fd[0], "x", 1, 0, NULL, 0), -EPIPE);
        ck_assert_int_eq(weft_write(fd[0], "x", 1), -EPIPE);
        ck_assert_int_eq(weft_writev(fd[0], &(struct iovec){"x", 1}, 1), -EPIPE);
        ck_assert_int_eq(weft_close(fd[0]), 0);
        connected(fd, TCP4, *mode);
        ck_assert_int_eq(weft_shutdown(fd[0], SHUT_WR), 0);
        ck_assert_int_eq(weft_send(fd[0], "x", 1, 0), -EPIPE);
        close_both(fd);
    }
}
END_TEST

static weft_value send_much(void *arg)
{
    static char data[4096];
    ssize_t n;
    while ((n = weft_send(*(int *)arg, data, sizeof data, 0)) > 0)
        continue;
    return n;
}

START_TEST(one_who_waits_to_send_is_told_when_the_other_goes)
{
    for (const int *mode = modes; mode < modes + COUNT_OF(modes); mode++) {
        int fd[2];
        unix_pair(fd, SOCK_STREAM, *mode);
        weft_fiber f = weft_spin(send_much, &fd[0]);
        let_run();
        ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
        ck_assert_int_eq(weft_close(fd[1]), 0);
        weft_value rc = weft_await(f); /* of what was not read, the first call tells */
        ck_assert(rc == -EPIPE || rc == -ECONNRESET);
        ck_assert_int_eq(weft_close(fd[0]), 0);
    }
}
END_TEST

/* T95 */
START_TEST(a_connect_fails_as_the_system_call_does)
{
    for (const int *mode = modes; mode < modes + COUNT_OF(modes); mode++) {
        static const int families[] = {AF_INET, AF_INET6};
        for (size_t i = 0; i < COUNT_OF(families); i++) {
            address a = loopback(families[i]);
            int listener = listening(&a, *mode, 1);
            if (listener < 0)
                continue;
            ck_assert_int_eq(weft_close(listener), 0);
            int fd = unconnected(families[i], *mode);
            ck_assert_int_eq(weft_connect(fd, raw(&a), a.bytes), -ECONNREFUSED);
            ck_assert_int_eq(weft_connect(fd, raw(&a), 1), -EINVAL);
            assert_mode(fd, *mode);
            ck_assert_int_eq(weft_close(fd), 0);
        }
        address a = abstract(3);
        int fd = unconnected(AF_UNIX, *mode);
        ck_assert_int_eq(weft_connect(fd, raw(&a), a.bytes), -ECONNREFUSED);
        ck_assert_int_eq(weft_accept(fd, NULL, NULL), -EINVAL);
        ck_assert_int_eq(weft_close(fd), 0);
        ck_assert_int_eq(weft_connect(-1, raw(&a), a.bytes), -EBADF);
        ck_assert_int_eq(weft_accept(-1, NULL, NULL), -EBADF);
    }
}
END_TEST

typedef struct connecting {
    int fd;
    address to;
} connecting;

static weft_value connect_there(void *arg)
{
    connecting *c = arg;
    return weft_connect(c->fd, raw(&c->to), c->to.bytes);
}

START_TEST(a_connect_waits_for_room_in_the_backlog_of_a_unix_listener)
{
    for (const int *mode = modes; mode < modes + COUNT_OF(modes); mode++) {
        connecting c = {.to = abstract(4)};
        int listener = listening(&c.to, *mode, 0), first = unconnected(AF_UNIX, *mode);
        ck_assert_int_eq(weft_connect(first, raw(&c.to), c.to.bytes), 0);
        c.fd = unconnected(AF_UNIX, *mode);
        WEFT_MOVE_ON_AFTER(0.003) {
            ck_assert_int_eq(connect_there(&c), -ECANCELED);
        }
        ck_assert_uint_eq(ops_pending(), 0);
        weft_fiber f = weft_spin(connect_there, &c);
        let_run();
        ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
        ck_assert_int_eq(weft_close(weft_accept(listener, NULL, NULL)), 0);
        ck_assert_int_eq(weft_await(f), 0);
        assert_mode(c.fd, *mode);
        int fd[2] = {c.fd, weft_accept(listener, NULL, NULL)};
        ck_assert_int_eq(weft_send(c.fd, "x", 1, 0), 1);
        close_both(fd);
        weft_close(first);
        weft_close(listener);
    }
}
END_TEST

/* P63. The full backlog drops what comes; the kernel asks again after a second. */
START_TEST(a_connect_that_was_cancelled_can_be_made_again)
{
    connecting c[COUNT_OF(modes)];
    int listener[COUNT_OF(modes)], first[COUNT_OF(modes)];
    weft_fiber f[COUNT_OF(modes)];
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        c[i].to = loopback(AF_INET);
        listener[i] = listening(&c[i].to, modes[i], 0);
        first[i] = unconnected(AF_INET, modes[i]);
        ck_assert_int_eq(weft_connect(first[i], raw(&c[i].to), c[i].to.bytes), 0);
        c[i].fd = unconnected(AF_INET, modes[i]);
        WEFT_MOVE_ON_AFTER(0.002) {
            ck_assert_int_eq(connect_there(&c[i]), -ECANCELED);
        }
        assert_mode(c[i].fd, modes[i]);
        f[i] = weft_spin(connect_there, &c[i]);
        let_run();
        ck_assert_int_eq(weft_state_of(f[i]), WEFT_WAITING);
        ck_assert_int_eq(weft_close(weft_accept(listener[i], NULL, NULL)), 0);
    }
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
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
END_TEST

static weft_value accept_one(void *arg)
{
    return weft_accept(*(int *)arg, NULL, NULL);
}

/* P61: for connections */
START_TEST(a_cancelled_accept_loses_no_connection)
{
    for (const int *mode = modes; mode < modes + COUNT_OF(modes); mode++) {
        address a = loopback(AF_INET);
        int listener = listening(&a, *mode, 64), given = 0, taken = 0;
        for (int i = 0; i < 50; i++) {
            weft_fiber f = weft_spin(accept_one, &listener);
            let_run();
            int fd = -1;
            if (i % 3 > 0) {
                fd = unconnected(AF_INET, *mode);
                ck_assert_int_eq(weft_connect(fd, raw(&a), a.bytes), 0);
                given++;
            }
            weft_interrupt(f, -ECANCELED);
            int got = (int)weft_await(f);
            if (got >= 0) {
                taken++;
                weft_close(got);
            }
            if (fd >= 0)
                weft_close(fd);
        }
        for (; taken < given; taken++) /* the rest is still there, though the others have left */
            ck_assert_int_eq(weft_close(weft_accept(listener, NULL, NULL)), 0);
        ck_assert_uint_eq(ops_pending(), 0);
        weft_close(listener);
    }
}
END_TEST

typedef struct timed {
    receiving r;
    double limit_s;
} timed;

static weft_value receive_in_time(void *arg)
{
    timed *t = arg;
    int rc = 0;
    ssize_t n = 0;
    WEFT_CANCEL_AFTER(t->limit_s, rc) {
        n = receive(&t->r);
    }
    return n == -ECANCELED ? rc : n;
}

/* T97 */
START_TEST(of_two_who_wait_on_one_descriptor_each_has_its_own_deadline)
{
    for (const int *mode = modes; mode < modes + COUNT_OF(modes); mode++) {
        for (int shorter = 0; shorter < 2; shorter++) { /* who gives up: the first, the second */
            int fd[2];
            timed t[2];
            weft_fiber f[2];
            unix_pair(fd, SOCK_STREAM, *mode);
            for (int i = 0; i < 2; i++) {
                t[i] = (timed){.r = {.fd = fd[0], .bytes = 4}};
                t[i].limit_s = i == shorter ? 0.002 : INFINITY;
                f[i] = weft_spin(receive_in_time, &t[i]);
            }
            ck_assert_int_eq(weft_await(f[shorter]), -ETIMEDOUT);
            ck_assert_int_eq(weft_state_of(f[!shorter]), WEFT_WAITING);
            ck_assert_int_eq(weft_send(fd[1], "data", 4, 0), 4);
            ck_assert_int_eq(weft_await(f[!shorter]), 4);
            ck_assert_mem_eq(t[!shorter].r.data, "data", 4);
            close_both(fd);
        }
    }
}
END_TEST

static weft_value receive_message(void *arg)
{
    parcel *p = arg;
    return weft_recvmsg(p->fd, wrap(p), 0);
}

/* T98 */
START_TEST(closing_a_socket_wakes_all_who_wait_on_it)
{
    for (const int *mode = modes; mode < modes + COUNT_OF(modes); mode++) {
        int fd[2];
        unix_pair(fd, SOCK_STREAM, *mode);
        receiving r, all;
        parcel p = {.fd = fd[0]};
        weft_fiber f[] = {spin_receiver(&r, fd[0], 4, 0), weft_spin(receive_message, &p),
                          weft_spin(send_much, &fd[0]), spin_receiver(&all, fd[0], 4, MSG_WAITALL)};
        let_run();
        ck_assert_uint_eq(ops_pending(), COUNT_OF(f));
        ck_assert_int_eq(weft_close(fd[0]), 0);
        WEFT_SHIELD(INFINITY) { /* one that fails before its turn to be awaited is no matter */
            for (size_t i = 0; i < COUNT_OF(f); i++)
                ck_assert_int_eq(weft_await(f[i]), -EBADF);
        }
        ck_assert_int_eq(weft_close(fd[1]), 0);
        address a = loopback(AF_INET);
        int listener = listening(&a, *mode, 1);
        weft_fiber server = weft_spin(accept_one, &listener);
        let_run();
        ck_assert_int_eq(weft_close(listener), 0);
        ck_assert_int_eq(weft_await(server), -EBADF);
        ck_assert_uint_eq(ops_pending(), 0);
    }
}
END_TEST

static const TTest *const *const tests[] = {
    &a_shutdown_wakes_who_receives_on_either_side,
    &sending_to_one_who_is_gone_is_an_error_and_no_signal,
    &one_who_waits_to_send_is_told_when_the_other_goes,
    &a_connect_fails_as_the_system_call_does,
    &a_connect_waits_for_room_in_the_backlog_of_a_unix_listener,
    &a_connect_that_was_cancelled_can_be_made_again,
    &a_cancelled_accept_loses_no_connection,
    &of_two_who_wait_on_one_descriptor_each_has_its_own_deadline,
    &closing_a_socket_wakes_all_who_wait_on_it,
};

int main(void)
{
    return run_suite("connect", tests, COUNT_OF(tests));
}

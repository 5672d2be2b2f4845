/*
 * Tests of callbacks that use the descriptor of their accept or receive loop, and of interrupted
 * loops.
 */
#include "support/net_support.h"
#include "support/suite.h"

#define STOP_LOOP (-EXFULL)

/* A loop in its own fiber. */
typedef struct loop {
    int fd;
    weft_on_data *on_data;
    weft_on_conn *on_conn; /* NULL: a receive loop */
    char got[64];
    ssize_t inner; /* the result of a call in the callback */
    int rc;
} loop;

static weft_value run_loop(void *arg)
{
    loop *l = arg;
    l->rc = l->on_conn != NULL ? weft_accept_loop(l->fd, l->on_conn, l)
                               : weft_recv_loop(l->fd, l->on_data, l);
    return 0;
}

static weft_fiber spin_loop(loop *l)
{
    return spin_waiting(run_loop, l);
}

static int read_more(const void *data, size_t bytes, void *ctx)
{
    loop *l = ctx;
    memcpy(l->got, data, bytes);
    l->inner = weft_read(l->fd, l->got + bytes, sizeof l->got - bytes);
    return STOP_LOOP;
}

TEST(a_callback_may_read_from_the_descriptor)
{
    int fd[2];
    tcp_pair(fd);
    loop l = {.fd = fd[0], .on_data = read_more};
    weft_fiber f = spin_loop(&l);
    ck_assert_int_eq(write(fd[1], "head", 4), 4);
    let_run();
    ck_assert_int_eq(write(fd[1], "body", 4), 4);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(l.rc, STOP_LOOP);
    ck_assert_int_eq(l.inner, 4);
    ck_assert_mem_eq(l.got, "headbody", 8);
}

static int stop_when_scheduled(const void *data, size_t bytes, void *ctx)
{
    (void)data, (void)bytes, (void)ctx;
    weft_suspend();
    return STOP_LOOP;
}

TEST(an_error_of_the_connection_is_reported_after_the_loop)
{
    int fd[2];
    char byte;
    tcp_pair(fd);
    loop l = {.fd = fd[0], .on_data = stop_when_scheduled};
    weft_fiber f = spin_loop(&l);
    ck_assert_int_eq(write(fd[1], "data", 4), 4);
    let_run();
    struct linger at_once = {1, 0};
    ck_assert_int_eq(setsockopt(fd[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    ck_assert_int_eq(weft_close(fd[1]), 0);
    let_run();
    ck_assert_int_eq(weft_schedule(f, 0), 0);
    weft_await(f);
    ck_assert_int_eq(l.rc, STOP_LOOP);
    ck_assert_int_eq(weft_read(fd[0], &byte, 1), -ECONNRESET);
}

static int refuse_buffers(const void *data, size_t bytes, void *ctx)
{
    (void)data, (void)bytes, (void)ctx;
    return -ENOBUFS;
}

static int abort_on_conn(int fd, void *ctx)
{
    (void)fd, (void)ctx;
    ck_abort_msg("unexpected connection");
}

typedef struct conn_pairs {
    int listener;
    int count;
} conn_pairs;

/* Accept a second connection for each connection of the loop. */
static int accept_another(int fd, void *ctx)
{
    conn_pairs *p = ctx;
    int second = weft_accept(p->listener, NULL, NULL);
    ck_assert_int_ge(second, 0);
    ck_assert_int_eq(weft_close(fd), 0);
    ck_assert_int_eq(weft_close(second), 0);
    return ++p->count < 3 ? 0 : STOP_LOOP;
}

static weft_value accept_in_pairs(void *arg)
{
    conn_pairs *p = arg;
    return weft_accept_loop(p->listener, accept_another, p);
}

TEST(a_callback_may_accept_and_the_loop_continues)
{
    endpoint at;
    conn_pairs p = {.listener = listen_tcp(&at, 16)};
    weft_fiber f = weft_spin(accept_in_pairs, &p);
    int fd[6];
    for (int i = 0; i < 6; i++) {
        let_run();
        fd[i] = socket_for(&at);
        ck_assert_int_eq(connect(fd[i], &at.u.any, at.bytes), 0);
    }
    ck_assert_int_eq(weft_await(f), STOP_LOOP);
    ck_assert_int_eq(p.count, 3);
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(close(fd[i]), 0);
}

/* An accept loop ignores some of these errors if the listener reports them. */
TEST(an_error_raised_in_an_accept_loop_ends_it_whatever_its_code)
{
    static const int codes[] = {-EPROTO, -ECONNABORTED, -EMFILE, -ENOMEM, -EIO};
    endpoint p;
    int listener = listen_tcp(&p, 4);
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        loop l = {.fd = listener, .on_conn = abort_on_conn};
        weft_fiber f = spin_loop(&l);
        ck_assert_int_eq(weft_raise(f, codes[i], "raised"), 0);
        weft_await(f);
        ck_assert_int_eq(l.rc, codes[i]);
    }
}

TEST(an_interrupted_loop_returns_the_value)
{
    endpoint p;
    int listener = listen_tcp(&p, 4), fd[2];
    tcp_pair(fd);
    loop accepts = {.fd = listener, .on_conn = abort_on_conn};
    loop receives = {.fd = fd[0], .on_data = refuse_buffers};
    weft_fiber f = spin_loop(&accepts), g = spin_loop(&receives);
    ck_assert_int_eq(weft_interrupt(f, -EINTR), 0);
    ck_assert_int_eq(weft_interrupt(g, -EPROTO), 0);
    weft_await(f);
    weft_await(g);
    ck_assert_int_eq(accepts.rc, -EINTR);
    ck_assert_int_eq(receives.rc, -EPROTO);
    assert_nothing_pending();
}

/* There is no timer, so a lost completion would make the cord wait indefinitely. */
TEST(more_operations_than_one_submission_holds_leave_no_fiber_waiting)
{
    enum { READERS = 600 };
    for (int round = 0; round < 3; round++) {
        int fd[2];
        weft_fiber f[READERS];
        loop l[READERS];
        ck_assert_int_eq(weft_pipe(fd), 0);
        for (int i = 0; i < READERS; i++) {
            l[i] = (loop){.fd = fd[0], .on_data = refuse_buffers};
            f[i] = weft_spin(run_loop, &l[i]);
        }
        for (int i = 0; i < READERS; i++)
            ck_assert_int_eq(weft_write(fd[1], "x", 1), 1);
        for (int i = 0; i < READERS; i++)
            weft_cancel(f[i]);
        for (int i = 0; i < READERS; i++)
            weft_await(f[i]);
        close_fd_pair(fd);
    }
}

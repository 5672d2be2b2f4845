/* Select among descriptors, alone and together with clauses on fibers and channels. */
#include "support/suite.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>

enum { CLAUSES_MAX = 8 };

/* The arguments of weft_select in a fiber, which returns its result. */
typedef struct select_call {
    weft_clause c[CLAUSES_MAX];
    size_t n;
    int next_result; /* result of the next blocking call */
} select_call;

static weft_value run_select(void *arg)
{
    select_call *j = arg;
    int rc = weft_select(j->c, j->n);
    j->next_result = weft_sleep(0);
    return rc;
}

/* Spin a fiber that waits in this select. */
static weft_fiber spin_select(select_call *j)
{
    weft_fiber f = weft_spin(run_select, j);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    return f;
}

static uint64_t count_switches(void)
{
    weft_counters counters;
    weft_stats(&counters);
    return counters.switches;
}

static weft_value sleep_an_hour(void *arg)
{
    (void)arg;
    return weft_sleep(3600);
}

/*
 * Assert that no operation is pending. The main fiber must not wait for an hour: only a daemon is
 * left.
 */
static void assert_nothing_pending(void)
{
    ck_assert_uint_eq(ops_pending(), 0);
    weft_spin_options options = {.is_daemon = true};
    weft_fiber daemon = weft_spin_with(sleep_an_hour, NULL, &options);
    let_run();
    double begin = weft_now();
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert(weft_now() - begin < 3000);
    weft_cancel(daemon);
    weft_await(daemon);
}

typedef struct pair {
    int fd[2];
} pair;

/* Create a pipe: read from 0, write to 1. */
static pair create_pipe(void)
{
    pair p;
    ck_assert_int_eq(weft_pipe(p.fd), 0);
    return p;
}

static pair create_sockets(void)
{
    pair p;
    ck_assert_int_eq(weft_socketpair(p.fd), 0);
    return p;
}

static void write_x(int fd)
{
    ck_assert_int_eq(weft_write(fd, "x", 1), 1);
}

static void read_x(int fd)
{
    char byte;
    ck_assert_int_eq(weft_read(fd, &byte, 1), 1);
    ck_assert_int_eq(byte, 'x');
}

/* Write until the descriptor is not writable. */
static void fill_writable(int fd)
{
    static const char data[4096];
    weft_clause c = weft_clause_fd(fd, POLLOUT);
    while (weft_try_select(&c, 1) == 0)
        ck_assert_int_gt(weft_write(fd, data, sizeof data), 0);
}

/* Read all available bytes. */
static void drain_readable(int fd)
{
    static char data[65536];
    weft_clause c = weft_clause_fd(fd, POLLIN);
    while (weft_try_select(&c, 1) == 0)
        ck_assert_int_gt(weft_read(fd, data, sizeof data), 0);
}

TEST(a_ready_descriptor_is_chosen_without_a_switch)
{
    pair p = create_pipe(), s = create_sockets();
    write_x(p.fd[1]);
    uint64_t switches = count_switches();
    weft_clause c[] = {weft_clause_fd(p.fd[0], POLLIN), weft_clause_fd(p.fd[1], POLLOUT),
                       weft_clause_fd(s.fd[0], POLLIN | POLLOUT)};
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_select(&c[i], 1), 0);
    ck_assert_uint_eq(count_switches(), switches);
    ck_assert_int_eq(c[0].value, POLLIN);
    ck_assert_int_eq(c[1].value, POLLOUT);
    ck_assert_int_eq(c[2].value, POLLOUT);
    ck_assert_uint_eq(ops_pending(), 0);
    read_x(p.fd[0]); /* the select has read nothing */
    close_fd_pair(p.fd);
    close_fd_pair(s.fd);
}

TEST(a_select_waits_until_a_descriptor_is_readable_writable_or_hung_up)
{
    pair p = create_pipe(), q = create_pipe(), r = create_pipe();
    fill_writable(q.fd[1]);
    select_call in = {{weft_clause_time(INFINITY), weft_clause_fd(p.fd[0], POLLIN)}, 2, 0};
    select_call out = {{weft_clause_message(), weft_clause_fd(q.fd[1], POLLOUT)}, 2, 0};
    select_call end = {{{0}, weft_clause_fd(r.fd[0], POLLIN)}, 2, 0};
    weft_fiber f = spin_select(&in), g = spin_select(&out), h = spin_select(&end);
    ck_assert_uint_eq(ops_pending(), 3);
    write_x(p.fd[1]);
    ck_assert_int_eq(weft_await(f), 1);
    ck_assert_int_eq(in.c[1].value, POLLIN);
    drain_readable(q.fd[0]);
    ck_assert_int_eq(weft_await(g), 1);
    ck_assert_int_eq(out.c[1].value, POLLOUT);
    weft_close(r.fd[1]);
    ck_assert_int_eq(weft_await(h), 1);
    ck_assert_int_eq(end.c[1].value & POLLHUP, POLLHUP);
    read_x(p.fd[0]);
    close_fd_pair(p.fd);
    close_fd_pair(q.fd);
    weft_close(r.fd[0]);
    assert_nothing_pending();
}

TEST(an_invalid_descriptor_is_chosen_with_the_error_as_value)
{
    pair p = create_pipe();
    close_fd_pair(p.fd);
    const int bad[] = {-1, p.fd[0], 12345};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        weft_clause c[] = {weft_clause_time(1000), weft_clause_fd(bad[i], POLLIN)};
        ck_assert_int_eq(weft_select(c, 2), 1);
        ck_assert_int_eq(c[1].value, -EBADF);
    }
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(file, 0);
    weft_clause c = weft_clause_fd(file, POLLIN);
    ck_assert_int_eq(weft_select(&c, 1), 0);
    ck_assert_int_eq(c.value, -EPERM); /* as weft_wait_fd */
    close(file);
    assert_nothing_pending();
}

TEST(closing_the_descriptor_ends_every_select_on_it)
{
    pair p = create_sockets(), q = create_pipe();
    weft_chan *chan = weft_chan_new(0);
    select_call j = {{weft_clause_recv(chan), weft_clause_fd(p.fd[0], POLLIN),
                      weft_clause_fd(p.fd[0], POLLIN), weft_clause_fd(q.fd[0], POLLIN)},
                     4,
                     0};
    select_call k = {{weft_clause_fd(q.fd[0], POLLIN), weft_clause_fd(p.fd[0], POLLIN)}, 2, 0};
    weft_fiber f = spin_select(&j), g = spin_select(&k);
    ck_assert_int_eq(weft_close(p.fd[0]), 0);
    int i = (int)weft_await(f);
    ck_assert(i == 1 || i == 2);
    ck_assert_int_eq(j.c[i].value, -EBADF);
    ck_assert_int_eq(j.c[3 - i].value, 0);
    ck_assert_int_eq(weft_await(g), 1);
    ck_assert_int_eq(k.c[1].value, -EBADF);
    ck_assert(!weft_chan_has_receivers(chan));
    weft_close(p.fd[1]);
    close_fd_pair(q.fd);
    weft_chan_free(chan);
    assert_nothing_pending();
}

TEST(a_ready_channel_wins_over_an_idle_descriptor_without_a_switch)
{
    enum { ROUNDS = 10000 };
    pair p = create_pipe();
    weft_chan *chan = weft_chan_new(1);
    uint64_t switches = count_switches();
    for (int round = 0; round < ROUNDS; round++) {
        weft_chan_try_send(chan, round);
        weft_clause c[] = {weft_clause_fd(p.fd[0], POLLIN), weft_clause_recv(chan)};
        ck_assert_int_eq(weft_select(c, 2), 1);
        ck_assert_int_eq(c[1].value, round);
        ck_assert_uint_eq(ops_pending(), 0);
    }
    ck_assert_uint_eq(count_switches(), switches);
    close_fd_pair(p.fd);
    weft_chan_free(chan);
    assert_nothing_pending();
}

/* A channel, and the number of values to send. */
typedef struct send_order {
    weft_chan *chan;
    int count;
} send_order;

static weft_value send_numbers(void *arg)
{
    const send_order *o = arg;
    for (int i = 0; i < o->count; i++)
        if (weft_chan_send(o->chan, i) < 0)
            return -EIO;
    return 0;
}

/* Select on n descriptors that are not ready and a channel that wins, count times. */
static void select_with_idle_fds(weft_chan *chan, const pair *p, size_t n, int first, int count)
{
    for (int i = first; i < first + count; i++) {
        weft_clause c[CLAUSES_MAX];
        for (size_t k = 0; k < n; k++)
            c[k] = weft_clause_fd(p[k].fd[0], POLLIN);
        c[n] = weft_clause_recv(chan);
        ck_assert_int_eq(weft_select(c, n + 1), (int)n);
        ck_assert_int_eq(c[n].value, i);
        ck_assert_uint_eq(ops_pending(), 0);
    }
}

static size_t bytes_allocated(void)
{
    return is_sanitized() ? 0 : mallinfo2().uordblks;
}

TEST(a_later_value_wins_over_idle_descriptors_and_leaves_no_operation_or_memory)
{
    enum { ROUNDS = 10000, PIPES = 6 };
    pair p[PIPES];
    for (int i = 0; i < PIPES; i++)
        p[i] = create_pipe();
    weft_chan *chan = weft_chan_new(0);
    for (size_t n = 1; n <= PIPES; n += PIPES - 1) {
        send_order o = {chan, ROUNDS};
        weft_fiber f = weft_spin(send_numbers, &o);
        select_with_idle_fds(chan, p, n, 0, ROUNDS / 10);
        size_t bytes = bytes_allocated();
        select_with_idle_fds(chan, p, n, ROUNDS / 10, ROUNDS - ROUNDS / 10);
        ck_assert_uint_le(bytes_allocated(), bytes);
        ck_assert_int_eq(weft_await(f), 0);
    }
    for (int i = 0; i < PIPES; i++)
        close_fd_pair(p[i].fd);
    weft_chan_free(chan);
    assert_nothing_pending();
}

TEST(a_descriptor_that_lost_stays_ready)
{
    pair p = create_pipe();
    weft_chan *chan = weft_chan_new(0);
    select_call j = {{weft_clause_fd(p.fd[0], POLLIN), weft_clause_recv(chan)}, 2, 0};
    weft_fiber f = spin_select(&j);
    weft_chan_try_send(chan, 7);
    write_x(p.fd[1]); /* before the kernel can have released it */
    ck_assert_int_eq(weft_await(f), 1);
    ck_assert_int_eq(j.c[0].value, 0);
    weft_clause c = weft_clause_fd(p.fd[0], POLLIN);
    ck_assert_int_eq(weft_select(&c, 1), 0);
    read_x(p.fd[0]);
    close_fd_pair(p.fd);
    weft_chan_free(chan);
    assert_nothing_pending();
}

TEST(a_ready_descriptor_and_a_ready_channel_have_equal_chances)
{
    enum { ROUNDS = 10000 };
    pair p = create_pipe();
    weft_chan *chan = weft_chan_new(1);
    weft_chan_try_send(chan, 1);
    int wins = 0;
    for (int round = 0; round < ROUNDS; round++) {
        weft_clause c[] = {weft_clause_recv(chan), weft_clause_fd(p.fd[1], POLLOUT)};
        int i = weft_select(c, 2);
        wins += i;
        if (i == 0)
            weft_chan_try_send(chan, 1);
    }
    ck_assert_int_ge(wins, ROUNDS / 2 * 8 / 10);
    ck_assert_int_le(wins, ROUNDS / 2 * 12 / 10);
    close_fd_pair(p.fd);
    weft_chan_free(chan);
}

TEST(of_many_descriptors_the_ready_one_is_chosen)
{
    enum { PIPES = CLAUSES_MAX };
    pair p[PIPES];
    for (int i = 0; i < PIPES; i++)
        p[i] = create_pipe();
    for (int round = 0; round < 100; round++) {
        select_call j = {.n = PIPES};
        for (int i = 0; i < PIPES; i++)
            j.c[i] = weft_clause_fd(p[i].fd[0], POLLIN);
        weft_fiber f = spin_select(&j);
        ck_assert_uint_eq(ops_pending(), PIPES);
        int which = round * 5 % PIPES;
        write_x(p[which].fd[1]);
        ck_assert_int_eq(weft_await(f), which);
        ck_assert_int_eq(j.c[which].value, POLLIN);
        read_x(p[which].fd[0]);
    }
    for (int i = 0; i < PIPES; i++)
        close_fd_pair(p[i].fd);
    assert_nothing_pending();
}

TEST(one_select_may_wait_for_both_directions_of_a_socket)
{
    pair p = create_sockets();
    fill_writable(p.fd[0]);
    select_call j = {{weft_clause_fd(p.fd[0], POLLIN), weft_clause_fd(p.fd[0], POLLOUT)}, 2, 0};
    weft_fiber f = spin_select(&j);
    write_x(p.fd[1]);
    ck_assert_int_eq(weft_await(f), 0);
    read_x(p.fd[0]);
    select_call k = {{weft_clause_fd(p.fd[0], POLLIN), weft_clause_fd(p.fd[0], POLLOUT)}, 2, 0};
    f = spin_select(&k);
    drain_readable(p.fd[1]);
    ck_assert_int_eq(weft_await(f), 1);
    close_fd_pair(p.fd);
    assert_nothing_pending();
}

TEST(all_selects_on_a_descriptor_wake_when_it_is_ready)
{
    pair p = create_pipe();
    select_call calls[5];
    weft_fiber f[5];
    for (int i = 0; i < 5; i++) {
        calls[i] = (select_call){{weft_clause_time(1000), weft_clause_fd(p.fd[0], POLLIN)}, 2, 0};
        f[i] = spin_select(&calls[i]);
    }
    write_x(p.fd[1]);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(weft_await(f[i]), 1);
        ck_assert_int_eq(calls[i].c[1].value, POLLIN);
    }
    close_fd_pair(p.fd);
    assert_nothing_pending();
}

TEST(a_time_clause_wins_if_no_descriptor_is_ready)
{
    pair p = create_pipe();
    for (int i = 0; i < 20; i++) {
        double begin = weft_now();
        weft_clause c[] = {weft_clause_fd(p.fd[0], POLLIN), weft_clause_time(0.001)};
        ck_assert_int_eq(weft_select(c, 2), 1);
        ck_assert_slept(begin, 0.001);
        ck_assert_uint_eq(ops_pending(), 0);
    }
    close_fd_pair(p.fd);
    assert_nothing_pending();
}

TEST(try_select_leaves_no_operation_behind)
{
    pair p = create_pipe();
    int idle[2]; /* a pipe of the kernel on every backend */
    ck_assert_int_eq(pipe(idle), 0);
    weft_clause c[] = {weft_clause_fd(p.fd[0], POLLIN), weft_clause_fd(idle[0], POLLIN),
                       weft_clause_fd(idle[1], POLLOUT)};
    uint64_t switches = count_switches();
    ck_assert_int_eq(weft_try_select(c, 2), -EAGAIN);
    ck_assert_uint_eq(ops_pending(), 0);
    ck_assert_int_eq(weft_try_select(c, 3), 2);
    ck_assert_int_eq(c[2].value, POLLOUT);
    ck_assert_uint_eq(count_switches(), switches);
    weft_close(idle[0]);
    weft_close(idle[1]);
    close_fd_pair(p.fd);
    assert_nothing_pending();
}

/* Cancelled and interrupted selects. */

TEST(an_interrupted_select_returns_after_the_kernel_has_released_its_operations)
{
    pair p = create_pipe(), q = create_pipe();
    weft_chan *chan = weft_chan_new(0);
    for (int disturbance = 0; disturbance < 4; disturbance++) {
        select_call j = {{weft_clause_fd(p.fd[0], POLLIN), weft_clause_recv(chan),
                          weft_clause_fd(q.fd[0], POLLIN), weft_clause_time(1000)},
                         4,
                         0};
        weft_fiber f = spin_select(&j);
        switch (disturbance) {
        case 0:
            weft_cancel(f);
            ck_assert_int_eq(weft_await(f), -ECANCELED);
            break;
        case 1:
            weft_raise(f, -EIO, "raised");
            ck_assert_int_eq(weft_await(f), -EIO);
            ck_assert_error(-EIO, "raised");
            break;
        case 2:
            ck_assert_int_eq(weft_interrupt(f, -99), 0);
            ck_assert_int_eq(weft_await(f), -99);
            break;
        default:
            /* A clause that becomes ready afterwards has no effect. */
            ck_assert_int_eq(weft_interrupt(f, -EINTR), 0);
            ck_assert_int_eq(weft_chan_try_send(chan, 1), -EAGAIN);
            write_x(p.fd[1]);
            ck_assert_int_eq(weft_await(f), -EINTR);
            read_x(p.fd[0]);
        }
        ck_assert_uint_eq(ops_pending(), 0);
        ck_assert(!weft_chan_has_receivers(chan));
        for (int i = 0; i < 4; i++)
            ck_assert_int_eq(j.c[i].value, 0);
    }
    close_fd_pair(p.fd);
    close_fd_pair(q.fd);
    weft_chan_free(chan);
    assert_nothing_pending();
}

TEST(an_error_raised_after_a_clause_has_won_fails_the_next_call)
{
    pair p = create_pipe(), q = create_pipe();
    weft_chan *chan = weft_chan_new(0);
    for (int by_channel = 0; by_channel < 2; by_channel++) {
        select_call j = {{weft_clause_fd(p.fd[0], POLLIN), weft_clause_recv(chan),
                          weft_clause_fd(q.fd[0], POLLIN)},
                         3,
                         0};
        weft_fiber f = spin_select(&j);
        weft_park(f); /* a clause has won, and the fiber does not run yet */
        if (by_channel)
            ck_assert_int_eq(weft_chan_try_send(chan, 7), 0);
        else
            write_x(p.fd[1]);
        let_run();
        ck_assert_int_eq(weft_interrupt(f, -99), -EBUSY);
        weft_raise(f, -EIO, "late");
        weft_unpark(f);
        ck_assert_int_eq(weft_await(f), by_channel);
        ck_assert_int_eq(j.c[by_channel].value, by_channel ? 7 : POLLIN);
        ck_assert_int_eq(j.next_result, -EIO);
        drain_readable(p.fd[0]);
    }
    close_fd_pair(p.fd);
    close_fd_pair(q.fd);
    weft_chan_free(chan);
    assert_nothing_pending();
}

TEST(a_descriptor_may_be_closed_while_the_kernel_releases_its_operation)
{
    for (int round = 0; round < 100; round++) {
        pair p = create_sockets();
        weft_chan *chan = weft_chan_new(0);
        select_call j = {{weft_clause_fd(p.fd[0], POLLIN), weft_clause_recv(chan)}, 2, 0};
        weft_fiber f = spin_select(&j);
        weft_chan_try_send(chan, 7);
        close_fd_pair(p.fd);
        ck_assert_int_eq(weft_await(f), 1);
        ck_assert_int_eq(j.c[0].value, 0);
        weft_chan_free(chan);
    }
    assert_nothing_pending();
}

/* Other fibers. */

static weft_value set_flag(void *arg)
{
    *(bool *)arg = true;
    return 0;
}

TEST(a_descriptor_that_is_always_ready_starves_no_fiber)
{
    pair p = create_pipe();
    bool is_set = false;
    weft_spin(set_flag, &is_set);
    while (!is_set) {
        weft_clause c = weft_clause_fd(p.fd[1], POLLOUT);
        ck_assert_int_eq(weft_select(&c, 1), 0);
    }
    close_fd_pair(p.fd);
}

static weft_value exit_later(void *arg)
{
    weft_sleep(0);
    exit_here((int)(intptr_t)arg);
    return 0;
}

/* Give the kernel time to complete an operation after the selecting fiber has ended. */
static weft_value sleep_then_shield(void *arg)
{
    weft_value rc = weft_sleep(INFINITY);
    WEFT_SHIELD(INFINITY) {
        weft_sleep(0.002);
    }
    (void)arg;
    return rc;
}

static int exit_under_a_select(void)
{
    int fd[2];
    weft_pipe(fd);
    weft_spin(sleep_then_shield, NULL);
    weft_spin(exit_later, as_arg(3));
    weft_clause c[] = {weft_clause_fd(fd[0], POLLIN), weft_clause_message(),
                       weft_clause_time(1000)};
    weft_select(c, 3);
    return 1;
}

TEST(the_process_may_end_while_main_selects)
{
    assert_silent(run_apart(exit_under_a_select), 3);
}

/* A storm: fibers select on pipes and channels while main writes, sends and cancels. */

enum { STORM_FIBERS = 100, STORM_PIPES = 5, STORM_ROUNDS = 3000 };

typedef struct storm {
    pair pipes[STORM_PIPES];
    weft_chan *chans[STORM_PIPES];
    int received, selected;
    unsigned random;
} storm;

static unsigned random_below_of(storm *s, unsigned below)
{
    s->random = s->random * 1664525u + 1013904223u;
    return (unsigned)((uint64_t)s->random * below >> 32);
}

static weft_value select_until_cancelled(void *arg)
{
    storm *s = arg;
    for (;;) {
        weft_clause c[CLAUSES_MAX];
        size_t n = 1 + random_below_of(s, CLAUSES_MAX);
        for (size_t i = 0; i < n; i++) {
            unsigned k = random_below_of(s, STORM_PIPES);
            c[i] = random_below_of(s, 2) ? weft_clause_fd(s->pipes[k].fd[0], POLLIN)
                                         : weft_clause_recv(s->chans[k]);
        }
        int i = weft_select(c, n);
        if (i == -ECANCELED)
            return i;
        if (i == -EINTR)
            continue;
        ck_assert(i >= 0 && c[i].value >= 0);
        s->selected++;
        if (c[i].kind == WEFT_CLAUSE_RECV)
            s->received++;
        else
            ck_assert_int_eq(c[i].value & ~(POLLIN | POLLHUP), 0);
        if (weft_snooze() < 0)
            return -ECANCELED;
    }
}

TEST(in_a_storm_no_value_is_lost_and_no_operation_is_left)
{
    static storm s;
    static weft_fiber f[STORM_FIBERS];
    s = (storm){.random = 1};
    for (int i = 0; i < STORM_PIPES; i++) {
        s.pipes[i] = create_pipe();
        s.chans[i] = weft_chan_new(0);
    }
    for (int i = 0; i < STORM_FIBERS; i++)
        f[i] = weft_spin(select_until_cancelled, &s);
    int sent = 0;
    for (int round = 0; round < STORM_ROUNDS; round++) {
        unsigned k = random_below_of(&s, STORM_PIPES), i = random_below_of(&s, STORM_FIBERS);
        switch (random_below_of(&s, 6)) {
        case 0:
            write_x(s.pipes[k].fd[1]);
            break;
        case 1:
            drain_readable(s.pipes[k].fd[0]);
            break;
        case 2:
            weft_interrupt(f[i], -EINTR);
            break;
        case 3:
            weft_cancel(f[i]);
            weft_await(f[i]);
            f[i] = weft_spin(select_until_cancelled, &s);
            break;
        case 4:
            weft_sleep(0);
            break;
        default:
            sent += weft_chan_try_send(s.chans[k], 1) == 0;
        }
    }
    for (int i = 0; i < STORM_FIBERS; i++) {
        weft_cancel(f[i]);
        ck_assert_int_eq(weft_await(f[i]), -ECANCELED);
    }
    ck_assert_int_gt(sent, 0);
    ck_assert_int_eq(s.received, sent);
    ck_assert_int_gt(s.selected, sent);
    for (int i = 0; i < STORM_PIPES; i++) {
        close_fd_pair(s.pipes[i].fd);
        weft_chan_free(s.chans[i]);
    }
    assert_nothing_pending();
}

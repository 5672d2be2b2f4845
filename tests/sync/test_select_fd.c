/* Select among descriptors, and between them and what fibers do. */
#include "support.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>

enum { CLAUSES_MAX = 8 };

/* A select for a fiber of its own; its value is what weft_select returned. */
typedef struct job {
    weft_clause c[CLAUSES_MAX];
    size_t n;
    int after; /* what the next blocking call returned */
} job;

static weft_value run_job(void *arg)
{
    job *j = arg;
    int rc = weft_select(j->c, j->n);
    j->after = weft_sleep(0);
    return rc;
}

/* A fiber that waits in that select. */
static weft_fiber spin_job(job *j)
{
    weft_fiber f = weft_spin(run_job, j);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    return f;
}

static size_t ops_pending(void)
{
    weft_counters counters;
    weft_stats(&counters);
    return counters.ops_pending;
}

static uint64_t switches_so_far(void)
{
    weft_counters counters;
    weft_stats(&counters); /* which begin again */
    return counters.switches;
}

static weft_value sleep_an_hour(void *arg)
{
    (void)arg;
    return weft_sleep(3600);
}

/* Main is the last, but for a daemon: would it wait for something that nobody is at any more? */
static void assert_nothing_is_left(void)
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

/* A pipe: read from 0, write to 1. */
static pair make_pipe(void)
{
    pair p;
    ck_assert_int_eq(weft_pipe(p.fd), 0);
    return p;
}

static pair make_sockets(void)
{
    pair p;
    ck_assert_int_eq(weft_socketpair(p.fd), 0);
    return p;
}

static void close_pair(const pair *p)
{
    ck_assert_int_eq(weft_close(p->fd[0]), 0);
    ck_assert_int_eq(weft_close(p->fd[1]), 0);
}

static void put_byte(int fd)
{
    ck_assert_int_eq(weft_write(fd, "x", 1), 1);
}

static void take_byte(int fd)
{
    char byte;
    ck_assert_int_eq(weft_read(fd, &byte, 1), 1);
    ck_assert_int_eq(byte, 'x');
}

/* Write until it is not writable any more. */
static void fill(int fd)
{
    static const char data[4096];
    weft_clause c = weft_clause_fd(fd, POLLOUT);
    while (weft_try_select(&c, 1) == 0)
        ck_assert_int_gt(weft_write(fd, data, sizeof data), 0);
}

/* Read all that is there. */
static void drain(int fd)
{
    static char data[65536];
    weft_clause c = weft_clause_fd(fd, POLLIN);
    while (weft_try_select(&c, 1) == 0)
        ck_assert_int_gt(weft_read(fd, data, sizeof data), 0);
}

START_TEST(a_descriptor_that_is_ready_happens_without_a_switch)
{
    pair p = make_pipe(), s = make_sockets();
    put_byte(p.fd[1]);
    switches_so_far();
    weft_clause c[] = {weft_clause_fd(p.fd[0], POLLIN), weft_clause_fd(p.fd[1], POLLOUT),
                       weft_clause_fd(s.fd[0], POLLIN | POLLOUT)};
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_select(&c[i], 1), 0);
    ck_assert_uint_eq(switches_so_far(), 0);
    ck_assert_int_eq(c[0].value, POLLIN);
    ck_assert_int_eq(c[1].value, POLLOUT);
    ck_assert_int_eq(c[2].value, POLLOUT);
    ck_assert_uint_eq(ops_pending(), 0);
    take_byte(p.fd[0]); /* looking has taken nothing */
    close_pair(&p);
    close_pair(&s);
}
END_TEST

START_TEST(readable_writable_and_hung_up_are_waited_for)
{
    pair p = make_pipe(), q = make_pipe(), r = make_pipe();
    fill(q.fd[1]);
    job in = {{weft_clause_time(INFINITY), weft_clause_fd(p.fd[0], POLLIN)}, 2, 0};
    job out = {{weft_clause_message(), weft_clause_fd(q.fd[1], POLLOUT)}, 2, 0};
    job end = {{{0}, weft_clause_fd(r.fd[0], POLLIN)}, 2, 0};
    weft_fiber f = spin_job(&in), g = spin_job(&out), h = spin_job(&end);
    ck_assert_uint_eq(ops_pending(), 3);
    put_byte(p.fd[1]);
    ck_assert_int_eq(weft_await(f), 1);
    ck_assert_int_eq(in.c[1].value, POLLIN);
    drain(q.fd[0]);
    ck_assert_int_eq(weft_await(g), 1);
    ck_assert_int_eq(out.c[1].value, POLLOUT);
    weft_close(r.fd[1]);
    ck_assert_int_eq(weft_await(h), 1);
    ck_assert_int_eq(end.c[1].value & POLLHUP, POLLHUP);
    take_byte(p.fd[0]);
    close_pair(&p);
    close_pair(&q);
    weft_close(r.fd[0]);
    assert_nothing_is_left();
}
END_TEST

START_TEST(a_descriptor_in_error_happens_and_its_value_says_so)
{
    pair p = make_pipe();
    close_pair(&p);
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
    ck_assert_int_eq(c.value, -EPERM); /* as for weft_wait_fd */
    close(file);
    assert_nothing_is_left();
}
END_TEST

START_TEST(closing_the_descriptor_ends_every_select_on_it)
{
    pair p = make_sockets(), q = make_pipe();
    weft_chan *chan = weft_chan_new(0);
    job j = {{weft_clause_recv(chan), weft_clause_fd(p.fd[0], POLLIN),
              weft_clause_fd(p.fd[0], POLLIN), weft_clause_fd(q.fd[0], POLLIN)},
             4,
             0};
    job k = {{weft_clause_fd(q.fd[0], POLLIN), weft_clause_fd(p.fd[0], POLLIN)}, 2, 0};
    weft_fiber f = spin_job(&j), g = spin_job(&k);
    ck_assert_int_eq(weft_close(p.fd[0]), 0);
    int i = (int)weft_await(f);
    ck_assert(i == 1 || i == 2);
    ck_assert_int_eq(j.c[i].value, -EBADF);
    ck_assert_int_eq(j.c[3 - i].value, 0);
    ck_assert_int_eq(weft_await(g), 1);
    ck_assert_int_eq(k.c[1].value, -EBADF);
    ck_assert(!weft_chan_has_receivers(chan));
    weft_close(p.fd[1]);
    close_pair(&q);
    weft_chan_free(chan);
    assert_nothing_is_left();
}
END_TEST

START_TEST(what_else_is_ready_wins_over_a_silent_descriptor_without_a_switch)
{
    enum { ROUNDS = 10000 };
    pair p = make_pipe();
    weft_chan *chan = weft_chan_new(1);
    switches_so_far();
    for (int round = 0; round < ROUNDS; round++) {
        weft_chan_try_send(chan, round);
        weft_clause c[] = {weft_clause_fd(p.fd[0], POLLIN), weft_clause_recv(chan)};
        ck_assert_int_eq(weft_select(c, 2), 1);
        ck_assert_int_eq(c[1].value, round);
        ck_assert_uint_eq(ops_pending(), 0);
    }
    ck_assert_uint_eq(switches_so_far(), 0);
    close_pair(&p);
    weft_chan_free(chan);
    assert_nothing_is_left();
}
END_TEST

/* Sends as many values as it is told. */
typedef struct send_order {
    weft_chan *chan;
    int count;
} send_order;

static weft_value send_many(void *arg)
{
    const send_order *o = arg;
    for (int i = 0; i < o->count; i++)
        if (weft_chan_send(o->chan, i) < 0)
            return -EIO;
    return 0;
}

/* So many silent descriptors, and a channel that wins each time. */
static void lose_with_descriptors(weft_chan *chan, const pair *p, size_t n, int first, int count)
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

START_TEST(what_comes_later_wins_over_silent_descriptors_and_leaves_nothing_behind)
{
    enum { ROUNDS = 10000, MANY = 6 };
    pair p[MANY];
    for (int i = 0; i < MANY; i++)
        p[i] = make_pipe();
    weft_chan *chan = weft_chan_new(0);
    for (size_t n = 1; n <= MANY; n += MANY - 1) {
        send_order o = {chan, ROUNDS};
        weft_fiber f = weft_spin(send_many, &o);
        lose_with_descriptors(chan, p, n, 0, ROUNDS / 10);
        size_t bytes = bytes_allocated();
        lose_with_descriptors(chan, p, n, ROUNDS / 10, ROUNDS - ROUNDS / 10);
        ck_assert_uint_le(bytes_allocated(), bytes);
        ck_assert_int_eq(weft_await(f), 0);
    }
    for (int i = 0; i < MANY; i++)
        close_pair(&p[i]);
    weft_chan_free(chan);
    assert_nothing_is_left();
}
END_TEST

START_TEST(a_descriptor_that_lost_is_as_ready_as_it_was)
{
    pair p = make_pipe();
    weft_chan *chan = weft_chan_new(0);
    job j = {{weft_clause_fd(p.fd[0], POLLIN), weft_clause_recv(chan)}, 2, 0};
    weft_fiber f = spin_job(&j);
    weft_chan_try_send(chan, 7);
    put_byte(p.fd[1]); /* before the kernel can have let go */
    ck_assert_int_eq(weft_await(f), 1);
    ck_assert_int_eq(j.c[0].value, 0);
    weft_clause c = weft_clause_fd(p.fd[0], POLLIN);
    ck_assert_int_eq(weft_select(&c, 1), 0);
    take_byte(p.fd[0]);
    close_pair(&p);
    weft_chan_free(chan);
    assert_nothing_is_left();
}
END_TEST

START_TEST(a_ready_descriptor_and_a_ready_channel_have_the_same_chance)
{
    enum { ROUNDS = 10000 };
    pair p = make_pipe();
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
    close_pair(&p);
    weft_chan_free(chan);
}
END_TEST

START_TEST(of_many_descriptors_the_one_that_is_ready_happens)
{
    enum { MANY = CLAUSES_MAX };
    pair p[MANY];
    for (int i = 0; i < MANY; i++)
        p[i] = make_pipe();
    for (int round = 0; round < 100; round++) {
        job j = {.n = MANY};
        for (int i = 0; i < MANY; i++)
            j.c[i] = weft_clause_fd(p[i].fd[0], POLLIN);
        weft_fiber f = spin_job(&j);
        ck_assert_uint_eq(ops_pending(), MANY);
        int which = round * 5 % MANY;
        put_byte(p[which].fd[1]);
        ck_assert_int_eq(weft_await(f), which);
        ck_assert_int_eq(j.c[which].value, POLLIN);
        take_byte(p[which].fd[0]);
    }
    for (int i = 0; i < MANY; i++)
        close_pair(&p[i]);
    assert_nothing_is_left();
}
END_TEST

START_TEST(both_ways_of_a_socket_may_be_waited_for_by_one_select)
{
    pair p = make_sockets();
    fill(p.fd[0]);
    job j = {{weft_clause_fd(p.fd[0], POLLIN), weft_clause_fd(p.fd[0], POLLOUT)}, 2, 0};
    weft_fiber f = spin_job(&j);
    put_byte(p.fd[1]);
    ck_assert_int_eq(weft_await(f), 0);
    take_byte(p.fd[0]);
    job k = {{weft_clause_fd(p.fd[0], POLLIN), weft_clause_fd(p.fd[0], POLLOUT)}, 2, 0};
    f = spin_job(&k);
    drain(p.fd[1]);
    ck_assert_int_eq(weft_await(f), 1);
    close_pair(&p);
    assert_nothing_is_left();
}
END_TEST

START_TEST(all_who_select_on_a_descriptor_hear_that_it_is_ready)
{
    pair p = make_pipe();
    job jobs[5];
    weft_fiber f[5];
    for (int i = 0; i < 5; i++) {
        jobs[i] = (job){{weft_clause_time(1000), weft_clause_fd(p.fd[0], POLLIN)}, 2, 0};
        f[i] = spin_job(&jobs[i]);
    }
    put_byte(p.fd[1]);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(weft_await(f[i]), 1);
        ck_assert_int_eq(jobs[i].c[1].value, POLLIN);
    }
    close_pair(&p);
    assert_nothing_is_left();
}
END_TEST

START_TEST(the_time_comes_when_no_descriptor_does)
{
    pair p = make_pipe();
    for (int i = 0; i < 20; i++) {
        double begin = weft_now();
        weft_clause c[] = {weft_clause_fd(p.fd[0], POLLIN), weft_clause_time(0.001)};
        ck_assert_int_eq(weft_select(c, 2), 1);
        ck_assert_slept(begin, 0.001);
        ck_assert_uint_eq(ops_pending(), 0);
    }
    close_pair(&p);
    assert_nothing_is_left();
}
END_TEST

START_TEST(try_select_leaves_no_operation_behind)
{
    pair p = make_pipe();
    int silent[2]; /* the kernel's own, on every backend */
    ck_assert_int_eq(pipe(silent), 0);
    weft_clause c[] = {weft_clause_fd(p.fd[0], POLLIN), weft_clause_fd(silent[0], POLLIN),
                       weft_clause_fd(silent[1], POLLOUT)};
    switches_so_far();
    ck_assert_int_eq(weft_try_select(c, 2), -EAGAIN);
    ck_assert_uint_eq(ops_pending(), 0);
    ck_assert_int_eq(weft_try_select(c, 3), 2);
    ck_assert_int_eq(c[2].value, POLLOUT);
    ck_assert_uint_eq(switches_so_far(), 0);
    weft_close(silent[0]);
    weft_close(silent[1]);
    close_pair(&p);
    assert_nothing_is_left();
}
END_TEST

/* Cut short. */

START_TEST(a_select_that_is_cut_short_returns_after_the_kernel_let_go)
{
    pair p = make_pipe(), q = make_pipe();
    weft_chan *chan = weft_chan_new(0);
    for (int how = 0; how < 4; how++) {
        job j = {{weft_clause_fd(p.fd[0], POLLIN), weft_clause_recv(chan),
                  weft_clause_fd(q.fd[0], POLLIN), weft_clause_time(1000)},
                 4,
                 0};
        weft_fiber f = spin_job(&j);
        switch (how) {
        case 0:
            weft_cancel(f);
            ck_assert_int_eq(weft_await(f), -ECANCELED);
            break;
        case 1:
            weft_raise(f, -EIO, "raised");
            ck_assert_int_eq(weft_await(f), -EIO);
            ck_assert_words(-EIO, "raised");
            break;
        case 2:
            ck_assert_int_eq(weft_interrupt(f, -99), 0);
            ck_assert_int_eq(weft_await(f), -99);
            break;
        default:
            /* What becomes ready in the meantime comes too late. */
            ck_assert_int_eq(weft_interrupt(f, -EINTR), 0);
            ck_assert_int_eq(weft_chan_try_send(chan, 1), -EAGAIN);
            put_byte(p.fd[1]);
            ck_assert_int_eq(weft_await(f), -EINTR);
            take_byte(p.fd[0]);
        }
        ck_assert_uint_eq(ops_pending(), 0);
        ck_assert(!weft_chan_has_receivers(chan));
        for (int i = 0; i < 4; i++)
            ck_assert_int_eq(j.c[i].value, 0);
    }
    close_pair(&p);
    close_pair(&q);
    weft_chan_free(chan);
    assert_nothing_is_left();
}
END_TEST

START_TEST(a_cancel_after_a_win_strikes_at_the_next_call)
{
    pair p = make_pipe(), q = make_pipe();
    weft_chan *chan = weft_chan_new(0);
    for (int by_channel = 0; by_channel < 2; by_channel++) {
        job j = {{weft_clause_fd(p.fd[0], POLLIN), weft_clause_recv(chan),
                  weft_clause_fd(q.fd[0], POLLIN)},
                 3,
                 0};
        weft_fiber f = spin_job(&j);
        weft_park(f); /* it has won, and does not run yet */
        if (by_channel)
            ck_assert_int_eq(weft_chan_try_send(chan, 7), 0);
        else
            put_byte(p.fd[1]);
        let_run();
        ck_assert_int_eq(weft_interrupt(f, -99), -EBUSY);
        weft_raise(f, -EIO, "late");
        weft_unpark(f);
        ck_assert_int_eq(weft_await(f), by_channel);
        ck_assert_int_eq(j.c[by_channel].value, by_channel ? 7 : POLLIN);
        ck_assert_int_eq(j.after, -EIO);
        drain(p.fd[0]);
    }
    close_pair(&p);
    close_pair(&q);
    weft_chan_free(chan);
    assert_nothing_is_left();
}
END_TEST

START_TEST(a_descriptor_may_be_closed_while_the_kernel_lets_go_of_it)
{
    for (int round = 0; round < 100; round++) {
        pair p = make_sockets();
        weft_chan *chan = weft_chan_new(0);
        job j = {{weft_clause_fd(p.fd[0], POLLIN), weft_clause_recv(chan)}, 2, 0};
        weft_fiber f = spin_job(&j);
        weft_chan_try_send(chan, 7);
        close_pair(&p);
        ck_assert_int_eq(weft_await(f), 1);
        ck_assert_int_eq(j.c[0].value, 0);
        weft_chan_free(chan);
    }
    assert_nothing_is_left();
}
END_TEST

/* Others. */

static weft_value set_flag(void *arg)
{
    *(bool *)arg = true;
    return 0;
}

START_TEST(a_descriptor_that_is_always_ready_starves_nobody)
{
    pair p = make_pipe();
    bool is_set = false;
    weft_spin(set_flag, &is_set);
    while (!is_set) {
        weft_clause c = weft_clause_fd(p.fd[1], POLLOUT);
        ck_assert_int_eq(weft_select(&c, 1), 0);
    }
    close_pair(&p);
}
END_TEST

static weft_value exit_later(void *arg)
{
    weft_sleep(0);
    exit_here((int)(intptr_t)arg);
    return 0;
}

/* The kernel has time to answer to the one that selects, who is not there any more. */
static weft_value end_slowly(void *arg)
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
    weft_spin(end_slowly, NULL);
    weft_spin(exit_later, as_arg(3));
    weft_clause c[] = {weft_clause_fd(fd[0], POLLIN), weft_clause_message(),
                       weft_clause_time(1000)};
    weft_select(c, 3);
    return 1;
}

START_TEST(the_process_may_end_while_main_selects)
{
    assert_silent(run_apart(exit_under_a_select), 3);
}
END_TEST

/* A storm: fibers select among pipes and channels, and others write, send, cancel. */

enum { STORM_FIBERS = 100, STORM_PIPES = 5, STORM_ROUNDS = 3000 };

typedef struct storm {
    pair pipes[STORM_PIPES];
    weft_chan *chans[STORM_PIPES];
    int received, selected;
    unsigned random;
} storm;

static unsigned draw(storm *s, unsigned below)
{
    s->random = s->random * 1664525u + 1013904223u;
    return (unsigned)((uint64_t)s->random * below >> 32);
}

static weft_value select_in_storm(void *arg)
{
    storm *s = arg;
    for (;;) {
        weft_clause c[CLAUSES_MAX];
        size_t n = 1 + draw(s, CLAUSES_MAX);
        for (size_t i = 0; i < n; i++) {
            unsigned k = draw(s, STORM_PIPES);
            c[i] = draw(s, 2) ? weft_clause_fd(s->pipes[k].fd[0], POLLIN)
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

START_TEST(in_a_storm_nothing_is_lost_and_nothing_left)
{
    static storm s;
    static weft_fiber f[STORM_FIBERS];
    s = (storm){.random = 1};
    for (int i = 0; i < STORM_PIPES; i++) {
        s.pipes[i] = make_pipe();
        s.chans[i] = weft_chan_new(0);
    }
    for (int i = 0; i < STORM_FIBERS; i++)
        f[i] = weft_spin(select_in_storm, &s);
    int sent = 0;
    for (int round = 0; round < STORM_ROUNDS; round++) {
        unsigned k = draw(&s, STORM_PIPES), i = draw(&s, STORM_FIBERS);
        switch (draw(&s, 6)) {
        case 0:
            put_byte(s.pipes[k].fd[1]);
            break;
        case 1:
            drain(s.pipes[k].fd[0]);
            break;
        case 2:
            weft_interrupt(f[i], -EINTR);
            break;
        case 3:
            weft_cancel(f[i]);
            weft_await(f[i]);
            f[i] = weft_spin(select_in_storm, &s);
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
        close_pair(&s.pipes[i]);
        weft_chan_free(s.chans[i]);
    }
    assert_nothing_is_left();
}
END_TEST

static const TTest *const *const tests[] = {
    &a_descriptor_that_is_ready_happens_without_a_switch,
    &readable_writable_and_hung_up_are_waited_for,
    &a_descriptor_in_error_happens_and_its_value_says_so,
    &closing_the_descriptor_ends_every_select_on_it,
    &what_else_is_ready_wins_over_a_silent_descriptor_without_a_switch,
    &what_comes_later_wins_over_silent_descriptors_and_leaves_nothing_behind,
    &a_descriptor_that_lost_is_as_ready_as_it_was,
    &a_ready_descriptor_and_a_ready_channel_have_the_same_chance,
    &of_many_descriptors_the_one_that_is_ready_happens,
    &both_ways_of_a_socket_may_be_waited_for_by_one_select,
    &all_who_select_on_a_descriptor_hear_that_it_is_ready,
    &the_time_comes_when_no_descriptor_does,
    &try_select_leaves_no_operation_behind,
    &a_select_that_is_cut_short_returns_after_the_kernel_let_go,
    &a_cancel_after_a_win_strikes_at_the_next_call,
    &a_descriptor_may_be_closed_while_the_kernel_lets_go_of_it,
    &a_descriptor_that_is_always_ready_starves_nobody,
    &the_process_may_end_while_main_selects,
    &in_a_storm_nothing_is_lost_and_nothing_left,
};

int main(void)
{
    return run_suite("select_fd", tests, COUNT_OF(tests));
}

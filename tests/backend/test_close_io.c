/* Closing a descriptor on which others wait, and the next file that gets its number. */
#include "net_support.h"

static void open_pair(int fd[2], int kind)
{
    if (kind == 2)
        tcp_pair(fd);
    else
        ck_assert_int_eq(kind == 0 ? weft_pipe(fd) : weft_socketpair(fd), 0);
}
#define PAIR_KINDS 3

/*
 * One who makes a call, and what that returned. Its value is none: an error that nobody awaits yet
 * would be told to the parent.
 */
typedef struct waiter {
    intptr_t (*call)(struct waiter *w);
    int fd;
    intptr_t result;
    weft_fiber fiber;
    char data[16];
} waiter;

typedef intptr_t call_fn(waiter *w);

static intptr_t read_it(waiter *w)
{
    return weft_read(w->fd, w->data, sizeof w->data);
}

static intptr_t write_it(waiter *w)
{
    return weft_write(w->fd, w->data, sizeof w->data);
}

static intptr_t accept_it(waiter *w)
{
    return weft_accept(w->fd, NULL, NULL);
}

static intptr_t wait_for_input(waiter *w)
{
    return weft_wait_fd(w->fd, POLLIN);
}

static intptr_t wait_for_room(waiter *w)
{
    return weft_wait_fd(w->fd, POLLOUT);
}

static intptr_t receive_it(waiter *w)
{
    return weft_recv(w->fd, w->data, sizeof w->data, 0);
}

static intptr_t send_it(waiter *w)
{
    return weft_send(w->fd, w->data, sizeof w->data, 0);
}

static intptr_t close_it(waiter *w)
{
    return weft_close(w->fd);
}

static weft_value make_call(void *arg)
{
    waiter *w = arg;
    w->result = w->call(w);
    return 0;
}

static void spin_waiter(waiter *w, call_fn *call, int fd)
{
    *w = (waiter){.call = call, .fd = fd, .result = 1000};
    w->fiber = weft_spin(make_call, w);
}

/* What its call returned. */
static intptr_t result_of(waiter *w)
{
    ck_assert_int_eq(weft_await(w->fiber), 0);
    return w->result;
}

/* Let the kernel have what was submitted, or not yet. */
static void poll_in(int round)
{
    if (round % 2 != 0)
        ck_assert_int_eq(weft_sleep(0), 0);
}

static void assert_closing_wakes(call_fn *const *calls, size_t n, int fd, int round)
{
    waiter w[8];
    for (size_t i = 0; i < n; i++)
        spin_waiter(&w[i], calls[i], fd);
    let_run();
    for (size_t i = 0; i < n; i++)
        if (weft_state_of(w[i].fiber) != WEFT_WAITING)
            ck_abort_msg("call %zu does not wait: %ld", i, (long)w[i].result);
    ck_assert_uint_eq(ops_pending(), n);
    poll_in(round);
    ck_assert_int_eq(weft_close(fd), 0);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(result_of(&w[i]), -EBADF);
    ck_assert_int_eq(weft_close(fd), -EBADF);
    ck_assert_uint_eq(ops_pending(), 0);
}

/* P65, T98 */
START_TEST(closing_wakes_all_who_read_and_wait)
{
    static call_fn *const calls[] = {read_it, wait_for_input, read_it, read_it, wait_for_input};
    for (int round = 0; round < 2 * PAIR_KINDS; round++) {
        int fd[2];
        open_pair(fd, round / 2);
        assert_closing_wakes(calls, 1, fd[0], round);
        ck_assert_int_eq(weft_close(fd[1]), 0);
        open_pair(fd, round / 2);
        assert_closing_wakes(calls, COUNT_OF(calls), fd[0], round);
        ck_assert_int_eq(weft_close(fd[1]), 0);
    }
}
END_TEST

/* P65, T98 */
START_TEST(closing_wakes_all_who_write)
{
    static call_fn *const calls[] = {write_it, write_it, wait_for_room, write_it};
    for (int round = 0; round < 2 * PAIR_KINDS; round++) {
        int fd[2];
        open_pair(fd, round / 2);
        fill_up(fd[1]);
        assert_closing_wakes(calls, COUNT_OF(calls), fd[1], round);
        ck_assert_int_eq(weft_close(fd[0]), 0);
    }
}
END_TEST

/* P65, T98 */
START_TEST(closing_a_socket_wakes_both_directions)
{
    static call_fn *const calls[] = {read_it, write_it, receive_it, send_it, wait_for_input};
    for (int round = 0; round < 4; round++) {
        int fd[2];
        open_pair(fd, 1 + round / 2);
        fill_up(fd[1]);
        assert_closing_wakes(calls, COUNT_OF(calls), fd[1], round);
        ck_assert_int_eq(weft_close(fd[0]), 0);
    }
}
END_TEST

/* P65, T98 */
START_TEST(closing_a_listener_wakes_all_who_accept)
{
    static call_fn *const calls[] = {accept_it, accept_it, wait_for_input, accept_it};
    for (int round = 0; round < 4; round++) {
        place p;
        int listener = round < 2 ? listen_tcp(&p, 4) : listen_unix(&p, 4);
        assert_closing_wakes(calls, COUNT_OF(calls), listener, round);
        int fd = socket_for(&p);
        ck_assert_int_eq(weft_connect(fd, &p.u.any, p.bytes), -ECONNREFUSED);
        ck_assert_int_eq(weft_close(fd), 0);
    }
}
END_TEST

static place full; /* a listener there has no room */

static intptr_t connect_it(waiter *w)
{
    return weft_connect(w->fd, &full.u.any, full.bytes);
}

/* P65 */
START_TEST(closing_a_socket_wakes_the_one_who_connects_it)
{
    static call_fn *const calls[] = {connect_it};
    for (int round = 0; round < 4; round++) {
        int listener = round < 2 ? listen_tcp(&full, 0) : listen_unix(&full, 0), fillers[3];
        for (size_t i = 0; i < COUNT_OF(fillers); i++) {
            fillers[i] = socket_for(&full);
            ck_assert_int_eq(fcntl(fillers[i], F_SETFL, O_NONBLOCK), 0);
            (void)!connect(fillers[i], &full.u.any, full.bytes);
        }
        assert_closing_wakes(calls, COUNT_OF(calls), socket_for(&full), round);
        for (size_t i = 0; i < COUNT_OF(fillers); i++)
            close(fillers[i]);
        ck_assert_int_eq(weft_close(listener), 0);
    }
}
END_TEST

static int splice_out;

static intptr_t splice_it(waiter *w)
{
    return weft_splice(w->fd, NULL, splice_out, NULL, 16, 0);
}

/* Who holds a number would otherwise move bytes to the next file that gets it. */
START_TEST(closing_either_end_of_a_splice_wakes_the_one_who_waits_in_it)
{
    for (int round = 0; round < 8; round++) {
        int a[2], b[2];
        open_pair(a, 0);
        open_pair(b, 1);
        waiter w;
        splice_out = b[0];
        if (round & 4) { /* waits for room, not for input */
            ck_assert_int_eq(write(a[1], "abc", 3), 3);
            fill_up(b[0]);
        }
        spin_waiter(&w, splice_it, a[0]);
        let_run();
        ck_assert_int_eq(weft_state_of(w.fiber), WEFT_WAITING);
        poll_in(round);
        int *closed = round & 2 ? &a[0] : &b[0];
        ck_assert_int_eq(weft_close(*closed), 0);
        ck_assert_int_eq(result_of(&w), -EBADF);
        ck_assert_uint_eq(ops_pending(), 0);
        *closed = -1;
        for (int i = 0; i < 2; i++) {
            weft_close(a[i]);
            weft_close(b[i]);
        }
    }
}
END_TEST

/* It got what was in the old file, or nothing. */
static void assert_old(waiter *w, bool was_written)
{
    intptr_t result = result_of(w);
    if (result == -EBADF)
        return;
    ck_assert(was_written);
    if (w->call == wait_for_input)
        ck_assert_int_eq(result & POLLIN, POLLIN);
    else if (result != 3 || memcmp(w->data, "old", 3) != 0)
        ck_abort_msg("%ld bytes: %.3s", (long)result, w->data);
}

static void assert_got(waiter *w, const char *text)
{
    ck_assert_int_eq(result_of(w), (intptr_t)strlen(text));
    ck_assert_mem_eq(w->data, text, strlen(text));
}

/* The number is free in any case; the other end may go the plain way: nobody waits on it. */
static void close_old(const int fd[2])
{
    ck_assert_int_eq(weft_close(fd[0]), 0);
    if (random_below(2) == 0)
        ck_assert_int_eq(weft_close(fd[1]), 0);
    else
        ck_assert_int_eq(close(fd[1]), 0);
}

/* Read from the new file, whose data is there before or comes later. */
static void assert_new_is_read(const int fd[2])
{
    waiter w;
    bool is_early = random_below(2) == 0;
    if (is_early)
        ck_assert_int_eq(write(fd[1], "new", 3), 3);
    poll_in((int)random_below(2));
    spin_waiter(&w, read_it, fd[0]);
    poll_in((int)random_below(2));
    if (!is_early)
        ck_assert_int_eq(write(fd[1], "new", 3), 3);
    assert_got(&w, "new");
}

/* Old waiters, then a new one on the same number; returns whether it was the same. */
static bool reuse_a_number(void)
{
    int old[2], new[2];
    waiter w[3];
    unsigned count = 1 + random_below(COUNT_OF(w));
    bool is_written = random_below(4) == 0;
    open_pair(old, (int)random_below(2));
    for (unsigned i = 0; i < count; i++)
        spin_waiter(&w[i], random_below(4) == 0 ? wait_for_input : read_it, old[0]);
    let_run();
    poll_in((int)random_below(2));
    if (is_written)
        ck_assert_int_eq(write(old[1], "old", 3), 3);
    close_old(old);
    open_pair(new, (int)random_below(2));
    assert_new_is_read(new);
    for (unsigned i = 0; i < count; i++)
        assert_old(&w[i], is_written);
    ck_assert_int_eq(weft_close(new[0]), 0);
    ck_assert_int_eq(weft_close(new[1]), 0);
    ck_assert_uint_eq(ops_pending(), 0);
    return new[0] == old[0];
}

/* P65 */
START_TEST(a_number_that_is_used_again_never_gets_what_was_for_the_old_file_nor_the_reverse)
{
    unsigned same = 0;
    for (int i = 0; i < 1000; i++)
        same += reuse_a_number();
    ck_assert_uint_gt(same, 500);
}
END_TEST

/* P65: the kernel knows files, and both numbers are of one */
START_TEST(closing_one_of_two_numbers_of_a_file_leaves_the_other_alone)
{
    for (int round = 0; round < 2 * PAIR_KINDS; round++) {
        int fd[2];
        waiter a, b;
        open_pair(fd, round / 2);
        int twin = fcntl(fd[0], F_DUPFD_CLOEXEC, 0);
        spin_waiter(&a, read_it, fd[0]);
        spin_waiter(&b, read_it, twin);
        let_run();
        poll_in(round);
        ck_assert_int_eq(weft_close(fd[0]), 0);
        ck_assert_int_eq(result_of(&a), -EBADF);
        ck_assert_int_eq(weft_sleep(0), 0);
        ck_assert_int_eq(weft_state_of(b.fiber), WEFT_WAITING);
        ck_assert_int_eq(write(fd[1], "abc", 3), 3);
        assert_got(&b, "abc");
        int again = fcntl(twin, F_DUPFD_CLOEXEC, 0); /* most likely the first number */
        spin_waiter(&a, read_it, again);
        let_run();
        poll_in(round);
        ck_assert_int_eq(write(fd[1], "def", 3), 3);
        assert_got(&a, "def");
        ck_assert_int_eq(weft_close(again), 0);
        ck_assert_int_eq(weft_close(twin), 0);
        ck_assert_int_eq(weft_close(fd[1]), 0);
    }
}
END_TEST

/* P65: the file lives on under another number, and its data is of no concern to the new one */
START_TEST(a_file_that_lives_on_after_its_number_was_given_away_does_not_wake_the_new_one)
{
    for (int round = 0; round < 20; round++) {
        int old[2], new[2];
        waiter w;
        char data[8];
        open_pair(old, 0);
        int twin = fcntl(old[0], F_DUPFD_CLOEXEC, 100);
        spin_waiter(&w, read_it, old[0]);
        let_run();
        poll_in(round);
        ck_assert_int_eq(weft_close(old[0]), 0);
        ck_assert_int_eq(result_of(&w), -EBADF);
        open_pair(new, 0);
        ck_assert_int_eq(new[0], old[0]);
        spin_waiter(&w, read_it, new[0]);
        ck_assert_int_eq(write(old[1], "old", 3), 3);
        let_run();
        poll_in(1);
        ck_assert_int_eq(weft_state_of(w.fiber), WEFT_WAITING);
        ck_assert_int_eq(write(new[1], "new", 3), 3);
        assert_got(&w, "new");
        ck_assert_int_eq(weft_read(twin, data, sizeof data), 3);
        ck_assert_mem_eq(data, "old", 3);
        const int all[] = {twin, old[1], new[0], new[1]};
        for (size_t i = 0; i < COUNT_OF(all); i++)
            ck_assert_int_eq(weft_close(all[i]), 0);
    }
}
END_TEST

/* A fiber whose operation is done, but which has not run yet. */
static void hold_with_data(waiter *w, call_fn *call, const int fd[2])
{
    spin_waiter(w, call, fd[0]);
    let_run();
    ck_assert_int_eq(weft_park(w->fiber), 0);
    ck_assert_int_eq(write(fd[1], "abc", 3), 3);
    while (ops_pending() > 0)
        ck_assert_int_eq(weft_sleep(0), 0);
}

/* The reader has its data already when its neighbour in the queue closes the descriptor. */
START_TEST(data_that_was_read_before_the_close_is_delivered)
{
    for (int round = 0; round < 100; round++) {
        int fd[2];
        waiter w, closer;
        open_pair(fd, round % PAIR_KINDS);
        hold_with_data(&w, read_it, fd);
        spin_waiter(&closer, close_it, fd[0]);
        weft_unpark(w.fiber);
        ck_assert_int_eq(result_of(&closer), 0);
        assert_got(&w, "abc");
        ck_assert_int_eq(weft_close(fd[1]), 0);
    }
}
END_TEST

static intptr_t wait_then_read(waiter *w)
{
    int events = weft_wait_fd(w->fd, POLLIN);
    return events < 0 ? events : weft_read(w->fd, w->data, sizeof w->data);
}

/* Ready, but closed before it could read. */
START_TEST(a_call_after_the_close_is_refused_also_if_readiness_was_reported_before)
{
    int fd[2];
    waiter w;
    open_pair(fd, 1);
    hold_with_data(&w, wait_then_read, fd);
    ck_assert_int_eq(weft_close(fd[0]), 0);
    weft_unpark(w.fiber);
    ck_assert_int_eq(result_of(&w), -EBADF);
    ck_assert_int_eq(weft_close(fd[1]), 0);
}
END_TEST

/* One begins to wait and the other closes in the same turn, in both orders. */
START_TEST(the_one_who_closes_may_be_the_next_in_the_queue_or_the_one_before)
{
    for (int round = 0; round < 2 * PAIR_KINDS; round++) {
        int fd[2];
        waiter reader, closer;
        open_pair(fd, round / 2);
        if (round % 2 == 0)
            spin_waiter(&reader, read_it, fd[0]);
        spin_waiter(&closer, close_it, fd[0]);
        if (round % 2 != 0)
            spin_waiter(&reader, read_it, fd[0]);
        ck_assert_int_eq(result_of(&reader), -EBADF);
        ck_assert_int_eq(result_of(&closer), 0);
        ck_assert_int_eq(weft_close(fd[1]), 0);
        ck_assert_uint_eq(ops_pending(), 0);
    }
}
END_TEST

/* Cancelled and closed in one turn: it ends once, and nothing is left. */
START_TEST(one_who_is_cancelled_while_its_descriptor_is_closed_ends_once)
{
    for (int round = 0; round < 8; round++) {
        int fd[2];
        waiter w;
        open_pair(fd, 1);
        spin_waiter(&w, read_it, fd[0]);
        let_run();
        poll_in(round);
        if (round & 2)
            weft_cancel(w.fiber);
        ck_assert_int_eq(weft_close(fd[0]), 0);
        if (!(round & 2))
            weft_cancel(w.fiber);
        ck_assert_int_eq(weft_await(w.fiber), -ECANCELED);
        ck_assert(w.result == -ECANCELED || w.result == -EBADF);
        ck_assert_int_eq(weft_close(fd[1]), 0);
        ck_assert_uint_eq(ops_pending(), 0);
    }
}
END_TEST

static const TTest *const *const tests[] = {
    &closing_wakes_all_who_read_and_wait,
    &closing_wakes_all_who_write,
    &closing_a_socket_wakes_both_directions,
    &closing_a_listener_wakes_all_who_accept,
    &closing_a_socket_wakes_the_one_who_connects_it,
    &closing_either_end_of_a_splice_wakes_the_one_who_waits_in_it,
    &a_number_that_is_used_again_never_gets_what_was_for_the_old_file_nor_the_reverse,
    &closing_one_of_two_numbers_of_a_file_leaves_the_other_alone,
    &a_file_that_lives_on_after_its_number_was_given_away_does_not_wake_the_new_one,
    &data_that_was_read_before_the_close_is_delivered,
    &a_call_after_the_close_is_refused_also_if_readiness_was_reported_before,
    &the_one_who_closes_may_be_the_next_in_the_queue_or_the_one_before,
    &one_who_is_cancelled_while_its_descriptor_is_closed_ends_once,
};

int main(void)
{
    return run_suite("close_io", tests, COUNT_OF(tests));
}

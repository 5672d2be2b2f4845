/* Tests of closing a descriptor that has waiters, and of reusing its number. */
#include "support/net_support.h"
#include "support/suite.h"

static void open_fd_pair(int fd[2], int kind)
{
    if (kind == 2)
        tcp_pair(fd);
    else
        ck_assert_int_eq(kind == 0 ? weft_pipe(fd) : weft_socketpair(fd), 0);
}
#define PAIR_KINDS 3

/*
 * A fiber that makes one call, and the result of the call. The fiber itself returns 0, because its
 * parent would receive an error that is not awaited.
 */
typedef struct waiter {
    intptr_t (*call)(struct waiter *w);
    int fd;
    intptr_t result;
    weft_fiber fiber;
    char data[16];
} waiter;

typedef intptr_t call_fn(waiter *w);

static intptr_t call_read(waiter *w)
{
    return weft_read(w->fd, w->data, sizeof w->data);
}

static intptr_t call_write(waiter *w)
{
    return weft_write(w->fd, w->data, sizeof w->data);
}

static intptr_t call_accept(waiter *w)
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

static intptr_t call_recv(waiter *w)
{
    return weft_recv(w->fd, w->data, sizeof w->data, 0);
}

static intptr_t call_send(waiter *w)
{
    return weft_send(w->fd, w->data, sizeof w->data, 0);
}

static intptr_t call_close(waiter *w)
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

/* Await the fiber. Return the result of its call. */
static intptr_t result_of(waiter *w)
{
    ck_assert_int_eq(weft_await(w->fiber), 0);
    return w->result;
}

/* Poll in odd rounds, so that the kernel has received the submitted operations. */
static void poll_in_odd_round(int round)
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
    poll_in_odd_round(round);
    ck_assert_int_eq(weft_close(fd), 0);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(result_of(&w[i]), -EBADF);
    ck_assert_int_eq(weft_close(fd), -EBADF);
    ck_assert_uint_eq(ops_pending(), 0);
}

/* P65, T98 */
TEST(closing_wakes_all_readers_and_waiters)
{
    static call_fn *const calls[] = {call_read, wait_for_input, call_read, call_read,
                                     wait_for_input};
    for (int round = 0; round < 2 * PAIR_KINDS; round++) {
        int fd[2];
        open_fd_pair(fd, round / 2);
        assert_closing_wakes(calls, 1, fd[0], round);
        ck_assert_int_eq(weft_close(fd[1]), 0);
        open_fd_pair(fd, round / 2);
        assert_closing_wakes(calls, COUNT_OF(calls), fd[0], round);
        ck_assert_int_eq(weft_close(fd[1]), 0);
    }
}

/* P65, T98 */
TEST(closing_wakes_all_writers)
{
    static call_fn *const calls[] = {call_write, call_write, wait_for_room, call_write};
    for (int round = 0; round < 2 * PAIR_KINDS; round++) {
        int fd[2];
        open_fd_pair(fd, round / 2);
        fill_up(fd[1]);
        assert_closing_wakes(calls, COUNT_OF(calls), fd[1], round);
        ck_assert_int_eq(weft_close(fd[0]), 0);
    }
}

/* P65, T98 */
TEST(closing_a_socket_wakes_both_directions)
{
    static call_fn *const calls[] = {call_read, call_write, call_recv, call_send, wait_for_input};
    for (int round = 0; round < 4; round++) {
        int fd[2];
        open_fd_pair(fd, 1 + round / 2);
        fill_up(fd[1]);
        assert_closing_wakes(calls, COUNT_OF(calls), fd[1], round);
        ck_assert_int_eq(weft_close(fd[0]), 0);
    }
}

/* P65, T98 */
TEST(closing_a_listener_wakes_all_acceptors)
{
    static call_fn *const calls[] = {call_accept, call_accept, wait_for_input, call_accept};
    for (int round = 0; round < 4; round++) {
        endpoint p;
        int listener = round < 2 ? listen_tcp(&p, 4) : listen_unix(&p, 4);
        assert_closing_wakes(calls, COUNT_OF(calls), listener, round);
        int fd = socket_for(&p);
        ck_assert_int_eq(weft_connect(fd, &p.u.any, p.bytes), -ECONNREFUSED);
        ck_assert_int_eq(weft_close(fd), 0);
    }
}

static endpoint full_listener; /* the address of a listener with a full backlog */

static intptr_t call_connect(waiter *w)
{
    return weft_connect(w->fd, &full_listener.u.any, full_listener.bytes);
}

/* P65 */
TEST(closing_a_socket_wakes_its_pending_connect)
{
    static call_fn *const calls[] = {call_connect};
    for (int round = 0; round < 4; round++) {
        int listener = round < 2 ? listen_tcp(&full_listener, 0) : listen_unix(&full_listener, 0),
            fillers[3];
        for (size_t i = 0; i < COUNT_OF(fillers); i++) {
            fillers[i] = socket_for(&full_listener);
            ck_assert_int_eq(fcntl(fillers[i], F_SETFL, O_NONBLOCK), 0);
            (void)!connect(fillers[i], &full_listener.u.any, full_listener.bytes);
        }
        assert_closing_wakes(calls, COUNT_OF(calls), socket_for(&full_listener), round);
        for (size_t i = 0; i < COUNT_OF(fillers); i++)
            close(fillers[i]);
        ck_assert_int_eq(weft_close(listener), 0);
    }
}

static int splice_out;

static intptr_t call_splice(waiter *w)
{
    return weft_splice(w->fd, NULL, splice_out, NULL, 16, 0);
}

/* A waiter that kept the number would move bytes to the next file that gets it. */
TEST(closing_either_end_of_a_splice_wakes_its_waiter)
{
    for (int round = 0; round < 8; round++) {
        int a[2], b[2];
        open_fd_pair(a, 0);
        open_fd_pair(b, 1);
        waiter w;
        splice_out = b[0];
        if (round & 4) { /* wait for room instead of input */
            ck_assert_int_eq(write(a[1], "abc", 3), 3);
            fill_up(b[0]);
        }
        spin_waiter(&w, call_splice, a[0]);
        let_run();
        ck_assert_int_eq(weft_state_of(w.fiber), WEFT_WAITING);
        poll_in_odd_round(round);
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

/* Assert that the waiter got the data of the old file, or -EBADF. */
static void assert_old_data(waiter *w, bool was_written)
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

/* Close both ends. The second end has no waiters, so close(2) is allowed. */
static void close_old(const int fd[2])
{
    ck_assert_int_eq(weft_close(fd[0]), 0);
    if (random_below(2) == 0)
        ck_assert_int_eq(weft_close(fd[1]), 0);
    else
        ck_assert_int_eq(close(fd[1]), 0);
}

/* Read from the new file. Its data arrives before or after the read starts. */
static void assert_new_is_read(const int fd[2])
{
    waiter w;
    bool is_early = random_below(2) == 0;
    if (is_early)
        ck_assert_int_eq(write(fd[1], "new", 3), 3);
    poll_in_odd_round((int)random_below(2));
    spin_waiter(&w, call_read, fd[0]);
    poll_in_odd_round((int)random_below(2));
    if (!is_early)
        ck_assert_int_eq(write(fd[1], "new", 3), 3);
    assert_got(&w, "new");
}

/*
 * Close a file that has waiters, open a new file, and read from it. Return true if the new file got
 * the old number.
 */
static bool reuse_a_number(void)
{
    int old[2], new[2];
    waiter w[3];
    unsigned count = 1 + random_below(COUNT_OF(w));
    bool is_written = random_below(4) == 0;
    open_fd_pair(old, (int)random_below(2));
    for (unsigned i = 0; i < count; i++)
        spin_waiter(&w[i], random_below(4) == 0 ? wait_for_input : call_read, old[0]);
    let_run();
    poll_in_odd_round((int)random_below(2));
    if (is_written)
        ck_assert_int_eq(write(old[1], "old", 3), 3);
    close_old(old);
    open_fd_pair(new, (int)random_below(2));
    assert_new_is_read(new);
    for (unsigned i = 0; i < count; i++)
        assert_old_data(&w[i], is_written);
    ck_assert_int_eq(weft_close(new[0]), 0);
    ck_assert_int_eq(weft_close(new[1]), 0);
    ck_assert_uint_eq(ops_pending(), 0);
    return new[0] == old[0];
}

/* P65 */
TEST(a_reused_number_never_mixes_data_of_the_old_and_the_new_file)
{
    unsigned same = 0;
    for (int i = 0; i < 1000; i++)
        same += reuse_a_number();
    ck_assert_uint_gt(same, 500);
}

/* P65: both descriptors refer to the same open file */
TEST(closing_one_of_two_descriptors_of_a_file_does_not_affect_the_other)
{
    for (int round = 0; round < 2 * PAIR_KINDS; round++) {
        int fd[2];
        waiter a, b;
        open_fd_pair(fd, round / 2);
        int duplicate = fcntl(fd[0], F_DUPFD_CLOEXEC, 0);
        spin_waiter(&a, call_read, fd[0]);
        spin_waiter(&b, call_read, duplicate);
        let_run();
        poll_in_odd_round(round);
        ck_assert_int_eq(weft_close(fd[0]), 0);
        ck_assert_int_eq(result_of(&a), -EBADF);
        ck_assert_int_eq(weft_sleep(0), 0);
        ck_assert_int_eq(weft_state_of(b.fiber), WEFT_WAITING);
        ck_assert_int_eq(write(fd[1], "abc", 3), 3);
        assert_got(&b, "abc");
        int again = fcntl(duplicate, F_DUPFD_CLOEXEC, 0); /* usually the number of fd[0] */
        spin_waiter(&a, call_read, again);
        let_run();
        poll_in_odd_round(round);
        ck_assert_int_eq(write(fd[1], "def", 3), 3);
        assert_got(&a, "def");
        ck_assert_int_eq(weft_close(again), 0);
        ck_assert_int_eq(weft_close(duplicate), 0);
        ck_assert_int_eq(weft_close(fd[1]), 0);
    }
}

/* P65: a duplicate keeps the old file open */
TEST(an_open_file_that_lost_its_number_does_not_wake_readers_of_the_new_file)
{
    for (int round = 0; round < 20; round++) {
        int old[2], new[2];
        waiter w;
        char data[8];
        open_fd_pair(old, 0);
        int duplicate = fcntl(old[0], F_DUPFD_CLOEXEC, 100);
        spin_waiter(&w, call_read, old[0]);
        let_run();
        poll_in_odd_round(round);
        ck_assert_int_eq(weft_close(old[0]), 0);
        ck_assert_int_eq(result_of(&w), -EBADF);
        open_fd_pair(new, 0);
        ck_assert_int_eq(new[0], old[0]);
        spin_waiter(&w, call_read, new[0]);
        ck_assert_int_eq(write(old[1], "old", 3), 3);
        let_run();
        poll_in_odd_round(1);
        ck_assert_int_eq(weft_state_of(w.fiber), WEFT_WAITING);
        ck_assert_int_eq(write(new[1], "new", 3), 3);
        assert_got(&w, "new");
        ck_assert_int_eq(weft_read(duplicate, data, sizeof data), 3);
        ck_assert_mem_eq(data, "old", 3);
        const int all[] = {duplicate, old[1], new[0], new[1]};
        for (size_t i = 0; i < COUNT_OF(all); i++)
            ck_assert_int_eq(weft_close(all[i]), 0);
    }
}

/* Spin a fiber, and park it until its operation has completed. The fiber has not run since. */
static void park_with_data(waiter *w, call_fn *call, const int fd[2])
{
    spin_waiter(w, call, fd[0]);
    let_run();
    ck_assert_int_eq(weft_park(w->fiber), 0);
    ck_assert_int_eq(write(fd[1], "abc", 3), 3);
    while (ops_pending() > 0)
        ck_assert_int_eq(weft_sleep(0), 0);
}

/* The read has completed when the next fiber in the run queue closes the descriptor. */
TEST(data_that_was_read_before_the_close_is_delivered)
{
    for (int round = 0; round < 100; round++) {
        int fd[2];
        waiter w, closer;
        open_fd_pair(fd, round % PAIR_KINDS);
        park_with_data(&w, call_read, fd);
        spin_waiter(&closer, call_close, fd[0]);
        weft_unpark(w.fiber);
        ck_assert_int_eq(result_of(&closer), 0);
        assert_got(&w, "abc");
        ck_assert_int_eq(weft_close(fd[1]), 0);
    }
}

static intptr_t wait_then_read(waiter *w)
{
    int events = weft_wait_fd(w->fd, POLLIN);
    return events < 0 ? events : weft_read(w->fd, w->data, sizeof w->data);
}

/* The descriptor is closed between the readiness report and the read. */
TEST(a_call_after_the_close_fails_even_if_readiness_was_reported)
{
    int fd[2];
    waiter w;
    open_fd_pair(fd, 1);
    park_with_data(&w, wait_then_read, fd);
    ck_assert_int_eq(weft_close(fd[0]), 0);
    weft_unpark(w.fiber);
    ck_assert_int_eq(result_of(&w), -EBADF);
    ck_assert_int_eq(weft_close(fd[1]), 0);
}

/* Both calls run in the same tick, in either order. */
TEST(a_close_may_run_just_before_or_after_a_read)
{
    for (int round = 0; round < 2 * PAIR_KINDS; round++) {
        int fd[2];
        waiter reader, closer;
        open_fd_pair(fd, round / 2);
        if (round % 2 == 0)
            spin_waiter(&reader, call_read, fd[0]);
        spin_waiter(&closer, call_close, fd[0]);
        if (round % 2 != 0)
            spin_waiter(&reader, call_read, fd[0]);
        ck_assert_int_eq(result_of(&reader), -EBADF);
        ck_assert_int_eq(result_of(&closer), 0);
        ck_assert_int_eq(weft_close(fd[1]), 0);
        ck_assert_uint_eq(ops_pending(), 0);
    }
}

TEST(a_read_that_is_cancelled_and_closed_in_one_tick_ends_once)
{
    for (int round = 0; round < 8; round++) {
        int fd[2];
        waiter w;
        open_fd_pair(fd, 1);
        spin_waiter(&w, call_read, fd[0]);
        let_run();
        poll_in_odd_round(round);
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

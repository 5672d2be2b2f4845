/* Tests of closing a descriptor that has waiters, and of reusing its number. */
#include "support/net_support.h"
#include "support/suite.h"

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
    struct iovec piece;
    struct msghdr message;
} waiter;

typedef intptr_t call_fn(waiter *w);

static endpoint full_listener; /* the address of a listener with a full backlog */

#define CALL(name, expression)      \
    static intptr_t name(waiter *w) \
    {                               \
        return (expression);        \
    }

CALL(call_read, weft_read(w->fd, w->data, sizeof w->data))
CALL(call_write, weft_write(w->fd, w->data, sizeof w->data))
CALL(call_accept, weft_accept(w->fd, NULL, NULL))
CALL(call_connect, weft_connect(w->fd, &full_listener.u.any, full_listener.bytes))
CALL(wait_for_input, weft_wait_fd(w->fd, POLLIN))
CALL(wait_for_room, weft_wait_fd(w->fd, POLLOUT))
CALL(call_recv, weft_recv(w->fd, w->data, sizeof w->data, MSG_WAITALL))
CALL(call_recvmsg, weft_recvmsg(w->fd, &w->message, 0))
CALL(call_send, weft_send(w->fd, w->data, sizeof w->data, 0))
CALL(call_close, weft_close(w->fd))

static weft_value make_call(void *arg)
{
    waiter *w = arg;
    w->result = w->call(w);
    return 0;
}

static void spin_waiter(waiter *w, call_fn *call, int fd)
{
    *w = (waiter){.call = call, .fd = fd, .result = 1000};
    w->piece = (struct iovec){w->data, sizeof w->data};
    w->message = (struct msghdr){.msg_iov = &w->piece, .msg_iovlen = 1};
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

static int open_readable(int k)
{
    int fd[2];
    open_stream(fd, k);
    return fd[0];
}

/* Return a descriptor without room. */
static int open_full(int k)
{
    int fd[2];
    open_stream(fd, k);
    fill_up(fd[1]);
    return fd[1];
}

static int open_listener(int k)
{
    endpoint p;
    return k == STREAM_TCP ? listen_tcp(&p, 4) : listen_unix(&p, 4);
}

/* Return a socket whose connect waits. */
static int open_unconnected(int k)
{
    (void)(k == STREAM_TCP ? listen_tcp(&full_listener, 0) : listen_unix(&full_listener, 0));
    for (int i = 0; i < 3; i++) {
        int filler = socket_for(&full_listener);
        ck_assert_int_eq(fcntl(filler, F_SETFL, O_NONBLOCK), 0);
        (void)!connect(filler, &full_listener.u.any, full_listener.bytes);
    }
    return socket_for(&full_listener);
}

#define READERS                                                         \
    {                                                                   \
        call_read, wait_for_input, call_read, call_read, wait_for_input \
    }
#define WRITERS                                           \
    {                                                     \
        call_write, call_write, wait_for_room, call_write \
    }
#define BOTH                                                                      \
    {                                                                             \
        call_read, call_write, call_recv, call_send, wait_for_input, call_recvmsg \
    }
#define ACCEPTORS                                             \
    {                                                         \
        call_accept, call_accept, wait_for_input, call_accept \
    }

static const struct {
    int (*open)(int k);
    int kind;
    call_fn *calls[8]; /* up to the first NULL */
} closings[] = {
    {open_readable, STREAM_PIPE, {call_read}},
    {open_readable, STREAM_PIPE, READERS},
    {open_readable, STREAM_UNIX, READERS},
    {open_readable, STREAM_TCP, READERS},
    {open_full, STREAM_PIPE, WRITERS},
    {open_full, STREAM_UNIX, WRITERS},
    {open_full, STREAM_TCP, WRITERS},
    {open_full, STREAM_UNIX, BOTH},
    {open_full, STREAM_TCP, BOTH},
    {open_listener, STREAM_TCP, ACCEPTORS},
    {open_listener, STREAM_UNIX, ACCEPTORS},
    {open_unconnected, STREAM_TCP, {call_connect}},
    {open_unconnected, STREAM_UNIX, {call_connect}},
};

/* P65, T98 */
TEST_LOOP(closing_a_descriptor_wakes_all_its_waiters, 2 * COUNT_OF(closings))
{
    call_fn *const *calls = closings[_i / 2].calls;
    int fd = closings[_i / 2].open(closings[_i / 2].kind);
    waiter w[8];
    size_t n = 0;
    for (; calls[n] != NULL; n++)
        spin_waiter(&w[n], calls[n], fd);
    let_run();
    for (size_t i = 0; i < n; i++)
        if (weft_state_of(w[i].fiber) != WEFT_WAITING)
            ck_abort_msg("call %zu does not wait: %ld", i, (long)w[i].result);
    ck_assert_uint_eq(ops_pending(), n);
    poll_in_odd_round(_i);
    ck_assert_int_eq(weft_close(fd), 0);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(result_of(&w[i]), -EBADF);
    ck_assert_int_eq(weft_close(fd), -EBADF);
    ck_assert_uint_eq(ops_pending(), 0);
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
    open_stream(old, (int)random_below(2));
    for (unsigned i = 0; i < count; i++)
        spin_waiter(&w[i], random_below(4) == 0 ? wait_for_input : call_read, old[0]);
    let_run();
    poll_in_odd_round((int)random_below(2));
    if (is_written)
        ck_assert_int_eq(write(old[1], "old", 3), 3);
    close_old(old);
    open_stream(new, (int)random_below(2));
    assert_new_is_read(new);
    for (unsigned i = 0; i < count; i++)
        assert_old_data(&w[i], is_written);
    close_fd_pair(new);
    ck_assert_uint_eq(ops_pending(), 0);
    return new[0] == old[0];
}

/* P65 */
TEST(a_reused_number_never_mixes_data_of_the_old_and_the_new_file)
{
    unsigned same = 0;
    for (int i = 0; i < 300; i++)
        same += reuse_a_number();
    ck_assert_uint_gt(same, 150);
}

/* The stream of the tests below. */
static int fd[2];

/* P65: both descriptors refer to the same open file */
TEST_LOOP(closing_one_of_two_descriptors_of_a_file_does_not_affect_the_other, 2 * STREAM_KINDS)
{
    waiter a, b;
    open_stream(fd, _i / 2);
    int duplicate = fcntl(fd[0], F_DUPFD_CLOEXEC, 0);
    spin_waiter(&a, call_read, fd[0]);
    spin_waiter(&b, call_read, duplicate);
    let_run();
    poll_in_odd_round(_i);
    ck_assert_int_eq(weft_close(fd[0]), 0);
    ck_assert_int_eq(result_of(&a), -EBADF);
    ck_assert_int_eq(weft_sleep(0), 0);
    ck_assert_int_eq(weft_state_of(b.fiber), WEFT_WAITING);
    ck_assert_int_eq(write(fd[1], "abc", 3), 3);
    assert_got(&b, "abc");
    spin_waiter(&a, call_read, fcntl(duplicate, F_DUPFD_CLOEXEC, 0)); /* usually fd[0] again */
    let_run();
    poll_in_odd_round(_i);
    ck_assert_int_eq(write(fd[1], "def", 3), 3);
    assert_got(&a, "def");
}

/* P65: a duplicate keeps the old file open */
TEST_LOOP(an_open_file_that_lost_its_number_does_not_wake_readers_of_the_new_file, 2)
{
    int old[2], new[2];
    waiter w;
    char data[8];
    open_stream(old, STREAM_PIPE);
    int duplicate = fcntl(old[0], F_DUPFD_CLOEXEC, 100);
    spin_waiter(&w, call_read, old[0]);
    let_run();
    poll_in_odd_round(_i);
    ck_assert_int_eq(weft_close(old[0]), 0);
    ck_assert_int_eq(result_of(&w), -EBADF);
    open_stream(new, STREAM_PIPE);
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
}

/* Spin a fiber, and park it until its operation has completed. The fiber has not run since. */
static void park_with_data(waiter *w, call_fn *call)
{
    spin_waiter(w, call, fd[0]);
    let_run();
    ck_assert_int_eq(weft_park(w->fiber), 0);
    ck_assert_int_eq(write(fd[1], "abc", 3), 3);
    while (ops_pending() > 0)
        ck_assert_int_eq(weft_sleep(0), 0);
}

/* The read has completed when the next fiber in the run queue closes the descriptor. */
TEST_LOOP(data_that_was_read_before_the_close_is_delivered, STREAM_KINDS)
{
    waiter w, closer;
    open_stream(fd, _i);
    park_with_data(&w, call_read);
    spin_waiter(&closer, call_close, fd[0]);
    weft_unpark(w.fiber);
    ck_assert_int_eq(result_of(&closer), 0);
    assert_got(&w, "abc");
}

static intptr_t wait_then_read(waiter *w)
{
    int events = weft_wait_fd(w->fd, POLLIN);
    return events < 0 ? events : weft_read(w->fd, w->data, sizeof w->data);
}

/* The descriptor is closed between the readiness report and the read. */
TEST(a_call_after_the_close_fails_even_if_readiness_was_reported)
{
    waiter w;
    open_stream(fd, 1);
    park_with_data(&w, wait_then_read);
    ck_assert_int_eq(weft_close(fd[0]), 0);
    weft_unpark(w.fiber);
    ck_assert_int_eq(result_of(&w), -EBADF);
}

/* Both calls run in the same tick, in either order. */
TEST_LOOP(a_close_may_run_just_before_or_after_a_read, 2 * STREAM_KINDS)
{
    waiter w[2];
    open_stream(fd, _i / 2);
    spin_waiter(&w[0], _i % 2 == 0 ? call_read : call_close, fd[0]);
    spin_waiter(&w[1], _i % 2 == 0 ? call_close : call_read, fd[0]);
    ck_assert_int_eq(result_of(&w[_i % 2]), -EBADF);
    ck_assert_int_eq(result_of(&w[!(_i % 2)]), 0);
    ck_assert_uint_eq(ops_pending(), 0);
}

TEST_LOOP(a_read_that_is_cancelled_and_closed_in_one_tick_ends_once, 4)
{
    waiter w;
    open_stream(fd, STREAM_UNIX);
    spin_waiter(&w, call_read, fd[0]);
    let_run();
    poll_in_odd_round(_i);
    if (_i & 2)
        weft_cancel(w.fiber);
    ck_assert_int_eq(weft_close(fd[0]), 0);
    if (!(_i & 2))
        weft_cancel(w.fiber);
    ck_assert_int_eq(weft_await(w.fiber), -ECANCELED);
    ck_assert(w.result == -ECANCELED || w.result == -EBADF);
    ck_assert_uint_eq(ops_pending(), 0);
}

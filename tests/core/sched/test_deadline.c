/*
 * Tests of the conditions for a timeout: a scope has timed out only if its deadline interrupted a
 * call inside it. A call that has a result is never lost because a deadline passes at the same
 * time.
 */
#include "support/suite.h"

#include <sys/socket.h>

#define LINES 400
#define TIMEOUT_S 0.0002
/* Pauses about as often shorter than the deadline as longer, and sometimes equal. */
#define PAUSES 5

/* As in examples/gets.c. */
static ssize_t gets_within(weft_stream *from, char *line, size_t room)
{
    ssize_t n = 0;
    int rc;
    WEFT_CANCEL_AFTER(TIMEOUT_S, rc)
        n = weft_stream_gets(from, line, room);
    return rc < 0 ? rc : n;
}

static void read_numbered_lines(int fd)
{
    weft_stream input;
    char line[32], expected[32];
    ck_assert_int_eq(weft_stream_open(&input, fd), 0);
    for (int i = 0; i < LINES;) {
        ssize_t n = gets_within(&input, line, sizeof line);
        if (n == -ETIMEDOUT)
            continue;
        snprintf(expected, sizeof expected, "line %d\n", i++);
        ck_assert_int_gt(n, 0);
        ck_assert_str_eq(line, expected);
    }
    ck_assert_int_eq(weft_stream_close(&input), 0);
}

/* Write a line after each pause, in a fiber or in a thread without fibers. */
static weft_value write_lines(int fd, bool is_thread)
{
    for (int i = 0; i < LINES; i++) {
        char line[32];
        ssize_t bytes = snprintf(line, sizeof line, "line %d\n", i);
        double pause_s = TIMEOUT_S * (i % PAUSES + 1) / (PAUSES / 2 + 1);
        int slept = is_thread ? usleep((useconds_t)(pause_s * 1e6)) : weft_sleep(pause_s);
        ssize_t n =
            is_thread ? write(fd, line, (size_t)bytes) : weft_write_all(fd, line, (size_t)bytes);
        if (slept < 0 || n != bytes)
            return -EIO;
    }
    return 0;
}

FIBER(write_numbered_lines, write_lines(*(int *)arg, false))

TEST(a_line_that_arrived_before_the_deadline_is_never_lost)
{
    int fd[2];
    ck_assert_int_eq(weft_pipe(fd), 0);
    weft_fiber writer = weft_spin(write_numbered_lines, &fd[1]);
    read_numbered_lines(fd[0]);
    ck_assert_int_eq(weft_await(writer), 0);
    weft_close(fd[1]);
}

THREAD(write_in_thread, write_lines(*(int *)arg, true))

TEST(a_line_from_another_thread_is_never_lost_to_a_deadline)
{
    if (is_sim())
        return; /* a descriptor of the kernel blocks the thread */
    int fd[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    pthread_t writer = start_thread(write_in_thread, &fd[1]);
    read_numbered_lines(fd[0]);
    ck_assert_ptr_null(join_thread(writer));
    close(fd[1]);
}

/* Wait until the deadline has passed, without a call that the deadline could interrupt. */
static void wait_past_deadline(const weft_scope *scope)
{
    while (!weft_scope_is_cancelled(scope)) {
        WEFT_SHIELD(INFINITY)
            weft_sleep(0.0001);
    }
}

TEST(a_deadline_that_passed_between_calls_or_in_a_shield_times_out_only_if_a_call_follows)
{
    for (int i = 0; i < 4; i++) {
        bool is_shielded = i % 2 == 0, follows = i / 2 == 0;
        weft_scope scope;
        ck_assert_int_eq(weft_scope_open(&scope, 0.0001), 0);
        if (is_shielded)
            WEFT_SHIELD(INFINITY)
                ck_assert_int_eq(weft_sleep(0.001), 0);
        else
            wait_past_deadline(&scope);
        ck_assert(weft_scope_is_cancelled(&scope));
        if (follows)
            ck_assert_int_eq(weft_snooze(), -ECANCELED);
        ck_assert_int_eq(weft_scope_close(&scope), follows ? -ETIMEDOUT : 0);
    }
    int rc = 1;
    WEFT_CANCEL_AFTER(0, rc) {}
    ck_assert_int_eq(rc, 0);
}

TEST(of_two_expired_deadlines_the_first_times_out)
{
    weft_scope outer, inner;
    for (int is_outer = 0; is_outer < 2; is_outer++) {
        ck_assert_int_eq(weft_scope_open(&outer, is_outer ? 0.001 : 0.002), 0);
        ck_assert_int_eq(weft_scope_open(&inner, is_outer ? 0.002 : 0.001), 0);
        WEFT_SHIELD(INFINITY)
            ck_assert_int_eq(weft_sleep(0.003), 0);
        ck_assert_int_eq(weft_sleep(1), -ECANCELED);
        ck_assert_int_eq(weft_scope_close(&inner), is_outer ? 0 : -ETIMEDOUT);
        ck_assert_int_eq(weft_scope_close(&outer), is_outer ? -ETIMEDOUT : 0);
    }
}

/* Wait for a stop if there is an argument, else for the deadline. */
static weft_value sleep_in_scope_until_stopped(void *arg)
{
    weft_scope scope;
    double timeout_s = arg != NULL ? 60 : 0.0001;
    weft_scope_open(&scope, timeout_s);
    weft_value rc = weft_sleep(INFINITY);
    int closed = weft_scope_close(&scope);
    mark(rc == -ECANCELED && closed == -ETIMEDOUT ? "late " : closed == 0 ? "stopped " : "? ");
    return 0;
}

TEST(a_fiber_that_is_stopped_inside_a_scope_has_not_timed_out)
{
    weft_fiber f = spin_waiting(sleep_in_scope_until_stopped, trail);
    ck_assert_int_eq(weft_terminate(f, 1), 0);
    ck_assert_trail("stopped ");
    ck_assert_int_eq(weft_await(weft_spin(sleep_in_scope_until_stopped, NULL)), 0);
    ck_assert_trail("stopped late ");
}

TEST(an_error_of_a_child_that_ends_the_call_is_not_a_timeout)
{
    weft_scope scope;
    ck_assert_int_eq(weft_scope_open(&scope, 0.001), 0);
    weft_go(fail_with, as_arg(-EPIPE));
    ck_assert_int_eq(weft_sleep(60), -EPIPE);
    wait_past_deadline(&scope);
    ck_assert_int_eq(weft_scope_close(&scope), 0);
}

TEST(calls_with_an_available_result_do_not_time_out)
{
    weft_mutex mutex = {0};
    weft_chan *chan = weft_chan_new(1);
    weft_fiber ended = weft_spin(return_arg, as_arg(7));
    ck_assert_int_eq(weft_chan_send(chan, 3), 0);
    let_run();
    weft_scope scope;
    ck_assert_int_eq(weft_scope_open(&scope, 0.0001), 0);
    wait_past_deadline(&scope);
    /* Each call may be refused instead. Only a refused call makes the scope time out. */
    weft_value results[] = {weft_mutex_lock(&mutex), weft_chan_recv(chan), weft_await(ended)};
    bool is_refused = false;
    for (size_t i = 0; i < COUNT_OF(results); i++)
        is_refused |= results[i] == -ECANCELED;
    ck_assert_int_eq(weft_scope_close(&scope), is_refused ? -ETIMEDOUT : 0);
    weft_chan_free(chan);
}

TEST(a_group_that_has_finished_has_not_timed_out)
{
    weft_scope scope;
    weft_group g;
    ck_assert_int_eq(weft_scope_open(&scope, 0.001), 0);
    ck_assert_int_eq(weft_group_open(&g), 0);
    weft_group_spin(&g, return_arg, NULL);
    wait_past_deadline(&scope);
    ck_assert_int_eq(weft_group_close(&g), 0);
    ck_assert_int_eq(weft_scope_close(&scope), 0);
}

/* The stream accepts a part of the text. The deadline interrupts the write of the rest. */
TEST(a_partial_write_to_a_stream_has_not_timed_out)
{
    static char text[1 << 20];
    int fd[2];
    weft_stream output;
    ck_assert_int_eq(weft_pipe(fd), 0);
    ck_assert_int_eq(weft_stream_open(&output, fd[1]), 0);
    memset(text, 'x', sizeof text);
    ssize_t n = 0;
    int rc = 1;
    WEFT_CANCEL_AFTER(0.001, rc)
        n = weft_stream_write(&output, text, sizeof text);
    ck_assert_int_gt(n, 0);
    ck_assert_int_lt(n, (ssize_t)sizeof text);
    ck_assert_int_eq(rc, 0);
    weft_close(fd[0]);
    (void)weft_stream_close(&output);
}

TEST(bytes_of_a_partial_receive_are_not_lost_to_the_deadline)
{
    int fd[2];
    char bytes[8];
    ck_assert_int_eq(weft_socketpair(fd), 0);
    ck_assert_int_eq(weft_write_all(fd[1], "abc", 3), 3);
    ssize_t n = 0;
    int rc = 1;
    WEFT_CANCEL_AFTER(0.001, rc)
        n = weft_recv(fd[0], bytes, sizeof bytes, MSG_WAITALL);
    ck_assert_int_eq(n, 3);
    ck_assert_int_eq(rc, 0);
    close_fd_pair(fd);
}

/* Tests of watches: a fiber when a descriptor is readable. test_fd_watch_kernel.c has more. */
#include "support/suite.h"

#include "core/cord/fork_support.h"

/* A watched socket, its peer, and what its fibers have done. */
typedef struct session {
    weft_fd_watch watch;
    int fd;
    int peer;
    int runs; /* fibers so far */
    int result;
    int drops;
    ssize_t bytes; /* result of the last read */
    char name[32]; /* of the last fiber */
    weft_fiber fiber;
    weft_fiber parent;
} session;

static session s;

static void open_session(session *own)
{
    int fd[2];
    *own = (session){0};
    ck_assert_int_eq(weft_socketpair(fd), 0);
    own->fd = fd[0];
    own->peer = fd[1];
}

static void close_session(const session *own)
{
    ck_assert_int_eq(weft_close(own->fd), 0);
    ck_assert_int_eq(weft_close(own->peer), 0);
}

static void set_up(void)
{
    open_session(&s);
}

/* Each test must end its watches. No descriptor, timer or operation of the watcher is left. */
static void tear_down(void)
{
    close_session(&s);
    let_run();
    ck_assert_uint_eq(ops_pending(), 0);
    ck_assert_uint_eq(armed_timers(), 0);
}

FIXTURE(set_up, tear_down)

static weft_value note_run(void *arg)
{
    session *own = arg;
    own->runs++;
    own->result = weft_fd_watch_result(&own->watch);
    own->fiber = weft_self();
    own->parent = weft_parent(own->fiber);
    snprintf(own->name, sizeof own->name, "%s", weft_name_of(own->fiber));
    return 0;
}

static void count_drop(void *arg)
{
    ((session *)arg)->drops++;
}

static int watch(session *own, double timeout_s)
{
    return weft_fd_watch_open(&own->watch, own->fd, timeout_s, NULL, note_run, own, NULL);
}

static void send_byte(const session *own)
{
    ck_assert_int_eq(weft_write(own->peer, "x", 1), 1);
}

/* Wait until the fibers of a session have run this often. */
static void await_runs(const session *own, int runs)
{
    while (own->runs < runs)
        ck_assert_int_eq(weft_sleep(0.001), 0);
    let_run();
    ck_assert_int_eq(own->runs, runs);
}

TEST(a_fiber_is_created_once_when_a_descriptor_is_readable)
{
    ck_assert_int_eq(watch(&s, INFINITY), 0);
    let_run();
    ck_assert_int_eq(s.runs, 0);
    send_byte(&s);
    await_runs(&s, 1);
    ck_assert_int_eq(s.result, 0);
    ck_assert_uint_eq(s.parent, weft_main());
    send_byte(&s);
    let_run();
    ck_assert_int_eq(s.runs, 1);
    ck_assert_int_eq(weft_fd_watch_close(&s.watch), -EALREADY);
}

TEST(input_that_arrived_before_the_watch_counts)
{
    send_byte(&s);
    ck_assert_int_eq(watch(&s, INFINITY), 0);
    await_runs(&s, 1);
    ck_assert_int_eq(s.result, 0);
}

TEST(the_end_of_the_input_counts_as_input)
{
    ck_assert_int_eq(watch(&s, INFINITY), 0);
    ck_assert_int_eq(weft_shutdown(s.peer, SHUT_WR), 0);
    await_runs(&s, 1);
    ck_assert_int_eq(s.result, 0);
}

TEST(after_the_time_limit_the_result_is_a_timeout)
{
    static const double limits[] = {0, 0.002};
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        double begin = weft_now();
        ck_assert_int_eq(watch(&s, limits[i]), 0);
        await_runs(&s, (int)i + 1);
        ck_assert_slept(begin, limits[i]);
        ck_assert_int_eq(s.result, -ETIMEDOUT);
    }
}

TEST(input_before_the_time_limit_disarms_the_timer)
{
    ck_assert_int_eq(watch(&s, 1000), 0);
    send_byte(&s);
    await_runs(&s, 1);
    ck_assert_int_eq(s.result, 0);
    ck_assert_uint_eq(armed_timers(), 0);
}

TEST(a_closed_watch_creates_no_fiber)
{
    ck_assert_int_eq(watch(&s, 0.001), 0);
    ck_assert_int_eq(weft_fd_watch_close(&s.watch), 0);
    ck_assert_fails(weft_fd_watch_close(&s.watch), -EINVAL);
    send_byte(&s);
    weft_sleep(0.003);
    ck_assert_int_eq(s.runs, 0);
    ck_assert_int_eq(weft_fd_watch_result(&s.watch), -EINVAL);
}

TEST(a_due_watch_can_still_be_closed)
{
    ck_assert_int_eq(watch(&s, INFINITY), 0);
    ck_assert_int_eq(weft_fd_watch_interrupt(&s.watch, -EINTR), 0);
    ck_assert_int_eq(weft_fd_watch_close(&s.watch), 0);
    let_run();
    ck_assert_int_eq(s.runs, 0);
}

TEST(without_watches_there_is_no_descriptor_and_no_operation)
{
    int before = count_descriptors();
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(watch(&s, 1000), 0);
        ck_assert_int_eq(count_descriptors(), before + !is_sim());
        ck_assert_int_eq(weft_fd_watch_close(&s.watch), 0);
        ck_assert_int_eq(count_descriptors(), before);
    }
    ck_assert_int_eq(watch(&s, 1000), 0);
    send_byte(&s);
    await_runs(&s, 1);
    ck_assert_int_eq(count_descriptors(), before);
}

TEST(a_watch_has_no_fiber_of_its_own)
{
    ck_assert_int_eq(watch(&s, 1000), 0);
    let_run();
    ck_assert_int_eq(weft_children(weft_main(), NULL, 0), 0);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(weft_fd_watch_close(&s.watch), 0);
}

/* Read one byte, write it back, and watch again. Stop at the end of the input. */
static weft_value echo_and_rest(void *arg)
{
    session *own = arg;
    char byte;
    own->runs++;
    own->bytes = weft_read(own->fd, &byte, 1);
    if (own->bytes <= 0)
        return own->bytes;
    ck_assert_int_eq(weft_write(own->fd, &byte, 1), 1);
    return weft_fd_watch_open(&own->watch, own->fd, 1000, NULL, echo_and_rest, own, NULL);
}

TEST(the_fiber_can_watch_again)
{
    ck_assert_int_eq(weft_fd_watch_open(&s.watch, s.fd, 1000, NULL, echo_and_rest, &s, NULL), 0);
    for (int i = 0; i < 100; i++) {
        char byte = (char)i, reply = 0;
        ck_assert_int_eq(weft_write(s.peer, &byte, 1), 1);
        ck_assert_int_eq(weft_read(s.peer, &reply, 1), 1);
        ck_assert_int_eq(reply, byte);
    }
    ck_assert_int_eq(weft_shutdown(s.peer, SHUT_WR), 0);
    await_runs(&s, 101);
    ck_assert_int_eq(s.bytes, 0);
}

TEST(closing_the_descriptor_ends_its_watch)
{
    ck_assert_int_eq(watch(&s, INFINITY), 0);
    ck_assert_int_eq(weft_close(s.fd), 0);
    await_runs(&s, 1);
    ck_assert_int_eq(s.result, -EBADF);
    ck_assert_int_eq(weft_close(s.peer), 0);
    open_session(&s);
}

TEST(forgetting_the_descriptor_ends_its_watch)
{
    if (is_sim()) /* in-memory descriptors cannot be forgotten */
        return;
    ck_assert_int_eq(watch(&s, INFINITY), 0);
    ck_assert_int_eq(weft_fd_release(s.fd), -EBUSY);
    ck_assert_int_eq(weft_fd_forget(s.fd), 0);
    await_runs(&s, 1);
    ck_assert_int_eq(s.result, -EBADF);
    ck_assert_int_eq(weft_fd_release(s.fd), 0);
}

TEST(an_interrupted_watch_gets_the_code)
{
    ck_assert_fails(weft_fd_watch_interrupt(&s.watch, -EINTR), -EINVAL);
    ck_assert_int_eq(watch(&s, INFINITY), 0);
    ck_assert_fails(weft_fd_watch_interrupt(&s.watch, 1), -EINVAL);
    ck_assert_int_eq(weft_fd_watch_interrupt(&s.watch, -EINTR), 0);
    ck_assert_int_eq(weft_fd_watch_interrupt(&s.watch, -ESHUTDOWN), 0);
    await_runs(&s, 1);
    ck_assert_int_eq(s.result, -ESHUTDOWN);
    ck_assert_int_eq(weft_fd_watch_interrupt(&s.watch, -EINTR), -EALREADY);
}

TEST(invalid_arguments_are_refused)
{
    weft_fd_watch other;
    weft_spin_options tiny = {.stack_bytes = 1}, copied = {.arg_bytes = 1};
    weft_fiber ended = weft_spin(return_arg, NULL);
    ck_assert_int_eq(weft_await(ended), 0);
    weft_spin_options orphan = {.parent = ended};
    ck_assert_fails(weft_fd_watch_open(NULL, s.fd, 1, NULL, note_run, &s, NULL), -EINVAL);
    ck_assert_fails(weft_fd_watch_open(&s.watch, s.fd, 1, NULL, NULL, &s, NULL), -EINVAL);
    ck_assert_fails(watch(&s, -1), -EINVAL);
    ck_assert_fails(watch(&s, NAN), -EINVAL);
    ck_assert_fails(weft_fd_watch_open(&s.watch, s.fd, 1, NULL, note_run, &s, &tiny), -EINVAL);
    ck_assert_fails(weft_fd_watch_open(&s.watch, s.fd, 1, NULL, note_run, &s, &copied), -EINVAL);
    ck_assert_fails(weft_fd_watch_open(&s.watch, s.fd, 1, NULL, note_run, &s, &orphan), -ESRCH);
    ck_assert_int_eq(weft_fd_watch_open(&s.watch, -1, 1, NULL, note_run, &s, NULL), -EBADF);
    ck_assert_fails(weft_fd_watch_close(NULL), -EINVAL);
    ck_assert_int_eq(weft_fd_watch_result(NULL), -EINVAL);
    if (is_sim())
        return;
    ck_assert_int_eq(weft_fd_watch_open(&other, 19999, 1, NULL, note_run, &s, NULL), -EBADF);
    int file = open_unnamed_file();
    ck_assert_int_eq(weft_fd_watch_open(&other, file, 1, NULL, note_run, &s, NULL), -EPERM);
    close(file);
    ck_assert_int_eq(watch(&s, INFINITY), 0);
    ck_assert_fails(weft_fd_watch_open(&other, s.fd, 1, NULL, note_run, &s, NULL), -EBUSY);
    send_byte(&s);
    await_runs(&s, 1);
}

TEST(the_fiber_has_the_options_of_the_watch)
{
    char name[] = "session";
    weft_spin_options o = {.name = name, .stack_bytes = 128 << 10, .parent = weft_self()};
    ck_assert_int_eq(weft_fd_watch_open(&s.watch, s.fd, 1000, NULL, note_run, &s, &o), 0);
    name[0] = 'X'; /* the call has copied the name */
    send_byte(&s);
    await_runs(&s, 1);
    ck_assert_str_eq(s.name, "session");
}

TEST(watches_with_many_different_options_keep_them)
{
    session all[20];
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        open_session(&all[i]);
        weft_spin_options o = {.name = format("s%zu", i)};
        ck_assert_int_eq(
            weft_fd_watch_open(&all[i].watch, all[i].fd, 1000, NULL, note_run, &all[i], &o), 0);
    }
    for (size_t i = COUNT_OF(all); i-- > 0;) {
        send_byte(&all[i]);
        await_runs(&all[i], 1);
        ck_assert_str_eq(all[i].name, format("s%zu", i));
        close_session(&all[i]);
    }
}

static weft_value note_and_fail(void *arg)
{
    note_run(arg);
    return -EIO;
}

TEST(the_fiber_belongs_to_the_group)
{
    int rc = 0;
    WEFT_GROUP(g, rc) {
        ck_assert_int_eq(weft_fd_watch_open(&s.watch, s.fd, 1000, &g, note_and_fail, &s, NULL), 0);
        ck_assert_uint_eq(weft_group_count(&g), 0);
        send_byte(&s);
        while (s.runs == 0)
            weft_sleep(0.001);
    }
    ck_assert_int_eq(rc, -EIO);
}

TEST(after_the_end_of_the_group_drop_is_called)
{
    weft_group g;
    weft_spin_options o = {.drop = count_drop};
    ck_assert_int_eq(weft_group_open(&g), 0);
    ck_assert_int_eq(weft_fd_watch_open(&s.watch, s.fd, 1000, &g, note_run, &s, &o), 0);
    ck_assert_int_eq(weft_group_close(&g), 0);
    weft_error_clear();
    send_byte(&s);
    while (s.drops == 0)
        weft_sleep(0.001);
    ck_assert_ptr_null(weft_error()); /* the errors of a watch are not those of another fiber */
    ck_assert_int_eq(s.drops, 1);
    ck_assert_int_eq(s.runs, 0);
    ck_assert_int_eq(weft_fd_watch_close(&s.watch), -EALREADY);
}

TEST(after_the_end_of_the_parent_drop_is_called)
{
    weft_fiber parent = spin_suspended();
    weft_spin_options o = {.drop = count_drop, .parent = parent};
    ck_assert_int_eq(weft_fd_watch_open(&s.watch, s.fd, 1000, NULL, note_run, &s, &o), 0);
    ck_assert_int_eq(cancel_and_await(parent), -ECANCELED);
    send_byte(&s);
    while (s.drops == 0)
        weft_sleep(0.001);
    ck_assert_int_eq(s.drops, 1);
    ck_assert_int_eq(s.runs, 0);
}

TEST(a_closed_watch_does_not_call_drop)
{
    weft_spin_options o = {.drop = count_drop};
    ck_assert_int_eq(weft_fd_watch_open(&s.watch, s.fd, 1000, NULL, note_run, &s, &o), 0);
    ck_assert_int_eq(weft_fd_watch_close(&s.watch), 0);
    ck_assert_int_eq(s.drops, 0);
}

/* Open two watches and end the thread. The second is due. */
static weft_value leave_watches(void *arg)
{
    session *own = arg;
    weft_spin_options o = {.drop = count_drop};
    for (int i = 0; i < 2; i++) {
        open_session(&own[i]);
        ck_assert_int_eq(
            weft_fd_watch_open(&own[i].watch, own[i].fd, 1000, NULL, note_run, &own[i], &o), 0);
    }
    ck_assert_int_eq(weft_fd_watch_interrupt(&own[1].watch, -EINTR), 0);
    return 0;
}

TEST(the_end_of_the_thread_calls_drop)
{
    session left[2];
    int before = count_descriptors();
    ck_assert_int_eq(weft_cord_join(weft_cord_start(leave_watches, left, NULL)), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(left[i].drops, 1);
        ck_assert_int_eq(left[i].runs, 0);
        ck_assert_int_eq(weft_fd_watch_close(&left[i].watch), -EALREADY);
        if (!is_sim())
            close_session(&left[i]);
    }
    ck_assert_int_eq(count_descriptors(), before);
}

TEST(weft_suspend_waits_for_a_watch)
{
    ck_assert_int_eq(watch(&s, 0.003), 0);
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert_int_eq(s.runs, 1);
    ck_assert_int_eq(s.result, -ETIMEDOUT);
}

TEST(weft_suspend_waits_for_a_watch_that_is_due)
{
    ck_assert_int_eq(watch(&s, INFINITY), 0);
    ck_assert_int_eq(weft_fd_watch_interrupt(&s.watch, -EINTR), 0);
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert_int_eq(s.runs, 1);
}

TEST(weft_suspend_does_not_wait_for_a_daemon)
{
    weft_spin_options o = {.is_daemon = true};
    ck_assert_int_eq(weft_fd_watch_open(&s.watch, s.fd, 1000, NULL, note_run, &s, &o), 0);
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert_int_eq(s.runs, 0);
    ck_assert_int_eq(weft_fd_watch_close(&s.watch), 0);
}

TEST(a_watch_is_closed_in_a_forked_child)
{
    weft_spin_options o = {.drop = count_drop};
    ck_assert_int_eq(weft_fd_watch_open(&s.watch, s.fd, 1000, NULL, note_run, &s, &o), 0);
    int before = count_descriptors();
    pid_t pid = weft_fork();
    if (pid == 0) {
        session own;
        require(weft_fd_watch_close(&s.watch) == -EINVAL);
        require(s.drops == 0);
        require(count_descriptors() <= before);
        open_session(&own);
        require(watch(&own, 1000) == 0);
        send_byte(&own);
        while (own.runs == 0)
            require(weft_sleep(0.001) == 0);
        _exit(0);
    }
    ck_assert_int_eq(wait_for_exit(pid), 0);
    ck_assert_int_eq(s.runs, 0);
    send_byte(&s);
    await_runs(&s, 1);
    ck_assert_int_eq(s.result, 0);
}

/* The number of fibers that run at the same time, now and at most. */
static int alive, alive_max;

static weft_value count_alive(void *arg)
{
    session *own = arg;
    alive_max = ++alive > alive_max ? alive : alive_max;
    snprintf(own->name, sizeof own->name, "%d", own->runs++);
    weft_snooze();
    alive--;
    return 0;
}

TEST(many_events_at_once_need_few_stacks)
{
    static session all[400];
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        open_session(&all[i]);
        ck_assert_int_eq(
            weft_fd_watch_open(&all[i].watch, all[i].fd, 1000, NULL, count_alive, &all[i], NULL),
            0);
    }
    for (size_t i = 0; i < COUNT_OF(all); i++)
        send_byte(&all[i]);
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        while (all[i].runs == 0)
            ck_assert_int_eq(weft_sleep(0.001), 0);
        close_session(&all[i]);
    }
    ck_assert_int_le(alive_max, 2 * 64);
}

static weft_value mark_name(void *arg)
{
    mark(((session *)arg)->name);
    return 0;
}

TEST(fibers_are_created_in_the_order_of_the_events)
{
    session all[5];
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        open_session(&all[i]);
        snprintf(all[i].name, sizeof all[i].name, "%zu", i);
        ck_assert_int_eq(
            weft_fd_watch_open(&all[i].watch, all[i].fd, 1000, NULL, mark_name, &all[i], NULL), 0);
    }
    static const int order[] = {3, 0, 4, 2, 1};
    for (size_t i = 0; i < COUNT_OF(order); i++)
        ck_assert_int_eq(weft_fd_watch_interrupt(&all[order[i]].watch, -EINTR), 0);
    let_run();
    if (!is_sim()) /* sim shuffles the fibers */
        ck_take_trail("30421");
    for (size_t i = 0; i < COUNT_OF(all); i++)
        close_session(&all[i]);
}

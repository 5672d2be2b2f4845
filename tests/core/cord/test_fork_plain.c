/*
 * Plain fork(2) in a program that uses weft: calls in the child are refused, and the parent is not
 * affected.
 */
#include "core/cord/fork_world.h"

#define REFUSED (-ENOTRECOVERABLE)
#define REFUSAL_MESSAGE "weft: all calls fail in a child of fork(2); use weft_fork\n"

static weft_cord cord;

static void require_refused_waits(void)
{
    char byte;
    require(weft_sleep(0) == REFUSED && weft_suspend() == REFUSED && weft_snooze() == REFUSED);
    require(weft_read(w.fd[0], &byte, 1) == REFUSED);
    require(weft_await(w.fibers[0]) == REFUSED && weft_cancel(w.fibers[0]) == REFUSED);
    require(weft_await_children() == REFUSED && weft_receive() == REFUSED);
    require(weft_mutex_lock(&w.held) == REFUSED && weft_mutex_unlock(&w.held) == REFUSED);
    require(weft_rwlock_unlock(&w.lock) == REFUSED && weft_rwlock_read(&w.lock) == REFUSED);
    require(weft_cond_signal(&w.cond) == REFUSED && weft_cond_broadcast(&w.cond) == REFUSED);
    require(weft_cond_wait(&w.cond, NULL) == REFUSED && weft_sem_wait(&w.sem) == REFUSED);
    require(weft_sem_post(&w.sem) == REFUSED && weft_event_set(&w.event) == REFUSED);
    require(weft_event_wait(&w.event) == REFUSED && weft_latch_done(&w.latch) == REFUSED);
    require(weft_chan_try_send(w.empty, 1) == REFUSED && weft_chan_send(w.empty, 1) == REFUSED);
    require(weft_chan_try_recv(w.empty) == REFUSED && weft_chan_recv(w.empty) == REFUSED);
    require(weft_chan_close(w.empty) == REFUSED && weft_queue_close(w.queue) == REFUSED);
    require(weft_queue_try_push(w.queue, 1) == REFUSED && weft_queue_push(w.queue, 1) == REFUSED);
    require(weft_queue_try_shift(w.queue) == REFUSED && weft_queue_shift(w.queue) == REFUSED);
}

static void require_refused(void)
{
    weft_scope scope;
    weft_group group;
    int fd[2];
    require_refused_waits();
    require(weft_spin(suspend, NULL) == 0 && weft_go(suspend, NULL) == REFUSED);
    require(weft_new(suspend, NULL) == 0 && weft_self() == 0 && weft_main() == 0);
    require(weft_tell(w.fibers[0], 1) == REFUSED && weft_schedule(w.fibers[0], 1) == REFUSED);
    require(weft_stop(w.fibers[0], 1) == REFUSED && weft_interrupt(w.fibers[0], -1) == REFUSED);
    require(weft_scope_open(&scope, 1) == REFUSED && weft_group_open(&group) == REFUSED);
    require(weft_pipe(fd) == REFUSED && weft_socketpair(fd) == REFUSED);
    require(weft_cord_start(suspend, NULL, NULL) == 0 && weft_cord_spin(cord, suspend, NULL) == 0);
    require(weft_cord_join(cord) == REFUSED && weft_cord_cancel(cord) == REFUSED);
    require(weft_cord_call(cord, return_arg, NULL) == REFUSED);
    require(weft_fork() == REFUSED && weft_name_of(w.fibers[0]) == NULL);
    require(weft_error() != NULL && weft_error()->code == REFUSED);
    require(weft_mailbox_set_bound(1) == REFUSED && weft_defer(mark_arg, "") == REFUSED);
    require(weft_alloc(1) == NULL && weft_offload(return_arg, NULL) == REFUSED);
    require(weft_offload_go(return_arg, NULL) == REFUSED);
    weft_counters counters;
    require(weft_stats(&counters) == REFUSED && weft_stats_total(&counters) == REFUSED);
    require(weft_stats_of(cord, &counters) == REFUSED);
}

static void exit_after_refusals(void)
{
    require_refused();
    is_exiting_in_a_fiber = true;
    exit(0);
}

TEST_PROGRAM(every_call_is_refused_in_the_child_and_reported_once, 0, REFUSAL_MESSAGE)
{
    assert_world_survives((world_fork){fork, exit_after_refusals, 1});
    return 0;
}

TEST_PROGRAM(calls_to_other_cords_are_refused_in_the_child, 0, REFUSAL_MESSAGE)
{
    cord = weft_cord_start(suspend, NULL, NULL);
    assert_world_survives((world_fork){fork, exit_after_refusals, 1});
    weft_cord_cancel(cord);
    weft_cord_join(cord);
    return 0;
}

/* Forks in fibers, callbacks and threads. */

static weft_value return_in_forked_child(void *arg)
{
    weft_defer(mark_arg, "defer ");
    pid_t pid = fork();
    is_exiting_in_a_fiber = pid == 0;
    return pid == 0 ? (weft_value)arg : wait_for_exit(pid);
}

FIBER_DO(count_shared, weft_suspend(), atomic_fetch_add((atomic_int *)arg, 1), 0)

TEST(a_fiber_that_returns_in_the_child_ends_it_and_no_other_fiber_runs)
{
    atomic_int *ran = shared_memory(sizeof *ran);
    weft_fiber f[4];
    for (size_t i = 0; i < COUNT_OF(f); i++) {
        f[i] = weft_spin(count_shared, ran);
        weft_snooze();
        weft_schedule(f[i], 0); /* on the run queue at the fork */
    }
    weft_fiber ok = weft_spin(return_in_forked_child, as_arg(7));
    weft_fiber bad = weft_spin(return_in_forked_child, as_arg(-EIO));
    ck_assert_int_eq(weft_await(ok), 0);
    ck_assert_int_eq(weft_await(bad), 1);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(*ran, COUNT_OF(f));
    ck_assert_trail("defer defer ");
}

static pid_t parent_pid;

static weft_value print_if_in_child(void *arg)
{
    if (getpid() != parent_pid)
        dprintf(STDERR_FILENO, "%s\n", (char *)arg);
    return 0;
}

static weft_value fork_once(void *arg)
{
    pid_t *pid = arg;
    if (*pid != -1)
        return 0;
    parent_pid = getpid();
    weft_go(print_if_in_child, "a fiber of the parent runs in the child");
    *pid = fork();
    is_exiting_in_a_fiber = *pid == 0;
    return 0;
}

FIBER(loop_with_fork, weft_throttled_loop(fork_once, arg, 10, 2))

/* Fork in a callback of a call that continues after the callback. */
TEST_PROGRAM(a_weft_call_that_would_continue_in_the_child_ends_it, 1, REFUSAL_MESSAGE)
{
    pid_t pid = -1;
    weft_spin(sleep_forever, NULL);
    weft_value value = weft_await(weft_spin(loop_with_fork, &pid));
    return pid > 0 && value == 0 ? wait_for_exit(pid) : 97;
}

TEST_PROGRAM(a_group_block_ends_in_the_child, 0, REFUSAL_MESSAGE)
{
    pid_t pid = -1;
    int rc = 0;
    WEFT_GROUP(g, rc) {
        weft_group_spin(&g, suspend, NULL);
        weft_snooze();
        pid = fork();
        if (pid > 0)
            weft_group_cancel(&g);
    }
    return pid == 0 ? (rc == REFUSED ? 0 : 96) : wait_for_exit(pid);
}

static void *fork_in_thread(void *arg)
{
    pid_t pid = fork();
    if (pid == 0) {
        require(weft_sleep(0) == REFUSED);
        is_exiting_in_a_fiber = true;
        if (HAS_TSAN) /* TSan does not work after the last thread has ended */
            _exit(0);
        pthread_exit(NULL);
    }
    return as_arg(wait_for_exit(pid));
}

TEST(a_thread_without_fibers_is_refused_in_the_child_too)
{
    weft_fiber f = spin_waiting(suspend_and_mark, "ran");
    freopen("/dev/null", "w", stderr);
    ck_assert_ptr_null(join_thread(start_thread(fork_in_thread, NULL)));
    ck_assert_int_eq(weft_schedule(f, 0), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_trail("ran");
}

/* Before the first call, and in nested children. */

TEST(a_fork_before_the_first_weft_call_has_no_effect)
{
    pid_t pid = fork();
    require_runtime_works();
    if (pid == 0) {
        pid_t second = weft_fork();
        require_runtime_works();
        int status = 0;
        require(second == 0 || (waitpid(second, &status, 0) == second && status == 0));
        _exit(0);
    }
    ck_assert_int_eq(wait_for_exit(pid), 0);
}

TEST_PROGRAM(calls_are_refused_in_a_child_of_a_child, 3, REFUSAL_MESSAGE)
{
    weft_sleep(0);
    pid_t pid = fork();
    if (pid == 0) {
        pid_t second = fork();
        if (second == 0) {
            require(weft_sleep(0) == REFUSED);
            _exit(3);
        }
        int status;
        require(waitpid(second, &status, 0) == second);
        _exit(WEXITSTATUS(status));
    }
    return wait_for_exit(pid);
}

TEST_PROGRAM(the_child_may_exec, 0, "")
{
    weft_sleep(0);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(127);
    }
    return wait_for_exit(pid);
}

static void exit_at_once(void)
{
    _exit(0);
}

TEST(many_forks_do_not_affect_pending_operations)
{
    assert_world_survives((world_fork){fork, exit_at_once, 30});
}

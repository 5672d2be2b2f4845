/*
 * Tests of the end of a program: the order of cleanups, the reports on stderr, and the exit status.
 */
#include "support/suite.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

/* Print how the fiber ended, first in its function, then in its deferred call. */
static weft_value print_when_cancelled(void *arg)
{
    weft_defer(print_stderr_arg, (void *)"defer ");
    weft_value rc = weft_sleep(INFINITY);
    print_stderr(arg);
    return rc;
}

static int return_with_one_fiber(void)
{
    weft_defer(print_stderr_arg, (void *)"main ");
    weft_spin(print_when_cancelled, (void *)"fiber ");
    weft_snooze();
    return 3;
}

/* P33 */
TEST(the_cleanup_of_main_runs_first_then_that_of_all_fibers)
{
    assert_exited(run_apart(return_with_one_fiber), 3, "main fiber defer ");
}

static weft_value run_grandchild(void *arg)
{
    weft_defer(print_stderr_arg, (void *)"grandchild's ");
    weft_value rc = weft_suspend();
    print_stderr(arg);
    return rc;
}

static weft_value run_child(void *arg)
{
    weft_defer(print_stderr_arg, (void *)"child's ");
    weft_spin(run_grandchild, (void *)"grandchild ");
    weft_value rc = weft_suspend();
    print_stderr(arg);
    return rc;
}

static int return_with_tree(void)
{
    weft_defer(print_stderr_arg, (void *)"main's ");
    weft_spin(run_child, (void *)"child ");
    weft_sleep(0.001);
    return 0;
}

/* P75 */
TEST(cleanup_runs_from_main_to_the_child_to_the_grandchild)
{
    assert_exited(run_apart(return_with_tree), 0, "main's child child's grandchild grandchild's ");
}

static weft_value clean_up_slowly(void *arg)
{
    weft_suspend();
    WEFT_SHIELD(60) {
        weft_sleep(0.02);
        print_stderr(arg);
    }
    return 0;
}

static int return_with_slow_fibers(void)
{
    weft_spin(clean_up_slowly, (void *)"a");
    weft_spin(clean_up_slowly, (void *)"b");
    weft_snooze();
    return 0;
}

/* P16, P17 */
TEST(the_process_ends_after_the_cleanup_of_all_fibers)
{
    assert_exited(run_apart(return_with_slow_fibers), 0, "ab");
}

static int return_with_unstarted_fibers(void)
{
    weft_spin(print_when_cancelled, (void *)"ran");
    weft_new(print_when_cancelled, (void *)"ran");
    return 0;
}

/* P23, P33 */
TEST(fibers_that_never_ran_do_not_run_at_exit)
{
    assert_silent(run_apart(return_with_unstarted_fibers), 0);
}

static weft_value spin_while_ending(void *arg)
{
    weft_suspend();
    weft_fiber f = weft_spin(print_when_cancelled, arg);
    WEFT_SHIELD(60) {
        weft_sleep(0.001);
    }
    print_stderr(weft_state_of(f) == WEFT_WAITING ? "runs " : "does not run ");
    return 0;
}

static int return_with_fiber_that_spins(void)
{
    weft_spin(spin_while_ending, (void *)"late ");
    weft_snooze();
    return 0;
}

/* T104 */
TEST(fibers_that_are_spun_during_exit_are_ended_too)
{
    assert_exited(run_apart(return_with_fiber_that_spins), 0, "runs late defer ");
}

static weft_value ignore_everything(void *arg)
{
    for (int i = 0; i < 1000; i++)
        weft_sleep(60);
    print_stderr(arg);
    return 0;
}

static int return_with_stubborn_fiber(void)
{
    weft_spin(ignore_everything, (void *)"stubborn ");
    weft_spin(print_when_cancelled, (void *)"polite ");
    weft_snooze();
    return 0;
}

/* DESIGN 6 */
TEST(a_fiber_that_ignores_cancellation_does_not_delay_the_others)
{
    assert_exited(run_apart(return_with_stubborn_fiber), 0, "polite defer stubborn ");
}

static weft_value call_exit(void *arg)
{
    weft_defer(print_stderr_arg, (void *)"caller ");
    weft_spin(print_when_cancelled, (void *)"child ");
    weft_snooze();
    exit_here((int)(intptr_t)arg);
    return 0;
}

static int let_a_fiber_exit(void)
{
    weft_defer(print_stderr_arg, (void *)"main ");
    weft_spin(print_when_cancelled, (void *)"sibling ");
    weft_spin(call_exit, as_arg(5));
    weft_sleep(INFINITY);
    print_stderr("main went on ");
    return 0;
}

/* P33 */
TEST(exit_in_any_fiber_runs_the_cleanup_of_all_fibers)
{
    const outcome *o = run_apart(let_a_fiber_exit);
    assert_exited(o, 5, "main caller child defer sibling defer ");
}

static weft_value exit_with_a_slow_child(void *arg)
{
    weft_spin(clean_up_slowly, arg);
    weft_snooze();
    exit_here(5);
    return 0;
}

static int sleep_through_an_exit(void)
{
    weft_spin(exit_with_a_slow_child, (void *)"clean ");
    weft_sleep(0.005);
    print_stderr("main went on ");
    return 0;
}

/* P33 */
TEST(the_ancestors_of_the_fiber_that_calls_exit_do_not_continue)
{
    assert_exited(run_apart(sleep_through_an_exit), 5, "clean ");
}

static weft_key printed; /* its destructor prints the value */

static weft_value exit_with_local_value(void *arg)
{
    weft_local_set(printed, arg);
    exit_here(0);
    return 0;
}

static int exit_with_local_values(void)
{
    printed = weft_key_new(print_stderr_arg);
    weft_local_set(printed, (void *)"main ");
    weft_await(weft_spin(exit_with_local_value, (void *)"caller "));
    return 0;
}

/* P33, T105 */
TEST(fiber_local_values_are_destroyed_also_in_the_fiber_that_calls_exit)
{
    const outcome *o = run_apart(exit_with_local_values);
    ck_assert_int_eq(o->status, 0);
    assert_printed(o, "main ");
    assert_printed(o, "caller ");
}

static weft_value fail_with_a_cause(void *arg)
{
    weft_fail(-ENOENT, "no file %s", (const char *)arg);
    return weft_fail(-EIO, "cannot start");
}

static weft_value spin_failing_child(void *arg)
{
    weft_spin_with(fail_with_a_cause, arg, &(weft_spin_options){.name = "loader"});
    return weft_sleep(INFINITY);
}

static int ignore_an_error(void)
{
    weft_spin_with(spin_failing_child, (void *)"x.conf", &(weft_spin_options){.name = "keeper"});
    weft_snooze();
    weft_snooze();
    weft_snooze();
    return 0;
}

/* P20, issue 2, 5 */
TEST(an_unhandled_error_is_reported_and_the_status_is_1)
{
    const outcome *o = run_apart(ignore_an_error);
    ck_assert_int_eq(o->status, 1);
    assert_printed(o, "not handled");
    assert_printed(o, "cannot start");
    assert_printed(o, strerror(EIO));
    assert_printed(o, "'loader'");
    assert_printed(o, "caused by: no file x.conf");
    assert_printed(o, "raised in #");
    assert_printed(o, "recorded at");
}

static int return_with_error(void)
{
    weft_spin(spin_failing_child, (void *)"x.conf");
    return weft_sleep(INFINITY) < 0 ? 4 : 0;
}

/* P20, issue 2, 5 */
TEST(an_error_of_a_child_that_ends_main_is_reported_and_the_status_kept)
{
    const outcome *o = run_apart(return_with_error);
    ck_assert_int_eq(o->status, 4);
    assert_printed(o, "cannot start");
}

static int handle_an_error(void)
{
    weft_spin(spin_failing_child, (void *)"x.conf");
    if (weft_sleep(INFINITY) != -EIO)
        return 1;
    weft_error_clear();
    return 0;
}

static int handle_an_awaited_error(void)
{
    return weft_await(weft_spin(fail_with, as_arg(-EIO))) == -EIO ? 0 : 1;
}

/* P20, P21 */
TEST(an_error_that_main_handles_is_silent_and_the_status_is_0)
{
    assert_silent(run_apart(handle_an_error), 0);
    assert_silent(run_apart(handle_an_awaited_error), 0);
}

static int clear_and_return_another_status(void)
{
    weft_spin(spin_failing_child, (void *)"x.conf");
    weft_sleep(INFINITY);
    weft_error_clear();
    return 7;
}

/* P20 */
TEST(a_cleared_error_is_not_reported_for_any_status)
{
    assert_silent(run_apart(clear_and_return_another_status), 7);
}

static weft_value fail_while_ending(void *arg)
{
    weft_suspend();
    return weft_fail((int)(intptr_t)arg, "clean-up %d", -(int)(intptr_t)arg);
}

static int return_with_failing_fibers(void)
{
    weft_spin(fail_while_ending, as_arg(-EIO));
    weft_spin(fail_while_ending, as_arg(-ENOENT));
    weft_snooze();
    return 0;
}

/* P18 */
TEST(the_first_error_of_fibers_that_fail_at_exit_is_reported)
{
    const outcome *o = run_apart(return_with_failing_fibers);
    ck_assert_int_eq(o->status, 1);
    assert_printed(o, "clean-up 5");
    ck_assert_ptr_null(strstr(o->text, "clean-up 2"));
}

static weft_value return_cancelled(void *arg)
{
    return weft_suspend();
}

static int return_with_cancelled_fibers(void)
{
    weft_spin(return_cancelled, NULL);
    weft_cancel(weft_spin(return_cancelled, NULL));
    weft_snooze();
    return 0;
}

/* T27 */
TEST(cancelled_fibers_are_not_reported)
{
    assert_silent(run_apart(return_with_cancelled_fibers), 0);
}

weft_value overflow_its_stack(void *arg); /* global, so that backtraces show its name */

weft_value overflow_its_stack(void *arg)
{
    return descend((int)(intptr_t)arg);
}

static int overflow_in_fiber(void)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    weft_spin_options options = {.name = "greedy", .stack_bytes = 32 << 10};
    return (int)weft_await(weft_spin_with(overflow_its_stack, NULL, &options));
}

/* T52 */
TEST(a_stack_overflow_is_reported_with_the_fiber_its_size_and_a_remedy)
{
    const outcome *o = run_apart(overflow_in_fiber);
    if (!is_sanitized()) /* sanitizers have their own handlers, which run after ours */
        ck_assert_int_eq(o->status, -SIGSEGV);
    assert_printed(o, "stack overflow in fiber #");
    assert_printed(o, "'greedy'");
    assert_printed(o, "which runs ");
    assert_printed(o, "32 KiB");
    assert_printed(o, ".stack_bytes");
    assert_printed(o, "WEFT_STACK=");
}

static int switch_where_forbidden(void)
{
    weft_set_name(weft_self(), "careful");
    weft_no_switch_begin();
    weft_no_switch_begin();
    int first = weft_sleep(0.001);
    weft_no_switch_end();
    int second = weft_snooze();
    weft_no_switch_end();
    int third = weft_sleep(0.001);
    weft_no_switch_end(); /* one call too many does no harm */
    int fourth = weft_snooze();
    return first == -EPERM && second == -EPERM && third == 0 && fourth == 0 ? 0 : 1;
}

/* T106 */
TEST(a_switch_where_it_is_forbidden_fails_and_is_reported_with_the_fiber)
{
    const outcome *o = run_apart(switch_where_forbidden);
    ck_assert_int_eq(o->status, 0);
    ck_assert_uint_eq(count_in(o->text, "forbidden"), 2);
    ck_assert_uint_eq(count_in(o->text, "'careful'"), 2);
}

static int compute_where_switching_is_forbidden(void)
{
    weft_no_switch_begin();
    weft_fiber f = weft_spin(return_arg, as_arg(7));
    bool is_fine = weft_state_of(f) == WEFT_RUNNABLE && weft_schedule(f, 0) == 0;
    weft_no_switch_end();
    return is_fine && weft_await(f) == 7 ? 0 : 1;
}

/* T106 */
TEST(calls_that_do_not_switch_are_allowed_where_switching_is_forbidden)
{
    assert_silent(run_apart(compute_where_switching_is_forbidden), 0);
}

static weft_value end_forbidden(void *arg)
{
    weft_no_switch_begin();
    return (weft_value)arg;
}

static weft_value sleep_1ms(void *arg)
{
    return weft_sleep(0.001);
}

static int end_with_switching_forbidden(void)
{
    weft_fiber f = weft_spin(end_forbidden, as_arg(7));
    if (weft_await(f) != 7)
        return 1;
    return weft_await(weft_spin(sleep_1ms, NULL)) == 0 ? 0 : 2;
}

/* T106 */
TEST(a_no_switch_section_ends_with_its_fiber)
{
    assert_silent(run_apart(end_with_switching_forbidden), 0);
}

static weft_value return_arg_late(void *arg)
{
    weft_suspend();
    WEFT_SHIELD(60) {
        weft_sleep(0.05);
    }
    return (weft_value)arg;
}

static int terminate_a_slow_fiber(void)
{
    weft_fiber f = weft_spin_with(return_arg_late, NULL, &(weft_spin_options){.name = "slow"});
    weft_snooze();
    return weft_terminate(f, 0.001);
}

/* API: weft_terminate */
TEST(a_fiber_that_exceeds_its_grace_period_is_reported_and_waited_for)
{
    const outcome *o = run_apart(terminate_a_slow_fiber);
    ck_assert_int_eq(o->status, 0);
    assert_printed(o, "'slow' has not ended");
}

static weft_value end_after_shield(void *arg)
{
    weft_suspend();
    WEFT_SHIELD(INFINITY) {
        weft_sleep(0.001);
    }
    return 0;
}

static weft_value exit_with_three(void *arg)
{
    weft_sleep(0.001);
    exit_here(3);
    return 0;
}

static int exit_under_a_read(void)
{
    int fd[2];
    weft_pipe(fd);
    weft_spin(end_after_shield, NULL);
    weft_spin(exit_with_three, NULL);
    char byte;
    weft_read(fd[0], &byte, 1);
    return 1;
}

TEST(a_fiber_may_exit_while_main_reads_and_others_end_slowly)
{
    assert_silent(run_apart(exit_under_a_read), 3);
}

static void print_earlier(void)
{
    print_stderr("earlier ");
}

static int fail_a_child_with_handlers(void)
{
    atexit(print_earlier); /* before the first call of weft */
    weft_go(fail_with, as_arg(-EIO));
    weft_snooze();
    weft_go(fail_with, as_arg(-EIO));
    WEFT_SHIELD(INFINITY)
        weft_snooze();
    return 0;
}

TEST(handlers_registered_before_weft_run_also_when_the_status_is_changed_to_failure)
{
    const outcome *o = run_apart(fail_a_child_with_handlers);
    ck_assert_int_eq(o->status, EXIT_FAILURE);
    assert_printed(o, "was not handled");
    assert_printed(o, "earlier ");
}

static weft_value sleep_repeatedly(void *arg)
{
    for (;;)
        weft_sleep(1);
    return 0;
}

static int return_with_fiber_that_ignores_cancellation(void)
{
    atexit(print_earlier);
    weft_spin_with(sleep_repeatedly, NULL, &(weft_spin_options){.name = "stubborn"});
    weft_spin(print_when_cancelled, (void *)"fiber ");
    weft_snooze();
    return 0;
}

TEST(a_fiber_that_ignores_its_cancellation_is_reported_and_abandoned)
{
    const outcome *o = run_apart(return_with_fiber_that_ignores_cancellation);
    ck_assert_int_eq(o->status, EXIT_FAILURE);
    assert_printed(o, "'stubborn' ignores its cancellation");
    assert_printed(o, "'stubborn' has not ended");
    assert_printed(o, "fiber defer "); /* the other fibers have ended as usual */
    assert_printed(o, "earlier ");
}

static weft_value spin_fiber_that_ignores_cancellation(void *arg)
{
    atomic_bool *has_begun = arg;
    weft_spin_with(sleep_repeatedly, NULL, &(weft_spin_options){.name = "stubborn"});
    weft_snooze();
    atomic_store(has_begun, true);
    return weft_sleep(INFINITY);
}

static int return_with_thread_that_ignores_cancellation(void)
{
    static atomic_bool has_begun;
    atexit(print_earlier);
    weft_cord_start(spin_fiber_that_ignores_cancellation, &has_begun, NULL);
    while (!atomic_load(&has_begun))
        weft_sleep(0.001);
    return 0;
}

TEST(a_thread_that_ignores_its_cancellation_makes_the_process_fail)
{
    const outcome *o = run_apart(return_with_thread_that_ignores_cancellation);
    ck_assert_int_eq(o->status, EXIT_FAILURE);
    assert_printed(o, "'stubborn' ignores its cancellation");
    assert_printed(o, "has not ended; the process ends without this thread");
    assert_printed(o, "earlier ");
}

static weft_value sleep_long_in_shield(void *arg)
{
    weft_sleep(INFINITY);
    WEFT_SHIELD(INFINITY)
        weft_sleep(is_sim() ? 1000 : 0.1);
    print_stderr("drained");
    return 0;
}

static int return_with_long_cleanup(void)
{
    weft_spin(sleep_long_in_shield, NULL);
    weft_snooze();
    return 0;
}

TEST(the_process_waits_for_a_shielded_cleanup_without_limit)
{
    assert_exited(run_apart(return_with_long_cleanup), 0, "drained");
}

static int ignore_child_error(void)
{
    weft_go(fail_with, as_arg(-EIO));
    weft_snooze();
    weft_snooze(); /* the child failed, and the result is ignored */
    return 0;
}

TEST(an_ignored_error_of_a_child_is_reported)
{
    const outcome *o = run_apart(ignore_child_error);
    ck_assert_int_eq(o->status, 0);
    assert_printed(o, "without checking the error of a child");
    assert_printed(o, "broken");
}

static int read_child_error(void)
{
    weft_go(fail_with, as_arg(-EIO));
    weft_snooze();
    if (weft_snooze() != 0)
        print_stderr(weft_error()->message);
    return 0;
}

static int clear_child_error(void)
{
    weft_go(fail_with, as_arg(-EIO));
    weft_snooze();
    weft_snooze();
    weft_error_clear();
    return 0;
}

static weft_value fail_after_child_error(void *arg)
{
    weft_go(fail_with, arg);
    weft_snooze();
    return weft_snooze() < 0 ? -EPIPE : 0;
}

static int await_fiber_with_child_error(void)
{
    return weft_await(weft_spin(fail_after_child_error, as_arg(-EIO))) == -EPIPE ? 0 : 1;
}

TEST(an_error_that_was_read_cleared_or_returned_is_not_reported)
{
    assert_exited(run_apart(read_child_error), 0, "broken");
    assert_silent(run_apart(clear_child_error), 0);
    assert_silent(run_apart(await_fiber_with_child_error), 0);
}

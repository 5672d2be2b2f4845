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

TEST_PROGRAM(the_cleanup_of_main_runs_first_then_that_of_all_fibers, 3, "main fiber defer ")
{ /* P33 */
    weft_defer(print_stderr_arg, (void *)"main ");
    weft_spin(print_when_cancelled, (void *)"fiber ");
    weft_snooze();
    return 3;
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

TEST_PROGRAM(cleanup_runs_from_main_to_the_child_to_the_grandchild, 0,
             "main's child child's grandchild grandchild's ")
{ /* P75 */
    weft_defer(print_stderr_arg, (void *)"main's ");
    weft_spin(run_child, (void *)"child ");
    weft_sleep(0.001);
    return 0;
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

TEST_PROGRAM(the_process_ends_after_the_cleanup_of_all_fibers, 0, "ab")
{ /* P16, P17 */
    weft_spin(clean_up_slowly, (void *)"a");
    weft_spin(clean_up_slowly, (void *)"b");
    weft_snooze();
    return 0;
}

TEST_PROGRAM(fibers_that_never_ran_do_not_run_at_exit, 0, "")
{ /* P23, P33 */
    weft_spin(print_when_cancelled, (void *)"ran");
    weft_new(print_when_cancelled, (void *)"ran");
    return 0;
}

static weft_value spin_while_ending(void *arg)
{
    weft_suspend();
    weft_fiber f = weft_spin(print_when_cancelled, arg);
    WEFT_SHIELD(60)
        weft_sleep(0.001);
    print_stderr(weft_state_of(f) == WEFT_WAITING ? "runs " : "does not run ");
    return 0;
}

TEST_PROGRAM(fibers_that_are_spun_during_exit_are_ended_too, 0, "runs late defer ")
{ /* T104 */
    weft_spin(spin_while_ending, (void *)"late ");
    weft_snooze();
    return 0;
}

static weft_value ignore_everything(void *arg)
{
    for (int i = 0; i < 1000; i++)
        weft_sleep(60);
    print_stderr(arg);
    return 0;
}

TEST_PROGRAM(a_fiber_that_ignores_cancellation_does_not_delay_the_others, 0,
             "polite defer stubborn ")
{ /* DESIGN 6 */
    weft_spin(ignore_everything, (void *)"stubborn ");
    weft_spin(print_when_cancelled, (void *)"polite ");
    weft_snooze();
    return 0;
}

static weft_value call_exit(void *arg)
{
    weft_defer(print_stderr_arg, (void *)"caller ");
    weft_spin(print_when_cancelled, (void *)"child ");
    weft_snooze();
    exit_here((int)(intptr_t)arg);
    return 0;
}

TEST_PROGRAM(exit_in_any_fiber_runs_the_cleanup_of_all_fibers, 5,
             "main caller child defer sibling defer ")
{ /* P33 */
    weft_defer(print_stderr_arg, (void *)"main ");
    weft_spin(print_when_cancelled, (void *)"sibling ");
    weft_spin(call_exit, as_arg(5));
    weft_sleep(INFINITY);
    print_stderr("main went on ");
    return 0;
}

static weft_value exit_with_a_slow_child(void *arg)
{
    weft_spin(clean_up_slowly, arg);
    weft_snooze();
    exit_here(5);
    return 0;
}

TEST_PROGRAM(the_ancestors_of_the_fiber_that_calls_exit_do_not_continue, 5, "clean ")
{ /* P33 */
    weft_spin(exit_with_a_slow_child, (void *)"clean ");
    weft_sleep(0.005);
    print_stderr("main went on ");
    return 0;
}

static weft_key printed; /* its destructor prints the value */

static weft_value exit_with_local_value(void *arg)
{
    weft_local_set(printed, arg);
    exit_here(0);
    return 0;
}

TEST_PROGRAM_PRINTS(fiber_local_values_are_destroyed_also_in_the_fiber_that_calls_exit, 0, "main ",
                    "caller ")
{ /* P33, T105 */
    printed = weft_key_new(print_stderr_arg);
    weft_local_set(printed, (void *)"main ");
    weft_await(weft_spin(exit_with_local_value, (void *)"caller "));
    return 0;
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

TEST(an_unhandled_error_is_reported_and_the_status_is_1)
{ /* P20, issue 2, 5 */
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

TEST_PROGRAM_PRINTS(an_error_of_a_child_that_ends_main_is_reported_and_the_status_kept, 4,
                    "cannot start")
{ /* P20, issue 2, 5 */
    weft_spin(spin_failing_child, (void *)"x.conf");
    return weft_sleep(INFINITY) < 0 ? 4 : 0;
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

TEST(an_error_that_main_handles_is_silent_and_the_status_is_0)
{ /* P20, P21 */
    assert_silent(run_apart(handle_an_error), 0);
    assert_silent(run_apart(handle_an_awaited_error), 0);
}

TEST_PROGRAM(a_cleared_error_is_not_reported_for_any_status, 7, "")
{ /* P20 */
    weft_spin(spin_failing_child, (void *)"x.conf");
    weft_sleep(INFINITY);
    weft_error_clear();
    return 7;
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

TEST(the_first_error_of_fibers_that_fail_at_exit_is_reported)
{ /* P18 */
    const outcome *o = run_apart(return_with_failing_fibers);
    ck_assert_int_eq(o->status, 1);
    assert_printed(o, "clean-up 5");
    ck_assert_ptr_null(strstr(o->text, "clean-up 2"));
}

FIBER(return_cancelled, weft_suspend())

TEST_PROGRAM(cancelled_fibers_are_not_reported, 0, "")
{ /* T27 */
    weft_spin(return_cancelled, NULL);
    weft_cancel(weft_spin(return_cancelled, NULL));
    weft_snooze();
    return 0;
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

TEST(a_stack_overflow_is_reported_with_the_fiber_its_size_and_a_remedy)
{ /* T52 */
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

TEST(a_switch_where_it_is_forbidden_fails_and_is_reported_with_the_fiber)
{ /* T106 */
    const outcome *o = run_apart(switch_where_forbidden);
    ck_assert_int_eq(o->status, 0);
    ck_assert_uint_eq(count_in(o->text, "forbidden"), 2);
    ck_assert_uint_eq(count_in(o->text, "'careful'"), 2);
}

TEST_PROGRAM(calls_that_do_not_switch_are_allowed_where_switching_is_forbidden, 0, "")
{ /* T106 */
    weft_no_switch_begin();
    weft_fiber f = weft_spin(return_arg, as_arg(7));
    bool is_fine = weft_state_of(f) == WEFT_RUNNABLE && weft_schedule(f, 0) == 0;
    weft_no_switch_end();
    return is_fine && weft_await(f) == 7 ? 0 : 1;
}

static weft_value end_forbidden(void *arg)
{
    weft_no_switch_begin();
    return (weft_value)arg;
}

FIBER(sleep_1ms, weft_sleep(0.001))

TEST_PROGRAM(a_no_switch_section_ends_with_its_fiber, 0, "")
{ /* T106 */
    weft_fiber f = weft_spin(end_forbidden, as_arg(7));
    if (weft_await(f) != 7)
        return 1;
    return weft_await(weft_spin(sleep_1ms, NULL)) == 0 ? 0 : 2;
}

static weft_value return_arg_late(void *arg)
{
    weft_suspend();
    WEFT_SHIELD(60)
        weft_sleep(0.05);
    return (weft_value)arg;
}

TEST_PROGRAM_PRINTS(a_fiber_that_exceeds_its_grace_period_is_reported_and_waited_for, 0,
                    "'slow' has not ended")
{ /* API: weft_terminate */
    weft_fiber f = weft_spin_with(return_arg_late, NULL, &(weft_spin_options){.name = "slow"});
    weft_snooze();
    return weft_terminate(f, 0.001);
}

static weft_value end_after_shield(void *arg)
{
    weft_suspend();
    WEFT_SHIELD(INFINITY)
        weft_sleep(0.001);
    return 0;
}

static weft_value exit_with_three(void *arg)
{
    weft_sleep(0.001);
    exit_here(3);
    return 0;
}

TEST_PROGRAM(a_fiber_may_exit_while_main_reads_and_others_end_slowly, 3, "")
{
    int fd[2];
    weft_pipe(fd);
    weft_spin(end_after_shield, NULL);
    weft_spin(exit_with_three, NULL);
    char byte;
    weft_read(fd[0], &byte, 1);
    return 1;
}

static void print_earlier(void)
{
    print_stderr("earlier ");
}

TEST_PROGRAM_PRINTS(handlers_registered_before_weft_run_also_when_the_status_is_changed_to_failure,
                    EXIT_FAILURE, "was not handled", "earlier ")
{
    atexit(print_earlier); /* before the first call of weft */
    weft_go(fail_with, as_arg(-EIO));
    weft_snooze();
    weft_go(fail_with, as_arg(-EIO));
    WEFT_SHIELD(INFINITY)
        weft_snooze();
    return 0;
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

TEST_PROGRAM(the_process_waits_for_a_shielded_cleanup_without_limit, 0, "drained")
{
    weft_spin(sleep_long_in_shield, NULL);
    weft_snooze();
    return 0;
}

TEST_PROGRAM_PRINTS(an_ignored_error_of_a_child_is_reported, 0,
                    "without checking the error of a child", "broken")
{
    weft_go(fail_with, as_arg(-EIO));
    weft_snooze();
    weft_snooze(); /* the child failed, and the result is ignored */
    return 0;
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

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
    weft_defer(print_stderr_arg, "defer ");
    weft_value rc = weft_sleep(INFINITY);
    print_stderr(arg);
    return rc;
}

static weft_value print_with_grandchild(void *arg)
{
    weft_spin(print_when_cancelled, "grandchild ");
    return print_when_cancelled(arg);
}

TEST_PROGRAM(cleanup_runs_from_main_to_the_child_to_the_grandchild, 3,
             "main child defer grandchild defer ")
{ /* P33, P75 */
    weft_defer(print_stderr_arg, "main ");
    weft_spin(print_with_grandchild, "child ");
    weft_sleep(0.001);
    return 3;
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

TEST_PROGRAM(the_process_ends_after_the_cleanup_of_all_fibers_that_ran, 0, "ab")
{ /* P16, P17, P23, P33 */
    weft_spin(clean_up_slowly, "a");
    weft_spin(clean_up_slowly, "b");
    weft_snooze();
    weft_spin(print_when_cancelled, "ran");
    weft_new(print_when_cancelled, "ran");
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
    weft_spin(spin_while_ending, "late ");
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
    weft_spin(ignore_everything, "stubborn ");
    weft_spin(print_when_cancelled, "polite ");
    weft_snooze();
    return 0;
}

static weft_value call_exit(void *arg)
{
    weft_defer(print_stderr_arg, "caller ");
    weft_spin(print_when_cancelled, "child ");
    weft_snooze();
    exit_here((int)(intptr_t)arg);
    return 0;
}

TEST_PROGRAM(exit_in_any_fiber_runs_the_cleanup_of_all_fibers, 5,
             "main caller child defer sibling defer ")
{ /* P33 */
    weft_defer(print_stderr_arg, "main ");
    weft_spin(print_when_cancelled, "sibling ");
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
    int fd[2];
    weft_pipe(fd);
    weft_spin(exit_with_a_slow_child, "clean ");
    weft_spin(read_byte, &fd[0]);
    weft_sleep(0.005);
    print_stderr("main went on ");
    return 0;
}

static weft_key printed; /* its destructor prints the value */

FIBER_DO(exit_with_local_value, weft_local_set(printed, arg), exit_here(0), 0)

TEST_PROGRAM_PRINTS(fiber_local_values_are_destroyed_also_in_the_fiber_that_calls_exit, 0, "main ",
                    "caller ")
{ /* P33, T105 */
    printed = weft_key_new(print_stderr_arg);
    weft_local_set(printed, "main ");
    weft_await(weft_spin(exit_with_local_value, "caller "));
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

TEST_PROGRAM_PRINTS(an_unhandled_error_is_reported_and_the_status_is_1, 1, "not handled",
                    "cannot start", strerror(EIO), "'loader'", "caused by: no file x.conf",
                    "raised in #", "recorded at")
{ /* P20, issue 2, 5 */
    weft_spin_with(spin_failing_child, "x.conf", &(weft_spin_options){.name = "keeper"});
    for (int i = 0; i < 3; i++)
        weft_snooze();
    return 0;
}

TEST_PROGRAM_PRINTS(an_error_of_a_child_that_ends_main_is_reported_and_the_status_kept, 4,
                    "cannot start")
{ /* P20, issue 2, 5 */
    weft_spin(spin_failing_child, "x.conf");
    return weft_sleep(INFINITY) < 0 ? 4 : 0;
}

TEST_PROGRAM(an_error_that_main_handles_is_silent_and_the_status_is_kept, 7, "")
{ /* P20, P21 */
    if (weft_await(weft_spin(fail_with, as_arg(-EIO))) != -EIO)
        return 1;
    weft_spin(spin_failing_child, "x.conf");
    if (weft_sleep(INFINITY) != -EIO)
        return 2;
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
    assert_printed(o, "weft: stack overflow in fiber #");
    assert_printed(o, "'greedy', which runs ");
    assert_printed(o, "weft: the stack has 32 KiB; set a larger .stack_bytes "
                      "in weft_spin_options, or WEFT_STACK=64K in the environment\n");
    ck_assert_uint_eq(count_in(o->text, "overflow in fiber"), 1);
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

/* The process waits for 5 s: in virtual time here, and on one other backend below. */
TEST_PROGRAM_PRINTS(a_fiber_that_ignores_its_cancellation_is_reported_and_abandoned, EXIT_FAILURE,
                    "'stubborn' ignores its cancellation", "'stubborn' has not ended",
                    "fiber defer ", "earlier ")
{
    atexit(print_earlier);
    setenv("WEFT_BACKEND", "sim", 1);
    weft_spin_with(sleep_repeatedly, NULL, &(weft_spin_options){.name = "stubborn"});
    weft_spin(print_when_cancelled, "fiber "); /* ends as usual */
    weft_snooze();
    return 0;
}

static atomic_bool has_begun;

static weft_value spin_fiber_that_ignores_cancellation(void *arg)
{
    weft_spin_with(sleep_repeatedly, NULL, &(weft_spin_options){.name = "stubborn"});
    weft_snooze();
    atomic_store(&has_begun, true);
    return weft_sleep(INFINITY);
}

static int return_with_thread_that_ignores_cancellation(void)
{
    atexit(print_earlier);
    weft_cord_start(spin_fiber_that_ignores_cancellation, NULL, NULL);
    while (!atomic_load(&has_begun))
        weft_sleep(0.001);
    return 0;
}

TEST(a_thread_that_ignores_its_cancellation_makes_the_process_fail)
{
    if (!runs_on("epoll"))
        return;
    assert_prints(run_apart(return_with_thread_that_ignores_cancellation), EXIT_FAILURE,
                  (const char *[]){"'stubborn' ignores its cancellation",
                                   "has not ended; the process ends without this thread",
                                   "earlier ", NULL});
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

static weft_value fail_after_child_error(void *arg)
{
    weft_go(fail_with, arg);
    weft_snooze();
    return weft_snooze() < 0 ? -EPIPE : 0;
}

TEST_PROGRAM(an_error_that_was_read_cleared_or_returned_is_not_reported, 0, "broken")
{
    for (int i = 0; i < 2; i++) {
        weft_go(fail_with, as_arg(-EIO));
        weft_snooze();
        if (weft_snooze() == 0)
            return 1;
        if (i == 0)
            print_stderr(weft_error()->message);
        else
            weft_error_clear();
    }
    return weft_await(weft_spin(fail_after_child_error, as_arg(-EIO))) == -EPIPE ? 0 : 2;
}

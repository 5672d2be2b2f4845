/* How a program ends: everyone's clean-up in order, the reports on stderr, the exit status. */
#include "support.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

/* Into the report of the program, so that the order is seen. */
static void say(const char *what)
{
    dprintf(STDERR_FILENO, "%s", what);
}

static void say_arg(void *what)
{
    say(what);
}

/* Says how it was ended: in a block, then in its defer. */
static weft_value clean_up_aloud(void *arg)
{
    weft_defer(say_arg, (void *)"defer ");
    weft_value rc = weft_sleep(INFINITY);
    say(arg);
    return rc;
}

static int leave_one_fiber(void)
{
    weft_defer(say_arg, (void *)"main ");
    weft_spin(clean_up_aloud, (void *)"fiber ");
    weft_snooze();
    return 3;
}

/* P33 */
START_TEST(the_clean_up_of_main_runs_at_the_end_and_then_that_of_all_fibers)
{
    assert_ended(run_apart(leave_one_fiber), 3, "main fiber defer ");
}
END_TEST

static weft_value grandchild(void *arg)
{
    weft_defer(say_arg, (void *)"grandchild's ");
    weft_value rc = weft_suspend();
    say(arg);
    return rc;
}

static weft_value child(void *arg)
{
    weft_defer(say_arg, (void *)"child's ");
    weft_spin(grandchild, (void *)"grandchild ");
    weft_value rc = weft_suspend();
    say(arg);
    return rc;
}

static int leave_a_tree(void)
{
    weft_defer(say_arg, (void *)"main's ");
    weft_spin(child, (void *)"child ");
    weft_sleep(0.001);
    return 0;
}

/* P75 */
START_TEST(clean_up_goes_from_main_to_the_child_to_the_grandchild)
{
    assert_ended(run_apart(leave_a_tree), 0, "main's child child's grandchild grandchild's ");
}
END_TEST

static weft_value clean_up_slowly(void *arg)
{
    weft_suspend();
    WEFT_SHIELD(60) {
        weft_sleep(0.02);
        say(arg);
    }
    return 0;
}

static int leave_slow_fibers(void)
{
    weft_spin(clean_up_slowly, (void *)"a");
    weft_spin(clean_up_slowly, (void *)"b");
    weft_snooze();
    return 0;
}

/* P16, P17 */
START_TEST(the_process_ends_only_when_the_clean_up_of_all_fibers_is_done)
{
    assert_ended(run_apart(leave_slow_fibers), 0, "ab");
}
END_TEST

static int leave_a_fiber_that_never_ran(void)
{
    weft_spin(clean_up_aloud, (void *)"ran");
    weft_new(clean_up_aloud, (void *)"ran");
    return 0;
}

/* P23, P33 */
START_TEST(fibers_that_never_ran_do_not_run_at_the_end_either)
{
    assert_silent(run_apart(leave_a_fiber_that_never_ran), 0);
}
END_TEST

static weft_value spin_while_ending(void *arg)
{
    weft_suspend();
    weft_fiber f = weft_spin(clean_up_aloud, arg);
    WEFT_SHIELD(60) {
        weft_sleep(0.001);
    }
    say(weft_state_of(f) == WEFT_WAITING ? "runs " : "does not run ");
    return 0;
}

static int leave_a_fiber_that_spins(void)
{
    weft_spin(spin_while_ending, (void *)"late ");
    weft_snooze();
    return 0;
}

/* T104 */
START_TEST(fibers_that_are_made_during_the_end_are_ended_too)
{
    assert_ended(run_apart(leave_a_fiber_that_spins), 0, "runs late defer ");
}
END_TEST

static weft_value ignore_everything(void *arg)
{
    for (int i = 0; i < 1000; i++)
        weft_sleep(60);
    say(arg);
    return 0;
}

static int leave_a_stubborn_fiber(void)
{
    weft_spin(ignore_everything, (void *)"stubborn ");
    weft_spin(clean_up_aloud, (void *)"polite ");
    weft_snooze();
    return 0;
}

/* DESIGN 6 */
START_TEST(a_fiber_that_ignores_its_end_does_not_keep_the_others_from_theirs)
{
    assert_ended(run_apart(leave_a_stubborn_fiber), 0, "polite defer stubborn ");
}
END_TEST

static weft_value call_exit(void *arg)
{
    weft_defer(say_arg, (void *)"caller ");
    weft_spin(clean_up_aloud, (void *)"child ");
    weft_snooze();
    exit_here((int)(intptr_t)arg);
    return 0;
}

static int let_a_fiber_exit(void)
{
    weft_defer(say_arg, (void *)"main ");
    weft_spin(clean_up_aloud, (void *)"sibling ");
    weft_spin(call_exit, as_arg(5));
    weft_sleep(INFINITY);
    say("main went on ");
    return 0;
}

/* P33 */
START_TEST(exit_in_any_fiber_runs_everybodys_clean_up)
{
    const outcome *o = run_apart(let_a_fiber_exit);
    assert_ended(o, 5, "main caller child defer sibling defer ");
}
END_TEST

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
    say("main went on ");
    return 0;
}

/* P33 */
START_TEST(those_above_the_fiber_that_calls_exit_do_not_go_on_meanwhile)
{
    assert_ended(run_apart(sleep_through_an_exit), 5, "clean ");
}
END_TEST

static weft_key spoken; /* its destructor speaks */

static void say_value(void *value)
{
    say(value);
}

static weft_value exit_with_a_local(void *arg)
{
    weft_local_set(spoken, arg);
    exit_here(0);
    return 0;
}

static int exit_with_locals(void)
{
    spoken = weft_key_new(say_value);
    weft_local_set(spoken, (void *)"main ");
    weft_await(weft_spin(exit_with_a_local, (void *)"caller "));
    return 0;
}

/* P33, T105 */
START_TEST(fiber_local_values_are_destroyed_also_in_the_fiber_that_calls_exit)
{
    const outcome *o = run_apart(exit_with_locals);
    ck_assert_int_eq(o->status, 0);
    assert_said(o, "main ");
    assert_said(o, "caller ");
}
END_TEST

static weft_value fail_with_a_cause(void *arg)
{
    weft_fail(-ENOENT, "no file %s", (const char *)arg);
    return weft_fail(-EIO, "cannot start");
}

static weft_value hold_a_failing_child(void *arg)
{
    weft_spin_with(fail_with_a_cause, arg, &(weft_spin_options){.name = "loader"});
    return weft_sleep(INFINITY);
}

static int ignore_an_error(void)
{
    weft_spin_with(hold_a_failing_child, (void *)"x.conf", &(weft_spin_options){.name = "keeper"});
    weft_snooze();
    weft_snooze();
    weft_snooze();
    return 0;
}

/* P20, issue 2, 5 */
START_TEST(an_error_that_nobody_handles_is_reported_and_the_status_is_1)
{
    const outcome *o = run_apart(ignore_an_error);
    ck_assert_int_eq(o->status, 1);
    assert_said(o, "not handled");
    assert_said(o, "cannot start");
    assert_said(o, strerror(EIO));
    assert_said(o, "'loader'");
    assert_said(o, "caused by: no file x.conf");
    assert_said(o, "climbed to #");
    assert_said(o, "recorded at");
}
END_TEST

static int pass_an_error_on(void)
{
    weft_spin(hold_a_failing_child, (void *)"x.conf");
    return weft_sleep(INFINITY) < 0 ? 4 : 0;
}

/* P20, issue 2, 5 */
START_TEST(an_error_from_below_with_which_main_ends_is_reported_and_the_status_kept)
{
    const outcome *o = run_apart(pass_an_error_on);
    ck_assert_int_eq(o->status, 4);
    assert_said(o, "cannot start");
}
END_TEST

static int handle_an_error(void)
{
    weft_spin(hold_a_failing_child, (void *)"x.conf");
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
START_TEST(an_error_that_main_handles_is_silent_and_the_status_is_0)
{
    assert_silent(run_apart(handle_an_error), 0);
    assert_silent(run_apart(handle_an_awaited_error), 0);
}
END_TEST

static int clear_and_return_another_status(void)
{
    weft_spin(hold_a_failing_child, (void *)"x.conf");
    weft_sleep(INFINITY);
    weft_error_clear();
    return 7;
}

/* P20 */
START_TEST(an_error_that_main_has_forgotten_is_not_reported_whatever_its_status)
{
    assert_silent(run_apart(clear_and_return_another_status), 7);
}
END_TEST

static weft_value fail_while_ending(void *arg)
{
    weft_suspend();
    return weft_fail((int)(intptr_t)arg, "clean-up %d", -(int)(intptr_t)arg);
}

static int leave_fibers_that_fail(void)
{
    weft_spin(fail_while_ending, as_arg(-EIO));
    weft_spin(fail_while_ending, as_arg(-ENOENT));
    weft_snooze();
    return 0;
}

/* P18 */
START_TEST(of_several_fibers_that_fail_while_they_end_the_first_is_reported)
{
    const outcome *o = run_apart(leave_fibers_that_fail);
    ck_assert_int_eq(o->status, 1);
    assert_said(o, "clean-up 5");
    ck_assert_ptr_null(strstr(o->text, "clean-up 2"));
}
END_TEST

static weft_value return_cancelled(void *arg)
{
    (void)arg;
    return weft_suspend();
}

static int leave_fibers_that_are_cancelled(void)
{
    weft_spin(return_cancelled, NULL);
    weft_cancel(weft_spin(return_cancelled, NULL));
    weft_snooze();
    return 0;
}

/* T27 */
START_TEST(fibers_that_end_as_asked_are_not_reported)
{
    assert_silent(run_apart(leave_fibers_that_are_cancelled), 0);
}
END_TEST

weft_value overflow_its_stack(void *arg); /* global, for its name to be found */

weft_value overflow_its_stack(void *arg)
{
    return descend((int)(intptr_t)arg);
}

static int overflow(void)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    weft_spin_options options = {.name = "greedy", .stack_bytes = 32 << 10};
    return (int)weft_await(weft_spin_with(overflow_its_stack, NULL, &options));
}

/* T52 */
START_TEST(a_stack_overflow_is_reported_with_the_fiber_its_size_and_what_to_do)
{
    const outcome *o = run_apart(overflow);
    if (!is_sanitized()) /* they have handlers of their own, which come after ours */
        ck_assert_int_eq(o->status, -SIGSEGV);
    assert_said(o, "stack overflow in fiber #");
    assert_said(o, "'greedy'");
    assert_said(o, "which runs ");
    assert_said(o, "32 KiB");
    assert_said(o, ".stack_bytes");
    assert_said(o, "WEFT_STACK=");
}
END_TEST

static int switch_where_forbidden(void)
{
    weft_name(weft_self(), "careful");
    weft_no_switch_begin();
    weft_no_switch_begin();
    int first = weft_sleep(0.001);
    weft_no_switch_end();
    int second = weft_snooze();
    weft_no_switch_end();
    int third = weft_sleep(0.001);
    weft_no_switch_end(); /* one too many does no harm */
    int fourth = weft_snooze();
    return first == -EPERM && second == -EPERM && third == 0 && fourth == 0 ? 0 : 1;
}

/* T106 */
START_TEST(a_switch_where_it_is_forbidden_fails_and_is_reported_with_the_fiber)
{
    const outcome *o = run_apart(switch_where_forbidden);
    ck_assert_int_eq(o->status, 0);
    ck_assert_uint_eq(count_in(o->text, "forbidden"), 2);
    ck_assert_uint_eq(count_in(o->text, "'careful'"), 2);
}
END_TEST

static int compute_where_switching_is_forbidden(void)
{
    weft_no_switch_begin();
    weft_fiber f = weft_spin(return_arg, as_arg(7));
    bool is_fine = weft_state_of(f) == WEFT_RUNNABLE && weft_schedule(f, 0) == 0;
    weft_no_switch_end();
    return is_fine && weft_await(f) == 7 ? 0 : 1;
}

/* T106 */
START_TEST(what_does_not_switch_is_allowed_where_switching_is_forbidden)
{
    assert_silent(run_apart(compute_where_switching_is_forbidden), 0);
}
END_TEST

static weft_value end_forbidden(void *arg)
{
    weft_no_switch_begin();
    return (weft_value)arg;
}

static weft_value sleep_a_little(void *arg)
{
    (void)arg;
    return weft_sleep(0.001);
}

static int leave_a_forbidden_stretch_open(void)
{
    weft_fiber f = weft_spin(end_forbidden, as_arg(7));
    if (weft_await(f) != 7)
        return 1;
    return weft_await(weft_spin(sleep_a_little, NULL)) == 0 ? 0 : 2;
}

/* T106 */
START_TEST(a_forbidden_stretch_ends_with_its_fiber)
{
    assert_silent(run_apart(leave_a_forbidden_stretch_open), 0);
}
END_TEST

static weft_value end_late(void *arg)
{
    weft_suspend();
    WEFT_SHIELD(60) {
        weft_sleep(0.05);
    }
    return (weft_value)arg;
}

static int terminate_a_slow_fiber(void)
{
    weft_fiber f = weft_spin_with(end_late, NULL, &(weft_spin_options){.name = "slow"});
    weft_snooze();
    return weft_terminate(f, 0.001);
}

/* API: weft_terminate */
START_TEST(a_fiber_that_does_not_end_within_its_grace_time_is_named_and_waited_for)
{
    const outcome *o = run_apart(terminate_a_slow_fiber);
    ck_assert_int_eq(o->status, 0);
    assert_said(o, "'slow' has not ended");
}
END_TEST

static weft_value sleep_in_the_end(void *arg)
{
    (void)arg;
    weft_suspend();
    WEFT_SHIELD(INFINITY) {
        weft_sleep(0.001);
    }
    return 0;
}

static weft_value exit_with_three(void *arg)
{
    (void)arg;
    weft_sleep(0.001);
    exit_here(3);
    return 0;
}

static int exit_under_a_read(void)
{
    int fd[2];
    weft_pipe(fd);
    weft_spin(sleep_in_the_end, NULL);
    weft_spin(exit_with_three, NULL);
    char byte;
    weft_read(fd[0], &byte, 1);
    return 1;
}

START_TEST(a_fiber_may_exit_while_main_reads_and_others_take_their_time)
{
    assert_silent(run_apart(exit_under_a_read), 3);
}
END_TEST

static void say_earlier(void)
{
    say("earlier ");
}

static int fail_a_child_with_handlers(void)
{
    atexit(say_earlier); /* before the first call of weft */
    weft_go(fail_with, as_arg(-EIO));
    weft_snooze();
    weft_go(fail_with, as_arg(-EIO));
    WEFT_SHIELD(INFINITY)
        weft_snooze();
    return 0;
}

START_TEST(handlers_registered_before_weft_run_also_when_the_status_is_changed_to_failure)
{
    const outcome *o = run_apart(fail_a_child_with_handlers);
    ck_assert_int_eq(o->status, EXIT_FAILURE);
    assert_said(o, "was not handled");
    assert_said(o, "earlier ");
}
END_TEST

static weft_value sleep_on_and_on(void *arg)
{
    (void)arg;
    for (;;)
        weft_sleep(1);
    return 0;
}

static int leave_one_that_ignores_its_end(void)
{
    atexit(say_earlier);
    weft_spin_with(sleep_on_and_on, NULL, &(weft_spin_options){.name = "stubborn"});
    weft_spin(clean_up_aloud, (void *)"fiber ");
    weft_snooze();
    return 0;
}

START_TEST(a_process_ends_with_a_report_without_a_fiber_that_ignores_its_cancellation)
{
    const outcome *o = run_apart(leave_one_that_ignores_its_end);
    ck_assert_int_eq(o->status, EXIT_FAILURE);
    assert_said(o, "'stubborn' ignores its cancellation");
    assert_said(o, "'stubborn' has not ended");
    assert_said(o, "fiber defer "); /* the others have ended as always */
    assert_said(o, "earlier ");
}
END_TEST

static weft_value have_one_that_ignores_its_end(void *arg)
{
    atomic_bool *has_begun = arg;
    weft_spin_with(sleep_on_and_on, NULL, &(weft_spin_options){.name = "stubborn"});
    weft_snooze();
    atomic_store(has_begun, true);
    return weft_sleep(INFINITY);
}

static int leave_a_thread_that_ignores_its_end(void)
{
    static atomic_bool has_begun;
    atexit(say_earlier);
    weft_cord_start(have_one_that_ignores_its_end, &has_begun, NULL);
    while (!atomic_load(&has_begun))
        weft_sleep(0.001);
    return 0;
}

START_TEST(a_process_fails_if_it_ends_without_a_thread_that_ignores_its_cancellation)
{
    const outcome *o = run_apart(leave_a_thread_that_ignores_its_end);
    ck_assert_int_eq(o->status, EXIT_FAILURE);
    assert_said(o, "'stubborn' ignores its cancellation");
    assert_said(o, "would not end with the process");
    assert_said(o, "earlier ");
}
END_TEST

static weft_value drain_for_long(void *arg)
{
    (void)arg;
    weft_sleep(INFINITY);
    WEFT_SHIELD(INFINITY)
        weft_sleep(strcmp(weft_backend_name(), "sim") == 0 ? 1000 : 0.1);
    say("drained");
    return 0;
}

static int leave_one_that_takes_its_time(void)
{
    weft_spin(drain_for_long, NULL);
    weft_snooze();
    return 0;
}

START_TEST(clean_up_behind_a_shield_is_waited_for_however_long_it_takes)
{
    assert_ended(run_apart(leave_one_that_takes_its_time), 0, "drained");
}
END_TEST

static int look_away(void)
{
    weft_go(fail_with, as_arg(-EIO));
    weft_snooze();
    weft_snooze(); /* it failed, and nobody has looked */
    return 0;
}

START_TEST(an_error_of_a_child_that_was_delivered_and_not_looked_at_is_reported)
{
    const outcome *o = run_apart(look_away);
    ck_assert_int_eq(o->status, 0);
    assert_said(o, "without having looked at an error of a child");
    assert_said(o, "broken");
}
END_TEST

static int look_at_it(void)
{
    weft_go(fail_with, as_arg(-EIO));
    weft_snooze();
    if (weft_snooze() != 0)
        say(weft_error()->message);
    return 0;
}

static int clear_it(void)
{
    weft_go(fail_with, as_arg(-EIO));
    weft_snooze();
    weft_snooze();
    weft_error_clear();
    return 0;
}

static weft_value fail_in_turn(void *arg)
{
    weft_go(fail_with, arg);
    weft_snooze();
    return weft_snooze() < 0 ? -EPIPE : 0;
}

static int await_one_that_failed_in_turn(void)
{
    return weft_await(weft_spin(fail_in_turn, as_arg(-EIO))) == -EPIPE ? 0 : 1;
}

START_TEST(an_error_that_was_looked_at_cleared_or_passed_on_is_not_reported)
{
    assert_ended(run_apart(look_at_it), 0, "broken");
    assert_silent(run_apart(clear_it), 0);
    assert_silent(run_apart(await_one_that_failed_in_turn), 0);
}
END_TEST

static const TTest *const *const tests[] = {
    &a_fiber_may_exit_while_main_reads_and_others_take_their_time,
    &the_clean_up_of_main_runs_at_the_end_and_then_that_of_all_fibers,
    &clean_up_goes_from_main_to_the_child_to_the_grandchild,
    &the_process_ends_only_when_the_clean_up_of_all_fibers_is_done,
    &fibers_that_never_ran_do_not_run_at_the_end_either,
    &fibers_that_are_made_during_the_end_are_ended_too,
    &a_fiber_that_ignores_its_end_does_not_keep_the_others_from_theirs,
    &exit_in_any_fiber_runs_everybodys_clean_up,
    &those_above_the_fiber_that_calls_exit_do_not_go_on_meanwhile,
    &fiber_local_values_are_destroyed_also_in_the_fiber_that_calls_exit,
    &an_error_that_nobody_handles_is_reported_and_the_status_is_1,
    &an_error_from_below_with_which_main_ends_is_reported_and_the_status_kept,
    &an_error_that_main_handles_is_silent_and_the_status_is_0,
    &an_error_that_main_has_forgotten_is_not_reported_whatever_its_status,
    &of_several_fibers_that_fail_while_they_end_the_first_is_reported,
    &fibers_that_end_as_asked_are_not_reported,
    &a_stack_overflow_is_reported_with_the_fiber_its_size_and_what_to_do,
    &a_switch_where_it_is_forbidden_fails_and_is_reported_with_the_fiber,
    &what_does_not_switch_is_allowed_where_switching_is_forbidden,
    &a_forbidden_stretch_ends_with_its_fiber,
    &a_fiber_that_does_not_end_within_its_grace_time_is_named_and_waited_for,
    &handlers_registered_before_weft_run_also_when_the_status_is_changed_to_failure,
    &a_process_ends_with_a_report_without_a_fiber_that_ignores_its_cancellation,
    &a_process_fails_if_it_ends_without_a_thread_that_ignores_its_cancellation,
    &clean_up_behind_a_shield_is_waited_for_however_long_it_takes,
    &an_error_of_a_child_that_was_delivered_and_not_looked_at_is_reported,
    &an_error_that_was_looked_at_cleared_or_passed_on_is_not_reported,
};

int main(void)
{
    return run_suite("exit", tests, COUNT_OF(tests));
}

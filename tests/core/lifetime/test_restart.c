/*
 * Tests of restarting a fiber under its id: while it runs, after its end, and while other fibers
 * await or stop it.
 */
#include "support/suite.h"

static int runs;

static weft_value run_until_scheduled(void *arg)
{
    runs++;
    weft_value rc = weft_suspend();
    return rc > 0 ? rc + (weft_value)arg : rc;
}

static weft_fiber spin_running(void *arg)
{
    return spin_waiting(run_until_scheduled, arg);
}

TEST(a_restarted_fiber_keeps_its_id_name_parent_and_argument)
{ /* P30 */
    weft_fiber f = spin_running(as_arg(100));
    weft_set_name(f, "worker");
    ck_assert_int_eq(weft_restart(f), 0);
    ck_assert_int_eq(runs, 1 + (weft_state_of(f) == WEFT_WAITING));
    let_run();
    ck_assert_int_eq(runs, 2);
    ck_assert_str_eq(weft_name_of(f), "worker");
    ck_assert_uint_eq(weft_parent(f), weft_self());
    weft_schedule(f, 5);
    ck_assert_int_eq(weft_await(f), 105);
    ck_assert_int_eq(weft_snooze(), 0);
}

static weft_value spin_children_and_suspend(void *arg)
{
    runs++;
    weft_defer(mark_arg, "defer ");
    weft_spin(suspend_and_mark, "never ");
    weft_fiber child = weft_spin(suspend, NULL);
    if (runs == 1)
        *(weft_fiber *)arg = child;
    return weft_suspend();
}

TEST(children_and_deferred_calls_of_the_old_run_end_before_restart_returns)
{ /* P30 */
    weft_fiber old_child = 0;
    weft_fiber f = spin_waiting(spin_children_and_suspend, &old_child);
    ck_assert_int_eq(weft_restart(f), 0);
    ck_assert_trail("defer ");
    ck_assert_int_eq(weft_state_of(old_child), WEFT_DEAD);
    let_run();
    ck_assert_int_eq(runs, 2);
    ck_assert_int_eq(weft_children(f, NULL, 0), 2);
    weft_schedule(f, 1);
    ck_assert_int_eq(weft_await(f), 1);
    ck_assert_trail("defer defer ");
}

FIBER(fail_once, ++runs == 1 ? weft_fail(-EIO, "the first time") : 7)

TEST(an_unawaited_ended_fiber_can_be_restarted)
{ /* P31 */
    weft_fiber f = weft_spin_with(return_arg, as_arg(3), &(weft_spin_options){.name = "f"});
    weft_snooze();
    ck_assert_int_eq(weft_state_of(f), WEFT_DEAD);
    ck_assert_int_eq(weft_restart(f), 0);
    ck_assert_int_eq(weft_state_of(f), WEFT_RUNNABLE);
    ck_assert_str_eq(weft_name_of(f), "f");
    ck_assert_uint_eq(weft_parent(f), weft_self());
    ck_assert_int_eq(weft_await(f), 3);
    ck_assert_int_eq(weft_restart(f), -ESRCH);
}

TEST(the_error_of_a_run_that_is_restarted_does_not_reach_the_parent)
{ /* P31, P21 */
    weft_fiber f = weft_spin(fail_once, NULL);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_restart(f), 0);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_await(f), 7);
    ck_assert_int_eq(runs, 2);
}

typedef struct two_ints {
    int a, b;
} two_ints;

static weft_value add_pair(void *arg)
{
    two_ints *ints = arg;
    weft_value sum = ints->a + ints->b;
    weft_snooze();
    return sum;
}

TEST(a_copied_argument_is_available_in_the_second_run)
{ /* P31, T9 */
    weft_spin_options options = {.arg_bytes = sizeof(two_ints)};
    weft_fiber f = weft_spin_with(add_pair, &(two_ints){3, 4}, &options);
    let_run();
    ck_assert_int_eq(weft_restart(f), 0);
    weft_snooze();
    ck_assert_int_eq(weft_restart(f), 0);
    ck_assert_int_eq(weft_await(f), 7);
}

TEST(an_awaiting_fiber_continues_to_wait_after_a_restart)
{ /* P31 */
    weft_fiber f = spin_running(NULL);
    weft_fiber waiter = spin_waiting(await_fiber, id_arg(f));
    ck_assert_int_eq(weft_restart(f), 0);
    let_run();
    ck_assert_int_eq(weft_state_of(waiter), WEFT_WAITING);
    weft_schedule(f, 8);
    ck_assert_int_eq(weft_await(waiter), 8);
}

FIBER(restart_fiber, weft_restart(arg_id(arg)))

static weft_value restart_above(void *arg)
{
    ck_assert_int_eq(weft_restart(weft_parent(weft_self())), -EINVAL);
    ck_assert_int_eq(weft_restart(weft_self()), -EINVAL);
    ck_assert_int_eq(weft_restart(weft_main()), -EINVAL);
    ck_assert_any_error(-EINVAL);
    return 0;
}

FIBER(spin_restart_above, weft_await(weft_spin(restart_above, arg)))

TEST(a_fiber_restarts_neither_itself_nor_its_ancestors)
{ /* P30 */
    ck_assert_int_eq(weft_restart(weft_self()), -EINVAL);
    ck_assert_int_eq(weft_await(weft_spin(spin_restart_above, NULL)), 0);
}

static const struct {
    const char *sentence;
    bool has_run, is_stopped, has_ended;
} restart_rows[] = {
    {"a fiber that is restarted before it ran runs once", false, false, false},
    {"a fiber that was stopped before it ran can be restarted", false, true, false},
    {"a fiber that was stopped and has not ended yet can be restarted", true, true, false},
    {"a stopped fiber that has ended can be restarted", true, true, true},
};

TEST_ROWS(a_fiber_can_be_restarted_in_the_state_of_each_row, restart_rows)
{ /* P23, P30, P31 */
    weft_fiber f = weft_spin(run_until_scheduled, NULL);
    if (restart_rows[_i].has_run)
        let_run();
    if (restart_rows[_i].is_stopped)
        weft_stop(f, 42);
    if (restart_rows[_i].has_ended)
        let_run();
    ck_assert_int_eq(weft_restart(f), 0);
    let_run();
    ck_assert_msg(runs == 1 + restart_rows[_i].has_run, "%s", restart_rows[_i].sentence);
    weft_schedule(f, 3);
    ck_assert_int_eq(weft_await(f), 3);
}

static weft_event may_end;

static weft_value mark_late(void *arg)
{
    runs++;
    weft_suspend();
    WEFT_SHIELD(INFINITY)
        weft_event_wait(&may_end);
    mark(arg);
    return 0;
}

TEST(concurrent_restarts_of_a_fiber_run_it_once)
{ /* P30 */
    weft_fiber f = spin_waiting(mark_late, "end ");
    weft_fiber restarters[3];
    for (int i = 0; i < 3; i++)
        restarters[i] = spin_waiting(restart_fiber, id_arg(f));
    weft_event_set(&may_end);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_await(restarters[i]), 0);
    let_run();
    ck_assert_int_eq(runs, 2);
    ck_assert_trail("end ");
    weft_event_set(&may_end); /* for the cleanup of the second run */
}

TEST(a_fiber_that_is_stopped_during_a_restart_ends)
{ /* P30: the later request counts */
    weft_fiber f = spin_waiting(mark_late, "end ");
    weft_fiber restarter = spin_waiting(restart_fiber, id_arg(f));
    ck_assert_int_eq(weft_stop(f, 42), 0);
    weft_event_set(&may_end);
    ck_assert_int_eq(weft_await(restarter), -ESRCH);
    ck_assert_int_eq(weft_state_of(f), WEFT_DEAD);
    ck_assert_int_eq(weft_await(f), 42);
    ck_assert_trail("end ");
}

static void sleep_in_shield(void *arg)
{
    WEFT_SHIELD(10)
        weft_sleep(0.003);
}

static weft_value end_then_sleep_forever(void *arg)
{
    if (++runs > 1)
        return weft_sleep(INFINITY);
    weft_defer(sleep_in_shield, NULL);
    return 0;
}

static weft_value spin_child_and_suspend(void *arg)
{
    *(weft_fiber *)arg = weft_spin(end_then_sleep_forever, NULL);
    return weft_suspend();
}

TEST(an_ending_child_is_not_restarted_under_an_ending_parent)
{ /* P30, P16 */
    weft_fiber child = 0;
    weft_fiber parent = spin_waiting(spin_child_and_suspend, &child);
    weft_fiber restarter = spin_waiting(restart_fiber, id_arg(child));
    weft_stop(parent, 9);
    ck_assert_int_eq(weft_await(restarter), -ESRCH);
    ck_assert_int_eq(weft_await(parent), 9);
}

static weft_value restart_dead_sibling(void *arg)
{
    weft_fiber *sibling = arg;
    weft_suspend();
    weft_restart(*sibling); /* whether refused or not, the parent ends */
    return 0;
}

static weft_value spin_child_that_ends(void *arg)
{
    weft_fiber *dead = arg;
    *dead = weft_spin(end_then_sleep_forever, NULL);
    weft_spin(restart_dead_sibling, dead);
    weft_sleep(0.01);
    return 9;
}

TEST_PROGRAM(restarting_an_ended_child_does_not_keep_an_ending_parent_alive, 9, "")
{ /* P31, P16 */
    weft_fiber dead = 0;
    return (int)weft_await(weft_spin(spin_child_that_ends, &dead));
}

/* The frame address of the last run, and the number of runs with a different address. */
static void *frame;
static int moves;

static weft_value run_briefly(void *arg)
{
    moves += frame != __builtin_frame_address(0);
    frame = __builtin_frame_address(0);
    runs++;
    return weft_suspend();
}

TEST(a_hundred_thousand_restarts_take_constant_memory)
{ /* P30 */
    weft_fiber f = spin_waiting(run_briefly, NULL);
    size_t before = 0;
    int failures = 0; /* counted, not asserted: Check allocates memory for every assertion */
    const int times = is_sanitized() ? 10000 : 100000;
    for (int i = 0; i < times; i++) {
        failures += weft_restart(f) != 0;
        weft_snooze();
        if (i == 1000)
            before = resident_pages();
    }
    size_t after = resident_pages();
    ck_assert_int_eq(failures, 0);
    ck_assert_int_eq(runs, times + 1);
    ck_assert_int_eq(moves, 1);
    /* A leak of the smallest block in each restart would take more than 700 pages. */
    ck_assert_uint_le(after, before + 600);
}

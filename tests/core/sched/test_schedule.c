/*
 * Tests of scheduling: the order of the run queue, weft_schedule, weft_suspend, and fiber states.
 */
#include "support/suite.h"

TEST(a_spun_fiber_does_not_run_before_the_next_switchpoint)
{ /* P1 */
    weft_spin(mark_and_return, "a");
    weft_spin(mark_and_return, "b");
    weft_go(mark_and_return, "c");
    ck_assert_trail("");
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_trail("abc");
}

static weft_value mark_three_times(void *arg)
{
    for (int i = 0; i < 3; i++) {
        mark(arg);
        weft_snooze();
    }
    return 0;
}

TEST(snoozing_fibers_alternate)
{ /* P2 */
    weft_spin(mark_three_times, "0");
    weft_spin(mark_three_times, "1");
    weft_spin(mark_three_times, "2");
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_trail("012012012");
}

static weft_value spin_two(void *arg)
{
    mark("a ");
    weft_spin(mark_and_return, "a1 ");
    weft_spin(mark_and_return, "a2 ");
    return weft_await_children();
}

TEST(a_child_spun_by_a_child_runs_after_those_already_queued)
{ /* P3 */
    weft_spin(spin_two, NULL);
    weft_spin(mark_and_return, "b ");
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_trail("a b a1 a2 ");
}

static int resumed;

static weft_value count_resumes(void *arg)
{
    weft_value last = 0;
    for (weft_value v; (v = weft_suspend()) > 0; resumed++)
        last = v;
    return last;
}

TEST(a_fiber_scheduled_twice_before_it_runs_is_resumed_once_with_the_later_value)
{ /* P4, T3 */
    weft_fiber f = weft_spin(count_resumes, NULL);
    weft_snooze();
    ck_assert_int_eq(weft_schedule(f, 1), 0);
    ck_assert_int_eq(weft_schedule(f, 2), 0);
    let_run();
    ck_assert_int_eq(resumed, 1);
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    ck_assert_int_eq(weft_schedule(f, 0), 0);
    ck_assert_int_eq(weft_await(f), 2);
}

TEST(a_fiber_that_is_scheduled_again_or_before_it_ran_moves_to_the_tail)
{ /* P4 */
    weft_fiber f = weft_spin(suspend_and_mark, "f");
    weft_fiber g = weft_spin(suspend_and_mark, "g");
    weft_snooze();
    weft_schedule(f, 1);
    weft_schedule(g, 1);
    weft_schedule(f, 1);
    let_run();
    ck_take_trail("gf");
    f = weft_spin(mark_and_return, "f");
    weft_spin(mark_and_return, "g");
    ck_assert_int_eq(weft_schedule(f, 0), 0);
    let_run();
    ck_assert_trail("gf");
}

TEST(suspend_returns_the_value_of_schedule_and_a_value_never_replaces_an_error)
{ /* P6, P8, T6 */
    static const weft_value rows[][3] = {{INTPTR_MAX, INTPTR_MAX, INTPTR_MAX},
                                         {-4096, -4096, -4096},
                                         {-EIO, 7, -EIO},
                                         {-EIO, -EPIPE, -EPIPE},
                                         {7, -EIO, -EIO}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        weft_fiber f = spin_suspended();
        ck_assert_int_eq(weft_schedule(f, rows[i][0]), 0);
        ck_assert_int_eq(weft_schedule(f, rows[i][1]), 0);
        ck_assert_int_eq(weft_await(f), rows[i][2]);
        ck_assert_int_eq(weft_schedule(f, 1), -ESRCH);
    }
}

FIBER_DO(schedule_main, weft_schedule(weft_main(), (weft_value)arg), 0)

TEST(suspend_in_main_returns_0_at_once_when_nothing_is_left)
{ /* P8 */
    ck_assert_int_eq(weft_suspend(), 0);
    weft_fiber f = weft_new(suspend, NULL);
    weft_fiber g = spin_suspended();
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    ck_assert_int_eq(weft_state_of(g), WEFT_WAITING);
    weft_spin(schedule_main, as_arg(9));
    ck_assert_int_eq(weft_suspend(), 9);
    weft_spin(schedule_main, as_arg(-EIO));
    ck_assert_int_eq(weft_suspend(), -EIO);
}

FIBER_DO(sleep_and_mark, weft_sleep(0.002), mark(arg), 0)

static weft_value tick_forever(void *arg)
{
    while (weft_sleep(0.001) == 0)
        ;
    mark("daemon ended");
    return 0;
}

TEST(suspend_in_main_waits_until_all_fibers_except_daemons_have_ended)
{ /* P8 */
    weft_fiber d = weft_spin_with(tick_forever, NULL, &(weft_spin_options){.is_daemon = true});
    weft_spin(sleep_and_mark, "work ");
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert_trail("work ");
    ck_assert_int_ne(weft_state_of(d), WEFT_DEAD);
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert_int_eq(weft_terminate(d, 1), 0);
    ck_assert_trail("work daemon ended");
}

FIBER_DO(store_own_state, *(weft_state *)arg = weft_state_of(weft_self()), weft_suspend())

TEST(other_fibers_can_query_the_state)
{ /* P9 */
    weft_state inside = WEFT_DEAD;
    weft_fiber f = weft_new(store_own_state, &inside);
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    weft_schedule(f, 0);
    ck_assert_int_eq(weft_state_of(f), WEFT_RUNNABLE);
    weft_snooze();
    ck_assert_int_eq(inside, WEFT_RUNNING);
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    weft_schedule(f, 0);
    ck_assert_int_eq(weft_state_of(f), WEFT_RUNNABLE);
    weft_snooze();
    ck_assert_int_eq(weft_state_of(f), WEFT_DEAD);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(weft_state_of(f), WEFT_DEAD);
    ck_assert_int_eq(weft_state_of(weft_self()), WEFT_RUNNING);
}

static weft_value mark_both_letters(void *arg)
{
    const char *letters = arg;
    weft_suspend();
    mark((char[2]){letters[0]});
    weft_snooze();
    mark((char[2]){letters[1]});
    return 0;
}

TEST(fibers_run_in_the_order_in_which_they_were_woken)
{ /* T1 */
    weft_fiber f[4];
    char *letters[4] = {"aA", "bB", "cC", "dD"};
    for (int i = 3; i >= 0; i--)
        f[i] = weft_spin(mark_both_letters, letters[i]);
    weft_snooze();
    for (int i = 0; i < 4; i++)
        weft_schedule(f[i], 0);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_trail("abcdABCD");
}

static weft_value snooze_often(void *arg)
{
    for (intptr_t i = (intptr_t)arg; i > 0; i--)
        ck_assert_int_eq(weft_snooze(), 0);
    return 1;
}

static weft_value count_own_switches(void *arg)
{
    snooze_often(arg);
    return (weft_value)info_of(weft_self()).switches;
}

TEST(the_switches_of_a_fiber_are_counted_from_0_also_on_a_reused_record)
{ /* T2, T13 */
    for (intptr_t n = 7; n >= 0; n--)
        ck_assert_int_eq(weft_await(weft_spin(count_own_switches, as_arg(n))), n);
    weft_fiber f[100];
    for (int i = 0; i < 100; i++) /* all finish */
        f[i] = weft_spin(count_own_switches, as_arg(300 + i));
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(weft_await(f[i]), 300 + i);
}

/* Who runs when: the order of the run queue, scheduling and suspending, parking, sleeping beside busy fibers. */
#include "support.h"

#include <time.h>

/* P1 */
START_TEST(a_spun_fiber_does_not_run_before_the_spinner_reaches_a_switchpoint)
{
    weft_spin(mark_and_return, "a");
    weft_spin(mark_and_return, "b");
    weft_go(mark_and_return, "c");
    ck_assert_trail("");
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_trail("abc");
}
END_TEST

static weft_value mark_three_times(void *arg)
{
    for (int i = 0; i < 3; i++) {
        mark(arg);
        weft_snooze();
    }
    return 0;
}

/* P2 */
START_TEST(snoozing_fibers_take_turns)
{
    weft_spin(mark_three_times, "0");
    weft_spin(mark_three_times, "1");
    weft_spin(mark_three_times, "2");
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_trail("012012012");
}
END_TEST

static weft_value spin_two(void *arg)
{
    (void)arg;
    mark("a ");
    weft_spin(mark_and_return, "a1 ");
    weft_spin(mark_and_return, "a2 ");
    return weft_await_children();
}

/* P3 */
START_TEST(a_child_spun_by_a_child_runs_after_those_already_queued)
{
    weft_spin(spin_two, NULL);
    weft_spin(mark_and_return, "b ");
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_trail("a b a1 a2 ");
}
END_TEST

static int resumed;

static weft_value count_resumes(void *arg)
{
    (void)arg;
    weft_value last = 0;
    for (weft_value v; (v = weft_suspend()) > 0; resumed++)
        last = v;
    return last;
}

/* P4, T3 */
START_TEST(a_fiber_scheduled_twice_before_it_runs_is_resumed_once_with_the_later_value)
{
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
END_TEST

/* P4 */
START_TEST(scheduled_again_a_fiber_moves_to_the_tail)
{
    weft_fiber f = weft_spin(suspend_and_mark, "f");
    weft_fiber g = weft_spin(suspend_and_mark, "g");
    weft_snooze();
    weft_schedule(f, 1);
    weft_schedule(g, 1);
    weft_schedule(f, 1);
    let_run();
    ck_assert_trail("gf");
}
END_TEST

/* P4 */
START_TEST(a_spun_fiber_that_is_scheduled_before_it_ran_moves_to_the_tail)
{
    weft_fiber f = weft_spin(mark_and_return, "f");
    weft_spin(mark_and_return, "g");
    ck_assert_int_eq(weft_schedule(f, 0), 0);
    let_run();
    ck_assert_trail("gf");
}
END_TEST

/* P6 */
START_TEST(a_plain_value_never_displaces_an_error)
{
    weft_fiber f = spin_suspended();
    ck_assert_int_eq(weft_schedule(f, -EIO), 0);
    ck_assert_int_eq(weft_schedule(f, 7), 0);
    ck_assert_int_eq(weft_await(f), -EIO);

    weft_fiber g = spin_suspended();
    ck_assert_int_eq(weft_schedule(g, -EIO), 0);
    ck_assert_int_eq(weft_schedule(g, -EPIPE), 0);
    ck_assert_int_eq(weft_await(g), -EPIPE);

    weft_fiber h = spin_suspended();
    ck_assert_int_eq(weft_schedule(h, 7), 0);
    ck_assert_int_eq(weft_schedule(h, -EIO), 0);
    ck_assert_int_eq(weft_await(h), -EIO);
}
END_TEST

/* P7, T6 */
START_TEST(scheduling_an_ended_fiber_is_refused_and_harms_nothing)
{
    weft_fiber f = weft_spin(return_arg, as_arg(5));
    weft_snooze();
    ck_assert_int_eq(weft_schedule(f, 1), -ESRCH);
    ck_assert_int_eq(weft_schedule(f, 2), -ESRCH);
    ck_assert_int_eq(weft_await(f), 5);
    ck_assert_int_eq(weft_schedule(f, 3), -ESRCH);
}
END_TEST

/* P8 */
START_TEST(suspend_returns_the_value_that_schedule_was_given)
{
    weft_fiber f = spin_suspended();
    ck_assert_int_eq(weft_schedule(f, INTPTR_MAX), 0);
    ck_assert_int_eq(weft_await(f), INTPTR_MAX);
    weft_fiber g = spin_suspended();
    ck_assert_int_eq(weft_schedule(g, -4096), 0);
    ck_assert_int_eq(weft_await(g), -4096);
}
END_TEST

static weft_value schedule_main(void *arg)
{
    weft_schedule(weft_main(), (weft_value)arg);
    return 0;
}

/* P8 */
START_TEST(suspend_in_main_returns_0_at_once_when_nothing_is_left)
{
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
END_TEST

static weft_value sleep_and_mark(void *arg)
{
    weft_sleep(0.002);
    mark(arg);
    return 0;
}

/* P8 */
START_TEST(suspend_in_main_waits_until_all_the_work_is_done)
{
    weft_spin(sleep_and_mark, "a");
    weft_spin(sleep_and_mark, "b");
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert_trail("ab");
}
END_TEST

static weft_value tick_forever(void *arg)
{
    (void)arg;
    while (weft_sleep(0.001) == 0)
        ;
    mark("daemon ended");
    return 0;
}

/* P8 */
START_TEST(daemons_do_not_keep_the_suspend_of_main_waiting)
{
    weft_fiber d = weft_spin_with(tick_forever, NULL, &(weft_spin_options){.is_daemon = true});
    weft_spin(sleep_and_mark, "work ");
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert_trail("work ");
    ck_assert_int_ne(weft_state_of(d), WEFT_DEAD);
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert_int_eq(weft_terminate(d, 1), 0);
    ck_assert_trail("work daemon ended");
}
END_TEST

static weft_value look_at_own_state(void *arg)
{
    *(weft_state *)arg = weft_state_of(weft_self());
    return weft_suspend();
}

/* P9 */
START_TEST(states_can_be_seen_from_outside)
{
    weft_state inside = WEFT_DEAD;
    weft_fiber f = weft_new(look_at_own_state, &inside);
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
END_TEST

static weft_value snooze_forever(void *arg)
{
    (void)arg;
    while (weft_snooze() == 0)
        ;
    return 0;
}

/* P11, T11 */
START_TEST(a_sleeper_wakes_although_another_fiber_snoozes_forever)
{
    weft_fiber f = weft_spin(snooze_forever, NULL);
    double begin = weft_now();
    ck_assert_int_eq(weft_sleep(0.01), 0);
    ck_assert_slept(begin, 0.01);
    ck_assert_int_eq(weft_cancel(f), 0);
}
END_TEST

/* P12 */
START_TEST(a_deadline_strikes_in_a_loop_that_only_snoozes)
{
    int rc = 0, last = 0;
    WEFT_CANCEL_AFTER(0.005, rc) {
        while ((last = weft_snooze()) == 0)
            ;
    }
    ck_assert_int_eq(last, -ECANCELED);
    ck_assert_int_eq(rc, -ETIMEDOUT);
}
END_TEST

static void count_idle(void *arg)
{
    ++*(int *)arg;
}

/* P13 */
START_TEST(the_idle_callback_is_called_once_for_each_wait_and_never_between)
{
    int calls = 0;
    weft_on_idle(count_idle, &calls);
    for (int i = 0; i < 100; i++)
        weft_snooze();
    ck_assert_int_eq(calls, 0);
    for (int i = 1; i <= 5; i++) {
        weft_sleep(0.002);
        ck_assert_int_eq(calls, i);
    }
    weft_on_idle(NULL, NULL);
    weft_sleep(0.002);
    ck_assert_int_eq(calls, 5);
}
END_TEST

/* P14 */
START_TEST(a_parked_fiber_runs_only_when_it_is_unparked_and_then_with_its_value)
{
    weft_fiber f = weft_spin(suspend_and_mark, "f");
    weft_snooze();
    ck_assert_int_eq(weft_park(f), 0);
    ck_assert_int_eq(weft_schedule(f, 1), 0);
    ck_assert_int_eq(weft_schedule(f, 2), 0);
    let_run();
    weft_sleep(0.002);
    ck_assert_trail("");
    ck_assert_int_eq(weft_unpark(f), 0);
    ck_assert_trail("");
    ck_assert_int_eq(weft_await(f), 2);
    ck_assert_trail("f");
}
END_TEST

/* P14 */
START_TEST(a_fiber_can_be_parked_while_it_is_runnable_and_before_it_ever_ran)
{
    weft_fiber f = weft_spin(mark_and_return, "f");
    weft_fiber g = weft_spin(suspend_and_mark, "g");
    ck_assert_int_eq(weft_park(f), 0);
    weft_snooze();
    weft_schedule(g, 3);
    ck_assert_int_eq(weft_park(g), 0);
    ck_assert_int_eq(weft_park(g), 0);
    let_run();
    ck_assert_trail("");
    ck_assert_int_eq(weft_unpark(g), 0);
    ck_assert_int_eq(weft_unpark(g), 0);
    ck_assert_int_eq(weft_unpark(f), 0);
    let_run();
    ck_assert_trail("gf");
    ck_assert_int_eq(weft_await(g), 3);
}
END_TEST

/* P14 */
START_TEST(a_parked_sleeper_wakes_late_and_is_not_to_be_scheduled)
{
    weft_fiber f = weft_spin(sleep_and_mark, "f");
    weft_snooze();
    ck_assert_int_eq(weft_park(f), 0);
    ck_assert_int_eq(weft_schedule(f, 5), -EBUSY);
    weft_sleep(0.01);
    ck_assert_trail("");
    ck_assert_int_eq(weft_unpark(f), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_trail("f");
}
END_TEST

/* P14 */
START_TEST(a_parked_fiber_that_is_cancelled_ends_once_it_is_unparked)
{
    weft_fiber f = spin_suspended();
    weft_park(f);
    weft_cancel(f);
    let_run();
    ck_assert_int_ne(weft_state_of(f), WEFT_DEAD);
    weft_unpark(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
}
END_TEST

static weft_value park_starter(void *arg)
{
    ck_assert_int_eq(weft_park(arg_id(arg)), 0);
    mark("parked ");
    return 0;
}

static weft_value unpark_it(void *arg)
{
    mark("unparks ");
    return weft_unpark(arg_id(arg));
}

/* P14 */
START_TEST(a_fiber_that_is_parked_while_it_starts_another_is_held_too)
{
    weft_spin(unpark_it, id_arg(weft_self()));
    weft_fiber f = weft_new(park_starter, id_arg(weft_self()));
    ck_assert_int_eq(weft_start(f), 0);
    mark("back");
    weft_snooze();
    ck_assert_trail("parked unparks back");
}
END_TEST

/* P14 */
START_TEST(parking_oneself_or_what_is_gone_is_refused)
{
    weft_fiber f = weft_spin(return_arg, NULL);
    ck_assert_int_eq(weft_park(weft_self()), -EINVAL);
    ck_assert_int_eq(weft_unpark(weft_self()), 0);
    weft_snooze();
    ck_assert_int_eq(weft_park(f), -ESRCH);
    ck_assert_int_eq(weft_unpark(f), -ESRCH);
}
END_TEST

static weft_value lower_then_upper(void *arg)
{
    const char *letters = arg;
    weft_suspend();
    mark((char[2]){letters[0]});
    weft_snooze();
    mark((char[2]){letters[1]});
    return 0;
}

/* T1 */
START_TEST(woken_fibers_run_in_the_order_of_their_waking)
{
    weft_fiber f[4];
    char *letters[4] = {"aA", "bB", "cC", "dD"};
    for (int i = 3; i >= 0; i--)
        f[i] = weft_spin(lower_then_upper, letters[i]);
    weft_snooze();
    for (int i = 0; i < 4; i++)
        weft_schedule(f[i], 0);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_trail("abcdABCD");
}
END_TEST

static weft_value snooze_often(void *arg)
{
    for (intptr_t i = (intptr_t)arg; i > 0; i--)
        ck_assert_int_eq(weft_snooze(), 0);
    return 1;
}

/* T2 */
START_TEST(a_hundred_fibers_that_snooze_thousands_of_times_all_finish)
{
    weft_fiber f[100];
    for (int i = 0; i < 100; i++)
        f[i] = weft_spin(snooze_often, as_arg(3000 + i));
    weft_value sum = 0;
    for (int i = 0; i < 100; i++)
        sum += weft_await(f[i]);
    ck_assert_int_eq(sum, 100);
}
END_TEST

/* T4 */
START_TEST(scheduling_oneself_is_refused_and_the_next_sleep_really_sleeps)
{
    ck_assert_int_eq(weft_schedule(weft_self(), 1), -EBUSY);
    double begin = weft_now();
    ck_assert_int_eq(weft_sleep(0.001), 0);
    ck_assert_slept(begin, 0.001);
}
END_TEST

/* T3, P64 */
START_TEST(who_waits_in_anything_but_suspend_cannot_be_scheduled)
{
    weft_fiber sleeper = spin_sleeping();
    weft_fiber snoozer = weft_spin(snooze_often, as_arg(5));
    weft_snooze();
    ck_assert_int_eq(weft_schedule(sleeper, 1), -EBUSY);
    ck_assert_int_eq(weft_schedule(snoozer, 1), -EBUSY);
    ck_assert_int_eq(weft_await(snoozer), 1);
    ck_assert_int_eq(weft_cancel(sleeper), 0);
    ck_assert_int_eq(weft_schedule(sleeper, 1), -EBUSY);
    ck_assert_int_eq(weft_await(sleeper), -ECANCELED);
}
END_TEST

static weft_fiber second;

static weft_value wake_second(void *arg)
{
    (void)arg;
    weft_suspend();
    mark("first ");
    return weft_schedule(second, 7);
}

static weft_value mark_each_resume(void *arg)
{
    (void)arg;
    weft_value v;
    while ((v = weft_suspend()) > 0) {
        char text[16];
        snprintf(text, sizeof text, "%d ", (int)v);
        mark(text);
    }
    return 0;
}

/* T10 */
START_TEST(waking_a_fiber_that_is_in_the_same_batch_runs_it_once)
{
    weft_fiber first = weft_spin(wake_second, NULL);
    second = weft_spin(mark_each_resume, NULL);
    weft_snooze();
    weft_schedule(first, 1);
    weft_schedule(second, 1);
    let_run();
    ck_assert_trail("first 7 ");
}
END_TEST

static weft_value read_one(void *arg)
{
    char byte;
    weft_value rc = weft_read(*(int *)arg, &byte, 1);
    mark("read");
    return rc;
}

/* T11 */
START_TEST(sleeping_for_0_s_lets_io_proceed)
{
    int fd[2];
    ck_assert_int_eq(weft_pipe(fd), 0);
    weft_fiber f = weft_spin(read_one, &fd[0]);
    weft_snooze();
    ck_assert_int_eq(weft_write(fd[1], "x", 1), 1);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(weft_sleep(0), 0);
    ck_assert_trail("read");
    ck_assert_int_eq(weft_await(f), 1);
    weft_close(fd[0]);
    weft_close(fd[1]);
}
END_TEST

static void compute_for_ms(long ms)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
}

/* T12 */
START_TEST(a_sleep_after_a_computation_is_as_long_as_it_should_be)
{
    weft_snooze();
    compute_for_ms(40);
    double begin = weft_now();
    ck_assert_int_eq(weft_sleep(0.02), 0);
    ck_assert_slept(begin, 0.02);
}
END_TEST

static weft_value count_own_switches(void *arg)
{
    snooze_often(arg);
    weft_info info;
    ck_assert_int_eq(weft_info_of(weft_self(), &info), 0);
    return (weft_value)info.switches;
}

/* T13 */
START_TEST(a_fiber_that_snoozes_so_often_has_so_many_switches_also_on_a_used_record)
{
    ck_assert_int_eq(weft_await(weft_spin(count_own_switches, as_arg(7))), 7);
    ck_assert_int_eq(weft_await(weft_spin(count_own_switches, as_arg(3))), 3);
    ck_assert_int_eq(weft_await(weft_spin(count_own_switches, NULL)), 0);
}
END_TEST

static weft_value suspend_for_a_while(void *arg)
{
    int rc;
    weft_value got = 0;
    WEFT_CANCEL_AFTER(0.002, rc) {
        got = weft_suspend();
    }
    *(weft_value *)arg = got;
    return rc;
}

/* T14 */
START_TEST(a_suspend_with_a_deadline_knows_whether_it_was_the_deadline)
{
    weft_value got;
    weft_fiber f = weft_spin(suspend_for_a_while, &got);
    ck_assert_int_eq(weft_await(f), -ETIMEDOUT);
    ck_assert_int_eq(got, -ECANCELED);
    f = weft_spin(suspend_for_a_while, &got);
    weft_snooze();
    weft_schedule(f, 8);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(got, 8);
}
END_TEST

static int finished;

static weft_value sleep_a_little(void *arg)
{
    ck_assert_int_eq(weft_sleep((double)(intptr_t)arg * 1e-6), 0);
    finished++;
    return 0;
}

/* T15 */
START_TEST(a_thousand_fibers_that_sleep_for_0_s_are_all_heard_of)
{
    for (int i = 0; i < 1000; i++)
        weft_go(sleep_a_little, NULL);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(finished, 1000);
}
END_TEST

/* T16 */
START_TEST(no_fiber_is_lost_among_many_short_sleeps)
{
    srand(1);
    for (int round = 1; round <= 10; round++) {
        for (int i = 0; i < 300; i++)
            weft_go(sleep_a_little, as_arg(rand() % 100));
        ck_assert_int_eq(weft_await_children(), 0);
        ck_assert_int_eq(finished, 300 * round);
    }
}
END_TEST

static const TTest *const *const tests[] = {
    &a_spun_fiber_does_not_run_before_the_spinner_reaches_a_switchpoint,
    &snoozing_fibers_take_turns,
    &a_child_spun_by_a_child_runs_after_those_already_queued,
    &a_fiber_scheduled_twice_before_it_runs_is_resumed_once_with_the_later_value,
    &scheduled_again_a_fiber_moves_to_the_tail,
    &a_spun_fiber_that_is_scheduled_before_it_ran_moves_to_the_tail,
    &a_plain_value_never_displaces_an_error,
    &scheduling_an_ended_fiber_is_refused_and_harms_nothing,
    &suspend_returns_the_value_that_schedule_was_given,
    &suspend_in_main_returns_0_at_once_when_nothing_is_left,
    &suspend_in_main_waits_until_all_the_work_is_done,
    &daemons_do_not_keep_the_suspend_of_main_waiting,
    &states_can_be_seen_from_outside,
    &a_sleeper_wakes_although_another_fiber_snoozes_forever,
    &a_deadline_strikes_in_a_loop_that_only_snoozes,
    &the_idle_callback_is_called_once_for_each_wait_and_never_between,
    &a_parked_fiber_runs_only_when_it_is_unparked_and_then_with_its_value,
    &a_fiber_can_be_parked_while_it_is_runnable_and_before_it_ever_ran,
    &a_parked_sleeper_wakes_late_and_is_not_to_be_scheduled,
    &a_parked_fiber_that_is_cancelled_ends_once_it_is_unparked,
    &a_fiber_that_is_parked_while_it_starts_another_is_held_too,
    &parking_oneself_or_what_is_gone_is_refused,
    &woken_fibers_run_in_the_order_of_their_waking,
    &a_hundred_fibers_that_snooze_thousands_of_times_all_finish,
    &scheduling_oneself_is_refused_and_the_next_sleep_really_sleeps,
    &who_waits_in_anything_but_suspend_cannot_be_scheduled,
    &waking_a_fiber_that_is_in_the_same_batch_runs_it_once,
    &sleeping_for_0_s_lets_io_proceed,
    &a_sleep_after_a_computation_is_as_long_as_it_should_be,
    &a_fiber_that_snoozes_so_often_has_so_many_switches_also_on_a_used_record,
    &a_suspend_with_a_deadline_knows_whether_it_was_the_deadline,
    &a_thousand_fibers_that_sleep_for_0_s_are_all_heard_of,
    &no_fiber_is_lost_among_many_short_sleeps,
};

int main(void)
{
    return run_suite("schedule", tests, COUNT_OF(tests));
}

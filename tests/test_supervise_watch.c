/* Supervised and monitored fibers in the hands of others: awaited, selected, terminated. */
#include "supervise_support.h"

static weft_value select_two(void *arg)
{
    (void)arg;
    weft_fiber f[] = {id_of('a'), id_of('b')};
    return weft_select_fibers(f, 2, NULL);
}

START_TEST(selecting_among_supervised_children_stops_the_others)
{
    plan p;
    weft_fiber supervisor = spin_abc(&p, WEFT_ONE_FOR_ONE, WEFT_ALWAYS);
    weft_fiber s = weft_spin(select_two, NULL);
    let_run();
    end_child('b', RETURNS);
    ck_assert_int_eq(weft_await(s), 1);
    let_run();
    ck_assert_trail("BAba");
    cancel_supervisor(supervisor);
    assert_nothing_left();
}
END_TEST

START_TEST(terminating_a_supervised_child_returns_0)
{
    plan p;
    weft_fiber supervisor = spin_abc(&p, WEFT_ONE_FOR_ONE, WEFT_ALWAYS);
    ck_assert_int_eq(weft_terminate(id_of('a'), 1), 0);
    let_run();
    ck_assert_int_eq(weft_terminate(id_of('a'), 0), 0);
    let_run();
    ck_assert_trail("AaAa");
    cancel_supervisor(supervisor);
    assert_nothing_left();
}
END_TEST

static weft_value monitor_it(void *arg)
{
    weft_monitor(arg_id(arg));
    weft_receive();
    weft_suspend();
    return weft_await(arg_id(arg));
}

START_TEST(the_loser_of_a_select_is_still_there_for_its_monitor)
{
    weft_fiber a = spin_suspended(), b = spin_suspended();
    weft_fiber m = weft_spin(monitor_it, id_arg(a));
    let_run();
    weft_schedule(b, 5);
    weft_select_fibers((weft_fiber[]){a, b}, 2, NULL);
    let_run();
    weft_schedule(m, 0);
    ck_assert_int_eq(weft_await(m), -ECANCELED);
}
END_TEST

START_TEST(terminating_a_monitored_fiber_returns_0)
{
    weft_fiber a = spin_suspended();
    weft_fiber m = weft_spin(monitor_it, id_arg(a));
    let_run();
    ck_assert_int_eq(weft_terminate(a, 1), 0);
    let_run();
    weft_schedule(m, 0);
    ck_assert_int_eq(weft_await(m), -ECANCELED);
}
END_TEST

static void monitor_on_exit(weft_fiber child, weft_value value, void *arg)
{
    (void)value;
    *(weft_fiber *)arg = child;
    weft_monitor(child);
}

START_TEST(monitoring_one_whose_end_is_being_told_of)
{
    weft_fiber f = 0;
    weft_child child = {.fn = return_arg, .arg = as_arg(5), .restart = WEFT_NEVER};
    weft_supervise_options o = {.on_exit = monitor_on_exit, .on_exit_arg = &f};
    ck_assert_int_eq(weft_supervise(&child, 1, &o), 0);
    ck_assert_uint_eq((weft_fiber)weft_receive(), f);
    ck_assert_int_eq(weft_await(f), 5);
    ck_assert_int_eq(weft_await(f), -ESRCH);
}
END_TEST

static const TTest *const *const tests[] = {
    &selecting_among_supervised_children_stops_the_others,
    &terminating_a_supervised_child_returns_0,
    &the_loser_of_a_select_is_still_there_for_its_monitor,
    &terminating_a_monitored_fiber_returns_0,
    &monitoring_one_whose_end_is_being_told_of,
};
int main(void)
{
    return run_suite("supervise_watch", tests, COUNT_OF(tests));
}

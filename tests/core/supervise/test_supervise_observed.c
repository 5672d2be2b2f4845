/* Supervised and monitored fibers that other fibers await, select or terminate. */
#include "core/supervise/supervise_support.h"
#include "support/suite.h"

static weft_value select_a_and_b(void *arg)
{
    weft_fiber f[] = {id_of('a'), id_of('b')};
    return weft_select_fibers(f, 2, NULL);
}

TEST(selecting_among_supervised_children_stops_the_others)
{
    supervisor_args p;
    weft_fiber supervisor = spin_abc(&p, WEFT_ONE_FOR_ONE, WEFT_ALWAYS);
    weft_fiber s = spin_waiting(select_a_and_b, NULL);
    end_child('b', RETURNS);
    ck_assert_int_eq(weft_await(s), 1);
    let_run();
    ck_assert_trail("BAba");
    cancel_supervisor(supervisor);
    assert_nothing_left();
}

TEST(terminating_a_supervised_child_returns_0)
{
    supervisor_args p;
    weft_fiber supervisor = spin_abc(&p, WEFT_ONE_FOR_ONE, WEFT_ALWAYS);
    ck_assert_int_eq(weft_terminate(id_of('a'), 1), 0);
    let_run();
    ck_assert_int_eq(weft_terminate(id_of('a'), 0), 0);
    let_run();
    ck_assert_trail("AaAa");
    cancel_supervisor(supervisor);
    assert_nothing_left();
}

static weft_value monitor_arg(void *arg)
{
    weft_monitor(arg_id(arg));
    weft_receive();
    weft_suspend();
    return weft_await(arg_id(arg));
}

TEST(a_monitored_fiber_that_loses_a_select_or_is_terminated_can_still_be_awaited)
{
    for (int i = 0; i < 2; i++) {
        weft_fiber a = spin_suspended(), b = spin_suspended();
        weft_fiber m = spin_waiting(monitor_arg, id_arg(a));
        weft_schedule(b, 5);
        if (i == 0)
            weft_select_fibers((weft_fiber[]){a, b}, 2, NULL);
        else
            ck_assert_int_eq(weft_terminate(a, 1), 0);
        let_run();
        weft_schedule(m, 0);
        ck_assert_int_eq(weft_await(m), -ECANCELED);
    }
}

static void monitor_on_exit(weft_fiber child, weft_value value, void *arg)
{
    *(weft_fiber *)arg = child;
    weft_monitor(child);
}

TEST(on_exit_may_monitor_the_child_that_has_ended)
{
    weft_fiber f = 0;
    weft_child child = {.fn = return_arg, .arg = as_arg(5), .restart = WEFT_NEVER};
    weft_supervise_options o = {.on_exit = monitor_on_exit, .on_exit_arg = &f};
    ck_assert_int_eq(weft_supervise(&child, 1, &o), 0);
    ck_assert_uint_eq((weft_fiber)weft_receive(), f);
    ck_assert_int_eq(weft_await(f), 5);
    ck_assert_int_eq(weft_await(f), -ESRCH);
}

static weft_fiber survivor;

static weft_value end_when_scheduled(void *arg)
{
    survivor = weft_self();
    WEFT_SHIELD(INFINITY)
        weft_suspend();
    return 0;
}

FIBER_DO(end_with_survivor, weft_spin(end_when_scheduled, NULL), weft_snooze(), 0)

TEST(a_fiber_attached_while_it_ends_with_its_parent_does_not_block_the_supervisor)
{
    supervisor_args p = {.children = {{"a", run_child, "a", .restart = WEFT_NEVER}}, .n = 1};
    weft_fiber supervisor = weft_spin(run_supervisor, &p);
    weft_fiber parent = spin_waiting(end_with_survivor, NULL);
    ck_assert_int_eq(weft_attach(survivor, supervisor), 0);
    let_run();
    weft_schedule(survivor, 0);
    weft_schedule(id_of('a'), 1);
    ck_assert_int_eq(weft_await(supervisor), 0);
    ck_assert_int_eq(weft_await(parent), 0);
}

static int exits;

static void restart_and_wait(weft_fiber child, weft_value value, void *arg)
{
    ck_assert_int_lt(++exits, 100000);
    weft_restart(child);
    WEFT_SHIELD(1) {
        weft_snooze(); /* the child ends again */
        weft_snooze();
    }
}

TEST(a_supervisor_with_an_on_exit_that_restarts_every_child_can_be_cancelled)
{
    supervisor_args p = {
        .children = {{"a", return_arg, NULL}}, .n = 1, .options.on_exit = restart_and_wait};
    weft_fiber supervisor = weft_spin(run_supervisor, &p);
    for (int i = 0; i < 50; i++)
        weft_snooze();
    ck_assert_int_gt(exits, 1);
    ck_assert_int_eq(cancel_and_await(supervisor), -ECANCELED);
}

static void fail_in_on_exit(weft_fiber child, weft_value value, void *arg)
{
    if (value == -EPROTO)
        ck_assert_error(-EPROTO, "broken");
    weft_fail(-EPERM, "not the message of the child");
}

static weft_value supervise_two(void *arg)
{
    weft_spin(fail_with, as_arg(-EPROTO));
    weft_spin(fail_with, as_arg(-EPROTO));
    return weft_supervise(NULL, 0, &(weft_supervise_options){.on_exit = fail_in_on_exit});
}

TEST(on_exit_sees_the_error_message_and_its_own_errors_do_not_replace_it)
{
    ck_assert_int_eq(weft_await(weft_spin(supervise_two, NULL)), -EPROTO);
    ck_assert_error(-EPROTO, "broken");
}

static weft_value await_repeatedly(void *arg)
{
    weft_value value;
    do
        value = weft_await(arg_id(arg));
    while (value != -ESRCH && value != -ECANCELED);
    return value;
}

TEST(awaiting_a_supervised_child_in_a_loop_does_not_prevent_its_restart)
{
    supervisor_args p = {.children = {{"a", run_child, "a"}}, .n = 1, .options.backoff_s = TICK_S};
    weft_fiber supervisor = spin_waiting(run_supervisor, &p);
    weft_fiber watcher = spin_waiting(await_repeatedly, id_arg(id_of('a')));
    weft_schedule(id_of('a'), 1);
    while (runs[0] < 2)
        weft_sleep(TICK_S);
    ck_assert_int_eq(cancel_and_await(supervisor), -ECANCELED);
    weft_cancel(watcher);
}

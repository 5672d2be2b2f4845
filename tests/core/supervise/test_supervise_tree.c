/*
 * Supervision among other actions: children that are added, moved or awaited, disturbed
 * supervisors, and nested supervisors. test_supervise_steps.c has the tests of three children.
 */
#include "core/supervise/supervise_support.h"
#include "support/suite.h"

FIXTURE(NULL, assert_nothing_left)

static weft_fiber supervise_a(weft_restart_when restart, weft_supervise_options options)
{
    static supervisor_args p;
    p = (supervisor_args){.children = {{.fn = run_child, .arg = "a", .restart = restart}},
                          .n = 1,
                          .options = options};
    weft_fiber supervisor = spin_waiting(run_supervisor, &p);
    ck_assert_trail("a");
    return supervisor;
}

TEST(children_added_later_are_supervised_and_stopped_first)
{ /* P39 */
    weft_fiber supervisor = supervise_a(0, (weft_supervise_options){.restart = WEFT_ON_ERROR});
    weft_spin_with(run_child, "b", &(weft_spin_options){.parent = supervisor});
    weft_fiber c = spin_waiting(run_child, "c");
    ck_assert_int_eq(weft_attach(c, supervisor), 0);
    end_child('b', FAILS);
    end_child('c', FAILS);
    ck_assert_trail("abcBbCc");
    ck_assert_int_eq(cancel_and_await(supervisor), -ECANCELED);
    ck_assert_trail("abcBbCcCBA");
}

TEST(the_error_of_a_child_added_later_ends_the_supervision_by_default)
{ /* P39 */
    weft_fiber supervisor = supervise_a(0, (weft_supervise_options){0});
    weft_spin_with(fail_later, as_arg(-EPIPE), &(weft_spin_options){.parent = supervisor});
    ck_assert_int_eq(weft_await(supervisor), -EPIPE);
    ck_assert_error(-EPIPE, "broken");
    ck_assert_trail("aA");
}

static void spin_b_once(weft_fiber child, weft_value value, void *arg)
{
    if (runs[1] == 0)
        weft_spin(run_child, "b");
}

TEST(a_child_spun_by_on_exit_is_supervised)
{ /* P39 */
    weft_fiber supervisor = supervise_a(
        WEFT_NEVER, (weft_supervise_options){.on_exit = spin_b_once, .restart = WEFT_ON_ERROR});
    end_child('a', FAILS);
    ck_assert_trail("aAb");
    end_child('b', FAILS);
    ck_assert_trail("aAbBb");
    end_child('b', RETURNS);
    ck_assert_int_eq(weft_await(supervisor), 0);
}

static void mark_exit_and_spin(weft_fiber child, weft_value value, void *arg)
{
    mark_exit(child, value, arg);
    if (++runs[0] > 1) /* the first failure ends the supervision */
        weft_set_name(weft_spin(mark_and_return, "never"), "another");
}

TEST(a_child_spun_by_on_exit_after_the_end_of_supervision_never_runs_and_is_not_reported)
{ /* P39 */
    for (int i = 0; i < 3; i++)
        weft_spin(fail_with, as_arg(-EIO));
    weft_supervise_options options = {.on_exit = mark_exit_and_spin, .on_exit_arg = ""};
    ck_assert_int_eq(weft_supervise(NULL, 0, &options), -EIO);
    ck_assert_error(-EIO, "broken");
    ck_assert_trail("(-5)(-5)(-5)");
}

FIBER_DO(spin_failing_and_supervise, weft_spin(fail_later, as_arg(-EIO)), run_supervisor(arg))

TEST(with_a_list_earlier_children_are_not_supervised_but_their_errors_reach_the_caller)
{ /* P39 */
    supervisor_args p = {
        .children = {{.fn = run_child, .arg = "a"}}, .n = 1, .options.restart = WEFT_ALWAYS};
    ck_assert_int_eq(weft_await(weft_spin(spin_failing_and_supervise, &p)), -EIO);
    ck_assert_error(-EIO, "broken");
    ck_assert_trail("aA");
}

static weft_value spin_unusual_and_supervise(void *arg)
{
    weft_fiber f = weft_spin(run_child, "a");
    weft_snooze();
    ck_assert_uint_ne(weft_new(run_child, "b"), 0);
    weft_park(f);
    weft_go(run_child, "c");
    return weft_supervise(NULL, 0, NULL);
}

TEST(children_that_never_ran_or_are_parked_are_stopped_too)
{ /* P39, P23 */
    weft_fiber supervisor = spin_waiting(spin_unusual_and_supervise, NULL);
    ck_assert_trail("ac");
    ck_assert_int_eq(cancel_and_await(supervisor), -ECANCELED);
    ck_assert_trail("acCA");
}

static void restart_and_detach(weft_fiber child, weft_value value, void *arg)
{
    ck_assert_int_eq(weft_restart(child), 0);
    ck_assert_int_eq(weft_detach(child), 0);
}

TEST(weft_supervise_returns_when_the_last_child_is_detached_also_by_on_exit)
{ /* P39, P27, P31 */
    for (int i = 0; i < 2; i++) {
        clear_trail();
        weft_fiber supervisor =
            supervise_a(0, (weft_supervise_options){.on_exit = restart_and_detach});
        if (i == 0)
            weft_detach(id_of('a'));
        else
            end_child('a', FAILS);
        ck_assert_int_eq(weft_await(supervisor), 0);
        ck_assert_trail(i == 0 ? "a" : "aAa");
        ck_assert_int_eq(cancel_and_await(id_of('a')), -ECANCELED);
        assert_nothing_left();
    }
}

TEST(a_child_can_be_moved_from_one_supervisor_to_another)
{ /* P39, P27 */
    supervisor_args second = {
        .children = {{.fn = run_child, .arg = "b"}}, .n = 1, .options.restart = WEFT_ALWAYS};
    weft_fiber from = supervise_a(WEFT_NEVER, (weft_supervise_options){0});
    weft_fiber to = spin_waiting(run_supervisor, &second);
    ck_assert_int_eq(weft_attach(id_of('a'), to), 0);
    ck_assert_int_eq(weft_await(from), 0);
    end_child('a', RETURNS);
    ck_assert_trail("abAa");
    cancel_and_await(to);
    ck_assert_trail("abAaAB");
}

static weft_group *open_group;

static weft_value supervise_in_a_group(void *arg)
{
    int rc = 0;
    WEFT_GROUP(g, rc) {
        open_group = &g;
        weft_group_spin(&g, mark_if_stopped, "1");
        weft_spin(run_child, "a");
        *(int *)arg = weft_supervise(NULL, 0, &(weft_supervise_options){.restart = WEFT_ALWAYS});
    }
    return rc;
}

TEST(members_of_an_open_group_of_the_caller_are_not_supervised)
{ /* P39, P32 */
    int inner = 0;
    weft_fiber supervisor = spin_waiting(supervise_in_a_group, &inner);
    weft_group_spin(open_group, mark_and_return, "2");
    weft_group_spin(open_group, suspend, NULL);
    let_run();
    end_child('a', FAILS);
    ck_assert_trail("a2Aa");
    weft_group_spin(open_group, fail_with, as_arg(-EPIPE));
    ck_assert_int_eq(weft_await(supervisor), -EPIPE);
    ck_assert_int_eq(inner, -ECANCELED);
    ck_assert_trail("a2Aa1A");
}

static void restart_some(weft_fiber child, weft_value value, void *arg)
{
    if (++*(int *)arg < 5)
        ck_assert_int_eq(weft_restart(child), 0);
}

TEST(a_restart_by_on_exit_replaces_that_of_the_supervisor_and_is_not_counted)
{ /* P39, P31 */
    for (weft_restart_when restart = WEFT_ALWAYS; restart <= WEFT_NEVER; restart++) {
        int exits = 0;
        weft_child child = {.fn = return_arg, .arg = NULL, .restart = restart};
        weft_supervise_options options = {
            .restarts_max = 1, .on_exit = restart_some, .on_exit_arg = &exits};
        int rc = weft_supervise(&child, 1, &options);
        ck_assert_int_eq(rc, restart == WEFT_ALWAYS ? -ELOOP : 0);
        ck_assert_int_eq(exits, restart == WEFT_ALWAYS ? 6 : 5);
        assert_nothing_left();
    }
}

static void restart_and_let_it_end(weft_fiber child, weft_value value, void *arg)
{
    mark(value == 1 ? "(1)" : "(0)");
    if (value != 1)
        return;
    ck_assert_int_eq(weft_restart(child), 0);
    let_run();
    weft_schedule(child, 0);
    let_run();
    ck_assert_int_eq(weft_state_of(child), WEFT_DEAD);
}

TEST(a_child_that_ends_again_while_on_exit_waits_is_passed_to_on_exit_again)
{ /* P39, P31 */
    weft_fiber supervisor =
        supervise_a(WEFT_NEVER, (weft_supervise_options){.on_exit = restart_and_let_it_end});
    weft_schedule(id_of('a'), 1);
    ck_assert_int_eq(weft_await(supervisor), 0);
    ck_assert_trail("aA(1)aA(0)");
}

static weft_value await_and_restart(void *arg)
{
    weft_fiber f = arg_id(arg);
    weft_value value = weft_await(f);
    weft_restart(f);
    return value == -EIO ? 1 : 0;
}

TEST(a_fiber_that_awaits_a_child_gets_the_value_of_that_run_and_may_restart_it_first)
{ /* P39, P34 */
    supervisor_args p;
    weft_fiber supervisor = spin_abc(&p, WEFT_ONE_FOR_ALL, WEFT_ALWAYS);
    weft_fiber waiter = spin_waiting(await_and_restart, id_arg(id_of('b')));
    end_child('b', FAILS);
    ck_assert_int_eq(weft_await(waiter), 1);
    ck_assert_trail("Bb"); /* restarted before the supervisor ran */
    end_child('b', FAILS);
    ck_assert_trail("BbBCAabc");
    cancel_supervisor(supervisor);
}

FIBER_DO(restart_b_later, weft_await(id_of('b')), weft_sleep(TICK_S), weft_restart(id_of('b')))

TEST(a_manual_restart_at_the_end_of_the_delay_counts_as_the_restart)
{ /* P39, P31 */
    supervisor_args p;
    cancel_supervisor(spin_abc(&p, WEFT_ONE_FOR_ALL, WEFT_ALWAYS));
    p.options.backoff_s = TICK_S;
    weft_fiber supervisor = spin_waiting(run_supervisor, &p);
    weft_go(restart_b_later, NULL);
    let_run();
    clear_trail();
    end_child('b', FAILS);
    double begin = weft_now();
    while (weft_now() - begin < 2 * TICK_S) /* both times pass before another fiber runs */
        continue;
    let_run();
    ck_assert_trail("BCAbac");
    cancel_supervisor(supervisor);
}

static void await_child_twice(weft_fiber child, weft_value value, void *arg)
{
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(weft_await(child), value);
}

TEST(an_ended_child_can_be_awaited_repeatedly_until_it_runs_again)
{ /* P39, P34 */
    weft_fiber supervisor =
        supervise_a(0, (weft_supervise_options){
                           .backoff_s = 1000, .backoff_max_s = 1000, .on_exit = await_child_twice});
    end_child('a', FAILS);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_await(id_of('a')), -EIO);
    ck_assert_int_eq(weft_restart(id_of('a')), 0);
    let_run();
    ck_assert_trail("aAa");
    cancel_supervisor(supervisor);
}

TEST(a_supervisor_cannot_be_interrupted_while_it_stops_its_children)
{ /* P39 */
    supervisor_args p = {
        .children = {{.fn = run_child, .arg = "a"}, {.fn = end_only_when_scheduled}}, .n = 2};
    weft_fiber supervisor = spin_waiting(run_supervisor, &p);
    weft_cancel(supervisor);
    let_run();
    ck_assert_int_eq(weft_cancel(supervisor), 0);
    ck_assert_int_eq(weft_raise(supervisor, -EPROTO, "now"), 0);
    ck_assert_int_eq(weft_interrupt(supervisor, -7), -EBUSY);
    let_run();
    ck_assert_trail("ah!");
    ck_assert_uint_eq(info_of(supervisor).waits_for_fiber, stubborn);
    weft_schedule(stubborn, 0);
    ck_assert_int_eq(weft_await(supervisor), -ECANCELED);
    ck_assert_trail("ah!HA");
}

TEST(a_raised_error_an_interrupt_and_terminate_stop_all_children)
{ /* P39 */
    for (int i = 0; i < 3; i++) {
        supervisor_args p;
        weft_fiber supervisor = spin_abc(&p, WEFT_ONE_FOR_ONE, WEFT_ALWAYS);
        if (i == 0)
            weft_raise(supervisor, -EPROTO, "raised");
        else if (i == 1)
            ck_assert_int_eq(weft_interrupt(supervisor, -EINTR), 0);
        else
            ck_assert_int_eq(weft_terminate(supervisor, 1), 0);
        ck_assert_int_eq(weft_await(supervisor), i == 0 ? -EPROTO : i == 1 ? -EINTR : -ESRCH);
        if (i == 0)
            ck_assert_error(-EPROTO, "raised");
        ck_take_trail("CBA");
        assert_nothing_left();
    }
}

TEST(a_scope_limits_the_duration_of_a_supervision)
{ /* P39 */
    const weft_child children[] = {{.fn = mark_if_stopped, .arg = "1"},
                                   {.fn = mark_if_stopped, .arg = "2"}};
    int inner = 0;
    ck_assert_times_out(TICK_S, inner = weft_supervise(children, 2, NULL));
    ck_assert_int_eq(inner, -ECANCELED);
    ck_assert_trail("21");
    WEFT_MOVE_ON_AFTER(0)
        inner = weft_supervise(children, 2, NULL);
    ck_assert_int_eq(inner, -ECANCELED);
    ck_assert_trail("21"); /* the children never ran */
}

static weft_value supervise_bc(void *arg)
{
    mark("(");
    const weft_child children[] = {{.fn = run_child, .arg = "b"}, {.fn = run_child, .arg = "c"}};
    int rc = weft_supervise(children, 2, arg);
    mark(")");
    return rc;
}

static weft_fiber supervise_nested(void)
{
    static weft_supervise_options inner = {.restarts_max = 1};
    static supervisor_args p = {
        .children = {{.fn = run_child, .arg = "a"},
                     {.name = "inner", .fn = supervise_bc, .arg = &inner}},
        .n = 2,
        .options = {.restarts_max = 1, .on_exit = mark_exit, .on_exit_arg = ""},
    };
    return spin_waiting(run_supervisor, &p);
}

TEST(a_supervisor_that_fails_is_restarted_with_its_whole_tree_by_its_own_supervisor)
{ /* P39 */
    weft_fiber outer = supervise_nested();
    ck_assert_trail("a(bc");
    end_child('b', FAILS);
    ck_assert_trail("a(bcBb");
    end_child('b', FAILS);
    ck_take_trail("a(bcBbBC)(inner-5)(bc");
    ck_assert_int_eq(cancel_and_await(outer), -ECANCELED);
    ck_assert_trail("CB)A");
}

TEST(the_error_of_a_leaf_propagates_through_supervisors_that_fail)
{ /* P39 */
    weft_fiber outer = supervise_nested();
    for (int i = 0; i < 3; i++)
        end_child('c', FAILS);
    weft_raise(id_of('c'), -EPIPE, "no more");
    ck_assert_int_eq(weft_await(outer), -EPIPE);
    ck_assert_error(-EPIPE, "no more");
    ck_assert_uint_eq(weft_error()->fiber, weft_self());
}

TEST(a_monitored_child_can_be_awaited_after_its_supervisor_has_released_it)
{ /* P39, P38 */
    supervisor_args p;
    weft_fiber supervisor = spin_abc(&p, WEFT_ONE_FOR_ONE, WEFT_NEVER);
    weft_fiber b = id_of('b');
    ck_assert_int_eq(weft_monitor(b), 0);
    end_child('b', FAILS);
    ck_assert_uint_eq((weft_fiber)weft_try_receive(), b);
    ck_assert_int_eq(weft_await(b), -EIO);
    ck_assert_int_eq(weft_await(b), -ESRCH);
    weft_monitor(id_of('a')); /* reports every run */
    for (int i = 0; i < 2; i++) {
        end_child('a', FAILS);
        ck_assert_uint_eq((weft_fiber)weft_try_receive(), id_of('a'));
    }
    weft_unmonitor(id_of('a'));
    cancel_supervisor(supervisor);
}

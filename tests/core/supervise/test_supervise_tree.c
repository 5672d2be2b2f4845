/*
 * Supervision among other actions: children that are added, detached, restarted manually or do not
 * end, disturbed supervisors, and nested supervisors.
 */
#include "core/supervise/supervise_support.h"
#include "support/suite.h"

TEST(children_added_later_are_supervised_and_stopped_first)
{ /* P39 */
    supervisor_args p = {
        .children = {{.fn = run_child, .arg = "a"}}, .n = 1, .options.restart = WEFT_ON_ERROR};
    weft_fiber supervisor = weft_spin(run_supervisor, &p);
    let_run();
    weft_spin_with(run_child, "b", &(weft_spin_options){.parent = supervisor});
    weft_fiber c = weft_spin(run_child, "c");
    let_run();
    ck_assert_int_eq(weft_attach(c, supervisor), 0);
    ck_assert_trail("abc");
    end_child('b', FAILS);
    end_child('c', FAILS);
    ck_assert_trail("abcBbCc");
    weft_cancel(supervisor);
    ck_assert_int_eq(weft_await(supervisor), -ECANCELED);
    ck_assert_trail("abcBbCcCBA");
    assert_nothing_left();
}

TEST(the_error_of_a_child_added_later_ends_the_supervision_by_default)
{ /* P39 */
    supervisor_args p = {.children = {{.fn = run_child, .arg = "a"}}, .n = 1};
    weft_fiber supervisor = weft_spin(run_supervisor, &p);
    let_run();
    weft_spin_with(fail_later, as_arg(-EPIPE), &(weft_spin_options){.parent = supervisor});
    ck_assert_int_eq(weft_await(supervisor), -EPIPE);
    ck_assert_error(-EPIPE, "broken");
    ck_assert_trail("aA");
    assert_nothing_left();
}

static void spin_b_once(weft_fiber child, weft_value value, void *arg)
{
    if (runs[1] == 0)
        weft_spin(run_child, "b");
}

TEST(a_child_spun_by_on_exit_is_supervised)
{ /* P39 */
    supervisor_args p = {
        .children = {{.fn = run_child, .arg = "a", .restart = WEFT_NEVER}},
        .n = 1,
        .options = {.on_exit = spin_b_once, .restart = WEFT_ON_ERROR},
    };
    weft_fiber supervisor = weft_spin(run_supervisor, &p);
    let_run();
    end_child('a', FAILS);
    ck_assert_trail("aAb");
    end_child('b', FAILS);
    ck_assert_trail("aAbBb");
    end_child('b', RETURNS);
    ck_assert_int_eq(weft_await(supervisor), 0);
    assert_nothing_left();
}

static void mark_exit_and_spin(weft_fiber child, weft_value value, void *arg)
{
    mark_exit(child, value, arg);
    if (++runs[0] > 1) /* the first failure ends the supervision */
        weft_set_name(weft_spin(mark_and_return, "never"), "another");
}

TEST(a_child_spun_by_on_exit_after_the_end_of_supervision_never_runs_and_is_not_reported)
{ /* P39 */
    weft_supervise_options options = {.on_exit = mark_exit_and_spin, .on_exit_arg = ""};
    for (int i = 0; i < 3; i++)
        weft_spin(fail_with, as_arg(-EIO));
    ck_assert_int_eq(weft_supervise(NULL, 0, &options), -EIO);
    ck_assert_error(-EIO, "broken");
    ck_assert_trail("(-5)(-5)(-5)");
    assert_nothing_left();
}

static weft_value spin_failing_and_supervise(void *arg)
{
    weft_spin(fail_later, as_arg(-EIO));
    return run_supervisor(arg);
}

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
    weft_fiber b = weft_new(run_child, "b");
    weft_park(f);
    weft_go(run_child, "c");
    ck_assert_uint_ne(b, 0);
    return run_supervisor(arg);
}

TEST(children_that_never_ran_or_are_parked_are_stopped_too)
{ /* P39, P23 */
    supervisor_args p = {.n = 0};
    weft_fiber supervisor = weft_spin(spin_unusual_and_supervise, &p);
    let_run();
    ck_assert_trail("ac");
    weft_cancel(supervisor);
    ck_assert_int_eq(weft_await(supervisor), -ECANCELED);
    ck_assert_trail("acCA");
    assert_nothing_left();
}

TEST(a_detached_child_is_not_supervised_any_more)
{ /* P39, P27 */
    supervisor_args p;
    weft_fiber supervisor = spin_abc(&p, WEFT_ONE_FOR_ALL, WEFT_ALWAYS);
    ck_assert_int_eq(weft_detach(id_of('b')), 0);
    end_child('c', FAILS);
    ck_assert_trail("CAac");
    cancel_supervisor(supervisor);
    ck_assert_int_eq(weft_state_of(id_of('b')), WEFT_WAITING);
    weft_schedule(id_of('b'), -EIO);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_snooze(), -EIO); /* main is its parent now */
    ck_assert_trail("B");
}

TEST(weft_supervise_returns_when_the_last_child_is_detached)
{ /* P39, P27 */
    supervisor_args p = {.children = {{.fn = run_child, .arg = "a"}}, .n = 1};
    weft_fiber supervisor = weft_spin(run_supervisor, &p);
    let_run();
    weft_detach(id_of('a'));
    ck_assert_int_eq(weft_await(supervisor), 0);
    ck_assert_trail("a");
    weft_cancel(id_of('a'));
    ck_assert_int_eq(weft_await(id_of('a')), -ECANCELED);
    assert_nothing_left();
}

TEST(a_child_can_be_moved_from_one_supervisor_to_another)
{ /* P39, P27 */
    supervisor_args first = {.children = {{.fn = run_child, .arg = "a", .restart = WEFT_NEVER}},
                             .n = 1};
    supervisor_args second = {
        .children = {{.fn = run_child, .arg = "b"}}, .n = 1, .options.restart = WEFT_ALWAYS};
    weft_fiber from = weft_spin(run_supervisor, &first), to = weft_spin(run_supervisor, &second);
    let_run();
    ck_assert_int_eq(weft_attach(id_of('a'), to), 0);
    ck_assert_int_eq(weft_await(from), 0);
    end_child('a', RETURNS);
    ck_assert_trail("abAa");
    weft_cancel(to);
    weft_await(to);
    ck_assert_trail("abAaAB");
    assert_nothing_left();
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
    weft_fiber supervisor = weft_spin(supervise_in_a_group, &inner);
    let_run();
    weft_group_spin(open_group, mark_and_return, "2");
    weft_group_spin(open_group, suspend, NULL);
    let_run();
    end_child('a', FAILS);
    ck_assert_trail("a2Aa");
    weft_group_spin(open_group, fail_with, as_arg(-EPIPE));
    ck_assert_int_eq(weft_await(supervisor), -EPIPE);
    ck_assert_int_eq(inner, -ECANCELED);
    ck_assert_trail("a2Aa1A");
    assert_nothing_left();
}

TEST(attaching_a_child_to_its_own_supervisor_changes_nothing)
{ /* P39, P27 */
    supervisor_args p;
    weft_fiber supervisor = spin_abc(&p, WEFT_ONE_FOR_ONE, WEFT_ALWAYS);
    ck_assert_int_eq(weft_attach(id_of('b'), supervisor), 0);
    end_child('b', FAILS);
    ck_assert_trail("Bb");
    weft_cancel(supervisor);
    ck_assert_int_eq(weft_await(supervisor), -ECANCELED);
    ck_assert_trail("BbCBA");
}

/* Spin a supervisor of a, of a stubborn child, and of c. */
static weft_fiber spin_with_stubborn(supervisor_args *p, weft_strategy strategy)
{
    *p = (supervisor_args){
        .children = {{.fn = run_child, .arg = "a"},
                     {.fn = end_only_when_scheduled},
                     {.fn = run_child, .arg = "c"}},
        .n = 3,
        .options.strategy = strategy,
    };
    weft_fiber supervisor = weft_spin(run_supervisor, p);
    let_run();
    ck_assert_trail("ahc");
    trail[0] = '\0';
    return supervisor;
}

TEST(a_child_detached_while_it_is_stopped_is_not_awaited)
{ /* P39, P27 */
    supervisor_args p;
    weft_fiber supervisor = spin_with_stubborn(&p, WEFT_ONE_FOR_ONE);
    weft_cancel(supervisor);
    let_run();
    ck_assert_trail("C!");
    ck_assert_int_eq(weft_detach(stubborn), 0);
    ck_assert_int_eq(weft_await(supervisor), -ECANCELED);
    ck_assert_trail("C!A");
    weft_schedule(stubborn, 0);
    ck_assert_int_eq(weft_await(stubborn), -ECANCELED);
    assert_nothing_left();
}

TEST(detaching_a_child_while_siblings_are_stopped_does_not_prevent_their_restart)
{ /* P39, P27 */
    supervisor_args p;
    weft_fiber supervisor = spin_with_stubborn(&p, WEFT_ONE_FOR_ALL);
    end_child('c', FAILS);
    ck_assert_trail("C!");
    weft_detach(id_of('a')); /* before it is stopped */
    weft_detach(stubborn);
    let_run();
    ck_assert_trail("C!c");
    weft_schedule(stubborn, 0);
    ck_assert_int_eq(weft_await(stubborn), -ECANCELED);
    weft_cancel(id_of('a'));
    ck_assert_int_eq(weft_await(id_of('a')), -ECANCELED);
    cancel_supervisor(supervisor);
    assert_nothing_left();
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
        trail[0] = '\0';
        weft_child child = {.fn = mark_and_return, .arg = "1", .restart = restart};
        weft_supervise_options options = {
            .restarts_max = 1, .on_exit = restart_some, .on_exit_arg = &exits};
        int rc = weft_supervise(&child, 1, &options);
        ck_assert_int_eq(rc, restart == WEFT_ALWAYS ? -ELOOP : 0);
        ck_assert_int_eq(exits, restart == WEFT_ALWAYS ? 6 : 5);
        assert_nothing_left();
    }
}

static void restart_and_detach(weft_fiber child, weft_value value, void *arg)
{
    ck_assert_int_eq(weft_restart(child), 0);
    ck_assert_int_eq(weft_detach(child), 0);
}

TEST(on_exit_may_restart_and_detach_a_child)
{ /* P39, P31, P27 */
    supervisor_args p = {
        .children = {{.fn = run_child, .arg = "a"}}, .n = 1, .options.on_exit = restart_and_detach};
    weft_fiber supervisor = weft_spin(run_supervisor, &p);
    let_run();
    end_child('a', FAILS);
    ck_assert_int_eq(weft_await(supervisor), 0);
    ck_assert_trail("aAa");
    weft_cancel(id_of('a'));
    ck_assert_int_eq(weft_await(id_of('a')), -ECANCELED);
    assert_nothing_left();
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
    supervisor_args p = {.children = {{.fn = run_child, .arg = "a", .restart = WEFT_NEVER}},
                         .n = 1,
                         .options.on_exit = restart_and_let_it_end};
    weft_fiber supervisor = weft_spin(run_supervisor, &p);
    weft_snooze();
    weft_snooze();
    weft_schedule(id_of('a'), 1);
    ck_assert_int_eq(weft_await(supervisor), 0);
    ck_assert_trail("aA(1)aA(0)");
    assert_nothing_left();
}

TEST(a_manual_restart_of_a_running_child_is_not_an_end_for_its_supervisor)
{ /* P39, P30 */
    supervisor_args p;
    cancel_supervisor(spin_abc(&p, WEFT_ONE_FOR_ALL, WEFT_ALWAYS));
    p.options.restarts_max = 1;
    p.options.on_exit = mark_exit;
    p.options.on_exit_arg = "";
    weft_fiber supervisor = weft_spin(run_supervisor, &p);
    let_run();
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_restart(id_of('b')), 0);
    let_run();
    ck_assert_trail("abcBbBbBb");
    end_child('a', FAILS);
    ck_assert_trail("abcBbBbBbA(a-5)CBabc");
    cancel_supervisor(supervisor);
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
    weft_fiber waiter = weft_spin(await_and_restart, id_arg(id_of('b')));
    let_run();
    end_child('b', FAILS);
    ck_assert_int_eq(weft_await(waiter), 1);
    ck_assert_trail("Bb"); /* restarted before the supervisor ran */
    end_child('b', FAILS);
    ck_assert_trail("BbBCAabc");
    cancel_supervisor(supervisor);
}

TEST(a_manual_restart_of_a_delayed_child_also_starts_the_children_that_wait_for_it)
{ /* P39, P31 */
    static const struct {
        weft_strategy strategy;
        const char *failed, *restarted;
    } rows[] = {
        {WEFT_ONE_FOR_ONE, "B", "b"},
        {WEFT_ONE_FOR_ALL, "BCA", "bac"},
        {WEFT_REST_FOR_ONE, "BC", "bc"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        supervisor_args p;
        cancel_supervisor(spin_abc(&p, rows[i].strategy, WEFT_ALWAYS));
        p.options.backoff_s = p.options.backoff_max_s = 1000;
        weft_fiber supervisor = weft_spin(run_supervisor, &p);
        let_run();
        trail[0] = '\0';
        end_child('b', FAILS);
        ck_assert_trail(rows[i].failed);
        trail[0] = '\0';
        ck_assert_int_eq(weft_restart(id_of('b')), 0);
        let_run();
        ck_assert_trail(rows[i].restarted);
        weft_counters counters;
        weft_stats(&counters);
        ck_assert_uint_eq(counters.timers, 0);
        cancel_supervisor(supervisor);
        assert_nothing_left();
    }
}

TEST(a_stopped_sibling_can_be_restarted_manually_before_the_delay_ends)
{ /* P39, P31 */
    supervisor_args p;
    cancel_supervisor(spin_abc(&p, WEFT_ONE_FOR_ALL, WEFT_ALWAYS));
    p.options.backoff_s = 2 * TICK_S;
    weft_fiber supervisor = weft_spin(run_supervisor, &p);
    let_run();
    end_child('b', FAILS);
    ck_assert_int_eq(weft_restart(id_of('c')), 0);
    let_run();
    ck_assert_trail("abcBCAc");
    weft_sleep(4 * TICK_S);
    let_run();
    ck_assert_trail("abcBCAcab");
    cancel_supervisor(supervisor);
    assert_nothing_left();
}

static void restart_b_for_c(weft_fiber child, weft_value value, void *arg)
{
    mark_exit(child, value, arg);
    if (child == id_of('c'))
        ck_assert_int_eq(weft_restart(id_of('b')), 0);
}

TEST(a_failed_child_may_be_restarted_manually_before_its_siblings_are_started)
{ /* P39, P31 */
    supervisor_args p;
    cancel_supervisor(spin_abc(&p, WEFT_ONE_FOR_ALL, WEFT_ALWAYS));
    p.options.backoff_s = p.options.backoff_max_s = 1000;
    p.options.on_exit = restart_b_for_c;
    p.options.on_exit_arg = "";
    weft_fiber supervisor = weft_spin(run_supervisor, &p);
    let_run();
    trail[0] = '\0';
    weft_schedule(id_of('b'), -EIO);
    weft_schedule(id_of('c'), -EIO);
    let_run();
    ck_assert_trail("BC(b-5)A(c-5)bac");
    cancel_supervisor(supervisor);
    assert_nothing_left();
}

static void restart_b(weft_fiber child, weft_value value, void *arg)
{
    if (child == id_of('a'))
        ck_assert_int_eq(weft_restart(id_of('b')), 0);
}

TEST(on_exit_may_restart_another_delayed_child_and_its_siblings_start_too)
{ /* P39, P31 */
    supervisor_args p;
    cancel_supervisor(spin_abc(&p, WEFT_REST_FOR_ONE, WEFT_ALWAYS));
    p.children[0].restart = WEFT_NEVER;
    p.options.backoff_s = p.options.backoff_max_s = 1000;
    p.options.on_exit = restart_b;
    weft_fiber supervisor = weft_spin(run_supervisor, &p);
    let_run();
    end_child('b', FAILS);
    end_child('a', RETURNS);
    ck_assert_trail("abcBCAbc");
    cancel_supervisor(supervisor);
    assert_nothing_left();
}

static weft_value restart_b_later(void *arg)
{
    weft_await(id_of('b'));
    weft_sleep(TICK_S);
    return weft_restart(id_of('b'));
}

TEST(a_manual_restart_at_the_end_of_the_delay_counts_as_the_restart)
{ /* P39, P31 */
    supervisor_args p;
    cancel_supervisor(spin_abc(&p, WEFT_ONE_FOR_ALL, WEFT_ALWAYS));
    p.options.backoff_s = TICK_S;
    weft_fiber supervisor = weft_spin(run_supervisor, &p);
    let_run();
    weft_go(restart_b_later, NULL);
    let_run();
    trail[0] = '\0';
    end_child('b', FAILS);
    double begin = weft_now();
    while (weft_now() - begin < 2 * TICK_S) /* both times pass before another fiber runs */
        continue;
    let_run();
    ck_assert_trail("BCAbac");
    cancel_supervisor(supervisor);
    assert_nothing_left();
}

static void restart_c_for_b(weft_fiber child, weft_value value, void *arg)
{
    mark_exit(child, value, arg);
    if (child == id_of('b'))
        ck_assert_int_eq(weft_restart(id_of('c')), 0);
}

TEST(an_end_followed_by_a_manual_restart_is_not_passed_to_on_exit)
{ /* P39, P31 */
    supervisor_args p;
    cancel_supervisor(spin_abc(&p, WEFT_ONE_FOR_ALL, WEFT_ALWAYS));
    p.options.on_exit = restart_c_for_b;
    p.options.on_exit_arg = "";
    weft_fiber supervisor = weft_spin(run_supervisor, &p);
    let_run();
    trail[0] = '\0';
    for (char letter = 'a'; letter <= 'c'; letter++)
        weft_schedule(id_of(letter), -EIO);
    let_run();
    ck_assert_trail("ABC(a-5)(b-5)cab");
    cancel_supervisor(supervisor);
    assert_nothing_left();
}

TEST(children_that_wait_for_a_sibling_start_even_if_it_is_restarted_and_detached)
{ /* P39, P31, P27 */
    supervisor_args p;
    cancel_supervisor(spin_abc(&p, WEFT_ONE_FOR_ALL, WEFT_ALWAYS));
    p.options.backoff_s = p.options.backoff_max_s = 1000;
    weft_fiber supervisor = weft_spin(run_supervisor, &p);
    let_run();
    end_child('b', FAILS);
    trail[0] = '\0';
    ck_assert_int_eq(weft_restart(id_of('b')), 0);
    ck_assert_int_eq(weft_detach(id_of('b')), 0);
    let_run();
    ck_assert_trail("bac");
    weft_cancel(id_of('b'));
    weft_await(id_of('b'));
    cancel_supervisor(supervisor);
    assert_nothing_left();
}

TEST(a_child_restarted_manually_while_its_siblings_are_stopped_is_stopped_in_order)
{ /* P39, P31 */
    supervisor_args p;
    weft_fiber supervisor = spin_with_stubborn(&p, WEFT_ONE_FOR_ALL);
    end_child('c', FAILS);
    end_child('a', FAILS); /* by itself, while the stubborn child has not ended */
    ck_assert_int_eq(weft_restart(id_of('a')), 0);
    let_run();
    ck_assert_trail("C!Aa");
    weft_schedule(stubborn, 0);
    let_run();
    ck_assert_trail("C!AaHAahc");
    weft_cancel(supervisor);
    let_run();
    weft_schedule(stubborn, 0);
    ck_assert_int_eq(weft_await(supervisor), -ECANCELED);
    assert_nothing_left();
}

static void await_child_twice(weft_fiber child, weft_value value, void *arg)
{
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(weft_await(child), value);
}

TEST(an_ended_child_can_be_awaited_repeatedly_until_it_runs_again)
{ /* P39, P34 */
    supervisor_args p = {
        .children = {{.fn = run_child, .arg = "a"}},
        .n = 1,
        .options = {.backoff_s = 1000, .backoff_max_s = 1000, .on_exit = await_child_twice}};
    weft_fiber supervisor = weft_spin(run_supervisor, &p);
    let_run();
    end_child('a', FAILS);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_await(id_of('a')), -EIO);
    ck_assert_int_eq(weft_restart(id_of('a')), 0);
    let_run();
    ck_assert_trail("aAa");
    cancel_supervisor(supervisor);
    assert_nothing_left();
}

TEST(a_manual_restart_of_a_child_stopped_for_a_sibling_waits_until_it_is_started_with_all)
{ /* P39, P30 */
    supervisor_args p;
    weft_fiber supervisor = spin_with_stubborn(&p, WEFT_ONE_FOR_ALL);
    end_child('a', FAILS);
    ck_assert_trail("AC!");
    weft_go(restart_and_mark, id_arg(stubborn));
    weft_go(restart_and_mark, id_arg(id_of('c'))); /* already stopped */
    let_run();
    ck_assert_trail("AC!");
    weft_schedule(stubborn, 0);
    let_run();
    ck_assert_trail("AC!Hah(ok)c(ok)");
    weft_cancel(supervisor);
    let_run();
    weft_go(restart_and_mark, id_arg(stubborn)); /* will not be started again */
    let_run();
    weft_schedule(stubborn, 0);
    ck_assert_int_eq(weft_await(supervisor), -ECANCELED);
    ck_assert_trail("AC!Hah(ok)c(ok)C!(gone)HA");
    assert_nothing_left();
}

TEST(a_manual_restart_of_a_child_with_restart_never_while_it_is_stopped_fails)
{ /* P39, P30 */
    supervisor_args p;
    weft_fiber supervisor = spin_with_stubborn(&p, WEFT_ONE_FOR_ONE);
    weft_cancel(supervisor);
    let_run();
    weft_schedule(stubborn, 0);
    weft_await(supervisor);
    p.children[1].restart = WEFT_NEVER;
    p.options.strategy = WEFT_ONE_FOR_ALL;
    supervisor = weft_spin(run_supervisor, &p);
    let_run();
    trail[0] = '\0';
    end_child('a', FAILS);
    weft_go(restart_and_mark, id_arg(stubborn));
    let_run();
    ck_assert_trail("AC!");
    weft_schedule(stubborn, 0);
    let_run();
    ck_assert_trail("AC!H(gone)ac");
    cancel_supervisor(supervisor);
    assert_nothing_left();
}

TEST(a_supervisor_that_is_cancelled_while_a_child_waits_for_its_restart_ends_at_once)
{ /* P39 */
    supervisor_args p;
    cancel_supervisor(spin_abc(&p, WEFT_ONE_FOR_ALL, WEFT_ALWAYS));
    p.options.backoff_s = p.options.backoff_max_s = 1000;
    weft_fiber supervisor = weft_spin(run_supervisor, &p);
    let_run();
    end_child('b', FAILS);
    weft_cancel(supervisor);
    ck_assert_int_eq(weft_await(supervisor), -ECANCELED);
    ck_assert_trail("abcBCA");
    assert_nothing_left();
    ck_assert_int_eq(weft_suspend(), 0);
}

TEST(a_supervisor_cannot_be_interrupted_while_it_stops_its_children)
{ /* P39 */
    supervisor_args p;
    weft_fiber supervisor = spin_with_stubborn(&p, WEFT_ONE_FOR_ONE);
    weft_cancel(supervisor);
    let_run();
    ck_assert_trail("C!");
    ck_assert_int_eq(weft_cancel(supervisor), 0);
    ck_assert_int_eq(weft_raise(supervisor, -EPROTO, "now"), 0);
    ck_assert_int_eq(weft_interrupt(supervisor, -7), -EBUSY);
    let_run();
    ck_assert_trail("C!");
    weft_info info;
    ck_assert_int_eq(weft_info_of(supervisor, &info), 0);
    ck_assert_uint_eq(info.waits_for_fiber, stubborn);
    weft_schedule(stubborn, 0);
    ck_assert_int_eq(weft_await(supervisor), -ECANCELED);
    ck_assert_trail("C!HA");
    assert_nothing_left();
}

TEST(a_supervisor_cancelled_while_it_stops_children_for_a_sibling_restarts_none)
{ /* P39 */
    supervisor_args p;
    weft_fiber supervisor = spin_with_stubborn(&p, WEFT_ONE_FOR_ALL);
    end_child('c', FAILS);
    ck_assert_trail("C!");
    weft_cancel(supervisor);
    weft_schedule(stubborn, 0);
    ck_assert_int_eq(weft_await(supervisor), -ECANCELED);
    ck_assert_trail("C!HA");
    assert_nothing_left();
}

TEST(an_error_raised_in_the_supervisor_stops_all_children_and_is_returned_with_its_message)
{ /* P39 */
    supervisor_args p;
    weft_fiber supervisor = spin_abc(&p, WEFT_ONE_FOR_ONE, WEFT_ALWAYS);
    weft_raise(supervisor, -EPROTO, "raised");
    ck_assert_int_eq(weft_await(supervisor), -EPROTO);
    ck_assert_error(-EPROTO, "raised");
    ck_assert_trail("CBA");
    assert_nothing_left();
}

TEST(an_interrupted_supervisor_stops_all_children_and_returns_the_code)
{ /* P39 */
    supervisor_args p;
    weft_fiber supervisor = spin_abc(&p, WEFT_ONE_FOR_ONE, WEFT_ALWAYS);
    ck_assert_int_eq(weft_interrupt(supervisor, -EINTR), 0);
    ck_assert_int_eq(weft_await(supervisor), -EINTR);
    ck_assert_trail("CBA");
    assert_nothing_left();
}

TEST(a_scope_limits_the_duration_of_a_supervision)
{ /* P39 */
    const weft_child children[] = {{.fn = mark_if_stopped, .arg = "1"},
                                   {.fn = mark_if_stopped, .arg = "2"}};
    int rc = 0, inner = 0;
    WEFT_CANCEL_AFTER(TICK_S, rc) {
        inner = weft_supervise(children, 2, NULL);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_int_eq(inner, -ECANCELED);
    ck_assert_trail("21");
    WEFT_MOVE_ON_AFTER(0) {
        inner = weft_supervise(children, 2, NULL);
    }
    ck_assert_int_eq(inner, -ECANCELED);
    ck_assert_trail("21"); /* the children never ran */
    assert_nothing_left();
}

TEST(terminating_a_supervisor_ends_all_children)
{ /* P39 */
    supervisor_args p;
    weft_fiber supervisor = spin_abc(&p, WEFT_ONE_FOR_ONE, WEFT_ALWAYS);
    ck_assert_int_eq(weft_terminate(supervisor, 1), 0);
    ck_assert_trail("CBA");
    assert_nothing_left();
}

static weft_value supervise_bc(void *arg)
{
    mark("(");
    const weft_child children[] = {{.fn = run_child, .arg = "b"}, {.fn = run_child, .arg = "c"}};
    int rc = weft_supervise(children, 2, arg);
    mark(")");
    return rc;
}

TEST(a_supervisor_that_fails_is_restarted_with_its_whole_tree_by_its_own_supervisor)
{ /* P39 */
    weft_supervise_options inner = {.restarts_max = 1};
    supervisor_args p = {
        .children = {{.fn = run_child, .arg = "a"},
                     {.name = "inner", .fn = supervise_bc, .arg = &inner}},
        .n = 2,
        .options = {.restarts_max = 1, .on_exit = mark_exit, .on_exit_arg = ""},
    };
    weft_fiber outer = weft_spin(run_supervisor, &p);
    let_run();
    ck_assert_trail("a(bc");
    end_child('b', FAILS);
    ck_assert_trail("a(bcBb");
    end_child('b', FAILS);
    ck_assert_trail("a(bcBbBC)(inner-5)(bc");
    trail[0] = '\0';
    weft_cancel(outer);
    ck_assert_int_eq(weft_await(outer), -ECANCELED);
    ck_assert_trail("CB)A");
    assert_nothing_left();
}

TEST(the_error_of_a_leaf_propagates_through_supervisors_that_fail)
{ /* P39 */
    weft_supervise_options inner = {.restarts_max = 1};
    supervisor_args p = {
        .children = {{.fn = run_child, .arg = "a"}, {.fn = supervise_bc, .arg = &inner}},
        .n = 2,
        .options.restarts_max = 1,
    };
    weft_fiber outer = weft_spin(run_supervisor, &p);
    let_run();
    for (int i = 0; i < 3; i++)
        end_child('c', FAILS);
    weft_raise(id_of('c'), -EPIPE, "no more");
    ck_assert_int_eq(weft_await(outer), -EPIPE);
    ck_assert_error(-EPIPE, "no more");
    ck_assert_uint_eq(weft_error()->fiber, weft_self());
    assert_nothing_left();
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
    assert_nothing_left();
}

/*
 * Supervision among fibers that do as they please: children that come, leave, are restarted by hand
 * or will not end, a supervisor that is called away, supervisors of supervisors.
 */
#include "supervise_support.h"

/* P39 */
START_TEST(children_that_come_later_are_covered_and_stopped_first)
{
    plan p = {.children = {{.fn = live, .arg = "a"}}, .n = 1, .options.restart = WEFT_ON_ERROR};
    weft_fiber supervisor = weft_spin(follow, &p);
    let_run();
    weft_spin_with(live, "b", &(weft_spin_options){.parent = supervisor});
    weft_fiber c = weft_spin(live, "c");
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
END_TEST

/* P39 */
START_TEST(the_error_of_one_that_came_later_ends_all_if_the_options_do_not_say_otherwise)
{
    plan p = {.children = {{.fn = live, .arg = "a"}}, .n = 1};
    weft_fiber supervisor = weft_spin(follow, &p);
    let_run();
    weft_spin_with(fail_later, as_arg(-EPIPE), &(weft_spin_options){.parent = supervisor});
    ck_assert_int_eq(weft_await(supervisor), -EPIPE);
    ck_assert_words(-EPIPE, "broken");
    ck_assert_trail("aA");
    assert_nothing_left();
}
END_TEST

static void spin_b_once(weft_fiber child, weft_value value, void *arg)
{
    (void)child;
    (void)value;
    (void)arg;
    if (runs[1] == 0)
        weft_spin(live, "b");
}

/* P39 */
START_TEST(a_child_that_on_exit_spins_is_covered)
{
    plan p = {
        .children = {{.fn = live, .arg = "a", .restart = WEFT_NEVER}},
        .n = 1,
        .options = {.on_exit = spin_b_once, .restart = WEFT_ON_ERROR},
    };
    weft_fiber supervisor = weft_spin(follow, &p);
    let_run();
    end_child('a', FAILS);
    ck_assert_trail("aAb");
    end_child('b', FAILS);
    ck_assert_trail("aAbBb");
    end_child('b', RETURNS);
    ck_assert_int_eq(weft_await(supervisor), 0);
    assert_nothing_left();
}
END_TEST

static void spin_another(weft_fiber child, weft_value value, void *arg)
{
    note_exit(child, value, arg);
    if (++runs[0] > 1) /* the first ends it all */
        weft_name(weft_spin(mark_and_return, "never"), "another");
}

/* P39 */
START_TEST(what_on_exit_spins_when_all_is_over_never_runs_and_nobody_is_told_of_it)
{
    weft_supervise_options options = {.on_exit = spin_another, .on_exit_arg = ""};
    for (int i = 0; i < 3; i++)
        weft_spin(fail_with, as_arg(-EIO));
    ck_assert_int_eq(weft_supervise(NULL, 0, &options), -EIO);
    ck_assert_words(-EIO, "broken");
    ck_assert_trail("(-5)(-5)(-5)");
    assert_nothing_left();
}
END_TEST

static weft_value have_failing_child_and_follow(void *arg)
{
    weft_spin(fail_later, as_arg(-EIO));
    return follow(arg);
}

/* P39 */
START_TEST(with_a_list_children_from_before_are_no_concern_but_their_errors_strike_the_caller)
{
    plan p = {.children = {{.fn = live, .arg = "a"}}, .n = 1, .options.restart = WEFT_ALWAYS};
    ck_assert_int_eq(weft_await(weft_spin(have_failing_child_and_follow, &p)), -EIO);
    ck_assert_words(-EIO, "broken");
    ck_assert_trail("aA");
}
END_TEST

static weft_value spin_oddly_and_follow(void *arg)
{
    weft_fiber f = weft_spin(live, "a");
    weft_snooze();
    weft_fiber b = weft_new(live, "b");
    weft_park(f);
    weft_go(live, "c");
    ck_assert_uint_ne(b, 0);
    return follow(arg);
}

/* P39, P23 */
START_TEST(children_that_never_ran_or_are_parked_are_stopped_too)
{
    plan p = {.n = 0};
    weft_fiber supervisor = weft_spin(spin_oddly_and_follow, &p);
    let_run();
    ck_assert_trail("ac");
    weft_cancel(supervisor);
    ck_assert_int_eq(weft_await(supervisor), -ECANCELED);
    ck_assert_trail("acCA");
    assert_nothing_left();
}
END_TEST

/* P39, P27 */
START_TEST(a_child_that_is_detached_is_no_concern_any_more)
{
    plan p;
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
END_TEST

/* P39, P27 */
START_TEST(it_returns_when_the_last_child_is_detached)
{
    plan p = {.children = {{.fn = live, .arg = "a"}}, .n = 1};
    weft_fiber supervisor = weft_spin(follow, &p);
    let_run();
    weft_detach(id_of('a'));
    ck_assert_int_eq(weft_await(supervisor), 0);
    ck_assert_trail("a");
    weft_cancel(id_of('a'));
    ck_assert_int_eq(weft_await(id_of('a')), -ECANCELED);
    assert_nothing_left();
}
END_TEST

/* P39, P27 */
START_TEST(a_child_can_be_given_from_one_supervisor_to_another)
{
    plan first = {.children = {{.fn = live, .arg = "a", .restart = WEFT_NEVER}}, .n = 1};
    plan second = {.children = {{.fn = live, .arg = "b"}}, .n = 1, .options.restart = WEFT_ALWAYS};
    weft_fiber from = weft_spin(follow, &first), to = weft_spin(follow, &second);
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
END_TEST

static weft_group *open_group;

static weft_value supervise_in_a_group(void *arg)
{
    int rc = 0;
    WEFT_GROUP(g, rc) {
        open_group = &g;
        weft_group_spin(&g, be_stopped, "1");
        weft_spin(live, "a");
        *(int *)arg = weft_supervise(NULL, 0, &(weft_supervise_options){.restart = WEFT_ALWAYS});
    }
    return rc;
}

/* P39, P32 */
START_TEST(members_of_a_group_that_the_caller_has_open_are_the_concern_of_the_group)
{
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
END_TEST

/* P39, P27 */
START_TEST(a_child_that_is_attached_to_its_own_supervisor_stays_what_and_where_it_was)
{
    plan p;
    weft_fiber supervisor = spin_abc(&p, WEFT_ONE_FOR_ONE, WEFT_ALWAYS);
    ck_assert_int_eq(weft_attach(id_of('b'), supervisor), 0);
    end_child('b', FAILS);
    ck_assert_trail("Bb");
    weft_cancel(supervisor);
    ck_assert_int_eq(weft_await(supervisor), -ECANCELED);
    ck_assert_trail("BbCBA");
}
END_TEST

/* A supervisor of a, of one that holds on, and of c. */
static weft_fiber spin_holding(plan *p, weft_strategy strategy)
{
    *p = (plan){
        .children = {{.fn = live, .arg = "a"}, {.fn = hold_on}, {.fn = live, .arg = "c"}},
        .n = 3,
        .options.strategy = strategy,
    };
    weft_fiber supervisor = weft_spin(follow, p);
    let_run();
    ck_assert_trail("ahc");
    trail[0] = '\0';
    return supervisor;
}

/* P39, P27 */
START_TEST(a_child_that_is_detached_while_it_is_stopped_is_not_waited_for)
{
    plan p;
    weft_fiber supervisor = spin_holding(&p, WEFT_ONE_FOR_ONE);
    weft_cancel(supervisor);
    let_run();
    ck_assert_trail("C!");
    ck_assert_int_eq(weft_detach(holder), 0);
    ck_assert_int_eq(weft_await(supervisor), -ECANCELED);
    ck_assert_trail("C!A");
    weft_schedule(holder, 0);
    ck_assert_int_eq(weft_await(holder), -ECANCELED);
    assert_nothing_left();
}
END_TEST

/* P39, P27 */
START_TEST(one_that_is_detached_while_siblings_are_stopped_leaves_the_others_to_be_started)
{
    plan p;
    weft_fiber supervisor = spin_holding(&p, WEFT_ONE_FOR_ALL);
    end_child('c', FAILS);
    ck_assert_trail("C!");
    weft_detach(id_of('a')); /* before its turn has come */
    weft_detach(holder);
    let_run();
    ck_assert_trail("C!c");
    weft_schedule(holder, 0);
    ck_assert_int_eq(weft_await(holder), -ECANCELED);
    weft_cancel(id_of('a'));
    ck_assert_int_eq(weft_await(id_of('a')), -ECANCELED);
    cancel_supervisor(supervisor);
    assert_nothing_left();
}
END_TEST

static void restart_some(weft_fiber child, weft_value value, void *arg)
{
    (void)value;
    if (++*(int *)arg < 5)
        ck_assert_int_eq(weft_restart(child), 0);
}

/* P39, P31 */
START_TEST(on_exit_may_restart_a_child_which_settles_the_matter_and_is_not_counted)
{
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
END_TEST

static void restart_and_detach(weft_fiber child, weft_value value, void *arg)
{
    (void)value;
    (void)arg;
    ck_assert_int_eq(weft_restart(child), 0);
    ck_assert_int_eq(weft_detach(child), 0);
}

/* P39, P31, P27 */
START_TEST(on_exit_may_restart_a_child_and_give_it_away)
{
    plan p = {
        .children = {{.fn = live, .arg = "a"}}, .n = 1, .options.on_exit = restart_and_detach};
    weft_fiber supervisor = weft_spin(follow, &p);
    let_run();
    end_child('a', FAILS);
    ck_assert_int_eq(weft_await(supervisor), 0);
    ck_assert_trail("aAa");
    weft_cancel(id_of('a'));
    ck_assert_int_eq(weft_await(id_of('a')), -ECANCELED);
    assert_nothing_left();
}
END_TEST

static void restart_and_let_it_end(weft_fiber child, weft_value value, void *arg)
{
    (void)arg;
    mark(value == 1 ? "(1)" : "(0)");
    if (value != 1)
        return;
    ck_assert_int_eq(weft_restart(child), 0);
    let_run();
    weft_schedule(child, 0);
    let_run();
    ck_assert_int_eq(weft_state_of(child), WEFT_DEAD);
}

/* P39, P31 */
START_TEST(a_child_that_ends_again_while_on_exit_waits_is_told_of_again)
{
    plan p = {.children = {{.fn = live, .arg = "a", .restart = WEFT_NEVER}},
              .n = 1,
              .options.on_exit = restart_and_let_it_end};
    weft_fiber supervisor = weft_spin(follow, &p);
    weft_snooze();
    weft_snooze();
    weft_schedule(id_of('a'), 1);
    ck_assert_int_eq(weft_await(supervisor), 0);
    ck_assert_trail("aA(1)aA(0)");
    assert_nothing_left();
}
END_TEST

/* P39, P30 */
START_TEST(a_running_child_that_another_fiber_restarts_has_not_ended_as_far_as_its_supervisor_knows)
{
    plan p;
    cancel_supervisor(spin_abc(&p, WEFT_ONE_FOR_ALL, WEFT_ALWAYS));
    p.options.restarts_max = 1;
    p.options.on_exit = note_exit;
    p.options.on_exit_arg = "";
    weft_fiber supervisor = weft_spin(follow, &p);
    let_run();
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_restart(id_of('b')), 0);
    let_run();
    ck_assert_trail("abcBbBbBb");
    end_child('a', FAILS);
    ck_assert_trail("abcBbBbBbA(a-5)CBabc");
    cancel_supervisor(supervisor);
}
END_TEST

static weft_value await_and_restart(void *arg)
{
    weft_fiber f = arg_id(arg);
    weft_value value = weft_await(f);
    weft_restart(f);
    return value == -EIO ? 1 : 0;
}

/* P39, P34 */
START_TEST(who_awaits_a_child_has_the_value_of_that_run_and_may_be_the_first_to_restart_it)
{
    plan p;
    weft_fiber supervisor = spin_abc(&p, WEFT_ONE_FOR_ALL, WEFT_ALWAYS);
    weft_fiber waiter = weft_spin(await_and_restart, id_arg(id_of('b')));
    let_run();
    end_child('b', FAILS);
    ck_assert_int_eq(weft_await(waiter), 1);
    ck_assert_trail("Bb"); /* settled before the supervisor heard of it */
    end_child('b', FAILS);
    ck_assert_trail("BbBCAabc");
    cancel_supervisor(supervisor);
}
END_TEST

/* P39, P31 */
START_TEST(a_child_that_is_restarted_by_hand_while_it_waits_takes_those_with_it_who_wait_for_it)
{
    static const struct {
        weft_strategy strategy;
        const char *failed, *restarted;
    } rows[] = {
        {WEFT_ONE_FOR_ONE, "B", "b"},
        {WEFT_ONE_FOR_ALL, "BCA", "bac"},
        {WEFT_REST_FOR_ONE, "BC", "bc"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        plan p;
        cancel_supervisor(spin_abc(&p, rows[i].strategy, WEFT_ALWAYS));
        p.options.backoff_s = p.options.backoff_max_s = 1000;
        weft_fiber supervisor = weft_spin(follow, &p);
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
END_TEST

/* P39, P31 */
START_TEST(a_halted_sibling_can_be_restarted_by_hand_before_its_time)
{
    plan p;
    cancel_supervisor(spin_abc(&p, WEFT_ONE_FOR_ALL, WEFT_ALWAYS));
    p.options.backoff_s = 2 * TICK_S;
    weft_fiber supervisor = weft_spin(follow, &p);
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
END_TEST

static void restart_b_for_c(weft_fiber child, weft_value value, void *arg)
{
    note_exit(child, value, arg);
    if (child == id_of('c'))
        ck_assert_int_eq(weft_restart(id_of('b')), 0);
}

/* P39, P31 */
START_TEST(the_one_that_all_were_stopped_for_may_be_restarted_by_hand_before_they_are_started)
{
    plan p;
    cancel_supervisor(spin_abc(&p, WEFT_ONE_FOR_ALL, WEFT_ALWAYS));
    p.options.backoff_s = p.options.backoff_max_s = 1000;
    p.options.on_exit = restart_b_for_c;
    p.options.on_exit_arg = "";
    weft_fiber supervisor = weft_spin(follow, &p);
    let_run();
    trail[0] = '\0';
    weft_schedule(id_of('b'), -EIO);
    weft_schedule(id_of('c'), -EIO);
    let_run();
    ck_assert_trail("BC(b-5)A(c-5)bac");
    cancel_supervisor(supervisor);
    assert_nothing_left();
}
END_TEST

static void restart_b(weft_fiber child, weft_value value, void *arg)
{
    (void)value;
    (void)arg;
    if (child == id_of('a'))
        ck_assert_int_eq(weft_restart(id_of('b')), 0);
}

/* P39, P31 */
START_TEST(on_exit_of_one_may_restart_another_that_waits_and_those_with_it_start_too)
{
    plan p;
    cancel_supervisor(spin_abc(&p, WEFT_REST_FOR_ONE, WEFT_ALWAYS));
    p.children[0].restart = WEFT_NEVER;
    p.options.backoff_s = p.options.backoff_max_s = 1000;
    p.options.on_exit = restart_b;
    weft_fiber supervisor = weft_spin(follow, &p);
    let_run();
    end_child('b', FAILS);
    end_child('a', RETURNS);
    ck_assert_trail("abcBCAbc");
    cancel_supervisor(supervisor);
    assert_nothing_left();
}
END_TEST

static weft_value restart_b_later(void *arg)
{
    (void)arg;
    weft_await(id_of('b'));
    weft_sleep(TICK_S);
    return weft_restart(id_of('b'));
}

/* P39, P31 */
START_TEST(a_restart_by_hand_in_the_moment_in_which_it_is_due_counts_as_that)
{
    plan p;
    cancel_supervisor(spin_abc(&p, WEFT_ONE_FOR_ALL, WEFT_ALWAYS));
    p.options.backoff_s = TICK_S;
    weft_fiber supervisor = weft_spin(follow, &p);
    let_run();
    weft_go(restart_b_later, NULL);
    let_run();
    trail[0] = '\0';
    end_child('b', FAILS);
    double begin = weft_now();
    while (weft_now() - begin < 2 * TICK_S) /* both times pass before anyone can run */
        continue;
    let_run();
    ck_assert_trail("BCAbac");
    cancel_supervisor(supervisor);
    assert_nothing_left();
}
END_TEST

static void restart_c_for_b(weft_fiber child, weft_value value, void *arg)
{
    note_exit(child, value, arg);
    if (child == id_of('b'))
        ck_assert_int_eq(weft_restart(id_of('c')), 0);
}

/* P39, P31 */
START_TEST(of_one_that_was_restarted_by_hand_before_its_turn_nobody_is_told)
{
    plan p;
    cancel_supervisor(spin_abc(&p, WEFT_ONE_FOR_ALL, WEFT_ALWAYS));
    p.options.on_exit = restart_c_for_b;
    p.options.on_exit_arg = "";
    weft_fiber supervisor = weft_spin(follow, &p);
    let_run();
    trail[0] = '\0';
    for (char letter = 'a'; letter <= 'c'; letter++)
        weft_schedule(id_of(letter), -EIO);
    let_run();
    ck_assert_trail("ABC(a-5)(b-5)cab");
    cancel_supervisor(supervisor);
    assert_nothing_left();
}
END_TEST

/* P39, P31, P27 */
START_TEST(those_who_wait_for_one_start_also_if_it_is_restarted_by_hand_and_given_away)
{
    plan p;
    cancel_supervisor(spin_abc(&p, WEFT_ONE_FOR_ALL, WEFT_ALWAYS));
    p.options.backoff_s = p.options.backoff_max_s = 1000;
    weft_fiber supervisor = weft_spin(follow, &p);
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
END_TEST

/* P39, P31 */
START_TEST(one_that_is_restarted_by_hand_while_its_siblings_are_stopped_is_stopped_in_its_turn)
{
    plan p;
    weft_fiber supervisor = spin_holding(&p, WEFT_ONE_FOR_ALL);
    end_child('c', FAILS);
    end_child('a', FAILS); /* by itself, while the other holds on */
    ck_assert_int_eq(weft_restart(id_of('a')), 0);
    let_run();
    ck_assert_trail("C!Aa");
    weft_schedule(holder, 0);
    let_run();
    ck_assert_trail("C!AaHAahc");
    weft_cancel(supervisor);
    let_run();
    weft_schedule(holder, 0);
    ck_assert_int_eq(weft_await(supervisor), -ECANCELED);
    assert_nothing_left();
}
END_TEST

static void await_it_twice(weft_fiber child, weft_value value, void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(weft_await(child), value);
}

/* P39, P34 */
START_TEST(a_child_that_has_ended_can_be_awaited_as_often_as_one_likes_until_it_runs_again)
{
    plan p = {.children = {{.fn = live, .arg = "a"}},
              .n = 1,
              .options = {.backoff_s = 1000, .backoff_max_s = 1000, .on_exit = await_it_twice}};
    weft_fiber supervisor = weft_spin(follow, &p);
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
END_TEST

/* P39, P30 */
START_TEST(who_restarts_a_child_that_is_stopped_for_a_sibling_waits_until_it_is_started_with_all)
{
    plan p;
    weft_fiber supervisor = spin_holding(&p, WEFT_ONE_FOR_ALL);
    end_child('a', FAILS);
    ck_assert_trail("AC!");
    weft_go(restart_it, id_arg(holder));
    weft_go(restart_it, id_arg(id_of('c'))); /* which has been stopped */
    let_run();
    ck_assert_trail("AC!");
    weft_schedule(holder, 0);
    let_run();
    ck_assert_trail("AC!Hah(ok)c(ok)");
    weft_cancel(supervisor);
    let_run();
    weft_go(restart_it, id_arg(holder)); /* this time for good */
    let_run();
    weft_schedule(holder, 0);
    ck_assert_int_eq(weft_await(supervisor), -ECANCELED);
    ck_assert_trail("AC!Hah(ok)c(ok)C!(gone)HA");
    assert_nothing_left();
}
END_TEST

/* P39, P30 */
START_TEST(who_restarts_a_child_that_is_never_restarted_while_it_is_stopped_is_told_that_it_is_gone)
{
    plan p;
    weft_fiber supervisor = spin_holding(&p, WEFT_ONE_FOR_ONE);
    weft_cancel(supervisor);
    let_run();
    weft_schedule(holder, 0);
    weft_await(supervisor);
    p.children[1].restart = WEFT_NEVER;
    p.options.strategy = WEFT_ONE_FOR_ALL;
    supervisor = weft_spin(follow, &p);
    let_run();
    trail[0] = '\0';
    end_child('a', FAILS);
    weft_go(restart_it, id_arg(holder));
    let_run();
    ck_assert_trail("AC!");
    weft_schedule(holder, 0);
    let_run();
    ck_assert_trail("AC!H(gone)ac");
    cancel_supervisor(supervisor);
    assert_nothing_left();
}
END_TEST

/* P39 */
START_TEST(a_supervisor_that_is_cancelled_while_a_child_waits_for_its_restart_ends_at_once)
{
    plan p;
    cancel_supervisor(spin_abc(&p, WEFT_ONE_FOR_ALL, WEFT_ALWAYS));
    p.options.backoff_s = p.options.backoff_max_s = 1000;
    weft_fiber supervisor = weft_spin(follow, &p);
    let_run();
    end_child('b', FAILS);
    weft_cancel(supervisor);
    ck_assert_int_eq(weft_await(supervisor), -ECANCELED);
    ck_assert_trail("abcBCA");
    assert_nothing_left();
    ck_assert_int_eq(weft_suspend(), 0);
}
END_TEST

/* P39 */
START_TEST(nothing_calls_a_supervisor_away_while_it_stops_its_children)
{
    plan p;
    weft_fiber supervisor = spin_holding(&p, WEFT_ONE_FOR_ONE);
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
    ck_assert_uint_eq(info.waits_for_fiber, holder);
    weft_schedule(holder, 0);
    ck_assert_int_eq(weft_await(supervisor), -ECANCELED);
    ck_assert_trail("C!HA");
    assert_nothing_left();
}
END_TEST

/* P39 */
START_TEST(a_supervisor_that_is_cancelled_while_it_stops_some_for_a_sibling_starts_nobody_again)
{
    plan p;
    weft_fiber supervisor = spin_holding(&p, WEFT_ONE_FOR_ALL);
    end_child('c', FAILS);
    ck_assert_trail("C!");
    weft_cancel(supervisor);
    weft_schedule(holder, 0);
    ck_assert_int_eq(weft_await(supervisor), -ECANCELED);
    ck_assert_trail("C!HA");
    assert_nothing_left();
}
END_TEST

/* P39 */
START_TEST(an_error_that_is_raised_in_the_supervisor_stops_all_and_is_returned_with_its_words)
{
    plan p;
    weft_fiber supervisor = spin_abc(&p, WEFT_ONE_FOR_ONE, WEFT_ALWAYS);
    weft_raise(supervisor, -EPROTO, "that will do");
    ck_assert_int_eq(weft_await(supervisor), -EPROTO);
    ck_assert_words(-EPROTO, "that will do");
    ck_assert_trail("CBA");
    assert_nothing_left();
}
END_TEST

/* P39 */
START_TEST(an_interrupted_supervisor_stops_all_and_returns_the_code)
{
    plan p;
    weft_fiber supervisor = spin_abc(&p, WEFT_ONE_FOR_ONE, WEFT_ALWAYS);
    ck_assert_int_eq(weft_interrupt(supervisor, -EINTR), 0);
    ck_assert_int_eq(weft_await(supervisor), -EINTR);
    ck_assert_trail("CBA");
    assert_nothing_left();
}
END_TEST

/* P39 */
START_TEST(a_scope_around_it_is_a_limit_to_the_supervision)
{
    const weft_child children[] = {{.fn = be_stopped, .arg = "1"}, {.fn = be_stopped, .arg = "2"}};
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
END_TEST

/* P39 */
START_TEST(terminating_a_supervisor_ends_all)
{
    plan p;
    weft_fiber supervisor = spin_abc(&p, WEFT_ONE_FOR_ONE, WEFT_ALWAYS);
    ck_assert_int_eq(weft_terminate(supervisor, 1), 0);
    ck_assert_trail("CBA");
    assert_nothing_left();
}
END_TEST

static weft_value supervise_bc(void *arg)
{
    mark("(");
    const weft_child children[] = {{.fn = live, .arg = "b"}, {.fn = live, .arg = "c"}};
    int rc = weft_supervise(children, 2, arg);
    mark(")");
    return rc;
}

/* P39 */
START_TEST(a_supervisor_that_gives_up_is_restarted_by_its_own_with_its_whole_tree)
{
    weft_supervise_options inner = {.restarts_max = 1};
    plan p = {
        .children = {{.fn = live, .arg = "a"},
                     {.name = "inner", .fn = supervise_bc, .arg = &inner}},
        .n = 2,
        .options = {.restarts_max = 1, .on_exit = note_exit, .on_exit_arg = ""},
    };
    weft_fiber outer = weft_spin(follow, &p);
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
END_TEST

/* P39 */
START_TEST(the_error_of_a_leaf_climbs_through_supervisors_that_give_up)
{
    weft_supervise_options inner = {.restarts_max = 1};
    plan p = {
        .children = {{.fn = live, .arg = "a"}, {.fn = supervise_bc, .arg = &inner}},
        .n = 2,
        .options.restarts_max = 1,
    };
    weft_fiber outer = weft_spin(follow, &p);
    let_run();
    for (int i = 0; i < 3; i++)
        end_child('c', FAILS);
    weft_raise(id_of('c'), -EPIPE, "no more");
    ck_assert_int_eq(weft_await(outer), -EPIPE);
    ck_assert_words(-EPIPE, "no more");
    ck_assert_uint_eq(weft_error()->fiber, weft_self());
    assert_nothing_left();
}
END_TEST

/* P39, P38 */
START_TEST(who_monitors_a_child_can_await_it_when_its_supervisor_is_done_with_it)
{
    plan p;
    weft_fiber supervisor = spin_abc(&p, WEFT_ONE_FOR_ONE, WEFT_NEVER);
    weft_fiber b = id_of('b');
    ck_assert_int_eq(weft_monitor(b), 0);
    end_child('b', FAILS);
    ck_assert_uint_eq((weft_fiber)weft_try_receive(), b);
    ck_assert_int_eq(weft_await(b), -EIO);
    ck_assert_int_eq(weft_await(b), -ESRCH);
    weft_monitor(id_of('a')); /* of every run */
    for (int i = 0; i < 2; i++) {
        end_child('a', FAILS);
        ck_assert_uint_eq((weft_fiber)weft_try_receive(), id_of('a'));
    }
    weft_unmonitor(id_of('a'));
    cancel_supervisor(supervisor);
    assert_nothing_left();
}
END_TEST

static const TTest *const *const tests[] = {
    &children_that_come_later_are_covered_and_stopped_first,
    &the_error_of_one_that_came_later_ends_all_if_the_options_do_not_say_otherwise,
    &a_child_that_on_exit_spins_is_covered,
    &what_on_exit_spins_when_all_is_over_never_runs_and_nobody_is_told_of_it,
    &with_a_list_children_from_before_are_no_concern_but_their_errors_strike_the_caller,
    &children_that_never_ran_or_are_parked_are_stopped_too,
    &a_child_that_is_detached_is_no_concern_any_more,
    &it_returns_when_the_last_child_is_detached,
    &a_child_can_be_given_from_one_supervisor_to_another,
    &members_of_a_group_that_the_caller_has_open_are_the_concern_of_the_group,
    &a_child_that_is_attached_to_its_own_supervisor_stays_what_and_where_it_was,
    &a_child_that_is_detached_while_it_is_stopped_is_not_waited_for,
    &one_that_is_detached_while_siblings_are_stopped_leaves_the_others_to_be_started,
    &on_exit_may_restart_a_child_which_settles_the_matter_and_is_not_counted,
    &on_exit_may_restart_a_child_and_give_it_away,
    &a_child_that_ends_again_while_on_exit_waits_is_told_of_again,
    &a_running_child_that_another_fiber_restarts_has_not_ended_as_far_as_its_supervisor_knows,
    &who_awaits_a_child_has_the_value_of_that_run_and_may_be_the_first_to_restart_it,
    &a_child_that_is_restarted_by_hand_while_it_waits_takes_those_with_it_who_wait_for_it,
    &a_halted_sibling_can_be_restarted_by_hand_before_its_time,
    &the_one_that_all_were_stopped_for_may_be_restarted_by_hand_before_they_are_started,
    &on_exit_of_one_may_restart_another_that_waits_and_those_with_it_start_too,
    &a_restart_by_hand_in_the_moment_in_which_it_is_due_counts_as_that,
    &of_one_that_was_restarted_by_hand_before_its_turn_nobody_is_told,
    &those_who_wait_for_one_start_also_if_it_is_restarted_by_hand_and_given_away,
    &one_that_is_restarted_by_hand_while_its_siblings_are_stopped_is_stopped_in_its_turn,
    &a_child_that_has_ended_can_be_awaited_as_often_as_one_likes_until_it_runs_again,
    &who_restarts_a_child_that_is_stopped_for_a_sibling_waits_until_it_is_started_with_all,
    &who_restarts_a_child_that_is_never_restarted_while_it_is_stopped_is_told_that_it_is_gone,
    &a_supervisor_that_is_cancelled_while_a_child_waits_for_its_restart_ends_at_once,
    &nothing_calls_a_supervisor_away_while_it_stops_its_children,
    &a_supervisor_that_is_cancelled_while_it_stops_some_for_a_sibling_starts_nobody_again,
    &an_error_that_is_raised_in_the_supervisor_stops_all_and_is_returned_with_its_words,
    &an_interrupted_supervisor_stops_all_and_returns_the_code,
    &a_scope_around_it_is_a_limit_to_the_supervision,
    &terminating_a_supervisor_ends_all,
    &a_supervisor_that_gives_up_is_restarted_by_its_own_with_its_whole_tree,
    &the_error_of_a_leaf_climbs_through_supervisors_that_give_up,
    &who_monitors_a_child_can_await_it_when_its_supervisor_is_done_with_it,
};

int main(void)
{
    return run_suite("supervise_tree", tests, COUNT_OF(tests));
}

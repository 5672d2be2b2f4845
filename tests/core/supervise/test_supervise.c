/* Supervision: which children are restarted, in which order, and the calls of on_exit. */
#include "core/supervise/supervise_support.h"
#include "support/suite.h"

TEST(strategy_and_restart_decide_what_follows_the_end_of_a_child)
{ /* P39 */
    /* The trail after the end of b, for one, all and rest. */
    static const char *const restarted[] = {"Bb", "BCAabc", "BCbc"};
    for (weft_strategy s = WEFT_ONE_FOR_ONE; s <= WEFT_REST_FOR_ONE; s++)
        for (weft_restart_when when = WEFT_DEFAULT; when <= WEFT_NEVER; when++)
            for (end_kind kind = RETURNS; kind <= IS_CANCELLED; kind++) {
                supervisor_args p;
                weft_fiber supervisor = spin_abc(&p, s, when);
                weft_fiber before = id_of('b');
                bool is_restarted = when == WEFT_DEFAULT || when == WEFT_ALWAYS ||
                                    (when == WEFT_ON_ERROR && kind == FAILS);
                end_child('b', kind);
                ck_assert_trail(is_restarted ? restarted[s] : "B");
                ck_assert_uint_eq(id_of('b'), before);
                cancel_supervisor(supervisor);
            }
    ck_assert_int_eq(weft_snooze(), 0);
}

TEST(the_children_of_a_cancelled_supervisor_cannot_be_awaited)
{ /* P39, P16 */
    supervisor_args p;
    cancel_supervisor(spin_abc(&p, WEFT_ONE_FOR_ONE, WEFT_ALWAYS));
    for (char letter = 'a'; letter <= 'c'; letter++)
        ck_assert_int_eq(weft_await(id_of(letter)), -ESRCH);
}

static weft_value mark_during_shield(void *arg)
{
    weft_suspend();
    mark(arg);
    WEFT_SHIELD(10) {
        weft_sleep(TICK_S);
        mark("z");
        weft_sleep(TICK_S);
    }
    mark(arg);
    return 0;
}

TEST(each_child_is_stopped_only_when_the_one_after_it_has_ended)
{ /* P39, P16 */
    supervisor_args p = {.children = {{.fn = mark_during_shield, .arg = "1"},
                                      {.fn = mark_during_shield, .arg = "2"},
                                      {.fn = mark_during_shield, .arg = "3"}},
                         .n = 3};
    weft_fiber supervisor = spin_waiting(run_supervisor, &p);
    ck_assert_int_eq(cancel_and_await(supervisor), -ECANCELED);
    ck_assert_trail("3z32z21z1");
}

TEST(the_error_of_a_spun_child_ends_the_supervision_and_is_returned)
{ /* P39: the example of the seed */
    weft_spin(mark_if_stopped, "1");
    weft_spin(fail_later, as_arg(-EIO));
    weft_spin(mark_if_stopped, "2");
    ck_assert_int_eq(weft_supervise(NULL, 0, NULL), -EIO);
    ck_assert_error(-EIO, "broken");
    ck_assert_trail("21");
    ck_assert_int_eq(weft_children(weft_self(), NULL, 0), 0);
    ck_assert_int_eq(weft_snooze(), 0);
}

TEST(weft_supervise_returns_0_without_children_and_when_the_last_spun_child_has_returned)
{ /* P39 */
    ck_assert_int_eq(weft_supervise(NULL, 0, NULL), 0);
    weft_fiber done = weft_spin(return_arg, as_arg(7));
    weft_snooze();
    ck_assert_int_eq(weft_supervise(NULL, 0, NULL), 0);
    ck_assert_int_eq(weft_await(done), 7); /* it had ended before */
    weft_spin(mark_and_return, "1");
    weft_go(mark_and_return, "2");
    weft_cancel(spin_suspended());
    ck_assert_int_eq(weft_supervise(NULL, 0, NULL), 0);
    ck_assert_trail("12");
    ck_assert_int_eq(weft_children(weft_self(), NULL, 0), 0);
}

static weft_value spin_ab_and_supervise(void *arg)
{
    weft_spin(run_child, "a");
    weft_spin(run_child, "b");
    return run_supervisor(arg);
}

TEST(spun_children_are_restarted_as_the_options_say)
{ /* P39 */
    static const struct {
        weft_restart_when restart;
        const char *expected[4]; /* the trail after the end of a */
    } rows[] = {
        {WEFT_DEFAULT, {"A", "AB", "A", "A"}},
        {WEFT_ALWAYS, {"Aa", "Aa", "Aa", "Aa"}},
        {WEFT_ON_ERROR, {"A", "Aa", "A", "A"}},
        {WEFT_NEVER, {"A", "A", "A", "A"}},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (end_kind kind = RETURNS; kind <= IS_CANCELLED; kind++) {
            clear_trail();
            supervisor_args p = {.options.restart = rows[i].restart};
            weft_fiber supervisor = weft_spin(spin_ab_and_supervise, &p);
            weft_monitor(supervisor); /* the test awaits its error */
            let_run();
            ck_take_trail("ab");
            end_child('a', kind);
            ck_assert_trail(rows[i].expected[kind]);
            weft_cancel(supervisor);
            weft_value value = weft_await(supervisor);
            ck_assert_int_eq(value,
                             rows[i].restart == WEFT_DEFAULT && kind == FAILS ? -EIO : -ECANCELED);
        }
    }
}

TEST(the_error_of_a_child_with_restart_never_is_passed_only_to_on_exit)
{ /* P39 */
    const weft_child child = {"x", fail_with, as_arg(-EIO), .restart = WEFT_NEVER};
    weft_supervise_options options = {.on_exit = mark_exit, .on_exit_arg = ""};
    ck_assert_int_eq(weft_supervise(&child, 1, &options), 0);
    ck_assert_trail("(x-5)");
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_sleep(0), 0);
}

static weft_value fail_after_sibling(void *arg)
{
    weft_snooze(); /* it is behind this fiber in the run queue */
    WEFT_SHIELD(INFINITY)
        weft_await(id_of('c'));
    mark("S");
    return weft_fail((int)(intptr_t)arg, "too");
}

TEST(a_child_that_fails_while_another_is_stopped_is_passed_to_on_exit_and_restarted_with_all)
{ /* P39 */
    supervisor_args p = {
        .children = {{.name = "a", .fn = run_child, .arg = "a"},
                     {.name = "s", .fn = fail_after_sibling, .arg = as_arg(-EPIPE)},
                     {.name = "c", .fn = run_child, .arg = "c"}},
        .n = 3,
        .options = {.strategy = WEFT_ONE_FOR_ALL,
                    .restarts_max = 1,
                    .on_exit = mark_exit,
                    .on_exit_arg = ""},
    };
    weft_fiber supervisor = spin_waiting(run_supervisor, &p);
    ck_assert_trail("ac");
    end_child('a', FAILS);
    ck_assert_trail("acA(a-5)CS(s-32)ac");
    ck_assert_int_eq(cancel_and_await(supervisor), -ECANCELED);
}

TEST(when_two_spun_children_fail_at_once_both_reach_on_exit_and_the_first_error_is_returned)
{ /* P39 */
    weft_set_name(weft_spin(fail_with, as_arg(-EIO)), "1");
    weft_set_name(weft_spin(fail_with, as_arg(-EPIPE)), "2");
    weft_supervise_options options = {.on_exit = mark_exit, .on_exit_arg = ""};
    ck_assert_int_eq(weft_supervise(NULL, 0, &options), -EIO);
    ck_assert_trail("(1-5)(2-32)");
    ck_assert_int_eq(weft_snooze(), 0);
}

static void supervise_again(weft_fiber child, weft_value value, void *arg)
{
    *(int *)arg = weft_supervise(NULL, 0, NULL);
}

TEST(a_supervising_fiber_cannot_supervise_again)
{ /* P39 */
    int rc = 0;
    weft_supervise_options options = {.on_exit = supervise_again, .on_exit_arg = &rc};
    weft_spin(return_arg, NULL);
    ck_assert_int_eq(weft_supervise(NULL, 0, &options), 0);
    ck_assert_int_eq(rc, -EINVAL);
    ck_assert_any_error(-EINVAL);
    ck_assert_int_eq(weft_supervise(NULL, 0, NULL), 0);
}

TEST(invalid_options_are_refused_and_no_child_is_started)
{ /* P39 */
    const weft_supervise_options options[] = {
        {.strategy = (weft_strategy)3},
        {.strategy = (weft_strategy)-1},
        {.restart = (weft_restart_when)4},
        {.restarts_window_s = -1},
        {.restarts_window_s = NAN},
        {.backoff_s = -1},
        {.backoff_s = NAN},
        {.backoff_s = INFINITY},
        {.backoff_max_s = -1},
        {.backoff_max_s = NAN},
    };
    const weft_child good = {.fn = mark_and_return, .arg = "ran"};
    for (size_t i = 0; i < COUNT_OF(options); i++) {
        weft_error_clear();
        ck_assert_int_eq(weft_supervise(&good, 1, &options[i]), -EINVAL);
        ck_assert_any_error(-EINVAL);
    }
    const weft_child bad[] = {{.arg = "ran"},
                              {.fn = mark_and_return, .restart = (weft_restart_when)4},
                              {.fn = mark_and_return, .grace_s = -1},
                              {.fn = mark_and_return, .grace_s = NAN},
                              {.fn = mark_and_return, .stack_bytes = 1}};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        weft_error_clear();
        ck_assert_int_eq(weft_supervise((weft_child[]){good, bad[i]}, 2, NULL), -EINVAL);
        ck_assert_any_error(-EINVAL);
    }
    ck_assert_int_eq(weft_supervise(NULL, 1, NULL), -EINVAL);
    let_run();
    ck_assert_trail("");
    ck_assert_int_eq(weft_children(weft_self(), NULL, 0), 0);
}

static weft_value check_run(void *arg)
{
    ids[runs[0]++] = weft_self();
    mark(weft_name_of(weft_self()));
    mark(arg);
    volatile char deep[200 << 10]; /* larger than a default stack */
    deep[0] = 1;
    deep[sizeof deep - 1] = deep[0];
    return runs[0] < 3 ? -EIO : 0;
}

TEST(every_run_has_the_same_id_name_argument_and_stack)
{ /* P39, P31 */
    char name[] = "checked";
    weft_child child = {name, check_run, "!", .restart = WEFT_ON_ERROR, .stack_bytes = 512 << 10};
    ck_assert_int_eq(weft_supervise(&child, 1, NULL), 0);
    ck_assert_trail("checked!checked!checked!");
    ck_assert_uint_eq(ids[1], ids[0]);
    ck_assert_uint_eq(ids[2], ids[0]);
}

static weft_value receive_and_mark(void *arg)
{
    ids[0] = weft_self();
    weft_value value = weft_receive();
    char text[16];
    snprintf(text, sizeof text, "%d ", (int)value);
    mark(text);
    return value > 0 ? -EIO : value;
}

TEST(between_two_runs_a_child_cannot_be_told_and_each_run_starts_with_an_empty_mailbox)
{ /* P39 */
    supervisor_args p = {
        .children = {{.fn = receive_and_mark}}, .n = 1, .options.backoff_s = TICK_S};
    weft_fiber supervisor = spin_waiting(run_supervisor, &p);
    ck_assert_int_eq(weft_tell(ids[0], 1), 0);
    ck_assert_int_eq(weft_tell(ids[0], 2), 0);
    weft_snooze();
    weft_snooze();
    ck_assert_trail("1 ");
    ck_assert_int_eq(weft_tell(ids[0], 3), -ESRCH);
    weft_sleep(4 * TICK_S);
    ck_assert_int_eq(weft_mailbox_count(ids[0]), 0);
    ck_assert_int_eq(weft_tell(ids[0], 4), 0);
    let_run();
    ck_assert_trail("1 4 ");
    cancel_supervisor(supervisor);
}

static weft_value end_slowly(void *arg)
{
    weft_suspend();
    WEFT_SHIELD(10)
        weft_sleep(*(double *)arg);
    return 0;
}

static int stop_slow_child(double takes_s)
{
    supervisor_args p = {.children = {{"stubborn", end_slowly, &takes_s, .grace_s = 2 * TICK_S}},
                         .n = 1};
    weft_fiber supervisor = weft_spin(run_supervisor, &p);
    weft_sleep(0);
    weft_snooze();
    weft_cancel(supervisor);
    return weft_await(supervisor) == -ECANCELED ? 0 : 1;
}

TEST_PROGRAM_PRINTS(a_child_that_does_not_stop_is_reported_after_its_grace_time_and_awaited, 0,
                    "'stubborn' has not ended 0.0078125 s after it was cancelled")
{ /* P39 */
    return stop_slow_child(8 * TICK_S);
}

TEST_PROGRAM(a_child_that_stops_within_its_grace_time_is_not_reported, 0, "")
{ /* P39 */
    return stop_slow_child(0);
}

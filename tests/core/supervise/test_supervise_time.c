/* Supervision and time: the restart intensity and the delay before a restart. */
#include "core/supervise/supervise_support.h"
#include "support/suite.h"

#include <limits.h>

static weft_value fail_at_once(void *arg)
{
    runs[0]++;
    return weft_fail((int)(intptr_t)arg, "the %d. time", runs[0]);
}

TEST(the_last_error_is_returned_after_one_restart_too_many_in_the_window)
{ /* P39 */
    const weft_child children[] = {
        {.fn = mark_if_stopped, .arg = "1"},
        {.fn = fail_at_once, .arg = as_arg(-EIO)},
        {.fn = mark_if_stopped, .arg = "2"},
    };
    ck_assert_int_eq(weft_supervise(children, 3, &(weft_supervise_options){.restarts_max = 3}),
                     -EIO);
    ck_assert_int_eq(runs[0], 4);
    ck_assert_error(-EIO, "the 4. time");
    ck_assert_trail("21");
    runs[0] = 0;
    ck_assert_int_eq(weft_supervise(children, 2, NULL), -EIO);
    ck_assert_int_eq(runs[0], 11); /* the default is 10 in 10 s */
    ck_assert_int_eq(weft_snooze(), 0);
}

/* Fail after the given number of ticks, 19 times. */
static weft_value fail_after_ticks(void *arg)
{
    weft_sleep(*(double *)arg * TICK_S);
    return ++runs[0] < 20 ? -EIO : 0;
}

TEST(restarts_that_have_left_the_window_do_not_count)
{ /* P39 */
    static const struct {
        double ticks; /* between two failures */
        unsigned max;
        double window; /* in ticks, without its end */
    } rows[] = {{1, 1, 1}, {1, 2, 2}, {1, 5, 5}, {2, 1, 1.5}, {2, 2, 4}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        double ticks = rows[i].ticks;
        weft_child child = {.fn = fail_after_ticks, .arg = &ticks, .restart = WEFT_ON_ERROR};
        weft_supervise_options options = {.restarts_max = rows[i].max,
                                          .restarts_window_s = rows[i].window * TICK_S};
        runs[0] = 0;
        ck_assert_int_eq(weft_supervise(&child, 1, &options), 0);
        ck_assert_int_eq(runs[0], 20);
    }
}

TEST(the_window_slides)
{ /* P39 */
    double ticks = 1;
    weft_child child = {.fn = fail_after_ticks, .arg = &ticks, .restart = WEFT_ON_ERROR};
    weft_supervise_options options = {.restarts_max = 3, .restarts_window_s = 3.5 * TICK_S};
    if (strcmp(weft_backend_name(), "sim") != 0) /* other clocks may be late at any time */
        options.restarts_window_s = 1e6;
    ck_assert_int_eq(weft_supervise(&child, 1, &options), -EIO);
    ck_assert_int_eq(runs[0], 4); /* restarted at 1, 2 and 3 */
}

TEST(an_infinite_window_counts_every_restart)
{ /* P39 */
    double ticks = 1;
    weft_child child = {.fn = fail_after_ticks, .arg = &ticks};
    weft_supervise_options options = {.restarts_max = 5, .restarts_window_s = INFINITY};
    ck_assert_int_eq(weft_supervise(&child, 1, &options), -EIO);
    ck_assert_int_eq(runs[0], 6);
}

FIBER(fail_often, ++runs[0] < 5000 ? -EIO : 0)

TEST(without_a_limit_a_child_is_restarted_any_number_of_times)
{ /* P39 */
    weft_child child = {.fn = fail_often, .restart = WEFT_ON_ERROR};
    weft_supervise_options options = {.restarts_max = UINT_MAX};
    ck_assert_int_eq(weft_supervise(&child, 1, &options), 0);
    ck_assert_int_eq(runs[0], 5000);
    runs[0] = 0;
    options.restarts_max = 4999; /* a limit that is just not reached */
    ck_assert_int_eq(weft_supervise(&child, 1, &options), 0);
    runs[0] = 0;
    options.restarts_max = 4998;
    ck_assert_int_eq(weft_supervise(&child, 1, &options), -EIO);
}

TEST(one_failure_counts_once_however_many_children_are_restarted)
{ /* P39 */
    supervisor_args p;
    weft_fiber supervisor = spin_abc(&p, WEFT_ONE_FOR_ALL, WEFT_ALWAYS);
    cancel_supervisor(supervisor);
    p.options.restarts_max = 2;
    runs[0] = runs[1] = runs[2] = 0;
    supervisor = weft_spin(run_supervisor, &p);
    let_run();
    for (int i = 0; i < 3; i++)
        end_child('b', FAILS);
    ck_assert_int_eq(weft_await(supervisor), -EIO);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(runs[i], 3);
    ck_assert_trail("abcBCAabcBCAabcBCA");
}

TEST(a_child_that_returns_too_often_ends_the_supervision_with_eloop)
{ /* P39 */
    weft_child child = {.name = "eager", .fn = mark_and_return, .arg = "1"};
    weft_supervise_options options = {.restarts_max = 2};
    ck_assert_int_eq(weft_supervise(&child, 1, &options), -ELOOP);
    ck_assert_trail("111");
    ck_assert_error(-ELOOP, "weft_supervise: child 'eager' ended again after 2 restarts in 10 s");
}

TEST(a_child_that_is_cancelled_too_often_ends_the_supervision_with_eloop)
{ /* P39 */
    supervisor_args p = {
        .children = {{.fn = run_child, .arg = "a"}}, .n = 1, .options.restarts_max = 1};
    weft_fiber supervisor = weft_spin(run_supervisor, &p);
    let_run();
    end_child('a', IS_CANCELLED);
    end_child('a', IS_CANCELLED);
    ck_assert_int_eq(weft_await(supervisor), -ELOOP);
    ck_assert_any_error(-ELOOP);
}

/* The start times of the runs of a child. */
static double starts[16];

/* Fail at once, except in the third run, which sleeps for the given time first. */
static weft_value record_start(void *arg)
{
    starts[runs[0]++] = weft_now();
    if (runs[0] == 3)
        weft_sleep(*(double *)arg);
    return runs[0] < 7 ? -EIO : 0;
}

static void check_delays(const double *delays, double third_run_s)
{
    bool is_exact = strcmp(weft_backend_name(), "sim") == 0;
    ck_assert_int_eq(runs[0], 7);
    for (int i = 0; i < 6; i++) {
        double passed = starts[i + 1] - starts[i] - (i == 2 ? third_run_s : 0);
        ck_assert_double_ge(passed, delays[i] * TICK_S - 1e-9);
        if (is_exact)
            ck_assert_double_le(passed, delays[i] * TICK_S + TICK_S / 8);
    }
}

TEST(the_delay_doubles_with_each_restart_in_the_window_up_to_a_limit)
{ /* P39 */
    double third_run_s = 0;
    weft_child child = {.fn = record_start, .arg = &third_run_s, .restart = WEFT_ON_ERROR};
    weft_supervise_options options = {.backoff_s = TICK_S};
    ck_assert_int_eq(weft_supervise(&child, 1, &options), 0);
    check_delays((double[]){1, 2, 4, 8, 16, 32}, 0);
    runs[0] = 0;
    options.backoff_max_s = 5 * TICK_S;
    ck_assert_int_eq(weft_supervise(&child, 1, &options), 0);
    check_delays((double[]){1, 2, 4, 5, 5, 5}, 0);
    runs[0] = 0;
    options.backoff_max_s = TICK_S / 2; /* also limits the first delay */
    ck_assert_int_eq(weft_supervise(&child, 1, &options), 0);
    check_delays((double[]){0.5, 0.5, 0.5, 0.5, 0.5, 0.5}, 0);
}

TEST(a_run_as_long_as_the_window_resets_the_backoff)
{ /* P39 */
    double third_run_s = 6 * TICK_S;
    weft_child child = {.fn = record_start, .arg = &third_run_s, .restart = WEFT_ON_ERROR};
    weft_supervise_options options = {.backoff_s = TICK_S, .restarts_window_s = 6 * TICK_S};
    ck_assert_int_eq(weft_supervise(&child, 1, &options), 0);
    check_delays((double[]){1, 2, 1, 2, 4, 8}, third_run_s);
}

static weft_value fail_twice(void *arg)
{
    mark(arg);
    int i = *(const char *)arg - 'a';
    return ++runs[i] < 3 ? -EIO : 0;
}

static weft_value fail_once(void *arg)
{
    mark(arg);
    int i = *(const char *)arg - 'a';
    return ++runs[i] < 2 ? -EIO : 0;
}

TEST(children_wait_for_their_restarts_independently)
{ /* P39 */
    const weft_child children[] = {
        {.fn = fail_twice, .arg = "a", .restart = WEFT_ON_ERROR},
        {.fn = fail_once, .arg = "b", .restart = WEFT_ON_ERROR},
        {.fn = fail_twice, .arg = "c", .restart = WEFT_ON_ERROR},
    };
    weft_supervise_options options = {.backoff_s = TICK_S};
    ck_assert_int_eq(weft_supervise(children, 3, &options), 0);
    ck_assert_trail("abcabcac");
}

TEST(other_children_are_supervised_while_one_waits_for_its_restart)
{ /* P39 */
    supervisor_args p;
    cancel_supervisor(spin_abc(&p, WEFT_ONE_FOR_ONE, WEFT_NEVER));
    p.options.backoff_s = 1000;
    p.options.backoff_max_s = 1000;
    weft_fiber supervisor = weft_spin(run_supervisor, &p);
    let_run();
    end_child('a', FAILS);
    end_child('b', RETURNS);
    end_child('c', FAILS);
    ck_assert_trail("abcABC");
    ck_assert_int_eq(weft_await(id_of('b')), -ESRCH); /* handled and released */
    ck_assert_int_eq(weft_state_of(id_of('a')), WEFT_DEAD);
    ck_assert_int_eq(weft_state_of(supervisor), WEFT_WAITING);
    cancel_supervisor(supervisor);
}

TEST(children_stopped_for_a_sibling_wait_for_it_and_start_in_order)
{ /* P39 */
    static const struct {
        weft_strategy strategy;
        const char *expected;
    } rows[] = {{WEFT_ONE_FOR_ALL, "abcBCA.abc"}, {WEFT_REST_FOR_ONE, "abcBC.bc"}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        supervisor_args p;
        cancel_supervisor(spin_abc(&p, rows[i].strategy, WEFT_ALWAYS));
        p.options.backoff_s = 2 * TICK_S;
        weft_fiber supervisor = weft_spin(run_supervisor, &p);
        let_run();
        end_child('b', FAILS);
        mark(".");
        weft_sleep(4 * TICK_S);
        let_run();
        ck_assert_trail(rows[i].expected);
        cancel_supervisor(supervisor);
    }
}

TEST(a_failure_earlier_in_the_list_takes_over_waiting_children_after_it)
{ /* P39 */
    supervisor_args p;
    cancel_supervisor(spin_abc(&p, WEFT_REST_FOR_ONE, WEFT_ALWAYS));
    p.options.backoff_s = 2 * TICK_S;
    weft_fiber supervisor = weft_spin(run_supervisor, &p);
    let_run();
    end_child('c', FAILS);
    end_child('b', FAILS);
    end_child('a', FAILS);
    ck_assert_trail("abcCBA");
    weft_sleep(8 * TICK_S);
    let_run();
    ck_assert_trail("abcCBAabc");
    cancel_supervisor(supervisor);
}

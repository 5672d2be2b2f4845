/* Supervision and time: the restart intensity and the delay before a restart. */
#include "core/supervise/supervise_support.h"
#include "support/suite.h"

#include <limits.h>

FIBER_DO(fail_at_once, runs[0]++, weft_fail((int)(intptr_t)arg, "the %d. time", runs[0]))

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
FIBER_DO(fail_after_ticks, weft_sleep(*(double *)arg *TICK_S), ++runs[0] < 20 ? -EIO : 0)

TEST(restarts_in_the_window_count_and_those_that_have_left_it_do_not)
{ /* P39 */
    static const struct {
        double ticks; /* between two failures */
        unsigned max;
        double window; /* in ticks, without its end */
        int runs;
    } rows[] = {{1, 1, 1, 20}, {1, 2, 2, 20},  {1, 5, 5, 20},      {2, 1, 1.5, 20},
                {2, 2, 4, 20}, {1, 3, 3.5, 4}, {1, 5, INFINITY, 6}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        double ticks = rows[i].ticks, window_s = rows[i].window * TICK_S;
        if (rows[i].runs == 4 && !is_sim()) /* other clocks may be late at any time */
            window_s = 1e6;
        weft_child child = {.fn = fail_after_ticks, .arg = &ticks, .restart = WEFT_ON_ERROR};
        weft_supervise_options options = {.restarts_max = rows[i].max,
                                          .restarts_window_s = window_s};
        runs[0] = 0;
        ck_assert_int_eq(weft_supervise(&child, 1, &options), rows[i].runs == 20 ? 0 : -EIO);
        ck_assert_int_eq(runs[0], rows[i].runs);
    }
}

FIBER(fail_often, ++runs[0] < 1000 ? -EIO : 0)

TEST(without_a_limit_or_just_below_it_a_child_is_restarted_any_number_of_times)
{ /* P39 */
    static const unsigned limits[] = {UINT_MAX, 999, 998};
    weft_child child = {.fn = fail_often, .restart = WEFT_ON_ERROR};
    for (int i = 0; i < 3; i++) {
        runs[0] = 0;
        weft_supervise_options options = {.restarts_max = limits[i]};
        ck_assert_int_eq(weft_supervise(&child, 1, &options), i < 2 ? 0 : -EIO);
        ck_assert_int_eq(runs[0], i < 2 ? 1000 : 999);
    }
}

TEST(one_failure_counts_once_however_many_children_are_restarted)
{ /* P39 */
    supervisor_args p;
    weft_fiber supervisor = spin_abc(&p, WEFT_ONE_FOR_ALL, WEFT_ALWAYS);
    cancel_supervisor(supervisor);
    p.options.restarts_max = 2;
    runs[0] = runs[1] = runs[2] = 0;
    supervisor = spin_waiting(run_supervisor, &p);
    for (int i = 0; i < 3; i++)
        end_child('b', FAILS);
    ck_assert_int_eq(weft_await(supervisor), -EIO);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(runs[i], 3);
    ck_assert_trail("abcBCAabcBCAabcBCA");
}

TEST(a_child_that_returns_or_is_cancelled_too_often_ends_the_supervision_with_eloop)
{ /* P39 */
    weft_child child = {.name = "eager", .fn = mark_and_return, .arg = "1"};
    weft_supervise_options options = {.restarts_max = 2};
    ck_assert_int_eq(weft_supervise(&child, 1, &options), -ELOOP);
    ck_take_trail("111");
    ck_assert_error(-ELOOP, "weft_supervise: child 'eager' ended again after 2 restarts in 10 s");
    supervisor_args p = {
        .children = {{.fn = run_child, .arg = "a"}}, .n = 1, .options.restarts_max = 1};
    weft_fiber supervisor = spin_waiting(run_supervisor, &p);
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
    bool is_exact = is_sim();
    ck_assert_int_eq(runs[0], 7);
    for (int i = 0; i < 6; i++) {
        double passed = starts[i + 1] - starts[i] - (i == 2 ? third_run_s : 0);
        ck_assert_double_ge(passed, delays[i] * TICK_S - 1e-9);
        if (is_exact)
            ck_assert_double_le(passed, delays[i] * TICK_S + TICK_S / 8);
    }
}

TEST(the_delay_doubles_up_to_a_limit_and_a_run_as_long_as_the_window_resets_it)
{ /* P39 */
    static const struct {
        double backoff_max, window, third_run; /* in ticks */
        double delays[6];
    } rows[] = {
        {0, 0, 0, {1, 2, 4, 8, 16, 32}},
        {5, 0, 0, {1, 2, 4, 5, 5, 5}},
        {0.5, 0, 0, {0.5, 0.5, 0.5, 0.5, 0.5, 0.5}}, /* also limits the first delay */
        {0, 6, 6, {1, 2, 1, 2, 4, 8}},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        double third_run_s = rows[i].third_run * TICK_S;
        weft_child child = {.fn = record_start, .arg = &third_run_s, .restart = WEFT_ON_ERROR};
        weft_supervise_options options = {.backoff_s = TICK_S,
                                          .backoff_max_s = rows[i].backoff_max * TICK_S,
                                          .restarts_window_s = rows[i].window * TICK_S};
        runs[0] = 0;
        ck_assert_int_eq(weft_supervise(&child, 1, &options), 0);
        check_delays(rows[i].delays, third_run_s);
    }
}

/* The children a and c fail twice, b fails once. */
static weft_value fail_some_times(void *arg)
{
    mark(arg);
    int i = *(const char *)arg - 'a';
    return ++runs[i] < (i == 1 ? 2 : 3) ? -EIO : 0;
}

TEST(children_wait_for_their_restarts_independently)
{ /* P39 */
    weft_child children[3];
    for (int i = 0; i < 3; i++)
        children[i] = (weft_child){
            .fn = fail_some_times, .arg = (char *[]){"a", "b", "c"}[i], .restart = WEFT_ON_ERROR};
    weft_supervise_options options = {.backoff_s = TICK_S};
    ck_assert_int_eq(weft_supervise(children, 3, &options), 0);
    ck_assert_trail("abcabcac");
}

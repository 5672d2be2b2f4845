/* Supervision and time: how often a child may be restarted, and how long that waits. */
#include "supervise_support.h"

#include <limits.h>

static weft_value fail_at_once(void *arg)
{
    runs[0]++;
    return weft_fail((int)(intptr_t)arg, "the %d. time", runs[0]);
}

/* P39 */
START_TEST(one_restart_too_many_in_the_window_and_the_last_error_is_returned)
{
    const weft_child children[] = {
        {.fn = be_stopped, .arg = "1"},
        {.fn = fail_at_once, .arg = as_arg(-EIO)},
        {.fn = be_stopped, .arg = "2"},
    };
    ck_assert_int_eq(weft_supervise(children, 3, &(weft_supervise_options){.restarts_max = 3}),
                     -EIO);
    ck_assert_int_eq(runs[0], 4);
    ck_assert_words(-EIO, "the 4. time");
    ck_assert_trail("21");
    runs[0] = 0;
    ck_assert_int_eq(weft_supervise(children, 2, NULL), -EIO);
    ck_assert_int_eq(runs[0], 11); /* the default is ten in ten seconds */
    ck_assert_int_eq(weft_snooze(), 0);
}
END_TEST

/* Fails every so many ticks, and then no more. */
static weft_value fail_each(void *arg)
{
    weft_sleep(*(double *)arg * TICK_S);
    return ++runs[0] < 20 ? -EIO : 0;
}

/* P39 */
START_TEST(restarts_that_have_left_the_window_do_not_count)
{
    static const struct {
        double ticks; /* between two failures */
        unsigned max;
        double window; /* in ticks; its end is not in it */
    } rows[] = {{1, 1, 1}, {1, 2, 2}, {1, 5, 5}, {2, 1, 1.5}, {2, 2, 4}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        double ticks = rows[i].ticks;
        weft_child child = {.fn = fail_each, .arg = &ticks, .restart = WEFT_ON_ERROR};
        weft_supervise_options options = {.restarts_max = rows[i].max,
                                          .restarts_window_s = rows[i].window * TICK_S};
        runs[0] = 0;
        ck_assert_int_eq(weft_supervise(&child, 1, &options), 0);
        ck_assert_int_eq(runs[0], 20);
    }
}
END_TEST

/* P39 */
START_TEST(the_window_slides)
{
    double ticks = 1;
    weft_child child = {.fn = fail_each, .arg = &ticks, .restart = WEFT_ON_ERROR};
    weft_supervise_options options = {.restarts_max = 3, .restarts_window_s = 3.5 * TICK_S};
    if (strcmp(weft_backend_name(), "sim") != 0) /* other clocks may be late at any time */
        options.restarts_window_s = 1e6;
    ck_assert_int_eq(weft_supervise(&child, 1, &options), -EIO);
    ck_assert_int_eq(runs[0], 4); /* at 1, 2 and 3 it was restarted */
}
END_TEST

/* P39 */
START_TEST(an_infinite_window_counts_every_restart_ever)
{
    double ticks = 1;
    weft_child child = {.fn = fail_each, .arg = &ticks};
    weft_supervise_options options = {.restarts_max = 5, .restarts_window_s = INFINITY};
    ck_assert_int_eq(weft_supervise(&child, 1, &options), -EIO);
    ck_assert_int_eq(runs[0], 6);
}
END_TEST

static weft_value fail_often(void *arg)
{
    (void)arg;
    return ++runs[0] < 5000 ? -EIO : 0;
}

/* P39 */
START_TEST(without_a_limit_it_is_restarted_as_often_as_it_takes)
{
    weft_child child = {.fn = fail_often, .restart = WEFT_ON_ERROR};
    weft_supervise_options options = {.restarts_max = UINT_MAX};
    ck_assert_int_eq(weft_supervise(&child, 1, &options), 0);
    ck_assert_int_eq(runs[0], 5000);
    runs[0] = 0;
    options.restarts_max = 4999; /* and a limit that is just not reached holds as many */
    ck_assert_int_eq(weft_supervise(&child, 1, &options), 0);
    runs[0] = 0;
    options.restarts_max = 4998;
    ck_assert_int_eq(weft_supervise(&child, 1, &options), -EIO);
}
END_TEST

/* P39 */
START_TEST(one_incident_counts_once_however_many_are_restarted)
{
    plan p;
    weft_fiber supervisor = spin_abc(&p, WEFT_ONE_FOR_ALL, WEFT_ALWAYS);
    cancel_supervisor(supervisor);
    p.options.restarts_max = 2;
    runs[0] = runs[1] = runs[2] = 0;
    supervisor = weft_spin(follow, &p);
    let_run();
    for (int i = 0; i < 3; i++)
        end_child('b', FAILS);
    ck_assert_int_eq(weft_await(supervisor), -EIO);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(runs[i], 3);
    ck_assert_trail("abcBCAabcBCAabcBCA");
}
END_TEST

/* P39 */
START_TEST(a_child_that_ends_well_too_often_is_an_error_of_its_own)
{
    weft_child child = {.name = "eager", .fn = mark_and_return, .arg = "1"};
    weft_supervise_options options = {.restarts_max = 2};
    ck_assert_int_eq(weft_supervise(&child, 1, &options), -ELOOP);
    ck_assert_trail("111");
    ck_assert_words(-ELOOP, "'eager' has ended again after 2 restarts in 10 s");
}
END_TEST

/* P39 */
START_TEST(a_child_that_is_cancelled_too_often_does_not_make_its_supervisor_look_cancelled)
{
    plan p = {.children = {{.fn = live, .arg = "a"}}, .n = 1, .options.restarts_max = 1};
    weft_fiber supervisor = weft_spin(follow, &p);
    let_run();
    end_child('a', IS_CANCELLED);
    end_child('a', IS_CANCELLED);
    ck_assert_int_eq(weft_await(supervisor), -ELOOP);
    ck_assert_any_words(-ELOOP);
}
END_TEST

/* When the runs of a child began. */
static double starts[16];

/* Fails at once, but for the third run, which takes as long as its argument says. */
static weft_value note_start(void *arg)
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

/* P39 */
START_TEST(each_restart_of_a_child_in_the_window_waits_twice_as_long_up_to_a_limit)
{
    double third_run_s = 0;
    weft_child child = {.fn = note_start, .arg = &third_run_s, .restart = WEFT_ON_ERROR};
    weft_supervise_options options = {.backoff_s = TICK_S};
    ck_assert_int_eq(weft_supervise(&child, 1, &options), 0);
    check_delays((double[]){1, 2, 4, 8, 16, 32}, 0);
    runs[0] = 0;
    options.backoff_max_s = 5 * TICK_S;
    ck_assert_int_eq(weft_supervise(&child, 1, &options), 0);
    check_delays((double[]){1, 2, 4, 5, 5, 5}, 0);
    runs[0] = 0;
    options.backoff_max_s = TICK_S / 2; /* is the limit of the first wait too */
    ck_assert_int_eq(weft_supervise(&child, 1, &options), 0);
    check_delays((double[]){0.5, 0.5, 0.5, 0.5, 0.5, 0.5}, 0);
}
END_TEST

/* P39 */
START_TEST(a_run_as_long_as_the_window_begins_the_back_off_anew)
{
    double third_run_s = 6 * TICK_S;
    weft_child child = {.fn = note_start, .arg = &third_run_s, .restart = WEFT_ON_ERROR};
    weft_supervise_options options = {.backoff_s = TICK_S, .restarts_window_s = 6 * TICK_S};
    ck_assert_int_eq(weft_supervise(&child, 1, &options), 0);
    check_delays((double[]){1, 2, 1, 2, 4, 8}, third_run_s);
}
END_TEST

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

/* P39 */
START_TEST(children_wait_for_their_restarts_side_by_side)
{
    const weft_child children[] = {
        {.fn = fail_twice, .arg = "a", .restart = WEFT_ON_ERROR},
        {.fn = fail_once, .arg = "b", .restart = WEFT_ON_ERROR},
        {.fn = fail_twice, .arg = "c", .restart = WEFT_ON_ERROR},
    };
    weft_supervise_options options = {.backoff_s = TICK_S};
    ck_assert_int_eq(weft_supervise(children, 3, &options), 0);
    ck_assert_trail("abcabcac");
}
END_TEST

/* P39 */
START_TEST(the_other_children_are_looked_after_while_one_waits)
{
    plan p;
    cancel_supervisor(spin_abc(&p, WEFT_ONE_FOR_ONE, WEFT_NEVER));
    p.options.backoff_s = 1000;
    p.options.backoff_max_s = 1000;
    weft_fiber supervisor = weft_spin(follow, &p);
    let_run();
    end_child('a', FAILS);
    end_child('b', RETURNS);
    end_child('c', FAILS);
    ck_assert_trail("abcABC");
    ck_assert_int_eq(weft_await(id_of('b')), -ESRCH); /* handled and forgotten */
    ck_assert_int_eq(weft_state_of(id_of('a')), WEFT_DEAD);
    ck_assert_int_eq(weft_state_of(supervisor), WEFT_WAITING);
    cancel_supervisor(supervisor);
}
END_TEST

/* P39 */
START_TEST(those_that_were_stopped_for_a_sibling_wait_for_it_and_start_in_their_order)
{
    static const struct {
        weft_strategy strategy;
        const char *expected;
    } rows[] = {{WEFT_ONE_FOR_ALL, "abcBCA.abc"}, {WEFT_REST_FOR_ONE, "abcBC.bc"}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        plan p;
        cancel_supervisor(spin_abc(&p, rows[i].strategy, WEFT_ALWAYS));
        p.options.backoff_s = 2 * TICK_S;
        weft_fiber supervisor = weft_spin(follow, &p);
        let_run();
        end_child('b', FAILS);
        mark(".");
        weft_sleep(4 * TICK_S);
        let_run();
        ck_assert_trail(rows[i].expected);
        cancel_supervisor(supervisor);
    }
}
END_TEST

/* P39 */
START_TEST(a_failure_further_up_the_list_takes_over_those_who_wait_below)
{
    plan p;
    cancel_supervisor(spin_abc(&p, WEFT_REST_FOR_ONE, WEFT_ALWAYS));
    p.options.backoff_s = 2 * TICK_S;
    weft_fiber supervisor = weft_spin(follow, &p);
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
END_TEST

static const TTest *const *const tests[] = {
    &one_restart_too_many_in_the_window_and_the_last_error_is_returned,
    &restarts_that_have_left_the_window_do_not_count,
    &the_window_slides,
    &an_infinite_window_counts_every_restart_ever,
    &without_a_limit_it_is_restarted_as_often_as_it_takes,
    &one_incident_counts_once_however_many_are_restarted,
    &a_child_that_ends_well_too_often_is_an_error_of_its_own,
    &a_child_that_is_cancelled_too_often_does_not_make_its_supervisor_look_cancelled,
    &each_restart_of_a_child_in_the_window_waits_twice_as_long_up_to_a_limit,
    &a_run_as_long_as_the_window_begins_the_back_off_anew,
    &children_wait_for_their_restarts_side_by_side,
    &the_other_children_are_looked_after_while_one_waits,
    &those_that_were_stopped_for_a_sibling_wait_for_it_and_start_in_their_order,
    &a_failure_further_up_the_list_takes_over_those_who_wait_below,
};

int main(void)
{
    return run_suite("supervise_time", tests, COUNT_OF(tests));
}

/* The grace time: what a fiber that is being ended can know of the time it has. */
#include "support.h"

static double seen[4];

static void look(void *arg)
{
    seen[(intptr_t)arg] = weft_grace();
}

static weft_value look_when_cancelled(void *arg)
{
    weft_defer(look, arg);
    return weft_suspend();
}

static weft_value have_a_child(void *arg)
{
    weft_spin(look_when_cancelled, arg);
    return look_when_cancelled(as_arg((intptr_t)arg - 1));
}

/* A fiber with a child, both waiting; they look into seen[0] and seen[1]. */
static weft_fiber spin_family(void)
{
    for (size_t i = 0; i < COUNT_OF(seen); i++)
        seen[i] = -1;
    weft_fiber f = weft_spin(have_a_child, as_arg(1));
    let_run();
    return f;
}

static void assert_left(double left, double at_most)
{
    ck_assert_double_gt(left, 0);
    ck_assert_double_le(left, at_most);
}

/* P29 */
START_TEST(the_time_that_is_left_is_seen_in_a_defer_and_by_the_children)
{
    ck_assert_int_eq(weft_terminate(spin_family(), 1000), 0);
    assert_left(seen[0], 1000);
    assert_left(seen[1], seen[0]); /* the children are ended after the defers */
}
END_TEST

/* P29 */
START_TEST(a_plain_cancel_gives_no_time)
{
    weft_fiber f = spin_family();
    ck_assert_double_eq(weft_grace(), 0);
    weft_cancel(f);
    weft_await(f);
    ck_assert_double_eq(seen[0], 0);
    ck_assert_double_eq(seen[1], 0);
    f = weft_spin(look_when_cancelled, as_arg(2));
    let_run();
    ck_assert_int_eq(weft_terminate(f, 0), 0);
    ck_assert_double_eq(seen[2], 0);
}
END_TEST

/* P29 */
START_TEST(an_infinite_time_is_seen_as_such)
{
    ck_assert_int_eq(weft_terminate(spin_family(), INFINITY), 0);
    ck_assert(isinf(seen[0]));
    ck_assert(isinf(seen[1]));
}
END_TEST

static weft_value look_twice(void *arg)
{
    (void)arg;
    seen[0] = weft_grace(); /* not being ended yet */
    weft_suspend();
    WEFT_SHIELD(60) {
        seen[1] = weft_grace();
        weft_sleep(0.002);
        seen[2] = weft_grace();
        weft_sleep(0.01);
        seen[3] = weft_grace();
    }
    return 0;
}

static int terminate_in_time(void)
{
    weft_fiber f = weft_spin(look_twice, NULL);
    let_run();
    if (weft_terminate(f, 0.01) != 0)
        return 1;
    double after = seen[1] > 0.002 ? seen[1] - 0.002 : 0;
    bool is_right = seen[0] == 0 && seen[1] >= 0 && seen[1] <= 0.01;
    return is_right && seen[2] <= after + 1e-6 && seen[3] == 0 ? 0 : 2;
}

/* P29 */
START_TEST(the_time_that_is_left_runs_out_and_is_never_negative)
{
    const outcome *o = run_apart(terminate_in_time);
    ck_assert_int_eq(o->status, 0);
}
END_TEST

/* Cleans up for so many milliseconds. */
static weft_value clean_up(void *arg)
{
    weft_suspend();
    WEFT_SHIELD(weft_grace()) {
        mark(weft_sleep((double)(intptr_t)arg * 1e-3) == 0 ? "in time " : "too late ");
    }
    return 0;
}

static int terminate_three(void)
{
    static const struct {
        intptr_t clean_up_ms;
        double grace_s;
    } cases[] = {{1, 1000}, {600000, 0.002}, {1, 0}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        weft_fiber f = weft_spin(clean_up, as_arg(cases[i].clean_up_ms));
        let_run();
        weft_terminate(f, cases[i].grace_s);
    }
    return strcmp(trail, "in time too late too late ") == 0 ? 0 : 1;
}

/* P29 */
START_TEST(clean_up_behind_a_shield_has_the_time_that_was_given)
{
    ck_assert_int_eq(run_apart(terminate_three)->status, 0);
}
END_TEST

static weft_value open_a_group(void *arg)
{
    int rc = 1;
    (void)arg;
    WEFT_GROUP(g, rc) {
        weft_group_spin(&g, look_when_cancelled, as_arg(0));
        weft_group_spin(&g, look_when_cancelled, as_arg(1));
    }
    return rc;
}

/* P29 */
START_TEST(the_members_of_a_group_have_the_time_of_the_one_that_opened_it)
{
    weft_fiber f = weft_spin(open_a_group, NULL);
    let_run();
    ck_assert_int_eq(weft_terminate(f, 1000), 0);
    assert_left(seen[0], 1000);
    assert_left(seen[1], 1000);
}
END_TEST

static weft_value end_three(void *arg)
{
    (void)arg;
    for (intptr_t i = 0; i < 3; i++)
        weft_spin(look_when_cancelled, as_arg(i));
    let_run();
    return weft_terminate_children(1000);
}

/* P29: all of them are cancelled at once, so all of them have it. */
START_TEST(every_child_that_is_terminated_has_the_time)
{
    ck_assert_int_eq(weft_await(weft_spin(end_three, NULL)), 0);
    for (int i = 0; i < 3; i++)
        assert_left(seen[i], 1000);
}
END_TEST

static weft_value terminate_it(void *arg)
{
    return weft_terminate(arg_id(arg), 1000);
}

static weft_value end_slowly(void *arg)
{
    (void)arg;
    weft_suspend();
    WEFT_SHIELD(60) {
        weft_sleep(0.001);
    }
    seen[0] = weft_grace();
    return 0;
}

/* P29, P30: it is not being ended any more. */
START_TEST(a_fiber_that_runs_again_has_no_time_to_end_in)
{
    weft_fiber f = weft_spin(end_slowly, NULL);
    let_run();
    weft_fiber terminator = weft_spin(terminate_it, id_arg(f));
    weft_snooze();
    ck_assert_int_eq(weft_restart(f), 0);
    assert_left(seen[0], 1000);
    let_run();
    weft_cancel(f);
    weft_await(f);
    ck_assert_double_eq(seen[0], 0);
    weft_await(terminator);
}
END_TEST

/* Fibers that terminate others: the one whose wait would never end gets -EDEADLK, as a value. */
typedef struct terminator {
    weft_fiber id, other;
    double grace_s;
    int rc;
    struct terminator *child; /* NULL: none */
} terminator;

static weft_value terminate_other(void *arg)
{
    terminator *t = arg;
    if (t->child != NULL)
        t->child->id = weft_spin(terminate_other, t->child);
    weft_suspend();
    t->rc = weft_terminate(t->other, t->grace_s);
    return 0;
}

/* Set them going in this order; all have ended when it returns. The sum of their results. */
static int run_terminators(terminator *t, size_t n, double grace_s)
{
    int sum = 0;
    for (size_t i = 0; i < n; i++) {
        t[i].grace_s = grace_s;
        weft_schedule(t[i].id, 0);
    }
    for (size_t i = 0; i < n; i++) {
        if (weft_state_of(t[i].id) != WEFT_DEAD)
            weft_await(t[i].id);
        sum += t[i].rc;
    }
    return sum;
}

START_TEST(fibers_that_terminate_each_other_in_a_circle_all_end)
{
    for (size_t n = 2; n <= 4; n++)
        for (double grace_s = 0; grace_s <= 1000; grace_s += 500) {
            terminator t[4] = {{0}};
            for (size_t i = 0; i < n; i++)
                t[i].id = weft_spin(terminate_other, &t[i]);
            for (size_t i = 0; i < n; i++)
                t[i].other = t[(i + 1) % n].id;
            let_run();
            ck_assert_int_eq(run_terminators(t, n, grace_s), -EDEADLK);
        }
}
END_TEST

/* The second terminates the first, whose child terminates the second; each of them may be first. */
START_TEST(a_fiber_ends_whose_child_terminates_the_one_that_terminates_it)
{
    for (int order = 0; order < 2; order++) {
        terminator child = {.grace_s = 1000}, parent = {.child = &child}, other = {0};
        parent.id = weft_spin(terminate_other, &parent);
        other.id = weft_spin(terminate_other, &other);
        other.other = parent.id;
        child.other = other.id;
        let_run();
        other.grace_s = 1000;
        weft_schedule(order == 0 ? child.id : other.id, 0);
        weft_schedule(order == 0 ? other.id : child.id, 0);
        ck_assert_int_ne(weft_await(other.id), -EDEADLK);
        ck_assert_int_eq(child.rc + other.rc, -EDEADLK);
        if (weft_state_of(parent.id) != WEFT_DEAD)
            weft_terminate(parent.id, 0);
    }
}
END_TEST

static const TTest *const *const tests[] = {
    &the_time_that_is_left_is_seen_in_a_defer_and_by_the_children,
    &a_plain_cancel_gives_no_time,
    &an_infinite_time_is_seen_as_such,
    &the_time_that_is_left_runs_out_and_is_never_negative,
    &clean_up_behind_a_shield_has_the_time_that_was_given,
    &the_members_of_a_group_have_the_time_of_the_one_that_opened_it,
    &every_child_that_is_terminated_has_the_time,
    &a_fiber_that_runs_again_has_no_time_to_end_in,
    &fibers_that_terminate_each_other_in_a_circle_all_end,
    &a_fiber_ends_whose_child_terminates_the_one_that_terminates_it,
};

int main(void)
{
    return run_suite("grace", tests, COUNT_OF(tests));
}

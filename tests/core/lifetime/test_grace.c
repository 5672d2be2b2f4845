/* Tests of the grace period that an ending fiber can query. */
#include "support/suite.h"

static double seen[4];

CALLBACK(store_grace, seen[(intptr_t)arg] = weft_grace())
FIBER_DO(store_grace_when_cancelled, weft_defer(store_grace, arg), weft_suspend())

static weft_value store_grace_with_child(void *arg)
{
    weft_spin(store_grace_when_cancelled, arg);
    return store_grace_when_cancelled(as_arg((intptr_t)arg - 1));
}

/* Return a fiber with a child, both waiting. They store their grace period in seen[0] and [1]. */
static weft_fiber spin_with_child(void)
{
    for (size_t i = 0; i < COUNT_OF(seen); i++)
        seen[i] = -1;
    return spin_waiting(store_grace_with_child, as_arg(1));
}

static void assert_left(double left, double at_most)
{
    ck_assert_double_gt(left, 0);
    ck_assert_double_le(left, at_most);
}

TEST(deferred_calls_and_children_see_the_remaining_grace_period)
{ /* P29 */
    ck_assert_int_eq(weft_terminate(spin_with_child(), 1000), 0);
    assert_left(seen[0], 1000);
    assert_left(seen[1], seen[0]); /* the children are cancelled after the deferred calls */
    ck_assert_int_eq(weft_terminate(spin_with_child(), INFINITY), 0);
    ck_assert(isinf(seen[0]) && isinf(seen[1]));
}

TEST(a_cancel_gives_no_grace_period)
{ /* P29 */
    weft_fiber f = spin_with_child();
    ck_assert_double_eq(weft_grace(), 0);
    cancel_and_await(f);
    ck_assert(seen[0] == 0 && seen[1] == 0);
    ck_assert_int_eq(weft_terminate(spin_with_child(), 0), 0);
    ck_assert(seen[0] == 0 && seen[1] == 0);
}

static weft_value store_grace_four_times(void *arg)
{
    seen[0] = weft_grace(); /* not ending yet */
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

TEST_PROGRAM_PRINTS(the_remaining_grace_period_decreases_and_is_never_negative, 0, "")
{ /* P29 */
    weft_fiber f = spin_waiting(store_grace_four_times, NULL);
    if (weft_terminate(f, 0.01) != 0)
        return 1;
    double after = seen[1] > 0.002 ? seen[1] - 0.002 : 0;
    bool is_right = seen[0] == 0 && seen[1] >= 0 && seen[1] <= 0.01;
    return is_right && seen[2] <= after + 1e-6 && seen[3] == 0 ? 0 : 2;
}

static weft_value clean_up(void *arg)
{
    weft_suspend();
    WEFT_SHIELD(weft_grace())
        mark(weft_sleep((double)(intptr_t)arg * 1e-3) == 0 ? "in time " : "too late ");
    return 0;
}

TEST_PROGRAM_PRINTS(a_shielded_cleanup_has_the_grace_period, 0, "")
{ /* P29 */
    static const struct {
        intptr_t clean_up_ms;
        double grace_s;
    } cases[] = {{1, 1000}, {600000, 0.002}, {1, 0}};
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        weft_terminate(spin_waiting(clean_up, as_arg(cases[i].clean_up_ms)), cases[i].grace_s);
    return strcmp(trail, "in time too late too late ") == 0 ? 0 : 1;
}

static weft_value open_group_and_wait(void *arg)
{
    int rc = 1;
    WEFT_GROUP(g, rc) {
        weft_group_spin(&g, store_grace_when_cancelled, as_arg(0));
        weft_group_spin(&g, store_grace_when_cancelled, as_arg(1));
    }
    return rc;
}

TEST(group_members_have_the_grace_period_of_the_fiber_that_opened_the_group)
{ /* P29 */
    weft_fiber f = spin_waiting(open_group_and_wait, NULL);
    ck_assert_int_eq(weft_terminate(f, 1000), 0);
    assert_left(seen[0], 1000);
    assert_left(seen[1], 1000);
}

static weft_value terminate_three_children(void *arg)
{
    for (intptr_t i = 0; i < 3; i++)
        weft_spin(store_grace_when_cancelled, as_arg(i));
    let_run();
    return weft_terminate_children(1000);
}

TEST(every_terminated_child_has_the_grace_period)
{ /* P29: all children are cancelled at the same time, so all have the full grace period. */
    ck_assert_int_eq(weft_await(weft_spin(terminate_three_children, NULL)), 0);
    for (int i = 0; i < 3; i++)
        assert_left(seen[i], 1000);
}

FIBER(terminate_fiber, weft_terminate(arg_id(arg), 1000))

static weft_value store_grace_after_shield(void *arg)
{
    weft_suspend();
    WEFT_SHIELD(60)
        weft_sleep(0.001);
    seen[0] = weft_grace();
    return 0;
}

TEST(a_restarted_fiber_has_no_grace_period)
{ /* P29, P30: the restarted fiber is no longer ending. */
    weft_fiber f = spin_waiting(store_grace_after_shield, NULL);
    weft_fiber terminator = spin_waiting(terminate_fiber, id_arg(f));
    ck_assert_int_eq(weft_restart(f), 0);
    assert_left(seen[0], 1000);
    let_run();
    cancel_and_await(f);
    ck_assert_double_eq(seen[0], 0);
    weft_await(terminator);
}

/*
 * Fibers that terminate each other. The call that would never return gets -EDEADLK as its result.
 */
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

/* Schedule the fibers in order and wait for their end. Return the sum of their results. */
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

TEST(fibers_that_terminate_each_other_in_a_cycle_all_end)
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

/*
 * The second fiber terminates the first. The child of the first terminates the second. Either may
 * start first.
 */
TEST(a_fiber_with_a_child_that_terminates_its_terminator_ends)
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

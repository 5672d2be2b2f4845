/*
 * Pools of resources: limit and order, acquiring again, discarding, resources that cannot be made,
 * holders that end, and every race of a hand-over with a cancellation.
 */
#include "support.h"

/* What makes the resources: they are 1, 2, 3 ... in the order of their making. */
static struct {
    int made, destroyed, failed;
    int failures; /* so many of the next are not made */
    bool is_slow; /* making one takes a weft_schedule of maker */
    weft_fiber maker;
    char gone[64]; /* those that were destroyed, in order */
} factory;

static weft_pool *pool;

static weft_value make(void *arg)
{
    ck_assert_ptr_eq(arg, &factory);
    weft_value rc = 0;
    if (factory.is_slow) {
        factory.maker = weft_self();
        rc = weft_suspend();
        factory.maker = 0;
    }
    if (weft_is_error(rc))
        return weft_fail((int)rc, "the making was cut short");
    if (factory.failures > 0) {
        factory.failures--;
        factory.failed++;
        return weft_fail(-ECONNREFUSED, "number %d cannot be made", factory.failed);
    }
    return ++factory.made;
}

static void destroy(weft_value resource, void *arg)
{
    ck_assert_ptr_eq(arg, &factory);
    factory.destroyed++;
    size_t used = strlen(factory.gone);
    snprintf(factory.gone + used, sizeof factory.gone - used, "%d ", (int)resource);
}

static void open_pool(size_t limit)
{
    weft_pool_options options = {.limit = limit, .make = make, .destroy = destroy, .arg = &factory};
    pool = weft_pool_new(&options);
    ck_assert_ptr_nonnull(pool);
}

/* How many there are, how many of them are free, and how many wait. */
static void assert_pool(size_t size, size_t available, size_t waiting)
{
    ck_assert_uint_eq(weft_pool_size(pool), size);
    ck_assert_uint_eq(weft_pool_available(pool), available);
    ck_assert_uint_eq(weft_pool_waiting(pool), waiting);
    ck_assert_int_eq(factory.made - factory.destroyed, (int)size);
}

/* A fiber that acquires one, and then does as it is told. */
typedef struct user {
    const char *name;
    weft_fiber fiber;
    weft_value got; /* what acquire last returned; 0: it has not */
} user;

enum { RELEASE = 1, DISCARD, ACQUIRE, END };

static void acquire(user *u)
{
    u->got = 0;
    u->got = weft_pool_acquire(pool);
    mark(u->name);
}

static weft_value use(void *arg)
{
    user *u = arg;
    acquire(u);
    weft_value told;
    while ((told = weft_suspend()) != END) {
        if (weft_is_error(told))
            return told;
        if (told == RELEASE)
            ck_assert_int_eq(weft_pool_release(pool, u->got), 0);
        else if (told == DISCARD)
            ck_assert_int_eq(weft_pool_discard(pool, u->got), 0);
        else
            acquire(u);
    }
    return 0;
}

static void spin_user(user *u, const char *name)
{
    u->name = name;
    u->got = 0;
    u->fiber = weft_spin(use, u);
    ck_assert_uint_ne(u->fiber, 0);
    let_run();
}

static void tell(user *u, weft_value what)
{
    ck_assert_int_eq(weft_schedule(u->fiber, what), 0);
    let_run();
}

/*
 * All has been given back: as many as the limit can be had again, and the pool can be freed.
 */
static void assert_whole(size_t limit)
{
    user users[5];
    factory.failures = 0;
    factory.is_slow = false;
    let_run();
    ck_assert_uint_eq(weft_pool_waiting(pool), 0);
    ck_assert_uint_eq(weft_pool_available(pool), weft_pool_size(pool));
    ck_assert_uint_le(limit, COUNT_OF(users));
    for (size_t i = 0; i < limit; i++) {
        spin_user(&users[i], "");
        ck_assert_int_gt(users[i].got, 0);
    }
    ck_assert_int_eq(weft_pool_try_acquire(pool), -EAGAIN);
    for (size_t i = 0; i < limit; i++)
        tell(&users[i], RELEASE);
    ck_assert_int_eq(weft_pool_free(pool), 0);
    ck_assert_int_eq(factory.destroyed, factory.made);
}

/* P57 */
START_TEST(as_many_as_the_limit_are_made_and_then_one_waits)
{
    user users[4];
    open_pool(3);
    assert_pool(0, 0, 0);
    for (int i = 0; i < 4; i++)
        spin_user(&users[i], "");
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(users[i].got, i + 1);
    ck_assert_int_eq(users[3].got, 0);
    assert_pool(3, 0, 1);
    tell(&users[1], RELEASE);
    ck_assert_int_eq(users[3].got, 2);
    assert_pool(3, 0, 0);
    tell(&users[0], RELEASE);
    tell(&users[2], RELEASE);
    tell(&users[3], RELEASE);
    assert_pool(3, 3, 0);
    assert_whole(3);
}
END_TEST

/* P57: a, b, a, b */
START_TEST(the_one_that_was_released_first_is_acquired_next)
{
    user u, v;
    open_pool(2);
    spin_user(&u, "");
    spin_user(&v, "");
    tell(&u, RELEASE);
    tell(&v, RELEASE);
    for (int i = 0; i < 6; i++) {
        weft_value resource = weft_pool_acquire(pool);
        ck_assert_int_eq(resource, i % 2 + 1);
        ck_assert_int_eq(weft_pool_release(pool, resource), 0);
    }
    tell(&v, ACQUIRE);
    tell(&u, ACQUIRE);
    ck_assert_int_eq(v.got, 1);
    ck_assert_int_eq(u.got, 2);
    tell(&u, RELEASE);
    tell(&v, RELEASE);
    ck_assert_int_eq(weft_pool_acquire(pool), 2);
    ck_assert_int_eq(weft_pool_release(pool, 2), 0);
    assert_whole(2);
}
END_TEST

START_TEST(what_is_free_is_acquired_before_another_is_made)
{
    open_pool(5);
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(weft_pool_acquire(pool), 1);
        ck_assert_int_eq(weft_pool_release(pool, 1), 0);
    }
    assert_pool(1, 1, 0);
    assert_whole(5);
}
END_TEST

START_TEST(those_who_wait_are_served_in_the_order_in_which_they_came)
{
    user first, others[3];
    open_pool(1);
    spin_user(&first, "1");
    for (int i = 0; i < 3; i++)
        spin_user(&others[i], i == 0 ? "2" : i == 1 ? "3" : "4");
    tell(&first, RELEASE);
    tell(&first, ACQUIRE); /* behind those who were there before */
    for (int i = 0; i < 3; i++)
        tell(&others[i], RELEASE);
    ck_assert_trail("12341");
    tell(&first, RELEASE);
    assert_whole(1);
}
END_TEST

START_TEST(one_that_is_handed_over_cannot_be_taken_before_the_one_who_waited_has_run)
{
    user u;
    open_pool(1);
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    spin_user(&u, "");
    assert_pool(1, 0, 1);
    ck_assert_int_eq(weft_pool_release(pool, 1), 0);
    assert_pool(1, 0, 0); /* it is held already */
    ck_assert_int_eq(u.got, 0);
    ck_assert_int_eq(weft_pool_try_acquire(pool), -EAGAIN);
    let_run();
    ck_assert_int_eq(u.got, 1);
    tell(&u, RELEASE);
    assert_whole(1);
}
END_TEST

/* P57 */
START_TEST(a_holder_that_acquires_again_gets_the_same_one_and_releases_it_as_often)
{
    user u;
    open_pool(1);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(i == 1 ? weft_pool_try_acquire(pool) : weft_pool_acquire(pool), 1);
    spin_user(&u, "");
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(u.got, 0);
        ck_assert_int_eq(weft_pool_release(pool, 1), 0);
        let_run();
    }
    ck_assert_int_eq(u.got, 1);
    ck_assert_int_eq(factory.made, 1);
    tell(&u, RELEASE);
    assert_whole(1);
}
END_TEST

START_TEST(one_fiber_may_hold_one_of_each_of_several_pools)
{
    weft_pool *pools[3];
    for (int i = 0; i < 3; i++) {
        open_pool(1);
        pools[i] = pool;
        ck_assert_int_eq(weft_pool_acquire(pools[i]), i + 1);
    }
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(weft_pool_acquire(pools[i]), i + 1);
        ck_assert_int_eq(weft_pool_release(pools[i], (i + 1) % 3 + 1), -EINVAL);
    }
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(weft_pool_release(pools[i], i + 1), 0);
        ck_assert_int_eq(weft_pool_free(pools[i]), -EBUSY);
        ck_assert_int_eq(weft_pool_release(pools[i], i + 1), 0);
        ck_assert_int_eq(weft_pool_free(pools[i]), 0);
    }
}
END_TEST

/* P57 */
START_TEST(a_discarded_one_is_destroyed_and_another_is_made_in_its_place)
{
    open_pool(1);
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    ck_assert_int_eq(weft_pool_discard(pool, 1), 0); /* however often it was acquired */
    ck_assert_str_eq(factory.gone, "1 ");
    assert_pool(0, 0, 0);
    ck_assert_int_eq(weft_pool_release(pool, 1), -EINVAL);
    ck_assert_int_eq(weft_pool_acquire(pool), 2);
    ck_assert_int_eq(weft_pool_release(pool, 2), 0);
    assert_whole(1);
}
END_TEST

START_TEST(one_that_is_discarded_while_others_wait_is_made_anew_by_the_first_of_them)
{
    user u[4];
    open_pool(1);
    for (int i = 0; i < 4; i++)
        spin_user(&u[i], "");
    assert_pool(1, 0, 3);
    weft_schedule(u[0].fiber, DISCARD);
    weft_snooze();
    ck_assert_uint_eq(weft_pool_waiting(pool), 2);
    let_run();
    ck_assert_int_eq(u[1].got, 2);
    ck_assert_int_eq(u[2].got, 0);
    assert_pool(1, 0, 2);
    tell(&u[1], DISCARD);
    tell(&u[2], RELEASE);
    ck_assert_int_eq(u[2].got, 3);
    ck_assert_int_eq(u[3].got, 3);
    tell(&u[3], RELEASE);
    ck_assert_str_eq(factory.gone, "1 2 ");
    assert_whole(1);
}
END_TEST

/* P57 */
START_TEST(one_that_cannot_be_made_leaves_the_limit_as_it_was)
{
    open_pool(2);
    factory.failures = 5;
    for (int i = 1; i <= 5; i++) {
        char words[64];
        snprintf(words, sizeof words, "number %d cannot be made", i);
        ck_assert_int_eq(i % 2 ? weft_pool_acquire(pool) : weft_pool_try_acquire(pool),
                         -ECONNREFUSED);
        ck_assert_words(-ECONNREFUSED, words);
        assert_pool(0, 0, 0);
    }
    user u;
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    spin_user(&u, "");
    ck_assert_int_eq(u.got, 2);
    ck_assert_int_eq(weft_pool_release(pool, 1), 0);
    tell(&u, RELEASE);
    assert_whole(2);
}
END_TEST

static weft_value would_have_to_wait(void *arg)
{
    (void)arg;
    return -EAGAIN;
}

START_TEST(the_error_of_make_is_no_reason_to_wait_whichever_it_is)
{
    pool = weft_pool_new(&(weft_pool_options){.limit = 1, .make = would_have_to_wait});
    ck_assert_int_eq(weft_pool_acquire(pool), -EAGAIN);
    ck_assert_int_eq(weft_pool_try_acquire(pool), -EAGAIN);
    ck_assert_int_eq(weft_pool_free(pool), 0);
}
END_TEST

/* Everyone who waits behind one that makes its own gets the chance to make it. */
START_TEST(when_one_cannot_be_made_the_next_who_waits_tries)
{
    user u[4];
    open_pool(1);
    factory.is_slow = true;
    for (int i = 0; i < 4; i++)
        spin_user(&u[i], "");
    assert_pool(0, 0, 3);
    factory.failures = 2;
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(factory.maker, u[i].fiber);
        ck_assert_uint_eq(weft_pool_waiting(pool), 3 - (size_t)i);
        ck_assert_int_eq(weft_schedule(factory.maker, 0), 0);
        let_run();
        ck_assert_int_eq(u[i].got, i < 2 ? -ECONNREFUSED : 1);
    }
    assert_pool(1, 0, 1);
    tell(&u[2], RELEASE);
    ck_assert_int_eq(u[3].got, 1);
    tell(&u[3], RELEASE);
    assert_whole(1);
}
END_TEST

START_TEST(when_none_can_be_made_everyone_is_told_and_nobody_waits_for_ever)
{
    user u[4];
    open_pool(1);
    factory.is_slow = true;
    for (int i = 0; i < 4; i++)
        spin_user(&u[i], "");
    factory.failures = 4;
    factory.is_slow = false; /* those who come after the first do not wait */
    ck_assert_int_eq(weft_schedule(factory.maker, 0), 0);
    let_run();
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(u[i].got, -ECONNREFUSED);
    assert_pool(0, 0, 0);
    assert_whole(1);
}
END_TEST

START_TEST(while_one_is_made_slowly_others_go_on_with_what_is_released)
{
    user holder, maker, waiter;
    open_pool(2);
    spin_user(&holder, "h");
    factory.is_slow = true;
    spin_user(&maker, "m");
    spin_user(&waiter, "w");
    assert_pool(1, 0, 1);
    ck_assert_int_eq(weft_pool_free(pool), -EBUSY);
    tell(&holder, RELEASE);
    ck_assert_int_eq(waiter.got, 1);
    tell(&waiter, RELEASE);
    assert_pool(1, 1, 0);
    ck_assert_int_eq(weft_pool_free(pool), -EBUSY); /* for the one that is being made */
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    ck_assert_int_eq(weft_pool_release(pool, 1), 0);
    tell(&maker, 0); /* it is in make */
    ck_assert_int_eq(maker.got, 2);
    ck_assert_trail("hwm");
    tell(&maker, RELEASE);
    assert_pool(2, 2, 0);
    assert_whole(2);
}
END_TEST

START_TEST(who_may_make_one_takes_one_that_was_released_before_it_came_to_run)
{
    user u[3];
    open_pool(2);
    for (int i = 0; i < 3; i++)
        spin_user(&u[i], "");
    weft_schedule(u[0].fiber, DISCARD);
    weft_schedule(u[1].fiber, RELEASE);
    let_run();
    ck_assert_int_eq(u[2].got, 2);
    assert_pool(1, 0, 0);
    ck_assert_int_eq(factory.made, 2);
    tell(&u[2], RELEASE);
    assert_whole(2);
}
END_TEST

/* P57 */
START_TEST(a_fiber_that_is_cancelled_while_it_waits_leaves_the_line)
{
    user u[4];
    open_pool(1);
    for (int i = 0; i < 4; i++)
        spin_user(&u[i], "");
    ck_assert_int_eq(weft_cancel(u[1].fiber), 0);
    ck_assert_uint_eq(weft_pool_waiting(pool), 2);
    let_run();
    ck_assert_int_eq(u[1].got, -ECANCELED);
    ck_assert_int_eq(weft_interrupt(u[2].fiber, -77), 0);
    let_run();
    ck_assert_int_eq(u[2].got, -77);
    ck_assert_uint_eq(weft_pool_waiting(pool), 1);
    tell(&u[0], RELEASE);
    ck_assert_int_eq(u[3].got, 1);
    tell(&u[3], RELEASE);
    assert_whole(1);
}
END_TEST

static weft_value acquire_in_time(void *arg)
{
    int rc;
    WEFT_CANCEL_AFTER(0.01, rc) {
        *(weft_value *)arg = weft_pool_acquire(pool);
    }
    return rc;
}

START_TEST(a_wait_whose_time_is_over_leaves_the_line)
{
    weft_value got = 0;
    open_pool(1);
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    ck_assert_int_eq(weft_await(weft_spin(acquire_in_time, &got)), -ETIMEDOUT);
    ck_assert_int_eq(got, -ECANCELED);
    assert_pool(1, 0, 0);
    ck_assert_int_eq(weft_pool_release(pool, 1), 0);
    assert_whole(1);
}
END_TEST

/* Served first: it has what it wanted, and is told of the cancellation at its next call. */
START_TEST(one_that_is_released_before_its_waiter_is_cancelled_is_the_waiters)
{
    user u, v;
    open_pool(1);
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    spin_user(&u, "");
    spin_user(&v, "");
    ck_assert_int_eq(weft_pool_release(pool, 1), 0);
    ck_assert_int_eq(weft_cancel(u.fiber), 0);
    let_run();
    ck_assert_int_eq(u.got, 1); /* and it ended without releasing it */
    ck_assert_str_eq(factory.gone, "1 ");
    ck_assert_int_eq(v.got, 2);
    tell(&v, RELEASE);
    assert_whole(1);
}
END_TEST

START_TEST(one_that_is_released_after_its_waiter_was_cancelled_is_the_next_ones)
{
    user u, v;
    open_pool(1);
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    spin_user(&u, "");
    spin_user(&v, "");
    ck_assert_int_eq(weft_cancel(u.fiber), 0);
    ck_assert_int_eq(weft_pool_release(pool, 1), 0);
    let_run();
    ck_assert_int_eq(u.got, -ECANCELED);
    ck_assert_int_eq(v.got, 1);
    tell(&v, RELEASE);
    ck_assert_int_eq(factory.destroyed, 0);
    assert_whole(1);
}
END_TEST

START_TEST(when_everyone_is_cancelled_as_one_is_released_it_is_free_or_made_anew)
{
    for (int released_first = 0; released_first < 2; released_first++) {
        user u[5];
        open_pool(1);
        weft_value resource = weft_pool_acquire(pool);
        for (int i = 0; i < 5; i++)
            spin_user(&u[i], "");
        if (released_first)
            weft_pool_release(pool, resource);
        for (int i = 0; i < 5; i++)
            weft_cancel(u[i].fiber);
        if (!released_first)
            weft_pool_release(pool, resource);
        let_run();
        ck_assert_int_eq(u[0].got, released_first ? resource : -ECANCELED);
        for (int i = 1; i < 5; i++)
            ck_assert_int_eq(u[i].got, -ECANCELED);
        ck_assert_uint_eq(weft_pool_size(pool), released_first ? 0 : 1);
        assert_whole(1);
    }
}
END_TEST

/* It is told to make one, and cancelled before it could: the next is told. */
START_TEST(who_is_cancelled_with_the_place_to_make_one_in_passes_it_on)
{
    user u[3];
    open_pool(1);
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    factory.is_slow = true;
    for (int i = 0; i < 3; i++)
        spin_user(&u[i], "");
    ck_assert_int_eq(weft_pool_discard(pool, 1), 0);
    ck_assert_int_eq(weft_cancel(u[0].fiber), 0);
    let_run();
    ck_assert_int_eq(u[0].got, -ECANCELED); /* make found out */
    ck_assert_uint_eq(factory.maker, u[1].fiber);
    ck_assert_int_eq(weft_cancel(u[1].fiber), 0); /* in the middle of it */
    let_run();
    ck_assert_int_eq(u[1].got, -ECANCELED);
    ck_assert_uint_eq(factory.maker, u[2].fiber);
    tell(&u[2], 0);
    ck_assert_int_eq(u[2].got, 2);
    tell(&u[2], RELEASE);
    assert_whole(1);
}
END_TEST

START_TEST(when_everyone_is_cancelled_as_one_is_discarded_its_place_is_not_lost)
{
    for (int discarded_first = 0; discarded_first < 2; discarded_first++) {
        user u[5];
        open_pool(1);
        weft_value resource = weft_pool_acquire(pool);
        factory.is_slow = true;
        for (int i = 0; i < 5; i++)
            spin_user(&u[i], "");
        if (discarded_first)
            weft_pool_discard(pool, resource);
        for (int i = 0; i < 5; i++)
            weft_cancel(u[i].fiber);
        if (!discarded_first)
            weft_pool_discard(pool, resource);
        let_run();
        for (int i = 0; i < 5; i++)
            ck_assert_int_eq(u[i].got, -ECANCELED);
        ck_assert_uint_eq(weft_pool_size(pool), 0);
        assert_whole(1);
    }
}
END_TEST

static weft_value acquire_though_cancelled(void *arg)
{
    weft_value *got = arg;
    ck_assert_int_eq(weft_suspend(), -ECANCELED);
    got[0] = weft_pool_acquire(pool); /* nobody has it */
    weft_pool_release(pool, got[0]);
    ck_assert_int_eq(weft_schedule(weft_main(), 0), 0);
    WEFT_SHIELD(INFINITY) {
        weft_suspend();
    }
    got[1] = weft_pool_acquire(pool); /* main has it */
    return 0;
}

START_TEST(a_cancelled_fiber_gets_what_need_not_be_waited_for)
{
    weft_value got[2] = {0};
    open_pool(1);
    weft_fiber f = weft_spin(acquire_though_cancelled, got);
    let_run();
    weft_cancel(f);
    weft_suspend();
    ck_assert_int_eq(got[0], 1);
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    weft_schedule(f, 0);
    weft_await(f);
    ck_assert_int_eq(got[1], -ECANCELED);
    ck_assert_int_eq(weft_pool_release(pool, 1), 0);
    assert_whole(1);
}
END_TEST

START_TEST(what_a_fiber_holds_when_it_ends_is_discarded_and_the_next_makes_another)
{
    user u, v;
    open_pool(1);
    spin_user(&u, "");
    tell(&u, ACQUIRE); /* twice makes no difference */
    spin_user(&v, "");
    tell(&u, END);
    ck_assert_str_eq(factory.gone, "1 ");
    ck_assert_int_eq(v.got, 2);
    ck_assert_int_eq(weft_stop(v.fiber, 0), 0);
    let_run();
    ck_assert_str_eq(factory.gone, "1 2 ");
    assert_pool(0, 0, 0);
    assert_whole(1);
}
END_TEST

START_TEST(what_a_fiber_holds_when_it_is_restarted_is_discarded_and_it_may_have_another)
{
    user u;
    open_pool(1);
    spin_user(&u, "");
    ck_assert_int_eq(u.got, 1);
    ck_assert_int_eq(weft_restart(u.fiber), 0);
    let_run();
    ck_assert_str_eq(factory.gone, "1 ");
    ck_assert_int_eq(u.got, 2);
    assert_pool(1, 0, 0);
    tell(&u, RELEASE);
    assert_whole(1);
}
END_TEST

static weft_value hold_and_have_a_child(void *arg)
{
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    spin_user(arg, "");
    return 0;
}

START_TEST(a_child_that_waits_for_what_its_parent_holds_does_not_keep_it_from_ending)
{
    user child;
    open_pool(1);
    ck_assert_int_eq(weft_await(weft_spin(hold_and_have_a_child, &child)), 0);
    ck_assert_int_eq(weft_state_of(child.fiber), WEFT_DEAD);
    assert_pool(0, 0, 0);
    assert_whole(1);
}
END_TEST

static weft_value release_it(void *arg)
{
    return weft_pool_release(pool, (weft_value)arg);
}

static weft_value discard_it(void *arg)
{
    return weft_pool_discard(pool, (weft_value)arg);
}

START_TEST(any_fiber_may_give_back_what_another_holds)
{
    user u;
    open_pool(2);
    spin_user(&u, "");
    tell(&u, ACQUIRE);
    ck_assert_int_eq(weft_pool_acquire(pool), 2);
    ck_assert_int_eq(weft_await(weft_spin(release_it, as_arg(1))), 0);
    assert_pool(2, 0, 0); /* it was acquired twice */
    ck_assert_int_eq(weft_pool_release(pool, 1), 0);
    assert_pool(2, 1, 0);
    tell(&u, END); /* and it holds nothing any more */
    ck_assert_int_eq(factory.destroyed, 0);
    ck_assert_int_eq(weft_await(weft_spin(discard_it, as_arg(2))), 0);
    assert_pool(1, 1, 0);
    ck_assert_int_eq(weft_pool_acquire(pool), 1); /* not the one that it held */
    ck_assert_int_eq(weft_pool_release(pool, 1), 0);
    assert_whole(2);
}
END_TEST

START_TEST(what_is_not_held_can_be_neither_released_nor_discarded)
{
    open_pool(2);
    ck_assert_int_eq(weft_pool_release(pool, 1), -EINVAL);
    ck_assert_any_words(-EINVAL);
    ck_assert_int_eq(weft_pool_discard(pool, 1), -EINVAL);
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    ck_assert_int_eq(weft_pool_release(pool, 2), -EINVAL);
    ck_assert_int_eq(weft_pool_release(pool, 1), 0);
    ck_assert_int_eq(weft_pool_release(pool, 1), -EINVAL);
    ck_assert_int_eq(weft_pool_discard(pool, 1), -EINVAL);
    assert_pool(1, 1, 0);
    assert_whole(2);
}
END_TEST

START_TEST(a_pool_that_is_in_use_is_not_freed)
{
    user u;
    open_pool(1);
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    ck_assert_int_eq(weft_pool_free(pool), -EBUSY);
    ck_assert_any_words(-EBUSY);
    spin_user(&u, "");
    ck_assert_int_eq(weft_pool_free(pool), -EBUSY);
    assert_pool(1, 0, 1);
    ck_assert_int_eq(weft_pool_release(pool, 1), 0);
    ck_assert_int_eq(weft_pool_free(pool), -EBUSY);
    let_run();
    tell(&u, RELEASE);
    ck_assert_int_eq(factory.destroyed, 0);
    ck_assert_int_eq(weft_pool_free(pool), 0);
    ck_assert_str_eq(factory.gone, "1 ");
    ck_assert_int_eq(weft_pool_free(NULL), 0);
}
END_TEST

static void expect_no_pool(const weft_pool_options *options)
{
    weft_error_clear();
    ck_assert_ptr_null(weft_pool_new(options));
    ck_assert_any_words(-EINVAL);
}

START_TEST(options_that_make_no_sense_make_no_pool)
{
    expect_no_pool(NULL);
    expect_no_pool(&(weft_pool_options){.limit = 1});
    expect_no_pool(&(weft_pool_options){.make = make});
}
END_TEST

static weft_value make_nothing(void *arg)
{
    (void)arg;
    return 0;
}

static weft_value hold_nothing(void *arg)
{
    (void)arg;
    ck_assert_int_eq(weft_pool_acquire(pool), 0);
    weft_suspend();
    ck_assert_int_eq(weft_pool_release(pool, 0), 0); /* its own: it loses nothing as it ends */
    return 0;
}

/* A value like any other; and of those that look alike, each releases its own. */
START_TEST(resources_may_be_equal_and_need_not_be_destroyed)
{
    pool = weft_pool_new(&(weft_pool_options){.limit = SIZE_MAX, .make = make_nothing});
    ck_assert_int_eq(weft_pool_acquire(pool), 0);
    weft_fiber f = weft_spin(hold_nothing, NULL);
    let_run();
    ck_assert_uint_eq(weft_pool_size(pool), 2);
    weft_schedule(f, 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_uint_eq(weft_pool_size(pool), 2);
    ck_assert_uint_eq(weft_pool_available(pool), 1);
    ck_assert_int_eq(weft_pool_release(pool, 0), 0);
    ck_assert_int_eq(weft_pool_release(pool, 0), -EINVAL);
    ck_assert_int_eq(weft_pool_acquire(pool), 0);
    ck_assert_int_eq(weft_pool_discard(pool, 0), 0);
    ck_assert_int_eq(weft_pool_free(pool), 0);
}
END_TEST

static weft_value acquire_to_make(void *arg)
{
    (void)arg;
    factory.made++;
    return factory.made == 1 ? weft_pool_acquire(pool) + 10 : factory.made;
}

START_TEST(making_one_may_take_another)
{
    pool = weft_pool_new(&(weft_pool_options){.limit = 2, .make = acquire_to_make});
    ck_assert_int_eq(weft_pool_acquire(pool), 12);
    ck_assert_int_eq(weft_pool_release(pool, 2), 0);
    ck_assert_int_eq(weft_pool_release(pool, 12), 0);
    ck_assert_int_eq(weft_pool_release(pool, 12), -EINVAL);
    ck_assert_uint_eq(weft_pool_available(pool), 2);
    ck_assert_int_eq(weft_pool_free(pool), 0);
}
END_TEST

/* Told not to block, it does all the same. */
static void destroy_slowly(weft_value resource, void *arg)
{
    ck_assert_uint_eq(weft_pool_size(pool), 0);
    ck_assert_int_eq(weft_pool_try_acquire(pool), -EAGAIN); /* its place is not free yet */
    weft_snooze();
    destroy(resource, arg);
}

START_TEST(what_is_destroyed_slowly_keeps_its_place_until_it_is_gone)
{
    user u, v;
    weft_pool_options options = {
        .limit = 1, .make = make, .destroy = destroy_slowly, .arg = &factory};
    pool = weft_pool_new(&options);
    spin_user(&u, "");
    spin_user(&v, "");
    ck_assert_int_eq(weft_schedule(u.fiber, DISCARD), 0);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_pool_free(pool), -EBUSY);
    ck_assert_int_eq(weft_pool_discard(pool, 1), -EINVAL);
    let_run();
    ck_assert_str_eq(factory.gone, "1 ");
    ck_assert_int_eq(v.got, 2);
    tell(&v, END);
    ck_assert_str_eq(factory.gone, "1 2 ");
    ck_assert_int_eq(weft_pool_free(pool), 0);
}
END_TEST

static void say_gone(weft_value resource, void *arg)
{
    (void)arg;
    fprintf(stderr, "%d is gone\n", (int)resource);
}

static int exit_with_one_held(void)
{
    weft_pool_options options = {.limit = 2, .make = make, .destroy = say_gone, .arg = &factory};
    pool = weft_pool_new(&options);
    user u;
    spin_user(&u, "");
    return weft_pool_acquire(pool) == 2 ? 3 : 1;
}

START_TEST(what_is_held_when_the_process_ends_is_destroyed)
{
    const outcome *o = run_apart(exit_with_one_held);
    ck_assert_int_eq(o->status, 3);
    assert_said(o, "1 is gone\n");
    assert_said(o, "2 is gone\n");
}
END_TEST

static int wait_for_what_nobody_releases(void)
{
    user u;
    open_pool(1);
    spin_user(&u, "");
    bool is_told = weft_pool_acquire(pool) == -EDEADLK;
    return is_told && weft_pool_waiting(pool) == 0 ? 3 : 1;
}

START_TEST(a_wait_for_what_nobody_can_release_any_more_is_reported)
{
    const outcome *o = run_apart(wait_for_what_nobody_releases);
    ck_assert_int_eq(o->status, 3);
    assert_said(o, "a resource of a pool");
}
END_TEST

#define FIBERS 1000
#define ROUNDS 20
#define LIMIT 5

static uint32_t seed;

static uint32_t random_below(uint32_t n)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % n;
}

static weft_fiber owners[FIBERS * ROUNDS + 1];
static int served;

static weft_value make_at_random(void *arg)
{
    (void)arg;
    int rc = random_below(2) ? weft_snooze() : 0;
    if (rc < 0)
        return rc;
    if (random_below(4) == 0)
        return -EIO;
    ck_assert_int_lt(factory.made, (int)COUNT_OF(owners) - 1);
    return ++factory.made;
}

static void destroy_at_random(weft_value resource, void *arg)
{
    (void)arg;
    ck_assert_int_ne(resource, 0);
    owners[resource] = 0;
    factory.destroyed++;
}

/* Hold it for a while; nobody else does. It may be cancelled anywhere. */
static weft_value use_at_random(weft_value resource)
{
    ck_assert_uint_eq(owners[resource], 0);
    owners[resource] = weft_self();
    served++;
    weft_value rc = 0;
    for (uint32_t n = random_below(3); n > 0 && rc == 0; n--)
        rc = weft_snooze();
    if (random_below(3) == 0) {
        ck_assert_int_eq(weft_pool_acquire(pool), resource);
        rc = weft_snooze();
        ck_assert_int_eq(weft_pool_release(pool, resource), 0);
    }
    ck_assert_uint_eq(owners[resource], weft_self());
    return rc;
}

static weft_value storm(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        weft_value resource = weft_pool_acquire(pool);
        if (resource == -ECANCELED)
            return resource;
        if (weft_is_error(resource))
            continue;
        use_at_random(resource);
        uint32_t chance = random_below(20);
        if (chance == 0)
            return 0; /* and loses it */
        owners[resource] = 0;
        if (chance == 1)
            ck_assert_int_eq(weft_pool_discard(pool, resource), 0);
        else
            ck_assert_int_eq(weft_pool_release(pool, resource), 0);
    }
    return 0;
}

static void check_counters(void)
{
    size_t size = weft_pool_size(pool);
    ck_assert_uint_eq(size, (size_t)(factory.made - factory.destroyed));
    ck_assert_uint_le(size, LIMIT);
    ck_assert_uint_le(weft_pool_available(pool), size);
    if (weft_pool_waiting(pool) > 0)
        ck_assert_uint_eq(weft_pool_available(pool), 0);
}

static void cancel_at_random(const weft_fiber *f)
{
    weft_counters counters;
    do {
        for (uint32_t n = random_below(8); n > 0; n--)
            weft_cancel(f[random_below(FIBERS)]); /* or it has ended */
        check_counters();
        weft_snooze();
        weft_stats(&counters);
    } while (counters.runnable > 0);
}

START_TEST(nothing_is_lost_however_a_thousand_fibers_are_cancelled)
{
    static weft_fiber f[FIBERS];
    for (int round = 0; round < 5; round++) {
        seed = (uint32_t)round;
        served = 0;
        weft_pool_options options = {
            .limit = LIMIT, .make = make_at_random, .destroy = destroy_at_random};
        pool = weft_pool_new(&options);
        factory.made = factory.destroyed = 0;
        for (int i = 0; i < FIBERS; i++)
            f[i] = weft_spin(storm, NULL);
        cancel_at_random(f);
        let_run();
        for (int i = 0; i < FIBERS; i++)
            ck_assert_int_eq(weft_state_of(f[i]), WEFT_DEAD);
        ck_assert_int_gt(served, FIBERS / 10);
        check_counters();
        ck_assert_uint_eq(weft_pool_waiting(pool), 0);
        ck_assert_uint_eq(weft_pool_available(pool), weft_pool_size(pool));
        ck_assert_int_eq(weft_pool_free(pool), 0);
        ck_assert_int_eq(factory.made, factory.destroyed);
        for (int i = 0; i < FIBERS; i++)
            weft_await(f[i]);
    }
}
END_TEST

static const TTest *const *const tests[] = {
    &as_many_as_the_limit_are_made_and_then_one_waits,
    &the_one_that_was_released_first_is_acquired_next,
    &what_is_free_is_acquired_before_another_is_made,
    &those_who_wait_are_served_in_the_order_in_which_they_came,
    &one_that_is_handed_over_cannot_be_taken_before_the_one_who_waited_has_run,
    &a_holder_that_acquires_again_gets_the_same_one_and_releases_it_as_often,
    &one_fiber_may_hold_one_of_each_of_several_pools,
    &a_discarded_one_is_destroyed_and_another_is_made_in_its_place,
    &one_that_is_discarded_while_others_wait_is_made_anew_by_the_first_of_them,
    &one_that_cannot_be_made_leaves_the_limit_as_it_was,
    &the_error_of_make_is_no_reason_to_wait_whichever_it_is,
    &when_one_cannot_be_made_the_next_who_waits_tries,
    &when_none_can_be_made_everyone_is_told_and_nobody_waits_for_ever,
    &while_one_is_made_slowly_others_go_on_with_what_is_released,
    &who_may_make_one_takes_one_that_was_released_before_it_came_to_run,
    &a_fiber_that_is_cancelled_while_it_waits_leaves_the_line,
    &a_wait_whose_time_is_over_leaves_the_line,
    &one_that_is_released_before_its_waiter_is_cancelled_is_the_waiters,
    &one_that_is_released_after_its_waiter_was_cancelled_is_the_next_ones,
    &when_everyone_is_cancelled_as_one_is_released_it_is_free_or_made_anew,
    &who_is_cancelled_with_the_place_to_make_one_in_passes_it_on,
    &when_everyone_is_cancelled_as_one_is_discarded_its_place_is_not_lost,
    &a_cancelled_fiber_gets_what_need_not_be_waited_for,
    &what_a_fiber_holds_when_it_ends_is_discarded_and_the_next_makes_another,
    &what_a_fiber_holds_when_it_is_restarted_is_discarded_and_it_may_have_another,
    &a_child_that_waits_for_what_its_parent_holds_does_not_keep_it_from_ending,
    &any_fiber_may_give_back_what_another_holds,
    &what_is_not_held_can_be_neither_released_nor_discarded,
    &a_pool_that_is_in_use_is_not_freed,
    &options_that_make_no_sense_make_no_pool,
    &resources_may_be_equal_and_need_not_be_destroyed,
    &making_one_may_take_another,
    &what_is_destroyed_slowly_keeps_its_place_until_it_is_gone,
    &what_is_held_when_the_process_ends_is_destroyed,
    &a_wait_for_what_nobody_can_release_any_more_is_reported,
    &nothing_is_lost_however_a_thousand_fibers_are_cancelled,
};

int main(void)
{
    return run_suite("pool_resources", tests, COUNT_OF(tests));
}

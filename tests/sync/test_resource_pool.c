/*
 * Resource pools: limit and order, repeated acquires, discards, failed creation, holders that end,
 * and races of a handover with a cancellation.
 */
#include "support/random.h"
#include "support/suite.h"
#include "support/support.h"

/* The factory of the resources 1, 2, 3 ... */
static struct {
    int made, destroyed, failed;
    int failures; /* number of further creations that fail */
    bool is_slow; /* creation waits for a weft_schedule of maker */
    weft_fiber maker;
    char destroyed_list[64]; /* the destroyed resources, in order */
} factory;

static weft_pool *pool;

static weft_value create_resource(void *arg)
{
    ck_assert_ptr_eq(arg, &factory);
    weft_value rc = 0;
    if (factory.is_slow) {
        factory.maker = weft_self();
        rc = weft_suspend();
        factory.maker = 0;
    }
    if (weft_is_error(rc))
        return weft_fail((int)rc, "the creation was interrupted");
    if (factory.failures > 0) {
        factory.failures--;
        factory.failed++;
        return weft_fail(-ECONNREFUSED, "creation %d failed", factory.failed);
    }
    return ++factory.made;
}

static void destroy_resource(weft_value resource, void *arg)
{
    ck_assert_ptr_eq(arg, &factory);
    factory.destroyed++;
    size_t used = strlen(factory.destroyed_list);
    snprintf(factory.destroyed_list + used, sizeof factory.destroyed_list - used, "%d ",
             (int)resource);
}

static void open_pool(size_t limit)
{
    weft_pool_options options = {
        .limit = limit, .make = create_resource, .destroy = destroy_resource, .arg = &factory};
    pool = weft_pool_new(&options);
    ck_assert_ptr_nonnull(pool);
}

/* Assert the number of resources, of free resources, and of waiters. */
static void assert_pool(size_t size, size_t available, size_t waiting)
{
    ck_assert_uint_eq(weft_pool_size(pool), size);
    ck_assert_uint_eq(weft_pool_available(pool), available);
    ck_assert_uint_eq(weft_pool_waiting(pool), waiting);
    ck_assert_int_eq(factory.made - factory.destroyed, (int)size);
}

/* A fiber that acquires a resource and then runs commands. */
typedef struct user {
    const char *name;
    weft_fiber fiber;
    weft_value got; /* result of the last acquire; 0: not returned yet */
} user;

enum { RELEASE = 1, DISCARD, ACQUIRE, END };

static void acquire_and_mark(user *u)
{
    u->got = 0;
    u->got = weft_pool_acquire(pool);
    mark(u->name);
}

static weft_value use_resource(void *arg)
{
    user *u = arg;
    acquire_and_mark(u);
    weft_value command;
    while ((command = weft_suspend()) != END) {
        if (weft_is_error(command))
            return command;
        if (command == RELEASE)
            ck_assert_int_eq(weft_pool_release(pool, u->got), 0);
        else if (command == DISCARD)
            ck_assert_int_eq(weft_pool_discard(pool, u->got), 0);
        else
            acquire_and_mark(u);
    }
    return 0;
}

static void spin_user(user *u, const char *name)
{
    u->name = name;
    u->got = 0;
    u->fiber = weft_spin(use_resource, u);
    ck_assert_uint_ne(u->fiber, 0);
    let_run();
}

static void command_user(user *u, weft_value what)
{
    ck_assert_int_eq(weft_schedule(u->fiber, what), 0);
    let_run();
}

/*
 * Assert that all resources have been returned. Acquire as many as the limit, then free the pool.
 */
static void assert_complete_then_free(size_t limit)
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
        command_user(&users[i], RELEASE);
    ck_assert_int_eq(weft_pool_free(pool), 0);
    ck_assert_int_eq(factory.destroyed, factory.made);
}

/* P57 */
TEST(resources_are_created_up_to_the_limit_and_then_an_acquire_waits)
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
    command_user(&users[1], RELEASE);
    ck_assert_int_eq(users[3].got, 2);
    assert_pool(3, 0, 0);
    command_user(&users[0], RELEASE);
    command_user(&users[2], RELEASE);
    command_user(&users[3], RELEASE);
    assert_pool(3, 3, 0);
    assert_complete_then_free(3);
}

/* P57: a, b, a, b */
TEST(the_resource_released_first_is_acquired_next)
{
    user u, v;
    open_pool(2);
    spin_user(&u, "");
    spin_user(&v, "");
    command_user(&u, RELEASE);
    command_user(&v, RELEASE);
    for (int i = 0; i < 6; i++) {
        weft_value resource = weft_pool_acquire(pool);
        ck_assert_int_eq(resource, i % 2 + 1);
        ck_assert_int_eq(weft_pool_release(pool, resource), 0);
    }
    command_user(&v, ACQUIRE);
    command_user(&u, ACQUIRE);
    ck_assert_int_eq(v.got, 1);
    ck_assert_int_eq(u.got, 2);
    command_user(&u, RELEASE);
    command_user(&v, RELEASE);
    ck_assert_int_eq(weft_pool_acquire(pool), 2);
    ck_assert_int_eq(weft_pool_release(pool, 2), 0);
    assert_complete_then_free(2);
}

TEST(a_free_resource_is_acquired_before_a_new_one_is_created)
{
    open_pool(5);
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(weft_pool_acquire(pool), 1);
        ck_assert_int_eq(weft_pool_release(pool, 1), 0);
    }
    assert_pool(1, 1, 0);
    assert_complete_then_free(5);
}

TEST(waiters_get_resources_in_fifo_order)
{
    user first, others[3];
    open_pool(1);
    spin_user(&first, "1");
    for (int i = 0; i < 3; i++)
        spin_user(&others[i], i == 0 ? "2" : i == 1 ? "3" : "4");
    command_user(&first, RELEASE);
    command_user(&first, ACQUIRE); /* behind the waiters */
    for (int i = 0; i < 3; i++)
        command_user(&others[i], RELEASE);
    ck_assert_trail("12341");
    command_user(&first, RELEASE);
    assert_complete_then_free(1);
}

TEST(a_resource_handed_to_a_waiter_cannot_be_acquired_before_the_waiter_runs)
{
    user u;
    open_pool(1);
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    spin_user(&u, "");
    assert_pool(1, 0, 1);
    ck_assert_int_eq(weft_pool_release(pool, 1), 0);
    assert_pool(1, 0, 0); /* already held by the waiter */
    ck_assert_int_eq(u.got, 0);
    ck_assert_int_eq(weft_pool_try_acquire(pool), -EAGAIN);
    let_run();
    ck_assert_int_eq(u.got, 1);
    command_user(&u, RELEASE);
    assert_complete_then_free(1);
}

/* P57 */
TEST(a_holder_that_acquires_again_gets_the_same_resource_and_releases_it_as_often)
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
    command_user(&u, RELEASE);
    assert_complete_then_free(1);
}

TEST(one_fiber_may_hold_resources_of_several_pools)
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

/* P57 */
TEST(a_discarded_resource_is_destroyed_and_replaced)
{
    open_pool(1);
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    ck_assert_int_eq(weft_pool_discard(pool, 1), 0); /* even if it was acquired twice */
    ck_assert_str_eq(factory.destroyed_list, "1 ");
    assert_pool(0, 0, 0);
    ck_assert_int_eq(weft_pool_release(pool, 1), -EINVAL);
    ck_assert_int_eq(weft_pool_acquire(pool), 2);
    ck_assert_int_eq(weft_pool_release(pool, 2), 0);
    assert_complete_then_free(1);
}

TEST(a_resource_discarded_while_fibers_wait_is_replaced_by_the_first_waiter)
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
    command_user(&u[1], DISCARD);
    command_user(&u[2], RELEASE);
    ck_assert_int_eq(u[2].got, 3);
    ck_assert_int_eq(u[3].got, 3);
    command_user(&u[3], RELEASE);
    ck_assert_str_eq(factory.destroyed_list, "1 2 ");
    assert_complete_then_free(1);
}

/* P57 */
TEST(a_failed_creation_does_not_change_the_limit)
{
    open_pool(2);
    factory.failures = 5;
    for (int i = 1; i <= 5; i++) {
        char message[64];
        snprintf(message, sizeof message, "creation %d failed", i);
        ck_assert_int_eq(i % 2 ? weft_pool_acquire(pool) : weft_pool_try_acquire(pool),
                         -ECONNREFUSED);
        ck_assert_error(-ECONNREFUSED, message);
        assert_pool(0, 0, 0);
    }
    user u;
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    spin_user(&u, "");
    ck_assert_int_eq(u.got, 2);
    ck_assert_int_eq(weft_pool_release(pool, 1), 0);
    command_user(&u, RELEASE);
    assert_complete_then_free(2);
}

static weft_value fail_with_eagain(void *arg)
{
    (void)arg;
    return -EAGAIN;
}

TEST(any_error_of_make_is_returned_without_waiting)
{
    pool = weft_pool_new(&(weft_pool_options){.limit = 1, .make = fail_with_eagain});
    ck_assert_int_eq(weft_pool_acquire(pool), -EAGAIN);
    ck_assert_int_eq(weft_pool_try_acquire(pool), -EAGAIN);
    ck_assert_int_eq(weft_pool_free(pool), 0);
}

/* Each waiter behind a failed creation gets the chance to create one. */
TEST(after_a_failed_creation_the_next_waiter_tries)
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
    command_user(&u[2], RELEASE);
    ck_assert_int_eq(u[3].got, 1);
    command_user(&u[3], RELEASE);
    assert_complete_then_free(1);
}

TEST(when_all_creations_fail_every_waiter_gets_the_error)
{
    user u[4];
    open_pool(1);
    factory.is_slow = true;
    for (int i = 0; i < 4; i++)
        spin_user(&u[i], "");
    factory.failures = 4;
    factory.is_slow = false; /* later creations do not wait */
    ck_assert_int_eq(weft_schedule(factory.maker, 0), 0);
    let_run();
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(u[i].got, -ECONNREFUSED);
    assert_pool(0, 0, 0);
    assert_complete_then_free(1);
}

TEST(during_a_slow_creation_other_fibers_acquire_released_resources)
{
    user holder, maker, waiter;
    open_pool(2);
    spin_user(&holder, "h");
    factory.is_slow = true;
    spin_user(&maker, "m");
    spin_user(&waiter, "w");
    assert_pool(1, 0, 1);
    ck_assert_int_eq(weft_pool_free(pool), -EBUSY);
    command_user(&holder, RELEASE);
    ck_assert_int_eq(waiter.got, 1);
    command_user(&waiter, RELEASE);
    assert_pool(1, 1, 0);
    ck_assert_int_eq(weft_pool_free(pool), -EBUSY); /* a resource is being created */
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    ck_assert_int_eq(weft_pool_release(pool, 1), 0);
    command_user(&maker, 0); /* the user is inside make */
    ck_assert_int_eq(maker.got, 2);
    ck_assert_trail("hwm");
    command_user(&maker, RELEASE);
    assert_pool(2, 2, 0);
    assert_complete_then_free(2);
}

TEST(a_waiter_chosen_to_create_a_resource_takes_one_released_before_it_runs)
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
    command_user(&u[2], RELEASE);
    assert_complete_then_free(2);
}

/* P57 */
TEST(a_cancelled_waiter_leaves_the_wait_queue)
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
    command_user(&u[0], RELEASE);
    ck_assert_int_eq(u[3].got, 1);
    command_user(&u[3], RELEASE);
    assert_complete_then_free(1);
}

static weft_value acquire_with_timeout(void *arg)
{
    int rc;
    WEFT_CANCEL_AFTER(0.01, rc) {
        *(weft_value *)arg = weft_pool_acquire(pool);
    }
    return rc;
}

TEST(a_waiter_that_times_out_leaves_the_wait_queue)
{
    weft_value got = 0;
    open_pool(1);
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    ck_assert_int_eq(weft_await(weft_spin(acquire_with_timeout, &got)), -ETIMEDOUT);
    ck_assert_int_eq(got, -ECANCELED);
    assert_pool(1, 0, 0);
    ck_assert_int_eq(weft_pool_release(pool, 1), 0);
    assert_complete_then_free(1);
}

/* It was woken first. Its acquire succeeds, and its next call fails with -ECANCELED. */
TEST(a_resource_released_before_its_waiter_is_cancelled_belongs_to_the_waiter)
{
    user u, v;
    open_pool(1);
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    spin_user(&u, "");
    spin_user(&v, "");
    ck_assert_int_eq(weft_pool_release(pool, 1), 0);
    ck_assert_int_eq(weft_cancel(u.fiber), 0);
    let_run();
    ck_assert_int_eq(u.got, 1); /* it ended without a release */
    ck_assert_str_eq(factory.destroyed_list, "1 ");
    ck_assert_int_eq(v.got, 2);
    command_user(&v, RELEASE);
    assert_complete_then_free(1);
}

TEST(a_resource_released_after_its_waiter_was_cancelled_belongs_to_the_next_waiter)
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
    command_user(&v, RELEASE);
    ck_assert_int_eq(factory.destroyed, 0);
    assert_complete_then_free(1);
}

TEST(when_all_waiters_are_cancelled_during_a_release_no_resource_is_lost)
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
        assert_complete_then_free(1);
    }
}

/* A waiter is cancelled after it was chosen to create a resource. The next waiter is chosen. */
TEST(a_waiter_cancelled_before_it_creates_a_resource_passes_the_slot_on)
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
    ck_assert_int_eq(u[0].got, -ECANCELED); /* the creation was interrupted */
    ck_assert_uint_eq(factory.maker, u[1].fiber);
    ck_assert_int_eq(weft_cancel(u[1].fiber), 0); /* during creation */
    let_run();
    ck_assert_int_eq(u[1].got, -ECANCELED);
    ck_assert_uint_eq(factory.maker, u[2].fiber);
    command_user(&u[2], 0);
    ck_assert_int_eq(u[2].got, 2);
    command_user(&u[2], RELEASE);
    assert_complete_then_free(1);
}

TEST(when_all_waiters_are_cancelled_during_a_discard_no_slot_is_lost)
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
        assert_complete_then_free(1);
    }
}

static weft_value acquire_though_cancelled(void *arg)
{
    weft_value *got = arg;
    ck_assert_int_eq(weft_suspend(), -ECANCELED);
    got[0] = weft_pool_acquire(pool); /* the resource is free */
    weft_pool_release(pool, got[0]);
    ck_assert_int_eq(weft_schedule(weft_main(), 0), 0);
    WEFT_SHIELD(INFINITY) {
        weft_suspend();
    }
    got[1] = weft_pool_acquire(pool); /* main holds the resource */
    return 0;
}

TEST(a_cancelled_fiber_can_acquire_without_waiting)
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
    assert_complete_then_free(1);
}

TEST(a_resource_held_by_an_ending_fiber_is_discarded_and_replaced_by_the_next_waiter)
{
    user u, v;
    open_pool(1);
    spin_user(&u, "");
    command_user(&u, ACQUIRE); /* a second acquire makes no difference */
    spin_user(&v, "");
    command_user(&u, END);
    ck_assert_str_eq(factory.destroyed_list, "1 ");
    ck_assert_int_eq(v.got, 2);
    ck_assert_int_eq(weft_stop(v.fiber, 0), 0);
    let_run();
    ck_assert_str_eq(factory.destroyed_list, "1 2 ");
    assert_pool(0, 0, 0);
    assert_complete_then_free(1);
}

TEST(a_resource_held_by_a_restarted_fiber_is_discarded_and_the_fiber_may_acquire_another)
{
    user u;
    open_pool(1);
    spin_user(&u, "");
    ck_assert_int_eq(u.got, 1);
    ck_assert_int_eq(weft_restart(u.fiber), 0);
    let_run();
    ck_assert_str_eq(factory.destroyed_list, "1 ");
    ck_assert_int_eq(u.got, 2);
    assert_pool(1, 0, 0);
    command_user(&u, RELEASE);
    assert_complete_then_free(1);
}

static weft_value hold_with_waiting_child(void *arg)
{
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    spin_user(arg, "");
    return 0;
}

TEST(a_child_that_waits_for_a_resource_of_its_parent_does_not_block_the_end_of_the_parent)
{
    user child;
    open_pool(1);
    ck_assert_int_eq(weft_await(weft_spin(hold_with_waiting_child, &child)), 0);
    ck_assert_int_eq(weft_state_of(child.fiber), WEFT_DEAD);
    assert_pool(0, 0, 0);
    assert_complete_then_free(1);
}

static weft_value release_arg(void *arg)
{
    return weft_pool_release(pool, (weft_value)arg);
}

static weft_value discard_arg(void *arg)
{
    return weft_pool_discard(pool, (weft_value)arg);
}

TEST(any_fiber_may_release_or_discard_a_resource_of_another)
{
    user u;
    open_pool(2);
    spin_user(&u, "");
    command_user(&u, ACQUIRE);
    ck_assert_int_eq(weft_pool_acquire(pool), 2);
    ck_assert_int_eq(weft_await(weft_spin(release_arg, as_arg(1))), 0);
    assert_pool(2, 0, 0); /* it was acquired twice */
    ck_assert_int_eq(weft_pool_release(pool, 1), 0);
    assert_pool(2, 1, 0);
    command_user(&u, END); /* holds nothing any more */
    ck_assert_int_eq(factory.destroyed, 0);
    ck_assert_int_eq(weft_await(weft_spin(discard_arg, as_arg(2))), 0);
    assert_pool(1, 1, 0);
    ck_assert_int_eq(weft_pool_acquire(pool), 1); /* not the discarded one */
    ck_assert_int_eq(weft_pool_release(pool, 1), 0);
    assert_complete_then_free(2);
}

TEST(a_resource_that_is_not_held_can_be_neither_released_nor_discarded)
{
    open_pool(2);
    ck_assert_int_eq(weft_pool_release(pool, 1), -EINVAL);
    ck_assert_any_error(-EINVAL);
    ck_assert_int_eq(weft_pool_discard(pool, 1), -EINVAL);
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    ck_assert_int_eq(weft_pool_release(pool, 2), -EINVAL);
    ck_assert_int_eq(weft_pool_release(pool, 1), 0);
    ck_assert_int_eq(weft_pool_release(pool, 1), -EINVAL);
    ck_assert_int_eq(weft_pool_discard(pool, 1), -EINVAL);
    assert_pool(1, 1, 0);
    assert_complete_then_free(2);
}

TEST(a_pool_in_use_is_not_freed)
{
    user u;
    open_pool(1);
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    ck_assert_int_eq(weft_pool_free(pool), -EBUSY);
    ck_assert_any_error(-EBUSY);
    spin_user(&u, "");
    ck_assert_int_eq(weft_pool_free(pool), -EBUSY);
    assert_pool(1, 0, 1);
    ck_assert_int_eq(weft_pool_release(pool, 1), 0);
    ck_assert_int_eq(weft_pool_free(pool), -EBUSY);
    let_run();
    command_user(&u, RELEASE);
    ck_assert_int_eq(factory.destroyed, 0);
    ck_assert_int_eq(weft_pool_free(pool), 0);
    ck_assert_str_eq(factory.destroyed_list, "1 ");
    ck_assert_int_eq(weft_pool_free(NULL), 0);
}

static void assert_pool_refused(const weft_pool_options *options)
{
    weft_error_clear();
    ck_assert_ptr_null(weft_pool_new(options));
    ck_assert_any_error(-EINVAL);
}

TEST(invalid_options_are_refused)
{
    assert_pool_refused(NULL);
    assert_pool_refused(&(weft_pool_options){.limit = 1});
    assert_pool_refused(&(weft_pool_options){.make = create_resource});
}

static weft_value make_zero(void *arg)
{
    (void)arg;
    return 0;
}

static weft_value hold_zero(void *arg)
{
    (void)arg;
    ck_assert_int_eq(weft_pool_acquire(pool), 0);
    weft_suspend();
    ck_assert_int_eq(weft_pool_release(pool, 0),
                     0); /* releases its own, so that its end discards none */
    return 0;
}

/* 0 is a valid resource. Of equal resources, each fiber releases its own. */
TEST(resources_may_be_equal_and_need_not_be_destroyed)
{
    pool = weft_pool_new(&(weft_pool_options){.limit = SIZE_MAX, .make = make_zero});
    ck_assert_int_eq(weft_pool_acquire(pool), 0);
    weft_fiber f = weft_spin(hold_zero, NULL);
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

static weft_value acquire_to_make(void *arg)
{
    (void)arg;
    factory.made++;
    return factory.made == 1 ? weft_pool_acquire(pool) + 10 : factory.made;
}

TEST(the_function_make_may_acquire_from_the_pool)
{
    pool = weft_pool_new(&(weft_pool_options){.limit = 2, .make = acquire_to_make});
    ck_assert_int_eq(weft_pool_acquire(pool), 12);
    ck_assert_int_eq(weft_pool_release(pool, 2), 0);
    ck_assert_int_eq(weft_pool_release(pool, 12), 0);
    ck_assert_int_eq(weft_pool_release(pool, 12), -EINVAL);
    ck_assert_uint_eq(weft_pool_available(pool), 2);
    ck_assert_int_eq(weft_pool_free(pool), 0);
}

/* The documentation forbids switches here; this function switches nevertheless. */
static void destroy_slowly(weft_value resource, void *arg)
{
    ck_assert_uint_eq(weft_pool_size(pool), 0);
    ck_assert_int_eq(weft_pool_try_acquire(pool), -EAGAIN); /* its slot is not free yet */
    weft_snooze();
    destroy_resource(resource, arg);
}

TEST(a_slowly_destroyed_resource_occupies_its_slot_until_it_is_destroyed)
{
    user u, v;
    weft_pool_options options = {
        .limit = 1, .make = create_resource, .destroy = destroy_slowly, .arg = &factory};
    pool = weft_pool_new(&options);
    spin_user(&u, "");
    spin_user(&v, "");
    ck_assert_int_eq(weft_schedule(u.fiber, DISCARD), 0);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_pool_free(pool), -EBUSY);
    ck_assert_int_eq(weft_pool_discard(pool, 1), -EINVAL);
    let_run();
    ck_assert_str_eq(factory.destroyed_list, "1 ");
    ck_assert_int_eq(v.got, 2);
    command_user(&v, END);
    ck_assert_str_eq(factory.destroyed_list, "1 2 ");
    ck_assert_int_eq(weft_pool_free(pool), 0);
}

static void print_destroyed(weft_value resource, void *arg)
{
    (void)arg;
    fprintf(stderr, "destroyed %d\n", (int)resource);
}

static int exit_with_one_held(void)
{
    weft_pool_options options = {
        .limit = 2, .make = create_resource, .destroy = print_destroyed, .arg = &factory};
    pool = weft_pool_new(&options);
    user u;
    spin_user(&u, "");
    return weft_pool_acquire(pool) == 2 ? 3 : 1;
}

TEST(resources_held_at_process_exit_are_destroyed)
{
    const outcome *o = run_apart(exit_with_one_held);
    ck_assert_int_eq(o->status, 3);
    assert_printed(o, "destroyed 1\n");
    assert_printed(o, "destroyed 2\n");
}

static int acquire_in_deadlock(void)
{
    user u;
    open_pool(1);
    spin_user(&u, "");
    bool is_deadlock = weft_pool_acquire(pool) == -EDEADLK;
    return is_deadlock && weft_pool_waiting(pool) == 0 ? 3 : 1;
}

TEST(a_wait_for_a_resource_that_no_fiber_can_release_is_reported)
{
    const outcome *o = run_apart(acquire_in_deadlock);
    ck_assert_int_eq(o->status, 3);
    assert_printed(o, "a resource of a pool");
}

#define FIBERS 1000
#define ROUNDS 20
#define LIMIT 5

static weft_fiber owners[FIBERS * ROUNDS + 1];
static int acquired_count;

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

/* Hold the resource for a while, alone. Cancellation may arrive at any switchpoint. */
static weft_value use_at_random(weft_value resource)
{
    ck_assert_uint_eq(owners[resource], 0);
    owners[resource] = weft_self();
    acquired_count++;
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

static weft_value use_at_random_often(void *arg)
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
            return 0; /* with the resource */
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
            weft_cancel(f[random_below(FIBERS)]); /* fails if the fiber has ended */
        check_counters();
        weft_snooze();
        weft_stats(&counters);
    } while (counters.runnable > 0);
}

TEST(no_resource_is_lost_when_a_thousand_fibers_are_cancelled_at_random)
{
    static weft_fiber f[FIBERS];
    for (int round = 0; round < 5; round++) {
        random_state = (uint32_t)round;
        acquired_count = 0;
        weft_pool_options options = {
            .limit = LIMIT, .make = make_at_random, .destroy = destroy_at_random};
        pool = weft_pool_new(&options);
        factory.made = factory.destroyed = 0;
        for (int i = 0; i < FIBERS; i++)
            f[i] = weft_spin(use_at_random_often, NULL);
        cancel_at_random(f);
        let_run();
        for (int i = 0; i < FIBERS; i++)
            ck_assert_int_eq(weft_state_of(f[i]), WEFT_DEAD);
        ck_assert_int_gt(acquired_count, FIBERS / 10);
        check_counters();
        ck_assert_uint_eq(weft_pool_waiting(pool), 0);
        ck_assert_uint_eq(weft_pool_available(pool), weft_pool_size(pool));
        ck_assert_int_eq(weft_pool_free(pool), 0);
        ck_assert_int_eq(factory.made, factory.destroyed);
        for (int i = 0; i < FIBERS; i++)
            weft_await(f[i]);
    }
}

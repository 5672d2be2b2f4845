/*
 * Resource pools: limit and order, repeated acquires, discards, failed creation, holders that end,
 * and races of a handover with a cancellation. test_sync_random.c cancels at random.
 */
#include "support/suite.h"
#include "sync/steps.h"

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

static size_t pool_limit;

/* Replace the pool of the test. */
static void open_pool_with(const weft_pool_options *options)
{
    weft_pool_free(pool);
    pool_limit = options->limit;
    pool = weft_pool_new(options);
    ck_assert_ptr_nonnull(pool);
}

static void open_pool(size_t limit)
{
    open_pool_with(&(weft_pool_options){limit, create_resource, destroy_resource, &factory});
}

static int free_current_pool(void)
{
    int rc = weft_pool_free(pool);
    pool = rc == 0 ? NULL : pool;
    return rc;
}

/* The argument of release and discard is the resource. */
STEP(acquire, weft_pool_acquire(pool))
STEP(try_acquire, weft_pool_try_acquire(pool))
STEP(release, weft_pool_release(pool, arg))
STEP(discard, weft_pool_discard(pool, arg))
STEP(waiting, weft_pool_waiting(pool))
STEP(free_pool, free_current_pool())
STEP(maker, actor_of(factory.maker))
STEP(create_now, weft_schedule(factory.maker, 0))
STEP(is_slow, factory.is_slow = arg)
STEP(failures, (factory.failures = (int)arg, 0))

/* Assert the number of resources, of free resources, and of waiters. */
static void assert_pool(size_t size, size_t available, size_t waiters)
{
    ck_assert_uint_eq(weft_pool_size(pool), size);
    ck_assert_uint_eq(weft_pool_available(pool), available);
    ck_assert_uint_eq(weft_pool_waiting(pool), waiters);
    ck_assert_int_eq(factory.made - factory.destroyed, (int)size);
}

/* Hold a resource while other fibers acquire the others. Then none is left. */
static weft_value acquire_rest(void *arg)
{
    weft_value others = (weft_value)arg, resource = weft_pool_try_acquire(pool);
    if (others < 0)
        return resource == -EAGAIN ? 0 : 1;
    ck_assert_int_gt(resource, 0);
    ck_assert_int_eq(weft_await(weft_spin(acquire_rest, as_arg(others - 1))), 0);
    return weft_pool_release(pool, resource);
}

static void open_pool_of_one(void)
{
    open_pool(1);
}

/*
 * Assert that all resources have been returned. Acquire as many as the limit, then free the pool.
 */
static void assert_complete_then_free(void)
{
    if (pool == NULL)
        return;
    factory.failures = 0;
    factory.is_slow = false;
    let_run();
    ck_assert_uint_eq(weft_pool_waiting(pool), 0);
    ck_assert_uint_eq(weft_pool_available(pool), weft_pool_size(pool));
    ck_assert_int_eq(weft_await(weft_spin(acquire_rest, as_arg((weft_value)pool_limit - 1))), 0);
    ck_assert_int_eq(weft_pool_free(pool), 0);
    ck_assert_int_eq(factory.destroyed, factory.made);
}

FIXTURE(open_pool_of_one, assert_complete_then_free)

TEST(resources_are_created_up_to_the_limit_and_then_an_acquire_waits)
{ /* P57 */
    open_pool(3);
    assert_pool(0, 0, 0);
    play({A, acquire, 1}, {B, acquire, 2}, {C, acquire, 3}, {D, acquire, WAITS});
    assert_pool(3, 0, 1);
    play({B, release, 0, 2}, {D, returns, 2});
    assert_pool(3, 0, 0);
    play({A, release, 0, 1}, {C, release, 0, 3}, {D, release, 0, 2});
    assert_pool(3, 3, 0);
}

TEST(one_fiber_may_hold_resources_of_several_pools)
{
    weft_pool *pools[3];
    for (int i = 0; i < 3; i++) {
        open_pool(1);
        pools[i] = pool;
        play({M, acquire, i + 1}, {M, acquire, i + 1});
    }
    for (int i = 0; i < 3; i++) {
        pool = pools[i];
        play({M, release, -EINVAL, (i + 1) % 3 + 1}, {M, release, 0, i + 1}, {M, free_pool, -EBUSY},
             {M, release, 0, i + 1}, {M, free_pool});
    }
}

TEST(a_resource_discarded_while_fibers_wait_is_replaced_by_the_first_waiter)
{
    play({M, acquire, 1}, {A, acquire, WAITS}, {B, acquire, WAITS}, {C, acquire, WAITS},
         {M, discard, 0, 1}, {M, waiting, 2}, {A, returns, 2}, {B, returns, WAITS});
    assert_pool(1, 0, 2);
    play({A, discard, 0, 2}, {B, returns, 3}, {B, release, 0, 3}, {C, returns, 3},
         {C, release, 0, 3});
    ck_assert_str_eq(factory.destroyed_list, "1 2 ");
}

TEST(a_failed_creation_does_not_change_the_limit)
{ /* P57 */
    open_pool(2);
    play({M, failures, 0, 2}, {M, acquire, -ECONNREFUSED});
    ck_assert_error(-ECONNREFUSED, "creation 1 failed");
    play({M, try_acquire, -ECONNREFUSED});
    ck_assert_error(-ECONNREFUSED, "creation 2 failed");
    assert_pool(0, 0, 0);
    play({M, acquire, 1}, {A, acquire, 2}, {M, release, 0, 1}, {A, release, 0, 2});
}

FIBER(fail_with_eagain, -EAGAIN)

TEST(any_error_of_make_is_returned_without_waiting)
{
    open_pool_with(&(weft_pool_options){.limit = 1, .make = fail_with_eagain});
    play({M, acquire, -EAGAIN}, {M, try_acquire, -EAGAIN}, {M, free_pool});
}

/* Each waiter behind a failed creation gets the chance to create one. */
TEST(after_a_failed_creation_the_next_waiter_tries)
{
    play({M, is_slow, true, true}, {A, acquire, WAITS}, {B, acquire, WAITS}, {C, acquire, WAITS},
         {D, acquire, WAITS});
    assert_pool(0, 0, 3);
    play({M, failures, 0, 2}, {M, maker, A}, {M, create_now}, {A, returns, -ECONNREFUSED},
         {M, maker, B}, {M, waiting, 2}, {M, create_now}, {B, returns, -ECONNREFUSED},
         {M, maker, C}, {M, waiting, 1}, {M, create_now}, {C, returns, 1});
    assert_pool(1, 0, 1);
    play({C, release, 0, 1}, {D, returns, 1}, {D, release, 0, 1});
}

TEST(when_all_creations_fail_every_waiter_gets_the_error)
{
    play({M, is_slow, true, true}, {A, acquire, WAITS}, {B, acquire, WAITS}, {C, acquire, WAITS},
         {M, failures, 0, 3}, {M, is_slow, false, false}, {M, create_now},
         {A, returns, -ECONNREFUSED}, {B, returns, -ECONNREFUSED}, {C, returns, -ECONNREFUSED});
    assert_pool(0, 0, 0);
}

TEST(during_a_slow_creation_other_fibers_acquire_released_resources)
{
    open_pool(2);
    play({A, acquire, 1}, {M, is_slow, true, true}, {B, acquire, WAITS}, {C, acquire, WAITS});
    assert_pool(1, 0, 1);
    play({M, free_pool, -EBUSY}, {A, release, 0, 1}, {C, returns, 1}, {C, release, 0, 1});
    assert_pool(1, 1, 0);
    play({M, free_pool, -EBUSY}, /* a resource is being created */
         {M, acquire, 1}, {M, release, 0, 1}, {M, maker, B}, {M, create_now}, {B, returns, 2},
         {B, release, 0, 2});
    assert_pool(2, 2, 0);
}

TEST(a_waiter_chosen_to_create_a_resource_takes_one_released_before_it_runs)
{
    open_pool(2);
    play({M, acquire, 1}, {A, acquire, 2}, {B, acquire, WAITS}, {M, discard, 0, 1},
         {M, release, 0, 2}, {B, returns, 2});
    assert_pool(1, 0, 0);
    ck_assert_int_eq(factory.made, 2);
    play({B, release, 0, 2});
}

/* A waiter is cancelled after it was chosen to create a resource. The next waiter is chosen. */
TEST(a_waiter_cancelled_before_it_creates_a_resource_passes_the_slot_on)
{
    play({M, acquire, 1}, {M, is_slow, true, true}, {A, acquire, WAITS}, {B, acquire, WAITS},
         {C, acquire, WAITS}, {M, discard, 0, 1}, {M, cancel, 0, A}, {A, returns, -ECANCELED},
         {M, maker, B}, {M, cancel, 0, B}, /* during creation */
         {B, returns, -ECANCELED}, {M, maker, C}, {M, create_now}, {C, returns, 2},
         {C, release, 0, 2});
}

TEST(a_resource_held_by_a_restarted_fiber_is_discarded_and_the_fiber_may_acquire_another)
{
    play({A, acquire, 1}, {M, restart, 0, A}, {A, returns, 2});
    ck_assert_str_eq(factory.destroyed_list, "1 ");
    assert_pool(1, 0, 0);
    play({A, release, 0, 2});
}

FIBER(acquire_any, weft_pool_acquire(pool))

static weft_value hold_with_waiting_child(void *arg)
{
    ck_assert_int_eq(weft_pool_acquire(pool), 1);
    *(weft_fiber *)arg = spin_waiting(acquire_any, NULL);
    return 0;
}

TEST(a_child_that_waits_for_a_resource_of_its_parent_does_not_block_the_end_of_the_parent)
{
    weft_fiber child;
    ck_assert_int_eq(weft_await(weft_spin(hold_with_waiting_child, &child)), 0);
    ck_assert_int_eq(weft_state_of(child), WEFT_DEAD);
    assert_pool(0, 0, 0);
}

TEST(any_fiber_may_release_or_discard_a_resource_of_another)
{
    open_pool(2);
    play({A, acquire, 1}, {A, acquire, 1}, {M, acquire, 2}, {B, release, 0, 1});
    assert_pool(2, 0, 0); /* it was acquired twice */
    play({M, release, 0, 1});
    assert_pool(2, 1, 0);
    play({A, ends}); /* holds nothing any more */
    ck_assert_int_eq(factory.destroyed, 0);
    play({B, discard, 0, 2});
    assert_pool(1, 1, 0);
    play({M, acquire, 1}, {M, release, 0, 1}); /* not the discarded one */
}

TEST(a_resource_that_is_not_held_can_be_neither_released_nor_discarded)
{
    open_pool(2);
    play({M, release, -EINVAL, 1});
    ck_assert_any_error(-EINVAL);
    play({M, discard, -EINVAL, 1}, {M, acquire, 1}, {M, release, -EINVAL, 2}, {M, release, 0, 1},
         {M, release, -EINVAL, 1}, {M, discard, -EINVAL, 1});
    assert_pool(1, 1, 0);
}

TEST(a_pool_in_use_is_not_freed)
{
    play({M, acquire, 1}, {M, free_pool, -EBUSY});
    ck_assert_any_error(-EBUSY);
    play({A, acquire, WAITS}, {M, free_pool, -EBUSY}, {M, waiting, 1}, {M, release, 0, 1},
         {M, free_pool, -EBUSY}, {A, returns, 1}, {A, release, 0, 1});
    ck_assert_int_eq(factory.destroyed, 0);
    play({M, free_pool});
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

FIBER(make_zero, 0)

/* 0 is a valid resource. Of equal resources, each fiber releases its own. */
TEST(resources_may_be_equal_and_need_not_be_destroyed)
{
    open_pool_with(&(weft_pool_options){.limit = SIZE_MAX, .make = make_zero});
    play({M, acquire, 0}, {A, acquire, 0}, {A, release}, {A, ends});
    ck_assert_uint_eq(weft_pool_size(pool), 2); /* its end discards none */
    ck_assert_uint_eq(weft_pool_available(pool), 1);
    play({M, release}, {M, release, -EINVAL}, {M, acquire, 0}, {M, discard}, {M, free_pool});
}

static weft_value acquire_to_make(void *arg)
{
    factory.made++;
    return factory.made == 1 ? weft_pool_acquire(pool) + 10 : factory.made;
}

TEST(the_function_make_may_acquire_from_the_pool)
{
    open_pool_with(&(weft_pool_options){.limit = 2, .make = acquire_to_make});
    play({M, acquire, 12}, {M, release, 0, 2}, {M, release, 0, 12}, {M, release, -EINVAL, 12});
    ck_assert_uint_eq(weft_pool_available(pool), 2);
    play({M, free_pool});
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
    static const step discard_1 = {A, discard, 0, 1};
    weft_pool_options options = {
        .limit = 1, .make = create_resource, .destroy = destroy_slowly, .arg = &factory};
    open_pool_with(&options);
    play({A, acquire, 1}, {B, acquire, WAITS});
    order_call(&discard_1);
    ck_assert_int_eq(weft_snooze(), 0);
    play({M, free_pool, -EBUSY}, {M, discard, -EINVAL, 1}, {B, returns, 2}, {B, ends});
    ck_assert_str_eq(factory.destroyed_list, "1 2 ");
    play({M, free_pool});
}

static void print_destroyed(weft_value resource, void *arg)
{
    fprintf(stderr, "destroyed %d\n", (int)resource);
}

TEST_PROGRAM_PRINTS(resources_held_at_process_exit_are_destroyed, 3, "destroyed 1\n",
                    "destroyed 2\n")
{
    weft_pool_options options = {
        .limit = 2, .make = create_resource, .destroy = print_destroyed, .arg = &factory};
    open_pool_with(&options);
    play({A, acquire, 1});
    return weft_pool_acquire(pool) == 2 ? 3 : 1;
}

TEST_PROGRAM_PRINTS(a_wait_for_a_resource_that_no_fiber_can_release_is_reported, 3,
                    "a resource of a pool")
{
    play({A, acquire, 1});
    bool is_deadlock = weft_pool_acquire(pool) == -EDEADLK;
    return is_deadlock && weft_pool_waiting(pool) == 0 ? 3 : 1;
}

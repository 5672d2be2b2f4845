/* The model of a resource pool: the state and the holder of each resource. */
#ifndef TESTS_SYNC_SYNC_POOL_H
#define TESTS_SYNC_SYNC_POOL_H

#include "sync/sync_model.h"

#define POOL_LIMIT 4
#define RESOURCES_MAX 60000

static struct {
    weft_pool *pool;
    waitq_model waitq;
    weft_value free[POOL_LIMIT]; /* in the order of their release */
    size_t free_count;
    size_t held;     /* by actors that have acquired one or are expected to */
    size_t creating; /* number of actors that create one */
} pool;

typedef struct resource {
    enum { NOTHING, NEW, FREE, HELD } state;
    actor *holder; /* created it, or holds it */
    size_t depth;
} resource;

static resource resources[RESOURCES_MAX];
static weft_value resources_made;
static weft_key actor_key; /* the value is the actor of the fiber */

static weft_value create_resource(void *arg)
{
    actor *me = weft_local_get(actor_key);
    REQUIRE(me->entered == 1);
    me->is_creating = true;
    pool.creating++;
    REQUIRE(pool.held + pool.free_count + pool.creating <= POOL_LIMIT);
    for (unsigned i = random_below(3); i > 0; i--)
        pause_randomly(me);
    pool.creating--;
    me->is_creating = false;
    me->creation_failed = random_below(4) == 0;
    if (me->creation_failed)
        return FAILED;
    REQUIRE(resources_made + 1 < RESOURCES_MAX);
    resources[++resources_made] = (resource){.state = NEW, .holder = me};
    return resources_made;
}

static void destroy_resource(weft_value r, void *arg)
{
    REQUIRE(resources[r].state == HELD || resources[r].state == FREE);
    pool.held -= resources[r].state == HELD;
    resources[r].state = NOTHING;
}

static void hold_resource(actor *to, weft_value r)
{
    resources[r] = (resource){.state = HELD, .holder = to, .depth = 1};
    to->held = r;
    pool.held++;
}

/* Record a resource that was not expected: created by the caller, or the first free one. */
static void record_acquired(actor *me, weft_value r)
{
    REQUIRE(r > 0 && r <= resources_made);
    if (resources[r].state == FREE) {
        REQUIRE(pool.free_count > 0 && pool.free[0] == r);
        memmove(pool.free, pool.free + 1, --pool.free_count * sizeof r);
    } else {
        REQUIRE(resources[r].state == NEW && resources[r].holder == me);
    }
    hold_resource(me, r);
}

static bool acquire_resource(actor *me)
{
    weft_value own = me->held;
    enter_waitq(me, &pool.waitq, 0, 0);
    if (own != 0)
        expect_at_once(me, own);
    else if (pool.free_count > 0)
        expect_at_once(me, pool.free[0]);
    weft_value r = weft_pool_acquire(pool.pool);
    bool is_expected = me->woken_entry != NULL;
    if (!check_result(me, r, true)) {
        REQUIRE(!me->creation_failed || r == FAILED);
        return false;
    }
    if (own != 0)
        resources[r].depth++;
    else if (!is_expected)
        record_acquired(me, r);
    REQUIRE(me->held == r && resources[r].holder == me);
    return true;
}

static bool try_acquire_resource(actor *me)
{
    bool is_known = is_waitq_known(&pool.waitq);
    bool is_ready = me->held != 0 || pool.free_count > 0 || pool.held + pool.creating < POOL_LIMIT;
    weft_value own = me->held;
    enter_waitq(me, &pool.waitq, 0, 0);
    weft_value r = weft_pool_try_acquire(pool.pool);
    leave_waitq(&me->entries[--me->entered]);
    run_report->steps++;
    if (is_known)
        REQUIRE((r == -EAGAIN) == !is_ready);
    if (weft_is_error(r)) {
        REQUIRE(r == -EAGAIN || (r == FAILED && me->creation_failed));
        return false;
    }
    REQUIRE(own == 0 || own == r);
    if (own != 0)
        resources[r].depth++;
    else
        record_acquired(me, r);
    return true;
}

/* Release the resource of the actor once. */
static void release_resource(actor *me)
{
    weft_value r = me->held;
    entry *next = first_waiting(&pool.waitq);
    REQUIRE(weft_pool_release(pool.pool, r) == 0);
    if (--resources[r].depth > 0)
        return;
    me->held = 0;
    pool.held--;
    if (next != NULL) {
        expect_woken(next, r);
        hold_resource(next->actor, r);
    } else {
        resources[r].state = FREE;
        pool.free[pool.free_count++] = r;
    }
}

/* Discard the resource. The first waiter may create a new one. */
static void discard_resource(actor *me)
{
    const entry *next = first_waiting(&pool.waitq);
    weft_value r = me->held;
    me->held = 0;
    REQUIRE(weft_pool_discard(pool.pool, r) == 0);
    REQUIRE(resources[r].state == NOTHING);
    REQUIRE(next == NULL || !is_waiting(next));
}

static void check_pool(void)
{
    size_t waiting = count_waiting(&pool.waitq);
    REQUIRE(weft_pool_waiting(pool.pool) == waiting);
    REQUIRE(weft_pool_available(pool.pool) == pool.free_count);
    REQUIRE(weft_pool_size(pool.pool) == pool.held + pool.free_count);
    REQUIRE(pool.held + pool.free_count + pool.creating <= POOL_LIMIT);
    REQUIRE(waiting == 0 || pool.free_count == 0);
    if (is_waitq_known(&pool.waitq))
        REQUIRE(waiting == 0 || pool.held + pool.creating == POOL_LIMIT);
}

static void do_pool(actor *me)
{
    if (!(random_below(5) == 0 ? try_acquire_resource : acquire_resource)(me))
        return;
    check_pool();
    run_ops_while_holding(me);
    weft_value r = me->held;
    if (r == 0)
        return; /* a nested call discarded the resource */
    if (me->depth == 1 && resources[r].depth == 1 && random_below(10) == 0)
        me->ends_holding = true; /* will end with the resource */
    else if (random_below(8) == 0)
        discard_resource(me);
    else
        release_resource(me);
    check_pool();
}

static void open_pool(void)
{
    weft_pool_options options = {
        .limit = POOL_LIMIT, .make = create_resource, .destroy = destroy_resource};
    REQUIRE((pool.pool = weft_pool_new(&options)) != NULL);
    REQUIRE((actor_key = weft_key_new(NULL)) != 0);
}

/* After the end of all actors: no resource is held. */
static void close_pool(void)
{
    check_pool();
    REQUIRE(pool.held == 0 && pool.creating == 0);
    pool.free_count = 0;
    REQUIRE(weft_pool_free(pool.pool) == 0);
    for (weft_value r = 1; r <= resources_made; r++)
        REQUIRE(resources[r].state == NOTHING);
}

#endif

/* The model of a pool: which resource is where, and who has it. */
#ifndef TESTS_SYNC_POOL_H
#define TESTS_SYNC_POOL_H

#include "sync_model.h"

#define POOL_LIMIT 4
#define RESOURCES_MAX 60000

static struct {
    weft_pool *pool;
    place line;
    weft_value free[POOL_LIMIT]; /* in the order of their release */
    size_t free_count;
    size_t held;   /* by actors that have it, or to which it was promised */
    size_t making; /* actors that make one */
} pool;

typedef struct resource {
    enum { NOTHING, NEW, FREE, HELD } state;
    actor *who; /* made it, or has it */
    size_t depth;
} resource;

static resource resources[RESOURCES_MAX];
static weft_value resources_made;
static weft_key actor_key; /* whose value is the actor that a fiber is */

static weft_value make(void *arg)
{
    (void)arg;
    actor *me = weft_local_get(actor_key);
    REQUIRE(me->entered == 1);
    me->is_making = true;
    pool.making++;
    REQUIRE(pool.held + pool.free_count + pool.making <= POOL_LIMIT);
    for (unsigned i = roll(3); i > 0; i--)
        pause_for_a_while(me);
    pool.making--;
    me->is_making = false;
    me->has_failed = roll(4) == 0;
    if (me->has_failed)
        return FAILED;
    REQUIRE(resources_made + 1 < RESOURCES_MAX);
    resources[++resources_made] = (resource){.state = NEW, .who = me};
    return resources_made;
}

static void destroy(weft_value r, void *arg)
{
    (void)arg;
    REQUIRE(resources[r].state == HELD || resources[r].state == FREE);
    pool.held -= resources[r].state == HELD;
    resources[r].state = NOTHING;
}

static void hold_resource(actor *who, weft_value r)
{
    resources[r] = (resource){.state = HELD, .who = who, .depth = 1};
    who->held = r;
    pool.held++;
}

/* One that was acquired without a promise: made by the caller, or the first of those free. */
static void have_resource(actor *me, weft_value r)
{
    REQUIRE(r > 0 && r <= resources_made);
    if (resources[r].state == FREE) {
        REQUIRE(pool.free_count > 0 && pool.free[0] == r);
        memmove(pool.free, pool.free + 1, --pool.free_count * sizeof r);
    } else {
        REQUIRE(resources[r].state == NEW && resources[r].who == me);
    }
    hold_resource(me, r);
}

static bool acquire(actor *me)
{
    weft_value own = me->held;
    enter(me, &pool.line, 0, 0);
    if (own != 0)
        keep(me, own);
    else if (pool.free_count > 0)
        keep(me, pool.free[0]);
    weft_value r = weft_pool_acquire(pool.pool);
    bool is_promised = me->served != NULL;
    if (!judge(me, r, true)) {
        REQUIRE(!me->has_failed || r == FAILED);
        return false;
    }
    if (own != 0)
        resources[r].depth++;
    else if (!is_promised)
        have_resource(me, r);
    REQUIRE(me->held == r && resources[r].who == me);
    return true;
}

static bool try_acquire(actor *me)
{
    bool is_known = is_clear(&pool.line);
    bool can = me->held != 0 || pool.free_count > 0 || pool.held + pool.making < POOL_LIMIT;
    weft_value own = me->held;
    enter(me, &pool.line, 0, 0);
    weft_value r = weft_pool_try_acquire(pool.pool);
    leave(&me->entries[--me->entered]);
    told->steps++;
    if (is_known)
        REQUIRE((r == -EAGAIN) == !can);
    if (weft_is_error(r)) {
        REQUIRE(r == -EAGAIN || (r == FAILED && me->has_failed));
        return false;
    }
    REQUIRE(own == 0 || own == r);
    if (own != 0)
        resources[r].depth++;
    else
        have_resource(me, r);
    return true;
}

/* The caller has given it up, once. */
static void release(actor *me)
{
    weft_value r = me->held;
    entry *next = first_in(&pool.line);
    REQUIRE(weft_pool_release(pool.pool, r) == 0);
    if (--resources[r].depth > 0)
        return;
    me->held = 0;
    pool.held--;
    if (next != NULL) {
        promise(next, r);
        hold_resource(next->who, r);
    } else {
        resources[r].state = FREE;
        pool.free[pool.free_count++] = r;
    }
}

/* The first who waits may make another in its place. */
static void discard(actor *me)
{
    const entry *next = first_in(&pool.line);
    weft_value r = me->held;
    me->held = 0;
    REQUIRE(weft_pool_discard(pool.pool, r) == 0);
    REQUIRE(resources[r].state == NOTHING);
    REQUIRE(next == NULL || !is_waiting(next));
}

static void check_pool(void)
{
    size_t waiting = count_in_line(&pool.line);
    REQUIRE(weft_pool_waiting(pool.pool) == waiting);
    REQUIRE(weft_pool_available(pool.pool) == pool.free_count);
    REQUIRE(weft_pool_size(pool.pool) == pool.held + pool.free_count);
    REQUIRE(pool.held + pool.free_count + pool.making <= POOL_LIMIT);
    REQUIRE(waiting == 0 || pool.free_count == 0);
    if (is_clear(&pool.line))
        REQUIRE(waiting == 0 || pool.held + pool.making == POOL_LIMIT);
}

static void do_pool(actor *me)
{
    if (!(roll(5) == 0 ? try_acquire : acquire)(me))
        return;
    check_pool();
    act_while_holding(me);
    weft_value r = me->held;
    if (r == 0)
        return; /* it was broken, and discarded, while it was held twice */
    if (me->depth == 1 && resources[r].depth == 1 && roll(10) == 0)
        me->is_mortal = true; /* it will end with it */
    else if (roll(8) == 0)
        discard(me);
    else
        release(me);
    check_pool();
}

static void open_pool(void)
{
    weft_pool_options options = {.limit = POOL_LIMIT, .make = make, .destroy = destroy};
    REQUIRE((pool.pool = weft_pool_new(&options)) != NULL);
    REQUIRE((actor_key = weft_key_new(NULL)) != 0);
}

/* Everyone is dead: nobody has anything. */
static void close_pool(void)
{
    check_pool();
    REQUIRE(pool.held == 0 && pool.making == 0);
    pool.free_count = 0;
    REQUIRE(weft_pool_free(pool.pool) == 0);
    for (weft_value r = 1; r <= resources_made; r++)
        REQUIRE(resources[r].state == NOTHING);
}

#endif

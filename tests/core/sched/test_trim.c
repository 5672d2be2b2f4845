/* Tests of memory after a burst of fibers: it is returned to the system when the thread is idle. */
#include "core/sched/trim.h"
#include "support/suite.h"

/* Several times the number of warm stacks, and few enough for TSan. */
#define COUNT (MANY_FIBERS / 4)

static weft_fiber fibers[COUNT];

static size_t resident_bytes(void)
{
    return resident_pages() * (size_t)sysconf(_SC_PAGESIZE);
}

/* Return the number of free stacks of all sizes that have pages. */
static size_t warm_stacks(void)
{
    const weft__stack_cache *pool = &weft__cord_self->stacks;
    size_t warm = 0;
    for (int i = 0; i < WEFT__STACK_CLASSES; i++)
        warm += pool->classes[i].count - pool->classes[i].cold;
    return warm;
}

static void spin_all(weft_fn *fn)
{
    for (int i = 0; i < COUNT; i++) {
        fibers[i] = weft_spin(fn, as_arg(i));
        ck_assert_uint_ne(fibers[i], 0);
    }
    weft_snooze();
}

static void await_one(int i)
{
    ck_assert_int_eq(weft_schedule(fibers[i], i), 0);
    ck_assert_int_eq(weft_await(fibers[i]), i);
}

static void await_all(void)
{
    for (int i = 0; i < COUNT; i++)
        await_one(i);
}

/* Be idle until there is nothing left to trim. Each trim period is ended at once. */
static void idle_until_trimmed(void)
{
    weft__cord *c = weft__cord_self;
    do {
        if (c->trim.due_ns != 0)
            c->trim.due_ns = 1;
        weft_sleep(0.03); /* longer than a thread must be idle before it trims */
    } while (c->trim.due_ns != 0 || c->stacks.can_trim || c->stacks.excess != 0);
}

static void trim_a_burst(void)
{
    spin_all(suspend);
    await_all();
    idle_until_trimmed();
}

TEST(stacks_and_records_of_a_burst_are_freed_when_the_thread_is_idle)
{
    spin_all(suspend);
    size_t at_most = resident_bytes();
    await_all();
    ck_assert_uint_gt(warm_stacks(), WEFT__STACK_WARM_IDLE);
    idle_until_trimmed();
    ck_assert_uint_le(warm_stacks(), WEFT__STACK_WARM_IDLE);
#ifndef WEFT__SANITIZED
    ck_assert_uint_ne(weft__cord_self->trim.first, 0);
    ck_assert_uint_lt(resident_bytes(), at_most - COUNT * (size_t)4096 / 2);
#else
    (void)at_most;
#endif
}

static weft_value use_40_kib_and_suspend(void *arg)
{
    volatile char deep[40 << 10];
    for (size_t i = 0; i < sizeof deep; i += 1024)
        deep[i] = 1;
    return weft_suspend() + deep[0] - 1;
}

TEST(deep_stacks_are_trimmed_too)
{
    trim_a_burst();
    size_t before = resident_bytes();
    spin_all(use_40_kib_and_suspend);
    await_all();
    idle_until_trimmed();
#ifndef WEFT__SANITIZED
    /* Cached stacks keep only their tops. */
    ck_assert_uint_lt(resident_bytes(), before + (16 << 20));
#else
    (void)before;
#endif
}

TEST(a_later_burst_works_and_reuses_no_ids)
{
    static weft_fiber earlier[COUNT];
    for (int round = 0; round < 3; round++) {
        memcpy(earlier, fibers, sizeof earlier);
        spin_all(suspend);
        for (int i = 0; i < COUNT; i++) {
            ck_assert_uint_ne(fibers[i], earlier[i]);
            ck_assert_int_eq(weft_await(earlier[i]), -ESRCH);
        }
        await_all();
        idle_until_trimmed();
    }
    ck_assert_uint_eq(stats().fibers, 0);
}

TEST(trimmed_records_stay_trimmed_after_a_smaller_burst)
{
    trim_a_burst();
    for (int round = 0; round < 3; round++) {
        const uint32_t trimmed_from = weft__cord_self->trim.first;
        weft__trim_schedule(weft__cord_self); /* as after any burst that exceeds the warm stacks */
        idle_until_trimmed();
        ck_assert_uint_eq(weft__cord_self->trim.first, trimmed_from);
    }
    spin_all(suspend);
    await_all();
}

TEST(records_with_exhausted_ids_are_not_trimmed)
{
    for (int round = 0; round < 3; round++) {
        spin_all(suspend);
        for (int i = 0; i < COUNT; i += 50) {
            weft__fiber *f = weft__record_at(weft__cord_self, weft__fiber_slot(fibers[i]));
            f->last_id |= (weft_fiber)UINT32_MAX << 32;
        }
        await_all();
        for (int i = 0; i < 300; i++) /* exhausts the warm records too */
            ck_assert_int_eq(weft_await(weft_spin(return_arg, as_arg(i))), i);
        idle_until_trimmed();
    }
}

TEST(unused_warm_records_lose_their_stacks_when_the_thread_is_idle)
{
    trim_a_burst();
    ck_assert_uint_le(weft__cord_self->warm_count, WEFT__WARM_IDLE);
    ck_assert_uint_eq(stats().fibers, 0);
    for (int i = 0; i < 2 * WEFT__WARM_MAX; i++)
        ck_assert_int_eq(weft_await(weft_spin(return_arg, as_arg(i))), i);
}

/* Be idle until the end of one trim period. */
static void end_trim_period(void)
{
    weft__trim_schedule(weft__cord_self);
    weft__cord_self->trim.due_ns = 1;
    weft_sleep(0.03);
}

TEST(warm_records_that_fibers_use_in_every_period_keep_their_stacks)
{
    enum { USED = 3 * WEFT__WARM_IDLE };
    trim_a_burst();
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < USED; i++)
            ck_assert_int_eq(weft_go(return_arg, NULL), 0);
        let_run();
        ck_assert_uint_ge(weft__cord_self->warm_count, USED);
        end_trim_period();
        ck_assert_uint_ge(weft__cord_self->warm_count, USED);
    }
    end_trim_period();
    ck_assert_uint_le(weft__cord_self->warm_count, WEFT__WARM_IDLE);
}

TEST(live_fibers_are_not_trimmed)
{
    spin_all(suspend);
    for (int i = 0; i < COUNT; i++) {
        if (i % 97 != 0)
            await_one(i);
    }
    idle_until_trimmed();
    for (int i = 0; i < COUNT; i += 97)
        await_one(i);
}

static weft_value tell_all(void *arg)
{
    int missing = 0;
    for (int i = 0; i < COUNT; i++)
        missing += weft_tell(fibers[i], 1) == -ESRCH;
    *(int *)arg = missing;
    return 0;
}

TEST(other_threads_find_no_fiber_in_trimmed_records)
{
    trim_a_burst();
    int missing = 0;
    ck_assert_int_eq(weft_cord_join(weft_cord_start(tell_all, &missing, NULL)), 0);
    ck_assert_int_eq(missing, COUNT);
    ck_assert_uint_eq(weft__cord_self->trim.due_ns, 0); /* the thread is not woken to trim again */
    ck_assert(!weft__cord_self->stacks.can_trim);
}

/* Memory after a burst of fibers: it goes back to the system when the thread is idle. */
#include "core/rest.h"
#include "support.h"

#include <stdio.h>

/* Several times what stays warm, and as many as TSan has room for. */
#define COUNT (MANY_FIBERS / 2)

static weft_fiber fibers[COUNT];

/* Of the process. */
static size_t resident_bytes(void)
{
    unsigned long all, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%lu %lu", &all, &resident), 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* Free stacks of all sizes that have pages. */
static size_t warm_stacks(void)
{
    const weft__stack_pool *pool = &weft__cord_self->stacks;
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

static void end_all(void)
{
    for (int i = 0; i < COUNT; i++) {
        ck_assert_int_eq(weft_schedule(fibers[i], i), 0);
        ck_assert_int_eq(weft_await(fibers[i]), i);
    }
}

/*
 * Let periods pass, in which the thread is idle, until it sees nothing to give back. Their length
 * does not matter: each is declared to be over.
 */
static void be_idle(void)
{
    weft__cord *c = weft__cord_self;
    do {
        if (c->rest.due_ns != 0)
            c->rest.due_ns = 1;
        weft_sleep(0.03); /* longer than a thread has to be idle for to be calm */
    } while (c->rest.due_ns != 0 || c->stacks.is_rich || c->stacks.excess != 0);
}

START_TEST(stacks_and_records_of_a_burst_go_back_when_the_thread_is_idle)
{
    spin_all(suspend);
    size_t at_most = resident_bytes();
    end_all();
    ck_assert_uint_gt(warm_stacks(), WEFT__STACK_WARM_REST);
    be_idle();
    ck_assert_uint_le(warm_stacks(), WEFT__STACK_WARM_REST);
#ifndef WEFT__ANNOTATED
    ck_assert_uint_ne(weft__cord_self->rest.first, 0);
    ck_assert_uint_lt(resident_bytes(), at_most - COUNT * (size_t)4096 / 2);
#else
    (void)at_most;
#endif
}
END_TEST

static weft_value go_deep_and_suspend(void *arg)
{
    volatile char deep[40 << 10];
    for (size_t i = 0; i < sizeof deep; i += 1024)
        deep[i] = 1;
    (void)arg;
    return weft_suspend() + deep[0] - 1;
}

START_TEST(deep_stacks_go_back_too)
{
    spin_all(suspend);
    end_all();
    be_idle();
    size_t before = resident_bytes();
    spin_all(go_deep_and_suspend);
    end_all();
    be_idle();
#ifndef WEFT__ANNOTATED
    /* What is kept is kept without its depth. */
    ck_assert_uint_lt(resident_bytes(), before + (16 << 20));
#else
    (void)before;
#endif
}
END_TEST

START_TEST(a_burst_after_that_runs_as_before_with_ids_of_its_own)
{
    static weft_fiber earlier[COUNT];
    for (int round = 0; round < 3; round++) {
        memcpy(earlier, fibers, sizeof earlier);
        spin_all(suspend);
        for (int i = 0; i < COUNT; i++) {
            ck_assert_uint_ne(fibers[i], earlier[i]);
            ck_assert_int_eq(weft_await(earlier[i]), -ESRCH);
        }
        end_all();
        be_idle();
    }
    weft_counters counters;
    ck_assert_int_eq(weft_stats(&counters), 0);
    ck_assert_uint_eq(counters.fibers, 0);
}
END_TEST

START_TEST(records_that_were_given_back_are_left_alone_after_a_smaller_burst)
{
    spin_all(suspend);
    end_all();
    be_idle();
    for (int round = 0; round < 3; round++) {
        const uint32_t asleep = weft__cord_self->rest.first;
        weft__rest_expect(weft__cord_self); /* as any burst does that is larger than the warm set */
        be_idle();
        ck_assert_uint_eq(weft__cord_self->rest.first, asleep);
    }
    spin_all(suspend);
    end_all();
}
END_TEST

START_TEST(records_whose_ids_are_used_up_stay_out_of_it)
{
    for (int round = 0; round < 3; round++) {
        spin_all(suspend);
        for (int i = 0; i < COUNT; i += 50) {
            weft__fiber *f = weft__cord_at(weft__cord_self, weft__fiber_slot(fibers[i]));
            f->last_id |= (weft_fiber)UINT32_MAX << 32;
        }
        end_all();
        for (int i = 0; i < 300; i++) /* the warm ones, too */
            ck_assert_int_eq(weft_await(weft_spin(return_arg, as_arg(i))), i);
        be_idle();
    }
}
END_TEST

START_TEST(what_still_runs_is_left_alone)
{
    spin_all(suspend);
    for (int i = 0; i < COUNT; i++) {
        if (i % 97 == 0)
            continue;
        ck_assert_int_eq(weft_schedule(fibers[i], i), 0);
        ck_assert_int_eq(weft_await(fibers[i]), i);
    }
    be_idle();
    for (int i = 0; i < COUNT; i += 97) {
        ck_assert_int_eq(weft_schedule(fibers[i], i), 0);
        ck_assert_int_eq(weft_await(fibers[i]), i);
    }
}
END_TEST

static weft_value tell_all(void *arg)
{
    int missing = 0;
    for (int i = 0; i < COUNT; i++)
        missing += weft_tell(fibers[i], 1) == -ESRCH;
    *(int *)arg = missing;
    return 0;
}

START_TEST(other_threads_find_nobody_where_memory_was_given_back)
{
    spin_all(suspend);
    end_all();
    be_idle();
    int missing = 0;
    ck_assert_int_eq(weft_cord_join(weft_cord_start(tell_all, &missing, NULL)), 0);
    ck_assert_int_eq(missing, COUNT);
}
END_TEST

START_TEST(a_thread_at_rest_is_not_woken_for_it_again)
{
    spin_all(suspend);
    end_all();
    be_idle();
    weft_sleep(0.03);
    ck_assert_uint_eq(weft__cord_self->rest.due_ns, 0);
    ck_assert(!weft__cord_self->stacks.is_rich);
}
END_TEST

static const TTest *const *const tests[] = {
    &stacks_and_records_of_a_burst_go_back_when_the_thread_is_idle,
    &deep_stacks_go_back_too,
    &a_burst_after_that_runs_as_before_with_ids_of_its_own,
    &records_that_were_given_back_are_left_alone_after_a_smaller_burst,
    &records_whose_ids_are_used_up_stay_out_of_it,
    &what_still_runs_is_left_alone,
    &other_threads_find_nobody_where_memory_was_given_back,
    &a_thread_at_rest_is_not_woken_for_it_again,
};

int main(void)
{
    return run_suite("rest", tests, COUNT_OF(tests));
}

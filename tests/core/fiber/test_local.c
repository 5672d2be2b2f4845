/* Tests of fiber-local state: values by key, memory, and deferred calls of fibers and blocks. */
#include "support/suite.h"

#include <limits.h>
#include <stdalign.h>
#include <stdatomic.h>

static weft_key key;
static int destroyed;

CALLBACK(count_destroyed, destroyed += *(int *)arg)

static weft_value set_and_check(void *arg)
{
    if (weft_local_get(key) != NULL || weft_local_set(key, arg) != 0)
        return 1;
    weft_snooze();
    return weft_local_get(key) == arg ? 0 : 2;
}

TEST(every_fiber_has_its_own_value_for_a_key_and_starts_without)
{ /* T105 */
    int values[3] = {0};
    key = weft_key_new(NULL);
    ck_assert_uint_ne(key, 0);
    ck_assert_ptr_null(weft_local_get(key));
    ck_assert_int_eq(weft_local_set(key, &values[0]), 0);
    for (int i = 0; i < 10; i++) { /* also on reused records */
        weft_fiber a = weft_spin(set_and_check, &values[1]);
        weft_fiber b = weft_spin(set_and_check, &values[2]);
        ck_assert_int_eq(weft_await(a), 0);
        ck_assert_int_eq(weft_await(b), 0);
    }
    ck_assert_ptr_eq(weft_local_get(key), &values[0]);
    ck_assert_int_eq(weft_local_set(key, NULL), 0);
    ck_assert_ptr_null(weft_local_get(key));
}

static weft_value set_or_restart(void *arg)
{
    if (weft_local_get(key) != NULL)
        return 1;
    weft_local_set(key, arg);
    return weft_suspend();
}

TEST(a_restarted_fiber_starts_without_values)
{ /* T105 */
    int value = 1;
    key = weft_key_new(count_destroyed);
    weft_fiber f = spin_waiting(set_or_restart, &value);
    ck_assert_int_eq(weft_restart(f), 0);
    ck_assert_int_eq(destroyed, 1);
    weft_snooze();
    ck_assert_int_eq(weft_schedule(f, 7), 0);
    ck_assert_int_eq(weft_await(f), 7);
    ck_assert_int_eq(destroyed, 2);
}

static weft_value set_two_keys(void *arg)
{
    weft_key *keys = arg;
    static int one = 1, ten = 10;
    weft_local_set(keys[0], &one);
    weft_local_set(keys[1], &ten);
    weft_local_set(keys[2], &one);
    weft_local_set(keys[2], NULL);
    return weft_suspend();
}

TEST(a_destructor_gets_each_value_once_when_the_fiber_ends_or_is_stopped)
{ /* T105, P24 */
    weft_key keys[] = {weft_key_new(count_destroyed), weft_key_new(count_destroyed),
                       weft_key_new(count_destroyed)};
    for (int i = 0; i < 2; i++) {
        destroyed = 0;
        weft_fiber f = spin_waiting(set_two_keys, keys);
        ck_assert_int_eq(destroyed, 0);
        ck_assert_int_eq(i == 0 ? weft_schedule(f, 42) : weft_stop(f, 42), 0);
        ck_assert_int_eq(weft_await(f), 42);
        ck_assert_int_eq(destroyed, 11);
    }
}

static void set_again(void *value)
{
    destroyed++;
    weft_local_set(key, value);
}

FIBER(set_local, weft_local_set(key, arg))

TEST(a_destructor_that_sets_its_value_again_does_not_run_forever)
{ /* T105 */
    int value = 1;
    key = weft_key_new(set_again);
    ck_assert_int_eq(weft_await(weft_spin(set_local, &value)), 0);
    ck_assert_int_ge(destroyed, 2);
    ck_assert_int_le(destroyed, 16);
}

TEST(a_key_that_does_not_exist_has_no_value_accepts_none_and_cannot_be_freed)
{ /* T105 */
    int value;
    weft_key once = weft_key_new(NULL);
    ck_assert_int_eq(weft_key_free(once), 0);
    const weft_key bad[] = {0, once, 1000000, UINT_MAX};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        ck_assert_int_eq(weft_local_set(bad[i], &value), -EINVAL);
        ck_assert_ptr_null(weft_local_get(bad[i]));
        ck_assert_int_eq(weft_key_free(bad[i]), -EINVAL);
    }
}

TEST(there_are_64_keys_in_all)
{ /* T105 */
    weft_key keys[64];
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        keys[i] = weft_key_new(NULL);
        ck_assert_uint_ne(keys[i], 0);
        ck_assert_int_eq(weft_local_set(keys[i], &keys[i]), 0);
    }
    ck_assert_uint_eq(weft_key_new(NULL), 0);
    ck_assert_error(-EAGAIN, "weft_key_new: 64 keys exist already");
    for (size_t i = 0; i < COUNT_OF(keys); i++)
        ck_assert_ptr_eq(weft_local_get(keys[i]), &keys[i]);
}

TEST(freeing_a_key_drops_its_values_without_a_destructor)
{
    int value = 1;
    key = weft_key_new(count_destroyed);
    weft_fiber f = spin_waiting(set_or_restart, &value);
    ck_assert_int_eq(weft_local_set(key, &value), 0);
    ck_assert_int_eq(weft_key_free(key), 0);
    ck_assert_ptr_null(weft_local_get(key));
    ck_assert_int_eq(weft_schedule(f, 3), 0);
    ck_assert_int_eq(weft_await(f), 3);
    ck_assert_int_eq(destroyed, 0);
}

/* A new key may use the place of the freed key. */
TEST(a_new_key_never_has_the_values_of_a_freed_key)
{
    int value = 1;
    for (int i = 0; i < 1000; i++) {
        weft_key old = weft_key_new(NULL);
        ck_assert_int_eq(weft_local_set(old, &value), 0);
        ck_assert_int_eq(weft_key_free(old), 0);
        weft_key next = weft_key_new(NULL);
        ck_assert_uint_ne(next, old);
        ck_assert_ptr_null(weft_local_get(next));
        ck_assert_int_eq(weft_local_set(next, &value), 0);
        ck_assert_ptr_null(weft_local_get(old));
        ck_assert_int_eq(weft_key_free(next), 0);
    }
}

static atomic_int own_destroyed, other_destroyed, mistaken;
static int own_value, other_value;

CALLBACK(destroy_own, atomic_fetch_add(arg == &own_value ? &own_destroyed : &mistaken, 1))
CALLBACK(destroy_other, atomic_fetch_add(arg == &other_value ? &other_destroyed : &mistaken, 1))

/* Create and free keys, and end fibers that have values for them. */
static void *use_and_free_keys(void *arg)
{
    bool is_own = arg == &own_value;
    for (int i = 0; i < 2000; i++) {
        weft_key mine = weft_key_new(is_own ? destroy_own : destroy_other);
        ck_assert_uint_ne(mine, 0);
        ck_assert_int_eq(weft_local_set(mine, arg), 0);
        ck_assert_ptr_eq(weft_local_get(mine), arg);
        ck_assert_int_eq(weft_key_free(mine), 0);
    }
    weft_key last = weft_key_new(is_own ? destroy_own : destroy_other);
    ck_assert_int_eq(weft_local_set(last, arg), 0);
    return NULL;
}

TEST(threads_can_create_and_free_keys_concurrently)
{
    pthread_t threads[4];
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        threads[i] = start_thread(use_and_free_keys, i % 2 == 0 ? &own_value : &other_value);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        join_thread(threads[i]);
    ck_assert_int_eq(atomic_load(&mistaken), 0);
    ck_assert_int_eq(atomic_load(&own_destroyed), 2);
    ck_assert_int_eq(atomic_load(&other_destroyed), 2);
}

static weft_value use_parents_memory(void *arg)
{
    char *text = arg;
    weft_sleep(60);
    text[0] = 'c'; /* while this fiber ends; its parent waits only for its children */
    mark(text);
    return 0;
}

static weft_value share_memory_with_child(void *arg)
{
    for (size_t bytes = 1; bytes < 100000; bytes *= 3) {
        char *p = weft_alloc(bytes);
        if (p == NULL || (uintptr_t)p % alignof(max_align_t) != 0)
            return 1;
        memset(p, 0xff, bytes);
    }
    char *text = weft_alloc(6);
    strcpy(text, "Child");
    weft_spin(use_parents_memory, text);
    return weft_snooze();
}

TEST(the_memory_of_a_fiber_lives_until_its_children_have_ended)
{ /* DESIGN 4 */
    ck_assert_int_eq(weft_await(weft_spin(share_memory_with_child, NULL)), 0);
    ck_assert_trail("child");
}

TEST(a_failed_allocation_returns_NULL)
{ /* DESIGN 3 */
    ck_assert_ptr_null(weft_alloc(SIZE_MAX));
    ck_assert_error(-ENOMEM, "weft_alloc: memory is exhausted, bytes is 18446744073709551615");
    if (!is_sanitized())
        ck_assert_ptr_null(weft_alloc((size_t)1 << 46)); /* more than the address space */
    ck_assert_ptr_nonnull(weft_alloc(0));
}

static int return_from_the_middle(bool early)
{
    WEFT_DEFER(mark, "1");
    WEFT_DEFER(mark, "2");
    if (early)
        return 1;
    WEFT_DEFER(mark, "3");
    mark("b");
    return 0;
}

TEST(a_block_runs_its_deferred_calls_in_reverse_order)
{ /* DESIGN 5 */
    ck_assert_int_eq(return_from_the_middle(false), 0);
    ck_take_trail("b321");
    ck_assert_int_eq(return_from_the_middle(true), 1);
    ck_assert_trail("21");
}

TEST(leaving_a_block_by_break_continue_or_goto_runs_its_deferred_calls)
{ /* DESIGN 5 */
    for (int i = 0; i < 3; i++) {
        WEFT_DEFER(mark, "d");
        if (i == 0)
            continue;
        if (i == 1)
            break;
        ck_abort_msg("not left");
    }
    ck_assert_trail("dd");
    {
        WEFT_DEFER(mark, "o");
        {
            WEFT_DEFER(mark, "i");
            goto out;
        }
    }
out:
    ck_assert_trail("ddio");
}

static int sum;

static int add_to_sum(int x) /* its result is ignored, and an int is not a pointer */
{
    return sum += x;
}

TEST(the_argument_of_a_deferred_call_is_evaluated_once_at_the_defer)
{ /* DESIGN 5 */
    int x = 1;
    {
        WEFT_DEFER(add_to_sum, x++);
        WEFT_DEFER(add_to_sum, -10);
        WEFT_DEFER(free, malloc(10)); /* leak checkers verify this call */
        x = 100;
        ck_assert_int_eq(sum, 0);
    }
    ck_assert_int_eq(sum, -9);
    ck_assert_int_eq(x, 100);
}

static weft_value sleep_in_blocks(void *arg)
{
    WEFT_DEFER(mark, "outer");
    WEFT_MOVE_ON_AFTER(60) {
        WEFT_DEFER(mark, "inner ");
        int rc = weft_sleep(60);
        if (rc < 0)
            return rc;
    }
    ck_abort_msg("slept");
}

TEST(blocks_of_a_stopped_fiber_run_their_deferred_calls)
{ /* DESIGN 5 */
    weft_fiber f = spin_waiting(sleep_in_blocks, NULL);
    weft_stop(f, 42);
    ck_assert_int_eq(weft_await(f), 42);
    ck_assert_trail("inner outer");
}

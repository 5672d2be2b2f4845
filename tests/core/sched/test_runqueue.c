/*
 * Tests of the run queue: order, removal, and capacity, in fixed cases and at random against a
 * list.
 */
#include "core/sched/runqueue.h"

#include <check.h>
#include <string.h>

static weft__runqueue queue;

static void init_queue(void)
{
    ck_assert_int_eq(weft__runqueue_init(&queue), 0);
}

static void close_queue(void)
{
    weft__runqueue_close(&queue);
}

START_TEST(an_empty_queue_returns_nothing)
{
    ck_assert_ptr_null(weft__runqueue_pop(&queue));
    ck_assert_ptr_null(weft__runqueue_first(&queue));
}
END_TEST

START_TEST(entries_are_popped_in_order_and_those_pushed_to_the_front_first)
{
    weft__runnable a = {0}, b = {0}, c = {0};
    weft__runqueue_push(&queue, &a);
    weft__runqueue_push(&queue, &b);
    weft__runqueue_push_front(&queue, &c);
    ck_assert_uint_eq(weft__runqueue_count(&queue), 3);
    ck_assert(weft__runnable_is_queued(&a));
    ck_assert_ptr_eq(weft__runqueue_first(&queue), &c);
    ck_assert_ptr_eq(weft__runqueue_pop(&queue), &c);
    ck_assert_ptr_eq(weft__runqueue_pop(&queue), &a);
    ck_assert(!weft__runnable_is_queued(&a));
    ck_assert_ptr_eq(weft__runqueue_pop(&queue), &b);
    ck_assert_ptr_null(weft__runqueue_pop(&queue));
    ck_assert_uint_eq(weft__runqueue_count(&queue), 0);
    ck_assert_uint_eq(queue.count_max, 3);
}
END_TEST

START_TEST(removed_entries_are_skipped)
{
    weft__runnable a = {0}, b = {0}, c = {0};
    weft__runqueue_push(&queue, &a);
    weft__runqueue_push(&queue, &b);
    weft__runqueue_push(&queue, &c);
    weft__runqueue_remove(&queue, &b);
    ck_assert(!weft__runnable_is_queued(&b));
    weft__runqueue_push(&queue, &b); /* it can be queued again, at the tail */
    ck_assert_ptr_eq(weft__runqueue_pop(&queue), &a);
    ck_assert_ptr_eq(weft__runqueue_pop(&queue), &c);
    ck_assert_ptr_eq(weft__runqueue_pop(&queue), &b);
}
END_TEST

START_TEST(repeated_removal_and_insertion_never_overflows)
{
    weft__runnable stays = {0}, moves = {0};
    weft__runqueue_push(&queue, &stays);
    for (int i = 0; i < 10000; i++) {
        weft__runqueue_push(&queue, &moves);
        weft__runqueue_remove(&queue, &moves);
        weft__runqueue_push_front(&queue, &moves);
        weft__runqueue_remove(&queue, &moves);
    }
    ck_assert_uint_eq(weft__runqueue_count(&queue), 1);
    ck_assert_ptr_eq(weft__runqueue_pop(&queue), &stays);
    ck_assert_ptr_null(weft__runqueue_pop(&queue));
}
END_TEST

START_TEST(growing_keeps_the_order_and_the_queue_indexes)
{
    enum { COUNT = 1000 };
    static weft__runnable all[COUNT];
    /* Make the ring wrap around when it grows. */
    for (int i = 0; i < 25; i++) {
        weft__runqueue_push(&queue, &all[0]);
        weft__runqueue_pop(&queue);
    }
    for (int i = 0; i < COUNT; i++) {
        ck_assert_int_eq(weft__runqueue_reserve(&queue, (size_t)i + 1), 0);
        weft__runqueue_push(&queue, &all[i]);
    }
    ck_assert_uint_ge(queue.mask + 1, 2 * COUNT);
    for (int i = 1; i < COUNT; i += 2)
        weft__runqueue_remove(&queue, &all[i]);
    for (int i = 0; i < COUNT; i += 2)
        ck_assert_ptr_eq(weft__runqueue_pop(&queue), &all[i]);
    ck_assert_ptr_null(weft__runqueue_pop(&queue));
}
END_TEST

START_TEST(a_failed_allocation_is_an_error_and_changes_nothing)
{
    weft__runnable a = {0};
    weft__runqueue_push(&queue, &a);
    uint32_t mask = queue.mask;
    ck_assert_int_lt(weft__runqueue_reserve(&queue, (size_t)1 << 40), 0);
    ck_assert_uint_eq(queue.mask, mask);
    ck_assert_ptr_eq(weft__runqueue_pop(&queue), &a);
}
END_TEST

START_TEST(shuffling_chooses_every_entry_and_loses_none)
{
    weft__runnable all[5] = {{0}};
    bool was_first[5] = {false};
    for (uint64_t random = 0; random < 5; random++) {
        for (int i = 0; i < 5; i++)
            weft__runqueue_push(&queue, &all[i]);
        weft__runqueue_remove(&queue, &all[2]);
        weft__runqueue_shuffle(&queue, random);
        was_first[weft__runqueue_first(&queue) - all] = true;
        for (int i = 0; i < 5; i++)
            if (i != 2)
                ck_assert_ptr_eq(queue.ring[all[i].queue_index - 1], &all[i]);
        for (int i = 0; i < 4; i++)
            ck_assert_ptr_nonnull(weft__runqueue_pop(&queue));
        ck_assert_ptr_null(weft__runqueue_pop(&queue));
    }
    ck_assert(was_first[0] && was_first[1] && !was_first[2] && was_first[3] && was_first[4]);
}
END_TEST

#define MODEL_COUNT 300

static weft__runnable runnables[MODEL_COUNT];
static weft__runnable *model[MODEL_COUNT];
static size_t model_count;

static void model_insert(size_t at, weft__runnable *r)
{
    memmove(&model[at + 1], &model[at], (model_count - at) * sizeof *model);
    model[at] = r;
    model_count++;
}

static void model_remove(weft__runnable *r)
{
    size_t at = 0;
    while (model[at] != r)
        at++;
    model_count--;
    memmove(&model[at], &model[at + 1], (model_count - at) * sizeof *model);
}

static uint64_t random_next(void)
{
    static uint64_t state = 0x2545f4914f6cdd1d;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void pop_and_compare(void)
{
    weft__runnable *expected = model_count > 0 ? model[0] : NULL;
    ck_assert_ptr_eq(weft__runqueue_pop(&queue), expected);
    if (expected != NULL)
        model_remove(expected);
}

static void change_at_random(size_t reserved)
{
    weft__runnable *r = &runnables[random_next() % reserved];
    if (weft__runnable_is_queued(r)) {
        weft__runqueue_remove(&queue, r);
        model_remove(r);
    } else if (random_next() % 4 == 0) {
        weft__runqueue_push_front(&queue, r);
        model_insert(0, r);
    } else {
        weft__runqueue_push(&queue, r);
        model_insert(model_count, r);
    }
}

START_TEST(random_operations_have_the_same_results_as_on_a_list)
{
    size_t reserved = 2;
    for (int round = 0; round < 300000; round++) {
        if (round % 1000 == 0 && reserved < MODEL_COUNT)
            ck_assert_int_eq(weft__runqueue_reserve(&queue, ++reserved), 0);
        /* In phases: mostly growing, then mostly shrinking. */
        if (random_next() % 8 < (unsigned)(round / 5000 % 5))
            pop_and_compare();
        else
            change_at_random(reserved);
        ck_assert_uint_eq(weft__runqueue_count(&queue), model_count);
    }
    while (model_count > 0)
        pop_and_compare();
    pop_and_compare();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run queue");
    TCase *tests = tcase_create("run queue");
    suite_add_tcase(suite, tests);
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, init_queue, close_queue);
    tcase_add_test(tests, an_empty_queue_returns_nothing);
    tcase_add_test(tests, entries_are_popped_in_order_and_those_pushed_to_the_front_first);
    tcase_add_test(tests, removed_entries_are_skipped);
    tcase_add_test(tests, repeated_removal_and_insertion_never_overflows);
    tcase_add_test(tests, growing_keeps_the_order_and_the_queue_indexes);
    tcase_add_test(tests, a_failed_allocation_is_an_error_and_changes_nothing);
    tcase_add_test(tests, shuffling_chooses_every_entry_and_loses_none);
    tcase_add_test(tests, random_operations_have_the_same_results_as_on_a_list);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures == 0 ? 0 : 1;
}

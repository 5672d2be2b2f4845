/* The run queue: order, taking out, room; by hand, and at random against a plain list. */
#include "core/runqueue.h"

#include <check.h>
#include <string.h>

static weft__runqueue queue;

static void set_up(void)
{
    ck_assert_int_eq(weft__runqueue_init(&queue), 0);
}

static void tear_down(void)
{
    weft__runqueue_close(&queue);
}

START_TEST(an_empty_queue_gives_nothing)
{
    ck_assert_ptr_null(weft__runqueue_pop(&queue));
    ck_assert_ptr_null(weft__runqueue_first(&queue));
}
END_TEST

START_TEST(first_in_is_first_out_and_the_front_comes_before)
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

START_TEST(what_was_taken_out_is_skipped)
{
    weft__runnable a = {0}, b = {0}, c = {0};
    weft__runqueue_push(&queue, &a);
    weft__runqueue_push(&queue, &b);
    weft__runqueue_push(&queue, &c);
    weft__runqueue_remove(&queue, &b);
    ck_assert(!weft__runnable_is_queued(&b));
    weft__runqueue_push(&queue, &b); /* it can come again, at the tail */
    ck_assert_ptr_eq(weft__runqueue_pop(&queue), &a);
    ck_assert_ptr_eq(weft__runqueue_pop(&queue), &c);
    ck_assert_ptr_eq(weft__runqueue_pop(&queue), &b);
}
END_TEST

START_TEST(taking_out_and_coming_again_for_ever_never_overflows)
{
    weft__runnable stays = {0}, comes = {0};
    weft__runqueue_push(&queue, &stays);
    for (int i = 0; i < 10000; i++) {
        weft__runqueue_push(&queue, &comes);
        weft__runqueue_remove(&queue, &comes);
        weft__runqueue_push_front(&queue, &comes);
        weft__runqueue_remove(&queue, &comes);
    }
    ck_assert_uint_eq(weft__runqueue_count(&queue), 1);
    ck_assert_ptr_eq(weft__runqueue_pop(&queue), &stays);
    ck_assert_ptr_null(weft__runqueue_pop(&queue));
}
END_TEST

START_TEST(growing_keeps_order_and_places)
{
    enum { COUNT = 1000 };
    static weft__runnable all[COUNT];
    /* Where the ring wraps around when it grows. */
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

START_TEST(room_that_cannot_be_had_is_an_error_and_changes_nothing)
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
                ck_assert_ptr_eq(queue.ring[all[i].place - 1], &all[i]);
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

START_TEST(random_sequences_end_as_in_the_naive_list)
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
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, an_empty_queue_gives_nothing);
    tcase_add_test(tests, first_in_is_first_out_and_the_front_comes_before);
    tcase_add_test(tests, what_was_taken_out_is_skipped);
    tcase_add_test(tests, taking_out_and_coming_again_for_ever_never_overflows);
    tcase_add_test(tests, growing_keeps_order_and_places);
    tcase_add_test(tests, room_that_cannot_be_had_is_an_error_and_changes_nothing);
    tcase_add_test(tests, shuffling_chooses_every_entry_and_loses_none);
    tcase_add_test(tests, random_sequences_end_as_in_the_naive_list);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures == 0 ? 0 : 1;
}

/*
 * Tests of the run queue: order, removal, and capacity, in fixed cases and at random against a
 * list.
 */
#include "core/sched/runqueue.h"

#include "support/random.h"

#include "support/suite.h"

static weft__runqueue queue;

static void init_queue(void)
{
    ck_assert_int_eq(weft__runqueue_init(&queue), 0);
}

static void close_queue(void)
{
    weft__runqueue_close(&queue);
}

TEST(entries_are_popped_in_order_and_those_pushed_to_the_front_first)
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

TEST(repeated_removal_and_insertion_never_overflows)
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

TEST(a_failed_allocation_is_an_error_and_changes_nothing)
{
    weft__runnable a = {0};
    weft__runqueue_push(&queue, &a);
    uint32_t mask = queue.mask;
    ck_assert_int_lt(weft__runqueue_reserve(&queue, (size_t)1 << 40), 0);
    ck_assert_uint_eq(queue.mask, mask);
    ck_assert_ptr_eq(weft__runqueue_pop(&queue), &a);
}

TEST(shuffling_chooses_every_entry_and_loses_none)
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

static void pop_and_compare(void)
{
    weft__runnable *expected = model_count > 0 ? model[0] : NULL;
    ck_assert_ptr_eq(weft__runqueue_pop(&queue), expected);
    if (expected != NULL)
        model_remove(expected);
}

static void change_at_random(size_t reserved)
{
    weft__runnable *r = &runnables[random_bits() % reserved];
    if (weft__runnable_is_queued(r)) {
        weft__runqueue_remove(&queue, r);
        model_remove(r);
    } else if (random_bits() % 4 == 0) {
        weft__runqueue_push_front(&queue, r);
        model_insert(0, r);
    } else {
        weft__runqueue_push(&queue, r);
        model_insert(model_count, r);
    }
}

TEST(random_operations_have_the_same_results_as_on_a_list)
{
    size_t reserved = 2;
    for (int round = 0; round < 100000; round++) {
        if (round % 300 == 0 && reserved < MODEL_COUNT)
            ck_assert_int_eq(weft__runqueue_reserve(&queue, ++reserved), 0);
        /* In phases: mostly growing, then mostly shrinking. */
        if (random_bits() % 8 < (unsigned)(round / 2000 % 5))
            pop_and_compare();
        else
            change_at_random(reserved);
        ck_assert_uint_eq(weft__runqueue_count(&queue), model_count);
    }
    while (model_count > 0)
        pop_and_compare();
    pop_and_compare();
}

FIXTURE(init_queue, close_queue)

/*
 * Queues: both ends, the bound and waiting pushers, closing, and the ring buffer.
 * test_sync_random.c compares a queue with an array.
 */
#include "support/suite.h"
#include "sync/steps.h"

static weft_queue *queue;

STEP(push, weft_queue_push(queue, arg))
STEP(try_push, weft_queue_try_push(queue, arg))
STEP(unshift, weft_queue_unshift(queue, arg))
STEP(try_unshift, weft_queue_try_unshift(queue, arg))
STEP(shift, weft_queue_shift(queue))
STEP(try_shift, weft_queue_try_shift(queue))
STEP(set_cap, weft_queue_set_cap(queue, (size_t)arg))
STEP(cap, weft_queue_cap(queue))
STEP(count, weft_queue_count(queue))
STEP(delete_all, weft_queue_delete(queue, arg))
STEP(close_queue, weft_queue_close(queue))
STEP(is_closed, weft_queue_is_closed(queue))

/* Create a queue with this bound and these values, up to the first 0. */
#define create_queue(bound, ...) create_queue_of(bound, (const weft_value[]){__VA_ARGS__, 0})

static void create_queue_of(size_t bound, const weft_value *values)
{
    queue = weft_queue_new(bound);
    for (; *values != 0; values++)
        ck_assert_int_eq(weft_queue_push(queue, *values), 0);
}

/* Assert that the queue contains these values. Free it. */
#define assert_contents(...) assert_contents_of((const weft_value[]){__VA_ARGS__, 0})

static void assert_contents_of(const weft_value *values)
{
    for (; *values != 0; values++)
        ck_assert_int_eq(weft_queue_try_shift(queue), *values);
    ck_assert_int_eq(weft_queue_try_shift(queue), -EAGAIN);
    weft_queue_free(queue);
}

TEST(an_error_code_cannot_be_pushed)
{ /* P49 */
    create_queue(0, 0);
    play({M, push, -EINVAL, -EIO});
    ck_assert_error(-EINVAL, "weft_queue: value is the error code -5");
    play({M, unshift, -EINVAL, -1}, {M, try_push, -EINVAL, -4095}, {M, try_unshift, -EINVAL, -1},
         {M, count, 0});
    weft_queue_free(queue);
}

TEST(a_higher_bound_admits_waiting_pushers_in_order_while_there_is_room)
{ /* P51 */
    create_queue(1, 1);
    play({M, cap, 1}, {A, push, WAITS, 2}, {B, push, WAITS, 3}, {C, push, WAITS, 4},
         {D, push, WAITS, 5}, {M, set_cap, 0, 3}, {M, cap, 3}, {M, count, 3}, {A, returns, 0},
         {B, returns, 0}, {C, returns, WAITS}, {D, returns, WAITS}, {M, set_cap, 0, 0}, {M, cap, 0},
         {C, returns, 0}, {D, returns, 0});
    assert_contents(1, 2, 3, 4, 5);
}

TEST(a_delete_removes_every_equal_value_and_admits_pushers_behind_the_rest)
{ /* P51 */
    create_queue(4, 7, 1, 7, 2);
    play({A, push, WAITS, 7}, {B, push, WAITS, 8}, {C, push, WAITS, 9}, {M, delete_all, 0, 5},
         {M, delete_all, 2, 7}, /* not the value of the waiting pusher */
         {A, returns, 0}, {B, returns, 0}, {C, returns, WAITS}, {M, shift, 1}, {C, returns, 0});
    assert_contents(2, 7, 8, 9);
}

TEST(a_closed_queue_refuses_values_and_delivers_the_remaining_ones_and_then_epipe)
{ /* P52 */
    create_queue(2, 1, 2);
    play({A, push, WAITS, 3}, {B, unshift, WAITS, 4}, {M, is_closed, false}, {M, close_queue},
         {M, close_queue}, {M, is_closed, true}, {M, push, -EPIPE, 5}, {M, unshift, -EPIPE, 5},
         {M, try_push, -EPIPE, 5}, {M, set_cap, 0, 10}, {A, returns, -EPIPE}, {B, returns, -EPIPE},
         {M, shift, 1}, {M, shift, 2}, {M, shift, -EPIPE}, {M, try_shift, -EPIPE});
    weft_queue_free(queue);
}

TEST(closing_or_freeing_a_queue_wakes_all_waiters_with_epipe)
{ /* P52 */
    create_queue(0, 0);
    play({A, shift, WAITS}, {B, shift, WAITS}, {M, close_queue}, {A, returns, -EPIPE},
         {B, returns, -EPIPE});
    weft_queue_free(queue);
    create_queue(0, 0);
    play({A, shift, WAITS}, {B, shift, WAITS});
    weft_queue_free(queue); /* before any waiter runs */
    play({A, returns, -EPIPE}, {B, returns, -EPIPE});
    create_queue(1, 1);
    play({A, push, WAITS, 2});
    weft_queue_free(queue);
    weft_queue_free(NULL);
    play({A, returns, -EPIPE});
}

TEST(a_delete_in_a_large_queue_that_has_wrapped_keeps_the_order_of_the_rest)
{
    const weft_value n = 10000;
    queue = weft_queue_new(0);
    for (weft_value i = 0; i < 1000; i++) { /* so that the ring does not start at index 0 */
        weft_queue_push(queue, i);
        weft_queue_shift(queue);
    }
    for (weft_value i = 0; i < n; i++)
        ck_assert_int_eq(weft_queue_push(queue, i % 2 == 0 ? 5 : i), 0);
    ck_assert_uint_eq(weft_queue_delete(queue, 5), (size_t)n / 2 + 1);
    for (weft_value i = 1; i < n; i += 2)
        if (i != 5)
            ck_assert_int_eq(weft_queue_shift(queue), i);
    ck_assert_uint_eq(weft_queue_count(queue), 0);
    weft_queue_free(queue);
}

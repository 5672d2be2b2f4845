/* Channels: order, waiting on both sides, closing, and cancelled or interrupted waiters. */
#include "support/suite.h"
#include "sync/steps.h"

/* The channel of the current test. */
static weft_chan *chan;

STEP(put, weft_chan_send(chan, arg))
STEP(try_send, weft_chan_try_send(chan, arg))
STEP(take, weft_chan_recv(chan))
STEP(try_recv, weft_chan_try_recv(chan))
STEP(count, weft_chan_count(chan))
STEP(has_senders, weft_chan_has_senders(chan))
STEP(has_receivers, weft_chan_has_receivers(chan))
STEP(close_chan, weft_chan_close(chan))

static void fill_new_chan(size_t cap)
{
    chan = weft_chan_new(cap);
    for (size_t i = 0; i < cap; i++)
        ck_assert_int_eq(weft_chan_send(chan, (weft_value)i + 1), 0);
}

/* Assert that the channel is empty, has no waiters, and still works. Free it. */
static void assert_idle_then_free(void)
{
    play({M, has_receivers, false}, {M, has_senders, false}, {M, count, 0}, {F, take, WAITS},
         {M, try_send, 0, 1234}, {F, returns, 1234});
    weft_chan_free(chan);
}

/* API: weft_chan_send */
TEST(an_error_code_cannot_be_sent_but_other_negative_numbers_can)
{
    chan = weft_chan_new(2);
    play({M, put, -EINVAL, -EIO});
    ck_assert_error(-EINVAL, "weft_chan: value is the error code -5");
    play({M, try_send, -EINVAL, -4095}, {M, count, 0}, {M, put, 0, -4096}, {M, put, 0, INTPTR_MIN},
         {M, take, -4096}, {M, take, INTPTR_MIN});
    weft_chan_free(chan);
}

TEST(creating_a_channel_too_large_for_memory_fails)
{
    ck_assert_ptr_null(weft_chan_new(SIZE_MAX));
    ck_assert_any_error(-ENOMEM);
    ck_assert_ptr_null(weft_chan_new_shared(SIZE_MAX / 8));
    ck_assert_error(-ENOMEM, "weft_chan_new_shared: memory is exhausted, "
                             "cap is 2305843009213693951, an item has 8 bytes");
    ck_assert_ptr_null(weft__chan_new_of(SIZE_MAX / 2, 3));
    ck_assert_any_error(-ENOMEM);
}

/* API: weft_chan_recv */
TEST_LOOP(receivers_wake_in_fifo_order, 3)
{
    chan = weft_chan_new((size_t)_i);
    play({A, take, WAITS}, {B, take, WAITS}, {C, take, WAITS}, {M, has_receivers, true},
         {M, try_send, 0, 10}, {M, try_send, 0, 11}, {M, try_send, 0, 12},
         {M, has_receivers, false}, {M, count, 0}, {A, returns, 10}, {B, returns, 11},
         {C, returns, 12});
    assert_idle_then_free();
}

TEST_LOOP(senders_wake_in_fifo_order_behind_the_buffered_values, 4)
{ /* T72 */
    fill_new_chan((size_t)_i);
    play({A, put, WAITS, 10}, {B, put, WAITS, 11}, {C, put, WAITS, 12}, {M, has_senders, true},
         {M, try_send, -EAGAIN, 99});
    for (int i = 1; i <= _i; i++)
        ck_assert_int_eq(weft_chan_recv(chan), i);
    play({M, take, 10}, {M, take, 11}, {M, take, 12}, {A, returns, 0}, {B, returns, 0},
         {C, returns, 0});
    assert_idle_then_free();
}

TEST(a_closed_channel_delivers_its_buffered_values_and_then_fails_with_epipe)
{ /* T74, P52 */
    fill_new_chan(2);
    play({A, put, WAITS, 10}, {B, put, WAITS, 11}, {M, close_chan}, {M, has_senders, false},
         {M, close_chan}, {M, put, -EPIPE, 5}, {M, try_send, -EPIPE, 5}, {M, count, 2},
         {M, take, 1}, {M, try_recv, 2}, {M, take, -EPIPE}, {M, try_recv, -EPIPE},
         {A, returns, -EPIPE}, {B, returns, -EPIPE});
    ck_assert(weft_chan_is_closed(chan));
    weft_chan_free(chan);
}

TEST_LOOP(freeing_a_channel_wakes_waiters_that_run_only_afterwards, 2)
{ /* T73, T76 */
    step_call *call = _i == 0 ? put : take;
    fill_new_chan(_i == 0 ? 2 : 0);
    play({A, call, WAITS}, {B, call, WAITS}, {C, call, WAITS});
    weft_chan_free(chan);
    weft_chan_free(chan = NULL);
    play({M, cancel, 0, B}, {A, returns, -EPIPE}, {B, returns, -EPIPE}, {C, returns, -EPIPE});
}

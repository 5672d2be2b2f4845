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

/* DESIGN 4 */
TEST(calls_that_need_not_wait_do_not_switch)
{
    chan = weft_chan_new(2);
    weft_spin(mark_and_return, "switched");
    play({M, put, 0, 10}, {M, put, 0, 20}, {M, take, 10}, {M, take, 20});
    ck_assert_trail("");
    weft_chan_free(chan);
    weft_chan_free(NULL);
}

/* T66 */
TEST(a_channel_reports_its_count_and_its_capacity)
{
    chan = weft_chan_new(1);
    ck_assert_uint_eq(weft_chan_cap(chan), 1);
    ck_assert(weft_chan_is_empty(chan) && !weft_chan_is_full(chan));
    play({M, put}, {M, count, 1});
    ck_assert(!weft_chan_is_empty(chan) && weft_chan_is_full(chan));
    play({M, take, 0});
    ck_assert(weft_chan_is_empty(chan) && !weft_chan_is_full(chan));
    weft_chan_free(chan);
    chan = weft_chan_new(0);
    ck_assert_uint_eq(weft_chan_cap(chan), 0);
    ck_assert(weft_chan_is_empty(chan) && weft_chan_is_full(chan));
    weft_chan_free(chan);
}

/* T67 */
TEST(with_a_timeout_of_0_a_send_fails_on_a_full_channel_and_succeeds_with_room)
{
    chan = weft_chan_new(1);
    int rc = 1;
    WEFT_CANCEL_AFTER(0, rc) {
        play({M, put, 0, 1}, {M, put, -ECANCELED, 2});
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    play({M, try_send, -EAGAIN, 2}, {M, try_recv, 1}, {M, try_recv, -EAGAIN});
    assert_idle_then_free();
}

/* T78 */
TEST(an_invalid_timeout_is_refused_before_anything_is_sent)
{
    chan = weft_chan_new(1);
    weft_scope scope;
    ck_assert_int_eq(weft_scope_open(&scope, -1), -EINVAL);
    ck_assert_int_eq(weft_scope_open(&scope, NAN), -EINVAL);
    int rc = 0;
    WEFT_CANCEL_AFTER(-0.5, rc) {
        weft_chan_send(chan, 1);
    }
    ck_assert_int_eq(rc, -EINVAL);
    assert_idle_then_free();
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

/* T40, T41 */
TEST(in_a_cancelled_fiber_calls_that_would_wait_fail_at_once_and_others_succeed)
{
    weft_chan *rendezvous = weft_chan_new(0);
    fill_new_chan(1);
    play({A, put, WAITS, 2});
    weft_spin(mark_and_return, "switched");
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_snooze(), -ECANCELED);
        play({M, put, -ECANCELED, 3}, {M, take, 1}, {M, take, 2}, {M, put, 0, 3}, {M, take, 3},
             {M, take, -ECANCELED});
        ck_assert_int_eq(weft_chan_send(rendezvous, 3), -ECANCELED);
        ck_assert_int_eq(weft_chan_recv(rendezvous), -ECANCELED);
    }
    ck_assert_trail("");
    play({A, returns, 0});
    weft_chan_free(rendezvous);
    assert_idle_then_free();
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

/* T72 */
TEST_LOOP(senders_wake_in_fifo_order_behind_the_buffered_values, 4)
{
    fill_new_chan((size_t)_i);
    play({A, put, WAITS, 10}, {B, put, WAITS, 11}, {C, put, WAITS, 12}, {M, has_senders, true},
         {M, try_send, -EAGAIN, 99});
    for (int i = 1; i <= _i; i++)
        ck_assert_int_eq(weft_chan_recv(chan), i);
    play({M, take, 10}, {M, take, 11}, {M, take, 12}, {A, returns, 0}, {B, returns, 0},
         {C, returns, 0});
    assert_idle_then_free();
}

TEST_LOOP(a_cancelled_waiter_does_not_change_the_order_of_the_others, 3)
{
    const int gone = A + _i, first = _i == 0 ? B : A, second = _i == 2 ? B : C;
    chan = weft_chan_new(0);
    play({A, take, WAITS}, {B, take, WAITS}, {C, take, WAITS}, {M, cancel, 0, gone},
         {M, try_send, 0, 10}, {M, try_send, 0, 11}, {M, try_send, -EAGAIN, 12},
         {gone, returns, -ECANCELED}, {first, returns, 10}, {second, returns, 11},
         {gone, ends}, /* and a fiber that is not cancelled replaces it */
         {A, put, WAITS, A}, {B, put, WAITS, B}, {C, put, WAITS, C}, {M, cancel, 0, gone},
         {M, try_recv, first}, {M, try_recv, second}, {M, try_recv, -EAGAIN},
         {gone, returns, -ECANCELED}, {first, returns, 0}, {second, returns, 0});
    assert_idle_then_free();
}

/* T41, DESIGN 4 */
TEST_LOOP(a_receiver_cancelled_after_it_was_woken_gets_the_value_and_before_does_not, 2)
{
    const bool has_room = _i > 0;
    chan = weft_chan_new((size_t)_i);
    play({A, take, WAITS}, {M, put, 0, 7}, {M, interrupt, -EBUSY, A}, {M, cancel, 0, A},
         {A, returns, 7}, {A, take, -ECANCELED}, {B, take, WAITS}, {M, cancel, 0, B},
         {M, try_send, has_room ? 0 : -EAGAIN, 8}, {B, returns, -ECANCELED},
         {M, try_recv, has_room ? 8 : -EAGAIN});
    assert_idle_then_free();
}

TEST_LOOP(a_sender_cancelled_after_it_was_woken_has_sent_and_before_has_not, 2)
{
    const bool has_room = _i > 0;
    fill_new_chan((size_t)_i);
    play({A, put, WAITS, 7}, {M, take, has_room ? 1 : 7}, {M, cancel, 0, A}, {A, returns, 0},
         {A, take, has_room ? 7 : -ECANCELED}, {A, take, -ECANCELED}, {M, count, 0});
    weft_chan_free(chan);
    fill_new_chan((size_t)_i);
    play({B, put, WAITS, 8}, {M, cancel, 0, B}, {M, try_recv, has_room ? 1 : -EAGAIN},
         {M, try_recv, -EAGAIN}, {B, returns, -ECANCELED});
    assert_idle_then_free();
}

TEST(an_interrupted_call_returns_the_interrupt_value_and_has_no_effect)
{
    chan = weft_chan_new(0);
    play({A, take, WAITS});
    ck_assert_int_eq(weft_schedule(actors[A].fiber, 5), -EBUSY);
    play({M, interrupt, 0, A}, {M, try_send, -EAGAIN, 7}, {A, returns, -EINTR}, {A, put, WAITS, 7},
         {M, raise_error, 0, A}, {M, try_recv, -EAGAIN}, {A, returns, RAISED}, {A, put, WAITS, 8},
         {M, take, 8}, {A, returns, 0});
    assert_idle_then_free();
}

TEST(a_wait_that_times_out_receives_and_sends_nothing)
{
    chan = weft_chan_new(0);
    double begin = weft_now();
    int rc = 0;
    WEFT_CANCEL_AFTER(0.002, rc) {
        play({M, take, -ECANCELED});
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    WEFT_CANCEL_AFTER(0.002, rc) {
        play({M, put, -ECANCELED, 1});
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_slept(begin, 0.004);
    play({M, try_send, -EAGAIN, 1}, {M, try_recv, -EAGAIN});
    assert_idle_then_free();
}

static weft_value send_ten_in_time(void *arg)
{
    for (int i = 0; i < 10; i++) {
        int rc, sent = 1;
        WEFT_CANCEL_AFTER(60, rc) {
            sent = weft_chan_send(chan, i);
        }
        if (rc != 0 || sent != 0)
            return i + 1;
    }
    return 0;
}

/* T68 */
TEST_LOOP(timed_sends_succeed_while_a_fiber_receives, 3)
{
    const size_t cap = (size_t)_i;
    chan = weft_chan_new(cap);
    ck_assert(!weft_chan_has_senders(chan));
    weft_fiber f = weft_spin(send_ten_in_time, NULL);
    let_run();
    ck_assert(weft_chan_has_senders(chan));
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(weft_chan_recv(chan), i);
    ck_assert(!weft_chan_has_senders(chan));
    ck_assert_int_eq(weft_await(f), 0);
    assert_idle_then_free();
}

static unsigned char seen[16];

static weft_value count_received(void *arg)
{
    weft_value v;
    while ((v = weft_chan_recv(chan)) >= 0) {
        seen[v]++;
        ++*(int *)arg;
    }
    return v == -EPIPE ? 0 : v;
}

/* T69 */
TEST_LOOP(with_two_consumers_each_of_sixteen_messages_arrives_once, 3)
{
    const size_t cap = (size_t)_i;
    memset(seen, 0, sizeof seen);
    chan = weft_chan_new(cap);
    int counts[2] = {0, 0};
    weft_fiber f[2] = {weft_spin(count_received, &counts[0]),
                       weft_spin(count_received, &counts[1])};
    for (int i = 0; i < 16; i++)
        ck_assert_int_eq(weft_chan_send(chan, i), 0);
    weft_chan_close(chan);
    ck_assert_int_eq(weft_await(f[0]), 0);
    ck_assert_int_eq(weft_await(f[1]), 0);
    ck_assert_int_eq(counts[0] + counts[1], 16);
    ck_assert(counts[0] > 0 && counts[1] > 0);
    for (int i = 0; i < 16; i++)
        ck_assert_uint_eq(seen[i], 1);
    weft_chan_free(chan);
}

/* T74, P52 */
TEST(a_closed_channel_delivers_its_buffered_values_and_then_fails_with_epipe)
{
    fill_new_chan(2);
    play({A, put, WAITS, 10}, {B, put, WAITS, 11}, {M, close_chan}, {M, has_senders, false},
         {M, close_chan}, {M, put, -EPIPE, 5}, {M, try_send, -EPIPE, 5}, {M, count, 2},
         {M, take, 1}, {M, try_recv, 2}, {M, take, -EPIPE}, {M, try_recv, -EPIPE},
         {A, returns, -EPIPE}, {B, returns, -EPIPE});
    ck_assert(weft_chan_is_closed(chan));
    weft_chan_free(chan);
}

/* T75 */
TEST_LOOP(closing_a_rendezvous_wakes_waiters_and_later_calls_fail_at_once, 2)
{
    step_call *call = _i == 0 ? take : put;
    chan = weft_chan_new(0);
    play({A, call, WAITS}, {B, call, WAITS}, {C, call, WAITS}, {M, close_chan},
         {A, returns, -EPIPE}, {B, returns, -EPIPE}, {C, returns, -EPIPE});
    weft_spin(mark_and_return, "switched");
    play({M, take, -EPIPE}, {M, put, -EPIPE, 1});
    ck_assert_trail("");
    weft_chan_free(chan);
}

/* T73, T76 */
TEST_LOOP(freeing_a_channel_wakes_waiters_that_run_only_afterwards, 2)
{
    step_call *call = _i == 0 ? put : take;
    fill_new_chan(_i == 0 ? 2 : 0);
    play({A, call, WAITS}, {B, call, WAITS}, {C, call, WAITS});
    weft_chan_free(chan);
    chan = NULL;
    play({M, cancel, 0, B}, {A, returns, -EPIPE}, {B, returns, -EPIPE}, {C, returns, -EPIPE});
}

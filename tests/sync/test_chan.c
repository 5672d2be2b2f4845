/* Channels: order, waiting on both sides, closing, and cancelled or interrupted waiters. */
#include "support/suite.h"
#include "support/support.h"

/* The channel of the current test. */
static weft_chan *chan;

static weft_value send_arg(void *arg)
{
    return weft_chan_send(chan, (weft_value)arg);
}

static weft_value recv_from_chan(void *arg)
{
    (void)arg;
    return weft_chan_recv(chan);
}

/* Spin fibers that wait to send first, first + 1 and so on, in this order. */
static void spin_senders(weft_fiber *f, size_t n, weft_value first)
{
    for (size_t i = 0; i < n; i++)
        f[i] = weft_spin(send_arg, as_arg(first + (weft_value)i));
    let_run();
}

static void spin_receivers(weft_fiber *f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        f[i] = weft_spin(recv_from_chan, NULL);
    let_run();
}

static void fill_new_chan(size_t cap)
{
    chan = weft_chan_new(cap);
    for (size_t i = 0; i < cap; i++)
        ck_assert_int_eq(weft_chan_send(chan, (weft_value)i + 1), 0);
}

/* Assert that the channel is empty, has no waiters, and still works. Free it. */
static void assert_idle_then_free(void)
{
    ck_assert(!weft_chan_has_receivers(chan) && !weft_chan_has_senders(chan));
    ck_assert_uint_eq(weft_chan_count(chan), 0);
    weft_fiber f = weft_spin(recv_from_chan, NULL);
    let_run();
    ck_assert_int_eq(weft_chan_try_send(chan, 1234), 0);
    ck_assert_int_eq(weft_await(f), 1234);
    weft_chan_free(chan);
}

/* DESIGN 4 */
TEST(calls_that_need_not_wait_do_not_switch)
{
    chan = weft_chan_new(2);
    weft_spin(mark_and_return, "switched");
    ck_assert_int_eq(weft_chan_send(chan, 10), 0);
    ck_assert_int_eq(weft_chan_send(chan, 20), 0);
    ck_assert_int_eq(weft_chan_recv(chan), 10);
    ck_assert_int_eq(weft_chan_recv(chan), 20);
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
    ck_assert_int_eq(weft_chan_send(chan, 0), 0);
    ck_assert_uint_eq(weft_chan_count(chan), 1);
    ck_assert(!weft_chan_is_empty(chan) && weft_chan_is_full(chan));
    ck_assert_int_eq(weft_chan_recv(chan), 0);
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
        ck_assert_int_eq(weft_chan_send(chan, 1), 0);
        ck_assert_int_eq(weft_chan_send(chan, 2), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_int_eq(weft_chan_try_send(chan, 2), -EAGAIN);
    ck_assert_int_eq(weft_chan_try_recv(chan), 1);
    ck_assert_int_eq(weft_chan_try_recv(chan), -EAGAIN);
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
    ck_assert_uint_eq(weft_chan_count(chan), 0);
    assert_idle_then_free();
}

/* API: weft_chan_send */
TEST(an_error_code_cannot_be_sent_but_other_negative_numbers_can)
{
    chan = weft_chan_new(2);
    ck_assert_int_eq(weft_chan_send(chan, -EIO), -EINVAL);
    ck_assert_error(-EINVAL, "weft_chan: value is the error code -5");
    ck_assert_int_eq(weft_chan_try_send(chan, -4095), -EINVAL);
    ck_assert_uint_eq(weft_chan_count(chan), 0);
    ck_assert_int_eq(weft_chan_send(chan, -4096), 0);
    ck_assert_int_eq(weft_chan_send(chan, INTPTR_MIN), 0);
    ck_assert_int_eq(weft_chan_recv(chan), -4096);
    ck_assert_int_eq(weft_chan_recv(chan), INTPTR_MIN);
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

/* T40 */
TEST(in_a_cancelled_fiber_calls_that_would_wait_fail_at_once)
{
    fill_new_chan(1);
    weft_chan *empty = weft_chan_new(1), *rendezvous = weft_chan_new(0);
    weft_spin(mark_and_return, "switched");
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_snooze(), -ECANCELED);
        ck_assert_int_eq(weft_chan_send(chan, 2), -ECANCELED);
        ck_assert_int_eq(weft_chan_recv(empty), -ECANCELED);
        ck_assert_int_eq(weft_chan_send(rendezvous, 3), -ECANCELED);
        ck_assert_int_eq(weft_chan_recv(rendezvous), -ECANCELED);
    }
    ck_assert_trail("");
    weft_chan_free(rendezvous);
    weft_chan_free(empty);
    weft_chan_free(chan);
}

/* T41 */
TEST(a_cancelled_fiber_can_still_receive_buffered_values_and_send_if_there_is_room)
{
    fill_new_chan(1);
    weft_chan *rendezvous = weft_chan_new(0);
    weft_fiber f = weft_spin(send_arg, as_arg(2));
    let_run();
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_chan_recv(chan), 1);
        ck_assert_int_eq(weft_chan_recv(chan), 2);
        ck_assert_int_eq(weft_chan_send(chan, 3), 0);
        ck_assert_int_eq(weft_chan_recv(chan), 3);
        ck_assert_int_eq(weft_chan_recv(chan), -ECANCELED);
    }
    ck_assert_int_eq(weft_await(f), 0);
    weft_chan_free(rendezvous);
    assert_idle_then_free();
}

/* API: weft_chan_recv */
TEST(receivers_wake_in_fifo_order)
{
    for (size_t cap = 0; cap < 3; cap++) {
        chan = weft_chan_new(cap);
        weft_fiber f[3];
        spin_receivers(f, 3);
        ck_assert(weft_chan_has_receivers(chan));
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(weft_chan_try_send(chan, 10 + i), 0);
        ck_assert(!weft_chan_has_receivers(chan)); /* woken, though none has run yet */
        ck_assert_uint_eq(weft_chan_count(chan), 0);
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(weft_await(f[i]), 10 + i);
        assert_idle_then_free();
    }
}

/* T72 */
TEST(senders_wake_in_fifo_order_behind_the_buffered_values)
{
    for (size_t cap = 0; cap < 4; cap++) {
        fill_new_chan(cap);
        weft_fiber f[3];
        spin_senders(f, 3, (weft_value)cap + 1);
        ck_assert(weft_chan_has_senders(chan));
        ck_assert_int_eq(weft_chan_try_send(chan, 99), -EAGAIN);
        for (size_t i = 0; i < cap + 3; i++)
            ck_assert_int_eq(weft_chan_recv(chan), (weft_value)i + 1);
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(weft_await(f[i]), 0);
        assert_idle_then_free();
    }
}

TEST(a_cancelled_waiter_does_not_change_the_order_of_the_others)
{
    for (int cancelled = 0; cancelled < 3; cancelled++) {
        chan = weft_chan_new(0);
        weft_fiber f[3];
        spin_receivers(f, 3);
        weft_cancel(f[cancelled]);
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(weft_chan_try_send(chan, 10 + i), i < 2 ? 0 : -EAGAIN);
        for (int i = 0, next = 10; i < 3; i++)
            ck_assert_int_eq(weft_await(f[i]), i == cancelled ? -ECANCELED : next++);
        spin_senders(f, 3, 20);
        weft_cancel(f[cancelled]);
        for (int i = 0; i < 3; i++)
            if (i != cancelled)
                ck_assert_int_eq(weft_chan_try_recv(chan), 20 + i);
        ck_assert_int_eq(weft_chan_try_recv(chan), -EAGAIN);
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(weft_await(f[i]), i == cancelled ? -ECANCELED : 0);
        assert_idle_then_free();
    }
}

/* The results of a fiber's channel call and of its next call. */
static weft_value call_result, next_result;

static weft_value recv_then_snooze(void *arg)
{
    call_result = weft_chan_recv(arg);
    next_result = weft_snooze();
    return 0;
}

static weft_value send_7_then_snooze(void *arg)
{
    call_result = weft_chan_send(arg, 7);
    next_result = weft_snooze();
    return 0;
}

static weft_fiber spin_chan_waiter(weft_fn *fn)
{
    call_result = next_result = 1;
    weft_fiber f = weft_spin(fn, chan);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    return f;
}

/* T41, DESIGN 4 */
TEST(a_receiver_cancelled_after_it_was_woken_gets_the_value)
{
    for (size_t cap = 0; cap < 2; cap++) {
        chan = weft_chan_new(cap);
        weft_fiber f = spin_chan_waiter(recv_then_snooze);
        ck_assert_int_eq(weft_chan_send(chan, 7), 0);
        ck_assert_int_eq(weft_interrupt(f, -99), -EBUSY);
        weft_cancel(f);
        weft_await(f);
        ck_assert_int_eq(call_result, 7);
        ck_assert_int_eq(next_result, -ECANCELED);
        assert_idle_then_free();
    }
}

TEST(a_receiver_cancelled_before_it_is_woken_leaves_the_value_to_others)
{
    for (size_t cap = 0; cap < 2; cap++) {
        chan = weft_chan_new(cap);
        weft_fiber f = spin_chan_waiter(recv_then_snooze);
        weft_cancel(f);
        ck_assert_int_eq(weft_chan_try_send(chan, 7), cap > 0 ? 0 : -EAGAIN);
        weft_await(f);
        ck_assert_int_eq(call_result, -ECANCELED);
        ck_assert_int_eq(weft_chan_try_recv(chan), cap > 0 ? 7 : -EAGAIN);
        assert_idle_then_free();
    }
}

TEST(a_sender_cancelled_after_it_was_woken_has_sent)
{
    for (size_t cap = 0; cap < 2; cap++) {
        fill_new_chan(cap);
        weft_fiber f = spin_chan_waiter(send_7_then_snooze);
        ck_assert_int_eq(weft_chan_recv(chan), cap > 0 ? 1 : 7);
        weft_cancel(f);
        weft_await(f);
        ck_assert_int_eq(call_result, 0);
        ck_assert_int_eq(next_result, -ECANCELED);
        ck_assert_int_eq(weft_chan_try_recv(chan), cap > 0 ? 7 : -EAGAIN);
        assert_idle_then_free();
    }
}

TEST(a_sender_cancelled_before_it_is_woken_has_not_sent)
{
    for (size_t cap = 0; cap < 2; cap++) {
        fill_new_chan(cap);
        weft_fiber f = spin_chan_waiter(send_7_then_snooze);
        weft_cancel(f);
        ck_assert_int_eq(weft_chan_try_recv(chan), cap > 0 ? 1 : -EAGAIN);
        ck_assert_int_eq(weft_chan_try_recv(chan), -EAGAIN);
        weft_await(f);
        ck_assert_int_eq(call_result, -ECANCELED);
        assert_idle_then_free();
    }
}

TEST(an_interrupted_call_returns_the_interrupt_value_and_has_no_effect)
{
    chan = weft_chan_new(0);
    weft_fiber f = spin_chan_waiter(recv_then_snooze);
    ck_assert_int_eq(weft_schedule(f, 5), -EBUSY);
    ck_assert_int_eq(weft_interrupt(f, -99), 0);
    ck_assert_int_eq(weft_chan_try_send(chan, 7), -EAGAIN);
    weft_await(f);
    ck_assert_int_eq(call_result, -99);
    ck_assert_int_eq(next_result, 0);
    f = spin_chan_waiter(send_7_then_snooze);
    ck_assert_int_eq(weft_raise(f, -EPROTO, "raised"), 0);
    ck_assert_int_eq(weft_chan_try_recv(chan), -EAGAIN);
    weft_await(f);
    ck_assert_int_eq(call_result, -EPROTO);
    ck_assert_int_eq(next_result, 0);
    assert_idle_then_free();
}

TEST(a_wait_that_times_out_receives_and_sends_nothing)
{
    chan = weft_chan_new(0);
    double begin = weft_now();
    int rc = 0;
    WEFT_CANCEL_AFTER(0.002, rc) {
        ck_assert_int_eq(weft_chan_recv(chan), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_slept(begin, 0.002);
    WEFT_CANCEL_AFTER(0.002, rc) {
        ck_assert_int_eq(weft_chan_send(chan, 1), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_slept(begin, 0.004);
    ck_assert_int_eq(weft_chan_try_send(chan, 1), -EAGAIN);
    ck_assert_int_eq(weft_chan_try_recv(chan), -EAGAIN);
    assert_idle_then_free();
}

static weft_value send_ten_in_time(void *arg)
{
    (void)arg;
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
TEST(timed_sends_succeed_while_a_fiber_receives)
{
    for (size_t cap = 0; cap < 3; cap++) {
        chan = weft_chan_new(cap);
        ck_assert(!weft_chan_has_senders(chan));
        weft_fiber f = weft_spin(send_ten_in_time, NULL);
        let_run();
        ck_assert(weft_chan_has_senders(chan));
        for (int i = 0; i < 10; i++)
            ck_assert_int_eq(weft_chan_recv(chan), i);
        ck_assert(!weft_chan_has_senders(chan));
        ck_assert_int_eq(weft_await(f), 0);
        weft_fiber receiver = weft_spin(recv_from_chan, NULL);
        let_run();
        ck_assert(weft_chan_has_receivers(chan));
        weft_cancel(receiver);
        ck_assert(!weft_chan_has_receivers(chan));
        assert_idle_then_free();
    }
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
TEST(with_two_consumers_each_of_sixteen_messages_arrives_once)
{
    for (size_t cap = 0; cap < 3; cap++) {
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
}

/* T74, P52 */
TEST(a_closed_channel_delivers_its_buffered_values_and_then_fails_with_epipe)
{
    fill_new_chan(2);
    weft_fiber f[3];
    spin_senders(f, 3, 10);
    ck_assert_int_eq(weft_chan_close(chan), 0);
    ck_assert(weft_chan_is_closed(chan) && !weft_chan_has_senders(chan));
    ck_assert_int_eq(weft_chan_close(chan), 0);
    ck_assert_int_eq(weft_chan_send(chan, 5), -EPIPE);
    ck_assert_int_eq(weft_chan_try_send(chan, 5), -EPIPE);
    ck_assert_uint_eq(weft_chan_count(chan), 2);
    ck_assert_int_eq(weft_chan_recv(chan), 1);
    ck_assert_int_eq(weft_chan_try_recv(chan), 2);
    ck_assert_int_eq(weft_chan_recv(chan), -EPIPE);
    ck_assert_int_eq(weft_chan_try_recv(chan), -EPIPE);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_await(f[i]), -EPIPE);
    weft_chan_free(chan);
}

/* T75 */
TEST(closing_a_rendezvous_wakes_waiters_and_later_calls_fail_at_once)
{
    weft_fiber f[3];
    for (int side = 0; side < 2; side++) {
        chan = weft_chan_new(0);
        if (side == 0)
            spin_receivers(f, 3);
        else
            spin_senders(f, 3, 1);
        weft_chan_close(chan);
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(weft_await(f[i]), -EPIPE);
        weft_spin(mark_and_return, "switched");
        ck_assert_int_eq(weft_chan_recv(chan), -EPIPE);
        ck_assert_int_eq(weft_chan_send(chan, 1), -EPIPE);
        ck_assert_trail("");
        weft_chan_free(chan);
        let_run();
        trail[0] = '\0';
    }
}

/* T73, T76 */
TEST(freeing_a_channel_wakes_waiters_that_run_only_afterwards)
{
    weft_fiber f[3];
    for (int side = 0; side < 2; side++) {
        fill_new_chan(side == 0 ? 2 : 0);
        if (side == 0)
            spin_senders(f, 3, 10);
        else
            spin_receivers(f, 3);
        weft_chan_free(chan);
        chan = NULL;
        weft_cancel(f[1]); /* its call fails with -EPIPE, but the fiber ends with -ECANCELED */
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(weft_await(f[i]), i == 1 ? -ECANCELED : -EPIPE);
    }
}

/* weft_try_tell between threads: bounds, order, limits, and the end of the receiver. */
#include "core/cord/fork_support.h"
#include "support/suite.h"

static weft_fiber receiver; /* the target of the threads */

static void receive_here(void)
{
    receiver = weft_self();
}

FIXTURE(receive_here, NULL)

#define SENDERS 4

/* A message encodes its sender and its number. */
static weft_value message_of(weft_value sender, weft_value n)
{
    return sender * 1000000 + n;
}

/* Tell values from `first` on, until a call fails. Return the number of messages. */
static void *try_until_refused(void *first)
{
    weft_value n = 0;
    while (weft_try_tell(receiver, (weft_value)first + n) == 0)
        n++;
    return as_arg(n);
}

/* Run fn in a plain thread, while this thread does nothing else. */
static weft_value in_thread(void *(*fn)(void *), void *arg)
{
    return (weft_value)join_thread(start_thread(fn, arg));
}

static weft_value fill_from(weft_value first)
{
    return in_thread(try_until_refused, as_arg(first));
}

static void assert_received(weft_value first, weft_value n)
{
    for (weft_value i = 0; i < n; i++)
        ck_assert_int_eq(weft_receive(), first + i);
}

TEST(a_bounded_mailbox_accepts_as_many_messages_as_it_has_space)
{
    for (weft_value bound = 1; bound < 6; bound++) {
        ck_assert_int_eq(weft_mailbox_set_bound((size_t)bound), 0);
        ck_assert_int_eq(fill_from(100), bound);
        ck_assert_int_eq(fill_from(200), 0);
        assert_received(100, 1); /* delivers all messages, and takes one */
        ck_assert_int_eq(weft_mailbox_count(receiver), bound - 1);
        ck_assert_int_eq(fill_from(300), 1);
        assert_received(101, bound - 1);
        assert_received(300, 1);
        ck_assert_int_eq(weft_try_receive(), -EAGAIN);
    }
}

TEST(messages_of_the_own_thread_leave_less_space)
{
    weft_mailbox_set_bound(5);
    weft_tell(receiver, 1);
    weft_tell(receiver, 2);
    ck_assert_int_eq(fill_from(3), 3);
    assert_received(1, 5);
}

TEST(the_mailbox_of_another_fiber_of_the_thread_has_its_own_bound)
{
    weft_mailbox_set_bound(1);
    weft_fiber unbounded = spin_sleeping();
    ck_assert_int_eq(fill_from(7), 1);
    receiver = unbounded;
    ck_assert_int_gt(fill_from(0), 1000);
    assert_received(7, 1);
    cancel_and_await(unbounded);
}

TEST(accepted_messages_wait_if_the_own_thread_has_filled_the_mailbox)
{
    weft_mailbox_set_bound(2);
    ck_assert_int_eq(fill_from(10), 2); /* not delivered yet */
    weft_tell(receiver, 1);
    weft_tell(receiver, 2);
    let_run();
    ck_assert_int_eq(weft_mailbox_count(receiver), 2);
    ck_assert_int_eq(fill_from(20), 0);
    assert_received(1, 2);
    ck_assert_int_eq(weft_mailbox_count(receiver), 2);
    ck_assert_int_eq(fill_from(20), 0);
    assert_received(10, 2);
    ck_assert_int_eq(fill_from(20), 2);
    assert_received(20, 2);
}

static void *try_twice_then_tell(void *arg)
{
    int rc = weft_try_tell(receiver, 10);
    rc = rc < 0 ? rc : weft_try_tell(receiver, 11);
    return as_arg(rc < 0 ? rc : weft_tell(receiver, 12));
}

TEST(a_told_message_arrives_after_the_messages_that_wait_for_space)
{
    weft_mailbox_set_bound(2);
    pthread_t thread = start_thread(try_twice_then_tell, NULL);
    assert_received(10, 3);
    ck_assert_int_eq((weft_value)join_thread(thread), 0);
}

THREAD(try_once, weft_try_tell(receiver, (weft_value)arg))

TEST(messages_sent_without_a_bound_do_not_overtake_messages_that_wait_for_space)
{
    weft_mailbox_set_bound(1);
    ck_assert_int_eq(in_thread(try_once, as_arg(10)), 0); /* has a place, not delivered yet */
    weft_mailbox_set_bound(0);
    ck_assert_int_eq(in_thread(try_once, as_arg(11)), 0); /* needs no place */
    weft_mailbox_set_bound(1);
    weft_tell(receiver, 9);
    let_run();
    assert_received(9, 3);
}

/* Send with both calls, in random order. A refused message is sent again. */
static void *send_a_thousand(void *arg)
{
    unsigned state = (unsigned)(uintptr_t)arg + 1;
    for (weft_value i = 0; i < 1000; i++) {
        weft_value m = message_of((weft_value)arg, i);
        bool must_wait = rand_r(&state) % 4 == 0;
        int rc;
        while ((rc = must_wait ? weft_tell(receiver, m) : weft_try_tell(receiver, m)) == -EAGAIN)
            sched_yield();
        if (rc != 0)
            return as_arg(rc);
    }
    return NULL;
}

THREAD_DO(send_from_a_fiber, weft_self(), send_a_thousand(arg))

/*
 * Receive all messages, each sender's in order. With a bound, never find more messages than the
 * bound. Round 0 changes the bound.
 */
TEST_LOOP(the_order_of_each_sender_is_kept_and_the_bound_is_never_exceeded, 4)
{
    weft_value next[SENDERS] = {0};
    pthread_t threads[SENDERS];
    weft_mailbox_set_bound((size_t)_i);
    for (int i = 0; i < SENDERS; i++)
        threads[i] = start_thread(i % 2 == 0 ? send_a_thousand : send_from_a_fiber, as_arg(i));
    for (int i = 0; i < SENDERS * 1000; i++) {
        if (_i == 0 && i % 3 == 0)
            weft_mailbox_set_bound((size_t)(i % 4));
        if (_i != 0)
            ck_assert_int_le(weft_mailbox_count(receiver), _i);
        weft_value m = weft_receive(), sender = m / 1000000;
        ck_assert(m >= 0 && sender < SENDERS);
        ck_assert_int_eq(m % 1000000, next[sender]++);
    }
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
    for (int i = 0; i < SENDERS; i++)
        ck_assert_int_eq((weft_value)join_thread(threads[i]), 0);
}

TEST(an_unbounded_mailbox_accepts_messages_until_the_inbox_is_full)
{
    let_run();
    weft_value n = fill_from(0);
    ck_assert_int_eq(n, 16384);
    assert_received(0, n);
    ck_assert_int_eq(in_thread(try_once, as_arg(5)), 0);
    assert_received(5, 1);
}

static void *store_id(void *arg)
{
    weft_mailbox_set_bound((size_t)arg);
    receiver = weft_self();
    return NULL;
}

static void *refused_calls(void *arg)
{
    bool is_right = weft_try_tell(receiver, -EIO) == -EINVAL && weft_try_tell(0, 1) == -ESRCH;
    return as_arg(is_right ? 0 : 1);
}

TEST(calls_with_an_error_code_or_without_a_living_fiber_are_refused)
{
    ck_assert_int_eq(in_thread(refused_calls, NULL), 0);
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
    for (weft_value bound = 0; bound < 2; bound++) {
        in_thread(store_id, as_arg(bound));
        ck_assert_int_eq(weft_try_tell(receiver, 1), -ESRCH); /* the thread has ended */
        receiver = weft_spin(return_arg, NULL);
        let_run();
        ck_assert_int_eq(in_thread(try_once, as_arg(1)), -ESRCH);
        weft_await(receiver);
        ck_assert_int_eq(in_thread(try_once, as_arg(1)), -ESRCH);
    }
}

static void *try_without_switching(void *arg)
{
    weft_no_switch_begin();
    int rc = weft_try_tell(receiver, 4);
    weft_no_switch_end();
    return as_arg(rc);
}

TEST(the_call_never_switches)
{
    for (size_t bound = 0; bound < 2; bound++) {
        weft_mailbox_set_bound(bound);
        ck_assert_int_eq(in_thread(try_without_switching, NULL), 0);
        assert_received(4, 1);
    }
}

/* Bound the mailbox, fill it, and wait. After a restart, receive one message. */
static weft_value fill_and_suspend(void *runs)
{
    if (++*(int *)runs > 1)
        return weft_receive();
    weft_mailbox_set_bound(2);
    weft_suspend();
    return 0;
}

/* Return a fiber with a full mailbox and 2 accepted messages that wait for space. */
static weft_fiber spin_with_delayed_messages(int *runs)
{
    *runs = 0;
    weft_fiber f = receiver = spin_waiting(fill_and_suspend, runs);
    ck_assert_int_eq(fill_from(10), 2);
    ck_assert_int_eq(weft_tell(f, 1), 0);
    ck_assert_int_eq(weft_tell(f, 2), 0);
    let_run();
    ck_assert_int_eq(weft_mailbox_count(f), 2);
    return f;
}

TEST(messages_that_wait_for_space_are_discarded_with_their_receiver_but_reach_its_next_run)
{
    int runs;
    weft_fiber f = spin_with_delayed_messages(&runs);
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    ck_assert_int_eq(in_thread(try_once, as_arg(5)), -ESRCH);
    f = spin_with_delayed_messages(&runs);
    ck_assert_int_eq(weft_restart(f), 0);
    ck_assert_int_eq(weft_await(f), 10);
    ck_assert_int_eq(runs, 2);
}

TEST(in_a_child_of_weft_fork_the_places_of_lost_messages_are_free)
{
    if (HAS_TSAN)
        return;
    weft_mailbox_set_bound(3);
    ck_assert_int_eq(fill_from(10), 3); /* not delivered yet */
    pid_t pid = weft_fork();
    if (pid == 0) {
        receiver = weft_self();
        require(fill_from(20) == 3 && weft_receive() == 20);
        _exit(0);
    }
    ck_assert_int_eq(wait_for_exit(pid), 0);
    assert_received(10, 3);
}

/* Accept a message that has not arrived when the fiber ends. */
static weft_value accept_and_end(void)
{
    weft_mailbox_set_bound(1);
    receiver = weft_self();
    return in_thread(try_once, as_arg(10));
}

/* Run 2 has no mailbox when the message of run 1 arrives. */
static weft_value receive_unbounded(void *runs)
{
    if (++*(int *)runs == 1)
        return accept_and_end();
    let_run();
    return weft_receive();
}

/* Run 2 has another bounded mailbox when the message of run 1 arrives. All its places are free. */
static weft_value receive_bounded(void *runs)
{
    if (++*(int *)runs == 1)
        return accept_and_end();
    weft_mailbox_set_bound(2);
    weft_value first_message = weft_receive();
    for (weft_value first = 20; first < 50; first += 10) {
        ck_assert_int_eq(in_thread(try_until_refused, as_arg(first)), 2);
        assert_received(first, 2);
    }
    return first_message;
}

/* Run 2 has a full mailbox when the message of run 1 arrives. */
static weft_value receive_full(void *runs)
{
    if (++*(int *)runs == 1)
        return accept_and_end();
    weft_mailbox_set_bound(1);
    weft_tell(weft_self(), 9);
    let_run();
    ck_assert_int_eq(weft_mailbox_count(weft_self()), 1);
    assert_received(9, 1);
    weft_value first_message = weft_receive();
    ck_assert_int_eq(in_thread(try_until_refused, as_arg(20)), 1);
    assert_received(20, 1);
    return first_message;
}

TEST(a_reserved_message_for_an_ended_and_restarted_fiber_needs_no_place)
{
    weft_fn *const fns[] = {receive_unbounded, receive_bounded, receive_full};
    for (size_t i = 0; i < sizeof fns / sizeof *fns; i++) {
        int runs = 0;
        weft_fiber f = weft_spin(fns[i], &runs);
        weft_snooze(); /* the fiber ends, and its message has not arrived */
        ck_assert_int_eq(weft_restart(f), 0);
        ck_assert_int_eq(weft_await(f), 10);
        ck_assert_int_eq(runs, 2);
    }
}

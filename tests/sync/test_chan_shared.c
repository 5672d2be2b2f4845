/*
 * Shared channels between threads: order, closing, cancelled and interrupted waiters, no lost or
 * duplicated values. test_chan_alike.c tests shared channels within one thread.
 */
#include "support/suite.h"
#include "sync/shared_support.h"

#include <pthread.h>

static weft_chan *chan;

FIBER(send_arg, weft_chan_send(chan, (weft_value)arg))
FIBER(recv_from_chan, weft_chan_recv(chan))

typedef struct point {
    int x, y;
    char name[20];
} point;

WEFT_CHAN_OF(points, point);

static points *point_chan;

static weft_value send_points(void *arg)
{
    for (int i = 0; i < 100; i++) {
        point p = {i, -i, "p"};
        ck_assert_int_eq(points_send(point_chan, p), 0);
    }
    return points_try_send(point_chan, *(point *)arg) == 0 ||
           points_send(point_chan, *(point *)arg) == 0;
}

TEST_LOOP(items_of_any_size_cross_threads_whole, 3)
{
    const size_t cap = (size_t)_i;
    point_chan = points_new_shared(cap);
    point last = {7, 8, "last"}, p;
    weft_cord other = start_cord(send_points, &last);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(points_recv(point_chan, &p), 0);
        ck_assert(p.x == i && p.y == -i && strcmp(p.name, "p") == 0);
    }
    ck_assert_int_eq(points_recv(point_chan, &p), 0);
    ck_assert_str_eq(p.name, "last");
    ck_assert_int_eq(weft_cord_join(other), 1);
    ck_assert_int_eq(points_try_recv(point_chan, &p), -EAGAIN);
    ck_assert_int_eq(weft_chan_recv(points_chan(point_chan)), -EINVAL);
    points_free(point_chan);
}

/* Each thread adds two waiting fibers to the wait queue, one thread after the other. */
#define WAITERS 6

static weft_value wait_in_two_fibers(void *fn)
{
    int i = atomic_load(&stage);
    weft_fiber a = spin_and_run((weft_fn *)fn, as_arg(i)),
               b = spin_and_run((weft_fn *)fn, as_arg(i + 1));
    reach_stage(i + 2);
    weft_value first = weft_await(a), second = weft_await(b);
    return first * 100 + second;
}

static void start_waiting_cords(weft_cord *cords, weft_fn *fn)
{
    reach_stage(0);
    for (int i = 0; i < WAITERS / 2; i++) {
        cords[i] = start_cord(wait_in_two_fibers, (void *)fn);
        wait_for_stage(2 * i + 2);
    }
}

TEST(receivers_of_several_threads_wake_in_fifo_order)
{
    chan = weft_chan_new_shared(2);
    weft_cord cords[WAITERS / 2];
    start_waiting_cords(cords, recv_from_chan);
    ck_assert(weft_chan_has_receivers(chan) && !weft_chan_has_senders(chan));
    for (weft_value i = 0; i < WAITERS; i++)
        ck_assert_int_eq(weft_chan_send(chan, 10 + i), 0);
    for (weft_value i = 0; i < WAITERS / 2; i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), (10 + 2 * i) * 100 + 11 + 2 * i);
}

TEST_LOOP(senders_of_several_threads_wake_in_fifo_order_behind_the_buffered_values, 3)
{
    const size_t cap = (size_t)_i;
    chan = weft_chan_new_shared(cap);
    for (size_t i = 0; i < cap; i++)
        ck_assert_int_eq(weft_chan_send(chan, 100), 0);
    weft_cord cords[WAITERS / 2];
    start_waiting_cords(cords, send_arg);
    ck_assert(weft_chan_has_senders(chan) && weft_chan_is_full(chan));
    for (size_t i = 0; i < cap; i++)
        ck_assert_int_eq(weft_chan_recv(chan), 100);
    for (weft_value i = 0; i < WAITERS; i++)
        ck_assert_int_eq(weft_chan_recv(chan), i);
    for (weft_value i = 0; i < WAITERS / 2; i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), 0);
}

/*
 * Disturb a fiber that waits in another thread. If is_woken_first, the main thread has woken the
 * fiber before, and the fiber's thread has not handled the remote message yet.
 */
typedef struct disturbance {
    weft_fn *wait;
    int (*disturb)(weft_fiber f);
    bool is_woken_first;
} disturbance;

static int interrupt_fiber(weft_fiber f)
{
    return weft_interrupt(f, -77);
}

static int raise_in(weft_fiber f)
{
    return weft_raise(f, -ENOEXEC, "raised");
}

static weft_value disturb_waiter(void *arg)
{
    const disturbance *s = arg;
    weft_fiber f = spin_and_run(s->wait, as_arg(5));
    reach_stage(1);
    if (s->is_woken_first)
        wait_for_stage(2);
    s->disturb(f);
    weft_value value = weft_await(f);
    reach_stage(3);
    return value;
}

static weft_value disturb_waiting_call(weft_fn *wait, int (*disturb_fn)(weft_fiber f),
                                       bool is_woken_first)
{
    reach_stage(0);
    chan = weft_chan_new_shared(0);
    disturbance s = {wait, disturb_fn, is_woken_first};
    weft_cord other = start_cord(disturb_waiter, &s);
    wait_for_stage(is_woken_first ? 1 : 3);
    weft_value expected = is_woken_first ? (wait == recv_from_chan ? 0 : 5) : -EAGAIN;
    weft_value got =
        wait == recv_from_chan ? weft_chan_try_send(chan, 99) : weft_chan_try_recv(chan);
    ck_assert_int_eq(got, expected);
    reach_stage(2);
    weft_value value = weft_cord_join(other);
    ck_assert(!weft_chan_has_receivers(chan) && !weft_chan_has_senders(chan));
    weft_chan_free(chan);
    return value;
}

TEST(a_waiter_interrupted_after_another_thread_has_woken_it_keeps_its_result)
{
    ck_assert_int_eq(disturb_waiting_call(recv_from_chan, interrupt_fiber, true), 99);
    ck_assert_int_eq(disturb_waiting_call(send_arg, interrupt_fiber, true), 0);
    /* An error raised after the wake does not change the value. */
    ck_assert_int_eq(disturb_waiting_call(recv_from_chan, raise_in, true), 99);
}

TEST(a_waiter_interrupted_before_it_is_woken_has_neither_received_nor_sent)
{
    ck_assert_int_eq(disturb_waiting_call(recv_from_chan, interrupt_fiber, false), -77);
    ck_assert_int_eq(disturb_waiting_call(send_arg, interrupt_fiber, false), -77);
    ck_assert_int_eq(disturb_waiting_call(recv_from_chan, weft_cancel, false), -ECANCELED);
    ck_assert_int_eq(disturb_waiting_call(send_arg, weft_cancel, false), -ECANCELED);
    ck_assert_int_eq(disturb_waiting_call(recv_from_chan, raise_in, false), -ENOEXEC);
}

static weft_value first_received;

FIBER_DO(recv_twice, first_received = weft_chan_recv(chan), weft_chan_recv(chan))

/* The call that was woken keeps its value. The next call fails with -ECANCELED. */
TEST(a_cancel_after_the_wake_takes_effect_at_the_next_call)
{
    chan = weft_chan_new_shared(0);
    disturbance s = {recv_twice, weft_cancel, true};
    weft_cord other = start_cord(disturb_waiter, &s);
    wait_for_stage(1);
    ck_assert_int_eq(weft_chan_send(chan, 99), 0);
    reach_stage(2);
    ck_assert_int_eq(weft_cord_join(other), -ECANCELED);
    ck_assert_int_eq(first_received, 99);
}

static weft_value drain_chan(void *arg)
{
    weft_value sum = 0, value;
    while ((value = weft_chan_recv(chan)) >= 0)
        sum += value;
    return value == -EPIPE ? sum : value;
}

/* Whether the channel is closed or freed: woken waiters do not use the channel any more. */
TEST_LOOP(closing_or_freeing_a_channel_wakes_waiters_in_other_threads_with_epipe, 4)
{
    chan = weft_chan_new_shared(0);
    weft_cord cords[WAITERS / 2];
    start_waiting_cords(cords, _i % 2 == 0 ? recv_from_chan : send_arg);
    if (_i < 2)
        ck_assert_int_eq(weft_chan_close(chan), 0);
    else
        weft_chan_free(chan);
    for (int j = 0; j < WAITERS / 2; j++)
        ck_assert_int_eq(weft_cord_join(cords[j]), -EPIPE * 100 - EPIPE);
    if (_i < 2)
        weft_chan_free(chan);
}

/* The waiter is interrupted while the wake-up by the freed channel is in flight. */
TEST(an_interrupt_after_the_channel_was_freed_has_no_effect)
{
    chan = weft_chan_new_shared(0);
    disturbance s = {recv_from_chan, interrupt_fiber, true};
    weft_cord other = start_cord(disturb_waiter, &s);
    wait_for_stage(1);
    weft_chan_free(chan);
    reach_stage(2);
    ck_assert_int_eq(weft_cord_join(other), -EPIPE);
}

static weft_value wait_in_fibers(void *arg)
{
    for (int i = 0; i < 10; i++)
        weft_spin(i % 2 == 0 ? recv_from_chan : send_arg, as_arg(1));
    let_run();
    reach_stage(atomic_load(&stage) + 1);
    return weft_suspend();
}

TEST(a_thread_that_is_cancelled_while_its_fibers_wait_leaves_no_waiters)
{
    chan = weft_chan_new_shared(0);
    reach_stage(0);
    weft_cord other = start_cord(drain_chan, NULL), third = start_cord(wait_in_fibers, NULL);
    run_fibers_until_stage(1);
    weft_cord_cancel(other);
    weft_cord_cancel(third);
    ck_assert_int_eq(weft_cord_join(third), -ECANCELED);
    ck_assert_int_eq(weft_cord_join(other), -ECANCELED);
    ck_assert(!weft_chan_has_receivers(chan) && !weft_chan_has_senders(chan));
    ck_assert_int_eq(weft_chan_try_send(chan, 1), -EAGAIN);
}

static int end_while_receiving(void)
{
    chan = weft_chan_new_shared(0);
    start_end_of_process(chan, chan);
    weft_chan_recv(chan);
    return 1;
}

TEST(a_process_may_end_with_a_wake_in_flight_to_a_fiber_that_never_runs_again)
{
    assert_ends_woken_or_not(end_while_receiving);
}

static void *use_without_waiting(void *arg)
{
    ck_assert_int_eq(weft_chan_try_recv(chan), 1);
    while (weft_chan_try_send(chan, (weft_value)arg) == -EAGAIN)
        sched_yield();
    ck_assert_int_eq(weft_chan_close(chan), 0);
    return NULL;
}

TEST(a_thread_without_fibers_can_try_and_close)
{
    chan = weft_chan_new_shared(0);
    weft_fiber f = spin_and_run(send_arg, as_arg(1));
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, use_without_waiting, as_arg(2)), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(weft_chan_recv(chan), 2);
    ck_assert_int_eq(weft_chan_recv(chan), -EPIPE);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

TEST_PROGRAM_PRINTS(a_wait_on_a_shared_channel_that_no_fiber_can_end_is_a_deadlock, 3,
                    "an item from a shared channel")
{
    chan = weft_chan_new_shared(0);
    weft_value rc = weft_chan_recv(chan);
    weft_chan_free(chan);
    return rc == -EDEADLK ? 3 : 1;
}

static weft_value recv_or_message(void *arg)
{
    weft_clause c[] = {weft_clause_recv(chan), weft_clause_message()};
    return weft_select(c, 2);
}

/*
 * In a child, the waiting fibers do not exist, and other threads may have been changing the
 * channel.
 */
TEST_PROGRAM(in_a_child_a_shared_channel_is_closed_and_empty_and_still_works_in_the_parent, 3, "")
{
    chan = weft_chan_new_shared(1);
    spin_and_run(recv_from_chan, NULL);
    spin_and_run(recv_or_message, NULL);
    pid_t pid = weft_fork();
    if (pid == 0) {
        bool is_closed = weft_chan_recv(chan) == -EPIPE && weft_chan_send(chan, 1) == -EPIPE &&
                         recv_or_message(NULL) == 0 && weft_chan_is_closed(chan) &&
                         weft_chan_is_empty(chan) && !weft_chan_has_receivers(chan);
        weft_chan_free(chan);
        _exit(is_closed ? 3 : 4);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    bool is_usable = weft_chan_send(chan, 1) == 0 && weft_chan_send(chan, 2) == 0;
    let_run();
    weft_chan_free(chan);
    return WIFEXITED(status) && is_usable ? WEXITSTATUS(status) : 5;
}

static weft_value use_elsewhere(void *arg)
{
    weft_value rc = arg == NULL ? weft_chan_recv(chan) : weft_chan_send(chan, 1);
    if (rc == -EXDEV)
        ck_assert_any_error(-EXDEV);
    return rc;
}

TEST(an_unshared_channel_in_which_a_fiber_of_another_thread_waits_is_refused)
{
    chan = weft_chan_new(0);
    weft_fiber f = spin_and_run(send_arg, as_arg(5));
    ck_assert_int_eq(weft_cord_join(start_cord(use_elsewhere, chan)), -EXDEV);
    ck_assert_int_eq(weft_chan_recv(chan), 5); /* the value of f, and none is lost */
    ck_assert_int_eq(weft_await(f), 0);
    f = spin_and_run(recv_from_chan, NULL);
    ck_assert_int_eq(weft_cord_join(start_cord(use_elsewhere, NULL)), -EXDEV);
    weft_cancel(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_int_eq(weft_chan_close(chan), 0);
    ck_assert_int_eq(weft_cord_join(start_cord(use_elsewhere, NULL)), -EPIPE);
}

FIBER(send_point, points_send(arg, (point){1, 2, "sent"}))
FIBER_DO(recv_point, point p, points_recv(arg, &p))

TEST(items_in_an_unshared_channel_in_which_a_fiber_of_another_thread_waits_are_refused)
{
    point_chan = points_new(0);
    weft_fiber f = spin_and_run(send_point, point_chan);
    ck_assert_int_eq(weft_cord_join(start_cord(send_point, point_chan)), -EXDEV);
    ck_assert_int_eq(recv_point(point_chan), 0);
    ck_assert_int_eq(weft_await(f), 0);
    f = spin_and_run(recv_point, point_chan);
    ck_assert_int_eq(weft_cord_join(start_cord(recv_point, point_chan)), -EXDEV);
    ck_assert_int_eq(send_point(point_chan), 0);
    ck_assert_int_eq(weft_await(f), 0);
    points_free(point_chan);
}

/* Fibers of this thread wait in the channel, on both sides. */
static weft_value use_in_this_thread(void *arg)
{
    weft_fiber f = spin_and_run(recv_from_chan, NULL);
    ck_assert_int_eq(weft_chan_send(chan, 7), 0);
    ck_assert_int_eq(weft_await(f), 7);
    f = spin_and_run(send_arg, as_arg(8));
    ck_assert_int_eq(weft_chan_recv(chan), 8);
    return weft_await(f);
}

TEST(an_unshared_channel_can_be_handed_to_another_cord_and_back)
{
    chan = weft_chan_new(0);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(use_in_this_thread(NULL), 0);
        ck_assert_int_eq(weft_cord_join(start_cord(use_in_this_thread, NULL)), 0);
    }
}

/*
 * Shared channels between threads: order, closing, what strikes those who wait, and that nothing is
 * lost or doubled. What they have in common with plain ones in one thread: test_chan_alike.c.
 */
#include "shared_support.h"

#include <pthread.h>

static weft_chan *chan;

static weft_value send_it(void *arg)
{
    return weft_chan_send(chan, (weft_value)arg);
}

static weft_value recv_it(void *arg)
{
    (void)arg;
    return weft_chan_recv(chan);
}

/* P49 */
START_TEST(values_go_to_and_fro_between_two_threads_whatever_the_capacity)
{
    for (size_t cap = 0; cap < 3; cap++) {
        chan = weft_chan_new_shared(cap);
        weft_cord other = start_cord(send_it, as_arg(1000));
        ck_assert_int_eq(weft_chan_recv(chan), 1000);
        ck_assert_int_eq(weft_cord_join(other), 0);
        other = start_cord(recv_it, NULL);
        ck_assert_int_eq(weft_chan_send(chan, 42), 0);
        ck_assert_int_eq(weft_cord_join(other), 42);
        weft_chan_free(chan);
    }
}
END_TEST

typedef struct point {
    int x, y;
    char name[20];
} point;

WEFT_CHAN_OF(points, point);

static points *way;

static weft_value send_points(void *arg)
{
    for (int i = 0; i < 100; i++) {
        point p = {i, -i, "p"};
        ck_assert_int_eq(points_send(way, p), 0);
    }
    return points_try_send(way, *(point *)arg) == 0 || points_send(way, *(point *)arg) == 0;
}

START_TEST(items_of_any_size_cross_threads_whole)
{
    for (size_t cap = 0; cap < 3; cap++) {
        way = points_new_shared(cap);
        point last = {7, 8, "last"}, p;
        weft_cord other = start_cord(send_points, &last);
        for (int i = 0; i < 100; i++) {
            ck_assert_int_eq(points_recv(way, &p), 0);
            ck_assert(p.x == i && p.y == -i && strcmp(p.name, "p") == 0);
        }
        ck_assert_int_eq(points_recv(way, &p), 0);
        ck_assert_str_eq(p.name, "last");
        ck_assert_int_eq(weft_cord_join(other), 1);
        ck_assert_int_eq(points_try_recv(way, &p), -EAGAIN);
        ck_assert_int_eq(weft_chan_recv(points_chan(way)), -EINVAL);
        points_free(way);
    }
}
END_TEST

/* Each thread brings two fibers into the line, then the next thread does. */
#define IN_LINE 6

static weft_value queue_up(void *fn)
{
    int i = atomic_load(&stage);
    weft_fiber a = spin_waiting((weft_fn *)fn, as_arg(i)),
               b = spin_waiting((weft_fn *)fn, as_arg(i + 1));
    reach(i + 2);
    weft_value first = weft_await(a), second = weft_await(b);
    return first * 100 + second;
}

static void start_line(weft_cord *cords, weft_fn *fn)
{
    reach(0);
    for (int i = 0; i < IN_LINE / 2; i++) {
        cords[i] = start_cord(queue_up, (void *)fn);
        wait_for_stage(2 * i + 2);
    }
}

START_TEST(receivers_are_served_in_the_order_in_which_they_came_whatever_their_threads)
{
    chan = weft_chan_new_shared(2);
    weft_cord cords[IN_LINE / 2];
    start_line(cords, recv_it);
    ck_assert(weft_chan_has_receivers(chan) && !weft_chan_has_senders(chan));
    for (weft_value i = 0; i < IN_LINE; i++)
        ck_assert_int_eq(weft_chan_send(chan, 10 + i), 0);
    for (weft_value i = 0; i < IN_LINE / 2; i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), (10 + 2 * i) * 100 + 11 + 2 * i);
    weft_chan_free(chan);
}
END_TEST

START_TEST(senders_are_served_in_the_order_in_which_they_came_behind_what_is_there)
{
    for (size_t cap = 0; cap < 3; cap++) {
        chan = weft_chan_new_shared(cap);
        for (size_t i = 0; i < cap; i++)
            ck_assert_int_eq(weft_chan_send(chan, 100), 0);
        weft_cord cords[IN_LINE / 2];
        start_line(cords, send_it);
        ck_assert(weft_chan_has_senders(chan) && weft_chan_is_full(chan));
        for (size_t i = 0; i < cap; i++)
            ck_assert_int_eq(weft_chan_recv(chan), 100);
        for (weft_value i = 0; i < IN_LINE; i++)
            ck_assert_int_eq(weft_chan_recv(chan), i);
        for (weft_value i = 0; i < IN_LINE / 2; i++)
            ck_assert_int_eq(weft_cord_join(cords[i]), 0);
        weft_chan_free(chan);
    }
}
END_TEST

/*
 * What strikes a fiber that has been served by another thread, and has not heard of it: its own
 * thread does not look until it has been struck.
 */
typedef struct strike {
    weft_fn *wait;
    int (*strike)(weft_fiber f);
    bool is_served_first;
} strike;

static int interrupt(weft_fiber f)
{
    return weft_interrupt(f, -77);
}

static int raise_in(weft_fiber f)
{
    return weft_raise(f, -ENOEXEC, "raised");
}

static weft_value be_struck(void *arg)
{
    const strike *s = arg;
    weft_fiber f = spin_waiting(s->wait, as_arg(5));
    reach(1);
    if (s->is_served_first)
        wait_for_stage(2);
    s->strike(f);
    weft_value value = weft_await(f);
    reach(3);
    return value;
}

static weft_value strike_one(weft_fn *wait, int (*how)(weft_fiber f), bool is_served_first)
{
    reach(0);
    chan = weft_chan_new_shared(0);
    strike s = {wait, how, is_served_first};
    weft_cord other = start_cord(be_struck, &s);
    wait_for_stage(is_served_first ? 1 : 3);
    weft_value expected = is_served_first ? (wait == recv_it ? 0 : 5) : -EAGAIN;
    weft_value got = wait == recv_it ? weft_chan_try_send(chan, 99) : weft_chan_try_recv(chan);
    ck_assert_int_eq(got, expected);
    reach(2);
    weft_value value = weft_cord_join(other);
    ck_assert(!weft_chan_has_receivers(chan) && !weft_chan_has_senders(chan));
    weft_chan_free(chan);
    return value;
}

START_TEST(who_is_struck_after_another_thread_has_served_it_has_been_served)
{
    ck_assert_int_eq(strike_one(recv_it, interrupt, true), 99);
    ck_assert_int_eq(strike_one(send_it, interrupt, true), 0);
    /* What is raised too late does not change the value. */
    ck_assert_int_eq(strike_one(recv_it, raise_in, true), 99);
}
END_TEST

START_TEST(who_is_struck_before_it_is_served_has_neither_received_nor_sent)
{
    ck_assert_int_eq(strike_one(recv_it, interrupt, false), -77);
    ck_assert_int_eq(strike_one(send_it, interrupt, false), -77);
    ck_assert_int_eq(strike_one(recv_it, weft_cancel, false), -ECANCELED);
    ck_assert_int_eq(strike_one(send_it, weft_cancel, false), -ECANCELED);
    ck_assert_int_eq(strike_one(recv_it, raise_in, false), -ENOEXEC);
}
END_TEST

static weft_value got_when_cancelled;

static weft_value recv_and_note(void *arg)
{
    (void)arg;
    got_when_cancelled = weft_chan_recv(chan);
    return weft_chan_recv(chan);
}

/* A fiber that is cancelled has the value of its last call, and is struck at the next. */
START_TEST(a_cancel_that_comes_too_late_strikes_at_the_next_call)
{
    chan = weft_chan_new_shared(0);
    strike s = {recv_and_note, weft_cancel, true};
    weft_cord other = start_cord(be_struck, &s);
    wait_for_stage(1);
    ck_assert_int_eq(weft_chan_send(chan, 99), 0);
    reach(2);
    ck_assert_int_eq(weft_cord_join(other), -ECANCELED);
    ck_assert_int_eq(got_when_cancelled, 99);
    weft_chan_free(chan);
}
END_TEST

static weft_value drain(void *arg)
{
    (void)arg;
    weft_value sum = 0, value;
    while ((value = weft_chan_recv(chan)) >= 0)
        sum += value;
    return value == -EPIPE ? sum : value;
}

START_TEST(what_is_in_a_closed_channel_can_be_received_in_any_thread_and_then_there_is_an_end)
{
    chan = weft_chan_new_shared(10);
    for (weft_value i = 1; i <= 10; i++)
        ck_assert_int_eq(weft_chan_send(chan, i), 0);
    ck_assert_int_eq(weft_chan_close(chan), 0);
    ck_assert(weft_chan_is_closed(chan) && weft_chan_count(chan) == 10);
    ck_assert_int_eq(weft_chan_send(chan, 11), -EPIPE);
    ck_assert_int_eq(weft_cord_join(start_cord(drain, NULL)), 55);
    ck_assert(weft_chan_is_empty(chan));
    weft_chan_free(chan);
}
END_TEST

/* By closing, or by freeing: they need nothing of it any more. */
START_TEST(those_who_wait_in_other_threads_hear_of_the_end_even_if_the_channel_is_gone)
{
    for (int i = 0; i < 4; i++) {
        chan = weft_chan_new_shared(0);
        weft_cord cords[IN_LINE / 2];
        start_line(cords, i % 2 == 0 ? recv_it : send_it);
        if (i < 2)
            ck_assert_int_eq(weft_chan_close(chan), 0);
        else
            weft_chan_free(chan);
        for (int j = 0; j < IN_LINE / 2; j++)
            ck_assert_int_eq(weft_cord_join(cords[j]), -EPIPE * 100 - EPIPE);
        if (i < 2)
            weft_chan_free(chan);
    }
}
END_TEST

/* Cancelled while it is told of the end of a channel that is gone. */
START_TEST(a_cancel_after_the_channel_was_freed_comes_too_late)
{
    chan = weft_chan_new_shared(0);
    strike s = {recv_it, interrupt, true};
    weft_cord other = start_cord(be_struck, &s);
    wait_for_stage(1);
    weft_chan_free(chan);
    reach(2);
    ck_assert_int_eq(weft_cord_join(other), -EPIPE);
}
END_TEST

static weft_value wait_in_fibers(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++)
        weft_spin(i % 2 == 0 ? recv_it : send_it, as_arg(1));
    let_run();
    reach(atomic_load(&stage) + 1);
    return weft_suspend();
}

/* In a full channel senders wait, in an empty one receivers: in a rendezvous they would meet. */
START_TEST(a_thread_that_is_cancelled_while_its_fibers_wait_leaves_nobody_behind)
{
    chan = weft_chan_new_shared(0);
    reach(0);
    weft_cord other = start_cord(drain, NULL), third = start_cord(wait_in_fibers, NULL);
    let_run_until_stage(1);
    weft_cord_cancel(other);
    weft_cord_cancel(third);
    ck_assert_int_eq(weft_cord_join(third), -ECANCELED);
    ck_assert_int_eq(weft_cord_join(other), -ECANCELED);
    ck_assert(!weft_chan_has_receivers(chan) && !weft_chan_has_senders(chan));
    ck_assert_int_eq(weft_chan_try_send(chan, 1), -EAGAIN);
    weft_chan_free(chan);
}
END_TEST

/* The main fiber waits, and never hears of it: another fiber ends the process. */
static bool is_served;

static weft_value end_process(void *arg)
{
    (void)arg;
    reach(1);
    wait_for_stage(2);
    exit_here(3);
    return 0;
}

static weft_value serve_then_look(void *arg)
{
    (void)arg;
    wait_for_stage(1);
    if (is_served && weft_chan_try_send(chan, 1) != 0)
        _exit(4);
    reach(2);
    weft_suspend(); /* cancelled, as the process ends */
    while (weft_chan_has_receivers(chan))
        sched_yield();
    return 0;
}

static int end_while_receiving(void)
{
    reach(0);
    chan = weft_chan_new_shared(0);
    start_cord(serve_then_look, NULL);
    weft_spin(end_process, NULL);
    weft_chan_recv(chan);
    return 1;
}

START_TEST(a_process_may_end_with_an_answer_under_way_to_a_fiber_that_never_runs_again)
{
    ck_assert_quiet(run_apart(end_while_receiving), 3);
    is_served = true;
    ck_assert_quiet(run_apart(end_while_receiving), 3);
}
END_TEST

static void *use_without_waiting(void *arg)
{
    ck_assert_int_eq(weft_chan_try_recv(chan), 1);
    while (weft_chan_try_send(chan, (weft_value)arg) == -EAGAIN)
        sched_yield();
    ck_assert_int_eq(weft_chan_close(chan), 0);
    return NULL;
}

START_TEST(a_plain_thread_can_try_and_close)
{
    chan = weft_chan_new_shared(0);
    weft_fiber f = spin_waiting(send_it, as_arg(1));
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, use_without_waiting, as_arg(2)), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(weft_chan_recv(chan), 2);
    ck_assert_int_eq(weft_chan_recv(chan), -EPIPE);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    weft_chan_free(chan);
}
END_TEST

static int wait_for_nobody(void)
{
    chan = weft_chan_new_shared(0);
    weft_value rc = weft_chan_recv(chan);
    weft_chan_free(chan);
    return rc == -EDEADLK ? 3 : 1;
}

START_TEST(a_wait_that_nobody_can_end_is_a_deadlock_for_shared_channels_too)
{
    const outcome *o = run_apart(wait_for_nobody);
    ck_assert_int_eq(o->status, 3);
    assert_said(o, "something from a shared channel");
}
END_TEST

static weft_value recv_or_message(void *arg)
{
    (void)arg;
    weft_clause c[] = {weft_clause_recv(chan), weft_clause_message()};
    return weft_select(c, 2);
}

/* Of those who waited in it none is left, and nobody knows what other threads were at. */
static int look_in_child(void)
{
    chan = weft_chan_new_shared(1);
    spin_waiting(recv_it, NULL);
    spin_waiting(recv_or_message, NULL);
    pid_t pid = weft_fork();
    if (pid == 0) {
        bool is_over = weft_chan_recv(chan) == -EPIPE && weft_chan_send(chan, 1) == -EPIPE &&
                       recv_or_message(NULL) == 0 && weft_chan_is_closed(chan) &&
                       weft_chan_is_empty(chan) && !weft_chan_has_receivers(chan);
        weft_chan_free(chan);
        _exit(is_over ? 3 : 4);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    bool is_alive = weft_chan_send(chan, 1) == 0 && weft_chan_send(chan, 2) == 0;
    let_run();
    weft_chan_free(chan);
    return WIFEXITED(status) && is_alive ? WEXITSTATUS(status) : 5;
}

START_TEST(in_a_child_a_shared_channel_is_closed_and_empty_and_the_parents_goes_on)
{
    ck_assert_quiet(run_apart(look_in_child), 3);
}
END_TEST

static weft_value recv_elsewhere(void *arg)
{
    weft_value rc = weft_chan_recv(arg);
    if (rc == -EXDEV)
        ck_assert_any_words(-EXDEV);
    return rc;
}

START_TEST(waiting_in_a_channel_that_is_not_shared_where_another_threads_fiber_waits_is_refused)
{
    chan = weft_chan_new(0);
    weft_fiber f = spin_waiting(recv_it, NULL);
    ck_assert_int_eq(weft_cord_join(start_cord(recv_elsewhere, chan)), -EXDEV);
    weft_cancel(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_int_eq(weft_chan_close(chan), 0);
    ck_assert_int_eq(weft_cord_join(start_cord(recv_elsewhere, chan)), -EPIPE);
    weft_chan_free(chan);
}
END_TEST

static weft_value send_elsewhere(void *arg)
{
    weft_value rc = weft_chan_send(arg, 1);
    if (rc == -EXDEV)
        ck_assert_any_words(-EXDEV);
    return rc;
}

START_TEST(sending_in_a_channel_that_is_not_shared_where_another_threads_fiber_waits_is_refused)
{
    chan = weft_chan_new(0);
    weft_fiber f = spin_waiting(send_it, as_arg(5));
    ck_assert_int_eq(weft_cord_join(start_cord(send_elsewhere, chan)), -EXDEV);
    ck_assert_int_eq(weft_chan_recv(chan), 5); /* nobody else's, and nothing lost */
    ck_assert_int_eq(weft_await(f), 0);
    weft_chan_free(chan);
}
END_TEST

static weft_value send_point(void *arg)
{
    return points_send(arg, (point){1, 2, "sent"});
}

static weft_value recv_point(void *arg)
{
    point p;
    return points_recv(arg, &p);
}

START_TEST(items_in_a_channel_that_is_not_shared_where_another_threads_fiber_waits_are_refused)
{
    way = points_new(0);
    weft_fiber f = spin_waiting(send_point, way);
    ck_assert_int_eq(weft_cord_join(start_cord(send_point, way)), -EXDEV);
    ck_assert_int_eq(recv_point(way), 0);
    ck_assert_int_eq(weft_await(f), 0);
    f = spin_waiting(recv_point, way);
    ck_assert_int_eq(weft_cord_join(start_cord(recv_point, way)), -EXDEV);
    ck_assert_int_eq(send_point(way), 0);
    ck_assert_int_eq(weft_await(f), 0);
    points_free(way);
}
END_TEST

/* Fibers of this thread wait in it, on both sides. */
static weft_value use_as_own(void *arg)
{
    (void)arg;
    weft_fiber f = spin_waiting(recv_it, NULL);
    ck_assert_int_eq(weft_chan_send(chan, 7), 0);
    ck_assert_int_eq(weft_await(f), 7);
    f = spin_waiting(send_it, as_arg(8));
    ck_assert_int_eq(weft_chan_recv(chan), 8);
    return weft_await(f);
}

START_TEST(a_channel_that_is_not_shared_can_be_handed_to_another_cord_and_back)
{
    chan = weft_chan_new(0);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(use_as_own(NULL), 0);
        ck_assert_int_eq(weft_cord_join(start_cord(use_as_own, NULL)), 0);
    }
    weft_chan_free(chan);
}
END_TEST

int main(void)
{
    const TTest *const *const tests[] = {
        &values_go_to_and_fro_between_two_threads_whatever_the_capacity,
        &items_of_any_size_cross_threads_whole,
        &receivers_are_served_in_the_order_in_which_they_came_whatever_their_threads,
        &senders_are_served_in_the_order_in_which_they_came_behind_what_is_there,
        &who_is_struck_after_another_thread_has_served_it_has_been_served,
        &who_is_struck_before_it_is_served_has_neither_received_nor_sent,
        &a_cancel_that_comes_too_late_strikes_at_the_next_call,
        &what_is_in_a_closed_channel_can_be_received_in_any_thread_and_then_there_is_an_end,
        &those_who_wait_in_other_threads_hear_of_the_end_even_if_the_channel_is_gone,
        &a_cancel_after_the_channel_was_freed_comes_too_late,
        &a_thread_that_is_cancelled_while_its_fibers_wait_leaves_nobody_behind,
        &a_process_may_end_with_an_answer_under_way_to_a_fiber_that_never_runs_again,
        &a_plain_thread_can_try_and_close,
        &a_wait_that_nobody_can_end_is_a_deadlock_for_shared_channels_too,
        &in_a_child_a_shared_channel_is_closed_and_empty_and_the_parents_goes_on,
        &waiting_in_a_channel_that_is_not_shared_where_another_threads_fiber_waits_is_refused,
        &sending_in_a_channel_that_is_not_shared_where_another_threads_fiber_waits_is_refused,
        &items_in_a_channel_that_is_not_shared_where_another_threads_fiber_waits_are_refused,
        &a_channel_that_is_not_shared_can_be_handed_to_another_cord_and_back,
    };
    return run_suite("chan_shared", tests, COUNT_OF(tests));
}

/* Fibers made in other cords, and calls that wait for them. */
#include "cord_support.h"

#include <semaphore.h>

static weft_cord server; /* serves in every test */

static void start_server(void)
{
    server = start_cord(NULL, NULL);
}

static void end_server(void)
{
    weft_cord_cancel(server);
    ck_assert_int_eq(weft_cord_join(server), -ECANCELED);
}

/* Everything that was sent before has arrived, and has run as far as it could. */
static void settle(void)
{
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_cord_call(server, return_arg, as_arg(i)), i);
}

/* Spinning. */

static weft_value tell_who(void *arg)
{
    weft_tell(arg_id(arg), (weft_value)weft_self());
    weft_tell(arg_id(arg), (weft_value)weft_parent(weft_self()));
    return 0;
}

START_TEST(a_fiber_made_in_a_cord_has_the_id_that_spin_returned_and_main_as_its_parent)
{
    start_server();
    weft_fiber fiber = weft_cord_spin(server, tell_who, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), (weft_value)fiber);
    ck_assert_int_eq(weft_receive(), (weft_value)server);
    end_server();
}
END_TEST

static weft_value pass_on(void *arg)
{
    weft_value sum = 0;
    for (int i = 0; i < 3; i++)
        sum += weft_receive();
    return weft_tell(arg_id(arg), sum);
}

START_TEST(it_can_be_told_something_before_it_has_arrived)
{
    start_server();
    weft_fiber fiber = weft_cord_spin(server, pass_on, id_arg(weft_self()));
    for (int i = 1; i <= 3; i++)
        ck_assert_int_eq(weft_tell(fiber, i), 0);
    ck_assert_int_eq(weft_receive(), 6);
    end_server();
}
END_TEST

START_TEST(once_it_has_ended_it_cannot_be_told_or_scheduled)
{
    start_server();
    weft_fiber fiber = weft_cord_spin(server, return_arg, as_arg(5));
    settle();
    ck_assert_int_eq(weft_tell(fiber, 1), -ESRCH);
    ck_assert_int_eq(weft_schedule(fiber, 1), -ESRCH);
    end_server();
}
END_TEST

START_TEST(spinning_does_not_switch)
{
    start_server();
    weft_spin(mark_and_return, "other ");
    weft_cord_spin(server, return_arg, NULL);
    mark("spun ");
    weft_snooze();
    ck_assert_trail("spun other ");
    end_server();
}
END_TEST

static weft_value mark_name(void *arg)
{
    ck_assert_str_eq(weft_name_of(weft_self()), "visitor");
    return weft_tell(*(weft_fiber *)arg, 1);
}

START_TEST(options_travel_along_and_so_does_a_copy_of_the_argument)
{
    start_server();
    weft_fiber self = weft_self();
    char name[] = "visitor";
    weft_cord_spin_with(server, mark_name, &self,
                        &(weft_spin_options){.name = name, .arg_bytes = sizeof self});
    memset(name, 'x', sizeof name - 1);
    self = 0;
    ck_assert_int_eq(weft_receive(), 1);
    end_server();
}
END_TEST

START_TEST(a_parent_there_can_be_named)
{
    start_server();
    weft_fiber parent = weft_cord_spin(server, sleep_forever, NULL);
    weft_cord_spin_with(server, tell_who, id_arg(weft_self()),
                        &(weft_spin_options){.parent = parent});
    weft_receive();
    ck_assert_int_eq(weft_receive(), (weft_value)parent);
    end_server();
}
END_TEST

START_TEST(what_cannot_be_spun_is_refused_with_words)
{
    start_server();
    ck_assert_uint_eq(weft_cord_spin(server, NULL, NULL), 0);
    ck_assert_any_words(-EINVAL);
    ck_assert_uint_eq(weft_cord_spin(0, suspend, NULL), 0);
    ck_assert_any_words(-ESRCH);
    ck_assert_uint_eq(weft_cord_spin(weft_spin(suspend, NULL), suspend, NULL), 0);
    ck_assert_any_words(-ESRCH);
    weft_spin_options here = {.parent = weft_self()};
    ck_assert_uint_eq(weft_cord_spin_with(server, suspend, NULL, &here), 0);
    ck_assert_any_words(-EXDEV);
    end_server();
    ck_assert_uint_eq(weft_cord_spin(server, suspend, NULL), 0);
    ck_assert_any_words(-ESRCH);
}
END_TEST

#define BURST (IS_SLOW ? 200 : 1000)

static weft_value tell_self(void *arg)
{
    return weft_tell(arg_id(arg), (weft_value)weft_self());
}

/* Several times, so that what is set aside is used again. */
START_TEST(a_burst_of_fibers_all_arrive_each_with_its_own_id)
{
    start_server();
    weft_fiber ids[BURST];
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < BURST; i++)
            ck_assert_uint_ne(ids[i] = weft_cord_spin(server, tell_self, id_arg(weft_self())), 0);
        for (int i = 0; i < BURST; i++) /* in the order of their making */
            ck_assert_int_eq(weft_receive(), (weft_value)ids[i]);
    }
    end_server();
}
END_TEST

START_TEST(a_cord_may_spin_into_itself)
{
    weft_fiber fiber = weft_cord_spin(weft_cord_self(), tell_self, id_arg(weft_self()));
    ck_assert_int_eq(weft_tell(fiber, 1), 0);
    ck_assert_int_eq(weft_receive(), (weft_value)fiber);
    ck_assert_int_eq(weft_cord_call(weft_cord_self(), return_arg, as_arg(4)), 4);
}
END_TEST

/* A thread that is no cord. */
static void *send_from_outside(void *arg)
{
    weft_fiber fiber = weft_cord_spin(server, pass_on, arg);
    for (int i = 1; i <= 3; i++)
        if (weft_tell(fiber, i) != 0)
            return as_arg(1);
    return NULL;
}

START_TEST(a_plain_thread_may_spin_and_tell)
{
    start_server();
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, send_from_outside, id_arg(weft_self())), 0);
    ck_assert_int_eq(weft_receive(), 6);
    void *result;
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_null(result);
    end_server();
}
END_TEST

/* Calling. */

START_TEST(a_call_returns_the_value)
{
    start_server();
    ck_assert_int_eq(weft_cord_call(server, return_arg, as_arg(17)), 17);
    end_server();
}
END_TEST

START_TEST(a_call_returns_the_error_with_its_words_and_the_cord_goes_on)
{
    start_server();
    ck_assert_int_eq(weft_cord_call(server, fail_with, as_arg(-EIO)), -EIO);
    ck_assert_words(-EIO, "broken");
    ck_assert_int_eq(weft_cord_call(server, return_arg, as_arg(1)), 1);
    end_server();
}
END_TEST

static weft_value fail_in_child(void *arg)
{
    weft_spin(fail_with, arg);
    return weft_sleep(INFINITY);
}

START_TEST(the_error_of_a_child_of_the_called_fiber_comes_too)
{
    start_server();
    ck_assert_int_eq(weft_cord_call(server, fail_in_child, as_arg(-EIO)), -EIO);
    ck_assert_words(-EIO, "broken");
    end_server();
}
END_TEST

static weft_value make_call(void *arg)
{
    return weft_cord_call(server, announce_and_wait, arg);
}

START_TEST(a_cord_that_ends_answers_its_calls)
{
    start_server();
    weft_fiber caller = weft_spin(make_call, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 1);
    weft_cord_cancel(server);
    ck_assert_int_eq(weft_await(caller), -ESRCH); /* not that the caller was cancelled */
    ck_assert_int_eq(weft_cord_join(server), -ECANCELED);
    ck_assert_int_eq(weft_cord_call(server, return_arg, NULL), -ESRCH);
    ck_assert_any_words(-ESRCH);
}
END_TEST

static weft_value call_return(void *arg)
{
    return weft_cord_call(server, return_arg, arg);
}

START_TEST(calls_to_a_cord_that_is_ending_are_all_answered)
{
    for (int round = 0; round < 20; round++) {
        start_server();
        weft_fiber callers[20];
        for (int i = 0; i < 20; i++)
            callers[i] = weft_spin(call_return, as_arg(i));
        weft_snooze();
        weft_cord_cancel(server);
        for (int i = 0; i < 20; i++) {
            weft_value rc = weft_await(callers[i]);
            ck_assert(rc == i || rc == -ESRCH);
        }
        weft_cord_join(server);
    }
}
END_TEST

static atomic_bool has_ended;

static weft_value end_slowly(void *arg)
{
    weft_tell(arg_id(arg), 1);
    weft_sleep(INFINITY);
    WEFT_SHIELD(INFINITY)
        weft_sleep(0.01);
    atomic_store(&has_ended, true);
    return -ECANCELED;
}

static weft_value call_slow(void *arg)
{
    weft_value rc = weft_cord_call(server, end_slowly, arg);
    return rc == -ECANCELED && atomic_load(&has_ended) ? -ECANCELED : 1;
}

START_TEST(a_cancelled_call_returns_after_the_fiber_there_has_ended)
{
    start_server();
    weft_fiber caller = weft_spin(call_slow, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 1);
    weft_cancel(caller);
    ck_assert_int_eq(weft_await(caller), -ECANCELED);
    ck_assert(atomic_load(&has_ended));
    end_server();
}
END_TEST

static weft_value ignore_cancel(void *arg)
{
    weft_tell(arg_id(arg), 1);
    weft_sleep(INFINITY);
    return 6;
}

static weft_value call_ignoring(void *arg)
{
    weft_value rc = weft_cord_call(server, ignore_cancel, arg);
    ck_assert_int_eq(weft_sleep(INFINITY), -ECANCELED);
    return rc;
}

START_TEST(a_deadline_cancels_the_fiber_there_and_strikes_here_if_that_had_no_result)
{
    start_server();
    int rc;
    WEFT_CANCEL_AFTER(0.001, rc)
        ck_assert_int_eq(weft_cord_call(server, sleep_forever, NULL), -ECANCELED);
    ck_assert_int_eq(rc, -ETIMEDOUT);
    weft_fiber caller = weft_spin(call_ignoring, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 1);
    weft_raise(caller, -EPROTO, "no matter"); /* its fiber there is cancelled, returns 6 though */
    weft_cancel(caller);
    ck_assert_int_eq(weft_await(caller), -ECANCELED);
    end_server();
}
END_TEST

/* While the answer is on its way, everyone waits for someone; that is no deadlock. */
START_TEST(a_cord_goes_on_serving_however_often_calls_are_cut_short)
{
    start_server();
    for (int i = 0; i < 50; i++) {
        int rc;
        WEFT_CANCEL_AFTER(0.0005, rc)
            ck_assert_int_eq(weft_cord_call(server, sleep_forever, NULL), -ECANCELED);
        ck_assert_int_eq(rc, -ETIMEDOUT);
    }
    settle();
    end_server();
}
END_TEST

START_TEST(a_call_is_not_broken_by_a_stray_schedule)
{
    start_server();
    weft_fiber caller = weft_spin(make_call, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 1);
    ck_assert_int_eq(weft_schedule(caller, 3), -EBUSY);
    weft_cancel(caller);
    weft_await(caller);
    end_server();
}
END_TEST

/* Calls that may be left. */

static sem_t go_on;
static atomic_int drops;

static void drop(void *arg)
{
    free(arg);
    atomic_fetch_add(&drops, 1);
    weft_tell(weft_main(), 99);
}

static weft_value block_thread(void *arg)
{
    (void)arg;
    sem_wait(&go_on);
    return *(int *)arg;
}

START_TEST(a_call_with_a_drop_is_left_at_once_and_its_argument_dropped_when_the_answer_comes)
{
    start_server();
    sem_init(&go_on, 0, 0);
    int *arg = malloc(sizeof *arg);
    int rc;
    WEFT_CANCEL_AFTER(0.001, rc)
        ck_assert_int_eq(
            weft_cord_call_with(server, block_thread, arg, &(weft_call_options){.drop = drop}),
            -ECANCELED);
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_int_eq(drops, 0); /* that thread is blocked: it cannot have answered */
    sem_post(&go_on);
    ck_assert_int_eq(weft_receive(), 99);
    ck_assert_int_eq(drops, 1);
    end_server();
}
END_TEST

START_TEST(a_call_that_is_not_left_does_not_drop)
{
    start_server();
    sem_init(&go_on, 0, 1);
    int *arg = malloc(sizeof *arg);
    *arg = 12;
    ck_assert_int_eq(
        weft_cord_call_with(server, block_thread, arg, &(weft_call_options){.drop = drop}), 12);
    ck_assert_int_eq(drops, 0);
    free(arg);
    end_server();
}
END_TEST

static weft_value sum_of_copy(void *arg)
{
    const int *numbers = arg;
    return numbers[0] + numbers[1];
}

START_TEST(a_call_may_take_a_copy_of_its_argument)
{
    start_server();
    int numbers[2] = {3, 4};
    weft_call_options copy = {.arg_bytes = sizeof numbers, .name = "sum"};
    ck_assert_int_eq(weft_cord_call_with(server, sum_of_copy, numbers, &copy), 7);
    end_server();
}
END_TEST

static weft_value leave_a_call(void *arg)
{
    WEFT_MOVE_ON_AFTER(0)
        weft_cord_call_with(server, return_arg, arg, &(weft_call_options){.drop = free});
    weft_fiber caller = weft_spin(make_call, id_arg(weft_self()));
    weft_receive();
    weft_cancel(caller);
    return 0; /* and its cord ends, with an answer on its way */
}

START_TEST(a_cord_may_end_with_answers_on_their_way_to_it)
{
    start_server();
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(weft_cord_join(start_cord(leave_a_call, NULL)), 0);
    end_server();
}
END_TEST

static weft_cord home;

static weft_value call_each_other(void *arg)
{
    weft_value depth = (weft_value)arg;
    if (depth == 0)
        return 0;
    weft_cord there = weft_cord_self() == server ? home : server;
    return 1 + weft_cord_call(there, call_each_other, as_arg(depth - 1));
}

START_TEST(calls_nest_from_cord_to_cord)
{
    start_server();
    home = weft_cord_self();
    ck_assert_int_eq(weft_cord_call(server, call_each_other, as_arg(20)), 20);
    end_server();
}
END_TEST

START_TEST(what_cannot_be_called_is_refused)
{
    ck_assert_int_eq(weft_cord_call(0, return_arg, NULL), -ESRCH);
    ck_assert_int_eq(weft_cord_call(weft_cord_self(), NULL, NULL), -EINVAL);
    WEFT_MOVE_ON_AFTER(0) {
        weft_sleep(1);
        ck_assert_int_eq(weft_cord_call(weft_cord_self(), return_arg, NULL), -ECANCELED);
    }
}
END_TEST

static const TTest *const *const tests[] = {
    &a_fiber_made_in_a_cord_has_the_id_that_spin_returned_and_main_as_its_parent,
    &it_can_be_told_something_before_it_has_arrived,
    &once_it_has_ended_it_cannot_be_told_or_scheduled,
    &spinning_does_not_switch,
    &options_travel_along_and_so_does_a_copy_of_the_argument,
    &a_parent_there_can_be_named,
    &what_cannot_be_spun_is_refused_with_words,
    &a_burst_of_fibers_all_arrive_each_with_its_own_id,
    &a_cord_may_spin_into_itself,
    &a_plain_thread_may_spin_and_tell,
    &a_call_returns_the_value,
    &a_call_returns_the_error_with_its_words_and_the_cord_goes_on,
    &the_error_of_a_child_of_the_called_fiber_comes_too,
    &a_cord_that_ends_answers_its_calls,
    &calls_to_a_cord_that_is_ending_are_all_answered,
    &a_cancelled_call_returns_after_the_fiber_there_has_ended,
    &a_deadline_cancels_the_fiber_there_and_strikes_here_if_that_had_no_result,
    &a_cord_goes_on_serving_however_often_calls_are_cut_short,
    &a_call_is_not_broken_by_a_stray_schedule,
    &a_call_with_a_drop_is_left_at_once_and_its_argument_dropped_when_the_answer_comes,
    &a_call_that_is_not_left_does_not_drop,
    &a_call_may_take_a_copy_of_its_argument,
    &a_cord_may_end_with_answers_on_their_way_to_it,
    &calls_nest_from_cord_to_cord,
    &what_cannot_be_called_is_refused,
};

int main(void)
{
    return run_suite("cord_call", tests, COUNT_OF(tests));
}

/* Cords: started, joined and cancelled, in whatever order, and ended with the process. */
#include "cord_support.h"

#include <sched.h>

START_TEST(a_cord_runs_a_function_and_join_returns_its_value)
{
    weft_cord cord = start_cord(return_arg, as_arg(42));
    ck_assert_int_eq(weft_cord_join(cord), 42);
    ck_assert_int_eq(weft_cord_join(cord), -ESRCH);
}
END_TEST

START_TEST(an_error_comes_with_its_words_joined_before_the_end)
{
    weft_cord cord = start_waiting();
    weft_fiber failing = weft_cord_spin(cord, fail_with, as_arg(-EIO));
    ck_assert_uint_ne(failing, 0);
    ck_assert_int_eq(weft_cord_join(cord), -EIO); /* its main fiber is told, and returns that */
    ck_assert_words(-EIO, "broken");
    ck_assert_uint_eq(weft_error()->fiber, failing);
}
END_TEST

START_TEST(an_error_comes_with_its_words_joined_after_the_end)
{
    weft_cord cord = start_cord(fail_with, as_arg(-EIO));
    await_end(cord);
    ck_assert_int_eq(weft_cord_join(cord), -EIO);
    ck_assert_words(-EIO, "broken");
}
END_TEST

static weft_value fail_twice(void *arg)
{
    weft_fail(-ENOENT, "no such table");
    return weft_fail(-EIO, "%s cannot be read", (const char *)arg);
}

START_TEST(the_causes_of_an_error_come_along)
{
    ck_assert_int_eq(weft_cord_join(start_cord(fail_twice, "x")), -EIO);
    ck_assert_words(-EIO, "x cannot be read");
    ck_assert_ptr_nonnull(weft_error()->cause);
    ck_assert_str_eq(weft_error()->cause->message, "no such table");
}
END_TEST

static weft_value join_it(void *arg)
{
    return weft_cord_join(arg_id(arg));
}

START_TEST(everyone_who_joins_gets_the_same)
{
    weft_cord cord = start_waiting();
    weft_fiber joiners[3];
    for (int i = 0; i < 3; i++)
        joiners[i] = weft_spin(join_it, id_arg(cord));
    weft_cord abroad = start_cord(join_it, id_arg(cord));
    let_run();
    weft_cord_spin(cord, fail_with, as_arg(-EIO));
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(weft_await(joiners[i]), -EIO);
        ck_assert_words(-EIO, "broken");
    }
    /* It may have come too late: then the cord was joined, and is gone. */
    weft_value rc = weft_cord_join(abroad);
    ck_assert(rc == -EIO || rc == -ESRCH);
}
END_TEST

static void *call_weft(void *arg)
{
    atomic_store((_Atomic(weft_cord) *)arg, weft_cord_self());
    while (atomic_load((_Atomic(weft_cord) *)arg) != 0)
        sched_yield();
    return NULL;
}

START_TEST(only_a_cord_that_was_started_can_be_joined_or_cancelled)
{
    ck_assert_int_eq(weft_cord_join(0), -ESRCH);
    ck_assert_int_eq(weft_cord_cancel(0), -ESRCH);
    ck_assert_int_eq(weft_cord_join(weft_cord_self()), -EDEADLK);
    ck_assert_int_eq(weft_cord_cancel(weft_cord_self()), -EINVAL);
    ck_assert_int_eq(weft_cord_join(weft_spin(suspend, NULL)), -ESRCH);
    _Atomic(weft_cord) other = 0;
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, call_weft, &other), 0);
    while (atomic_load(&other) == 0)
        sched_yield();
    ck_assert_int_eq(weft_cord_join(other), -EINVAL);
    ck_assert_int_eq(weft_cord_cancel(other), -EINVAL);
    ck_assert_any_words(-EINVAL);
    atomic_store(&other, 0);
    pthread_join(thread, NULL);
}
END_TEST

static weft_value join_own(void *arg)
{
    (void)arg;
    return weft_cord_join(weft_main());
}

START_TEST(a_fiber_cannot_join_its_own_cord)
{
    ck_assert_int_eq(weft_cord_join(start_cord(join_own, NULL)), -EDEADLK);
}
END_TEST

/* What the fibers of a cord have left behind, in order. */
static atomic_int cleanups;
static int order[3];

static void note_end(void *arg)
{
    order[atomic_fetch_add(&cleanups, 1)] = (int)(intptr_t)arg;
}

static weft_value wait_with_cleanup(void *arg)
{
    weft_defer(note_end, arg);
    return weft_sleep(INFINITY);
}

static weft_value parent_of_two(void *arg)
{
    weft_defer(note_end, as_arg(0));
    weft_spin(wait_with_cleanup, as_arg(1));
    weft_spin(wait_with_cleanup, as_arg(2));
    weft_snooze();
    weft_tell(arg_id(arg), 1);
    return weft_sleep(INFINITY);
}

START_TEST(a_cancelled_cord_runs_the_clean_up_of_its_fibers)
{
    weft_cord cord = start_cord(parent_of_two, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 1);
    ck_assert_int_eq(weft_cord_cancel(cord), 0);
    ck_assert_int_eq(weft_cord_cancel(cord), 0);
    ck_assert_int_eq(weft_cord_join(cord), -ECANCELED);
    ck_assert_int_eq(cleanups, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(order[i], i);
    ck_assert_int_eq(weft_cord_cancel(cord), -ESRCH);
}
END_TEST

START_TEST(a_cord_cancelled_at_once_ends_so_whether_it_has_begun_or_not)
{
    for (int i = 0; i < 50; i++) {
        weft_cord cord = start_cord(sleep_forever, NULL);
        ck_assert_int_eq(weft_cord_cancel(cord), 0);
        ck_assert_int_eq(weft_cord_join(cord), -ECANCELED);
    }
}
END_TEST

static weft_value count_until_cancelled(void *arg)
{
    weft_tell(arg_id(arg), 1);
    weft_value n = 0;
    while (!weft_is_cancelled())
        n++;
    return n;
}

START_TEST(a_cord_that_only_computes_can_see_that_it_is_cancelled)
{
    weft_cord cord = start_cord(count_until_cancelled, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 1);
    weft_cord_cancel(cord);
    ck_assert_int_eq(weft_cord_join(cord), -ECANCELED); /* whatever it returned */
}
END_TEST

START_TEST(a_deadline_ends_the_join_and_not_the_cord)
{
    weft_cord cord = start_waiting();
    int rc;
    WEFT_CANCEL_AFTER(0.01, rc)
        ck_assert_int_eq(weft_cord_join(cord), -ECANCELED);
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_int_eq(weft_tell(cord, 1), 0);
    weft_cord_cancel(cord);
    ck_assert_int_eq(weft_cord_join(cord), -ECANCELED);
}
END_TEST

START_TEST(an_interrupt_or_a_raised_error_ends_the_join_and_not_the_cord)
{
    weft_cord cord = start_waiting();
    weft_fiber joiner = weft_spin(join_it, id_arg(cord));
    let_run();
    ck_assert_int_eq(weft_interrupt(joiner, -7), 0);
    ck_assert_int_eq(weft_await(joiner), -7);
    joiner = weft_spin(join_it, id_arg(cord));
    let_run();
    weft_raise(joiner, -EPROTO, "enough");
    ck_assert_int_eq(weft_await(joiner), -EPROTO);
    ck_assert_int_eq(weft_tell(cord, 1), 0);
    weft_cord_cancel(cord);
    weft_cord_join(cord);
}
END_TEST

START_TEST(a_cancelled_joiner_cancels_the_cord_and_waits_for_its_end)
{
    weft_cord cord = start_cord(parent_of_two, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 1);
    weft_fiber joiner = weft_spin(join_it, id_arg(cord));
    let_run();
    weft_cancel(joiner);
    ck_assert_int_eq(weft_await(joiner), -ECANCELED);
    ck_assert_int_eq(cleanups, 3);
    ck_assert_int_eq(weft_cord_join(cord), -ESRCH);
}
END_TEST

static weft_value tell_grace(void *arg)
{
    weft_tell(arg_id(arg), 1);
    weft_sleep(INFINITY);
    return weft_tell(arg_id(arg), weft_grace() > 50 && weft_grace() <= 100);
}

START_TEST(a_joiner_that_is_ended_with_a_grace_time_passes_that_on)
{
    weft_cord cord = start_cord(tell_grace, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 1);
    weft_fiber joiner = weft_spin(join_it, id_arg(cord));
    let_run();
    ck_assert_int_eq(weft_terminate(joiner, 100), 0);
    ck_assert_int_eq(weft_receive(), 1);
}
END_TEST

static weft_value join_when_cancelled(void *arg)
{
    weft_sleep(INFINITY);
    return weft_cord_join(arg_id(arg));
}

START_TEST(a_join_in_a_fiber_that_is_cancelled_already_does_the_same)
{
    weft_cord cord = start_cord(parent_of_two, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 1);
    weft_fiber joiner = weft_spin(join_when_cancelled, id_arg(cord));
    let_run();
    weft_cancel(joiner);
    ck_assert_int_eq(weft_await(joiner), -ECANCELED);
    ck_assert_int_eq(cleanups, 3);
    ck_assert_int_eq(weft_cord_join(cord), -ESRCH);
}
END_TEST

START_TEST(a_join_is_not_broken_by_a_stray_schedule)
{
    weft_cord cord = start_waiting();
    weft_fiber joiner = weft_spin(join_it, id_arg(cord));
    let_run();
    ck_assert_int_eq(weft_schedule(joiner, 9), -EBUSY);
    weft_cord_cancel(cord);
    ck_assert_int_eq(weft_await(joiner), -ECANCELED);
}
END_TEST

static weft_value join_and_be_left(void *arg)
{
    weft_spin(join_it, arg);
    weft_snooze();
    weft_tell(weft_cord_self(), 1); /* something in its inbox, and the end */
    return 0;
}

START_TEST(a_cord_that_ends_while_a_fiber_of_it_joins_another_takes_that_along)
{
    weft_cord joined = start_waiting();
    ck_assert_int_eq(weft_cord_join(start_cord(join_and_be_left, id_arg(joined))), 0);
    ck_assert_int_eq(weft_cord_join(joined), -ESRCH); /* cancelled with its joiner, and joined */
}
END_TEST

static weft_value exit_thread(void *arg)
{
    weft_spin(wait_with_cleanup, as_arg(0));
    weft_snooze();
    pthread_exit(arg);
}

START_TEST(a_cord_whose_thread_exits_by_hand_is_joined_too)
{
    ck_assert_int_eq(weft_cord_join(start_cord(exit_thread, NULL)), -ECANCELED);
    ck_assert_int_eq(cleanups, 1);
}
END_TEST

/* Options. */

static weft_value thread_name(void *arg)
{
    pthread_getname_np(pthread_self(), arg, 16);
    return strcmp(weft_name_of(weft_main()), "a worker with a long name") == 0;
}

START_TEST(a_cord_has_the_name_that_it_is_given)
{
    char name[16] = "";
    weft_cord cord = weft_cord_start(thread_name, name,
                                     &(weft_cord_options){.name = "a worker with a long name"});
    ck_assert_int_eq(weft_cord_join(cord), 1);
    ck_assert_str_eq(name, "a worker with a");
}
END_TEST

static void *name_of_thread(void *arg)
{
    pthread_setname_np(pthread_self(), "mine");
    weft_snooze();
    pthread_getname_np(pthread_self(), arg, 16);
    return NULL;
}

START_TEST(a_thread_that_becomes_a_cord_keeps_its_name)
{
    char name[16] = "";
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, name_of_thread, name), 0);
    pthread_join(thread, NULL);
    ck_assert_str_eq(name, "mine");
}
END_TEST

static weft_value cpus_of_thread(void *arg)
{
    (void)arg;
    cpu_set_t set;
    ck_assert_int_eq(sched_getaffinity(0, sizeof set, &set), 0);
    return CPU_COUNT(&set) * 1000 + sched_getcpu();
}

static int last_cpu(void)
{
    cpu_set_t set;
    ck_assert_int_eq(sched_getaffinity(0, sizeof set, &set), 0);
    int last = 0;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET((unsigned)i, &set))
            last = i;
    return last;
}

START_TEST(a_cord_stays_on_the_cpu_that_it_is_given)
{
    int cpu = last_cpu();
    weft_cord cord = weft_cord_start(cpus_of_thread, NULL, &(weft_cord_options){.cpu = cpu + 1});
    ck_assert_int_eq(weft_cord_join(cord), 1000 + cpu);
}
END_TEST

static weft_value is_backend(void *arg)
{
    return strcmp(weft_backend_name(), arg) == 0;
}

START_TEST(each_cord_may_have_a_backend_of_its_own)
{
    static const char *const names[] = {"sim", "epoll"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        weft_cord cord = weft_cord_start(is_backend, (void *)names[i],
                                         &(weft_cord_options){.backend = names[i]});
        ck_assert_int_eq(weft_cord_join(cord), 1);
    }
}
END_TEST

START_TEST(options_that_make_no_sense_are_refused)
{
    ck_assert_uint_eq(weft_cord_start(suspend, NULL, &(weft_cord_options){.cpu = -1}), 0);
    ck_assert_any_words(-EINVAL);
    ck_assert_uint_eq(weft_cord_start(suspend, NULL, &(weft_cord_options){.cpu = 100000}), 0);
    ck_assert_any_words(-EINVAL);
    ck_assert_uint_eq(weft_cord_start(suspend, NULL, &(weft_cord_options){.cpu = 1024}), 0);
    ck_assert_any_words(-EINVAL);
    ck_assert_uint_eq(weft_cord_start(suspend, NULL, &(weft_cord_options){.backend = "x"}), 0);
    ck_assert_any_words(-EINVAL);
}
END_TEST

/* With the process. */

static weft_value say_good_bye(void *arg)
{
    (void)arg;
    int rc = weft_sleep(INFINITY);
    dprintf(STDERR_FILENO, "good-bye: %d\n", rc);
    return rc;
}

static int leave_a_cord(void)
{
    weft_cord_start(say_good_bye, NULL, NULL);
    return 0;
}

START_TEST(cords_that_run_when_main_returns_are_cancelled_and_waited_for)
{
    const outcome *out = run_apart(leave_a_cord);
    ck_assert_int_eq(out->status, 0);
    /* It may not have begun: then it never does. */
    ck_assert(out->text[0] == '\0' || strcmp(out->text, "good-bye: -125\n") == 0);
}
END_TEST

static int leave_a_failed_cord(void)
{
    await_end(weft_cord_start(fail_with, as_arg(-EIO), NULL));
    return 0;
}

START_TEST(an_error_of_a_cord_that_nobody_joined_is_no_success)
{
    const outcome *out = run_apart(leave_a_failed_cord);
    ck_assert_int_eq(out->status, 1);
    ck_assert_ptr_nonnull(strstr(out->text, "broken"));
}
END_TEST

static weft_value end_process(void *arg)
{
    (void)arg;
    exit(7);
}

static int be_ended_by_a_cord(void)
{
    weft_cord_start(sleep_forever, NULL, NULL);
    weft_cord_start(end_process, NULL, NULL);
    weft_sleep(INFINITY);
    return 0;
}

START_TEST(a_cord_may_end_the_process)
{
    ck_assert_int_eq(run_apart(be_ended_by_a_cord)->status, 7);
}
END_TEST

/* When nothing can ever happen any more. */
#if KNOWS_THREADS

static weft_value wait_for_word(void *arg)
{
    (void)arg;
    return weft_receive();
}

static int wait_for_each_other(void)
{
    weft_cord cord = weft_cord_start(wait_for_word, NULL, NULL);
    return weft_cord_join(cord) == -EDEADLK ? 3 : 4;
}

START_TEST(cords_that_only_wait_for_each_other_are_told_so)
{
    const outcome *out = run_apart(wait_for_each_other);
    ck_assert_int_eq(out->status, 3);
    ck_assert_ptr_nonnull(strstr(out->text, "deadlock"));
}
END_TEST

static int wait_in_a_ring(void)
{
    weft_cord cords[3];
    for (int i = 0; i < 3; i++)
        cords[i] = weft_cord_start(wait_for_word, NULL, NULL);
    int told = 0;
    for (int i = 0; i < 3; i++)
        told += weft_cord_join(cords[i]) == -EDEADLK;
    return told;
}

START_TEST(a_deadlock_of_several_cords_is_told_to_one_after_the_other)
{
    ck_assert_int_ge(run_apart(wait_in_a_ring)->status, 1);
}
END_TEST

START_TEST(a_cord_without_a_function_ends_when_nobody_is_left_who_could_send_it_anything)
{
    ck_assert_int_eq(weft_cord_join(start_cord(NULL, NULL)), 0);
}
END_TEST
#endif

static weft_value tick_and_tell(void *arg)
{
    for (int i = 0; i < 3; i++)
        weft_sleep(0.001);
    return weft_tell(arg_id(arg), 5);
}

START_TEST(a_cord_that_waits_for_time_can_still_help)
{
    weft_cord cord = start_cord(tick_and_tell, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 5);
    ck_assert_int_eq(weft_cord_join(cord), 0);
}
END_TEST

START_TEST(a_cord_without_a_function_serves_until_it_is_told_to_stop)
{
    weft_cord cord = start_cord(NULL, NULL);
    ck_assert_int_eq(weft_cord_call(cord, return_arg, as_arg(3)), 3);
    ck_assert_int_eq(weft_schedule(cord, 8), 0);
    ck_assert_int_eq(weft_cord_join(cord), 8);
}
END_TEST

static const TTest *const *const tests[] = {
    &a_cord_runs_a_function_and_join_returns_its_value,
    &an_error_comes_with_its_words_joined_before_the_end,
    &an_error_comes_with_its_words_joined_after_the_end,
    &the_causes_of_an_error_come_along,
    &everyone_who_joins_gets_the_same,
    &only_a_cord_that_was_started_can_be_joined_or_cancelled,
    &a_fiber_cannot_join_its_own_cord,
    &a_cancelled_cord_runs_the_clean_up_of_its_fibers,
    &a_cord_cancelled_at_once_ends_so_whether_it_has_begun_or_not,
    &a_cord_that_only_computes_can_see_that_it_is_cancelled,
    &a_deadline_ends_the_join_and_not_the_cord,
    &an_interrupt_or_a_raised_error_ends_the_join_and_not_the_cord,
    &a_cancelled_joiner_cancels_the_cord_and_waits_for_its_end,
    &a_joiner_that_is_ended_with_a_grace_time_passes_that_on,
    &a_join_in_a_fiber_that_is_cancelled_already_does_the_same,
    &a_join_is_not_broken_by_a_stray_schedule,
    &a_cord_that_ends_while_a_fiber_of_it_joins_another_takes_that_along,
    &a_cord_whose_thread_exits_by_hand_is_joined_too,
    &a_cord_has_the_name_that_it_is_given,
    &a_thread_that_becomes_a_cord_keeps_its_name,
    &a_cord_stays_on_the_cpu_that_it_is_given,
    &each_cord_may_have_a_backend_of_its_own,
    &options_that_make_no_sense_are_refused,
    &cords_that_run_when_main_returns_are_cancelled_and_waited_for,
    &an_error_of_a_cord_that_nobody_joined_is_no_success,
    &a_cord_may_end_the_process,
    &a_cord_that_waits_for_time_can_still_help,
    &a_cord_without_a_function_serves_until_it_is_told_to_stop,
#if KNOWS_THREADS
    &a_cord_without_a_function_ends_when_nobody_is_left_who_could_send_it_anything,
    &cords_that_only_wait_for_each_other_are_told_so,
    &a_deadlock_of_several_cords_is_told_to_one_after_the_other,
#endif
};

int main(void)
{
    return run_suite("cord", tests, COUNT_OF(tests));
}

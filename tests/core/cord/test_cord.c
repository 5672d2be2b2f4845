/* Cords: start, join and cancel in any order, and cords at process exit. */
#include "support/cord_support.h"
#include "support/suite.h"

#include <sched.h>

static weft_value fail_twice(void *arg)
{
    weft_fail(-ENOENT, "no such table");
    return weft_fail(-EIO, "%s cannot be read", (const char *)arg);
}

TEST(a_join_returns_the_value_or_the_error_with_its_message_and_its_cause)
{
    weft_cord cord = start_cord(return_arg, as_arg(42));
    ck_assert_int_eq(weft_cord_join(cord), 42);
    ck_assert_int_eq(weft_cord_join(cord), -ESRCH);
    cord = start_cord(fail_twice, "x");
    await_cord_end(cord);
    ck_assert_int_eq(weft_cord_join(cord), -EIO);
    ck_assert_error(-EIO, "x cannot be read");
    ck_assert_ptr_nonnull(weft_error()->cause);
    ck_assert_str_eq(weft_error()->cause->message, "no such table");
}

FIBER(join_arg_cord, weft_cord_join(arg_id(arg)))

TEST(all_joiners_get_the_same_result)
{
    weft_cord cord = start_waiting_cord();
    weft_fiber joiners[3];
    for (int i = 0; i < 3; i++)
        joiners[i] = weft_spin(join_arg_cord, id_arg(cord));
    weft_cord other_cord = start_cord(join_arg_cord, id_arg(cord));
    let_run();
    weft_fiber failing = weft_cord_spin(cord, fail_with, as_arg(-EIO));
    for (int i = 0; i < 3; i++) { /* the error fails the main fiber of the cord */
        ck_assert_int_eq(weft_await(joiners[i]), -EIO);
        ck_assert_error(-EIO, "broken");
        ck_assert_uint_eq(weft_error()->fiber, failing);
    }
    /* The second cord may join too late. The first cord has then been joined already. */
    weft_value rc = weft_cord_join(other_cord);
    ck_assert(rc == -EIO || rc == -ESRCH);
}

static void *call_weft(void *arg)
{
    atomic_store((_Atomic(weft_cord) *)arg, weft_cord_self());
    while (atomic_load((_Atomic(weft_cord) *)arg) != 0)
        sched_yield();
    return NULL;
}

FIBER(join_own, weft_cord_join(weft_main()))

TEST(only_another_cord_that_was_started_can_be_joined_or_cancelled)
{
    ck_assert_int_eq(weft_cord_join(0), -ESRCH);
    ck_assert_int_eq(weft_cord_cancel(0), -ESRCH);
    ck_assert_int_eq(weft_cord_join(weft_cord_self()), -EDEADLK);
    ck_assert_int_eq(weft_cord_cancel(weft_cord_self()), -EINVAL);
    ck_assert_int_eq(weft_cord_join(weft_spin(suspend, NULL)), -ESRCH);
    ck_assert_int_eq(weft_cord_join(start_cord(join_own, NULL)), -EDEADLK);
    _Atomic(weft_cord) other = 0;
    pthread_t thread = start_thread(call_weft, &other);
    while (atomic_load(&other) == 0)
        sched_yield();
    ck_assert_int_eq(weft_cord_join(other), -EINVAL);
    ck_assert_int_eq(weft_cord_cancel(other), -EINVAL);
    ck_assert_any_error(-EINVAL);
    atomic_store(&other, 0);
    join_thread(thread);
}

/* The order in which the fibers of a cord have ended. */
static atomic_int cleanups;
static int order[3];

CALLBACK(record_end, order[atomic_fetch_add(&cleanups, 1)] = (int)(intptr_t)arg)
FIBER_DO(wait_with_cleanup, weft_defer(record_end, arg), weft_sleep(INFINITY))

static weft_value run_with_two_children(void *arg)
{
    weft_defer(record_end, as_arg(0));
    weft_spin(wait_with_cleanup, as_arg(1));
    weft_spin(wait_with_cleanup, as_arg(2));
    weft_snooze();
    weft_tell(arg_id(arg), 1);
    return weft_sleep(INFINITY);
}

TEST(a_cancelled_cord_runs_the_cleanup_of_its_fibers)
{
    weft_cord cord = start_cord(run_with_two_children, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 1);
    ck_assert_int_eq(weft_cord_cancel(cord), 0);
    ck_assert_int_eq(weft_cord_cancel(cord), 0);
    ck_assert_int_eq(weft_cord_join(cord), -ECANCELED);
    ck_assert_int_eq(cleanups, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(order[i], i);
    ck_assert_int_eq(weft_cord_cancel(cord), -ESRCH);
}

TEST(a_cord_cancelled_at_once_ends_whether_it_has_started_or_not)
{
    for (int i = 0; i < 50; i++) {
        weft_cord cord = start_cord(sleep_forever, NULL);
        ck_assert_int_eq(weft_cord_cancel(cord), 0);
        ck_assert_int_eq(weft_cord_join(cord), -ECANCELED);
    }
}

static weft_value count_until_cancelled(void *arg)
{
    weft_tell(arg_id(arg), 1);
    weft_value n = 0;
    while (!weft_is_cancelled())
        n++;
    return n;
}

TEST(a_cord_that_only_computes_can_see_that_it_is_cancelled)
{
    weft_cord cord = start_cord(count_until_cancelled, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 1);
    weft_cord_cancel(cord);
    ck_assert_int_eq(weft_cord_join(cord), -ECANCELED); /* whatever it returned */
}

TEST(a_deadline_an_interrupt_or_a_raised_error_ends_the_join_and_not_the_cord)
{
    weft_cord cord = start_waiting_cord();
    ck_assert_times_out(0.01, ck_assert_int_eq(weft_cord_join(cord), -ECANCELED));
    weft_fiber joiner = spin_waiting(join_arg_cord, id_arg(cord));
    ck_assert_int_eq(weft_schedule(joiner, 9), -EBUSY); /* a stray schedule does not */
    ck_assert_int_eq(weft_interrupt(joiner, -7), 0);
    ck_assert_int_eq(weft_await(joiner), -7);
    joiner = spin_waiting(join_arg_cord, id_arg(cord));
    weft_raise(joiner, -EPROTO, "enough");
    ck_assert_int_eq(weft_await(joiner), -EPROTO);
    ck_assert_int_eq(weft_tell(cord, 1), 0);
    weft_cord_cancel(cord);
    ck_assert_int_eq(weft_cord_join(cord), -ECANCELED);
}

FIBER_DO(join_when_cancelled, weft_sleep(INFINITY), weft_cord_join(arg_id(arg)))

TEST(a_joiner_cancelled_before_or_during_the_join_cancels_the_cord_and_waits_for_its_end)
{
    for (int i = 0; i < 2; i++) {
        cleanups = 0;
        weft_cord cord = start_cord(run_with_two_children, id_arg(weft_self()));
        ck_assert_int_eq(weft_receive(), 1);
        weft_fiber joiner =
            spin_waiting(i == 0 ? join_arg_cord : join_when_cancelled, id_arg(cord));
        ck_assert_int_eq(cancel_and_await(joiner), -ECANCELED);
        ck_assert_int_eq(cleanups, 3);
        ck_assert_int_eq(weft_cord_join(cord), -ESRCH);
    }
}

static weft_value tell_if_grace(void *arg)
{
    weft_tell(arg_id(arg), 1);
    weft_sleep(INFINITY);
    return weft_tell(arg_id(arg), weft_grace() > 50 && weft_grace() <= 100);
}

TEST(a_joiner_terminated_with_a_grace_time_passes_it_to_the_cord)
{
    weft_cord cord = start_cord(tell_if_grace, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 1);
    weft_fiber joiner = spin_waiting(join_arg_cord, id_arg(cord));
    ck_assert_int_eq(weft_terminate(joiner, 100), 0);
    ck_assert_int_eq(weft_receive(), 1);
}

static weft_value end_with_joining_child(void *arg)
{
    weft_spin(join_arg_cord, arg);
    weft_snooze();
    weft_tell(weft_cord_self(), 1); /* leaves a message in its inbox at the end */
    return 0;
}

TEST(a_cord_that_ends_while_its_fiber_joins_another_cord_cancels_that_cord)
{
    weft_cord joined = start_waiting_cord();
    ck_assert_int_eq(weft_cord_join(start_cord(end_with_joining_child, id_arg(joined))), 0);
    ck_assert_int_eq(weft_cord_join(joined), -ESRCH); /* cancelled with its joiner, and joined */
}

static weft_value exit_thread(void *arg)
{
    weft_spin(wait_with_cleanup, as_arg(0));
    weft_snooze();
    pthread_exit(arg);
}

TEST(a_cord_that_calls_pthread_exit_can_be_joined)
{
    ck_assert_int_eq(weft_cord_join(start_cord(exit_thread, NULL)), -ECANCELED);
    ck_assert_int_eq(cleanups, 1);
}

static weft_value thread_name(void *arg)
{
    pthread_getname_np(pthread_self(), arg, 16);
    return strcmp(weft_name_of(weft_main()), "a worker with a long name") == 0;
}

static void *become_cord_with_name(void *arg)
{
    pthread_setname_np(pthread_self(), "mine");
    weft_snooze();
    pthread_getname_np(pthread_self(), arg, 16);
    return NULL;
}

TEST(a_cord_has_the_given_name_and_a_thread_that_becomes_a_cord_keeps_its_name)
{
    char name[16] = "";
    weft_cord cord = weft_cord_start(thread_name, name,
                                     &(weft_cord_options){.name = "a worker with a long name"});
    ck_assert_int_eq(weft_cord_join(cord), 1);
    ck_assert_str_eq(name, "a worker with a");
    join_thread(start_thread(become_cord_with_name, name));
    ck_assert_str_eq(name, "mine");
}

static weft_value encode_cpus(void *arg)
{
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

TEST(a_cord_stays_on_the_given_cpu)
{
    int cpu = last_cpu();
    weft_cord cord = weft_cord_start(encode_cpus, NULL, &(weft_cord_options){.cpu = cpu + 1});
    ck_assert_int_eq(weft_cord_join(cord), 1000 + cpu);
}

FIBER(is_backend, strcmp(weft_backend_name(), arg) == 0)

TEST(each_cord_may_have_its_own_backend)
{
    static const char *const names[] = {"sim", "epoll"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        weft_cord cord = weft_cord_start(is_backend, (void *)names[i],
                                         &(weft_cord_options){.backend = names[i]});
        ck_assert_int_eq(weft_cord_join(cord), 1);
    }
}

TEST(invalid_options_are_refused)
{
    static const weft_cord_options bad[] = {
        {.cpu = -1}, {.cpu = 100000}, {.cpu = 1024}, {.backend = "x"}};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        weft_error_clear();
        ck_assert_uint_eq(weft_cord_start(suspend, NULL, &bad[i]), 0);
        ck_assert_any_error(-EINVAL);
    }
}

static weft_value print_when_cancelled(void *arg)
{
    int rc = weft_sleep(INFINITY);
    dprintf(STDERR_FILENO, "cancelled: %d\n", rc);
    return rc;
}

static int return_with_running_cord(void)
{
    weft_cord_start(print_when_cancelled, NULL, NULL);
    return 0;
}

TEST(running_cords_are_cancelled_and_joined_when_main_returns)
{
    const outcome *out = run_apart(return_with_running_cord);
    ck_assert_int_eq(out->status, 0);
    /* The cord may be cancelled before it starts. Its function does not run then. */
    ck_assert(out->text[0] == '\0' || strcmp(out->text, "cancelled: -125\n") == 0);
}

TEST_PROGRAM_PRINTS(an_error_of_an_unjoined_cord_makes_the_exit_status_1, 1, "broken")
{
    await_cord_end(weft_cord_start(fail_with, as_arg(-EIO), NULL));
    return 0;
}

static weft_value exit_with_7(void *arg)
{
    exit(7);
}

TEST_PROGRAM(a_cord_may_end_the_process, 7, "")
{
    weft_cord_start(sleep_forever, NULL, NULL);
    weft_cord_start(exit_with_7, NULL, NULL);
    weft_sleep(INFINITY);
    return 0;
}

/* Deadlocks. */
#if HAS_ONLY_OWN_THREADS

TEST_PROGRAM_PRINTS(cords_that_wait_only_for_each_other_get_edeadlk_one_after_the_other, 0,
                    "deadlock")
{
    weft_cord cords[3];
    for (int i = 0; i < 3; i++)
        cords[i] = weft_cord_start(receive_one, NULL, NULL);
    int deadlocks = 0;
    for (int i = 0; i < 3; i++)
        deadlocks += weft_cord_join(cords[i]) == -EDEADLK;
    return deadlocks >= 1 ? 0 : 1;
}

TEST(a_cord_without_a_function_ends_when_no_thread_can_send_to_it)
{
    ck_assert_int_eq(weft_cord_join(start_cord(NULL, NULL)), 0);
}
#endif

static weft_value sleep_and_tell(void *arg)
{
    for (int i = 0; i < 3; i++)
        weft_sleep(0.001);
    return weft_tell(arg_id(arg), 5);
}

TEST(a_cord_that_waits_for_a_timer_is_not_part_of_a_deadlock)
{
    weft_cord cord = start_cord(sleep_and_tell, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 5);
    ck_assert_int_eq(weft_cord_join(cord), 0);
}

TEST(a_cord_without_a_function_runs_until_it_is_scheduled)
{
    weft_cord cord = start_cord(NULL, NULL);
    ck_assert_int_eq(weft_cord_call(cord, return_arg, as_arg(3)), 3);
    ck_assert_int_eq(weft_schedule(cord, 8), 0);
    ck_assert_int_eq(weft_cord_join(cord), 8);
}

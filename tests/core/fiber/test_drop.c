/* What becomes of the argument of a fiber that ends before it has run. */
#include "support.h"

#include <semaphore.h>
#include <stdatomic.h>

static atomic_int dropped, ran;
static char dropped_text[16];

static void start_counting(void)
{
    atomic_store(&dropped, 0);
    atomic_store(&ran, 0);
}

static void drop(void *arg)
{
    ck_assert_str_eq(arg, "owned");
    atomic_fetch_add(&dropped, 1);
}

static weft_value work(void *arg)
{
    ck_assert_str_eq(arg, "owned");
    atomic_fetch_add(&ran, 1);
    return 7;
}

#define OWNED ((void *)"owned")

static const weft_spin_options owning = {.drop = drop};

#define ck_assert_counts(expected_ran, expected_dropped)             \
    do {                                                             \
        ck_assert_int_eq(atomic_load(&ran), (expected_ran));         \
        ck_assert_int_eq(atomic_load(&dropped), (expected_dropped)); \
    } while (0)

START_TEST(a_fiber_that_is_cancelled_before_it_runs_drops_its_argument_once)
{
    start_counting();
    weft_fiber f = weft_spin_with(work, OWNED, &owning);
    ck_assert_int_eq(weft_cancel(f), 0);
    ck_assert_int_eq(weft_cancel(f), 0);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_counts(0, 1);
}
END_TEST

START_TEST(a_stopped_one_drops_its_argument_and_has_the_value_that_it_was_given)
{
    start_counting();
    weft_fiber f = weft_spin_with(work, OWNED, &owning);
    ck_assert_int_eq(weft_stop(f, 42), 0);
    ck_assert_int_eq(weft_await(f), 42);
    f = weft_spin_with(work, OWNED, &owning);
    ck_assert_int_eq(weft_terminate(f, 0), 0);
    ck_assert_counts(0, 2);
}
END_TEST

START_TEST(a_fiber_that_runs_keeps_its_argument)
{
    start_counting();
    weft_fiber f = weft_spin_with(work, OWNED, &owning);
    ck_assert_int_eq(weft_await(f), 7);
    ck_assert_int_eq(weft_go_with(work, OWNED, &owning), 0);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_counts(2, 0);
}
END_TEST

/* Runs until it is cancelled. */
static weft_value work_long(void *arg)
{
    work(arg);
    return weft_sleep(INFINITY);
}

START_TEST(a_fiber_that_is_cancelled_while_it_runs_drops_nothing)
{
    start_counting();
    weft_fiber f = weft_spin_with(work_long, OWNED, &owning);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_terminate(f, 0), 0);
    ck_assert_counts(1, 0);
}
END_TEST

static weft_value spin_and_end(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++)
        ck_assert_uint_ne(weft_spin_with(work, OWNED, &owning), 0);
    return weft_go_with(work, OWNED, &owning);
}

START_TEST(children_that_end_with_their_parent_before_they_run_drop_their_arguments)
{
    start_counting();
    ck_assert_int_eq(weft_await(weft_spin(spin_and_end, NULL)), 0);
    ck_assert_counts(0, 4);
}
END_TEST

static void spin_while_ending(void *arg)
{
    (void)arg;
    ck_assert_uint_ne(weft_spin_with(work, OWNED, &owning), 0);
}

static weft_value spin_in_cleanup(void *arg)
{
    /* A destructor runs when children are ended already. */
    weft_key key = *(weft_key *)arg;
    return weft_local_set(key, arg);
}

START_TEST(children_of_a_parent_that_is_ending_drop_their_arguments)
{
    start_counting();
    weft_key key = weft_key_new(spin_while_ending);
    ck_assert_int_eq(weft_await(weft_spin(spin_in_cleanup, &key)), 0);
    ck_assert_counts(0, 1);
}
END_TEST

START_TEST(members_of_a_cancelled_group_drop_their_arguments)
{
    start_counting();
    weft_group group;
    ck_assert_int_eq(weft_group_open(&group), 0);
    ck_assert_uint_ne(weft_group_spin_with(&group, work, OWNED, &owning), 0);
    ck_assert_int_eq(weft_group_cancel(&group), 0);
    ck_assert_uint_ne(weft_group_spin_with(&group, work, OWNED, &owning), 0);
    ck_assert_int_eq(weft_group_close(&group), 0);
    ck_assert_counts(0, 2);
}
END_TEST

static void drop_copy(void *arg)
{
    snprintf(dropped_text, sizeof dropped_text, "%s", (char *)arg);
    memset(arg, 'x', 8); /* the copy is the fiber's own */
    atomic_fetch_add(&dropped, 1);
}

START_TEST(drop_gets_the_copy_of_an_argument_that_was_copied)
{
    start_counting();
    char text[8] = "a copy";
    weft_spin_options options = {.arg_bytes = sizeof text, .drop = drop_copy};
    weft_fiber f = weft_spin_with(work, text, &options);
    ck_assert_int_eq(weft_cancel(f), 0);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_str_eq(dropped_text, "a copy");
    ck_assert_str_eq(text, "a copy");
    ck_assert_counts(0, 1);
}
END_TEST

START_TEST(a_fiber_that_is_restarted_before_it_ran_runs_and_drops_nothing)
{
    start_counting();
    weft_fiber f = weft_spin_with(work, OWNED, &owning);
    ck_assert_int_eq(weft_cancel(f), 0);
    ck_assert_int_eq(weft_restart(f), 0);
    ck_assert_int_eq(weft_await(f), 7);
    ck_assert_counts(1, 0);
}
END_TEST

START_TEST(a_fiber_that_ran_once_drops_nothing_when_its_second_run_is_cancelled)
{
    start_counting();
    weft_fiber f = weft_spin_with(work, OWNED, &owning);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_restart(f), 0);
    ck_assert_int_eq(weft_cancel(f), 0);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_counts(1, 0);
}
END_TEST

START_TEST(a_fiber_that_cannot_be_created_drops_nothing)
{
    start_counting();
    weft_spin_options small = {.stack_bytes = 1, .drop = drop};
    weft_spin_options orphan = {.parent = weft_self() + (1ull << 32), .drop = drop};
    ck_assert_uint_eq(weft_spin_with(NULL, OWNED, &owning), 0);
    ck_assert_uint_eq(weft_spin_with(work, OWNED, &small), 0);
    ck_assert_uint_eq(weft_spin_with(work, OWNED, &orphan), 0);
    ck_assert_int_eq(weft_go_with(work, OWNED, &small), -EINVAL);
    ck_assert_int_eq(weft_go_with(work, OWNED, &orphan), -ESRCH);
    ck_assert_uint_eq(weft_after_with(-1, work, OWNED, &owning), 0);
    ck_assert_uint_eq(weft_cord_spin_with(weft_main() + (1ull << 32), work, OWNED, &owning), 0);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_counts(0, 0);
}
END_TEST

static void drop_fd(void *arg)
{
    ck_assert_int_eq(weft_close((int)(intptr_t)arg), 0);
}

START_TEST(drop_can_close_a_descriptor)
{
    int fd[2];
    char byte;
    ck_assert_int_eq(weft_pipe(fd), 0);
    ck_assert_int_eq(
        weft_go_with(work, (void *)(intptr_t)fd[1], &(weft_spin_options){.drop = drop_fd}), 0);
    ck_assert_int_eq(weft_terminate_children(0), 0);
    ck_assert_int_eq(weft_read(fd[0], &byte, 1), 0);
    weft_close(fd[0]);
}
END_TEST

START_TEST(a_call_for_later_that_is_called_off_drops_its_argument)
{
    start_counting();
    weft_fiber unrun = weft_after_with(1, work, OWNED, &owning);
    ck_assert_int_eq(weft_terminate(unrun, 0), 0);
    ck_assert_counts(0, 1);
    weft_fiber asleep = weft_after_with(1, work, OWNED, &owning);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_terminate(asleep, 0), 0);
    ck_assert_counts(0, 2);
    ck_assert_int_eq(weft_await(weft_after_with(0, work, OWNED, &owning)), 7);
    ck_assert_counts(1, 2);
}
END_TEST

static weft_value read_copy(void *arg)
{
    snprintf(dropped_text, sizeof dropped_text, "%s", (char *)arg);
    return 0;
}

START_TEST(a_call_for_later_gets_or_drops_the_copy_of_its_argument)
{
    start_counting();
    char text[8] = "later";
    weft_spin_options options = {.arg_bytes = sizeof text, .drop = drop_copy};
    weft_fiber f = weft_after_with(0, read_copy, text, &options);
    strcpy(text, "changed");
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_str_eq(dropped_text, "later");
    ck_assert_counts(0, 0);
    f = weft_after_with(1, read_copy, text, &options);
    ck_assert_int_eq(weft_terminate(f, 0), 0);
    ck_assert_str_eq(dropped_text, "changed");
    ck_assert_counts(0, 1);
}
END_TEST

/*
 * Cords.
 */

static sem_t go_on;

/* Blocks its thread, so that nothing arrives before it returns. */
static weft_value end_without_reading(void *arg)
{
    (void)arg;
    while (sem_wait(&go_on) < 0)
        continue;
    return 0;
}

START_TEST(what_arrives_in_a_cord_that_has_ended_drops_its_argument)
{
    start_counting();
    sem_init(&go_on, 0, 0);
    weft_cord cord = weft_cord_start(end_without_reading, NULL, NULL);
    ck_assert_uint_ne(cord, 0);
    char text[8] = "a copy";
    weft_spin_options copying = {.arg_bytes = sizeof text, .drop = drop_copy};
    for (int i = 0; i < 100; i++)
        ck_assert_uint_ne(weft_cord_spin_with(cord, work, OWNED, &owning), 0);
    ck_assert_uint_ne(weft_cord_spin_with(cord, work, text, &copying), 0);
    sem_post(&go_on);
    ck_assert_int_eq(weft_cord_join(cord), 0);
    ck_assert_counts(0, 101);
    ck_assert_str_eq(dropped_text, "a copy");
}
END_TEST

static weft_value nothing_more(void *arg)
{
    (void)arg;
    return 0;
}

START_TEST(what_arrives_where_its_parent_is_gone_drops_its_argument)
{
    start_counting();
    weft_cord cord = weft_cord_start(NULL, NULL, NULL);
    weft_fiber parent = weft_cord_spin(cord, nothing_more, NULL);
    ck_assert_int_eq(weft_cord_call(cord, nothing_more, NULL), 0);
    weft_spin_options orphan = {.parent = parent, .drop = drop, .name = "orphan"};
    ck_assert_uint_ne(weft_cord_spin_with(cord, work, OWNED, &orphan), 0);
    ck_assert_int_eq(weft_cord_call(cord, nothing_more, NULL), 0); /* after it */
    ck_assert_counts(0, 1);
    ck_assert_int_eq(weft_cord_cancel(cord), 0);
    ck_assert_int_eq(weft_cord_join(cord), -ECANCELED);
}
END_TEST

START_TEST(a_cord_calls_its_function_or_drops_its_argument_never_both)
{
    weft_cord_options options = {.drop = drop};
    for (int i = 0; i < 50; i++) {
        start_counting();
        weft_cord cord = weft_cord_start(work, OWNED, &options);
        ck_assert_uint_ne(cord, 0);
        weft_cord_cancel(cord); /* -ESRCH if it was faster */
        weft_cord_join(cord);
        ck_assert_int_eq(atomic_load(&ran) + atomic_load(&dropped), 1);
    }
}
END_TEST

static const TTest *const *const tests[] = {
    &a_fiber_that_is_cancelled_before_it_runs_drops_its_argument_once,
    &a_stopped_one_drops_its_argument_and_has_the_value_that_it_was_given,
    &a_fiber_that_runs_keeps_its_argument,
    &a_fiber_that_is_cancelled_while_it_runs_drops_nothing,
    &children_that_end_with_their_parent_before_they_run_drop_their_arguments,
    &children_of_a_parent_that_is_ending_drop_their_arguments,
    &members_of_a_cancelled_group_drop_their_arguments,
    &drop_gets_the_copy_of_an_argument_that_was_copied,
    &a_fiber_that_is_restarted_before_it_ran_runs_and_drops_nothing,
    &a_fiber_that_ran_once_drops_nothing_when_its_second_run_is_cancelled,
    &a_fiber_that_cannot_be_created_drops_nothing,
    &drop_can_close_a_descriptor,
    &a_call_for_later_that_is_called_off_drops_its_argument,
    &a_call_for_later_gets_or_drops_the_copy_of_its_argument,
    &what_arrives_in_a_cord_that_has_ended_drops_its_argument,
    &what_arrives_where_its_parent_is_gone_drops_its_argument,
    &a_cord_calls_its_function_or_drops_its_argument_never_both,
};

int main(void)
{
    return run_suite("drop", tests, COUNT_OF(tests));
}

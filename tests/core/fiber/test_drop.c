/* Tests of the drop option: the argument of a fiber that ends before it has run. */
#include "support/suite.h"

#include <semaphore.h>
#include <stdatomic.h>

static atomic_int dropped, ran;
static char dropped_text[16];

static void drop_owned(void *arg)
{
    ck_assert_str_eq(arg, "owned");
    atomic_fetch_add(&dropped, 1);
}

FIBER_DO(use_owned, ck_assert_str_eq(arg, "owned"), atomic_fetch_add(&ran, 1), 7)

#define OWNED ((void *)"owned")

static const weft_spin_options owning = {.drop = drop_owned};

#define ck_assert_counts(expected_ran, expected_dropped)             \
    do {                                                             \
        ck_assert_int_eq(atomic_load(&ran), (expected_ran));         \
        ck_assert_int_eq(atomic_load(&dropped), (expected_dropped)); \
    } while (0)

TEST(a_fiber_that_is_ended_before_it_runs_drops_its_argument_once)
{
    weft_fiber f = weft_spin_with(use_owned, OWNED, &owning);
    ck_assert_int_eq(weft_cancel(f), 0);
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    ck_assert_counts(0, 1);
    f = weft_spin_with(use_owned, OWNED, &owning);
    ck_assert_int_eq(weft_stop(f, 42), 0);
    ck_assert_int_eq(weft_await(f), 42);
    f = weft_spin_with(use_owned, OWNED, &owning);
    ck_assert_int_eq(weft_terminate(f, 0), 0);
    ck_assert_counts(0, 3);
}

FIBER_DO(use_owned_and_sleep, use_owned(arg), weft_sleep(INFINITY))

static weft_value spin_and_end(void *arg)
{
    for (int i = 0; i < 3; i++)
        ck_assert_uint_ne(weft_spin_with(use_owned, OWNED, &owning), 0);
    return weft_go_with(use_owned, OWNED, &owning);
}

TEST(children_that_end_with_their_parent_before_they_run_drop_their_arguments)
{
    ck_assert_int_eq(weft_await(weft_spin(spin_and_end, NULL)), 0);
    ck_assert_counts(0, 4);
}

CALLBACK(spin_while_ending, ck_assert_uint_ne(weft_spin_with(use_owned, OWNED, &owning), 0))

static weft_value spin_in_cleanup(void *arg)
{
    /* A destructor runs after the children have ended. */
    weft_key key = *(weft_key *)arg;
    return weft_local_set(key, arg);
}

TEST(children_of_a_parent_that_is_ending_drop_their_arguments)
{
    weft_key key = weft_key_new(spin_while_ending);
    ck_assert_int_eq(weft_await(weft_spin(spin_in_cleanup, &key)), 0);
    ck_assert_counts(0, 1);
}

TEST(members_of_a_cancelled_group_drop_their_arguments)
{
    weft_group group;
    ck_assert_int_eq(weft_group_open(&group), 0);
    ck_assert_uint_ne(weft_group_spin_with(&group, use_owned, OWNED, &owning), 0);
    ck_assert_int_eq(weft_group_cancel(&group), 0);
    ck_assert_uint_ne(weft_group_spin_with(&group, use_owned, OWNED, &owning), 0);
    ck_assert_int_eq(weft_group_close(&group), 0);
    ck_assert_counts(0, 2);
}

static void drop_copy(void *arg)
{
    snprintf(dropped_text, sizeof dropped_text, "%s", (char *)arg);
    memset(arg, 'x', 8); /* the fiber owns the copy */
    atomic_fetch_add(&dropped, 1);
}

TEST(drop_gets_the_copy_of_an_argument_that_was_copied)
{
    char text[8] = "a copy";
    weft_spin_options options = {.arg_bytes = sizeof text, .drop = drop_copy};
    weft_fiber f = weft_spin_with(use_owned, text, &options);
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    ck_assert_str_eq(dropped_text, "a copy");
    ck_assert_str_eq(text, "a copy");
    ck_assert_counts(0, 1);
}

TEST(a_fiber_that_has_run_drops_nothing_also_if_it_is_cancelled_or_restarted)
{
    ck_assert_int_eq(weft_await(weft_spin_with(use_owned, OWNED, &owning)), 7);
    ck_assert_int_eq(weft_go_with(use_owned, OWNED, &owning), 0);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_counts(2, 0);
    weft_fiber f = weft_spin_with(use_owned, OWNED, &owning);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_restart(f), 0);
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED); /* before its second run */
    f = weft_spin_with(use_owned_and_sleep, OWNED, &owning);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_terminate(f, 0), 0);
    ck_assert_counts(4, 0);
    f = weft_spin_with(use_owned, OWNED, &owning);
    ck_assert_int_eq(weft_cancel(f), 0);
    ck_assert_int_eq(weft_restart(f), 0); /* before its first run, which takes place */
    ck_assert_int_eq(weft_await(f), 7);
    ck_assert_counts(5, 0);
}

TEST(a_fiber_that_cannot_be_created_drops_nothing)
{
    weft_spin_options small = {.stack_bytes = 1, .drop = drop_owned};
    weft_spin_options orphan = {.parent = weft_self() + (1ull << 32), .drop = drop_owned};
    ck_assert_uint_eq(weft_spin_with(NULL, OWNED, &owning), 0);
    ck_assert_uint_eq(weft_spin_with(use_owned, OWNED, &small), 0);
    ck_assert_uint_eq(weft_spin_with(use_owned, OWNED, &orphan), 0);
    ck_assert_int_eq(weft_go_with(use_owned, OWNED, &small), -EINVAL);
    ck_assert_int_eq(weft_go_with(use_owned, OWNED, &orphan), -ESRCH);
    ck_assert_uint_eq(weft_after_with(-1, use_owned, OWNED, &owning), 0);
    ck_assert_uint_eq(weft_cord_spin_with(weft_main() + (1ull << 32), use_owned, OWNED, &owning),
                      0);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_counts(0, 0);
}

TEST(a_delayed_call_that_is_cancelled_drops_its_argument)
{
    weft_fiber unrun = weft_after_with(1, use_owned, OWNED, &owning);
    ck_assert_int_eq(weft_terminate(unrun, 0), 0);
    ck_assert_counts(0, 1);
    weft_fiber asleep = weft_after_with(1, use_owned, OWNED, &owning);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_terminate(asleep, 0), 0);
    ck_assert_counts(0, 2);
    ck_assert_int_eq(weft_await(weft_after_with(0, use_owned, OWNED, &owning)), 7);
    ck_assert_counts(1, 2);
}

FIBER_DO(read_copy, snprintf(dropped_text, sizeof dropped_text, "%s", (char *)arg), 0)

TEST(a_delayed_call_gets_or_drops_the_copy_of_its_argument)
{
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

static sem_t may_end;

/* Block the thread, so that no message arrives before this function returns. */
static weft_value end_without_reading(void *arg)
{
    while (sem_wait(&may_end) < 0)
        continue;
    return 0;
}

TEST(a_remote_spin_into_an_ended_cord_drops_its_argument)
{
    sem_init(&may_end, 0, 0);
    weft_cord cord = weft_cord_start(end_without_reading, NULL, NULL);
    ck_assert_uint_ne(cord, 0);
    char text[8] = "a copy";
    weft_spin_options copying = {.arg_bytes = sizeof text, .drop = drop_copy};
    for (int i = 0; i < 100; i++)
        ck_assert_uint_ne(weft_cord_spin_with(cord, use_owned, OWNED, &owning), 0);
    ck_assert_uint_ne(weft_cord_spin_with(cord, use_owned, text, &copying), 0);
    sem_post(&may_end);
    ck_assert_int_eq(weft_cord_join(cord), 0);
    ck_assert_counts(0, 101);
    ck_assert_str_eq(dropped_text, "a copy");
}

TEST(a_remote_spin_under_an_ended_parent_drops_its_argument)
{
    weft_cord cord = weft_cord_start(NULL, NULL, NULL);
    weft_fiber parent = weft_cord_spin(cord, return_arg, NULL);
    ck_assert_int_eq(weft_cord_call(cord, return_arg, NULL), 0);
    weft_spin_options orphan = {.parent = parent, .drop = drop_owned, .name = "orphan"};
    ck_assert_uint_ne(weft_cord_spin_with(cord, use_owned, OWNED, &orphan), 0);
    ck_assert_int_eq(weft_cord_call(cord, return_arg, NULL), 0); /* runs after the fiber above */
    ck_assert_counts(0, 1);
    ck_assert_int_eq(weft_cord_cancel(cord), 0);
    ck_assert_int_eq(weft_cord_join(cord), -ECANCELED);
}

TEST(a_cord_calls_its_function_or_drops_its_argument_never_both)
{
    weft_cord_options options = {.drop = drop_owned};
    for (int i = 0; i < 50; i++) {
        atomic_store(&ran, 0);
        atomic_store(&dropped, 0);
        weft_cord cord = weft_cord_start(use_owned, OWNED, &options);
        ck_assert_uint_ne(cord, 0);
        weft_cord_cancel(cord); /* -ESRCH if it has already ended */
        weft_cord_join(cord);
        ck_assert_int_eq(atomic_load(&ran) + atomic_load(&dropped), 1);
    }
}

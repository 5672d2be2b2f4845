/* Ended fibers that nobody awaits: what is kept of them, and what is said. */
#include "support.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

/* More than keep their records (core/limits.h), so that most are kept in short. */
enum { COUNT = 3000 };

static weft_fiber fibers[COUNT];

static weft_counters stats(void)
{
    weft_counters counters;
    ck_assert_int_eq(weft_stats(&counters), 0);
    return counters;
}

static void spin_all(weft_fn *fn)
{
    for (int i = 0; i < COUNT; i++) {
        fibers[i] = weft_spin(fn, as_arg(i));
        ck_assert_uint_ne(fibers[i], 0);
        if (i % 64 == 0)
            weft_snooze();
    }
    weft_snooze();
    ck_assert_uint_eq(stats().fibers, 0);
    ck_assert_uint_eq(stats().fibers_unawaited, COUNT);
}

START_TEST(the_values_of_many_are_there_until_they_are_awaited)
{
    spin_all(return_arg);
    for (int i = COUNT; i-- > 0;) {
        ck_assert_int_eq(weft_state_of(fibers[i]), WEFT_DEAD);
        ck_assert_uint_eq(weft_parent(fibers[i]), weft_self());
        ck_assert_int_eq(weft_await(fibers[i]), i);
        ck_assert_int_eq(weft_await(fibers[i]), -ESRCH);
    }
    ck_assert_uint_eq(stats().fibers_unawaited, 0);
}
END_TEST

START_TEST(they_can_be_awaited_in_any_order_while_others_end)
{
    spin_all(return_arg);
    for (int i = 0; i < COUNT; i++) {
        int at = (int)((unsigned)i * 2654435761u % COUNT);
        if (fibers[at] == 0)
            continue;
        ck_assert_int_eq(weft_await(fibers[at]), at);
        fibers[at] = weft_spin(return_arg, as_arg(at));
    }
    weft_snooze();
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(weft_await(fibers[i]), i);
    ck_assert_uint_eq(stats().fibers_unawaited, 0);
}
END_TEST

START_TEST(they_can_be_awaited_together_and_selected)
{
    spin_all(return_arg);
    static weft_value values[COUNT];
    ck_assert_int_eq(weft_await_all(fibers, 100, values), 0);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(values[i], i);
    weft_fiber twice[] = {fibers[100], fibers[100], fibers[COUNT - 1]};
    ck_assert_int_eq(weft_await_all(twice, 3, values), 0);
    ck_assert_int_eq(values[0], 100);
    ck_assert_int_eq(values[1], 100);
    ck_assert_int_eq(values[2], COUNT - 1);
    ck_assert_int_eq(weft_await_any(&fibers[200], 2, values), 0);
    ck_assert_int_eq(values[0], 200);
    ck_assert_int_eq(weft_await_any(&fibers[200], 2, values), -ESRCH);
    ck_assert_int_eq(weft_terminate(fibers[300], 0), 0);
    ck_assert_int_eq(weft_terminate(fibers[300], 0), -ESRCH);
    weft_clause clause = weft_clause_ended(fibers[400]);
    ck_assert_int_eq(weft_select(&clause, 1), 0);
    ck_assert_int_eq(clause.value, 400);
    ck_assert_int_eq(weft_await(fibers[400]), -ESRCH);
}
END_TEST

static weft_value fail_loudly(void *arg)
{
    return weft_fail(-EIO, "broken %d", (int)(intptr_t)arg);
}

/* Its children fail, which it hears of in its blocking calls. */
static weft_value parent_of_failures(void *arg)
{
    (void)arg;
    for (int i = 0; i < COUNT; i++) {
        fibers[i] = weft_spin(fail_loudly, as_arg(i));
        weft_snooze();
    }
    for (int i = 0; i < COUNT; i++) {
        char words[32];
        ck_assert_int_eq(weft_await(fibers[i]), -EIO);
        snprintf(words, sizeof words, "broken %d", i);
        ck_assert_words(-EIO, words);
    }
    return 0; /* all were awaited: no error is left to strike */
}

START_TEST(the_words_of_an_error_come_along_and_it_does_not_strike_the_parent_any_more)
{
    ck_assert_int_eq(weft_await(weft_spin(parent_of_failures, NULL)), 0);
    ck_assert_uint_eq(stats().fibers_unawaited, 0);
}
END_TEST

static weft_value leave_all(void *arg)
{
    (void)arg;
    for (int i = 0; i < COUNT; i++)
        fibers[i] = weft_spin(i % 2 ? return_arg : fail_loudly, as_arg(i));
    while (weft_snooze() != 0)
        continue; /* until no error is left to hear of */
    return 0;
}

START_TEST(they_go_with_their_parent)
{
    weft_await(weft_spin(leave_all, NULL));
    ck_assert_uint_eq(stats().fibers_unawaited, 0);
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(weft_await(fibers[i]), -ESRCH);
}
END_TEST

START_TEST(one_that_ended_lately_can_be_restarted_and_one_of_long_ago_is_gone_but_for_its_value)
{
    spin_all(return_arg);
    ck_assert_int_eq(weft_restart(fibers[COUNT - 1]), 0);
    ck_assert_int_eq(weft_await(fibers[COUNT - 1]), COUNT - 1);
    ck_assert_int_eq(weft_restart(fibers[0]), -ESRCH);
    ck_assert_int_eq(weft_cancel(fibers[0]), -ESRCH);
    ck_assert_ptr_null(weft_name_of(fibers[0]));
    ck_assert_int_eq(weft_monitor(fibers[0]), 0);
    ck_assert_uint_eq((weft_fiber)weft_receive(), fibers[0]);
    ck_assert_int_eq(weft_await(fibers[0]), 0);
}
END_TEST

/* Bytes that malloc has given out; 0: it does not tell. */
static size_t allocated_bytes(void)
{
#ifdef __GLIBC__
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
#else
    return 0;
#endif
}

START_TEST(they_take_far_less_memory_than_their_records)
{
    spin_all(return_arg); /* what the thread needs anyway is there */
    enum { MORE = 60000 };
    size_t before = allocated_bytes();
    weft_counters counters = stats();
    size_t stacks = counters.stacks;
    for (int i = 0; i < MORE; i++) {
        weft_spin(return_arg, NULL);
        weft_snooze();
    }
    ck_assert_uint_lt((allocated_bytes() - before) / MORE, 96);
    ck_assert_uint_eq(stats().stacks, stacks);
    ck_assert_uint_eq(stats().fibers_unawaited, COUNT + MORE);
}
END_TEST

START_TEST(nothing_is_kept_of_fibers_that_other_threads_could_not_await)
{
    weft_fiber f = 0;
    for (int i = 0; i < 1000; i++) {
        f = weft_cord_spin(weft_main(), return_arg, NULL);
        ck_assert_uint_ne(f, 0);
        ck_assert_int_eq(weft_await_children(), 0);
    }
    ck_assert_int_eq(weft_await(f), -ESRCH);
    ck_assert_uint_eq(stats().fibers_unawaited, 0);
    f = weft_cord_spin(weft_main(), return_arg, as_arg(9));
    ck_assert_int_eq(weft_await(f), 9); /* while it lives, a fiber of the same cord can */
}
END_TEST

static int leave_a_hundred_thousand(void)
{
    weft_name(weft_self(), "careless");
    for (int i = 0; i < 150000; i++) {
        weft_spin(return_arg, NULL);
        weft_snooze();
    }
    return 0;
}

START_TEST(a_hundred_thousand_of_them_are_said_once_with_who_made_them)
{
    const outcome *out = run_apart(leave_a_hundred_thousand);
    ck_assert_int_eq(out->status, 0);
    const char *said = strstr(out->text, "weft: 100000 children of fiber #");
    ck_assert_ptr_nonnull(said);
    ck_assert_ptr_nonnull(strstr(said, "'careless'"));
    ck_assert_ptr_nonnull(strstr(said, "Use weft_go"));
    ck_assert_ptr_nonnull(strstr(said, "test_unawaited")); /* the function, and where it is */
    ck_assert_ptr_null(strstr(said + 1, "weft: 100000"));
}
END_TEST

static const TTest *const *const tests[] = {
    &the_values_of_many_are_there_until_they_are_awaited,
    &they_can_be_awaited_in_any_order_while_others_end,
    &they_can_be_awaited_together_and_selected,
    &the_words_of_an_error_come_along_and_it_does_not_strike_the_parent_any_more,
    &they_go_with_their_parent,
    &one_that_ended_lately_can_be_restarted_and_one_of_long_ago_is_gone_but_for_its_value,
    &they_take_far_less_memory_than_their_records,
    &nothing_is_kept_of_fibers_that_other_threads_could_not_await,
    &a_hundred_thousand_of_them_are_said_once_with_who_made_them,
};

int main(void)
{
    return run_suite("unawaited", tests, COUNT_OF(tests));
}

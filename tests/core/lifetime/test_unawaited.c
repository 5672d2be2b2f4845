/*
 * Tests of ended fibers that are not awaited: the stored values, and the warning about their
 * number.
 */
#include "support/suite.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

/* More than the number of full records (core/limits.h), so that most have only a short record. */
enum { COUNT = 3000 };

static weft_fiber fibers[COUNT];

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

TEST(ended_fibers_can_be_awaited_once_in_any_order_while_others_end)
{
    spin_all(return_arg);
    for (int i = 0; i < COUNT; i++) {
        int at = (int)((unsigned)i * 2654435761u % COUNT);
        ck_assert_int_eq(weft_state_of(fibers[at]), WEFT_DEAD);
        ck_assert_uint_eq(weft_parent(fibers[at]), weft_self());
        ck_assert_int_eq(weft_await(fibers[at]), at);
        ck_assert_int_eq(weft_await(fibers[at]), -ESRCH);
        fibers[at] = weft_spin(return_arg, as_arg(at));
        weft_snooze();
    }
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(weft_await(fibers[i]), i);
    ck_assert_uint_eq(stats().fibers_unawaited, 0);
}

TEST(ended_fibers_can_be_awaited_together_and_selected)
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

FIBER(fail_loudly, weft_fail(-EIO, "broken %d", (int)(intptr_t)arg))

/* The children fail. The parent gets their errors from its blocking calls. */
static weft_value spin_failing_and_await(void *arg)
{
    for (int i = 0; i < COUNT; i++) {
        fibers[i] = weft_spin(fail_loudly, as_arg(i));
        weft_snooze();
    }
    for (int i = 0; i < COUNT; i++) {
        char expected[32];
        ck_assert_int_eq(weft_await(fibers[i]), -EIO);
        snprintf(expected, sizeof expected, "broken %d", i);
        ck_assert_error(-EIO, expected);
    }
    return 0; /* all children were awaited, so no error is pending */
}

TEST(an_awaited_error_has_its_message_and_does_not_reach_the_parent_again)
{
    ck_assert_int_eq(weft_await(weft_spin(spin_failing_and_await, NULL)), 0);
    ck_assert_uint_eq(stats().fibers_unawaited, 0);
}

static weft_value spin_without_await(void *arg)
{
    for (int i = 0; i < COUNT; i++)
        fibers[i] = weft_spin(i % 2 ? return_arg : fail_loudly, as_arg(i));
    while (weft_snooze() != 0)
        continue; /* until no error is pending */
    return 0;
}

TEST(values_of_ended_fibers_are_freed_with_their_parent)
{
    weft_await(weft_spin(spin_without_await, NULL));
    ck_assert_uint_eq(stats().fibers_unawaited, 0);
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(weft_await(fibers[i]), -ESRCH);
}

TEST(only_recently_ended_fibers_can_be_restarted)
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

/* Return the bytes that malloc has handed out. 0: unknown. */
static size_t allocated_bytes(void)
{
#ifdef __GLIBC__
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
#else
    return 0;
#endif
}

TEST(an_unawaited_fiber_takes_less_memory_than_a_record)
{
    spin_all(return_arg); /* allocates everything that the thread needs anyway */
    enum { MORE = 20000 };
    size_t before = allocated_bytes();
    size_t stacks = stats().stacks;
    for (int i = 0; i < MORE; i++) {
        weft_spin(return_arg, NULL);
        weft_snooze();
    }
    ck_assert_uint_lt((allocated_bytes() - before) / MORE, 96);
    ck_assert_uint_eq(stats().stacks, stacks);
    ck_assert_uint_eq(stats().fibers_unawaited, COUNT + MORE);
}

TEST(values_of_fibers_of_other_threads_are_not_stored)
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
    ck_assert_int_eq(weft_await(f), 9); /* a fiber of the same cord can await it while it lives */
}

static int spin_100500_without_await(void)
{
    weft_set_name(weft_self(), "careless");
    for (int i = 0; i < 100500; i++) {
        weft_spin(return_arg, NULL);
        weft_snooze();
    }
    return 0;
}

TEST(a_hundred_thousand_unawaited_fibers_are_reported_once_with_their_parent)
{
    const outcome *out = run_apart(spin_100500_without_await);
    ck_assert_int_eq(out->status, 0);
    const char *warning = strstr(out->text, "weft: 100000 children of fiber #");
    ck_assert_ptr_nonnull(warning);
    ck_assert_ptr_nonnull(strstr(warning, "'careless'"));
    ck_assert_ptr_nonnull(strstr(warning, "Use weft_go"));
    /* The function of one child. */
    ck_assert_ptr_nonnull(strstr(warning, "return_arg"));
    ck_assert_ptr_null(strstr(warning + 1, "weft: 100000"));
}

/*
 * Tests of the basic properties of fibers: creation and its errors, id, name, argument, stack, and
 * ids of ended fibers.
 */
#include "support/suite.h"

#include <limits.h>

FIBER(own_id, (weft_value)weft_self())

TEST(ids_are_not_used_again_and_spin_returns_the_id_that_the_fiber_has)
{ /* T18 */
    static weft_fiber ids[1000];
    ck_assert_uint_eq(weft_main(), weft_self());
    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        ids[i] = weft_spin(own_id, NULL);
        ck_assert(ids[i] != 0 && ids[i] != weft_self());
        for (size_t j = 0; j < i; j++)
            if (ids[i] == ids[j])
                ck_abort_msg("%zu and %zu", i, j);
        if (i % 3 > 0)
            ck_assert_uint_eq((weft_fiber)weft_await(ids[i]), ids[i]);
    }
}

TEST(an_ended_fiber_has_info_until_it_is_awaited)
{ /* T18, T19 */
    weft_fiber f = weft_spin_with(return_arg, NULL, &(weft_spin_options){.name = "f"});
    weft_snooze();
    weft_info info = info_of(f);
    ck_assert_int_eq(info.state, WEFT_DEAD);
    ck_assert_str_eq(weft_name_of(f), "f");
    ck_assert_int_eq(weft_children(f, NULL, 0), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(weft_info_of(f, &info), -ESRCH);
    ck_assert_ptr_null(weft_name_of(f));
    ck_assert_int_eq(weft_state_of(f), WEFT_DEAD);
}

/* Call every function that takes an id, with the id of an ended fiber. */
static void assert_refused_everywhere(weft_fiber gone)
{
    weft_value out;
    weft_info info;
    void *frame;
    ck_assert_int_eq(weft_start(gone), -ESRCH);
    ck_assert_int_eq(weft_transfer(gone, 1), -ESRCH);
    ck_assert_uint_eq(weft_parent(gone), 0);
    ck_assert_any_error(-ESRCH);
    weft_error_clear();
    ck_assert_int_eq(weft_state_of(gone), WEFT_DEAD);
    ck_assert_int_eq(weft_set_name(gone, "x"), -ESRCH);
    ck_assert_ptr_null(weft_name_of(gone));
    ck_assert_any_error(-ESRCH);
    weft_error_clear();
    ck_assert_int_eq(weft_schedule(gone, 1), -ESRCH);
    ck_assert_int_eq(weft_await(gone), -ESRCH);
    ck_assert_int_eq(weft_await_all(&gone, 1, &out), -ESRCH);
    ck_assert_int_eq(weft_await_any(&gone, 1, &out), -ESRCH);
    ck_assert_int_eq(weft_select_fibers(&gone, 1, &out), -ESRCH);
    ck_assert_int_eq(weft_stop(gone, 1), -ESRCH);
    ck_assert_int_eq(weft_cancel(gone), -ESRCH);
    ck_assert_int_eq(weft_raise(gone, -EIO, "x"), -ESRCH);
    ck_assert_int_eq(weft_interrupt(gone, -EINTR), -ESRCH);
    ck_assert_int_eq(weft_terminate(gone, 1), -ESRCH);
    ck_assert_int_eq(weft_restart(gone), -ESRCH);
    ck_assert_int_eq(weft_attach(gone, weft_main()), -ESRCH);
    ck_assert_int_eq(weft_attach(weft_self(), gone), -ESRCH);
    ck_assert_int_eq(weft_detach(gone), -ESRCH);
    ck_assert_int_eq(weft_children(gone, NULL, 0), -ESRCH);
    ck_assert_int_eq(weft_park(gone), -ESRCH);
    ck_assert_int_eq(weft_unpark(gone), -ESRCH);
    ck_assert_int_eq(weft_info_of(gone, &info), -ESRCH);
    ck_assert_int_eq(weft_backtrace(gone, &frame, 1), -ESRCH);
    ck_assert_uint_eq(
        weft_spin_with(return_arg, NULL, &(weft_spin_options){.parent = gone | !gone}), 0);
}

TEST(every_function_refuses_the_id_of_an_ended_fiber_or_an_id_that_never_existed)
{ /* T18, T19, P7 */
    weft_fiber gone = weft_spin(return_arg, NULL);
    ck_assert_int_eq(weft_await(gone), 0);
    assert_refused_everywhere(gone);
    weft_fiber next = spin_suspended(); /* uses the record now */
    const weft_fiber ids[] = {gone, 0, weft_self() + ((weft_fiber)77 << 32), (weft_fiber)1 << 63,
                              weft_self() | 0x3fffff}; /* the last slot, never used */
    for (size_t i = 0; i < COUNT_OF(ids); i++)
        assert_refused_everywhere(ids[i]);
    weft_schedule(next, 6);
    ck_assert_int_eq(weft_await(next), 6);
}

TEST(an_unawaited_ended_fiber_cannot_be_controlled)
{ /* T19, P7 */
    weft_fiber f = weft_spin(return_arg, as_arg(4));
    weft_snooze();
    ck_assert_int_eq(weft_start(f), -ESRCH);
    ck_assert_int_eq(weft_transfer(f, 1), -ESRCH);
    ck_assert_int_eq(weft_schedule(f, 1), -ESRCH);
    ck_assert_int_eq(weft_stop(f, 1), -ESRCH);
    ck_assert_int_eq(weft_cancel(f), -ESRCH);
    ck_assert_int_eq(weft_raise(f, -EIO, "x"), -ESRCH);
    ck_assert_int_eq(weft_interrupt(f, -EINTR), -ESRCH);
    ck_assert_int_eq(weft_attach(f, weft_main()), -ESRCH);
    ck_assert_int_eq(weft_detach(f), -ESRCH);
    ck_assert_uint_eq(weft_spin_with(return_arg, NULL, &(weft_spin_options){.parent = f}), 0);
    ck_assert_any_error(-ESRCH);
    ck_assert_int_eq(weft_await(f), 4);
}

TEST(a_failed_creation_has_a_message_and_leaves_nothing_behind)
{ /* T18, T47 */
    static const weft_spin_options bad[] = {
        {.stack_bytes = 1},
        {.stack_bytes = (16 << 10) - 1},
        {.stack_bytes = ((size_t)1 << 30) + 1},
        {.stack_bytes = SIZE_MAX},
        {.stack_bytes = 16 << 10, .arg_bytes = (4 << 10) + 1},
        {.arg_bytes = SIZE_MAX},
    };
    char arg[1];
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        weft_error_clear();
        ck_assert_uint_eq(weft_spin_with(return_arg, arg, &bad[i]), 0);
        ck_assert_any_error(-EINVAL);
    }
    ck_assert_uint_eq(weft_spin(NULL, NULL), 0);
    ck_assert_uint_eq(weft_new(NULL, NULL), 0);
    ck_assert_int_eq(weft_go(NULL, NULL), -EINVAL);
    ck_assert_int_eq(weft_children(weft_self(), NULL, 0), 0);
    static const weft_spin_options good[] = {{.stack_bytes = 16 << 10}, {.stack_bytes = 1 << 30}};
    for (size_t i = 0; i < COUNT_OF(good); i++) /* at the limits */
        ck_assert_int_eq(weft_await(weft_spin_with(return_arg, as_arg(4), &good[i])), 4);
}

#define ck_assert_refused(call)            \
    do {                                   \
        weft_error_clear();                \
        ck_assert_int_eq((call), -EINVAL); \
        ck_assert_any_error(-EINVAL);      \
    } while (0)

TEST(bad_arguments_are_refused_with_a_message_and_change_nothing)
{ /* T18 */
    weft_fiber f = spin_suspended();
    weft_value out;
    ck_assert_refused(weft_set_name(f, NULL));
    ck_assert_refused(weft_raise(f, 0, "x"));
    ck_assert_refused(weft_raise(f, EIO, "x"));
    ck_assert_refused(weft_raise(f, -4096, "x"));
    ck_assert_refused(weft_terminate(f, -1));
    ck_assert_refused(weft_terminate(f, NAN));
    ck_assert_refused(weft_terminate_children(-1));
    ck_assert_refused(weft_terminate_children(NAN));
    ck_assert_refused(weft_await_any(NULL, 0, &out));
    ck_assert_refused(weft_select_fibers(&f, 0, &out));
    ck_assert_refused(weft_stop(weft_main(), 1));
    ck_assert_refused(weft_cancel(weft_main()));
    ck_assert_int_eq(weft_defer(NULL, NULL), -EINVAL);
    ck_assert_refused(weft_sleep(-1));
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    weft_schedule(f, 3);
    ck_assert_int_eq(weft_await(f), 3);
    ck_assert_refused(weft_terminate_children(-1));
}

TEST(names_are_copied_and_cut_and_end_with_the_fiber)
{ /* T17, T45 */
    char name[64] = "short";
    weft_await(weft_spin_with(return_arg, NULL, &(weft_spin_options){.name = "old"}));
    ck_assert_str_eq(weft_name_of(weft_spin(suspend, NULL)), ""); /* on the same record */
    weft_fiber f = weft_spin_with(suspend, NULL, &(weft_spin_options){.name = name});
    ck_assert_str_eq(weft_name_of(weft_main()), "main");
    memset(name, 'x', sizeof name - 1);
    ck_assert_str_eq(weft_name_of(f), "short");
    ck_assert_int_eq(weft_set_name(f, name), 0);
    name[31] = '\0';
    ck_assert_str_eq(weft_name_of(f), name);
    ck_assert_int_eq(weft_set_name(f, ""), 0);
    ck_assert_str_eq(weft_name_of(f), "");
}

typedef struct big_arg {
    int numbers[500];
} big_arg;

static weft_value sum_up(void *arg)
{
    weft_snooze();
    const big_arg *big = arg;
    ck_assert_uint_eq((uintptr_t)arg % 16, 0);
    weft_value sum = 0;
    for (int i = 0; i < 500; i++)
        sum += big->numbers[i];
    return sum;
}

TEST(a_copied_argument_outlives_the_original)
{ /* T9 */
    big_arg big;
    for (int i = 0; i < 500; i++)
        big.numbers[i] = i;
    weft_fiber f = weft_spin_with(sum_up, &big, &(weft_spin_options){.arg_bytes = sizeof big});
    memset(&big, 0, sizeof big);
    ck_assert_int_eq(weft_await(f), 499 * 500 / 2);
}

static weft_value use_200_kib(void *arg)
{
    volatile char deep[200 << 10];
    for (size_t i = 0; i < sizeof deep; i += 1024)
        deep[i] = (char)i;
    return deep[0];
}

TEST(fibers_with_big_stacks_can_be_created_repeatedly)
{ /* T46, T48: a stack with its own mapping may be unmapped as its fiber ends on it */
    weft_spin_options options = {.stack_bytes = 4 << 20};
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 10; i++)
            ck_assert_uint_ne(weft_spin_with(use_200_kib, NULL, &options), 0);
        ck_assert_int_eq(weft_await_children(), 0);
    }
}

static void use_40_kib(void)
{
    volatile char deep[40 << 10];
    for (size_t i = 0; i < sizeof deep; i += 512)
        deep[i] = 1;
}

static weft_value trim_deep_stack(void *arg)
{
    volatile int here = 5;
    weft_info before, after;
    use_40_kib();
    ck_assert_int_eq(weft_info_of(weft_self(), &before), 0);
    weft_trim_stack();
    ck_assert_int_eq(weft_info_of(weft_self(), &after), 0);
    ck_assert_uint_ge(before.stack_used, 40 << 10);
    ck_assert_uint_lt(after.stack_used, before.stack_used - (30 << 10));
    use_40_kib(); /* the stack can be used again */
    return here;
}

TEST(a_deep_stack_can_be_trimmed_while_in_use)
{
    const weft_spin_options large = {.stack_bytes = 512 << 10};
    ck_assert_int_eq(weft_await(weft_spin_with(trim_deep_stack, NULL, &large)), 5);
    weft_trim_stack(); /* on the main stack: no effect */
}

/*
 * Tests of errors with messages: recording, chains, and propagation to awaiting fibers and up the
 * tree.
 */
#include "support/suite.h"

#include <limits.h>

static int chain_length(const weft_error_info *e)
{
    int n = 0;
    for (; e != NULL; e = e->cause)
        n++;
    return n;
}

TEST(a_failure_returns_its_code_and_records_the_message_and_the_fiber)
{
    ck_assert_ptr_null(weft_error());
    ck_assert_int_eq(weft_fail(-ENOENT, "no %s in %d places", "key", 3), -ENOENT);
    const weft_error_info *e = weft_error();
    ck_assert_int_eq(e->code, -ENOENT);
    ck_assert_str_eq(e->message, "no key in 3 places");
    ck_assert_uint_eq(e->fiber, weft_self());
    ck_assert_str_eq(e->fiber_name, "main");
    ck_assert_ptr_null(e->cause);
}

__attribute__((format(printf, 2, 3))) static int fail_with_list(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int rc = weft_failv(code, format, args);
    va_end(args);
    return rc;
}

TEST(a_failure_with_a_va_list_records_the_same_error_with_its_cause)
{
    weft_fail(-EIO, "the cause");
    ck_assert_int_eq(fail_with_list(-ENOENT, "no %s in %d places", "key", 3), -ENOENT);
    ck_assert_error(-ENOENT, "no key in 3 places");
    ck_assert_int_eq(weft_error()->cause->code, -EIO);
    ck_assert_str_eq(weft_error()->cause->message, "the cause");
}

TEST(a_chain_has_at_most_16_errors_then_a_new_chain_starts)
{
    for (int i = 0; i < 40; i++) {
        weft_fail(-EIO, "failure %d", i);
        char expected[32];
        snprintf(expected, sizeof expected, "failure %d", i);
        ck_assert_str_eq(weft_error()->message, expected);
        ck_assert_int_eq(chain_length(weft_error()), i % 16 + 1);
    }
}

TEST(clearing_the_last_error_starts_a_new_chain)
{
    weft_fail(-EIO, "first");
    weft_error_clear();
    ck_assert_ptr_null(weft_error());
    weft_error_clear();
    weft_fail(-ENOENT, "second");
    ck_assert_error(-ENOENT, "second");
    ck_assert_int_eq(chain_length(weft_error()), 1);
}

TEST(a_message_is_cut_to_255_bytes)
{
    char text[400];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    ck_assert_int_eq(weft_fail(-EIO, "%s", text), -EIO);
    ck_assert_uint_eq(strlen(weft_error()->message), 255);
    ck_assert_int_eq(weft_fail(-EIO, "%.255s", text), -EIO);
    ck_assert_uint_eq(strlen(weft_error()->message), 255);
    ck_assert_int_eq(weft_fail(-EIO, "%s", ""), -EIO);
    ck_assert_str_eq(weft_error()->message, "");
}

TEST(a_code_that_is_not_an_error_is_recorded_as_invalid)
{
    static const int codes[] = {0, 1, EIO, -4096, INT_MIN, INT_MAX};
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        weft_error_clear();
        ck_assert_int_eq(weft_fail(codes[i], "words"), -EINVAL);
        ck_assert_error(-EINVAL, "words");
    }
    ck_assert_int_eq(weft_fail(-4095, "words"), -4095);
    ck_assert_int_eq(weft_fail(-1, "words"), -1);
}

TEST(values_from_minus_4095_to_minus_1_are_errors_and_no_others)
{
    ck_assert(weft_is_error(-1) && weft_is_error(-4095));
    ck_assert(!weft_is_error(0) && !weft_is_error(1) && !weft_is_error(-4096));
    ck_assert(!weft_is_error(INTPTR_MAX) && !weft_is_error(INTPTR_MIN));
}

static weft_value fail_named(void *arg)
{
    weft_set_name(weft_self(), "reader");
    return weft_fail(-EIO, "cannot read %s", (const char *)arg);
}

TEST(the_awaiting_fiber_gets_the_error_with_its_message_before_and_after_the_end)
{ /* T25, P21 */
    static char path[] = "x.txt";
    for (int i = 0; i < 2; i++) {
        weft_fiber f = weft_spin(fail_named, path);
        if (i == 1)
            ck_assert_int_eq(weft_snooze(), 0);
        ck_assert_int_eq(weft_await(f), -EIO);
        ck_assert_error(-EIO, "cannot read x.txt");
        ck_assert_uint_eq(weft_error()->fiber, f);
        ck_assert_str_eq(weft_error()->fiber_name, "reader");
        ck_assert_int_eq(weft_snooze(), 0); /* an awaited error is not delivered a second time */
        weft_error_clear();
    }
}

TEST(a_new_fiber_does_not_have_the_error_of_a_previous_fiber)
{ /* T26 */
    static char path[] = "x.txt";
    ck_assert_int_eq(weft_await(weft_spin(fail_named, path)), -EIO);
    weft_error_clear();
    ck_assert_int_eq(weft_await(weft_spin(return_arg, as_arg(-ENOENT))), -ENOENT);
    ck_assert_int_eq(weft_error()->code, -ENOENT);
    ck_assert_ptr_null(weft_error()->cause);
}

FIBER_DO(fail_with_another_code, weft_fail(-EIO, "an older one"), -ENOENT)

TEST(an_error_without_a_message_of_its_own_gets_the_text_of_strerror)
{ /* T25 */
    static weft_fn *const fns[] = {return_arg, fail_with_another_code};
    for (int i = 0; i < 2; i++) {
        weft_error_clear();
        weft_fiber f = weft_spin(fns[i], as_arg(-ENOENT));
        ck_assert_int_eq(weft_await(f), -ENOENT);
        ck_assert_any_error(-ENOENT);
        ck_assert_uint_eq(weft_error()->fiber, f);
        ck_assert_ptr_nonnull(strstr(weft_error()->message, "No such file"));
    }
}

static weft_value fail_at_each_depth(void *arg)
{
    int depth = (int)(intptr_t)arg;
    if (depth == 0)
        return weft_fail(-EIO, "depth 0");
    weft_value rc = weft_await(weft_spin(fail_at_each_depth, as_arg(depth - 1)));
    return weft_fail((int)rc, "depth %d", depth);
}

TEST(each_fiber_that_propagates_an_error_can_add_a_message)
{ /* P20 */
    weft_fiber f = weft_spin(fail_at_each_depth, as_arg(3));
    ck_assert_int_eq(weft_await(f), -EIO);
    const weft_error_info *e = weft_error();
    ck_assert_int_eq(chain_length(e), 4);
    ck_assert_uint_eq(e->fiber, f);
    ck_assert_str_eq(e->message, "depth 3");
    while (e->cause != NULL) {
        ck_assert_uint_ne(e->fiber, e->cause->fiber);
        e = e->cause;
    }
    ck_assert_str_eq(e->message, "depth 0");
}

TEST(errors_of_many_fibers_do_not_accumulate)
{ /* T25 */
    weft_fiber f = 0;
    for (int i = 0; i < 1000; i++) {
        f = weft_spin(fail_at_each_depth, as_arg(1));
        ck_assert_int_eq(weft_await(f), -EIO);
        ck_assert_int_le(chain_length(weft_error()), 16);
    }
    ck_assert_uint_eq(weft_error()->fiber, f);
}

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

TEST(a_failure_with_a_va_list_records_the_same_error)
{
    weft_fail(-EIO, "the cause");
    ck_assert_int_eq(fail_with_list(-ENOENT, "no %s in %d places", "key", 3), -ENOENT);
    ck_assert_error(-ENOENT, "no key in 3 places");
    ck_assert_str_eq(weft_error()->cause->message, "the cause");
}

TEST(a_second_failure_has_the_first_as_its_cause)
{
    weft_fail(-EIO, "the disk is gone");
    weft_fail(-ENOENT, "so is the file");
    ck_assert_int_eq(weft_fail(-ENODATA, "and the data"), -ENODATA);
    const weft_error_info *e = weft_error();
    ck_assert_int_eq(chain_length(e), 3);
    ck_assert_str_eq(e->message, "and the data");
    ck_assert_str_eq(e->cause->message, "so is the file");
    ck_assert_str_eq(e->cause->cause->message, "the disk is gone");
    ck_assert_int_eq(e->cause->cause->code, -EIO);
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

TEST(the_awaiting_fiber_gets_the_error_with_its_message)
{ /* T25 */
    static char path[] = "x.txt";
    weft_fiber f = weft_spin(fail_named, path);
    ck_assert_int_eq(weft_await(f), -EIO);
    ck_assert_error(-EIO, "cannot read x.txt");
    ck_assert_uint_eq(weft_error()->fiber, f);
    ck_assert_str_eq(weft_error()->fiber_name, "reader");
    ck_assert_int_eq(weft_state_of(f), WEFT_DEAD);
}

TEST(the_message_is_available_after_the_fiber_has_ended)
{ /* T25 */
    static char path[] = "x.txt";
    weft_fiber f = weft_spin(fail_named, path);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_state_of(f), WEFT_DEAD);
    ck_assert_int_eq(weft_await(f), -EIO);
    ck_assert_error(-EIO, "cannot read x.txt");
    ck_assert_int_eq(weft_snooze(), 0); /* P21: an awaited error is not delivered a second time */
}

TEST(a_fiber_that_succeeds_leaves_the_error_of_its_awaiter_alone)
{ /* T25 */
    weft_fail(-ENOENT, "mine");
    ck_assert_int_eq(weft_await(weft_spin(return_arg, as_arg(7))), 7);
    ck_assert_error(-ENOENT, "mine");
}

static weft_value fail_and_recover(void *arg)
{
    weft_fail(-EIO, "did not work at first");
    return (weft_value)arg;
}

TEST(an_error_that_a_fiber_handles_does_not_reach_its_awaiter)
{ /* T26 */
    ck_assert_int_eq(weft_await(weft_spin(fail_and_recover, as_arg(7))), 7);
    ck_assert_ptr_null(weft_error());
    weft_spin(fail_and_recover, as_arg(7));
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_ptr_null(weft_error());
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

TEST(an_error_without_a_message_gets_the_text_of_strerror)
{ /* T25 */
    weft_fiber f = weft_spin(return_arg, as_arg(-ENOENT));
    ck_assert_int_eq(weft_await(f), -ENOENT);
    ck_assert_any_error(-ENOENT);
    ck_assert_uint_eq(weft_error()->fiber, f);
    ck_assert_ptr_nonnull(strstr(weft_error()->message, "No such file"));
}

static weft_value fail_with_another_code(void *arg)
{
    weft_fail(-EIO, "an older one");
    return -ENOENT;
}

TEST(the_message_of_another_error_is_not_used_for_the_value)
{
    ck_assert_int_eq(weft_await(weft_spin(fail_with_another_code, NULL)), -ENOENT);
    ck_assert_int_eq(weft_error()->code, -ENOENT);
    ck_assert_ptr_null(strstr(weft_error()->message, "older"));
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

static weft_fiber innermost;

static weft_value spin_failing_child(void *arg)
{
    int depth = (int)(intptr_t)arg;
    if (depth == 0) {
        innermost = weft_self();
        return weft_fail(-EIO, "depth 0");
    }
    weft_spin(spin_failing_child, as_arg(depth - 1));
    return weft_sleep(60);
}

TEST(an_unawaited_error_propagates_up_the_tree_and_keeps_its_source)
{ /* P20 */
    weft_spin(spin_failing_child, as_arg(3));
    ck_assert_int_eq(weft_sleep(60), -EIO);
    ck_assert_error(-EIO, "depth 0");
    ck_assert_uint_eq(weft_error()->fiber, innermost);
    ck_assert_int_eq(weft_snooze(), 0);
}

static weft_value catch_from_child(void *arg)
{
    weft_spin(fail_with, as_arg(-EIO));
    int rc = weft_sleep(60);
    if (rc != -EIO || strcmp(weft_error()->message, "broken") != 0)
        return 1;
    return weft_sleep(0.001);
}

TEST(an_error_that_a_parent_handles_does_not_propagate_further)
{ /* P20 */
    weft_fiber f = weft_spin(catch_from_child, NULL);
    ck_assert_int_eq(weft_sleep(0.01), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_ptr_null(weft_error());
}

TEST(an_error_of_a_child_is_returned_by_the_next_blocking_call_and_spares_siblings)
{ /* P19 */
    weft_fiber sibling = weft_spin(suspend, NULL);
    weft_go(fail_with, as_arg(-EIO));
    ck_assert_int_eq(weft_snooze(), 0); /* already in the run queue when the child failed */
    ck_assert_ptr_null(weft_error());
    ck_assert_int_eq(weft_snooze(), -EIO);
    ck_assert_error(-EIO, "broken");
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_state_of(sibling), WEFT_WAITING);
    ck_assert_int_eq(weft_schedule(sibling, 7), 0);
    ck_assert_int_eq(weft_await(sibling), 7);
}

static weft_value await_and_check(void *arg)
{
    weft_value rc = weft_await(arg_id(arg));
    return rc == -EIO && strcmp(weft_error()->message, "broken") == 0;
}

static weft_value sleep_then_fail(void *arg)
{
    weft_sleep(0.001);
    return fail_with(arg);
}

TEST(every_awaiting_fiber_gets_the_message)
{ /* P34 */
    weft_fiber f = weft_spin(sleep_then_fail, as_arg(-EIO));
    weft_fiber waiters[3];
    for (size_t i = 0; i < COUNT_OF(waiters); i++)
        waiters[i] = weft_spin(await_and_check, id_arg(f));
    for (size_t i = 0; i < COUNT_OF(waiters); i++)
        ck_assert_int_eq(weft_await(waiters[i]), 1);
    ck_assert_ptr_null(weft_error());
}

TEST(await_all_returns_the_message_of_the_failed_fiber)
{ /* P35 */
    weft_fiber f[] = {weft_spin(suspend, NULL), weft_spin(sleep_then_fail, as_arg(-EIO))};
    ck_assert_int_eq(weft_await_all(f, 2, NULL), -EIO);
    ck_assert_error(-EIO, "broken");
    ck_assert_uint_eq(weft_error()->fiber, f[1]);
}

static weft_value catch_two_errors(void *arg)
{
    int first = weft_sleep(60);
    if (first != -EIO || strcmp(weft_error()->message, "one 1") != 0)
        return 1;
    int second = weft_sleep(60);
    if (second != -ENOENT || strcmp(weft_error()->message, "two 2") != 0)
        return 2;
    return weft_sleep(0.001);
}

TEST(raised_errors_are_returned_one_per_call_in_order_with_their_messages)
{
    weft_fiber f = weft_spin(catch_two_errors, NULL);
    weft_snooze();
    ck_assert_int_eq(weft_raise(f, -EIO, "one %d", 1), 0);
    ck_assert_int_eq(weft_raise(f, -ENOENT, "two %d", 2), 0);
    ck_assert_int_eq(weft_await(f), 0);
}

TEST(raising_a_non_error_or_in_an_ended_fiber_is_refused)
{
    weft_fiber f = weft_spin(suspend, NULL);
    ck_assert_int_eq(weft_raise(f, 0, "nothing"), -EINVAL);
    ck_assert_int_eq(weft_raise(f, EIO, "nothing"), -EINVAL);
    ck_assert_int_eq(weft_raise(f, -4096, "nothing"), -EINVAL);
    weft_stop(f, 7);
    ck_assert_int_eq(weft_await(f), 7);
    ck_assert_int_eq(weft_raise(f, -EIO, "too late"), -ESRCH);
}

TEST(errors_of_many_fibers_do_not_accumulate)
{ /* T25 */
    weft_fiber f = 0;
    for (int i = 0; i < 10000; i++) {
        f = weft_spin(fail_at_each_depth, as_arg(1));
        ck_assert_int_eq(weft_await(f), -EIO);
        ck_assert_int_le(chain_length(weft_error()), 16);
    }
    ck_assert_uint_eq(weft_error()->fiber, f);
}

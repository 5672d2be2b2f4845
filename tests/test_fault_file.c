/*
 * The n-th call fails, as in test_fault.c, for files, streams, copies and chains: what is said to
 * be done is done, an error comes from the call that met it, and no thread of the pool is missed.
 */
#include "fault_file.h"

START_TEST(a_file_is_as_the_calls_said)
{
    strike_some_calls(using_files, 1);
}
END_TEST

START_TEST(lines_that_were_flushed_arrive)
{
    strike_some_calls(streaming_lines, 2);
}
END_TEST

START_TEST(a_copy_is_whole_or_has_failed)
{
    strike_some_calls(copying, 3);
}
END_TEST

START_TEST(a_splice_that_failed_has_taken_nothing)
{
    strike_some_calls(splicing, 1);
}
END_TEST

START_TEST(a_chain_ends_with_its_first_failure)
{
    strike_some_calls(chaining, 1);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &a_file_is_as_the_calls_said,         &lines_that_were_flushed_arrive,
        &a_copy_is_whole_or_has_failed,       &a_splice_that_failed_has_taken_nothing,
        &a_chain_ends_with_its_first_failure,
    };
    return run_suite("fault_file", tests, COUNT_OF(tests));
}

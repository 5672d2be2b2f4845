/* Tests of the signal stack of a thread. test_fault_handlers.c tests the reports of overflows. */
#include "core/stack/overflow.h"
#include "core/stack/stack_cache.h"

TEST(a_signal_stack_that_the_program_has_is_left_alone)
{
    static char memory[1 << 16];
    stack_t theirs = {.ss_sp = memory, .ss_size = sizeof memory}, present;
    weft__overflow_thread thread;
    ck_assert_int_eq(sigaltstack(&theirs, NULL), 0);
    ck_assert_int_eq(weft__overflow_thread_open(&thread), 0);
    sigaltstack(NULL, &present);
    ck_assert_ptr_eq(present.ss_sp, memory);
    weft__overflow_thread_close(&thread);
    sigaltstack(NULL, &present);
    ck_assert_ptr_eq(present.ss_sp, memory);
    ck_assert_int_eq(present.ss_flags & SS_DISABLE, 0);
}

TEST(closing_a_thread_leaves_no_signal_stack_behind)
{
    weft__overflow_thread thread;
    stack_t present;
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    ck_assert_int_eq(weft__overflow_thread_open(&thread), 0);
    char *memory = thread.memory;
    ck_assert(is_mapped(memory));
    weft__overflow_thread_close(&thread);
    sigaltstack(NULL, &present);
    ck_assert_int_ne(present.ss_flags & SS_DISABLE, 0);
    ck_assert(!is_mapped(memory));
    weft__overflow_thread_close(&thread);
}

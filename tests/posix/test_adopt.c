/* Adoption of modules: which calls are hooked, in which threads and fibers. */
#include "posix/posix_support.h"

FIXTURE(adopt_program, NULL)

static weft_value sleep_and_note(void *arg)
{
    struct timespec time = {.tv_nsec = 1000000 * (long)(intptr_t)arg};
    ck_assert_int_eq(nanosleep(&time, NULL), 0);
    char text[16];
    snprintf(text, sizeof text, "%ld ", (long)(intptr_t)arg);
    mark(text);
    return 0;
}

TEST(a_hooked_sleep_lets_other_fibers_run)
{
    weft_spin(sleep_and_note, (void *)30);
    weft_spin(sleep_and_note, (void *)10);
    weft_spin(sleep_and_note, (void *)20);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_trail("10 20 30 ");
    ck_assert_uint_eq(posix_stats().waits, 3);
}

TEST(a_sleep_in_a_fiber_that_passes_blocks_the_thread)
{
    ck_assert_int_eq(weft_posix_pass(true), 1);
    weft_spin(sleep_and_note, (void *)1);
    sleep_and_note((void *)20);
    ck_assert_trail("20 ");
    ck_assert_int_eq(weft_posix_pass(false), 0);
    ck_assert_int_eq(weft_posix_pass(false), -EINVAL);
    ck_assert_int_eq(weft_await_children(), 0);
}

/* Tests of stack overflows by frames larger than a guard, and of the stacks of threads. */
#include "support/suite.h"

#include <signal.h>
#include <sys/resource.h>

/* Larger than the default stack, also with sanitizers, which enlarge it. */
#define FRAME_BYTES (400 << 10)

/* Remove the handlers of ASan, which would end the program differently. */
static void reset_fault_handlers(void)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
}

static void spin_neighbours(void)
{
    for (int i = 0; i < 12; i++)
        weft_spin(sleep_forever, NULL);
    weft_snooze();
}

static weft_value use_large_frame(void *arg)
{
    volatile char frame[FRAME_BYTES];
    frame[0] = 1; /* the far end of the frame */
    return frame[0];
}

TEST_PROGRAM_PRINTS(a_frame_larger_than_the_stack_is_reported_and_changes_no_other_stack, -SIGSEGV,
                    "weft: stack overflow in fiber #", "'large', which runs ")
{
    reset_fault_handlers();
    spin_neighbours();
    weft_fiber f = weft_spin_with(use_large_frame, NULL, &(weft_spin_options){.name = "large"});
    return (int)weft_await(f);
}

static int overflow_in_main(void)
{
    reset_fault_handlers();
    weft_set_name(weft_self(), "the first");
    return descend(0);
}

TEST(an_overflow_of_the_main_fiber_is_reported)
{
    const outcome *out = run_apart(overflow_in_main);
    ck_assert_int_eq(out->status, -SIGSEGV);
    ck_assert_ptr_nonnull(strstr(out->text, "weft: stack overflow in fiber #"));
    ck_assert_ptr_nonnull(strstr(out->text, "'the first'"));
    ck_assert_ptr_nonnull(strstr(out->text, "the thread; raise the limit with `ulimit -s`"));
    ck_assert_ptr_null(strstr(strstr(out->text, "overflow") + 1, "overflow in fiber"));
}

FIBER(descend_in_cord, descend(0))

TEST_PROGRAM_PRINTS(an_overflow_of_the_main_fiber_of_a_cord_is_reported, -SIGSEGV,
                    "weft: stack overflow in fiber #", "'worker'")
{
    reset_fault_handlers();
    weft_cord cord = weft_cord_start(descend_in_cord, NULL, &(weft_cord_options){.name = "worker"});
    return (int)weft_cord_join(cord);
}

static char *volatile bad_address = (char *)16;

TEST_PROGRAM(another_fault_in_main_is_not_reported_as_an_overflow, -SIGSEGV, "")
{
    reset_fault_handlers();
    weft_self();
    *(volatile char *)bad_address = 1;
    return 0;
}

/* Write below the guard page, like code compiled without -fstack-clash-protection. */
__attribute__((no_sanitize_address, noinline)) static weft_value skip_a_page(void *arg)
{
    size_t *bytes = arg;
    char *here = __builtin_frame_address(0);
    *(volatile char *)(here - *bytes) = 1;
    return 0;
}

/* Valgrind does not always deliver a fault in such a guard. */
static bool is_on_valgrind(void)
{
    const char *preloaded = getenv("LD_PRELOAD");
    return preloaded != NULL && strstr(preloaded, "vgpreload_") != NULL;
}

static int skip_the_first_page_of_the_guard(void)
{
    reset_fault_handlers();
    spin_neighbours();
    weft_info info;
    weft_info_of(weft_spin(sleep_forever, NULL), &info);
    size_t bytes = info.stack_bytes + (48 << 10);
    return (int)weft_await(weft_spin(skip_a_page, &bytes));
}

static int skip_with_a_large_guard(void)
{
    return weft_set_guard(64 << 10) == 0 ? skip_the_first_page_of_the_guard() : 1;
}

TEST(a_larger_guard_catches_a_write_that_skips_a_page)
{
    static const char *const report[] = {"weft: stack overflow in fiber #", NULL};
    if (is_on_valgrind())
        return;
    assert_prints(run_apart(skip_with_a_large_guard), -SIGSEGV, report);
    setenv("WEFT_GUARD", "64K", 1);
    assert_prints(run_apart(skip_the_first_page_of_the_guard), -SIGSEGV, report);
}

TEST(the_guard_size_can_be_set_only_before_the_first_stack)
{
    ck_assert_int_eq(weft_set_guard(0), -EINVAL);
    ck_assert_int_eq(weft_set_guard((16 << 20) + 1), -EINVAL);
    ck_assert_any_error(-EINVAL);
    ck_assert_int_eq(weft_set_guard(1), 0);
    ck_assert_int_eq(weft_await(weft_spin(return_arg, as_arg(3))), 3);
    ck_assert_int_eq(weft_set_guard(64 << 10), -EBUSY);
    ck_assert_any_error(-EBUSY);
}

/*
 * Tests of limits: fibers that never wait, nearly full stacks, deep trees, processes that fork, and
 * the sizes that a fiber may have.
 */
#include "support/suite.h"

#include <fcntl.h>

/* Read data that is always available. Only the deadline ends the loop. */
static weft_value read_zeros_until_deadline(void *arg)
{
    int fd = open("/dev/zero", O_RDONLY);
    WEFT_DEFER(close, fd);
    int rc = 0;
    WEFT_CANCEL_AFTER(*(double *)arg, rc) {
        char bytes[16];
        while (weft_read(fd, bytes, sizeof bytes) == sizeof bytes)
            continue;
    }
    return -rc;
}

TEST(a_loop_of_reads_that_never_wait_ends_at_its_deadline_and_lets_other_fibers_run)
{ /* P12, T11 */
    double timeout = 0.005;
    weft_spin(mark_and_return, "ran");
    ck_assert_int_eq(weft_await(weft_spin(read_zeros_until_deadline, &timeout)), ETIMEDOUT);
    ck_assert_trail("ran");
}

static weft_fiber spun_while_idle;

static void spin_once(void *arg)
{
    if (spun_while_idle == 0)
        spun_while_idle = weft_spin(return_arg, as_arg(5));
}

TEST(a_fiber_spun_while_an_ended_fiber_polls_has_its_own_record)
{ /* P13: an ended fiber polls. Its record and stack are still in use. */
    weft_fiber f = weft_spin(return_arg, as_arg(3));
    weft_on_idle(spin_once, NULL);
    ck_assert_int_eq(weft_sleep(0.05), 0); /* long enough that the backend waits */
    weft_on_idle(NULL, NULL);
    ck_assert_uint_ne(spun_while_idle, f);
    ck_assert_uint_eq(weft_parent(spun_while_idle), weft_main());
    ck_assert_int_eq(weft_await(spun_while_idle), 5);
    ck_assert_int_eq(weft_await(f), 3);
}

/* Recurse until the frame is this many bytes below begin, and suspend there. */
static weft_value suspend_below(const volatile char *begin, ptrdiff_t bytes)
{
    volatile char room[256];
    room[0] = 0;
    bool is_deep = begin - room >= bytes;
    weft_value rc = is_deep ? weft_suspend() : suspend_below(begin, bytes);
    return rc + room[0];
}

FIBER_DO(suspend_9_kib_below, volatile char begin = 0, suspend_below(&begin, 9 << 10))

TEST(a_fiber_with_a_nearly_full_stack_has_no_backtrace)
{ /* T21 */
    if (is_sanitized())
        return; /* frames are larger there */
    weft_fiber f =
        weft_spin_with(suspend_9_kib_below, NULL, &(weft_spin_options){.stack_bytes = 16 << 10});
    let_run();
    void *frames[8];
    ck_assert_int_eq(weft_backtrace(f, frames, 8), 0);
    int fd = open("/dev/null", O_WRONLY);
    ck_assert_int_eq(weft_dump(fd), 0);
    close(fd);
    ck_assert_int_eq(weft_schedule(f, 7), 0);
    ck_assert_int_eq(weft_await(f), 7);
}

static weft_value restart_arg(void *arg)
{
    return weft_restart(*(weft_fiber *)arg) < 0; /* 1: the restart failed */
}

TEST(await_all_stops_a_fiber_during_its_restart)
{ /* P35, P30 */
    weft_fiber f[2] = {weft_spin(suspend_then_shield, NULL), spin_suspended()};
    weft_fiber restarter = spin_waiting(restart_arg, &f[0]);
    ck_assert_int_eq(weft_schedule(f[1], -EIO), 0);
    ck_assert_int_eq(weft_await_all(f, 2, NULL), -EIO);
    ck_assert_int_eq(weft_await(restarter), 1);
}

static void suspend_in_shield(void *arg)
{
    WEFT_SHIELD(INFINITY)
        (void)weft_suspend();
}

static weft_value fail_with_slow_cleanup(void *arg)
{
    *(weft_fiber *)arg = weft_self();
    weft_suspend(); /* until the parent ends */
    weft_defer(suspend_in_shield, NULL);
    return weft_fail(-EIO, "cannot clean up");
}

FIBER_DO(spin_failing_child, weft_spin(fail_with_slow_cleanup, arg), weft_snooze(), 1)

TEST(a_stop_after_the_function_has_returned_hides_no_error)
{ /* P18: once its function has returned, a stop is too late. */
    weft_fiber child = 0;
    weft_fiber parent = spin_waiting(spin_failing_child, &child);
    ck_assert_int_eq(weft_stop(child, 42), 0);
    ck_assert_int_eq(weft_schedule(child, 0), 0); /* its cleanup ends */
    ck_assert_int_eq(weft_await(parent), -EIO);
}

static int generations_left;

static weft_value exit_in_descendant(void *arg)
{
    if (generations_left-- == 0)
        exit_here(7);
    return weft_await(weft_spin(exit_in_descendant, arg));
}

TEST_PROGRAM(exit_in_a_deep_tree_needs_no_deep_stack, 7, "")
{ /* P33 */
    generations_left = is_sanitized() ? 1000 : 20000;
    return (int)weft_await(weft_spin(exit_in_descendant, NULL));
}

FIBER_DO(print_at_end, weft_defer(print_stderr_arg, arg), weft_suspend())

TEST_PROGRAM(a_child_process_that_exits_does_not_end_its_parents_fibers, 3, "once ")
{ /* P76 */
    weft_spin(print_at_end, "once ");
    weft_snooze();
    pid_t pid = fork();
    if (pid == 0)
        exit(3);
    int status = 0;
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}

TEST_PROGRAM_PRINTS(an_unknown_backend_is_reported_and_the_default_is_used, 0,
                    "WEFT_BACKEND=uring9")
{
    setenv("WEFT_BACKEND", "uring9", 1);
    return !is_sim() && strstr(weft_backend_why(), "does not name a built-in backend") ? 0 : 1;
}

static weft_value stack_of_self(void *arg)
{
    weft_info info;
    weft_info_of(weft_self(), &info);
    return info.is_daemon ? -EIO : (weft_value)info.stack_bytes;
}

TEST(a_fiber_on_a_reused_record_has_its_own_stack_and_flags)
{ /* T49: the options of one fiber do not affect the next one. */
    weft_value usual = weft_await(weft_spin(stack_of_self, NULL));
    for (int i = 0; i < 3; i++) {
        weft_spin_options big = {.stack_bytes = 1 << 20, .name = "big"},
                          daemon = {.is_daemon = true};
        ck_assert_int_gt(weft_await(weft_spin_with(stack_of_self, NULL, &big)), usual);
        ck_assert_int_eq(weft_await(weft_spin_with(stack_of_self, NULL, &daemon)), -EIO);
        weft_fiber f = weft_spin(stack_of_self, NULL);
        ck_assert_str_eq(weft_name_of(f), "");
        ck_assert_int_eq(weft_await(f), usual);
    }
}

/* Deadlock detection: when it reports, to which fiber, and what it prints. */
#include "support/suite.h"

FIBER(await_other, weft_await(*(weft_fiber *)arg))

TEST_PROGRAM_PRINTS(a_deadlock_is_reported_with_the_wait_reason_of_every_fiber, 42, "deadlock",
                    "'main' waiting for the end of #", "'alice' waiting for weft_schedule",
                    "'bob' waiting for the end of #", " 'alice', ")
{ /* P80 */
    static weft_fiber a, b;
    a = weft_spin_with(suspend, NULL, &(weft_spin_options){.name = "alice"});
    b = weft_spin_with(await_other, &a, &(weft_spin_options){.name = "bob"});
    weft_value rc = weft_await(b);
    return rc == -EDEADLK && weft_state_of(b) == WEFT_WAITING ? 42 : 1;
}

static int sleep_in_deadlock(void)
{
    return weft_sleep(INFINITY) == -EDEADLK ? 42 : 1;
}

static int read_idle_pipe(void)
{
    int fd[2];
    char byte;
    int rc = 1;
    weft_pipe(fd);
    WEFT_CANCEL_AFTER(0.01, rc) {
        if (weft_read(fd[0], &byte, 1) != -ECANCELED)
            return 1;
    }
    return rc == -ETIMEDOUT ? 0 : 2;
}

TEST(an_infinite_sleep_of_main_is_a_deadlock_and_a_read_is_not)
{ /* P80 */
    const outcome *o = run_apart(sleep_in_deadlock);
    ck_assert_int_eq(o->status, 42);
    assert_printed(o, "'main' waiting for sleep");
    assert_silent(run_apart(read_idle_pipe), 0);
}

static int resolve_deadlock(void)
{
    weft_fiber f = weft_spin(suspend, NULL);
    if (weft_await(f) != -EDEADLK)
        return 1;
    if (weft_schedule(f, 7) != 0 || weft_await(f) != 7)
        return 2;
    return weft_sleep(0.001) == 0 ? 0 : 3;
}

TEST(main_can_resolve_a_deadlock_after_it_was_reported)
{ /* P80 */
    const outcome *o = run_apart(resolve_deadlock);
    ck_assert_int_eq(o->status, 0);
    ck_assert_uint_eq(count_in(o->text, "weft: deadlock"), 1);
}

static weft_value sleep_and_print(void *arg)
{
    int rc = weft_sleep(0.005);
    print_stderr(arg);
    return rc;
}

TEST_PROGRAM(suspend_in_main_returns_0_when_all_work_is_done, 0, "abc")
{ /* P8 */
    weft_go(sleep_and_print, "a");
    weft_go(sleep_and_print, "b");
    weft_value rc = weft_suspend();
    print_stderr("c");
    return rc == 0 && weft_suspend() == 0 ? 0 : 1;
}

static weft_value sleep_repeatedly(void *arg)
{
    int rc;
    while ((rc = weft_sleep(0.001)) == 0)
        continue;
    return rc;
}

TEST_PROGRAM(suspend_in_main_does_not_wait_for_daemons, 0, "a")
{ /* P8 */
    weft_spin_with(sleep_repeatedly, NULL, &(weft_spin_options){.is_daemon = true});
    weft_go(sleep_and_print, "a");
    return (int)weft_suspend();
}

/* Only these two fibers hold the other ends. */
static int read_in_deadlock(void)
{
    static int first[2], second[2];
    weft_pipe(first);
    weft_pipe(second);
    weft_go(read_byte, &first[0]);
    weft_fiber f = weft_spin_with(read_byte, &second[0], &(weft_spin_options){.name = "reader"});
    return weft_await(f) == -EDEADLK && weft_suspend() == 0 ? 42 : 1;
}

/* P80: only fibers could write to pipes in memory. Another process might write to a kernel pipe. */
TEST(fibers_that_read_pipes_without_writers_are_a_deadlock_on_sim)
{
    if (strcmp(getenv("WEFT_BACKEND"), "sim") != 0)
        return;
    const outcome *o = run_apart(read_in_deadlock);
    ck_assert_int_eq(o->status, 42);
    assert_printed(o, "'reader' waiting for read");
}

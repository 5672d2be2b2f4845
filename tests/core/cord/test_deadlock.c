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

static int resolve_deadlocks(void)
{
    if (weft_sleep(INFINITY) != -EDEADLK)
        return 1;
    weft_fiber f = weft_spin(suspend, NULL);
    if (weft_await(f) != -EDEADLK || weft_schedule(f, 7) != 0 || weft_await(f) != 7)
        return 2;
    return weft_sleep(0.001) == 0 ? 0 : 3;
}

TEST(each_deadlock_is_reported_once_and_main_can_resolve_it)
{ /* P80 */
    const outcome *o = run_apart(resolve_deadlocks);
    ck_assert_int_eq(o->status, 0);
    assert_printed(o, "'main' waiting for sleep");
    ck_assert_uint_eq(count_in(o->text, "weft: deadlock"), 2);
}

TEST_PROGRAM(a_read_with_a_deadline_is_not_a_deadlock, 0, "")
{ /* P80 */
    int fd[2], rc = 1;
    weft_pipe(fd);
    WEFT_CANCEL_AFTER(0.01, rc) {
        if (read_byte(&fd[0]) != -ECANCELED)
            return 1;
    }
    return rc == -ETIMEDOUT ? 0 : 2;
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
    if (runs_on("sim"))
        assert_prints(run_apart(read_in_deadlock), 42,
                      (const char *[]){"'reader' waiting for read", NULL});
}

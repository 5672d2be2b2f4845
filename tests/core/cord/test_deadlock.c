/* When nothing is left that could wake anyone: who is told what. */
#include "support.h"

static weft_value await_other(void *arg)
{
    return weft_await(*(weft_fiber *)arg);
}

static int deadlock(void)
{
    static weft_fiber a, b;
    a = weft_spin_with(suspend, NULL, &(weft_spin_options){.name = "alice"});
    b = weft_spin_with(await_other, &a, &(weft_spin_options){.name = "bob"});
    weft_value rc = weft_await(b);
    return rc == -EDEADLK && weft_state_of(b) == WEFT_WAITING ? 42 : 1;
}

/* P80 */
START_TEST(a_deadlock_is_reported_with_every_fiber_and_what_it_waits_for)
{
    const outcome *o = run_apart(deadlock);
    ck_assert_int_eq(o->status, 42);
    assert_said(o, "deadlock");
    assert_said(o, "'main' waiting for the end of #");
    assert_said(o, "'alice' waiting for weft_schedule");
    assert_said(o, "'bob' waiting for the end of #");
    assert_said(o, " 'alice', ");
}
END_TEST

static int sleep_endlessly(void)
{
    return weft_sleep(INFINITY) == -EDEADLK ? 42 : 1;
}

static int read_what_nobody_writes(void)
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

/* P80 */
START_TEST(main_asleep_for_ever_is_a_deadlock_and_main_in_a_read_is_none)
{
    const outcome *o = run_apart(sleep_endlessly);
    ck_assert_int_eq(o->status, 42);
    assert_said(o, "'main' waiting for sleep");
    assert_silent(run_apart(read_what_nobody_writes), 0);
}
END_TEST

static int go_on_after_a_deadlock(void)
{
    weft_fiber f = weft_spin(suspend, NULL);
    if (weft_await(f) != -EDEADLK)
        return 1;
    if (weft_schedule(f, 7) != 0 || weft_await(f) != 7)
        return 2;
    return weft_sleep(0.001) == 0 ? 0 : 3;
}

/* P80 */
START_TEST(after_a_deadlock_was_told_main_can_do_something_about_it)
{
    const outcome *o = run_apart(go_on_after_a_deadlock);
    ck_assert_int_eq(o->status, 0);
    ck_assert_uint_eq(count_in(o->text, "weft: deadlock"), 1);
}
END_TEST

static void say(const char *what)
{
    dprintf(STDERR_FILENO, "%s", what);
}

static weft_value work(void *arg)
{
    int rc = weft_sleep(0.005);
    say(arg);
    return rc;
}

static int wait_for_all_work(void)
{
    weft_go(work, (void *)"a");
    weft_go(work, (void *)"b");
    weft_value rc = weft_suspend();
    say("c");
    return rc == 0 && weft_suspend() == 0 ? 0 : 1;
}

/* P8 */
START_TEST(suspend_in_main_returns_0_when_all_work_is_done)
{
    assert_ended(run_apart(wait_for_all_work), 0, "abc");
}
END_TEST

static weft_value tick_for_ever(void *arg)
{
    (void)arg;
    int rc;
    while ((rc = weft_sleep(0.001)) == 0)
        continue;
    return rc;
}

static int wait_beside_a_daemon(void)
{
    weft_spin_with(tick_for_ever, NULL, &(weft_spin_options){.is_daemon = true});
    weft_go(work, (void *)"a");
    return (int)weft_suspend();
}

/* P8 */
START_TEST(suspend_in_main_does_not_wait_for_daemons)
{
    assert_ended(run_apart(wait_beside_a_daemon), 0, "a");
}
END_TEST

static weft_value read_byte(void *arg)
{
    char byte;
    return weft_read(*(int *)arg, &byte, 1);
}

/* Nobody holds the other ends but these two fibers. */
static int read_from_each_other(void)
{
    static int first[2], second[2];
    weft_pipe(first);
    weft_pipe(second);
    weft_go(read_byte, &first[0]);
    weft_fiber f = weft_spin_with(read_byte, &second[0], &(weft_spin_options){.name = "reader"});
    return weft_await(f) == -EDEADLK && weft_suspend() == 0 ? 42 : 1;
}

/* P80: in memory only fibers could write; what the kernel holds, someone else might. */
START_TEST(fibers_that_read_what_none_of_them_writes_are_a_deadlock_on_sim)
{
    if (strcmp(getenv("WEFT_BACKEND"), "sim") != 0)
        return;
    const outcome *o = run_apart(read_from_each_other);
    ck_assert_int_eq(o->status, 42);
    assert_said(o, "'reader' waiting for read");
}
END_TEST

static const TTest *const *const tests[] = {
    &a_deadlock_is_reported_with_every_fiber_and_what_it_waits_for,
    &main_asleep_for_ever_is_a_deadlock_and_main_in_a_read_is_none,
    &after_a_deadlock_was_told_main_can_do_something_about_it,
    &suspend_in_main_returns_0_when_all_work_is_done,
    &suspend_in_main_does_not_wait_for_daemons,
    &fibers_that_read_what_none_of_them_writes_are_a_deadlock_on_sim,
};

int main(void)
{
    return run_suite("deadlock", tests, COUNT_OF(tests));
}

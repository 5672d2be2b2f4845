/*
 * Tests of the interaction of two rules: errors and cancellation, interrupts and waits for several
 * fibers, nested deadlines and shields. Each case was found by reasoning about the code or by a
 * random program (test_model.c), where it is too rare to rely on.
 */
#include "support/random.h"
#include "support/suite.h"

static weft_value mark_two_results(void *arg)
{
    for (int i = 0; i < 2; i++) {
        weft_value rc = weft_suspend();
        mark(rc == -EIO ? "error " : rc == -ECANCELED ? "cancel " : "? ");
    }
    return (weft_value)arg;
}

TEST(a_cancel_does_not_discard_a_pending_error)
{ /* P6 */
    for (int i = 0; i < 2; i++) {
        weft_fiber f = spin_waiting(mark_two_results, NULL);
        ck_assert_int_eq(i == 0 ? weft_schedule(f, -EIO) : weft_raise(f, -EIO, "broken"), 0);
        ck_assert_int_eq(i == 0 ? weft_cancel(f) : weft_stop(f, 5), 0);
        ck_assert_int_eq(weft_await(f), i == 0 ? -ECANCELED : 5);
    }
    ck_assert_trail("error cancel error cancel ");
}

TEST(an_error_shared_by_two_awaited_children_is_not_reported_again)
{ /* P21, P34 */
    weft_fiber source = spin_suspended();
    weft_fiber first = spin_waiting(await_fiber, id_arg(source)),
               second = spin_waiting(await_fiber, id_arg(source));
    ck_assert_int_eq(weft_schedule(source, -EIO), 0);
    WEFT_SHIELD(INFINITY)
        let_run();
    ck_assert_int_eq(weft_await(second), -EIO);
    ck_assert_int_eq(weft_await(first), -EIO);
    ck_assert_int_eq(weft_snooze(), 0);
}

static void *spin_two_failing(void *arg)
{
    weft_go(fail_with, as_arg(-EIO));
    weft_go(fail_with, as_arg(-EPROTO));
    WEFT_SHIELD(INFINITY)
        let_run();
    return arg;
}

static int run_thread_with_failures(void)
{
    join_thread(start_thread(spin_two_failing, NULL));
    return 0;
}

TEST(a_thread_that_ends_with_two_errors_reports_one_and_frees_both)
{ /* P77, P78 */
    const outcome *out = run_apart(run_thread_with_failures);
    ck_assert_msg(out->status == 0, "%s", out->text);
    ck_assert_uint_eq(count_in(out->text, "was not handled"), 1);
}

typedef struct pair {
    weft_fiber f[2];
    bool is_any;
} pair;

FIBER_DO(select_two, weft_value out, weft_select_fibers(arg, 2, &out))

TEST(a_select_of_fibers_that_waits_for_the_stopped_fibers_cannot_be_interrupted)
{ /* P37, P64 */
    weft_fiber f[2] = {spin_suspended(), spin_waiting(suspend_then_shield, NULL)};
    weft_fiber waiter = spin_waiting(select_two, f);
    ck_assert_int_eq(weft_schedule(f[0], 0), 0);
    let_run();
    ck_assert_int_eq(weft_interrupt(waiter, -5), -EBUSY);
    ck_assert_int_eq(weft_await(waiter), 0);
    ck_assert_int_eq(weft_state_of(f[1]), WEFT_DEAD);
}

static weft_value read_eight(void *arg)
{
    char bytes[8];
    return weft_read_full(*(int *)arg, bytes, sizeof bytes);
}

TEST(an_interrupted_read_full_returns_the_error)
{ /* P64 */
    int fd[2];
    ck_assert_int_eq(weft_pipe(fd), 0);
    weft_fiber f = spin_waiting(read_eight, &fd[0]);
    ck_assert_int_eq(weft_interrupt(f, -1000), 0);
    ck_assert_int_eq(weft_await(f), -1000);
    close_fd_pair(fd);
}

static weft_value park_and_unpark_starter(void *arg)
{
    ck_assert_int_eq(weft_park(arg_id(arg)), 0);
    ck_assert_int_eq(weft_unpark(arg_id(arg)), 0);
    return weft_snooze();
}

static weft_value start_one(void *arg)
{
    ck_assert_int_eq(weft_start(weft_new(park_and_unpark_starter, id_arg(weft_self()))), 0);
    return weft_suspend(); /* only the test schedules this fiber, with 7 */
}

/* P14, T8: the fiber is in weft_start, and continues once, when the started fiber switches. */
TEST(a_starter_that_is_parked_and_unparked_runs_once)
{
    weft_fiber f = spin_waiting(start_one, NULL);
    ck_assert_int_eq(weft_schedule(f, 7), 0);
    ck_assert_int_eq(weft_await(f), 7);
}

#define SLEEP_S 0.005
static bool is_woken;

FIBER_DO(sleep_and_set_woken, int rc = weft_sleep(SLEEP_S), is_woken = true, rc)

/* P11: the clock is read after at most 64 switches, however long they take. */
TEST(a_sleeping_fiber_wakes_after_a_bounded_number_of_switches)
{
    for (int i = 0; i < 5; i++) {
        is_woken = false;
        weft_fiber f = weft_spin(sleep_and_set_woken, NULL);
        weft_snooze();
        double over = weft_now() + SLEEP_S; /* the fiber already sleeps, and not longer than this */
        int late = 0;
        while (!is_woken) {
            late += weft_now() >= over;
            weft_snooze();
        }
        ck_assert_int_le(late, 2 * 64);
        ck_assert_int_eq(weft_await(f), 0);
    }
}

/* Five scopes, one of which expires. All are moved back and forth first. */
static weft_value expire_in_one_of_five(void *arg)
{
    unsigned due = random_below(5);
    weft_scope scopes[5];
    for (unsigned i = 0; i < 5; i++)
        ck_assert_int_eq(weft_scope_open(&scopes[i], i == due ? 60 : random_below(100) * 0.01 + 1),
                         0);
    for (unsigned i = 0; i < 20; i++)
        ck_assert_int_eq(weft_scope_reset(&scopes[random_below(5)], 0.5 + i), 0);
    for (unsigned i = 0; i < 5; i++)
        ck_assert_int_eq(weft_scope_reset(&scopes[i], i == due ? random_below(16) * 1e-3 : 60), 0);
    ck_assert_int_eq(weft_sleep(60), -ECANCELED);
    for (unsigned i = 5; i-- > 0;)
        ck_assert_int_eq(weft_scope_close(&scopes[i]), i == due ? -ETIMEDOUT : 0);
    ++*(int *)arg;
    return weft_snooze();
}

/* P48: there is one kind of timer, and it is cheap. Thousands expire in the same ticks. */
TEST(thousands_of_moved_nested_deadlines_expire_in_their_own_scopes)
{
    int expired = 0;
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(weft_go(expire_in_one_of_five, &expired), 0);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(expired, 1000);
    ck_assert_uint_eq(armed_timers(), 0);
}

/* An expired shield lets outer cancellations through, but does not cancel. */
TEST(an_expired_shield_never_cancels)
{
    weft_scope shield;
    ck_assert_int_eq(weft_shield_open(&shield, 0.001), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(weft_sleep(0.002), 0);
        weft_scope_reset(&shield, 0.001);
    }
    ck_assert(!weft_scope_is_cancelled(&shield));
    weft_scope_close(&shield);
    ck_assert_int_eq(weft_snooze(), 0);
}

static weft_value work_in_a_shield(void *arg)
{
    WEFT_SHIELD(60) {
        for (int i = 0; i < 3; i++)
            if (weft_suspend() == 1)
                mark("work ");
        ck_assert(!weft_is_cancelled());
    }
    ck_assert(weft_is_cancelled());
    mark(weft_suspend() == -ECANCELED ? "cancelled" : "?");
    return (weft_value)arg;
}

TEST(a_shield_delays_a_cancel_until_its_end)
{ /* T43 */
    weft_fiber f = spin_waiting(work_in_a_shield, NULL);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(weft_cancel(f), 0);
        let_run();
        ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
        ck_assert_int_eq(weft_schedule(f, 1), 0);
        let_run();
    }
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_trail("work work work cancelled");
}

TEST(a_scope_cannot_be_opened_inside_itself)
{
    weft_scope scope;
    ck_assert_int_eq(weft_scope_open(&scope, INFINITY), 0);
    ck_assert_int_eq(weft_scope_open(&scope, INFINITY), -EINVAL);
    ck_assert_int_eq(weft_scope_close(&scope), 0);
}

/* Virtual time can reach the end of the clock. */
TEST(a_sleep_past_the_end_of_the_clock_never_ends)
{
    if (!is_sim())
        return;
    ck_assert_int_eq(weft_sleep(8e9), 0);
    weft_fiber f = spin_sleeping();
    WEFT_MOVE_ON_AFTER(8e9) {
        ck_assert(!weft_is_cancelled());
    }
    ck_assert_int_eq(weft_terminate(f, INFINITY), 0);
}

CALLBACK(schedule_while_idle, weft_schedule(*(weft_fiber *)arg, 6))

/* P13, P10: another fiber must wait for an external event. Otherwise this would be a deadlock. */
TEST(a_fiber_scheduled_by_the_idle_function_runs_at_once)
{
    weft_fiber f = spin_suspended(), daemon = spin_sleeping();
    weft_on_idle(schedule_while_idle, &f);
    WEFT_MOVE_ON_AFTER(1000)
        ck_assert_int_eq(weft_await(f), 6);
    weft_on_idle(NULL, NULL);
    ck_assert_int_eq(weft_terminate(daemon, INFINITY), 0);
}

TEST(the_counter_of_operations_is_not_reset_when_it_is_read)
{ /* P15 */
    int fd[2];
    ck_assert_int_eq(weft_pipe(fd), 0);
    uint64_t before = stats().ops;
    for (int i = 0; i < 3; i++)
        weft_go(read_byte, &fd[0]);
    weft_snooze();
    for (int i = 0; i < 2; i++)
        ck_assert(stats().ops - before == 3 && stats().ops_pending == 3);
    ck_assert_int_eq(weft_write(fd[1], "abc", 3), 3);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_uint_ge(stats().ops - before, 4); /* the write too */
    close_idle_fd_pair(fd);
}

TEST(a_fiber_may_be_renamed_to_a_part_of_its_own_name)
{
    weft_set_name(weft_self(), "the one and only");
    ck_assert_int_eq(weft_set_name(weft_self(), weft_name_of(weft_self()) + 4), 0);
    ck_assert_str_eq(weft_name_of(weft_self()), "one and only");
}

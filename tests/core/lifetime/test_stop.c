/*
 * Tests of ending a fiber from outside with stop, cancel and terminate. A cancellation persists
 * until the fiber ends.
 */
#include "support/suite.h"

#include <poll.h>

TEST(a_fiber_that_is_stopped_before_it_ran_never_runs)
{ /* P23, T39 */
    weft_fiber stopped = weft_spin(mark_and_return, "ran");
    weft_fiber cancelled = weft_spin(mark_and_return, "ran");
    weft_fiber terminated = weft_spin(mark_and_return, "ran");
    weft_fiber fresh = weft_new(mark_and_return, "ran");
    ck_assert_int_eq(weft_stop(stopped, 42), 0);
    ck_assert_int_eq(weft_cancel(cancelled), 0);
    ck_assert_int_eq(weft_terminate(terminated, 1), 0);
    ck_assert_int_eq(weft_stop(fresh, 43), 0);
    ck_assert_int_eq(weft_await(stopped), 42);
    ck_assert_int_eq(weft_await(cancelled), -ECANCELED);
    ck_assert_int_eq(weft_await(terminated), -ESRCH);
    ck_assert_int_eq(weft_await(fresh), 43);
    ck_assert_trail("");
    ck_assert_int_eq(weft_snooze(), 0);
}

static weft_value clean_up_and_return(void *arg)
{
    weft_defer(mark_arg, "fiber ");
    WEFT_DEFER(mark, "block ");
    weft_suspend();
    return (weft_value)arg;
}

TEST(the_value_of_a_stopped_fiber_is_the_value_of_stop)
{ /* P24 */
    const weft_value returned[] = {1, -EIO};
    for (int i = 0; i < 2; i++) {
        weft_fiber f = spin_waiting(clean_up_and_return, as_arg(returned[i]));
        ck_assert_int_eq(weft_stop(f, 42), 0);
        ck_assert_int_eq(weft_await(f), 42);
        f = spin_waiting(clean_up_and_return, as_arg(returned[i]));
        ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    }
    ck_assert_trail("block fiber block fiber block fiber block fiber ");
}

TEST(terminate_cancels_waits_and_consumes_the_id)
{ /* P24 */
    weft_fiber f = spin_waiting(clean_up_and_return, NULL);
    ck_assert_int_eq(weft_terminate(f, 10), 0);
    ck_assert_trail("block fiber ");
    ck_assert_int_eq(weft_await(f), -ESRCH);
    f = weft_spin(return_arg, as_arg(3));
    weft_snooze();
    ck_assert_int_eq(weft_terminate(f, 10), 0); /* already ended */
    ck_assert_int_eq(weft_await(f), -ESRCH);
    ck_assert_int_eq(weft_snooze(), 0);
}

static weft_value end_after_ms(void *arg)
{
    weft_suspend();
    WEFT_SHIELD(10)
        weft_sleep((double)(intptr_t)arg * 1e-3);
    return 0;
}

static int terminate_with_grace(intptr_t late_ms, double grace_s)
{
    weft_spin_options options = {.name = "stubborn"};
    weft_fiber f = weft_spin_with(end_after_ms, as_arg(late_ms), &options);
    weft_snooze();
    return weft_terminate(f, grace_s) == 0 && weft_state_of(f) == WEFT_DEAD ? 0 : 1;
}

TEST_PROGRAM_PRINTS(terminate_reports_a_fiber_that_exceeds_its_grace_period_and_waits_on, 0,
                    "stubborn")
{ /* P24 */
    return terminate_with_grace(30, 0.002);
}

TEST_PROGRAM(terminate_does_not_report_a_fiber_that_ends_in_its_grace_period, 0, "")
{ /* P24 */
    return terminate_with_grace(1, 1000);
}

static weft_value stop_self(void *arg)
{
    ck_assert_int_eq(weft_stop(weft_self(), (weft_value)arg), 0);
    mark("goes on ");
    ck_assert_int_eq(weft_snooze(), -ECANCELED);
    ck_assert(weft_is_cancelled());
    return 5;
}

TEST(a_fiber_that_stops_itself_runs_until_its_next_blocking_call)
{ /* P24 */
    ck_assert_int_eq(weft_await(weft_spin(stop_self, as_arg(9))), 9);
    ck_assert_int_eq(weft_await(weft_spin(stop_self, as_arg(-ECANCELED))), -ECANCELED);
    ck_assert_trail("goes on goes on ");
}

static weft_value stop_parent(void *arg)
{
    ck_assert_int_eq(weft_stop(weft_parent(weft_self()), 7), 0);
    weft_value rc = weft_suspend();
    mark(rc == -ECANCELED ? "child " : "? ");
    return rc;
}

static weft_value spin_child_that_stops_self(void *arg)
{
    weft_spin(stop_parent, NULL);
    weft_value rc = weft_suspend();
    mark(rc == -ECANCELED ? "parent " : "? ");
    return 0;
}

TEST(a_child_may_stop_its_own_parent_and_ends_with_it)
{ /* P24 */
    ck_assert_int_eq(weft_await(weft_spin(spin_child_that_stops_self, NULL)), 7);
    ck_assert_trail("parent child ");
}

TEST(a_stopped_fiber_moves_to_the_front_of_the_queue)
{ /* P6 */
    weft_fiber f = spin_waiting(clean_up_and_return, NULL);
    weft_fiber g = spin_waiting(clean_up_and_return, NULL);
    weft_spin(mark_and_return, "queued ");
    weft_cancel(f);
    weft_schedule(g, 1);
    weft_cancel(g);
    let_run();
    ck_assert_trail("block fiber block fiber queued ");
}

static weft_value sleep_while_cancelled(void *arg)
{
    ck_assert(!weft_is_cancelled());
    ck_assert_int_eq(weft_sleep(INFINITY), -ECANCELED);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(weft_sleep(60), -ECANCELED);
    ck_assert(weft_is_cancelled());
    WEFT_SHIELD(10) {
        ck_assert(!weft_is_cancelled());
        ck_assert_int_eq(weft_snooze(), 0);
    }
    ck_assert(weft_is_cancelled());
    return 1;
}

FIBER_DO(set_flag, *(bool *)arg = true, 0)

static weft_value ignore_cancellation_for_a_while(void *arg)
{
    weft_cancel(weft_self());
    weft_spin(set_flag, arg);
    while (!*(const volatile bool *)arg)
        weft_sleep(60);
    return 0;
}

TEST(a_cancelled_sleeper_wakes_stays_cancelled_and_cannot_starve_other_fibers)
{ /* T38 */
    weft_fiber f = spin_waiting(sleep_while_cancelled, NULL);
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    bool may_end = false;
    ck_assert_int_eq(weft_await(weft_spin(ignore_cancellation_for_a_while, &may_end)), -ECANCELED);
}

static void assert_fiber_calls_refused(weft_fiber other)
{
    weft_value out;
    ck_assert_int_eq(weft_await(other), -ECANCELED);
    ck_assert_int_eq(weft_await_any(&other, 1, &out), -ECANCELED);
    ck_assert_int_eq(weft_select_fibers(&other, 1, &out), -ECANCELED);
    ck_assert_int_eq(weft_await_children(), -ECANCELED);
    ck_assert_int_eq(weft_transfer(other, 1), -ECANCELED);
    ck_assert_int_eq(weft_restart(other), -ECANCELED);
    ck_assert_int_eq(weft_state_of(other), WEFT_WAITING);
    ck_assert_int_eq(weft_snooze(), -ECANCELED);
    ck_assert_int_eq(weft_suspend(), -ECANCELED);
    ck_assert_int_eq(weft_sleep(0), -ECANCELED);
    ck_assert_int_eq(weft_sleep(INFINITY), -ECANCELED);
    ck_assert_int_eq(weft_terminate(other, 1), 0); /* terminate waits even if cancelled */
}

static void assert_io_calls_refused(const int *fd)
{
    char byte;
    ck_assert_int_eq(weft_read(fd[0], &byte, 1), -ECANCELED);
    ck_assert_int_eq(weft_read_full(fd[0], &byte, 1), -ECANCELED);
    ck_assert_int_eq(weft_write(fd[1], "x", 1), -ECANCELED);
    ck_assert_int_eq(weft_write_all(fd[1], "x", 1), -ECANCELED);
    ck_assert_int_eq(weft_wait_fd(fd[0], POLLIN), -ECANCELED);
    ck_assert_int_eq(weft_accept(fd[0], NULL, NULL), -ECANCELED);
    ck_assert_int_eq(weft_close(fd[1]), 0); /* close works even if cancelled */
}

typedef struct call_targets {
    weft_fiber other;
    weft_fiber dead;
    int fd[2];
} call_targets;

static void try_every_call(call_targets *s)
{
    assert_fiber_calls_refused(s->other);
    assert_io_calls_refused(s->fd);
    ck_assert_int_eq(weft_await(s->dead), 3); /* needs no wait */
}

FIBER_DO(try_every_call_cancelled, weft_cancel(weft_self()), try_every_call(arg), 0)

static weft_value try_every_call_in_scope(void *arg)
{
    WEFT_MOVE_ON_AFTER(0)
        try_every_call(arg);
    return -ECANCELED;
}

TEST_LOOP(every_kind_of_blocking_call_fails_at_once_in_a_cancelled_fiber_or_scope, 2)
{ /* T40, T41 */
    call_targets s = {.other = spin_suspended(), .dead = weft_spin(return_arg, as_arg(3))};
    weft_snooze();
    ck_assert_int_eq(weft_socketpair(s.fd), 0);
    weft_fn *fn = _i == 0 ? try_every_call_cancelled : try_every_call_in_scope;
    ck_assert_int_eq(weft_await(weft_spin(fn, &s)), -ECANCELED);
    char byte;
    /* Nothing was written, and the other end was closed. */
    ck_assert_int_eq(weft_read(s.fd[0], &byte, 1), 0);
    weft_close(s.fd[0]);
}

FIBER(await_stored_fiber, weft_await(*(weft_fiber *)arg))
FIBER(await_any_stored, weft_await_any(arg, 1, NULL))
FIBER_DO(await_own_children, weft_spin(suspend, NULL), weft_await_children())
FIBER(restart_stored_fiber, weft_restart(*(weft_fiber *)arg))

static const struct {
    weft_fn *fn;
    bool is_reader; /* its argument is a descriptor, not a fiber */
} waits[] = {
    {suspend},          {sleep_forever},      {read_byte, true},      {await_stored_fiber},
    {await_any_stored}, {await_own_children}, {restart_stored_fiber},
};

TEST(every_kind_of_wait_ends_when_its_fiber_is_cancelled)
{ /* T38, T40, P63 */
    int fd[2];
    ck_assert_int_eq(weft_pipe(fd), 0);
    weft_fiber other = spin_waiting(end_after_ms, as_arg(5));
    for (size_t i = 0; i < COUNT_OF(waits); i++) {
        void *arg = waits[i].is_reader ? (void *)&fd[0] : (void *)&other;
        ck_assert_int_eq(cancel_and_await(spin_waiting(waits[i].fn, arg)), -ECANCELED);
    }
    ck_assert_uint_le(armed_timers(), 2); /* the shielded sleep of the other fiber, its shield */
    close_idle_fd_pair(fd);
}

/* Use memory of the parent until the cleanup ends. */
static weft_value use_memory_in_cleanup(void *arg)
{
    weft_suspend();
    WEFT_SHIELD(INFINITY)
        weft_sleep(0.001);
    ++*(int *)arg;
    return 0;
}

typedef struct caller {
    bool is_one;   /* true: weft_terminate for one child; false: for all children */
    bool is_known; /* the fiber sees its cancellation before the call */
    weft_scope *scope;
    int rc, used;
} caller;

static void terminate_cancelled(caller *me)
{
    weft_fiber f = weft_spin(use_memory_in_cleanup, &me->used);
    WEFT_SHIELD(INFINITY)
        weft_snooze();
    me->rc = me->is_one ? weft_terminate(f, 10) : weft_terminate_children(10);
    if (me->used != 1)
        me->rc = -EFAULT; /* the child could still use freed memory */
}

static weft_value stop_and_terminate(void *arg)
{
    caller *me = arg;
    weft_stop(weft_self(), 7);
    if (me->is_known)
        ck_assert_int_eq(weft_snooze(), -ECANCELED);
    terminate_cancelled(me);
    return 0;
}

static weft_value time_out_and_terminate(void *arg)
{
    caller *me = arg;
    WEFT_MOVE_ON_AFTER(0)
        terminate_cancelled(me);
    return 7;
}

FIBER_DO(terminate_until_stopped, terminate_cancelled(arg), 0)

TEST(terminate_waits_for_the_end_although_the_caller_is_cancelled)
{
    for (int i = 0; i < 4; i++) {
        caller a = {.is_one = i % 2 == 0, .is_known = i < 2}, b = a, c = a;
        ck_assert_int_eq(weft_await(weft_spin(stop_and_terminate, &a)), 7);
        ck_assert_int_eq(a.rc, 0);
        ck_assert_int_eq(weft_await(weft_spin(time_out_and_terminate, &b)), 7);
        ck_assert_int_eq(b.rc, 0);
        weft_fiber f = weft_spin(terminate_until_stopped, &c);
        while (weft_children(f, NULL, 0) == 0)
            weft_snooze();
        weft_snooze();
        weft_stop(f, 7);
        ck_assert_int_eq(weft_interrupt(f, -EINTR), -EBUSY);
        ck_assert_int_eq(weft_await(f), 7);
        ck_assert_int_eq(c.rc, 0);
    }
}

FIBER(terminate_in_time, weft_terminate(*(weft_fiber *)arg, 100))

static weft_value sleep_shielded(void *arg)
{
    weft_sleep(INFINITY);
    WEFT_SHIELD(INFINITY)
        return weft_suspend();
    return 0;
}

TEST(a_fiber_in_terminate_cannot_be_interrupted)
{
    weft_fiber slow = spin_waiting(sleep_shielded, NULL);
    weft_fiber f = spin_waiting(terminate_in_time, &slow);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(weft_interrupt(f, -EINTR), -EBUSY);
        ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    }
    ck_assert_int_eq(weft_schedule(slow, 0), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(weft_state_of(slow), WEFT_DEAD);
}

TEST(an_error_raised_during_terminate_is_returned_by_the_next_call)
{
    int used = 0;
    weft_fiber f = spin_waiting(use_memory_in_cleanup, &used);
    weft_raise(weft_self(), -EIO, "meanwhile");
    ck_assert_int_eq(weft_terminate(f, 10), 0);
    ck_assert_int_eq(used, 1);
    ck_assert_int_eq(weft_snooze(), -EIO);
}

/* Mutexes: ownership and order, cancelled and interrupted waiters, and holders that end. */
#include "support/suite.h"
#include "support/support.h"

static weft_mutex mutex;

/* Lock, mark arg, unlock. */
static weft_value lock_and_mark(void *arg)
{
    int rc = weft_mutex_lock(&mutex);
    if (rc < 0)
        return rc;
    ck_assert_uint_eq(weft_mutex_owner(&mutex), weft_self());
    mark(arg);
    return weft_mutex_unlock(&mutex);
}

/* Hold the mutex until scheduled or cancelled. Return the result of weft_suspend. */
static weft_value hold_mutex(void *arg)
{
    (void)arg;
    int rc = weft_mutex_lock(&mutex);
    if (rc < 0)
        return rc;
    weft_value value = weft_suspend();
    ck_assert_int_eq(weft_mutex_unlock(&mutex), 0);
    return value;
}

/* Lock and suspend. End with the mutex. */
static weft_value end_with_mutex(void *arg)
{
    (void)arg;
    int rc = weft_mutex_lock(&mutex);
    return rc < 0 ? rc : weft_suspend();
}

static void assert_mutex_is_free(void)
{
    ck_assert_uint_eq(weft_mutex_owner(&mutex), 0);
    ck_assert_int_eq(weft_mutex_try_lock(&mutex), 0);
    ck_assert_int_eq(weft_mutex_unlock(&mutex), 0);
}

TEST(a_free_mutex_is_locked_without_a_switch)
{
    weft_spin(mark_and_return, "switched");
    ck_assert_int_eq(weft_mutex_lock(&mutex), 0);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), weft_self());
    ck_assert_int_eq(weft_mutex_unlock(&mutex), 0);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), 0);
    ck_assert_int_eq(weft_mutex_try_lock(&mutex), 0);
    ck_assert_int_eq(weft_mutex_unlock(&mutex), 0);
    ck_assert_trail("");
}

/* P54 */
TEST(waiters_get_the_mutex_in_fifo_order)
{
    weft_mutex_lock(&mutex);
    weft_spin(lock_and_mark, "a");
    weft_spin(lock_and_mark, "b");
    weft_spin(lock_and_mark, "c");
    let_run();
    ck_assert_trail("");
    ck_assert_int_eq(weft_mutex_unlock(&mutex), 0);
    let_run();
    ck_assert_trail("abc");
    assert_mutex_is_free();
}

/* T65 */
TEST(an_unlocking_fiber_cannot_lock_again_ahead_of_a_waiter)
{
    weft_mutex_lock(&mutex);
    weft_fiber f = spin_waiting(lock_and_mark, "a");
    ck_assert_int_eq(weft_mutex_unlock(&mutex), 0);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), f); /* before it has run */
    ck_assert_int_eq(weft_mutex_try_lock(&mutex), -EBUSY);
    ck_assert_int_eq(weft_mutex_lock(&mutex), 0);
    mark("m");
    ck_assert_trail("am");
}

/* P54 */
TEST(locking_a_mutex_twice_is_refused)
{
    weft_mutex_lock(&mutex);
    ck_assert_int_eq(weft_mutex_lock(&mutex), -EDEADLK);
    ck_assert_int_eq(weft_mutex_try_lock(&mutex), -EDEADLK);
    ck_assert_int_eq(weft_mutex_unlock(&mutex), 0); /* it was locked only once */
    assert_mutex_is_free();
}

static weft_value unlock_unowned(void *arg)
{
    (void)arg;
    int rc = weft_mutex_unlock(&mutex);
    ck_assert_any_error(-EPERM);
    return -rc;
}

TEST(only_the_holder_may_unlock)
{
    ck_assert_int_eq(weft_mutex_unlock(&mutex), -EPERM);
    weft_mutex_lock(&mutex);
    ck_assert_int_eq(weft_await(weft_spin(unlock_unowned, NULL)), EPERM);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), weft_self());
    ck_assert_int_eq(weft_mutex_unlock(&mutex), 0);
    ck_assert_int_eq(weft_mutex_unlock(&mutex), -EPERM);
}

/* P54 */
TEST(a_cancelled_waiter_leaves_the_queue)
{
    weft_mutex_lock(&mutex);
    weft_fiber f[] = {spin_waiting(lock_and_mark, "a"), spin_waiting(lock_and_mark, "b"),
                      spin_waiting(lock_and_mark, "c")};
    ck_assert_int_eq(weft_cancel(f[1]), 0);
    ck_assert_int_eq(weft_await(f[1]), -ECANCELED);
    weft_mutex_unlock(&mutex);
    ck_assert_int_eq(weft_await_all((weft_fiber[]){f[0], f[2]}, 2, NULL), 0);
    ck_assert_trail("ac");
    assert_mutex_is_free();
}

TEST(when_all_waiters_are_cancelled_the_mutex_is_free)
{
    weft_mutex_lock(&mutex);
    for (int i = 0; i < 3; i++)
        spin_waiting(lock_and_mark, "x");
    ck_assert_int_eq(weft_terminate_children(1), 0);
    weft_mutex_unlock(&mutex);
    assert_mutex_is_free();
    ck_assert_trail("");
}

TEST(a_wait_that_times_out_does_not_lock)
{
    weft_fiber f = spin_waiting(hold_mutex, NULL);
    int rc;
    WEFT_CANCEL_AFTER(0.001, rc) {
        ck_assert_int_eq(weft_mutex_lock(&mutex), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), f);
    ck_assert_int_eq(weft_mutex_unlock(&mutex), -EPERM);
    weft_schedule(f, 3);
    ck_assert_int_eq(weft_await(f), 3);
    assert_mutex_is_free();
}

/* T64 */
TEST(a_negative_timeout_is_refused_and_a_timeout_of_0_expires_at_once)
{
    weft_fiber f = spin_waiting(hold_mutex, NULL);
    int rc = 0;
    WEFT_CANCEL_AFTER(-1, rc) {
        mark("entered");
    }
    ck_assert_int_eq(rc, -EINVAL);
    weft_spin(mark_and_return, "switched");
    WEFT_CANCEL_AFTER(0, rc) {
        ck_assert_int_eq(weft_mutex_lock(&mutex), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_trail("");
    ck_assert_uint_eq(weft_mutex_owner(&mutex), f);
}

TEST(a_cancelled_fiber_can_lock_a_free_mutex)
{
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_snooze(), -ECANCELED);
        ck_assert_int_eq(weft_mutex_lock(&mutex), 0);
        ck_assert_int_eq(weft_mutex_unlock(&mutex), 0);
    }
}

/* Mark whether the lock succeeded, and whether the fiber can unlock after it was cancelled. */
static weft_value mark_lock_result(void *arg)
{
    (void)arg;
    mark(weft_mutex_lock(&mutex) == 0 ? "locked," : "not locked,");
    ck_assert(weft_snooze() == -ECANCELED);
    mark(weft_mutex_unlock(&mutex) == 0 ? "unlocked" : "not owner");
    return 0;
}

TEST(a_waiter_cancelled_after_the_handover_has_the_mutex)
{
    weft_mutex_lock(&mutex);
    weft_fiber f = spin_waiting(mark_lock_result, NULL);
    weft_fiber next = spin_waiting(hold_mutex, NULL);
    weft_mutex_unlock(&mutex);
    ck_assert_int_eq(weft_cancel(f), 0);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_trail("locked,unlocked");
    ck_assert_uint_eq(weft_mutex_owner(&mutex), next);
}

TEST(a_waiter_cancelled_before_the_handover_does_not_have_the_mutex)
{
    weft_mutex_lock(&mutex);
    weft_fiber f = spin_waiting(mark_lock_result, NULL);
    weft_fiber next = spin_waiting(hold_mutex, NULL);
    ck_assert_int_eq(weft_cancel(f), 0);
    weft_mutex_unlock(&mutex);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), next);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_trail("not locked,not owner");
}

TEST(an_interrupted_waiter_returns_the_value_and_does_not_have_the_mutex)
{
    weft_mutex_lock(&mutex);
    weft_fiber f = spin_waiting(hold_mutex, NULL);
    weft_fiber g = spin_waiting(hold_mutex, NULL);
    ck_assert_int_eq(weft_interrupt(f, -EINTR), 0);
    weft_mutex_unlock(&mutex);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), g);
    ck_assert_int_eq(weft_interrupt(g, -EINTR), -EBUSY); /* the unlock has woken it */
    ck_assert_int_eq(weft_await(f), -EINTR);
    let_run();
    weft_schedule(g, 4);
    ck_assert_int_eq(weft_await(g), 4);
}

TEST(an_error_raised_in_a_waiter_ends_its_wait)
{
    weft_mutex_lock(&mutex);
    weft_fiber f = spin_waiting(hold_mutex, NULL);
    weft_fiber g = spin_waiting(hold_mutex, NULL);
    ck_assert_int_eq(weft_raise(f, -EIO, "raised"), 0);
    ck_assert_int_eq(weft_await(f), -EIO);
    ck_assert_error(-EIO, "raised");
    weft_mutex_unlock(&mutex);
    ck_assert_int_eq(weft_raise(g, -EIO, "too late"), 0);
    ck_assert_int_eq(weft_await(g), -EIO); /* from its next call; it has unlocked */
    ck_assert_error(-EIO, "too late");
    assert_mutex_is_free();
}

TEST(a_fiber_stopped_before_it_ran_does_not_lock)
{
    weft_fiber f = weft_spin(hold_mutex, NULL);
    ck_assert_int_eq(weft_stop(f, 5), 0);
    ck_assert_int_eq(weft_await(f), 5);
    assert_mutex_is_free();
}

TEST(a_parked_fiber_is_handed_the_mutex)
{
    weft_mutex_lock(&mutex);
    weft_fiber f = spin_waiting(lock_and_mark, "a");
    weft_spin(lock_and_mark, "b");
    let_run();
    weft_park(f);
    weft_mutex_unlock(&mutex);
    let_run();
    ck_assert_uint_eq(weft_mutex_owner(&mutex), f);
    ck_assert_trail("");
    weft_unpark(f);
    let_run();
    ck_assert_trail("ab");
}

static void assert_mutex_is_broken(void)
{
    ck_assert_int_eq(weft_mutex_lock(&mutex), -EOWNERDEAD);
    ck_assert_int_eq(weft_mutex_try_lock(&mutex), -EOWNERDEAD);
    ck_assert_int_eq(weft_mutex_unlock(&mutex), -EPERM);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), 0);
}

/* P54 */
TEST(a_holder_that_ends_breaks_the_mutex_for_all_waiters)
{
    weft_fiber f = spin_waiting(end_with_mutex, NULL);
    weft_fiber waiters[3];
    for (int i = 0; i < 3; i++)
        waiters[i] = spin_waiting(lock_and_mark, "x");
    weft_schedule(f, 0);
    ck_assert_int_eq(weft_await(f), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_await(waiters[i]), -EOWNERDEAD);
    ck_assert_trail("");
    assert_mutex_is_broken();
    assert_mutex_is_broken(); /* and stays broken */
    mutex = (weft_mutex){0};
    assert_mutex_is_free();
}

/* P54 */
TEST(a_cancelled_holder_breaks_the_mutex_unless_it_unlocks)
{
    weft_fiber f = spin_waiting(hold_mutex, NULL);
    weft_fiber g = spin_waiting(end_with_mutex, NULL);
    weft_cancel(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), g);
    weft_cancel(g);
    ck_assert_int_eq(weft_await(g), -ECANCELED);
    assert_mutex_is_broken();
}

TEST(a_restarted_holder_breaks_the_mutex_for_its_next_run_too)
{
    weft_fiber f = spin_waiting(end_with_mutex, NULL);
    weft_fiber waiter = spin_waiting(lock_and_mark, "x");
    ck_assert_int_eq(weft_restart(f), 0);
    ck_assert_int_eq(weft_await(waiter), -EOWNERDEAD);
    ck_assert_int_eq(weft_await(f), -EOWNERDEAD);
    assert_mutex_is_broken();
}

static void lock_arg(void *arg)
{
    mark(weft_mutex_lock(arg) == 0 ? "L" : "-");
}

static void unlock_arg(void *arg)
{
    mark(weft_mutex_unlock(arg) == 0 ? "U" : "-");
}

static weft_value lock_and_defer(void *arg)
{
    weft_defer(unlock_arg, &mutex);
    weft_mutex_lock(&mutex);
    weft_suspend();
    return (weft_value)arg;
}

static weft_value defer_a_lock(void *arg)
{
    weft_defer(lock_arg, &mutex);
    return (weft_value)arg;
}

TEST(deferred_functions_of_the_holder_may_unlock_and_lock_the_mutex)
{
    weft_fiber f = spin_waiting(lock_and_defer, as_arg(1));
    weft_fiber waiter = spin_waiting(lock_and_mark, "w");
    weft_cancel(f);
    ck_assert_int_eq(weft_await(waiter), 0);
    ck_assert_int_eq(weft_await(weft_spin(defer_a_lock, as_arg(2))), 2);
    ck_assert_trail("UwL");
    assert_mutex_is_broken();
}

static weft_value lock_three(void *arg)
{
    weft_mutex *m = arg;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_mutex_lock(&m[i]), 0);
    ck_assert_int_eq(weft_mutex_unlock(&m[1]), 0);
    ck_assert_int_eq(weft_mutex_lock(&m[1]), 0);
    ck_assert_int_eq(weft_mutex_unlock(&m[0]), 0);
    return 0;
}

TEST(several_mutexes_are_held_and_released_in_any_order)
{
    weft_mutex m[3] = {{{0}}};
    ck_assert_int_eq(weft_await(weft_spin(lock_three, m)), 0);
    ck_assert_int_eq(weft_mutex_lock(&m[0]), 0);
    ck_assert_int_eq(weft_mutex_lock(&m[1]), -EOWNERDEAD);
    ck_assert_int_eq(weft_mutex_lock(&m[2]), -EOWNERDEAD);
    ck_assert_int_eq(weft_mutex_unlock(&m[0]), 0);
}

static weft_value lock_and_unlock(void *arg)
{
    (void)arg;
    return weft_mutex_lock(&mutex) + weft_mutex_unlock(&mutex);
}

TEST(a_fiber_that_reuses_the_record_of_a_holder_holds_nothing)
{
    ck_assert_int_eq(weft_await(weft_spin(lock_and_unlock, NULL)), 0);
    ck_assert_int_eq(weft_await(weft_spin(return_arg, NULL)), 0);
    assert_mutex_is_free();
    weft_fiber f = spin_waiting(end_with_mutex, NULL);
    weft_schedule(f, 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(weft_await(weft_spin(unlock_unowned, NULL)), EPERM);
}

static int inside, entered;

static weft_value enter_in_order(void *arg)
{
    ck_assert_int_eq(weft_mutex_lock(&mutex), 0);
    ck_assert_int_eq(inside++, 0);
    weft_snooze();
    ck_assert_int_eq(entered++ % 1000, (intptr_t)arg);
    inside--;
    ck_assert_int_eq(weft_mutex_unlock(&mutex), 0);
    weft_snooze();
    ck_assert_int_eq(weft_mutex_lock(&mutex), 0); /* again: at the tail of the queue */
    ck_assert_int_eq(entered++ % 1000, (intptr_t)arg);
    return weft_mutex_unlock(&mutex);
}

TEST(a_thousand_fibers_hold_one_mutex_one_by_one)
{
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(weft_go(enter_in_order, as_arg(i)), 0);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(entered, 2000);
    assert_mutex_is_free();
}

/* Return 0 whatever the state of the mutex is. */
static weft_value lock_quietly(void *arg)
{
    (void)arg;
    if (weft_mutex_lock(&mutex) == 0)
        weft_mutex_unlock(&mutex);
    return 0;
}

static int end_main_with_mutex(void)
{
    weft_mutex_lock(&mutex);
    weft_spin(lock_quietly, NULL);
    weft_snooze();
    return 0;
}

static weft_value exit_with_mutex(void *arg)
{
    (void)arg;
    weft_mutex_lock(&mutex);
    weft_snooze();
    exit_here(3);
    return 0;
}

static int lock_while_a_child_exits(void)
{
    weft_spin(exit_with_mutex, NULL);
    weft_spin(lock_quietly, NULL);
    weft_snooze();
    weft_mutex_lock(&mutex);
    return 0;
}

TEST(the_process_may_end_while_a_mutex_is_held_and_has_waiters)
{
    ck_assert_quiet(run_apart(end_main_with_mutex), 0);
    ck_assert_quiet(run_apart(lock_while_a_child_exits), 3);
}

static int lock_in_deadlock(void)
{
    weft_spin_options options = {.is_daemon = true};
    weft_spin_with(hold_mutex, NULL, &options);
    weft_snooze();
    return weft_mutex_lock(&mutex) == -EDEADLK ? 7 : 1;
}

TEST(a_main_fiber_in_a_deadlock_gets_edeadlk)
{
    const outcome *o = run_apart(lock_in_deadlock);
    ck_assert_int_eq(o->status, 7);
    assert_printed(o, "a mutex");
}

static void run_deep_in_the_stack(void *arg)
{
    (void)arg;
    volatile char frame[2048]; /* overwrites the frame of the function that has returned */
    for (size_t i = 0; i < sizeof frame; i++)
        frame[i] = 0x5a;
}

static weft_value end_with_a_mutex_of_its_frame(void *arg)
{
    weft_mutex own = {{0}};
    weft_rwlock other = {{0}};
    weft_defer(run_deep_in_the_stack, NULL);
    return weft_mutex_lock(&own) == 0 && weft_rwlock_write(&other) == 0 ? (weft_value)arg : 1;
}

/* P54 */
TEST(a_lock_without_waiters_may_be_on_the_stack_frame_of_its_holder)
{
    ck_assert_int_eq(weft_await(weft_spin(end_with_a_mutex_of_its_frame, (void *)42)), 42);
}

static weft_value lock_and_suspend(void *arg)
{
    int rc = weft_mutex_lock(arg);
    return rc < 0 ? rc : weft_suspend();
}

/* P54 */
TEST(a_mutex_broken_by_a_restart_stays_broken_for_the_next_fiber_of_the_record)
{
    weft_mutex own = {{0}};
    weft_fiber f = weft_spin(lock_and_suspend, &own);
    weft_snooze();
    ck_assert_uint_eq(weft_mutex_owner(&own), f);
    ck_assert_int_eq(weft_restart(f), 0);
    ck_assert_int_eq(weft_await(f), -EOWNERDEAD);
    ck_assert_int_eq(weft_await(weft_spin(lock_and_suspend, &own)), -EOWNERDEAD);
    ck_assert_uint_eq(weft_mutex_owner(&own), 0);
    ck_assert_int_eq(weft_mutex_unlock(&own), -EPERM);
}

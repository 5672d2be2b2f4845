/* Mutexes: who has one and in which order, what cuts a wait short, what a dead holder leaves. */
#include "support.h"

static weft_mutex mutex;

/* Marks its argument while it has the mutex. */
static weft_value lock_and_mark(void *arg)
{
    int rc = weft_mutex_lock(&mutex);
    if (rc < 0)
        return rc;
    ck_assert_uint_eq(weft_mutex_owner(&mutex), weft_self());
    mark(arg);
    return weft_mutex_unlock(&mutex);
}

/* Has the mutex until it is scheduled, with what it returns; or until its suspend fails. */
static weft_value hold(void *arg)
{
    (void)arg;
    int rc = weft_mutex_lock(&mutex);
    if (rc < 0)
        return rc;
    weft_value value = weft_suspend();
    ck_assert_int_eq(weft_mutex_unlock(&mutex), 0);
    return value;
}

/* Ends with the mutex when it is scheduled. */
static weft_value end_with_it(void *arg)
{
    (void)arg;
    int rc = weft_mutex_lock(&mutex);
    return rc < 0 ? rc : weft_suspend();
}

static weft_fiber spin_waiting(weft_fn *fn, void *arg)
{
    weft_fiber f = weft_spin(fn, arg);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    return f;
}

static void assert_is_free(void)
{
    ck_assert_uint_eq(weft_mutex_owner(&mutex), 0);
    ck_assert_int_eq(weft_mutex_try_lock(&mutex), 0);
    ck_assert_int_eq(weft_mutex_unlock(&mutex), 0);
}

START_TEST(a_free_mutex_is_taken_without_a_switch)
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
END_TEST

/* P54 */
START_TEST(those_who_wait_have_it_in_the_order_in_which_they_came)
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
    assert_is_free();
}
END_TEST

/* T65 */
START_TEST(whoever_unlocks_cannot_take_it_again_ahead_of_one_who_waits)
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
END_TEST

/* P54 */
START_TEST(locking_what_one_holds_is_refused)
{
    weft_mutex_lock(&mutex);
    ck_assert_int_eq(weft_mutex_lock(&mutex), -EDEADLK);
    ck_assert_int_eq(weft_mutex_try_lock(&mutex), -EDEADLK);
    ck_assert_int_eq(weft_mutex_unlock(&mutex), 0); /* it was taken once */
    assert_is_free();
}
END_TEST

static weft_value unlock(void *arg)
{
    (void)arg;
    int rc = weft_mutex_unlock(&mutex);
    ck_assert_any_words(-EPERM);
    return -rc;
}

START_TEST(only_the_holder_may_unlock)
{
    ck_assert_int_eq(weft_mutex_unlock(&mutex), -EPERM);
    weft_mutex_lock(&mutex);
    ck_assert_int_eq(weft_await(weft_spin(unlock, NULL)), EPERM);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), weft_self());
    ck_assert_int_eq(weft_mutex_unlock(&mutex), 0);
    ck_assert_int_eq(weft_mutex_unlock(&mutex), -EPERM);
}
END_TEST

/* P54 */
START_TEST(a_cancelled_waiter_leaves_the_queue)
{
    weft_mutex_lock(&mutex);
    weft_fiber f[] = {spin_waiting(lock_and_mark, "a"), spin_waiting(lock_and_mark, "b"),
                      spin_waiting(lock_and_mark, "c")};
    ck_assert_int_eq(weft_cancel(f[1]), 0);
    ck_assert_int_eq(weft_await(f[1]), -ECANCELED);
    weft_mutex_unlock(&mutex);
    ck_assert_int_eq(weft_await_all((weft_fiber[]){f[0], f[2]}, 2, NULL), 0);
    ck_assert_trail("ac");
    assert_is_free();
}
END_TEST

START_TEST(when_all_who_wait_are_cancelled_nobody_has_it)
{
    weft_mutex_lock(&mutex);
    for (int i = 0; i < 3; i++)
        spin_waiting(lock_and_mark, "x");
    ck_assert_int_eq(weft_terminate_children(1), 0);
    weft_mutex_unlock(&mutex);
    assert_is_free();
    ck_assert_trail("");
}
END_TEST

START_TEST(a_wait_that_is_timed_out_has_taken_nothing)
{
    weft_fiber f = spin_waiting(hold, NULL);
    int rc;
    WEFT_CANCEL_AFTER(0.001, rc) {
        ck_assert_int_eq(weft_mutex_lock(&mutex), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), f);
    ck_assert_int_eq(weft_mutex_unlock(&mutex), -EPERM);
    weft_schedule(f, 3);
    ck_assert_int_eq(weft_await(f), 3);
    assert_is_free();
}
END_TEST

/* T64 */
START_TEST(a_negative_timeout_is_refused_and_one_of_nothing_is_over_at_once)
{
    weft_fiber f = spin_waiting(hold, NULL);
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
END_TEST

START_TEST(a_cancelled_fiber_can_take_what_is_free)
{
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_snooze(), -ECANCELED);
        ck_assert_int_eq(weft_mutex_lock(&mutex), 0);
        ck_assert_int_eq(weft_mutex_unlock(&mutex), 0);
    }
}
END_TEST

/* Marks what became of it: it has the mutex or not, and it is cancelled or not. */
static weft_value lock_and_tell(void *arg)
{
    (void)arg;
    mark(weft_mutex_lock(&mutex) == 0 ? "has it," : "has it not,");
    ck_assert(weft_snooze() == -ECANCELED);
    mark(weft_mutex_unlock(&mutex) == 0 ? "lets go" : "holds nothing");
    return 0;
}

START_TEST(one_that_is_cancelled_after_the_hand_over_has_it)
{
    weft_mutex_lock(&mutex);
    weft_fiber f = spin_waiting(lock_and_tell, NULL);
    weft_fiber next = spin_waiting(hold, NULL);
    weft_mutex_unlock(&mutex);
    ck_assert_int_eq(weft_cancel(f), 0);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_trail("has it,lets go");
    ck_assert_uint_eq(weft_mutex_owner(&mutex), next);
}
END_TEST

START_TEST(one_that_is_cancelled_before_the_hand_over_has_nothing)
{
    weft_mutex_lock(&mutex);
    weft_fiber f = spin_waiting(lock_and_tell, NULL);
    weft_fiber next = spin_waiting(hold, NULL);
    ck_assert_int_eq(weft_cancel(f), 0);
    weft_mutex_unlock(&mutex);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), next);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_trail("has it not,holds nothing");
}
END_TEST

START_TEST(one_that_is_interrupted_returns_the_value_and_has_nothing)
{
    weft_mutex_lock(&mutex);
    weft_fiber f = spin_waiting(hold, NULL);
    weft_fiber g = spin_waiting(hold, NULL);
    ck_assert_int_eq(weft_interrupt(f, -EINTR), 0);
    weft_mutex_unlock(&mutex);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), g);
    ck_assert_int_eq(weft_interrupt(g, -EINTR), -EBUSY); /* it has it, and is on its way out */
    ck_assert_int_eq(weft_await(f), -EINTR);
    let_run();
    weft_schedule(g, 4);
    ck_assert_int_eq(weft_await(g), 4);
}
END_TEST

START_TEST(an_error_raised_in_one_who_waits_ends_its_wait)
{
    weft_mutex_lock(&mutex);
    weft_fiber f = spin_waiting(hold, NULL);
    weft_fiber g = spin_waiting(hold, NULL);
    ck_assert_int_eq(weft_raise(f, -EIO, "raised"), 0);
    ck_assert_int_eq(weft_await(f), -EIO);
    ck_assert_words(-EIO, "raised");
    weft_mutex_unlock(&mutex);
    ck_assert_int_eq(weft_raise(g, -EIO, "too late"), 0);
    ck_assert_int_eq(weft_await(g), -EIO); /* from its next call, and it has unlocked */
    ck_assert_words(-EIO, "too late");
    assert_is_free();
}
END_TEST

START_TEST(one_that_is_stopped_before_it_ever_ran_takes_nothing)
{
    weft_fiber f = weft_spin(hold, NULL);
    ck_assert_int_eq(weft_stop(f, 5), 0);
    ck_assert_int_eq(weft_await(f), 5);
    assert_is_free();
}
END_TEST

START_TEST(a_parked_fiber_is_handed_the_mutex_all_the_same)
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
END_TEST

static void assert_is_broken(void)
{
    ck_assert_int_eq(weft_mutex_lock(&mutex), -EOWNERDEAD);
    ck_assert_int_eq(weft_mutex_try_lock(&mutex), -EOWNERDEAD);
    ck_assert_int_eq(weft_mutex_unlock(&mutex), -EPERM);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), 0);
}

/* P54 */
START_TEST(a_holder_that_ends_breaks_the_mutex_for_all)
{
    weft_fiber f = spin_waiting(end_with_it, NULL);
    weft_fiber waiters[3];
    for (int i = 0; i < 3; i++)
        waiters[i] = spin_waiting(lock_and_mark, "x");
    weft_schedule(f, 0);
    ck_assert_int_eq(weft_await(f), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_await(waiters[i]), -EOWNERDEAD);
    ck_assert_trail("");
    assert_is_broken();
    assert_is_broken(); /* and it stays so */
    mutex = (weft_mutex){0};
    assert_is_free();
}
END_TEST

/* P54 */
START_TEST(a_holder_that_is_cancelled_breaks_it_unless_it_unlocks)
{
    weft_fiber f = spin_waiting(hold, NULL);
    weft_fiber g = spin_waiting(end_with_it, NULL);
    weft_cancel(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), g);
    weft_cancel(g);
    ck_assert_int_eq(weft_await(g), -ECANCELED);
    assert_is_broken();
}
END_TEST

START_TEST(a_holder_that_is_restarted_breaks_it_for_its_next_run_too)
{
    weft_fiber f = spin_waiting(end_with_it, NULL);
    weft_fiber waiter = spin_waiting(lock_and_mark, "x");
    ck_assert_int_eq(weft_restart(f), 0);
    ck_assert_int_eq(weft_await(waiter), -EOWNERDEAD);
    ck_assert_int_eq(weft_await(f), -EOWNERDEAD);
    assert_is_broken();
}
END_TEST

static void lock_it(void *arg)
{
    mark(weft_mutex_lock(arg) == 0 ? "L" : "-");
}

static void unlock_it(void *arg)
{
    mark(weft_mutex_unlock(arg) == 0 ? "U" : "-");
}

static weft_value lock_and_defer(void *arg)
{
    weft_defer(unlock_it, &mutex);
    weft_mutex_lock(&mutex);
    weft_suspend();
    return (weft_value)arg;
}

static weft_value defer_a_lock(void *arg)
{
    weft_defer(lock_it, &mutex);
    return (weft_value)arg;
}

START_TEST(clean_up_of_the_holder_may_unlock_it_and_take_it)
{
    weft_fiber f = spin_waiting(lock_and_defer, as_arg(1));
    weft_fiber waiter = spin_waiting(lock_and_mark, "w");
    weft_cancel(f);
    ck_assert_int_eq(weft_await(waiter), 0);
    ck_assert_int_eq(weft_await(weft_spin(defer_a_lock, as_arg(2))), 2);
    ck_assert_trail("UwL");
    assert_is_broken();
}
END_TEST

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

START_TEST(several_mutexes_are_held_and_let_go_in_any_order)
{
    weft_mutex m[3] = {{{0}}};
    ck_assert_int_eq(weft_await(weft_spin(lock_three, m)), 0);
    ck_assert_int_eq(weft_mutex_lock(&m[0]), 0);
    ck_assert_int_eq(weft_mutex_lock(&m[1]), -EOWNERDEAD);
    ck_assert_int_eq(weft_mutex_lock(&m[2]), -EOWNERDEAD);
    ck_assert_int_eq(weft_mutex_unlock(&m[0]), 0);
}
END_TEST

static weft_value lock_and_unlock(void *arg)
{
    (void)arg;
    return weft_mutex_lock(&mutex) + weft_mutex_unlock(&mutex);
}

START_TEST(a_fiber_in_the_place_of_an_old_holder_holds_nothing)
{
    ck_assert_int_eq(weft_await(weft_spin(lock_and_unlock, NULL)), 0);
    ck_assert_int_eq(weft_await(weft_spin(return_arg, NULL)), 0);
    assert_is_free();
    weft_fiber f = spin_waiting(end_with_it, NULL);
    weft_schedule(f, 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(weft_await(weft_spin(unlock, NULL)), EPERM);
}
END_TEST

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
    ck_assert_int_eq(weft_mutex_lock(&mutex), 0); /* once more: at the end of the queue */
    ck_assert_int_eq(entered++ % 1000, (intptr_t)arg);
    return weft_mutex_unlock(&mutex);
}

START_TEST(a_thousand_fibers_go_through_one_mutex_one_by_one)
{
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(weft_go(enter_in_order, as_arg(i)), 0);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(entered, 2000);
    assert_is_free();
}
END_TEST

/* Returns 0 in any case: it has dealt with what became of the mutex. */
static weft_value lock_quietly(void *arg)
{
    (void)arg;
    if (weft_mutex_lock(&mutex) == 0)
        weft_mutex_unlock(&mutex);
    return 0;
}

static int end_main_with_it(void)
{
    weft_mutex_lock(&mutex);
    weft_spin(lock_quietly, NULL);
    weft_snooze();
    return 0;
}

static weft_value exit_with_it(void *arg)
{
    (void)arg;
    weft_mutex_lock(&mutex);
    weft_snooze();
    exit_here(3);
    return 0;
}

static int wait_while_a_child_exits(void)
{
    weft_spin(exit_with_it, NULL);
    weft_spin(lock_quietly, NULL);
    weft_snooze();
    weft_mutex_lock(&mutex);
    return 0;
}

START_TEST(the_process_may_end_while_one_holds_it_and_others_wait)
{
    ck_assert_quiet(run_apart(end_main_with_it), 0);
    ck_assert_quiet(run_apart(wait_while_a_child_exits), 3);
}
END_TEST

static int wait_for_ever(void)
{
    weft_spin_options options = {.is_daemon = true};
    weft_spin_with(hold, NULL, &options);
    weft_snooze();
    return weft_mutex_lock(&mutex) == -EDEADLK ? 7 : 1;
}

START_TEST(a_main_fiber_that_would_wait_for_ever_is_told)
{
    const outcome *o = run_apart(wait_for_ever);
    ck_assert_int_eq(o->status, 7);
    assert_said(o, "a mutex");
}
END_TEST

static void run_deep_in_the_stack(void *arg)
{
    (void)arg;
    volatile char frame[2048]; /* over that of the function which has returned */
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
START_TEST(a_lock_that_nobody_waits_for_may_be_gone_with_the_function_that_held_it)
{
    ck_assert_int_eq(weft_await(weft_spin(end_with_a_mutex_of_its_frame, (void *)42)), 42);
}
END_TEST

static weft_value lock_and_suspend(void *arg)
{
    int rc = weft_mutex_lock(arg);
    return rc < 0 ? rc : weft_suspend();
}

/* P54 */
START_TEST(a_mutex_is_broken_by_a_restart_of_its_holder_and_for_the_next_fiber_of_the_record)
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
END_TEST

static const TTest *const *const tests[] = {
    &a_lock_that_nobody_waits_for_may_be_gone_with_the_function_that_held_it,
    &a_mutex_is_broken_by_a_restart_of_its_holder_and_for_the_next_fiber_of_the_record,
    &a_free_mutex_is_taken_without_a_switch,
    &those_who_wait_have_it_in_the_order_in_which_they_came,
    &whoever_unlocks_cannot_take_it_again_ahead_of_one_who_waits,
    &locking_what_one_holds_is_refused,
    &only_the_holder_may_unlock,
    &a_cancelled_waiter_leaves_the_queue,
    &when_all_who_wait_are_cancelled_nobody_has_it,
    &a_wait_that_is_timed_out_has_taken_nothing,
    &a_negative_timeout_is_refused_and_one_of_nothing_is_over_at_once,
    &a_cancelled_fiber_can_take_what_is_free,
    &one_that_is_cancelled_after_the_hand_over_has_it,
    &one_that_is_cancelled_before_the_hand_over_has_nothing,
    &one_that_is_interrupted_returns_the_value_and_has_nothing,
    &an_error_raised_in_one_who_waits_ends_its_wait,
    &one_that_is_stopped_before_it_ever_ran_takes_nothing,
    &a_parked_fiber_is_handed_the_mutex_all_the_same,
    &a_holder_that_ends_breaks_the_mutex_for_all,
    &a_holder_that_is_cancelled_breaks_it_unless_it_unlocks,
    &a_holder_that_is_restarted_breaks_it_for_its_next_run_too,
    &clean_up_of_the_holder_may_unlock_it_and_take_it,
    &several_mutexes_are_held_and_let_go_in_any_order,
    &a_fiber_in_the_place_of_an_old_holder_holds_nothing,
    &a_thousand_fibers_go_through_one_mutex_one_by_one,
    &the_process_may_end_while_one_holds_it_and_others_wait,
    &a_main_fiber_that_would_wait_for_ever_is_told,
};

int main(void)
{
    return run_suite("mutex", tests, COUNT_OF(tests));
}

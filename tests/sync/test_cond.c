/* Conditions: which waiters are woken, and that a waiter returns with its mutex. */
#include "support/suite.h"
#include "support/support.h"

static weft_mutex mutex;
static weft_cond cond;

/* Wait for a signal. Mark arg if signalled. Return the result of the wait. */
static weft_value wait_and_mark(void *arg)
{
    ck_assert_int_eq(weft_mutex_lock(&mutex), 0);
    int rc = weft_cond_wait(&cond, &mutex);
    if (rc == 0)
        mark(arg);
    if (rc == -EOWNERDEAD)
        ck_assert_uint_ne(weft_mutex_owner(&mutex), weft_self());
    else
        ck_assert_int_eq(weft_mutex_unlock(&mutex), 0); /* after any result */
    return rc;
}

/* Wait for a signal, then hold the mutex until scheduled. */
static weft_value wait_and_hold(void *arg)
{
    (void)arg;
    ck_assert_int_eq(weft_mutex_lock(&mutex), 0);
    int rc = weft_cond_wait(&cond, &mutex);
    if (rc < 0)
        return rc;
    weft_value value = weft_suspend();
    ck_assert_int_eq(weft_mutex_unlock(&mutex), 0);
    return value;
}

/* Hold the mutex until scheduled. End with the mutex if scheduled with 0. */
static weft_value hold_mutex(void *arg)
{
    (void)arg;
    ck_assert_int_eq(weft_mutex_lock(&mutex), 0);
    weft_value value = weft_suspend();
    if (value != 0)
        weft_mutex_unlock(&mutex);
    return value;
}

static void assert_mutex_is_free(void)
{
    ck_assert_int_eq(weft_mutex_try_lock(&mutex), 0);
    ck_assert_int_eq(weft_mutex_unlock(&mutex), 0);
}

/* T60 */
TEST(a_signal_without_waiters_is_not_remembered)
{
    ck_assert_int_eq(weft_cond_signal(&cond), 0);
    ck_assert_int_eq(weft_cond_broadcast(&cond), 0);
    weft_mutex_lock(&mutex);
    int rc;
    WEFT_CANCEL_AFTER(0.001, rc) {
        ck_assert_int_eq(weft_cond_wait(&cond, &mutex), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_int_eq(weft_mutex_unlock(&mutex), 0);
}

/* T58, T59, P55 */
TEST(a_signal_wakes_the_oldest_and_a_broadcast_the_rest_in_order)
{
    weft_spin(wait_and_mark, "a");
    weft_spin(wait_and_mark, "b");
    weft_spin(wait_and_mark, "c");
    weft_spin(wait_and_mark, "d");
    let_run();
    ck_assert_int_eq(weft_cond_signal(&cond), 1);
    let_run();
    ck_assert_trail("a");
    ck_assert_int_eq(weft_cond_broadcast(&cond), 3);
    ck_assert_int_eq(weft_cond_broadcast(&cond), 0); /* each waiter is woken once */
    let_run();
    ck_assert_trail("abcd");
    assert_mutex_is_free();
}

TEST(a_wait_releases_the_mutex_and_acquires_it_again)
{
    weft_fiber f = spin_waiting(wait_and_hold, NULL);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), 0);
    ck_assert_int_eq(weft_cond_signal(&cond), 1);
    ck_assert_uint_eq(weft_mutex_owner(&mutex),
                      f); /* handed over by the signal, because it was free */
    ck_assert_int_eq(weft_mutex_try_lock(&mutex), -EBUSY);
    let_run();
    weft_schedule(f, 3);
    ck_assert_int_eq(weft_await(f), 3);
    assert_mutex_is_free();
}

static weft_value lock_and_signal(void *arg)
{
    ck_assert_int_eq(weft_mutex_lock(&mutex), 0);
    mark(arg);
    ck_assert_int_eq(weft_cond_signal(&cond), 1);
    return weft_mutex_unlock(&mutex);
}

TEST(a_wait_hands_the_mutex_to_its_next_waiter)
{
    weft_mutex_lock(&mutex);
    spin_waiting(lock_and_signal, "s");
    ck_assert_int_eq(weft_cond_wait(&cond, &mutex), 0);
    ck_assert_trail("s");
    ck_assert_uint_eq(weft_mutex_owner(&mutex), weft_self());
}

TEST(a_waiter_signalled_while_the_mutex_is_held_is_not_woken_before_it_is_free)
{
    weft_fiber a = spin_waiting(wait_and_mark, "a");
    weft_fiber b = spin_waiting(wait_and_mark, "b");
    weft_mutex_lock(&mutex);
    ck_assert_int_eq(weft_cond_signal(&cond), 1);
    ck_assert_int_eq(weft_cond_signal(&cond), 1);
    ck_assert_int_eq(weft_cond_signal(&cond), 0);
    ck_assert_int_eq(weft_state_of(a), WEFT_WAITING);
    ck_assert_int_eq(weft_state_of(b), WEFT_WAITING);
    let_run();
    ck_assert_trail("");
    weft_mutex_unlock(&mutex);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), a);
    ck_assert_int_eq(weft_state_of(b), WEFT_WAITING);
    let_run();
    ck_assert_trail("ab");
    assert_mutex_is_free();
}

TEST(a_signalled_waiter_queues_behind_the_waiters_of_the_mutex)
{
    weft_fiber a = spin_waiting(wait_and_mark, "a");
    weft_mutex_lock(&mutex);
    weft_fiber f = spin_waiting(hold_mutex, NULL);
    ck_assert_int_eq(weft_cond_signal(&cond), 1);
    weft_mutex_unlock(&mutex);
    let_run();
    ck_assert_uint_eq(weft_mutex_owner(&mutex), f);
    ck_assert_int_eq(weft_state_of(a), WEFT_WAITING);
    weft_schedule(f, 1);
    ck_assert_int_eq(weft_await(a), 0);
}

/* T61 */
TEST(waiting_without_the_mutex_is_refused)
{
    ck_assert_int_eq(weft_cond_wait(&cond, &mutex), -EPERM);
    ck_assert_any_error(-EPERM);
    weft_fiber f = spin_waiting(hold_mutex, NULL);
    ck_assert_int_eq(weft_cond_wait(&cond, &mutex), -EPERM);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), f);
    weft_schedule(f, 1);
    ck_assert_int_eq(weft_await(f), 1);
}

/* T57, T40, T42 */
TEST(a_cancelled_fiber_is_refused_before_it_releases_the_mutex)
{
    weft_mutex_lock(&mutex);
    weft_fiber f = spin_waiting(hold_mutex, NULL);
    weft_spin(mark_and_return, "switched");
    int rc;
    WEFT_CANCEL_AFTER(0, rc) {
        ck_assert_int_eq(weft_cond_wait(&cond, &mutex), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    WEFT_CANCEL_AFTER(-1, rc) {
        mark("entered");
    }
    ck_assert_int_eq(rc, -EINVAL);
    ck_assert_trail("");
    ck_assert_uint_eq(weft_mutex_owner(&mutex), weft_self());
    ck_assert_int_eq(weft_cond_signal(&cond), 0); /* it never was in the wait queue */
    weft_mutex_unlock(&mutex);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), f);
}

/* P55 */
TEST(a_wait_that_times_out_returns_with_the_mutex)
{
    weft_mutex_lock(&mutex);
    int rc;
    WEFT_CANCEL_AFTER(0.001, rc) {
        ck_assert_int_eq(weft_cond_wait(&cond, &mutex), -ECANCELED);
        ck_assert_uint_eq(weft_mutex_owner(&mutex), weft_self());
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_int_eq(weft_cond_signal(&cond), 0);
    ck_assert_int_eq(weft_mutex_unlock(&mutex), 0);
}

/* P55, T42 */
TEST(a_cancelled_waiter_does_not_consume_the_signal)
{
    weft_fiber a = spin_waiting(wait_and_mark, "a");
    weft_fiber b = spin_waiting(wait_and_mark, "b");
    weft_cancel(a);
    ck_assert_int_eq(weft_cond_signal(&cond), 1);
    ck_assert_int_eq(weft_await(a), -ECANCELED);
    ck_assert_int_eq(weft_await(b), 0);
    ck_assert_trail("b");
    assert_mutex_is_free();
}

/* T62 */
TEST(a_waiter_cancelled_after_it_was_signalled_returns_as_signalled)
{
    weft_fiber a = spin_waiting(wait_and_mark, "a");
    weft_fiber b = spin_waiting(wait_and_mark, "b");
    ck_assert_int_eq(weft_cond_signal(&cond), 1);
    weft_cancel(a);
    ck_assert_int_eq(weft_await(a),
                     -ECANCELED); /* the value of a cancelled fiber, whatever it returned */
    ck_assert_trail("a");
    ck_assert_int_eq(weft_state_of(b), WEFT_WAITING);
    assert_mutex_is_free();
}

/* T62 */
TEST(a_waiter_cancelled_while_it_queues_for_the_mutex_returns_as_signalled)
{
    weft_fiber a = spin_waiting(wait_and_hold, NULL);
    weft_fiber b = spin_waiting(wait_and_mark, "b");
    weft_mutex_lock(&mutex);
    ck_assert_int_eq(weft_cond_broadcast(&cond), 2);
    weft_cancel(a);
    ck_assert_int_eq(weft_interrupt(b, -7), -EBUSY);
    ck_assert_int_eq(weft_raise(b, -EIO, "for its next call"), 0);
    let_run();
    ck_assert_int_eq(weft_state_of(a), WEFT_WAITING);
    ck_assert_int_eq(weft_state_of(b), WEFT_WAITING);
    weft_mutex_unlock(&mutex);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), a);
    ck_assert_int_eq(weft_await(a), -ECANCELED); /* its suspend failed, and it unlocked */
    ck_assert_int_eq(weft_await(b), 0);          /* it made no further call */
    ck_assert_trail("b");
    assert_mutex_is_free();
}

static weft_scope *waiters_scope;

static weft_value wait_in_a_scope(void *arg)
{
    weft_scope scope;
    ck_assert_int_eq(weft_scope_open(&scope, *(double *)arg), 0);
    waiters_scope = &scope;
    ck_assert_int_eq(weft_mutex_lock(&mutex), 0);
    int rc = weft_cond_wait(&cond, &mutex);
    ck_assert_int_eq(weft_mutex_unlock(&mutex), 0);
    weft_scope_close(&scope);
    return rc == 0 ? 0 : 1;
}

/* T62 */
TEST(a_signal_and_a_timeout_at_the_same_time_have_one_winner)
{
    for (int i = 0; i < 50; i++) {
        double wait_s = 0.0001;
        weft_fiber f = weft_spin(wait_in_a_scope, &wait_s);
        weft_sleep(wait_s);
        int woken = weft_cond_signal(&cond);
        ck_assert_int_eq(weft_await(f), woken == 1 ? 0 : 1);
        assert_mutex_is_free();
    }
}

/* T62 */
TEST(between_a_signal_and_a_cancelled_scope_the_first_wins)
{
    double wait_s = INFINITY;
    weft_fiber f = spin_waiting(wait_in_a_scope, &wait_s);
    ck_assert_int_eq(weft_cond_signal(&cond), 1);
    weft_scope_cancel(waiters_scope);
    ck_assert_int_eq(weft_await(f), 0);
    f = spin_waiting(wait_in_a_scope, &wait_s);
    weft_scope_cancel(waiters_scope);
    ck_assert_int_eq(weft_cond_signal(&cond), 0);
    ck_assert_int_eq(weft_await(f), 1);
    assert_mutex_is_free();
}

/* P55 */
TEST(a_waiter_cancelled_while_another_fiber_holds_the_mutex_waits_for_it)
{
    weft_fiber a = spin_waiting(wait_and_mark, "a");
    weft_mutex_lock(&mutex);
    weft_cancel(a);
    let_run();
    ck_assert_int_eq(weft_state_of(a), WEFT_WAITING);
    ck_assert_int_eq(weft_cancel(a),
                     0); /* a second cancel does not interrupt the wait for the mutex */
    ck_assert_int_eq(weft_interrupt(a, -7), -EBUSY);
    ck_assert_int_eq(weft_cond_signal(&cond), 0);
    let_run();
    ck_assert_int_eq(weft_state_of(a), WEFT_WAITING);
    weft_mutex_unlock(&mutex);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), a);
    ck_assert_int_eq(weft_await(a), -ECANCELED);
    ck_assert_trail("");
    assert_mutex_is_free();
}

TEST(an_interrupted_waiter_returns_the_value_and_has_the_mutex)
{
    weft_fiber a = spin_waiting(wait_and_mark, "a");
    weft_fiber b = spin_waiting(wait_and_mark, "b");
    ck_assert_int_eq(weft_interrupt(a, -7), 0);
    ck_assert_int_eq(weft_await(a), -7);
    weft_mutex_lock(&mutex);
    ck_assert_int_eq(weft_interrupt(b, -EINTR), 0);
    let_run();
    weft_mutex_unlock(&mutex);
    ck_assert_int_eq(weft_await(b), -EINTR);
    ck_assert_int_eq(weft_cond_signal(&cond), 0);
    ck_assert_trail("");
    assert_mutex_is_free();
}

TEST(an_error_raised_in_a_waiter_arrives_with_its_message_and_the_mutex)
{
    weft_fiber a = spin_waiting(wait_and_mark, "a");
    weft_mutex_lock(&mutex);
    ck_assert_int_eq(weft_raise(a, -EIO, "raised"), 0);
    let_run();
    ck_assert_int_eq(weft_raise(a, -EPIPE, "never delivered"), 0);
    weft_mutex_unlock(&mutex);
    ck_assert_int_eq(weft_await(a), -EIO);
    ck_assert_error(-EIO, "raised");
    ck_assert_int_eq(weft_cond_signal(&cond), 0);
    assert_mutex_is_free();
}

TEST(a_parked_fiber_is_signalled)
{
    weft_fiber a = spin_waiting(wait_and_mark, "a");
    weft_fiber b = spin_waiting(wait_and_mark, "b");
    weft_park(a);
    weft_mutex_lock(&mutex);
    ck_assert_int_eq(weft_cond_broadcast(&cond), 2);
    weft_mutex_unlock(&mutex);
    let_run();
    ck_assert_uint_eq(weft_mutex_owner(&mutex), a);
    ck_assert_trail("");
    weft_unpark(a);
    ck_assert_int_eq(weft_await(b), 0);
    ck_assert_trail("ab");
}

TEST(a_fiber_stopped_before_it_ran_does_not_wait)
{
    weft_fiber f = weft_spin(wait_and_mark, "x");
    weft_stop(f, 2);
    ck_assert_int_eq(weft_await(f), 2);
    ck_assert_int_eq(weft_cond_signal(&cond), 0);
}

static weft_mutex others[2];

static weft_value wait_with_own_mutex(void *arg)
{
    weft_mutex *own = arg;
    ck_assert_int_eq(weft_mutex_lock(own), 0);
    ck_assert_int_eq(weft_cond_wait(&cond, own), 0);
    mark(own == others ? "0" : "1");
    return weft_mutex_unlock(own);
}

TEST(each_waiter_returns_with_its_own_mutex)
{
    weft_fiber f = spin_waiting(wait_with_own_mutex, &others[0]);
    weft_fiber g = spin_waiting(wait_with_own_mutex, &others[1]);
    weft_spin(wait_and_mark, "m");
    let_run();
    weft_mutex_lock(&others[0]);
    ck_assert_int_eq(weft_cond_broadcast(&cond), 3);
    ck_assert_uint_eq(weft_mutex_owner(&others[0]), weft_self());
    ck_assert_uint_eq(weft_mutex_owner(&others[1]), g);
    let_run();
    ck_assert_trail("1m");
    weft_mutex_unlock(&others[0]);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_trail("1m0");
}

static weft_value wait_without_mutex(void *arg)
{
    int rc = weft_cond_wait(&cond, NULL);
    if (rc == 0)
        mark(arg);
    return rc;
}

TEST(a_wait_without_a_mutex_is_allowed)
{
    weft_fiber a = spin_waiting(wait_without_mutex, "a");
    weft_fiber b = spin_waiting(wait_without_mutex, "b");
    weft_spin(wait_without_mutex, "c");
    let_run();
    weft_cancel(a);
    ck_assert_int_eq(weft_await(a), -ECANCELED);
    ck_assert_int_eq(weft_cond_signal(&cond), 1);
    ck_assert_int_eq(weft_await(b), 0);
    ck_assert_int_eq(weft_cond_broadcast(&cond), 1);
    let_run();
    ck_assert_trail("bc");
}

TEST(waiters_queued_for_the_mutex_of_a_dead_holder_get_eownerdead)
{
    weft_fiber a = spin_waiting(wait_and_mark, "a");
    weft_fiber b = spin_waiting(wait_and_mark, "b");
    weft_fiber f = spin_waiting(hold_mutex, NULL);
    ck_assert_int_eq(weft_cond_signal(&cond), 1);
    weft_schedule(f, 0);
    ck_assert_int_eq(weft_await(f), 0);
    mutex = (weft_mutex){{0}}; /* a has not run yet, but its result is decided */
    ck_assert_int_eq(weft_await(a), -EOWNERDEAD);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), 0);
    ck_assert_int_eq(weft_cond_signal(&cond), 1);
    ck_assert_int_eq(weft_await(b), 0);
    ck_assert_trail("b");
}

TEST(signalled_waiters_get_eownerdead_if_the_holder_of_the_mutex_is_dead)
{
    weft_fiber a = spin_waiting(wait_and_mark, "a");
    weft_fiber b = spin_waiting(wait_and_mark, "b");
    weft_fiber c = spin_waiting(wait_and_mark, "c");
    weft_fiber f = spin_waiting(hold_mutex, NULL);
    weft_cancel(c); /* already in the wait queue of the mutex */
    let_run();
    weft_schedule(f, 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(weft_cond_signal(&cond), 1);
    ck_assert_int_eq(weft_await(a), -EOWNERDEAD);
    ck_assert_int_eq(weft_interrupt(b, -1), 0);
    ck_assert_int_eq(weft_await(b), -EOWNERDEAD);
    ck_assert_int_eq(weft_await(c), -ECANCELED);
    ck_assert_int_eq(weft_cond_wait(&cond, &mutex), -EOWNERDEAD);
    ck_assert_trail("");
}

/* A queue of at most ten items. */
static int stored, produced, consumed;
static weft_cond has_room;

static weft_value produce(void *arg)
{
    (void)arg;
    for (int i = 0; i < 100; i++) {
        weft_mutex_lock(&mutex);
        while (stored == 10)
            ck_assert_int_eq(weft_cond_wait(&has_room, &mutex), 0);
        stored++;
        produced++;
        weft_cond_signal(&cond);
        weft_mutex_unlock(&mutex);
    }
    return 0;
}

static weft_value consume(void *arg)
{
    (void)arg;
    for (int i = 0; i < 100; i++) {
        weft_mutex_lock(&mutex);
        while (stored == 0)
            ck_assert_int_eq(weft_cond_wait(&cond, &mutex), 0);
        stored--;
        consumed++;
        if (i % 10 == 0)
            weft_snooze(); /* while holding the mutex */
        weft_cond_signal(&has_room);
        weft_mutex_unlock(&mutex);
    }
    return 0;
}

TEST(no_signal_is_lost_between_many_producers_and_consumers)
{
    for (int i = 0; i < 50; i++) {
        ck_assert_int_eq(weft_go(consume, NULL), 0);
        ck_assert_int_eq(weft_go(produce, NULL), 0);
    }
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(produced, 5000);
    ck_assert_int_eq(consumed, 5000);
    assert_mutex_is_free();
}

/* Return 0 whatever the state of the mutex is. */
static weft_value wait_quietly(void *arg)
{
    (void)arg;
    weft_mutex_lock(&mutex);
    weft_cond_wait(&cond, &mutex);
    weft_mutex_unlock(&mutex);
    return 0;
}

static int end_main_with_the_mutex(void)
{
    weft_spin(wait_quietly, NULL);
    weft_spin(wait_quietly, NULL);
    weft_snooze();
    weft_mutex_lock(&mutex);
    weft_cond_signal(&cond);
    return 0;
}

static weft_value exit_with_the_mutex(void *arg)
{
    (void)arg;
    weft_mutex_lock(&mutex);
    weft_cond_signal(&cond);
    weft_snooze();
    exit_here(3);
    return 0;
}

static int wait_cond_while_a_child_exits(void)
{
    weft_mutex_lock(&mutex);
    weft_spin(exit_with_the_mutex, NULL);
    weft_cond_wait(&cond, &mutex);
    return 0;
}

TEST(main_may_end_with_a_mutex_for_which_others_queue)
{
    ck_assert_quiet(run_apart(end_main_with_the_mutex), 0);
}

TEST(a_fiber_may_exit_with_a_mutex_for_which_its_parent_queues)
{
    ck_assert_quiet(run_apart(wait_cond_while_a_child_exits), 3);
}

static weft_value signal_and_hold(void *arg)
{
    (void)arg;
    weft_mutex_lock(&mutex);
    weft_cond_signal(&cond);
    weft_suspend();
    return weft_mutex_unlock(&mutex);
}

static int wait_in_deadlock(void)
{
    weft_mutex_lock(&mutex);
    weft_fiber f = weft_spin(signal_and_hold, NULL);
    if (weft_cond_wait(&cond, &mutex) != -EDEADLK || weft_mutex_unlock(&mutex) != -EPERM)
        return 1;
    weft_schedule(f, 0); /* resolves the deadlock; main has left the wait queue */
    return weft_await(f) == 0 && weft_mutex_owner(&mutex) == 0 ? 7 : 2;
}

TEST(a_main_fiber_in_a_deadlock_gets_edeadlk_and_does_not_have_the_mutex)
{
    const outcome *o = run_apart(wait_in_deadlock);
    ck_assert_int_eq(o->status, 7);
    assert_printed(o, "the mutex of a condition variable");
}

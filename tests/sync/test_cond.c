/* Conditions: who is woken, and that whoever returns has its mutex. */
#include "support.h"

static weft_mutex mutex;
static weft_cond cond;

/* Marks its argument when it has been signalled; its value is what the wait returned. */
static weft_value wait_and_mark(void *arg)
{
    ck_assert_int_eq(weft_mutex_lock(&mutex), 0);
    int rc = weft_cond_wait(&cond, &mutex);
    if (rc == 0)
        mark(arg);
    if (rc == -EOWNERDEAD)
        ck_assert_uint_ne(weft_mutex_owner(&mutex), weft_self());
    else
        ck_assert_int_eq(weft_mutex_unlock(&mutex), 0); /* however it ended */
    return rc;
}

/* Is signalled, holds the mutex until it is scheduled. */
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

/* Has the mutex until it is scheduled, and ends with it if it is scheduled with 0. */
static weft_value hold(void *arg)
{
    (void)arg;
    ck_assert_int_eq(weft_mutex_lock(&mutex), 0);
    weft_value value = weft_suspend();
    if (value != 0)
        weft_mutex_unlock(&mutex);
    return value;
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
    ck_assert_int_eq(weft_mutex_try_lock(&mutex), 0);
    ck_assert_int_eq(weft_mutex_unlock(&mutex), 0);
}

/* T60 */
START_TEST(a_signal_without_anyone_who_waits_is_not_remembered)
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
END_TEST

/* T58, T59, P55 */
START_TEST(a_signal_wakes_the_oldest_and_a_broadcast_the_rest_in_order)
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
    ck_assert_int_eq(weft_cond_broadcast(&cond), 0); /* each of them once */
    let_run();
    ck_assert_trail("abcd");
    assert_is_free();
}
END_TEST

START_TEST(a_wait_lets_go_of_the_mutex_and_has_it_again_afterwards)
{
    weft_fiber f = spin_waiting(wait_and_hold, NULL);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), 0);
    ck_assert_int_eq(weft_cond_signal(&cond), 1);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), f); /* in the same step: it was free */
    ck_assert_int_eq(weft_mutex_try_lock(&mutex), -EBUSY);
    let_run();
    weft_schedule(f, 3);
    ck_assert_int_eq(weft_await(f), 3);
    assert_is_free();
}
END_TEST

static weft_value lock_and_signal(void *arg)
{
    ck_assert_int_eq(weft_mutex_lock(&mutex), 0);
    mark(arg);
    ck_assert_int_eq(weft_cond_signal(&cond), 1);
    return weft_mutex_unlock(&mutex);
}

START_TEST(a_wait_hands_the_mutex_to_the_next_who_wants_it)
{
    weft_mutex_lock(&mutex);
    spin_waiting(lock_and_signal, "s");
    ck_assert_int_eq(weft_cond_wait(&cond, &mutex), 0);
    ck_assert_trail("s");
    ck_assert_uint_eq(weft_mutex_owner(&mutex), weft_self());
}
END_TEST

START_TEST(who_is_signalled_while_the_mutex_is_held_is_not_woken_before_it_is_free)
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
    assert_is_free();
}
END_TEST

START_TEST(who_is_signalled_queues_behind_those_who_wait_for_the_mutex)
{
    weft_fiber a = spin_waiting(wait_and_mark, "a");
    weft_mutex_lock(&mutex);
    weft_fiber f = spin_waiting(hold, NULL);
    ck_assert_int_eq(weft_cond_signal(&cond), 1);
    weft_mutex_unlock(&mutex);
    let_run();
    ck_assert_uint_eq(weft_mutex_owner(&mutex), f);
    ck_assert_int_eq(weft_state_of(a), WEFT_WAITING);
    weft_schedule(f, 1);
    ck_assert_int_eq(weft_await(a), 0);
}
END_TEST

/* T61 */
START_TEST(waiting_without_the_mutex_is_refused)
{
    ck_assert_int_eq(weft_cond_wait(&cond, &mutex), -EPERM);
    ck_assert_any_words(-EPERM);
    weft_fiber f = spin_waiting(hold, NULL);
    ck_assert_int_eq(weft_cond_wait(&cond, &mutex), -EPERM);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), f);
    weft_schedule(f, 1);
    ck_assert_int_eq(weft_await(f), 1);
}
END_TEST

/* T57, T40, T42 */
START_TEST(a_cancelled_fiber_is_refused_before_it_lets_go_of_the_mutex)
{
    weft_mutex_lock(&mutex);
    weft_fiber f = spin_waiting(hold, NULL);
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
    ck_assert_int_eq(weft_cond_signal(&cond), 0); /* it never was in line */
    weft_mutex_unlock(&mutex);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), f);
}
END_TEST

/* P55 */
START_TEST(a_wait_whose_time_is_over_has_the_mutex_again)
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
END_TEST

/* P55, T42 */
START_TEST(a_cancelled_waiter_does_not_consume_the_signal)
{
    weft_fiber a = spin_waiting(wait_and_mark, "a");
    weft_fiber b = spin_waiting(wait_and_mark, "b");
    weft_cancel(a);
    ck_assert_int_eq(weft_cond_signal(&cond), 1);
    ck_assert_int_eq(weft_await(a), -ECANCELED);
    ck_assert_int_eq(weft_await(b), 0);
    ck_assert_trail("b");
    assert_is_free();
}
END_TEST

/* T62 */
START_TEST(one_that_is_cancelled_after_it_was_signalled_returns_as_signalled)
{
    weft_fiber a = spin_waiting(wait_and_mark, "a");
    weft_fiber b = spin_waiting(wait_and_mark, "b");
    ck_assert_int_eq(weft_cond_signal(&cond), 1);
    weft_cancel(a);
    ck_assert_int_eq(weft_await(a), -ECANCELED); /* its value, whatever it returned */
    ck_assert_trail("a");
    ck_assert_int_eq(weft_state_of(b), WEFT_WAITING);
    assert_is_free();
}
END_TEST

/* T62 */
START_TEST(one_that_is_cancelled_while_it_queues_for_the_mutex_returns_as_signalled)
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
    ck_assert_int_eq(weft_await(b), 0);          /* there was no next call */
    ck_assert_trail("b");
    assert_is_free();
}
END_TEST

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
START_TEST(a_signal_and_a_timeout_at_the_same_time_have_one_winner)
{
    for (int i = 0; i < 50; i++) {
        double wait_s = 0.0001;
        weft_fiber f = weft_spin(wait_in_a_scope, &wait_s);
        weft_sleep(wait_s);
        int woken = weft_cond_signal(&cond);
        ck_assert_int_eq(weft_await(f), woken == 1 ? 0 : 1);
        assert_is_free();
    }
}
END_TEST

/* T62 */
START_TEST(between_a_signal_and_a_cancelled_scope_the_first_wins)
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
    assert_is_free();
}
END_TEST

/* P55 */
START_TEST(one_that_is_cancelled_while_another_holds_the_mutex_waits_for_it)
{
    weft_fiber a = spin_waiting(wait_and_mark, "a");
    weft_mutex_lock(&mutex);
    weft_cancel(a);
    let_run();
    ck_assert_int_eq(weft_state_of(a), WEFT_WAITING);
    ck_assert_int_eq(weft_cancel(a), 0); /* once more: nothing cuts it short */
    ck_assert_int_eq(weft_interrupt(a, -7), -EBUSY);
    ck_assert_int_eq(weft_cond_signal(&cond), 0);
    let_run();
    ck_assert_int_eq(weft_state_of(a), WEFT_WAITING);
    weft_mutex_unlock(&mutex);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), a);
    ck_assert_int_eq(weft_await(a), -ECANCELED);
    ck_assert_trail("");
    assert_is_free();
}
END_TEST

START_TEST(one_that_is_interrupted_returns_the_value_and_has_the_mutex)
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
    assert_is_free();
}
END_TEST

START_TEST(an_error_raised_in_one_who_waits_comes_with_its_words_and_the_mutex)
{
    weft_fiber a = spin_waiting(wait_and_mark, "a");
    weft_mutex_lock(&mutex);
    ck_assert_int_eq(weft_raise(a, -EIO, "raised"), 0);
    let_run();
    ck_assert_int_eq(weft_raise(a, -EPIPE, "never delivered"), 0);
    weft_mutex_unlock(&mutex);
    ck_assert_int_eq(weft_await(a), -EIO);
    ck_assert_words(-EIO, "raised");
    ck_assert_int_eq(weft_cond_signal(&cond), 0);
    assert_is_free();
}
END_TEST

START_TEST(a_parked_fiber_is_signalled_all_the_same)
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
END_TEST

START_TEST(one_that_is_stopped_before_it_ever_ran_does_not_wait)
{
    weft_fiber f = weft_spin(wait_and_mark, "x");
    weft_stop(f, 2);
    ck_assert_int_eq(weft_await(f), 2);
    ck_assert_int_eq(weft_cond_signal(&cond), 0);
}
END_TEST

static weft_mutex others[2];

static weft_value wait_with_another(void *arg)
{
    weft_mutex *own = arg;
    ck_assert_int_eq(weft_mutex_lock(own), 0);
    ck_assert_int_eq(weft_cond_wait(&cond, own), 0);
    mark(own == others ? "0" : "1");
    return weft_mutex_unlock(own);
}

START_TEST(each_who_waits_has_its_own_mutex_again)
{
    weft_fiber f = spin_waiting(wait_with_another, &others[0]);
    weft_fiber g = spin_waiting(wait_with_another, &others[1]);
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
END_TEST

static weft_value wait_without(void *arg)
{
    int rc = weft_cond_wait(&cond, NULL);
    if (rc == 0)
        mark(arg);
    return rc;
}

START_TEST(a_wait_needs_no_mutex)
{
    weft_fiber a = spin_waiting(wait_without, "a");
    weft_fiber b = spin_waiting(wait_without, "b");
    weft_spin(wait_without, "c");
    let_run();
    weft_cancel(a);
    ck_assert_int_eq(weft_await(a), -ECANCELED);
    ck_assert_int_eq(weft_cond_signal(&cond), 1);
    ck_assert_int_eq(weft_await(b), 0);
    ck_assert_int_eq(weft_cond_broadcast(&cond), 1);
    let_run();
    ck_assert_trail("bc");
}
END_TEST

START_TEST(a_dead_holder_is_told_to_those_who_queue_for_its_mutex)
{
    weft_fiber a = spin_waiting(wait_and_mark, "a");
    weft_fiber b = spin_waiting(wait_and_mark, "b");
    weft_fiber f = spin_waiting(hold, NULL);
    ck_assert_int_eq(weft_cond_signal(&cond), 1);
    weft_schedule(f, 0);
    ck_assert_int_eq(weft_await(f), 0);
    mutex = (weft_mutex){{0}}; /* before a has run: it does not have it, all the same */
    ck_assert_int_eq(weft_await(a), -EOWNERDEAD);
    ck_assert_uint_eq(weft_mutex_owner(&mutex), 0);
    ck_assert_int_eq(weft_cond_signal(&cond), 1);
    ck_assert_int_eq(weft_await(b), 0);
    ck_assert_trail("b");
}
END_TEST

START_TEST(a_dead_holder_is_told_to_those_who_wait_for_a_signal_when_they_want_the_mutex)
{
    weft_fiber a = spin_waiting(wait_and_mark, "a");
    weft_fiber b = spin_waiting(wait_and_mark, "b");
    weft_fiber c = spin_waiting(wait_and_mark, "c");
    weft_fiber f = spin_waiting(hold, NULL);
    weft_cancel(c); /* it queues already */
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
END_TEST

/* A queue of at most ten. */
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
            weft_snooze(); /* with the mutex */
        weft_cond_signal(&has_room);
        weft_mutex_unlock(&mutex);
    }
    return 0;
}

START_TEST(no_signal_is_lost_between_many_producers_and_consumers)
{
    for (int i = 0; i < 50; i++) {
        ck_assert_int_eq(weft_go(consume, NULL), 0);
        ck_assert_int_eq(weft_go(produce, NULL), 0);
    }
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(produced, 5000);
    ck_assert_int_eq(consumed, 5000);
    assert_is_free();
}
END_TEST

/* Returns 0 in any case: it has dealt with what became of the mutex. */
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

static int wait_while_a_child_exits(void)
{
    weft_mutex_lock(&mutex);
    weft_spin(exit_with_the_mutex, NULL);
    weft_cond_wait(&cond, &mutex);
    return 0;
}

START_TEST(main_may_end_with_the_mutex_for_which_others_queue)
{
    ck_assert_quiet(run_apart(end_main_with_the_mutex), 0);
}
END_TEST

START_TEST(a_fiber_may_exit_with_the_mutex_for_which_its_parent_queues)
{
    ck_assert_quiet(run_apart(wait_while_a_child_exits), 3);
}
END_TEST

static weft_value signal_and_keep(void *arg)
{
    (void)arg;
    weft_mutex_lock(&mutex);
    weft_cond_signal(&cond);
    weft_suspend();
    return weft_mutex_unlock(&mutex);
}

static int queue_for_ever(void)
{
    weft_mutex_lock(&mutex);
    weft_fiber f = weft_spin(signal_and_keep, NULL);
    if (weft_cond_wait(&cond, &mutex) != -EDEADLK || weft_mutex_unlock(&mutex) != -EPERM)
        return 1;
    weft_schedule(f, 0); /* for ever was too much said; but main is out of the queue */
    return weft_await(f) == 0 && weft_mutex_owner(&mutex) == 0 ? 7 : 2;
}

START_TEST(a_main_fiber_that_would_queue_for_ever_is_told_and_goes_without_the_mutex)
{
    const outcome *o = run_apart(queue_for_ever);
    ck_assert_int_eq(o->status, 7);
    assert_said(o, "its mutex");
}
END_TEST

static const TTest *const *const tests[] = {
    &a_signal_without_anyone_who_waits_is_not_remembered,
    &a_signal_wakes_the_oldest_and_a_broadcast_the_rest_in_order,
    &a_wait_lets_go_of_the_mutex_and_has_it_again_afterwards,
    &a_wait_hands_the_mutex_to_the_next_who_wants_it,
    &who_is_signalled_while_the_mutex_is_held_is_not_woken_before_it_is_free,
    &who_is_signalled_queues_behind_those_who_wait_for_the_mutex,
    &waiting_without_the_mutex_is_refused,
    &a_cancelled_fiber_is_refused_before_it_lets_go_of_the_mutex,
    &a_wait_whose_time_is_over_has_the_mutex_again,
    &a_cancelled_waiter_does_not_consume_the_signal,
    &one_that_is_cancelled_after_it_was_signalled_returns_as_signalled,
    &one_that_is_cancelled_while_it_queues_for_the_mutex_returns_as_signalled,
    &a_signal_and_a_timeout_at_the_same_time_have_one_winner,
    &between_a_signal_and_a_cancelled_scope_the_first_wins,
    &one_that_is_cancelled_while_another_holds_the_mutex_waits_for_it,
    &one_that_is_interrupted_returns_the_value_and_has_the_mutex,
    &an_error_raised_in_one_who_waits_comes_with_its_words_and_the_mutex,
    &a_parked_fiber_is_signalled_all_the_same,
    &one_that_is_stopped_before_it_ever_ran_does_not_wait,
    &each_who_waits_has_its_own_mutex_again,
    &a_wait_needs_no_mutex,
    &a_dead_holder_is_told_to_those_who_queue_for_its_mutex,
    &a_dead_holder_is_told_to_those_who_wait_for_a_signal_when_they_want_the_mutex,
    &no_signal_is_lost_between_many_producers_and_consumers,
    &main_may_end_with_the_mutex_for_which_others_queue,
    &a_fiber_may_exit_with_the_mutex_for_which_its_parent_queues,
    &a_main_fiber_that_would_queue_for_ever_is_told_and_goes_without_the_mutex,
};

int main(void)
{
    return run_suite("cond", tests, COUNT_OF(tests));
}

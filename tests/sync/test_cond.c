/* Conditions: which waiters are woken, and that a waiter returns with its mutex. */
#include "support/suite.h"
#include "sync/steps.h"

static weft_mutex mutex;
static weft_cond cond;

STEP(lock, weft_mutex_lock(&mutex))
STEP(unlock, weft_mutex_unlock(&mutex))
STEP(owner, actor_of(weft_mutex_owner(&mutex)))
STEP(wait_locked, weft_cond_wait(&cond, &mutex))
STEP(signal_one, weft_cond_signal(&cond))
STEP(broadcast, weft_cond_broadcast(&cond))

static weft_value lock_and_wait(weft_value arg)
{
    ck_assert_int_eq(weft_mutex_lock(&mutex), 0);
    return wait_locked(arg);
}

static void assert_mutex_is_free(void)
{
    ck_assert_int_eq(weft_mutex_try_lock(&mutex), 0);
    ck_assert_int_eq(weft_mutex_unlock(&mutex), 0);
}

TEST(a_signal_wakes_the_oldest_and_a_broadcast_the_rest_in_order)
{ /* T58, T59, P55 */
    play({A, lock_and_wait, WAITS}, {B, lock_and_wait, WAITS}, {C, lock_and_wait, WAITS},
         {D, lock_and_wait, WAITS}, {M, signal_one, 1}, {A, returns, 0}, {A, unlock},
         {B, returns, WAITS}, {M, broadcast, 3}, {M, broadcast, 0}, {B, returns, 0},
         {C, returns, WAITS}, {B, unlock}, {C, returns, 0}, {C, unlock}, {D, returns, 0},
         {D, unlock});
    assert_mutex_is_free();
}

TEST(a_wait_releases_the_mutex_and_a_signal_hands_it_back)
{
    play({A, lock_and_wait, WAITS}, {M, owner, NOBODY}, {M, signal_one, 1}, {M, owner, A},
         {A, returns, 0}, {B, lock, WAITS}, {A, wait_locked, WAITS}, {B, returns, 0}, {M, owner, B},
         {B, signal_one, 1}, {A, returns, WAITS}, {B, unlock}, {A, returns, 0}, {A, unlock});
    assert_mutex_is_free();
}

TEST(a_waiter_signalled_while_the_mutex_is_held_is_not_woken_before_it_is_free)
{
    play({A, lock_and_wait, WAITS}, {B, lock_and_wait, WAITS}, {M, lock}, {M, signal_one, 1},
         {M, signal_one, 1}, {M, signal_one, 0}, {A, returns, WAITS}, {B, returns, WAITS},
         {M, unlock}, {M, owner, A}, {A, returns, 0}, {B, returns, WAITS}, {A, unlock},
         {B, returns, 0}, {B, unlock});
    assert_mutex_is_free();
}

TEST(a_signalled_waiter_queues_behind_the_waiters_of_the_mutex)
{
    play({A, lock_and_wait, WAITS}, {M, lock}, {B, lock, WAITS}, {M, signal_one, 1}, {M, unlock},
         {B, returns, 0}, {M, owner, B}, {A, returns, WAITS}, {B, unlock}, {A, returns, 0});
}

TEST(waiting_without_the_mutex_is_refused)
{ /* T61 */
    play({M, wait_locked, -EPERM});
    ck_assert_any_error(-EPERM);
    play({A, lock}, {M, wait_locked, -EPERM}, {M, owner, A});
}

TEST(a_parked_fiber_is_signalled)
{
    play({A, lock_and_wait, WAITS}, {B, lock_and_wait, WAITS}, {M, park, 0, A}, {M, lock},
         {M, broadcast, 2}, {M, unlock}, {A, returns, WAITS}, {M, owner, A}, {M, unpark, 0, A},
         {A, returns, 0}, {A, unlock}, {B, returns, 0});
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
    play({A, lock_and_wait, WAITS});
    weft_mutex_lock(&others[0]);
    ck_assert_int_eq(weft_cond_broadcast(&cond), 3);
    ck_assert_uint_eq(weft_mutex_owner(&others[0]), weft_self());
    ck_assert_uint_eq(weft_mutex_owner(&others[1]), g);
    play({A, returns, 0});
    ck_assert_trail("1");
    weft_mutex_unlock(&others[0]);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_trail("10");
}

TEST(waiters_queued_for_the_mutex_of_a_dead_holder_get_eownerdead)
{
    play({A, lock_and_wait, WAITS}, {B, lock_and_wait, WAITS}, {C, lock}, {M, signal_one, 1},
         {C, ends}, {A, returns, -EOWNERDEAD}, {A, unlock, -EPERM});
    mutex = (weft_mutex){{0}};
    play({M, owner, NOBODY}, {M, signal_one, 1}, {B, returns, 0});
}

TEST(signalled_waiters_get_eownerdead_if_the_holder_of_the_mutex_is_dead)
{
    play({A, lock_and_wait, WAITS}, {B, lock_and_wait, WAITS}, {C, lock_and_wait, WAITS}, {D, lock},
         {M, cancel, 0, C}, {C, returns, WAITS}, {D, ends}, {M, signal_one, 1},
         {A, returns, -EOWNERDEAD}, {M, interrupt, 0, B}, {B, returns, -EOWNERDEAD},
         {C, returns, -EOWNERDEAD}, {M, wait_locked, -EOWNERDEAD});
}

/* Return 0 whatever the state of the mutex is. */
static weft_value wait_quietly(void *arg)
{
    weft_mutex_lock(&mutex);
    weft_cond_wait(&cond, &mutex);
    weft_mutex_unlock(&mutex);
    return 0;
}

TEST_PROGRAM(main_may_end_with_a_mutex_for_which_others_queue, 0, "")
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
    weft_mutex_lock(&mutex);
    weft_cond_signal(&cond);
    weft_snooze();
    exit_here(3);
    return 0;
}

TEST_PROGRAM(a_fiber_may_exit_with_a_mutex_for_which_its_parent_queues, 3, "")
{
    weft_mutex_lock(&mutex);
    weft_spin(exit_with_the_mutex, NULL);
    weft_cond_wait(&cond, &mutex);
    return 0;
}

static weft_value signal_and_hold(void *arg)
{
    weft_mutex_lock(&mutex);
    weft_cond_signal(&cond);
    weft_suspend();
    return weft_mutex_unlock(&mutex);
}

TEST_PROGRAM_PRINTS(a_main_fiber_in_a_deadlock_gets_edeadlk_and_does_not_have_the_mutex, 7,
                    "the mutex of a condition variable")
{
    weft_mutex_lock(&mutex);
    weft_fiber f = weft_spin(signal_and_hold, NULL);
    if (weft_cond_wait(&cond, &mutex) != -EDEADLK || weft_mutex_unlock(&mutex) != -EPERM)
        return 1;
    weft_schedule(f, 0); /* resolves the deadlock; main has left the wait queue */
    return weft_await(f) == 0 && weft_mutex_owner(&mutex) == 0 ? 7 : 2;
}

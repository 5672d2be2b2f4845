/* Mutexes: ownership and order, cancelled and interrupted waiters, and holders that end. */
#include "support/suite.h"
#include "sync/steps.h"

static weft_mutex mutex;

STEP(lock, weft_mutex_lock(&mutex))
STEP(try_lock, weft_mutex_try_lock(&mutex))
STEP(unlock, weft_mutex_unlock(&mutex))
STEP(owner, actor_of(weft_mutex_owner(&mutex)))

/* Lock and suspend. End with the mutex. */
FIBER_DO(end_with_mutex, int rc = weft_mutex_lock(&mutex), rc < 0 ? rc : weft_suspend())

static void assert_mutex_is_free(void)
{
    play({M, owner, NOBODY}, {M, try_lock}, {M, unlock});
}

static void assert_mutex_is_broken(void)
{
    play({M, lock, -EOWNERDEAD}, {M, try_lock, -EOWNERDEAD}, {M, unlock, -EPERM},
         {M, owner, NOBODY});
}

TEST(waiters_get_the_mutex_in_fifo_order_ahead_of_the_fiber_that_unlocks)
{ /* P54, T65 */
    play({M, lock}, {A, lock, WAITS}, {B, lock, WAITS}, {C, lock, WAITS}, {M, unlock},
         {M, owner, A}, {M, try_lock, -EBUSY}, {A, returns, 0}, {A, unlock}, {M, owner, B},
         {A, lock, WAITS}, {B, returns, 0}, {C, returns, WAITS}, {B, unlock}, {C, returns, 0},
         {C, unlock}, {A, returns, 0}, {A, unlock});
    assert_mutex_is_free();
}

TEST(only_the_holder_may_unlock)
{
    play({M, unlock, -EPERM});
    ck_assert_any_error(-EPERM);
    play({M, lock}, {A, unlock, -EPERM}, {M, owner, M}, {M, unlock}, {M, unlock, -EPERM});
}

TEST(a_parked_fiber_is_handed_the_mutex)
{
    play({M, lock}, {A, lock, WAITS}, {B, lock, WAITS}, {M, park, 0, A}, {M, unlock}, {M, run},
         {M, owner, A}, {A, returns, WAITS}, {B, returns, WAITS}, {M, unpark, 0, A},
         {A, returns, 0}, {A, unlock}, {B, returns, 0});
}

TEST(a_holder_that_ends_breaks_the_mutex_for_all_waiters)
{ /* P54 */
    play({A, lock}, {B, lock, WAITS}, {C, lock, WAITS}, {D, lock, WAITS}, {A, ends},
         {B, returns, -EOWNERDEAD}, {C, returns, -EOWNERDEAD}, {D, returns, -EOWNERDEAD});
    assert_mutex_is_broken();
    assert_mutex_is_broken(); /* and stays broken */
    mutex = (weft_mutex){0};
    assert_mutex_is_free();
}

TEST(a_restarted_holder_breaks_the_mutex_for_its_next_run_and_the_next_fiber_of_its_record)
{ /* P54 */
    weft_fiber f = spin_waiting(end_with_mutex, NULL);
    play({A, lock, WAITS});
    ck_assert_int_eq(weft_restart(f), 0);
    play({A, returns, -EOWNERDEAD});
    ck_assert_int_eq(weft_await(f), -EOWNERDEAD);
    ck_assert_int_eq(weft_await(weft_spin(end_with_mutex, NULL)), -EOWNERDEAD);
    assert_mutex_is_broken();
}

CALLBACK(lock_arg, mark(weft_mutex_lock(arg) == 0 ? "L" : "-"))
CALLBACK(unlock_arg, mark(weft_mutex_unlock(arg) == 0 ? "U" : "-"))

static weft_value lock_and_defer(void *arg)
{
    weft_defer(unlock_arg, &mutex);
    weft_mutex_lock(&mutex);
    weft_suspend();
    return (weft_value)arg;
}

FIBER_DO(defer_a_lock, weft_defer(lock_arg, &mutex), arg)

TEST(deferred_functions_of_the_holder_may_unlock_and_lock_the_mutex)
{
    weft_fiber f = spin_waiting(lock_and_defer, as_arg(1));
    play({A, lock, WAITS});
    weft_cancel(f);
    play({A, returns, 0}, {A, unlock});
    ck_assert_int_eq(weft_await(weft_spin(defer_a_lock, as_arg(2))), 2);
    ck_assert_trail("UL");
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

FIBER(lock_and_unlock, weft_mutex_lock(&mutex) + weft_mutex_unlock(&mutex))

TEST(a_fiber_that_reuses_the_record_of_a_holder_holds_nothing)
{
    ck_assert_int_eq(weft_await(weft_spin(lock_and_unlock, NULL)), 0);
    ck_assert_int_eq(weft_await(weft_spin(return_arg, NULL)), 0);
    assert_mutex_is_free();
    play({A, lock}, {A, ends}, {B, unlock, -EPERM});
}

/* Return 0 whatever the state of the mutex is. */
static weft_value lock_quietly(void *arg)
{
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

TEST_PROGRAM_PRINTS(a_main_fiber_in_a_deadlock_gets_edeadlk, 7, "a mutex")
{
    weft_spin_options options = {.is_daemon = true};
    weft_spin_with(end_with_mutex, NULL, &options);
    weft_snooze();
    return weft_mutex_lock(&mutex) == -EDEADLK ? 7 : 1;
}

static void run_deep_in_the_stack(void *arg)
{
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

TEST(a_lock_without_waiters_may_be_on_the_stack_frame_of_its_holder)
{ /* P54 */
    ck_assert_int_eq(weft_await(weft_spin(end_with_a_mutex_of_its_frame, (void *)42)), 42);
}

/* Locks in the fibers of one thread: order, types of mutexes, limits of time, conditions. */
#include "posix/lock_support.h"

#include <syslog.h>

FIXTURE(adopt_and_start, NULL)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static weft_value lock_and_mark(void *arg)
{
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    mark(arg);
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    return 0;
}

TEST(waiting_fibers_get_a_mutex_in_the_order_of_their_calls)
{
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    weft_spin(lock_and_mark, (void *)"a");
    weft_spin(lock_and_mark, (void *)"b");
    weft_spin(lock_and_mark, (void *)"c");
    let_run();
    ck_assert_trail("");
    ck_assert_uint_eq(posix_stats().lock_waits, 3);
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    await_all();
    ck_assert_trail("abc");
    ck_assert_int_eq(pthread_mutex_trylock(&mutex), 0);
}

#ifndef __SANITIZE_THREAD__
TEST(an_unlock_passes_the_mutex_to_the_first_waiter)
{
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    spin_waiting(lock_and_mark, (void *)"a");
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    ck_assert_int_eq(pthread_mutex_trylock(&mutex), EBUSY);
    await_all();
    ck_assert_trail("a");
    ck_assert_uint_eq(posix_stats().handovers, 1);
}
#endif

TEST(a_free_lock_does_not_switch)
{
    uint64_t before = stats().switches;
    weft_spin(mark_and_return, (void *)"x");
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    ck_assert_trail("");
    ck_assert_uint_eq(stats().switches, before);
    ck_assert_uint_eq(posix_stats().lock_waits, 0);
    await_all();
}

/* TSan needs milliseconds to create a fiber. */
#ifdef __SANITIZE_THREAD__
#define WAITERS 1000
#else
#define WAITERS MANY_FIBERS
#endif

static weft_value lock_many(void *arg)
{
    int *count = arg;
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    section_enter();
    if (++*count % 100 == 0)
        weft_snooze();
    section_leave();
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    return 0;
}

TEST(many_fibers_wait_for_one_mutex)
{
    int count = 0;
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    for (int i = 0; i < WAITERS; i++)
        ck_assert_uint_ne(weft_spin(lock_many, &count), 0);
    let_run();
    ck_assert_int_eq(count, 0);
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    await_all();
    ck_assert_int_eq(count, WAITERS);
    ck_assert_int_eq(overlaps, 0);
}

/*
 * Mutexes that know their owner.
 */

static weft_value use_as_other_fiber(void *arg)
{
    ck_assert_int_eq(pthread_mutex_trylock(&mutex), EBUSY);
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), EPERM);
    mark("w");
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    ck_assert_uint_eq(weft_posix_owner(&mutex), weft_self());
    mark("l");
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    return 0;
}

TEST(a_recursive_mutex_is_free_for_others_after_the_last_unlock)
{
    mutex = mutex_of_type(PTHREAD_MUTEX_RECURSIVE);
    ck_assert_uint_eq(weft_posix_owner(&mutex), 0);
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    ck_assert_int_eq(pthread_mutex_trylock(&mutex), 0);
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    ck_assert_uint_eq(weft_posix_owner(&mutex), weft_self());
    spin_waiting(use_as_other_fiber, NULL);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
        let_run();
        ck_assert_trail("w");
    }
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), EPERM);
    await_all();
    ck_assert_trail("wl");
    ck_assert_uint_eq(weft_posix_owner(&mutex), 0);
}

TEST(an_error_checking_mutex_fails_only_for_the_fiber_that_holds_it)
{
    mutex = mutex_of_type(PTHREAD_MUTEX_ERRORCHECK);
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), EPERM);
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    ck_assert_int_eq(pthread_mutex_lock(&mutex), EDEADLK);
    ck_assert_int_eq(pthread_mutex_trylock(&mutex), EBUSY);
    struct timespec time = time_in(CLOCK_REALTIME, LONG_MS);
    ck_assert_int_eq(pthread_mutex_timedlock(&mutex, &time), EDEADLK);
    spin_waiting(use_as_other_fiber, NULL);
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    await_all();
    ck_assert_trail("wl");
}

#define HELD_MANY 100

static weft_value hold_own_mutex(void *arg)
{
    pthread_mutex_t *own = arg;
    ck_assert_int_eq(pthread_mutex_lock(own), 0);
    weft_snooze();
    ck_assert_uint_eq(weft_posix_owner(own), weft_self());
    ck_assert_int_eq(pthread_mutex_unlock(own), 0);
    ck_assert_uint_eq(weft_posix_owner(own), 0);
    return 0;
}

TEST(each_of_many_fibers_holds_its_own_recursive_mutex)
{
    static pthread_mutex_t mutexes[HELD_MANY];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < HELD_MANY; i++) {
            mutexes[i] = mutex_of_type(PTHREAD_MUTEX_RECURSIVE);
            weft_spin(hold_own_mutex, &mutexes[i]);
        }
        await_all();
    }
}

static weft_value return_lock_result(void *arg)
{
    return pthread_mutex_lock(arg);
}

TEST(a_dump_shows_the_mutex_and_its_holder)
{
    mutex = mutex_of_type(PTHREAD_MUTEX_ERRORCHECK);
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    weft_fiber f = spin_waiting(return_lock_result, &mutex);
    weft_info info;
    ck_assert_int_eq(weft_info_of(f, &info), 0);
    ck_assert_str_eq(info.waits_for, "a pthread mutex");
    ck_assert_uint_eq(info.waits_for_fiber, weft_self());
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    ck_assert_int_eq(weft_await(f), 0);
}

/*
 * Limits of time.
 */

static weft_value time_out_on_mutex(void *arg)
{
    struct timespec past = time_in(CLOCK_REALTIME, -1), soon = time_in(CLOCK_REALTIME, 5);
    struct timespec soon_monotonic = time_in(CLOCK_MONOTONIC, 5);
    struct timespec invalid = {.tv_nsec = 1000000000};
    ck_assert_int_eq(pthread_mutex_timedlock(&mutex, &past), ETIMEDOUT);
    ck_assert_int_eq(pthread_mutex_timedlock(&mutex, &soon), ETIMEDOUT);
    ck_assert_int_eq(pthread_mutex_timedlock(&mutex, &invalid), EINVAL);
    ck_assert_int_eq(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &soon_monotonic), ETIMEDOUT);
    ck_assert_int_eq(pthread_mutex_clocklock(&mutex, CLOCK_TAI, &soon), EINVAL);
    return 0;
}

static weft_value lock_in_time(void *arg)
{
    struct timespec later = time_in(CLOCK_MONOTONIC, LONG_MS);
    ck_assert_int_eq(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &later), 0);
    mark("l");
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    return 0;
}

TEST(a_timed_lock_fails_at_its_time_and_leaves_the_queue)
{
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    weft_fiber f = weft_spin(time_out_on_mutex, NULL);
    ck_assert_int_eq(weft_await(f), 0);
    spin_waiting(lock_in_time, NULL);
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    await_all();
    ck_assert_trail("l");
    ck_assert_int_eq(pthread_mutex_trylock(&mutex), 0);
}

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

TEST(timed_rwlocks_and_semaphores_fail_at_their_time)
{
    struct timespec soon = time_in(CLOCK_REALTIME, 3), invalid = {.tv_nsec = -1};
    struct timespec soon_monotonic = time_in(CLOCK_MONOTONIC, 5);
    ck_assert_int_eq(pthread_rwlock_rdlock(&rwlock), 0);
    ck_assert_int_eq(pthread_rwlock_timedwrlock(&rwlock, &soon), ETIMEDOUT);
    ck_assert_int_eq(pthread_rwlock_clockwrlock(&rwlock, CLOCK_MONOTONIC, &soon_monotonic),
                     ETIMEDOUT);
    ck_assert_int_eq(pthread_rwlock_timedwrlock(&rwlock, &invalid), EINVAL);
    ck_assert_int_eq(pthread_rwlock_timedrdlock(&rwlock, &soon), 0);
    ck_assert_int_eq(pthread_rwlock_clockrdlock(&rwlock, CLOCK_MONOTONIC, &soon_monotonic), 0);
    sem_t sem;
    sem_init(&sem, 0, 1);
    ck_assert_int_eq(sem_timedwait(&sem, &soon), 0);
    ck_assert_int_eq(sem_timedwait(&sem, &soon), -1);
    ck_assert_int_eq(errno, ETIMEDOUT);
    ck_assert_int_eq(sem_clockwait(&sem, CLOCK_MONOTONIC, &soon_monotonic), -1);
    ck_assert_int_eq(errno, ETIMEDOUT);
    ck_assert_int_eq(sem_timedwait(&sem, &invalid), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(sem_trywait(&sem), -1);
    ck_assert_int_eq(errno, EAGAIN);
}

/*
 * Rwlocks.
 */

static weft_value read_and_mark(void *arg)
{
    ck_assert_int_eq(pthread_rwlock_rdlock(&rwlock), 0);
    mark(arg);
    weft_snooze();
    mark(arg);
    ck_assert_int_eq(pthread_rwlock_unlock(&rwlock), 0);
    return 0;
}

static weft_value write_and_mark(void *arg)
{
    ck_assert_int_eq(pthread_rwlock_wrlock(&rwlock), 0);
    mark(arg);
    weft_snooze();
    mark(arg);
    ck_assert_int_eq(pthread_rwlock_unlock(&rwlock), 0);
    return 0;
}

TEST(waiting_readers_share_a_rwlock_and_a_writer_is_alone)
{
    ck_assert_int_eq(pthread_rwlock_wrlock(&rwlock), 0);
    weft_spin(read_and_mark, (void *)"r");
    weft_spin(read_and_mark, (void *)"s");
    weft_spin(write_and_mark, (void *)"w");
    let_run();
    ck_assert_trail("");
    ck_assert_int_eq(pthread_rwlock_trywrlock(&rwlock), EBUSY);
    ck_assert_int_eq(pthread_rwlock_tryrdlock(&rwlock), EBUSY);
    ck_assert_int_eq(pthread_rwlock_unlock(&rwlock), 0);
    await_all();
    ck_assert_trail("rsrsww");
}

/*
 * Conditions.
 */

static weft_value wait_and_mark(void *arg)
{
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    ck_assert_int_eq(pthread_cond_wait(&cond, &mutex), 0);
    ck_assert_int_eq(pthread_mutex_trylock(&mutex), EBUSY);
    mark(arg);
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    return 0;
}

TEST(a_signal_wakes_one_fiber_and_a_broadcast_all)
{
    weft_spin(wait_and_mark, (void *)"a");
    weft_spin(wait_and_mark, (void *)"b");
    weft_spin(wait_and_mark, (void *)"c");
    let_run();
    ck_assert_int_eq(pthread_cond_signal(&cond), 0);
    let_run();
    ck_assert_trail("a");
    ck_assert_int_eq(pthread_cond_broadcast(&cond), 0);
    await_all();
    ck_assert_trail("abc");
    ck_assert_int_eq(pthread_mutex_trylock(&mutex), 0);
}

/* Signal under the mutex, and keep the mutex for a while. */
TEST(a_woken_fiber_waits_for_the_mutex)
{
    spin_waiting(wait_and_mark, (void *)"a");
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    ck_assert_int_eq(pthread_cond_signal(&cond), 0);
    let_run();
    ck_assert_trail("");
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    await_all();
    ck_assert_trail("a");
}

TEST(a_condition_wait_without_the_mutex_fails)
{
    mutex = mutex_of_type(PTHREAD_MUTEX_ERRORCHECK);
    ck_assert_int_eq(pthread_cond_wait(&cond, &mutex), EPERM);
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    struct timespec invalid = {.tv_nsec = 1000000000};
    ck_assert_int_eq(pthread_cond_timedwait(&cond, &mutex, &invalid), EINVAL);
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
}

static weft_value signal_cond(void *arg)
{
    pthread_cond_signal(&cond);
    return 0;
}

/*
 * A time of the monotonic clock is in the past of the other clock, and a time of the other clock is
 * far in the future of the monotonic clock.
 */
TEST(a_condition_uses_its_own_clock)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_lock(&mutex);
    struct timespec soon = time_in(CLOCK_REALTIME, 3);
    ck_assert_int_eq(pthread_cond_timedwait(&cond, &mutex, &soon), ETIMEDOUT);
    struct timespec later = time_in(CLOCK_MONOTONIC, LONG_MS);
    weft_spin(signal_cond, NULL);
    ck_assert_int_eq(pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &later), 0);
    pthread_cond_init(&cond, &attributes);
    weft_spin(signal_cond, NULL);
    ck_assert_int_eq(pthread_cond_timedwait(&cond, &mutex, &later), 0);
    soon = time_in(CLOCK_MONOTONIC, 3);
    ck_assert_int_eq(pthread_cond_timedwait(&cond, &mutex, &soon), ETIMEDOUT);
    ck_assert_int_eq(pthread_mutex_trylock(&mutex), EBUSY);
    pthread_mutex_unlock(&mutex);
    await_all();
}

static int deadlock_reports;

static void count_reports(int level, const char *text, void *arg)
{
    deadlock_reports += level == LOG_ERR;
}

TEST(a_condition_that_nobody_can_signal_fails_in_the_main_fiber)
{
    weft_set_log(count_reports, NULL);
    pthread_mutex_lock(&mutex);
    ck_assert_int_eq(pthread_cond_wait(&cond, &mutex), EDEADLK);
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    ck_assert_int_eq(deadlock_reports, 1);
}

TEST(a_module_with_a_waiting_fiber_cannot_be_disowned)
{
    if (is_preloaded())
        return;
    spin_waiting(wait_and_mark, (void *)"a");
    ck_assert_int_eq(weft_disown(""), -EBUSY);
    ck_assert_int_eq(pthread_cond_signal(&cond), 0);
    await_all();
    ck_assert_int_gt(weft_disown(""), 0);
}

/*
 * Hooks of conditions. Fibers wait in the table of waiters, plain threads in the condition of
 * glibc. A signal wakes a fiber, or else a plain thread.
 *
 * A waiter joins the table before it unlocks the mutex. A thread that changes the state under the
 * mutex, and signals then or later, therefore finds the waiter.
 */
#include "posix/hook.h"
#include "posix/lock/gate.h"
#include "posix/lock/mutex.h"

#include <weft/scope.h>

#include <math.h>

/* Bits of __wrefs in glibc. */
#define WREFS_IS_SHARED 1u    /* process-shared */
#define WREFS_IS_MONOTONIC 2u /* the clock of pthread_cond_timedwait */

static unsigned wrefs_of(const pthread_cond_t *cond)
{
    return __atomic_load_n(&cond->__data.__wrefs, __ATOMIC_RELAXED);
}

static const weft__wait_kind waits_cond = {.name = "a pthread condition",
                                           .is_left_at_exit = true,
                                           .leave = weft__remote_wait_leave,
                                           .describe = weft__lock_describe};

/* Wait for a signal, without the mutex. An interrupt ends the wait as a spurious wake-up. */
static int cond_sleep(weft__lock_waiter *w, const weft__time_limit *limit)
{
    weft__wake_reason reason = weft__waiter_sleep(w, &waits_cond, weft__time_left(limit));
    if (weft__waiter_leave(w))
        return 0;
    if (reason == WEFT__WOKEN_BY_DEADLOCK)
        return EDEADLK;
    return weft__time_left(limit) <= 0 ? ETIMEDOUT : 0;
}

static int wake_one(pthread_cond_t *cond)
{
    if (UNLIKELY(weft__waiters_may_exist(cond)) && weft__waiters_choose(cond))
        return 0;
    return REAL(pthread_cond_signal)(cond);
}

static int cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, const weft__time_limit *limit)
{
    int error = errno, rc = weft__time_limit_check(limit);
    if (rc != 0)
        return rc;
    weft_scope shield;
    weft__lock_waiter w;
    (void)weft_shield_open(&shield, INFINITY);
    HOOK_COUNT(lock_waits);
    weft__waiter_join(&w, cond, NULL);
    rc = weft__mutex_unlock(mutex);
    if (rc == 0) {
        rc = cond_sleep(&w, limit);
        int locked = weft__mutex_lock(mutex);
        rc = locked != 0 ? locked : rc;
    } else if (weft__waiter_leave(&w)) {
        (void)wake_one(cond); /* the signal is for another waiter */
    }
    (void)weft_scope_close(&shield);
    errno = error;
    return rc;
}

/*
 * Return whether the caller must wait in glibc's condition. glibc then unlocks the mutex out of
 * sight. So make the first waiter for the mutex try again soon.
 */
static bool waits_in_libc(const pthread_cond_t *cond, const pthread_mutex_t *mutex)
{
    if (weft__hook_is_on() && (wrefs_of(cond) & WREFS_IS_SHARED) == 0)
        return false;
    weft__waiters_poke(mutex);
    return true;
}

HOOK_DEFINE(int, pthread_cond_wait, (pthread_cond_t * cond, pthread_mutex_t *mutex))
{
    if (waits_in_libc(cond, mutex))
        return REAL(pthread_cond_wait)(cond, mutex);
    return cond_wait(cond, mutex, WEFT__NO_LIMIT);
}

HOOK_DEFINE(int, pthread_cond_timedwait,
            (pthread_cond_t * cond, pthread_mutex_t *mutex, const struct timespec *time))
{
    if (waits_in_libc(cond, mutex))
        return REAL(pthread_cond_timedwait)(cond, mutex, time);
    bool is_monotonic = (wrefs_of(cond) & WREFS_IS_MONOTONIC) != 0;
    clockid_t clock = is_monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    return cond_wait(cond, mutex, &(weft__time_limit){clock, time});
}

HOOK_DEFINE(int, pthread_cond_clockwait,
            (pthread_cond_t * cond, pthread_mutex_t *mutex, clockid_t clock,
             const struct timespec *time))
{
    if (!weft__clock_is_valid(clock) || waits_in_libc(cond, mutex))
        return REAL(pthread_cond_clockwait)(cond, mutex, clock, time);
    return cond_wait(cond, mutex, &(weft__time_limit){clock, time});
}

HOOK_DEFINE(int, pthread_cond_signal, (pthread_cond_t * cond))
{
    return wake_one(cond);
}

HOOK_DEFINE(int, pthread_cond_broadcast, (pthread_cond_t * cond))
{
    if (UNLIKELY(weft__waiters_may_exist(cond)))
        weft__waiters_choose_all(cond);
    return REAL(pthread_cond_broadcast)(cond);
}

/*
 * Hooks of rwlocks. Readers and writers that wait are in one queue, in FIFO order. A reader that
 * has got the lock wakes the next waiter, which may be a reader as well.
 */
#include "posix/hook.h"
#include "posix/lock/gate.h"

static int read_attempt(void *lock)
{
    return REAL(pthread_rwlock_tryrdlock)(lock);
}

static int write_attempt(void *lock)
{
    return REAL(pthread_rwlock_trywrlock)(lock);
}

static const weft__wait_kind waits_read = {.name = "a pthread rwlock, to read",
                                           .is_left_at_exit = true,
                                           .leave = weft__remote_wait_leave,
                                           .describe = weft__lock_describe};
static const weft__wait_kind waits_write = {.name = "a pthread rwlock, to write",
                                            .is_left_at_exit = true,
                                            .leave = weft__remote_wait_leave,
                                            .describe = weft__lock_describe};
static const weft__gate read_gate = {&waits_read, read_attempt, true, false};
static const weft__gate write_gate = {&waits_write, write_attempt, false, false};

static int rwlock_lock(const weft__gate *gate, pthread_rwlock_t *lock,
                       const weft__time_limit *limit)
{
    int rc = gate->attempt(lock);
    return rc == EBUSY ? weft__gate_wait(gate, lock, limit) : rc;
}

HOOK_DEFINE(int, pthread_rwlock_rdlock, (pthread_rwlock_t * lock))
{
    if (!weft__hook_is_on())
        return REAL(pthread_rwlock_rdlock)(lock);
    return rwlock_lock(&read_gate, lock, WEFT__NO_LIMIT);
}

HOOK_DEFINE(int, pthread_rwlock_wrlock, (pthread_rwlock_t * lock))
{
    if (!weft__hook_is_on())
        return REAL(pthread_rwlock_wrlock)(lock);
    return rwlock_lock(&write_gate, lock, WEFT__NO_LIMIT);
}

HOOK_DEFINE(int, pthread_rwlock_tryrdlock, (pthread_rwlock_t * lock))
{
    return REAL(pthread_rwlock_tryrdlock)(lock);
}

HOOK_DEFINE(int, pthread_rwlock_trywrlock, (pthread_rwlock_t * lock))
{
    return REAL(pthread_rwlock_trywrlock)(lock);
}

HOOK_DEFINE(int, pthread_rwlock_timedrdlock, (pthread_rwlock_t * lock, const struct timespec *time))
{
    if (!weft__hook_is_on())
        return REAL(pthread_rwlock_timedrdlock)(lock, time);
    return rwlock_lock(&read_gate, lock, &(weft__time_limit){CLOCK_REALTIME, time});
}

HOOK_DEFINE(int, pthread_rwlock_timedwrlock, (pthread_rwlock_t * lock, const struct timespec *time))
{
    if (!weft__hook_is_on())
        return REAL(pthread_rwlock_timedwrlock)(lock, time);
    return rwlock_lock(&write_gate, lock, &(weft__time_limit){CLOCK_REALTIME, time});
}

HOOK_DEFINE(int, pthread_rwlock_clockrdlock,
            (pthread_rwlock_t * lock, clockid_t clock, const struct timespec *time))
{
    if (!weft__hook_is_on() || !weft__clock_is_valid(clock))
        return REAL(pthread_rwlock_clockrdlock)(lock, clock, time);
    return rwlock_lock(&read_gate, lock, &(weft__time_limit){clock, time});
}

HOOK_DEFINE(int, pthread_rwlock_clockwrlock,
            (pthread_rwlock_t * lock, clockid_t clock, const struct timespec *time))
{
    if (!weft__hook_is_on() || !weft__clock_is_valid(clock))
        return REAL(pthread_rwlock_clockwrlock)(lock, clock, time);
    return rwlock_lock(&write_gate, lock, &(weft__time_limit){clock, time});
}

HOOK_DEFINE(int, pthread_rwlock_unlock, (pthread_rwlock_t * lock))
{
    int rc = REAL(pthread_rwlock_unlock)(lock);
    weft__waiters_poke(lock);
    return rc;
}

/* Hooks of semaphores. sem_post is async-signal-safe, as in libc. */
#include "posix/hook.h"
#include "posix/lock/gate.h"

static int sem_attempt(void *lock)
{
    int error = errno;
    if (REAL(sem_trywait)(lock) == 0)
        return 0;
    int rc = errno == EAGAIN ? EBUSY : errno;
    errno = error;
    return rc;
}

static const weft__wait_kind waits_sem = {.name = "a semaphore",
                                          .is_left_at_exit = true,
                                          .leave = weft__remote_wait_leave,
                                          .describe = weft__lock_describe};
static const weft__gate sem_gate = {&waits_sem, sem_attempt, true, true};

static int sem_take(sem_t *sem, const weft__time_limit *limit)
{
    int rc = sem_attempt(sem);
    if (rc == EBUSY)
        rc = weft__gate_wait(&sem_gate, sem, limit);
    return rc == 0 ? 0 : weft__hook_fail(-rc);
}

HOOK_DEFINE(int, sem_wait, (sem_t * sem))
{
    return weft__hook_is_on() ? sem_take(sem, WEFT__NO_LIMIT) : REAL(sem_wait)(sem);
}

HOOK_DEFINE(int, sem_trywait, (sem_t * sem))
{
    return REAL(sem_trywait)(sem);
}

HOOK_DEFINE(int, sem_timedwait, (sem_t * sem, const struct timespec *time))
{
    if (!weft__hook_is_on())
        return REAL(sem_timedwait)(sem, time);
    return sem_take(sem, &(weft__time_limit){CLOCK_REALTIME, time});
}

HOOK_DEFINE(int, sem_clockwait, (sem_t * sem, clockid_t clock, const struct timespec *time))
{
    if (!weft__hook_is_on() || !weft__clock_is_valid(clock))
        return REAL(sem_clockwait)(sem, clock, time);
    return sem_take(sem, &(weft__time_limit){clock, time});
}

/* If the call gives up, the waiter finds the semaphore when it tries again. */
HOOK_DEFINE(int, sem_post, (sem_t * sem))
{
    int rc = REAL(sem_post)(sem);
    weft__waiters_poke_in_handler(sem);
    return rc;
}

/*
 * Hooks of <threads.h>. In glibc, a mtx_t is a pthread_mutex_t, a cnd_t is a pthread_cond_t, and
 * the functions differ only in their results. So the hooks of POSIX functions do the work.
 */
#include "posix/hook.h"
#include "posix/lock/hooks.h"

_Static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t), "a mtx_t is a mutex");
_Static_assert(sizeof(cnd_t) == sizeof(pthread_cond_t), "a cnd_t is a condition");

static int c11_result(int error)
{
    switch (error) {
    case 0:
        return thrd_success;
    case EBUSY:
        return thrd_busy;
    case ENOMEM:
        return thrd_nomem;
    case ETIMEDOUT:
        return thrd_timedout;
    default:
        return thrd_error;
    }
}

static pthread_mutex_t *mutex_of(mtx_t *mutex)
{
    return (pthread_mutex_t *)mutex;
}

static pthread_cond_t *cond_of(cnd_t *cond)
{
    return (pthread_cond_t *)cond;
}

HOOK_DEFINE(int, mtx_lock, (mtx_t * mutex))
{
    return c11_result(weft__hook_pthread_mutex_lock(mutex_of(mutex)));
}

HOOK_DEFINE(int, mtx_trylock, (mtx_t * mutex))
{
    return c11_result(weft__hook_pthread_mutex_trylock(mutex_of(mutex)));
}

HOOK_DEFINE(int, mtx_timedlock, (mtx_t * mutex, const struct timespec *time))
{
    return c11_result(weft__hook_pthread_mutex_timedlock(mutex_of(mutex), time));
}

HOOK_DEFINE(int, mtx_unlock, (mtx_t * mutex))
{
    return c11_result(weft__hook_pthread_mutex_unlock(mutex_of(mutex)));
}

HOOK_DEFINE(int, cnd_wait, (cnd_t * cond, mtx_t *mutex))
{
    return c11_result(weft__hook_pthread_cond_wait(cond_of(cond), mutex_of(mutex)));
}

HOOK_DEFINE(int, cnd_timedwait, (cnd_t * cond, mtx_t *mutex, const struct timespec *time))
{
    return c11_result(weft__hook_pthread_cond_timedwait(cond_of(cond), mutex_of(mutex), time));
}

HOOK_DEFINE(int, cnd_signal, (cnd_t * cond))
{
    return c11_result(weft__hook_pthread_cond_signal(cond_of(cond)));
}

HOOK_DEFINE(int, cnd_broadcast, (cnd_t * cond))
{
    return c11_result(weft__hook_pthread_cond_broadcast(cond_of(cond)));
}

HOOK_DEFINE(int, thrd_join, (thrd_t thread, int *result))
{
    void *value = NULL;
    int rc = weft__hook_pthread_join(thread, &value);
    if (rc == 0 && result != NULL)
        *result = (int)(intptr_t)value;
    return c11_result(rc);
}

/* The result is -1 after a signal, and another negative value after an error. errno is not set. */
HOOK_DEFINE(int, thrd_sleep, (const struct timespec *time, struct timespec *left))
{
    int error = errno;
    if (weft__hook_nanosleep(time, left) == 0)
        return 0;
    int rc = errno == EINTR ? -1 : -2;
    errno = error;
    return rc;
}

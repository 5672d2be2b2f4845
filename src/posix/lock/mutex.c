/* Hooks of mutexes. */
#include "posix/hook.h"

HOOK_DEFINE(int, pthread_mutex_lock, (pthread_mutex_t * mutex))
{
    return REAL(pthread_mutex_lock)(mutex);
}

HOOK_DEFINE(int, pthread_mutex_unlock, (pthread_mutex_t * mutex))
{
    return REAL(pthread_mutex_unlock)(mutex);
}

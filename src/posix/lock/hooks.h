/* Hooks that other hooks call. */
#ifndef WEFT_POSIX_LOCK_HOOKS_H
#define WEFT_POSIX_LOCK_HOOKS_H

#include "posix/calls.h"

__typeof__(nanosleep) weft__hook_nanosleep;
__typeof__(pthread_cond_broadcast) weft__hook_pthread_cond_broadcast;
__typeof__(pthread_cond_signal) weft__hook_pthread_cond_signal;
__typeof__(pthread_cond_timedwait) weft__hook_pthread_cond_timedwait;
__typeof__(pthread_cond_wait) weft__hook_pthread_cond_wait;
__typeof__(pthread_join) weft__hook_pthread_join;
__typeof__(pthread_mutex_lock) weft__hook_pthread_mutex_lock;
__typeof__(pthread_mutex_timedlock) weft__hook_pthread_mutex_timedlock;
__typeof__(pthread_mutex_trylock) weft__hook_pthread_mutex_trylock;
__typeof__(pthread_mutex_unlock) weft__hook_pthread_mutex_unlock;

#endif

/*
 * Hooks that wait for the end of a thread. A worker waits instead of the thread of the fiber. The
 * wait cannot be cancelled, because the worker would take the result of the thread.
 */
#include "posix/hook.h"
#include "posix/lock/gate.h"

#include <weft/offload.h>
#include <weft/scope.h>

#include <math.h>

/* The arguments of pthread_clockjoin_np. */
typedef struct join_call {
    pthread_t thread;
    void **value;
    const weft__time_limit *limit;
} join_call;

/* Join with the real functions. Return 0 or an error number. */
static weft_value join_real(void *arg)
{
    const join_call *j = arg;
    if (j->limit->at == NULL)
        return REAL(pthread_join)(j->thread, j->value);
    if (j->limit->clock == CLOCK_REALTIME) /* TSan does not know pthread_clockjoin_np */
        return REAL(pthread_timedjoin_np)(j->thread, j->value, j->limit->at);
    return REAL(pthread_clockjoin_np)(j->thread, j->value, j->limit->clock, j->limit->at);
}

static int join_in_worker(join_call *j)
{
    weft_scope shield;
    int error = errno;
    (void)weft_shield_open(&shield, INFINITY);
    HOOK_COUNT(offloads);
    weft_value rc = weft_offload_with(join_real, j, &(weft_offload_options){.is_kept = true});
    (void)weft_scope_close(&shield);
    errno = error;
    return rc >= 0 ? (int)rc : (int)join_real(j); /* without a worker, block the thread */
}

static int join_thread(pthread_t thread, void **value, const weft__time_limit *limit)
{
    join_call j = {thread, value, limit};
    if (!weft__hook_is_on() || pthread_equal(thread, pthread_self()))
        return (int)join_real(&j);
    int rc = REAL(pthread_tryjoin_np)(thread, value);
    return rc == EBUSY ? join_in_worker(&j) : rc;
}

HOOK_DEFINE(int, pthread_join, (pthread_t thread, void **value))
{
    return join_thread(thread, value, WEFT__NO_LIMIT);
}

HOOK_DEFINE(int, pthread_timedjoin_np,
            (pthread_t thread, void **value, const struct timespec *time))
{
    return join_thread(thread, value, &(weft__time_limit){CLOCK_REALTIME, time});
}

HOOK_DEFINE(int, pthread_clockjoin_np,
            (pthread_t thread, void **value, clockid_t clock, const struct timespec *time))
{
    return join_thread(thread, value, &(weft__time_limit){clock, time});
}

HOOK_DEFINE(int, pthread_tryjoin_np, (pthread_t thread, void **value))
{
    return REAL(pthread_tryjoin_np)(thread, value);
}

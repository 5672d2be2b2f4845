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
    weft__remote_wait wait; /* of the fiber; the worker ends the wait */
    int result;
} join_call;

/* Join with the real functions. Return 0 or an error number. */
static int join_real(const join_call *j)
{
    if (j->limit->at == NULL)
        return REAL(pthread_join)(j->thread, j->value);
    if (j->limit->clock == CLOCK_REALTIME) /* TSan does not know pthread_clockjoin_np */
        return REAL(pthread_timedjoin_np)(j->thread, j->value, j->limit->at);
    return REAL(pthread_clockjoin_np)(j->thread, j->value, j->limit->clock, j->limit->at);
}

static weft_value join_run(void *arg)
{
    join_call *j = arg;
    j->result = join_real(j);
    weft__remote_wait_end(&j->wait, 0);
    return 0;
}

/* The worker uses the frame of the fiber. So only the worker ends the wait. */
static bool join_withdraw(weft__remote_wait *wait)
{
    (void)wait;
    return false;
}

static const weft__wait_kind waits_join = {
    .name = "the end of a thread", .is_left_at_exit = true, .leave = weft__remote_wait_leave};

static int join_in_worker(join_call *j)
{
    weft_scope shield;
    int error = errno;
    (void)weft_shield_open(&shield, INFINITY);
    HOOK_COUNT(offloads);
    weft__remote_wait_init(&j->wait, join_withdraw);
    if (weft_offload_go(join_run, j) == 0)
        (void)weft__remote_wait_run(&j->wait, &waits_join);
    else
        j->result = join_real(j); /* without a worker, block the thread */
    (void)weft_scope_close(&shield);
    errno = error;
    return j->result;
}

static int join_thread(pthread_t thread, void **value, const weft__time_limit *limit)
{
    join_call j = {.thread = thread, .value = value, .limit = limit};
    if (!weft__hook_is_on() || pthread_equal(thread, pthread_self()))
        return join_real(&j);
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

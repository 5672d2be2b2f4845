/*
 * The hook of barriers. All callers of the hook meet in the table of waiters: fibers and threads. A
 * process-shared barrier uses the real call, which blocks the thread.
 */
#include "posix/hook.h"
#include "posix/lock/waiters.h"

#include <weft/scope.h>

#include <math.h>

/* The beginning of a pthread_barrier_t in glibc. */
typedef struct barrier_view {
    unsigned in, current_round;
    unsigned count;
    int shared; /* 0: private */
} barrier_view;

static const weft__wait_kind waits_barrier = {.name = "a pthread barrier",
                                              .is_left_at_exit = true,
                                              .leave = weft__remote_wait_leave,
                                              .describe = weft__lock_describe};

/* Wait in a thread that cannot wait with weft. pthread_barrier_wait is not a cancellation point. */
static int meet_in_thread(pthread_barrier_t *barrier, unsigned count)
{
    weft__lock_waiter w;
    sem_t wake;
    int cancel_state;
    sem_init(&wake, 0, 0);
    bool is_last = weft__waiters_meet(&w, barrier, &wake, count);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    while (!is_last && REAL(sem_wait)(&wake) < 0)
        continue; /* EINTR */
    pthread_setcancelstate(cancel_state, NULL);
    sem_destroy(&wake);
    return is_last ? PTHREAD_BARRIER_SERIAL_THREAD : 0;
}

static int meet_in_fiber(pthread_barrier_t *barrier, unsigned count)
{
    weft__lock_waiter w;
    weft_scope shield;
    (void)weft_shield_open(&shield, INFINITY);
    int rc = PTHREAD_BARRIER_SERIAL_THREAD;
    if (!weft__waiters_meet(&w, barrier, NULL, count)) {
        HOOK_COUNT(lock_waits);
        weft__wake_reason reason;
        do
            reason = weft__waiter_sleep(&w, &waits_barrier, INFINITY);
        while (reason != WEFT__WOKEN_CHOSEN && reason != WEFT__WOKEN_BY_DEADLOCK);
        rc = weft__waiter_leave(&w) ? 0 : EDEADLK;
    }
    (void)weft_scope_close(&shield);
    return rc;
}

HOOK_DEFINE(int, pthread_barrier_wait, (pthread_barrier_t * barrier))
{
    const barrier_view *view = (const barrier_view *)barrier;
    if (view->shared != 0)
        return REAL(pthread_barrier_wait)(barrier);
    int error = errno;
    bool is_on = weft__hook_is_on();
    int rc = is_on ? meet_in_fiber(barrier, view->count) : meet_in_thread(barrier, view->count);
    errno = error;
    return rc;
}

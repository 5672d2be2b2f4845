/* Waits of hooks, see wait.h. */
#include "posix/wait.h"

#include "posix/hook.h"

#include <weft/fiber.h>

static __thread weft__list waits; /* the waits of this thread; next is NULL: not initialised */
static _Atomic(unsigned) waits_now;

/* Note the signals that have no effect on the wait, because they came earlier. */
static void wait_note_signals(weft__hook_wait *w)
{
    w->signals = atomic_load(&weft__hook_thread_self.signals);
    w->interrupting_signals = atomic_load(&weft__hook_thread_self.interrupting_signals);
}

void weft__hook_wait_begin(weft__hook_wait *w, weft__hook_restart restart, double timeout_s)
{
    if (waits.next == NULL)
        weft__list_init(&waits);
    w->fiber = weft_self();
    w->restart = restart;
    wait_note_signals(w);
    w->has_timeout = timeout_s >= 0 && weft_scope_open(&w->scope, timeout_s) == 0;
    weft__list_insert(&waits, &w->link);
    atomic_fetch_add_explicit(&waits_now, 1, memory_order_relaxed);
    HOOK_COUNT(waits);
}

intptr_t weft__hook_wait_end(weft__hook_wait *w, intptr_t result)
{
    weft__list_remove(&w->link);
    atomic_fetch_sub_explicit(&waits_now, 1, memory_order_relaxed);
    bool is_late = w->has_timeout && weft_scope_close(&w->scope) == -ETIMEDOUT;
    if (result == -EINTR)
        HOOK_COUNT(interrupts);
    return is_late && result == -ECANCELED ? -ETIMEDOUT : result;
}

unsigned weft__hook_waits_now(void)
{
    return atomic_load_explicit(&waits_now, memory_order_relaxed);
}

bool weft__hook_waits_exist(void)
{
    return waits.next != NULL && !weft__list_is_empty(&waits);
}

static bool wait_is_interrupted(const weft__hook_wait *w)
{
    const weft__hook_thread *t = &weft__hook_thread_self;
    switch (w->restart) {
    case WEFT__HOOK_RESTARTS:
        return w->interrupting_signals != atomic_load(&t->interrupting_signals);
    case WEFT__HOOK_NEVER_RESTARTS:
        return w->signals != atomic_load(&t->signals);
    default:
        return false;
    }
}

void weft__hook_waits_interrupt(void)
{
    if (waits.next == NULL)
        return;
    WEFT__LIST_FOR(node, &waits) {
        weft__hook_wait *w = CONTAINER_OF(node, weft__hook_wait, link);
        if (!wait_is_interrupted(w))
            continue;
        wait_note_signals(w);
        (void)weft_interrupt(w->fiber, -EINTR);
    }
}

double weft__seconds_of_timespec(const struct timespec *t)
{
    return (double)t->tv_sec + (double)t->tv_nsec / 1e9;
}

double weft__seconds_of_timeval(const struct timeval *t)
{
    return (double)t->tv_sec + (double)t->tv_usec / 1e6;
}

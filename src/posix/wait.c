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

void weft__hook_wait_add(weft__hook_wait *w, weft__hook_restart restart)
{
    if (waits.next == NULL)
        weft__list_init(&waits);
    w->fiber = weft_self();
    w->restart = restart;
    w->jump.fn = NULL;
    w->is_interrupted = w->has_timeout = false;
    wait_note_signals(w);
    /* A handler may search the list at any time, so complete w before the insertion. */
    w->link.next = &waits;
    atomic_signal_fence(memory_order_seq_cst);
    /* While w is in the list, a handler does not leave the wait by a jump. */
    weft__list_insert(&waits, &w->link);
    atomic_fetch_add_explicit(&waits_now, 1, memory_order_relaxed);
}

void weft__hook_wait_begin(weft__hook_wait *w, weft__hook_restart restart, double timeout_s)
{
    weft__hook_wait_add(w, restart);
    w->has_timeout = timeout_s >= 0 && weft_scope_open(&w->scope, timeout_s) == 0;
    HOOK_COUNT(waits);
}

intptr_t weft__hook_wait_end(weft__hook_wait *w, intptr_t result)
{
    bool is_late = w->has_timeout && weft_scope_close(&w->scope) == -ETIMEDOUT;
    atomic_fetch_sub_explicit(&waits_now, 1, memory_order_relaxed);
    weft__list_remove(&w->link);
    if (UNLIKELY(w->jump.fn != NULL))
        w->jump.fn(w->jump.buffer, w->jump.value);
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

/* Only the next pointers are valid if a handler runs in the middle of weft__list_insert. */
static weft__hook_wait *wait_of_fiber(weft_fiber fiber)
{
    for (const weft__list *node = waits.next; node != &waits; node = node->next) {
        weft__hook_wait *w = CONTAINER_OF(node, weft__hook_wait, link);
        if (w->fiber == fiber)
            return w;
    }
    return NULL;
}

/* If no fiber runs, the handler most likely belongs to the main fiber. */
weft__hook_wait *weft__hook_wait_of_handler(void)
{
    const weft__cord *c = weft__cord_self;
    if (c == NULL || c->current == NULL || !weft__hook_waits_exist())
        return NULL;
    bool is_idle = c->current->waits_in != NULL;
    weft__hook_wait *w = is_idle ? wait_of_fiber(c->main->id) : NULL;
    return w != NULL ? w : wait_of_fiber(c->current->id);
}

static bool wait_is_interrupted(const weft__hook_wait *w)
{
    const weft__hook_thread *t = &weft__hook_thread_self;
    if (w->jump.fn != NULL)
        return true;
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
        w->is_interrupted = true;
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

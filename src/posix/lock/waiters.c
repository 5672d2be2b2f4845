/* The table of waiters, see waiters.h. */
#include "posix/lock/waiters.h"

#include "base/cpu.h"
#include "posix/hook.h"

#include <weft/debug.h>
#include <weft/scope.h>

#include <math.h>
#include <string.h>

/* Locks passed directly from fiber to fiber in a row, while other threads wait for the lock. */
#define HANDOVERS_MAX 32

/* Attempts to take a spin lock before the thread yields, or before a signal handler gives up. */
#define SPINS_MAX 100

weft__waiter_bucket weft__waiter_table[1 << WEFT__WAITER_BUCKETS_BITS];

/*
 * The spin lock of a bucket. No call is made while it is held, so it is held for a short time only.
 */

static bool bucket_try_lock(weft__waiter_bucket *b)
{
    for (int i = 0; i < SPINS_MAX; i++) {
        if (!atomic_exchange_explicit(&b->is_locked, true, memory_order_acquire)) {
            if (b->waiters.next == NULL)
                weft__list_init(&b->waiters);
            return true;
        }
        weft__cpu_relax();
    }
    return false;
}

static weft__waiter_bucket *bucket_lock(const void *lock)
{
    weft__waiter_bucket *b = weft__waiter_bucket_of(lock);
    while (!bucket_try_lock(b))
        sched_yield();
    return b;
}

static void bucket_unlock(weft__waiter_bucket *b)
{
    atomic_store_explicit(&b->is_locked, false, memory_order_release);
}

/* Threads that held spin locks do not exist in the child. Neither do waiting threads and fibers. */
static void table_after_fork(void)
{
    memset(weft__waiter_table, 0, sizeof weft__waiter_table);
}

__attribute__((constructor)) static void table_prepare(void)
{
    (void)pthread_atfork(NULL, NULL, table_after_fork);
}

/*
 * Waiters in a bucket. The caller holds the spin lock.
 */

static weft__lock_waiter *waiter_of_link(weft__list *link)
{
    return CONTAINER_OF(link, weft__lock_waiter, link);
}

static weft__lock_waiter *bucket_first(weft__waiter_bucket *b, const void *lock)
{
    WEFT__LIST_FOR(node, &b->waiters)
        if (waiter_of_link(node)->lock == lock)
            return waiter_of_link(node);
    return NULL;
}

static weft__lock_waiter *bucket_last(weft__waiter_bucket *b, const void *lock)
{
    for (weft__list *node = b->waiters.prev; node != &b->waiters; node = node->prev)
        if (waiter_of_link(node)->lock == lock)
            return waiter_of_link(node);
    return NULL;
}

static void bucket_add(weft__waiter_bucket *b, weft__lock_waiter *w)
{
    weft__list_insert(&b->waiters, &w->link);
    w->is_linked = true;
    w->is_asleep = w->thread != NULL;
    atomic_fetch_add(&b->count, 1);
}

static void bucket_remove(weft__waiter_bucket *b, weft__lock_waiter *w)
{
    weft__list_unlink(&w->link);
    w->is_linked = false;
    atomic_fetch_sub(&b->count, 1);
}

/* Note that a waiter is woken. Return whether the caller must call waiter_end. */
static bool waiter_wake(weft__lock_waiter *w)
{
    bool was_asleep = w->is_asleep;
    w->is_asleep = false;
    w->is_poked = !was_asleep;
    return was_asleep;
}

/* Remove a waiter and note that it is chosen. Return whether the caller must call waiter_end. */
static bool waiter_choose(weft__waiter_bucket *b, weft__lock_waiter *w)
{
    bucket_remove(b, w);
    w->is_chosen = true;
    return waiter_wake(w);
}

/* End the wait of a woken waiter. The caller does not hold the spin lock. */
static void waiter_end(weft__lock_waiter *w, weft__wake_reason reason, bool is_in_handler)
{
    int error = errno;
    if (w->thread != NULL)
        REAL(sem_post)(w->thread);
    else if (is_in_handler)
        weft__remote_wait_end_in_handler(&w->wait, reason);
    else
        weft__remote_wait_end(&w->wait, reason);
    errno = error;
}

/*
 * The waiting side.
 */

/* The fiber never continues, because its thread ends. */
static void waiter_on_exit(weft__exit_hook *hook)
{
    weft__lock_waiter *w = CONTAINER_OF(hook, weft__lock_waiter, exit_hook);
    hook->pprev = NULL;
    (void)weft__waiter_leave(w);
}

static void waiter_init(weft__lock_waiter *w, const void *lock, sem_t *thread)
{
    *w = (weft__lock_waiter){.lock = lock, .thread = thread};
    if (thread != NULL)
        return;
    weft__fiber *f = weft__cord_self->current;
    w->fiber = f->id;
    weft__exit_hook_add(&f->live->exit_hooks, &w->exit_hook, waiter_on_exit);
}

void weft__waiter_join(weft__lock_waiter *w, const void *lock, sem_t *thread)
{
    waiter_init(w, lock, thread);
    weft__waiter_bucket *b = bucket_lock(lock);
    bucket_add(b, w);
    bucket_unlock(b);
    weft__waiters_barrier();
}

/* Close the gap that a waiter of a barrier leaves. */
static void positions_decrement(weft__waiter_bucket *b, const weft__lock_waiter *w)
{
    WEFT__LIST_FOR(node, &b->waiters) {
        weft__lock_waiter *other = waiter_of_link(node);
        other->position -= other->lock == w->lock && other->position > w->position;
    }
}

bool weft__waiter_leave(weft__lock_waiter *w)
{
    if (w->exit_hook.pprev != NULL)
        weft__exit_hook_remove(&w->exit_hook);
    weft__waiter_bucket *b = bucket_lock(w->lock);
    if (w->is_linked) {
        bucket_remove(b, w);
        if (w->position > 0)
            positions_decrement(b, w);
    }
    bool is_chosen = w->is_chosen;
    bucket_unlock(b);
    return is_chosen;
}

bool weft__waiter_is_first(const weft__lock_waiter *w)
{
    weft__waiter_bucket *b = bucket_lock(w->lock);
    bool is_first = bucket_first(b, w->lock) == w;
    bucket_unlock(b);
    return is_first;
}

bool weft__waiter_is_chosen(const weft__lock_waiter *w)
{
    weft__waiter_bucket *b = bucket_lock(w->lock);
    bool is_chosen = w->is_chosen;
    bucket_unlock(b);
    return is_chosen;
}

/* A waiter that stops sleeping stays in the table, see weft__waiter_leave. */
static bool waiter_withdraw(weft__remote_wait *wait)
{
    weft__lock_waiter *w = CONTAINER_OF(wait, weft__lock_waiter, wait);
    weft__waiter_bucket *b = bucket_lock(w->lock);
    bool was_asleep = w->is_asleep;
    w->is_asleep = false;
    bucket_unlock(b);
    return was_asleep;
}

/* Set is_asleep, or return false if the waiter has already been woken. */
static bool waiter_fall_asleep(weft__lock_waiter *w)
{
    weft__remote_wait_init(&w->wait, waiter_withdraw);
    weft__waiter_bucket *b = bucket_lock(w->lock);
    bool was_woken = w->is_poked || w->is_chosen;
    w->is_poked = false;
    w->is_asleep = !was_woken;
    bucket_unlock(b);
    return !was_woken;
}

void weft__lock_describe(const weft__fiber *f, struct weft_info *out)
{
    const weft__remote_wait *wait = f->wait_object;
    out->waits_on = CONTAINER_OF(wait, weft__lock_waiter, wait)->lock;
}

weft__wake_reason weft__waiter_sleep(weft__lock_waiter *w, const weft__wait_kind *kind,
                                     double timeout_s)
{
    weft_value value = WEFT__WOKEN_TO_TRY;
    if (waiter_fall_asleep(w)) {
        weft_scope scope;
        bool has_scope = weft_scope_open(&scope, timeout_s) == 0;
        value = weft__remote_wait_run(&w->wait, kind);
        if (has_scope)
            (void)weft_scope_close(&scope);
    }
    if (weft__waiter_is_chosen(w))
        return WEFT__WOKEN_CHOSEN;
    if (value == -EDEADLK)
        return WEFT__WOKEN_BY_DEADLOCK;
    return weft_is_error(value) ? WEFT__WOKEN_BY_TIME : (weft__wake_reason)value;
}

/*
 * The waking side.
 */

/* Lock the bucket. Return NULL if a signal handler must give up. */
static weft__waiter_bucket *bucket_lock_to_wake(const void *lock, bool is_in_handler)
{
    if (!is_in_handler)
        return bucket_lock(lock);
    weft__waiter_bucket *b = weft__waiter_bucket_of(lock);
    return bucket_try_lock(b) ? b : NULL;
}

static bool is_in_known_handler(void)
{
    return weft__hook_thread_self.handlers > 0;
}

void weft__waiters_poke_slow(const void *lock, bool is_in_handler)
{
    is_in_handler = is_in_handler || is_in_known_handler();
    weft__waiter_bucket *b = bucket_lock_to_wake(lock, is_in_handler);
    if (b == NULL)
        return;
    weft__lock_waiter *w = bucket_first(b, lock);
    bool must_end = w != NULL && waiter_wake(w);
    bool must_pause = b->handovers >= HANDOVERS_MAX;
    b->handovers = 0;
    bucket_unlock(b);
    if (must_end)
        waiter_end(w, must_pause ? WEFT__WOKEN_TO_PAUSE : WEFT__WOKEN_TO_TRY, is_in_handler);
}

bool weft__waiters_choose(const void *lock)
{
    bool is_in_handler = is_in_known_handler();
    weft__waiter_bucket *b = bucket_lock_to_wake(lock, is_in_handler);
    if (b == NULL)
        return false;
    weft__lock_waiter *w = bucket_first(b, lock);
    bool must_end = w != NULL && waiter_choose(b, w);
    bucket_unlock(b);
    if (must_end)
        waiter_end(w, WEFT__WOKEN_CHOSEN, is_in_handler);
    return w != NULL;
}

/* Choose all waiters of a lock. Move those whose wait the caller must end to a list. */
static void bucket_choose_all(weft__waiter_bucket *b, const void *lock, weft__list *to_end)
{
    weft__list *next;
    weft__list_init(to_end);
    for (weft__list *node = b->waiters.next; node != &b->waiters; node = next) {
        next = node->next;
        weft__lock_waiter *w = waiter_of_link(node);
        if (w->lock == lock && waiter_choose(b, w))
            weft__list_insert(to_end, &w->link);
    }
}

static void end_all(weft__list *to_end, bool is_in_handler)
{
    weft__list *node;
    while ((node = weft__list_pop(to_end)) != NULL)
        waiter_end(waiter_of_link(node), WEFT__WOKEN_CHOSEN, is_in_handler);
}

void weft__waiters_choose_all(const void *lock)
{
    weft__list to_end;
    bool is_in_handler = is_in_known_handler();
    weft__waiter_bucket *b = bucket_lock_to_wake(lock, is_in_handler);
    if (b == NULL)
        return;
    bucket_choose_all(b, lock, &to_end);
    bucket_unlock(b);
    end_all(&to_end, is_in_handler);
}

weft_fiber weft__waiters_hand_over(const void *lock, bool has_rivals)
{
    weft__waiter_bucket *b = bucket_lock(lock);
    weft__lock_waiter *w = bucket_first(b, lock);
    bool is_own =
        w != NULL && w->thread == NULL && weft__fiber_cord(w->fiber) == weft__cord_self->index;
    bool may_pass = is_own && (!has_rivals || b->handovers < HANDOVERS_MAX);
    weft_fiber fiber = may_pass ? w->fiber : 0;
    bool must_end = may_pass && waiter_choose(b, w);
    b->handovers = has_rivals ? b->handovers + may_pass : 0;
    bucket_unlock(b);
    if (must_end)
        waiter_end(w, WEFT__WOKEN_CHOSEN, false);
    return fiber;
}

bool weft__waiters_meet(weft__lock_waiter *w, const void *lock, sem_t *thread, unsigned count)
{
    weft__list to_end;
    waiter_init(w, lock, thread);
    weft__waiter_bucket *b = bucket_lock(lock);
    const weft__lock_waiter *last = bucket_last(b, lock);
    w->position = last != NULL ? last->position + 1 : 1;
    bool is_complete = w->position >= count;
    if (is_complete)
        bucket_choose_all(b, lock, &to_end);
    else
        bucket_add(b, w);
    bucket_unlock(b);
    if (is_complete) {
        end_all(&to_end, false);
        (void)weft__waiter_leave(w);
    }
    return is_complete;
}

unsigned weft__waiters_now(void)
{
    unsigned count = 0;
    for (size_t i = 0; i < sizeof weft__waiter_table / sizeof *weft__waiter_table; i++)
        count += atomic_load_explicit(&weft__waiter_table[i].count, memory_order_relaxed);
    return count;
}

/*
 * Waiters for locks, for all threads of the process, in a table by the address of the lock. A
 * waiter is in the frame of the waiting fiber or thread, so nothing is allocated. The waiters of
 * one lock are in FIFO order.
 *
 * A waiter is woken in one of two ways:
 *   - A poked waiter stays in the table, at its place, and tries to get the lock again. The waiter
 *     leaves the table when it has got the lock.
 *   - A chosen waiter is no longer in the table. The waker has given it the lock or the signal.
 *
 * The address of a lock is only a key. The memory of the lock may have been freed.
 */
#ifndef WEFT_POSIX_LOCK_WAITERS_H
#define WEFT_POSIX_LOCK_WAITERS_H

#include "arch/sanitizers.h"
#include "base/list.h"
#include "core/cord/remote_wait.h"
#include "core/lifetime/exit_hook.h"

#include <semaphore.h>
#include <stdatomic.h>

/*
 * A waiter. The spin lock of its bucket protects the fields that other threads use: link, position
 * and the flags.
 */
typedef struct weft__lock_waiter {
    weft__list link;           /* in the bucket; undefined unless is_linked */
    const void *lock;          /* the address of the lock */
    weft_fiber fiber;          /* the waiting fiber; 0: a thread that cannot wait with weft */
    sem_t *thread;             /* the thread waits for this semaphore; NULL: a fiber */
    weft__remote_wait wait;    /* of the fiber */
    weft__exit_hook exit_hook; /* of the fiber */
    unsigned position;         /* 1 + the waiters of a barrier before this one; 0: no barrier */
    bool is_linked;
    bool is_asleep; /* the wait must be ended; false: the fiber runs, or its wait has been ended */
    bool is_poked;  /* poked while it was not asleep */
    bool is_chosen;
} weft__lock_waiter;

/* Why weft__waiter_sleep has returned. */
typedef enum weft__wake_reason {
    WEFT__WOKEN_TO_TRY,   /* poked */
    WEFT__WOKEN_TO_PAUSE, /* poked, but threads outside of weft should get the lock first */
    WEFT__WOKEN_CHOSEN,
    WEFT__WOKEN_BY_TIME,     /* also after weft_interrupt */
    WEFT__WOKEN_BY_DEADLOCK, /* nothing can wake any fiber of the process */
} weft__wake_reason;

/* The waiters of the locks with the same hash. */
typedef struct weft__waiter_bucket {
    _Alignas(CACHE_LINE_BYTES) atomic_uint count; /* waiters; read without the spin lock */
    atomic_bool is_locked;                        /* the spin lock */
    unsigned handovers; /* locks passed on in a row, while threads outside of weft wait */
    weft__list waiters; /* next is NULL: not initialised */
} weft__waiter_bucket;

#define WEFT__WAITER_BUCKETS_BITS 8

extern weft__waiter_bucket weft__waiter_table[1 << WEFT__WAITER_BUCKETS_BITS];

static inline weft__waiter_bucket *weft__waiter_bucket_of(const void *lock)
{
    uint64_t hash = (uint64_t)(uintptr_t)lock * UINT64_C(0x9e3779b97f4a7c15);
    return &weft__waiter_table[hash >> (64 - WEFT__WAITER_BUCKETS_BITS)];
}

/* Return whether the lock may have waiters. False positives are possible. */
static inline bool weft__waiters_may_exist(const void *lock)
{
    return atomic_load_explicit(&weft__waiter_bucket_of(lock)->count, memory_order_relaxed) > 0;
}

/* Add a waiter at the end of its queue. thread is NULL if the current fiber waits. */
void weft__waiter_join(weft__lock_waiter *w, const void *lock, sem_t *thread);

/* Set waits_on to the lock for which f waits. */
void weft__lock_describe(const weft__fiber *f, struct weft_info *out);

/* Remove a waiter, before its frame ends. Return whether the waiter was chosen. */
bool weft__waiter_leave(weft__lock_waiter *w);

/* Return whether the waiter was chosen. */
bool weft__waiter_is_chosen(const weft__lock_waiter *w);

/* Return whether the waiter is the first one of its lock. */
bool weft__waiter_is_first(const weft__lock_waiter *w);

/*
 * Suspend the fiber of the waiter until the waiter is woken, for at most timeout_s. Return at once
 * if the waiter was woken since the last call. The caller must hold a shield.
 */
weft__wake_reason weft__waiter_sleep(weft__lock_waiter *w, const weft__wait_kind *kind,
                                     double timeout_s);

/*
 * Poke the first waiter of a lock. Call weft__waiters_poke instead.
 *
 * Async-signal-safe if is_in_handler is true. The call then gives up if another thread holds the
 * spin lock for long, because the caller may have interrupted that thread.
 */
void weft__waiters_poke_slow(const void *lock, bool is_in_handler);

/* Choose the first waiter of a lock. Return false if there is none. */
bool weft__waiters_choose(const void *lock);

/* Choose all waiters of a lock. */
void weft__waiters_choose_all(const void *lock);

/*
 * Choose the first waiter of a lock that the calling thread holds, if the waiter is a fiber of the
 * calling thread. Return the fiber, or 0. If has_rivals is true, threads outside of weft wait for
 * the lock too. After 32 calls in a row with has_rivals, return 0 until the first waiter is poked.
 */
weft_fiber weft__waiters_hand_over(const void *lock, bool has_rivals);

/*
 * If count - 1 waiters wait for the lock, choose all of them, and return true. Otherwise, add the
 * waiter as by weft__waiter_join, and return false.
 */
bool weft__waiters_meet(weft__lock_waiter *w, const void *lock, sem_t *thread, unsigned count);

/* Return the number of waiters in the process. */
unsigned weft__waiters_now(void);

/*
 * A full barrier between a store and a load, for the fast paths of this header.
 *
 * A waiter increments the count of waiters, and then tries to lock. An unlock unlocks, and then
 * reads the count. Without barriers, each of both threads could miss the store of the other thread,
 * and the waiter would sleep although the lock is free. With a full barrier in both threads, the
 * attempt of the waiter fails only if the unlock, or a later one, reads the new count.
 *
 * On x86-64, the increment and the unlock of glibc are instructions with a lock prefix, which are
 * full barriers. In a process with one thread, glibc unlocks with a plain store, but then no other
 * thread exists.
 */
static inline void weft__waiters_barrier(void)
{
#if defined(__x86_64__) || defined(WEFT__TSAN)
    atomic_signal_fence(memory_order_seq_cst);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/*
 * Return whether the lock may have waiters, after the caller has unlocked it.
 *
 * TSan does not support fences. An addition of 0 has the same effect: if the addition precedes the
 * increment of the waiter, the unlock happens before the attempt of the waiter.
 */
static inline bool weft__waiters_may_exist_after_unlock(const void *lock)
{
#ifdef WEFT__TSAN
    atomic_fetch_add(&weft__waiter_bucket_of(lock)->count, 0);
#endif
    weft__waiters_barrier();
    return UNLIKELY(weft__waiters_may_exist(lock));
}

/*
 * Poke the first waiter of a lock, if there is one. Call this function after each unlock.
 *
 * If the count includes the waiter, the spin lock orders both threads: the call finds the waiter
 * asleep and wakes it, or finds it awake and sets is_poked, which the waiter checks before it
 * sleeps.
 */
static inline void weft__waiters_poke(const void *lock)
{
    if (weft__waiters_may_exist_after_unlock(lock))
        weft__waiters_poke_slow(lock, false);
}

/* Like weft__waiters_poke, but async-signal-safe. */
static inline void weft__waiters_poke_in_handler(const void *lock)
{
    if (weft__waiters_may_exist_after_unlock(lock))
        weft__waiters_poke_slow(lock, true);
}

#endif

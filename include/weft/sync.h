/*
 * Locks and signals between the fibers of one thread.
 *
 * Those who wait are served in the order in which they came, and what they wait for is handed to
 * them directly: whoever unlocks a mutex cannot take it again ahead of one who waits. A wait that
 * is cancelled, timed out (by a scope around it) or interrupted has taken nothing. One that was
 * served in the same moment has what it wanted and returns 0; the cancellation strikes at the next
 * call. So no signal and no token is ever lost.
 *
 * What need not wait does not switch, and succeeds even in a fiber that is being cancelled: so
 * clean-up can take a lock that is free. Fibers switch only at switchpoints: data that is not
 * touched across one needs no lock.
 *
 * Everything here that has no open is ready to use when it is all-zero, and has nothing to release.
 * An object must stay where it is while someone holds it or waits on it. Unless a function says
 * otherwise, it is for the fibers of one thread. As POSIX has it, a lock that another holds is
 * -EBUSY to those who only try, and a token that is not there -EAGAIN.
 */
#ifndef WEFT_SYNC_H
#define WEFT_SYNC_H

#include <weft/base.h>

WEFT_BEGIN

/* A mutex: one holds it at a time. All-zero is free. */
typedef struct weft_mutex {
    uint64_t weft__private[6];
} weft_mutex;

/**
 * Take the mutex; waits while another fiber holds it. Returns 0. -EDEADLK if the caller holds it
 * already. -EOWNERDEAD if a fiber has ended while it held it: what the mutex guards may be half
 * done, so every call fails, for those who wait too, until it is made all-zero again.
 */
WEFT_SWITCHPOINT int weft_mutex_lock(weft_mutex *mutex);

/** The same without waiting: -EBUSY if another fiber holds it. */
WEFT_API int weft_mutex_try_lock(weft_mutex *mutex) WEFT_MUST_CHECK;

/** Give it to the next who waits, or free it. -EPERM if the caller does not hold it. */
WEFT_API int weft_mutex_unlock(weft_mutex *mutex);

/** The fiber that holds it; 0: nobody. */
WEFT_API weft_fiber weft_mutex_owner(const weft_mutex *mutex);

/* A lock that several may hold to read, or one to write. All-zero is free. */
typedef struct weft_rwlock {
    uint64_t weft__private[7];
} weft_rwlock;

/**
 * Take it to read; waits while another fiber holds it to write, or waits to: so writers are not
 * starved, and a reader that reads again while a writer waits would wait for itself. -EDEADLK if
 * the caller holds it to write. -EOWNERDEAD as weft_mutex_lock, if the fiber held it to write.
 */
WEFT_SWITCHPOINT int weft_rwlock_read(weft_rwlock *lock);

/** Take it to write; waits while anyone holds it. -EDEADLK, -EOWNERDEAD as above. */
WEFT_SWITCHPOINT int weft_rwlock_write(weft_rwlock *lock);

/** Take it to read without waiting: -EBUSY if it would have to. */
WEFT_API int weft_rwlock_try_read(weft_rwlock *lock) WEFT_MUST_CHECK;

/** Take it to write without waiting: -EBUSY if it would have to. */
WEFT_API int weft_rwlock_try_write(weft_rwlock *lock) WEFT_MUST_CHECK;

/**
 * Let go of it, as reader or writer. -EPERM if nobody holds it to read and the caller does not hold
 * it to write. (Readers are counted, not known: a fiber that did not read is not noticed as long as
 * others do, and one that ends without letting go holds it for ever.)
 */
WEFT_API int weft_rwlock_unlock(weft_rwlock *lock);

/* A condition: what is waited for is the caller's matter, and changes under a mutex. */
typedef struct weft_cond {
    uint64_t weft__private[1];
} weft_cond;

/**
 * Let go of the mutex, wait for a signal, and take the mutex again. However the wait ends, the
 * caller holds the mutex again when it returns; that last part cannot be cut short. Returns 0 if it
 * was signalled. -EPERM if the caller does not hold the mutex; -EOWNERDEAD as weft_mutex_lock,
 * -EDEADLK in a main fiber that would wait for its mutex for ever: then it does not hold it. There
 * are no spurious wake-ups, but what was signalled may be gone again: wait in a loop. A NULL mutex
 * is none.
 */
WEFT_SWITCHPOINT int weft_cond_wait(weft_cond *cond, weft_mutex *mutex);

/** Wake the one that has waited longest; returns how many that were, 0 or 1. Not remembered. */
WEFT_API int weft_cond_signal(weft_cond *cond);

/** Wake all who wait now, in their order; returns how many. */
WEFT_API int weft_cond_broadcast(weft_cond *cond);

/* A semaphore: a number of tokens. All-zero has none. */
typedef struct weft_sem {
    uint64_t weft__private[2];
} weft_sem;

/** Give it so many tokens to begin with; nobody waits on it. */
WEFT_API void weft_sem_open(weft_sem *sem, size_t tokens);

/** Take a token; waits while there is none. Returns 0. */
WEFT_SWITCHPOINT int weft_sem_wait(weft_sem *sem);

/** The same without waiting: -EAGAIN if there is none. */
WEFT_API int weft_sem_try_wait(weft_sem *sem) WEFT_MUST_CHECK;

/** Add a token: the next who waits has it. -EOVERFLOW. */
WEFT_API int weft_sem_post(weft_sem *sem);

/** Tokens that are there to be taken. */
WEFT_API size_t weft_sem_count(const weft_sem *sem);

/*
 * An event: a signal that is remembered until one fiber has waited for it. Several signals before
 * that are one. It can be set from any thread. All-zero is not set.
 */
typedef struct weft_event {
    uint64_t weft__private[1];
} weft_event;

/**
 * Set it: the one who waits goes on, or the next who comes does not wait. From any thread. Returns
 * 0; -ENOMEM if the word cannot be sent to another thread, then it is not set.
 */
WEFT_API int weft_event_set(weft_event *event);

/** Forget that it was set. */
WEFT_API void weft_event_clear(weft_event *event);

/** Is it set, with nobody having waited for that yet? */
WEFT_API bool weft_event_is_set(const weft_event *event);

/** Wait until it is set, and clear it. -EBUSY if another fiber waits for it. */
WEFT_SWITCHPOINT int weft_event_wait(weft_event *event);

/* A latch: wait until a count is zero. All-zero is at zero, and open. */
typedef struct weft_latch {
    uint64_t weft__private[2];
} weft_latch;

/** Add to the count. -EOVERFLOW. */
WEFT_API int weft_latch_add(weft_latch *latch, size_t n);

/** Take one from the count; at zero, all who wait go on. -EINVAL if it is zero already. */
WEFT_API int weft_latch_done(weft_latch *latch);

/** Wait until the count is zero. Returns 0, at once if it is. */
WEFT_SWITCHPOINT int weft_latch_wait(weft_latch *latch);

/** The count. */
WEFT_API size_t weft_latch_count(const weft_latch *latch);

/* A barrier: a number of fibers wait for each other, again and again. */
typedef struct weft_barrier {
    uint64_t weft__private[3];
} weft_barrier;

/** A barrier for so many fibers. -EINVAL for 0. Nothing has to be released. */
WEFT_API int weft_barrier_open(weft_barrier *barrier, size_t fibers);

/**
 * Wait until so many wait; the last does not have to. Returns 1 to that last one and 0 to the
 * others, and the barrier begins anew. A wait that is cut short does not count. -EINVAL if it is
 * not open.
 */
WEFT_SWITCHPOINT int weft_barrier_wait(weft_barrier *barrier);

/* A throttle: things happen at most so many times a second. */
typedef struct weft_throttle {
    uint64_t weft__private[4];
} weft_throttle;

/** A throttle that lets pass rate times a second, evenly. -EINVAL unless rate > 0. */
WEFT_API int weft_throttle_open(weft_throttle *throttle, double rate);

/**
 * Wait until the next may pass; the first need not wait. Those who wait pass in the order in which
 * they came, and who gives up takes nobody's time. -EINVAL if it is not open.
 */
WEFT_SWITCHPOINT int weft_throttle_wait(weft_throttle *throttle);

WEFT_END

#endif

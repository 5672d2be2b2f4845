/*
 * Synchronisation between the fibers of one thread.
 *
 * Waiting fibers continue in FIFO order. A lock or a token passes directly to the first waiting
 * fiber. A fiber that unlocks a mutex cannot lock the mutex again before a waiting fiber. A wait
 * that is cancelled, interrupted or timed out by a scope has taken nothing. If the wait has already
 * succeeded, the call returns 0. The cancellation then takes effect at the next call. No signal and
 * no token is lost.
 *
 * A call that does not need to wait does not switch. Such a call never returns -ECANCELED, even in
 * a fiber that is being cancelled. Cleanup can therefore take a free lock. Fibers switch only at
 * switchpoints. Data that is not used across a switchpoint needs no lock.
 *
 * Objects without an open function are ready to use when all-zero. No object needs a release. Do
 * not move an object while a fiber holds the object or waits on it. Objects belong to the fibers of
 * one thread, unless a comment allows other threads. As in POSIX, a try function returns -EBUSY for
 * a lock that is held. A try function returns -EAGAIN if no token is available.
 */
#ifndef WEFT_SYNC_H
#define WEFT_SYNC_H

#include <weft/base.h>

WEFT_BEGIN

/* A mutex. All-zero is unlocked. */
typedef struct weft_mutex {
    uint64_t weft__private[6];
} weft_mutex;

/**
 * Lock a mutex.
 *
 * The call waits while another fiber holds the mutex. If a fiber ends while it holds the mutex, the
 * data that the mutex protects may be inconsistent. All waiting and later calls that lock the mutex
 * then fail with -EOWNERDEAD. To reuse the mutex, set it to all-zero.
 *
 * Returns 0, or:
 * -EDEADLK if the caller already holds the mutex
 * -EOWNERDEAD if a fiber has ended while it held the mutex
 */
WEFT_SWITCHPOINT int weft_mutex_lock(weft_mutex *mutex);

/**
 * Like weft_mutex_lock, but without waiting.
 *
 * Errors in addition to those of weft_mutex_lock:
 * -EBUSY if another fiber holds the mutex
 */
WEFT_API int weft_mutex_try_lock(weft_mutex *mutex) WEFT_MUST_CHECK;

/**
 * Unlock a mutex, or pass it to the first waiting fiber.
 *
 * Returns 0, or:
 * -EPERM if the caller does not hold the mutex
 */
WEFT_API int weft_mutex_unlock(weft_mutex *mutex);

/** Return the fiber that holds a mutex, or 0 if no fiber holds the mutex. */
WEFT_API weft_fiber weft_mutex_owner(const weft_mutex *mutex);

/* A lock that several readers or one writer can hold. All-zero is unlocked. */
typedef struct weft_rwlock {
    uint64_t weft__private[7];
} weft_rwlock;

/**
 * Lock a read-write lock for reading.
 *
 * The call waits while another fiber holds the lock for writing or waits to write. Readers
 * therefore do not starve writers. Read locks are not recursive. A fiber that takes a read lock
 * twice while a writer waits causes a deadlock.
 *
 * Returns 0, or:
 * -EDEADLK if the caller holds the lock for writing
 * -EOWNERDEAD if a fiber has ended while it held the lock for writing
 */
WEFT_SWITCHPOINT int weft_rwlock_read(weft_rwlock *lock);

/**
 * Lock a read-write lock for writing.
 *
 * The call waits while any fiber holds the lock.
 *
 * Returns 0, or:
 * -EDEADLK if the caller holds the lock for writing
 * -EOWNERDEAD if a fiber has ended while it held the lock for writing
 */
WEFT_SWITCHPOINT int weft_rwlock_write(weft_rwlock *lock);

/**
 * Like weft_rwlock_read, but without waiting.
 *
 * Errors in addition to those of weft_rwlock_read:
 * -EBUSY if the call would wait
 */
WEFT_API int weft_rwlock_try_read(weft_rwlock *lock) WEFT_MUST_CHECK;

/**
 * Like weft_rwlock_write, but without waiting.
 *
 * Errors in addition to those of weft_rwlock_write:
 * -EBUSY if the call would wait
 */
WEFT_API int weft_rwlock_try_write(weft_rwlock *lock) WEFT_MUST_CHECK;

/**
 * Release a read-write lock that is held for reading or for writing.
 *
 * weft counts the readers of a lock, but does not record the fibers. While a fiber reads, any fiber
 * can therefore release the lock. If a reader ends without releasing the lock, the lock remains
 * held indefinitely.
 *
 * Returns 0, or:
 * -EPERM if no fiber reads, and the caller does not hold the lock for writing
 */
WEFT_API int weft_rwlock_unlock(weft_rwlock *lock);

/* A condition variable. The mutex of the caller protects the condition. */
typedef struct weft_cond {
    uint64_t weft__private[1];
} weft_cond;

/**
 * Release a mutex, wait for a signal, and lock the mutex again.
 *
 * Locking the mutex again cannot be cancelled. There are no spurious wake-ups. However, the
 * condition may have changed again, so wait in a loop. If mutex is NULL, the call only waits for
 * the signal.
 *
 * When the call returns, the caller holds the mutex, with these exceptions. After -EOWNERDEAD, the
 * caller does not hold the mutex. After -EPERM, the mutex is unchanged. After -EDEADLK,
 * weft_mutex_owner shows whether the caller holds the mutex.
 *
 * Returns 0 after a signal, the error that ended the wait, or:
 * -EDEADLK if a main fiber would wait forever for the signal or the mutex
 * -EOWNERDEAD if a fiber has ended while it held the mutex
 * -EPERM if the caller does not hold the mutex
 */
WEFT_SWITCHPOINT int weft_cond_wait(weft_cond *cond, weft_mutex *mutex);

/**
 * Wake the first fiber that waits on a condition variable.
 *
 * A signal without a waiting fiber has no effect. Returns the number of fibers woken, 0 or 1.
 */
WEFT_API int weft_cond_signal(weft_cond *cond);

/**
 * Wake all fibers that wait on a condition variable, in FIFO order.
 *
 * Returns the number of fibers woken.
 */
WEFT_API int weft_cond_broadcast(weft_cond *cond);

/* A semaphore holds tokens. All-zero has no token. */
typedef struct weft_sem {
    uint64_t weft__private[2];
} weft_sem;

/**
 * Initialise a semaphore with a number of tokens.
 *
 * No fiber may wait on the semaphore.
 */
WEFT_API void weft_sem_open(weft_sem *sem, size_t tokens);

/**
 * Take a token from a semaphore.
 *
 * The call waits while no token is available. Returns 0.
 */
WEFT_SWITCHPOINT int weft_sem_wait(weft_sem *sem);

/**
 * Like weft_sem_wait, but without waiting.
 *
 * Returns 0, or:
 * -EAGAIN if no token is available
 */
WEFT_API int weft_sem_try_wait(weft_sem *sem) WEFT_MUST_CHECK;

/**
 * Add a token to a semaphore, or pass a token to the first waiting fiber.
 *
 * Returns 0, or:
 * -EOVERFLOW if the semaphore already has SIZE_MAX tokens
 */
WEFT_API int weft_sem_post(weft_sem *sem);

/** Return the number of available tokens of a semaphore. */
WEFT_API size_t weft_sem_count(const weft_sem *sem);

/*
 * An event, which any thread may set. All-zero is not set.
 *
 * Setting an event wakes all waiting fibers and leaves the event clear. If no fiber waits, the
 * event remains set until one fiber has waited for the event. Setting a set event has no effect.
 * All fibers that wait for an event at the same time must belong to one thread.
 */
typedef struct weft_event {
    uint64_t weft__private[1];
} weft_event;

/**
 * Set an event. Wake all waiting fibers, in FIFO order.
 *
 * The call does not wake fibers that begin to wait later. If no fiber waits, the next wait returns
 * at once. If the call fails, the event is not set. A woken fiber may free the event. Any thread
 * may call this function. A signal handler must not call this function.
 *
 * Returns 0, or:
 * -ENOMEM if memory for a message to another thread is exhausted
 */
WEFT_API int weft_event_set(weft_event *event);

/**
 * Clear an event.
 *
 * Waiting fibers continue to wait. The waits of woken fibers still return 0. Any thread may call
 * this function.
 */
WEFT_API void weft_event_clear(weft_event *event);

/**
 * Return true if an event is set, and no fiber has waited for the event.
 *
 * Any thread may call this function.
 */
WEFT_API bool weft_event_is_set(const weft_event *event);

/**
 * Wait until an event is set, and clear the event.
 *
 * Returns 0, or:
 * -EXDEV if a fiber of another thread waits for the event
 */
WEFT_SWITCHPOINT int weft_event_wait(weft_event *event);

/* A latch: fibers wait until its count is 0. All-zero has the count 0. */
typedef struct weft_latch {
    uint64_t weft__private[2];
} weft_latch;

/**
 * Add n to the count of a latch.
 *
 * Returns 0, or:
 * -EOVERFLOW if the count would exceed SIZE_MAX
 */
WEFT_API int weft_latch_add(weft_latch *latch, size_t n);

/**
 * Subtract 1 from the count of a latch. At 0, wake all waiting fibers.
 *
 * Returns 0, or:
 * -EINVAL if the count is already 0
 */
WEFT_API int weft_latch_done(weft_latch *latch);

/** Wait until the count of a latch is 0. Returns 0. */
WEFT_SWITCHPOINT int weft_latch_wait(weft_latch *latch);

/** Return the count of a latch. */
WEFT_API size_t weft_latch_count(const weft_latch *latch);

/* A barrier: a fixed number of fibers wait for each other, repeatedly. */
typedef struct weft_barrier {
    uint64_t weft__private[3];
} weft_barrier;

/**
 * Initialise a barrier for a number of fibers.
 *
 * No fiber may wait on the barrier.
 *
 * Returns 0, or:
 * -EINVAL if fibers is 0
 */
WEFT_API int weft_barrier_open(weft_barrier *barrier, size_t fibers);

/**
 * Wait until all fibers of a barrier have arrived.
 *
 * The last fiber does not wait. The barrier is then ready for the next round. A wait that is
 * cancelled or interrupted does not count.
 *
 * Returns 1 in the last fiber, 0 in all other fibers, or:
 * -EINVAL if the barrier is not open
 */
WEFT_SWITCHPOINT int weft_barrier_wait(weft_barrier *barrier);

/* A throttle limits the number of calls per second. */
typedef struct weft_throttle {
    uint64_t weft__private[4];
} weft_throttle;

/**
 * Initialise a throttle that admits rate calls per second, evenly.
 *
 * No fiber may wait on the throttle.
 *
 * Returns 0, or:
 * -EINVAL if rate is not greater than 0
 */
WEFT_API int weft_throttle_open(weft_throttle *throttle, double rate);

/* Options of weft_throttle_open_with. All-zero is the default. */
typedef struct weft_throttle_options {
    size_t burst; /* calls that pass at once after an idle time; 0: 1 */
} weft_throttle_options;

/**
 * Like weft_throttle_open, but with options.
 *
 * The throttle is a bucket of burst tokens. Each call takes a token, and waits while the bucket is
 * empty. The throttle adds rate tokens per second until the bucket is full. The bucket is full at
 * the beginning. After an idle time, at most burst calls pass at once. In the long run, rate calls
 * pass per second. If options is NULL, the defaults apply.
 *
 * Returns 0, or:
 * -EINVAL if burst is greater than 2^32 - 1
 * -EINVAL if rate is not greater than 0
 */
WEFT_API int weft_throttle_open_with(weft_throttle *throttle, double rate,
                                     const weft_throttle_options *options);

/**
 * Wait until a throttle admits the caller.
 *
 * The first calls do not wait, as many as the burst. Waiting fibers continue in FIFO order. A
 * cancelled wait does not delay the remaining fibers.
 *
 * Returns 0, or:
 * -EINVAL if the throttle is not open
 */
WEFT_SWITCHPOINT int weft_throttle_wait(weft_throttle *throttle);

WEFT_END

#endif

/*
 * Hooks of mutexes. The mutex of glibc remains the lock, so that fibers and plain threads exclude
 * each other. A fiber that must wait does so in the table of waiters.
 *
 * glibc notes only the thread that holds a mutex. For normal mutexes, that is enough: a second lock
 * by the same thread fails, so another fiber holds the mutex. A recursive or error-checking mutex
 * treats all fibers of a thread as one. For these types, the table of holders has the fiber.
 *
 * If the first waiter is a fiber of the unlocking thread, the unlock passes the mutex on. The mutex
 * of glibc then remains locked. Otherwise a fiber that locks and unlocks in a loop would starve
 * others.
 */
#include "posix/lock/mutex.h"

#include "core/debug/diag.h"
#include "posix/hook.h"
#include "posix/lock/gate.h"
#include "posix/lock/holders.h"

#include <weft/posix.h>

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Bits of __kind in glibc. */
#define KIND_TYPE 3         /* a mask: PTHREAD_MUTEX_NORMAL, ... */
#define KIND_PROTOCOLS 0x70 /* robust, priority inheritance, priority ceiling */

static int kind_of(const pthread_mutex_t *mutex)
{
    return __atomic_load_n(&mutex->__data.__kind, __ATOMIC_RELAXED);
}

/* Return whether the type of the mutex depends on its holder, so that the fiber matters. */
static inline bool is_by_fiber(const pthread_mutex_t *mutex)
{
    int type = kind_of(mutex) & KIND_TYPE;
    return type == PTHREAD_MUTEX_RECURSIVE_NP || type == PTHREAD_MUTEX_ERRORCHECK_NP;
}

/* Return whether the calling thread holds the mutex. */
static bool is_held_here(const pthread_mutex_t *mutex)
{
    return __atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED) == weft__thread_id();
}

static bool is_held_by_other_fiber(const pthread_mutex_t *mutex)
{
    weft_fiber holder = weft__holder_get(mutex);
    return holder != 0 && holder != weft__cord_self->current->id;
}

static int trylock_and_note(pthread_mutex_t *mutex)
{
    int rc = REAL(pthread_mutex_trylock)(mutex);
    if (rc == 0 || rc == EOWNERDEAD)
        weft__holder_set(mutex, weft__cord_self->current->id);
    return rc;
}

static int mutex_attempt(void *lock)
{
    pthread_mutex_t *mutex = lock;
    if (LIKELY(!is_by_fiber(mutex)))
        return REAL(pthread_mutex_trylock)(mutex);
    if (!is_held_here(mutex))
        return trylock_and_note(mutex);
    if (is_held_by_other_fiber(mutex))
        return EBUSY;
    return REAL(pthread_mutex_lock)(mutex); /* recursion or EDEADLK */
}

/* For dumps of fibers. */
static weft_fiber awaited_holder(const weft__fiber *f)
{
    const weft__remote_wait *wait = f->wait_object;
    const weft__lock_waiter *w = CONTAINER_OF(wait, weft__lock_waiter, wait);
    return weft_posix_owner((pthread_mutex_t *)w->lock);
}

static const weft__wait_kind waits_mutex = {.name = "a pthread mutex",
                                            .is_left_at_exit = true,
                                            .leave = weft__remote_wait_leave,
                                            .holder = awaited_holder,
                                            .describe = weft__lock_describe};
static const weft__gate mutex_gate = {&waits_mutex, mutex_attempt, false, false};

/*
 * Hooks that are off, in a cord.
 */

#define SELF_DEADLOCK                                                                          \
    "a signal handler, or code that must not switch, locks a mutex that another fiber of the " \
    "thread holds; the call fails with EDEADLK"

/* Report once that the caller can never get a mutex. */
COLD static int mutex_report_deadlock(void)
{
    static atomic_flag was_reported = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&was_reported))
        return EDEADLK;
    int error = errno;
    if (weft__hook_thread_self.handlers > 0) /* the log function is not async-signal-safe */
        (void)!syscall(SYS_write, STDERR_FILENO, "weft: " SELF_DEADLOCK "\n",
                       strlen("weft: " SELF_DEADLOCK "\n"));
    else
        weft__diag(LOG_ERR, SELF_DEADLOCK);
    errno = error;
    return EDEADLK;
}

static int lock_real(pthread_mutex_t *mutex, const weft__time_limit *limit)
{
    if (limit->at == NULL)
        return REAL(pthread_mutex_lock)(mutex);
    if (limit->clock == CLOCK_REALTIME)
        return REAL(pthread_mutex_timedlock)(mutex, limit->at);
    return REAL(pthread_mutex_clocklock)(mutex, limit->clock, limit->at);
}

/* Lock a mutex that is not free, without a switch. The fibers of this thread cannot unlock it. */
COLD static int lock_while_off(pthread_mutex_t *mutex, const weft__time_limit *limit)
{
    bool has_fiber = is_by_fiber(mutex);
    if (is_held_here(mutex) && (has_fiber || limit->at == NULL))
        return mutex_report_deadlock();
    int rc = lock_real(mutex, limit);
    if (has_fiber && (rc == 0 || rc == EOWNERDEAD))
        weft__holder_set(mutex, weft__cord_self->current->id);
    return rc;
}

/*
 * Lock and unlock, in a cord.
 */

static int lock_in_cord(pthread_mutex_t *mutex, const weft__time_limit *limit)
{
    int rc = mutex_attempt(mutex);
    if (LIKELY(rc != EBUSY))
        return rc;
    if (!weft__hook_is_on())
        return lock_while_off(mutex, limit);
    return weft__gate_wait(&mutex_gate, mutex, limit);
}

int weft__mutex_lock(pthread_mutex_t *mutex)
{
    return lock_in_cord(mutex, WEFT__NO_LIMIT);
}

/*
 * Pass a mutex of this thread to the first waiter. TSan notes which fiber has locked the mutex, and
 * would report that another fiber unlocks it.
 */
COLD static bool hand_over(pthread_mutex_t *mutex)
{
#ifdef WEFT__TSAN
    return false;
#endif
    bool is_simple = (kind_of(mutex) & KIND_PROTOCOLS) == 0;
    if (!is_simple || !is_held_here(mutex) || weft__hook_thread_self.handlers > 0)
        return false;
    /* The value 2: threads wait for the futex. */
    bool has_rivals = __atomic_load_n(&mutex->__data.__lock, __ATOMIC_RELAXED) > 1;
    weft_fiber next = weft__waiters_hand_over(mutex, has_rivals);
    if (next == 0)
        return false;
    if (is_by_fiber(mutex))
        weft__holder_set(mutex, next);
    HOOK_COUNT(handovers);
    return true;
}

static int unlock_and_poke(pthread_mutex_t *mutex)
{
    int rc = REAL(pthread_mutex_unlock)(mutex);
    weft__waiters_poke(mutex);
    return rc;
}

static int unlock_by_fiber(pthread_mutex_t *mutex)
{
    if (!is_held_here(mutex) || is_held_by_other_fiber(mutex))
        return EPERM;
    bool is_recursive = (kind_of(mutex) & KIND_TYPE) == PTHREAD_MUTEX_RECURSIVE_NP;
    if (is_recursive && mutex->__data.__count > 1)
        return REAL(pthread_mutex_unlock)(mutex);
    if (weft__waiters_may_exist(mutex) && hand_over(mutex))
        return 0;
    weft__holder_remove(mutex);
    return unlock_and_poke(mutex);
}

int weft__mutex_unlock(pthread_mutex_t *mutex)
{
    if (is_by_fiber(mutex))
        return unlock_by_fiber(mutex);
    if (UNLIKELY(weft__waiters_may_exist(mutex)) && hand_over(mutex))
        return 0;
    return unlock_and_poke(mutex);
}

/*
 * The hooks.
 */

HOOK_DEFINE(int, pthread_mutex_lock, (pthread_mutex_t * mutex))
{
    if (LIKELY(weft__cord_self == NULL))
        return REAL(pthread_mutex_lock)(mutex);
    return weft__mutex_lock(mutex);
}

HOOK_DEFINE(int, pthread_mutex_trylock, (pthread_mutex_t * mutex))
{
    if (LIKELY(weft__cord_self == NULL) || !is_by_fiber(mutex))
        return REAL(pthread_mutex_trylock)(mutex);
    if (!is_held_here(mutex))
        return trylock_and_note(mutex);
    return is_held_by_other_fiber(mutex) ? EBUSY : REAL(pthread_mutex_trylock)(mutex);
}

HOOK_DEFINE(int, pthread_mutex_timedlock, (pthread_mutex_t * mutex, const struct timespec *time))
{
    if (weft__cord_self == NULL)
        return REAL(pthread_mutex_timedlock)(mutex, time);
    return lock_in_cord(mutex, &(weft__time_limit){CLOCK_REALTIME, time});
}

HOOK_DEFINE(int, pthread_mutex_clocklock,
            (pthread_mutex_t * mutex, clockid_t clock, const struct timespec *time))
{
    if (weft__cord_self == NULL || !weft__clock_is_valid(clock))
        return REAL(pthread_mutex_clocklock)(mutex, clock, time);
    return lock_in_cord(mutex, &(weft__time_limit){clock, time});
}

HOOK_DEFINE(int, pthread_mutex_unlock, (pthread_mutex_t * mutex))
{
    if (LIKELY(weft__cord_self == NULL))
        return unlock_and_poke(mutex);
    return weft__mutex_unlock(mutex);
}

weft_fiber weft_posix_owner(pthread_mutex_t *mutex)
{
    bool is_known = mutex != NULL && is_by_fiber(mutex) && is_held_here(mutex);
    return is_known ? weft__holder_get(mutex) : 0;
}

/* Support for tests of locks: waits in a lock, sections that must not overlap, points in time. */
#ifndef TESTS_POSIX_LOCK_SUPPORT_H
#define TESTS_POSIX_LOCK_SUPPORT_H

#include "posix/posix_support.h"

#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

/* Wait in the hook of nanosleep, so that other fibers run. */
static inline void hooked_pause(void)
{
    struct timespec time = {.tv_nsec = 1000000};
    nanosleep(&time, NULL);
}

/* A section of code that one fiber or thread may enter at a time. */
static atomic_int inside;
static atomic_int overlaps;

static inline void section_enter(void)
{
    if (atomic_fetch_add(&inside, 1) != 0)
        atomic_fetch_add(&overlaps, 1);
}

static inline void section_leave(void)
{
    atomic_fetch_sub(&inside, 1);
}

/* A time in the future, or with a negative argument in the past. */
static inline struct timespec time_in(clockid_t clock, int milliseconds)
{
    struct timespec t;
    clock_gettime(clock, &t);
    int64_t ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec + (int64_t)milliseconds * 1000000;
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

#define LONG_MS 600000 /* a limit that no test reaches */

/* Wait in a plain thread until the counter of lock waits has this value. */
static inline void await_lock_waits(uint64_t count)
{
    while (posix_stats().lock_waits < count)
        sched_yield();
}

static inline pthread_mutex_t mutex_of_type(int type)
{
    pthread_mutex_t mutex;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, type);
    pthread_mutex_init(&mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return mutex;
}

/* A mutex that a thread locks before it becomes a cord has no known fiber. */
static inline void adopt_and_start(void)
{
    adopt_program();
    ck_assert_uint_ne(weft_self(), 0);
}

static inline void await_all(void)
{
    ck_assert_int_eq(weft_await_children(), 0);
}

#endif

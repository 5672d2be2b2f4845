/* Thread creation: threads that block all signals, and threads on a given CPU. */
#include "base/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

/* The stack size of an internal thread. Internal threads only wait for events and pass them on. */
#define INTERNAL_STACK_BYTES (128 << 10)

static atomic_uint internal_threads; /* internal threads in this process; they never end */

/* Return 0, or a positive errno. */
static int thread_create(pthread_t *out, size_t stack_bytes, void *(*fn)(void *), void *arg)
{
    pthread_t detached;
    pthread_attr_t attributes;
    int rc = pthread_attr_init(&attributes);
    if (rc != 0)
        return rc;
    if (out == NULL)
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (stack_bytes > 0)
        pthread_attr_setstacksize(&attributes, stack_bytes);
    rc = pthread_create(out != NULL ? out : &detached, &attributes, fn, arg);
    pthread_attr_destroy(&attributes);
    return rc;
}

int weft__thread_create(pthread_t *out, size_t stack_bytes, void *(*fn)(void *), void *arg)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = thread_create(out, stack_bytes, fn, arg);
    if (rc == EINVAL && stack_bytes > 0)
        rc = thread_create(out, 0, fn, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return -rc;
}

#ifdef WEFT_HAS_PTHREAD_ATTR_SETAFFINITY_NP
static int thread_create_on(const cpu_set_t *cpus, pthread_t *out, void *(*fn)(void *), void *arg)
{
    pthread_attr_t attributes;
    int rc = pthread_attr_init(&attributes);
    if (rc != 0)
        return rc;
    rc = pthread_attr_setaffinity_np(&attributes, sizeof *cpus, cpus);
    if (rc == 0)
        rc = pthread_create(out, &attributes, fn, arg);
    pthread_attr_destroy(&attributes);
    return rc;
}
#else
/* A new thread inherits the CPU affinity of its creator. */
static int thread_create_on(const cpu_set_t *cpus, pthread_t *out, void *(*fn)(void *), void *arg)
{
    cpu_set_t own;
    int rc = pthread_getaffinity_np(pthread_self(), sizeof own, &own);
    if (rc == 0)
        rc = pthread_setaffinity_np(pthread_self(), sizeof *cpus, cpus);
    if (rc != 0)
        return rc;
    rc = pthread_create(out, NULL, fn, arg);
    pthread_setaffinity_np(pthread_self(), sizeof own, &own);
    return rc;
}
#endif

int weft__thread_make_on(pthread_t *out, int cpu, void *(*fn)(void *), void *arg)
{
    cpu_set_t cpus;
    if (cpu <= 0)
        return -pthread_create(out, NULL, fn, arg);
    CPU_ZERO(&cpus);
    CPU_SET((unsigned)cpu - 1, &cpus);
    return -thread_create_on(&cpus, out, fn, arg);
}

static void reset_internal_threads(void)
{
    atomic_store(&internal_threads, 0);
}

static void install_atfork(void)
{
    pthread_atfork(NULL, NULL, reset_internal_threads);
}

/*
 * Increment the count only after the thread exists. If the count were too high,
 * weft__foreign_threads_exist would mistake a thread of the program for an internal thread.
 */
int weft__internal_thread_start_with(void *(*fn)(void *), size_t stack_bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install_atfork);
    int rc = weft__thread_create(NULL, stack_bytes, fn, NULL);
    if (rc == 0)
        atomic_fetch_add(&internal_threads, 1);
    return rc;
}

int weft__internal_thread_start(void *(*fn)(void *))
{
    return weft__internal_thread_start_with(fn, INTERNAL_STACK_BYTES);
}

unsigned weft__internal_thread_count(void)
{
    return atomic_load(&internal_threads);
}

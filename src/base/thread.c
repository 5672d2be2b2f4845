/* Making threads, see thread.h. */
#include "base/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>

/* 0 or an errno. */
static int create(pthread_t *out, size_t stack_bytes, void *(*fn)(void *), void *arg)
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

int weft__thread_make(pthread_t *out, size_t stack_bytes, void *(*fn)(void *), void *arg)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = create(out, stack_bytes, fn, arg);
    if (rc == EINVAL && stack_bytes > 0)
        rc = create(out, 0, fn, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return -rc;
}

#ifdef WEFT_HAS_PTHREAD_ATTR_SETAFFINITY_NP
static int create_on(const cpu_set_t *cpus, pthread_t *out, void *(*fn)(void *), void *arg)
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
/* A thread inherits the CPUs of its maker. */
static int create_on(const cpu_set_t *cpus, pthread_t *out, void *(*fn)(void *), void *arg)
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
    return -create_on(&cpus, out, fn, arg);
}

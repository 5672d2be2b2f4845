/* Making threads, see thread.h. */
#include "base/thread.h"

#include <errno.h>
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

/*
 * The log function of the program, and stderr. stdio streams are not used, because the reported
 * fiber may hold the lock of a stream.
 */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* A function of the program. The lock protects running and is_replaced. */
typedef struct log_hook {
    weft_log_fn *fn;
    void *arg;
    unsigned running; /* calls of fn that have not returned */
    bool is_replaced; /* the last call frees the hook */
} log_hook;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_returned = PTHREAD_COND_INITIALIZER; /* a hook has no running calls */

/* NULL: messages go to stderr, and take no lock. Only written with the lock. */
static log_hook *_Atomic current_hook;

/* The hook that the calling thread is in. NULL: none. */
static __thread log_hook *own_hook;

bool weft__log_is_hooked(void)
{
    return own_hook == NULL && atomic_load(&current_hook) != NULL;
}

static log_hook *hook_acquire(void)
{
    pthread_mutex_lock(&lock);
    log_hook *hook = atomic_load(&current_hook);
    if (hook != NULL)
        hook->running++;
    pthread_mutex_unlock(&lock);
    return hook;
}

static void hook_release(log_hook *hook)
{
    pthread_mutex_lock(&lock);
    bool is_idle = --hook->running == 0;
    if (is_idle && hook->is_replaced)
        free(hook);
    else if (is_idle)
        pthread_cond_broadcast(&has_returned);
    pthread_mutex_unlock(&lock);
}

/*
 * Call the function of the program. Return false if there is none. If the thread were cancelled in
 * the function, weft_set_log would wait forever.
 */
static bool hook_call(int level, const char *text)
{
    if (!weft__log_is_hooked())
        return false;
    int saved = errno, cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    log_hook *hook = hook_acquire();
    if (hook != NULL) {
        own_hook = hook;
        hook->fn(level, text, hook->arg);
        own_hook = NULL;
        hook_release(hook);
    }
    pthread_setcancelstate(cancel_state, NULL);
    errno = saved;
    return hook != NULL;
}

/* Write the text with the prefix and a newline. */
static void stderr_write(const char *text)
{
    struct iovec line[] = {{(char *)"weft: ", 6}, {(char *)text, strlen(text)}, {(char *)"\n", 1}};
    if (writev(STDERR_FILENO, line, 3) < 0)
        return; /* the error cannot be reported */
}

void weft__logv_stderr(const char *format, va_list args)
{
    char text[WEFT__LOG_TEXT_BYTES_MAX];
    vsnprintf(text, sizeof text, format, args);
    stderr_write(text);
}

void weft__log_stderr(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    weft__logv_stderr(format, args);
    va_end(args);
}

void weft__log_text(int level, const char *text)
{
    if (!hook_call(level, text))
        stderr_write(text);
}

void weft__log(int level, const char *format, ...)
{
    char text[WEFT__LOG_TEXT_BYTES_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    weft__log_text(level, text);
}

/*
 * A thread that does not exist in the child may have held the lock, or may have been in the
 * function.
 */
static void log_after_fork(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    has_returned = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    log_hook *hook = atomic_load(&current_hook);
    if (hook != NULL)
        hook->running = hook == own_hook;
}

/* Create a hook. Register log_after_fork, once per process. The caller must hold the lock. */
static int hook_new(weft_log_fn *fn, void *arg, log_hook **out)
{
    static bool is_prepared;
    if (!is_prepared && pthread_atfork(NULL, NULL, log_after_fork) != 0)
        return -ENOMEM;
    is_prepared = true;
    *out = malloc(sizeof **out);
    if (*out == NULL)
        return -ENOMEM;
    **out = (log_hook){.fn = fn, .arg = arg};
    return 0;
}

/*
 * Free a hook that is not current any more. Wait until its calls have returned. A log function
 * would wait for itself, so the last call frees the hook instead. The caller must hold the lock.
 */
static void hook_free(log_hook *hook)
{
    if (own_hook != NULL && hook->running > 0) {
        hook->is_replaced = true;
        return;
    }
    while (hook->running > 0)
        pthread_cond_wait(&has_returned, &lock);
    free(hook);
}

int weft_set_log(weft_log_fn *fn, void *arg)
{
    int cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    pthread_mutex_lock(&lock);
    log_hook *hook = NULL;
    int rc = fn != NULL ? hook_new(fn, arg, &hook) : 0;
    if (rc == 0) {
        log_hook *old = atomic_exchange(&current_hook, hook);
        if (old != NULL)
            hook_free(old);
    }
    pthread_mutex_unlock(&lock);
    pthread_setcancelstate(cancel_state, NULL);
    return rc;
}

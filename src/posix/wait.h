/*
 * Waits of hooks: begin and end of a wait, limits of time, interruption by signal handlers, and the
 * state of libc that each fiber has for itself.
 */
#ifndef WEFT_POSIX_WAIT_H
#define WEFT_POSIX_WAIT_H

#include "base/list.h"

#include <weft/scope.h>

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/time.h>
#include <time.h>

/* No limit of time. */
#define WEFT__HOOK_FOREVER (-1.0)

/* What ends a wait before its event. */
typedef enum weft__hook_restart {
    WEFT__HOOK_RESTARTS,        /* a handler with SA_RESTART does not end the wait: read, recv */
    WEFT__HOOK_NEVER_RESTARTS,  /* every handler ends the wait: poll, nanosleep */
    WEFT__HOOK_IGNORES_SIGNALS, /* no handler ends the wait: system, getaddrinfo */
} weft__hook_restart;

/* A jump by longjmp or one of its forms. */
typedef struct weft__hook_jump {
    void (*fn)(struct __jmp_buf_tag *buffer, int value); /* NULL: no jump */
    struct __jmp_buf_tag *buffer;
    int value;
} weft__hook_jump;

/*
 * A wait of a hook, in the frame of the hook. Between begin and end, blocking calls of weft return:
 *   - -EINTR after a signal handler has run in this thread (see weft__hook_restart)
 *   - -ECANCELED after a cancellation; also after timeout_s, see weft__hook_wait_end
 */
typedef struct weft__hook_wait {
    weft__list link; /* in the waits of the thread */
    weft_fiber fiber;
    weft__hook_restart restart;
    unsigned signals, interrupting_signals; /* of the thread, when the wait began */
    bool is_interrupted;                    /* a handler has ended the wait */
    weft__hook_jump jump; /* by a handler; at the end of the wait, jump instead of returning */
    bool has_timeout;
    weft_scope scope; /* with the deadline; open if has_timeout */
} weft__hook_wait;

/* Begin a wait. If timeout_s is WEFT__HOOK_FOREVER, the wait has no limit. */
void weft__hook_wait_begin(weft__hook_wait *w, weft__hook_restart restart, double timeout_s);

/* Like weft__hook_wait_begin without a limit, for a wait that is counted as a wait for a lock. */
void weft__hook_wait_add(weft__hook_wait *w, weft__hook_restart restart);

/*
 * End a wait. result is the result of the call of weft. Returns result, or -ETIMEDOUT if timeout_s
 * was the reason for -ECANCELED.
 */
intptr_t weft__hook_wait_end(weft__hook_wait *w, intptr_t result);

/* Return the number of fibers of the process that wait in hooks. */
unsigned weft__hook_waits_now(void);

/* Return whether a fiber of the calling thread waits in a hook. Async-signal-safe. */
bool weft__hook_waits_exist(void);

/*
 * Return the wait that a signal handler of the calling thread has interrupted. Returns NULL if the
 * handler has interrupted other code. Async-signal-safe.
 */
weft__hook_wait *weft__hook_wait_of_handler(void);

/*
 * End the waits of the calling thread that a signal handler has interrupted, with -EINTR. A handler
 * does not end waits that began after the handler. The thread must be a cord, not in a handler.
 */
void weft__hook_waits_interrupt(void);

/* Register the states of the thread that each fiber has for itself. (thread_state.c) */
void weft__posix_states_add(void);

/* Convert times to seconds. */
double weft__seconds_of_timespec(const struct timespec *t);
double weft__seconds_of_timeval(const struct timeval *t);

#endif

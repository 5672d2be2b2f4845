/*
 * The frame of all hooks. A hook is a function with the signature of a libc function. Adopted
 * modules call the hook instead of the libc function (adopt.c).
 *
 * Outside of fibers a hook is off, and calls libc's function. If the hook is on, it first tries the
 * real call without blocking. Only if the real call would wait, the hook waits with weft.
 */
#ifndef WEFT_POSIX_HOOK_H
#define WEFT_POSIX_HOOK_H

#include "core/cord/cord.h"
#include "posix/calls.h"

#include <errno.h>

/* Functions of libc, or of a library that intercepts libc. */
typedef struct weft__real_calls {
#define HOOK(group, name) __typeof__(name) *name;
#include "posix/hooks.def"
#undef HOOK
} weft__real_calls;

extern weft__real_calls weft__real;

/* Other addresses of these functions, in a program with fixed addresses. NULL: none. (adopt.c) */
extern weft__real_calls weft__stubs;

/* Find the real functions. libweft-preload calls this function before its first real call. */
const weft__real_calls *weft__real_resolve(void);

/* True in libweft-preload, whose hooks have the names of libc. */
extern const bool weft__real_is_preload;

/* The real function of a hooked name. */
#define REAL(name) (LIKELY(weft__real.name != NULL) ? weft__real.name : weft__real_resolve()->name)

/*
 * Define a hook: HOOK_DEFINE(int, close, (int fd)) { ... }
 *
 * A hidden hook could not have an exported alias in libweft-preload. The symbol maps of both
 * libraries hide the hooks.
 */
#define HOOK_DEFINE(type, name, parameters)                                   \
    __attribute__((visibility("default"))) type weft__hook_##name parameters; \
    type weft__hook_##name parameters

/* State of the hooks in a thread. */
typedef struct weft__hook_thread {
    int passes;   /* nesting depth of weft_posix_pass of the running fiber, and of hooks */
    int handlers; /* nesting depth of signal handlers */
    /* Signal handlers that have run in this thread, and those without SA_RESTART. (signal.c) */
    _Atomic(unsigned) signals, interrupting_signals;
} weft__hook_thread;

extern __thread weft__hook_thread weft__hook_thread_self __attribute__((tls_model("initial-exec")));

/* True if WEFT_POSIX=0 has switched all hooks off. Set before the program starts. */
extern bool weft__hooks_are_off;

/* The slow part of weft__hook_is_on. */
bool weft__hook_is_on_in_cord(void);

/* Return whether the calling fiber may wait with weft. Outside of cords this is one load. */
static inline bool weft__hook_is_on(void)
{
    return UNLIKELY(weft__cord_self != NULL) && weft__hook_is_on_in_cord();
}

/* Set errno, and return -1. error is negative. */
static inline int weft__hook_fail(intptr_t error)
{
    errno = (int)-error;
    return -1;
}

/* Return a result of weft as a result of libc: negative values become -1 and errno. */
static inline intptr_t weft__hook_result(intptr_t result)
{
    return result < 0 ? weft__hook_fail(result) : result;
}

/* Counters, see weft_posix_counters. Any thread may add. */
typedef struct weft__hook_counts {
    _Atomic(uint64_t) waits, lock_waits, handovers, offloads, interrupts;
} weft__hook_counts;

extern weft__hook_counts weft__hook_counts_all;

#define HOOK_COUNT(name) \
    atomic_fetch_add_explicit(&weft__hook_counts_all.name, 1, memory_order_relaxed)

#endif

/*
 * State of a thread that each fiber has for itself.
 *
 * Some libraries keep state in thread-local variables, for example a list of errors or a locale.
 * All fibers of a thread share these variables. If a fiber waits between two calls of such a
 * library, another fiber may change the state. A registered thread state is saved when a fiber
 * waits, and restored when the fiber continues. A new fiber starts with the default state.
 *
 * weft registers no state. libweft-posix registers the state of libc and OpenSSL (see posix.h).
 */
#ifndef WEFT_THREAD_STATE_H
#define WEFT_THREAD_STATE_H

#include <weft/base.h>

WEFT_BEGIN

/*
 * The maximum of all `bytes` together, each rounded up to 16, and of the number of registered
 * states.
 */
#define WEFT_THREAD_STATE_BYTES_MAX 256
#define WEFT_THREAD_STATES_MAX 16

/*
 * The functions run in the middle of a switch, on the stack of a fiber. They must not wait, and
 * must need less than 1 KiB of stack. They must preserve the state of other libraries.
 */
typedef struct weft_thread_state {
    size_t bytes;                /* the size of the saved state */
    void (*save)(void *to);      /* copy the state of the thread to `to`; aligned to 16 bytes */
    void (*reset)(void);         /* set the default state, after save and when a fiber ends */
    void (*restore)(void *from); /* replace the state of the thread by a saved state */
} weft_thread_state;

/**
 * Register a thread state. Every switch then also saves and restores this state.
 *
 * The registration applies to the whole process and cannot be undone. The struct must exist until
 * the process ends. The calling thread uses the state at once. Other threads use the state after
 * at most 64 further switches.
 *
 * Returns 0, even if the same struct is already registered, or:
 * -EINVAL if state, save, reset or restore is NULL
 * -ENOSPC if there are WEFT_THREAD_STATES_MAX states
 * -ENOSPC if all states together need more than WEFT_THREAD_STATE_BYTES_MAX bytes
 */
WEFT_API int weft_thread_state_add(const weft_thread_state *state);

WEFT_END

#endif

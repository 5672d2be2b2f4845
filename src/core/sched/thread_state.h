/*
 * Registered state of the thread, swapped by a switch. A switch saves the state on the stack of the
 * fiber that waits, so a fiber needs no memory for its state.
 */
#ifndef WEFT_CORE_SCHED_THREAD_STATE_H
#define WEFT_CORE_SCHED_THREAD_STATE_H

#include "core/cord/cord.h"

#include <weft/thread_state.h>

/* The saved states of a waiting fiber. */
typedef struct weft__saved_states {
    unsigned count; /* saved states: the first `count` registered ones */
    _Alignas(16) char bytes[WEFT_THREAD_STATE_BYTES_MAX];
} weft__saved_states;

/* Save the states of the thread, and set the default states. */
void weft__thread_states_save(weft__saved_states *saved);

/* Restore saved states. */
void weft__thread_states_restore(weft__saved_states *saved);

/* Set the default states, because the running fiber has ended. */
void weft__thread_states_reset(void);

/* Make the cord swap the states that are registered now. Only the thread of the cord may call. */
FOR_POSIX void weft__cord_use_thread_states(weft__cord *c);

#endif

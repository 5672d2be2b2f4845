/* The registry of thread states, see thread_state.h. */
#include "core/sched/thread_state.h"

#include <weft/error.h>

#include <pthread.h>

/*
 * The registered states. The lock protects registrations. Readers use only the first `count`
 * entries, which never change.
 */
static struct {
    pthread_mutex_t lock;
    size_t bytes; /* the sum of the rounded sizes */
    atomic_uint count;
    const weft_thread_state *states[WEFT_THREAD_STATES_MAX];
} registered = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t rounded_bytes(const weft_thread_state *s)
{
    return (s->bytes + 15) & ~(size_t)15;
}

void weft__thread_states_save(weft__saved_states *saved)
{
    saved->count = atomic_load_explicit(&registered.count, memory_order_acquire);
    char *at = saved->bytes;
    for (unsigned i = 0; i < saved->count; i++) {
        const weft_thread_state *s = registered.states[i];
        s->save(at);
        s->reset();
        at += rounded_bytes(s);
    }
}

void weft__thread_states_restore(weft__saved_states *saved)
{
    char *at = saved->bytes;
    for (unsigned i = 0; i < saved->count; i++) {
        registered.states[i]->restore(at);
        at += rounded_bytes(registered.states[i]);
    }
}

void weft__thread_states_reset(void)
{
    unsigned count = atomic_load_explicit(&registered.count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++)
        registered.states[i]->reset();
}

void weft__cord_use_thread_states(weft__cord *c)
{
    bool has_states = atomic_load_explicit(&registered.count, memory_order_acquire) > 0;
    if (has_states == c->has_thread_states)
        return;
    c->has_thread_states = has_states;
    weft__cord_update_slow_switch(c);
}

/* Add a state. The caller must hold the lock. */
static int state_add_locked(const weft_thread_state *state)
{
    unsigned count = atomic_load_explicit(&registered.count, memory_order_relaxed);
    for (unsigned i = 0; i < count; i++)
        if (registered.states[i] == state)
            return 0;
    if (count == WEFT_THREAD_STATES_MAX || state->bytes > WEFT_THREAD_STATE_BYTES_MAX ||
        registered.bytes + rounded_bytes(state) > WEFT_THREAD_STATE_BYTES_MAX)
        return -ENOSPC;
    registered.states[count] = state;
    registered.bytes += rounded_bytes(state);
    atomic_store_explicit(&registered.count, count + 1, memory_order_release);
    return 0;
}

int weft_thread_state_add(const weft_thread_state *state)
{
    if (state == NULL || state->save == NULL || state->reset == NULL || state->restore == NULL)
        return weft_fail(-EINVAL, "weft_thread_state_add: state or one of its functions is NULL");
    pthread_mutex_lock(&registered.lock);
    int rc = state_add_locked(state);
    pthread_mutex_unlock(&registered.lock);
    if (rc < 0)
        return weft_fail(rc, "weft_thread_state_add: too many states, or more than %d bytes",
                         WEFT_THREAD_STATE_BYTES_MAX);
    if (weft__cord_self != NULL)
        weft__cord_use_thread_states(weft__cord_self);
    return 0;
}

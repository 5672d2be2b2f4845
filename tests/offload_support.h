/* Calls that say when they have begun, and end when they may. */
#ifndef TESTS_OFFLOAD_SUPPORT_H
#define TESTS_OFFLOAD_SUPPORT_H

#include "support.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

typedef struct gate {
    sem_t begun, may_end, dropped;
    atomic_int runs, drops;
    weft_value value; /* what the call returns */
    weft_offload_options options;
    weft_value result, next; /* what the fiber got, from this call and from the next one */
    bool has_ended;
} gate;

static inline void wait_for(sem_t *what)
{
    TEMP_FAILURE_RETRY(sem_wait(what));
}

static inline bool has_happened(sem_t *what)
{
    return sem_trywait(what) == 0;
}

static inline void gate_init(gate *g, weft_value value)
{
    *g = (gate){.value = value};
    sem_init(&g->begun, 0, 0);
    sem_init(&g->may_end, 0, 0);
    sem_init(&g->dropped, 0, 0);
}

static inline weft_value pass_gate(void *arg)
{
    gate *g = arg;
    atomic_fetch_add(&g->runs, 1);
    sem_post(&g->begun);
    wait_for(&g->may_end);
    return g->value;
}

static inline void drop_gate(void *arg)
{
    gate *g = arg;
    atomic_fetch_add(&g->drops, 1);
    sem_post(&g->dropped);
}

static inline weft_value offload_gate(void *arg)
{
    gate *g = arg;
    g->options.has_ended = &g->has_ended;
    g->result = weft_offload_with(pass_gate, g, &g->options);
    g->next = weft_snooze();
    return g->result;
}

/* A fiber that waits for a call, which may not have begun. */
static inline weft_fiber spin_gate(gate *g)
{
    weft_fiber f = weft_spin(offload_gate, g);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    return f;
}

/* A fiber that waits for a call that has. */
static inline weft_fiber spin_begun(gate *g)
{
    weft_fiber f = spin_gate(g);
    wait_for(&g->begun);
    return f;
}

/* Let a call go on that was left, and wait until it is over. */
static inline void flush(gate *g)
{
    sem_post(&g->may_end);
    weft_offload_counters now;
    do
        weft_offload_stats(&now);
    while (now.user.running > 0 || now.user.queued > 0);
}

#endif

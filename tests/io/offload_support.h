/* Helpers for the tests of offloading: calls that report their start, and end on permission. */
#ifndef TESTS_IO_OFFLOAD_SUPPORT_H
#define TESTS_IO_OFFLOAD_SUPPORT_H

#include "support/support.h"

#include <semaphore.h>
#include <stdatomic.h>

typedef struct gated_call {
    sem_t begun, may_end, dropped;
    atomic_int runs, drops;
    weft_value value; /* the result of the call */
    weft_offload_options options;
    weft_value result, next; /* the results of this call and of the next call in the fiber */
    bool has_ended;
} gated_call;

static inline void wait_sem(sem_t *what)
{
    TEMP_FAILURE_RETRY(sem_wait(what));
}

static inline bool try_sem(sem_t *what)
{
    return sem_trywait(what) == 0;
}

static inline void gated_call_init(gated_call *g, weft_value value)
{
    *g = (gated_call){.value = value};
    sem_init(&g->begun, 0, 0);
    sem_init(&g->may_end, 0, 0);
    sem_init(&g->dropped, 0, 0);
}

static inline weft_value run_gated_call(void *arg)
{
    gated_call *g = arg;
    atomic_fetch_add(&g->runs, 1);
    sem_post(&g->begun);
    wait_sem(&g->may_end);
    return g->value;
}

static inline void drop_gated_call(void *arg)
{
    gated_call *g = arg;
    atomic_fetch_add(&g->drops, 1);
    sem_post(&g->dropped);
}

static inline weft_value offload_gated_call(void *arg)
{
    gated_call *g = arg;
    g->options.has_ended = &g->has_ended;
    g->result = weft_offload_with(run_gated_call, g, &g->options);
    g->next = weft_snooze();
    return g->result;
}

/* Return a fiber that waits for the call, which may not have begun. */
static inline weft_fiber spin_gated_call(gated_call *g)
{
    weft_fiber f = spin_waiting(offload_gated_call, g);
    return f;
}

/* Return a fiber that waits for a call that has begun. */
static inline weft_fiber spin_begun_call(gated_call *g)
{
    weft_fiber f = spin_gated_call(g);
    wait_sem(&g->begun);
    return f;
}

/* Let an abandoned call continue, and wait until it has ended. */
static inline void finish_abandoned_call(gated_call *g)
{
    sem_post(&g->may_end);
    weft_offload_counters now;
    do
        weft_offload_stats(&now);
    while (now.user.running > 0 || now.user.queued > 0);
}

#endif

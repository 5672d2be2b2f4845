/*
 * What several contenders of this folder have in common and bench.h has not: a crowd that yields.
 * No library is called from here.
 */
#ifndef WEFT_BENCH_PEER_H
#define WEFT_BENCH_PEER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "../bench.h"

#include <stdbool.h>
#include <unistd.h>

/* Where the size of a stack is a choice. */
#define PEER_STACK_BYTES ((size_t)64 << 10)
#define PEER_MINUTE_S 60

/*
 * Fibers that yield by turns. The clock starts when each has had two turns, so that all stacks have
 * been used, and stops after so many turns of all together. A fiber is
 *
 *     while (peer_crowd_goes_on(crowd))
 *         yield();
 */
typedef struct peer_crowd {
    size_t turns;
    size_t limit; /* at which the phase ends */
    size_t n;     /* turns to measure; 0: they have been */
    double began_ns, took_ns;
} peer_crowd;

static inline peer_crowd peer_crowd_make(size_t count, size_t n)
{
    peer_crowd c = {0, 2 * count, n, 0, 0};
    return c;
}

static __attribute__((noinline, unused)) bool peer_crowd_next_phase(peer_crowd *c)
{
    if (c->n == 0) {
        if (c->took_ns == 0)
            c->took_ns = bench_cpu_ns() - c->began_ns;
        return false;
    }
    c->limit += c->n;
    c->n = 0;
    c->began_ns = bench_cpu_ns();
    return true;
}

static inline bool peer_crowd_goes_on(peer_crowd *c)
{
    return ++c->turns <= c->limit || peer_crowd_next_phase(c);
}

#endif

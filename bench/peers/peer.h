/* Shared code of the contenders of this folder: fibers that yield. The file calls no library. */
#ifndef WEFT_BENCH_PEER_H
#define WEFT_BENCH_PEER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "../bench.h"

#include <stdbool.h>
#include <unistd.h>

/* The stack size, if the library has a choice. */
#define PEER_STACK_BYTES ((size_t)64 << 10)
#define PEER_MINUTE_S 60

/*
 * Fibers that yield in turn. The clock starts after two yields per fiber, so that all stacks have
 * been used. The clock stops after n further yields of all fibers. Each fiber runs:
 *
 *     while (peer_crowd_continues(crowd))
 *         yield();
 */
typedef struct peer_crowd {
    size_t turns;
    size_t limit; /* yields at the end of the phase */
    size_t n;     /* yields to measure; 0: the measurement has started */
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

static inline bool peer_crowd_continues(peer_crowd *c)
{
    return ++c->turns <= c->limit || peer_crowd_next_phase(c);
}

#endif

/*
 * For works of several threads: where each runs, and how all begin at once. A machine with one
 * processor has them all on that.
 */
#ifndef WEFT_BENCH_TOGETHER_H
#define WEFT_BENCH_TOGETHER_H

#include "bench.h"

#include <pthread.h>
#include <sched.h>

/* The i-th CPU of this process, counted from 1; 0 if it has not that many. */
static inline int together_cpu(int i)
{
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((unsigned)cpu, &set) && i-- == 0)
            return cpu + 1;
    return 0;
}

/* A thread on that CPU, as together_cpu says it; 0: anywhere. */
static inline pthread_t together_thread(void *(*fn)(void *), void *arg, int cpu)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    if (cpu > 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((unsigned)cpu - 1, &set);
        pthread_attr_setaffinity_np(&attributes, sizeof set, &set);
    }
    bench_require(pthread_create(&thread, &attributes, fn, arg) == 0);
    pthread_attr_destroy(&attributes);
    return thread;
}

/*
 * Everyone is there, then the clock is read, then they go. So nothing is sent before, however busy
 * the machine is.
 */
typedef struct together {
    pthread_barrier_t ready, go;
} together;

static inline void together_init(together *t, unsigned count)
{
    pthread_barrier_init(&t->ready, NULL, count);
    pthread_barrier_init(&t->go, NULL, count);
}

static inline void together_destroy(together *t)
{
    pthread_barrier_destroy(&t->ready);
    pthread_barrier_destroy(&t->go);
}

/* Returns when it began, in real time. */
static inline double together_begin(together *t)
{
    pthread_barrier_wait(&t->ready);
    double now = bench_real_ns();
    pthread_barrier_wait(&t->go);
    return now;
}

#endif

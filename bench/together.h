/*
 * Support for workloads with several threads: create threads, and start them together. The kernel
 * places the threads of all contenders, because some contenders cannot choose a processor.
 */
#ifndef WEFT_BENCH_TOGETHER_H
#define WEFT_BENCH_TOGETHER_H

#include "bench.h"

#include <pthread.h>

static inline pthread_t together_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    bench_require(pthread_create(&thread, NULL, fn, arg) == 0);
    return thread;
}

/*
 * A common start. All threads wait at the first barrier, read the clock, and wait at the second
 * barrier. Messages are therefore sent only after the clock is read, however busy the machine is.
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

/* Wait for all threads. Return the start time, in real time. */
static inline double together_begin(together *t)
{
    pthread_barrier_wait(&t->ready);
    double now = bench_real_ns();
    pthread_barrier_wait(&t->go);
    return now;
}

#endif

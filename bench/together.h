/*
 * For works of several threads: how they are made, and how all begin at once. Where they run is the
 * kernel's choice, for all contenders: those that make their threads themselves cannot say it.
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

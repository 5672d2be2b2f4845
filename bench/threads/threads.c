/*
 * Workloads of threads: create and join, a contended mutex, and a condition variable between two
 * threads. The threads share one processor, as fibers do. The figures are CPU time, which includes
 * the time of the kernel.
 */
#include "together.h"
#include "works.h"

#include <sched.h>

static void *end_at_once(void *arg)
{
    return arg;
}

static double spin_pass(size_t count, size_t n)
{
    (void)count;
    double began = bench_cpu_ns();
    for (size_t i = 0; i < n; i++)
        pthread_join(together_thread(end_at_once, NULL), NULL);
    return (bench_cpu_ns() - began) / (double)n;
}

void work_spin(size_t count, size_t n)
{
    bench_measure(spin_pass, count, n);
}

/* Run fn in count threads. The first thread is the caller. */
static void run_in_threads(size_t count, void *(*fn)(void *), void *arg)
{
    pthread_t *threads = calloc(count, sizeof *threads);
    bench_require(threads != NULL);
    for (size_t i = 1; i < count; i++)
        threads[i] = together_thread(fn, arg);
    fn(arg);
    for (size_t i = 1; i < count; i++)
        pthread_join(threads[i], NULL);
    free(threads);
}

typedef struct crowd {
    pthread_mutex_t mutex;
    size_t n; /* per thread */
    size_t done;
} crowd;

static void *contend(void *arg)
{
    crowd *c = arg;
    for (size_t i = 0; i < c->n; i++) {
        pthread_mutex_lock(&c->mutex);
        sched_yield();
        c->done++;
        pthread_mutex_unlock(&c->mutex);
    }
    return NULL;
}

static double contend_pass(size_t count, size_t n)
{
    crowd c = {.mutex = PTHREAD_MUTEX_INITIALIZER, .n = n / count + 1};
    double began = bench_cpu_ns();
    run_in_threads(count, contend, &c);
    double took = bench_cpu_ns() - began;
    bench_require(c.done == c.n * count);
    return took / (double)c.done;
}

void work_mutex(size_t count, size_t n)
{
    bench_measure(contend_pass, count, n);
}

typedef struct turns {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int callers;
    int whose;
    size_t n;
} turns;

/* As take_turns of weft/sync.c: only the wait releases the mutex. */
static void *take_turns(void *arg)
{
    turns *t = arg;
    pthread_mutex_lock(&t->mutex);
    int mine = t->callers++;
    for (size_t i = 0; i < t->n; i++) {
        while (t->whose != mine)
            pthread_cond_wait(&t->cond, &t->mutex);
        t->whose = !mine;
        pthread_cond_signal(&t->cond);
    }
    pthread_mutex_unlock(&t->mutex);
    return NULL;
}

static double turns_pass(size_t count, size_t n)
{
    (void)count;
    turns t = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER, .n = n};
    double began = bench_cpu_ns();
    run_in_threads(2, take_turns, &t);
    double took = bench_cpu_ns() - began;
    bench_require(t.callers == 2 && t.whose == 0);
    return took / (double)n;
}

void work_condition(size_t count, size_t n)
{
    bench_measure(turns_pass, count, n);
}

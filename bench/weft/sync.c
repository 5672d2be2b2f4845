/* Mutexes and condition variables between fibers of one thread. */
#include "works.h"

#include <weft.h>

static double free_pass(size_t count, size_t n)
{
    (void)count;
    weft_mutex mutex = {0};
    int rc = 0;
    double began = bench_cpu_ns();
    for (size_t i = 0; i < n; i++) {
        rc |= weft_mutex_lock(&mutex);
        rc |= weft_mutex_unlock(&mutex);
    }
    double took = bench_cpu_ns() - began;
    bench_require(rc == 0);
    return took / (double)n;
}

void work_mutex_free(size_t count, size_t n)
{
    bench_measure(free_pass, count, n);
}

typedef struct crowd {
    weft_mutex mutex;
    size_t n; /* per fiber */
    size_t done;
} crowd;

/* The holder snoozes, so that the other fibers wait for the mutex. */
static weft_value contend(void *arg)
{
    crowd *c = arg;
    for (size_t i = 0; i < c->n; i++) {
        weft_mutex_lock(&c->mutex);
        weft_snooze();
        c->done++;
        weft_mutex_unlock(&c->mutex);
    }
    return 0;
}

static double contend_pass(size_t count, size_t n)
{
    crowd c = {.n = n / count + 1};
    double began = bench_cpu_ns();
    for (size_t i = 0; i < count; i++)
        weft_go(contend, &c);
    weft_await_children();
    double took = bench_cpu_ns() - began;
    bench_require(c.done == c.n * count);
    return took / (double)c.done;
}

void work_mutex(size_t count, size_t n)
{
    bench_measure(contend_pass, count, n);
}

typedef struct turns {
    weft_mutex mutex;
    weft_cond cond;
    int whose;
    size_t n;
} turns;

/*
 * Wait for a signal and reply, n times. Only the wait releases the mutex. Otherwise the fibers
 * would wait for the mutex, and rarely for the condition variable.
 */
static void take_turns(turns *t, int mine)
{
    weft_mutex_lock(&t->mutex);
    for (size_t i = 0; i < t->n; i++) {
        while (t->whose != mine)
            weft_cond_wait(&t->cond, &t->mutex);
        t->whose = !mine;
        weft_cond_signal(&t->cond);
    }
    weft_mutex_unlock(&t->mutex);
}

static weft_value take_turns_too(void *arg)
{
    take_turns(arg, 1);
    return 0;
}

static double turns_pass(size_t count, size_t n)
{
    (void)count;
    turns t = {.n = n};
    weft_fiber other = weft_spin(take_turns_too, &t);
    double began = bench_cpu_ns();
    take_turns(&t, 0);
    weft_value rc = weft_await(other);
    double took = bench_cpu_ns() - began;
    bench_require(rc == 0 && t.whose == 0);
    return took / (double)n;
}

void work_condition(size_t count, size_t n)
{
    bench_measure(turns_pass, count, n);
}

/*
 * Worker threads: a queue under a mutex, a condition variable for the workers, and blocking
 * callers. Each caller has its own condition variable. COUNT threads call at once.
 */
#include "together.h"
#include "works.h"

#include <stdbool.h>

#define WORKERS_MAX 64

/* A call. The record is on the stack of the caller. */
typedef struct job {
    struct job *next;
    intptr_t (*fn)(intptr_t);
    intptr_t value; /* the argument, then the result */
    bool is_done;
    pthread_mutex_t lock;
    pthread_cond_t done;
} job;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;
    job *first, **last;
    unsigned threads, idle;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .last = &pool.first};

/* Wait for a job. The caller holds pool.lock. */
static job *pool_take(void)
{
    pool.idle++;
    while (pool.first == NULL)
        pthread_cond_wait(&pool.work, &pool.lock);
    pool.idle--;
    job *one = pool.first;
    pool.first = one->next;
    if (pool.first == NULL)
        pool.last = &pool.first;
    return one;
}

static void job_run(job *one)
{
    intptr_t value = one->fn(one->value);
    pthread_mutex_lock(&one->lock);
    one->value = value;
    one->is_done = true;
    pthread_cond_signal(&one->done);
    pthread_mutex_unlock(&one->lock);
}

static void *pool_thread(void *arg)
{
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        job *one = pool_take();
        pthread_mutex_unlock(&pool.lock);
        job_run(one);
        pthread_mutex_lock(&pool.lock);
    }
    return arg;
}

static void pool_put(job *one)
{
    pthread_mutex_lock(&pool.lock);
    *pool.last = one;
    pool.last = &one->next;
    if (pool.idle == 0 && pool.threads < WORKERS_MAX) {
        pool.threads++;
        pthread_detach(together_thread(pool_thread, NULL));
    }
    pthread_mutex_unlock(&pool.lock);
    pthread_cond_signal(&pool.work);
}

static intptr_t pool_call(intptr_t (*fn)(intptr_t), intptr_t value)
{
    job one = {.fn = fn,
               .value = value,
               .lock = PTHREAD_MUTEX_INITIALIZER,
               .done = PTHREAD_COND_INITIALIZER};
    pool_put(&one);
    pthread_mutex_lock(&one.lock);
    while (!one.is_done)
        pthread_cond_wait(&one.done, &one.lock);
    pthread_mutex_unlock(&one.lock);
    return one.value;
}

static intptr_t do_nothing(intptr_t value)
{
    return value;
}

static void *call_all(void *arg)
{
    size_t n = (size_t)arg;
    intptr_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += pool_call(do_nothing, 1);
    bench_require(sum == (intptr_t)n);
    return NULL;
}

static double offload_pass(size_t count, size_t n)
{
    size_t each = n / count + 1;
    pthread_t *threads = calloc(count, sizeof *threads);
    bench_require(threads != NULL);
    double began = bench_real_ns();
    for (size_t i = 1; i < count; i++)
        threads[i] = together_thread(call_all, (void *)each);
    call_all((void *)each);
    for (size_t i = 1; i < count; i++)
        pthread_join(threads[i], NULL);
    double took = bench_real_ns() - began;
    free(threads);
    return took / (double)(each * count);
}

void work_offload(size_t count, size_t n)
{
    bench_require(count > 0);
    bench_measure(offload_pass, count, n);
}

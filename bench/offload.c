/*
 * Offload: nanoseconds of real time for an empty call on another thread and back, against a plain
 * pool of pthreads: a queue under a mutex, a condition for the workers, and a caller that blocks on
 * a condition of its own. Both may use as many threads.
 *
 * First one call after the other; then many callers at once: 100 fibers, against 100 threads, and
 * against one thread that hands the plain pool 100 calls and waits for all of them, which is the
 * least that a pool can do.
 *
 * NUMBER: calls a round.
 */
#include "rounds.h"

#include <weft.h>

#include <pthread.h>

#define CALLERS 100
#define WORKERS 64

/* Real time, as the work is done by other threads; and on all processors. */
static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static weft_value do_nothing(void *arg)
{
    return (weft_value)arg;
}

/* The plain pool. */

typedef struct plain_batch {
    pthread_mutex_t lock;
    pthread_cond_t is_done;
    size_t left;
} plain_batch;

typedef struct plain_job {
    struct plain_job *next;
    weft_fn *fn;
    void *arg;
    weft_value value;
    plain_batch *batch;
} plain_job;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;
    plain_job *first, **last;
    unsigned threads, idle;
} plain = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .last = &plain.first};

static void plain_end(plain_batch *b)
{
    pthread_mutex_lock(&b->lock);
    if (--b->left == 0)
        pthread_cond_signal(&b->is_done);
    pthread_mutex_unlock(&b->lock);
}

static void *plain_thread(void *arg)
{
    pthread_mutex_lock(&plain.lock);
    for (;;) {
        plain.idle++;
        while (plain.first == NULL)
            pthread_cond_wait(&plain.work, &plain.lock);
        plain.idle--;
        plain_job *job = plain.first;
        plain.first = job->next;
        if (plain.first == NULL)
            plain.last = &plain.first;
        pthread_mutex_unlock(&plain.lock);
        job->value = job->fn(job->arg);
        plain_end(job->batch);
        pthread_mutex_lock(&plain.lock);
    }
    return arg;
}

static void plain_submit(plain_job *job)
{
    job->next = NULL;
    pthread_mutex_lock(&plain.lock);
    *plain.last = job;
    plain.last = &job->next;
    if (plain.idle == 0 && plain.threads < WORKERS) {
        pthread_t thread;
        plain.threads++;
        bench_require(pthread_create(&thread, NULL, plain_thread, NULL) == 0, "no thread");
        pthread_detach(thread);
    }
    pthread_mutex_unlock(&plain.lock);
    pthread_cond_signal(&plain.work);
}

static void plain_wait(plain_batch *b)
{
    pthread_mutex_lock(&b->lock);
    while (b->left > 0)
        pthread_cond_wait(&b->is_done, &b->lock);
    pthread_mutex_unlock(&b->lock);
}

#define PLAIN_BATCH(count)                                         \
    {                                                              \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, count \
    }

static weft_value plain_call(weft_fn *fn, void *arg)
{
    plain_batch b = PLAIN_BATCH(1);
    plain_job job = {.fn = fn, .arg = arg, .batch = &b};
    plain_submit(&job);
    plain_wait(&b);
    return job.value;
}

/* The cases. */

typedef struct caller {
    size_t n;
    size_t wrong;
} caller;

static double plain_round_trip(void *arg, size_t n)
{
    size_t wrong = 0;
    double began = now_ns();
    for (size_t i = 1; i <= n; i++)
        wrong += plain_call(do_nothing, (void *)i) != (weft_value)i;
    double took = now_ns() - began;
    bench_require(wrong == 0, "a value was lost");
    (void)arg;
    return took / (double)n;
}

static double weft_round_trip(void *arg, size_t n)
{
    size_t wrong = 0;
    double began = now_ns();
    for (size_t i = 1; i <= n; i++)
        wrong += weft_offload(do_nothing, (void *)i) != (weft_value)i;
    double took = now_ns() - began;
    bench_require(wrong == 0, "a value was lost");
    (void)arg;
    return took / (double)n;
}

static double plain_batches(void *arg, size_t n)
{
    static plain_job jobs[CALLERS];
    size_t rounds = n / CALLERS;
    double began = now_ns();
    for (size_t round = 0; round < rounds; round++) {
        plain_batch b = PLAIN_BATCH(CALLERS);
        for (size_t i = 0; i < CALLERS; i++) {
            jobs[i] = (plain_job){.fn = do_nothing, .arg = (void *)i, .batch = &b};
            plain_submit(&jobs[i]);
        }
        plain_wait(&b);
    }
    (void)arg;
    return (now_ns() - began) / (double)(rounds * CALLERS);
}

static void *call_plainly(void *arg)
{
    caller *c = arg;
    for (size_t i = 1; i <= c->n; i++)
        c->wrong += plain_call(do_nothing, (void *)i) != (weft_value)i;
    return NULL;
}

static double plain_threads(void *arg, size_t n)
{
    caller callers[CALLERS];
    pthread_t threads[CALLERS];
    double began = now_ns();
    for (size_t i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.n = n / CALLERS};
        bench_require(pthread_create(&threads[i], NULL, call_plainly, &callers[i]) == 0,
                      "no thread");
    }
    for (size_t i = 0; i < CALLERS; i++) {
        pthread_join(threads[i], NULL);
        bench_require(callers[i].wrong == 0, "a value was lost");
    }
    (void)arg;
    return (now_ns() - began) / (double)(n / CALLERS * CALLERS);
}

static weft_value call_weft(void *arg)
{
    caller *c = arg;
    for (size_t i = 1; i <= c->n; i++)
        c->wrong += weft_offload(do_nothing, (void *)i) != (weft_value)i;
    return 0;
}

static double weft_fibers(void *arg, size_t n)
{
    caller callers[CALLERS];
    weft_fiber fibers[CALLERS];
    double began = now_ns();
    for (size_t i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.n = n / CALLERS};
        fibers[i] = weft_spin(call_weft, &callers[i]);
    }
    for (size_t i = 0; i < CALLERS; i++)
        bench_require(weft_await(fibers[i]) == 0 && callers[i].wrong == 0, "a value was lost");
    (void)arg;
    return (now_ns() - began) / (double)(n / CALLERS * CALLERS);
}

int main(int argc, char **argv)
{
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    size_t n = bench_start(argc, argv, 400);
    sched_setaffinity(0, sizeof all, &all);
    weft_offload_limit(WORKERS);
    const bench_case one[] = {
        {"plain pool, one after the other", plain_round_trip, NULL},
        {"weft_offload, one after the other", weft_round_trip, NULL},
    };
    BENCH_RUN(one, n);
    const bench_case many[] = {
        {"plain pool, 100 calls of one thread", plain_batches, NULL},
        {"plain pool, 100 threads call", plain_threads, NULL},
        {"weft_offload, 100 fibers call", weft_fibers, NULL},
    };
    BENCH_RUN(many, n * 10);
    return 0;
}

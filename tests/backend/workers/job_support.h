/*
 * Helpers for the tests of jobs and worker queues: a fake backend that counts its wake-ups, and
 * calls that end on permission.
 */
#ifndef TESTS_BACKEND_WORKERS_JOB_SUPPORT_H
#define TESTS_BACKEND_WORKERS_JOB_SUPPORT_H

#include "support/suite.h"

#include "arch/sanitizers.h"
#include "backend/backend.h"

#include <semaphore.h>

#define MAX WEFT__FILES_WORKERS_MAX

typedef struct fake_backend {
    weft__backend base;
    sem_t wakes;
    pid_t owner_pid; /* the only process that may wake this backend; 0: any */
} fake_backend;

static inline void fake_wake(weft__backend *b)
{
    fake_backend *f = CONTAINER_OF(b, fake_backend, base);
    if (f->owner_pid != 0 && getpid() != f->owner_pid)
        _exit(9);
    sem_post(&f->wakes);
}

static const weft__backend_type fake_type = {.name = "fake", .wake = fake_wake};

static inline fake_backend *fake_backend_open(void)
{
    fake_backend *f = calloc(1, sizeof *f);
    f->base.type = &fake_type;
    weft__finished_jobs_init(&f->base);
    sem_init(&f->wakes, 0, 0);
    return f;
}

static inline void fake_backend_close(fake_backend *f)
{
    ck_assert_uint_eq(f->base.pending, 0);
    weft__finished_jobs_close(&f->base);
    sem_destroy(&f->wakes);
    free(f);
}

/* The backend of a test. The fixture opens and closes it. */
static fake_backend *fake;

static inline void open_fake(void)
{
    fake = fake_backend_open();
}

static inline void close_fake(void)
{
    fake_backend_close(fake);
}

FIXTURE(open_fake, close_fake)

/* A call that posts begun, then waits for may_end. */
typedef struct test_job {
    weft__op op;
    sem_t begun, may_end, dropped;
    bool is_done;
    intptr_t result;
    pthread_t thread;
} test_job;

static inline intptr_t wait_in_call(void *arg)
{
    test_job *t = arg;
    t->thread = pthread_self();
    sem_post(&t->begun);
    TEMP_FAILURE_RETRY(sem_wait(&t->may_end));
    return 42;
}

static inline void post_dropped(void *arg)
{
    test_job *t = arg;
    sem_post(&t->dropped);
}

static inline void record_result(weft__op *op, intptr_t result)
{
    test_job *t = CONTAINER_OF(op, test_job, op);
    ck_assert(!t->is_done);
    t->is_done = true;
    t->result = result;
}

static inline intptr_t submit_op(fake_backend *f, test_job *t, weft__op op)
{
    t->op = op;
    t->op.done = record_result;
    t->is_done = false;
    weft__list_init(&t->op.link);
    sem_init(&t->begun, 0, 0);
    sem_init(&t->may_end, 0, 0);
    sem_init(&t->dropped, 0, 0);
    return weft__job_submit(&f->base, &t->op);
}

static inline void submit_to(fake_backend *f, test_job *t, void (*drop)(void *),
                             weft__worker_queue worker_queue)
{
    weft__op op = {
        .code = WEFT__OP_CALL, .fd = -1, .u.call = {wait_in_call, t, drop, worker_queue}};
    ck_assert(submit_op(f, t, op) == WEFT__OP_PENDING);
}

static inline void submit_call(fake_backend *f, test_job *t, void (*drop)(void *))
{
    submit_to(f, t, drop, WEFT__WORKER_QUEUE_FILES);
}

static inline void wait_sem(sem_t *what)
{
    TEMP_FAILURE_RETRY(sem_wait(what));
}

static inline bool try_sem(sem_t *what)
{
    return sem_trywait(what) == 0;
}

/* Wait until a job can be collected, as poll does. */
static inline void wait_finished(fake_backend *f)
{
    while (!weft__finished_jobs_before_wait(f->base.finished_jobs))
        wait_sem(&f->wakes);
}

/* Collect jobs until t is done. Return its result. */
static inline intptr_t finish_job(fake_backend *f, test_job *t)
{
    while (!t->is_done) {
        wait_finished(f);
        weft__jobs_collect(&f->base);
    }
    return t->result;
}

static inline intptr_t end_job(fake_backend *f, test_job *t)
{
    sem_post(&t->may_end);
    return finish_job(f, t);
}

/* Submit n calls, and wait until they run. drop may be NULL. */
static inline void begin_calls(test_job *t, size_t n, void (*drop)(void *))
{
    for (size_t i = 0; i < n; i++)
        submit_call(fake, &t[i], drop);
    for (size_t i = 0; i < n; i++)
        wait_sem(&t[i].begun);
}

static inline void end_calls(test_job *t, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(end_job(fake, &t[i]), 42);
}

#endif

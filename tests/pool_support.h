/* A backend that only counts how often it is woken, and calls that end when they may. */
#ifndef TESTS_POOL_SUPPORT_H
#define TESTS_POOL_SUPPORT_H

#include "support.h"

#include "arch/annotate.h"
#include "backend/backend.h"

#include <pthread.h>
#include <semaphore.h>

#define MAX WEFT__LANE_FILES_THREADS

typedef struct fake {
    weft__backend base;
    sem_t wakes;
    pid_t home; /* the only process that may wake it; 0: any */
} fake;

static inline void fake_wake(weft__backend *b)
{
    fake *f = CONTAINER_OF(b, fake, base);
    if (f->home != 0 && getpid() != f->home)
        _exit(9);
    sem_post(&f->wakes);
}

static const weft__backend_type fake_type = {.name = "fake", .wake = fake_wake};

static inline fake *fake_open(void)
{
    fake *f = calloc(1, sizeof *f);
    f->base.type = &fake_type;
    weft__finished_init(&f->base);
    sem_init(&f->wakes, 0, 0);
    return f;
}

static inline void fake_close(fake *f)
{
    ck_assert_uint_eq(f->base.pending, 0);
    weft__finished_close(&f->base);
    sem_destroy(&f->wakes);
    free(f);
}

/* One call: it says that it has begun, and goes on when it may. */
typedef struct trial {
    weft__op op;
    sem_t begun, may_end, dropped;
    bool is_done;
    intptr_t result;
    pthread_t thread;
} trial;

static inline intptr_t wait_in_call(void *arg)
{
    trial *t = arg;
    t->thread = pthread_self();
    sem_post(&t->begun);
    TEMP_FAILURE_RETRY(sem_wait(&t->may_end));
    return 42;
}

static inline void note_drop(void *arg)
{
    trial *t = arg;
    sem_post(&t->dropped);
}

static inline void note_done(weft__op *op, intptr_t result)
{
    trial *t = CONTAINER_OF(op, trial, op);
    ck_assert(!t->is_done);
    t->is_done = true;
    t->result = result;
}

static inline intptr_t submit(fake *f, trial *t, weft__op op)
{
    t->op = op;
    t->op.done = note_done;
    t->is_done = false;
    weft__list_init(&t->op.link);
    sem_init(&t->begun, 0, 0);
    sem_init(&t->may_end, 0, 0);
    sem_init(&t->dropped, 0, 0);
    return weft__pool_submit(&f->base, &t->op);
}

static inline void submit_to(fake *f, trial *t, void (*drop)(void *), weft__lane lane)
{
    weft__op op = {.code = WEFT__OP_CALL, .fd = -1, .u.call = {wait_in_call, t, drop, lane}};
    ck_assert(submit(f, t, op) == WEFT__OP_PENDING);
}

static inline void submit_call(fake *f, trial *t, void (*drop)(void *))
{
    submit_to(f, t, drop, WEFT__LANE_FILES);
}

static inline void wait_for(sem_t *what)
{
    TEMP_FAILURE_RETRY(sem_wait(what));
}

static inline bool has_happened(sem_t *what)
{
    return sem_trywait(what) == 0;
}

/* As poll does: until there is something to collect. */
static inline void wait_finished(fake *f)
{
    while (!weft__finished_before_wait(f->base.pooled))
        wait_for(&f->wakes);
}

/* Collect until it is done; what it ended with. */
static inline intptr_t finish(fake *f, trial *t)
{
    while (!t->is_done) {
        wait_finished(f);
        weft__pool_collect(&f->base);
    }
    return t->result;
}

static inline intptr_t let_end(fake *f, trial *t)
{
    sem_post(&t->may_end);
    return finish(f, t);
}

/* All threads are in a call, with or without a drop. */
static inline void occupy(fake *f, trial t[MAX], void (*drop)(void *))
{
    for (size_t i = 0; i < MAX; i++)
        submit_call(f, &t[i], drop);
    for (size_t i = 0; i < MAX; i++)
        wait_for(&t[i].begun);
}

#endif

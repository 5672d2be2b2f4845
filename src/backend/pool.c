/*
 * The pool, see pool.h.
 *
 * One lock guards everything. It is held while a backend is woken, too: the backend cannot go away
 * before its last operation has been collected, and collecting takes the lock.
 */
#include "backend/pool.h"

#include "backend/backend.h"
#include "backend/call.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

/* More would wait for the same disk. */
#define THREADS_MAX 16
/* An idle thread ends after so long. */
#define IDLE_S 10
/* Enough for the C library's resolver, which has its buffers on the stack. */
#define STACK_BYTES (256 << 10)

typedef enum job_state { JOB_QUEUED, JOB_RUNNING, JOB_FINISHED } job_state;

/* One call: from its submission until it is collected or dropped. */
typedef struct weft__job {
    weft__list link; /* in the queue, or in a backend's finished ones */
    weft__op *op;    /* NULL: given up */
    weft__backend *backend;
    intptr_t (*fn)(void *arg);
    void *arg;
    void (*drop)(void *arg);
    intptr_t result;
    job_state state;
} weft__job;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;
    weft__list queue;
    unsigned idle, made; /* threads */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER};

static atomic_uint threads_running;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    pthread_mutex_lock(&pool.lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&pool.lock);
}

/* The child has no threads, and what the parent waits for is not its own. */
static void after_fork_in_child(void)
{
    weft__list_init(&pool.queue);
    pool.idle = pool.made = 0;
    atomic_store(&threads_running, 0);
    pthread_cond_init(&pool.work, NULL);
    pthread_mutex_unlock(&pool.lock);
}

static void set_up(void)
{
    weft__list_init(&pool.queue);
    pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

void weft__finished_init(weft__finished *f)
{
    weft__list_init(&f->jobs);
    atomic_init(&f->some, false);
}

static void drop(weft__job *job)
{
    if (job->drop != NULL)
        job->drop(job->arg);
    free(job);
}

/* Under the lock: the call is over. */
static void finish(weft__job *job)
{
    weft__backend *b = job->backend;
    job->state = JOB_FINISHED;
    weft__list_insert(&b->pooled.jobs, &job->link);
    if (!atomic_exchange(&b->pooled.some, true))
        b->type->wake(b);
}

static intptr_t run_op(void *arg)
{
    return weft__call_block(arg);
}

/* Under the lock, which it gives up while the call runs. */
static void work_on(weft__job *job)
{
    weft__list_remove(&job->link);
    job->state = JOB_RUNNING;
    pthread_mutex_unlock(&pool.lock);
    intptr_t result = job->fn(job->arg);
    pthread_mutex_lock(&pool.lock);
    job->result = result;
    if (job->op != NULL) {
        finish(job);
        return;
    }
    pthread_mutex_unlock(&pool.lock);
    drop(job);
    pthread_mutex_lock(&pool.lock);
}

/* Under the lock: false if nothing came for too long. */
static bool wait_for_work(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += IDLE_S;
    int rc = 0;
    pool.idle++;
    while (weft__list_is_empty(&pool.queue) && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&pool.work, &pool.lock, &until);
    pool.idle--;
    return !weft__list_is_empty(&pool.queue);
}

static void *run_thread(void *arg)
{
    (void)arg;
    atomic_fetch_add(&threads_running, 1);
    pthread_mutex_lock(&pool.lock);
    while (wait_for_work())
        work_on(CONTAINER_OF(pool.queue.next, weft__job, link));
    pool.made--;
    atomic_fetch_sub(&threads_running, 1);
    pthread_mutex_unlock(&pool.lock);
    return NULL;
}

/* Signals are for the program's own threads. 0 or -errno. */
static int make_thread(void)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0)
        return -ENOMEM;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_t thread;
    int rc = pthread_create(&thread, &attributes, run_thread, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    return -rc;
}

/* Under the lock: see that someone takes the next job. */
static int call_for_work(void)
{
    if (pool.idle > 0 || pool.made == THREADS_MAX) {
        pthread_cond_signal(&pool.work);
        return 0;
    }
    int rc = make_thread();
    if (rc == 0)
        pool.made++;
    return pool.made > 0 ? 0 : rc;
}

intptr_t weft__pool_submit(weft__backend *b, weft__op *op)
{
    pthread_once(&once, set_up);
    weft__job *job = malloc(sizeof *job);
    if (job == NULL)
        return -ENOMEM;
    *job = (weft__job){.op = op, .backend = b, .fn = run_op, .arg = op};
    if (op->code == WEFT__OP_CALL) {
        job->fn = op->u.call.fn;
        job->arg = op->u.call.arg;
        job->drop = op->u.call.drop;
    }
    pthread_mutex_lock(&pool.lock);
    int rc = call_for_work();
    if (rc == 0)
        weft__list_insert(&pool.queue, &job->link);
    pthread_mutex_unlock(&pool.lock);
    if (rc < 0) {
        free(job);
        return rc;
    }
    op->job = job;
    b->pending++;
    return WEFT__OP_PENDING;
}

bool weft__pool_cancel(weft__backend *b, weft__op *op)
{
    weft__job *job = op->job;
    pthread_mutex_lock(&pool.lock);
    bool was_queued = job->state == JOB_QUEUED;
    bool is_out = was_queued || (job->state == JOB_RUNNING && job->drop != NULL);
    if (was_queued)
        weft__list_remove(&job->link);
    if (is_out)
        job->op = NULL;
    pthread_mutex_unlock(&pool.lock);
    if (was_queued)
        drop(job);
    if (is_out) {
        op->job = NULL;
        weft__list_remove(&op->link);
        b->pending--;
    }
    return is_out;
}

/* The next one that is finished; NULL: there is none. */
static weft__job *take_finished(weft__backend *b)
{
    weft__job *job = NULL;
    pthread_mutex_lock(&pool.lock);
    if (weft__list_is_empty(&b->pooled.jobs)) {
        atomic_store(&b->pooled.some, false);
    } else {
        job = CONTAINER_OF(b->pooled.jobs.next, weft__job, link);
        weft__list_remove(&job->link);
    }
    pthread_mutex_unlock(&pool.lock);
    return job;
}

void weft__pool_collect(weft__backend *b)
{
    if (!weft__finished_is_some(&b->pooled))
        return;
    weft__job *job;
    while ((job = take_finished(b)) != NULL) {
        weft__op *op = job->op;
        intptr_t result = job->result;
        free(job);
        op->job = NULL;
        weft__list_remove(&op->link);
        b->pending--;
        op->done(op, result);
    }
}

unsigned weft__pool_threads(void)
{
    return atomic_load(&threads_running);
}

/*
 * The pool, see pool.h.
 *
 * One lock guards everything. It is held while a backend is woken, too: the backend cannot go away
 * before its last operation has been collected, and collecting takes the lock.
 *
 * Some calls last as long as others want, a name to look up or a FIFO to open. So there are always
 * as many idle threads as jobs in the queue, until the limit is reached, and a thread at work on
 * what was given up does not count towards it.
 */
#include "backend/pool.h"

#include "backend/backend.h"
#include "backend/call.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* At work on what was given up, beside the others. With so many, nothing more is. */
#define LOST_MAX 1024
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
    void (*drop)(void *arg); /* NULL: cannot be given up while it runs */
    intptr_t result;         /* an error, until there is one */
    job_state state;
    bool is_call;
    weft__op open; /* of an OPEN that can be given up: op, with a path that stays */
    char path[];
} weft__job;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;
    weft__list queue;
    unsigned queued;
    unsigned made;    /* threads that are there */
    unsigned idle;    /* of them: take the next job, at once or when it comes */
    unsigned lost;    /* of them: at work on what was given up */
    unsigned calling; /* of them: in the fn of a CALL */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Idleness is real time: setting the clock does not change it. */
static void init_condition(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&pool.work, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void before_fork(void)
{
    pthread_mutex_lock(&pool.lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&pool.lock);
}

/* The child has no threads, and what the parent waits for is not its own to do. */
static void after_fork_in_child(void)
{
    while (weft__list_pop(&pool.queue) != NULL)
        continue;
    pool.queued = pool.made = pool.idle = pool.lost = pool.calling = 0;
    init_condition();
    pthread_mutex_unlock(&pool.lock);
}

static void set_up(void)
{
    weft__list_init(&pool.queue);
    init_condition();
    pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

void weft__finished_init(weft__finished *f)
{
    *f = (weft__finished){.end = NULL};
    weft__list_init(&f->jobs);
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

/* Under the lock, which it gives up while the call runs. */
static void work_on(weft__job *job)
{
    bool is_call = job->is_call;
    job->state = JOB_RUNNING;
    pool.calling += is_call;
    pthread_mutex_unlock(&pool.lock);
    intptr_t result = job->fn(job->arg);
    pthread_mutex_lock(&pool.lock);
    job->result = result;
    if (job->op != NULL) {
        finish(job);
    } else {
        pthread_mutex_unlock(&pool.lock);
        drop(job);
        pthread_mutex_lock(&pool.lock);
        pool.lost--;
    }
    pool.calling -= is_call;
}

/* Under the lock: threads that count towards the limit. */
static unsigned at_hand(void)
{
    return pool.made - pool.lost;
}

/* Under the lock: the next job; NULL if none came for too long. */
static weft__job *wait_for_job(void)
{
    if (at_hand() > WEFT__POOL_THREADS_MAX)
        return NULL; /* it was lost, and another one has been made instead */
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += IDLE_S;
    int rc = 0;
    while (weft__list_is_empty(&pool.queue) && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&pool.work, &pool.lock, &until);
    if (weft__list_is_empty(&pool.queue))
        return NULL;
    pool.queued--;
    return CONTAINER_OF(weft__list_pop(&pool.queue), weft__job, link);
}

static void *run_thread(void *arg)
{
    pthread_setname_np(pthread_self(), "weft-pool");
    pthread_mutex_lock(&pool.lock);
    weft__job *job;
    while ((job = wait_for_job()) != NULL) {
        pool.idle--;
        work_on(job);
        pool.idle++;
    }
    pool.idle--;
    pool.made--;
    pthread_mutex_unlock(&pool.lock);
    return arg;
}

/* 0 or an errno. */
static int create_thread(size_t stack_bytes)
{
    pthread_attr_t attributes;
    int rc = pthread_attr_init(&attributes);
    if (rc != 0)
        return rc;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (stack_bytes > 0)
        pthread_attr_setstacksize(&attributes, stack_bytes);
    pthread_t thread;
    rc = pthread_create(&thread, &attributes, run_thread, NULL);
    pthread_attr_destroy(&attributes);
    return rc;
}

/* Under the lock. 0 or -errno. */
static int make_thread(void)
{
    sigset_t all, old; /* signals are for the program's own threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = create_thread(STACK_BYTES);
    if (rc == EINVAL) /* the program's thread-local variables leave no room */
        rc = create_thread(0);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        return -rc;
    pool.made++;
    pool.idle++;
    return 0;
}

/* Under the lock: see that so many in the queue are taken. -errno if nobody would ever do it. */
static int call_for_work(unsigned queued)
{
    int rc = 0;
    if (queued > pool.idle && at_hand() < WEFT__POOL_THREADS_MAX)
        rc = make_thread();
    pthread_cond_signal(&pool.work);
    return at_hand() > 0 ? 0 : rc;
}

static intptr_t run_op(void *arg)
{
    return weft__call_block(arg);
}

static intptr_t run_open(void *arg)
{
    weft__job *job = arg;
    return weft__call_block(&job->open);
}

static void close_opened(void *arg)
{
    weft__job *job = arg;
    if (job->result >= 0)
        weft__call_close((int)job->result);
}

/* If nobody waits for it any more, an open that only opens does not matter. */
static bool is_droppable_open(const weft__op *op)
{
    return op->code == WEFT__OP_OPEN && op->u.open.path != NULL &&
           !(op->u.open.flags & (O_CREAT | O_TRUNC));
}

static weft__job *make_job(weft__backend *b, weft__op *op)
{
    bool is_open = is_droppable_open(op);
    size_t path_bytes = is_open ? strlen(op->u.open.path) + 1 : 0;
    weft__job *job = malloc(sizeof *job + path_bytes);
    if (job == NULL)
        return NULL;
    *job = (weft__job){.op = op, .backend = b, .fn = run_op, .arg = op, .result = -ECANCELED};
    if (op->code == WEFT__OP_CALL) {
        job->fn = op->u.call.fn;
        job->arg = op->u.call.arg;
        job->drop = op->u.call.drop;
        job->is_call = true;
    } else if (is_open) {
        memcpy(job->path, op->u.open.path, path_bytes);
        job->open = *op;
        job->open.u.open.path = job->path;
        job->fn = run_open;
        job->arg = job;
        job->drop = close_opened;
    }
    return job;
}

intptr_t weft__pool_submit(weft__backend *b, weft__op *op)
{
    pthread_once(&once, set_up);
    weft__job *job = make_job(b, op);
    if (job == NULL)
        return -ENOMEM;
    pthread_mutex_lock(&pool.lock);
    int rc = call_for_work(pool.queued + 1);
    if (rc == 0) {
        weft__list_insert(&pool.queue, &job->link);
        pool.queued++;
    }
    pthread_mutex_unlock(&pool.lock);
    if (rc < 0) {
        free(job);
        return rc;
    }
    op->job = job;
    b->pending++;
    return WEFT__OP_PENDING;
}

/* Under the lock: give a job up. False: it has to end by itself. */
static bool give_up(weft__job *job)
{
    if (job->state == JOB_QUEUED) {
        /* In a child of the process that queued it, it is in no queue. */
        pool.queued -= !weft__list_is_empty(&job->link);
        weft__list_remove(&job->link);
        return true;
    }
    if (job->state == JOB_FINISHED || job->drop == NULL || pool.lost == LOST_MAX)
        return false;
    job->op = NULL;
    pool.lost++;
    call_for_work(pool.queued); /* there is one thread less for them */
    return true;
}

bool weft__pool_cancel(weft__backend *b, weft__op *op)
{
    weft__job *job = op->job;
    pthread_mutex_lock(&pool.lock);
    bool was_queued = job->state == JOB_QUEUED;
    bool is_out = give_up(job);
    pthread_mutex_unlock(&pool.lock);
    if (!is_out)
        return false;
    if (op->code == WEFT__OP_CALL && op->u.call.drop != NULL)
        op->u.call.arg = NULL;
    op->job = NULL;
    weft__list_remove(&op->link);
    b->pending--;
    if (was_queued)
        drop(job);
    return true;
}

void weft__pool_collect(weft__backend *b)
{
    if (!weft__finished_is_some(&b->pooled))
        return;
    weft__list finished;
    weft__list_init(&finished);
    pthread_mutex_lock(&pool.lock);
    weft__list_splice(&finished, &b->pooled.jobs);
    atomic_store(&b->pooled.some, false);
    pthread_mutex_unlock(&pool.lock);
    while (!weft__list_is_empty(&finished)) {
        weft__job *job = CONTAINER_OF(weft__list_pop(&finished), weft__job, link);
        weft__op *op = job->op;
        intptr_t result = job->result;
        free(job);
        op->job = NULL;
        weft__list_remove(&op->link);
        b->pending--;
        if (b->pooled.end != NULL)
            b->pooled.end(b->pooled.owner, op, result);
        else
            op->done(op, result);
    }
}

unsigned weft__pool_freeze(void)
{
    pthread_mutex_lock(&pool.lock);
    return pool.made - pool.calling;
}

void weft__pool_thaw(void)
{
    pthread_mutex_unlock(&pool.lock);
}

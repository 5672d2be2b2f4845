/*
 * Jobs, see job.h. A job carries an operation through a worker queue and back to its backend.
 *
 * Worker threads push finished jobs to a lock-free list of the backend. Only the first job of the
 * list wakes the backend, and only if the backend waits. While the backend's thread is busy,
 * finished jobs accumulate. The backend then collects them together.
 */
#include "backend/workers/job.h"

#include "backend/backend.h"
#include "backend/fd_generation.h"
#include "backend/syscall/call.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* One call, from its submission until the job is collected or dropped. */
typedef struct weft__job {
    weft__task task;
    struct weft__job *next;        /* in the list of finished jobs */
    weft__op *op;                  /* NULL: the job has no operation */
    weft__finished_jobs *finished; /* the list to post the job to */
    intptr_t (*fn)(void *arg);
    void *arg;
    void (*drop)(void *arg); /* NULL: the job cannot be cancelled while it runs */
    intptr_t result;         /* -ECANCELED until fn has returned */
    /*
     * Bytes that the read or write had already transferred. If not 0, the job cannot be cancelled.
     */
    int transferred;
    int fd, fd_out;       /* the descriptors that fn uses; -1: none */
    uint32_t generations; /* the sum of both generations at submission */
    weft__op open;        /* a copy of op with its own path, for an OPEN that can be cancelled */
    char path[];
} weft__job;

void weft__finished_jobs_init(weft__backend *b)
{
    b->finished_jobs = &b->finished_jobs_own;
    *b->finished_jobs =
        (weft__finished_jobs){.backend = b, .fork_generation = weft__workers_fork_generation()};
}

/* Wait until no thread is posting. A posting thread may still wake the backend. */
static void wait_for_posters(const weft__finished_jobs *f)
{
    /* In a child of fork(2), the posting threads of the parent do not exist. */
    while (f->fork_generation == weft__workers_fork_generation() &&
           atomic_load_explicit(&f->posters, memory_order_acquire) > 0)
        sched_yield();
}

void weft__finished_jobs_close(weft__backend *b)
{
    if (b->finished_jobs != NULL)
        wait_for_posters(b->finished_jobs);
}

void weft__finished_jobs_hand_over(weft__backend *from, weft__backend *to)
{
    weft__finished_jobs *f = from->finished_jobs;
    if (f == NULL)
        return;
    f->end = to->finished_jobs != NULL ? to->finished_jobs->end : NULL;
    f->owner = to->finished_jobs != NULL ? to->finished_jobs->owner : NULL;
    atomic_store(&f->backend, to);
    wait_for_posters(f); /* later jobs wake the new backend */
    to->finished_jobs = f;
    to->pending += from->pending;
    from->finished_jobs = NULL;
    from->pending = 0;
}

/*
 * Push a finished job to the list. Wake the backend if it waits. The backend remains valid
 * meanwhile, because its thread waits for posting threads before it frees the backend.
 */
static void job_post(weft__job *job)
{
    weft__finished_jobs *f = job->finished;
    atomic_fetch_add_explicit(&f->posters, 1, memory_order_relaxed);
    weft__job *before = atomic_load_explicit(&f->newest, memory_order_relaxed);
    do {
        job->next = before;
    } while (!atomic_compare_exchange_weak(&f->newest, &before, job));
    if (before == NULL && atomic_load(&f->is_waiting)) {
        weft__backend *b = atomic_load(&f->backend);
        b->type->wake(b);
    }
    atomic_fetch_sub_explicit(&f->posters, 1, memory_order_release);
}

static void job_drop(weft__job *job)
{
    if (job->drop != NULL)
        job->drop(job->arg);
    free(job);
}

/* Return a sum that changes when any thread closes one of the descriptors. */
static uint32_t job_generations(const weft__job *job)
{
    return weft__fd_generation(job->fd) + weft__fd_generation(job->fd_out);
}

static bool job_fd_is_stale(const weft__job *job)
{
    return job_generations(job) != job->generations;
}

static void job_note_fds(weft__job *job, const weft__op *op)
{
    bool is_copy = op->code == WEFT__OP_SPLICE || op->code == WEFT__OP_TEE;
    bool is_absolute = op->code == WEFT__OP_OPEN && op->u.open.path[0] == '/';
    job->fd = is_absolute ? -1 : op->fd;
    job->fd_out = is_copy ? op->u.copy.fd_out : -1;
    job->generations = job_generations(job);
}

/* Return the number of bytes that a read or write has already transferred. */
static int transferred_bytes(const weft__op *op)
{
    bool is_transfer = op->code == WEFT__OP_READ || op->code == WEFT__OP_WRITE ||
                       op->code == WEFT__OP_READV || op->code == WEFT__OP_WRITEV;
    return is_transfer ? op->progress : 0;
}

/*
 * Run the job, unless another thread has closed a descriptor of the job. The number may then belong
 * to another file.
 */
static void job_run(weft__task *t)
{
    weft__job *job = CONTAINER_OF(t, weft__job, task);
    if (job_fd_is_stale(job))
        job->result = job->transferred > 0 ? job->transferred : -EBADF;
    else
        job->result = job->fn(job->arg);
}

static void job_end(weft__task *t, bool was_detached)
{
    weft__job *job = CONTAINER_OF(t, weft__job, task);
    if (was_detached)
        job_drop(job);
    else if (job->op != NULL)
        job_post(job);
    else
        free(job);
}

static intptr_t job_run_op(void *arg)
{
    return weft__call_block(arg);
}

static intptr_t job_run_open(void *arg)
{
    weft__job *job = arg;
    return weft__call_block(&job->open);
}

static void job_close_opened(void *arg)
{
    weft__job *job = arg;
    if (job->result >= 0)
        weft__call_close((int)job->result);
}

/* Return whether an OPEN can be dropped, because it has no side effects. */
static bool can_drop_open(const weft__op *op)
{
    return op->code == WEFT__OP_OPEN && op->u.open.path != NULL &&
           !(op->u.open.flags & (O_CREAT | O_TRUNC));
}

static void job_init_call(weft__job *job, const weft__op *op)
{
    job->fn = op->u.call.fn;
    job->arg = op->u.call.arg;
    job->drop = op->u.call.drop;
}

static void job_init_open(weft__job *job, const weft__op *op, size_t path_bytes)
{
    memcpy(job->path, op->u.open.path, path_bytes);
    job->open = *op;
    job->open.u.open.path = job->path;
    job->fn = job_run_open;
    job->arg = job;
    job->drop = job_close_opened;
}

static weft__job *job_new(weft__backend *b, weft__op *op)
{
    bool is_open = can_drop_open(op);
    size_t path_bytes = is_open ? strlen(op->u.open.path) + 1 : 0;
    weft__job *job = malloc(sizeof *job + path_bytes);
    if (job == NULL)
        return NULL;
    *job = (weft__job){
        .op = op, .finished = b->finished_jobs, .fn = job_run_op, .arg = op, .result = -ECANCELED};
    if (op->code == WEFT__OP_CALL)
        job_init_call(job, op);
    else if (is_open)
        job_init_open(job, op, path_bytes);
    job_note_fds(job, op);
    job->transferred = transferred_bytes(op);
    job->task = (weft__task){.run = job_run, .end = job_end, .is_detachable = job->drop != NULL};
    return job;
}

intptr_t weft__job_submit(weft__backend *b, weft__op *op)
{
    weft__job *job = job_new(b, op);
    if (job == NULL)
        return -ENOMEM;
    weft__worker_queue worker_queue =
        op->code == WEFT__OP_CALL ? op->u.call.worker_queue : WEFT__WORKER_QUEUE_FILES;
    op->job = job;
    int rc = weft__worker_queue_add(worker_queue, &job->task);
    if (rc < 0) {
        op->job = NULL;
        free(job);
        return rc;
    }
    b->pending++;
    return WEFT__OP_PENDING;
}

int weft__job_submit_detached(weft__worker_queue worker_queue, intptr_t (*fn)(void *arg), void *arg)
{
    weft__job *job = malloc(sizeof *job);
    if (job == NULL)
        return -ENOMEM;
    *job = (weft__job){.task = {.run = job_run, .end = job_end}, .fn = fn, .arg = arg};
    job->fd = job->fd_out = -1;
    int rc = weft__worker_queue_add(worker_queue, &job->task);
    if (rc < 0)
        free(job);
    return rc;
}

bool weft__job_cancel(weft__backend *b, weft__op *op)
{
    weft__job *job = op->job;
    weft__task_cancel_result outcome =
        job->transferred > 0 ? WEFT__TASK_CANNOT_CANCEL : weft__worker_queue_cancel(&job->task);
    if (outcome == WEFT__TASK_CANNOT_CANCEL)
        return false;
    if (op->code == WEFT__OP_CALL && op->u.call.drop != NULL)
        op->u.call.arg = NULL;
    op->job = NULL;
    weft__list_remove(&op->link);
    b->pending--;
    if (outcome == WEFT__TASK_IS_REMOVED)
        job_drop(job);
    else if (outcome == WEFT__TASK_IS_INHERITED)
        free(job); /* the state of the parent's call is unknown, so do not release arg */
    return true;
}

/* Take all finished jobs, the oldest first. */
static weft__job *finished_jobs_take(weft__finished_jobs *f)
{
    weft__job *newest = atomic_exchange_explicit(&f->newest, NULL, memory_order_acquire);
    weft__job *oldest = NULL;
    while (newest != NULL) {
        weft__job *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

static void job_complete(weft__backend *b, weft__job *job)
{
    weft__op *op = job->op;
    intptr_t result = job->result;
    if (result == -EAGAIN && job_fd_is_stale(job))
        result = -EBADF; /* otherwise ready.c would try the operation again */
    free(job);
    op->job = NULL;
    weft__list_remove(&op->link);
    b->pending--;
    if (b->finished_jobs->end != NULL)
        b->finished_jobs->end(b->finished_jobs->owner, op, result);
    else
        op->done(op, result);
}

void weft__jobs_collect(weft__backend *b)
{
    weft__finished_jobs *f = b->finished_jobs;
    if (atomic_load_explicit(&f->is_waiting, memory_order_relaxed))
        atomic_store_explicit(&f->is_waiting, false, memory_order_relaxed);
    if (atomic_load_explicit(&f->newest, memory_order_relaxed) == NULL)
        return;
    weft__job *job = finished_jobs_take(f);
    while (job != NULL) {
        weft__job *next = job->next;
        job_complete(b, job);
        job = next;
    }
}

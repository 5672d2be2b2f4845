/*
 * Jobs, see pool.h: an operation on its way through a lane and back to its backend.
 *
 * What is finished goes onto a list of the backend's without a lock, and only the first one wakes
 * it, if it waits at all: while the backend's thread is busy, results gather and are collected at
 * once.
 */
#include "backend/pool.h"

#include "backend/backend.h"
#include "backend/call.h"
#include "backend/fd_generation.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* One call: from its submission until it is collected or dropped. */
typedef struct weft__job {
    weft__task task;
    struct weft__job *next;   /* among a backend's finished ones */
    weft__op *op;             /* NULL: nobody waits for it */
    weft__finished *finished; /* where it goes then */
    intptr_t (*fn)(void *arg);
    void *arg;
    void (*drop)(void *arg); /* NULL: cannot be given up while it runs */
    intptr_t result;         /* an error, until there is one */
    int part;                /* bytes of a read or write that are done: it cannot be given up */
    int fd, fd_out;          /* descriptors that it works on; -1: none */
    uint32_t generations;    /* of both, when it was submitted */
    weft__op open;           /* of an OPEN that can be given up: op, with a path that stays */
    char path[];
} weft__job;

void weft__finished_init(weft__backend *b)
{
    b->pooled = &b->pooled_room;
    *b->pooled = (weft__finished){.backend = b, .process = weft__lanes_process()};
}

/* Wait until no thread is about to wake the backend. */
static void await_arriving(const weft__finished *f)
{
    /* The threads of the process that forked this one are not here to leave. */
    while (f->process == weft__lanes_process() &&
           atomic_load_explicit(&f->arriving, memory_order_acquire) > 0)
        sched_yield();
}

void weft__finished_close(weft__backend *b)
{
    if (b->pooled != NULL)
        await_arriving(b->pooled);
}

void weft__finished_hand_over(weft__backend *from, weft__backend *to)
{
    weft__finished *f = from->pooled;
    if (f == NULL)
        return;
    f->end = to->pooled != NULL ? to->pooled->end : NULL;
    f->owner = to->pooled != NULL ? to->pooled->owner : NULL;
    atomic_store(&f->backend, to);
    await_arriving(f); /* whoever comes later finds the new one */
    to->pooled = f;
    to->pending += from->pending;
    from->pooled = NULL;
    from->pending = 0;
}

/* The backend cannot go away meanwhile: its thread waits for who is arriving. */
static void deliver(weft__job *job)
{
    weft__finished *f = job->finished;
    atomic_fetch_add_explicit(&f->arriving, 1, memory_order_relaxed);
    weft__job *before = atomic_load_explicit(&f->newest, memory_order_relaxed);
    do {
        job->next = before;
    } while (!atomic_compare_exchange_weak(&f->newest, &before, job));
    if (before == NULL && atomic_load(&f->is_waiting)) {
        weft__backend *b = atomic_load(&f->backend);
        b->type->wake(b);
    }
    atomic_fetch_sub_explicit(&f->arriving, 1, memory_order_release);
}

static void drop(weft__job *job)
{
    if (job->drop != NULL)
        job->drop(job->arg);
    free(job);
}

/* Changes when one of its descriptors is closed, by whichever thread. */
static uint32_t generations_of(const weft__job *job)
{
    return weft__fd_generation(job->fd) + weft__fd_generation(job->fd_out);
}

static bool has_lost_fd(const weft__job *job)
{
    return generations_of(job) != job->generations;
}

static void note_descriptors(weft__job *job, const weft__op *op)
{
    bool is_copy = op->code == WEFT__OP_SPLICE || op->code == WEFT__OP_TEE;
    bool is_absolute = op->code == WEFT__OP_OPEN && op->u.open.path[0] == '/';
    job->fd = is_absolute ? -1 : op->fd;
    job->fd_out = is_copy ? op->u.copy.fd_out : -1;
    job->generations = generations_of(job);
}

/* What a read or write has moved before it came here: the file's position tells. */
static int part_of(const weft__op *op)
{
    bool is_transfer = op->code == WEFT__OP_READ || op->code == WEFT__OP_WRITE ||
                       op->code == WEFT__OP_READV || op->code == WEFT__OP_WRITEV;
    return is_transfer ? op->progress : 0;
}

/* Its number may be another file's by now: another thread has closed the descriptor. */
static void run_job(weft__task *t)
{
    weft__job *job = CONTAINER_OF(t, weft__job, task);
    if (has_lost_fd(job))
        job->result = job->part > 0 ? job->part : -EBADF;
    else
        job->result = job->fn(job->arg);
}

static void end_job(weft__task *t, bool was_left)
{
    weft__job *job = CONTAINER_OF(t, weft__job, task);
    if (was_left)
        drop(job);
    else if (job->op != NULL)
        deliver(job);
    else
        free(job);
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

static void fill_call(weft__job *job, const weft__op *op)
{
    job->fn = op->u.call.fn;
    job->arg = op->u.call.arg;
    job->drop = op->u.call.drop;
}

static void fill_open(weft__job *job, const weft__op *op, size_t path_bytes)
{
    memcpy(job->path, op->u.open.path, path_bytes);
    job->open = *op;
    job->open.u.open.path = job->path;
    job->fn = run_open;
    job->arg = job;
    job->drop = close_opened;
}

static weft__job *make_job(weft__backend *b, weft__op *op)
{
    bool is_open = is_droppable_open(op);
    size_t path_bytes = is_open ? strlen(op->u.open.path) + 1 : 0;
    weft__job *job = malloc(sizeof *job + path_bytes);
    if (job == NULL)
        return NULL;
    *job =
        (weft__job){.op = op, .finished = b->pooled, .fn = run_op, .arg = op, .result = -ECANCELED};
    if (op->code == WEFT__OP_CALL)
        fill_call(job, op);
    else if (is_open)
        fill_open(job, op, path_bytes);
    note_descriptors(job, op);
    job->part = part_of(op);
    job->task = (weft__task){.run = run_job, .end = end_job, .is_leavable = job->drop != NULL};
    return job;
}

intptr_t weft__pool_submit(weft__backend *b, weft__op *op)
{
    weft__job *job = make_job(b, op);
    if (job == NULL)
        return -ENOMEM;
    weft__lane lane = op->code == WEFT__OP_CALL ? op->u.call.lane : WEFT__LANE_FILES;
    op->job = job;
    int rc = weft__lane_add(lane, &job->task);
    if (rc < 0) {
        op->job = NULL;
        free(job);
        return rc;
    }
    b->pending++;
    return WEFT__OP_PENDING;
}

int weft__pool_cast(weft__lane lane, intptr_t (*fn)(void *arg), void *arg)
{
    weft__job *job = malloc(sizeof *job);
    if (job == NULL)
        return -ENOMEM;
    *job = (weft__job){.task = {.run = run_job, .end = end_job}, .fn = fn, .arg = arg};
    job->fd = job->fd_out = -1;
    int rc = weft__lane_add(lane, &job->task);
    if (rc < 0)
        free(job);
    return rc;
}

bool weft__pool_cancel(weft__backend *b, weft__op *op)
{
    weft__job *job = op->job;
    weft__task_fate fate = job->part > 0 ? WEFT__TASK_STAYS : weft__lane_give_up(&job->task);
    if (fate == WEFT__TASK_STAYS)
        return false;
    if (op->code == WEFT__OP_CALL && op->u.call.drop != NULL)
        op->u.call.arg = NULL;
    op->job = NULL;
    weft__list_remove(&op->link);
    b->pending--;
    if (fate == WEFT__TASK_IS_OUT)
        drop(job);
    else if (fate == WEFT__TASK_IS_ORPHAN)
        free(job); /* nobody can say how far its call has come: what it has is left as it is */
    return true;
}

/* Take all that is finished, the oldest first. */
static weft__job *take_finished(weft__finished *f)
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

static void end_op(weft__backend *b, weft__job *job)
{
    weft__op *op = job->op;
    intptr_t result = job->result;
    if (result == -EAGAIN && has_lost_fd(job))
        result = -EBADF; /* or it would be tried again */
    free(job);
    op->job = NULL;
    weft__list_remove(&op->link);
    b->pending--;
    if (b->pooled->end != NULL)
        b->pooled->end(b->pooled->owner, op, result);
    else
        op->done(op, result);
}

void weft__pool_collect(weft__backend *b)
{
    weft__finished *f = b->pooled;
    if (atomic_load_explicit(&f->is_waiting, memory_order_relaxed))
        atomic_store_explicit(&f->is_waiting, false, memory_order_relaxed);
    if (atomic_load_explicit(&f->newest, memory_order_relaxed) == NULL)
        return;
    weft__job *job = take_finished(f);
    while (job != NULL) {
        weft__job *next = job->next;
        end_op(b, job);
        job = next;
    }
}

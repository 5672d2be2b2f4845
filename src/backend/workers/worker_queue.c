/*
 * Worker queues and their threads, see worker_queue.h.
 *
 * Each queue has one lock. A thread holds the lock only for bookkeeping and, rarely, for the
 * creation of a thread. Each idle worker sleeps on its own semaphore. The worker that went to sleep
 * last is woken first. A few threads with warm caches then run most tasks, and the other threads
 * can end.
 */
#include "backend/workers/worker_queue.h"

#include "backend/syscall/count.h"
#include "base/busy_poll.h"
#include "base/clock.h"
#include "base/libc.h"
#include "base/thread.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* The time after which an idle thread ends. */
#define IDLE_NS (10 * (int64_t)WEFT__NS_PER_S)
/*
 * The maximum number of detached tasks per queue. Their threads do not count towards the limit of
 * the queue.
 */
#define DETACHED_MAX 1024
/*
 * The stack size of worker threads. The resolver of the C library has large buffers on the stack.
 */
#define STACK_BYTES (256 << 10)

/* An idle worker. The struct is on the stack of the worker thread. */
typedef struct idle_worker {
    weft__list link; /* in idle_workers; in no list: another thread is about to post wake */
    sem_t wake;
} idle_worker;

typedef struct worker_queue {
    const char *name;   /* of the threads */
    size_t stack_bytes; /* of the threads; 0: the default, for functions of the program */
    unsigned default_limit;
    pthread_mutex_t lock;
    unsigned limit;
    /* The first elements are the oldest task, and the worker that went to sleep last. */
    weft__list queue, idle_workers;
    atomic_uint queued; /* tasks in the queue; read without the lock by busy polling */
    unsigned asleep;    /* workers in idle_workers */
    int added_cpu;      /* the CPU of the thread that added the last task */
    unsigned threads;   /* worker threads */
    unsigned running;   /* threads in a task */
    unsigned detached;  /* threads in a detached task */
    uint64_t done, abandoned;
    int64_t queue_ns, queue_ns_max;
    sigset_t outer_sigmask; /* the signal mask of the creator of the newest thread */
} worker_queue;

#define WORKER_QUEUE(index, name_, limit_, stack_bytes_)                     \
    [index] = {                                                              \
        .name = name_,                                                       \
        .stack_bytes = stack_bytes_,                                         \
        .default_limit = limit_,                                             \
        .limit = limit_,                                                     \
        .lock = PTHREAD_MUTEX_INITIALIZER,                                   \
        .queue = {&worker_queues[index].queue, &worker_queues[index].queue}, \
        .idle_workers = {&worker_queues[index].idle_workers, &worker_queues[index].idle_workers}}

static worker_queue worker_queues[WEFT__WORKER_QUEUE_COUNT] = {
    WORKER_QUEUE(WEFT__WORKER_QUEUE_FILES, "weft-files", WEFT__FILES_WORKERS_MAX, STACK_BYTES),
    WORKER_QUEUE(WEFT__WORKER_QUEUE_NAMES, "weft-names", WEFT__NAMES_WORKERS_MAX, STACK_BYTES),
    WORKER_QUEUE(WEFT__WORKER_QUEUE_USER, "weft-offload", WEFT__USER_WORKERS_DEFAULT, 0),
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic(int64_t) idle_ns = IDLE_NS;
static _Atomic(void (*)(void)) on_call_end; /* NULL: none */
static unsigned fork_generation;            /* the number of forks since the first process */

/* The state of a worker thread. */
static __thread struct {
    bool is_worker;
    sigset_t outer_sigmask; /* the signal mask of its creator */
    weft__busy_poll busy_poll;
} this_worker;

static void worker_queues_lock(void)
{
    for (int i = 0; i < WEFT__WORKER_QUEUE_COUNT; i++)
        pthread_mutex_lock(&worker_queues[i].lock);
}

static void worker_queues_unlock(void)
{
    for (int i = WEFT__WORKER_QUEUE_COUNT; i > 0; i--)
        pthread_mutex_unlock(&worker_queues[i - 1].lock);
}

/*
 * The child has no worker threads, and must not run tasks of the parent. A thread of the parent may
 * have held a lock, and the queue may be inconsistent. Therefore reset the queues without reading
 * them.
 */
static void workers_after_fork(void)
{
    fork_generation++;
    weft__syscalls_reset_workers();
    for (worker_queue *q = worker_queues; q < worker_queues + WEFT__WORKER_QUEUE_COUNT; q++) {
        q->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
        weft__list_init(&q->queue);
        weft__list_init(&q->idle_workers);
        q->queued = q->asleep = q->threads = q->running = q->detached = 0;
        q->done = q->abandoned = 0;
        q->queue_ns = q->queue_ns_max = 0;
    }
}

static void workers_install_atfork(void)
{
    pthread_atfork(NULL, NULL, workers_after_fork);
}

/* The functions below require the lock of the queue, unless stated otherwise. */

/* Return the number of threads that count towards the limit. */
static unsigned live_workers(const worker_queue *q)
{
    return q->threads - q->detached;
}

/*
 * Return the number of idle threads that are awake. Each of these threads takes a task before it
 * sleeps.
 */
static unsigned awake_workers(const worker_queue *q)
{
    return q->threads - q->running - q->asleep;
}

static weft__task *task_take(worker_queue *q)
{
    weft__list *node = weft__list_pop(&q->queue);
    if (node == NULL)
        return NULL;
    weft__task *t = CONTAINER_OF(node, weft__task, link);
    q->queued--;
    q->running++;
    t->state = WEFT__TASK_RUNNING;
    int64_t waited_ns = weft__clock_ns() - t->queued_ns;
    q->queue_ns += waited_ns;
    if (waited_ns > q->queue_ns_max)
        q->queue_ns_max = waited_ns;
    return t;
}

/* This function does not require the lock. */
static bool is_task_queued(void *arg)
{
    worker_queue *q = arg;
    return atomic_load_explicit(&q->queued, memory_order_relaxed) > 0;
}

/*
 * Poll for a task before sleeping, if polling has been useful recently. The polling thread counts
 * as awake. Do not poll on the CPU of the thread that adds tasks, because polling would delay that
 * thread.
 */
static void busy_poll_tasks(worker_queue *q)
{
    if (!weft__busy_poll_pays(&this_worker.busy_poll) || sched_getcpu() == q->added_cpu)
        return;
    pthread_mutex_unlock(&q->lock);
    (void)weft__busy_poll_run(&this_worker.busy_poll, is_task_queued, q);
    pthread_mutex_lock(&q->lock);
}

/* Sleep until another thread wakes this worker. Returns false after a timeout. */
static bool wait_idle(worker_queue *q)
{
    idle_worker self;
    sem_init(&self.wake, 0, 0);
    weft__list_insert(q->idle_workers.next, &self.link);
    q->asleep++;
    pthread_mutex_unlock(&q->lock);
    int64_t began_ns = weft__clock_ns();
    struct timespec until =
        weft__clock_spec(began_ns + atomic_load_explicit(&idle_ns, memory_order_relaxed));
    int rc = TEMP_FAILURE_RETRY(sem_clockwait(&self.wake, CLOCK_MONOTONIC, &until));
    pthread_mutex_lock(&q->lock);
    bool is_woken = weft__list_is_empty(&self.link);
    if (!is_woken) {
        weft__list_remove(&self.link);
        q->asleep--;
    } else if (rc < 0) { /* another thread is about to post self.wake */
        TEMP_FAILURE_RETRY(sem_wait(&self.wake));
    }
    sem_destroy(&self.wake);
    weft__busy_poll_adapt(&this_worker.busy_poll, weft__clock_ns() - began_ns, is_woken);
    return is_woken;
}

/*
 * Wait for the next task. Returns NULL if the thread was idle for too long, or if the number of
 * threads exceeds the limit.
 */
static weft__task *task_wait(worker_queue *q)
{
    weft__task *t = NULL;
    bool is_needed = true;
    while (is_needed && live_workers(q) <= q->limit && (t = task_take(q)) == NULL) {
        busy_poll_tasks(q);
        if (q->queued == 0)
            is_needed = wait_idle(q);
    }
    return t;
}

/*
 * Call on_call_end after a function of the program has returned. The caller must not hold the lock.
 */
static void notify_call_end(const worker_queue *q)
{
    void (*fn)(void) = atomic_load(&on_call_end);
    if (q == &worker_queues[WEFT__WORKER_QUEUE_USER] && fn != NULL)
        fn();
}

/* Run a task, and release the lock meanwhile. */
static void run_task(worker_queue *q, weft__task *t)
{
    unsigned generation = fork_generation;
    pthread_mutex_unlock(&q->lock);
    t->run(t);
    weft__syscalls_add_worker();
    if (generation != fork_generation)
        exit(EXIT_SUCCESS); /* the task has called fork, and this process is the child */
    pthread_mutex_lock(&q->lock);
    bool was_detached = t->state == WEFT__TASK_DETACHED;
    t->state = WEFT__TASK_ENDED;
    if (!was_detached) { /* before end: the thread must count as idle when the result is visible */
        q->running--;
        q->done++;
    }
    pthread_mutex_unlock(&q->lock);
    t->end(t, was_detached);
    weft__syscalls_add_worker();
    if (was_detached) {
        pthread_mutex_lock(&q->lock);
        q->running--;
        q->detached--;
        pthread_mutex_unlock(&q->lock);
    }
    notify_call_end(q);
    pthread_mutex_lock(&q->lock);
}

static int spawn_worker(worker_queue *q);

/*
 * Make sure that a thread takes the queued tasks. Sets *woken to a worker that the caller must wake
 * after releasing the lock, or to NULL. Returns 0, or -errno if no thread would ever take the
 * tasks.
 */
static int wake_or_spawn(worker_queue *q, idle_worker **woken)
{
    *woken = NULL;
    if (q->queued <= awake_workers(q))
        return 0;
    weft__list *node = weft__list_pop(&q->idle_workers);
    if (node != NULL) {
        *woken = CONTAINER_OF(node, idle_worker, link);
        q->asleep--;
        return 0;
    }
    int rc = live_workers(q) < q->limit ? spawn_worker(q) : 0;
    return live_workers(q) > 0 ? 0 : rc;
}

static void unlock_and_wake(worker_queue *q, idle_worker *woken)
{
    pthread_mutex_unlock(&q->lock);
    if (woken != NULL)
        sem_post(&woken->wake);
}

/* The main function of a worker thread. The thread starts without the lock. */
static void *worker_main(void *arg)
{
    worker_queue *q = arg;
    pthread_setname_np(pthread_self(), q->name);
    pthread_mutex_lock(&q->lock);
    this_worker.is_worker = true;
    this_worker.outer_sigmask = q->outer_sigmask;
    weft__task *t;
    while ((t = task_wait(q)) != NULL)
        run_task(q, t);
    q->threads--;
    idle_worker *woken;
    wake_or_spawn(q, &woken); /* a task may rely on this thread */
    unlock_and_wake(q, woken);
    return NULL;
}

/* Start a worker thread. Returns 0 or -errno. */
static int spawn_worker(worker_queue *q)
{
    int rc = weft__thread_create(NULL, q->stack_bytes, worker_main, q);
    if (rc < 0)
        return rc;
    q->threads++;
    if (this_worker.is_worker)
        q->outer_sigmask = this_worker.outer_sigmask;
    else
        pthread_sigmask(SIG_BLOCK, NULL, &q->outer_sigmask);
    return 0;
}

/* The caller of the functions below must not hold the lock, except for task_detach. */

int weft__worker_queue_add(weft__worker_queue index, weft__task *t)
{
    pthread_once(&once, workers_install_atfork);
    worker_queue *q = &worker_queues[index];
    t->worker_queue = index;
    t->state = WEFT__TASK_QUEUED;
    t->fork_generation = fork_generation;
    t->queued_ns = weft__clock_ns();
    idle_worker *woken;
    pthread_mutex_lock(&q->lock);
    q->added_cpu = sched_getcpu();
    q->queued++;
    weft__list_insert(&q->queue, &t->link);
    int rc = wake_or_spawn(q, &woken);
    if (rc < 0) {
        q->queued--;
        weft__list_remove(&t->link);
    }
    unlock_and_wake(q, woken);
    return rc;
}

/* Detach a running task. The caller must hold the lock. */
static weft__task_cancel_result task_detach(worker_queue *q, weft__task *t)
{
    if (t->fork_generation != fork_generation)
        return WEFT__TASK_IS_INHERITED;
    if (!t->is_detachable || q->detached == DETACHED_MAX)
        return WEFT__TASK_CANNOT_CANCEL;
    t->state = WEFT__TASK_DETACHED;
    q->detached++;
    return WEFT__TASK_IS_DETACHED;
}

weft__task_cancel_result weft__worker_queue_cancel(weft__task *t)
{
    worker_queue *q = &worker_queues[t->worker_queue];
    weft__task_cancel_result outcome = WEFT__TASK_CANNOT_CANCEL;
    idle_worker *woken = NULL;
    pthread_mutex_lock(&q->lock);
    if (t->state == WEFT__TASK_QUEUED) {
        outcome = WEFT__TASK_IS_REMOVED;
        /* In a child of fork, the task is in no queue. */
        if (t->fork_generation == fork_generation) {
            q->queued--;
            weft__list_remove(&t->link);
        }
    } else if (t->state == WEFT__TASK_RUNNING) {
        outcome = task_detach(q, t);
    }
    q->abandoned += outcome != WEFT__TASK_CANNOT_CANCEL;
    if (outcome == WEFT__TASK_IS_DETACHED)
        wake_or_spawn(q, &woken); /* the thread of the task no longer counts towards the limit */
    unlock_and_wake(q, woken);
    return outcome;
}

/*
 * If the number of workers exceeds the limit, wake an idle worker so that it ends. Otherwise wake
 * or start a worker for a queued task. Returns whether a worker was woken or started.
 */
static bool apply_limit(worker_queue *q)
{
    idle_worker *woken = NULL;
    pthread_mutex_lock(&q->lock);
    unsigned before = q->threads;
    if (live_workers(q) <= q->limit) {
        wake_or_spawn(q, &woken);
    } else if (!weft__list_is_empty(&q->idle_workers)) {
        woken = CONTAINER_OF(weft__list_pop(&q->idle_workers), idle_worker, link);
        q->asleep--;
    }
    bool is_more = woken != NULL || q->threads != before;
    unlock_and_wake(q, woken);
    return is_more;
}

int weft__worker_queue_limit(weft__worker_queue index, unsigned threads)
{
    if (threads > WEFT__WORKERS_LIMIT)
        return -EINVAL;
    worker_queue *q = &worker_queues[index];
    pthread_mutex_lock(&q->lock);
    q->limit = threads > 0 ? threads : q->default_limit;
    pthread_mutex_unlock(&q->lock);
    while (apply_limit(q))
        continue;
    return 0;
}

void weft__worker_queue_count(weft__worker_queue index, weft__worker_queue_counts *out)
{
    worker_queue *q = &worker_queues[index];
    pthread_mutex_lock(&q->lock);
    *out = (weft__worker_queue_counts){
        .threads = q->threads,
        .idle = q->threads - q->running,
        .queued = q->queued,
        .running = q->running,
        .done = q->done,
        .abandoned = q->abandoned,
        .queue_ns = q->queue_ns,
        .queue_ns_max = q->queue_ns_max,
    };
    pthread_mutex_unlock(&q->lock);
}

void weft__workers_on_call_end(void (*fn)(void))
{
    atomic_store(&on_call_end, fn);
}

void weft__workers_set_idle_ns(int64_t ns)
{
    atomic_store(&idle_ns, ns);
}

void weft__workers_unblock_signals(void)
{
    if (this_worker.is_worker)
        pthread_sigmask(SIG_SETMASK, &this_worker.outer_sigmask, NULL);
}

unsigned weft__workers_fork_generation(void)
{
    return fork_generation;
}

unsigned weft__workers_freeze(void)
{
    worker_queues_lock();
    unsigned passive = 0;
    for (const worker_queue *q = worker_queues; q < worker_queues + WEFT__WORKER_QUEUE_COUNT; q++)
        passive += q->threads;
    const worker_queue *user = &worker_queues[WEFT__WORKER_QUEUE_USER];
    unsigned idle = user->threads - user->running;
    return passive - user->running - (user->queued < idle ? user->queued : idle);
}

void weft__workers_thaw(void)
{
    worker_queues_unlock();
}

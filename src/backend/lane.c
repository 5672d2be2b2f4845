/*
 * Lanes of threads, see lane.h.
 *
 * Each lane has one lock. Nothing is done under it but bookkeeping and, rarely, the making of a
 * thread. An idle thread sleeps on a semaphore of its own, the last to come is woken first: so the
 * same few threads, with warm caches, do the work, and the others can end.
 */
#include "backend/lane.h"

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

/* An idle thread ends after so long. */
#define IDLE_NS (10 * (int64_t)WEFT__NS_PER_S)
/* Of a lane, at work on what was given up, beside the others. With so many, nothing more is. */
#define LOST_MAX 1024
/* Enough for the C library's resolver, which has its buffers on the stack. */
#define STACK_BYTES (256 << 10)

/* An idle thread, on its own stack. */
typedef struct sleeper {
    weft__list link; /* among its lane's; in none: it is being woken */
    sem_t wake;
} sleeper;

typedef struct lane {
    const char *name;   /* of its threads */
    size_t stack_bytes; /* of its threads; 0: what pthread_create gives, as foreign code expects */
    unsigned default_limit;
    pthread_mutex_t lock;
    unsigned limit;
    weft__list queue, sleepers; /* the first to be taken, and to be woken, in front */
    atomic_uint queued; /* how many are on the queue; read without the lock by threads that look */
    unsigned asleep;    /* and among the sleepers */
    int added_on;       /* the processor of the thread that added the last task */
    unsigned threads;   /* that there are */
    unsigned running;   /* of them: in a task */
    unsigned lost;      /* of these: in one that was given up */
    uint64_t done, given_up;
    int64_t queue_ns, queue_ns_max;
    sigset_t outer; /* what whoever made the last of its threads blocks */
} lane;

#define LANE(index, name_, limit_, stack_bytes_)                    \
    [index] = {.name = name_,                                       \
               .stack_bytes = stack_bytes_,                         \
               .default_limit = limit_,                             \
               .limit = limit_,                                     \
               .lock = PTHREAD_MUTEX_INITIALIZER,                   \
               .queue = {&lanes[index].queue, &lanes[index].queue}, \
               .sleepers = {&lanes[index].sleepers, &lanes[index].sleepers}}

static lane lanes[WEFT__LANE_COUNT] = {
    LANE(WEFT__LANE_FILES, "weft-files", WEFT__LANE_FILES_THREADS, STACK_BYTES),
    LANE(WEFT__LANE_NAMES, "weft-names", WEFT__LANE_NAMES_THREADS, STACK_BYTES),
    LANE(WEFT__LANE_USER, "weft-offload", WEFT__LANE_USER_THREADS, 0),
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic(int64_t) idle_ns = IDLE_NS;
static _Atomic(void (*)(void)) call_end; /* NULL: nobody asks */
static unsigned process;                 /* counts the forks that lead to this one */

/* Of a thread of ours. */
static __thread struct {
    bool is_ours;
    sigset_t outer; /* what it would block if it were not */
    weft__busy_poll busy_poll;
} self;

static void lock_all(void)
{
    for (int i = 0; i < WEFT__LANE_COUNT; i++)
        pthread_mutex_lock(&lanes[i].lock);
}

static void unlock_all(void)
{
    for (int i = WEFT__LANE_COUNT; i > 0; i--)
        pthread_mutex_unlock(&lanes[i - 1].lock);
}

/*
 * The child has no threads, and what the parent waits for is not its own to do. Whoever held a lock
 * is gone, in the middle of whatever it was at: so nothing is looked at, and all begins anew.
 */
static void after_fork_in_child(void)
{
    process++;
    for (lane *l = lanes; l < lanes + WEFT__LANE_COUNT; l++) {
        l->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
        weft__list_init(&l->queue);
        weft__list_init(&l->sleepers);
        l->queued = l->asleep = l->threads = l->running = l->lost = 0;
        l->done = l->given_up = 0;
        l->queue_ns = l->queue_ns_max = 0;
    }
}

static void set_up(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

/* From here on all is under the lock of the lane, unless it says otherwise. */

/* Threads that count towards the limit. */
static unsigned at_hand(const lane *l)
{
    return l->threads - l->lost;
}

/* Idle threads that are awake: each takes a task, if there is one, before it sleeps. */
static unsigned awake(const lane *l)
{
    return l->threads - l->running - l->asleep;
}

static weft__task *take_task(lane *l)
{
    weft__list *node = weft__list_pop(&l->queue);
    if (node == NULL)
        return NULL;
    weft__task *t = CONTAINER_OF(node, weft__task, link);
    l->queued--;
    l->running++;
    t->state = WEFT__TASK_RUNNING;
    int64_t took_ns = weft__clock_ns() - t->queued_ns;
    l->queue_ns += took_ns;
    if (took_ns > l->queue_ns_max)
        l->queue_ns_max = took_ns;
    return t;
}

/* Not under the lock. */
static bool has_task(void *arg)
{
    lane *l = arg;
    return atomic_load_explicit(&l->queued, memory_order_relaxed) > 0;
}

/*
 * Look for a task before sleeping, if that pays. Meanwhile the thread counts as awake. On the
 * processor of the thread that adds tasks it would only keep that from running.
 */
static void look_for_task(lane *l)
{
    if (!weft__busy_poll_pays(&self.busy_poll) || sched_getcpu() == l->added_on)
        return;
    pthread_mutex_unlock(&l->lock);
    (void)weft__busy_poll_run(&self.busy_poll, has_task, l);
    pthread_mutex_lock(&l->lock);
}

/* Sleep until there is something to do; false: there was nothing for too long. */
static bool sleep_well(lane *l)
{
    sleeper s;
    sem_init(&s.wake, 0, 0);
    weft__list_insert(l->sleepers.next, &s.link);
    l->asleep++;
    pthread_mutex_unlock(&l->lock);
    int64_t began_ns = weft__clock_ns();
    struct timespec until =
        weft__clock_spec(began_ns + atomic_load_explicit(&idle_ns, memory_order_relaxed));
    int rc = TEMP_FAILURE_RETRY(sem_clockwait(&s.wake, CLOCK_MONOTONIC, &until));
    pthread_mutex_lock(&l->lock);
    bool is_woken = weft__list_is_empty(&s.link);
    if (!is_woken) {
        weft__list_remove(&s.link);
        l->asleep--;
    } else if (rc < 0) { /* someone is just about to: s must be here until then */
        TEMP_FAILURE_RETRY(sem_wait(&s.wake));
    }
    sem_destroy(&s.wake);
    weft__busy_poll_learn(&self.busy_poll, weft__clock_ns() - began_ns, is_woken);
    return is_woken;
}

/* The next task; NULL if none came for too long, or the thread is one too many. */
static weft__task *wait_for_task(lane *l)
{
    weft__task *t = NULL;
    bool is_needed = true;
    while (is_needed && at_hand(l) <= l->limit && (t = take_task(l)) == NULL) {
        look_for_task(l);
        if (l->queued == 0)
            is_needed = sleep_well(l);
    }
    return t;
}

/* Not under the lock: a call of the program's has ended, and its thread has nothing to send. */
static void tell_call_end(const lane *l)
{
    void (*fn)(void) = atomic_load(&call_end);
    if (l == &lanes[WEFT__LANE_USER] && fn != NULL)
        fn();
}

/* Gives the lock up while the task runs. */
static void work_on(lane *l, weft__task *t)
{
    unsigned here = process;
    pthread_mutex_unlock(&l->lock);
    t->run(t);
    if (here != process)
        exit(EXIT_SUCCESS); /* it has called fork: in the child there is no such thread */
    pthread_mutex_lock(&l->lock);
    bool was_left = t->state == WEFT__TASK_LEFT;
    t->state = WEFT__TASK_ENDED;
    if (!was_left) { /* free for the next task before anyone hears that this one is over */
        l->running--;
        l->done++;
    }
    pthread_mutex_unlock(&l->lock);
    t->end(t, was_left);
    if (was_left) {
        pthread_mutex_lock(&l->lock);
        l->running--;
        l->lost--;
        pthread_mutex_unlock(&l->lock);
    }
    tell_call_end(l);
    pthread_mutex_lock(&l->lock);
}

static int make_thread(lane *l);

/*
 * See to it that what is in the queue is taken. *woken: whom the caller is to wake, after it has
 * released the lock. -errno if nobody would ever take it.
 */
static int attend(lane *l, sleeper **woken)
{
    *woken = NULL;
    if (l->queued <= awake(l))
        return 0;
    weft__list *node = weft__list_pop(&l->sleepers);
    if (node != NULL) {
        *woken = CONTAINER_OF(node, sleeper, link);
        l->asleep--;
        return 0;
    }
    int rc = at_hand(l) < l->limit ? make_thread(l) : 0;
    return at_hand(l) > 0 ? 0 : rc;
}

/* Takes the lock of the caller, and releases it. */
static void release(lane *l, sleeper *woken)
{
    pthread_mutex_unlock(&l->lock);
    if (woken != NULL)
        sem_post(&woken->wake);
}

/* Not under the lock: what a thread does. */
static void *run_thread(void *arg)
{
    lane *l = arg;
    pthread_setname_np(pthread_self(), l->name);
    pthread_mutex_lock(&l->lock);
    self.is_ours = true;
    self.outer = l->outer;
    weft__task *t;
    while ((t = wait_for_task(l)) != NULL)
        work_on(l, t);
    l->threads--;
    sleeper *woken;
    attend(l, &woken); /* it may have been counted on */
    release(l, woken);
    return NULL;
}

/* 0 or -errno. */
static int make_thread(lane *l)
{
    int rc = weft__thread_make(NULL, l->stack_bytes, run_thread, l);
    if (rc < 0)
        return rc;
    l->threads++;
    if (self.is_ours)
        l->outer = self.outer;
    else
        pthread_sigmask(SIG_BLOCK, NULL, &l->outer);
    return 0;
}

/* From here on not under the lock. */

int weft__lane_add(weft__lane index, weft__task *t)
{
    pthread_once(&once, set_up);
    lane *l = &lanes[index];
    t->lane = index;
    t->state = WEFT__TASK_QUEUED;
    t->process = process;
    t->queued_ns = weft__clock_ns();
    sleeper *woken;
    pthread_mutex_lock(&l->lock);
    l->added_on = sched_getcpu();
    l->queued++;
    weft__list_insert(&l->queue, &t->link);
    int rc = attend(l, &woken);
    if (rc < 0) {
        l->queued--;
        weft__list_remove(&t->link);
    }
    release(l, woken);
    return rc;
}

/* Of a task that runs. */
static weft__task_fate leave(lane *l, weft__task *t)
{
    if (t->process != process)
        return WEFT__TASK_IS_ORPHAN;
    if (!t->is_leavable || l->lost == LOST_MAX)
        return WEFT__TASK_STAYS;
    t->state = WEFT__TASK_LEFT;
    l->lost++;
    return WEFT__TASK_IS_LEFT;
}

weft__task_fate weft__lane_give_up(weft__task *t)
{
    lane *l = &lanes[t->lane];
    weft__task_fate fate = WEFT__TASK_STAYS;
    sleeper *woken = NULL;
    pthread_mutex_lock(&l->lock);
    if (t->state == WEFT__TASK_QUEUED) {
        fate = WEFT__TASK_IS_OUT;
        if (t->process == process) { /* in a child of fork it is in no queue */
            l->queued--;
            weft__list_remove(&t->link);
        }
    } else if (t->state == WEFT__TASK_RUNNING) {
        fate = leave(l, t);
    }
    l->given_up += fate != WEFT__TASK_STAYS;
    if (fate == WEFT__TASK_IS_LEFT)
        attend(l, &woken); /* there is one thread less for those in the queue */
    release(l, woken);
    return fate;
}

/* Wake one that is too many, or for one that may be one more; false: nobody is left to. */
static bool adjust(lane *l)
{
    sleeper *woken = NULL;
    pthread_mutex_lock(&l->lock);
    unsigned before = l->threads;
    if (at_hand(l) <= l->limit) {
        attend(l, &woken);
    } else if (!weft__list_is_empty(&l->sleepers)) {
        woken = CONTAINER_OF(weft__list_pop(&l->sleepers), sleeper, link);
        l->asleep--;
    }
    bool is_more = woken != NULL || l->threads != before;
    release(l, woken);
    return is_more;
}

int weft__lane_limit(weft__lane index, unsigned threads)
{
    if (threads > WEFT__LANE_THREADS_LIMIT)
        return -EINVAL;
    lane *l = &lanes[index];
    pthread_mutex_lock(&l->lock);
    l->limit = threads > 0 ? threads : l->default_limit;
    pthread_mutex_unlock(&l->lock);
    while (adjust(l))
        continue;
    return 0;
}

void weft__lane_count(weft__lane index, weft__lane_counts *out)
{
    lane *l = &lanes[index];
    pthread_mutex_lock(&l->lock);
    *out = (weft__lane_counts){
        .threads = l->threads,
        .idle = l->threads - l->running,
        .queued = l->queued,
        .running = l->running,
        .done = l->done,
        .given_up = l->given_up,
        .queue_ns = l->queue_ns,
        .queue_ns_max = l->queue_ns_max,
    };
    pthread_mutex_unlock(&l->lock);
}

void weft__lanes_set_call_end(void (*fn)(void))
{
    atomic_store(&call_end, fn);
}

void weft__lanes_set_idle_ns(int64_t ns)
{
    atomic_store(&idle_ns, ns);
}

void weft__lanes_unblock(void)
{
    if (self.is_ours)
        pthread_sigmask(SIG_SETMASK, &self.outer, NULL);
}

unsigned weft__lanes_process(void)
{
    return process;
}

unsigned weft__lanes_freeze(void)
{
    lock_all();
    unsigned harmless = 0;
    for (const lane *l = lanes; l < lanes + WEFT__LANE_COUNT; l++)
        harmless += l->threads;
    const lane *user = &lanes[WEFT__LANE_USER];
    unsigned idle = user->threads - user->running;
    return harmless - user->running - (user->queued < idle ? user->queued : idle);
}

void weft__lanes_thaw(void)
{
    unlock_all();
}

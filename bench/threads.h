/*
 * The yardstick for threads: what a program does that has pthreads and nothing else. Two ways to
 * hand something over and to wait for it, a mutex with a condition, and an eventfd; each for a
 * round trip and for a stream of messages from one thread or several.
 */
#ifndef WEFT_BENCH_THREADS_H
#define WEFT_BENCH_THREADS_H

#include "rounds.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Exchanges before the time is taken. */
#define WARM_UP 100

/* Of round trips: 11 cases in 22 rounds take 12 s at most. */
#define ROUND_NS_MAX 50e6

/* Tells the one who answers that it is over; a box and an eventfd can hold it. */
#define OVER ((uint64_t)1 << 40)

/* Values under way in a ring. */
#define RING_ROOM 1024

/* Real time: two threads share the work. */
static inline double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/*
 * Has a round gone on for long enough, after i exchanges? On a busy machine one may take a thousand
 * times as long as on an idle one.
 */
static inline bool is_enough(double began, size_t i)
{
    return bench_only == NULL && i % 32 == 0 && now_ns() - began > ROUND_NS_MAX;
}

/* The i-th CPU of this process, counted from 1; 0 if it has not that many. */
static inline int cpu_at(int i)
{
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((unsigned)cpu, &set) && i-- == 0)
            return cpu + 1;
    return 0;
}

/* On that CPU, as cpu_at says it; 0: anywhere. */
static inline pthread_t start_thread(void *(*fn)(void *), void *arg, int cpu)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    if (cpu > 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((unsigned)cpu - 1, &set);
        pthread_attr_setaffinity_np(&attributes, sizeof set, &set);
    }
    bench_require(pthread_create(&thread, &attributes, fn, arg) == 0, "no thread");
    pthread_attr_destroy(&attributes);
    return thread;
}

static inline void *do_nothing_there(void *arg)
{
    return arg;
}

static double create_and_join(void *arg, size_t n)
{
    (void)arg;
    double began = now_ns();
    for (size_t i = 0; i < n; i++)
        pthread_join(start_thread(do_nothing_there, NULL, 0), NULL);
    return (now_ns() - began) / (double)n;
}

/* A place for one value. */
typedef struct box {
    pthread_mutex_t lock;
    pthread_cond_t is_full;
    uint64_t value; /* 0: none */
} box;

#define EMPTY_BOX                                                              \
    {                                                                          \
        .lock = PTHREAD_MUTEX_INITIALIZER, .is_full = PTHREAD_COND_INITIALIZER \
    }

static inline void box_put(box *b, uint64_t value)
{
    pthread_mutex_lock(&b->lock);
    b->value = value;
    pthread_mutex_unlock(&b->lock);
    pthread_cond_signal(&b->is_full);
}

static inline uint64_t box_take(box *b)
{
    pthread_mutex_lock(&b->lock);
    while (b->value == 0)
        pthread_cond_wait(&b->is_full, &b->lock);
    uint64_t value = b->value;
    b->value = 0;
    pthread_mutex_unlock(&b->lock);
    return value;
}

/* The same by the counter of an eventfd, which is 0 when it has been read. */
static inline void event_put(int fd, uint64_t value)
{
    bench_require(write(fd, &value, sizeof value) == sizeof value, "an eventfd is not written to");
}

static inline uint64_t event_take(int fd)
{
    uint64_t value;
    bench_require(read(fd, &value, sizeof value) == sizeof value, "an eventfd is not read");
    return value;
}

/* Two threads that take turns; over eventfds if there are any. */
typedef struct duet {
    box there, back;
    int fd_there, fd_back; /* -1: boxes */
    size_t n;
    double took;
} duet;

static inline uint64_t duet_exchange(duet *d, uint64_t value)
{
    if (d->fd_there >= 0) {
        event_put(d->fd_there, value);
        return event_take(d->fd_back);
    }
    box_put(&d->there, value);
    return box_take(&d->back);
}

static void *duet_ask(void *arg)
{
    duet *d = arg;
    for (uint64_t i = 1; i <= WARM_UP; i++)
        duet_exchange(d, i);
    double began = now_ns();
    size_t done = 0;
    for (; done < d->n && !is_enough(began, done + 1); done++)
        bench_require(duet_exchange(d, done + 1) == done + 1, "a value was lost");
    d->took = now_ns() - began;
    d->n = done;
    duet_exchange(d, OVER);
    return NULL;
}

static void *duet_answer(void *arg)
{
    duet *d = arg;
    uint64_t value;
    do {
        value = d->fd_there >= 0 ? event_take(d->fd_there) : box_take(&d->there);
        if (d->fd_there >= 0)
            event_put(d->fd_back, value);
        else
            box_put(&d->back, value);
    } while (value != OVER);
    return NULL;
}

static double duet_run(duet *d)
{
    pthread_t other = start_thread(duet_answer, d, cpu_at(1));
    pthread_t asker = start_thread(duet_ask, d, cpu_at(0));
    pthread_join(asker, NULL);
    pthread_join(other, NULL);
    return d->took / (double)d->n;
}

/* Of n only a part: arg points to the divisor. */
static double cond_round_trip(void *arg, size_t n)
{
    duet d = {EMPTY_BOX, EMPTY_BOX, -1, -1, n / *(const unsigned *)arg, 0};
    return duet_run(&d);
}

static double eventfd_round_trip(void *arg, size_t n)
{
    int there = eventfd(0, EFD_CLOEXEC), back = eventfd(0, EFD_CLOEXEC);
    duet d = {EMPTY_BOX, EMPTY_BOX, there, back, n / *(const unsigned *)arg, 0};
    bench_require(there >= 0 && back >= 0, "no eventfd");
    double each = duet_run(&d);
    close(there);
    close(back);
    return each;
}

/*
 * A queue without a limit. With an eventfd the one who reads takes all that is there at once, and
 * is woken when there is something again: so an event loop is sent work. Else it takes one after
 * the other, and waits on the condition.
 */
typedef struct parcel {
    struct parcel *next;
    uint64_t value;
} parcel;

typedef struct work_queue {
    pthread_mutex_t lock;
    pthread_cond_t is_filled;
    parcel *first, **last;
    int fd; /* -1: none */
} work_queue;

static inline void queue_put(work_queue *q, uint64_t value)
{
    parcel *one = malloc(sizeof *one);
    bench_require(one != NULL, "no memory");
    *one = (parcel){NULL, value};
    pthread_mutex_lock(&q->lock);
    bool was_empty = q->first == NULL;
    *q->last = one;
    q->last = &one->next;
    pthread_mutex_unlock(&q->lock);
    if (q->fd < 0)
        pthread_cond_signal(&q->is_filled);
    else if (was_empty)
        event_put(q->fd, 1);
}

static inline parcel *queue_take_one(work_queue *q)
{
    pthread_mutex_lock(&q->lock);
    while (q->first == NULL)
        pthread_cond_wait(&q->is_filled, &q->lock);
    parcel *one = q->first;
    q->first = one->next;
    if (q->first == NULL)
        q->last = &q->first;
    pthread_mutex_unlock(&q->lock);
    one->next = NULL;
    return one;
}

static inline parcel *queue_take_all(work_queue *q)
{
    event_take(q->fd);
    pthread_mutex_lock(&q->lock);
    parcel *all = q->first;
    q->first = NULL;
    q->last = &q->first;
    pthread_mutex_unlock(&q->lock);
    return all;
}

/*
 * How one who reads and all who send begin together: everyone is there, then the clock is read,
 * then they go. So nothing is sent before, however busy the machine is.
 */
typedef struct start {
    pthread_barrier_t ready, go;
} start;

static inline void start_init(start *s, unsigned count)
{
    pthread_barrier_init(&s->ready, NULL, count);
    pthread_barrier_init(&s->go, NULL, count);
}

static inline void start_destroy(start *s)
{
    pthread_barrier_destroy(&s->ready);
    pthread_barrier_destroy(&s->go);
}

static inline double start_wait(start *s)
{
    pthread_barrier_wait(&s->ready);
    double now = now_ns();
    pthread_barrier_wait(&s->go);
    return now;
}

/* Several threads that send 1..n each, and one that reads. */
typedef struct chorus {
    work_queue queue;
    start start;
    unsigned senders;
    size_t n;
    uint64_t sum;
    double took;
} chorus;

static void *chorus_send(void *arg)
{
    chorus *c = arg;
    start_wait(&c->start);
    for (uint64_t i = 1; i <= c->n; i++)
        queue_put(&c->queue, i);
    return NULL;
}

static void *chorus_read(void *arg)
{
    chorus *c = arg;
    double began = start_wait(&c->start);
    for (size_t left = c->n * c->senders; left > 0;) {
        parcel *one = c->queue.fd < 0 ? queue_take_one(&c->queue) : queue_take_all(&c->queue);
        for (parcel *next; one != NULL; one = next, left--) {
            next = one->next;
            c->sum += one->value;
            free(one);
        }
    }
    c->took = now_ns() - began;
    return NULL;
}

static double chorus_run(unsigned senders, size_t n, int fd)
{
    chorus c = {.senders = senders, .n = n / senders};
    c.queue = (work_queue){.lock = PTHREAD_MUTEX_INITIALIZER,
                           .is_filled = PTHREAD_COND_INITIALIZER,
                           .last = &c.queue.first,
                           .fd = fd};
    pthread_t threads[16];
    start_init(&c.start, senders + 1);
    bool is_pinned = senders == 1;
    for (unsigned i = 0; i < senders; i++)
        threads[i] = start_thread(chorus_send, &c, is_pinned ? cpu_at(1) : 0);
    pthread_join(start_thread(chorus_read, &c, is_pinned ? cpu_at(0) : 0), NULL);
    for (unsigned i = 0; i < senders; i++)
        pthread_join(threads[i], NULL);
    start_destroy(&c.start);
    bench_require(c.sum == senders * (c.n * (c.n + 1) / 2), "a value was lost");
    return c.took / (double)(c.n * senders);
}

static double cond_stream(void *arg, size_t n)
{
    return chorus_run(*(const unsigned *)arg, n, -1);
}

static double eventfd_stream(void *arg, size_t n)
{
    int fd = eventfd(0, EFD_CLOEXEC);
    bench_require(fd >= 0, "no eventfd");
    double each = chorus_run(*(const unsigned *)arg, n, fd);
    close(fd);
    return each;
}

/*
 * The least that can be done: one sender, one reader, a ring of values without a lock or memory of
 * their own. Who finds it full or empty says that it sleeps, looks again, and reads its eventfd.
 */
typedef struct ring {
    _Alignas(64) atomic_size_t put;
    atomic_bool is_sender_asleep;
    _Alignas(64) atomic_size_t taken;
    atomic_bool is_reader_asleep;
    _Alignas(64) uint64_t values[RING_ROOM];
    int fd_filled, fd_emptied;
    start start;
    size_t n;
    uint64_t sum;
    double took;
} ring;

static inline void ring_wake(atomic_bool *is_asleep, int fd)
{
    if (atomic_load(is_asleep) && atomic_exchange(is_asleep, false))
        event_put(fd, 1);
}

static void *ring_send(void *arg)
{
    ring *r = arg;
    start_wait(&r->start);
    for (size_t i = 0; i < r->n; i++) {
        while (i - atomic_load_explicit(&r->taken, memory_order_acquire) == RING_ROOM) {
            atomic_store(&r->is_sender_asleep, true);
            if (i - atomic_load(&r->taken) == RING_ROOM ||
                !atomic_exchange(&r->is_sender_asleep, false))
                event_take(r->fd_emptied);
        }
        r->values[i % RING_ROOM] = i + 1;
        atomic_store(&r->put, i + 1);
        ring_wake(&r->is_reader_asleep, r->fd_filled);
    }
    return NULL;
}

static void *ring_read(void *arg)
{
    ring *r = arg;
    double began = start_wait(&r->start);
    for (size_t i = 0; i < r->n;) {
        size_t end = atomic_load_explicit(&r->put, memory_order_acquire);
        if (i == end) {
            atomic_store(&r->is_reader_asleep, true);
            if (atomic_load(&r->put) == i || !atomic_exchange(&r->is_reader_asleep, false))
                event_take(r->fd_filled);
            continue;
        }
        for (; i < end; i++)
            r->sum += r->values[i % RING_ROOM];
        atomic_store(&r->taken, i);
        ring_wake(&r->is_sender_asleep, r->fd_emptied);
    }
    r->took = now_ns() - began;
    return NULL;
}

static double ring_stream(void *arg, size_t n)
{
    static ring r;
    (void)arg;
    memset(&r, 0, sizeof r);
    r.n = n;
    r.fd_filled = eventfd(0, EFD_CLOEXEC);
    r.fd_emptied = eventfd(0, EFD_CLOEXEC);
    bench_require(r.fd_filled >= 0 && r.fd_emptied >= 0, "no eventfd");
    start_init(&r.start, 2);
    pthread_t reader = start_thread(ring_read, &r, cpu_at(0));
    pthread_join(start_thread(ring_send, &r, cpu_at(1)), NULL);
    pthread_join(reader, NULL);
    start_destroy(&r.start);
    close(r.fd_filled);
    close(r.fd_emptied);
    bench_require(r.sum == n * (n + 1) / 2, "a value was lost");
    return r.took / (double)n;
}

#endif

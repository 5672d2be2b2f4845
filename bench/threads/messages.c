/*
 * Workloads of messages between threads: round trips and streams. Each workload has two variants: a
 * mutex with a condition variable, and an eventfd, as in event loops.
 */
#include "together.h"
#include "works.h"

#include <stdbool.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Room for one value. */
typedef struct box {
    pthread_mutex_t lock;
    pthread_cond_t is_full;
    uint64_t value; /* 0: none */
    int fd;         /* -1: none. The counter holds the value, and a read resets it to 0 */
} box;

static void box_init(box *b, bool has_fd)
{
    *b = (box){.lock = PTHREAD_MUTEX_INITIALIZER, .is_full = PTHREAD_COND_INITIALIZER, .fd = -1};
    if (has_fd)
        bench_require((b->fd = eventfd(0, EFD_CLOEXEC)) >= 0);
}

static inline void event_put(int fd, uint64_t value)
{
    bench_require(write(fd, &value, sizeof value) == sizeof value);
}

static inline uint64_t event_take(int fd)
{
    uint64_t value;
    bench_require(read(fd, &value, sizeof value) == sizeof value);
    return value;
}

static inline void box_put(box *b, uint64_t value)
{
    if (b->fd >= 0) {
        event_put(b->fd, value);
        return;
    }
    pthread_mutex_lock(&b->lock);
    b->value = value;
    pthread_mutex_unlock(&b->lock);
    pthread_cond_signal(&b->is_full);
}

static inline uint64_t box_take(box *b)
{
    if (b->fd >= 0)
        return event_take(b->fd);
    pthread_mutex_lock(&b->lock);
    while (b->value == 0)
        pthread_cond_wait(&b->is_full, &b->lock);
    uint64_t value = b->value;
    b->value = 0;
    pthread_mutex_unlock(&b->lock);
    return value;
}

/* Two threads that send each other messages. */
typedef struct exchange {
    box there, back;
    size_t n;
    double took;
} exchange;

static void *ask(void *arg)
{
    exchange *d = arg;
    double began = 0;
    for (size_t i = 1; i <= BENCH_WARM_UP + d->n; i++) {
        if (i == BENCH_WARM_UP + 1)
            began = bench_real_ns();
        box_put(&d->there, i);
        bench_require(box_take(&d->back) == i);
    }
    d->took = bench_real_ns() - began;
    return NULL;
}

static void *answer(void *arg)
{
    exchange *d = arg;
    for (size_t i = 0; i < BENCH_WARM_UP + d->n; i++)
        box_put(&d->back, box_take(&d->there));
    return NULL;
}

static void run_exchange(bool has_fds, size_t n)
{
    exchange d = {.n = n};
    box_init(&d.there, has_fds);
    box_init(&d.back, has_fds);
    pthread_t other = together_thread(answer, &d);
    pthread_join(together_thread(ask, &d), NULL);
    pthread_join(other, NULL);
    bench_print(d.took / (double)n);
}

void work_cords(size_t count, size_t n)
{
    (void)count;
    run_exchange(false, n);
}

void work_cords_eventfd(size_t count, size_t n)
{
    (void)count;
    run_exchange(true, n);
}

/*
 * An unbounded queue. The reader takes all values at once. If the queue is empty, the reader waits
 * on the condition variable or the eventfd.
 */
typedef struct item {
    struct item *next;
    uint64_t value;
} item;

typedef struct queue {
    pthread_mutex_t lock;
    pthread_cond_t is_filled;
    item *first, **last;
    int fd; /* -1: none */
} queue;

static void queue_put(queue *q, uint64_t value)
{
    item *one = malloc(sizeof *one);
    bench_require(one != NULL);
    *one = (item){NULL, value};
    pthread_mutex_lock(&q->lock);
    bool was_empty = q->first == NULL;
    *q->last = one;
    q->last = &one->next;
    pthread_mutex_unlock(&q->lock);
    if (was_empty && q->fd >= 0)
        event_put(q->fd, 1);
    else if (was_empty)
        pthread_cond_signal(&q->is_filled);
}

static item *queue_take_all(queue *q)
{
    if (q->fd >= 0)
        event_take(q->fd);
    pthread_mutex_lock(&q->lock);
    while (q->fd < 0 && q->first == NULL)
        pthread_cond_wait(&q->is_filled, &q->lock);
    item *all = q->first;
    q->first = NULL;
    q->last = &q->first;
    pthread_mutex_unlock(&q->lock);
    return all;
}

/* Threads that send n messages each, and a reader. */
typedef struct stream {
    queue queue;
    together start;
    size_t senders;
    size_t n;
    uint64_t sum;
    double took;
} stream;

static void *send_all(void *arg)
{
    stream *s = arg;
    together_begin(&s->start);
    for (size_t i = 0; i < s->n; i++)
        queue_put(&s->queue, 1);
    return NULL;
}

static void *read_all(void *arg)
{
    stream *s = arg;
    double began = together_begin(&s->start);
    while (s->sum < s->n * s->senders) {
        for (item *one = queue_take_all(&s->queue), *next; one != NULL; one = next) {
            next = one->next;
            s->sum += one->value;
            free(one);
        }
    }
    s->took = bench_real_ns() - began;
    return NULL;
}

static double run_stream(size_t threads, size_t n, int fd)
{
    bench_require(threads > 1);
    stream s = {.senders = threads - 1, .n = n / (threads - 1) + 1};
    s.queue = (queue){.lock = PTHREAD_MUTEX_INITIALIZER,
                      .is_filled = PTHREAD_COND_INITIALIZER,
                      .last = &s.queue.first,
                      .fd = fd};
    pthread_t *senders = calloc(s.senders, sizeof *senders);
    bench_require(senders != NULL);
    together_init(&s.start, (unsigned)threads);
    for (size_t i = 0; i < s.senders; i++)
        senders[i] = together_thread(send_all, &s);
    pthread_join(together_thread(read_all, &s), NULL);
    for (size_t i = 0; i < s.senders; i++)
        pthread_join(senders[i], NULL);
    together_destroy(&s.start);
    free(senders);
    bench_require(s.sum == s.n * s.senders);
    return s.took / (double)(s.n * s.senders);
}

static double flow_pass(size_t count, size_t n)
{
    return run_stream(count, n, -1);
}

void work_flow(size_t count, size_t n)
{
    bench_measure(flow_pass, count, n);
}

static double flow_eventfd_pass(size_t count, size_t n)
{
    int fd = eventfd(0, EFD_CLOEXEC);
    bench_require(fd >= 0);
    double each = run_stream(count, n, fd);
    close(fd);
    return each;
}

void work_flow_eventfd(size_t count, size_t n)
{
    bench_measure(flow_eventfd_pass, count, n);
}

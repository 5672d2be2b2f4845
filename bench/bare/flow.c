/*
 * A stream from one thread to another over a ring of values, without locks and allocations. A
 * thread that finds the ring full or empty sets its sleep flag. The thread then checks the ring
 * again and reads its eventfd.
 */
#include "together.h"
#include "works.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define ROOM 1024

typedef struct ring {
    _Alignas(64) atomic_size_t put;
    atomic_bool is_sender_asleep;
    _Alignas(64) atomic_size_t taken;
    atomic_bool is_reader_asleep;
    _Alignas(64) uint64_t values[ROOM];
    int fd_filled, fd_emptied;
    together start;
    size_t n;
    uint64_t sum;
    double took;
} ring;

static inline void wake(atomic_bool *is_asleep, int fd)
{
    uint64_t one = 1;
    if (atomic_load(is_asleep) && atomic_exchange(is_asleep, false))
        bench_require(write(fd, &one, sizeof one) == sizeof one);
}

static inline void sleep_on(int fd)
{
    uint64_t value;
    bench_require(read(fd, &value, sizeof value) == sizeof value);
}

static void *send_all(void *arg)
{
    ring *r = arg;
    together_begin(&r->start);
    for (size_t i = 0; i < r->n; i++) {
        while (i - atomic_load_explicit(&r->taken, memory_order_acquire) == ROOM) {
            atomic_store(&r->is_sender_asleep, true);
            if (i - atomic_load(&r->taken) == ROOM || !atomic_exchange(&r->is_sender_asleep, false))
                sleep_on(r->fd_emptied);
        }
        r->values[i % ROOM] = 1;
        atomic_store(&r->put, i + 1);
        wake(&r->is_reader_asleep, r->fd_filled);
    }
    return NULL;
}

static void *read_all(void *arg)
{
    ring *r = arg;
    double began = together_begin(&r->start);
    for (size_t i = 0; i < r->n;) {
        size_t end = atomic_load_explicit(&r->put, memory_order_acquire);
        if (i == end) {
            atomic_store(&r->is_reader_asleep, true);
            if (atomic_load(&r->put) == i || !atomic_exchange(&r->is_reader_asleep, false))
                sleep_on(r->fd_filled);
            continue;
        }
        for (; i < end; i++)
            r->sum += r->values[i % ROOM];
        atomic_store(&r->taken, i);
        wake(&r->is_sender_asleep, r->fd_emptied);
    }
    r->took = bench_real_ns() - began;
    return NULL;
}

static double flow_pass(size_t count, size_t n)
{
    static ring r;
    bench_require(count == 2);
    memset(&r, 0, sizeof r);
    r.n = n;
    r.fd_filled = eventfd(0, EFD_CLOEXEC);
    r.fd_emptied = eventfd(0, EFD_CLOEXEC);
    bench_require(r.fd_filled >= 0 && r.fd_emptied >= 0);
    together_init(&r.start, 2);
    pthread_t reader = together_thread(read_all, &r);
    pthread_join(together_thread(send_all, &r), NULL);
    pthread_join(reader, NULL);
    together_destroy(&r.start);
    close(r.fd_filled);
    close(r.fd_emptied);
    bench_require(r.sum == n);
    return r.took / (double)n;
}

void work_flow(size_t count, size_t n)
{
    bench_measure(flow_pass, count, n);
}

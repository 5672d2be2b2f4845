/*
 * cc -O2 -o st bench/peers/st.c -l:libst.a
 *
 * State Threads 1.9 of Debian, which has no st_thread_yield and no epoll. Its users yield with a
 * sleep of 0, which passes through the timer heap and the idle thread. Waits for sockets use
 * poll(2). There are no channels: a variable holds the value, and a condition variable signals it.
 * Condition variables need no mutex. A timeout is part of a waiting call and cannot be armed alone.
 */
#include "peer.h"

#include "../listen.h"

#include <st.h>

static void start(void)
{
    bench_require(st_set_eventsys(ST_EVENTSYS_POLL) == 0);
    bench_require(st_init() == 0);
}

static st_thread_t spin_one(void *(*fn)(void *), size_t arg)
{
    st_thread_t thread = st_thread_create(fn, (void *)arg, 1, PEER_STACK_BYTES);
    bench_require(thread != NULL);
    return thread;
}

/* Create threads. Each thread receives its number. The threads are runnable, but do not run yet. */
static st_thread_t *spin_all(size_t count, void *(*fn)(void *))
{
    st_thread_t *threads = malloc(count * sizeof *threads);
    bench_require(threads != NULL);
    for (size_t i = 0; i < count; i++)
        threads[i] = spin_one(fn, i);
    return threads;
}

static void join_all(st_thread_t *threads, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bench_require(st_thread_join(threads[i], NULL) == 0);
    free(threads);
}

static peer_crowd crowd;

static void *snoozer(void *arg)
{
    while (peer_crowd_continues(&crowd))
        st_usleep(0);
    return arg;
}

static void snooze(size_t count, size_t n)
{
    start();
    crowd = peer_crowd_make(count, n);
    join_all(spin_all(count, snoozer), count);
    bench_print(crowd.took_ns / (double)n);
}

static void *do_nothing(void *arg)
{
    return arg;
}

static double spin_pass(size_t count, size_t n)
{
    (void)count;
    double began = bench_cpu_ns();
    for (size_t i = 0; i < n; i++)
        st_thread_join(spin_one(do_nothing, 0), NULL);
    return (bench_cpu_ns() - began) / (double)n;
}

static void spin(size_t count, size_t n)
{
    start();
    bench_measure(spin_pass, count, n);
}

/* Room for one value; 0: empty. */
typedef struct box {
    st_cond_t is_full;
    size_t value;
} box;

static box there, back;

static void box_put(box *b, size_t value)
{
    b->value = value;
    st_cond_signal(b->is_full);
}

static size_t box_take(box *b)
{
    while (b->value == 0)
        st_cond_wait(b->is_full);
    size_t value = b->value;
    b->value = 0;
    return value;
}

static void *answer(void *arg)
{
    for (size_t i = 0; i < (size_t)arg; i++)
        box_put(&back, box_take(&there));
    return NULL;
}

static double rendezvous_pass(size_t count, size_t n)
{
    (void)count;
    st_thread_t other = spin_one(answer, n);
    double began = bench_cpu_ns();
    for (size_t i = 1; i <= n; i++) {
        box_put(&there, i);
        bench_require(box_take(&back) == i);
    }
    double took = bench_cpu_ns() - began;
    st_thread_join(other, NULL);
    return took / (double)n;
}

static void rendezvous(size_t count, size_t n)
{
    start();
    there.is_full = st_cond_new();
    back.is_full = st_cond_new();
    bench_measure(rendezvous_pass, count, n);
}

static st_mutex_t lock;
static size_t locks_left;

static void *contend(void *arg)
{
    while (locks_left > 0) {
        locks_left--;
        st_mutex_lock(lock);
        st_usleep(0);
        st_mutex_unlock(lock);
    }
    return arg;
}

static double mutex_pass(size_t count, size_t n)
{
    locks_left = n;
    double began = bench_cpu_ns();
    join_all(spin_all(count, contend), count);
    return (bench_cpu_ns() - began) / (double)n;
}

static void mutex(size_t count, size_t n)
{
    start();
    lock = st_mutex_new();
    bench_measure(mutex_pass, count, n);
}

static st_cond_t turn;
static size_t whose, turns;

static void *take_turns(void *arg)
{
    size_t mine = (size_t)arg;
    for (size_t i = 0; i < turns; i++) {
        while (whose != mine)
            st_cond_wait(turn);
        whose = !mine;
        st_cond_signal(turn);
    }
    return NULL;
}

static double condition_pass(size_t count, size_t n)
{
    (void)count;
    turns = n;
    st_thread_t other = spin_one(take_turns, 1);
    double began = bench_cpu_ns();
    take_turns((void *)0);
    st_thread_join(other, NULL);
    return (bench_cpu_ns() - began) / (double)n;
}

static void condition(size_t count, size_t n)
{
    start();
    turn = st_cond_new();
    bench_measure(condition_pass, count, n);
}

static void *wait_forever(void *arg)
{
    st_cond_wait(turn);
    return arg;
}

static void park(size_t count)
{
    for (size_t i = 0; i < count; i++)
        bench_require(st_thread_create(wait_forever, NULL, 0, PEER_STACK_BYTES) != NULL);
    /* Returns when no other thread is runnable. */
    st_usleep(0);
}

static void parked(size_t count, size_t n)
{
    (void)n;
    start();
    turn = st_cond_new();
    bench_measure_parked(park, count);
}

static void *sleep_once(void *arg)
{
    st_usleep(bench_sleep_us((size_t)arg));
    return NULL;
}

static void sleepers(size_t count, size_t n)
{
    (void)n;
    start();
    double began = bench_cpu_ns();
    join_all(spin_all(count, sleep_once), count);
    bench_print((bench_cpu_ns() - began) / 1e6);
}

static void *serve(void *arg)
{
    st_netfd_t connection = arg;
    char buffer[ECHO_BUFFER_BYTES];
    ssize_t n;
    while ((n = st_read(connection, buffer, sizeof buffer, ST_UTIME_NO_TIMEOUT)) > 0 &&
           st_write(connection, buffer, (size_t)n, ST_UTIME_NO_TIMEOUT) == n) {}
    st_netfd_close(connection);
    return NULL;
}

static void echo(size_t port, size_t n)
{
    (void)n;
    /* bench_listen raises the limit of open descriptors, which st_init reads. */
    int fd = bench_listen(port);
    start();
    st_netfd_t listener = st_netfd_open_socket(fd);
    bench_require(listener != NULL);
    for (;;) {
        st_netfd_t connection = st_accept(listener, NULL, NULL, ST_UTIME_NO_TIMEOUT);
        if (connection == NULL)
            continue;
        bench_require(st_thread_create(serve, connection, 0, PEER_STACK_BYTES) != NULL);
    }
}

static const bench_work works[] = {
    {"snooze", snooze},       {"spin", spin},     {"rendezvous", rendezvous}, {"mutex", mutex},
    {"condition", condition}, {"parked", parked}, {"sleepers", sleepers},     {"echo", echo},
};

BENCH_MAIN(works)

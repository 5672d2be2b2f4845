/*
 * cc -O2 -o pth bench/peers/pth.c -l:libpth.a
 *
 * GNU Pth 2.0.7. A mailbox is a message port, and a thread waits for its event. At each switch the
 * scheduler checks all events of all waiting threads. 100,000 sleepers, or more than a few thousand
 * threads, would therefore take too long. Pth waits for sockets with select(2), which supports no
 * descriptor above 1023. Pth therefore serves 1,000 connections, but not 10,000.
 */
#include "peer.h"

#include "../listen.h"

#include <pth.h>

/* Larger numbers would take minutes. */
#define THREADS_MAX 2000

static pth_attr_t attributes;

static void start(void)
{
    bench_require(pth_init());
    attributes = pth_attr_new();
    bench_require(attributes != NULL);
    pth_attr_set(attributes, PTH_ATTR_STACK_SIZE, (unsigned int)PEER_STACK_BYTES);
    pth_attr_set(attributes, PTH_ATTR_JOINABLE, TRUE);
}

static pth_t spin_one(void *(*fn)(void *), size_t arg)
{
    pth_t thread = pth_spawn(attributes, fn, (void *)arg);
    bench_require(thread != NULL);
    return thread;
}

/* Create threads. Each thread receives its number. The threads are runnable, but do not run yet. */
static pth_t *spin_all(size_t count, void *(*fn)(void *))
{
    bench_require(count <= THREADS_MAX);
    pth_t *threads = malloc(count * sizeof *threads);
    bench_require(threads != NULL);
    for (size_t i = 0; i < count; i++)
        threads[i] = spin_one(fn, i);
    return threads;
}

static void join_all(pth_t *threads, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bench_require(pth_join(threads[i], NULL));
    free(threads);
}

static peer_crowd crowd;

static void *snoozer(void *arg)
{
    while (peer_crowd_continues(&crowd))
        pth_yield(NULL);
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
        pth_join(spin_one(do_nothing, 0), NULL);
    return (bench_cpu_ns() - began) / (double)n;
}

static void spin(size_t count, size_t n)
{
    start();
    bench_measure(spin_pass, count, n);
}

static pth_mutex_t lock = PTH_MUTEX_INIT;
static size_t locks_left;

static void *contend(void *arg)
{
    while (locks_left > 0) {
        locks_left--;
        pth_mutex_acquire(&lock, FALSE, NULL);
        pth_yield(NULL);
        pth_mutex_release(&lock);
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
    bench_measure(mutex_pass, count, n);
}

static pth_cond_t turn = PTH_COND_INIT;
static size_t whose, turns;

static void *take_turns(void *arg)
{
    size_t mine = (size_t)arg;
    pth_mutex_acquire(&lock, FALSE, NULL);
    for (size_t i = 0; i < turns; i++) {
        while (whose != mine)
            pth_cond_await(&turn, &lock, NULL);
        whose = !mine;
        pth_cond_notify(&turn, FALSE);
    }
    pth_mutex_release(&lock);
    return NULL;
}

static double condition_pass(size_t count, size_t n)
{
    (void)count;
    turns = n;
    pth_t other = spin_one(take_turns, 1);
    double began = bench_cpu_ns();
    take_turns((void *)0);
    pth_join(other, NULL);
    return (bench_cpu_ns() - began) / (double)n;
}

static void condition(size_t count, size_t n)
{
    start();
    bench_measure(condition_pass, count, n);
}

/* A message with room for its reply. The receiver returns the same message. */
typedef struct port_message {
    pth_message_t head;
    size_t value;
} port_message;

static pth_msgport_t there, back;

static port_message *receive(pth_msgport_t port, pth_event_t event)
{
    while (pth_msgport_pending(port) == 0)
        pth_wait(event);
    return (port_message *)pth_msgport_get(port);
}

static pth_event_t make_event(pth_msgport_t port)
{
    pth_event_t event = pth_event(PTH_EVENT_MSG, port);
    bench_require(event != NULL);
    return event;
}

static void *answer(void *arg)
{
    pth_event_t event = make_event(there);
    for (size_t i = 0; i < (size_t)arg; i++)
        pth_msgport_reply(&receive(there, event)->head);
    pth_event_free(event, PTH_FREE_THIS);
    return NULL;
}

static double mailbox_pass(size_t count, size_t n)
{
    (void)count;
    port_message message = {.head = {.m_replyport = back}};
    pth_event_t event = make_event(back);
    pth_t other = spin_one(answer, n);
    double began = bench_cpu_ns();
    for (size_t i = 1; i <= n; i++) {
        message.value = i;
        pth_msgport_put(there, &message.head);
        bench_require(receive(back, event)->value == i);
    }
    double took = bench_cpu_ns() - began;
    pth_join(other, NULL);
    pth_event_free(event, PTH_FREE_THIS);
    return took / (double)n;
}

static void mailbox(size_t count, size_t n)
{
    start();
    there = pth_msgport_create("there");
    back = pth_msgport_create("back");
    bench_require(there != NULL && back != NULL);
    bench_measure(mailbox_pass, count, n);
}

static size_t waiting;

static void *wait_forever(void *arg)
{
    pth_mutex_acquire(&lock, FALSE, NULL);
    waiting++;
    pth_cond_await(&turn, &lock, NULL);
    return arg;
}

static void park(size_t count)
{
    bench_require(count <= THREADS_MAX);
    for (size_t i = 0; i < count; i++)
        spin_one(wait_forever, i);
    while (waiting < count)
        pth_yield(NULL);
}

static void parked(size_t count, size_t n)
{
    (void)n;
    start();
    bench_measure_parked(park, count);
}

static void *serve(void *arg)
{
    int fd = (int)(size_t)arg;
    char buffer[ECHO_BUFFER_BYTES];
    ssize_t n;
    while ((n = pth_read(fd, buffer, sizeof buffer)) > 0 && pth_write(fd, buffer, (size_t)n) == n) {
    }
    close(fd);
    return NULL;
}

static void echo(size_t port, size_t n)
{
    (void)n;
    int listener = bench_listen(port);
    start();
    pth_attr_set(attributes, PTH_ATTR_JOINABLE, FALSE);
    /* Pth does not wait for a non-blocking descriptor. */
    pth_fdmode(listener, PTH_FDMODE_BLOCK);
    for (;;) {
        int fd = pth_accept(listener, NULL, NULL);
        if (fd < 0)
            continue;
        spin_one(serve, (size_t)fd);
    }
}

static const bench_work works[] = {
    {"snooze", snooze},   {"spin", spin},     {"mutex", mutex}, {"condition", condition},
    {"mailbox", mailbox}, {"parked", parked}, {"echo", echo},
};

BENCH_MAIN(works)

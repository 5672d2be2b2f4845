/*
 * cc -O2 -o event bench/peers/event.c -l:libevent_core.a
 *
 * libevent has callbacks, and no fibers. A sleeper is a timer. Timers are measured in a callback,
 * where users arm them and the loop caches the time. The echo server has raw events, and calls recv
 * and send itself. With bufferevents a message took a third more CPU time.
 */
#include "echo.h"

#include <event2/event.h>
#include <event2/event_struct.h>

static struct event_base *base;

/* Create the event base, without locks: there is one thread. */
static void start(void)
{
    struct event_config *config = event_config_new();
    bench_require(config != NULL);
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_IGNORE_ENV);
    base = event_base_new_with_config(config);
    bench_require(base != NULL);
    event_config_free(config);
}

static void ignore(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what, (void)arg;
}

static double timeout_pass(size_t count, size_t n)
{
    (void)count;
    static const struct timeval minute = {PEER_MINUTE_S, 0};
    struct event timer;
    evtimer_assign(&timer, base, ignore, NULL);
    double began = bench_cpu_ns();
    for (size_t i = 0; i < n; i++) {
        evtimer_add(&timer, &minute);
        evtimer_del(&timer);
    }
    return (bench_cpu_ns() - began) / (double)n;
}

static void measure_timeouts(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    bench_measure(timeout_pass, 1, *(size_t *)arg);
    event_base_loopbreak(base);
}

static void timeout(size_t count, size_t n)
{
    (void)count;
    static const struct timeval two_minutes = {2 * PEER_MINUTE_S, 0};
    struct event another;
    start();
    evtimer_assign(&another, base, ignore, NULL);
    evtimer_add(&another, &two_minutes);
    event_base_once(base, -1, EV_TIMEOUT, measure_timeouts, &n, NULL);
    event_base_dispatch(base);
}

static void sleepers(size_t count, size_t n)
{
    (void)n;
    start();
    double began = bench_cpu_ns();
    struct event *timers = malloc(count * sizeof *timers);
    bench_require(timers != NULL);
    for (size_t i = 0; i < count; i++) {
        uint32_t us = bench_sleep_us(i);
        struct timeval after = {us / 1000000, us % 1000000};
        evtimer_assign(&timers[i], base, ignore, NULL);
        evtimer_add(&timers[i], &after);
    }
    event_base_dispatch(base);
    free(timers);
    bench_print((bench_cpu_ns() - began) / 1e6);
}

typedef struct connection {
    struct event event;
    echo_connection echo;
} connection;

static void serve(evutil_socket_t fd, short what, void *arg);

static void add_event(connection *c)
{
    short what = c->echo.is_writing ? EV_WRITE : EV_READ;
    event_assign(&c->event, base, c->echo.fd, what | EV_PERSIST, serve, c);
    event_add(&c->event, NULL);
}

static void serve(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    connection *c = arg;
    echo_step step = echo_advance(&c->echo);
    if (step == ECHO_SAME)
        return;
    event_del(&c->event);
    if (step == ECHO_OTHER) {
        add_event(c);
        return;
    }
    close(fd);
    free(c);
}

static void accept_all(evutil_socket_t listener, short what, void *arg)
{
    (void)what, (void)arg;
    int fd;
    while ((fd = echo_accept(listener)) >= 0) {
        connection *c = malloc(sizeof *c);
        bench_require(c != NULL);
        c->echo.fd = fd;
        c->echo.is_writing = false;
        add_event(c);
    }
}

static void echo(size_t port, size_t n)
{
    (void)n;
    struct event listener;
    start();
    event_assign(&listener, base, bench_listen(port), EV_READ | EV_PERSIST, accept_all, NULL);
    event_add(&listener, NULL);
    event_base_dispatch(base);
}

static const bench_work works[] = {{"timeout", timeout}, {"sleepers", sleepers}, {"echo", echo}};

BENCH_MAIN(works)

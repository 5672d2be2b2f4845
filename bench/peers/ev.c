/*
 * cc -O2 -o ev bench/peers/ev.c -l:libev.a -lm
 *
 * libev has callbacks, and no fibers. A sleeper is a timer. A timer starts at the cached time of
 * the loop. The echo server has watchers, and calls recv and send itself.
 */
#include "echo.h"

#include <ev.h>

static struct ev_loop *loop;

static void start(void)
{
    loop = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV);
    bench_require(loop != NULL);
}

static void ignore(struct ev_loop *of, ev_timer *timer, int what)
{
    (void)of, (void)timer, (void)what;
}

static double timeout_pass(size_t count, size_t n)
{
    (void)count;
    ev_timer timer;
    ev_timer_init(&timer, ignore, PEER_MINUTE_S, 0);
    double began = bench_cpu_ns();
    for (size_t i = 0; i < n; i++) {
        ev_timer_set(&timer, PEER_MINUTE_S, 0);
        ev_timer_start(loop, &timer);
        ev_timer_stop(loop, &timer);
    }
    return (bench_cpu_ns() - began) / (double)n;
}

static void timeout(size_t count, size_t n)
{
    ev_timer another;
    start();
    ev_timer_init(&another, ignore, 2 * PEER_MINUTE_S, 0);
    ev_timer_start(loop, &another);
    bench_measure(timeout_pass, count, n);
}

static void sleepers(size_t count, size_t n)
{
    (void)n;
    start();
    double began = bench_cpu_ns();
    ev_timer *timers = malloc(count * sizeof *timers);
    bench_require(timers != NULL);
    for (size_t i = 0; i < count; i++) {
        ev_timer_init(&timers[i], ignore, bench_sleep_us(i) / 1e6, 0);
        ev_timer_start(loop, &timers[i]);
    }
    ev_run(loop, 0);
    free(timers);
    bench_print((bench_cpu_ns() - began) / 1e6);
}

typedef struct connection {
    ev_io io; /* first member: a pointer to it points to the connection */
    echo_connection echo;
} connection;

static void serve(struct ev_loop *of, ev_io *io, int what)
{
    (void)what;
    connection *c = (connection *)io;
    echo_step step = echo_advance(&c->echo);
    if (step == ECHO_SAME)
        return;
    ev_io_stop(of, io);
    if (step == ECHO_OTHER) {
        ev_io_modify(io, c->echo.is_writing ? EV_WRITE : EV_READ);
        ev_io_start(of, io);
        return;
    }
    close(c->echo.fd);
    free(c);
}

static void accept_all(struct ev_loop *of, ev_io *listener, int what)
{
    (void)what;
    int fd;
    while ((fd = echo_accept(listener->fd)) >= 0) {
        connection *c = malloc(sizeof *c);
        bench_require(c != NULL);
        c->echo.fd = fd;
        c->echo.is_writing = false;
        ev_io_init(&c->io, serve, fd, EV_READ);
        ev_io_start(of, &c->io);
    }
}

static void echo(size_t port, size_t n)
{
    (void)n;
    ev_io listener;
    start();
    ev_io_init(&listener, accept_all, bench_listen(port), EV_READ);
    ev_io_start(loop, &listener);
    ev_run(loop, 0);
}

static const bench_work works[] = {{"timeout", timeout}, {"sleepers", sleepers}, {"echo", echo}};

BENCH_MAIN(works)

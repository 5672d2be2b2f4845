/*
 * cc -O2 -o uv bench/peers/uv.c -l:libuv_a.a -pthread -ldl
 *
 * libuv has callbacks, and no fibers. A sleeper is a timer with a resolution of 1 ms. Two threads
 * are two loops that wake each other with uv_async_send. The echo server writes at once with
 * uv_try_write. The server reads nothing while unsent bytes remain, so that a connection needs one
 * buffer.
 */
#include "peer.h"

#include "../listen.h"

#include <uv.h>

/* The only loop, except in "cords". */
static uv_loop_t loop;
static size_t left;

static void ignore_timer(uv_timer_t *timer)
{
    (void)timer;
}

static uv_timer_t timer;

static double timeout_pass(size_t count, size_t n)
{
    (void)count;
    double began = bench_cpu_ns();
    for (size_t i = 0; i < n; i++) {
        uv_timer_start(&timer, ignore_timer, PEER_MINUTE_S * 1000, 0);
        uv_timer_stop(&timer);
    }
    return (bench_cpu_ns() - began) / (double)n;
}

static void timeout(size_t count, size_t n)
{
    uv_timer_t another;
    bench_require(uv_loop_init(&loop) == 0);
    uv_timer_init(&loop, &timer);
    uv_timer_init(&loop, &another);
    uv_timer_start(&another, ignore_timer, PEER_MINUTE_S * 1000, 0);
    bench_measure(timeout_pass, count, n);
}

static void call_nothing(uv_work_t *work)
{
    (void)work;
}

static void after_call(uv_work_t *work, int status)
{
    bench_require(status == 0);
    if (--left > 0)
        uv_queue_work(&loop, work, call_nothing, after_call);
}

static double offload_pass(size_t count, size_t n)
{
    (void)count;
    uv_work_t work;
    left = n;
    double began = bench_real_ns();
    uv_queue_work(&loop, &work, call_nothing, after_call);
    uv_run(&loop, UV_RUN_DEFAULT);
    return (bench_real_ns() - began) / (double)n;
}

static void offload(size_t count, size_t n)
{
    bench_require(uv_loop_init(&loop) == 0);
    bench_measure(offload_pass, count, n);
}

static uv_loop_t other_loop;
static uv_async_t there, back;

static void on_there(uv_async_t *async)
{
    (void)async;
    uv_async_send(&back);
}

static void on_back(uv_async_t *async)
{
    if (--left > 0)
        uv_async_send(&there);
    else
        uv_stop(async->loop);
}

static void run_other(void *arg)
{
    (void)arg;
    uv_run(&other_loop, UV_RUN_DEFAULT);
}

static double cords_pass(size_t count, size_t n)
{
    (void)count;
    left = n;
    double began = bench_real_ns();
    uv_async_send(&there);
    uv_run(&loop, UV_RUN_DEFAULT);
    return (bench_real_ns() - began) / (double)n;
}

/* The other loop runs until the process ends. */
static void cords(size_t count, size_t n)
{
    uv_thread_t other;
    bench_require(uv_loop_init(&loop) == 0 && uv_loop_init(&other_loop) == 0);
    bench_require(uv_async_init(&other_loop, &there, on_there) == 0);
    bench_require(uv_async_init(&loop, &back, on_back) == 0);
    bench_require(uv_thread_create(&other, run_other, NULL) == 0);
    bench_measure(cords_pass, count, n);
}

static void sleepers(size_t count, size_t n)
{
    (void)n;
    bench_require(uv_loop_init(&loop) == 0);
    double began = bench_cpu_ns();
    uv_timer_t *timers = malloc(count * sizeof *timers);
    bench_require(timers != NULL);
    for (size_t i = 0; i < count; i++) {
        uv_timer_init(&loop, &timers[i]);
        uv_timer_start(&timers[i], ignore_timer, (bench_sleep_us(i) + 999) / 1000, 0);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    free(timers);
    bench_print((bench_cpu_ns() - began) / 1e6);
}

typedef struct connection {
    uv_tcp_t tcp; /* first member: a pointer to it points to the connection */
    uv_write_t write;
    char buffer[ECHO_BUFFER_BYTES];
} connection;

static void free_connection(uv_handle_t *handle)
{
    free(handle);
}

static void hang_up(connection *c)
{
    uv_handle_t *handle = (uv_handle_t *)&c->tcp;
    if (!uv_is_closing(handle))
        uv_close(handle, free_connection);
}

static void lend_buffer(uv_handle_t *handle, size_t size, uv_buf_t *buffer)
{
    (void)size;
    *buffer = uv_buf_init(((connection *)handle)->buffer, ECHO_BUFFER_BYTES);
}

static void on_read(uv_stream_t *stream, ssize_t bytes, const uv_buf_t *buffer);

static void on_rest_written(uv_write_t *write, int status)
{
    uv_stream_t *stream = write->handle;
    if (status != 0 || uv_read_start(stream, lend_buffer, on_read) != 0)
        hang_up((connection *)stream);
}

static void on_read(uv_stream_t *stream, ssize_t bytes, const uv_buf_t *buffer)
{
    connection *c = (connection *)stream;
    if (bytes == 0)
        return;
    uv_buf_t out = uv_buf_init(buffer->base, bytes > 0 ? (unsigned)bytes : 0);
    int sent = bytes > 0 ? uv_try_write(stream, &out, 1) : (int)bytes;
    if (sent == bytes && sent > 0)
        return;
    if (sent < 0 && sent != UV_EAGAIN) {
        hang_up(c);
        return;
    }
    size_t gone = sent > 0 ? (size_t)sent : 0;
    out = uv_buf_init(buffer->base + gone, (unsigned)((size_t)bytes - gone));
    uv_read_stop(stream);
    if (uv_write(&c->write, stream, &out, 1, on_rest_written) != 0)
        hang_up(c);
}

static void on_connection(uv_stream_t *listener, int status)
{
    if (status != 0)
        return;
    connection *c = malloc(sizeof *c);
    bench_require(c != NULL);
    uv_tcp_init(&loop, &c->tcp);
    if (uv_accept(listener, (uv_stream_t *)&c->tcp) != 0) {
        hang_up(c);
        return;
    }
    uv_tcp_nodelay(&c->tcp, 1);
    uv_read_start((uv_stream_t *)&c->tcp, lend_buffer, on_read);
}

static void echo(size_t port, size_t n)
{
    (void)n;
    uv_tcp_t listener;
    struct sockaddr_in address = bench_address(port);
    bench_raise_descriptors();
    signal(SIGPIPE, SIG_IGN);
    bench_require(uv_loop_init(&loop) == 0 && uv_tcp_init(&loop, &listener) == 0);
    /* Also sets SO_REUSEADDR. */
    bench_require(uv_tcp_bind(&listener, (struct sockaddr *)&address, 0) == 0);
    bench_require(uv_listen((uv_stream_t *)&listener, ECHO_BACKLOG, on_connection) == 0);
    uv_run(&loop, UV_RUN_DEFAULT);
}

static const bench_work works[] = {
    {"timeout", timeout},   {"offload", offload}, {"cords", cords},
    {"sleepers", sleepers}, {"echo", echo},
};

BENCH_MAIN(works)

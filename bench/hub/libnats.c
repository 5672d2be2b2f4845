/*
 * libnats with its own threads: all threads use one connection. A contender of tools/bench-hub
 * (hub.h).
 *
 * build: cc -O2 -Ibench -o build/peers/hub-libnats bench/hub/libnats.c -lnats -lpthread
 */
#include "hub.h"

#include <nats/nats.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#define TIMEOUT_MS 30000
#define require_ok(call) check_status(call, __LINE__, #call)

static void check_status(natsStatus status, int line, const char *call)
{
    if (status == NATS_OK)
        return;
    fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, line, call, natsStatus_GetText(status));
    exit(1);
}

static natsConnection *nc;
static jsCtx *js;
static _Atomic(int64_t) left; /* messages that no thread has begun */

static void request_echo(void)
{
    natsMsg *reply;
    require_ok(natsConnection_Request(&reply, nc, ECHO_NAME, payload, sizeof payload, TIMEOUT_MS));
    natsMsg_Destroy(reply);
}

/* Write an id that no other put of this server has. */
static void write_id(char *id, size_t bytes)
{
    static _Atomic(unsigned) last;
    static _Atomic(int64_t) start;
    int64_t none = 0;
    atomic_compare_exchange_strong(&start, &none, nats_NowInNanoSeconds());
    snprintf(id, bytes, "%llx-%x", (unsigned long long)start, last++);
}

static void put_item(void)
{
    char id[40];
    write_id(id, sizeof id);
    jsPubOptions options;
    jsPubOptions_Init(&options);
    options.MsgId = id;
    options.MaxWait = TIMEOUT_MS;
    require_ok(js_Publish(NULL, js, QUEUE_SUBJECT, payload, sizeof payload, &options, NULL));
}

static void *repeat(void *arg)
{
    void (*run)(void) = *(void (**)(void))arg;
    while (left-- > 0)
        run();
    return NULL;
}

/* Run a function n times, in count threads. */
static void run_at_once(void (*run)(void), size_t count, size_t n)
{
    pthread_t *threads = malloc(count * sizeof *threads);
    left = (int64_t)n;
    for (size_t i = 0; i < count; i++)
        bench_require(pthread_create(&threads[i], NULL, repeat, &run) == 0);
    for (size_t i = 0; i < count; i++)
        bench_require(pthread_join(threads[i], NULL) == 0);
    free(threads);
}

static void request_pass(size_t count, size_t n)
{
    run_at_once(request_echo, count, n);
}

static void put_pass(size_t count, size_t n)
{
    run_at_once(put_item, count, n);
}

static void put_async_pass(size_t count, size_t n)
{
    jsOptions options;
    jsCtx *bounded;
    jsOptions_Init(&options);
    options.PublishAsync.MaxPending = (int64_t)count;
    options.PublishAsync.StallWait = TIMEOUT_MS;
    require_ok(natsConnection_JetStream(&bounded, nc, &options));
    for (size_t i = 0; i < n; i++) {
        char id[40];
        write_id(id, sizeof id);
        jsPubOptions put_options;
        jsPubOptions_Init(&put_options);
        put_options.MsgId = id;
        require_ok(js_PublishAsync(bounded, QUEUE_SUBJECT, payload, sizeof payload, &put_options));
    }
    require_ok(js_PublishAsyncComplete(bounded, NULL));
    jsCtx_Destroy(bounded);
}

static void publish_pass(size_t count, size_t n)
{
    (void)count;
    for (size_t i = 0; i < n; i++)
        require_ok(natsConnection_Publish(nc, SINK_NAME, payload, sizeof payload));
    request_echo();
}

static sem_t all_received;

static void on_flood(natsConnection *connection, natsSubscription *sub, natsMsg *msg, void *arg)
{
    (void)connection;
    (void)sub;
    (void)arg;
    natsMsg_Destroy(msg);
    if (--left == 0)
        sem_post(&all_received);
}

static void receive_pass(size_t count, size_t n)
{
    char text[24];
    (void)count;
    left = (int64_t)n;
    int bytes = snprintf(text, sizeof text, "%zu", n);
    require_ok(natsConnection_Publish(nc, FLOOD_START_NAME, text, bytes));
    sem_wait(&all_received);
}

static void request(size_t count, size_t n)
{
    hub_measure(request_pass, count, n);
}

static void publish(size_t count, size_t n)
{
    hub_measure(publish_pass, count, n);
}

static void receive(size_t count, size_t n)
{
    natsSubscription *sub;
    sem_init(&all_received, 0, 0);
    require_ok(natsConnection_Subscribe(&sub, nc, FLOOD_NAME, on_flood, NULL));
    require_ok(natsSubscription_SetPendingLimits(sub, -1, -1)); /* discard no messages */
    require_ok(natsConnection_Flush(nc));
    hub_measure(receive_pass, count, n);
    natsSubscription_Destroy(sub);
}

static void put(size_t count, size_t n)
{
    hub_measure(put_pass, count, n);
}

static void put_async(size_t count, size_t n)
{
    hub_measure(put_async_pass, count, n);
}

static const bench_work works[] = {{"request", request},
                                   {"publish", publish},
                                   {"receive", receive},
                                   {"put", put},
                                   {"put-async", put_async}};

int main(int argc, char **argv)
{
    if (argc > 1) {
        require_ok(natsConnection_ConnectTo(&nc, hub_url()));
        require_ok(natsConnection_JetStream(&js, nc, NULL));
    }
    int status = bench_main(works, sizeof works / sizeof works[0], argc, argv);
    jsCtx_Destroy(js);
    natsConnection_Destroy(nc);
    return status;
}

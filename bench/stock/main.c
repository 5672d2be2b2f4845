/*
 * Run one workload. Print the number of requests, the wall time and the CPU time of this process.
 *
 * usage: stock WORKLOAD [SECONDS]
 */
#include "stock.h"

#include <weft.h>
#include <weft/posix.h>

#include <pthread.h>
#include <string.h>

_Atomic(long) requests_done;
_Atomic(bool) is_over;

static const client *chosen;
static double seconds = 3;

/* Connections open before the measurement begins. */
static weft_barrier fibers_ready;
static pthread_barrier_t threads_ready;
static double wall_begin, cpu_begin;

static void begin(void)
{
    wall_begin = wall_s();
    cpu_begin = cpu_s();
}

static void print_result(void)
{
    printf("%ld %.6f %.6f\n", requests_done, wall_s() - wall_begin, cpu_s() - cpu_begin);
}

static void request_until_over(void *conn)
{
    long n = 0;
    for (; !is_over; n++)
        chosen->request(conn);
    requests_done += n;
}

static weft_value run_fiber(void *arg)
{
    (void)arg;
    void *conn = chosen->open();
    if (weft_barrier_wait(&fibers_ready) == 1)
        begin();
    request_until_over(conn);
    if (weft_barrier_wait(&fibers_ready) == 1)
        print_result();
    chosen->close(conn);
    return 0;
}

static weft_value end_after(void *arg)
{
    (void)arg;
    weft_barrier_wait(&fibers_ready);
    weft_sleep(seconds);
    is_over = true;
    if (weft_barrier_wait(&fibers_ready) == 1)
        print_result();
    return 0;
}

static void spin_clients(weft_fn *fn)
{
    for (int i = 0; i < CLIENTS; i++)
        weft_go_with(fn, NULL, &(weft_spin_options){.stack_bytes = 256 * 1024});
}

static void run_fibers(void)
{
    weft_barrier_open(&fibers_ready, CLIENTS + 1);
    weft_go(end_after, NULL);
    spin_clients(run_fiber);
    weft_await_children();
}

static void *run_thread(void *arg)
{
    (void)arg;
    void *conn = chosen->open();
    pthread_barrier_wait(&threads_ready);
    request_until_over(conn);
    pthread_barrier_wait(&threads_ready);
    chosen->close(conn);
    return NULL;
}

static void run_threads(void)
{
    pthread_t threads[CLIENTS];
    pthread_barrier_init(&threads_ready, NULL, CLIENTS + 1);
    for (int i = 0; i < CLIENTS; i++)
        require(pthread_create(&threads[i], NULL, run_thread, NULL) == 0, "pthread_create");
    pthread_barrier_wait(&threads_ready);
    begin();
    struct timespec time = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&time, NULL);
    is_over = true;
    pthread_barrier_wait(&threads_ready);
    print_result();
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
}

static weft_value wait_once(void *arg)
{
    (void)arg;
    void *conn = chosen->open();
    chosen->wait(conn);
    chosen->close(conn);
    requests_done++;
    return 0;
}

/* All clients connect and wait. The time includes the connections. */
static void run_waits(void)
{
    begin();
    spin_clients(wait_once);
    weft_await_children();
    print_result();
}

static const struct {
    const char *name;
    const client *client;
    void (*run)(void);
} workloads[] = {
    {"postgres-fibers", &postgres_client, run_fibers},
    {"postgres-threads", &postgres_client, run_threads},
    {"postgres-async", &postgres_async_client, run_fibers},
    {"postgres-waits", &postgres_client, run_waits},
    {"postgres-tls-waits", &postgres_tls_client, run_waits},
    {"redis-fibers", &redis_client, run_fibers},
    {"redis-threads", &redis_client, run_threads},
    {"redis-async", &redis_async_client, run_fibers},
    {"redis-waits", &redis_client, run_waits},
    {"mariadb-waits", &mariadb_client, run_waits},
    {"curl-fibers", &curl_client, run_fibers},
    {"curl-threads", &curl_client, run_threads},
    {"curl-waits", &curl_client, run_waits},
};

static int run_named(const char *name)
{
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++) {
        if (strcmp(workloads[i].name, name) != 0)
            continue;
        chosen = workloads[i].client;
        bool is_adopted = chosen->library != NULL && workloads[i].run != run_threads;
        require(!is_adopted || weft_adopt(chosen->library, NULL) > 0, "weft_adopt");
        workloads[i].run();
        return 0;
    }
    fprintf(stderr, "stock: unknown workload: %s\n", name);
    return 2;
}

int main(int argc, char **argv)
{
    if (argc > 2)
        seconds = atof(argv[2]);
    if (argc < 2)
        return 2;
    if (strcmp(argv[1], "calls") == 0)
        return run_calls(), 0;
    if (strcmp(argv[1], "round-trips") == 0)
        return run_round_trips(seconds), 0;
    if (strcmp(argv[1], "curl-multi") == 0)
        return run_curl_multi(seconds), 0;
    return run_named(argv[1]);
}

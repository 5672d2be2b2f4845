/* Workloads of stock libraries, in fibers and in threads. tools/bench-stock runs them. */
#ifndef BENCH_STOCK_STOCK_H
#define BENCH_STOCK_STOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define CLIENTS 100

/* A client library. Functions end the program if they fail. */
typedef struct client {
    const char *library;         /* to adopt; NULL: nothing, the functions wait with weft */
    void *(*open)(void);         /* connect */
    void (*request)(void *conn); /* a short request */
    void (*wait)(void *conn);    /* a request that takes 1 second in the server */
    void (*close)(void *conn);
} client;

extern const client postgres_client, postgres_tls_client, postgres_async_client;
extern const client redis_client, redis_async_client;
extern const client mariadb_client;
extern const client curl_client;

/* Run requests with one fiber and a multi handle. Print as the other workloads. */
void run_curl_multi(double seconds);

/* Print the costs of calls that need not wait, and of a round trip between two fibers. */
void run_calls(void);
void run_round_trips(double seconds);

/* Requests that ended, in all fibers or threads. */
extern _Atomic(long) requests_done;
extern _Atomic(bool) is_over;

static inline double wall_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* CPU time of this process. */
static inline double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline const char *setting(const char *name)
{
    const char *value = getenv(name);
    if (value == NULL) {
        fprintf(stderr, "%s is not set; run tools/bench-stock\n", name);
        exit(1);
    }
    return value;
}

static inline void require(bool is_true, const char *what)
{
    if (is_true)
        return;
    fprintf(stderr, "bench-stock: %s\n", what);
    _Exit(1);
}

#endif

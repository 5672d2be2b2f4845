/*
 * Support for the contenders of tools/bench-hub: clients of NATS. A contender has these workloads:
 *
 *   request    N requests to an echo service, COUNT at a time
 *   publish    N messages without a receiver, then a request, so that the server has read them
 *   receive    N messages of another process
 *   put        N messages to a durable queue, COUNT at a time, each with an id
 *   put-async  like put, from one thread without waiting, COUNT unconfirmed messages at a time
 *
 * Each workload prints the real time and the CPU time of the process, in nanoseconds per message.
 * The program serve.c is the peer of all contenders. WEFT_HUB_URL is the URL of the server.
 */
#ifndef BENCH_HUB_HUB_H
#define BENCH_HUB_HUB_H

#include "bench.h"

#define ECHO_NAME "bench.echo"
#define SINK_NAME "bench.sink"
#define FLOOD_NAME "bench.flood"       /* the messages of receive */
#define FLOOD_START_NAME "bench.start" /* serve then sends as many messages as the text says */
#define QUEUE_NAME "bench"
#define QUEUE_SUBJECT "weft.q.bench" /* of the queue, for other clients */

static const char payload[16] = "0123456789abcde";

static inline const char *hub_url(void)
{
    const char *url = getenv("WEFT_HUB_URL");
    if (url == NULL) {
        fputs("WEFT_HUB_URL is not set; run tools/bench-hub\n", stderr);
        exit(1);
    }
    return url;
}

typedef void hub_pass(size_t count, size_t n);

/* Run a pass to warm up, then a pass to measure. */
static inline void hub_measure(hub_pass *pass, size_t count, size_t n)
{
    bench_require(count > 0 && n > 0);
    pass(count, BENCH_WARM_UP);
    double real = bench_real_ns(), cpu = bench_cpu_ns();
    pass(count, n);
    bench_print_both((bench_real_ns() - real) / (double)n, (bench_cpu_ns() - cpu) / (double)n);
}

#endif

/*
 * A cord that other threads flood with messages. Print the largest delay of a sleep of 1 ms, in ms.
 * Print the peak growth of the process, in KiB. count is the number of threads, and n is the number
 * of sleeps. The threads spin fibers in the cord, schedule and tell in turn, as fast as they can.
 */
#include "bench.h"
#include "works.h"

#include <pthread.h>
#include <stdatomic.h>
#include <weft.h>

#define SLEEP_S 1e-3

static atomic_bool is_over;
static weft_cord flooded;

static weft_value return_at_once(void *arg)
{
    (void)arg;
    return 0;
}

static void *flood(void *arg)
{
    for (unsigned i = 0; !atomic_load_explicit(&is_over, memory_order_relaxed); i++) {
        if (i % 3 == 0)
            weft_cord_spin(flooded, return_at_once, NULL);
        else if (i % 3 == 1)
            (void)weft_schedule(flooded, 1);
        else
            (void)weft_tell(*(weft_fiber *)arg, 1);
    }
    return NULL;
}

static weft_value receive_all(void *arg)
{
    (void)arg;
    while (weft_receive() > 0)
        continue;
    return 0;
}

static double worst_of(size_t n)
{
    double worst_s = 0;
    for (size_t i = 0; i < n; i++) {
        double began = weft_now();
        bench_require(weft_sleep(SLEEP_S) == 0);
        double late_s = weft_now() - began - SLEEP_S;
        worst_s = late_s > worst_s ? late_s : worst_s;
    }
    return worst_s;
}

void work_flood(size_t count, size_t n)
{
    pthread_t threads[64];
    bench_require(count > 0 && count <= 64);
    flooded = weft_cord_self();
    weft_fiber receiver = weft_spin(receive_all, NULL);
    double before = bench_status_bytes("VmRSS:");
    for (size_t i = 0; i < count; i++)
        bench_require(pthread_create(&threads[i], NULL, flood, &receiver) == 0);
    double worst_s = worst_of(n);
    atomic_store(&is_over, true);
    weft_cancel(receiver); /* threads blocked in weft_tell continue */
    weft_await(receiver);
    for (size_t i = 0; i < count; i++)
        while (pthread_tryjoin_np(threads[i], NULL) != 0)
            weft_sleep(0);
    bench_print_both(worst_s * 1e3, (bench_status_bytes("VmHWM:") - before) / 1024);
}

/* Adaptive busy polling. After each sleep, update the state that decides about the next poll. */
#include "base/busy_poll.h"

#include <pthread.h>

/* On a single processor, no other thread can add work while a thread polls. */
static bool has_one_cpu;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void count_cpus(void)
{
    has_one_cpu = weft__cpu_count() == 1;
}

void weft__busy_poll_adapt(weft__busy_poll *p, int64_t slept_ns, bool was_for_work)
{
    if (p->credit > 0)
        return;
    pthread_once(&once, count_cpus);
    if (has_one_cpu || !was_for_work || slept_ns > WEFT__BUSY_POLL_SLEPT_NS)
        p->credit = 0;
    else
        p->credit++;
}

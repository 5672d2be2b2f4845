/*
 * Many sleepers: each fiber sleeps once, for a time of its own between half a second and one and
 * a half. Milliseconds of processor time for all of them, first on stacks that were never used,
 * then on the same again; and how often the kernel was asked. `tools/bench --syscalls sleepers`
 * counts all system calls.
 *
 * NUMBER: fibers; 100,000 unless given.
 */
#include "rounds.h"

#include <weft.h>

#include <sys/resource.h>

typedef struct cost {
    double user_ms;
    double system_ms;
    double polls;
} cost;

static double worst_ms; /* the most that a sleep took too long */

static double ms(struct timeval t)
{
    return (double)t.tv_sec * 1e3 + (double)t.tv_usec / 1e3;
}

static weft_value sleeper(void *arg)
{
    /* Spread evenly, in no order, and the same in every run. */
    double seconds = 0.5 + (double)((uintptr_t)arg * 2654435761u % 1000000) * 1e-6;
    double began = weft_now();
    int rc = weft_sleep(seconds);
    double late_ms = (weft_now() - began - seconds) * 1e3;
    if (late_ms > worst_ms)
        worst_ms = late_ms;
    return rc;
}

static cost run(size_t n)
{
    struct rusage before, after;
    weft_counters counters;
    weft_stats(&counters);
    getrusage(RUSAGE_SELF, &before);
    for (size_t i = 0; i < n; i++)
        bench_require(weft_go(sleeper, (void *)i) == 0, "weft_go");
    bench_require(weft_await_children() == 0, "weft_await_children");
    getrusage(RUSAGE_SELF, &after);
    weft_stats(&counters);
    return (cost){
        .user_ms = ms(after.ru_utime) - ms(before.ru_utime),
        .system_ms = ms(after.ru_stime) - ms(before.ru_stime),
        .polls = (double)counters.polls,
    };
}

int main(int argc, char **argv)
{
    size_t n = bench_start(argc, argv, 100000);
    bench_print_one("sleepers", "", (double)n);
    for (int round = 0; round < 2; round++) {
        bool is_first = round == 0;
        worst_ms = 0;
        cost c = run(n);
        bench_print_one(is_first ? "processor time, first" : "processor time, again", "ms",
                        c.user_ms + c.system_ms);
        bench_print_one(is_first ? "of this, the kernel, first" : "of this, the kernel, again",
                        "ms", c.system_ms);
        bench_print_one(is_first ? "polls, first" : "polls, again", "", c.polls);
        bench_print_one(is_first ? "the latest wake-up, first" : "the latest wake-up, again", "ms",
                        worst_ms);
    }
    return 0;
}

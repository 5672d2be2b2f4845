/*
 * The workload `trace-mark` records marks of a running trace, and prints the ns per mark. To
 * measure another workload with a trace, set WEFT_TRACE.
 */
#include "works.h"

#include <weft.h>

static double mark_pass(size_t count, size_t n)
{
    (void)count;
    double begin = bench_cpu_ns();
    for (size_t i = 0; i < n; i++)
        weft_trace_mark("mark");
    return (bench_cpu_ns() - begin) / (double)n;
}

void work_trace_mark(size_t count, size_t n)
{
    bench_require(weft_self() != 0 && weft_trace_start("/dev/null") == 0);
    bench_measure(mark_pass, count, n);
    bench_require(weft_trace_stop() == 0);
}

/* Empty calls on worker threads, in real time. COUNT fibers call at once. */
#include "works.h"

#include <weft.h>

static weft_value do_nothing(void *arg)
{
    return (weft_value)arg;
}

static weft_value call_all(void *arg)
{
    weft_value sum = 0;
    for (size_t left = (size_t)arg; left > 0; left--)
        sum += weft_offload(do_nothing, (void *)1);
    return sum;
}

static double offload_pass(size_t count, size_t n)
{
    size_t each = n / count + 1;
    weft_fiber *fibers = calloc(count, sizeof *fibers);
    bench_require(fibers != NULL);
    double began = bench_real_ns();
    for (size_t i = 0; i < count; i++)
        fibers[i] = weft_spin(call_all, (void *)each);
    for (size_t i = 0; i < count; i++)
        bench_require(weft_await(fibers[i]) == (weft_value)each);
    double took = bench_real_ns() - began;
    free(fibers);
    return took / (double)(each * count);
}

void work_offload(size_t count, size_t n)
{
    bench_require(count > 0);
    bench_measure(offload_pass, count, n);
}

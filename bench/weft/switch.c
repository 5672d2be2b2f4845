/*
 * The switch alone. `switch` measures weft__context_swap, the last step of every fiber switch.
 * `transfer` measures weft_transfer: a switch between two fibers, with ids, states and errors.
 */
#include "works.h"

#include "arch/context.h"

#include <weft.h>

#define STACK_BYTES ((size_t)64 << 10)

static weft__context here, there;

static void swap_back(intptr_t value)
{
    for (;;)
        value = weft__context_swap(&there, &here, value);
}

static double swap_pass(size_t count, size_t switches)
{
    (void)count;
    intptr_t sum = 0;
    double began = bench_cpu_ns();
    for (size_t i = 0; i < switches; i += 2)
        sum += weft__context_swap(&here, &there, 1);
    double took = bench_cpu_ns() - began;
    bench_require(sum == (intptr_t)(switches + 1) / 2);
    return took / (double)switches;
}

void work_switch(size_t count, size_t n)
{
    void *stack = aligned_alloc(4096, STACK_BYTES);
    bench_require(stack != NULL);
    weft__context_adopt(&here);
    weft__context_make(&there, stack, STACK_BYTES, swap_back);
    bench_measure(swap_pass, count, n);
    free(stack);
}

static weft_fiber other;

static weft_value transfer_back(void *arg)
{
    weft_fiber to = weft_main();
    weft_value value = (weft_value)arg;
    while (!weft_is_error(value))
        value = weft_transfer(to, value);
    return value;
}

static double transfer_pass(size_t count, size_t switches)
{
    (void)count;
    weft_value sum = 0;
    double began = bench_cpu_ns();
    for (size_t i = 0; i < switches; i += 2)
        sum += weft_transfer(other, 1);
    double took = bench_cpu_ns() - began;
    bench_require(sum == (weft_value)(switches + 1) / 2);
    return took / (double)switches;
}

void work_transfer(size_t count, size_t n)
{
    other = weft_new(transfer_back, NULL);
    bench_require(weft_transfer(other, 0) == 0);
    bench_measure(transfer_pass, count, n);
}

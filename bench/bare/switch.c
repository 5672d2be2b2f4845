/*
 * Switches between two contexts: the bare switch, the bare switch that also saves the control
 * words, and swapcontext for scale. swapcontext calls the kernel to change the signal mask.
 */
#include "bare.h"
#include "works.h"

#include <ucontext.h>

static bare_context here, there;

static void bounce(intptr_t nothing)
{
    (void)nothing;
    for (;;)
        bare_switch(&there, &here);
}

static double switch_pass(size_t count, size_t switches)
{
    (void)count;
    double began = bench_cpu_ns();
    for (size_t i = 0; i < switches; i += 2)
        bare_switch(&here, &there);
    return (bench_cpu_ns() - began) / (double)switches;
}

void work_switch(size_t count, size_t n)
{
    bare_make(&there, bare_map_stacks(1), BARE_STACK_BYTES, bounce);
    bench_measure(switch_pass, count, n);
}

#ifdef __x86_64__
/*
 * Switch, and save and restore both control words. Both are callee-saved, and there is no cheaper
 * way to detect a change.
 */
static inline void switch_with_words(bare_context *from, bare_context *to)
{
    uint32_t mxcsr;
    uint16_t x87;
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(x87));
    bare_switch(from, to);
    __asm__ volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(mxcsr), "m"(x87));
}

static void bounce_with_words(intptr_t nothing)
{
    (void)nothing;
    for (;;)
        switch_with_words(&there, &here);
}

static double switch_control_pass(size_t count, size_t switches)
{
    (void)count;
    double began = bench_cpu_ns();
    for (size_t i = 0; i < switches; i += 2)
        switch_with_words(&here, &there);
    return (bench_cpu_ns() - began) / (double)switches;
}

void work_switch_control(size_t count, size_t n)
{
    bare_make(&there, bare_map_stacks(1), BARE_STACK_BYTES, bounce_with_words);
    bench_measure(switch_control_pass, count, n);
}
#endif

static ucontext_t ucontext_here, ucontext_there;

static void ucontext_bounce(void)
{
    for (;;)
        swapcontext(&ucontext_there, &ucontext_here);
}

static double switch_ucontext_pass(size_t count, size_t n)
{
    (void)count;
    volatile size_t switches = n; /* for GCC, swapcontext may return twice */
    volatile double began = bench_cpu_ns();
    for (volatile size_t i = 0; i < switches; i += 2)
        swapcontext(&ucontext_here, &ucontext_there);
    return (bench_cpu_ns() - began) / (double)switches;
}

void work_switch_ucontext(size_t count, size_t n)
{
    getcontext(&ucontext_there);
    ucontext_there.uc_stack.ss_sp = bare_map_stacks(1);
    ucontext_there.uc_stack.ss_size = BARE_STACK_BYTES;
    makecontext(&ucontext_there, ucontext_bounce, 0);
    bench_measure(switch_ucontext_pass, count, n);
}

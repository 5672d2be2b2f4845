/*
 * The raw switch: two contexts in a ping-pong, nanoseconds a switch.
 *
 * The library's weft__context_swap against a bare switch (bare.h); weft_transfer, the same
 * between two fibers with ids, states and errors; and swapcontext, which asks the kernel for the
 * signal mask, for scale.
 *
 * NUMBER: switches a round.
 */
#include "arch/context.h"
#include "bare.h"
#include "rounds.h"

#include <weft.h>

#include <ucontext.h>

static weft__context here, there;

static void swap_back(intptr_t value)
{
    for (;;)
        value = weft__context_swap(&there, &here, value);
}

static double swap_ping_pong(void *arg, size_t switches)
{
    (void)arg;
    static char *stack;
    if (stack == NULL) {
        stack = bench_map(BARE_STACK_BYTES);
        weft__context_adopt(&here);
        weft__context_make(&there, stack, BARE_STACK_BYTES, swap_back);
    }
    double began = bench_now_ns();
    for (size_t i = 0; i < switches; i += 2)
        weft__context_swap(&here, &there, (intptr_t)i);
    return (bench_now_ns() - began) / (double)switches;
}

#ifdef __x86_64__
/*
 * What saving the control words costs in itself: a bare switch that reads both before and sets
 * both after. The ABI makes them callee-saved, and there is no cheaper way to see a change.
 */
static inline void bare_switch_with_words(bare_context *from, bare_context *to)
{
    uint32_t mxcsr;
    uint16_t x87;
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(x87));
    bare_switch(from, to);
    __asm__ volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(mxcsr), "m"(x87));
}

static bare_context words_here, words_there;

static void words_back(intptr_t nothing)
{
    (void)nothing;
    for (;;)
        bare_switch_with_words(&words_there, &words_here);
}

static double words_ping_pong(void *arg, size_t switches)
{
    (void)arg;
    static char *stack;
    if (stack == NULL) {
        stack = bench_map(BARE_STACK_BYTES);
        bare_make(&words_there, stack, BARE_STACK_BYTES, words_back);
    }
    double began = bench_now_ns();
    for (size_t i = 0; i < switches; i += 2)
        bare_switch_with_words(&words_here, &words_there);
    return (bench_now_ns() - began) / (double)switches;
}
#endif

static weft_value transfer_back(void *arg)
{
    (void)arg;
    weft_fiber to = weft_main();
    weft_value value = 0;
    while (!weft_is_error(value))
        value = weft_transfer(to, value);
    return value;
}

static double transfer_ping_pong(void *arg, size_t switches)
{
    (void)arg;
    static weft_fiber other;
    if (other == 0)
        other = weft_new(transfer_back, NULL);
    bench_require(weft_transfer(other, 0) == 0, "weft_transfer");
    double began = bench_now_ns();
    for (size_t i = 0; i < switches; i += 2)
        weft_transfer(other, (weft_value)i);
    return (bench_now_ns() - began) / (double)switches;
}

static ucontext_t ucontext_here, ucontext_there;

static void ucontext_back(void)
{
    for (;;)
        swapcontext(&ucontext_there, &ucontext_here);
}

static double ucontext_ping_pong(void *arg, size_t n)
{
    (void)arg;
    volatile size_t switches = n;
    static char *stack;
    if (stack == NULL) {
        stack = bench_map(BARE_STACK_BYTES);
        getcontext(&ucontext_there);
        ucontext_there.uc_stack.ss_sp = stack;
        ucontext_there.uc_stack.ss_size = BARE_STACK_BYTES;
        makecontext(&ucontext_there, ucontext_back, 0);
    }
    double began = bench_now_ns();
    for (volatile size_t i = 0; i < switches;
         i += 2) /* volatile: it returns twice, as gcc sees it */
        swapcontext(&ucontext_here, &ucontext_there);
    return (bench_now_ns() - began) / (double)switches;
}

int main(int argc, char **argv)
{
    size_t switches = bench_start(argc, argv, 50000);
    const bench_case cases[] = {
        {"bare switch", bare_ping_pong, NULL},
#ifdef __x86_64__
        {"bare switch with control words", words_ping_pong, NULL},
#endif
        {"weft__context_swap", swap_ping_pong, NULL},
        {"weft_transfer", transfer_ping_pong, NULL},
        {"swapcontext", ucontext_ping_pong, NULL},
    };
    BENCH_RUN(cases, switches);
    return 0;
}

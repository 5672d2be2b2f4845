/*
 * The limit for switches: the least that a switch function does. bare_swap saves the callee-saved
 * registers of the ABI on the old stack, and loads them from the new stack. The function ends with
 * a jump, because a return would be mispredicted each time. There are no control words, values,
 * queues or fibers.
 *
 * On other architectures the switch of weft replaces bare_swap. Ratios to the limit then have no
 * meaning.
 */
#ifndef WEFT_BENCH_BARE_H
#define WEFT_BENCH_BARE_H

#include "bench.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* The entry function of a bare context. The function receives no value and must not return. */
typedef void bare_entry(intptr_t nothing);

#if defined(__x86_64__) || defined(__aarch64__)

typedef struct bare_context {
    uintptr_t *sp;
} bare_context;

/*
 * Save the stack pointer in *from and continue at `to`, which the caller loads before the stores.
 */
void bare_swap(uintptr_t **from, uintptr_t *to);

static inline void bare_switch(bare_context *from, bare_context *to)
{
    bare_swap(&from->sp, to->sp);
}

#ifdef __x86_64__
#define BARE_SAVED 6
__asm__(".text\n"
        ".type bare_swap, %function\n"
        ".balign 32\n"
        "bare_swap:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    popq %rcx\n"
        "    jmpq *%rcx\n"
        ".size bare_swap, . - bare_swap\n");
#else
#define BARE_SAVED 19 /* x19 to x29, d8 to d15; the return address, x30, follows */
__asm__(".text\n"
        ".type bare_swap, %function\n"
        ".balign 32\n"
        "bare_swap:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp d8, d9, [sp, #80]\n"
        "    stp d10, d11, [sp, #96]\n"
        "    stp d12, d13, [sp, #112]\n"
        "    stp d14, d15, [sp, #128]\n"
        "    stp x29, x30, [sp, #144]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x19, x20, [sp]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp d8, d9, [sp, #80]\n"
        "    ldp d10, d11, [sp, #96]\n"
        "    ldp d12, d13, [sp, #112]\n"
        "    ldp d14, d15, [sp, #128]\n"
        "    ldp x29, x30, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    br x30\n"
        ".size bare_swap, . - bare_swap\n");
#endif

static inline void bare_make(bare_context *context, char *low, size_t bytes, bare_entry *entry)
{
    /* Leave a word above the address of entry: a function expects the stack as after a call. */
    uintptr_t *top = (uintptr_t *)((uintptr_t)(low + bytes) & ~(uintptr_t)15) - 2;
    context->sp = top - BARE_SAVED;
    memset(context->sp, 0, BARE_SAVED * sizeof *context->sp);
    *top = (uintptr_t)entry;
}

/* Prefetch the memory that the next switch to the context reads. */
static inline void bare_prefetch(const bare_context *context)
{
    __builtin_prefetch(context->sp);
}

#else

#include "arch/context.h"

typedef weft__context bare_context;

static inline void bare_switch(bare_context *from, bare_context *to)
{
    weft__context_swap(from, to, 0);
}

static inline void bare_make(bare_context *context, char *low, size_t bytes, bare_entry *entry)
{
    weft__context_make(context, low, bytes, entry);
}

static inline void bare_prefetch(const bare_context *context)
{
    (void)context;
}

#endif

#define BARE_STACK_BYTES ((size_t)64 << 10)

/* Map stacks. The kernel allocates their pages on first use. */
static inline char *bare_map_stacks(size_t count)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *memory =
        (char *)mmap(NULL, count * BARE_STACK_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
    bench_require(memory != MAP_FAILED);
    return memory;
}

#endif

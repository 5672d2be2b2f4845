/*
 * The FPU environment of the running thread: rounding, precision, traps, flush to zero.
 *
 * Reading the environment takes as long as the rest of a switch. Therefore a switch saves the
 * environment only if a fiber has its own environment (core/fiber/fpu_env.c, docs/adr/0029).
 */
#ifndef WEFT_ARCH_FPU_ENV_H
#define WEFT_ARCH_FPU_ENV_H

#include <stdint.h>

typedef struct weft__fpu_env {
    uint32_t vector; /* MXCSR; FPCR on aarch64 */
    uint16_t x87;    /* x87 control word; unused on aarch64 */
} weft__fpu_env;

#if defined(__x86_64__) && !defined(WEFT_UCONTEXT)

#define WEFT__MXCSR_CONTROL 0xffc0u /* all bits except the sticky exception flags */

static inline weft__fpu_env weft__fpu_env_read(void)
{
    weft__fpu_env env;
    __asm__ volatile("stmxcsr %0\n fnstcw %1" : "=m"(env.vector), "=m"(env.x87));
    env.vector &= WEFT__MXCSR_CONTROL;
    return env;
}

/*
 * Write the x87 word first. If both words change, writing the x87 word last takes 50 ns on Zen 3.
 */
static inline void weft__fpu_env_write(weft__fpu_env env)
{
    __asm__ volatile("fldcw %1\n ldmxcsr %0" : : "m"(env.vector), "m"(env.x87));
}

#elif defined(__aarch64__) && !defined(WEFT_UCONTEXT)

static inline weft__fpu_env weft__fpu_env_read(void)
{
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return (weft__fpu_env){.vector = (uint32_t)fpcr};
}

static inline void weft__fpu_env_write(weft__fpu_env env)
{
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)env.vector));
}

#else

/* ucontext saves the FPU environment of every context. */

static inline weft__fpu_env weft__fpu_env_read(void)
{
    return (weft__fpu_env){0};
}

static inline void weft__fpu_env_write(weft__fpu_env env)
{
    (void)env;
}

#endif
#endif

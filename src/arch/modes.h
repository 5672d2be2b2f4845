/*
 * The floating-point modes of the running thread: rounding, precision, traps, flush to zero. To
 * read them is as slow as the rest of a switch, so the switch leaves them alone, and only fibers
 * that asked for modes of their own pay for that (core/modes.c, docs/adr/0029).
 */
#ifndef WEFT_ARCH_MODES_H
#define WEFT_ARCH_MODES_H

#include <stdint.h>

typedef struct weft__modes {
    uint32_t vector; /* MXCSR; FPCR on aarch64 */
    uint16_t x87;    /* control word; unused elsewhere */
} weft__modes;

#if defined(__x86_64__) && !defined(WEFT_UCONTEXT)

#define WEFT__MXCSR_MODES 0xffc0u /* without the sticky flags, which are nobody's own */

static inline weft__modes weft__modes_read(void)
{
    weft__modes m;
    __asm__ volatile("stmxcsr %0\n fnstcw %1" : "=m"(m.vector), "=m"(m.x87));
    m.vector &= WEFT__MXCSR_MODES;
    return m;
}

/* The x87 word first: with both changed, the other way round takes 50 ns on Zen 3. */
static inline void weft__modes_write(weft__modes m)
{
    __asm__ volatile("fldcw %1\n ldmxcsr %0" : : "m"(m.vector), "m"(m.x87));
}

#elif defined(__aarch64__) && !defined(WEFT_UCONTEXT)

static inline weft__modes weft__modes_read(void)
{
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return (weft__modes){.vector = (uint32_t)fpcr};
}

static inline void weft__modes_write(weft__modes m)
{
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)m.vector));
}

#else

/* ucontext keeps the modes of every context apart by itself. */

static inline weft__modes weft__modes_read(void)
{
    return (weft__modes){0};
}

static inline void weft__modes_write(weft__modes m)
{
    (void)m;
}

#endif
#endif

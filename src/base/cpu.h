/* Processors. */
#ifndef WEFT_BASE_CPU_H
#define WEFT_BASE_CPU_H

#include <sched.h>
#include <unistd.h>

/* So many the calling thread may run on; at least 1. */
static inline unsigned weft__cpu_count(void)
{
    cpu_set_t set; /* it has room for 1,024 */
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (unsigned)CPU_COUNT(&set);
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (unsigned)count : 1;
}

/* In a loop that waits for another processor: let it have the core's other half, and the bus. */
static inline void weft__cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif

/* The number of processors, and a hint for busy loops. */
#ifndef WEFT_BASE_CPU_H
#define WEFT_BASE_CPU_H

#include <sched.h>
#include <unistd.h>

/* Return the number of processors on which the calling thread may run. The result is at least 1. */
static inline unsigned weft__cpu_count(void)
{
    cpu_set_t set; /* up to 1,024 processors */
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (unsigned)CPU_COUNT(&set);
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (unsigned)count : 1;
}

/* Pause briefly in a busy loop. The pause saves execution resources for the other hyperthread. */
static inline void weft__cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif

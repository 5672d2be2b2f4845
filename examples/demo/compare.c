#include "compare.h"

#include <weft.h>

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define RUN_S 2.0
#define THREAD_STACK_BYTES ((size_t)64 * 1024) /* the stack of a fiber has this size too */

static atomic_ulong wakes;

long resident_kib(void)
{
    long pages_resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL || fscanf(file, "%*d %ld", &pages_resident) != 1)
        pages_resident = 0;
    if (file != NULL)
        fclose(file);
    return pages_resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/* The kernel's stacks of all threads of the system. A thread has one, a fiber has none. */
static long kernel_stacks_kib(void)
{
    char line[128];
    long kib = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "KernelStack: %ld", &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kib;
}

static double used_cpu_s(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

/* A time between half a second and one and a half. */
static double random_s(unsigned *seed)
{
    return 0.5 + (double)rand_r(seed) / (double)RAND_MAX;
}

static weft_value fiber_main(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    for (;;) {
        int rc = weft_sleep(random_s(&seed));
        if (rc < 0)
            return rc;
        atomic_fetch_add_explicit(&wakes, 1, memory_order_relaxed);
    }
}

static void *thread_main(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    for (;;) {
        double s = random_s(&seed);
        struct timespec duration = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
        nanosleep(&duration, NULL);
        atomic_fetch_add_explicit(&wakes, 1, memory_order_relaxed);
    }
    return NULL;
}

static bool fiber_start(uintptr_t number)
{
    return weft_go(fiber_main, (void *)number) == 0;
}

static bool thread_start(uintptr_t number)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int rc = pthread_create(&thread, &attributes, thread_main, (void *)number);
    pthread_attr_destroy(&attributes);
    return rc == 0;
}

int compare_main(const char *kind, long count)
{
    bool (*start)(uintptr_t) = strcmp(kind, "threads") == 0 ? thread_start : fiber_start;
    long memory = resident_kib() + kernel_stacks_kib(), started = 0;
    double begun = weft_now();
    while (started < count && start((uintptr_t)started))
        started++;
    double start_ms = 1000 * (weft_now() - begun);
    if (started == 0)
        return EXIT_FAILURE;
    /* The first sleep of the tasks is not part of the CPU time per wake-up. */
    weft_sleep(RUN_S / 2);
    memory = resident_kib() + kernel_stacks_kib() - memory;
    double cpu_s = used_cpu_s();
    unsigned long before = atomic_load(&wakes);
    weft_sleep(RUN_S / 2);
    double us = 1e6 * (used_cpu_s() - cpu_s) / (double)(atomic_load(&wakes) - before + 1);
    printf("%ld %.0f %.1f %.1f\n", started, start_ms, (double)memory / (double)started, us);
    fflush(stdout);
    _exit(EXIT_SUCCESS); /* the tasks never end */
}

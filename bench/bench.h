/*
 * Support for contenders in C and C++: the main function, the clocks and the output. README.md has
 * the rules. A contender is a table of workloads:
 *
 *     static const bench_work works[] = {{"spin", spin}, {"echo", echo}};
 *     BENCH_MAIN(works)
 */
#ifndef WEFT_BENCH_H
#define WEFT_BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct bench_work {
    const char *name;
    void (*run)(size_t count, size_t n); /* runs the workload and prints its figures */
} bench_work;

/* Exit with a message if a condition is false. The run is then invalid. */
#define bench_require(is_true) ((is_true) ? (void)0 : bench_fail(__FILE__, __LINE__, #is_true))

static inline void bench_fail(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: %s is false\n", file, line, what);
    exit(1);
}

static inline double bench_read_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Return the CPU time of the process, for workloads with one thread. */
static inline double bench_cpu_ns(void)
{
    return bench_read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* Return the real time, for workloads with several threads. */
static inline double bench_real_ns(void)
{
    return bench_read_ns(CLOCK_MONOTONIC);
}

static inline void bench_print(double value)
{
    printf("%.7g\n", value);
}

static inline void bench_print_both(double first, double second)
{
    printf("%.7g %.7g\n", first, second);
}

/* Run about n operations. Return the time per operation, in nanoseconds. */
typedef double bench_pass(size_t count, size_t n);

#define BENCH_WARM_UP 1000

/*
 * Run a pass to warm up, then a pass to measure. Print the figure of the second pass. The warm-up
 * does not depend on n, so that tools can subtract the counts of two runs.
 */
static inline void bench_measure(bench_pass *pass, size_t count, size_t n)
{
    bench_require(n > 0);
    pass(count, BENCH_WARM_UP);
    bench_print(pass(count, n));
}

/* Return a value of /proc/self/status in bytes. The unit of the file is KiB, labelled kB. */
static inline double bench_status_bytes(const char *key)
{
    char line[256];
    double kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    bench_require(status != NULL);
    while (kib < 0 && fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            kib = strtod(line + strlen(key), NULL);
    fclose(status);
    bench_require(kib >= 0);
    return kib * 1024;
}

/*
 * Run the workload "parked". Print the memory and the page tables per fiber that make(count)
 * creates.
 */
static inline void bench_measure_parked(void (*make)(size_t), size_t count)
{
    double resident = bench_status_bytes("VmRSS:"), tables = bench_status_bytes("VmPTE:");
    make(count);
    bench_print_both((bench_status_bytes("VmRSS:") - resident) / (double)count,
                     (bench_status_bytes("VmPTE:") - tables) / (double)count);
}

/* Return the sleep time of sleeper number i, in microseconds. */
static inline uint32_t bench_sleep_us(size_t i)
{
    return 500000 + (uint32_t)i * 2654435761u % 1000000;
}

static inline int bench_main(const bench_work *works, size_t works_count, int argc, char **argv)
{
    if (argc == 1) {
        for (size_t i = 0; i < works_count; i++)
            puts(works[i].name);
        return 0;
    }
    for (size_t i = 0; i < works_count && argc == 4; i++) {
        if (strcmp(works[i].name, argv[1]) == 0) {
            works[i].run(strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10));
            return 0;
        }
    }
    fprintf(stderr, "usage: %s [WORK COUNT N]\n", argv[0]);
    return 2;
}

#define BENCH_MAIN(works)                                                       \
    int main(int argc, char **argv)                                             \
    {                                                                           \
        return bench_main(works, sizeof(works) / sizeof(works)[0], argc, argv); \
    }

#endif

/*
 * What every measurement needs: arguments, one processor for the whole run, a clock, and results
 * as text or as JSON, one line each. What is measured, and against what, is each program's own
 * business.
 *
 * Cases take turns in several rounds, A B A B: the clock of a shared machine drifts by more than
 * the differences that matter. So a ratio is the median of the rounds' ratios, not the ratio of
 * two medians.
 *
 * usage of every program: NAME [--json] [--only CASE] [NUMBER]
 * --only runs one case once, for tools that count.
 */
#ifndef WEFT_BENCH_ROUNDS_H
#define WEFT_BENCH_ROUNDS_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/*
 * Many short rounds: what disturbs one of a millisecond seldom disturbs half of them. A program
 * whose rounds cannot be short says how many it has before it includes this.
 */
#ifndef BENCH_ROUNDS
#define BENCH_ROUNDS 101
#endif
#define BENCH_CASES_MAX 16

/* One thing to measure: run does about n operations, and returns the nanoseconds of one. */
typedef struct bench_case {
    const char *what;
    double (*run)(void *arg, size_t n);
    void *arg;
} bench_case;

/* One line of the results. */
typedef struct bench_result {
    const char *what;
    const char *unit;
    int count;
    const double *values; /* in the order of the rounds */
    double ratio;         /* to another case; 0: to none */
} bench_result;

static bool bench_is_json;
static const char *bench_name;
static const char *bench_only; /* NULL: all cases */
static bool bench_has_found;   /* that one */

static inline void bench_require(bool is_true, const char *what)
{
    if (is_true)
        return;
    fprintf(stderr, "%s: %s\n", bench_name, what);
    exit(1);
}

/* At the end, as cases may be in several lists. */
static inline void bench_check_only(void)
{
    if (bench_only == NULL || bench_has_found)
        return;
    fprintf(stderr, "%s: no such case\n", bench_name);
    _exit(1);
}

/* Stay on the processor that the program is on. Where that is forbidden, the spread will tell. */
static inline void bench_pin(void)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
}

/* Read the arguments and pin the process. Returns NUMBER, or `number` if it is not given. */
static inline size_t bench_start(int argc, char **argv, size_t number)
{
    const char *slash = strrchr(argv[0], '/');
    bench_name = slash != NULL ? slash + 1 : argv[0];
    for (int i = 1; i < argc; i++) {
        char *end = argv[i];
        unsigned long long given = 0;
        if (strcmp(argv[i], "--json") == 0)
            bench_is_json = true;
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            bench_only = argv[++i];
        else if ((given = strtoull(argv[i], &end, 10)) > 0 && *end == '\0')
            number = given;
        else
            bench_require(false, "usage: NAME [--json] [--only CASE] [NUMBER]");
    }
    bench_pin();
    atexit(bench_check_only);
    return number;
}

/* The thread's own time: what it lost to others on a busy machine does not count. */
static inline double bench_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Memory for stacks, without a page behind it before it is touched. */
static inline char *bench_map(size_t bytes)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    bench_require(memory != MAP_FAILED, "no memory");
    return memory;
}

static inline int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline void bench_sort(const double *values, int n, double *sorted)
{
    memcpy(sorted, values, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, bench_compare);
}

static inline void bench_print(const bench_result *r)
{
    double sorted[BENCH_ROUNDS];
    bench_sort(r->values, r->count, sorted);
    double median = sorted[r->count / 2], least = sorted[0], most = sorted[r->count - 1];
    if (bench_is_json) {
        printf("{\"bench\": \"%s\", \"what\": \"%s\", \"unit\": \"%s\", \"rounds\": %d, ",
               bench_name, r->what, r->unit, r->count);
        printf("\"median\": %.7g, \"min\": %.7g, \"max\": %.7g, \"ratio\": %.4g}\n", median, least,
               most, r->ratio);
    } else {
        printf("%-40s %10.7g %-5s", r->what, median, r->unit);
        if (r->count > 1)
            printf(" %8.4g .. %-8.4g", least, most);
        if (r->ratio > 0)
            printf(" x %.2f", r->ratio);
        putchar('\n');
    }
    fflush(stdout);
}

/* A result that is one number. */
static inline void bench_print_one(const char *what, const char *unit, double value)
{
    bench_print(&(bench_result){what, unit, 1, &value, 0});
}

static inline double bench_ratio(const double *values, const double *base)
{
    double ratios[BENCH_ROUNDS], sorted[BENCH_ROUNDS];
    for (int i = 0; i < BENCH_ROUNDS; i++)
        ratios[i] = values[i] / base[i];
    bench_sort(ratios, BENCH_ROUNDS, sorted);
    return sorted[BENCH_ROUNDS / 2];
}

static inline void bench_run_only(const bench_case *cases, int count, size_t n)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(cases[i].what, bench_only) == 0) {
            bench_has_found = true;
            bench_print_one(cases[i].what, "ns", cases[i].run(cases[i].arg, n));
            return;
        }
    }
}

/* Measure all cases in turn, after a time to warm up, and print them. Ratios are to the first. */
static inline void bench_run(const bench_case *cases, int count, size_t n)
{
    double values[BENCH_CASES_MAX][BENCH_ROUNDS];
    bench_require(count <= BENCH_CASES_MAX, "too many cases");
    if (bench_only != NULL) {
        bench_run_only(cases, count, n);
        return;
    }
    for (int round = -1; round < BENCH_ROUNDS; round++)
        for (int i = 0; i < count; i++)
            values[i][round < 0 ? 0 : round] = cases[i].run(cases[i].arg, n);
    for (int i = 0; i < count; i++)
        bench_print(&(bench_result){cases[i].what, "ns", BENCH_ROUNDS, values[i],
                                    i > 0 ? bench_ratio(values[i], values[0]) : 0});
}

#define BENCH_RUN(cases, n) bench_run(cases, (int)(sizeof(cases) / sizeof(cases)[0]), n)

#endif

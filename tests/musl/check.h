/*
 * The part of Check (libcheck.github.io) that the tests use, for builds without Check. No package
 * has Check for musl.
 *
 * Each test runs in its own process, with a time limit. The last line of the output has the format
 * of Check. CK_RUN_CASE and CK_FORK=no work as in Check. CK_SKIP_CASES lists cases to skip. The
 * output of failures is shorter.
 */
#ifndef TESTS_MUSL_CHECK_H
#define TESTS_MUSL_CHECK_H

#include "base/libc.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* musl has no mallinfo2. Tests that compare memory use compare zeros. */
#ifndef WEFT_HAS_MALLINFO2
struct mallinfo2 {
    size_t uordblks, hblkhd;
};
static inline struct mallinfo2 mallinfo2(void)
{
    return (struct mallinfo2){0};
}
#endif

typedef struct TTest {
    const char *name;
    void (*fn)(int _i);
    const char *file;
    int line;
} TTest;

typedef struct ck_entry {
    const TTest *test;
    int from, to; /* the first value of _i, and the last value plus 1 */
} ck_entry;

typedef struct TCase {
    const char *name;
    double timeout_s;
    void (*set_up)(void), (*tear_down)(void);
    ck_entry *entries;
    size_t count;
    struct TCase *next;
} TCase;

typedef struct Suite {
    const char *name;
    TCase *first, **end;
} Suite;

typedef struct SRunner {
    Suite *suite;
    int run, failed, broken;
} SRunner;

enum { CK_ENV };

/* clang-format off */
#define START_TEST(test)                                       \
    static void test##_fn(int _i);                             \
    static const TTest test##_ttest = {                        \
        #test, test##_fn, __FILE__, __LINE__};                 \
    static const TTest *const test = &test##_ttest;            \
    static void test##_fn(int _i __attribute__((unused)))
#define END_TEST
/* clang-format on */

__attribute__((format(printf, 3, 4), noreturn)) static inline void
ck_fail(const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    fflush(NULL);
    va_end(args);
    _exit(1);
}

#define ck_abort_msg(...) ck_fail(__FILE__, __LINE__, __VA_ARGS__)
#define ck_abort() ck_abort_msg("failed")
#define ck_assert_msg(condition, ...)  \
    do {                               \
        if (!(condition))              \
            ck_abort_msg(__VA_ARGS__); \
    } while (0)
#define ck_assert(condition) ck_assert_msg(condition, "%s does not hold", #condition)

#define CK_COMPARE(type, form, a, op, b)                                                      \
    do {                                                                                      \
        type ck_a = (type)(a);                                                                \
        type ck_b = (type)(b);                                                                \
        ck_assert_msg(ck_a op ck_b, "%s %s %s does not hold: %" form ", %" form, #a, #op, #b, \
                      ck_a, ck_b);                                                            \
    } while (0)
#define ck_assert_int_eq(a, b) CK_COMPARE(intmax_t, PRIdMAX, a, ==, b)
#define ck_assert_int_ne(a, b) CK_COMPARE(intmax_t, PRIdMAX, a, !=, b)
#define ck_assert_int_lt(a, b) CK_COMPARE(intmax_t, PRIdMAX, a, <, b)
#define ck_assert_int_le(a, b) CK_COMPARE(intmax_t, PRIdMAX, a, <=, b)
#define ck_assert_int_gt(a, b) CK_COMPARE(intmax_t, PRIdMAX, a, >, b)
#define ck_assert_int_ge(a, b) CK_COMPARE(intmax_t, PRIdMAX, a, >=, b)
#define ck_assert_uint_eq(a, b) CK_COMPARE(uintmax_t, PRIuMAX, a, ==, b)
#define ck_assert_uint_ne(a, b) CK_COMPARE(uintmax_t, PRIuMAX, a, !=, b)
#define ck_assert_uint_lt(a, b) CK_COMPARE(uintmax_t, PRIuMAX, a, <, b)
#define ck_assert_uint_le(a, b) CK_COMPARE(uintmax_t, PRIuMAX, a, <=, b)
#define ck_assert_uint_gt(a, b) CK_COMPARE(uintmax_t, PRIuMAX, a, >, b)
#define ck_assert_uint_ge(a, b) CK_COMPARE(uintmax_t, PRIuMAX, a, >=, b)
#define ck_assert_ptr_eq(a, b) CK_COMPARE(const void *, "p", a, ==, b)
#define ck_assert_ptr_ne(a, b) CK_COMPARE(const void *, "p", a, !=, b)
#define ck_assert_ptr_null(a) ck_assert_ptr_eq(a, NULL)
#define ck_assert_ptr_nonnull(a) ck_assert_ptr_ne(a, NULL)
#define ck_assert_double_eq(a, b) CK_COMPARE(double, "g", a, ==, b)
#define ck_assert_double_lt(a, b) CK_COMPARE(double, "g", a, <, b)
#define ck_assert_double_le(a, b) CK_COMPARE(double, "g", a, <=, b)
#define ck_assert_double_gt(a, b) CK_COMPARE(double, "g", a, >, b)
#define ck_assert_double_ge(a, b) CK_COMPARE(double, "g", a, >=, b)
#define ck_assert_double_eq_tol(a, b, most) \
    ck_assert_double_le((a) > (b) ? (a) - (b) : (b) - (a), most)

/* No comma outside of parentheses: FIBER_DO would take it for the end of an argument. */
#define CK_COMPARE_TEXT(a, op, b)                                              \
    do {                                                                       \
        const char *ck_a = (a);                                                \
        const char *ck_b = (b);                                                \
        ck_assert_msg(ck_a != NULL && ck_b != NULL && strcmp(ck_a, ck_b) op 0, \
                      "%s %s %s does not hold: \"%s\", \"%s\"", #a, #op, #b,   \
                      ck_a ? ck_a : "(null)", ck_b ? ck_b : "(null)");         \
    } while (0)
#define ck_assert_str_eq(a, b) CK_COMPARE_TEXT(a, ==, b)
#define ck_assert_str_ne(a, b) CK_COMPARE_TEXT(a, !=, b)
#define ck_assert_mem_eq(a, b, bytes) ck_assert(memcmp(a, b, bytes) == 0)
#define ck_assert_mem_ne(a, b, bytes) ck_assert(memcmp(a, b, bytes) != 0)

static inline Suite *suite_create(const char *name)
{
    Suite *s = calloc(1, sizeof *s);
    *s = (Suite){.name = name, .end = &s->first};
    return s;
}

static inline TCase *tcase_create(const char *name)
{
    TCase *t = calloc(1, sizeof *t);
    *t = (TCase){.name = name, .timeout_s = 4};
    return t;
}

static inline void suite_add_tcase(Suite *s, TCase *t)
{
    *s->end = t;
    s->end = &t->next;
}

static inline void tcase_set_timeout(TCase *t, double seconds)
{
    t->timeout_s = seconds;
}

static inline void tcase_add_checked_fixture(TCase *t, void (*set_up)(void),
                                             void (*tear_down)(void))
{
    t->set_up = set_up;
    t->tear_down = tear_down;
}

static inline void tcase_add_loop_test(TCase *t, const TTest *test, int from, int to)
{
    t->entries = realloc(t->entries, (t->count + 1) * sizeof *t->entries);
    t->entries[t->count++] = (ck_entry){test, from, to};
}

static inline void tcase_add_test(TCase *t, const TTest *test)
{
    tcase_add_loop_test(t, test, 0, 1);
}

static inline SRunner *srunner_create(Suite *s)
{
    SRunner *r = calloc(1, sizeof *r);
    r->suite = s;
    return r;
}

static inline void ck_run_here(const TCase *t, const TTest *test, int i)
{
    if (t->set_up != NULL)
        t->set_up();
    test->fn(i);
    if (t->tear_down != NULL)
        t->tear_down();
}

/* Run a test in its own process group. Kill the group when the test ends. */
static inline void ck_run_one(SRunner *r, const TCase *t, const TTest *test, int i)
{
    const char *fork_setting = getenv("CK_FORK");
    const char *times = getenv("CK_TIMEOUT_MULTIPLIER");
    r->run++;
    if (fork_setting != NULL && strcmp(fork_setting, "no") == 0) {
        ck_run_here(t, test, i);
        return;
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        alarm((unsigned)(t->timeout_s * (times != NULL ? atof(times) : 1)));
        ck_run_here(t, test, i);
        exit(0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    kill(-pid, SIGKILL);
    r->failed += WIFEXITED(status) && WEXITSTATUS(status) != 0;
    r->broken += !WIFEXITED(status);
    if (status != 0)
        printf("%s:%d: %s %d\n", test->name, i, WIFEXITED(status) ? "exit status" : "signal",
               WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

/* True if CK_SKIP_CASES contains name. */
static inline bool ck_is_skipped(const char *name)
{
    const char *at = getenv("CK_SKIP_CASES");
    size_t bytes = strlen(name);
    for (; at != NULL && *at != '\0'; at += strcspn(at, " "), at += strspn(at, " "))
        if (strncmp(at, name, bytes) == 0 && (at[bytes] == ' ' || at[bytes] == '\0'))
            return true;
    return false;
}

static inline void srunner_run_all(SRunner *r, int mode)
{
    const char *wanted = getenv("CK_RUN_CASE");
    (void)mode;
    printf("Running suite(s): %s\n", r->suite->name);
    for (const TCase *t = r->suite->first; t != NULL; t = t->next) {
        if ((wanted != NULL && strcmp(wanted, t->name) != 0) || ck_is_skipped(t->name))
            continue;
        for (size_t at = 0; at < t->count; at++)
            for (int i = t->entries[at].from; i < t->entries[at].to; i++)
                ck_run_one(r, t, t->entries[at].test, i);
    }
    int good = r->run - r->failed - r->broken;
    printf("%d%%: Checks: %d, Failures: %d, Errors: %d\n", r->run > 0 ? 100 * good / r->run : 100,
           r->run, r->failed, r->broken);
    fflush(stdout);
}

static inline int srunner_ntests_run(const SRunner *r)
{
    return r->run;
}

static inline int srunner_ntests_failed(const SRunner *r)
{
    return r->failed + r->broken;
}

static inline void srunner_free(SRunner *r)
{
    for (TCase *t = r->suite->first, *next; t != NULL; t = next) {
        next = t->next;
        free(t->entries);
        free(t);
    }
    free(r->suite);
    free(r);
}

#endif

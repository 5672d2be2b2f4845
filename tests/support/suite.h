/* Define a test, register it, and run all tests of the program. Include this in one file each. */
#ifndef TESTS_SUPPORT_SUITE_H
#define TESTS_SUPPORT_SUITE_H

#include "support/support.h"

#define SUITE_TESTS_MAX 64

/* The tests in the order of their definition. */
static TTest suite_tests[SUITE_TESTS_MAX];
static size_t suite_count;

static inline void suite_add(const char *name, const TTest *test)
{
    if (suite_count == SUITE_TESTS_MAX)
        abort();
    suite_tests[suite_count] = *test;
    suite_tests[suite_count++].name = name;
}

/* Define a test. The name is a sentence about behaviour. CK_RUN_CASE selects a test by name. */
/* clang-format off */
#define TEST(name)                                             \
    static void name(void);                                    \
    START_TEST(name##_test)                                    \
    {                                                          \
        name();                                                \
    }                                                          \
    END_TEST                                                   \
    __attribute__((constructor)) static void name##_add(void)  \
    {                                                          \
        suite_add(#name, name##_test);                         \
    }                                                          \
    static void name(void)
/* Define a test that runs a scenario of support/fault.h once for each call that can fail. */
#define FAULT_TEST(name, run)      \
    TEST(name)                     \
    {                              \
        fail_each_call(run);       \
    }
/* clang-format on */

int main(void)
{
    if (suite_count == 0) {
        puts("skipped: no test is built with these options");
        return 77;
    }
    const TTest *tests[SUITE_TESTS_MAX];
    const TTest *const *list[SUITE_TESTS_MAX];
    for (size_t i = 0; i < suite_count; i++) {
        tests[i] = &suite_tests[i];
        list[i] = &tests[i];
    }
    return run_suite(program_invocation_short_name, list, suite_count);
}

#endif

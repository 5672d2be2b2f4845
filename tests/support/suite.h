/*
 * The suite of a test program: TEST defines a test and adds it to the suite, and main runs all
 * tests. Each test is a case, so that CK_RUN_CASE selects it by name.
 */
#ifndef TESTS_SUPPORT_SUITE_H
#define TESTS_SUPPORT_SUITE_H

#include <check.h>
#include <stddef.h>

typedef struct suite_entry {
    const TTest *test;
    int rounds;
    struct suite_entry *next;
} suite_entry;

static struct {
    suite_entry *first, **end;
    void (*set_up)(void), (*tear_down)(void); /* called around each test; NULL: nothing to do */
} own_suite;

static inline void suite_add(suite_entry *entry)
{
    if (own_suite.first == NULL)
        own_suite.end = &own_suite.first;
    *own_suite.end = entry;
    own_suite.end = &entry->next;
}

/* Define a test that runs n times, with _i from 0 to n - 1. Each round has its own process. */
#define TEST_LOOP(name, n)                                                \
    static void name##_fn(int _i);                                        \
    __attribute__((constructor)) static void name##_add(void)             \
    {                                                                     \
        static const TTest test = {#name, name##_fn, __FILE__, __LINE__}; \
        static suite_entry entry = {&test, (int)(n), NULL};               \
        suite_add(&entry);                                                \
    }                                                                     \
    static void name##_fn(int _i __attribute__((unused)))

/* Define a test. The name is a sentence about behaviour. */
#define TEST(name) TEST_LOOP(name, 1)

int main(void)
{
    Suite *all = suite_create(__BASE_FILE__);
    for (const suite_entry *e = own_suite.first; e != NULL; e = e->next) {
        TCase *tcase = tcase_create(e->test->name);
        tcase_set_timeout(tcase, 20);
        tcase_add_checked_fixture(tcase, own_suite.set_up, own_suite.tear_down);
        tcase_add_loop_test(tcase, e->test, 0, e->rounds);
        suite_add_tcase(all, tcase);
    }
    SRunner *runner = srunner_create(all);
    srunner_run_all(runner, CK_ENV);
    int run = srunner_ntests_run(runner), failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return run > 0 && failed == 0 ? 0 : 1;
}

#endif

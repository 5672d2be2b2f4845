/*
 * The suite of a test program. TEST defines a test and adds it to the suite, and main runs all
 * tests. Each test is a case, so that CK_RUN_CASE selects a test by its name.
 */
#ifndef TESTS_SUPPORT_SUITE_H
#define TESTS_SUPPORT_SUITE_H

#include "support/support.h"

/* The function of a fiber or a thread may ignore its argument. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
/* The row of a table may omit fields. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

typedef struct suite_entry {
    const TTest *test;
    int rounds;
    struct suite_entry *next;
    int first;     /* _i of the first round */
    int timeout_s; /* of a round; 0: 20 */
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

/* Define a test that runs n times, each for at most seconds_max. 0: 20 s. Private. */
#define TEST_ENTRY(name, n, seconds_max)                                    \
    static void name##_fn(int _i);                                          \
    __attribute__((constructor)) static void name##_add(void)               \
    {                                                                       \
        static const TTest test = {#name, name##_fn, __FILE__, __LINE__};   \
        static suite_entry entry = {&test, (int)(n), NULL, 0, seconds_max}; \
        suite_add(&entry);                                                  \
    }                                                                       \
    static void name##_fn(int _i __attribute__((unused)))

/* Define a test that runs n times, with _i from 0 to n - 1. Each round has its own process. */
#define TEST_LOOP(name, n) TEST_ENTRY(name, n, 0)

/* Define a test that can take longer than 20 seconds. */
#define TEST_WITHIN(seconds, name) TEST_ENTRY(name, 1, seconds)

/* Define a test. The name is a sentence about behaviour. */
#define TEST(name) TEST_LOOP(name, 1)

/* Define a test that runs once for each row of a table. _i is the index of the row. */
#define TEST_ROWS(name, rows) TEST_LOOP(name, COUNT_OF(rows))

/* Call set_up before and tear_down after each test. */
#define FIXTURE(set_up_fn, tear_down_fn)                      \
    __attribute__((constructor)) static void suite_bind(void) \
    {                                                         \
        own_suite.set_up = set_up_fn;                         \
        own_suite.tear_down = tear_down_fn;                   \
    }

/* True if the environment selects this backend. Does not make the process a cord. */
static inline bool runs_on(const char *backend)
{
    const char *chosen = getenv("WEFT_BACKEND");
    return chosen != NULL && strcmp(chosen, backend) == 0;
}

static inline weft_counters stats(void)
{
    weft_counters counters;
    weft_stats(&counters);
    return counters;
}

static inline void clear_trail(void)
{
    trail[0] = '\0';
}

static inline weft_info info_of(weft_fiber f)
{
    weft_info info;
    ck_assert_int_eq(weft_info_of(f, &info), 0);
    return info;
}

static inline weft_fiber spin_named(weft_fn *fn, void *arg, const char *name)
{
    return weft_spin_with(fn, arg, &(weft_spin_options){.name = name});
}

/* Execute a statement in a scope. Assert that its deadline expires. */
#define ck_assert_times_out(seconds, statement) \
    do {                                        \
        int ck_rc = 0;                          \
        WEFT_CANCEL_AFTER(seconds, ck_rc) {     \
            statement;                          \
        }                                       \
        ck_assert_int_eq(ck_rc, -ETIMEDOUT);    \
    } while (0)

/* Assert the trail, and clear it. */
#define ck_take_trail(expected)    \
    do {                           \
        ck_assert_trail(expected); \
        clear_trail();             \
    } while (0)

/* Cancel a fiber. Return its value. */
static inline weft_value cancel_and_await(weft_fiber f)
{
    ck_assert_int_eq(weft_cancel(f), 0);
    return weft_await(f);
}

/* Assert the exit status, and that stderr contains each text. The last text is NULL. */
static inline void assert_prints(const outcome *o, int status, const char *const *texts)
{
    ck_assert_msg(o->status == status, "status %d instead of %d, stderr:\n%.300s", o->status,
                  status, o->text);
    for (; *texts != NULL; texts++)
        assert_printed(o, *texts);
}

/*
 * The body is the main function of a separate process. Assert its exit status, and with
 * TEST_PROGRAM the exact text on stderr, with TEST_PROGRAM_PRINTS parts of that text.
 */
/* clang-format off */
#define TEST_PROGRAM(name, status, text)                      \
    static int name##_program(void);                          \
    TEST(name)                                                \
    {                                                         \
        assert_exited(run_apart(name##_program), status, text); \
    }                                                         \
    static int name##_program(void)

#define TEST_PROGRAM_PRINTS(name, status, ...)                                                \
    static int name##_program(void);                                                          \
    TEST(name)                                                                                \
    {                                                                                         \
        assert_prints(run_apart(name##_program), status, (const char *[]){__VA_ARGS__, NULL}); \
    }                                                                                         \
    static int name##_program(void)
/* clang-format on */

int main(void)
{
    if (own_suite.first == NULL) {
        puts("skipped: no test is built with these options");
        return 77;
    }
    Suite *all = suite_create(program_invocation_short_name);
    for (const suite_entry *e = own_suite.first; e != NULL; e = e->next) {
        TCase *tcase = tcase_create(e->test->name);
        tcase_set_timeout(tcase, e->timeout_s > 0 ? e->timeout_s : 20);
        tcase_add_checked_fixture(tcase, own_suite.set_up, own_suite.tear_down);
        tcase_add_loop_test(tcase, e->test, e->first, e->first + e->rounds);
        suite_add_tcase(all, tcase);
    }
    SRunner *runner = srunner_create(all);
    srunner_run_all(runner, CK_ENV);
    bool is_good = srunner_ntests_run(runner) > 0 && srunner_ntests_failed(runner) == 0;
    srunner_free(runner);
    return is_good ? 0 : 1;
}

#endif

/*
 * The suite of a test program. TEST defines and registers a test. TEST_ROWS runs a test once for
 * each row of a table. The main function of this file runs all registered tests.
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
    int rows;
} suite_entry;

static suite_entry suite_entries[128];
static size_t suite_entry_count;

static inline void suite_register(const TTest *test, int rows)
{
    if (suite_entry_count == COUNT_OF(suite_entries))
        abort();
    suite_entries[suite_entry_count++] = (suite_entry){test, rows};
}

/* Run before and after each test. NULL if there is nothing to do. */
static void (*suite_set_up)(void), (*suite_tear_down)(void);

/* clang-format off */
#define FIXTURE(set_up, tear_down)                                  \
    __attribute__((constructor)) static void register_fixture(void) \
    {                                                               \
        suite_set_up = set_up;                                      \
        suite_tear_down = tear_down;                                \
    }

#define TEST_TIMES(name, n)                                        \
    static const TTest *name;                                      \
    __attribute__((constructor)) static void name##_register(void) \
    {                                                              \
        suite_register(name, n);                                   \
    }                                                              \
    START_TEST(name)
/* clang-format on */

#define TEST(name) TEST_TIMES(name, 1)

/* The body finds the index of its row in _i. */
#define TEST_ROWS(name, rows) TEST_TIMES(name, COUNT_OF(rows))

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

/* Define the function of a fiber with the argument arg. The function only returns value. */
#define FIBER(name, value)            \
    static weft_value name(void *arg) \
    {                                 \
        return (weft_value)(value);   \
    }

int main(void)
{
    Suite *suite = suite_create(program_invocation_short_name);
    for (size_t i = 0; i < suite_entry_count; i++) { /* CK_RUN_CASE selects a test by its name */
        const suite_entry *entry = &suite_entries[i];
        TCase *tcase = tcase_create(entry->test->name);
        tcase_set_timeout(tcase, 20);
        tcase_add_checked_fixture(tcase, suite_set_up, suite_tear_down);
        tcase_add_loop_test(tcase, entry->test, 0, entry->rows);
        suite_add_tcase(suite, tcase);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    bool is_good = srunner_ntests_run(runner) > 0 && srunner_ntests_failed(runner) == 0;
    srunner_free(runner);
    return is_good ? 0 : 1;
}

#endif

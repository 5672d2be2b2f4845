/* Lists of cases for one check. Each case is a string. */
#ifndef TESTS_SUPPORT_CASES_H
#define TESTS_SUPPORT_CASES_H

#include "support/support.h"

static inline void check_each_text(void (*check)(const char *text), const char *const cases[],
                                   size_t count)
{
    for (size_t i = 0; i < count; i++)
        check(cases[i]);
}

/* Split each case "input -> expected" at its last arrow. */
static inline void check_each_pair(void (*check)(const char *input, const char *expected),
                                   const char *const cases[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char input[512];
        const char *arrow = strstr(cases[i], " -> "), *next;
        ck_assert_ptr_nonnull(arrow);
        while ((next = strstr(arrow + 1, " -> ")) != NULL)
            arrow = next;
        snprintf(input, sizeof input, "%.*s", (int)(arrow - cases[i]), cases[i]);
        check(input, arrow + 4);
    }
}

#define CASES(...)                      \
    (const char *const[]){__VA_ARGS__}, \
        sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)

/* Call check for each case. The cases are strings, or strings of the form "input -> expected". */
#define EACH_TEXT(check, ...) check_each_text(check, CASES(__VA_ARGS__))
#define EACH_PAIR(check, ...) check_each_pair(check, CASES(__VA_ARGS__))

/* Define a check for EACH_TEXT: a condition on text holds. */
#define TEXT_CHECK(name, condition)             \
    static void name(const char *text)          \
    {                                           \
        ck_assert_msg((condition), "%s", text); \
    }

/* Define a check for EACH_PAIR: the result for an input equals the expected text. */
#define PAIR_CHECK(name, result)                                                     \
    static void name(const char *input, const char *expected)                        \
    {                                                                                \
        const char *ck_result = (result);                                            \
        ck_assert_msg(strcmp(ck_result, expected) == 0, "%s: %s", input, ck_result); \
    }

/* Assert that text contains each of count parts, or none of them. */
static inline void assert_parts_in(const char *text, bool is_in, const char *const parts[],
                                   size_t count)
{
    for (size_t i = 0; i < count; i++)
        ck_assert_msg((strstr(text, parts[i]) != NULL) == is_in, "'%s' is%s in:\n%s", parts[i],
                      is_in ? " not" : "", text);
}

#define ck_assert_has(text, ...) assert_parts_in(text, true, CASES(__VA_ARGS__))
#define ck_assert_lacks(text, ...) assert_parts_in(text, false, CASES(__VA_ARGS__))

#endif

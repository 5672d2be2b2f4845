/* Names and tokens of the API, subjects, and patterns with wildcards. */
#include "hub/text/subject.h"
#include "support/cases.h"
#include "support/suite.h"

#define SUBJECT(text) weft__slice_of(text)

TEXT_CHECK(is_name, weft__name_is_valid(text))
TEXT_CHECK(is_not_name, !weft__name_is_valid(text))
TEXT_CHECK(is_token, weft__token_is_valid(text))
TEXT_CHECK(is_not_token, !weft__token_is_valid(text))
TEXT_CHECK(is_subject, weft__subject_is_valid(SUBJECT(text), false))
TEXT_CHECK(is_not_subject, !weft__subject_is_valid(SUBJECT(text), false))
TEXT_CHECK(is_pattern, weft__subject_is_valid(SUBJECT(text), true))
TEXT_CHECK(is_not_pattern, !weft__subject_is_valid(SUBJECT(text), true))

TEST(a_name_consists_of_tokens_with_dots_between_them)
{
    EACH_TEXT(is_name, "a", "orders.paid", "A.b-c_d=e.9", "weft", "wefts.a", "a.weft.b");
    EACH_TEXT(is_not_name, "", ".", ".a", "a.", "a..b", "a b", "a\tb", "a.*", ">", "a.>", "$JS.API",
              "a/b", "a\r\n", "\xc3\xa4", "a@b");
    ck_assert(!weft__name_is_valid(NULL));
}

TEST(names_that_start_with_weft_and_a_dot_are_reserved)
{
    EACH_TEXT(is_not_name, "weft.", "weft.q.orders", "weft.node.x");
}

TEST(a_token_has_no_dots)
{
    EACH_TEXT(is_token, "a", "work-1_2=", "0");
    EACH_TEXT(is_not_token, "", ".", "a.b", "a b", "*", ">", "a\n", "\xff");
    ck_assert(!weft__token_is_valid(NULL));
}

/* Return a text of a length, in memory of the exact size. The caller frees the text. */
static char *text_of_length(size_t length)
{
    char *text = malloc(length + 1);
    memset(text, 'x', length);
    text[length] = '\0';
    return text;
}

TEST(names_and_tokens_are_limited)
{
    static const struct {
        size_t length;
        bool is_name, is_token;
    } cases[] = {{WEFT__TOKEN_BYTES_MAX, true, true},
                 {WEFT__TOKEN_BYTES_MAX + 1, true, false},
                 {WEFT__NAME_BYTES_MAX, true, false},
                 {WEFT__NAME_BYTES_MAX + 1, false, false},
                 {100000, false, false}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char *text = text_of_length(cases[i].length);
        ck_assert_int_eq(weft__name_is_valid(text), cases[i].is_name);
        ck_assert_int_eq(weft__token_is_valid(text), cases[i].is_token);
        free(text);
    }
}

TEST(a_subject_has_no_empty_token_no_white_space_and_no_control_character)
{
    EACH_TEXT(is_subject, "a", "a.b", "$JS.API.INFO", "_INBOX.x.1", "a*b", "a>.b", "\xc3\xa4.b");
    EACH_TEXT(is_not_subject, "", ".", "a.", ".a", "a..b", "a b", "a\tb", "a\r", "a\nb", "\x7f",
              "*", ">", "a.*", "a.*.b", "a.>");
    ck_assert(!weft__subject_is_valid((weft__slice){"a\0b", 3}, true));
    ck_assert(!weft__subject_is_valid((weft__slice){NULL, 0}, true));
}

TEST(a_pattern_may_have_wildcards_with_the_last_token_for_the_rest)
{
    EACH_TEXT(is_pattern, "*", ">", "*.*", "a.*.b", "a.>", "*.>", "a>b.>");
    EACH_TEXT(is_not_pattern, ">.a", "a.>.b", ">.>", "*.", ".*", "a.. >");
}

TEST(a_pattern_matches_token_by_token)
{
    static const struct {
        const char *pattern, *subject;
        bool matches;
    } cases[] = {
        {"a", "a", true},         {"a", "b", false},    {"a", "ab", false},
        {"ab", "a", false},       {"a", "a.b", false},  {"a.b", "a", false},
        {"a.b", "a.b", true},     {"*", "a", true},     {"*", "a.b", false},
        {"*.*", "a.b", true},     {"*.*", "a", false},  {"*.b", "a.b", true},
        {"a.*", "a.b", true},     {"a.*", "a", false},  {"a.*", "a.b.c", false},
        {"a.*.c", "a.b.c", true}, {">", "a", true},     {">", "a.b.c", true},
        {"a.>", "a", false},      {"a.>", "a.b", true}, {"a.>", "a.b.c.d", true},
        {"a.>", "b.c", false},    {"*.>", "a.b", true}, {"*.>", "a", false},
        {"a*", "ab", false},      {"a*", "a*", true},   {"a>", "a>", true},
        {"a.b>", "a.b.c", false}, {"A", "a", false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        ck_assert_msg(weft__subject_matches(SUBJECT(cases[i].pattern), SUBJECT(cases[i].subject)) ==
                          cases[i].matches,
                      "%s %s", cases[i].pattern, cases[i].subject);
}

/* Percent-encoding in URLs and forms, and parameters of queries. */
#include "support/cases.h"
#include "support/suite.h"

#include <weft/web.h>

TEST(escapes_are_decoded_in_place)
{
    static const struct {
        const char *text, *plain, *form;
    } cases[] = {
        {"", "", ""},
        {"abc", "abc", "abc"},
        {"a+b", "a+b", "a b"},
        {"%41%62%63", "Abc", "Abc"},
        {"%2B+%2b", "+++", "+ +"},
        {"%e4%F6", "\xe4\xf6", "\xe4\xf6"},
        {"%2541", "%41", "%41"},
        {"a%20b%3D%26", "a b=&", "a b=&"},
        {"%0d%0A", "\r\n", "\r\n"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[64];
        strcpy(text, cases[i].text);
        ck_assert_int_eq(weft_url_decode(text, false), (int)strlen(cases[i].plain));
        ck_assert_str_eq(text, cases[i].plain);
        strcpy(text, cases[i].text);
        ck_assert_int_eq(weft_url_decode(text, true), (int)strlen(cases[i].form));
        ck_assert_str_eq(text, cases[i].form);
    }
}

TEST(a_decoded_nul_shows_in_the_length)
{
    char text[] = "a%00b";
    ck_assert_int_eq(weft_url_decode(text, false), 3);
    ck_assert_mem_eq(text, "a\0b", 4);
}

TEST(a_malformed_escape_leaves_the_text_unchanged)
{
    static const char *const cases[] = {"%",     "%4",   "a%",    "a%4",    "%g1",  "%1g",
                                        "%41%4", "%%41", "%4%41", "+%41+%", "% 41", "%-1"};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[16];
        strcpy(text, cases[i]);
        ck_assert_int_eq(weft_url_decode(text, true), -EINVAL);
        ck_assert_str_eq(text, cases[i]);
    }
}

TEST(all_characters_except_unreserved_ones_are_encoded)
{
    for (int c = 1; c < 256; c++) {
        char text[2] = {(char)c, '\0'}, out[8];
        bool is_plain = c < 128 && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                          "0123456789-._~",
                                          c) != NULL;
        const char *expected = format(is_plain ? "%c" : "%%%02X", c);
        ck_assert_uint_eq(weft_url_encode(out, sizeof out, text), strlen(expected));
        ck_assert_str_eq(out, expected);
        ck_assert_int_eq(weft_url_decode(out, true), 1);
        ck_assert_str_eq(out, text);
    }
}

TEST(encoding_truncates_between_escapes)
{
    static const struct {
        size_t room;
        const char *written;
    } cases[] = {{1, ""},      {2, "a"},     {3, "a"},     {4, "a"},        {5, "a%20"},
                 {6, "a%20b"}, {7, "a%20b"}, {8, "a%20b"}, {9, "a%20b%2F"}, {100, "a%20b%2F"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char out[128];
        memset(out, '#', sizeof out);
        ck_assert_uint_eq(weft_url_encode(out, cases[i].room, "a b/"), 8);
        ck_assert_str_eq(out, cases[i].written);
        ck_assert_int_eq(out[cases[i].room], '#');
    }
    ck_assert_uint_eq(weft_url_encode(NULL, 0, "a b/"), 8);
}

/* Return all parameters as text. Each parameter is in brackets. '!' is an error. */
static const char *params_of(const char *text)
{
    static char out[512];
    char copy[256], *rest = copy, *name, *value;
    strcpy(copy, text);
    out[0] = '\0';
    int rc;
    while ((rc = weft_url_next_param(&rest, &name, &value)) != 0) {
        size_t bytes = strlen(out);
        if (rc == 1)
            snprintf(out + bytes, sizeof out - bytes, "[%s|%s]", name, value);
        else
            strcat(out, rc == -EINVAL ? "!" : "?");
    }
    ck_assert_int_eq(weft_url_next_param(&rest, &name, &value), 0);
    return out;
}

PAIR_CHECK(assert_params, params_of(input))

TEST(parameters_are_returned_one_by_one)
{
    EACH_PAIR(assert_params, " -> ", "a -> [a|]", "a= -> [a|]", "a=b -> [a|b]",
              "a=b&c=d -> [a|b][c|d]", "a=b&a=c -> [a|b][a|c]", "& -> ", "&&a=b&&c& -> [a|b][c|]",
              "=b -> [|b]", "= -> [|]", "a=b=c -> [a|b=c]", "a== -> [a|=]", "a+b=c+d -> [a b|c d]",
              "a%3Db=c%26d -> [a=b|c&d]", "a%2Bb -> [a+b|]", "%e2%82%ac=1 -> [\xe2\x82\xac|1]",
              "a;b=c -> [a;b|c]", "a=% -> !", "%=a -> !", "a=%4&b=c -> ![b|c]",
              "a=b%00&c=d -> ![c|d]", "%00a=b&c=d -> ![c|d]", "a=%0 -> !");
}

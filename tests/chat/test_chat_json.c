/* The JSON reader and writer of examples/chat. */
#include "chat/json.h"
#include "support/suite.h"

#define VALUES_MAX 64

static json_value values[VALUES_MAX];

static ssize_t read_text(const char *text)
{
    return json_read(values, VALUES_MAX, text, strlen(text));
}

static const struct {
    const char *text;
    ssize_t count;
} valid[] = {
    {"null", 1},
    {" \t\r\n true \n", 1},
    {"-0.5e+10", 1},
    {"0", 1},
    {"1E9", 1},
    {"\"\"", 1},
    {"\"\\u00e9\\ud83d\\ude00\\n\\/\"", 1},
    {"\"\xc3\xa9\xf0\x9f\x98\x80\x7f\"", 1},
    {"[]", 1},
    {"{}", 1},
    {"[ 1 , [ ] , { } ]", 4},
    {"{\"a\":1,\"b\":{\"a\":2}}", 7},
    {"[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]", 16},
};

TEST_ROWS(valid_texts_are_read, valid)
{
    ck_assert_int_eq(read_text(valid[_i].text), valid[_i].count);
}

static const char *const invalid[] = {
    "",
    " ",
    "nul",
    "nulll",
    "True",
    "1 2",
    "01",
    "-",
    "+1",
    "1.",
    ".5",
    "1e",
    "1e+",
    "0x1",
    "NaN",
    "\"",
    "\"a",
    "'a'",
    "\"\n\"",
    "\"\\x41\"",
    "\"\\u12\"",
    "\"\\u12g4\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"\\ud800x\"",
    "\"\\ud800\\u0041\"",
    "\"\\udc00\"",
    "\"\\",
    "\"\\u",
    "\"\xc3\"",
    "\"\xc0\xaf\"",
    "\"\xe0\x80\xaf\"",
    "\"\xed\xa0\x80\"",
    "\"\xf0\x80\x80\xaf\"",
    "\"\xf4\x90\x80\x80\"",
    "\"\xf5\x80\x80\x80\"",
    "\"\x80\"",
    "\"\xff\"",
    "[",
    "[1",
    "[1,",
    "[1,]",
    "[,1]",
    "[1 2]",
    "]",
    "{",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{a:1}",
    "{1:1}",
    "{\"a\":1 \"b\":2}",
    "{\"a\":1,\"a\":2}",
    "{\"a\":1,\"b\":[{}],\"\\u0061\":2}",
    "[1}",
    "/* */ 1",
    "\xef\xbb\xbf"
    "1",
};

TEST_ROWS(invalid_texts_are_refused, invalid)
{
    ck_assert_int_eq(read_text(invalid[_i]), -EBADMSG);
}

TEST(a_nul_byte_ends_no_text)
{
    ck_assert_int_eq(json_read(values, VALUES_MAX, "1\0", 2), -EBADMSG);
    ck_assert_int_eq(json_read(values, VALUES_MAX, "\"\0\"", 3), -EBADMSG);
    ck_assert_int_eq(json_read(values, VALUES_MAX, "12", 1), 1);
    ck_assert_uint_eq(values[0].bytes, 1);
}

TEST(the_number_of_values_and_their_depth_are_limited)
{
    ck_assert_int_eq(json_read(values, 3, "[1,2]", 5), 3);
    ck_assert_int_eq(json_read(values, 2, "[1,2]", 5), -EMSGSIZE);
    ck_assert_int_eq(read_text("[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]"), -EMSGSIZE);
}

TEST(members_are_found_by_their_decoded_names)
{
    int64_t n = 0;
    char text[16];
    ck_assert_int_gt(read_text("{\"a\":[{\"b\":1}],\"\\u0062\":2,\"c\":\"x\\u00e9\"}"), 0);
    ck_assert_int_eq(json_integer(json_member(values, "b"), &n), 0);
    ck_assert_int_eq(n, 2);
    ck_assert_int_eq(json_decode(json_member(values, "c"), text, sizeof text), 3);
    ck_assert_str_eq(text, "x\xc3\xa9");
    ck_assert_ptr_null(json_member(values, "d"));
    const json_value *inner = json_member(values, "a") + 1;
    ck_assert_int_eq(json_integer(json_member(inner, "b"), &n), 0);
    ck_assert_int_eq(n, 1);
    ck_assert_int_eq(json_integer(json_member(values, "d"), &n), -EINVAL);
    ck_assert_int_eq(json_decode(json_member(values, "b"), text, sizeof text), -EINVAL);
    ck_assert_ptr_null((read_text("[1]"), json_member(values, "a")));
    ck_assert_int_gt(read_text("{\"\\\\u0061\":1}"),
                     0); /* a backslash is a character of the name */
    ck_assert_ptr_nonnull(json_member(values, "\\u0061"));
    ck_assert_ptr_null(json_member(values, "a"));
}

TEST(a_string_fits_with_its_nul_or_fails)
{
    char text[4];
    ck_assert_int_eq(read_text("\"a\\u00e9\""), 1);
    ck_assert_int_eq(json_decode(values, text, 4), 3);
    ck_assert_int_eq(json_decode(values, text, 3), -EMSGSIZE);
    ck_assert_int_eq(json_decode(values, text, 0), -EMSGSIZE);
    ck_assert_int_eq(read_text("\"\""), 1);
    ck_assert_int_eq(json_decode(values, text, 0), -EMSGSIZE);
    ck_assert_int_eq(json_decode(values, text, 1), 0);
}

static const struct {
    const char *text;
    int rc;
    int64_t value;
} integers[] = {
    {"0", 0, 0},
    {"-0", 0, 0},
    {"-12", 0, -12},
    {"9007199254740991", 0, JSON_INTEGER_MAX},
    {"-9007199254740991", 0, -JSON_INTEGER_MAX},
    {"9007199254740992", -EINVAL, 0},
    {"99999999999999999999999999999", -EINVAL, 0},
    {"1.0", -EINVAL, 0},
    {"1e2", -EINVAL, 0},
    {"\"1\"", -EINVAL, 0},
};

TEST_ROWS(integers_are_exact_or_refused, integers)
{
    int64_t n = 0;
    ck_assert_int_eq(read_text(integers[_i].text), 1);
    ck_assert_int_eq(json_integer(values, &n), integers[_i].rc);
    ck_assert_int_eq(n, integers[_i].value);
}

TEST(the_writer_escapes_what_the_reader_decodes)
{
    json_writer w = {0};
    const char *text = "\"\\/\x01\n\t\x7f\xc3\xa9</script>";
    char out[64];
    json_open(&w, '{');
    json_name(&w, "te\"xt");
    json_string(&w, text);
    json_name(&w, "list");
    json_open(&w, '[');
    json_number(&w, -3);
    json_bool(&w, true);
    json_open(&w, '{');
    json_close(&w, '}');
    json_close(&w, ']');
    json_close(&w, '}');
    ck_assert(!w.has_failed);
    ck_assert_int_eq(json_read(values, VALUES_MAX, w.text, w.bytes), 8);
    ck_assert_int_ge(json_decode(json_member(values, "te\"xt"), out, sizeof out), 0);
    ck_assert_str_eq(out, text);
    free(w.text);
}

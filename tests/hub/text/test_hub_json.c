/* The JSON reader: what it accepts, what it rejects, its limits, and how values are found. */
#include "hub/text/json_read.h"
#include "support/cases.h"
#include "support/suite.h"

static weft__json_doc doc;

/* Parse a copy in memory of the exact size, so that ASan finds reads after the end. */
static int parse_bytes(const char *text, size_t bytes)
{
    static char *copy;
    free(copy);
    copy = malloc(bytes > 0 ? bytes : 1);
    memcpy(copy, text, bytes);
    return weft__json_parse(&doc, copy, bytes);
}

static int parse(const char *text)
{
    return parse_bytes(text, strlen(text));
}

static void free_doc(void)
{
    weft__json_free(&doc);
}

FIXTURE(NULL, free_doc)

TEXT_CHECK(is_json, parse(text) == 0 && doc.count > 0)
TEXT_CHECK(is_not_json, parse(text) == -EBADMSG && doc.count == 0)

TEST(every_form_of_a_value_is_accepted)
{
    EACH_TEXT(is_json, "null", "true", "false", "0", "-0", "12", "-1.5", "1e5", "1E+5", "0.1e-07",
              "\"\"", "\"a\"", "[]", "[ ]", "{}", "{ }", "[1]", "[1,2]", "[[],[]]", "[{},{}]",
              "{\"a\":1}", "{\"a\":{\"b\":[1,{}]},\"c\":null}", " \t\r\n[ 1 , 2 ] \n",
              "{ \"a\" : 1 , \"b\" : 2 }", "{\"\":0}", "{\"a\":1,\"a\":2}");
}

TEST(a_text_that_is_not_json_is_rejected)
{
    EACH_TEXT(is_not_json, "", " ", "nul", "nulll", "True", "NaN", "Infinity", "'a'", "a", "+1",
              "01", "-", "-a", "1.", ".5", "1.e5", "1e", "1e+", "0x1", "1a", "[", "]", "{", "}",
              "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1,,2]", "{\"a\"", "{\"a\":", "{\"a\":1",
              "{\"a\":1,", "{\"a\":1,}", "{,\"a\":1}", "{\"a\" 1}", "{a:1}", "{1:2}",
              "{\"a\":1 \"b\":2}", "[}", "{]", "[1}", "{\"a\":1]", "[]]", "{}{}", "1 2", "[]1",
              "//a\n1", "/**/1", "[1]x", "\xef\xbb\xbf[]", "[1:2]", "{\"a\":,}", "{\"a\"::1}",
              "\"a\":1", "[\"a\":1]", "\v1");
    ck_assert_int_eq(parse_bytes("1\0", 2), -EBADMSG);
    ck_assert_int_eq(parse_bytes("\0", 1), -EBADMSG);
    ck_assert_int_eq(weft__json_parse(&doc, NULL, 0), -EBADMSG);
}

TEST(a_string_has_no_control_characters_no_bad_utf8_and_no_bad_escapes)
{
    EACH_TEXT(is_not_json, "\"", "\"a", "\"\\\"", "\"\n\"", "\"\t\"", "\"\x1f\"", "\"\\a\"",
              "\"\\x41\"", "\"\\'\"", "\"\\u\"", "\"\\u004\"", "\"\\u004g\"", "\"\\ud800\"",
              "\"\\ud800x\"", "\"\\ud800\\n\"", "\"\\ud800\\ud800\"", "\"\\udc00\"",
              "\"\\udc00\\ud800\"", "\"\\ud83d\\u", "\"\\ud83d\\ude0", "\"\x80\"", "\"\xc3\"",
              "\"\xc3", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"",
              "\"\xf0\x9f\x98\"", "\"\xf0\x9f\x98", "\"\xff\"", "\"\\", "{\"\\x\":1}",
              "{\"\xc3\":1}");
    EACH_TEXT(is_json, "\"\x7f\"", "\"\xc3\xa4\"", "\"\xf0\x9f\x98\x80\"",
              "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\u0000\"", "\"\\uD83D\\uDE00\"",
              "\"\xef\xbf\xbf\"");
    ck_assert_int_eq(parse_bytes("\"\0\"", 3), -EBADMSG);
}

/* Every prefix of a document is rejected, and reads nothing after its end. */
TEST(a_document_that_is_cut_off_is_rejected)
{
    static const char text[] =
        "{\"a\":[1.5e+3,\"\\ud83d\\ude00\xc3\xa4\",{\"b\":null}],\"c\":true}";
    for (size_t bytes = 0; bytes < sizeof text - 1; bytes++)
        ck_assert_int_eq(parse_bytes(text, bytes), -EBADMSG);
    ck_assert_int_eq(parse(text), 0);
}

/* Return before, repeated n times, with a 1 in the middle, and after, repeated n times. */
static char *repeated(const char *before, const char *after, size_t n)
{
    char *text = malloc(n * (strlen(before) + strlen(after)) + 2), *end = text;
    for (size_t i = 0; i < n; i++)
        end = stpcpy(end, before);
    end = stpcpy(end, "1");
    for (size_t i = 0; i < n; i++)
        end = stpcpy(end, after);
    return text;
}

static void assert_parse_repeated(const char *before, const char *after, size_t n, int expected)
{
    char *text = repeated(before, after, n);
    ck_assert_int_eq(parse(text), expected);
    free(text);
}

TEST(the_depth_and_the_number_of_nodes_are_limited)
{
    assert_parse_repeated("[", "]", WEFT__JSON_DEPTH_MAX, 0);
    assert_parse_repeated("[", "]", WEFT__JSON_DEPTH_MAX + 1, -EMSGSIZE);
    assert_parse_repeated("{\"a\":", "}", WEFT__JSON_DEPTH_MAX, 0);
    assert_parse_repeated("{\"a\":", "}", 100000, -EMSGSIZE);
    static char text[2 * WEFT__JSON_NODES_MAX + 8];
    strcpy(text, "[1");
    for (size_t nodes = 2; nodes < WEFT__JSON_NODES_MAX; nodes++)
        memcpy(text + 2 * nodes - 2, ",1", 3);
    strcat(text, "]");
    ck_assert_int_eq(parse(text), 0);
    ck_assert_uint_eq(doc.count, WEFT__JSON_NODES_MAX);
    strcpy(text + strlen(text) - 1, ",1]");
    ck_assert_int_eq(parse(text), -EMSGSIZE);
    ck_assert_uint_eq(doc.count, 0);
}

TEST(a_member_is_found_by_its_path)
{
    ck_assert_int_eq(parse("{\"a\":1,\"b\":{\"a\":2,\"c\":{\"d\":3}},\"e\":[{\"a\":4}],\"\":5}"),
                     0);
    ck_assert_int_eq(weft__json_integer(&doc, "a", 0), 1);
    ck_assert_int_eq(weft__json_integer(&doc, "b.a", 0), 2);
    ck_assert_int_eq(weft__json_integer(&doc, "b.c.d", 0), 3);
    ck_assert_int_eq(weft__json_integer(&doc, "", 0), 5);
}

static void is_not_found(const char *path)
{
    ck_assert_int_eq(parse("{\"a\":1,\"b\":{\"c\":2},\"e\":[{\"a\":4}],\"f.g\":5,\"h\\u0069\":6}"),
                     0);
    ck_assert_msg(weft__json_find(&doc, path) == NULL, "%s", path);
}

TEST(a_path_without_a_member_finds_nothing)
{
    EACH_TEXT(is_not_found, "", "c", "A", "a.b", "a.", ".a", "b.", "b.c.d", "b.a", "e.a", "e.0",
              "f.g", "hi", "aa");
    ck_assert_int_eq(parse("[{\"a\":1}]"), 0);
    ck_assert_ptr_null(weft__json_find(&doc, "a"));
    ck_assert_int_eq(parse("x"), -EBADMSG);
    ck_assert_ptr_null(weft__json_find(&doc, "a"));
}

TEST(of_members_with_equal_names_the_last_one_counts)
{
    ck_assert_int_eq(parse("{\"a\":1,\"a\":{\"b\":1},\"a\":{\"b\":2,\"b\":3}}"), 0);
    ck_assert_int_eq(weft__json_integer(&doc, "a.b", 0), 3);
}

TEST(children_are_visited_in_order_without_their_own_children)
{
    ck_assert_int_eq(parse("[1,[2,[3]],{\"a\":4},[],5]"), 0);
    static const weft__json_kind kinds[] = {WEFT__JSON_NUMBER, WEFT__JSON_ARRAY, WEFT__JSON_OBJECT,
                                            WEFT__JSON_ARRAY, WEFT__JSON_NUMBER};
    size_t i = 0;
    const weft__json_node *root = doc.nodes;
    for (const weft__json_node *n = weft__json_first(&doc, root); n != NULL;
         n = weft__json_next(&doc, root, n)) {
        ck_assert_uint_lt(i, COUNT_OF(kinds));
        ck_assert_int_eq(n->kind, kinds[i++]);
    }
    ck_assert_uint_eq(i, COUNT_OF(kinds));
    ck_assert_int_eq(parse("[]"), 0);
    ck_assert_ptr_null(weft__json_first(&doc, doc.nodes));
    ck_assert_int_eq(parse("7"), 0);
    ck_assert_ptr_null(weft__json_first(&doc, doc.nodes));
}

TEST(members_of_an_element_are_found_from_the_element)
{
    ck_assert_int_eq(parse("{\"list\":[{\"a\":{\"b\":7}}]}"), 0);
    const weft__json_node *element = weft__json_first(&doc, weft__json_find(&doc, "list"));
    const weft__json_node *found = weft__json_find_in(&doc, element, "a.b");
    ck_assert(found != NULL && weft__slice_is(found->text, "7") &&
              weft__slice_is(found->name, "b"));
    ck_assert(element->name.data == NULL);
}

TEST(an_integer_is_read_only_if_it_fits_and_has_no_fraction)
{
    static const struct {
        const char *text;
        int64_t number;
    } cases[] = {{"0", 0},
                 {"-0", 0},
                 {"9223372036854775807", INT64_MAX},
                 {"-9223372036854775808", INT64_MIN},
                 {"9223372036854775808", 99},
                 {"-9223372036854775809", 99},
                 {"18446744073709551616", 99},
                 {"1.0", 99},
                 {"1e2", 99},
                 {"\"1\"", 99},
                 {"null", 99},
                 {"[1]", 99}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"n\":%s}", cases[i].text);
        ck_assert_int_eq(parse(text), 0);
        ck_assert_msg(weft__json_integer(&doc, "n", 99) == cases[i].number, "%s", text);
        ck_assert_int_eq(weft__json_integer(&doc, "m", 98), 98);
    }
}

TEST(only_true_is_true)
{
    ck_assert_int_eq(parse("{\"a\":true,\"b\":false,\"c\":1,\"d\":\"true\"}"), 0);
    ck_assert(weft__json_is_true(&doc, "a"));
    ck_assert(!weft__json_is_true(&doc, "b") && !weft__json_is_true(&doc, "c"));
    ck_assert(!weft__json_is_true(&doc, "d") && !weft__json_is_true(&doc, "e"));
}

TEST(a_string_is_decoded)
{
    char out[32];
    ck_assert_int_eq(
        parse("{\"s\":\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\\u20AC\\ud83d\\ude00\xc3\xa4\"}"), 0);
    ck_assert_int_eq(weft__json_copy_string(&doc, "s", out, sizeof out), 20);
    ck_assert_str_eq(out, "a\"\\/\b\f\n\r\t\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xc3\xa4");
    ck_assert_int_eq(weft__json_copy_string(&doc, "s", out, 21), 20);
    ck_assert_int_eq(weft__json_copy_string(&doc, "s", out, 20), -EMSGSIZE);
    ck_assert_int_eq(weft__json_copy_string(&doc, "s", out, 0), -EMSGSIZE);
}

TEST(a_value_that_is_not_a_string_without_nul_is_not_copied)
{
    char out[8];
    ck_assert_int_eq(parse("{\"n\":1,\"z\":\"a\\u0000b\",\"e\":\"\"}"), 0);
    ck_assert_int_eq(weft__json_copy_string(&doc, "n", out, sizeof out), -ENOENT);
    ck_assert_int_eq(weft__json_copy_string(&doc, "x", out, sizeof out), -ENOENT);
    ck_assert_int_eq(weft__json_copy_string(&doc, "z", out, sizeof out), -EBADMSG);
    ck_assert_int_eq(weft__json_copy_string(&doc, "e", out, 1), 0);
    ck_assert_int_eq(weft__json_copy_string(&doc, "e", out, 0), -EMSGSIZE);
    ck_assert_int_eq(weft__json_copy_text(NULL, out, sizeof out), -ENOENT);
}

/* A reply of a JetStream server, and the INFO of a server. */
TEST(replies_of_servers_are_read)
{
    ck_assert_int_eq(
        parse("{\"type\":\"io.nats.jetstream.api.v1.stream_create_response\",\"error\":{"
              "\"code\":400,\"err_code\":10058,\"description\":\"stream name already in use"
              "\"}}"),
        0);
    ck_assert_int_eq(weft__json_integer(&doc, "error.err_code", 0), 10058);
    ck_assert_int_eq(
        parse("{\"server_id\":\"ND\",\"max_payload\":1048576,\"headers\":true,\"nonce\":"
              "\"a-b\",\"connect_urls\":[\"10.0.0.1:4222\",\"[::1]:4222\"]} "),
        0);
    ck_assert(weft__json_is_true(&doc, "headers"));
    char url[32];
    const weft__json_node *urls = weft__json_find(&doc, "connect_urls");
    const weft__json_node *first = weft__json_first(&doc, urls);
    ck_assert_int_eq(weft__json_copy_text(weft__json_next(&doc, urls, first), url, sizeof url), 10);
    ck_assert_str_eq(url, "[::1]:4222");
}

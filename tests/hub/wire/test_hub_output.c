/* Operations as bytes of the protocol. */
#include "hub/wire/output.h"
#include "support/cases.h"
#include "support/suite.h"

static weft__buffer out;

static void free_out(void)
{
    weft__buffer_free(&out);
}

FIXTURE(NULL, free_out)

/* Assert the output, and clear it. */
static void assert_output(const char *expected)
{
    ck_assert_uint_eq(out.bytes, strlen(expected));
    ck_assert_mem_eq(out.data, expected, out.bytes);
    out.bytes = 0;
}

static weft__publication publication(const char *reply, const char *headers, const char *payload)
{
    return (weft__publication){weft__slice_of("a.b"), weft__slice_of(reply),
                               weft__slice_of(headers), weft__slice_of(payload)};
}

static const struct {
    const char *reply, *headers, *payload, *pub, *msg;
} messages[] = {
    {NULL, NULL, NULL, "PUB a.b 0\r\n\r\n", "MSG a.b 7 0\r\n\r\n"},
    {NULL, NULL, "hello", "PUB a.b 5\r\nhello\r\n", "MSG a.b 7 5\r\nhello\r\n"},
    {"in.1", NULL, "x", "PUB a.b in.1 1\r\nx\r\n", "MSG a.b 7 in.1 1\r\nx\r\n"},
    {NULL, "NATS/1.0\r\n\r\n", NULL, "HPUB a.b 12 12\r\nNATS/1.0\r\n\r\n\r\n",
     "HMSG a.b 7 12 12\r\nNATS/1.0\r\n\r\n\r\n"},
    {"in.1", "NATS/1.0\r\n\r\n", "0123456789",
     "HPUB a.b in.1 12 22\r\nNATS/1.0\r\n\r\n0123456789\r\n",
     "HMSG a.b 7 in.1 12 22\r\nNATS/1.0\r\n\r\n0123456789\r\n"},
};

TEST_ROWS(a_message_is_written_with_its_sizes, messages)
{
    weft__publication p =
        publication(messages[_i].reply, messages[_i].headers, messages[_i].payload);
    ck_assert_int_eq(weft__output_pub(&out, &p), 0);
    assert_output(messages[_i].pub);
    ck_assert_int_eq(weft__output_msg(&out, &p, 7), 0);
    assert_output(messages[_i].msg);
}

TEST(the_largest_numbers_fit)
{
    weft__publication p = publication("r", "h", "p");
    ck_assert_int_eq(weft__output_msg(&out, &p, UINT64_MAX), 0);
    assert_output("HMSG a.b 18446744073709551615 r 1 2\r\nhp\r\n");
}

TEST(subscriptions_are_written)
{
    ck_assert_int_eq(weft__output_sub(&out, weft__slice_of("a.*"), weft__slice_of(NULL), 0), 0);
    assert_output("SUB a.* 0\r\n");
    ck_assert_int_eq(weft__output_sub(&out, weft__slice_of(">"), weft__slice_of("q"), UINT64_MAX),
                     0);
    assert_output("SUB > q 18446744073709551615\r\n");
    ck_assert_int_eq(weft__output_unsub(&out, 12), 0);
    assert_output("UNSUB 12\r\n");
}

TEST(operations_are_appended)
{
    weft__publication p = publication(NULL, NULL, "x");
    ck_assert_int_eq(weft__output_text(&out, "PING\r\n"), 0);
    ck_assert_int_eq(weft__output_pub(&out, &p), 0);
    ck_assert_int_eq(weft__output_printf(&out, "-ERR '%s %d'\r\n", "no", 5), 0);
    ck_assert_int_eq(weft__output_text(&out, ""), 0);
    assert_output("PING\r\nPUB a.b 1\r\nx\r\n-ERR 'no 5'\r\n");
}

TEST(formatted_text_of_any_length_is_appended)
{
    size_t sum = 0;
    for (int length = 0; length < 2000; length += 7) {
        ck_assert_int_eq(weft__output_printf(&out, "%0*d", length + 1, length), 0);
        sum += (size_t)length + 1;
        ck_assert_uint_eq(out.bytes, sum);
        ck_assert_int_eq(out.data[sum - 1], '0' + length % 10);
    }
}

TEST(a_payload_may_have_any_bytes)
{
    weft__publication p = {.subject = weft__slice_of("a"), .payload = {"\0\r\n\0", 4}};
    ck_assert_int_eq(weft__output_pub(&out, &p), 0);
    ck_assert_uint_eq(out.bytes, sizeof "PUB a 4\r\n0rn0\r\n" - 1);
    ck_assert_mem_eq(out.data, "PUB a 4\r\n\0\r\n\0\r\n", out.bytes);
}

TEST(a_message_that_is_too_large_for_memory_leaves_the_output_unchanged)
{
    weft__publication p = publication(NULL, NULL, NULL);
    ck_assert_int_eq(weft__output_text(&out, "PING\r\n"), 0);
    size_t sizes[] = {SIZE_MAX, SIZE_MAX - 100, SIZE_MAX / 2};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        p.payload = (weft__slice){"", sizes[i]};
        p.headers = (weft__slice){"", i == 1 ? SIZE_MAX : 0};
        ck_assert_int_eq(weft__output_pub(&out, &p), -ENOMEM);
    }
    assert_output("PING\r\n");
}

TEST(a_json_string_has_quotes_and_escapes)
{
    static const struct {
        const char *text, *json;
    } cases[] = {{"", "\"\""},
                 {"a", "\"a\""},
                 {"\"\\\r\n", "\"\\\"\\\\\\u000d\\u000a\""},
                 {"\xc3\xa4", "\"\\u00e4\""},
                 {"\xf0\x9f\x98\x80", "\"\\ud83d\\ude00\""},
                 {"\xff", "\"\\u00ff\""}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        ck_assert_int_eq(weft__output_json_string(&out, cases[i].text), 0);
        assert_output(cases[i].json);
    }
}

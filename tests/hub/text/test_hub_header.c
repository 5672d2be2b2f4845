/* Blocks of headers: status, fields, numbers, and blocks that are not well-formed. */
#include "hub/text/header.h"
#include "support/cases.h"
#include "support/suite.h"

#define V "NATS/1.0"
#define BLOCK(text) weft__slice_of(text)

TEXT_CHECK(is_block, weft__header_is_valid(BLOCK(text)))
TEXT_CHECK(is_not_block, !weft__header_is_valid(BLOCK(text)))

TEST(a_block_has_a_version_fields_and_an_empty_line)
{
    EACH_TEXT(is_block, V "\r\n\r\n", V " 503\r\n\r\n", V " 404 No Messages\r\n\r\n",
              V "\r\na: b\r\n\r\n", V "\r\na:b\r\nc:\r\n\r\n", V " 100 Idle\r\nX-y:  z \r\n\r\n",
              V "\r\na: \xc3\xa4\tb:c\r\n\r\n");
}

TEST(a_malformed_block_is_not_valid)
{
    EACH_TEXT(is_not_block, "", "\r\n", V, V "\r\n", V "\n\n", V "\r\n\n", "NATS/1.1\r\n\r\n",
              "nats/1.0\r\n\r\n", V "x\r\n\r\n", V "503\r\n\r\n", V " 50\r\n\r\n",
              V " 5034\r\n\r\n", V " 099\r\n\r\n", V " abc\r\n\r\n", V " 503 \x01\r\n\r\n",
              V "\r\na\r\n\r\n", V "\r\n: b\r\n\r\n", V "\r\na b: c\r\n\r\n",
              V "\r\na: b\rc\r\n\r\n", V "\r\na: b\nc\r\n\r\n", V "\r\na: b\r\n",
              V "\r\na: b\r\n\r\nx", V "\r\n\r\n\r\n", V "\r\na: \x7f\r\n\r\n",
              V "\r\n\xc3\xa4: b\r\n\r\n");
    ck_assert(!weft__header_is_valid((weft__slice){NULL, 0}));
    ck_assert(!weft__header_is_valid((weft__slice){V "\r\na: \0\r\n\r\n", 17}));
}

TEST(the_status_has_three_digits_and_an_optional_text)
{
    static const struct {
        const char *block;
        int status;
        const char *text;
    } cases[] = {
        {V " 503\r\n\r\n", 503, ""},
        {V " 100 Idle Heartbeat\r\nNats-Last-Consumer: 1\r\n\r\n", 100, "Idle Heartbeat"},
        {V " 409  Consumer Deleted \r\n\r\n", 409, "Consumer Deleted"},
        {V "\t999\ta\r\n\r\n", 999, "a"},
        {V "\r\n\r\n", 0, ""},
        {V " 099 x\r\n\r\n", 0, ""},
        {V " 5x3 x\r\n\r\n", 0, ""},
        {V " 5034\r\n\r\n", 0, ""},
        {V " 50", 0, ""},
        {"", 0, ""},
        {"HTTP/1.1 503 x\r\n\r\n", 0, ""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        ck_assert_int_eq(weft__header_status(BLOCK(cases[i].block)), cases[i].status);
        weft__slice text = weft__header_status_text(BLOCK(cases[i].block));
        ck_assert_uint_eq(text.bytes, strlen(cases[i].text));
        ck_assert_int_eq(strncmp(cases[i].text, text.bytes > 0 ? text.data : "", text.bytes), 0);
    }
}

/* Return the value of the field "Id", or "none". */
static const char *id_in(const char *block)
{
    static char value[64];
    weft__slice found = weft__header_find(BLOCK(block), "Id");
    if (found.data == NULL)
        return "none";
    snprintf(value, sizeof value, "%.*s", (int)found.bytes, found.data);
    return value;
}

PAIR_CHECK(has_id, id_in(input))

TEST(a_field_is_found_by_its_name_without_regard_to_case)
{
    EACH_PAIR(has_id, V "\r\nId: 7\r\n\r\n -> 7", V "\r\nid:7\r\n\r\n -> 7",
              V "\r\nID: \t a b \t\r\n\r\n -> a b", V "\r\nId:\r\n\r\n -> ",
              V "\r\na: b\r\nId: 1\r\nId: 2\r\n\r\n -> 1", V "\r\nId: a:b\r\n\r\n -> a:b");
}

TEST(a_field_is_not_found_by_a_part_of_its_name_nor_in_a_value_or_after_the_block)
{
    EACH_PAIR(has_id, V "\r\n\r\n -> none", V "\r\nIdx: 1\r\n\r\n -> none",
              V "\r\nxId: 1\r\n\r\n -> none", V "\r\nI: 1\r\n\r\n -> none",
              V "\r\na: Id: 1\r\n\r\n -> none", V "\r\n\r\nId: 1\r\n\r\n -> none",
              V "\r\na: b\nId: 1\r\n\r\n -> none", V " Id: 1\r\n\r\n -> none", " -> none");
}

TEST(a_malformed_line_does_not_hide_later_fields)
{
    EACH_PAIR(has_id, V "\r\nx\r\nId: 1\r\n\r\n -> 1", V "\r\nId: 1\r\nunfinished -> 1");
}

TEST(a_number_is_read_only_if_the_whole_value_is_a_number)
{
    static const struct {
        const char *value;
        uint64_t number;
    } cases[] = {{"0", 0},
                 {" 17 ", 17},
                 {"18446744073709551615", UINT64_MAX},
                 {"18446744073709551616", 99},
                 {"99999999999999999999999", 99},
                 {"", 99},
                 {"-1", 99},
                 {"1x", 99},
                 {"1 2", 99}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char block[128];
        snprintf(block, sizeof block, V "\r\nSeq: %s\r\n\r\n", cases[i].value);
        ck_assert_uint_eq(weft__header_number(BLOCK(block), "seq", 99), cases[i].number);
    }
    ck_assert_uint_eq(weft__header_number(BLOCK(V "\r\n\r\n"), "seq", 98), 98);
}

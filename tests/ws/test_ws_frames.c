/*
 * The frames of a peer: what RFC 6455 requires of the receiving side. A raw client sends the bytes.
 */
#include "support/suite.h"
#include "ws/ws_support.h"

FIXTURE(NULL, ws_end_test)

/* Assert that bytes in hexadecimal notation are refused with a code. */
static void assert_hex_refused(const char *hex, const char *code)
{
    ws_open((weft_ws_options){0}, "");
    raw_send_hex(hex);
    ws_expect_refusal((unsigned)atoi(code), -EBADMSG);
}

TEST(messages_of_all_lengths_are_echoed)
{
    static const size_t lengths[] = {0,   1,    7,    8,    31,   32,   33,    125,   126,
                                     127, 4095, 4096, 4097, 8191, 8192, 65535, 65536, 69999};
    static char data[70000];
    ws_open((weft_ws_options){0}, "");
    fill_from((unsigned char *)data, sizeof data, 0);
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        raw_send(FIN | BINARY, data, lengths[i]);
        expect_frame(FIN | BINARY, data, lengths[i]);
        ck_assert(!got.is_masked);
    }
}

TEST(a_message_that_arrives_byte_by_byte_is_complete)
{
    static const char text[] = "h\xc3\xa9llo";
    ws_open((weft_ws_options){0}, "");
    unsigned char frame[64];
    size_t n = put_header(frame, FIN | TEXT, sizeof text - 1, true);
    for (size_t i = 0; i < sizeof text - 1; i++)
        frame[n + i] = (unsigned char)text[i] ^ frame[2 + i % 4];
    for (size_t i = 0; i < n + sizeof text - 1; i++) {
        raw_write(frame + i, 1);
        let_run();
    }
    expect_text(text);
}

TEST(fragments_are_joined_with_control_frames_between_them)
{
    ws_open((weft_ws_options){0}, "");
    raw_send(TEXT, "Hel", 3);
    raw_send(FIN | PING, "a", 1);
    expect_frame(FIN | PONG, "a", 1);
    raw_send(CONT, "", 0);
    raw_send(FIN | PONG, "unasked", 7);
    raw_send(CONT, "lo", 2);
    raw_send(FIN | CONT, "", 0);
    expect_text("Hello");
    raw_send(BINARY, "", 0);
    raw_send(FIN | CONT, "", 0);
    expect_frame(FIN | BINARY, "", 0);
}

TEST(each_ping_is_answered_in_order)
{
    ws_open((weft_ws_options){0}, "");
    unsigned char frames[10 * 7];
    for (unsigned i = 0; i < 10; i++) {
        put_header(frames + 7 * i, FIN | PING, 1, true);
        frames[7 * i + 6] = (unsigned char)('0' + i) ^ 0x12;
    }
    raw_write(frames, sizeof frames);
    for (unsigned i = 0; i < 10; i++)
        expect_frame(FIN | PONG, format("%u", i), 1);
    char payload[125];
    memset(payload, 0xfe, sizeof payload);
    raw_send(FIN | PING, payload, sizeof payload);
    expect_frame(FIN | PONG, payload, sizeof payload);
}

/* The mask is 00000000 in the following frames. */
TEST(violations_of_the_framing_are_refused)
{
    EACH_PAIR(assert_hex_refused, "81 01 61 -> 1002", /* no mask */
              "C1 81 00000000 61 -> 1002",            /* RSV1 without an extension */
              "A1 81 00000000 61 -> 1002", "91 81 00000000 61 -> 1002", /* RSV2, RSV3 */
              "F1 81 00000000 61 -> 1002", "D9 80 00000000 -> 1002", /* RSV1 on a control frame */
              "83 80 00000000 -> 1002", "84 80 00000000 -> 1002", "85 80 00000000 -> 1002",
              "86 80 00000000 -> 1002", "87 80 00000000 -> 1002", "8B 80 00000000 -> 1002",
              "8C 80 00000000 -> 1002", "8D 80 00000000 -> 1002", "8E 80 00000000 -> 1002",
              "8F 80 00000000 -> 1002",                  /* reserved opcodes */
              "09 80 00000000 -> 1002",                  /* a fragmented ping */
              "08 80 00000000 -> 1002",                  /* a fragmented close */
              "89 FE 007E 00000000 -> 1002",             /* a ping of 126 bytes */
              "89 FF 0000000000010000 00000000 -> 1002", /* a ping of 64 KiB */
              "88 FE 007E 00000000 -> 1002",             /* a close of 126 bytes */
              "82 FE 007D 00000000 -> 1002",             /* 125 as 16 bits */
              "82 FE 0000 00000000 -> 1002",             /* 0 as 16 bits */
              "82 FF 000000000000FFFF 00000000 -> 1002", /* 65535 as 64 bits */
              "82 FF 8000000000000000 00000000 -> 1002", /* the top bit */
              "82 FF FFFFFFFFFFFFFFFF 00000000 -> 1002", /* the top bit */
              "80 80 00000000 -> 1002",                  /* a last fragment alone */
              "00 80 00000000 -> 1002",                  /* a fragment alone */
              "01 80 00000000 81 80 00000000 -> 1002",   /* a text inside a text */
              "02 80 00000000 01 80 00000000 -> 1002");  /* a text inside a binary message */
}

TEST(text_that_is_not_utf_8_is_refused)
{
    EACH_PAIR(assert_hex_refused, "81 81 00000000 FF -> 1007", "81 82 00000000 C0AF -> 1007",
              "81 83 00000000 EDA080 -> 1007",                 /* a surrogate */
              "81 84 00000000 F4908080 -> 1007",               /* above U+10FFFF */
              "81 82 00000000 E282 -> 1007",                   /* incomplete */
              "01 82 00000000 E282 80 81 00000000 41 -> 1007", /* across fragments */
              "01 82 00000000 E282 80 80 00000000 -> 1007");   /* incomplete at the end */
}

/* The frame announces more bytes than arrive. */
TEST(invalid_text_is_refused_before_the_frame_is_complete)
{
    EACH_PAIR(assert_hex_refused, "81 FE 0200 00000000 61F490 -> 1007",
              "01 81 00000000 61 80 FE 4000 00000000 FE -> 1007");
}

TEST(text_is_valid_if_a_character_is_divided_between_fragments)
{
    static const char text[] = "\xce\xba\xe1\xbd\xb9\xcf\x83\xf0\x9f\x98\x80";
    ws_open((weft_ws_options){0}, "");
    for (size_t i = 0; i < sizeof text - 1; i++)
        raw_send((i == 0 ? TEXT : CONT) | (i == sizeof text - 2 ? FIN : 0u), text + i, 1);
    expect_text(text);
}

TEST(binary_messages_are_not_checked)
{
    ws_open((weft_ws_options){0}, "");
    raw_send(FIN | BINARY, "\xff\xfe\x00\xc0", 4);
    expect_frame(FIN | BINARY, "\xff\xfe\x00\xc0", 4);
}

/*
 * Closes.
 */

static void assert_close_accepted(const char *text)
{
    unsigned code = (unsigned)atoi(text);
    ws_open((weft_ws_options){0}, "");
    raw_send_close(code, "bye");
    expect_close(code);
    raw_expect_end();
    ws_end();
    ck_assert_int_eq(echo_server.result, 0);
    ck_assert_int_eq(echo_server.code, (int)code);
    ck_assert_str_eq(echo_server.reason, "bye");
}

TEST(a_close_frame_is_answered_with_its_code_and_the_server_ends_the_connection)
{
    EACH_TEXT(assert_close_accepted, "1000", "1001", "1002", "1003", "1007", "1008", "1009", "1010",
              "1011", "1012", "1013", "1014", "3000", "3999", "4000", "4999");
}

TEST(a_close_frame_without_a_code_is_answered_without_a_code)
{
    ws_open((weft_ws_options){0}, "");
    raw_send(FIN | CLOSE, "", 0);
    expect_close(0);
    raw_expect_end();
    ws_end();
    ck_assert_int_eq(echo_server.result, 0);
    ck_assert_int_eq(echo_server.code, WEFT_WS_NO_CODE);
}

/* The codes are 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535. */
TEST(invalid_close_frames_are_refused)
{
    EACH_PAIR(
        assert_hex_refused, "88 81 00000000 03 -> 1002", "88 82 00000000 0000 -> 1002",
        "88 82 00000000 03E7 -> 1002", "88 82 00000000 03EC -> 1002", "88 82 00000000 03ED -> 1002",
        "88 82 00000000 03EE -> 1002", "88 82 00000000 03F7 -> 1002", "88 82 00000000 03F8 -> 1002",
        "88 82 00000000 044C -> 1002", "88 82 00000000 07D0 -> 1002", "88 82 00000000 0BB7 -> 1002",
        "88 82 00000000 1388 -> 1002", "88 82 00000000 FFFF -> 1002",
        "88 83 00000000 03E8FF -> 1007", "88 84 00000000 03E8E282 -> 1007");
}

/* The payload of the ping would make the code valid. */
TEST(a_close_frame_with_half_a_code_is_refused)
{
    ws_open((weft_ws_options){0}, "");
    raw_send(FIN | PING, "\x03\xe8", 2);
    expect_frame(FIN | PONG, "\x03\xe8", 2);
    raw_send(FIN | CLOSE, "\x03", 1);
    ws_expect_refusal(1002, -EBADMSG);
}

TEST(frames_after_a_close_frame_are_ignored)
{
    ws_open((weft_ws_options){0}, "");
    raw_send_hex("88 82 00000000 03E8  81 81 00000000 61  89 80 00000000  FF FF FF");
    expect_close(1000);
    raw_expect_end();
    ws_end();
    ck_assert_int_eq(echo_server.result, 0);
    ck_assert_uint_eq(echo_server.messages, 0);
}

TEST(an_end_without_a_close_frame_is_an_error)
{
    ws_open((weft_ws_options){0}, "");
    raw_send_hex("81 85 00000000 61");
    weft_shutdown(client.fd, SHUT_WR);
    raw_expect_end();
    ws_end();
    ck_assert_int_eq(echo_server.result, -ECONNRESET);
    ck_assert_int_eq(echo_server.code, WEFT_WS_ABNORMAL);
}

/*
 * Limits.
 */

TEST(a_frame_beyond_its_limit_is_refused_before_its_payload)
{
    ws_open((weft_ws_options){.frame_bytes_max = 100}, "");
    raw_send(FIN | BINARY, format("%100d", 1), 100);
    expect_frame(FIN | BINARY, format("%100d", 1), 100);
    raw_send_hex("82 E5 00000000");
    ws_expect_refusal(1009, -EMSGSIZE);
}

TEST(a_message_beyond_its_limit_is_refused_before_its_last_payload)
{
    ws_open((weft_ws_options){.message_bytes_max = 100}, "");
    raw_send(BINARY, format("%60d", 1), 60);
    raw_send(FIN | CONT, format("%40d", 1), 40);
    ck_assert(raw_recv());
    ck_assert_uint_eq(got.bytes, 100);
    raw_send(BINARY, format("%60d", 1), 60);
    raw_send_hex("80 A9 00000000");
    ws_expect_refusal(1009, -EMSGSIZE);
}

TEST(the_default_limits_are_1_mib)
{
    ws_open((weft_ws_options){0}, "");
    raw_send_hex("82 FF 0000000000100001 00000000");
    ws_expect_refusal(1009, -EMSGSIZE);
}

TEST(a_huge_length_needs_no_memory_before_its_bytes_arrive)
{
    ws_open((weft_ws_options){.frame_bytes_max = SIZE_MAX, .message_bytes_max = SIZE_MAX}, "");
    raw_send_hex("82 FF 7FFFFFFFFFFFFFFF 00000000 6162");
    weft_shutdown(client.fd, SHUT_WR);
    raw_expect_end();
    ws_end();
    ck_assert_int_eq(echo_server.result, -ECONNRESET);
}

TEST(a_message_of_too_many_empty_frames_is_refused)
{
    static unsigned char frames[1000][6];
    ws_open((weft_ws_options){0}, "");
    raw_send(TEXT, "x", 1);
    for (size_t i = 0; i < COUNT_OF(frames); i++)
        put_header(frames[i], CONT, 0, true);
    for (size_t left = 65537; left > 0;) {
        size_t n = left < COUNT_OF(frames) ? left : COUNT_OF(frames);
        raw_write(frames, n * 6);
        left -= n;
    }
    ws_expect_refusal(1008, -EMSGSIZE);
}

TEST(many_fragments_with_payload_are_one_message)
{
    enum { COUNT = 9000 };
    static unsigned char frames[COUNT][7];
    static char text[COUNT];
    ws_open((weft_ws_options){0}, "");
    for (size_t i = 0; i < COUNT; i++) {
        put_header(frames[i], i == 0 ? TEXT : i == COUNT - 1 ? FIN | CONT : CONT, 1, true);
        frames[i][6] = 'a' ^ 0x12;
    }
    memset(text, 'a', sizeof text);
    raw_write(frames, sizeof frames);
    expect_frame(FIN | TEXT, text, sizeof text);
}

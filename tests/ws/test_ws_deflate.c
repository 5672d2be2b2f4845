/* permessage-deflate on connections: the reserved bit, limits, and combinations of parameters. */
#include "support/suite.h"
#include "ws/ws_support.h"

#include <zlib.h>

FIXTURE(NULL, ws_end_test)

#define OFFER "Sec-WebSocket-Extensions: permessage-deflate\r\n"

/* The compressor of the raw client. */
static z_stream deflater, inflater;

static size_t raw_deflate(const char *data, size_t bytes, char *to, size_t room)
{
    deflater.next_in = (Bytef *)(uintptr_t)data;
    deflater.avail_in = (uInt)bytes;
    deflater.next_out = (Bytef *)to;
    deflater.avail_out = (uInt)room;
    ck_assert_int_eq(deflate(&deflater, Z_SYNC_FLUSH), Z_OK);
    ck_assert_uint_gt(deflater.avail_out, 0);
    return room - deflater.avail_out - 4;
}

/* Decompress the payload of got. Return the length. */
static size_t raw_inflate(char *to, size_t room)
{
    memcpy(got.data + got.bytes, "\0\0\xff\xff", 4);
    inflater.next_in = got.data;
    inflater.avail_in = (uInt)got.bytes + 4;
    inflater.next_out = (Bytef *)to;
    inflater.avail_out = (uInt)room;
    ck_assert_int_eq(inflate(&inflater, Z_SYNC_FLUSH), Z_OK);
    ck_assert_uint_eq(inflater.avail_in, 0);
    return room - inflater.avail_out;
}

static void codecs_open(int deflate_bits, int inflate_bits)
{
    ck_assert_int_eq(deflateInit2(&deflater, 6, Z_DEFLATED, -deflate_bits, 8, Z_DEFAULT_STRATEGY),
                     Z_OK);
    ck_assert_int_eq(inflateInit2(&inflater, -inflate_bits), Z_OK);
}

static void codecs_close(void)
{
    deflateEnd(&deflater);
    inflateEnd(&inflater);
}

/* What a client offers, what the server replies, and which contexts then continue. */
static const struct {
    const char *offer;
    const char *reply;
    int client_bits, server_bits;
    bool client_resets, server_resets;
    bool is_server_forgetful; /* the option has_no_context_takeover */
} rows[] = {
    {"permessage-deflate", "permessage-deflate", 15, 15, false, false, false},
    {"permessage-deflate; client_max_window_bits", "permessage-deflate", 15, 15, false, false,
     false},
    {"permessage-deflate; client_no_context_takeover",
     "permessage-deflate; client_no_context_takeover", 15, 15, true, false, false},
    {"permessage-deflate; server_no_context_takeover",
     "permessage-deflate; server_no_context_takeover", 15, 15, false, true, false},
    {"permessage-deflate; server_max_window_bits=9; client_max_window_bits=9",
     "permessage-deflate; server_max_window_bits=9; client_max_window_bits=9", 9, 9, false, false,
     false},
    {"permessage-deflate; server_max_window_bits=12; client_max_window_bits=10; "
     "client_no_context_takeover; server_no_context_takeover",
     "permessage-deflate; server_no_context_takeover; client_no_context_takeover; "
     "server_max_window_bits=12; client_max_window_bits=10",
     10, 12, true, true, false},
    {"permessage-deflate",
     "permessage-deflate; server_no_context_takeover; "
     "client_no_context_takeover",
     15, 15, true, true, true},
};

TEST_ROWS(messages_are_compressed_in_both_directions, rows)
{
    static char data[60000], sent[70000], received[70000];
    ws_open((weft_ws_options){.has_no_context_takeover = rows[_i].is_server_forgetful},
            format("Sec-WebSocket-Extensions: %s\r\n", rows[_i].offer));
    ck_assert_has(client.received, format("\r\nSec-WebSocket-Extensions: %s\r\n", rows[_i].reply));
    codecs_open(rows[_i].client_bits, rows[_i].server_bits);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)('a' + byte_at(i) % 20);
    for (size_t bytes = 1; bytes < sizeof data; bytes = bytes * 2 + 100) {
        size_t n = raw_deflate(data, bytes, sent, sizeof sent);
        raw_send(FIN | RSV1 | TEXT, sent, n);
        ck_assert(raw_recv());
        ck_assert_uint_eq(got.first, bytes < 64 ? FIN | TEXT : FIN | RSV1 | TEXT);
        if (got.first & RSV1) {
            ck_assert_uint_eq(raw_inflate(received, sizeof received), bytes);
            ck_assert_int_eq(memcmp(received, data, bytes), 0);
        }
        if (rows[_i].client_resets)
            deflateReset(&deflater);
        if (rows[_i].server_resets)
            inflateReset(&inflater);
    }
    codecs_close();
}

TEST(a_server_whose_window_is_too_small_for_zlib_does_not_compress)
{
    static char data[1000];
    ws_open((weft_ws_options){0},
            "Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=8\r\n");
    memset(data, 'a', sizeof data);
    raw_send(FIN | TEXT, data, sizeof data);
    expect_frame(FIN | TEXT, data, sizeof data);
}

TEST(fragments_of_a_compressed_message_are_joined)
{
    char sent[200], received[200];
    ws_open((weft_ws_options){.deflate_bytes_min = 1}, OFFER);
    codecs_open(15, 15);
    size_t n = raw_deflate("Hello, Hello, Hello", 19, sent, sizeof sent);
    for (size_t i = 0; i < n; i++) {
        raw_send(i == 0 ? RSV1 | TEXT : CONT, sent + i, 1);
        raw_send(FIN | PING, "", 0);
        expect_frame(FIN | PONG, "", 0);
    }
    raw_send(FIN | CONT, "", 0);
    ck_assert(raw_recv());
    ck_assert_uint_eq(got.first, FIN | RSV1 | TEXT);
    ck_assert_uint_eq(raw_inflate(received, sizeof received), 19);
    ck_assert_int_eq(memcmp(received, "Hello, Hello, Hello", 19), 0);
    codecs_close();
}

TEST(uncompressed_messages_are_allowed_between_compressed_ones)
{
    char sent[200];
    ws_open((weft_ws_options){0}, OFFER);
    codecs_open(15, 15);
    for (int i = 0; i < 3; i++) {
        raw_send(FIN | TEXT, "plain", 5);
        expect_text("plain");
        raw_send(FIN | RSV1 | TEXT, sent, raw_deflate("packed", 6, sent, sizeof sent));
        expect_text("packed");
    }
    codecs_close();
}

TEST(an_empty_message_is_received_in_each_form)
{
    ws_open((weft_ws_options){0}, OFFER);
    raw_send(FIN | RSV1 | TEXT, "\0", 1);
    expect_text("");
    raw_send(FIN | TEXT, "", 0);
    expect_text("");
    raw_send(FIN | RSV1 | TEXT, "", 0); /* not a deflate stream, but clear */
    expect_text("");
    raw_send(RSV1 | BINARY, "", 0);
    raw_send(FIN | CONT, "\0", 1);
    expect_frame(FIN | BINARY, "", 0);
}

/* The mask is 00000000. */
static void assert_hex_refused(const char *hex, const char *code)
{
    ws_open((weft_ws_options){0}, OFFER);
    raw_send_hex(hex);
    ws_expect_refusal((unsigned)atoi(code), -EBADMSG);
}

TEST(the_reserved_bit_is_allowed_only_on_the_first_frame_of_a_message)
{
    EACH_PAIR(assert_hex_refused, "41 80 00000000 C0 80 00000000 -> 1002",
              "01 80 00000000 C0 80 00000000 -> 1002", "C9 80 00000000 -> 1002",
              "C8 80 00000000 -> 1002", "E1 80 00000000 -> 1002", "D1 80 00000000 -> 1002",
              "C0 80 00000000 -> 1002");
}

TEST(malformed_compression_is_refused)
{
    EACH_PAIR(assert_hex_refused, "C1 82 00000000 FFFF -> 1007",
              "C2 87 00000000 00050000004865 -> 1007",
              "C1 85 00000000 F200110000 -> 1007"); /* a reference to an empty context */
}

TEST(a_message_cut_inside_a_block_is_refused)
{
    EACH_PAIR(
        assert_hex_refused, "C1 83 00000000 F248CD -> 1007",
        "41 83 00000000 F248CD 80 80 00000000 -> 1007",
        "C1 86 00000000 000500FAFF48 -> 1007"); /* the end of the block is as long as the tail */
}

TEST(compressed_text_is_refused_at_its_first_invalid_byte)
{
    char sent[200];
    ws_open((weft_ws_options){0}, OFFER);
    codecs_open(15, 15);
    size_t n = raw_deflate("caf\xe9 and more", 13, sent, sizeof sent);
    raw_send(RSV1 | TEXT, sent, n); /* not the last fragment */
    ws_expect_refusal(1007, -EBADMSG);
    codecs_close();
}

TEST(an_incomplete_character_at_the_end_of_compressed_text_is_refused)
{
    char sent[200];
    ws_open((weft_ws_options){0}, OFFER);
    codecs_open(15, 15);
    raw_send(FIN | RSV1 | TEXT, sent, raw_deflate("\xe2\x82", 2, sent, sizeof sent));
    ws_expect_refusal(1007, -EBADMSG);
    codecs_close();
}

TEST(a_message_that_expands_beyond_the_limit_is_refused)
{
    static char zeros[2 << 20], sent[70000];
    ws_open((weft_ws_options){0}, OFFER);
    codecs_open(15, 15);
    size_t n = raw_deflate(zeros, sizeof zeros, sent, sizeof sent);
    ck_assert_uint_lt(n, 4000);
    raw_send(FIN | RSV1 | BINARY, sent, n);
    ws_expect_refusal(1009, -EMSGSIZE);
    codecs_close();
}

TEST(a_message_that_expands_exactly_to_the_limit_is_received)
{
    static char zeros[60000], sent[70000], received[70000];
    ws_open((weft_ws_options){.message_bytes_max = sizeof zeros}, OFFER);
    codecs_open(15, 15);
    raw_send(FIN | RSV1 | BINARY, sent, raw_deflate(zeros, sizeof zeros, sent, sizeof sent));
    ck_assert(raw_recv());
    ck_assert_uint_eq(raw_inflate(received, sizeof received), sizeof zeros);
    raw_send(FIN | RSV1 | BINARY, sent, raw_deflate(zeros, sizeof zeros, sent, sizeof sent));
    ck_assert(raw_recv());
    ck_assert_uint_eq(raw_inflate(received, sizeof received), sizeof zeros);
    codecs_close();
}

/* Empty blocks, which add nothing to the message. */
TEST(compressed_frames_without_content_are_limited)
{
    static unsigned char data[1000][11];
    ws_open((weft_ws_options){0}, OFFER);
    raw_send(RSV1 | TEXT, "\0\0\0\xff\xff", 5);
    for (size_t i = 0; i < COUNT_OF(data); i++) {
        put_header(data[i], CONT, 5, true);
        memcpy(data[i] + 6, "\x12\x34\x56\x87\xed", 5); /* 00 00 00 ff ff, masked */
    }
    for (size_t left = 65537; left > 0;) {
        size_t n = left < COUNT_OF(data) ? left : COUNT_OF(data);
        raw_write(data, n * 11);
        left -= n;
    }
    ws_expect_refusal(1008, -EMSGSIZE);
}

/* Empty final blocks. Each costs a copy of the window. */
TEST(final_blocks_of_a_compressed_message_are_limited)
{
    char blocks[2 * 65];
    ws_open((weft_ws_options){0}, OFFER);
    for (size_t i = 0; i < sizeof blocks; i += 2)
        memcpy(blocks + i, "\x03\0", 2);
    raw_send(FIN | RSV1 | TEXT, blocks, sizeof blocks);
    ws_expect_refusal(1009, -EMSGSIZE);
}

/* On sim a second of silence costs nothing: the context of the peer survives the release. */
TEST(the_context_survives_a_silent_time)
{
    char sent[200], received[200];
    if (!runs_on("sim"))
        return;
    ws_open((weft_ws_options){.deflate_bytes_min = 1}, OFFER);
    codecs_open(15, 15);
    for (int i = 0; i < 4; i++) {
        static const char text[] = "the same text each time, and it is not short";
        size_t n = raw_deflate(text, sizeof text - 1, sent, sizeof sent);
        ck_assert(i == 0 || n < 10);
        raw_send(FIN | RSV1 | TEXT, sent, n);
        ck_assert(raw_recv());
        ck_assert_uint_eq(raw_inflate(received, sizeof received), sizeof text - 1);
        ck_assert_int_eq(weft_sleep(5), 0);
    }
    codecs_close();
}

/* The parts of WebSocket without I/O: UTF-8, SHA-1, headers, masks and extensions. */
#include "http/message/sha1.h"
#include "support/cases.h"
#include "support/net_support.h"
#include "support/suite.h"
#include "ws/deflate.h"
#include "ws/frame.h"
#include "ws/utf8.h"
#include "ws/ws.h"

/*
 * UTF-8.
 */

/* Encode a code point as its definition says, also if it is not valid. */
static size_t encode(uint32_t c, uint8_t *to)
{
    if (c < 0x80) {
        to[0] = (uint8_t)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        to[i] = (uint8_t)(0x80 | (c & 0x3f));
    to[0] = (uint8_t)(first[n] | c);
    return n;
}

TEST(exactly_the_scalar_values_are_valid_text)
{
    for (uint32_t c = 0; c < 0x200000; c++) {
        uint8_t text[4];
        size_t n = encode(c, text);
        bool is_valid = c < 0xd800 || (c > 0xdfff && c < 0x110000);
        if (weft__utf8_is_text(text, n) != is_valid)
            ck_abort_msg("U+%04X", c);
    }
}

/* A plain decoder: the shortest form of a code point, compared with encode. */
static bool reference_is_text(const uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i < bytes;) {
        size_t n = p[i] < 0x80 ? 1 : p[i] < 0xc0 ? 0 : p[i] < 0xe0 ? 2 : p[i] < 0xf0 ? 3 : 4;
        if (n == 0 || p[i] > 0xf7 || n > bytes - i)
            return false;
        uint32_t c = n == 1 ? p[i] : p[i] & (0x7fu >> n);
        for (size_t k = 1; k < n; k++) {
            if ((p[i + k] & 0xc0) != 0x80)
                return false;
            c = c << 6 | (p[i + k] & 0x3f);
        }
        uint8_t shortest[4];
        if (encode(c, shortest) != n || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
            return false;
        i += n;
    }
    return true;
}

/* All sequences of three bytes of interesting classes, in all divisions. */
TEST(divided_and_whole_texts_have_the_same_result)
{
    static const uint8_t classes[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf,
                                      0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee,
                                      0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xf8, 0xff};
    enum { N = COUNT_OF(classes) };
    for (size_t i = 0; i < N * N * N * N; i++) {
        const uint8_t text[] = {classes[i % N], classes[i / N % N], classes[i / N / N % N],
                                classes[i / N / N / N]};
        bool is_valid = reference_is_text(text, sizeof text);
        for (size_t at = 0; at <= sizeof text; at++) {
            weft__utf8 u = {0};
            bool is_whole = weft__utf8_feed(&u, text, at) &&
                            weft__utf8_feed(&u, text + at, sizeof text - at) && u.left == 0;
            ck_assert_int_eq(is_whole, is_valid);
        }
    }
}

TEST(an_invalid_byte_is_found_at_every_offset_of_a_long_text)
{
    char text[100];
    for (size_t at = 0; at < sizeof text; at++) {
        memset(text, 'a', sizeof text);
        ck_assert(weft__utf8_is_text(text, sizeof text));
        text[at] = (char)0xff;
        ck_assert(!weft__utf8_is_text(text, sizeof text));
        ck_assert(weft__utf8_is_text(text, at));
    }
}

/*
 * SHA-1 and keys.
 */

static const char *sha1_hex(const char *text)
{
    static char hex[2 * WEFT__SHA1_BYTES + 1];
    uint8_t hash[WEFT__SHA1_BYTES];
    weft__sha1(text, strlen(text), hash);
    for (size_t i = 0; i < sizeof hash; i++)
        snprintf(hex + 2 * i, 3, "%02x", hash[i]);
    return hex;
}

PAIR_CHECK(check_sha1, sha1_hex(input))

/* The first three are of RFC 3174, 7.3, and FIPS 180. The others surround the block size. */
TEST(sha1_has_the_published_results)
{
    EACH_PAIR(check_sha1, "abc -> a9993e364706816aba3e25717850c26c9cd0d89d",
              " -> da39a3ee5e6b4b0d3255bfef95601890afd80709",
              "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq -> "
              "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
              "0123456789012345678901234567890123456789012345678901234 -> "
              "9f3a4ce7f66b1b74c34da2c5d732c39f81e0f8df",
              "0123456789012345678901234567890123456789012345678901234567890123 -> "
              "cf0800f7644ace3cb4c3fa33388d3ba0ea3c8b6e");
}

/* The example of RFC 6455, 1.3. */
TEST(the_accept_text_is_that_of_the_rfc)
{
    weft__strbuf w = {0};
    weft__ws_add_accept(&w, "dGhlIHNhbXBsZSBub25jZQ==");
    ck_assert_str_eq(w.data, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    free(w.data);
}

TEXT_CHECK(check_key, weft__ws_key_is_valid(text))
TEXT_CHECK(check_no_key, !weft__ws_key_is_valid(text))

TEST(a_key_is_the_code_of_16_bytes)
{
    EACH_TEXT(check_key,
              "dGhlIHNhbXBsZSBub25jZQ==", "AAAAAAAAAAAAAAAAAAAAAA==", "++++++++++//////////9w==");
    EACH_TEXT(check_no_key, "",
              "dGhlIHNhbXBsZSBub25jZQ=", "dGhlIHNhbXBsZSBub25jZQ===", "dGhlIHNhbXBsZSBub25jZQAA",
              "dGhlIHNhbXBsZSBub25jZR==", "dGhlIHNhbXBsZSBub25j*Q==", "dGhlIHNhbXBsZSBub25jZ===",
              "dGhlIHNhbXBsZSBub25jZQ==A", "dGhlIHNhbXBs ZSBub25jZQ=");
    for (int i = 0; i < 50; i++) {
        weft__strbuf w = {0};
        ck_assert_int_eq(weft__ws_add_key(&w), 0);
        ck_assert(weft__ws_key_is_valid(w.data));
        free(w.data);
    }
}

/*
 * Headers and masks.
 */

TEST(headers_are_parsed_as_they_were_formatted)
{
    static const uint64_t lengths[] = {
        0, 1, 125, 126, 127, 4096, 4097, 4098, 65535, 65536, (uint64_t)1 << 32, INT64_MAX};
    for (size_t i = 0; i < COUNT_OF(lengths) * 2; i++) {
        weft__ws_frame parsed = {0};
        const weft__ws_frame frame = {.bytes = lengths[i / 2],
                                      .opcode = i % 3 == 0 ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME,
                                      .rsv = i % 5 == 0 ? WSLAY_RSV1_BIT : 0,
                                      .is_final = i % 7 < 3,
                                      .is_masked = i % 2 == 0,
                                      .key = {1, 2, 3, 4}};
        uint8_t data[WEFT__WS_HEADER_BYTES_MAX];
        ssize_t bytes = weft__ws_frame_format(&frame, data);
        ck_assert_int_eq(bytes, (ssize_t)weft__ws_header_bytes(data));
        ck_assert_int_eq(weft__ws_frame_parse(&parsed, data), 0);
        ck_assert_uint_eq(parsed.bytes, frame.bytes);
        ck_assert_uint_eq(parsed.opcode, frame.opcode);
        ck_assert_uint_eq(parsed.rsv, frame.rsv);
        ck_assert_int_eq(parsed.is_final, frame.is_final);
        ck_assert_int_eq(parsed.is_masked, frame.is_masked);
        ck_assert(!frame.is_masked || memcmp(parsed.key, frame.key, 4) == 0);
    }
}

TEST(a_mask_by_words_equals_a_mask_by_bytes)
{
    static const uint8_t key[4] = {0xa1, 0x02, 0xf3, 0x44};
    unsigned char from[200], to[200];
    fill_from(from, sizeof from, 0);
    for (size_t at = 0; at < 9; at++)
        for (size_t bytes = 0; bytes <= 100; bytes++)
            for (size_t offset = 0; offset < 5; offset++) {
                memset(to, 0, sizeof to);
                weft__ws_mask(to + at, from + offset, bytes, key, offset);
                for (size_t i = 0; i < bytes; i++)
                    ck_assert_uint_eq(to[at + i], from[offset + i] ^ key[(offset + i) % 4]);
                ck_assert_uint_eq(to[at + bytes], 0);
            }
}

/*
 * Subprotocols.
 */

static const char *chosen_protocol(const char *lists)
{
    char wanted[64];
    const char *bar = strchr(lists, '|');
    snprintf(wanted, sizeof wanted, "%.*s", (int)(bar - lists), lists);
    weft__span chosen = weft__ws_protocols_choose(wanted, bar + 1);
    return chosen.at != NULL ? format("%.*s", (int)chosen.bytes, chosen.at) : "";
}

PAIR_CHECK(check_protocol, chosen_protocol(input))

TEST(the_server_chooses_the_first_subprotocol_of_its_own_list)
{
    EACH_PAIR(check_protocol, "a|a -> a", "a, b|b,a -> a", "b , a|a,\tb -> b", "a|A -> ",
              "a|ab, ba -> ", "x, y|y -> y", "|a -> ", "a| -> ");
}

/*
 * Extensions. Without zlib there are none.
 */

#ifdef WEFT_HAS_GZIP

static weft_ws_options wanted_options;

/* Return the server's reply to offers, "none" or "malformed". */
static const char *reply_to(const char *offers)
{
    weft__ws_deflate_params params;
    int rc = weft__ws_extensions_accept(offers, &wanted_options, &params);
    if (rc <= 0)
        return rc == 0 ? "none" : "malformed";
    weft__strbuf w = {0};
    weft__ws_extensions_add_reply(&w, &params);
    const char *reply = format("%s", w.data);
    free(w.data);
    return reply;
}

PAIR_CHECK(check_reply, reply_to(input))

TEST(a_server_accepts_the_first_valid_offer)
{
    EACH_PAIR(
        check_reply, " -> none", "x-unknown -> none", "permessage-deflate -> permessage-deflate",
        "PerMessage-Deflate -> permessage-deflate",
        "permessage-deflate; client_max_window_bits -> permessage-deflate",
        "permessage-deflate;client_max_window_bits = 10 -> "
        "permessage-deflate; client_max_window_bits=10",
        "permessage-deflate; server_max_window_bits=10 -> "
        "permessage-deflate; server_max_window_bits=10",
        "permessage-deflate; server_max_window_bits=\"9\" -> "
        "permessage-deflate; server_max_window_bits=9",
        "permessage-deflate; server_max_window_bits=15 -> "
        "permessage-deflate; server_max_window_bits=15",
        "permessage-deflate; server_max_window_bits=8 -> "
        "permessage-deflate; server_max_window_bits=8",
        "permessage-deflate; server_no_context_takeover -> "
        "permessage-deflate; server_no_context_takeover",
        "permessage-deflate; client_no_context_takeover -> "
        "permessage-deflate; client_no_context_takeover",
        "permessage-deflate; client_no_context_takeover; server_no_context_takeover; "
        "client_max_window_bits=12; server_max_window_bits=11 -> "
        "permessage-deflate; server_no_context_takeover; client_no_context_takeover; "
        "server_max_window_bits=11; client_max_window_bits=12",
        "foo; bar=1, permessage-deflate; x=1, permessage-deflate; server_no_context_takeover -> "
        "permessage-deflate; server_no_context_takeover",
        ", permessage-deflate ,, -> permessage-deflate");
}

TEST(a_server_declines_offers_with_invalid_parameters)
{
    EACH_PAIR(check_reply, "permessage-deflate; unknown -> none",
              "permessage-deflate; server_max_window_bits -> none",
              "permessage-deflate; server_max_window_bits=7 -> none",
              "permessage-deflate; server_max_window_bits=16 -> none",
              "permessage-deflate; server_max_window_bits=08 -> none",
              "permessage-deflate; server_max_window_bits=1e1 -> none",
              "permessage-deflate; client_max_window_bits=100 -> none",
              "permessage-deflate; client_max_window_bits=7 -> none",
              "permessage-deflate; server_no_context_takeover=1 -> none",
              "permessage-deflate; client_no_context_takeover=true -> none",
              "permessage-deflate; server_no_context_takeover; server_no_context_takeover -> none",
              "permessage-deflate; client_max_window_bits; client_max_window_bits=9 -> none",
              "permessage-deflate; server_max_window_bits=9; server_max_window_bits=9 -> none");
}

TEST(malformed_extensions_are_detected)
{
    EACH_PAIR(check_reply, "; -> malformed", "permessage-deflate; -> malformed",
              "permessage-deflate;; a -> malformed", "permessage deflate -> malformed",
              "a; b= -> malformed", "a; b=\"c -> malformed", "a; b=\"\" -> malformed",
              "a=b -> malformed", "a; =b -> malformed", "permessage-deflate, @ -> malformed");
}

TEST(a_server_can_demand_less_memory)
{
    wanted_options = (weft_ws_options){.has_no_context_takeover = true, .deflate_window_bits = 11};
    EACH_PAIR(check_reply,
              "permessage-deflate -> permessage-deflate; server_no_context_takeover; "
              "client_no_context_takeover; server_max_window_bits=11",
              "permessage-deflate; server_max_window_bits=10 -> permessage-deflate; "
              "server_no_context_takeover; client_no_context_takeover; server_max_window_bits=10");
    wanted_options = (weft_ws_options){.has_no_deflate = true};
    EACH_PAIR(check_reply, "permessage-deflate -> none");
}

static weft__ws_deflate_params checked;

/* Check a server's reply to the offer of a client. */
static const char *check_of(const char *reply)
{
    int rc = weft__ws_extensions_check(reply, &wanted_options, &checked);
    if (rc <= 0)
        return rc == 0 ? "none" : "invalid";
    return format("%d %d %s%s", checked.send_bits, checked.recv_bits,
                  checked.resets_send ? "s" : "", checked.resets_recv ? "r" : "");
}

PAIR_CHECK(check_check, check_of(input))

TEST(a_client_checks_the_reply_to_its_offer)
{
    EACH_PAIR(check_check, " -> none", "permessage-deflate -> 15 15 ",
              "permessage-deflate; server_max_window_bits=9 -> 15 9 ",
              "permessage-deflate; client_max_window_bits=10 -> 10 15 ",
              "permessage-deflate; client_max_window_bits=8 -> 8 15 ",
              "permessage-deflate; server_no_context_takeover -> 15 15 r",
              "permessage-deflate; client_no_context_takeover -> 15 15 s",
              "permessage-deflate; client_max_window_bits -> invalid", "other -> invalid",
              "permessage-deflate, permessage-deflate -> invalid",
              "permessage-deflate; unknown -> invalid", "permessage-deflate; -> invalid",
              "permessage-deflate; server_max_window_bits=16 -> invalid");
    wanted_options = (weft_ws_options){.has_no_context_takeover = true, .deflate_window_bits = 12};
    EACH_PAIR(check_check, "permessage-deflate -> invalid",
              "permessage-deflate; server_no_context_takeover -> 12 15 sr",
              "permessage-deflate; server_no_context_takeover; client_max_window_bits=11 -> "
              "11 15 sr",
              "permessage-deflate; server_no_context_takeover; client_max_window_bits=13 -> "
              "invalid");
    wanted_options = (weft_ws_options){.has_no_deflate = true};
    EACH_PAIR(check_check, "permessage-deflate -> invalid", " -> none");
}

TEST(the_offer_of_a_client_names_its_limits)
{
    static const struct {
        weft_ws_options options;
        const char *offer;
    } rows[] = {
        {{0}, "permessage-deflate; client_max_window_bits"},
        {{.deflate_window_bits = 10}, "permessage-deflate; client_max_window_bits=10"},
        {{.has_no_context_takeover = true},
         "permessage-deflate; server_no_context_takeover; client_no_context_takeover; "
         "client_max_window_bits"},
        {{.has_no_deflate = true}, NULL},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        weft__strbuf w = {0};
        weft__ws_extensions_add_offer(&w, &rows[i].options);
        ck_assert_pstr_eq(w.data, rows[i].offer);
        free(w.data);
    }
}

/*
 * Compression.
 */

static weft__buffer compressed, message;

static void codec_open(weft__ws_deflate *d, int bits, bool resets)
{
    *d = (weft__ws_deflate){.params = {.send_bits = (uint8_t)bits,
                                       .recv_bits = (uint8_t)bits,
                                       .resets_send = resets,
                                       .resets_recv = resets},
                            .level = 6};
}

/* Compress a message with one codec, and decompress it with another. */
static size_t round_trip(weft__ws_deflate *from, weft__ws_deflate *to, const char *data,
                         size_t bytes)
{
    compressed.bytes = message.bytes = 0;
    ck_assert_int_eq(weft__ws_deflate_part(from, data, bytes, true, &compressed), 0);
    ck_assert_int_eq(
        weft__ws_inflate_part(to, compressed.data, compressed.bytes, false, &message, SIZE_MAX), 0);
    ck_assert_int_eq(weft__ws_inflate_part(to, "", 0, true, &message, SIZE_MAX), 0);
    ck_assert_uint_eq(message.bytes, bytes);
    ck_assert_int_eq(memcmp(message.data, data, bytes), 0);
    return compressed.bytes;
}

/* Windows of 9 to 15 bits, with and without context takeover, with releases between messages. */
TEST_LOOP(messages_survive_compression, 7 * 2 * 2)
{
    weft__ws_deflate a, b;
    static char data[100000];
    int bits = 9 + _i % 7;
    bool resets = _i / 7 % 2, releases = _i / 14;
    codec_open(&a, bits, resets);
    codec_open(&b, bits, resets);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(byte_at(i) % 7 + i / 1000 % 26);
    size_t first = 0, again = 0;
    for (size_t bytes = 0; bytes < sizeof data; bytes = bytes * 3 + 1) {
        round_trip(&a, &b, data, bytes);
        if (releases) {
            weft__ws_deflate_release(&a);
            weft__ws_deflate_release(&b);
        }
    }
    first = round_trip(&a, &b, data, 400);
    again = round_trip(&a, &b, data, 400);
    ck_assert(resets ? again == first : again < 60);
    weft__ws_deflate_close(&a);
    weft__ws_deflate_close(&b);
    weft__buffer_free(&compressed);
    weft__buffer_free(&message);
}

TEST(a_message_is_compressed_in_parts)
{
    weft__ws_deflate a, b;
    codec_open(&a, 15, false);
    codec_open(&b, 15, false);
    static const char *const parts[] = {"Hello, ", "", "Hello, ", "World", ""};
    for (int round = 0; round < 3; round++) {
        message.bytes = 0;
        for (size_t i = 0; i < COUNT_OF(parts); i++) {
            bool is_last = i == COUNT_OF(parts) - 1;
            compressed.bytes = 0;
            ck_assert_int_eq(
                weft__ws_deflate_part(&a, parts[i], strlen(parts[i]), is_last, &compressed), 0);
            ck_assert_int_eq(weft__ws_inflate_part(&b, compressed.data, compressed.bytes, is_last,
                                                   &message, SIZE_MAX),
                             0);
        }
        ck_assert_uint_eq(message.bytes, strlen("Hello, Hello, World"));
        ck_assert_int_eq(memcmp(message.data, "Hello, Hello, World", message.bytes), 0);
    }
    weft__ws_deflate_close(&a);
    weft__ws_deflate_close(&b);
    weft__buffer_free(&compressed);
    weft__buffer_free(&message);
}

static int inflate_hex(weft__ws_deflate *d, const char *hex, size_t max)
{
    unsigned char data[64];
    size_t n = 0;
    for (const char *p = hex; *p != '\0'; p += 3)
        data[n++] = (unsigned char)strtoul(p, NULL, 16);
    message.bytes = 0;
    return weft__ws_inflate_part(d, data, n, true, &message, max);
}

/* The examples of RFC 7692, 7.2.3. */
TEST(the_examples_of_the_rfc_are_decompressed)
{
    static const char *const rows[] = {
        "f2 48 cd c9 c9 07 00 ",                   /* one block */
        "f2 00 11 00 00 ",                         /* a reference to the context */
        "00 05 00 fa ff 48 65 6c 6c 6f 00 ",       /* a stored block */
        "f3 48 cd c9 c9 07 00 00 ",                /* a block with BFINAL */
        "f2 48 05 00 00 00 ff ff ca c9 c9 07 00 ", /* two blocks */
    };
    weft__ws_deflate d;
    codec_open(&d, 15, false);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        ck_assert_int_eq(inflate_hex(&d, rows[i], SIZE_MAX), 0);
        ck_assert_msg(message.bytes == 5 && memcmp(message.data, "Hello", 5) == 0, "row %zu", i);
    }
    ck_assert_int_eq(inflate_hex(&d, "00 ", SIZE_MAX), 0);
    ck_assert_uint_eq(message.bytes, 0);
    ck_assert_int_eq(inflate_hex(&d, "ff ff ", SIZE_MAX), -EBADMSG);
    weft__ws_deflate_close(&d);
    weft__buffer_free(&message);
}

/* Inflate each start of a compressed message of one block. */
static void assert_starts_refused(const char *data, size_t bytes, int level)
{
    weft__ws_deflate a, b;
    codec_open(&a, 15, true);
    a.level = (uint8_t)level;
    compressed.bytes = 0;
    ck_assert_int_eq(weft__ws_deflate_part(&a, data, bytes, true, &compressed), 0);
    for (size_t n = 0; n < compressed.bytes; n++) {
        codec_open(&b, 15, true);
        message.bytes = 0;
        int rc = weft__ws_inflate_part(&b, compressed.data, n, true, &message, SIZE_MAX);
        /* A start that ends with the head of a stored block is a whole message. */
        bool is_whole = n > 0 && (message.bytes == 0 || message.bytes == bytes);
        ck_assert_msg(rc == -EBADMSG || (rc == 0 && is_whole), "%zu of %zu bytes: %d", n,
                      compressed.bytes, rc);
        weft__ws_deflate_close(&b);
    }
    weft__ws_deflate_close(&a);
}

TEST(a_message_cut_inside_a_block_is_malformed)
{
    char text[2000], random[200];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "etaoin"[byte_at(i) % 6];
    for (size_t i = 0; i < sizeof random; i++)
        random[i] = (char)byte_at(i);
    assert_starts_refused("Hello", 5, 6);        /* fixed codes */
    assert_starts_refused(text, sizeof text, 6); /* dynamic codes */
    assert_starts_refused(random, sizeof random, 6);
    assert_starts_refused(text, 20, 0); /* a stored block */
    weft__buffer_free(&compressed);
    weft__buffer_free(&message);
}

TEST(decompression_stops_at_the_limit)
{
    static char zeros[1 << 20];
    weft__ws_deflate a, b;
    codec_open(&a, 15, true);
    codec_open(&b, 15, true);
    ck_assert_int_eq(weft__ws_deflate_part(&a, zeros, sizeof zeros, true, &compressed), 0);
    ck_assert_uint_lt(compressed.bytes, 2000);
    ck_assert_int_eq(
        weft__ws_inflate_part(&b, compressed.data, compressed.bytes, true, &message, 100000),
        -EMSGSIZE);
    ck_assert_uint_eq(message.bytes, 100000);
    ck_assert_uint_lt(message.capacity, 300000);
    weft__ws_deflate_close(&b);
    message.bytes = 0;
    codec_open(&b, 15, true);
    ck_assert_int_eq(
        weft__ws_inflate_part(&b, compressed.data, compressed.bytes, true, &message, sizeof zeros),
        0);
    ck_assert_uint_eq(message.bytes, sizeof zeros);
    weft__ws_deflate_close(&a);
    weft__ws_deflate_close(&b);
    weft__buffer_free(&compressed);
    weft__buffer_free(&message);
}

#endif

/* Compressed replies: the compressor, which replies are compressed, and their headers. */
#include "http/http_files_support.h"
#include "http/reply/gzip.h"
#include "support/suite.h"

static const weft_http_options compressing = {.gzip_level = 6};

/* Return a compressible text. */
static char *new_text(size_t bytes)
{
    char *text = malloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        text[i] = (char)('a' + byte_at(i) % 4);
    text[bytes] = '\0';
    return text;
}

/* Decompress with gzip(1). */
static void decompress(const void *data, size_t bytes, weft_output *out)
{
    char *const argv[] = {"gzip", "-dc", NULL};
    weft_process_options options = {.output_bytes_max = 64 << 20};
    ck_assert_int_eq(weft_run(argv, data, bytes, &options, out), 0);
}

static void assert_decompresses(const void *data, size_t bytes, const char *expected, size_t length)
{
    weft_output out;
    decompress(data, bytes, &out);
    ck_assert_uint_eq(out.out_bytes, length);
    ck_assert(memcmp(out.out, expected, length) == 0);
    weft_output_free(&out);
}

/* The compressor */

/* A sink that collects its input. */
typedef struct sink {
    char *data;
    size_t bytes;
    int calls;
    int failing; /* number of the call that fails, from 1; 0: none */
} sink;

static int sink_write(void *ctx, const void *data, size_t bytes)
{
    sink *p = ctx;
    if (++p->calls == p->failing)
        return -EPIPE;
    p->data = realloc(p->data, p->bytes + bytes);
    memcpy(p->data + p->bytes, data, bytes);
    p->bytes += bytes;
    return weft_snooze(); /* a sink may suspend */
}

TEST(input_in_pieces_of_any_size_is_one_gzip_stream)
{
    static const size_t sizes[] = {1, 7, 1000, 70000, 3 << 20};
    size_t bytes = 1 << 20;
    char *text = new_text(bytes);
    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        sink p = {0};
        weft__gzip *gz = weft__gzip_new(6);
        size_t end = sizes[s] < 1000 ? 5000 : bytes;
        for (size_t i = 0; i < end; i += sizes[s])
            ck_assert_int_eq(weft__gzip_write(gz, text + i, end - i < sizes[s] ? end - i : sizes[s],
                                              WEFT__GZIP_MORE, sink_write, &p),
                             0);
        ck_assert_int_eq(weft__gzip_write(gz, NULL, 0, WEFT__GZIP_END, sink_write, &p), 0);
        ck_assert_int_eq(weft__gzip_write(gz, NULL, 0, WEFT__GZIP_END, sink_write, &p), -EINVAL);
        weft__gzip_free(gz);
        assert_decompresses(p.data, p.bytes, text, end);
        free(p.data);
    }
    free(text);
}

/* All flushed data can be decompressed without the rest. */
TEST(flushed_data_can_be_decompressed)
{
    sink p = {0};
    weft__gzip *gz = weft__gzip_new(1);
    weft__gzip_write(gz, "first", 5, WEFT__GZIP_MORE, sink_write, &p);
    ck_assert_uint_eq(p.bytes, 0);
    ck_assert_int_eq(weft__gzip_write(gz, NULL, 0, WEFT__GZIP_FLUSH, sink_write, &p), 0);
    char *const argv[] = {"gzip", "-dc", NULL};
    weft_output out;
    ck_assert_int_ne(weft_run(argv, p.data, p.bytes, NULL, &out), 0); /* the trailer is missing */
    ck_assert_uint_eq(out.out_bytes, 5);
    ck_assert_mem_eq(out.out, "first", 5);
    weft_output_free(&out);
    weft__gzip_free(gz);
    free(p.data);
}

TEST(a_failed_sink_ends_the_stream_and_the_next_stream_is_correct)
{
    size_t bytes = 256 << 10;
    char *text = malloc(bytes);
    for (size_t i = 0; i < bytes; i++) /* hardly compressible */
        text[i] = (char)random_below(256);
    for (int failing = 1; failing <= 3; failing++) {
        sink p = {.failing = failing};
        weft__gzip *gz = weft__gzip_new(6);
        ck_assert_int_eq(weft__gzip_write(gz, text, bytes, WEFT__GZIP_MORE, sink_write, &p),
                         -EPIPE);
        ck_assert_int_eq(weft__gzip_write(gz, text, 1, WEFT__GZIP_MORE, sink_write, &p), -EINVAL);
        weft__gzip_free(gz);
        free(p.data);
        p = (sink){0};
        gz = weft__gzip_new(6);
        ck_assert_int_eq(weft__gzip_write(gz, text, 1000, WEFT__GZIP_END, sink_write, &p), 0);
        weft__gzip_free(gz);
        assert_decompresses(p.data, p.bytes, text, 1000);
        free(p.data);
    }
    free(text);
}

static weft_value compress_on_a_cord(void *arg)
{
    weft__gzip *all[8];
    for (size_t i = 0; i < COUNT_OF(all); i++)
        ck_assert_ptr_nonnull(all[i] = weft__gzip_new(1 + (int)i % 3));
    for (size_t i = 0; i < COUNT_OF(all); i++)
        weft__gzip_free(all[i]);
    weft__gzip *again = weft__gzip_new(1);
    weft__gzip_free(again);
    return again == all[0] || again == all[3];
}

/* ASan checks that the thread frees them. */
TEST(a_thread_caches_some_compressors_until_it_ends)
{
    for (int i = 0; i < 3; i++) {
        weft_cord cord = weft_cord_start(compress_on_a_cord, NULL, NULL);
        ck_assert_int_eq(weft_cord_join(cord), 1);
    }
}

/* Which replies are compressed */

#define SUITABLE .status = 200, .length = 1000, .type = "text/html", .accept = "gzip"

TEST(suitable_replies_are_compressed_for_clients_that_accept_gzip)
{
    static const struct {
        weft__gzip_candidate c;
        weft__gzip_choice expected;
    } cases[] = {
        {{SUITABLE}, WEFT__GZIP_APPLIES},
        {{.status = 200, .length = -1, .type = "application/json", .accept = "br, gzip;q=0.5"},
         WEFT__GZIP_APPLIES},
        {{.status = 404, .length = 256, .type = "image/svg+xml", .accept = "*"},
         WEFT__GZIP_APPLIES},
        {{.status = 200, .length = 1000, .type = "text/html"}, WEFT__GZIP_VARIES},
        {{.status = 200, .length = 1000, .type = "text/html", .accept = "gzip;q=0"},
         WEFT__GZIP_VARIES},
        {{.status = 200, .length = 255, .type = "text/html", .accept = "gzip"}, WEFT__GZIP_NEVER},
        {{.status = 200, .length = 1000, .type = "image/png", .accept = "gzip"}, WEFT__GZIP_NEVER},
        {{.status = 200, .length = 1000, .accept = "gzip"}, WEFT__GZIP_NEVER},
        {{.status = 206, .length = 1000, .type = "text/html", .accept = "gzip"}, WEFT__GZIP_NEVER},
        {{.status = 304, .length = -1, .type = "text/html", .accept = "gzip"}, WEFT__GZIP_NEVER},
        {{SUITABLE, .encoding = "br"}, WEFT__GZIP_NEVER},
        {{SUITABLE, .cache_control = "public, No-Transform"}, WEFT__GZIP_NEVER},
        {{SUITABLE, .cache_control = "max-age=3"}, WEFT__GZIP_APPLIES},
        {{.status = 200, .length = -1, .type = "text/event-stream", .accept = "gzip"},
         WEFT__GZIP_NEVER},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        ck_assert_msg(weft__gzip_choose(&cases[i].c) == cases[i].expected, "case %zu", i);
}

/* Files of a server that compresses */

#define GET_LONG "GET /long.txt HTTP/1.1\r\nHost: a\r\n"

static char *long_text;

static void open_with_long_file(void)
{
    files_open(NULL);
    long_text = new_text(5000);
    create_file_bytes("root/long.txt", long_text, 5000);
}

static void close_long_file(void)
{
    free(long_text);
    files_close();
}

FIXTURE(open_with_long_file, close_long_file)

/* Request the long file from a server that compresses. */
static void get_long(const char *headers)
{
    const char *text = format(GET_LONG "%s\r\n", headers);
    client_exchange(&client, weft_http_serve_files, files, &compressing, text);
}

#define ACCEPT "Accept-Encoding: gzip\r\n"

TEST(a_file_is_compressed_when_it_is_sent)
{
    get_long(ACCEPT);
    ck_assert_int_eq(status_of(client.received), 200);
    EACH_PAIR(assert_header, "Content-Encoding -> gzip", "Vary -> Accept-Encoding");
    ck_assert_mem_eq(response_header("ETag"), "W/\"", 3);
    const char *body = body_of(client.received);
    assert_decompresses(body, client.received_bytes - (size_t)(body - client.received), long_text,
                        5000);
    get_long("");
    ck_assert_str_eq(body_of(client.received), long_text);
    assert_header("Vary", "Accept-Encoding");
    ck_assert_mem_eq(response_header("ETag"), "\"", 1);
    get_long(ACCEPT "Range: bytes=0-999\r\n"); /* a range is not compressed */
    ck_assert_int_eq(status_of(client.received), 206);
    assert_header("Content-Encoding", "");
    ck_assert_uint_eq(strlen(body_of(client.received)), 1000);
}

TEST(a_matching_etag_of_the_compressed_file_is_304)
{
    char etag[256];
    get_long(ACCEPT);
    copy_etag(etag);
    get_long(format(ACCEPT "If-None-Match: %s\r\n", etag));
    ck_assert_int_eq(status_of(client.received), 304);
    assert_header("ETag", etag);
    assert_header("Vary", "Accept-Encoding");
}

static int serve_with_vary(weft_http_request *r, void *ctx)
{
    ck_assert_int_eq(weft_http_add(r, "Vary", "Origin"), 0);
    return weft_http_serve_files(r, ctx);
}

static int reply_long_text(weft_http_request *r, void *ctx)
{
    return weft_http_reply_text(r, 200, "%05000d", 0);
}

TEST(a_text_is_compressed_for_clients_that_accept_gzip)
{
    client_exchange(&client, reply_long_text, NULL, &compressing, GET_LONG "\r\n");
    ck_assert_has(client.received, "\r\nContent-Length: 5000\r\n", "\r\nVary: Accept-Encoding\r\n");
    client_exchange(&client, reply_long_text, NULL, &compressing,
                    GET_LONG "Accept-Encoding: gzip\r\n\r\n");
    ck_assert_has(client.received, "\r\nContent-Encoding: gzip\r\n");
    ck_assert_uint_lt(client.received_bytes, 1000);
}

TEST(a_vary_header_of_the_handler_is_sent_too)
{
    client_exchange(&client, serve_with_vary, files, &compressing, GET_LONG "\r\n");
    ck_assert_uint_eq(count_in(client.received, "\r\nVary: Origin\r\n"), 1);
    ck_assert_uint_eq(count_in(client.received, "\r\nVary: Accept-Encoding\r\n"), 1);
}

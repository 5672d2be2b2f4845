/* Replies in gzip: which are compressed, what their headers say, and that they come out whole. */
#include "http/gzip.h"
#include "http_files_support.h"

static const weft_http_options compressing = {.gzip_level = 6};

/* Text that shrinks, of so many bytes. */
static char *make_text(size_t bytes)
{
    char *text = malloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        text[i] = (char)('a' + byte_at(i) % 4);
    text[bytes] = '\0';
    return text;
}

/* What gzip(1) makes of it. */
static void unpack(const void *data, size_t bytes, weft_output *out)
{
    char *const argv[] = {"gzip", "-dc", NULL};
    weft_process_options options = {.output_bytes_max = 64 << 20};
    ck_assert_int_eq(weft_run(argv, data, bytes, &options, out), 0);
}

static void assert_unpacks(const void *data, size_t bytes, const char *expected, size_t length)
{
    weft_output out;
    unpack(data, bytes, &out);
    ck_assert_uint_eq(out.out_bytes, length);
    ck_assert(memcmp(out.out, expected, length) == 0);
    weft_output_free(&out);
}

/*
 * The compressor.
 */

typedef struct pile {
    char *data;
    size_t bytes;
    int calls;
    int failing; /* the how manyeth call fails; 0: none */
} pile;

static int pile_up(void *ctx, const void *data, size_t bytes)
{
    pile *p = ctx;
    if (++p->calls == p->failing)
        return -EPIPE;
    p->data = realloc(p->data, p->bytes + bytes);
    memcpy(p->data + p->bytes, data, bytes);
    p->bytes += bytes;
    return weft_snooze(); /* a sink may suspend */
}

START_TEST(pieces_of_any_size_come_out_as_one_text)
{
    static const size_t sizes[] = {1, 7, 1000, 70000, 3 << 20};
    size_t bytes = 1 << 20;
    char *text = make_text(bytes);
    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        pile p = {0};
        weft__gzip *gz = weft__gzip_new(6);
        size_t end = sizes[s] < 1000 ? 5000 : bytes;
        for (size_t i = 0; i < end; i += sizes[s])
            ck_assert_int_eq(weft__gzip_write(gz, text + i, end - i < sizes[s] ? end - i : sizes[s],
                                              WEFT__GZIP_MORE, pile_up, &p),
                             0);
        ck_assert_int_eq(weft__gzip_write(gz, NULL, 0, WEFT__GZIP_END, pile_up, &p), 0);
        ck_assert_int_eq(weft__gzip_write(gz, NULL, 0, WEFT__GZIP_END, pile_up, &p), -EINVAL);
        weft__gzip_free(gz);
        assert_unpacks(p.data, p.bytes, text, end);
        free(p.data);
    }
    free(text);
}
END_TEST

/* Who has only the first half can read all that was flushed. */
START_TEST(what_is_flushed_can_be_read)
{
    pile p = {0};
    weft__gzip *gz = weft__gzip_new(1);
    weft__gzip_write(gz, "first", 5, WEFT__GZIP_MORE, pile_up, &p);
    ck_assert_uint_eq(p.bytes, 0);
    ck_assert_int_eq(weft__gzip_write(gz, NULL, 0, WEFT__GZIP_FLUSH, pile_up, &p), 0);
    char *const argv[] = {"gzip", "-dc", NULL};
    weft_output out;
    ck_assert_int_ne(weft_run(argv, p.data, p.bytes, NULL, &out), 0); /* it has no end */
    ck_assert_uint_eq(out.out_bytes, 5);
    ck_assert_mem_eq(out.out, "first", 5);
    weft_output_free(&out);
    weft__gzip_free(gz);
    free(p.data);
}
END_TEST

START_TEST(a_sink_that_fails_ends_it_and_the_next_one_is_whole_again)
{
    size_t bytes = 256 << 10;
    char *text = malloc(bytes);
    for (size_t i = 0; i < bytes; i++) /* what hardly shrinks */
        text[i] = (char)random_below(256);
    for (int failing = 1; failing <= 3; failing++) {
        pile p = {.failing = failing};
        weft__gzip *gz = weft__gzip_new(6);
        ck_assert_int_eq(weft__gzip_write(gz, text, bytes, WEFT__GZIP_MORE, pile_up, &p), -EPIPE);
        ck_assert_int_eq(weft__gzip_write(gz, text, 1, WEFT__GZIP_MORE, pile_up, &p), -EINVAL);
        weft__gzip_free(gz);
        free(p.data);
        p = (pile){0};
        gz = weft__gzip_new(6);
        ck_assert_int_eq(weft__gzip_write(gz, text, 1000, WEFT__GZIP_END, pile_up, &p), 0);
        weft__gzip_free(gz);
        assert_unpacks(p.data, p.bytes, text, 1000);
        free(p.data);
    }
    free(text);
}
END_TEST

static weft_value compress_on_a_cord(void *arg)
{
    (void)arg;
    weft__gzip *all[8];
    for (size_t i = 0; i < COUNT_OF(all); i++)
        ck_assert_ptr_nonnull(all[i] = weft__gzip_new(1 + (int)i % 3));
    for (size_t i = 0; i < COUNT_OF(all); i++)
        weft__gzip_free(all[i]);
    weft__gzip *again = weft__gzip_new(1);
    weft__gzip_free(again);
    return again == all[0] || again == all[3];
}

/* And ASan sees that it frees them. */
START_TEST(a_thread_keeps_a_few_until_its_end)
{
    for (int i = 0; i < 3; i++) {
        weft_cord cord = weft_cord_start(compress_on_a_cord, NULL, NULL);
        ck_assert_int_eq(weft_cord_join(cord), 1);
    }
}
END_TEST

/*
 * The choice.
 */

#define GOOD .status = 200, .length = 1000, .type = "text/html", .accept = "gzip"

START_TEST(what_is_worth_it_is_compressed_for_who_accepts_it)
{
    static const struct {
        weft__gzip_case c;
        weft__gzip_choice expected;
    } cases[] = {
        {{GOOD}, WEFT__GZIP_APPLIES},
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
        {{GOOD, .encoding = "br"}, WEFT__GZIP_NEVER},
        {{GOOD, .cache_control = "public, No-Transform"}, WEFT__GZIP_NEVER},
        {{GOOD, .cache_control = "max-age=3"}, WEFT__GZIP_APPLIES},
        {{.status = 200, .length = -1, .type = "text/event-stream", .accept = "gzip"},
         WEFT__GZIP_NEVER},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        ck_assert_msg(weft__gzip_choose(&cases[i].c) == cases[i].expected, "case %zu", i);
}
END_TEST

/*
 * Files over a server that compresses.
 */

#define ASK "GET /long.txt HTTP/1.1\r\nHost: a\r\n"

static void open_long(size_t bytes)
{
    files_open(NULL);
    char *text = make_text(bytes);
    make_bytes("root/long.txt", text, bytes);
    free(text);
}

START_TEST(a_file_is_compressed_on_its_way)
{
    open_long(5000);
    char *text = make_text(5000);
    talk_once(&t, weft_http_serve_files, files, &compressing, ASK "Accept-Encoding: gzip\r\n\r\n");
    ck_assert_int_eq(status_of(t.heard), 200);
    ck_assert_str_eq(heard_header("Content-Encoding"), "gzip");
    ck_assert_str_eq(heard_header("Vary"), "Accept-Encoding");
    ck_assert_mem_eq(heard_header("ETag"), "W/\"", 3);
    const char *body = body_of(t.heard);
    assert_unpacks(body, t.heard_bytes - (size_t)(body - t.heard), text, 5000);
    talk_once(&t, weft_http_serve_files, files, &compressing, ASK "\r\n");
    ck_assert_str_eq(body_of(t.heard), text);
    ck_assert_str_eq(heard_header("Vary"), "Accept-Encoding");
    ck_assert_mem_eq(heard_header("ETag"), "\"", 1);
    free(text);
    files_close();
}
END_TEST

static int serve_by_origin(weft_http_request *r, void *ctx)
{
    ck_assert_int_eq(weft_http_add(r, "Vary", "Origin"), 0);
    return weft_http_serve_files(r, ctx);
}

START_TEST(what_a_handler_says_a_reply_depends_on_is_kept)
{
    open_long(5000);
    talk_once(&t, serve_by_origin, files, &compressing, ASK "\r\n");
    ck_assert_uint_eq(count_in(t.heard, "\r\nVary: Origin\r\n"), 1);
    ck_assert_uint_eq(count_in(t.heard, "\r\nVary: Accept-Encoding\r\n"), 1);
    files_close();
}
END_TEST

START_TEST(who_has_the_compressed_one_is_told_so)
{
    char text[600];
    open_long(5000);
    talk_once(&t, weft_http_serve_files, files, &compressing, ASK "Accept-Encoding: gzip\r\n\r\n");
    const char *etag = heard_header("ETag");
    snprintf(text, sizeof text, ASK "Accept-Encoding: gzip\r\nIf-None-Match: %s\r\n\r\n", etag);
    char before[256];
    snprintf(before, sizeof before, "%s", etag);
    talk_once(&t, weft_http_serve_files, files, &compressing, text);
    ck_assert_int_eq(status_of(t.heard), 304);
    ck_assert_str_eq(heard_header("ETag"), before);
    ck_assert_str_eq(heard_header("Vary"), "Accept-Encoding");
    files_close();
}
END_TEST

START_TEST(a_part_is_not_compressed)
{
    open_long(5000);
    talk_once(&t, weft_http_serve_files, files, &compressing,
              ASK "Accept-Encoding: gzip\r\nRange: bytes=0-999\r\n\r\n");
    ck_assert_int_eq(status_of(t.heard), 206);
    ck_assert_ptr_null(heard_header("Content-Encoding"));
    ck_assert_uint_eq(strlen(body_of(t.heard)), 1000);
    files_close();
}
END_TEST

static const TTest *const *const tests[] = {
    &pieces_of_any_size_come_out_as_one_text,
    &what_is_flushed_can_be_read,
    &a_sink_that_fails_ends_it_and_the_next_one_is_whole_again,
    &a_thread_keeps_a_few_until_its_end,
    &what_is_worth_it_is_compressed_for_who_accepts_it,
    &a_file_is_compressed_on_its_way,
    &what_a_handler_says_a_reply_depends_on_is_kept,
    &who_has_the_compressed_one_is_told_so,
    &a_part_is_not_compressed,
};

int main(void)
{
    return run_suite("http_gzip", tests, COUNT_OF(tests));
}

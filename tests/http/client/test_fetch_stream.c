/* Streamed bodies of the HTTP client: requests written in parts, early responses, and gzip. */
#include "http/fetch_support.h"
#include "support/suite.h"

#ifdef WEFT_HAS_GZIP
#include <zlib.h>
#endif

static const script_step hello[] = {{.reply = OK("hello", "5")}};

static weft_fetch *open_put(weft_fetcher *fetcher, const char *url, int64_t length)
{
    weft_fetch *f;
    const weft_fetch_request r = {.method = "PUT", .url = url, .type = "text/x"};
    ck_assert_int_eq(weft_fetch_open(fetcher, &r, length, &f), 0);
    return f;
}

TEST(a_body_of_known_length_is_written_in_parts)
{
    script_server sv;
    start_server(&sv, hello, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    weft_fetch *f = open_put(fetcher, url_of(&sv, "/"), 6);
    ck_assert_int_eq(weft_fetch_status(f), 0);
    ck_assert_int_eq(weft_fetch_read(f, (char[4]){0}, 4), -EINVAL);
    ck_assert_int_eq(weft_fetch_write(f, "abc", 3), 3);
    ck_assert_int_eq(weft_fetch_wait(f), -ENODATA);
    ck_assert_int_eq(weft_fetch_write(f, "defg", 4), -EMSGSIZE);
    ck_assert_int_eq(weft_fetch_write(f, "def", 3), 3);
    ck_assert_int_eq(weft_fetch_write(f, "", 0), 0);
    ck_assert_int_eq(weft_fetch_wait(f), 200);
    ck_assert_int_eq(weft_fetch_wait(f), 200);
    ck_assert_int_eq(weft_fetch_write(f, "g", 1), -EPIPE);
    weft_fetch_close(f);
    ck_assert_server_received(&sv, "Content-Type: text/x\r\nContent-Length: 6\r\n\r\nabcdef");
    ck_assert_fetch(fetcher, url_of(&sv, "/"), "hello");
    ck_assert_uint_eq(sv.conns, 1);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}

TEST(a_get_with_an_empty_body_has_no_content_length)
{
    script_server sv;
    start_server(&sv, hello, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    weft_fetch *f;
    const weft_fetch_request r = {.method = "GET", .url = url_of(&sv, "/")};
    ck_assert_int_eq(weft_fetch_open(fetcher, &r, 0, &f), 0);
    ck_assert_int_eq(weft_fetch_wait(f), 200);
    weft_fetch_close(f);
    ck_assert_server_not_received(&sv, "Content-Length");
    f = open_put(fetcher, url_of(&sv, "/"), 0);
    ck_assert_int_eq(weft_fetch_wait(f), 200);
    weft_fetch_close(f);
    ck_assert_server_received(&sv, "Content-Length: 0\r\n");
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}

TEST(a_body_of_unknown_length_is_chunked)
{
    script_server sv;
    start_server(&sv, hello, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    weft_fetch *f = open_put(fetcher, url_of(&sv, "/"), -1);
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(weft_fetch_write(f, "0123456789", (size_t)i), i);
    ck_assert_int_eq(weft_fetch_wait(f), 200);
    weft_fetch_close(f);
    ck_assert_server_received(&sv, "Transfer-Encoding: chunked\r\n\r\n001012012301234");
    f = open_put(fetcher, url_of(&sv, "/empty"), -1);
    ck_assert_int_eq(weft_fetch_wait(f), 200);
    weft_fetch_close(f);
    ck_assert_uint_eq(sv.conns, 1);
    ck_assert_int_eq(
        weft_fetch_open(fetcher, &(weft_fetch_request){.url = url_of(&sv, "/")}, -2, &f), -EINVAL);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}

TEST(closing_an_incomplete_request_closes_the_connection)
{
    script_server sv;
    start_server(&sv, hello, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    weft_fetch *f = open_put(fetcher, url_of(&sv, "/"), 6);
    ck_assert_int_eq(weft_fetch_write(f, "abc", 3), 3);
    weft_fetch_close(f);
    let_run();
    ck_assert_uint_eq(sv.open_conns, 0);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}

/* Store a chunked body, then send it back. */
static unsigned char stored[3000000];
static size_t stored_bytes;

static bool store_and_return(script_server *sv, weft_stream *s)
{
    char *line;
    (void)sv;
    while (weft_stream_line(s, &line, NULL) > 0) {
        size_t left = strtoul(line, NULL, 16);
        bool is_last = left == 0;
        while (left > 0) {
            ssize_t n = weft_stream_read(s, stored + stored_bytes, left);
            if (n <= 0)
                return false;
            stored_bytes += (size_t)n;
            left -= (size_t)n;
        }
        if (weft_stream_line(s, &line, NULL) <= 0)
            return false;
        if (is_last)
            break;
    }
    weft_stream_printf(s, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", stored_bytes);
    weft_stream_write(s, stored, stored_bytes);
    return weft_stream_flush(s) == 0;
}

TEST(a_large_body_is_echoed_unchanged)
{
    static const script_step steps[] = {{.handle = store_and_return}};
    static unsigned char data[100000];
    script_server sv;
    start_server(&sv, steps, 1);
    weft_fetch *f = open_put(NULL, url_of(&sv, "/"), -1);
    size_t sent = 0;
    while (sent < sizeof stored - sizeof data) {
        size_t n = 1 + random_below(sizeof data);
        fill_from(data, n, sent);
        ck_assert_int_eq(weft_fetch_write(f, data, n), (ssize_t)n);
        sent += n;
    }
    ck_assert_int_eq(weft_fetch_wait(f), 200);
    ck_assert_int_eq(weft_fetch_length(f), (int64_t)sent);
    size_t back = 0;
    ssize_t n;
    while ((n = weft_fetch_read(f, data, 1 + random_below(sizeof data))) > 0) {
        assert_bytes_at(data, (size_t)n, back);
        back += (size_t)n;
    }
    ck_assert_int_eq(n, 0);
    ck_assert_uint_eq(back, sent);
    weft_fetch_close(f);
    stop_server(&sv);
}

TEST(a_large_body_in_memory_is_sent_completely)
{
    static const script_step steps[] = {{.reply = OK("hello", "5")}};
    static char body[50000];
    memset(body, 'b', sizeof body);
    script_server sv;
    start_server(&sv, steps, 1);
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_post(NULL, url_of(&sv, "/"), NULL, body, sizeof body, &f), 200);
    weft_fetch_close(f);
    const char *at = strstr(sv.received, "\r\n\r\n") + 4;
    ck_assert_uint_eq(strspn(at, "b"), sizeof body);
    stop_server(&sv);
}

#define TOO_LARGE "HTTP/1.1 413 Too large\r\nContent-Length: 3\r\n\r\nno!"

/* The server replies after the head and never reads the body, with and without a close. */
TEST(an_early_response_stops_the_writes_of_the_body)
{
    for (int closes = 0; closes <= 1; closes++) {
        const script_step steps[] = {{.reply = TOO_LARGE, .is_early = true, .closes = closes}};
        static const char data[100000];
        script_server sv;
        start_server(&sv, steps, 1);
        weft_fetcher *fetcher = weft_fetcher_new(NULL);
        weft_fetch *f = open_put(fetcher, url_of(&sv, "/"), (int64_t)1 << 40);
        ssize_t n = 0;
        while ((n = weft_fetch_write(f, data, sizeof data)) > 0)
            continue;
        ck_assert_int_eq(n, -EPIPE);
        ck_assert_int_eq(weft_fetch_write(f, data, 1), -EPIPE);
        int status = weft_fetch_wait(f);
        /* A close with unread bytes may reset the connection and discard the response. */
        ck_assert(status == 413 || (closes && status == -ECONNRESET));
        weft_fetch_close(f);
        weft_fetcher_free(fetcher);
        stop_server(&sv);
    }
}

TEST(an_early_response_to_a_body_in_memory_is_returned)
{
    static const script_step steps[] = {{.reply = TOO_LARGE, .is_early = true}};
    const size_t bytes = (size_t)32 << 20; /* more than the kernel buffers */
    char *body = calloc(1, bytes), *text;
    script_server sv;
    start_server(&sv, steps, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_post(fetcher, url_of(&sv, "/"), NULL, body, bytes, &f), 413);
    ck_assert_int_eq(weft_fetch_read_all(f, &text), 3);
    ck_assert_str_eq(text, "no!");
    weft_fetch_close(f);
    weft_fetcher_free(fetcher);
    free(body);
    stop_server(&sv);
}

static weft_value post_large_body(void *arg)
{
    const size_t bytes = (size_t)64 << 20; /* more than the kernel buffers */
    char *body = calloc(1, bytes);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    weft_fetch *f;
    int status = weft_fetch_post(fetcher, url_of(arg, "/"), NULL, body, bytes, &f);
    weft_fetch_close(f);
    weft_fetcher_free(fetcher);
    free(body);
    return status;
}

/* The server does not read, and replies when the client is blocked in its write. */
TEST(a_blocked_write_ends_when_the_response_arrives)
{
    static const script_step steps[] = {{.reply = TOO_LARGE, .is_early = true, .is_held = true}};
    script_server sv;
    start_server(&sv, steps, 1);
    weft_fiber client = weft_spin(post_large_body, &sv);
    ck_assert_int_eq(weft_sem_wait(&sv.arrived), 0);
    let_run();
    release_replies(&sv, 1);
    ck_assert_int_eq(weft_await(client), 413);
    stop_server(&sv);
}

static bool send_continue_and_read_body(script_server *sv, weft_stream *s)
{
    weft_stream_puts(s, "HTTP/1.1 100 Continue\r\n\r\n");
    if (!read_body(sv, s, 4))
        return false;
    weft_stream_puts(s, OK("thanks", "6"));
    return weft_stream_flush(s) == 0;
}

TEST(a_request_with_expect_100_continue_waits_before_it_sends_the_body)
{
    static const script_step yes[] = {{.handle = send_continue_and_read_body}};
    static const script_step no[] = {{.reply = TOO_LARGE, .is_early = true}};
    const weft_fetch_field field = {"Expect", "100-continue"};
    weft_fetch_request r = {.fields = &field, .fields_count = 1, .body = "body", .body_bytes = 4};
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    script_server sv;
    weft_fetch *f;
    start_server(&sv, yes, 1);
    r.url = url_of(&sv, "/");
    ck_assert_int_eq(weft_fetch_send(fetcher, &r, &f), 200);
    weft_fetch_close(f);
    ck_assert_server_received(&sv, "Expect: 100-continue\r\n\r\nbody");
    stop_server(&sv);
    start_server(&sv, no, 1);
    r.url = url_of(&sv, "/");
    ck_assert_int_eq(weft_fetch_send(fetcher, &r, &f), 413);
    weft_fetch_close(f);
    r.body = NULL;
    r.body_bytes = 0;
    ck_assert_int_eq(weft_fetch_open(fetcher, &r, 4, &f), 0);
    ck_assert_int_eq(weft_fetch_write(f, "body", 4), -EPIPE);
    ck_assert_int_eq(weft_fetch_wait(f), 413);
    weft_fetch_close(f);
    ck_assert_server_not_received(&sv, "body");
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}

TEST(a_101_instead_of_100_continue_is_ebadmsg)
{
    static const script_step steps[] = {
        {.reply = "HTTP/1.1 101 Change\r\nUpgrade: x\r\n\r\n", .is_early = true}};
    const weft_fetch_field field = {"Expect", "100-continue"};
    weft_fetch_request r = {.fields = &field, .fields_count = 1, .body = "body", .body_bytes = 4};
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    script_server sv;
    weft_fetch *f;
    start_server(&sv, steps, 1);
    r.url = url_of(&sv, "/");
    ck_assert_int_eq(weft_fetch_send(fetcher, &r, &f), -EBADMSG);
    ck_assert_ptr_null(f);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}

TEST(a_cancelled_wait_can_be_repeated)
{
    static const script_step steps[] = {{.reply = OK("late", "4"), .is_held = true}};
    script_server sv;
    start_server(&sv, steps, 1);
    weft_fetch *f = open_put(NULL, url_of(&sv, "/"), -1);
    ck_assert_int_eq(weft_fetch_write(f, "abc", 3), 3);
    int status = 0;
    WEFT_MOVE_ON_AFTER(0.01)
        status = weft_fetch_wait(f);
    ck_assert_int_eq(status, -ECANCELED);
    ck_assert_int_eq(weft_fetch_write(f, "d", 1), -EINVAL);
    release_replies(&sv, 1);
    ck_assert_int_eq(weft_fetch_wait(f), 200);
    weft_fetch_close(f);
    ck_assert_uint_eq(sv.requests, 1);
    stop_server(&sv);
}

TEST(a_cancelled_write_fails_the_fetch)
{
    static const script_step steps[] = {{.is_early = true}};
    static const char data[100000];
    warm_up();
    script_server sv;
    start_server(&sv, steps, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    weft_fetch *f = open_put(fetcher, url_of(&sv, "/"), -1);
    ssize_t n = 1;
    WEFT_MOVE_ON_AFTER(0.05)
        while (n > 0)
            n = weft_fetch_write(f, data, sizeof data);
    ck_assert_int_eq(n, -ECANCELED);
    ck_assert_int_eq(weft_fetch_write(f, data, 1), -ECANCELED);
    ck_assert_int_eq(weft_fetch_wait(f), -ECANCELED);
    weft_fetch_close(f);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}

/* The client follows a redirect of a streamed request only if the body is not needed again. */
TEST(a_streamed_request_is_redirected_only_without_its_body)
{
    static const script_step see[] = {
        {.reply = "HTTP/1.1 303 See\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n"},
        {.reply = OK("seen", "4")}};
    static const script_step again[] = {
        {.reply = "HTTP/1.1 307 Again\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n"}};
    script_server sv;
    start_server(&sv, see, 2);
    weft_fetch *f = open_put(NULL, url_of(&sv, "/a"), -1);
    ck_assert_int_eq(weft_fetch_write(f, "abc", 3), 3);
    char *text;
    ck_assert_int_eq(weft_fetch_wait(f), 200);
    ck_assert_int_eq(weft_fetch_read_all(f, &text), 4);
    ck_assert_str_eq(weft_fetch_url(f), url_of(&sv, "/b"));
    weft_fetch_close(f);
    ck_assert_uint_eq(count_in(sv.received, "Content-Type"), 1);
    ck_assert_uint_eq(count_in(sv.received, "Transfer-Encoding"), 1);
    stop_server(&sv);
    start_server(&sv, again, 1);
    f = open_put(NULL, url_of(&sv, "/a"), 0);
    ck_assert_int_eq(weft_fetch_wait(f), 307);
    weft_fetch_close(f);
    ck_assert_uint_eq(sv.requests, 1);
    stop_server(&sv);
}

#ifdef WEFT_HAS_GZIP
static char *zipped;
static size_t zipped_bytes;

/* Append a gzip member with the first bytes of the test stream, or with zeros. */
static void append_gzip_member(size_t bytes, bool is_zero)
{
    unsigned char *data = calloc(1, bytes + 1);
    if (!is_zero)
        fill_from(data, bytes, 0);
    z_stream z = {0};
    ck_assert_int_eq(deflateInit2(&z, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t room = deflateBound(&z, bytes) + 32;
    zipped = realloc(zipped, zipped_bytes + room);
    z.next_in = data;
    z.avail_in = (uInt)bytes;
    z.next_out = (Bytef *)zipped + zipped_bytes;
    z.avail_out = (uInt)room;
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    zipped_bytes += z.total_out;
    deflateEnd(&z);
    free(data);
}

/* Send zipped in chunks of 1,000 bytes, so that input ends at arbitrary positions. */
static bool send_gzip(script_server *sv, weft_stream *s)
{
    (void)sv;
    weft_stream_puts(
        s, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (size_t at = 0; at < zipped_bytes; at += 1000) {
        size_t n = zipped_bytes - at < 1000 ? zipped_bytes - at : 1000;
        weft_stream_printf(s, "%zx\r\n", n);
        weft_stream_write(s, zipped + at, n);
        weft_stream_puts(s, "\r\n");
    }
    weft_stream_puts(s, "0\r\n\r\n");
    return weft_stream_flush(s) == 0;
}

static const script_step gzip_steps[] = {{.handle = send_gzip}};

TEST(a_compressed_body_is_decompressed)
{
    script_server sv;
    start_server(&sv, gzip_steps, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    weft_fetch *f;
    char *text;
    append_gzip_member(300000, false);
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), 200);
    ck_assert_server_received(&sv, "Accept-Encoding: gzip\r\n");
    ck_assert_int_eq(weft_fetch_length(f), -1);
    ck_assert_int_eq(weft_fetch_read_all(f, &text), 300000);
    assert_bytes_at((unsigned char *)text, 300000, 0);
    weft_fetch_close(f);
    size_t first = zipped_bytes;
    append_gzip_member(0, false); /* more members */
    append_gzip_member(5000, false);
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), 200);
    ck_assert_int_eq(weft_fetch_read_all(f, &text), 305000);
    assert_bytes_at((unsigned char *)text + 300000, 5000, 0);
    weft_fetch_close(f);
    zipped_bytes = 0; /* an empty body */
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), 200);
    ck_assert_int_eq(weft_fetch_read_all(f, &text), 0);
    weft_fetch_close(f);
    ck_assert_uint_eq(sv.conns, 1);
    const size_t bad[] = {1, 9, 500, first - 1}; /* truncated */
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        zipped_bytes = bad[i];
        ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), 200);
        ck_assert_int_eq(weft_fetch_read_all(f, &text), -EBADMSG);
        weft_fetch_close(f);
    }
    zipped_bytes = first;
    zipped[first / 2] ^= 0x55; /* corrupt: at least the checksum fails */
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), 200);
    ck_assert_int_eq(weft_fetch_read_all(f, &text), -EBADMSG);
    weft_fetch_close(f);
    memcpy(zipped, "not gzip", 8);
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), 200);
    ck_assert_int_eq(weft_fetch_read_all(f, &text), -EBADMSG);
    weft_fetch_close(f);
    weft_fetcher_free(fetcher);
    free(zipped);
    stop_server(&sv);
}

TEST(decompression_stops_at_the_limit)
{
    script_server sv;
    start_server(&sv, gzip_steps, 1);
    weft_fetcher *fetcher = weft_fetcher_new(&(weft_fetcher_options){.body_bytes_max = 1 << 20});
    append_gzip_member((size_t)20 << 20, true);
    ck_assert_uint_lt(zipped_bytes, 100000);
    weft_fetch *f;
    char *text;
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), 200);
    ck_assert_int_eq(weft_fetch_read_all(f, &text), -EMSGSIZE);
    weft_fetch_close(f);
    const void *piece; /* body_bytes_max does not apply to weft_fetch_read_piece */
    size_t sum = 0;
    ssize_t n;
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), 200);
    while ((n = weft_fetch_read_piece(f, &piece)) > 0)
        sum += (size_t)n;
    ck_assert_int_eq(n, 0);
    ck_assert_uint_eq(sum, (size_t)20 << 20);
    weft_fetch_close(f);
    weft_fetcher_free(fetcher);
    free(zipped);
    stop_server(&sv);
}

TEST(a_caller_that_sets_accept_encoding_or_range_gets_the_body_unchanged)
{
    script_server sv;
    start_server(&sv, gzip_steps, 1);
    append_gzip_member(1000, false);
    const weft_fetch_field fields[] = {{"Accept-Encoding", "gzip"}, {"Range", "bytes=0-"}};
    weft_fetcher *fetchers[] = {weft_fetcher_new(NULL),
                                weft_fetcher_new(&(weft_fetcher_options){.has_no_gzip = true})};
    for (int i = 0; i < 3; i++) {
        const weft_fetch_request r = {
            .url = url_of(&sv, "/"), .fields = &fields[i % 2], .fields_count = i < 2};
        weft_fetch *f;
        char *text;
        ck_assert_int_eq(weft_fetch_send(fetchers[i == 2], &r, &f), 200);
        ck_assert_int_eq(weft_fetch_read_all(f, &text), (ssize_t)zipped_bytes);
        ck_assert_mem_eq(text, zipped, zipped_bytes);
        weft_fetch_close(f);
    }
    ck_assert_uint_eq(count_in(sv.received, "Accept-Encoding"), 1);
    weft_fetcher_free(fetchers[0]);
    weft_fetcher_free(fetchers[1]);
    free(zipped);
    stop_server(&sv);
}
#endif

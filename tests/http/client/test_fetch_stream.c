/* Streamed bodies of the HTTP client: requests written in parts, early responses, and gzip. */
#include "http/fetch_support.h"
#include "support/suite.h"

#ifdef WEFT_HAS_GZIP
#include <zlib.h>
#endif

FIXTURE(open_hello, close_site)

/* Open a PUT to the site. length is the length of the body; -1: unknown. */
static void open_put(const char *path, int64_t length)
{
    const weft_fetch_request r = {.method = "PUT", .url = url_of(&site, path), .type = "text/x"};
    close_fetch();
    ck_assert_int_eq(weft_fetch_open(fetcher, &r, length, &fetch), 0);
}

static void write_bytes(const char *data, size_t bytes)
{
    ck_assert_int_eq(weft_fetch_write(fetch, data, bytes), (ssize_t)bytes);
}

/* Wait for the status and close the fetch. */
static void finish(int status)
{
    ck_assert_int_eq(weft_fetch_wait(fetch), status);
    close_fetch();
}

TEST(a_body_of_known_length_is_written_in_parts)
{
    open_put("/", 6);
    ck_assert_int_eq(weft_fetch_status(fetch), 0);
    ck_assert_int_eq(weft_fetch_read(fetch, (char[4]){0}, 4), -EINVAL);
    write_bytes("abc", 3);
    ck_assert_int_eq(weft_fetch_wait(fetch), -ENODATA);
    ck_assert_int_eq(weft_fetch_write(fetch, "defg", 4), -EMSGSIZE);
    write_bytes("def", 3);
    write_bytes("", 0);
    ck_assert_int_eq(weft_fetch_wait(fetch), 200);
    ck_assert_int_eq(weft_fetch_wait(fetch), 200);
    ck_assert_int_eq(weft_fetch_write(fetch, "g", 1), -EPIPE);
    close_fetch();
    ck_assert_has(site.received, "Content-Type: text/x\r\nContent-Length: 6\r\n\r\nabcdef");
    assert_page("/", "hello");
    ck_assert_uint_eq(site.conns, 1);
}

TEST(a_get_with_an_empty_body_has_no_content_length)
{
    const weft_fetch_request r = {.method = "GET", .url = url_of(&site, "/")};
    ck_assert_int_eq(weft_fetch_open(fetcher, &r, 0, &fetch), 0);
    finish(200);
    ck_assert_lacks(site.received, "Content-Length");
    open_put("/", 0);
    finish(200);
    ck_assert_has(site.received, "Content-Length: 0\r\n");
}

TEST(a_body_of_unknown_length_is_chunked)
{
    open_put("/", -1);
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(weft_fetch_write(fetch, "0123456789", (size_t)i), i);
    finish(200);
    ck_assert_has(site.received, "Transfer-Encoding: chunked\r\n\r\n001012012301234");
    open_put("/empty", -1);
    finish(200);
    ck_assert_uint_eq(site.conns, 1);
    ck_assert_int_eq(
        weft_fetch_open(fetcher, &(weft_fetch_request){.url = url_of(&site, "/")}, -2, &fetch),
        -EINVAL);
}

TEST(closing_an_incomplete_request_closes_the_connection)
{
    open_put("/", 6);
    write_bytes("abc", 3);
    close_fetch();
    let_run();
    ck_assert_uint_eq(site.open_conns, 0);
}

/* Store a chunked body, then send it back. */
static unsigned char stored[3000000];
static size_t stored_bytes;

static bool store_and_return(script_server *sv, weft_stream *s)
{
    char *line;
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
    static unsigned char data[100000];
    open_site(STEPS({.handle = store_and_return}));
    open_put("/", -1);
    size_t sent = 0;
    while (sent < sizeof stored - sizeof data) {
        size_t n = 1 + random_below(sizeof data);
        fill_from(data, n, sent);
        ck_assert_int_eq(weft_fetch_write(fetch, data, n), (ssize_t)n);
        sent += n;
    }
    ck_assert_int_eq(weft_fetch_wait(fetch), 200);
    ck_assert_int_eq(weft_fetch_length(fetch), (int64_t)sent);
    size_t back = 0;
    ssize_t n;
    while ((n = weft_fetch_read(fetch, data, 1 + random_below(sizeof data))) > 0) {
        assert_bytes_at(data, (size_t)n, back);
        back += (size_t)n;
    }
    ck_assert_int_eq(n, 0);
    ck_assert_uint_eq(back, sent);
}

TEST(a_large_body_in_memory_is_sent_completely)
{
    static char body[50000];
    memset(body, 'b', sizeof body);
    open_site(STEPS({.reply = OK("hello", "5")}));
    ck_assert_int_eq(weft_fetch_post(NULL, url_of(&site, "/"), NULL, body, sizeof body, &fetch),
                     200);
    close_fetch();
    const char *at = strstr(site.received, "\r\n\r\n") + 4;
    ck_assert_uint_eq(strspn(at, "b"), sizeof body);
}

#define TOO_LARGE "HTTP/1.1 413 Too large\r\nContent-Length: 3\r\n\r\nno!"

/* The server replies after the head and never reads the body, with and without a close. */
TEST(an_early_response_stops_the_writes_of_the_body)
{
    for (int closes = 0; closes <= 1; closes++) {
        const script_step steps[] = {{.reply = TOO_LARGE, .is_early = true, .closes = closes}};
        static const char data[100000];
        open_site(steps, 1);
        open_put("/", (int64_t)1 << 40);
        ssize_t n = 0;
        while ((n = weft_fetch_write(fetch, data, sizeof data)) > 0)
            continue;
        ck_assert_int_eq(n, -EPIPE);
        ck_assert_int_eq(weft_fetch_write(fetch, data, 1), -EPIPE);
        int status = weft_fetch_wait(fetch);
        /* A close with unread bytes may reset the connection and discard the response. */
        ck_assert(status == 413 || (closes && status == -ECONNRESET));
        close_fetch();
    }
}

static weft_value post_large_body(void *arg)
{
    const size_t bytes = (size_t)32 << 20; /* more than the kernel buffers */
    char *body = calloc(1, bytes);
    int status = weft_fetch_post(fetcher, url_of(&site, "/"), NULL, body, bytes, &fetch);
    free(body);
    return status;
}

/* The server never reads the body. */
TEST(a_write_of_a_body_in_memory_ends_when_the_response_arrives)
{
    for (int is_held = 0; is_held <= 1; is_held++) { /* held: until the write is blocked */
        open_site(STEPS({.reply = TOO_LARGE, .is_early = true, .is_held = is_held}));
        weft_fiber client = weft_spin(post_large_body, NULL);
        if (is_held) {
            ck_assert_int_eq(weft_sem_wait(&site.arrived), 0);
            let_run();
            release_replies(&site, 1);
        }
        ck_assert_int_eq(weft_await(client), 413);
        assert_body("no!");
        close_fetch();
    }
}

static bool send_continue_and_read_body(script_server *sv, weft_stream *s)
{
    weft_stream_puts(s, "HTTP/1.1 100 Continue\r\n\r\n");
    if (!read_body(sv, s, 4))
        return false;
    weft_stream_puts(s, OK("thanks", "6"));
    return weft_stream_flush(s) == 0;
}

static weft_fetch_request expecting_request(void)
{
    static const weft_fetch_field field = {"Expect", "100-continue"};
    return (weft_fetch_request){.url = url_of(&site, "/"),
                                .fields = &field,
                                .fields_count = 1,
                                .body = "body",
                                .body_bytes = 4};
}

TEST(a_request_with_expect_100_continue_waits_before_it_sends_the_body)
{
    open_site(STEPS({.handle = send_continue_and_read_body}));
    ck_assert_int_eq(send_request(expecting_request()), 200);
    ck_assert_has(site.received, "Expect: 100-continue\r\n\r\nbody");
    open_site(STEPS({.reply = TOO_LARGE, .is_early = true}));
    weft_fetch_request r = expecting_request();
    ck_assert_int_eq(send_request(r), 413);
    r.body = NULL;
    r.body_bytes = 0;
    ck_assert_int_eq(weft_fetch_open(fetcher, &r, 4, &fetch), 0);
    ck_assert_int_eq(weft_fetch_write(fetch, "body", 4), -EPIPE);
    finish(413);
    ck_assert_lacks(site.received, "body");
}

TEST(a_101_instead_of_100_continue_is_ebadmsg)
{
    open_site(STEPS({.reply = "HTTP/1.1 101 Change\r\nUpgrade: x\r\n\r\n", .is_early = true}));
    ck_assert_int_eq(send_request(expecting_request()), -EBADMSG);
    ck_assert_ptr_null(fetch);
}

TEST(a_cancelled_wait_can_be_repeated)
{
    open_site(STEPS({.reply = OK("late", "4"), .is_held = true}));
    open_put("/", -1);
    write_bytes("abc", 3);
    int status = 0;
    WEFT_MOVE_ON_AFTER(0.01)
        status = weft_fetch_wait(fetch);
    ck_assert_int_eq(status, -ECANCELED);
    ck_assert_int_eq(weft_fetch_write(fetch, "d", 1), -EINVAL);
    release_replies(&site, 1);
    finish(200);
    ck_assert_uint_eq(site.requests, 1);
}

TEST(a_cancelled_write_fails_the_fetch)
{
    static const char data[100000];
    warm_up();
    open_site(STEPS({.is_early = true}));
    open_put("/", -1);
    ssize_t n = 1;
    WEFT_MOVE_ON_AFTER(0.05)
        while (n > 0)
            n = weft_fetch_write(fetch, data, sizeof data);
    ck_assert_int_eq(n, -ECANCELED);
    ck_assert_int_eq(weft_fetch_write(fetch, data, 1), -ECANCELED);
    ck_assert_int_eq(weft_fetch_wait(fetch), -ECANCELED);
}

/* The client follows a redirect of a streamed request only if the body is not needed again. */
TEST(a_streamed_request_is_redirected_only_without_its_body)
{
    open_site(STEPS({.reply = "HTTP/1.1 303 See\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n"},
                    {.reply = OK("seen", "4")}));
    open_put("/a", -1);
    write_bytes("abc", 3);
    ck_assert_int_eq(weft_fetch_wait(fetch), 200);
    assert_body("seen");
    ck_assert_str_eq(weft_fetch_url(fetch), url_of(&site, "/b"));
    close_fetch();
    ck_assert_uint_eq(count_in(site.received, "Content-Type"), 1);
    ck_assert_uint_eq(count_in(site.received, "Transfer-Encoding"), 1);
    open_site(STEPS({.reply = "HTTP/1.1 307 Again\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n"}));
    open_put("/a", 0);
    finish(307);
    ck_assert_uint_eq(site.requests, 1);
}

#ifdef WEFT_HAS_GZIP
static char *zipped, *unzipped;
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

/* GET the zipped body. Return the result of reading it. */
static ssize_t read_zipped(void)
{
    ck_assert_int_eq(get("/"), 200);
    return weft_fetch_read_all(fetch, &unzipped);
}

TEST(a_compressed_body_is_decompressed)
{
    open_site(gzip_steps, 1);
    append_gzip_member(300000, false);
    ck_assert_int_eq(read_zipped(), 300000);
    ck_assert_has(site.received, "Accept-Encoding: gzip\r\n");
    ck_assert_int_eq(weft_fetch_length(fetch), -1);
    assert_bytes_at((unsigned char *)unzipped, 300000, 0);
    close_fetch();
    size_t first = zipped_bytes;
    append_gzip_member(0, false); /* more members */
    append_gzip_member(5000, false);
    ck_assert_int_eq(read_zipped(), 305000);
    assert_bytes_at((unsigned char *)unzipped + 300000, 5000, 0);
    close_fetch();
    const size_t bad[] = {1, 9, 500, first - 1, first, first};
    zipped_bytes = 0; /* an empty body */
    ck_assert_int_eq(read_zipped(), 0);
    ck_assert_uint_eq(site.conns, 1);
    for (size_t i = 0; i < COUNT_OF(bad); i++) { /* truncated, corrupt, and not gzip */
        zipped_bytes = bad[i];
        if (i == 4)
            zipped[first / 2] ^= 0x55; /* at least the checksum fails */
        if (i == 5)
            memcpy(zipped, "not gzip", 8);
        ck_assert_int_eq(read_zipped(), -EBADMSG);
    }
    free(zipped);
}

TEST(decompression_stops_at_the_limit)
{
    const void *piece;
    size_t sum = 0;
    ssize_t n;
    open_site(gzip_steps, 1);
    use_fetcher((weft_fetcher_options){.body_bytes_max = 1 << 20});
    append_gzip_member((size_t)20 << 20, true);
    ck_assert_uint_lt(zipped_bytes, 100000);
    ck_assert_int_eq(read_zipped(), -EMSGSIZE);
    ck_assert_int_eq(get("/"), 200); /* body_bytes_max does not apply to weft_fetch_read_piece */
    while ((n = weft_fetch_read_piece(fetch, &piece)) > 0)
        sum += (size_t)n;
    ck_assert_int_eq(n, 0);
    ck_assert_uint_eq(sum, (size_t)20 << 20);
    close_fetch();
    free(zipped);
}

/* Assert that the body arrives compressed. name may be NULL. */
static void assert_unchanged(const char *name, const char *value)
{
    const weft_fetch_field field = {name, value};
    const weft_fetch_request r = {
        .url = url_of(&site, "/"), .fields = &field, .fields_count = name != NULL};
    ck_assert_int_eq(weft_fetch_send(fetcher, &r, &fetch), 200);
    ck_assert_int_eq(weft_fetch_read_all(fetch, &unzipped), (ssize_t)zipped_bytes);
    ck_assert_mem_eq(unzipped, zipped, zipped_bytes);
    close_fetch();
}

TEST(a_caller_that_sets_accept_encoding_or_range_gets_the_body_unchanged)
{
    open_site(gzip_steps, 1);
    append_gzip_member(1000, false);
    assert_unchanged("Accept-Encoding", "gzip");
    assert_unchanged("Range", "bytes=0-");
    use_fetcher((weft_fetcher_options){.has_no_gzip = true});
    assert_unchanged(NULL, NULL);
    ck_assert_uint_eq(count_in(site.received, "Accept-Encoding"), 1);
    free(zipped);
}
#endif

/*
 * Files over HTTP in parts, under conditions, and compressed beforehand; and files that change
 * while they are sent.
 */
#include "http_files_support.h"

#define TEXT "0123456789abcdefghijklmnopqrstuvwxyz"

static void open_with_text(void)
{
    files_open(NULL);
    make_file("root/t.txt", TEXT);
    set_time("root/t.txt", A_TIME);
}

static const char *get_range(const char *range)
{
    char headers[512];
    snprintf(headers, sizeof headers, "Range: %s\r\n", range);
    return ask_with("GET", "/t.txt", headers);
}

START_TEST(one_range_is_206_with_that_part)
{
    static const struct {
        const char *range, *body, *said;
    } cases[] = {
        {"bytes=0-0", "0", "bytes 0-0/36"},       {"bytes=0-9", "0123456789", "bytes 0-9/36"},
        {"bytes=10-12", "abc", "bytes 10-12/36"}, {"bytes=33-", "xyz", "bytes 33-35/36"},
        {"bytes=-2", "yz", "bytes 34-35/36"},     {"bytes=35-99", "z", "bytes 35-35/36"},
        {"bytes=-99", TEXT, "bytes 0-35/36"},
    };
    open_with_text();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const char *reply = get_range(cases[i].range);
        ck_assert_int_eq(status_of(reply), 206);
        ck_assert_str_eq(body_of(reply), cases[i].body);
        ck_assert_str_eq(heard_header("Content-Range"), cases[i].said);
        ck_assert_str_eq(heard_header("Content-Type"), "text/plain; charset=utf-8");
    }
    files_close();
}
END_TEST

START_TEST(a_range_that_is_none_is_passed_over)
{
    static const char *const ranges[] = {"bytes=9-1", "bytes=a-b", "lines=0-1",
                                         "bytes",     "bytes=-",   "bytes=0-0,0-0,0-0,0-0"};
    open_with_text();
    for (size_t i = 0; i < COUNT_OF(ranges); i++) {
        const char *reply = get_range(ranges[i]);
        ck_assert_msg(status_of(reply) == 200, "%s: %s", ranges[i], reply);
        ck_assert_str_eq(body_of(reply), TEXT);
    }
    files_close();
}
END_TEST

START_TEST(a_range_behind_the_end_is_416_with_the_length)
{
    open_with_text();
    ck_assert_int_eq(status_of(get_range("bytes=36-")), 416);
    ck_assert_str_eq(heard_header("Content-Range"), "bytes */36");
    ck_assert_int_eq(status_of(get_range("bytes=-0")), 416);
    /* There are clients that always ask so: nothing is all of it. */
    ck_assert_int_eq(status_of(ask_with("GET", "/empty.bin", "Range: bytes=0-\r\n")), 200);
    files_close();
}
END_TEST

/* The next part of a multipart body: what stands before it, then it. */
static const char *expect_part(const char *body, const char *boundary, const char *range,
                               const char *content)
{
    char expected[512];
    snprintf(expected, sizeof expected,
             "\r\n--%s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes "
             "%s/36\r\n\r\n%s",
             boundary, range, content);
    ck_assert_msg(strncmp(body, expected, strlen(expected)) == 0, "not \"%s\", but \"%s\"",
                  expected, body);
    return body + strlen(expected);
}

START_TEST(several_ranges_are_parts_of_one_body)
{
    static const char type[] = "multipart/byteranges; boundary=";
    open_with_text();
    const char *reply = get_range("bytes=0-1, -2, 10-12");
    ck_assert_int_eq(status_of(reply), 206);
    ck_assert_ptr_null(heard_header("Content-Range"));
    const char *body = body_of(reply);
    ck_assert_uint_eq((size_t)atoi(heard_header("Content-Length")), strlen(body));
    const char *boundary = heard_header("Content-Type");
    ck_assert_mem_eq(boundary, type, sizeof type - 1);
    boundary += sizeof type - 1;
    body = expect_part(body, boundary, "0-1", "01");
    body = expect_part(body, boundary, "34-35", "yz");
    body = expect_part(body, boundary, "10-12", "abc");
    char end[64];
    snprintf(end, sizeof end, "\r\n--%s--\r\n", boundary);
    ck_assert_str_eq(body, end);
    files_close();
}
END_TEST

START_TEST(parts_are_for_get_only)
{
    open_with_text();
    ck_assert_int_eq(status_of(ask_with("HEAD", "/t.txt", "Range: bytes=0-1\r\n")), 200);
    assert_heard("\r\nContent-Length: 36\r\n");
    files_close();
}
END_TEST

START_TEST(a_file_beyond_4_gib_is_sent_in_part)
{
    files_open(NULL);
    const off_t end = ((off_t)5 << 30) + 3;
    make_file("root/big.bin", "");
    int fd = open(at("root/big.bin"), O_WRONLY | O_CLOEXEC);
    ck_assert_int_eq(pwrite(fd, "end", 3, end - 3), 3);
    close(fd);
    const char *reply = ask_with("GET", "/big.bin", "Range: bytes=5368709119-\r\n");
    ck_assert_int_eq(status_of(reply), 206);
    ck_assert_str_eq(heard_header("Content-Range"), "bytes 5368709119-5368709122/5368709123");
    ck_assert_mem_eq(body_of(reply), "\0end", 4);
    ask_with("HEAD", "/big.bin", "");
    assert_heard("\r\nContent-Length: 5368709123\r\n");
    files_close();
}
END_TEST

static int ask_if(const char *name, const char *value, const char *more)
{
    char headers[512];
    snprintf(headers, sizeof headers, "%s: %s\r\n%s", name, value, more);
    return status_of(ask_with("GET", "/t.txt", headers));
}

#define AT "Sun, 06 Nov 1994 08:49:37 GMT"
#define EARLIER "Sun, 06 Nov 1994 08:49:36 GMT"

START_TEST(who_has_it_already_is_told_so)
{
    char etag[256], many[600];
    open_with_text();
    get("/t.txt");
    snprintf(etag, sizeof etag, "%s", heard_header("ETag"));
    ck_assert_int_eq(ask_if("If-None-Match", etag, ""), 304);
    ck_assert_str_eq(body_of(t.heard), "");
    ck_assert_str_eq(heard_header("ETag"), etag);
    assert_not_heard("Content-Length");
    snprintf(many, sizeof many, "\"other\", W/%s", etag);
    ck_assert_int_eq(ask_if("If-None-Match", many, ""), 304);
    snprintf(many, sizeof many, "If-None-Match: %s\r\n", etag);
    ck_assert_int_eq(ask_if("If-None-Match", "\"other\"", many), 304);
    ck_assert_int_eq(ask_if("If-None-Match", "*", ""), 304);
    ck_assert_int_eq(ask_if("If-None-Match", "\"other\"", ""), 200);
    ck_assert_int_eq(ask_if("If-None-Match", "\"other\"", "If-Modified-Since: " AT "\r\n"), 200);
    ck_assert_int_eq(ask_if("If-Modified-Since", AT, ""), 304);
    ck_assert_int_eq(ask_if("If-Modified-Since", EARLIER, ""), 200);
    ck_assert_int_eq(ask_if("If-Modified-Since", "yesterday", ""), 200);
    ck_assert_int_eq(ask_if("If-Modified-Since", AT, "If-Modified-Since: " AT "\r\n"), 200);
    files_close();
}
END_TEST

START_TEST(who_wants_it_unchanged_is_told_if_it_is_not)
{
    char etag[256];
    open_with_text();
    get("/t.txt");
    snprintf(etag, sizeof etag, "%s", heard_header("ETag"));
    ck_assert_int_eq(ask_if("If-Match", etag, ""), 200);
    ck_assert_int_eq(ask_if("If-Match", "*", ""), 200);
    ck_assert_int_eq(ask_if("If-Match", "\"other\"", ""), 412);
    ck_assert_int_eq(ask_if("If-Unmodified-Since", AT, ""), 200);
    ck_assert_int_eq(ask_if("If-Unmodified-Since", EARLIER, ""), 412);
    files_close();
}
END_TEST

START_TEST(a_part_is_only_sent_of_what_the_client_has_the_rest_of)
{
    char etag[256], weak[300];
    open_with_text();
    get("/t.txt");
    snprintf(etag, sizeof etag, "%s", heard_header("ETag"));
    snprintf(weak, sizeof weak, "W/%s", etag);
    const char *range = "Range: bytes=0-1\r\n";
    ck_assert_int_eq(ask_if("If-Range", etag, range), 206);
    ck_assert_int_eq(ask_if("If-Range", weak, range), 200);
    ck_assert_int_eq(ask_if("If-Range", "\"other\"", range), 200);
    ck_assert_str_eq(body_of(t.heard), TEXT);
    ck_assert_int_eq(ask_if("If-Range", AT, range), 206);
    ck_assert_int_eq(ask_if("If-Range", EARLIER, range), 200);
    files_close();
}
END_TEST

#define ACCEPTED "Accept-Encoding: br, gzip\r\n"

START_TEST(what_was_compressed_beforehand_is_sent_to_who_accepts_it)
{
    char plain[256];
    open_with_text();
    make_file("root/t.txt.gz", "packed");
    get("/t.txt");
    ck_assert_str_eq(body_of(t.heard), TEXT);
    ck_assert_str_eq(heard_header("Vary"), "Accept-Encoding");
    ck_assert_ptr_null(heard_header("Content-Encoding"));
    snprintf(plain, sizeof plain, "%s", heard_header("ETag"));
    ask_with("GET", "/t.txt", ACCEPTED);
    ck_assert_str_eq(body_of(t.heard), "packed");
    ck_assert_str_eq(heard_header("Content-Encoding"), "gzip");
    ck_assert_str_eq(heard_header("Content-Type"), "text/plain; charset=utf-8");
    ck_assert_str_eq(heard_header("Vary"), "Accept-Encoding");
    ck_assert_str_ne(heard_header("ETag"), plain);
    ask_with("GET", "/t.txt", "Accept-Encoding: gzip;q=0\r\n");
    ck_assert_str_eq(body_of(t.heard), TEXT);
    ask_with("GET", "/t.txt", ACCEPTED "Range: bytes=2-3\r\n");
    ck_assert_str_eq(body_of(t.heard), "ck");
    files_close();
}
END_TEST

START_TEST(what_was_compressed_before_the_last_change_is_not)
{
    open_with_text();
    make_file("root/t.txt.gz", "packed");
    set_time("root/t.txt.gz", A_TIME - 1);
    ask_with("GET", "/t.txt", ACCEPTED);
    ck_assert_str_eq(body_of(t.heard), TEXT);
    make_folder("root/a.txt.gz");
    ask_with("GET", "/a.txt", ACCEPTED);
    ck_assert_str_eq(body_of(t.heard), "0123456789");
    make_link("../secret.txt", "root/index.html.gz");
    ask_with("GET", "/", ACCEPTED);
    ck_assert_str_eq(body_of(t.heard), "<h1>Home</h1>");
    files_close();
}
END_TEST

/*
 * While it is sent.
 */

#define BIG ((size_t)8 << 20)

static void make_big(void)
{
    unsigned char *data = malloc(BIG);
    fill_from(data, BIG, 0);
    files_open(NULL);
    make_bytes("root/big.bin", data, BIG);
    free(data);
}

/* What comes of the body until the connection ends, checked. */
static size_t count_body(void)
{
    static unsigned char piece[64 << 10];
    size_t n = t.heard_bytes - (size_t)(body_of(t.heard) - t.heard);
    assert_bytes_at((const unsigned char *)body_of(t.heard), n, 0);
    ssize_t got;
    while ((got = weft_read(t.fd, piece, sizeof piece)) > 0) {
        assert_bytes_at(piece, (size_t)got, n);
        n += (size_t)got;
    }
    return n;
}

static void begin_big(void)
{
    talk_open(&t, weft_http_serve_files, files, NULL);
    talk_send(&t, "GET /big.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    talk_hear(&t, "\r\n\r\n");
    assert_heard("\r\nContent-Length: 8388608\r\n");
}

START_TEST(a_big_file_arrives_whole)
{
    make_big();
    begin_big();
    ck_assert_uint_eq(count_body(), BIG);
    ck_assert_int_eq(talk_close(&t), 0);
    files_close();
}
END_TEST

START_TEST(a_file_that_shrinks_meanwhile_ends_the_connection)
{
    make_big();
    begin_big();
    ck_assert_int_eq(truncate(at("root/big.bin"), 4 << 20), 0);
    ck_assert_uint_le(count_body(), 4 << 20);
    talk_close(&t);
    files_close();
}
END_TEST

START_TEST(of_a_file_that_grows_what_was_announced_is_sent)
{
    make_big();
    begin_big();
    ck_assert_int_eq(truncate(at("root/big.bin"), 2 * BIG), 0);
    ck_assert_uint_eq(count_body(), BIG);
    talk_close(&t);
    files_close();
}
END_TEST

START_TEST(a_file_that_vanishes_meanwhile_is_sent_all_the_same)
{
    make_big();
    begin_big();
    ck_assert_int_eq(unlink(at("root/big.bin")), 0);
    ck_assert_uint_eq(count_body(), BIG);
    talk_close(&t);
    files_close();
}
END_TEST

/* The file's own descriptor stays open, whatever becomes of the reply. */
static int reply_open_file(weft_http_request *r, void *fd)
{
    return weft_http_reply_file(r, *(int *)fd, "x.svg", NULL);
}

START_TEST(an_open_file_is_replied_with)
{
    open_with_text();
    int fd = open(at("root/t.txt"), O_RDONLY | O_CLOEXEC),
        folder = open(base, O_RDONLY | O_CLOEXEC);
    talk_once(&t, reply_open_file, &fd, NULL,
              "GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2\r\n\r\n");
    ck_assert_int_eq(status_of(t.heard), 206);
    ck_assert_str_eq(body_of(t.heard), "12");
    ck_assert_str_eq(heard_header("Content-Type"), "image/svg+xml");
    talk_once(&t, reply_open_file, &fd, NULL, "POST / HTTP/1.1\r\nHost: a\r\n\r\n");
    ck_assert_str_eq(body_of(t.heard), TEXT);
    talk_once(&t, reply_open_file, &folder, NULL, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    ck_assert_int_ge(status_of(t.heard), 400);
    ck_assert_int_eq(close(fd), 0);
    close(folder);
    files_close();
}
END_TEST

static const TTest *const *const tests[] = {
    &one_range_is_206_with_that_part,
    &a_range_that_is_none_is_passed_over,
    &a_range_behind_the_end_is_416_with_the_length,
    &several_ranges_are_parts_of_one_body,
    &parts_are_for_get_only,
    &a_file_beyond_4_gib_is_sent_in_part,
    &who_has_it_already_is_told_so,
    &who_wants_it_unchanged_is_told_if_it_is_not,
    &a_part_is_only_sent_of_what_the_client_has_the_rest_of,
    &what_was_compressed_beforehand_is_sent_to_who_accepts_it,
    &what_was_compressed_before_the_last_change_is_not,
    &a_big_file_arrives_whole,
    &a_file_that_shrinks_meanwhile_ends_the_connection,
    &of_a_file_that_grows_what_was_announced_is_sent,
    &a_file_that_vanishes_meanwhile_is_sent_all_the_same,
    &an_open_file_is_replied_with,
};

int main(void)
{
    return run_suite("http_parts", tests, COUNT_OF(tests));
}

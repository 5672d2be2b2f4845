/*
 * Files over HTTP: ranges, conditional requests, and files that change while they are sent.
 */
#include "http/http_files_support.h"
#include "support/suite.h"

#define TEXT "0123456789abcdefghijklmnopqrstuvwxyz"

static void open_with_text(void)
{
    files_open(NULL);
    create_file("root/t.txt", TEXT);
    set_mtime("root/t.txt", MTIME);
}

FIXTURE(open_with_text, files_close)

static const char *get_range(const char *range)
{
    const char *headers = format("Range: %s\r\n", range);
    return request_with("GET", "/t.txt", headers);
}

static void assert_range(const char *range, const char *content_range, const char *body)
{
    ck_assert_int_eq(status_of(get_range(range)), 206);
    ck_assert_str_eq(body_of(client.received), body);
    assert_header("Content-Range", content_range);
    assert_header("Content-Type", "text/plain; charset=utf-8");
}

TEST(one_range_is_206_with_that_range)
{
    assert_range("bytes=0-0", "bytes 0-0/36", "0");
    assert_range("bytes=0-9", "bytes 0-9/36", "0123456789");
    assert_range("bytes=10-12", "bytes 10-12/36", "abc");
    assert_range("bytes=33-", "bytes 33-35/36", "xyz");
    assert_range("bytes=-2", "bytes 34-35/36", "yz");
    assert_range("bytes=35-99", "bytes 35-35/36", "z");
    assert_range("bytes=-99", "bytes 0-35/36", TEXT);
}

static void assert_ignored(const char *range)
{
    ck_assert_msg(status_of(get_range(range)) == 200, "%s: %s", range, client.received);
    ck_assert_str_eq(body_of(client.received), TEXT);
}

TEST(an_invalid_range_is_ignored)
{
    EACH_TEXT(assert_ignored, "bytes=9-1", "bytes=a-b", "lines=0-1", "bytes", "bytes=-",
              "bytes=0-0,0-0,0-0,0-0");
}

TEST(a_range_after_the_end_is_416_with_the_length)
{
    ck_assert_int_eq(status_of(get_range("bytes=36-")), 416);
    assert_header("Content-Range", "bytes */36");
    ck_assert_int_eq(status_of(get_range("bytes=-0")), 416);
    /* Some clients always send a range. For an empty file the range is ignored. */
    ck_assert_int_eq(status_of(request_with("GET", "/empty.bin", "Range: bytes=0-\r\n")), 200);
}

/* Assert the next part of a multipart body. Return the position after it. */
static const char *expect_part(const char *body, const char *boundary, const char *range,
                               const char *content)
{
    char expected[512];
    snprintf(expected, sizeof expected,
             "\r\n--%s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes "
             "%s/36\r\n\r\n%s",
             boundary, range, content);
    ck_assert_msg(strncmp(body, expected, strlen(expected)) == 0,
                  "expected \"%s\", received \"%s\"", expected, body);
    return body + strlen(expected);
}

TEST(several_ranges_are_a_multipart_body)
{
    static const char type[] = "multipart/byteranges; boundary=";
    const char *response = get_range("bytes=0-1, -2, 10-12");
    ck_assert_int_eq(status_of(response), 206);
    ck_assert_ptr_null(response_header("Content-Range"));
    const char *body = body_of(response);
    ck_assert_uint_eq((size_t)atoi(response_header("Content-Length")), strlen(body));
    const char *boundary = response_header("Content-Type");
    ck_assert_mem_eq(boundary, type, sizeof type - 1);
    boundary += sizeof type - 1;
    body = expect_part(body, boundary, "0-1", "01");
    body = expect_part(body, boundary, "34-35", "yz");
    body = expect_part(body, boundary, "10-12", "abc");
    const char *end = format("\r\n--%s--\r\n", boundary);
    ck_assert_str_eq(body, end);
}

TEST(ranges_apply_to_get_only)
{
    ck_assert_int_eq(status_of(request_with("HEAD", "/t.txt", "Range: bytes=0-1\r\n")), 200);
    ck_assert_has(client.received, "\r\nContent-Length: 36\r\n");
}

TEST(a_range_of_a_file_beyond_4_gib_is_sent)
{
    const off_t end = ((off_t)5 << 30) + 3;
    create_file("root/big.bin", "");
    int fd = open(tree_path("root/big.bin"), O_WRONLY | O_CLOEXEC);
    ck_assert_int_eq(pwrite(fd, "end", 3, end - 3), 3);
    close(fd);
    const char *response = request_with("GET", "/big.bin", "Range: bytes=5368709119-\r\n");
    ck_assert_int_eq(status_of(response), 206);
    assert_header("Content-Range", "bytes 5368709119-5368709122/5368709123");
    ck_assert_mem_eq(body_of(response), "\0end", 4);
    request_with("HEAD", "/big.bin", "");
    ck_assert_has(client.received, "\r\nContent-Length: 5368709123\r\n");
}

#define MODIFIED "Sun, 06 Nov 1994 08:49:37 GMT"
#define BEFORE_MODIFIED "Sun, 06 Nov 1994 08:49:36 GMT"

/* The headers contain %s for the ETag of the file. */
static void assert_condition(const char *headers, const char *status)
{
    char etag[256];
    get_target("/t.txt");
    copy_etag(etag);
    const char *text = format(headers, etag);
    ck_assert_msg(status_of(request_with("GET", "/t.txt", text)) == atoi(status), "%s: %s", text,
                  client.received);
}

TEST(conditions_select_the_status)
{
    char etag[256];
    get_target("/t.txt");
    copy_etag(etag);
    assert_condition("If-None-Match: %s\r\n", "304");
    ck_assert_str_eq(body_of(client.received), "");
    assert_header("ETag", etag);
    ck_assert_lacks(client.received, "Content-Length");
    EACH_PAIR(assert_condition, "If-None-Match: \"other\", W/%s\r\n -> 304",
              "If-None-Match: \"other\"\r\nIf-None-Match: %s\r\n -> 304",
              "If-None-Match: *\r\n -> 304", "If-None-Match: \"other\"\r\n -> 200",
              "If-None-Match: \"other\"\r\nIf-Modified-Since: " MODIFIED "\r\n -> 200",
              "If-Modified-Since: " MODIFIED "\r\n -> 304",
              "If-Modified-Since: " BEFORE_MODIFIED "\r\n -> 200",
              "If-Modified-Since: yesterday\r\n -> 200",
              "If-Modified-Since: " MODIFIED "\r\nIf-Modified-Since: " MODIFIED "\r\n -> 200",
              "If-Match: %s\r\n -> 200", "If-Match: *\r\n -> 200", "If-Match: \"other\"\r\n -> 412",
              "If-Unmodified-Since: " MODIFIED "\r\n -> 200",
              "If-Unmodified-Since: " BEFORE_MODIFIED "\r\n -> 412",
              "If-Range: %s\r\nRange: bytes=0-1\r\n -> 206",
              "If-Range: W/%s\r\nRange: bytes=0-1\r\n -> 200",
              "If-Range: \"other\"\r\nRange: bytes=0-1\r\n -> 200",
              "If-Range: " MODIFIED "\r\nRange: bytes=0-1\r\n -> 206",
              "If-Range: " BEFORE_MODIFIED "\r\nRange: bytes=0-1\r\n -> 200");
    ck_assert_str_eq(body_of(client.received), TEXT); /* without the range */
}

/* Files that change while they are sent */

#define BIG ((size_t)4 << 20)

static void create_big_file(void)
{
    unsigned char *data = malloc(BIG);
    fill_from(data, BIG, 0);
    create_file_bytes("root/big.bin", data, BIG);
    free(data);
}

/* Read and check the body until the connection ends. Return the number of bytes. */
static size_t check_body(void)
{
    static unsigned char piece[64 << 10];
    size_t n = client.received_bytes - (size_t)(body_of(client.received) - client.received);
    assert_bytes_at((const unsigned char *)body_of(client.received), n, 0);
    ssize_t got;
    while ((got = weft_read(client.fd, piece, sizeof piece)) > 0) {
        assert_bytes_at(piece, (size_t)got, n);
        n += (size_t)got;
    }
    return n;
}

static void request_big_file(void)
{
    start_client(weft_http_serve_files, files, NULL,
                 "GET /big.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    client_expect(&client, "\r\n\r\n");
    ck_assert_has(client.received, "\r\nContent-Length: 4194304\r\n");
}

enum change { UNCHANGED, SHRUNK, GROWN, DELETED };

TEST(a_big_file_that_changes_while_it_is_sent_never_exceeds_its_announced_length)
{
    for (int change = UNCHANGED; change <= DELETED; change++) {
        create_big_file();
        request_big_file();
        if (change == SHRUNK || change == GROWN)
            ck_assert_int_eq(
                truncate(tree_path("root/big.bin"), change == SHRUNK ? BIG / 2 : 2 * BIG), 0);
        else if (change == DELETED)
            remove_file("root/big.bin");
        size_t bytes = check_body();
        ck_assert(change == SHRUNK ? bytes <= BIG / 2 : bytes == BIG);
        ck_assert(client_close(&client) == 0 || change != UNCHANGED);
    }
}

/* weft_http_reply_file does not close the descriptor. */
static int reply_open_file(weft_http_request *r, void *fd)
{
    return weft_http_reply_file(r, *(int *)fd, "x.svg", NULL);
}

TEST(weft_http_reply_file_sends_an_open_file)
{
    int fd = open(tree_path("root/t.txt"), O_RDONLY | O_CLOEXEC),
        folder = open(tree_folder, O_RDONLY | O_CLOEXEC);
    client_exchange(&client, reply_open_file, &fd, NULL,
                    "GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), 206);
    ck_assert_str_eq(body_of(client.received), "12");
    assert_header("Content-Type", "image/svg+xml");
    client_exchange(&client, reply_open_file, &fd, NULL, "POST / HTTP/1.1\r\nHost: a\r\n\r\n");
    ck_assert_str_eq(body_of(client.received), TEXT);
    client_exchange(&client, reply_open_file, &folder, NULL, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    ck_assert_int_ge(status_of(client.received), 400);
    ck_assert_int_eq(close(fd), 0);
    close(folder);
}

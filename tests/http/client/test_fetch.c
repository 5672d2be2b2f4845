/* The HTTP client: requests as sent, valid and invalid responses, limits, and cancellation. */
#include "http/fetch_support.h"
#include "support/suite.h"

FIXTURE(open_hello, close_site)

TEST(a_get_has_a_status_headers_and_a_body)
{
    open_site(STEPS({.reply = "HTTP/1.1 201 Made\r\nContent-Length: 5\r\nX-One: 1\r\n"
                              "x-two:  2 \r\nX-One: 3\r\nX-None:\r\n\r\nhello"}));
    ck_assert_int_eq(get("/a?b=c#d"), 201);
    ck_assert_int_eq(weft_fetch_status(fetch), 201);
    ck_assert_str_eq(weft_fetch_header(fetch, "x-one"), "1");
    ck_assert_str_eq(weft_fetch_header(fetch, "X-TWO"), "2");
    ck_assert_str_eq(weft_fetch_header(fetch, "X-None"), "");
    ck_assert_ptr_null(weft_fetch_header(fetch, "X-Three"));
    const char *name, *value;
    ck_assert_int_eq(weft_fetch_header_at(fetch, 3, &name, &value), 0);
    ck_assert_str_eq(name, "X-One");
    ck_assert_str_eq(value, "3");
    ck_assert_int_eq(weft_fetch_header_at(fetch, 5, &name, &value), -ENOENT);
    ck_assert_int_eq(weft_fetch_length(fetch), 5);
    ck_assert_str_eq(weft_fetch_url(fetch), url_of(&site, "/a?b=c#d"));
    assert_body("hello");
    assert_body("hello");
    ck_assert_int_eq(weft_fetch_read(fetch, (char[8]){0}, 8), 0);
    close_fetch();
    weft_fetch_close(NULL);
}

TEST(a_get_sends_exactly_these_headers)
{
    use_fetcher((weft_fetcher_options){.user_agent = "me/1", .has_no_gzip = true});
    assert_page("/p%20q?r=s%26#frag", "hello");
    char expected[512];
    snprintf(expected, sizeof expected,
             "GET /p%%20q?r=s%%26 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
             "User-Agent: me/1\r\nAccept: */*\r\n\r\n",
             site.port);
    ck_assert_str_eq(site.received, expected);
    ck_assert_fetch(NULL, url_of(&site, ""), "hello");
    ck_assert_has(site.received, "GET / HTTP/1.1\r\n", "\r\nUser-Agent: weft/");
}

TEST(an_ipv6_address_has_brackets_in_the_host_header)
{
    int probe = weft_listen("tcp", "[::1]:0");
    if (probe < 0)
        return; /* no IPv6 */
    weft_close(probe);
    start_server_at(&site, "[::1]:0", hello, 1);
    assert_page("/", "hello"); /* with the fetcher of the thread */
    ck_assert_has(site.received, format("Host: [::1]:%d\r\n", site.port));
    stop_server(&site);
}

TEST(fields_of_the_caller_extend_or_replace_those_of_the_client)
{
    const weft_fetch_field fields[] = {{"host", "other.test"},    {"Accept", "text/html"},
                                       {"accept-encoding", "br"}, {"USER-AGENT", "x"},
                                       {"X-Extra", "a\tb \xff"},  {"Connection", "close"}};
    weft_fetch_request r = {.url = url_of(&site, "/"), .fields = fields, .fields_count = 6};
    ck_assert_int_eq(send_request(r), 200);
    ck_assert_str_eq(site.received, "GET / HTTP/1.1\r\nhost: other.test\r\nAccept: text/html\r\n"
                                    "accept-encoding: br\r\nUSER-AGENT: x\r\nX-Extra: a\tb \xff\r\n"
                                    "Connection: close\r\n\r\n");
    let_run();
    ck_assert_uint_eq(site.open_conns, 0);
}

/* Assert that a request with this error sends nothing and returns no fetch. */
static void assert_invalid(weft_fetch_request r, int rc)
{
    fetch = (weft_fetch *)&r;
    r.url = url_of(&site, "/");
    ck_assert_msg(weft_fetch_send(fetcher, &r, &fetch) == rc, "%s %s", r.method,
                  r.fields != NULL ? r.fields->name : "");
    ck_assert_ptr_null(fetch);
    ck_assert_any_error(rc);
    ck_assert_uint_eq(site.conns, 0);
}

TEST(invalid_methods_types_and_fields_are_refused)
{
    static const weft_fetch_request requests[] = {
        {.method = "GET /x HTTP/1.1\r\n"},
        {.method = ""},
        {.method = "CONNECT"},
        {.method = "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJ"},
        {.type = "a\nb", .body = "x", .body_bytes = 1},
        {.body_bytes = 1},
    };
    static const weft_fetch_field invalid[] = {{"", "x"},          {"a b", "x"},  {"a:", "x"},
                                               {"a\r\nb", "x"},    {"a", NULL},   {NULL, "x"},
                                               {"a", "x\r\ny: z"}, {"a", "x\ny"}, {"a", "x\x7fy"}};
    static const weft_fetch_field forbidden[] = {{"content-length", "0"},
                                                 {"Transfer-Encoding", "chunked"},
                                                 {"Connection", "keep-alive"},
                                                 {"Connection", "upgrade"},
                                                 {"Upgrade", "h2c"}};
    static const weft_fetch_field twice[] = {{"Host", "a"}, {"Host", "b"}};
    for (size_t i = 0; i < COUNT_OF(requests); i++)
        assert_invalid(requests[i], -EINVAL);
    for (size_t i = 0; i < COUNT_OF(invalid); i++)
        assert_invalid((weft_fetch_request){.fields = &invalid[i], .fields_count = 1}, -EINVAL);
    for (size_t i = 0; i < COUNT_OF(forbidden); i++)
        assert_invalid((weft_fetch_request){.fields = &forbidden[i], .fields_count = 1}, -EPERM);
    assert_invalid((weft_fetch_request){.fields = twice, .fields_count = 2}, -EINVAL);
}

TEXT_CHECK(assert_invalid_url, weft_fetch_get(NULL, text, &fetch) == -EINVAL)

TEST(an_invalid_url_is_refused)
{
    EACH_TEXT(assert_invalid_url, "", "/path", "ftp://host/", "http//x", "http:///x", "http://a b/",
              "http://a/\r\nX: y", "mailto:a@b", "http://[::1", "http://a%0d%0aX:%20y/",
              "http://a%00b/", "http://127.0.0.1:0/", "http://a:65536/", NULL);
    ck_assert_ptr_null(weft_fetcher_new(&(weft_fetcher_options){.user_agent = "a\r\nb"}));
    ck_assert_ptr_null(weft_fetcher_new(&(weft_fetcher_options){.idle_s = NAN}));
}

TEST(a_body_is_sent_with_its_length_and_type)
{
    ck_assert_int_eq(weft_fetch_post(NULL, url_of(&site, "/p"), "text/plain", "a body", 6, &fetch),
                     200);
    close_fetch();
    ck_assert_has(site.received, "POST /p HTTP/1.1\r\n",
                  "Content-Type: text/plain\r\nContent-Length: 6\r\n\r\na body");
    send_request((weft_fetch_request){.method = "PUT", .url = url_of(&site, "/q")});
    ck_assert_has(site.received, "PUT /q HTTP/1.1\r\n", "Content-Length: 0\r\n");
    send_request((weft_fetch_request){.url = url_of(&site, "/r"), .body = ""});
    ck_assert_has(site.received, "POST /r HTTP/1.1\r\n");
}

TEST(the_user_of_a_url_is_sent_as_basic_credentials)
{
    const weft_fetch_field field = {"authorization", "Bearer x"};
    const char *url = format("http://Aladdin:open%%20sesame@127.0.0.1:%d/", site.port);
    ck_assert_int_eq(weft_fetch_get(NULL, url, &fetch), 200);
    ck_assert_str_eq(weft_fetch_url(fetch), url_of(&site, "/"));
    close_fetch();
    ck_assert_has(site.received, "\r\nAuthorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n");
    send_request((weft_fetch_request){.url = url, .fields = &field, .fields_count = 1});
    ck_assert_uint_eq(count_in(site.received, "uthorization:"), 2);
    ck_assert_has(site.received, "\r\nauthorization: Bearer x\r\n");
}

#define OK_LINE "HTTP/1.1 200 OK\r\n"

TEST(responses_with_every_framing_are_read_to_their_end)
{
    static const struct {
        const char *reply, *body;
        int64_t length;
        int status;
        bool is_head, is_reused, closes;
    } rows[] = {
        {OK_LINE "Content-Length: 3\r\n\r\nabc", "abc", 3, 200, .is_reused = true},
        {OK_LINE "Content-Length: 0\r\n\r\n", "", 0, 200, .is_reused = true},
        {"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", "x", 1, 200, .is_reused = true},
        {OK_LINE "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;e=f\r\nde\r\n0\r\n\r\n", "abcde",
         -1, 200, .is_reused = true},
        {OK_LINE "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", -1, 200, .is_reused = true},
        {OK_LINE "\r\nuntil the end", "until the end", -1, 200, .closes = true},
        {"HTTP/1.0 200 OK\r\n\r\nold", "old", -1, 200, .closes = true},
        {"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nold", "old", 3, 200, .closes = false},
        {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nold", "old", 3, 200,
         .is_reused = true},
        {OK_LINE "Connection: close\r\nContent-Length: 2\r\n\r\nab", "ab", 2, 200, .closes = false},
        {OK_LINE "Content-Length: 999\r\n\r\n", "", 999, 200, .is_head = true, .is_reused = true},
        {OK_LINE "Transfer-Encoding: chunked\r\n\r\n", "", -1, 200, .is_head = true,
         .is_reused = true},
        {"HTTP/1.1 204 None\r\n\r\n", "", 0, 204, .is_reused = true},
        {"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", "", 0, 304, .is_reused = true},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n"
         "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
         "x", 1, 200, .is_reused = true},
        {"HTTP/1.1 404 No\r\nContent-Length: 4\r\n\r\nnone", "none", 4, 404, .is_reused = true},
        {"HTTP/1.1 599 Odd\r\nContent-Length: 0\r\n\r\n", "", 0, 599, .is_reused = true},
        {OK_LINE "Content-Length: 1\r\n\r\nxand more", "x", 1, 200, .closes = false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        open_site(STEPS({.reply = rows[i].reply, .closes = rows[i].closes}));
        for (int again = 0; again < 2; again++) {
            weft_fetch_request r = {.method = rows[i].is_head ? "HEAD" : "GET",
                                    .url = url_of(&site, "/")};
            int status = weft_fetch_send(fetcher, &r, &fetch);
            ck_assert_msg(status == rows[i].status, "row %zu: %d", i, status);
            bool has_length = status == 304 || weft_fetch_length(fetch) == rows[i].length;
            ck_assert_msg(has_length, "row %zu: %d", i, (int)weft_fetch_length(fetch));
            assert_body(rows[i].body);
            close_fetch();
        }
        ck_assert_msg(site.conns == (rows[i].is_reused ? 1 : 2), "row %zu: %zu", i, site.conns);
    }
}

#define INTERIM_4                                                        \
    "HTTP/1.1 102 A\r\n\r\nHTTP/1.1 102 A\r\n\r\nHTTP/1.1 102 A\r\n\r\n" \
    "HTTP/1.1 102 A\r\n\r\n"
#define INTERIM_16 INTERIM_4 INTERIM_4 INTERIM_4 INTERIM_4

#define CHUNKED OK_LINE "Transfer-Encoding: chunked\r\n\r\n"

static int head_result, body_result; /* of a request, and of reading its body */

static void assert_broken(const char *reply)
{
    char *text;
    open_site(STEPS({.reply = reply, .closes = true}));
    ck_assert_msg(get("/") == head_result, "%s", reply);
    if (head_result >= 0) {
        ck_assert_msg(weft_fetch_read_all(fetch, &text) == body_result, "%s", reply);
        ck_assert_int_eq(weft_fetch_read(fetch, (char[8]){0}, 8), body_result);
        close_fetch();
    }
    ck_assert_uint_eq(site.conns, 1); /* a request on a new connection is not repeated */
}

#define BROKEN(head, body, ...)                \
    do {                                       \
        head_result = head;                    \
        body_result = body;                    \
        EACH_TEXT(assert_broken, __VA_ARGS__); \
    } while (0)

TEST(invalid_responses_are_errors)
{
    warm_up();
    BROKEN(-ECONNRESET, 0, "", OK_LINE);
    BROKEN(-EBADMSG, 0, "SSH-2.0-OpenSSH_9.2\r\n",
           OK_LINE "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
           OK_LINE "Content-Length: -1\r\n\r\n",
           OK_LINE "Content-Length: 99999999999999999999\r\n\r\n", OK_LINE "A b: c\r\n\r\n",
           "HTTP/2.0 200 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n",
           "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
           INTERIM_16 INTERIM_16 INTERIM_4);
    BROKEN(200, -ECONNRESET, OK_LINE "Content-Length: 5\r\n\r\nabc", CHUNKED "5\r\nabc",
           CHUNKED "3\r\nabc\r\n");
    BROKEN(200, -EBADMSG, CHUNKED "xyz\r\nabc", CHUNKED "3\r\nabcd\r\n",
           CHUNKED "11111111111111111\r\n");
}

static bool send_long_head(script_server *sv, weft_stream *s)
{
    weft_stream_puts(s, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 1000; i++)
        if (weft_stream_printf(s, "X-%d: %0200d\r\n", i, i) < 0)
            return false;
    weft_stream_puts(s, "Content-Length: 0\r\n\r\n");
    return true;
}

TEST(a_head_over_the_limit_is_refused)
{
    open_site(STEPS({.handle = send_long_head}));
    ck_assert_fails(get("/"), -EMSGSIZE);
    use_fetcher((weft_fetcher_options){.head_bytes_max = 1 << 20});
    ck_assert_int_eq(get("/"), 200);
    ck_assert_int_eq(atoi(weft_fetch_header(fetch, "X-999")), 999);
}

TEST(trailers_are_available_after_the_body_is_read)
{
    open_site(
        STEPS({.reply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
                        "3\r\nabc\r\n0\r\nX-Sum: 294\r\nX-End: now\r\n\r\n"}));
    char *text;
    ck_assert_int_eq(get("/"), 200);
    ck_assert_ptr_null(weft_fetch_trailer(fetch, "X-Sum"));
    ck_assert_int_eq(weft_fetch_read_all(fetch, &text), 3);
    ck_assert_str_eq(weft_fetch_trailer(fetch, "x-sum"), "294");
    ck_assert_str_eq(weft_fetch_trailer(fetch, "X-End"), "now");
    ck_assert_ptr_null(weft_fetch_trailer(fetch, "Trailer"));
}

TEST(a_body_over_the_limit_is_read_in_pieces_only)
{
    use_fetcher((weft_fetcher_options){.body_bytes_max = 4});
    char *text, data[8];
    ck_assert_int_eq(get("/"), 200);
    ck_assert_int_eq(weft_fetch_read_all(fetch, &text), -EMSGSIZE);
    ck_assert_int_eq(weft_fetch_read(fetch, data, sizeof data), -EMSGSIZE);
    ck_assert_int_eq(get("/"), 200);
    ck_assert_int_eq(weft_fetch_read(fetch, data, 2), 2);
    ck_assert_mem_eq(data, "he", 2);
    const void *piece;
    ck_assert_int_eq(weft_fetch_read_piece(fetch, &piece), 3);
    ck_assert_mem_eq(piece, "llo", 3);
    ck_assert_int_eq(weft_fetch_read_piece(fetch, &piece), 0);
}

TEST(a_fetch_that_times_out_releases_its_connection)
{
    warm_up();
    open_site(STEPS({.is_held = true}, {.reply = OK("again", "5")}));
    weft_sleep(0);
    size_t before = count_descriptors();
    int rc = 0, status = 0;
    WEFT_CANCEL_AFTER(0.02, rc)
        status = get("/");
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_int_eq(status, -ECANCELED);
    ck_assert_ptr_null(fetch);
    ck_assert_uint_eq(count_descriptors(), before + 1); /* the server's end of the connection */
    release_replies(&site, 1);
    assert_page("/", "again");
    ck_assert_uint_eq(site.conns, 2);
}

static bool send_in_two_parts(script_server *sv, weft_stream *s)
{
    weft_stream_puts(s, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc");
    weft_stream_flush(s);
    weft_sem_wait(&sv->gate);
    weft_stream_puts(s, "def");
    weft_stream_flush(s);
    return true;
}

TEST(a_cancelled_read_loses_no_bytes)
{
    open_site(STEPS({.handle = send_in_two_parts}));
    char *text;
    ssize_t n = 0;
    ck_assert_int_eq(get("/"), 200);
    WEFT_MOVE_ON_AFTER(0.01)
        n = weft_fetch_read_all(fetch, &text);
    ck_assert_int_eq(n, -ECANCELED);
    release_replies(&site, 1);
    assert_body("abcdef");
}

TEST(an_unreachable_server_is_econnrefused)
{
    endpoint p;
    int listener = listen_tcp(&p, 1);
    const char *url = format("http://127.0.0.1:%d/", ntohs(p.u.in.sin_port));
    close(listener);
    weft_fetch *f;
    ck_assert_fails(weft_fetch_get(NULL, url, &f), -ECONNREFUSED);
}

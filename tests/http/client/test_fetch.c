/* The HTTP client: requests as sent, valid and invalid responses, limits, and cancellation. */
#include "http/fetch_support.h"
#include "support/suite.h"

static const script_step hello[] = {{.reply = OK("hello", "5")}};

TEST(a_get_has_a_status_headers_and_a_body)
{
    static const script_step steps[] = {
        {.reply = "HTTP/1.1 201 Made\r\nContent-Length: 5\r\nX-One: 1\r\n"
                  "x-two:  2 \r\nX-One: 3\r\nX-None:\r\n\r\nhello"}};
    script_server sv;
    start_server(&sv, steps, 1);
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_get(NULL, url_of(&sv, "/a?b=c#d"), &f), 201);
    ck_assert_int_eq(weft_fetch_status(f), 201);
    ck_assert_str_eq(weft_fetch_header(f, "x-one"), "1");
    ck_assert_str_eq(weft_fetch_header(f, "X-TWO"), "2");
    ck_assert_str_eq(weft_fetch_header(f, "X-None"), "");
    ck_assert_ptr_null(weft_fetch_header(f, "X-Three"));
    const char *name, *value;
    ck_assert_int_eq(weft_fetch_header_at(f, 3, &name, &value), 0);
    ck_assert_str_eq(name, "X-One");
    ck_assert_str_eq(value, "3");
    ck_assert_int_eq(weft_fetch_header_at(f, 5, &name, &value), -ENOENT);
    ck_assert_int_eq(weft_fetch_length(f), 5);
    ck_assert_str_eq(weft_fetch_url(f), url_of(&sv, "/a?b=c#d"));
    char *text;
    ck_assert_int_eq(weft_fetch_read_all(f, &text), 5);
    ck_assert_str_eq(text, "hello");
    ck_assert_int_eq(weft_fetch_read_all(f, &text), 5);
    ck_assert_int_eq(weft_fetch_read(f, (char[8]){0}, 8), 0);
    weft_fetch_close(f);
    weft_fetch_close(NULL);
    stop_server(&sv);
}

TEST(a_get_sends_exactly_these_headers)
{
    script_server sv;
    start_server(&sv, hello, 1);
    weft_fetcher *fetcher =
        weft_fetcher_new(&(weft_fetcher_options){.user_agent = "me/1", .has_no_gzip = true});
    ck_assert_fetch(fetcher, url_of(&sv, "/p%20q?r=s%26#frag"), "hello");
    char expected[512];
    snprintf(expected, sizeof expected,
             "GET /p%%20q?r=s%%26 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
             "User-Agent: me/1\r\nAccept: */*\r\n\r\n",
             sv.port);
    ck_assert_str_eq(sv.received, expected);
    ck_assert_fetch(NULL, url_of(&sv, ""), "hello");
    ck_assert_server_received(&sv, "GET / HTTP/1.1\r\n");
    ck_assert_server_received(&sv, "\r\nUser-Agent: weft/");
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}

TEST(an_ipv6_address_has_brackets_in_the_host_header)
{
    int probe = weft_listen("tcp", "[::1]:0");
    if (probe < 0)
        return; /* no IPv6 */
    weft_close(probe);
    script_server sv;
    start_server_at(&sv, "[::1]:0", hello, 1);
    ck_assert_fetch(NULL, url_of(&sv, "/"), "hello");
    char expected[64];
    snprintf(expected, sizeof expected, "Host: [::1]:%d\r\n", sv.port);
    ck_assert_server_received(&sv, expected);
    stop_server(&sv);
}

TEST(fields_of_the_caller_extend_or_replace_those_of_the_client)
{
    script_server sv;
    start_server(&sv, hello, 1);
    const weft_fetch_field fields[] = {{"host", "other.test"},    {"Accept", "text/html"},
                                       {"accept-encoding", "br"}, {"USER-AGENT", "x"},
                                       {"X-Extra", "a\tb \xff"},  {"Connection", "close"}};
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_send(NULL,
                                     &(weft_fetch_request){.url = url_of(&sv, "/"),
                                                           .fields = fields,
                                                           .fields_count = COUNT_OF(fields)},
                                     &f),
                     200);
    weft_fetch_close(f);
    ck_assert_str_eq(sv.received, "GET / HTTP/1.1\r\nhost: other.test\r\nAccept: text/html\r\n"
                                  "accept-encoding: br\r\nUSER-AGENT: x\r\nX-Extra: a\tb \xff\r\n"
                                  "Connection: close\r\n\r\n");
    let_run();
    ck_assert_uint_eq(sv.open_conns, 0);
    stop_server(&sv);
}

TEST(invalid_methods_types_and_fields_are_refused)
{
    static const struct {
        weft_fetch_request r;
        weft_fetch_field field;
        int rc;
    } rows[] = {
        {{.method = "GET /x HTTP/1.1\r\n"}, {NULL, NULL}, -EINVAL},
        {{.method = ""}, {NULL, NULL}, -EINVAL},
        {{.method = "CONNECT"}, {NULL, NULL}, -EINVAL},
        {{.method = "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJ"}, {NULL, NULL}, -EINVAL},
        {{.type = "a\nb", .body = "x", .body_bytes = 1}, {NULL, NULL}, -EINVAL},
        {{.body_bytes = 1}, {NULL, NULL}, -EINVAL},
        {{0}, {"", "x"}, -EINVAL},
        {{0}, {"a b", "x"}, -EINVAL},
        {{0}, {"a:", "x"}, -EINVAL},
        {{0}, {"a\r\nb", "x"}, -EINVAL},
        {{0}, {"a", NULL}, -EINVAL},
        {{0}, {NULL, "x"}, -EINVAL},
        {{0}, {"a", "x\r\ny: z"}, -EINVAL},
        {{0}, {"a", "x\ny"}, -EINVAL},
        {{0}, {"a", "x\x7fy"}, -EINVAL},
        {{0}, {"content-length", "0"}, -EPERM},
        {{0}, {"Transfer-Encoding", "chunked"}, -EPERM},
        {{0}, {"Connection", "keep-alive"}, -EPERM},
        {{0}, {"Connection", "upgrade"}, -EPERM},
        {{0}, {"Upgrade", "h2c"}, -EPERM},
    };
    script_server sv;
    start_server(&sv, hello, 1);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        weft_fetch_request r = rows[i].r;
        weft_fetch *f = (weft_fetch *)&r;
        r.url = url_of(&sv, "/");
        if (rows[i].field.name != NULL || rows[i].field.value != NULL) {
            r.fields = &rows[i].field;
            r.fields_count = 1;
        }
        ck_assert_msg(weft_fetch_send(NULL, &r, &f) == rows[i].rc, "row %zu", i);
        ck_assert_ptr_null(f);
        ck_assert_any_error(rows[i].rc);
    }
    const weft_fetch_field twice[] = {{"Host", "a"}, {"Host", "b"}};
    const weft_fetch_request r = {.url = url_of(&sv, "/"), .fields = twice, .fields_count = 2};
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_send(NULL, &r, &f), -EINVAL);
    ck_assert_uint_eq(sv.conns, 0);
    stop_server(&sv);
}

TEST(an_invalid_url_is_refused)
{
    static const char *const urls[] = {"",
                                       "/path",
                                       "ftp://host/",
                                       "http//x",
                                       "http:///x",
                                       "http://a b/",
                                       "http://a/\r\nX: y",
                                       "mailto:a@b",
                                       "http://[::1",
                                       "http://a%0d%0aX:%20y/",
                                       "http://a%00b/",
                                       "http://127.0.0.1:0/",
                                       "http://a:65536/",
                                       NULL};
    weft_fetch *f;
    for (size_t i = 0; i < COUNT_OF(urls); i++)
        ck_assert_msg(weft_fetch_get(NULL, urls[i], &f) == -EINVAL, "%s", urls[i]);
    ck_assert_ptr_null(weft_fetcher_new(&(weft_fetcher_options){.user_agent = "a\r\nb"}));
    ck_assert_ptr_null(weft_fetcher_new(&(weft_fetcher_options){.idle_s = NAN}));
}

TEST(a_body_is_sent_with_its_length_and_type)
{
    script_server sv;
    start_server(&sv, hello, 1);
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_post(NULL, url_of(&sv, "/p"), "text/plain", "a body", 6, &f), 200);
    weft_fetch_close(f);
    ck_assert_server_received(&sv, "POST /p HTTP/1.1\r\n");
    ck_assert_server_received(&sv, "Content-Type: text/plain\r\nContent-Length: 6\r\n\r\na body");
    const weft_fetch_request put = {.method = "PUT", .url = url_of(&sv, "/q")};
    ck_assert_int_eq(weft_fetch_send(NULL, &put, &f), 200);
    weft_fetch_close(f);
    ck_assert_server_received(&sv, "PUT /q HTTP/1.1\r\n");
    ck_assert_server_received(&sv, "Content-Length: 0\r\n");
    const weft_fetch_request body = {.url = url_of(&sv, "/r"), .body = "", .body_bytes = 0};
    ck_assert_int_eq(weft_fetch_send(NULL, &body, &f), 200);
    weft_fetch_close(f);
    ck_assert_server_received(&sv, "POST /r HTTP/1.1\r\n");
    stop_server(&sv);
}

TEST(the_user_of_a_url_is_sent_as_basic_credentials)
{
    script_server sv;
    start_server(&sv, hello, 1);
    char url[128];
    snprintf(url, sizeof url, "http://Aladdin:open%%20sesame@127.0.0.1:%d/", sv.port);
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_get(NULL, url, &f), 200);
    ck_assert_str_eq(weft_fetch_url(f), url_of(&sv, "/"));
    weft_fetch_close(f);
    ck_assert_server_received(&sv, "\r\nAuthorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n");
    const weft_fetch_field field = {"authorization", "Bearer x"};
    ck_assert_int_eq(
        weft_fetch_send(NULL,
                        &(weft_fetch_request){.url = url, .fields = &field, .fields_count = 1}, &f),
        200);
    weft_fetch_close(f);
    ck_assert_uint_eq(count_in(sv.received, "uthorization:"), 2);
    ck_assert_server_received(&sv, "\r\nauthorization: Bearer x\r\n");
    stop_server(&sv);
}

/* Each row states whether the connection is reused after the response. */
TEST(responses_with_every_framing_are_read_to_their_end)
{
    static const struct {
        const char *method, *reply;
        int status;
        const char *body;
        int64_t length;
        bool is_reused, closes;
    } rows[] = {
        {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, "abc", 3, true, false},
        {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", 0, true, false},
        {"GET", "HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", 200, "x", 1, true, false},
        {"GET",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;e=f\r\nde\r\n"
         "0\r\n\r\n",
         200, "abcde", -1, true, false},
        {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, "", -1, true,
         false},
        {"GET", "HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, "until the end", -1, false, true},
        {"GET", "HTTP/1.0 200 OK\r\n\r\nold", 200, "old", -1, false, true},
        {"GET", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nold", 200, "old", 3, false, false},
        {"GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nold", 200,
         "old", 3, true, false},
        {"GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab", 200, "ab", 2,
         false, false},
        {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n", 200, "", 999, true, false},
        {"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200, "", -1, true, false},
        {"GET", "HTTP/1.1 204 None\r\n\r\n", 204, "", 0, true, false},
        {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", 304, "", 0, true, false},
        {"GET",
         "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n"
         "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
         200, "x", 1, true, false},
        {"GET", "HTTP/1.1 404 No\r\nContent-Length: 4\r\n\r\nnone", 404, "none", 4, true, false},
        {"GET", "HTTP/1.1 599 Odd\r\nContent-Length: 0\r\n\r\n", 599, "", 0, true, false},
        {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxand more", 200, "x", 1, false, false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const script_step steps[] = {{.reply = rows[i].reply, .closes = rows[i].closes}};
        script_server sv;
        start_server(&sv, steps, 1);
        weft_fetcher *fetcher = weft_fetcher_new(NULL);
        for (int again = 0; again < 2; again++) {
            weft_fetch *f;
            char *text = NULL;
            const weft_fetch_request r = {.method = rows[i].method, .url = url_of(&sv, "/")};
            int status = weft_fetch_send(fetcher, &r, &f);
            ck_assert_msg(status == rows[i].status, "row %zu: %d", i, status);
            bool has_length = rows[i].status == 304 || weft_fetch_length(f) == rows[i].length;
            ck_assert_msg(has_length, "row %zu: %d", i, (int)weft_fetch_length(f));
            ck_assert_int_eq(weft_fetch_read_all(f, &text), (ssize_t)strlen(rows[i].body));
            ck_assert_str_eq(text, rows[i].body);
            weft_fetch_close(f);
        }
        ck_assert_msg(sv.conns == (rows[i].is_reused ? 1 : 2), "row %zu: %zu", i, sv.conns);
        ck_assert_int_eq(weft_fetcher_free(fetcher), 0);
        stop_server(&sv);
    }
}

#define INTERIM_4                                                        \
    "HTTP/1.1 102 A\r\n\r\nHTTP/1.1 102 A\r\n\r\nHTTP/1.1 102 A\r\n\r\n" \
    "HTTP/1.1 102 A\r\n\r\n"
#define INTERIM_16 INTERIM_4 INTERIM_4 INTERIM_4 INTERIM_4

/* Each row has the result of the request, and the error of reading the body. */
TEST(invalid_responses_are_errors)
{
    static const struct {
        const char *reply;
        int head, body;
    } rows[] = {
        {"", -ECONNRESET, 0},
        {"HTTP/1.1 200 OK\r\n", -ECONNRESET, 0},
        {"SSH-2.0-OpenSSH_9.2\r\n", -EBADMSG, 0},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", -EBADMSG, 0},
        {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", -EBADMSG, 0},
        {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", -EBADMSG, 0},
        {"HTTP/1.1 200 OK\r\nA b: c\r\n\r\n", -EBADMSG, 0},
        {"HTTP/2.0 200 OK\r\n\r\n", -EBADMSG, 0},
        {"HTTP/1.1 20 OK\r\n\r\n", -EBADMSG, 0},
        {"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", -EBADMSG, 0},
        {INTERIM_16 INTERIM_16 INTERIM_4, -EBADMSG, 0},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", 200, -ECONNRESET},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", 200, -ECONNRESET},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", 200, -ECONNRESET},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nabc", 200, -EBADMSG},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n", 200, -EBADMSG},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11111111111111111\r\n", 200,
         -EBADMSG},
    };
    warm_up();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const script_step steps[] = {{.reply = rows[i].reply, .closes = true}};
        script_server sv;
        start_server(&sv, steps, 1);
        weft_fetcher *fetcher = weft_fetcher_new(NULL);
        weft_fetch *f;
        char *text;
        int rc = weft_fetch_get(fetcher, url_of(&sv, "/"), &f);
        ck_assert_msg(rc == rows[i].head, "row %zu: %d", i, rc);
        if (rc >= 0) {
            ssize_t n = weft_fetch_read_all(f, &text);
            ck_assert_msg(n == rows[i].body, "row %zu: %zd", i, n);
            ck_assert_int_eq(weft_fetch_read(f, (char[8]){0}, 8), rows[i].body);
            weft_fetch_close(f);
        }
        ck_assert_uint_eq(sv.conns, 1); /* a request on a new connection is not repeated */
        ck_assert_int_eq(weft_fetcher_free(fetcher), 0);
        stop_server(&sv);
    }
}

static bool send_long_head(script_server *sv, weft_stream *s)
{
    (void)sv;
    weft_stream_puts(s, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 1000; i++)
        if (weft_stream_printf(s, "X-%d: %0200d\r\n", i, i) < 0)
            return false;
    weft_stream_puts(s, "Content-Length: 0\r\n\r\n");
    return true;
}

TEST(a_head_over_the_limit_is_refused)
{
    static const script_step steps[] = {{.handle = send_long_head}};
    script_server sv;
    start_server(&sv, steps, 1);
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_get(NULL, url_of(&sv, "/"), &f), -EMSGSIZE);
    ck_assert_any_error(-EMSGSIZE);
    weft_fetcher *fetcher = weft_fetcher_new(&(weft_fetcher_options){.head_bytes_max = 1 << 20});
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), 200);
    ck_assert_int_eq(atoi(weft_fetch_header(f, "X-999")), 999);
    weft_fetch_close(f);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}

TEST(trailers_are_available_after_the_body_is_read)
{
    static const script_step steps[] = {
        {.reply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
                  "3\r\nabc\r\n0\r\nX-Sum: 294\r\nX-End: now\r\n\r\n"}};
    script_server sv;
    start_server(&sv, steps, 1);
    weft_fetch *f;
    char *text;
    ck_assert_int_eq(weft_fetch_get(NULL, url_of(&sv, "/"), &f), 200);
    ck_assert_ptr_null(weft_fetch_trailer(f, "X-Sum"));
    ck_assert_int_eq(weft_fetch_read_all(f, &text), 3);
    ck_assert_str_eq(weft_fetch_trailer(f, "x-sum"), "294");
    ck_assert_str_eq(weft_fetch_trailer(f, "X-End"), "now");
    ck_assert_ptr_null(weft_fetch_trailer(f, "Trailer"));
    weft_fetch_close(f);
    stop_server(&sv);
}

TEST(a_body_over_the_limit_is_read_in_pieces_only)
{
    script_server sv;
    start_server(&sv, hello, 1);
    weft_fetcher *fetcher = weft_fetcher_new(&(weft_fetcher_options){.body_bytes_max = 4});
    weft_fetch *f;
    char *text, data[8];
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), 200);
    ck_assert_int_eq(weft_fetch_read_all(f, &text), -EMSGSIZE);
    ck_assert_int_eq(weft_fetch_read(f, data, sizeof data), -EMSGSIZE);
    weft_fetch_close(f);
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), 200);
    ck_assert_int_eq(weft_fetch_read(f, data, 2), 2);
    ck_assert_mem_eq(data, "he", 2);
    const void *piece;
    ck_assert_int_eq(weft_fetch_read_piece(f, &piece), 3);
    ck_assert_mem_eq(piece, "llo", 3);
    ck_assert_int_eq(weft_fetch_read_piece(f, &piece), 0);
    weft_fetch_close(f);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}

TEST(a_fetch_that_times_out_releases_its_connection)
{
    static const script_step steps[] = {{.is_held = true}, {.reply = OK("again", "5")}};
    warm_up();
    script_server sv;
    start_server(&sv, steps, COUNT_OF(steps));
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    weft_sleep(0);
    size_t before = count_descriptors();
    weft_fetch *f;
    int rc = 0, status = 0;
    WEFT_CANCEL_AFTER(0.02, rc)
        status = weft_fetch_get(fetcher, url_of(&sv, "/"), &f);
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_int_eq(status, -ECANCELED);
    ck_assert_ptr_null(f);
    ck_assert_uint_eq(count_descriptors(), before + 1); /* the server's end of the connection */
    release_replies(&sv, 1);
    ck_assert_fetch(fetcher, url_of(&sv, "/"), "again");
    ck_assert_uint_eq(sv.conns, 2);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
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
    static const script_step steps[] = {{.handle = send_in_two_parts}};
    script_server sv;
    start_server(&sv, steps, 1);
    weft_fetch *f;
    char *text;
    ssize_t n = 0;
    ck_assert_int_eq(weft_fetch_get(NULL, url_of(&sv, "/"), &f), 200);
    WEFT_MOVE_ON_AFTER(0.01)
        n = weft_fetch_read_all(f, &text);
    ck_assert_int_eq(n, -ECANCELED);
    release_replies(&sv, 1);
    ck_assert_int_eq(weft_fetch_read_all(f, &text), 6);
    ck_assert_str_eq(text, "abcdef");
    weft_fetch_close(f);
    stop_server(&sv);
}

TEST(an_unreachable_server_is_econnrefused)
{
    endpoint p;
    int listener = listen_tcp(&p, 1);
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/", ntohs(p.u.in.sin_port));
    close(listener);
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_get(NULL, url, &f), -ECONNREFUSED);
    ck_assert_any_error(-ECONNREFUSED);
}

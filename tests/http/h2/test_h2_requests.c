/* The HTTP/2 server: requests and replies as RFC 9113, 8 requires, and as handlers see them. */
#include "http/h2/h2_raw.h"
#include "support/suite.h"

FIXTURE(NULL, h2_end_test)

static weft_event may_end;

/* Reply with what the handler sees. */
static int reply_request(weft_http_request *r)
{
    const char *name, *value;
    weft_http_printf(r, "%s %s host=%s scheme=%s version=%d length=%lld", weft_http_method(r),
                     weft_http_path(r), weft_http_host(r), weft_http_scheme(r),
                     weft_http_version(r), (long long)weft_http_length(r));
    for (size_t i = 0; weft_http_header_at(r, i, &name, &value) == 0; i++)
        weft_http_printf(r, " %s=%s", name, value);
    return 0;
}

static int reply_body(weft_http_request *r)
{
    char *body;
    ssize_t n = weft_http_read_all(r, &body);
    const char *trailer = weft_http_trailer(r, "X-Sum");
    return n < 0 ? (int)n
                 : weft_http_reply_text(r, 200, "%s, %s", body, trailer != NULL ? trailer : "-");
}

static int reply_trailers(weft_http_request *r)
{
    weft_http_printf(r, "body");
    weft_http_set_trailer(r, "X-Sum", "7");
    return weft_http_set_trailer(r, "Keep-Alive", "no"); /* must not leave the server */
}

static int reply_odd_fields(weft_http_request *r)
{
    weft_http_set(r, "X-Upper-CASE", " blanks ");
    weft_http_set(r, "Keep-Alive", "timeout=5");
    weft_http_set(r, "Upgrade", "x");
    weft_http_set(r, "Proxy-Connection", "x");
    return weft_http_reply(r, 200, "text/plain", "x", 1);
}

static int fail_later(weft_http_request *r)
{
    weft_http_printf(r, "part");
    int rc = weft_http_flush(r);
    return rc < 0 ? rc : -EIO;
}

static int reply_hints(weft_http_request *r)
{
    int rc = weft_http_add(r, "Link", "</a.css>");
    if (rc == 0)
        rc = weft_http_inform(r, 103);
    ck_assert_int_eq(weft_http_inform(r, 200), -EINVAL);
    ck_assert_int_eq(weft_http_inform(r, 101), -EINVAL);
    return rc < 0 ? rc : weft_http_reply(r, 200, NULL, "x", 1);
}

static int reply_when_allowed(weft_http_request *r)
{
    int rc = weft_event_wait(&may_end);
    return rc < 0 ? rc : weft_http_reply(r, 200, NULL, "late", 4);
}

static int handle_request(weft_http_request *r, void *ctx)
{
    static const struct {
        const char *path;
        int (*reply)(weft_http_request *r);
    } pages[] = {{"/request", reply_request},  {"/body", reply_body}, {"/trailers", reply_trailers},
                 {"/odd", reply_odd_fields},   {"/fail", fail_later}, {"/hints", reply_hints},
                 {"/late", reply_when_allowed}};
    const char *path = weft_http_path(r);
    for (size_t i = 0; i < COUNT_OF(pages); i++)
        if (strcmp(path, pages[i].path) == 0)
            return pages[i].reply(r);
    if (strcmp(path, "/204") == 0)
        return weft_http_reply(r, 204, NULL, NULL, 0);
    if (strcmp(path, "/304") == 0)
        return weft_http_reply(r, 304, NULL, NULL, 0);
    if (strcmp(path, "/close") == 0)
        weft_http_set(r, "Connection", "close");
    return weft_http_reply(r, 200, "text/plain", "Hello\n", 6);
}

static void start(const weft_http_options *options)
{
    h2_open(handle_request, NULL, options);
}

TEST(a_handler_sees_a_request_as_if_it_had_arrived_by_http_1)
{
    start(NULL);
    h2_send_head(1, H2_WHOLE,
                 ":method: PATCH\n:scheme: http\n:path: /a/../request?q\n:authority: Ex.org:80\n"
                 "cookie: a=1\nx: 1\ncookie: b=2\ncookie: c=3\nhost: ex.ORG:80\nte: trailers\n");
    h2_expect("PATCH /request host=ex.org scheme=http version=20 length=0 host=Ex.org:80 "
              "cookie=a=1; b=2; c=3 x=1 te=trailers\n");
    h2_send_head(3, H2_WHOLE, ":method: GET\n:scheme: http\n:path: /request\nhost: b\n");
    h2_expect("GET /request host=b scheme=http version=20 length=0 host=b\n");
    h2_send_head(5, H2_WHOLE, ":method: OPTIONS\n:scheme: http\n:path: *\n:authority: a\n");
    h2_expect("DATA 5 END 6 Hello.\n");
}

/* Assert the first line of the reply to a head. */
static void assert_reply(const char *head, const char *expected)
{
    start(NULL);
    h2_send_head(1, H2_WHOLE, head);
    h2_expect(expected);
    h2_close();
}

TEST(requests_that_the_server_does_not_accept_get_a_status)
{
    EACH_PAIR(assert_reply,
              ":method: GET\n:scheme: http\n:path: /\n:authority: a\nhost: b\n -> "
              "HEADERS 1 :status=400",
              ":method: GET\n:scheme: http\n:path: /\n:authority: u@a\n -> HEADERS 1 :status=400",
              ":method: GET\n:scheme: http\n:path: /\n:authority: a:99999\n -> "
              "HEADERS 1 :status=400",
              ":method: GET\n:scheme: ftp\n:path: /\n:authority: a\n -> HEADERS 1 :status=400",
              ":method: GET\n:scheme: httpsx\n:path: /\n:authority: a\n -> HEADERS 1 :status=400",
              ":method: CONNECT\n:authority: a:443\n -> HEADERS 1 :status=501",
              ":method: CONNECT\n:protocol: x\n:scheme: http\n:path: /\n:authority: a\n -> "
              "HEADERS 1 :status=501",
              ":method: GET\n:scheme: http\n:path: /a#b\n:authority: a\n -> "
              "HEADERS 1 :status=400",
              ":method: GET\n:scheme: http\n:path: /%x\n:authority: a\n -> "
              "HEADERS 1 :status=400",
              ":method: GET\n:scheme: http\n:path: /../x\n:authority: a\n -> "
              "HEADERS 1 :status=400",
              ":method: GET\n:scheme: http\n:path: /\n:authority: a\nexpect: x\n -> "
              "HEADERS 1 :status=417",
              ":method: ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJ\n:scheme: http\n:path: "
              "/\n:authority: a\n -> HEADERS 1 :status=400");
}

/* Assert that a head resets its stream, and nothing else. */
static void assert_malformed(const char *head)
{
    start(NULL);
    h2_send_head(1, H2_WHOLE, head);
    h2_expect("RST_STREAM 1 PROTOCOL_ERROR\n");
    h2_send_head(3, H2_WHOLE, H2_GET);
    h2_expect("DATA 3 END 6 Hello.\n");
    ck_assert_lacks(h2_log, "HEADERS 1 ");
    h2_close();
}

TEST(a_malformed_head_resets_its_stream)
{
#define HEAD ":method: GET\n:scheme: http\n:path: /\n"
    EACH_TEXT(assert_malformed, HEAD ":authority: a\nUpper: x\n", HEAD ":authority: a\n:odd: x\n",
              HEAD ":authority: a\n:status: 200\n", HEAD "x: y\n:authority: a\n",
              HEAD ":authority: a\nconnection: close\n", HEAD ":authority: a\nte: gzip\n",
              HEAD ":authority: a\nkeep-alive: x\n", HEAD ":authority: a\nupgrade: x\n",
              HEAD ":authority: a\ntransfer-encoding: chunked\n",
              HEAD ":authority: a\nproxy-connection: x\n", HEAD ":authority: a\n:path: /\n",
              HEAD ":authority: a\n:method: GET\n", HEAD ":authority: a\n:scheme: http\n", HEAD,
              ":scheme: http\n:path: /\n:authority: a\n", ":method: GET\n:path: /\n:authority: a\n",
              ":method: GET\n:scheme: http\n:authority: a\n",
              ":method: GET\n:scheme: http\n:path: \n:authority: a\n",
              ":method: GET\n:scheme: http\n:path: x\n:authority: a\n",
              HEAD ":authority: a\ncontent-length: 1\n", HEAD ":authority: a\ncontent-length: x\n",
              HEAD ":authority: a\ncontent-length: 0\ncontent-length: 1\n",
              HEAD ":authority: a\nx: a\x01z\n", HEAD ":authority: a\nx y: z\n",
              HEAD ":authority: a\nx: a\rz\n", HEAD ":authority: a\nx:  y\n",
              HEAD ":authority: a\nx: y\t\n", HEAD ":authority: a\n\303\244: z\n",
              HEAD ":authority: \n", HEAD ":authority: a\n:protocol: websocket\n",
              ":method: GET\n:scheme: 1\n:path: /\n:authority: a\n",
              ":method: GET\n:scheme: \n:path: /\n:authority: a\n",
              ":method: \n:scheme: http\n:path: /\n:authority: a\n",
              ":method: GET\n:scheme: http\n:path: *\n:authority: a\n",
              ":method: CONNECT\n:scheme: http\n:path: /\n:authority: a:1\n",
              ":method: CONNECT\n:protocol: x\n:scheme: http\n:authority: a\n",
              ":method: CONNECT\n:protocol: x\n:path: /\n:authority: a\n",
              ":method: CONNECT\n:protocol: x\n:scheme: http\n:path: /\n");
#undef HEAD
}

/* RFC 9110, 7.4: a proxy that ends TLS forwards https without TLS. */
TEST(a_request_may_have_either_scheme)
{
    EACH_PAIR(assert_reply,
              ":method: GET\n:scheme: https\n:path: /request\n:authority: a\n -> scheme=http ",
              ":method: GET\n:scheme: HTTP\n:path: /request\n:authority: a\n -> scheme=http ");
}

TEST(a_body_must_have_its_announced_length)
{
    start(NULL);
    h2_send_head(1, H2_END_HEADERS, H2_HEAD("POST", "/body") "content-length: 3\n");
    h2_send_data(1, H2_END, "ab");
    h2_expect("RST_STREAM 1 PROTOCOL_ERROR\n");
    h2_send_head(3, H2_END_HEADERS, H2_HEAD("POST", "/body") "content-length: 3\n");
    h2_send_data(3, 0, "ab");
    h2_send_data(3, H2_END, "cd");
    h2_expect("RST_STREAM 3 PROTOCOL_ERROR\n");
    h2_send_head(5, H2_END_HEADERS, H2_HEAD("POST", "/body") "content-length: 3\n");
    h2_send_data(5, 0, "ab");
    h2_send_data(5, H2_END, "c");
    h2_expect("DATA 5 END 6 abc, -\n");
}

TEST(bodies_and_trailers_of_streams_do_not_mix)
{
    start(NULL);
    h2_send_head(1, H2_END_HEADERS, H2_HEAD("POST", "/body"));
    h2_send_head(3, H2_END_HEADERS, H2_HEAD("POST", "/body"));
    h2_send_data(3, 0, "3a");
    h2_send_data(1, 0, "1a");
    h2_send_data(1, 0, "1b");
    h2_send_data(3, 0, "3b");
    h2_send_head(3, H2_WHOLE, "x-sum: three\nhost: evil\n");
    h2_expect("DATA 3 END 11 3a3b, three\n");
    h2_send_head(1, H2_WHOLE, "x-sum: one\n");
    h2_expect("DATA 1 END 9 1a1b, one\n");
}

TEST(trailers_must_not_have_pseudo_fields)
{
    start(NULL);
    h2_send_head(1, H2_END_HEADERS, H2_HEAD("POST", "/body"));
    h2_send_data(1, 0, "x");
    h2_send_head(1, H2_WHOLE, ":method: GET\n");
    h2_expect("RST_STREAM 1 PROTOCOL_ERROR\n");
}

TEST(a_reply_has_lower_case_names_and_no_connection_fields)
{
    start(&(weft_http_options){.server_name = "weft"});
    h2_send_head(1, H2_WHOLE, H2_HEAD("GET", "/odd"));
    h2_expect("DATA 1 END 1 x\n");
    ck_assert_has(h2_log, " server=weft content-type=text/plain x-upper-case=blanks "
                          "content-length=1\n");
    ck_assert_lacks(h2_log, "keep-alive", "upgrade", "proxy-connection", "connection",
                    "transfer-encoding");
    h2_send_head(3, H2_WHOLE, H2_HEAD("GET", "/trailers"));
    h2_expect("HEADERS 3 END x-sum=7\n");
    ck_assert_has(h2_log, "DATA 3 4 body\n");
}

TEST(replies_without_a_body_send_no_data)
{
    start(NULL);
    h2_send_head(1, H2_WHOLE, H2_HEAD("HEAD", "/"));
    h2_send_head(3, H2_WHOLE, H2_HEAD("GET", "/204"));
    h2_send_head(5, H2_WHOLE, H2_HEAD("GET", "/304"));
    h2_send_head(7, H2_WHOLE, H2_HEAD("HEAD", "/trailers"));
    h2_expect("HEADERS 7 END :status=200");
    ck_assert_has(h2_log, "HEADERS 1 END :status=200", "content-length=6\n",
                  "HEADERS 3 END :status=204", "HEADERS 5 END :status=304");
    h2_sync();
    ck_assert_lacks(h2_log, "DATA ");
}

TEST(an_error_after_the_head_resets_only_its_stream)
{
    start(NULL);
    h2_send_head(1, H2_WHOLE, H2_HEAD("GET", "/fail"));
    h2_expect("RST_STREAM 1 INTERNAL_ERROR\n");
    ck_assert_has(h2_log, "DATA 1 4 part\n");
    h2_send_head(3, H2_WHOLE, H2_GET);
    h2_expect("DATA 3 END 6 Hello.\n");
}

TEST(the_first_read_sends_100_continue)
{
    start(NULL);
    h2_send_head(1, H2_END_HEADERS, H2_HEAD("POST", "/body") "expect: 100-continue\n");
    h2_expect("HEADERS 1 :status=100\n");
    h2_send_data(1, H2_END, "body");
    h2_expect("DATA 1 END 7 body, -\n");
}

TEST(a_reply_before_the_end_of_the_body_ends_the_stream_without_an_error)
{
    start(NULL);
    h2_send_head(1, H2_END_HEADERS, H2_HEAD("POST", "/") "expect: 100-continue\n");
    h2_expect("RST_STREAM 1 NO_ERROR\n");
    ck_assert_has(h2_log, "DATA 1 END 6 Hello.\n");
    ck_assert_lacks(h2_log, ":status=100");
    h2_send_data(1, 0, "the client did not know"); /* not an error */
    h2_send_head(1, H2_WHOLE, "x-sum: one\n");
    h2_send_head(3, H2_WHOLE, H2_GET);
    h2_expect("DATA 3 END 6 Hello.\n");
}

TEST(informational_responses_come_before_the_reply)
{
    start(NULL);
    h2_send_head(1, H2_WHOLE, H2_HEAD("GET", "/hints"));
    h2_expect("DATA 1 END 1 x\n");
    ck_assert_has(h2_log, "HEADERS 1 :status=103 link=</a.css>\nHEADERS 1 :status=200",
                  " link=</a.css> content-length=1\n");
    h2_close();
    start_client(handle_request, NULL, NULL, "GET /hints HTTP/1.1\r\nHost: a\r\n\r\n");
    client_expect(&client, "\r\n\r\nx");
    ck_assert_has(client.received,
                  "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 ");
    end_client();
    start_client(handle_request, NULL, NULL,
                 "GET /hints HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    client_expect(&client, "\r\n\r\nx");
    ck_assert_lacks(client.received, " 103 ");
    end_client();
}

TEST(a_slow_handler_does_not_delay_other_streams)
{
    start(NULL);
    h2_send_head(1, H2_WHOLE, H2_HEAD("GET", "/late"));
    h2_send_head(3, H2_WHOLE, H2_GET);
    h2_expect("DATA 3 END 6 Hello.\n");
    ck_assert_lacks(h2_log, "HEADERS 1 ");
    weft_event_set(&may_end);
    h2_expect("DATA 1 END 4 late\n");
}

TEST(connection_close_of_a_handler_ends_the_connection_after_all_replies)
{
    start(NULL);
    h2_send_head(1, H2_WHOLE, H2_HEAD("GET", "/late"));
    h2_send_head(3, H2_WHOLE, H2_HEAD("GET", "/close"));
    h2_expect("GOAWAY 0 last=3 NO_ERROR\n");
    weft_event_set(&may_end);
    h2_receive_all();
    ck_assert_has(h2_log, "DATA 3 END 6 Hello.\n", "DATA 1 END 4 late\n");
}

TEST(a_reset_of_the_client_ends_reads_and_writes)
{
    start(NULL);
    h2_send_head(1, H2_END_HEADERS, H2_HEAD("POST", "/body"));
    h2_send_data(1, 0, "x");
    h2_sync();
    h2_send_number(NGHTTP2_RST_STREAM, 1, NGHTTP2_CANCEL);
    h2_send_head(3, H2_WHOLE, H2_GET);
    h2_expect("DATA 3 END 6 Hello.\n");
    ck_assert_lacks(h2_log, "HEADERS 1 ");
}

static weft_http_record logged;
static char logged_text[200];

static void on_log(const weft_http_record *record, void *ctx)
{
    logged = *record;
    snprintf(logged_text, sizeof logged_text, "%s %s %d %d %llu %s", record->method, record->target,
             record->version, record->status, (unsigned long long)record->bytes, record->reason);
}

TEST(the_log_names_version_20)
{
    start(&(weft_http_options){.log = on_log});
    h2_send_head(1, H2_WHOLE, H2_HEAD("GET", "/x?y"));
    h2_expect("DATA 1 END 6 Hello.\n");
    h2_sync();
    ck_assert_str_eq(logged_text, "GET /x?y 20 200 6 ");
    h2_send_head(3, H2_WHOLE, H2_HEAD("GET", "/.."));
    h2_expect("HEADERS 3 :status=400");
    h2_sync();
    ck_assert_str_eq(logged_text, "GET /.. 20 400 16 a path with an invalid character or above "
                                  "the root");
}

TEST(http_2_can_be_switched_off)
{
    start_client(handle_request, NULL, &(weft_http_options){.has_no_http2 = true}, H2_MAGIC);
    expect_status(505);
    (void)client_close(&client);
}

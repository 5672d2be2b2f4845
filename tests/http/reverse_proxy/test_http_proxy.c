/* The reverse proxy: forwarded requests and responses, their headers, and failures upstream. */
#include "http/reverse_proxy/proxy_support.h"
#include "support/suite.h"

FIXTURE(chain_open_hello, chain_close)

TEST(a_request_and_its_response_are_forwarded)
{
    chain_open(
        STEPS({.reply = "HTTP/1.1 201 Made\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nServer: up\r\n"
                        "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 5\r\n\r\nhello"}),
        NULL);
    assert_reply("POST /a%20b/../c?d=%e HTTP/1.1\r\nHost: example.org:81\r\nX-A: 1\r\nX-A: 2\r\n"
                 "Content-Type: text/x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
                 201);
    ck_assert_str_eq(body_of(client.received), "hello");
    ck_assert_has(client.received, "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n",
                  "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    ck_assert_uint_eq(count_in(client.received, "Date:"), 1);
    ck_assert_has(client.received, "Server: up\r\n", "Content-Length: 5\r\n");
    ck_assert_has(upstream.received, "POST /a%20b/../c?d=%e HTTP/1.1\r\n",
                  "Host: example.org:81\r\n", "X-A: 1\r\nX-A: 2\r\nContent-Type: text/x\r\n",
                  "Content-Length: 3\r\n\r\nabc");
    ck_assert_lacks(upstream.received, "User-Agent", "Accept");
}

/* RFC 9110, 7.6.1. */
TEST(hop_by_hop_fields_are_not_forwarded)
{
    static const char *const hop[] = {
        "X-Secret", "X-Other", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization",
        "Upgrade",  "gzip",    "close"};
    chain_open(
        STEPS({.reply = "HTTP/1.1 200 OK\r\nConnection: X-Hop, X-HOP-2\r\nConnection: x-hop-3\r\n"
                        "X-Hop: 1\r\nX-Hop-2: 1\r\nX-Hop-3: 1\r\nKeep-Alive: timeout=5\r\n"
                        "Proxy-Connection: keep-alive\r\nProxy-Authenticate: Basic\r\nX-End: 1\r\n"
                        "Content-Length: 5\r\n\r\nhello"}),
        NULL);
    assert_reply(GET
                 "Connection: close, x-secret, TE\r\nConnection: X-Other\r\nX-Secret: 1\r\n"
                 "X-Other: 1\r\nKeep-Alive: 5\r\nProxy-Connection: keep-alive\r\n"
                 "Proxy-Authorization: Basic eA==\r\nTE: gzip;q=0.5, trailers\r\nUpgrade: foo\r\n"
                 "X-Kept: 2\r\n\r\n",
                 200);
    for (size_t i = 0; i < COUNT_OF(hop); i++)
        ck_assert_lacks(upstream.received, hop[i]);
    ck_assert_has(upstream.received, "X-Kept: 2\r\n", "TE: trailers\r\nConnection: TE\r\n");
    ck_assert_lacks(client.received, "X-Hop", "Keep-Alive", "Proxy-");
    ck_assert_has(client.received, "X-End: 1\r\n");
}

/* A Connection header that names fields of the proxy does not remove them. */
TEST(a_client_cannot_remove_the_fields_of_the_proxy)
{
    assert_reply(
        "POST / HTTP/1.1\r\nHost: example.org\r\nContent-Length: 1\r\n"
        "Connection: close, Host, Content-Length, Via, X-Forwarded-For, X-Forwarded-Host\r\n"
        "\r\nx",
        200);
    ck_assert_has(upstream.received, "Host: example.org\r\n", "Via: 1.1 ",
                  "X-Forwarded-For: 127.0.0.1\r\n", "Content-Length: 1\r\n\r\nx");
}

static void assert_400(const char *request)
{
    assert_reply(request, 400);
}

TEST(an_ambiguous_request_never_reaches_the_upstream_server)
{
    EACH_TEXT(assert_400,
              POST_CLOSE "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
              POST_CLOSE "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
              POST_CLOSE "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
              POST_CLOSE "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
              POST_CLOSE "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
              POST_CLOSE "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
              POST_CLOSE "X-A: b\r\n c\r\nContent-Length: 0\r\n\r\n",
              POST_CLOSE "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
              "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
              GET "Host: example.com\r\n\r\n");
    ck_assert_uint_eq(upstream.requests, 0);
    ck_assert_uint_eq(upstream.conns, 0);
}

TEST(via_is_added_in_both_directions)
{
    chain_open(
        STEPS({.reply = "HTTP/1.0 200 OK\r\nVia: 1.0 inner\r\nContent-Length: 5\r\n\r\nhello"}),
        &(weft_http_proxy_options){.via = "edge"});
    chain_request(GET_CLOSE "Via: 1.0 first, 1.1 edgeless (a comment)\r\n\r\n");
    ck_assert_has(client.received, "Via: 1.0 inner\r\nVia: 1.0 edge\r\n");
    ck_assert_has(upstream.received,
                  "Via: 1.0 first, 1.1 edgeless (a comment)\r\nVia: 1.1 edge\r\n");
    chain_request("GET / HTTP/1.0\r\n\r\n");
    ck_assert_has(upstream.received, "Via: 1.0 edge\r\n");
}

TEST(a_forwarding_loop_is_508)
{
    /* The front server is its own upstream server. */
    chain_close();
    server_open(&front, weft_http_serve_proxy, NULL, &front_options);
    proxy = weft_http_proxy_new(format("http://127.0.0.1:%d", server_port(&front)), NULL);
    front.ctx = proxy; /* the fiber of the front server has not run yet */
    assert_reply(GET_CLOSE "\r\n", 508);
}

/* Forward a request with forged and valid headers. Return what the upstream server received. */
static const char *forward_headers(const weft_http_proxy_options *options, const char *headers)
{
    const char *request = format(GET_CLOSE "%s\r\n", headers);
    chain_open(hello, 1, options);
    chain_request(request);
    return upstream.received;
}

TEST(forwarding_headers_describe_the_client_unless_its_peer_is_trusted_or_they_are_disabled)
{
    static const weft_http_proxy_options both = {.sends_forwarded = true};
    forward_headers(&both, "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\n"
                           "X-Forwarded-Host: evil.example\r\nForwarded: for=6.6.6.6\r\n"
                           "X_Forwarded_For: 6.6.6.6\r\nX-Forwarded_Host: evil.example\r\n");
    ck_assert_lacks(upstream.received, "6.6.6.6", "evil");
    ck_assert_has(upstream.received, "X-Forwarded-For: 127.0.0.1\r\n",
                  "X-Forwarded-Proto: http\r\n", "X-Forwarded-Host: example.org\r\n",
                  "Forwarded: for=127.0.0.1;proto=http;host=\"example.org\"\r\n");
    ck_assert_lacks(forward_headers(&(weft_http_proxy_options){.has_no_x_forwarded = true},
                                    "X-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\n"),
                    "orwarded");
    front_options = (weft_http_options){.trusted_peers = "127.0.0.1",
                                        .trusted_headers = "X-Forwarded-For, Forwarded"};
    ck_assert_has(forward_headers(&both, "X-Forwarded-For: 7.7.7.7\r\nX-Forwarded-For: 8.8.8.8\r\n"
                                         "Forwarded: for=7.7.7.7\r\n"),
                  "X-Forwarded-For: 7.7.7.7,8.8.8.8, 127.0.0.1\r\n",
                  "Forwarded: for=7.7.7.7, for=127.0.0.1;proto=http");
}

/* Assert what the upstream server receives. */
static void assert_forwarded_as(const char *request, const char *expected)
{
    upstream.received_bytes = 0;
    chain_request(request);
    ck_assert_has(upstream.received, expected);
}

#define TO(line) line " HTTP/1.1\r\nHost: wrong.example\r\nConnection: close\r\n\r\n"

/* RFC 9112, 3.2.4. */
TEST(the_forwarded_host_is_from_the_client_or_of_the_upstream_server)
{
    assert_forwarded_as(TO("GET http://other.example:8080/x?y"),
                        "GET /x?y HTTP/1.1\r\nHost: other.example:8080\r\n");
    ck_assert_lacks(upstream.received, "wrong");
    assert_forwarded_as(TO("GET http://other.example?q"),
                        "GET /?q HTTP/1.1\r\nHost: other.example\r\n");
    assert_forwarded_as(TO("OPTIONS *"), "OPTIONS * HTTP/1.1\r\n");
    assert_forwarded_as(TO("OPTIONS http://other.example"),
                        "OPTIONS * HTTP/1.1\r\nHost: other.example\r\n");
    const char *host_field = format("Host: 127.0.0.1:%d\r\n", upstream.port);
    assert_forwarded_as("GET / HTTP/1.0\r\n\r\n", host_field);
    chain_open_at(upstream.base, &(weft_http_proxy_options){.sends_upstream_host = true});
    assert_forwarded_as(GET_CLOSE "\r\n", host_field);
    ck_assert_has(upstream.received, "X-Forwarded-Host: example.org\r\n");
}

#define MAX_FORWARDS(method, value) \
    method " / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nMax-Forwards: " value "\r\n\r\n"

TEST(max_forwards_is_decremented_and_zero_is_not_forwarded)
{
    assert_reply(MAX_FORWARDS("OPTIONS", "0"), 204);
    assert_reply(MAX_FORWARDS("TRACE", "0"), 405);
    assert_reply(MAX_FORWARDS("TRACE", "x"), 400);
    ck_assert_uint_eq(upstream.requests, 0);
    assert_reply(MAX_FORWARDS("TRACE", "10"), 200);
    ck_assert_has(upstream.received, "Max-Forwards: 9\r\n");
    assert_reply(MAX_FORWARDS("GET", "0"), 200);
    ck_assert_has(upstream.received, "Max-Forwards: 0\r\n");
}

TEST(a_request_and_a_response_with_500_fields_are_forwarded)
{
    static char request[40000], reply[40000];
    size_t at = (size_t)sprintf(request, GET_CLOSE);
    size_t reply_at = (size_t)sprintf(reply, "HTTP/1.1 200 OK\r\n");
    char line[64];
    for (int i = 0; i < 500; i++) {
        at += (size_t)sprintf(request + at, "X-Field-%03d: %d\r\n", i, i * i);
        reply_at += (size_t)sprintf(reply + reply_at, "X-Field-%03d: %d\r\n", i, i * i);
    }
    strcpy(request + at, "\r\n");
    strcpy(reply + reply_at, "Content-Length: 0\r\n\r\n");
    front_options.limits.headers_max = 600;
    front_options.limits.head_bytes_max = sizeof request;
    chain_open(STEPS({.reply = reply}), NULL);
    assert_reply(request, 200);
    for (int i = 0; i < 500; i++) {
        snprintf(line, sizeof line, "X-Field-%03d: %d\r\n", i, i * i);
        ck_assert_has(upstream.received, line);
        ck_assert_has(client.received, line);
    }
}

TEST(responses_without_a_body_keep_their_framing)
{
    static const struct {
        const char *method, *reply;
        int status;
        const char *expected, *unexpected;
    } rows[] = {
        {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n", 200, "Content-Length: 999\r\n",
         "Transfer-Encoding"},
        {"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200,
         "Transfer-Encoding: chunked\r\n", "Content-Length"},
        {"HEAD", "HTTP/1.1 200 OK\r\nX-Z: 1\r\n\r\n", 200, "X-Z: 1\r\n", "Content-Length"},
        {"GET", "HTTP/1.1 204 No Content\r\nX-Z: 1\r\n\r\n", 204, "X-Z: 1\r\n", "Content-Length"},
        {"GET", "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n", 304, "ETag: \"a\"\r\n",
         "Transfer-Encoding"},
        {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "Content-Length: 0\r\n",
         "Transfer-Encoding"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char request[200];
        chain_open(STEPS({.reply = rows[i].reply}), NULL);
        snprintf(request, sizeof request,
                 "%s / HTTP/1.1\r\nHost: a\r\n\r\n%s / HTTP/1.1\r\nHost: a\r\nConnection: "
                 "close\r\n\r\n",
                 rows[i].method, rows[i].method);
        assert_reply(request, rows[i].status);
        ck_assert_uint_eq(count_in(client.received, "HTTP/1.1 "), 2); /* on one connection */
        ck_assert_has(client.received, rows[i].expected);
        ck_assert_lacks(client.received, rows[i].unexpected);
        ck_assert_str_eq(strstr(body_of(client.received), "\r\n\r\n"), "\r\n\r\n");
        ck_assert_uint_eq(upstream.conns, 1);
    }
}

TEST(trailers_of_a_response_reach_the_client)
{
    chain_open(
        STEPS({.reply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
                        "5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-Sum: 2\r\nVia: forged\r\n\r\n"}),
        NULL);
    chain_send(GET "TE: trailers\r\n\r\n");
    client_expect(&client, "0\r\nX-Sum: 1\r\nX-Sum: 2\r\n\r\n");
    ck_assert_has(client.received, "Trailer: X-Sum\r\n");
    ck_assert_lacks(client.received, "forged");
}

/* Record a chunked body with its framing and its trailers, which read_chunks does not. */
static bool read_trailers(script_server *sv, weft_stream *s)
{
    char line[200];
    while (weft_stream_gets(s, line, sizeof line) > 0) {
        record_received(sv, line, strlen(line));
        if (strstr(sv->received, "0\r\n") != NULL && strcmp(line, "\r\n") == 0)
            break;
    }
    weft_stream_puts(s, OK("hello", "5"));
    weft_stream_flush(s);
    return true;
}

TEST(trailers_of_a_request_reach_the_upstream_server)
{
    chain_open(STEPS({.handle = read_trailers}), NULL);
    assert_reply(POST_CLOSE "Transfer-Encoding: chunked\r\nTrailer: X-In\r\n\r\n3\r\nabc\r\n"
                            "0\r\nX-In: 9\r\nConnection: x\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n",
                 200);
    ck_assert_has(upstream.received, "Trailer: X-In\r\n", "3\r\nabc\r\n0\r\nX-In: 9\r\n\r\n");
    ck_assert_lacks(upstream.received, "6.6.6.6");
}

TEST(bodies_of_every_framing_arrive_whole_and_keep_their_coding)
{
    static const struct {
        const char *reply;
        const char *name, *value; /* of a header that the client receives; NULL: none */
        bool closes;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello",
         "Content-Length", "5", false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
         NULL, NULL, false},
        {"HTTP/1.1 200 OK\r\n\r\nhello", NULL, NULL, true},
        {"HTTP/1.0 200 OK\r\n\r\nhello", NULL, NULL, true},
        {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
         "Content-Encoding", "gzip", false},
    };
    const weft_fetch_field accepts = {"Accept-Encoding", "gzip"};
    front_options.gzip_level = 6;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        chain_open(STEPS({.reply = rows[i].reply, .closes = rows[i].closes}), NULL);
        const char *url = format("http://127.0.0.1:%d/", server_port(&front));
        weft_fetch_request r = {.url = url, .fields = &accepts, .fields_count = 1};
        ck_assert_int_eq(weft_fetch_send(NULL, &r, &fetch), 200);
        assert_body("hello");
        if (rows[i].name != NULL)
            ck_assert_pstr_eq(weft_fetch_header(fetch, rows[i].name), rows[i].value);
        if (i != 4)
            ck_assert_ptr_null(weft_fetch_header(fetch, "Content-Encoding"));
        close_fetch();
        ck_assert_has(upstream.received, "Accept-Encoding: gzip\r\n");
    }
}

TEST(an_http_1_0_client_gets_a_response_without_chunks)
{
    chain_open(
        STEPS({.reply =
                   "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                   "2\r\nhe\r\n3\r\nllo\r\n0\r\nX-T: 1\r\n\r\n"}),
        NULL);
    assert_reply("GET / HTTP/1.0\r\n\r\n", 200);
    ck_assert_str_eq(body_of(client.received), "hello");
    ck_assert_lacks(client.received, " 103 ");
}

TEST(interim_responses_are_forwarded)
{
    chain_open(STEPS({.reply = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: </a>\r\n"
                               "Connection: x-hop\r\nX-Hop: 1\r\n\r\n" OK("hello", "5")}),
               NULL);
    chain_request(GET_CLOSE "\r\n");
    /* The client did not send Expect, so the proxy does not forward the 100. */
    ck_assert_int_eq(strncmp(client.received, "HTTP/1.1 103 ", 13), 0);
    ck_assert_has(client.received, "Link: </a>\r\n\r\nHTTP/1.1 200 OK\r\n");
    ck_assert_lacks(client.received, "X-Hop");
}

/* Send 100 (Continue), then read the body. */
static bool read_body_after_continue(script_server *sv, weft_stream *s)
{
    weft_stream_puts(s, "HTTP/1.1 100 Continue\r\n\r\n");
    weft_stream_flush(s);
    if (!read_bytes(sv, s, 3))
        return false;
    weft_stream_puts(s, OK("hello", "5"));
    weft_stream_flush(s);
    return true;
}

TEST(the_upstream_server_decides_about_100_continue)
{
    chain_open(STEPS({.handle = read_body_after_continue},
                     {.reply = "HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n", .is_early = true}),
               NULL);
    chain_send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    client_expect(&client, "HTTP/1.1 100 Continue\r\n\r\n");
    ck_assert_has(upstream.received, "Expect: 100-continue\r\n");
    ck_assert_lacks(upstream.received, "abc");
    client_send(&client, "abc");
    client_expect(&client, "hello");
    ck_assert_has(upstream.received, "abc");
    client.received_bytes = 0;
    client_send(&client,
                "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    /* The front server cannot know whether the body follows, so it closes the connection. */
    client_receive_all(&client);
    ck_assert_int_eq(status_of(client.received), 413);
    ck_assert_has(client.received, "Connection: close\r\n");
}

static int failures;
static char last_message[200];

static void record_failure(weft_http_request *r, int error, const char *message, void *ctx)
{
    *(int *)ctx = error;
    failures++;
    snprintf(last_message, sizeof last_message, "%s", message);
}

TEST(a_failing_upstream_server_is_502)
{
    static const struct {
        script_step step;
        int error;
    } rows[] = {
        {{.closes = true}, -ECONNRESET},
        {{.reply = "SSH-2.0-OpenSSH\r\n", .closes = true}, -EBADMSG},
        {{.reply = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"},
         -EBADMSG},
        {{.reply = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nab"},
         -EBADMSG},
        {{.reply = "HTTP/1.1 200 OK\r\nX-A: b\r\n", .closes = true}, -ECONNRESET},
        {{.reply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nx\r\n"},
         -EBADMSG},
        {{.reply = "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"}, -EBADMSG},
    };
    static const char *const requests[] = {GET_CLOSE "\r\n",
                                           POST_CLOSE "Content-Length: 3\r\n\r\nabc"};
    int error = 0;
    const weft_http_proxy_options o = {.on_failure = record_failure, .on_failure_ctx = &error};
    for (size_t i = 0; i < 2 * COUNT_OF(rows); i++) {
        error = 0;
        chain_open(&rows[i / 2].step, 1, &o);
        assert_reply(requests[i % 2], 502);
        ck_assert_msg(error == rows[i / 2].error, "row %zu: %d", i / 2, error);
        ck_assert_has(last_message, "the upstream server");
        ck_assert_uint_eq(upstream.requests, 1);
    }
    ck_assert_int_eq(failures, 2 * (int)COUNT_OF(rows));
}

TEST(an_unreachable_upstream_server_is_502)
{
    int error = 0;
    stop_server(&upstream);
    chain_open_at(upstream.base, &(weft_http_proxy_options){.on_failure = record_failure,
                                                            .on_failure_ctx = &error});
    assert_reply(GET_CLOSE "\r\n", 502);
    ck_assert_int_eq(error, -ECONNREFUSED);
    assert_reply(POST_CLOSE "Content-Length: 3\r\n\r\nabc", 502);
}

TEST(a_late_upstream_server_is_504)
{
    static const script_step held[] = {{.reply = OK("hello", "5"), .is_held = true}};
    static test_client first;
    chain_open(held, 1, &(weft_http_proxy_options){.first_byte_s = 0.02});
    assert_reply(GET_CLOSE "\r\n", 504);
    assert_reply(POST_CLOSE "Content-Length: 3\r\n\r\nabc", 504);

    /* All connections are in use, so the second request waits for a connection. */
    chain_open(held, 1, &(weft_http_proxy_options){.connections_max = 1, .connect_s = 0.3});
    server_connect(&front, &first);
    client_send(&first, GET_CLOSE "\r\n");
    ck_assert_int_eq(weft_sem_wait(&upstream.arrived), 0);
    assert_reply(GET_CLOSE "\r\n", 504);
    release_replies(&upstream, 1);
    client_receive_all(&first);
    ck_assert_str_eq(body_of(first.received), "hello");
    weft_close(first.fd);
}

TEST(a_body_over_the_limit_is_413_and_is_not_forwarded)
{
    chain_open(hello, 1, &(weft_http_proxy_options){.body_bytes_max = 4});
    assert_reply(POST_CLOSE "Content-Length: 5\r\n\r\nhello", 413);
    ck_assert_uint_eq(upstream.requests, 0);
    assert_reply(POST_CLOSE "Content-Length: 4\r\n\r\nhell", 200);
    /* A chunked body exceeds the limit only as it arrives. The forwarded body has no end then. */
    assert_reply(POST_CLOSE "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 413);
}

static void assert_bad_upstream(const char *url)
{
    ck_assert_ptr_null(weft_http_proxy_new(url, NULL));
    ck_assert_any_error(-EINVAL);
}

TEST(invalid_options_are_einval)
{
    static const weft_http_proxy_options options[] = {
        {.via = "a b"}, {.via = ""}, {.connect_s = -1}, {.idle_s = NAN}, {.upgrades = "a\nb"}};
    EACH_TEXT(assert_bad_upstream, NULL, "", "127.0.0.1:80", "ftp://a", "http://", "http://a/path",
              "http://a?q", "http://user@a", "http://@a", "http://a#");
    for (size_t i = 0; i < COUNT_OF(options); i++) {
        ck_assert_ptr_null(weft_http_proxy_new("http://a", &options[i]));
        ck_assert_any_error(-EINVAL);
    }
    ck_assert_int_eq(weft_http_proxy_free(NULL), 0);
}

TEST(a_proxy_is_one_route_among_others)
{
    chain_close_front();
    proxy = weft_http_proxy_new(upstream.base, NULL);
    weft_http_router *routes = weft_http_router_new();
    ck_assert_int_eq(weft_http_route(routes, NULL, "/app/{p...}", weft_http_serve_proxy, proxy), 0);
    server_open(&front, weft_http_serve_routes, routes, &front_options);
    chain_request("GET /app/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    ck_assert_str_eq(body_of(client.received), "hello");
    assert_reply("GET /other HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 404);
    ck_assert_has(upstream.received, "GET /app/x HTTP/1.1\r\n");
    ck_assert_uint_eq(upstream.requests, 1);
    chain_close();
    weft_http_router_free(routes);
}

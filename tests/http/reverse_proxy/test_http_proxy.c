/* The reverse proxy: forwarded requests and responses, their headers, and failures upstream. */
#include "http/reverse_proxy/proxy_support.h"
#include "support/suite.h"

static const script_step hello[] = {{.reply = OK("hello", "5")}};

TEST(a_request_and_its_response_are_forwarded)
{
    static const script_step steps[] = {
        {.reply = "HTTP/1.1 201 Made\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nServer: up\r\n"
                  "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 5\r\n\r\nhello"}};
    proxy_chain c;
    test_client client;
    chain_open(&c, steps, 1, NULL);
    chain_request(&c, &client,
                  "POST /a%20b/../c?d=%e HTTP/1.1\r\nHost: example.org:81\r\nX-A: 1\r\nX-A: 2\r\n"
                  "Content-Type: text/x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc");
    ck_assert_int_eq(status_of(client.received), 201);
    ck_assert_str_eq(body_of(client.received), "hello");
    ck_assert_received(&client, "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n");
    ck_assert_received(&client, "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    ck_assert_uint_eq(count_in(client.received, "Date:"), 1);
    ck_assert_received(&client, "Server: up\r\n");
    ck_assert_received(&client, "Content-Length: 5\r\n");
    ck_assert_server_received(&c.upstream, "POST /a%20b/../c?d=%e HTTP/1.1\r\n");
    ck_assert_server_received(&c.upstream, "Host: example.org:81\r\n");
    ck_assert_server_received(&c.upstream, "X-A: 1\r\nX-A: 2\r\nContent-Type: text/x\r\n");
    ck_assert_server_received(&c.upstream, "Content-Length: 3\r\n\r\nabc");
    ck_assert_server_not_received(&c.upstream, "User-Agent");
    ck_assert_server_not_received(&c.upstream, "Accept");
    chain_close(&c);
}

/* RFC 9110, 7.6.1. */
TEST(hop_by_hop_fields_are_not_forwarded)
{
    static const script_step steps[] = {
        {.reply = "HTTP/1.1 200 OK\r\nConnection: X-Hop, X-HOP-2\r\nConnection: x-hop-3\r\n"
                  "X-Hop: 1\r\nX-Hop-2: 1\r\nX-Hop-3: 1\r\nKeep-Alive: timeout=5\r\n"
                  "Proxy-Connection: keep-alive\r\nProxy-Authenticate: Basic\r\nX-End: 1\r\n"
                  "Content-Length: 5\r\n\r\nhello"}};
    static const char *const hop[] = {
        "X-Secret", "X-Other", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization",
        "Upgrade",  "gzip",    "close"};
    proxy_chain c;
    test_client client;
    chain_open(&c, steps, 1, NULL);
    chain_request(&c, &client,
                  GET
                  "Connection: close, x-secret, TE\r\nConnection: X-Other\r\nX-Secret: 1\r\n"
                  "X-Other: 1\r\nKeep-Alive: 5\r\nProxy-Connection: keep-alive\r\n"
                  "Proxy-Authorization: Basic eA==\r\nTE: gzip;q=0.5, trailers\r\nUpgrade: foo\r\n"
                  "X-Kept: 2\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), 200);
    for (size_t i = 0; i < COUNT_OF(hop); i++)
        ck_assert_server_not_received(&c.upstream, hop[i]);
    ck_assert_server_received(&c.upstream, "X-Kept: 2\r\n");
    ck_assert_server_received(&c.upstream, "TE: trailers\r\nConnection: TE\r\n");
    ck_assert_not_received(&client, "X-Hop");
    ck_assert_not_received(&client, "Keep-Alive");
    ck_assert_not_received(&client, "Proxy-");
    ck_assert_received(&client, "X-End: 1\r\n");
    chain_close(&c);
}

/* A Connection header that names fields of the proxy does not remove them. */
TEST(a_client_cannot_remove_the_fields_of_the_proxy)
{
    proxy_chain c;
    test_client client;
    chain_open(&c, hello, 1, NULL);
    chain_request(
        &c, &client,
        "POST / HTTP/1.1\r\nHost: example.org\r\nContent-Length: 1\r\n"
        "Connection: close, Host, Content-Length, Via, X-Forwarded-For, X-Forwarded-Host\r\n"
        "\r\nx");
    ck_assert_int_eq(status_of(client.received), 200);
    ck_assert_server_received(&c.upstream, "Host: example.org\r\n");
    ck_assert_server_received(&c.upstream, "Via: 1.1 ");
    ck_assert_server_received(&c.upstream, "X-Forwarded-For: 127.0.0.1\r\n");
    ck_assert_server_received(&c.upstream, "Content-Length: 1\r\n\r\nx");
    chain_close(&c);
}

TEST(an_ambiguous_request_never_reaches_the_upstream_server)
{
    static const char *const requests[] = {
        POST_CLOSE "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST_CLOSE "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        POST_CLOSE "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        POST_CLOSE "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        POST_CLOSE "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        POST_CLOSE "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        POST_CLOSE "X-A: b\r\n c\r\nContent-Length: 0\r\n\r\n",
        POST_CLOSE "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        GET "Host: example.com\r\n\r\n",
    };
    proxy_chain c;
    test_client client;
    chain_open(&c, hello, 1, NULL);
    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        chain_request(&c, &client, requests[i]);
        ck_assert_msg(status_of(client.received) == 400, "request %zu: %s", i, client.received);
    }
    ck_assert_uint_eq(c.upstream.requests, 0);
    ck_assert_uint_eq(c.upstream.conns, 0);
    chain_close(&c);
}

TEST(via_is_added_in_both_directions)
{
    static const script_step steps[] = {
        {.reply = "HTTP/1.0 200 OK\r\nVia: 1.0 inner\r\nContent-Length: 5\r\n\r\nhello"}};
    proxy_chain c;
    test_client client;
    chain_open(&c, steps, 1, &(weft_http_proxy_options){.via = "edge"});
    chain_request(&c, &client, GET_CLOSE "Via: 1.0 first, 1.1 edgeless (a comment)\r\n\r\n");
    ck_assert_received(&client, "Via: 1.0 inner\r\nVia: 1.0 edge\r\n");
    ck_assert_server_received(&c.upstream,
                              "Via: 1.0 first, 1.1 edgeless (a comment)\r\nVia: 1.1 edge\r\n");
    chain_request(&c, &client, "GET / HTTP/1.0\r\n\r\n");
    ck_assert_server_received(&c.upstream, "Via: 1.0 edge\r\n");
    chain_close(&c);
}

TEST(a_forwarding_loop_is_508)
{
    proxy_chain c = {.front_options = {.drain_s = 0}};
    test_client client;
    c.front.listener = -1;
    /* The front server is its own upstream server. */
    server_open(&c.front, weft_http_serve_proxy, NULL, &c.front_options);
    char upstream[64];
    snprintf(upstream, sizeof upstream, "http://127.0.0.1:%d", server_port(&c.front));
    c.proxy = weft_http_proxy_new(upstream, NULL);
    c.front.ctx = c.proxy; /* the fiber of the front server has not run yet */
    chain_request(&c, &client, GET_CLOSE "\r\n");
    ck_assert_int_eq(status_of(client.received), 508);
    chain_close_front(&c);
}

TEST(forwarding_headers_describe_the_client_to_the_upstream_server)
{
    proxy_chain c;
    test_client client;
    chain_open(&c, hello, 1, &(weft_http_proxy_options){.sends_forwarded = true});
    chain_request(&c, &client,
                  GET_CLOSE "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\n"
                            "X-Forwarded-Host: evil.example\r\nForwarded: for=6.6.6.6\r\n"
                            "X_Forwarded_For: 6.6.6.6\r\nX-Forwarded_Host: evil.example\r\n\r\n");
    ck_assert_server_not_received(&c.upstream, "6.6.6.6");
    ck_assert_server_not_received(&c.upstream, "evil");
    ck_assert_server_received(&c.upstream, "X-Forwarded-For: 127.0.0.1\r\n");
    ck_assert_server_received(&c.upstream, "X-Forwarded-Proto: http\r\n");
    ck_assert_server_received(&c.upstream, "X-Forwarded-Host: example.org\r\n");
    ck_assert_server_received(&c.upstream,
                              "Forwarded: for=127.0.0.1;proto=http;host=\"example.org\"\r\n");
    chain_close(&c);
}

TEST(forwarding_headers_of_a_trusted_peer_are_extended)
{
    proxy_chain c;
    test_client client;
    c.front_options = (weft_http_options){.trusted_peers = "127.0.0.1",
                                          .trusted_headers = "X-Forwarded-For, Forwarded"};
    start_server(&c.upstream, hello, 1);
    chain_open_at(&c, c.upstream.base, &(weft_http_proxy_options){.sends_forwarded = true});
    chain_request(&c, &client,
                  GET_CLOSE "X-Forwarded-For: 7.7.7.7\r\nX-Forwarded-For: 8.8.8.8\r\n"
                            "Forwarded: for=7.7.7.7\r\n\r\n");
    ck_assert_server_received(&c.upstream, "X-Forwarded-For: 7.7.7.7,8.8.8.8, 127.0.0.1\r\n");
    ck_assert_server_received(&c.upstream, "Forwarded: for=7.7.7.7, for=127.0.0.1;proto=http");
    chain_close(&c);
}

TEST(forwarding_headers_can_be_disabled)
{
    proxy_chain c;
    test_client client;
    chain_open(&c, hello, 1, &(weft_http_proxy_options){.has_no_x_forwarded = true});
    chain_request(&c, &client,
                  GET_CLOSE "X-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\n\r\n");
    ck_assert_server_not_received(&c.upstream, "orwarded");
    chain_close(&c);
}

TEST(the_forwarded_host_is_from_the_client_or_of_the_upstream_server)
{
    proxy_chain c;
    test_client client;
    char host_field[80];
    chain_open(&c, hello, 1, NULL);
    chain_request(&c, &client,
                  "GET http://other.example:8080/x?y HTTP/1.1\r\nHost: wrong.example\r\n"
                  "Connection: close\r\n\r\n");
    ck_assert_server_received(&c.upstream, "GET /x?y HTTP/1.1\r\nHost: other.example:8080\r\n");
    ck_assert_server_not_received(&c.upstream, "wrong");
    chain_request(&c, &client,
                  "GET http://other.example?q HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    ck_assert_server_received(&c.upstream, "GET /?q HTTP/1.1\r\nHost: other.example\r\n");
    chain_request(&c, &client, "OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    ck_assert_server_received(&c.upstream, "OPTIONS * HTTP/1.1\r\n");
    c.upstream.received_bytes = 0;
    chain_request(&c, &client,
                  "OPTIONS http://other.example HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    ck_assert_server_received(
        &c.upstream, "OPTIONS * HTTP/1.1\r\nHost: other.example\r\n"); /* RFC 9112, 3.2.4 */
    c.upstream.received_bytes = 0;
    chain_request(&c, &client, "GET / HTTP/1.0\r\n\r\n");
    snprintf(host_field, sizeof host_field, "Host: 127.0.0.1:%d\r\n", c.upstream.port);
    ck_assert_server_received(&c.upstream, host_field);
    chain_close_front(&c);
    chain_open_at(&c, c.upstream.base, &(weft_http_proxy_options){.sends_upstream_host = true});
    c.upstream.received_bytes = 0;
    chain_request(&c, &client, GET_CLOSE "\r\n");
    ck_assert_server_received(&c.upstream, host_field);
    ck_assert_server_received(&c.upstream, "X-Forwarded-Host: example.org\r\n");
    chain_close(&c);
}

TEST(max_forwards_is_decremented_and_zero_is_not_forwarded)
{
    proxy_chain c;
    test_client client;
    chain_open(&c, hello, 1, NULL);
    chain_request(&c, &client,
                  "OPTIONS / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nMax-Forwards: 0\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), 204);
    chain_request(&c, &client,
                  "TRACE / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nMax-Forwards: 0\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), 405);
    chain_request(&c, &client,
                  "TRACE / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nMax-Forwards: x\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), 400);
    ck_assert_uint_eq(c.upstream.requests, 0);
    chain_request(&c, &client,
                  "TRACE / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nMax-Forwards: 10\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), 200);
    ck_assert_server_received(&c.upstream, "Max-Forwards: 9\r\n");
    chain_request(&c, &client, GET_CLOSE "Max-Forwards: 0\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), 200);
    ck_assert_server_received(&c.upstream, "Max-Forwards: 0\r\n");
    chain_close(&c);
}

TEST(a_request_and_a_response_with_500_fields_are_forwarded)
{
    static char request[40000], reply[40000];
    proxy_chain c;
    test_client client;
    char line[64];
    strcpy(request, GET_CLOSE);
    strcpy(reply, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 500; i++) {
        snprintf(line, sizeof line, "X-Field-%03d: %d\r\n", i, i * i);
        strcat(request, line);
        strcat(reply, line);
    }
    strcat(request, "\r\n");
    strcat(reply, "Content-Length: 0\r\n\r\n");
    const script_step steps[] = {{.reply = reply}};
    start_server(&c.upstream, steps, 1);
    c.front_options =
        (weft_http_options){.limits = {.headers_max = 600, .head_bytes_max = sizeof request}};
    chain_open_at(&c, c.upstream.base, NULL);
    chain_request(&c, &client, request);
    ck_assert_int_eq(status_of(client.received), 200);
    for (int i = 0; i < 500; i++) {
        snprintf(line, sizeof line, "X-Field-%03d: %d\r\n", i, i * i);
        ck_assert_server_received(&c.upstream, line);
        ck_assert_received(&client, line);
    }
    chain_close(&c);
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
        const script_step steps[] = {{.reply = rows[i].reply}};
        char request[200];
        proxy_chain c;
        test_client client;
        chain_open(&c, steps, 1, NULL);
        snprintf(request, sizeof request,
                 "%s / HTTP/1.1\r\nHost: a\r\n\r\n%s / HTTP/1.1\r\nHost: a\r\nConnection: "
                 "close\r\n\r\n",
                 rows[i].method, rows[i].method);
        chain_request(&c, &client, request);
        ck_assert_int_eq(status_of(client.received), rows[i].status);
        ck_assert_uint_eq(count_in(client.received, "HTTP/1.1 "), 2); /* on one connection */
        ck_assert_received(&client, rows[i].expected);
        ck_assert_not_received(&client, rows[i].unexpected);
        ck_assert_str_eq(strstr(body_of(client.received), "\r\n\r\n"), "\r\n\r\n");
        ck_assert_uint_eq(c.upstream.conns, 1);
        chain_close(&c);
    }
}

TEST(trailers_of_a_response_reach_the_client)
{
    static const script_step steps[] = {
        {.reply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
                  "5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-Sum: 2\r\nVia: forged\r\n\r\n"}};
    proxy_chain c;
    test_client client;
    chain_open(&c, steps, 1, NULL);
    server_connect(&c.front, &client);
    client_send(&client, GET "TE: trailers\r\n\r\n");
    client_expect(&client, "0\r\nX-Sum: 1\r\nX-Sum: 2\r\n\r\n");
    ck_assert_received(&client, "Trailer: X-Sum\r\n");
    ck_assert_not_received(&client, "forged");
    weft_close(client.fd);
    chain_close(&c);
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
    static const script_step steps[] = {{.handle = read_trailers}};
    proxy_chain c;
    test_client client;
    chain_open(&c, steps, 1, NULL);
    chain_request(&c, &client,
                  POST_CLOSE "Transfer-Encoding: chunked\r\nTrailer: X-In\r\n\r\n3\r\nabc\r\n"
                             "0\r\nX-In: 9\r\nConnection: x\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), 200);
    ck_assert_server_received(&c.upstream, "Trailer: X-In\r\n");
    ck_assert_server_received(&c.upstream, "3\r\nabc\r\n0\r\nX-In: 9\r\n\r\n");
    ck_assert_server_not_received(&c.upstream, "6.6.6.6");
    chain_close(&c);
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
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const script_step steps[] = {{.reply = rows[i].reply, .closes = rows[i].closes}};
        proxy_chain c;
        weft_fetch *f;
        char *text, url[64];
        c.front_options = (weft_http_options){.gzip_level = 6};
        start_server(&c.upstream, steps, 1);
        chain_open_at(&c, c.upstream.base, NULL);
        snprintf(url, sizeof url, "http://127.0.0.1:%d/", server_port(&c.front));
        const weft_fetch_field accepts = {"Accept-Encoding", "gzip"};
        ck_assert_int_eq(
            weft_fetch_send(
                NULL, &(weft_fetch_request){.url = url, .fields = &accepts, .fields_count = 1}, &f),
            200);
        ck_assert_int_eq(weft_fetch_read_all(f, &text), 5);
        ck_assert_str_eq(text, "hello");
        if (rows[i].name != NULL)
            ck_assert_pstr_eq(weft_fetch_header(f, rows[i].name), rows[i].value);
        if (i != 4)
            ck_assert_ptr_null(weft_fetch_header(f, "Content-Encoding"));
        weft_fetch_close(f);
        ck_assert_server_received(&c.upstream, "Accept-Encoding: gzip\r\n");
        chain_close(&c);
    }
}

TEST(an_http_1_0_client_gets_a_response_without_chunks)
{
    static const script_step steps[] = {
        {.reply = "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "2\r\nhe\r\n3\r\nllo\r\n0\r\nX-T: 1\r\n\r\n"}};
    proxy_chain c;
    test_client client;
    chain_open(&c, steps, 1, NULL);
    chain_request(&c, &client, "GET / HTTP/1.0\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), 200);
    ck_assert_str_eq(body_of(client.received), "hello");
    ck_assert_not_received(&client, " 103 ");
    chain_close(&c);
}

TEST(interim_responses_are_forwarded)
{
    static const script_step steps[] = {
        {.reply = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: </a>\r\n"
                  "Connection: x-hop\r\nX-Hop: 1\r\n\r\n" OK("hello", "5")}};
    proxy_chain c;
    test_client client;
    chain_open(&c, steps, 1, NULL);
    chain_request(&c, &client, GET_CLOSE "\r\n");
    /* The client did not send Expect, so the proxy does not forward the 100. */
    ck_assert_int_eq(strncmp(client.received, "HTTP/1.1 103 ", 13), 0);
    ck_assert_received(&client, "Link: </a>\r\n\r\nHTTP/1.1 200 OK\r\n");
    ck_assert_not_received(&client, "X-Hop");
    chain_close(&c);
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
    static const script_step steps[] = {
        {.handle = read_body_after_continue},
        {.reply = "HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n", .is_early = true}};
    proxy_chain c;
    test_client client;
    chain_open(&c, steps, 2, NULL);
    server_connect(&c.front, &client);
    client_send(&client,
                "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    client_expect(&client, "HTTP/1.1 100 Continue\r\n\r\n");
    ck_assert_server_received(&c.upstream, "Expect: 100-continue\r\n");
    ck_assert_server_not_received(&c.upstream, "abc");
    client_send(&client, "abc");
    client_expect(&client, "hello");
    ck_assert_server_received(&c.upstream, "abc");
    client.received_bytes = 0;
    client_send(&client,
                "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    /* The front server cannot know whether the body follows, so it closes the connection. */
    client_receive_all(&client);
    ck_assert_int_eq(status_of(client.received), 413);
    ck_assert_received(&client, "Connection: close\r\n");
    weft_close(client.fd);
    chain_close(&c);
}

static int failures;
static char last_message[200];

static void record_failure(weft_http_request *r, int error, const char *message, void *ctx)
{
    (void)r;
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
        {{.reply = "HTTP/1.1 200 OK\r\nX-A: b"
                   "\r\n",
          .closes = true},
         -ECONNRESET},
        {{.reply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nx\r\n"},
         -EBADMSG},
        {{.reply = "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"}, -EBADMSG},
    };
    static const char *const requests[] = {GET_CLOSE "\r\n",
                                           POST_CLOSE "Content-Length: 3\r\n\r\nabc"};
    for (size_t i = 0; i < 2 * COUNT_OF(rows); i++) {
        int error = 0;
        proxy_chain c;
        test_client client;
        chain_open(
            &c, &rows[i / 2].step, 1,
            &(weft_http_proxy_options){.on_failure = record_failure, .on_failure_ctx = &error});
        chain_request(&c, &client, requests[i % 2]);
        ck_assert_msg(status_of(client.received) == 502, "row %zu: %s", i / 2, client.received);
        ck_assert_msg(error == rows[i / 2].error, "row %zu: %d", i / 2, error);
        ck_assert_msg(strstr(last_message, "the upstream server") != NULL, "%s", last_message);
        ck_assert_uint_eq(c.upstream.requests, 1);
        chain_close(&c);
    }
    ck_assert_int_eq(failures, 2 * (int)COUNT_OF(rows));
}

TEST(an_unreachable_upstream_server_is_502)
{
    proxy_chain c = {.front_options = {.drain_s = 0}};
    test_client client;
    int error = 0;
    start_server(&c.upstream, hello, 1);
    stop_server(&c.upstream);
    chain_open_at(
        &c, c.upstream.base,
        &(weft_http_proxy_options){.on_failure = record_failure, .on_failure_ctx = &error});
    chain_request(&c, &client, GET_CLOSE "\r\n");
    ck_assert_int_eq(status_of(client.received), 502);
    ck_assert_int_eq(error, -ECONNREFUSED);
    chain_request(&c, &client, POST_CLOSE "Content-Length: 3\r\n\r\nabc");
    ck_assert_int_eq(status_of(client.received), 502);
    chain_close_front(&c);
}

TEST(a_late_upstream_server_is_504)
{
    static const script_step held[] = {{.reply = OK("hello", "5"), .is_held = true}};
    proxy_chain c;
    test_client client, first;
    chain_open(&c, held, 1, &(weft_http_proxy_options){.first_byte_s = 0.02});
    chain_request(&c, &client, GET_CLOSE "\r\n");
    ck_assert_int_eq(status_of(client.received), 504);
    chain_request(&c, &client, POST_CLOSE "Content-Length: 3\r\n\r\nabc");
    ck_assert_int_eq(status_of(client.received), 504);
    chain_close(&c);

    /* All connections are in use, so the second request waits for a connection. */
    chain_open(&c, held, 1, &(weft_http_proxy_options){.connections_max = 1, .connect_s = 1});
    server_connect(&c.front, &first);
    client_send(&first, GET_CLOSE "\r\n");
    ck_assert_int_eq(weft_sem_wait(&c.upstream.arrived), 0);
    chain_request(&c, &client, GET_CLOSE "\r\n");
    ck_assert_int_eq(status_of(client.received), 504);
    release_replies(&c.upstream, 1);
    client_receive_all(&first);
    ck_assert_str_eq(body_of(first.received), "hello");
    weft_close(first.fd);
    chain_close(&c);
}

TEST(a_body_over_the_limit_is_413_and_is_not_forwarded)
{
    proxy_chain c;
    test_client client;
    chain_open(&c, hello, 1, &(weft_http_proxy_options){.body_bytes_max = 4});
    chain_request(&c, &client, POST_CLOSE "Content-Length: 5\r\n\r\nhello");
    ck_assert_int_eq(status_of(client.received), 413);
    ck_assert_uint_eq(c.upstream.requests, 0);
    chain_request(&c, &client, POST_CLOSE "Content-Length: 4\r\n\r\nhell");
    ck_assert_int_eq(status_of(client.received), 200);
    /* A chunked body exceeds the limit only as it arrives. The forwarded body has no end then. */
    chain_request(&c, &client,
                  POST_CLOSE "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), 413);
    chain_close(&c);
}

TEST(invalid_options_are_einval)
{
    static const char *const upstreams[] = {NULL,           "",
                                            "127.0.0.1:80", "ftp://a",
                                            "http://",      "http://a/path",
                                            "http://a?q",   "http://user@a",
                                            "http://@a",    "http://a#"};
    static const weft_http_proxy_options options[] = {
        {.via = "a b"}, {.via = ""}, {.connect_s = -1}, {.idle_s = NAN}, {.upgrades = "a\nb"}};
    for (size_t i = 0; i < COUNT_OF(upstreams); i++) {
        ck_assert_ptr_null(weft_http_proxy_new(upstreams[i], NULL));
        ck_assert_int_eq(weft_error()->code, -EINVAL);
    }
    for (size_t i = 0; i < COUNT_OF(options); i++) {
        ck_assert_ptr_null(weft_http_proxy_new("http://a", &options[i]));
        ck_assert_int_eq(weft_error()->code, -EINVAL);
    }
    ck_assert_int_eq(weft_http_proxy_free(NULL), 0);
}

TEST(a_proxy_is_one_route_among_others)
{
    proxy_chain c = {.front_options = {.drain_s = 0}};
    test_client client;
    start_server(&c.upstream, hello, 1);
    c.proxy = weft_http_proxy_new(c.upstream.base, NULL);
    weft_http_router *routes = weft_http_router_new();
    ck_assert_int_eq(weft_http_route(routes, NULL, "/app/{p...}", weft_http_serve_proxy, c.proxy),
                     0);
    server_open(&c.front, weft_http_serve_routes, routes, &c.front_options);
    chain_request(&c, &client, "GET /app/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    ck_assert_str_eq(body_of(client.received), "hello");
    chain_request(&c, &client, "GET /other HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), 404);
    ck_assert_server_received(&c.upstream, "GET /app/x HTTP/1.1\r\n");
    ck_assert_uint_eq(c.upstream.requests, 1);
    chain_close(&c);
    weft_http_router_free(routes);
}

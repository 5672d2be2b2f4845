/* The reverse proxy: what it says to the upstream server, what it passes back, what it answers. */
#include "proxy_support.h"

static const turn hello[] = {{.says = OK("hello", "5")}};

START_TEST(a_request_and_its_answer_are_passed_on)
{
    static const turn says[] = {
        {.says = "HTTP/1.1 201 Made\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nServer: up\r\n"
                 "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 5\r\n\r\nhello"}};
    chain c;
    talk t;
    chain_open(&c, says, 1, NULL);
    chain_ask(&c, &t,
              "POST /a%20b/../c?d=%e HTTP/1.1\r\nHost: example.org:81\r\nX-A: 1\r\nX-A: 2\r\n"
              "Content-Type: text/x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc");
    ck_assert_int_eq(status_of(t.heard), 201);
    ck_assert_str_eq(body_of(t.heard), "hello");
    ck_assert_heard(&t, "Set-Cookie: a=1\r\nSet-Cookie: b=2\r\n");
    ck_assert_heard(&t, "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    ck_assert_uint_eq(times_in(t.heard, "Date:"), 1);
    ck_assert_heard(&t, "Server: up\r\n");
    ck_assert_heard(&t, "Content-Length: 5\r\n");
    ck_assert_seen(&c.up, "POST /a%20b/../c?d=%e HTTP/1.1\r\n");
    ck_assert_seen(&c.up, "Host: example.org:81\r\n");
    ck_assert_seen(&c.up, "X-A: 1\r\nX-A: 2\r\nContent-Type: text/x\r\n");
    ck_assert_seen(&c.up, "Content-Length: 3\r\n\r\nabc");
    ck_assert_unseen(&c.up, "User-Agent");
    ck_assert_unseen(&c.up, "Accept");
    chain_close(&c);
}
END_TEST

/* RFC 9110, 7.6.1. */
START_TEST(fields_of_the_connection_are_not_passed_on)
{
    static const turn says[] = {
        {.says = "HTTP/1.1 200 OK\r\nConnection: X-Hop, X-HOP-2\r\nConnection: x-hop-3\r\n"
                 "X-Hop: 1\r\nX-Hop-2: 1\r\nX-Hop-3: 1\r\nKeep-Alive: timeout=5\r\n"
                 "Proxy-Connection: keep-alive\r\nProxy-Authenticate: Basic\r\nX-End: 1\r\n"
                 "Content-Length: 5\r\n\r\nhello"}};
    static const char *const hop[] = {
        "X-Secret", "X-Other", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization",
        "Upgrade",  "gzip",    "close"};
    chain c;
    talk t;
    chain_open(&c, says, 1, NULL);
    chain_ask(&c, &t,
              GET "Connection: close, x-secret, TE\r\nConnection: X-Other\r\nX-Secret: 1\r\n"
                  "X-Other: 1\r\nKeep-Alive: 5\r\nProxy-Connection: keep-alive\r\n"
                  "Proxy-Authorization: Basic eA==\r\nTE: gzip;q=0.5, trailers\r\nUpgrade: foo\r\n"
                  "X-Kept: 2\r\n\r\n");
    ck_assert_int_eq(status_of(t.heard), 200);
    for (size_t i = 0; i < COUNT_OF(hop); i++)
        ck_assert_unseen(&c.up, hop[i]);
    ck_assert_seen(&c.up, "X-Kept: 2\r\n");
    ck_assert_seen(&c.up, "TE: trailers\r\nConnection: TE\r\n");
    ck_assert_unheard(&t, "X-Hop");
    ck_assert_unheard(&t, "Keep-Alive");
    ck_assert_unheard(&t, "Proxy-");
    ck_assert_heard(&t, "X-End: 1\r\n");
    chain_close(&c);
}
END_TEST

/* What Connection names cannot take away what the proxy says itself. */
START_TEST(a_client_cannot_remove_the_fields_of_the_proxy)
{
    chain c;
    talk t;
    chain_open(&c, hello, 1, NULL);
    chain_ask(&c, &t,
              "POST / HTTP/1.1\r\nHost: example.org\r\nContent-Length: 1\r\n"
              "Connection: close, Host, Content-Length, Via, X-Forwarded-For, X-Forwarded-Host\r\n"
              "\r\nx");
    ck_assert_int_eq(status_of(t.heard), 200);
    ck_assert_seen(&c.up, "Host: example.org\r\n");
    ck_assert_seen(&c.up, "Via: 1.1 ");
    ck_assert_seen(&c.up, "X-Forwarded-For: 127.0.0.1\r\n");
    ck_assert_seen(&c.up, "Content-Length: 1\r\n\r\nx");
    chain_close(&c);
}
END_TEST

START_TEST(an_ambiguous_request_never_reaches_the_upstream_server)
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
    chain c;
    talk t;
    chain_open(&c, hello, 1, NULL);
    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        chain_ask(&c, &t, requests[i]);
        ck_assert_msg(status_of(t.heard) == 400, "request %zu: %s", i, t.heard);
    }
    ck_assert_uint_eq(c.up.asked, 0);
    ck_assert_uint_eq(c.up.conns, 0);
    chain_close(&c);
}
END_TEST

START_TEST(via_tells_the_way_in_both_directions)
{
    static const turn says[] = {
        {.says = "HTTP/1.0 200 OK\r\nVia: 1.0 inner\r\nContent-Length: 5\r\n\r\nhello"}};
    chain c;
    talk t;
    chain_open(&c, says, 1, &(weft_http_proxy_options){.via = "edge"});
    chain_ask(&c, &t, GET_CLOSE "Via: 1.0 first, 1.1 edgeless (a comment)\r\n\r\n");
    ck_assert_heard(&t, "Via: 1.0 inner\r\nVia: 1.0 edge\r\n");
    ck_assert_seen(&c.up, "Via: 1.0 first, 1.1 edgeless (a comment)\r\nVia: 1.1 edge\r\n");
    chain_ask(&c, &t, "GET / HTTP/1.0\r\n\r\n");
    ck_assert_seen(&c.up, "Via: 1.0 edge\r\n");
    chain_close(&c);
}
END_TEST

START_TEST(a_request_that_comes_back_to_its_proxy_is_stopped)
{
    chain c = {.front_options = {.drain_s = 0}};
    talk t;
    c.front.listener = -1;
    /* The front server is its own upstream server. */
    site_open(&c.front, weft_http_serve_proxy, NULL, &c.front_options);
    char upstream[64];
    snprintf(upstream, sizeof upstream, "http://127.0.0.1:%d", site_port(&c.front));
    c.proxy = weft_http_proxy_new(upstream, NULL);
    c.front.ctx = c.proxy; /* it has not run yet */
    chain_ask(&c, &t, GET_CLOSE "\r\n");
    ck_assert_int_eq(status_of(t.heard), 508);
    front_close(&c);
}
END_TEST

START_TEST(the_upstream_server_is_told_who_asks)
{
    chain c;
    talk t;
    chain_open(&c, hello, 1, &(weft_http_proxy_options){.sends_forwarded = true});
    chain_ask(&c, &t,
              GET_CLOSE "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\n"
                        "X-Forwarded-Host: evil.example\r\nForwarded: for=6.6.6.6\r\n"
                        "X_Forwarded_For: 6.6.6.6\r\nX-Forwarded_Host: evil.example\r\n\r\n");
    ck_assert_unseen(&c.up, "6.6.6.6");
    ck_assert_unseen(&c.up, "evil");
    ck_assert_seen(&c.up, "X-Forwarded-For: 127.0.0.1\r\n");
    ck_assert_seen(&c.up, "X-Forwarded-Proto: http\r\n");
    ck_assert_seen(&c.up, "X-Forwarded-Host: example.org\r\n");
    ck_assert_seen(&c.up, "Forwarded: for=127.0.0.1;proto=http;host=\"example.org\"\r\n");
    chain_close(&c);
}
END_TEST

START_TEST(what_a_trusted_peer_says_of_the_client_is_continued)
{
    chain c;
    talk t;
    c.front_options = (weft_http_options){.trusted_peers = "127.0.0.1",
                                          .trusted_headers = "X-Forwarded-For, Forwarded"};
    start_server(&c.up, hello, 1);
    chain_open_at(&c, c.up.base, &(weft_http_proxy_options){.sends_forwarded = true});
    chain_ask(&c, &t,
              GET_CLOSE "X-Forwarded-For: 7.7.7.7\r\nX-Forwarded-For: 8.8.8.8\r\n"
                        "Forwarded: for=7.7.7.7\r\n\r\n");
    ck_assert_seen(&c.up, "X-Forwarded-For: 7.7.7.7,8.8.8.8, 127.0.0.1\r\n");
    ck_assert_seen(&c.up, "Forwarded: for=7.7.7.7, for=127.0.0.1;proto=http");
    chain_close(&c);
}
END_TEST

START_TEST(fields_about_the_client_can_be_left_out)
{
    chain c;
    talk t;
    chain_open(&c, hello, 1, &(weft_http_proxy_options){.has_no_x_forwarded = true});
    chain_ask(&c, &t, GET_CLOSE "X-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\n\r\n");
    ck_assert_unseen(&c.up, "orwarded");
    chain_close(&c);
}
END_TEST

START_TEST(the_host_is_the_clients_or_the_upstream_servers)
{
    chain c;
    talk t;
    char words[80];
    chain_open(&c, hello, 1, NULL);
    chain_ask(&c, &t,
              "GET http://other.example:8080/x?y HTTP/1.1\r\nHost: wrong.example\r\n"
              "Connection: close\r\n\r\n");
    ck_assert_seen(&c.up, "GET /x?y HTTP/1.1\r\nHost: other.example:8080\r\n");
    ck_assert_unseen(&c.up, "wrong");
    chain_ask(&c, &t,
              "GET http://other.example?q HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    ck_assert_seen(&c.up, "GET /?q HTTP/1.1\r\nHost: other.example\r\n");
    chain_ask(&c, &t, "OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    ck_assert_seen(&c.up, "OPTIONS * HTTP/1.1\r\n");
    c.up.seen_bytes = 0;
    chain_ask(&c, &t,
              "OPTIONS http://other.example HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    ck_assert_seen(&c.up, "OPTIONS * HTTP/1.1\r\nHost: other.example\r\n"); /* RFC 9112, 3.2.4 */
    c.up.seen_bytes = 0;
    chain_ask(&c, &t, "GET / HTTP/1.0\r\n\r\n");
    snprintf(words, sizeof words, "Host: 127.0.0.1:%d\r\n", c.up.port);
    ck_assert_seen(&c.up, words);
    front_close(&c);
    chain_open_at(&c, c.up.base, &(weft_http_proxy_options){.sends_upstream_host = true});
    c.up.seen_bytes = 0;
    chain_ask(&c, &t, GET_CLOSE "\r\n");
    ck_assert_seen(&c.up, words);
    ck_assert_seen(&c.up, "X-Forwarded-Host: example.org\r\n");
    chain_close(&c);
}
END_TEST

START_TEST(max_forwards_counts_down_and_stops_at_zero)
{
    chain c;
    talk t;
    chain_open(&c, hello, 1, NULL);
    chain_ask(&c, &t,
              "OPTIONS / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nMax-Forwards: 0\r\n\r\n");
    ck_assert_int_eq(status_of(t.heard), 204);
    chain_ask(&c, &t,
              "TRACE / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nMax-Forwards: 0\r\n\r\n");
    ck_assert_int_eq(status_of(t.heard), 405);
    chain_ask(&c, &t,
              "TRACE / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nMax-Forwards: x\r\n\r\n");
    ck_assert_int_eq(status_of(t.heard), 400);
    ck_assert_uint_eq(c.up.asked, 0);
    chain_ask(&c, &t,
              "TRACE / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nMax-Forwards: 10\r\n\r\n");
    ck_assert_int_eq(status_of(t.heard), 200);
    ck_assert_seen(&c.up, "Max-Forwards: 9\r\n");
    chain_ask(&c, &t, GET_CLOSE "Max-Forwards: 0\r\n\r\n");
    ck_assert_int_eq(status_of(t.heard), 200);
    ck_assert_seen(&c.up, "Max-Forwards: 0\r\n");
    chain_close(&c);
}
END_TEST

START_TEST(a_request_and_an_answer_of_five_hundred_fields_are_passed_on)
{
    static char request[40000], answer[40000];
    chain c;
    talk t;
    char line[64];
    strcpy(request, GET_CLOSE);
    strcpy(answer, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 500; i++) {
        snprintf(line, sizeof line, "X-Field-%03d: %d\r\n", i, i * i);
        strcat(request, line);
        strcat(answer, line);
    }
    strcat(request, "\r\n");
    strcat(answer, "Content-Length: 0\r\n\r\n");
    const turn says[] = {{.says = answer}};
    start_server(&c.up, says, 1);
    c.front_options =
        (weft_http_options){.limits = {.headers_max = 600, .head_bytes_max = sizeof request}};
    chain_open_at(&c, c.up.base, NULL);
    chain_ask(&c, &t, request);
    ck_assert_int_eq(status_of(t.heard), 200);
    for (int i = 0; i < 500; i++) {
        snprintf(line, sizeof line, "X-Field-%03d: %d\r\n", i, i * i);
        ck_assert_seen(&c.up, line);
        ck_assert_heard(&t, line);
    }
    chain_close(&c);
}
END_TEST

START_TEST(answers_without_a_body_keep_their_framing)
{
    static const struct {
        const char *method, *answer;
        int status;
        const char *heard, *unheard;
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
        const turn says[] = {{.says = rows[i].answer}};
        char request[200];
        chain c;
        talk t;
        chain_open(&c, says, 1, NULL);
        snprintf(request, sizeof request,
                 "%s / HTTP/1.1\r\nHost: a\r\n\r\n%s / HTTP/1.1\r\nHost: a\r\nConnection: "
                 "close\r\n\r\n",
                 rows[i].method, rows[i].method);
        chain_ask(&c, &t, request);
        ck_assert_int_eq(status_of(t.heard), rows[i].status);
        ck_assert_uint_eq(times_in(t.heard, "HTTP/1.1 "), 2); /* the connection was kept */
        ck_assert_heard(&t, rows[i].heard);
        ck_assert_unheard(&t, rows[i].unheard);
        ck_assert_str_eq(strstr(body_of(t.heard), "\r\n\r\n"), "\r\n\r\n");
        ck_assert_uint_eq(c.up.conns, 1);
        chain_close(&c);
    }
}
END_TEST

START_TEST(trailers_of_an_answer_reach_the_client)
{
    static const turn says[] = {
        {.says = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
                 "5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-Sum: 2\r\nVia: forged\r\n\r\n"}};
    chain c;
    talk t;
    chain_open(&c, says, 1, NULL);
    site_call(&c.front, &t);
    talk_send(&t, GET "TE: trailers\r\n\r\n");
    talk_hear(&t, "0\r\nX-Sum: 1\r\nX-Sum: 2\r\n\r\n");
    ck_assert_heard(&t, "Trailer: X-Sum\r\n");
    ck_assert_unheard(&t, "forged");
    weft_close(t.fd);
    chain_close(&c);
}
END_TEST

/* The script reads no trailers: it sees them as the next line. */
static bool read_trailers(web *sv, weft_stream *s)
{
    char line[200];
    while (weft_stream_gets(s, line, sizeof line) > 0) {
        note(sv, line, strlen(line));
        if (strstr(sv->seen, "0\r\n") != NULL && strcmp(line, "\r\n") == 0)
            break;
    }
    weft_stream_puts(s, OK("hello", "5"));
    weft_stream_flush(s);
    return true;
}

START_TEST(trailers_of_a_request_reach_the_upstream_server)
{
    static const turn says[] = {{.talks = read_trailers}};
    chain c;
    talk t;
    chain_open(&c, says, 1, NULL);
    chain_ask(&c, &t,
              POST_CLOSE "Transfer-Encoding: chunked\r\nTrailer: X-In\r\n\r\n3\r\nabc\r\n"
                         "0\r\nX-In: 9\r\nConnection: x\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n");
    ck_assert_int_eq(status_of(t.heard), 200);
    ck_assert_seen(&c.up, "Trailer: X-In\r\n");
    ck_assert_seen(&c.up, "3\r\nabc\r\n0\r\nX-In: 9\r\n\r\n");
    ck_assert_unseen(&c.up, "6.6.6.6");
    chain_close(&c);
}
END_TEST

START_TEST(bodies_keep_their_framing_and_their_coding)
{
    static const struct {
        const char *answer;
        const char *heard;
        bool hangs_up;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello",
         "Content-Length: 5\r\n", false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
         "Transfer-Encoding: chunked\r\n", false},
        {"HTTP/1.1 200 OK\r\n\r\nhello", "Transfer-Encoding: chunked\r\n", true},
        {"HTTP/1.0 200 OK\r\n\r\nhello", "Transfer-Encoding: chunked\r\n", true},
        {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
         "Content-Encoding: gzip\r\n", false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const turn says[] = {{.says = rows[i].answer, .hangs_up = rows[i].hangs_up}};
        chain c;
        weft_fetch *f;
        char *text, url[64];
        c.front_options = (weft_http_options){.gzip_level = 6};
        start_server(&c.up, says, 1);
        chain_open_at(&c, c.up.base, NULL);
        snprintf(url, sizeof url, "http://127.0.0.1:%d/", site_port(&c.front));
        const weft_fetch_field accepts = {"Accept-Encoding", "gzip"};
        ck_assert_int_eq(
            weft_fetch_send(
                NULL, &(weft_fetch_request){.url = url, .fields = &accepts, .fields_count = 1}, &f),
            200);
        ck_assert_int_eq(weft_fetch_read_all(f, &text), 5);
        ck_assert_str_eq(text, "hello");
        if (i != 4)
            ck_assert_ptr_null(weft_fetch_header(f, "Content-Encoding"));
        weft_fetch_close(f);
        ck_assert_seen(&c.up, "Accept-Encoding: gzip\r\n");
        chain_close(&c);
    }
}
END_TEST

START_TEST(an_old_client_gets_an_answer_that_it_understands)
{
    static const turn says[] = {
        {.says = "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                 "2\r\nhe\r\n3\r\nllo\r\n0\r\nX-T: 1\r\n\r\n"}};
    chain c;
    talk t;
    chain_open(&c, says, 1, NULL);
    chain_ask(&c, &t, "GET / HTTP/1.0\r\n\r\n");
    ck_assert_int_eq(status_of(t.heard), 200);
    ck_assert_str_eq(body_of(t.heard), "hello");
    ck_assert_unheard(&t, "103");
    chain_close(&c);
}
END_TEST

START_TEST(interim_answers_are_passed_on)
{
    static const turn says[] = {
        {.says = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: </a>\r\n"
                 "Connection: x-hop\r\nX-Hop: 1\r\n\r\n" OK("hello", "5")}};
    chain c;
    talk t;
    chain_open(&c, says, 1, NULL);
    chain_ask(&c, &t, GET_CLOSE "\r\n");
    ck_assert_int_eq(strncmp(t.heard, "HTTP/1.1 103 ", 13), 0); /* nobody expects the 100 */
    ck_assert_heard(&t, "Link: </a>\r\n\r\nHTTP/1.1 200 OK\r\n");
    ck_assert_unheard(&t, "X-Hop");
    chain_close(&c);
}
END_TEST

/* Reads a body only after it has said that it wants it. */
static bool invite(web *sv, weft_stream *s)
{
    weft_stream_puts(s, "HTTP/1.1 100 Continue\r\n\r\n");
    weft_stream_flush(s);
    if (!read_bytes(sv, s, 3))
        return false;
    weft_stream_puts(s, OK("hello", "5"));
    weft_stream_flush(s);
    return true;
}

START_TEST(the_upstream_server_says_whether_a_body_is_wanted)
{
    static const turn says[] = {
        {.talks = invite},
        {.says = "HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n", .is_early = true}};
    chain c;
    talk t;
    chain_open(&c, says, 2, NULL);
    site_call(&c.front, &t);
    talk_send(&t,
              "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    talk_hear(&t, "HTTP/1.1 100 Continue\r\n\r\n");
    ck_assert_seen(&c.up, "Expect: 100-continue\r\n");
    ck_assert_unseen(&c.up, "abc");
    talk_send(&t, "abc");
    talk_hear(&t, "hello");
    ck_assert_seen(&c.up, "abc");
    t.heard_bytes = 0;
    talk_send(&t,
              "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    talk_hear_all(&t); /* whether the body follows is not known: the connection ends */
    ck_assert_int_eq(status_of(t.heard), 413);
    ck_assert_heard(&t, "Connection: close\r\n");
    weft_close(t.fd);
    chain_close(&c);
}
END_TEST

static int failures;
static char last_words[200];

static void take_failure(weft_http_request *r, int error, const char *words, void *ctx)
{
    (void)r;
    *(int *)ctx = error;
    failures++;
    snprintf(last_words, sizeof last_words, "%s", words);
}

START_TEST(an_upstream_server_that_fails_is_a_bad_gateway)
{
    static const struct {
        turn says;
        int error;
    } rows[] = {
        {{.hangs_up = true}, -ECONNRESET},
        {{.says = "SSH-2.0-OpenSSH\r\n", .hangs_up = true}, -EBADMSG},
        {{.says = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"}, -EBADMSG},
        {{.says = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nab"},
         -EBADMSG},
        {{.says = "HTTP/1.1 200 OK\r\nX-A: b"
                  "\r\n",
          .hangs_up = true},
         -ECONNRESET},
        {{.says = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nx\r\n"},
         -EBADMSG},
        {{.says = "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"}, -EBADMSG},
    };
    static const char *const requests[] = {GET_CLOSE "\r\n",
                                           POST_CLOSE "Content-Length: 3\r\n\r\nabc"};
    for (size_t i = 0; i < 2 * COUNT_OF(rows); i++) {
        int error = 0;
        chain c;
        talk t;
        chain_open(
            &c, &rows[i / 2].says, 1,
            &(weft_http_proxy_options){.on_failure = take_failure, .on_failure_ctx = &error});
        chain_ask(&c, &t, requests[i % 2]);
        ck_assert_msg(status_of(t.heard) == 502, "row %zu: %s", i / 2, t.heard);
        ck_assert_msg(error == rows[i / 2].error, "row %zu: %d", i / 2, error);
        ck_assert_msg(strncmp(last_words, "the upstream server ", 20) == 0, "%s", last_words);
        ck_assert_uint_eq(c.up.asked, 1);
        chain_close(&c);
    }
    ck_assert_int_eq(failures, 2 * (int)COUNT_OF(rows));
}
END_TEST

START_TEST(an_upstream_server_that_is_not_there_is_a_bad_gateway)
{
    chain c = {.front_options = {.drain_s = 0}};
    talk t;
    int error = 0;
    start_server(&c.up, hello, 1);
    stop_server(&c.up);
    chain_open_at(&c, c.up.base,
                  &(weft_http_proxy_options){.on_failure = take_failure, .on_failure_ctx = &error});
    chain_ask(&c, &t, GET_CLOSE "\r\n");
    ck_assert_int_eq(status_of(t.heard), 502);
    ck_assert_int_eq(error, -ECONNREFUSED);
    chain_ask(&c, &t, POST_CLOSE "Content-Length: 3\r\n\r\nabc");
    ck_assert_int_eq(status_of(t.heard), 502);
    front_close(&c);
}
END_TEST

START_TEST(an_upstream_server_that_is_late_is_a_timeout)
{
    static const turn held[] = {{.says = OK("hello", "5"), .is_held = true}};
    chain c;
    talk t, first;
    chain_open(&c, held, 1, &(weft_http_proxy_options){.first_byte_s = 0.02});
    chain_ask(&c, &t, GET_CLOSE "\r\n");
    ck_assert_int_eq(status_of(t.heard), 504);
    chain_ask(&c, &t, POST_CLOSE "Content-Length: 3\r\n\r\nabc");
    ck_assert_int_eq(status_of(t.heard), 504);
    chain_close(&c);

    /* All connections are in use: the second request waits for one. */
    chain_open(&c, held, 1, &(weft_http_proxy_options){.connections_max = 1, .connect_s = 1});
    site_call(&c.front, &first);
    talk_send(&first, GET_CLOSE "\r\n");
    ck_assert_int_eq(weft_sem_wait(&c.up.arrived), 0);
    chain_ask(&c, &t, GET_CLOSE "\r\n");
    ck_assert_int_eq(status_of(t.heard), 504);
    let_go(&c.up, 1);
    talk_hear_all(&first);
    ck_assert_str_eq(body_of(first.heard), "hello");
    weft_close(first.fd);
    chain_close(&c);
}
END_TEST

START_TEST(a_body_over_the_limit_is_refused_before_the_upstream_server_is_asked)
{
    chain c;
    talk t;
    chain_open(&c, hello, 1, &(weft_http_proxy_options){.body_bytes_max = 4});
    chain_ask(&c, &t, POST_CLOSE "Content-Length: 5\r\n\r\nhello");
    ck_assert_int_eq(status_of(t.heard), 413);
    ck_assert_uint_eq(c.up.asked, 0);
    chain_ask(&c, &t, POST_CLOSE "Content-Length: 4\r\n\r\nhell");
    ck_assert_int_eq(status_of(t.heard), 200);
    /* In chunks it is only known when it comes: the upstream server gets no end then. */
    chain_ask(&c, &t, POST_CLOSE "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    ck_assert_int_eq(status_of(t.heard), 413);
    chain_close(&c);
}
END_TEST

START_TEST(options_that_are_not_valid_are_refused)
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
END_TEST

START_TEST(a_proxy_is_one_route_among_others)
{
    chain c = {.front_options = {.drain_s = 0}};
    talk t;
    start_server(&c.up, hello, 1);
    c.proxy = weft_http_proxy_new(c.up.base, NULL);
    weft_http_router *routes = weft_http_router_new();
    ck_assert_int_eq(weft_http_route(routes, NULL, "/app/{p...}", weft_http_serve_proxy, c.proxy),
                     0);
    site_open(&c.front, weft_http_serve_routes, routes, &c.front_options);
    chain_ask(&c, &t, "GET /app/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    ck_assert_str_eq(body_of(t.heard), "hello");
    chain_ask(&c, &t, "GET /other HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    ck_assert_int_eq(status_of(t.heard), 404);
    ck_assert_seen(&c.up, "GET /app/x HTTP/1.1\r\n");
    ck_assert_uint_eq(c.up.asked, 1);
    chain_close(&c);
    weft_http_router_free(routes);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &a_request_and_its_answer_are_passed_on,
        &fields_of_the_connection_are_not_passed_on,
        &a_client_cannot_remove_the_fields_of_the_proxy,
        &an_ambiguous_request_never_reaches_the_upstream_server,
        &via_tells_the_way_in_both_directions,
        &a_request_that_comes_back_to_its_proxy_is_stopped,
        &the_upstream_server_is_told_who_asks,
        &what_a_trusted_peer_says_of_the_client_is_continued,
        &fields_about_the_client_can_be_left_out,
        &the_host_is_the_clients_or_the_upstream_servers,
        &max_forwards_counts_down_and_stops_at_zero,
        &a_request_and_an_answer_of_five_hundred_fields_are_passed_on,
        &answers_without_a_body_keep_their_framing,
        &trailers_of_an_answer_reach_the_client,
        &trailers_of_a_request_reach_the_upstream_server,
        &bodies_keep_their_framing_and_their_coding,
        &an_old_client_gets_an_answer_that_it_understands,
        &interim_answers_are_passed_on,
        &the_upstream_server_says_whether_a_body_is_wanted,
        &an_upstream_server_that_fails_is_a_bad_gateway,
        &an_upstream_server_that_is_not_there_is_a_bad_gateway,
        &an_upstream_server_that_is_late_is_a_timeout,
        &a_body_over_the_limit_is_refused_before_the_upstream_server_is_asked,
        &options_that_are_not_valid_are_refused,
        &a_proxy_is_one_route_among_others,
    };
    forget_proxies();
    return run_suite("http_proxy", tests, COUNT_OF(tests));
}

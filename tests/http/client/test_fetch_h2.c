/* The HTTP client over HTTP/2: requests and responses. */
#include "http/client/fetch_h2_support.h"

FIXTURE(h2_set_up, h2_tear_down)

TEST(a_request_gets_its_response_over_http2)
{
    h2_site_open(h2_hello);
    ck_assert_int_eq(get("/"), 200);
    ck_assert_int_eq(weft_fetch_version(fetch), 20);
    assert_body("hello");
    ck_assert_int_eq(weft_fetch_length(fetch), -1);
    ck_assert_int_eq(weft_fetch_version(fetch), 20);
}

TEST(the_request_has_the_fields_of_the_client_and_of_the_caller)
{
    const weft_fetch_field fields[] = {{"X-Mine", "1"}, {"Connection", "close"}, {"COOKIE", "a=b"}};
    h2_site_open(h2_show);
    const weft_fetch_request r = {.url = format("http://user:pass@localhost:%d/a?b=c", h2.port),
                                  .fields = fields,
                                  .fields_count = COUNT_OF(fields)};
    ck_assert_int_eq(weft_fetch_send(fetcher, &r, &fetch), 200);
    char *text;
    ck_assert_int_gt(weft_fetch_read_all(fetch, &text), 0);
    ck_assert_has(text, ":method: GET\n", ":scheme: http\n",
                  format(":authority: localhost:%d\n", h2.port), ":path: /a?b=c\n", "x-mine: 1\n",
                  "cookie: a=b\n", "accept: */*\n", "authorization: Basic dXNlcjpwYXNz\n",
                  "user-agent: weft/");
    ck_assert_lacks(text, "\nconnection:", "\nhost:", "\ncontent-length:");
}

TEST(the_path_is_not_empty_and_values_have_no_blanks_around_them)
{
    const weft_fetch_field fields[] = {{"X-Blank", " \ty \t"}, {"X-Empty", "  "}};
    h2_site_open(h2_show);
    const weft_fetch_request r = {.url = format("http://localhost:%d?q", h2.port),
                                  .fields = fields,
                                  .fields_count = COUNT_OF(fields)};
    ck_assert_int_eq(weft_fetch_send(fetcher, &r, &fetch), 200);
    char *text;
    ck_assert_int_gt(weft_fetch_read_all(fetch, &text), 0);
    ck_assert_has(text, ":path: /?q\n", "x-blank: y\n", "x-empty: \n");
}

TEST(a_host_field_becomes_the_authority)
{
    const weft_fetch_field field = {"Host", "other.test"};
    h2_site_open(h2_show);
    const weft_fetch_request r = {.url = url_of(&site, "/"), .fields = &field, .fields_count = 1};
    ck_assert_int_eq(weft_fetch_send(fetcher, &r, &fetch), 200);
    char *text;
    ck_assert_int_gt(weft_fetch_read_all(fetch, &text), 0);
    ck_assert_has(text, ":authority: other.test\n");
    ck_assert_lacks(text, "\nhost:");
}

static int reply_with_fields(h2_exchange *x)
{
    const nghttp2_nv early[] = {h2_nv(":status", "103"), h2_nv("link", "</early>")};
    const nghttp2_nv head[] = {h2_nv(":status", "200"), h2_nv("content-length", "4"),
                               h2_nv("x-a", "1"), h2_nv("x-a", "2"), h2_nv("x-empty", "")};
    const nghttp2_nv trailers[] = {h2_nv("x-sum", "42"), h2_nv("x-end", "yes")};
    int rc = weft__h2_stream_interim(&x->st, early, 2);
    if (rc == 0)
        rc = weft__h2_stream_head(&x->st, head, COUNT_OF(head), false);
    if (rc == 0)
        rc = weft__h2_stream_write(&x->st, "body", 4) == 4 ? 0 : -EIO;
    return rc < 0 ? rc : weft__h2_stream_end_with(&x->st, trailers, 2);
}

TEST(a_response_has_fields_and_trailers)
{
    const char *name, *value;
    h2_site_open(reply_with_fields);
    ck_assert_int_eq(get("/"), 200);
    ck_assert_int_eq(weft_fetch_length(fetch), 4);
    ck_assert_str_eq(weft_fetch_header(fetch, "X-A"), "1");
    ck_assert_str_eq(weft_fetch_header(fetch, "X-Empty"), "");
    ck_assert_ptr_null(weft_fetch_header(fetch, "link"));
    ck_assert_int_eq(weft_fetch_header_at(fetch, 2, &name, &value), 0);
    ck_assert_str_eq(name, "x-a");
    ck_assert_str_eq(value, "2");
    ck_assert_int_eq(weft_fetch_header_at(fetch, 4, &name, &value), -ENOENT);
    ck_assert_ptr_null(weft_fetch_trailer(fetch, "X-Sum"));
    assert_body("body");
    ck_assert_str_eq(weft_fetch_trailer(fetch, "X-Sum"), "42");
    ck_assert_str_eq(weft_fetch_trailer(fetch, "X-End"), "yes");
}

static int reply_without_body(h2_exchange *x)
{
    const nghttp2_nv head[] = {h2_nv(":status", h2_path_is(x, "/204") ? "204" : "200"),
                               h2_nv("content-length", "1000")};
    return weft__h2_stream_head(&x->st, head, h2_path_is(x, "/204") ? 1 : 2, true);
}

TEST(responses_to_head_and_responses_without_content_have_no_body)
{
    h2_site_open(reply_without_body);
    const weft_fetch_request head = {.url = url_of(&site, "/"), .method = "HEAD"};
    ck_assert_int_eq(weft_fetch_send(fetcher, &head, &fetch), 200);
    ck_assert_int_eq(weft_fetch_length(fetch), 1000);
    assert_body("");
    ck_assert_int_eq(get("/204"), 204);
    assert_body("");
    ck_assert_uint_eq(h2.conns, 1);
}

static int redirect_to_hello(h2_exchange *x)
{
    const nghttp2_nv head[] = {h2_nv(":status", "302"), h2_nv("location", "/hello")};
    return h2_path_is(x, "/hello") ? h2_show(x)
                                   : weft__h2_stream_reply(&x->st, head, 2, "moved", 5);
}

TEST(redirects_are_followed_on_the_same_connection)
{
    h2_site_open(redirect_to_hello);
    ck_assert_int_eq(weft_fetch_post(fetcher, url_of(&site, "/"), "text/plain", "abc", 3, &fetch),
                     200);
    char *text;
    ck_assert_int_gt(weft_fetch_read_all(fetch, &text), 0);
    ck_assert_has(text, ":method: GET\n", ":path: /hello\n");
    ck_assert_lacks(text, "content-type", "content-length");
    ck_assert_str_eq(weft_fetch_url(fetch), url_of(&site, "/hello"));
    ck_assert_uint_eq(h2.conns, 1);
}

#ifdef WEFT_HAS_GZIP
static int reply_gzip(h2_exchange *x)
{
    static const char zipped[] =
        "\37\213\10\0\0\0\0\0\0\3\313\110\315\311\311\7\0\206\246\20\66\5\0\0";
    const nghttp2_nv head[] = {h2_nv(":status", "200"), h2_nv("content-encoding", "gzip")};
    if (strstr(x->fields, "accept-encoding: gzip\n") == NULL)
        return h2_say(x, "not accepted");
    return weft__h2_stream_reply(&x->st, head, 2, zipped, sizeof zipped);
}

TEST(gzip_is_decompressed)
{
    h2_site_open(reply_gzip);
    ck_assert_int_eq(get("/"), 200);
    ck_assert_int_eq(weft_fetch_length(fetch), -1);
    assert_body("hello");
}
#endif

/*
 * Bodies of requests.
 */

#define MIB ((size_t)1 << 20)

static char *make_body(size_t bytes)
{
    char *body = malloc(bytes + 1);
    h2_fill_body(body, bytes);
    body[bytes] = '\0';
    return body;
}

/* Read the body of fetch, which h2_fill_body has filled. Return its length. */
static ssize_t check_body(void)
{
    const void *piece;
    ssize_t n, sum = 0;
    while ((n = weft_fetch_read_piece(fetch, &piece)) > 0)
        for (ssize_t i = 0; i < n; i++, sum++)
            if (((const char *)piece)[i] != h2_byte_at((size_t)sum))
                return -EILSEQ;
    return n < 0 ? n : sum;
}

TEST(a_large_body_is_sent_while_the_response_arrives)
{
    char *body = make_body(8 * MIB);
    h2_site_open(h2_echo);
    ck_assert_int_eq(
        weft_fetch_post(fetcher, url_of(&site, "/"), "text/plain", body, 8 * MIB, &fetch), 200);
    memset(body, 0, 8 * MIB); /* the client does not use the body any more */
    ck_assert_int_eq(check_body(), (ssize_t)(8 * MIB));
    free(body);
}

static int count_body(h2_exchange *x)
{
    ssize_t n = h2_check_body(x);
    const char *length = strstr(x->fields, "content-length: ");
    h2.requests++;
    return h2_say(x, format("%zd %.*s", n, length != NULL ? (int)strcspn(length, "\n") : 4,
                            length != NULL ? length : "none"));
}

TEST(a_streamed_body_of_known_length_arrives)
{
    char *body = make_body(MIB);
    h2_site_open(count_body);
    const weft_fetch_request r = {.url = url_of(&site, "/"), .method = "PUT"};
    ck_assert_int_eq(weft_fetch_open(fetcher, &r, (int64_t)MIB, &fetch), 0);
    for (size_t done = 0; done < MIB; done += 1000)
        ck_assert_int_gt(
            weft_fetch_write(fetch, body + done, MIB - done < 1000 ? MIB - done : 1000), 0);
    ck_assert_int_eq(weft_fetch_write(fetch, body, 1), -EMSGSIZE);
    ck_assert_int_eq(weft_fetch_wait(fetch), 200);
    assert_body(format("%zu content-length: %zu", MIB, MIB));
    free(body);
}

TEST(a_streamed_body_of_unknown_length_arrives)
{
    char *body = make_body(MIB);
    h2_site_open(count_body);
    const weft_fetch_request r = {.url = url_of(&site, "/"), .method = "PUT"};
    ck_assert_int_eq(weft_fetch_open(fetcher, &r, -1, &fetch), 0);
    ck_assert_int_eq(weft_fetch_write(fetch, body, MIB), (ssize_t)MIB);
    ck_assert_int_eq(weft_fetch_wait(fetch), 200);
    assert_body(format("%zu none", MIB));
    free(body);
}

static weft_cond go_on;

static int wait_then_count(h2_exchange *x)
{
    h2.requests++;
    int rc = weft_cond_wait(&go_on, NULL);
    return rc < 0 ? rc : count_body(x);
}

static bool has_written;

static weft_value write_much(void *arg)
{
    ssize_t n = weft_fetch_write(fetch, arg, 4 * MIB);
    has_written = true;
    return n;
}

TEST(a_write_waits_for_a_slow_server)
{
    char *body = make_body(4 * MIB);
    h2_site_open(wait_then_count);
    const weft_fetch_request r = {.url = url_of(&site, "/"), .method = "PUT"};
    ck_assert_int_eq(weft_fetch_open(fetcher, &r, -1, &fetch), 0);
    weft_fiber f = weft_spin(write_much, body);
    while (h2.requests == 0 || h2.last->session.buffered_bytes < 60000)
        ck_assert_int_eq(weft_snooze(), 0);
    ck_assert(!has_written);
    weft_cond_broadcast(&go_on);
    ck_assert_int_eq(weft_await(f), (weft_value)(4 * MIB));
    ck_assert_int_eq(weft_fetch_wait(fetch), 200);
    free(body);
}

static int refuse_body(h2_exchange *x)
{
    const nghttp2_nv head[] = {h2_nv(":status", "413")};
    return weft__h2_stream_reply(&x->st, head, 1, "too large", 9);
}

TEST(an_early_response_ends_a_streamed_body)
{
    char *body = make_body(4 * MIB);
    ssize_t n = 1;
    h2_site_open(refuse_body);
    const weft_fetch_request r = {.url = url_of(&site, "/"), .method = "PUT"};
    ck_assert_int_eq(weft_fetch_open(fetcher, &r, -1, &fetch), 0);
    while (n > 0)
        n = weft_fetch_write(fetch, body, 4 * MIB);
    ck_assert_int_eq(n, -EPIPE);
    ck_assert_int_eq(weft_fetch_wait(fetch), 413);
    assert_body("too large");
    close_fetch();
    ck_assert_int_eq(
        weft_fetch_post(fetcher, url_of(&site, "/"), "text/plain", body, 4 * MIB, &fetch), 413);
    assert_body("too large");
    ck_assert_uint_eq(h2.conns, 1);
    free(body);
}

static int continue_or_not(h2_exchange *x)
{
    const nghttp2_nv go = h2_nv(":status", "100"), no = h2_nv(":status", "417");
    if (strstr(x->fields, "expect: 100-continue\n") == NULL)
        return h2_say(x, "no expectation");
    if (h2_path_is(x, "/no"))
        return weft__h2_stream_head(&x->st, &no, 1, true);
    ck_assert_uint_eq(x->data_bytes, 0);
    int rc = weft__h2_stream_interim(&x->st, &go, 1);
    return rc < 0 ? rc : count_body(x);
}

TEST(the_body_waits_for_100_continue)
{
    const weft_fetch_field field = {"Expect", "100-continue"};
    h2_site_open(continue_or_not);
    weft_fetch_request r = {.url = url_of(&site, "/"),
                            .method = "POST",
                            .fields = &field,
                            .fields_count = 1,
                            .body = "abc",
                            .body_bytes = 3};
    ck_assert_int_eq(weft_fetch_send(fetcher, &r, &fetch), 200);
    assert_body("3 content-length: 3");
    close_fetch();
    r.url = url_of(&site, "/no");
    ck_assert_int_eq(weft_fetch_send(fetcher, &r, &fetch), 417);
}

/*
 * Errors.
 */

static int misbehave(h2_exchange *x)
{
    static char value[40000];
    nghttp2_nv head[] = {h2_nv(":status", "200"), h2_nv("content-length", "10"), {0}, {0}};
    h2.requests++;
    if (h2_path_is(x, "/reset")) {
        weft__h2_stream_reset(&x->st, NGHTTP2_INTERNAL_ERROR);
        return 0;
    }
    if (h2_path_is(x, "/short"))
        return weft__h2_stream_reply(&x->st, head, 2, "short", 5);
    if (h2_path_is(x, "/large")) {
        memset(value, 'v', sizeof value - 1);
        head[2] = head[3] = h2_nv("x-large", value);
        return weft__h2_stream_head(&x->st, head, 4, false);
    }
    if (h2_path_is(x, "/interim")) {
        const nghttp2_nv early = h2_nv(":status", "103");
        for (int i = 0; i < 40; i++)
            if (weft__h2_stream_interim(&x->st, &early, 1) < 0)
                return -EIO;
    }
    if (h2_path_is(x, "/cut")) {
        (void)weft__h2_stream_head(&x->st, head, 1, false);
        (void)weft__h2_stream_write(&x->st, "part", 4);
        weft__h2_stream_reset(&x->st, NGHTTP2_CANCEL);
        return 0;
    }
    return h2_say(x, "fine");
}

TEST(errors_of_a_stream_do_not_affect_the_connection)
{
    char *text;
    h2_site_open(misbehave);
    ck_assert_int_eq(get("/reset"), -ECONNRESET);
    ck_assert_int_eq(get("/short"), 200);
    ck_assert_int_eq(weft_fetch_read_all(fetch, &text), -EBADMSG);
    ck_assert_int_eq(get("/large"), -EMSGSIZE);
    ck_assert_int_eq(get("/interim"), -EBADMSG);
    ck_assert_int_eq(get("/cut"), 200);
    ck_assert_int_eq(weft_fetch_read_all(fetch, &text), -ECONNRESET);
    ck_assert_uint_eq(h2.requests, 5);
    assert_page("/", "fine");
    ck_assert_uint_eq(h2.conns, 1);
}

/*
 * The n-th call fails, as in test_fault.c, in whole conversations with the web server: each reply
 * is what it should be, or tells of a failure, or the connection ends; nothing is left behind.
 */
#include "fault.h"

#include <sys/socket.h>

#define HOST "Host: a\r\n"

/* What a conversation consists of. */
typedef struct conversation {
    const char *said;
    const char *expected[8]; /* in this order, NULL at the end */
} conversation;

static const weft_http_options options = {
    .gzip_level = 1, .trusted_peers = "unix, 10.0.0.0/8", .server_name = "weft"};
static int pair[2];
static int served;

/* All that is asked for here is there: who does not get it was told, or has no memory. */
static int say_form(weft_http_request *r)
{
    int error = 0;
    const char *a = weft_http_form(r, "a", &error);
    REQUIRE(a != NULL || fault_is_told(error));
    if (a == NULL)
        return error;
    const char *q = weft_http_query_param(r, "q");
    const char *c = weft_http_cookie(r, "c");
    if (q == NULL || c == NULL)
        return -ENOMEM;
    return weft_http_reply_text(r, 200, "form %s %s %s from %s", a, q, c, weft_http_peer(r));
}

static int say_pieces(weft_http_request *r)
{
    int rc = weft_http_set(r, "X-Long", "a header of some length");
    for (int i = 0; i < 3 && rc >= 0; i++) {
        rc = (int)weft_http_printf(r, "piece %d %0*d;", i, 3000 * (i == 1), 0);
        if (rc >= 0)
            rc = weft_http_flush(r);
    }
    return rc < 0 ? rc : weft_http_set_trailer(r, "X-End", "yes");
}

static int say_back(weft_http_request *r)
{
    weft_stream *stream;
    char *line;
    int rc = weft_http_upgrade(r, "echo", &stream);
    if (rc == 0)
        rc = weft_stream_line(stream, &line, NULL);
    return rc <= 0 ? rc : (int)weft_stream_printf(stream, "<%s>", line);
}

/* Nobody looks at what a reply returned; and its head is so long that it needs memory. */
static int say_carelessly(weft_http_request *r)
{
    char text[6000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)weft_http_set(r, "X-Long", text);
    switch (weft_http_query(r)[0]) {
    case 'a': /* of a known length */
        (void)weft_http_begin(r, 200, 8);
        (void)weft_http_write(r, "careless", 8);
        break;
    case 'b': /* of an unknown one */
        (void)weft_http_write(r, "careless", 8);
        break;
    case 'c': /* in chunks */
        (void)weft_http_write(r, "careless", 8);
        (void)weft_http_flush(r);
        (void)weft_http_write(r, text, 5000);
        (void)weft_http_write(r, text, 5000);
        (void)weft_http_write(r, "careless", 8);
        break;
    default:
        (void)weft_http_reply(r, 200, NULL, "careless", 8);
    }
    return 0;
}

static int handle(weft_http_request *r, void *ctx)
{
    (void)ctx;
    char *body;
    const char *path = weft_http_path(r);
    if (strcmp(path, "/form") == 0)
        return say_form(r);
    if (strcmp(path, "/pieces") == 0)
        return say_pieces(r);
    if (strcmp(path, "/careless") == 0)
        return say_carelessly(r);
    if (strcmp(path, "/echo") == 0)
        return say_back(r);
    ssize_t n = weft_http_read_all(r, &body);
    return n < 0 ? (int)n : weft_http_reply(r, 200, "text/plain", body, (size_t)n);
}

static weft_value serve(void *arg)
{
    (void)arg;
    served = weft_http_serve_conn(pair[1], handle, NULL, &options);
    return 0;
}

/* All that is said, in one go, and all that is heard. */
static void converse(const char *said, char *heard, size_t room)
{
    size_t bytes = 0;
    ssize_t n = 0;
    WITHOUT_FAULTS(REQUIRE(weft_socketpair(pair) == 0));
    weft_fiber f = require_made(weft_spin(serve, NULL));
    if (f == 0) {
        weft_close(pair[1]);
    } else if (REQUIRE_FELT(weft_write_all(pair[0], said, strlen(said)))) {
        (void)weft_shutdown(pair[0], SHUT_WR);
        while (bytes + 1 < room && (n = weft_read(pair[0], heard + bytes, room - 1 - bytes)) > 0)
            bytes += (size_t)n;
        REQUIRE(n == 0 || fault_is_felt(n));
    }
    weft_close(pair[0]);
    if (f != 0)
        REQUIRE(weft_await(f) == 0);
    heard[bytes] = '\0';
}

/* Would a client take it for a whole reply? */
static bool is_whole(const char *reply)
{
    const char *body = strstr(reply, "\r\n\r\n");
    const char *length = strstr(reply, "Content-Length: ");
    if (body == NULL)
        return false;
    if (length != NULL && length < body)
        return strlen(body + 4) >= strtoul(length + 16, NULL, 10);
    return strstr(body, "\r\n0\r\n") != NULL;
}

/* Another reply than it should be: one that tells of a failure, or one that breaks off, or none. */
static void require_failure(const char *reply)
{
    int code = 0;
    REQUIRE(atomic_load(&fault.struck) > 0);
    if (sscanf(reply, "HTTP/1.1 %d ", &code) == 1)
        REQUIRE(code == 500 || code == 503 || code == 101 || (code == 200 && !is_whole(reply)));
    else
        REQUIRE(strstr(reply, "HTTP/1.1 ") == NULL);
}

static bool hold(const conversation *c)
{
    static char heard[65536];
    if (!become_a_cord())
        return false;
    converse(c->said, heard, sizeof heard);
    const char *at = heard, *reply = heard;
    bool is_done = true;
    for (size_t i = 0; c->expected[i] != NULL && is_done; i++) {
        const char *found = strstr(at, c->expected[i]);
        bool is_new = strncmp(c->expected[i], "HTTP", 4) == 0;
        is_done = found != NULL;
        reply = !is_new ? reply : is_done ? found : at;
        at = is_done ? found + strlen(c->expected[i]) : at;
    }
    if (!is_done)
        require_failure(reply);
    weft_error_clear();
    return is_done;
}

static bool plain(void)
{
    static const conversation all[] = {
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello",
         {"HTTP/1.1 200", "\r\n\r\nhello"}},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
         "3\r\nabc\r\n0\r\nX: y\r\n\r\n",
         {"HTTP/1.1 200", "\r\n\r\nabc"}},
        {"GET /../ HTTP/1.1\r\n" HOST "\r\n", {"HTTP/1.1 400"}},
        {"GET / HTTP/1.1\r\n\r\n", {"HTTP/1.1 400"}},
    };
    bool is_done = true;
    for (size_t i = 0; i < COUNT_OF(all); i++)
        is_done &= hold(&all[i]);
    return is_done;
}

/* The how manieth reply has this in it; 0: none. */
static size_t reply_with(const char *heard, const char *text)
{
    size_t n = 0;
    const char *found = strstr(heard, text), *at = heard;
    while (found != NULL && (at = strstr(at, "HTTP/1.1 ")) != NULL && at < found) {
        n++;
        at++;
    }
    return n;
}

/* After one that failed, the others are answered, or the connection has ended. */
static bool several(void)
{
    static char heard[65536];
    if (!become_a_cord())
        return false;
    converse("POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello"
             "GET / HTTP/1.1\r\n" HOST "\r\nGET /pieces HTTP/1.1\r\n" HOST "\r\n",
             heard, sizeof heard);
    size_t good = count_in(heard, "HTTP/1.1 200 "), all = count_in(heard, "HTTP/1.1 ");
    REQUIRE(all <= 3 && (good == 3 || atomic_load(&fault.struck) > 0));
    REQUIRE(all == good + count_in(heard, "HTTP/1.1 500 ") + count_in(heard, "HTTP/1.1 503 "));
    size_t first = reply_with(heard, "\r\n\r\nhello"), last = reply_with(heard, "X-Long");
    REQUIRE(first <= 1 && (last == 0 || last == 3)); /* none is without a reply before another */
    weft_error_clear();
    return good == 3 && strstr(heard, "X-End: yes\r\n\r\n") != NULL;
}

static bool parsing(void)
{
    return hold(&(const conversation){
        "POST /form?q=1 HTTP/1.1\r\n" HOST "Cookie: c=2\r\nX-Forwarded-For: 192.0.2.1\r\n"
        "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n\r\na=b",
        {"HTTP/1.1 200", "form b 1 2 from "}});
}

static bool streaming(void)
{
    return hold(&(const conversation){
        "GET /pieces HTTP/1.1\r\n" HOST "\r\n",
        {"HTTP/1.1 200", "piece 0", "piece 1", "piece 2", "\r\n0\r\nX-End: yes\r\n\r\n"}});
}

static bool careless(void)
{
    static const conversation all[] = {
        {"GET /careless HTTP/1.1\r\n" HOST "\r\nGET / HTTP/1.1\r\n" HOST "\r\n",
         {"HTTP/1.1 200", "\r\n\r\ncareless", "HTTP/1.1 200"}},
        {"GET /careless?a HTTP/1.1\r\n" HOST "\r\nGET / HTTP/1.1\r\n" HOST "\r\n",
         {"HTTP/1.1 200", "\r\n\r\ncareless", "HTTP/1.1 200"}},
        {"GET /careless?b HTTP/1.1\r\n" HOST "\r\nGET / HTTP/1.1\r\n" HOST "\r\n",
         {"HTTP/1.1 200", "\r\n\r\ncareless", "HTTP/1.1 200"}},
        {"GET /careless?c HTTP/1.1\r\n" HOST "\r\nGET / HTTP/1.1\r\n" HOST "\r\n",
         {"HTTP/1.1 200", "\r\ncareless", "careless\r\n0\r\n\r\n", "HTTP/1.1 200"}},
    };
    bool is_done = true;
    for (size_t i = 0; i < COUNT_OF(all); i++)
        is_done &= hold(&all[i]);
    return is_done;
}

static bool compressing(void)
{
    static char text[4096];
    int n =
        snprintf(text, sizeof text,
                 "POST / HTTP/1.1\r\n" HOST "Accept-Encoding: gzip\r\nContent-Length: 3000\r\n\r\n"
                 "%03000d",
                 0);
    REQUIRE(n > 3000);
    return hold(&(const conversation){text, {"HTTP/1.1 200", "Content-Encoding: gzip\r\n"}});
}

static bool upgrading(void)
{
    return hold(&(const conversation){"GET /echo HTTP/1.1\r\n" HOST
                                      "Connection: upgrade\r\nUpgrade: echo\r\n\r\nhello\n",
                                      {"HTTP/1.1 101", "<hello>"}});
}

START_TEST(requests_are_answered_or_fail)
{
    strike_some_calls(plain, 1);
}
END_TEST

START_TEST(requests_behind_each_other_are_answered_or_fail)
{
    strike_some_calls(several, 1);
}
END_TEST

START_TEST(what_a_request_says_is_told_or_it_fails)
{
    strike_some_calls(parsing, 1);
}
END_TEST

START_TEST(a_reply_in_pieces_is_whole_or_cut)
{
    strike_some_calls(streaming, 1);
}
END_TEST

START_TEST(a_reply_of_the_careless_is_whole_or_cut)
{
    strike_some_calls(careless, 1);
}
END_TEST

START_TEST(a_reply_is_compressed_or_fails)
{
    strike_some_calls(compressing, 1);
}
END_TEST

START_TEST(a_connection_is_handed_over_or_ends)
{
    strike_some_calls(upgrading, 1);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &requests_are_answered_or_fail,           &requests_behind_each_other_are_answered_or_fail,
        &what_a_request_says_is_told_or_it_fails, &a_reply_in_pieces_is_whole_or_cut,
        &a_reply_is_compressed_or_fails,          &a_reply_of_the_careless_is_whole_or_cut,
        &a_connection_is_handed_over_or_ends,
    };
    return run_suite("fault_http", tests, COUNT_OF(tests));
}

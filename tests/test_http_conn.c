/*
 * The life of a connection: requests behind each other, bodies that nobody reads, clients that half
 * close, leave or send on while they should listen, and the end by cancellation at every stage.
 */
#include "http_support.h"

#include <malloc.h>

#define HOST "Host: a\r\n"
#define GET "GET / HTTP/1.1\r\n" HOST "\r\n"
#define NEXT "GET /next HTTP/1.1\r\n" HOST "\r\n"

static talk t;

/* What has been asked for is said; /large is a long reply, /read/... has its body read. */
#define LARGE ((size_t)1 << 20)
static char large[LARGE];

static int read_body(weft_http_request *r)
{
    char piece[100];
    ssize_t n;
    size_t total = 0;
    while ((n = weft_http_read(r, piece, sizeof piece)) > 0)
        total += (size_t)n;
    mark(n < 0 ? "broken " : "read ");
    return n < 0 ? (int)n : weft_http_reply_text(r, 200, "read %zu", total);
}

static int serve(weft_http_request *r, void *ctx)
{
    (void)ctx;
    const char *path = weft_http_path(r);
    if (strncmp(path, "/read", 5) == 0)
        return read_body(r);
    memset(large, 'x', sizeof large);
    if (strcmp(path, "/large") == 0)
        return weft_http_reply(r, 200, NULL, large, LARGE);
    if (strcmp(path, "/stuck") == 0)
        return weft_sleep(INFINITY);
    return weft_http_reply_text(r, 200, "[%s]", path);
}

START_TEST(a_client_that_half_closes_gets_its_reply)
{
    talk_once(&t, serve, NULL, NULL, GET NEXT);
    ck_assert_ptr_nonnull(strstr(t.heard, "[/]"));
    ck_assert_ptr_nonnull(strstr(t.heard, "[/next]"));
}
END_TEST

START_TEST(a_request_that_ends_in_its_head_is_none)
{
    static const char whole[] = GET;
    for (size_t bytes = 0; bytes < sizeof whole - 1; bytes++) {
        talk_open(&t, serve, NULL, NULL);
        talk_send_bytes(&t, whole, bytes);
        weft_shutdown(t.fd, SHUT_WR);
        ck_assert_str_eq(talk_hear_all(&t), "");
        ck_assert_int_eq(talk_close(&t), bytes == 0 ? 0 : -ECONNRESET);
    }
    assert_nothing_pending();
}
END_TEST

START_TEST(a_request_that_ends_in_its_body_is_not_taken_for_a_whole_one)
{
    static const char *const cut[] = {
        "POST /read HTTP/1.1\r\n" HOST "Content-Length: 6\r\n\r\nhello",
        "POST /read HTTP/1.1\r\n" HOST "Content-Length: 6\r\n\r\n",
        "POST /read HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n",
        "POST /read HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello",
        "POST /read HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "POST /read HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        "POST /read HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r",
    };
    for (size_t i = 0; i < COUNT_OF(cut); i++) {
        trail[0] = '\0';
        ck_assert_str_eq(talk_once(&t, serve, NULL, NULL, cut[i]), "");
        ck_assert_trail("broken ");
    }
    assert_nothing_pending();
}
END_TEST

/* A client that sends in a fiber of its own, until the server takes no more. */
typedef struct sender {
    int fd;
    const char *text;
    size_t bytes, times;
} sender;

static weft_value send_on(void *arg)
{
    const sender *s = arg;
    for (size_t i = 0; i < s->times; i++) {
        for (size_t sent = 0; sent < s->bytes;) {
            ssize_t n = weft_send(s->fd, s->text + sent, s->bytes - sent, MSG_NOSIGNAL);
            if (n < 0)
                return 0;
            sent += (size_t)n;
        }
    }
    return 0;
}

#define MANY 1000

START_TEST(a_thousand_requests_in_a_row_are_answered_in_order)
{
    static char requests[MANY * 64], expected[32];
    size_t bytes = 0;
    for (int i = 0; i < MANY; i++)
        bytes += (size_t)sprintf(requests + bytes, "GET /%d HTTP/1.1\r\n" HOST "\r\n", i);
    talk_open(&t, serve, NULL, NULL);
    sender s = {t.fd, requests, bytes, 1};
    weft_fiber f = weft_spin(send_on, &s);
    for (int i = 0; i < MANY; i++) {
        sprintf(expected, "\r\n\r\n[/%d]", i);
        talk_hear(&t, expected);
        char *end = strstr(t.heard, expected) + strlen(expected);
        t.heard_bytes -= (size_t)(end - t.heard);
        memmove(t.heard, end, t.heard_bytes + 1);
        ck_assert(i + 1 == MANY || t.heard_bytes < 9 || strncmp(t.heard, "HTTP/1.1 ", 9) == 0);
    }
    ck_assert_uint_eq(t.heard_bytes, 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(talk_close(&t), 0);
}
END_TEST

/* All that comes until the server hangs up; its number of bytes, and the last of them in heard. */
static size_t drain(void)
{
    size_t total = t.heard_bytes;
    ssize_t n;
    t.heard_bytes = 0;
    while ((n = talk_hear_some(&t)) > 0) {
        total += (size_t)n;
        if (t.heard_bytes > sizeof t.heard / 2) {
            size_t kept = 1024;
            memmove(t.heard, t.heard + t.heard_bytes - kept, kept + 1);
            t.heard_bytes = kept;
        }
    }
    return total;
}

START_TEST(a_client_may_send_on_while_a_large_reply_waits_for_it)
{
    talk_open(&t, serve, NULL, NULL);
    talk_send(&t, "GET /large HTTP/1.1\r\n" HOST "\r\n");
    sender s = {t.fd, NEXT, sizeof NEXT - 1, 100};
    weft_fiber f = weft_spin(send_on, &s);
    let_run();
    talk_hear(&t, "HTTP/1.1 200 OK");
    ck_assert_int_eq(weft_await(f), 0);
    talk_send(&t, "GET /last HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    ck_assert_uint_gt(drain(), LARGE);
    ck_assert_ptr_nonnull(strstr(t.heard, "[/last]"));
    ck_assert_int_eq(talk_close(&t), 0);
}
END_TEST

START_TEST(a_small_body_that_nobody_reads_is_skipped)
{
    talk_open(&t, serve, NULL, NULL);
    talk_send(&t, "POST /a HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello"
                  "POST /b HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                  "5\r\nhello\r\n0\r\nX: y\r\n\r\n" NEXT "POST /c HTTP/1.1\r\n" HOST
                  "Content-Length: 5\r\n\r\nhe");
    talk_hear(&t, "[/c]"); /* before its body is there */
    talk_send(&t, "llo" NEXT);
    while (count_in(t.heard, "[/next]") < 2)
        ck_assert_int_gt(talk_hear_some(&t), 0);
    ck_assert_ptr_null(strstr(t.heard, "Connection: close"));
    ck_assert_int_eq(talk_close(&t), 0);
}
END_TEST

/* So large that it is not worth it: the reply arrives although there is more to be sent. */
static void leave_unread(const char *head, size_t body_bytes)
{
    talk_open(&t, serve, NULL, NULL);
    talk_send(&t, head);
    sender s = {t.fd, large, 4096, body_bytes / 4096};
    weft_fiber f = weft_spin(send_on, &s);
    talk_hear_all(&t);
    ck_assert_int_eq(status_of(t.heard), 200);
    ck_assert_str_eq(body_of(t.heard), "[/]");
    (void)weft_stop(f, 0); /* if it still sends */
    talk_close(&t);
    assert_nothing_pending();
}

START_TEST(a_large_body_that_nobody_reads_ends_the_connection_after_the_reply)
{
    leave_unread("POST / HTTP/1.1\r\n" HOST "Content-Length: 500000\r\n\r\n", 499712);
    leave_unread("POST / HTTP/1.1\r\n" HOST "Content-Length: 900000000000\r\n\r\n", LARGE * 4);
    leave_unread("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nfffffff\r\n", LARGE);
}
END_TEST

/* What is behind the last request is not answered, and does not keep its reply from arriving. */
/* Bytes that malloc has given out. */
static size_t allocated(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static int read_whole(weft_http_request *r, void *ctx)
{
    size_t before = allocated(), *taken = ctx;
    char *body;
    ssize_t n = weft_http_read_all(r, &body);
    ck_assert_int_eq(body[n], '\0');
    *taken = allocated() - before;
    return weft_http_reply_text(r, 200, "%zd %c%c", n, body[0], body[n - 1]);
}

#define WHOLE_BYTES ((size_t)1 << 20)

START_TEST(a_body_that_is_read_as_a_whole_takes_its_length_in_memory)
{
    static char body[WHOLE_BYTES];
    size_t taken;
    char head[128];
    memset(body, 'b', sizeof body);
    body[0] = 'a';
    body[sizeof body - 1] = 'c';
    talk_open(&t, read_whole, &taken, NULL);
    snprintf(head, sizeof head, "POST / HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n",
             WHOLE_BYTES);
    talk_send(&t, head);
    talk_send_bytes(&t, body, sizeof body);
    talk_hear(&t, "1048576 ac");
    ck_assert_uint_lt(taken, WHOLE_BYTES + (128 << 10)); /* with what it is read through */
    ck_assert_int_eq(talk_close(&t), 0);
}
END_TEST

START_TEST(a_body_in_chunks_that_is_read_as_a_whole_leaves_nothing_behind)
{
    static char chunk[4096];
    size_t taken;
    memset(chunk, 'a', sizeof chunk);
    talk_open(&t, read_whole, &taken, NULL);
    talk_send(&t, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
    for (size_t i = 0; i < WHOLE_BYTES / sizeof chunk - 1; i++) {
        talk_send(&t, "1000\r\n");
        talk_send_bytes(&t, chunk, sizeof chunk);
        talk_send(&t, "\r\n");
    }
    talk_send(&t, "0\r\n\r\n");
    talk_hear(&t, "1044480 aa");
    ck_assert_uint_lt(taken, WHOLE_BYTES + (128 << 10));
    ck_assert_int_eq(talk_close(&t), 0);
}
END_TEST

START_TEST(what_comes_behind_the_last_request_is_heard_out)
{
    talk_open(&t, serve, NULL, NULL);
    talk_send(&t, "GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    sender s = {t.fd, NEXT, sizeof NEXT - 1, 2000};
    weft_fiber f = weft_spin(send_on, &s);
    talk_hear_all(&t);
    ck_assert_str_eq(body_of(t.heard), "[/]");
    (void)weft_stop(f, 0); /* if it still sends */
    talk_close(&t);
}
END_TEST

START_TEST(who_asks_before_sending_is_invited_only_if_the_body_is_read)
{
    static const char ask[] = "POST %s HTTP/1.1\r\n" HOST "Content-Length: 5\r\n"
                              "Expect: 100-continue\r\n\r\n%s";
    char text[256];
    snprintf(text, sizeof text, ask, "/", "");
    talk_open(&t, serve, NULL, NULL); /* the body does not come, the reply does */
    talk_send(&t, text);
    talk_hear_all(&t);
    ck_assert_int_eq(status_of(t.heard), 200);
    ck_assert_ptr_nonnull(strstr(t.heard, "Connection: close"));
    talk_close(&t);

    snprintf(text, sizeof text, ask, "/", "hello" NEXT);
    talk_open(&t, serve, NULL, NULL); /* the body comes unasked: it is not taken for a request */
    talk_send(&t, text);
    talk_hear_all(&t);
    ck_assert_uint_eq(count_in(t.heard, "HTTP/1.1"), 1);
    talk_close(&t);

    snprintf(text, sizeof text, ask, "/read", "hello" NEXT);
    talk_open(&t, serve, NULL, NULL); /* it comes unasked, and is read */
    talk_send(&t, text);
    talk_hear(&t, "[/next]");
    ck_assert_ptr_nonnull(strstr(t.heard, "read 5"));
    ck_assert_int_eq(talk_close(&t), 0);
}
END_TEST

START_TEST(in_http_1_0_a_connection_is_kept_only_if_asked_for)
{
    talk_open(&t, serve, NULL, NULL);
    talk_send(&t, "GET / HTTP/1.0\r\n\r\n" NEXT);
    talk_hear_all(&t);
    ck_assert_uint_eq(count_in(t.heard, "HTTP/1.1"), 1);
    talk_close(&t);
    talk_open(&t, serve, NULL, NULL);
    talk_send(&t, "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n" NEXT);
    talk_hear(&t, "[/next]");
    ck_assert_uint_eq(count_in(t.heard, "Connection: keep-alive"), 1);
    ck_assert_int_eq(talk_close(&t), 0);
}
END_TEST

/* Stages at which a connection can be, each by what the client has said. */
static const char *const stages[] = {
    "",
    "GET / HT",
    GET,
    "GET /stuck HTTP/1.1\r\n" HOST "\r\n",
    "POST /read HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\nhello",
    "POST /read HTTP/1.1\r\n" HOST "Content-Length: 9\r\nExpect: 100-continue\r\n\r\n",
    "POST /read HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
    "POST / HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\nhello",
    "GET /large HTTP/1.1\r\n" HOST "\r\n",
    "GET /large HTTP/1.1\r\n" HOST "\r\n" GET GET,
    "BAD\r\n\r\n",
};

START_TEST(cancelled_at_any_stage_it_leaves_nothing_behind)
{
    warm_up();
    for (size_t i = 0; i < COUNT_OF(stages); i++) {
        size_t open = count_descriptors();
        talk_open(&t, serve, NULL, NULL);
        talk_send(&t, stages[i]);
        let_run();
        ck_assert_int_eq(weft_state_of(t.server), WEFT_WAITING);
        ck_assert_int_eq(weft_cancel(t.server), 0);
        (void)weft_await(t.server);
        drain();
        weft_close(t.fd);
        assert_nothing_pending();
        ck_assert_uint_eq(count_descriptors(), open);
    }
}
END_TEST

START_TEST(a_client_that_leaves_at_any_stage_leaves_nothing_behind)
{
    warm_up();
    for (size_t i = 0; i < COUNT_OF(stages); i++) {
        if (strstr(stages[i], "/stuck") != NULL)
            continue; /* nobody looks */
        size_t open = count_descriptors();
        talk_open(&t, serve, NULL, NULL);
        talk_send(&t, stages[i]);
        let_run();
        weft_close(t.fd);
        (void)weft_await(t.server);
        assert_nothing_pending();
        ck_assert_uint_eq(count_descriptors(), open);
    }
}
END_TEST

/* What the log is told. */
static char logged[1024];

static void note(const weft_http_record *record, void *ctx)
{
    (void)ctx;
    size_t used = strlen(logged);
    snprintf(logged + used, sizeof logged - used, "%s %s %s %s %d %d %d%s%s;", record->peer,
             record->method, record->target, record->user_agent, record->version, record->status,
             (int)record->bytes, record->reason[0] != '\0' ? " " : "", record->reason);
}

START_TEST(each_request_is_told_to_the_log)
{
    const weft_http_options o = {.log = note};
    talk_once(&t, serve, NULL, &o,
              "GET /a?b HTTP/1.1\r\n" HOST "User-Agent: me\r\n\r\n"
              "HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /.. HTTP/1.1\r\n" HOST "\r\n");
    ck_assert_str_eq(logged, "unix GET /a?b me 11 200 4;unix HEAD /  10 200 0;unix GET /..  11 400 "
                             "16 a path with a forbidden character, or above the root;");
}
END_TEST

START_TEST(the_log_is_told_what_was_refused_and_why)
{
    static const struct {
        const char *text, *line;
    } refused[] = {
        {"GET /a?b HTTP/1.1\r\n\r\n", "unix GET /a?b  11 400 16 no Host;"},
        {"GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "unix GET /a  11 400 16 several Hosts;"},
        {"GET /a HTTP/1.1\r\n" HOST "a b: c\r\n\r\n", "unix GET /a  11 400 16 a malformed header;"},
        {"POST /a HTTP/1.1\r\n" HOST "Content-Length: x\r\n\r\n",
         "unix POST /a  11 400 16 a malformed header;"},
        {"POST /a HTTP/1.0\r\n\r\n", "unix POST /a  10 411 20 a body without Content-Length;"},
        {"GET /< HTTP/1.1\r\n" HOST "\r\n", "unix GET /<  0 400 16 a malformed request line;"},
        {"GET /a HTTP/3.0\r\n", "unix GET /a  0 505 31 a version of HTTP other than 1;"},
        {"PRI /a HTTP/1.1\r\n\r\n", "unix PRI /a  0 501 20 a method of HTTP/2;"},
        {"\r\nG(T /a HTTP/1.1\r\n", "unix G(T /a  0 400 16 a malformed request line;"},
        {"GE\001", "unix GE\001   0 400 16 a control character in the request line;"},
        {"\026\003\001", "unix \026\003\001   0 400 16 a control character in the request line;"},
        {"CONNECT a:1 HTTP/1.1\r\n" HOST "\r\n", "unix CONNECT a:1  11 501 20 CONNECT;"},
    };
    const weft_http_options o = {.log = note};
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        logged[0] = '\0';
        talk_once(&t, serve, NULL, &o, refused[i].text);
        ck_assert_str_eq(logged, refused[i].line);
    }
}
END_TEST

START_TEST(the_log_is_told_of_a_target_that_is_too_long_and_of_headers_that_are_late)
{
    const weft_http_options o = {.log = note, .limits = {.line_bytes_max = 12, .head_s = 0.02}};
    logged[0] = '\0';
    talk_once(&t, serve, NULL, &o, "GET /0123456789012345678901234567890123456789");
    ck_assert_ptr_nonnull(strstr(logged, "unix GET /012345678"));
    ck_assert_ptr_nonnull(strstr(logged, "  0 414 17 a request line that is too long;"));
    logged[0] = '\0';
    talk_open(&t, serve, NULL, &o);
    talk_send(&t, "GET /a");
    talk_hear_all(&t);
    talk_close(&t);
    ck_assert_str_eq(logged, "unix GET /a  0 408 20 headers that came too slowly;");
}
END_TEST

static int say_method(weft_http_request *r, void *ctx)
{
    (void)ctx;
    const char *method = weft_http_method(r);
    return strcmp(method, "FOO") == 0 ? weft_http_reply_text(r, 200, "[%s]", method)
                                      : weft_http_reply_status(r, 501);
}

START_TEST(a_method_that_nobody_knows_reaches_the_handler)
{
    talk_once(&t, say_method, NULL, NULL,
              "FOO / HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc"
              "foo / HTTP/1.1\r\n" HOST "\r\n"
              "PURGE / HTTP/1.1\r\n" HOST "\r\n"
              "FOO / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    ck_assert_uint_eq(count_in(t.heard, "\r\n\r\n[FOO]"), 2);
    ck_assert_uint_eq(count_in(t.heard, "HTTP/1.1 501 "), 2);
    ck_assert_uint_eq(count_in(t.heard, "Connection: close"), 1);
}
END_TEST

static const TTest *const *const tests[] = {
    &a_client_that_half_closes_gets_its_reply,
    &a_request_that_ends_in_its_head_is_none,
    &a_request_that_ends_in_its_body_is_not_taken_for_a_whole_one,
    &a_thousand_requests_in_a_row_are_answered_in_order,
    &a_client_may_send_on_while_a_large_reply_waits_for_it,
    &a_small_body_that_nobody_reads_is_skipped,
    &a_large_body_that_nobody_reads_ends_the_connection_after_the_reply,
    &a_body_that_is_read_as_a_whole_takes_its_length_in_memory,
    &a_body_in_chunks_that_is_read_as_a_whole_leaves_nothing_behind,
    &what_comes_behind_the_last_request_is_heard_out,
    &who_asks_before_sending_is_invited_only_if_the_body_is_read,
    &in_http_1_0_a_connection_is_kept_only_if_asked_for,
    &cancelled_at_any_stage_it_leaves_nothing_behind,
    &a_client_that_leaves_at_any_stage_leaves_nothing_behind,
    &each_request_is_told_to_the_log,
    &the_log_is_told_what_was_refused_and_why,
    &the_log_is_told_of_a_target_that_is_too_long_and_of_headers_that_are_late,
    &a_method_that_nobody_knows_reaches_the_handler,
};

int main(void)
{
    return run_suite("http_conn", tests, COUNT_OF(tests));
}

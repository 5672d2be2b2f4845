/*
 * A whole server over TCP: whom it lets in, how it ends, and clients that leave with a bang. What
 * is said on one connection is in the other tests of the server.
 */
#include "http_support.h"

#include <netinet/tcp.h>

#define HOST "Host: a\r\n"
#define GET "GET / HTTP/1.1\r\n" HOST "\r\n"
#define WAIT "GET /wait HTTP/1.1\r\n" HOST "\r\n"

static site s;
static talk a, b, c;
static weft_event go_on;
static bool was_late; /* a reply was not taken in time */

#define LARGE ((size_t)8 << 20)
static char large[LARGE];

static int send_self(weft_http_request *r)
{
    int fd = weft_open("/proc/self/exe", O_RDONLY, 0);
    ck_assert_int_ge(fd, 0);
    int64_t bytes = lseek(fd, 0, SEEK_END);
    int64_t rc = weft_http_begin(r, 200, bytes);
    if (rc == 0)
        rc = weft_http_send_file(r, fd, 0, (uint64_t)bytes);
    weft_close(fd);
    return rc < 0 ? (int)rc : 0;
}

static int serve(weft_http_request *r, void *ctx)
{
    (void)ctx;
    const char *path = weft_http_path(r);
    char *body;
    if (strcmp(path, "/wait") == 0) {
        mark("w");
        int rc = weft_event_wait(&go_on);
        mark(rc == 0 ? "g" : rc == -ECANCELED ? "c" : "?");
        return rc < 0 ? rc : weft_http_reply_text(r, 200, "waited");
    }
    if (strcmp(path, "/large") == 0) {
        int rc = weft_http_reply(r, 200, NULL, large, LARGE);
        was_late |= rc == -ETIMEDOUT;
        return rc;
    }
    if (strcmp(path, "/file") == 0)
        return send_self(r);
    ssize_t n = strcmp(path, "/read") == 0 ? weft_http_read_all(r, &body) : 0;
    if (n < 0)
        return (int)n;
    mark("r");
    return weft_http_reply_text(r, 200, "[%s]", path);
}

static void ask(talk *t, const char *request, const char *expected)
{
    t->heard_bytes = 0;
    t->heard[0] = '\0';
    talk_send(t, request);
    talk_hear(t, expected);
}

/* Closed by the server, with nothing more said. */
static void expect_end(talk *t)
{
    size_t before = t->heard_bytes;
    ck_assert_int_eq(talk_hear_some(t), 0);
    ck_assert_uint_eq(t->heard_bytes, before);
    weft_close(t->fd);
}

/* A connection that ends counts no more, as soon as the server has seen it. */
static void ask_until_let_in(void)
{
    for (;;) {
        site_call(&s, &c);
        (void)weft_send(c.fd, GET, sizeof GET - 1, MSG_NOSIGNAL);
        while (strstr(c.heard, "\r\n\r\n") == NULL && talk_hear_some(&c) > 0)
            ;
        if (strncmp(c.heard, "HTTP/1.1 200", 12) == 0)
            return;
        weft_close(c.fd);
    }
}

START_TEST(no_more_connections_are_let_in_than_there_may_be)
{
    const weft_http_options o = {.limits = {.connections_max = 2}};
    site_open(&s, serve, NULL, &o);
    site_call(&s, &a);
    ask(&a, GET, "[/]");
    site_call(&s, &b);
    ask(&b, GET, "[/]");
    site_call(&s, &c);
    talk_hear_all(&c);
    ck_assert_int_eq(status_of(c.heard), 503);
    ck_assert_ptr_nonnull(strstr(c.heard, "Connection: close"));
    weft_close(c.fd);
    ask(&b, GET, "[/]");
    weft_close(a.fd);
    ask_until_let_in();
    weft_close(b.fd);
    weft_close(c.fd);
    ck_assert_int_eq(site_close(&s), -ECANCELED);
    assert_nothing_pending();
}
END_TEST

START_TEST(no_peer_may_have_all_connections)
{
    const weft_http_options o = {.limits = {.connections_per_peer_max = 2}};
    site_open(&s, serve, NULL, &o);
    site_call(&s, &a);
    ask(&a, GET, "[/]");
    site_call(&s, &b);
    ask(&b, GET, "[/]");
    site_call(&s, &c);
    talk_hear_all(&c);
    ck_assert_int_eq(status_of(c.heard), 429);
    ck_assert_ptr_nonnull(strstr(c.heard, "\r\nDate: "));
    weft_close(c.fd);

    place other = tcp_place(); /* another address of this machine is another peer */
    other.u.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    c = (talk){.fd = socket_for(&s.at)};
    ck_assert_int_eq(bind(c.fd, &other.u.any, other.bytes), 0);
    ck_assert_int_eq(weft_connect(c.fd, &s.at.u.any, s.at.bytes), 0);
    ask(&c, GET, "[/]");
    weft_close(c.fd);
    weft_close(a.fd);
    ask_until_let_in();
    weft_close(b.fd);
    weft_close(c.fd);
    ck_assert_int_eq(site_close(&s), -ECANCELED);
}
END_TEST

START_TEST(a_server_that_ends_closes_the_idle_and_lets_the_others_finish)
{
    const weft_http_options o = {.drain_s = INFINITY};
    site_open(&s, serve, NULL, &o);
    site_call(&s, &a); /* idle after a request */
    ask(&a, GET, "[/]");
    site_call(&s, &b); /* has said nothing yet */
    site_call(&s, &c); /* waits in a handler, and has asked for more */
    talk_send(&c, WAIT GET GET);
    let_run();
    ck_assert_trail("rw");
    ck_assert_int_eq(weft_cancel(s.server), 0);
    expect_end(&a);
    expect_end(&b);
    ck_assert_int_ne(weft_state_of(s.server), WEFT_DEAD);
    ck_assert_int_eq(weft_event_set(&go_on), 0);
    talk_hear_all(&c);
    ck_assert_str_eq(body_of(c.heard), "waited");
    ck_assert_ptr_nonnull(strstr(c.heard, "\r\nConnection: close\r\n"));
    ck_assert_trail("rwg"); /* what came behind was not taken up */
    weft_close(c.fd);
    (void)weft_await(s.server);
    ck_assert_int_eq(s.served, -ECANCELED);
    close(s.listener);
    assert_nothing_pending();
}
END_TEST

#ifdef WEFT_HAS_TLS
static weft_tls *tls_server(void)
{
    char *cert, *key;
    ck_assert_int_eq(weft_tls_self_signed("localhost", 2, &cert, &key), 0);
    weft_tls *tls =
        weft_tls_server_new(&(weft_tls_options){.identity = {.cert_pem = cert, .key_pem = key}});
    ck_assert_ptr_nonnull(tls);
    free(cert);
    free(key);
    return tls;
}

START_TEST(a_server_that_ends_does_not_wait_for_hands_to_be_shaken)
{
    weft_tls *tls = tls_server();
    const weft_http_options o = {.drain_s = INFINITY, .limits = {.head_s = INFINITY}, .tls = tls};
    site_open(&s, serve, NULL, &o);
    site_call(&s, &a);
    site_call(&s, &b);
    talk_send(&b, "\x16");
    let_run();
    ck_assert_int_eq(site_close(&s), -ECANCELED);
    expect_end(&a);
    expect_end(&b);
    weft_tls_free(tls);
    assert_nothing_pending();
}
END_TEST

static char noted[256];

static void note(const weft_http_record *record, void *ctx)
{
    (void)ctx;
    snprintf(noted, sizeof noted, "%s %s %d %s", record->method, record->target, record->status,
             record->reason);
}

START_TEST(plain_http_on_a_port_for_tls_is_told_so)
{
    static const char *const requests[] = {
        "GET /a HTTP/1.1\r\n" HOST "\r\n",
        "PURGE /a HTTP/1.0\r\n\r\n",
        "foo /a HTTP/1.1\r\n",
    };
    weft_tls *tls = tls_server();
    const weft_http_options o = {.tls = tls, .log = note};
    site_open(&s, serve, NULL, &o);
    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        char method[8];
        site_call(&s, &a);
        talk_send(&a, requests[i]);
        ck_assert_int_eq(status_of(talk_hear_all(&a)), 400);
        ck_assert_ptr_nonnull(strstr(a.heard, "\r\nContent-Type: text/plain; charset=utf-8\r\n"));
        ck_assert_ptr_nonnull(strstr(a.heard, "\r\nConnection: close\r\n"));
        ck_assert_ptr_nonnull(strstr(body_of(a.heard), "https://"));
        weft_close(a.fd);
        ck_assert_int_eq(sscanf(requests[i], "%7s", method), 1);
        ck_assert_int_eq(strncmp(noted, method, strlen(method)), 0);
        ck_assert_str_eq(noted + strlen(method), " /a 400 plain HTTP on a port for TLS");
    }
    ck_assert_trail(""); /* no handler was asked */
    ck_assert_int_eq(site_close(&s), -ECANCELED);
    weft_tls_free(tls);
    assert_nothing_pending();
}
END_TEST
#endif

START_TEST(who_does_not_finish_in_time_is_cancelled)
{
    const weft_http_options o = {.drain_s = 0.02};
    site_open(&s, serve, NULL, &o);
    site_call(&s, &a);
    talk_send(&a, WAIT);
    site_call(&s, &b);
    talk_send(&b, "GET / HT");
    site_call(&s, &c);
    talk_send(&c, "GET /large HTTP/1.1\r\n" HOST "\r\n");
    let_run();
    ck_assert_int_eq(site_close(&s), -ECANCELED);
    ck_assert_uint_eq(count_in(trail, "c"), 1);
    weft_close(a.fd);
    weft_close(b.fd);
    weft_close(c.fd);
    assert_nothing_pending();
}
END_TEST

static weft_value serve_at_path(void *arg)
{
    const weft_http_options o = {.drain_s = INFINITY};
    s.served = weft_http_serve(arg, serve, NULL, &o);
    return 0;
}

START_TEST(a_listener_of_its_own_is_closed_before_the_last_request_is_done)
{
    char folder[] = "/tmp/weft-http-XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/socket", folder);
    weft_fiber server = weft_spin(serve_at_path, path);
    let_run();
    a.fd = weft_dial("unix", path);
    ck_assert_int_ge(a.fd, 0);
    talk_send(&a, WAIT);
    let_run();
    ck_assert_trail("w");
    ck_assert_int_eq(weft_cancel(server), 0);
    let_run();
    ck_assert_int_lt(weft_dial("unix", path), 0);
    ck_assert_int_eq(weft_event_set(&go_on), 0);
    talk_hear(&a, "waited");
    expect_end(&a);
    (void)weft_await(server);
    ck_assert_int_eq(s.served, -ECANCELED);
    unlink(path);
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

START_TEST(an_address_that_cannot_be_had_is_an_error_with_words)
{
    ck_assert_int_lt(weft_http_serve("/nowhere/at/all", serve, NULL, NULL), 0);
    ck_assert_ptr_nonnull(weft_error());
    ck_assert_int_eq(weft_http_serve("127.0.0.1:0", NULL, NULL, NULL), -EINVAL);
    ck_assert_any_words(-EINVAL);
}
END_TEST

static int tcp_option(int fd, int name)
{
    int value = -1;
    socklen_t bytes = sizeof value;
    ck_assert_int_eq(getsockopt(fd, IPPROTO_TCP, name, &value, &bytes), 0);
    return value;
}

START_TEST(options_that_are_refused_leave_the_listener_as_it_was)
{
    static const weft_http_options bad[] = {
        {.limits = {.slow_s = -1}},
        {.limits = {.body_bytes_per_s_min = NAN}},
        {.drain_s = -1},
        {.trusted_peers = "nowhere"},
    };
    place at;
    int listener = listen_tcp(&at, 8);
    int unsent = tcp_option(listener, TCP_NOTSENT_LOWAT);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        ck_assert_int_eq(weft_http_serve_fd(listener, serve, NULL, &bad[i]), -EINVAL);
        ck_assert_int_eq(tcp_option(listener, TCP_NODELAY), 0);
        ck_assert_int_eq(tcp_option(listener, TCP_USER_TIMEOUT), 0);
        ck_assert_int_eq(tcp_option(listener, TCP_NOTSENT_LOWAT), unsent);
    }
    close(listener);
}
END_TEST

/* Call it from another address of this machine: another peer. */
static void call_as_other(talk *t)
{
    place other = tcp_place();
    other.u.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    *t = (talk){.fd = socket_for(&s.at)};
    ck_assert_int_eq(bind(t->fd, &other.u.any, other.bytes), 0);
    ck_assert_int_eq(weft_connect(t->fd, &s.at.u.any, s.at.bytes), 0);
}

/* "/pieces": as it comes, else as a whole. */
static int take_some_way(weft_http_request *r, void *ctx)
{
    const void *piece;
    ssize_t n, bytes = 0;
    (void)ctx;
    if (strcmp(weft_http_path(r), "/pieces") != 0) {
        char *body;
        n = weft_http_read_all(r, &body);
        return n < 0 ? (int)n : weft_http_reply_text(r, 200, "%zd bytes", n);
    }
    while ((n = weft_http_read_piece(r, &piece)) > 0)
        bytes += n;
    return n < 0 ? (int)n : weft_http_reply_text(r, 200, "%zd bytes", bytes);
}

static void post(talk *to, const char *path, size_t announced, size_t bytes)
{
    char head[128];
    site_call(&s, to);
    snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", path,
             announced);
    talk_send(to, head);
    talk_send_bytes(to, large, bytes);
}

START_TEST(what_all_bodies_take_is_bounded_and_who_is_beyond_may_come_again)
{
    const weft_http_options o = {.limits = {.bodies_bytes_max = 256 << 10}};
    site_open(&s, take_some_way, NULL, &o);
    post(&a, "/", 220000, 210000);
    do { /* until the first one's body has come */
        post(&b, "/", 50000, 50000);
        talk_hear(&b, "\r\n\r\n");
        weft_close(b.fd);
    } while (status_of(b.heard) == 200);
    ck_assert_int_eq(status_of(b.heard), 503);
    ck_assert_ptr_nonnull(strstr(b.heard, "\r\nRetry-After: 1\r\n"));
    post(&b, "/pieces", 1 << 20, 1 << 20); /* takes next to nothing */
    talk_hear(&b, "1048576 bytes");
    weft_close(b.fd);
    talk_send_bytes(&a, large, 10000);
    talk_hear(&a, "220000 bytes");
    for (int i = 0; i < 10; i++) { /* and all of it is free again, each time */
        post(&b, "/", 200000, 200000);
        talk_hear(&b, "200000 bytes");
        weft_close(b.fd);
    }
    weft_close(a.fd);
    ck_assert_int_eq(site_close(&s), -ECANCELED);
}
END_TEST

#define SLOW_READERS 16
static size_t accepted;    /* bytes of replies to those who do not read */
static size_t given_up;    /* of them */
static weft_event all_are; /* given up */

static int write_much(weft_http_request *r, void *ctx)
{
    (void)ctx;
    bool is_slow = strcmp(weft_http_path(r), "/slow") == 0;
    ssize_t n = weft_http_begin(r, 200, (int64_t)LARGE);
    for (size_t sent = 0; n >= 0 && sent < LARGE; sent += (size_t)n) {
        n = weft_http_write(r, large, 64 << 10);
        accepted += n > 0 && is_slow ? (size_t)n : 0;
    }
    if (is_slow && ++given_up == SLOW_READERS)
        (void)weft_event_set(&all_are);
    return n < 0 ? (int)n : 0;
}

/* A client that reads little, and asks for much. */
static void call_slowly(talk *t)
{
    int room = 4 << 10;
    *t = (talk){.fd = socket_for(&s.at)};
    ck_assert_int_eq(setsockopt(t->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
    ck_assert_int_eq(weft_connect(t->fd, &s.at.u.any, s.at.bytes), 0);
    talk_send(t, "GET /slow HTTP/1.1\r\n" HOST "\r\n");
}

START_TEST(what_a_peer_does_not_read_is_bounded_over_all_its_connections)
{
    static talk slow[SLOW_READERS];
    const weft_http_options o = {
        .limits = {.unsent_bytes_per_peer_max = 1 << 20, .slow_s = 1, .body_bytes_per_s_min = 1e4}};
    size_t heard = 0;
    ssize_t n;
    site_open(&s, write_much, NULL, &o);
    for (size_t i = 0; i < SLOW_READERS; i++)
        call_slowly(&slow[i]);
    call_as_other(&a);
    talk_send(&a, "GET /fast HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    while ((n = weft_read(a.fd, a.heard, sizeof a.heard)) > 0)
        heard += (size_t)n;
    ck_assert_uint_gt(heard, LARGE);
    weft_close(a.fd);
    ck_assert_int_eq(weft_event_wait(&all_are), 0);
    /* The limit, and for each connection what it has by itself, and what its client has. */
    ck_assert_uint_le(accepted, (1 << 20) + SLOW_READERS * (96 << 10));
    for (size_t i = 0; i < SLOW_READERS; i++)
        weft_close(slow[i].fd);
    ck_assert_int_eq(site_close(&s), -ECANCELED);
    assert_nothing_pending();
}
END_TEST

START_TEST(a_peer_that_reads_gets_all_though_it_is_beyond_its_limit)
{
    const weft_http_options o = {.limits = {.unsent_bytes_per_peer_max = 1}};
    size_t heard = 0;
    ssize_t n;
    site_open(&s, write_much, NULL, &o);
    site_call(&s, &a);
    talk_send(&a, "GET /fast HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    while ((n = weft_read(a.fd, a.heard, sizeof a.heard)) > 0)
        heard += (size_t)n;
    ck_assert_uint_gt(heard, LARGE);
    weft_close(a.fd);
    ck_assert_int_eq(site_close(&s), -ECANCELED);
}
END_TEST

START_TEST(connections_that_are_reset_while_their_peer_is_beyond_its_limit_end_at_once)
{
    const weft_http_options o = {
        .limits = {.unsent_bytes_per_peer_max = 1, .slow_s = INFINITY}}; /* they never are slow */
    site_open(&s, write_much, NULL, &o);
    for (size_t i = 0; i < SLOW_READERS; i++) {
        call_slowly(&a);
        talk_hear(&a, "HTTP/1.1 200");
        ck_assert_int_gt(weft_recv(a.fd, a.heard, 1, MSG_PEEK), 0);
        weft_close(a.fd); /* there is more to read: a reset */
    }
    ck_assert_int_eq(weft_event_wait(&all_are), 0);
    ck_assert_int_eq(site_close(&s), -ECANCELED);
    assert_nothing_pending();
}
END_TEST

#ifdef WEFT_HAS_TLS
/* A handshake, and a request: 0, or an error. */
static int ask_over_tls(int fd)
{
    weft_tls *tls = weft_tls_client_new(&(weft_tls_options){.verify = WEFT_TLS_VERIFY_NONE});
    weft_stream stream;
    char line[64];
    int rc = weft_tls_connect(&stream, fd, tls, "localhost");
    if (rc == 0) {
        ck_assert_int_gt(weft_stream_puts(&stream, GET), 0);
        ck_assert_int_gt(weft_stream_gets(&stream, line, sizeof line), 0);
        ck_assert_int_eq(strncmp(line, "HTTP/1.1 200", 12), 0);
        (void)weft_stream_close(&stream);
    }
    weft_tls_free(tls);
    return rc;
}

START_TEST(a_peer_that_shakes_hands_too_often_is_closed_and_others_are_not)
{
    weft_tls *tls = tls_server();
    const weft_http_options o = {.tls = tls, .limits = {.handshakes_per_peer_s_max = 1e-4}};
    site_open(&s, serve, NULL, &o);
    site_call(&s, &a);
    ck_assert_int_eq(ask_over_tls(a.fd), 0);
    for (int i = 0; i < 3; i++) { /* its turn would come in hours */
        site_call(&s, &a);
        ck_assert_int_lt(ask_over_tls(a.fd), 0);
    }
    call_as_other(&b);
    ck_assert_int_eq(ask_over_tls(b.fd), 0);
    ck_assert_int_eq(site_close(&s), -ECANCELED);
    weft_tls_free(tls);
}
END_TEST

START_TEST(a_peer_that_shakes_hands_often_waits_for_its_turn)
{
    weft_tls *tls = tls_server();
    const weft_http_options o = {.tls = tls, .limits = {.handshakes_per_peer_s_max = 20}};
    site_open(&s, serve, NULL, &o);
    for (int i = 0; i < 25; i++) { /* the last ones wait for a moment */
        site_call(&s, &a);
        ck_assert_int_eq(ask_over_tls(a.fd), 0);
    }
    ck_assert_int_eq(site_close(&s), -ECANCELED);
    weft_tls_free(tls);
}
END_TEST
#endif

/* Closes it so that the other side is reset. */
static void reset(const talk *t)
{
    const struct linger at_once = {.l_onoff = 1};
    ck_assert_int_eq(setsockopt(t->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    weft_close(t->fd);
}

START_TEST(a_client_that_resets_at_any_stage_harms_nobody_else)
{
    static const char *const stages[] = {
        "",
        "GET / HT",
        GET,
        WAIT,
        "POST /read HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\nhello",
        "POST /read HTTP/1.1\r\n" HOST "Content-Length: 9\r\nExpect: 100-continue\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Content-Length: 900000\r\n\r\nhello",
        "GET /large HTTP/1.1\r\n" HOST "\r\n" GET,
        "GET /file HTTP/1.1\r\n" HOST "\r\n",
        "BAD\r\n\r\n",
        GET GET GET GET "GET /large HTTP/1.1\r\n" HOST "\r\n",
    };
    warm_up();
    size_t open = count_descriptors();
    site_open(&s, serve, NULL, NULL);
    site_call(&s, &b);
    for (size_t i = 0; i < COUNT_OF(stages); i++) {
        site_call(&s, &a);
        talk_send(&a, stages[i]);
        if (i % 2 == 0)
            let_run();
        reset(&a);
        ask(&b, GET, "[/]");
    }
    weft_close(b.fd);
    ck_assert_int_eq(weft_event_set(&go_on), 0);
    ck_assert_int_eq(site_close(&s), -ECANCELED);
    assert_nothing_pending();
    ck_assert_uint_eq(count_descriptors(), open);
}
END_TEST

/* Sends without end, until the server takes no more. */
static weft_value pour(void *arg)
{
    const talk *t = arg;
    while (weft_send(t->fd, large, 65536, MSG_NOSIGNAL) > 0)
        ;
    return 0;
}

/* With input unread, a close would reset the connection, and the reply be lost. */
START_TEST(a_reply_arrives_although_the_client_sends_on)
{
    static const struct {
        const char *head;
        int status;
    } cases[] = {
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 99999999999\r\n\r\n", 200},
        {"POST /read HTTP/1.1\r\n" HOST "Content-Length: 99999999999\r\n\r\n", 413},
        {"POST /read HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nfffffff\r\n", 413},
        {"POST /read HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nx\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", 200},
        {"GET / HTTP/1.1\r\n" HOST "Bad\r\n\r\n", 400},
    };
    memset(large, 'x', LARGE);
    site_open(&s, serve, NULL, NULL);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        site_call(&s, &a);
        talk_send(&a, cases[i].head);
        weft_fiber f = weft_spin(pour, &a);
        weft_await(f); /* until it is reset, or the server takes no more */
        talk_hear_all(&a);
        ck_assert_int_eq(status_of(a.heard), cases[i].status);
        ck_assert_ptr_nonnull(strstr(a.heard, "Connection: close"));
        weft_close(a.fd);
    }
    ck_assert_int_eq(site_close(&s), -ECANCELED);
}
END_TEST

/* So it ends in order, and not by a reset that could overtake the reply. */
START_TEST(what_comes_behind_the_last_request_is_heard_out)
{
    site_open(&s, serve, NULL, NULL);
    site_call(&s, &a);
    memcpy(large, "GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", 46);
    talk_send_bytes(&a, large, 1 << 20);
    talk_hear(&a, "[/]");
    ck_assert_int_eq(talk_hear_some(&a), 0);
    weft_close(a.fd);
    ck_assert_int_eq(site_close(&s), -ECANCELED);
}
END_TEST

/* A client whose window is small, so that the kernel does not take all for it. */
static void call_narrow(talk *t)
{
    int small = 4096;
    t->fd = socket_for(&s.at);
    ck_assert_int_eq(setsockopt(t->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    ck_assert_int_eq(weft_connect(t->fd, &s.at.u.any, s.at.bytes), 0);
    t->heard_bytes = 0;
    t->heard[0] = '\0';
}

START_TEST(who_does_not_read_is_cut_off_and_the_others_are_served)
{
    const weft_http_options o = {.limits = {.slow_s = 0.05, .body_bytes_per_s_min = 1e6}};
    site_open(&s, serve, NULL, &o);
    call_narrow(&a);
    talk_send(&a, "GET /large HTTP/1.1\r\n" HOST "\r\n");
    site_call(&s, &b);
    while (!was_late)
        ask(&b, GET, "[/]");
    char waste[4096];
    size_t total = 0;
    ssize_t n;
    while ((n = weft_read(a.fd, waste, sizeof waste)) > 0)
        total += (size_t)n;
    ck_assert_uint_lt(total, LARGE);
    weft_close(a.fd);
    weft_close(b.fd);
    ck_assert_int_eq(site_close(&s), -ECANCELED);
}
END_TEST

START_TEST(a_file_arrives_as_it_is)
{
    site_open(&s, serve, NULL, NULL);
    call_narrow(&a);
    talk_send(&a, "GET /file HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    while (strstr(a.heard, "\r\n\r\n") == NULL)
        ck_assert_int_gt(talk_hear_some(&a), 0);
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    size_t at = (size_t)(body_of(a.heard) - a.heard);
    do {
        size_t bytes = a.heard_bytes - at;
        ck_assert_int_eq(read(fd, large, bytes), (ssize_t)bytes);
        ck_assert_mem_eq(a.heard + at, large, bytes);
        a.heard_bytes = at = 0;
    } while (talk_hear_some(&a) > 0);
    ck_assert_int_eq(read(fd, large, 1), 0);
    close(fd);
    weft_close(a.fd);
    ck_assert_int_eq(site_close(&s), -ECANCELED);
}
END_TEST

static int tick(weft_http_request *r, void *ctx)
{
    int rc = weft_http_events(r), *told = ctx;
    while (rc == 0 && (rc = weft_http_event(r, NULL, NULL, "tick")) == 0)
        rc = weft_sleep(0.001);
    *told = weft_http_is_draining(r) ? rc : 0;
    return 0;
}

START_TEST(who_sends_events_hears_that_the_server_ends)
{
    static const char end[] = "\r\n0\r\n\r\n"; /* of a whole reply */
    int told = 0;
    const weft_http_options o = {.drain_s = 1000};
    site_open(&s, tick, &told, &o);
    site_call(&s, &c);
    talk_send(&c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    talk_hear(&c, "data: tick\n\n");
    ck_assert_int_eq(site_close(&s), -ECANCELED);
    ck_assert_int_eq(told, -ESHUTDOWN);
    const char *heard = talk_hear_all(&c);
    ck_assert_str_eq(heard + strlen(heard) - strlen(end), end);
    weft_close(c.fd);
}
END_TEST

static const TTest *const *const tests[] = {
    &no_more_connections_are_let_in_than_there_may_be,
    &no_peer_may_have_all_connections,
    &a_server_that_ends_closes_the_idle_and_lets_the_others_finish,
#ifdef WEFT_HAS_TLS
    &a_server_that_ends_does_not_wait_for_hands_to_be_shaken,
    &plain_http_on_a_port_for_tls_is_told_so,
#endif
    &who_does_not_finish_in_time_is_cancelled,
    &a_listener_of_its_own_is_closed_before_the_last_request_is_done,
    &an_address_that_cannot_be_had_is_an_error_with_words,
    &options_that_are_refused_leave_the_listener_as_it_was,
    &what_all_bodies_take_is_bounded_and_who_is_beyond_may_come_again,
    &what_a_peer_does_not_read_is_bounded_over_all_its_connections,
    &a_peer_that_reads_gets_all_though_it_is_beyond_its_limit,
    &connections_that_are_reset_while_their_peer_is_beyond_its_limit_end_at_once,
#ifdef WEFT_HAS_TLS
    &a_peer_that_shakes_hands_too_often_is_closed_and_others_are_not,
    &a_peer_that_shakes_hands_often_waits_for_its_turn,
#endif
    &a_client_that_resets_at_any_stage_harms_nobody_else,
    &a_reply_arrives_although_the_client_sends_on,
    &what_comes_behind_the_last_request_is_heard_out,
    &who_does_not_read_is_cut_off_and_the_others_are_served,
    &a_file_arrives_as_it_is,
    &who_sends_events_hears_that_the_server_ends,
};

int main(void)
{
    return run_suite("http_serve", tests, COUNT_OF(tests));
}

/*
 * The reverse proxy and bodies: both ways at once, of any length, cut short by either side; its
 * connections; its end.
 */
#include "proxy_support.h"

#define MIB ((size_t)1 << 20)

/* A front server before one with a handler. */
typedef struct pair {
    chain c;
    site up;
    weft_http_options up_options;
} pair;

static void pair_open(pair *p, weft_http_handler *handler, const weft_http_proxy_options *options)
{
    char upstream[64];
    *p = (pair){.up_options = {.limits = {.body_bytes_max = UINT64_MAX}}};
    site_open(&p->up, handler, NULL, &p->up_options);
    snprintf(upstream, sizeof upstream, "http://127.0.0.1:%d", site_port(&p->up));
    chain_open_at(&p->c, upstream, options);
}

static void pair_close(pair *p)
{
    front_close(&p->c);
    weft_cancel(p->up.server);
    (void)weft_await(p->up.server);
    weft_close(p->up.listener);
}

/* Writes so many bytes of the stream that byte_at describes. */
typedef struct writer {
    int fd;
    size_t bytes;
    int result;
} writer;

static weft_value write_stream(void *arg)
{
    writer *w = arg;
    static unsigned char data[64 << 10];
    for (size_t done = 0; done < w->bytes; done += sizeof data) {
        fill_from(data, sizeof data, done);
        ssize_t n = weft_write_all(w->fd, data, sizeof data);
        if (n < 0) {
            w->result = (int)n;
            break;
        }
    }
    return 0;
}

/* Read the head of a reply, and so many bytes behind it. */
static void read_stream(talk *t, size_t bytes, size_t piece)
{
    static unsigned char data[64 << 10];
    talk_hear(t, "\r\n\r\n");
    size_t head = (size_t)(body_of(t->heard) - t->heard);
    size_t done = t->heard_bytes - head;
    assert_bytes_at((unsigned char *)t->heard + head, done, 0);
    while (done < bytes) {
        ssize_t n = weft_read(t->fd, data, piece);
        ck_assert_int_gt(n, 0);
        assert_bytes_at(data, (size_t)n, done);
        done += (size_t)n;
    }
    ck_assert_uint_eq(done, bytes);
}

static int echo(weft_http_request *r, void *ctx)
{
    const void *piece;
    ssize_t n, rc = weft_http_begin(r, 200, weft_http_length(r));
    (void)ctx;
    while (rc >= 0 && (n = weft_http_read_piece(r, &piece)) > 0)
        rc = weft_http_write(r, piece, (size_t)n);
    return rc < 0 ? (int)rc : (int)n;
}

START_TEST(an_answer_streams_back_while_its_request_is_still_sent)
{
    pair p;
    talk t;
    char head[128];
    const size_t bytes = 8 * MIB;
    pair_open(&p, echo, &(weft_http_proxy_options){.body_bytes_max = UINT64_MAX});
    site_call(&p.c.front, &t);
    snprintf(head, sizeof head, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", bytes);
    talk_send(&t, head);
    writer w = {t.fd, bytes, 0};
    weft_fiber writing = weft_spin(write_stream, &w);
    read_stream(&t, bytes, 64 << 10);
    ck_assert_int_eq(weft_await(writing), 0);
    ck_assert_int_eq(w.result, 0);
    /* The connection serves the next request. */
    t.heard_bytes = 0;
    talk_send(&t, GET "Content-Length: 2\r\n\r\nhi");
    talk_hear(&t, "\r\n\r\nhi");
    weft_close(t.fd);
    pair_close(&p);
}
END_TEST

static int send_much(weft_http_request *r, void *ctx)
{
    static unsigned char data[64 << 10];
    const size_t bytes = 64 * MIB;
    int rc = weft_http_begin(r, 200, (int64_t)bytes);
    (void)ctx;
    for (size_t done = 0; rc >= 0 && done < bytes; done += sizeof data) {
        fill_from(data, sizeof data, done);
        ssize_t n = weft_http_write(r, data, sizeof data);
        rc = n < 0 ? (int)n : 0;
    }
    return rc;
}

static size_t discarded;

static int discard(weft_http_request *r, void *ctx)
{
    const void *piece;
    ssize_t n;
    (void)ctx;
    while ((n = weft_http_read_piece(r, &piece)) > 0)
        discarded += (size_t)n;
    return n < 0 ? (int)n : weft_http_reply_text(r, 200, "%zu", discarded);
}

static long peak_kib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* Sanitizers keep freed memory for a while. */
#define GROWTH_KIB_MAX 16384

START_TEST(memory_does_not_grow_with_a_body)
{
    pair p;
    talk t;
    const size_t bytes = 64 * MIB;
    char head[128];
    pair_open(&p, send_much, NULL);
    site_call(&p.c.front, &t);
    long before = peak_kib();
    talk_send(&t, GET "\r\n");
    read_stream(&t, bytes, 4096);
    ck_assert_int_lt(peak_kib() - before, GROWTH_KIB_MAX);
    weft_close(t.fd);
    pair_close(&p);

    pair_open(&p, discard, &(weft_http_proxy_options){.body_bytes_max = UINT64_MAX});
    site_call(&p.c.front, &t);
    snprintf(head, sizeof head,
             "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
             bytes);
    talk_send(&t, head);
    writer w = {t.fd, bytes, 0};
    write_stream(&w);
    ck_assert_int_eq(w.result, 0);
    talk_hear_all(&t);
    ck_assert_str_eq(body_of(t.heard), "67108864");
    ck_assert_int_lt(peak_kib() - before, GROWTH_KIB_MAX);
    weft_close(t.fd);
    pair_close(&p);
}
END_TEST

START_TEST(an_answer_that_is_cut_short_never_looks_whole)
{
    static const struct {
        const char *answer, *request;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", GET "\r\n"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello", GET "\r\n"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", GET "\r\n"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", GET "\r\n"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
         "GET / HTTP/1.0\r\n\r\n"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
         POST_CLOSE "Content-Length: 3\r\n\r\nabc"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const turn says[] = {{.says = rows[i].answer, .hangs_up = true}};
        chain c;
        talk t;
        ssize_t n;
        chain_open(&c, says, 1, NULL);
        site_call(&c.front, &t);
        talk_send(&t, rows[i].request);
        while ((n = talk_hear_some(&t)) > 0)
            continue;
        ck_assert_msg(n == -ECONNRESET, "row %zu: %zd", i, n);
        ck_assert_unheard(&t, "\r\n0\r\n");
        weft_close(t.fd);
        chain_close(&c);
    }
}
END_TEST

/* Says a body that only the end of the connection ends, and resets that instead. */
static bool reset_within(web *sv, weft_stream *s)
{
    const struct linger reset = {.l_onoff = 1};
    weft_stream_puts(s, "HTTP/1.1 200 OK\r\n\r\nhello");
    weft_stream_flush(s);
    weft_sem_wait(&sv->gate);
    setsockopt(weft_stream_fd(s), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    return false;
}

/* The same with chunks of which one is malformed. */
static bool break_within(web *sv, weft_stream *s)
{
    weft_stream_puts(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    weft_stream_flush(s);
    weft_sem_wait(&sv->gate);
    weft_stream_puts(s, "x\r\n");
    return true;
}

START_TEST(a_reset_is_not_the_end_of_an_answer)
{
    static const turn says[] = {
        {.talks = reset_within}, {.talks = reset_within}, {.talks = break_within}};
    static const char *const requests[] = {GET "\r\n", "GET / HTTP/1.0\r\n\r\n"};
    chain c;
    talk t;
    ssize_t n;
    chain_open(&c, says, COUNT_OF(says), NULL);
    for (size_t i = 0; i < 2 * COUNT_OF(requests); i++) {
        site_call(&c.front, &t);
        talk_send(&t, requests[i % COUNT_OF(requests)]);
        talk_hear(&t, "hello");
        let_go(&c.up, 1);
        while ((n = talk_hear_some(&t)) > 0)
            continue;
        ck_assert_int_eq(n, -ECONNRESET);
        ck_assert_unheard(&t, "\r\n0\r\n");
        weft_close(t.fd);
    }
    chain_close(&c);
}
END_TEST

static weft_sem seen_gone;

/* Says half of an answer, and waits until the other side hangs up. */
static bool stall(web *sv, weft_stream *s)
{
    const void *data;
    (void)sv;
    weft_stream_puts(s, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello");
    weft_stream_flush(s);
    weft_stream_peek(s, 1, &data);
    weft_sem_post(&seen_gone);
    return false;
}

START_TEST(an_answer_that_stalls_is_cut)
{
    static const turn says[] = {{.talks = stall}};
    chain c;
    talk t;
    ssize_t n;
    chain_open(&c, says, 1, &(weft_http_proxy_options){.idle_s = 0.02});
    site_call(&c.front, &t);
    talk_send(&t, GET "\r\n");
    while ((n = talk_hear_some(&t)) > 0)
        continue;
    ck_assert_int_eq(n, -ECONNRESET);
    ck_assert_int_eq(weft_sem_wait(&seen_gone), 0);
    weft_close(t.fd);
    chain_close(&c);
}
END_TEST

/* Waits until the other side hangs up, without an answer. */
static bool wait_for_end(web *sv, weft_stream *s)
{
    char data[64];
    weft_sem_post(&sv->arrived);
    ssize_t n;
    while ((n = weft_stream_read(s, data, sizeof data)) > 0) {
        note(sv, data, (size_t)n);
        weft_sem_post(&sv->arrived);
    }
    weft_sem_post(&seen_gone);
    return false;
}

START_TEST(a_client_that_hangs_up_ends_the_request_to_the_upstream_server)
{
    static const turn says[] = {{.talks = wait_for_end}};
    chain c;
    talk t;
    chain_open(&c, says, 1, NULL);
    site_call(&c.front, &t);
    talk_send(&t, GET "\r\n");
    ck_assert_int_eq(weft_sem_wait(&c.up.arrived), 0);
    weft_close(t.fd);
    ck_assert_int_eq(weft_sem_wait(&seen_gone), 0);

    /* In the middle of a body, of which no end is passed on. */
    site_call(&c.front, &t);
    talk_send(&t, "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    while (strstr(c.up.seen, "3\r\nabc\r\n") == NULL)
        ck_assert_int_eq(weft_sem_wait(&c.up.arrived), 0);
    weft_close(t.fd);
    ck_assert_int_eq(weft_sem_wait(&seen_gone), 0);
    ck_assert_unseen(&c.up, "abc\r\n0");

    /* While the answer comes, which has stalled. */
    static const turn stalls[] = {{.talks = stall}};
    c.up.turns = stalls;
    site_call(&c.front, &t);
    talk_send(&t, GET "\r\n");
    talk_hear(&t, "hello");
    weft_close(t.fd);
    ck_assert_int_eq(weft_sem_wait(&seen_gone), 0);
    chain_close(&c);
}
END_TEST

static int failures;

static void count_failure(weft_http_request *r, int error, const char *words, void *ctx)
{
    (void)r, (void)error, (void)words, (void)ctx;
    failures++;
}

/* Says the answer, and its end only when the client has it and has hung up. */
static bool end_late(web *sv, weft_stream *s)
{
    weft_stream_puts(s, OK("hello", "5"));
    weft_stream_flush(s);
    return weft_sem_wait(&sv->gate) == 0;
}

START_TEST(a_client_that_hangs_up_with_its_answer_is_no_failure)
{
    static const turn says[] = {{.talks = end_late}};
    chain c;
    talk t;
    chain_open(&c, says, 1, &(weft_http_proxy_options){.on_failure = count_failure});
    for (int i = 0; i < 20; i++) {
        site_call(&c.front, &t);
        talk_send(&t, GET "\r\n");
        talk_hear(&t, "hello");
        weft_close(t.fd);
        let_go(&c.up, 1);
    }
    chain_close(&c);
    ck_assert_int_eq(failures, 0);
}
END_TEST

START_TEST(an_answer_that_comes_before_the_end_of_a_body_is_passed_on)
{
    static const turn rows[] = {
        {.says = "HTTP/1.1 413 No\r\nContent-Length: 4\r\n\r\nmuch", .is_early = true},
        {.says = "HTTP/1.1 413 No\r\nContent-Length: 4\r\n\r\nmuch",
         .is_early = true,
         .hangs_up = true},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        chain c;
        talk t;
        chain_open(&c, &rows[i], 1, &(weft_http_proxy_options){.body_bytes_max = UINT64_MAX});
        site_call(&c.front, &t);
        talk_send(&t, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 16777216\r\n\r\n");
        writer w = {t.fd, 16 * MIB, 0};
        weft_fiber writing = weft_spin(write_stream, &w);
        talk_hear(&t, "\r\n\r\nmuch");
        ck_assert_int_eq(status_of(t.heard), 413);
        weft_cancel(writing);
        (void)weft_await(writing);
        weft_close(t.fd);
        chain_close(&c);
    }
}
END_TEST

static bool never_read(web *sv, weft_stream *s)
{
    (void)s;
    return weft_sem_wait(&sv->gate) == 0;
}

START_TEST(an_upstream_server_that_takes_no_body_is_a_timeout)
{
    static const turn says[] = {{.talks = never_read}};
    chain c;
    talk t;
    chain_open(&c, says, 1,
               &(weft_http_proxy_options){.body_bytes_max = UINT64_MAX, .idle_s = 0.05});
    site_call(&c.front, &t);
    talk_send(&t, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 67108864\r\n\r\n");
    writer w = {t.fd, 64 * MIB, 0};
    weft_fiber writing = weft_spin(write_stream, &w);
    talk_hear(&t, "\r\n\r\n");
    ck_assert_int_eq(status_of(t.heard), 504);
    weft_cancel(writing);
    (void)weft_await(writing);
    weft_close(t.fd);
    chain_close(&c);
}
END_TEST

/*
 * Connections.
 */

START_TEST(a_connection_to_the_upstream_server_is_used_again)
{
    static const turn says[] = {{.says = OK("hello", "5")}};
    static const char *const requests[] = {
        GET_CLOSE "\r\n",
        POST_CLOSE "Content-Length: 3\r\n\r\nabc",
        POST_CLOSE "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        GET_CLOSE "\r\n",
    };
    chain c;
    talk t;
    chain_open(&c, says, 1, NULL);
    for (size_t i = 0; i < 3 * COUNT_OF(requests); i++) {
        chain_ask(&c, &t, requests[i % COUNT_OF(requests)]);
        ck_assert_int_eq(status_of(t.heard), 200);
    }
    ck_assert_uint_eq(c.up.asked, 3 * COUNT_OF(requests));
    ck_assert_uint_eq(c.up.conns, 1);
    chain_close(&c);
}
END_TEST

/* The upstream server reads the second request, and hangs up instead of an answer. */
START_TEST(only_a_request_that_may_be_repeated_is_sent_again)
{
    static const struct {
        const char *request;
        int status;
        size_t asked;
    } rows[] = {
        {GET_CLOSE "\r\n", 200, 3},
        {"DELETE / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 200, 3},
        {POST_CLOSE "Content-Length: 0\r\n\r\n", 502, 2},
        {POST_CLOSE "Content-Length: 3\r\n\r\nabc", 502, 2},
        {"PUT / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc", 502, 2},
    };
    static const turn turns[] = {
        {.says = OK("hello", "5")}, {.hangs_up = true}, {.says = OK("again", "5")}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        chain c;
        talk t;
        chain_open(&c, turns, COUNT_OF(turns), NULL);
        chain_ask(&c, &t, GET_CLOSE "\r\n");
        ck_assert_str_eq(body_of(t.heard), "hello");
        chain_ask(&c, &t, rows[i].request);
        ck_assert_msg(status_of(t.heard) == rows[i].status, "row %zu: %s", i, t.heard);
        ck_assert_uint_eq(c.up.asked, rows[i].asked);
        chain_close(&c);
    }
}
END_TEST

static int say_path(weft_http_request *r, void *ctx)
{
    char *body;
    (void)ctx;
    ssize_t n = weft_http_read_all(r, &body);
    return n < 0 ? (int)n : weft_http_reply_text(r, 200, "%s %s", weft_http_path(r), body);
}

static const pair *crowded;
static int crowd_right;

static weft_value ask_often(void *arg)
{
    static talk talks[40];
    talk *t = &talks[(intptr_t)arg];
    for (int i = 0; i < 5; i++) {
        char request[200], expected[64];
        snprintf(request, sizeof request,
                 "POST /%d/%d HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: "
                 "5\r\n\r\n%05d",
                 (int)(intptr_t)arg, i, i);
        snprintf(expected, sizeof expected, "/%d/%d %05d", (int)(intptr_t)arg, i, i);
        chain_ask(&crowded->c, t, request);
        crowd_right += strcmp(body_of(t->heard), expected) == 0;
    }
    return 0;
}

START_TEST(many_requests_at_once_get_their_own_answers)
{
    pair p;
    weft_fiber fibers[40];
    pair_open(&p, say_path, &(weft_http_proxy_options){.connections_max = 8});
    crowded = &p;
    for (size_t i = 0; i < COUNT_OF(fibers); i++)
        fibers[i] = weft_spin(ask_often, (void *)(intptr_t)i);
    ck_assert_int_eq(weft_await_all(fibers, COUNT_OF(fibers), NULL), 0);
    ck_assert_int_eq(crowd_right, 5 * (int)COUNT_OF(fibers));
    pair_close(&p);
}
END_TEST

/* Each thread has its connections; those of a thread that has ended are closed. */
static weft_value ask_in_cord(void *arg)
{
    chain *c = arg;
    talk t;
    for (int i = 0; i < 3; i++) {
        talk_open(&t, weft_http_serve_proxy, c->proxy, NULL);
        talk_send(&t, GET_CLOSE "\r\n");
        talk_hear_all(&t);
        talk_close(&t);
        if (strcmp(body_of(t.heard), "hello") != 0)
            return -EPROTO;
    }
    return 0;
}

START_TEST(several_threads_serve_one_proxy)
{
    static const turn says[] = {{.says = OK("hello", "5")}};
    chain c;
    talk t;
    weft_cord cords[3];
    chain_open(&c, says, 1, NULL);
    chain_ask(&c, &t, GET_CLOSE "\r\n");
    for (size_t i = 0; i < COUNT_OF(cords); i++)
        cords[i] = weft_cord_start(ask_in_cord, &c, NULL);
    for (size_t i = 0; i < COUNT_OF(cords); i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), 0);
    ck_assert_uint_eq(c.up.asked, 10);
    ck_assert_uint_eq(c.up.conns, 4);
    chain_close(&c);
}
END_TEST

/*
 * The end.
 */

static weft_value close_front(void *arg)
{
    front_close(arg);
    return 0;
}

START_TEST(a_server_that_drains_waits_for_the_answer)
{
    static const turn held[] = {{.says = OK("hello", "5"), .is_held = true}};
    chain c;
    talk t;
    chain_open(&c, held, 1, NULL);
    site_call(&c.front, &t);
    talk_send(&t, GET "\r\n");
    ck_assert_int_eq(weft_sem_wait(&c.up.arrived), 0);
    weft_fiber closing = weft_spin(close_front, &c);
    let_run();
    let_go(&c.up, 1);
    talk_hear_all(&t);
    ck_assert_str_eq(body_of(t.heard), "hello");
    ck_assert_int_eq(weft_await(closing), 0);
    weft_close(t.fd);
    stop_server(&c.up);
}
END_TEST

START_TEST(a_server_whose_drain_is_over_cancels_what_is_passed_on)
{
    static const turn says[] = {{.talks = wait_for_end}, {.talks = stall}};
    chain c;
    talk t[3];
    start_server(&c.up, says, 2);
    c.front_options = (weft_http_options){.drain_s = 0.02};
    chain_open_at(&c, c.up.base, NULL);
    site_call(&c.front, &t[0]);
    talk_send(&t[0], GET "\r\n");
    ck_assert_int_eq(weft_sem_wait(&c.up.arrived), 0);
    site_call(&c.front, &t[1]);
    talk_send(&t[1], GET "\r\n");
    talk_hear(&t[1], "hello");
    site_call(&c.front, &t[2]);
    talk_send(&t[2], "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc");
    talk_hear(&t[2], "hello");
    front_close(&c);
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        ck_assert_int_eq(weft_sem_wait(&seen_gone), 0);
        talk_hear_all(&t[i]);
        weft_close(t[i].fd);
    }
    stop_server(&c.up);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &an_answer_streams_back_while_its_request_is_still_sent,
        &memory_does_not_grow_with_a_body,
        &an_answer_that_is_cut_short_never_looks_whole,
        &a_reset_is_not_the_end_of_an_answer,
        &an_answer_that_stalls_is_cut,
        &a_client_that_hangs_up_ends_the_request_to_the_upstream_server,
        &a_client_that_hangs_up_with_its_answer_is_no_failure,
        &an_answer_that_comes_before_the_end_of_a_body_is_passed_on,
        &an_upstream_server_that_takes_no_body_is_a_timeout,
        &a_connection_to_the_upstream_server_is_used_again,
        &only_a_request_that_may_be_repeated_is_sent_again,
        &many_requests_at_once_get_their_own_answers,
        &several_threads_serve_one_proxy,
        &a_server_that_drains_waits_for_the_answer,
        &a_server_whose_drain_is_over_cancels_what_is_passed_on,
    };
    forget_proxies();
    return run_suite("http_proxy_stream", tests, COUNT_OF(tests));
}

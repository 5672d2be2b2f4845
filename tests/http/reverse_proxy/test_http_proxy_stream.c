/*
 * The reverse proxy: streamed bodies in both directions, truncated and stalled responses, clients
 * that disconnect, reuse of connections, and draining.
 */
#include "http/reverse_proxy/proxy_support.h"
#include "support/suite.h"

#define MIB ((size_t)1 << 20)

/* A front server, and an upstream server with a handler. */
typedef struct handler_chain {
    proxy_chain c;
    test_server upstream;
    weft_http_options upstream_options;
} handler_chain;

static void handler_chain_open(handler_chain *p, weft_http_handler *handler,
                               const weft_http_proxy_options *options)
{
    char upstream[64];
    *p = (handler_chain){.upstream_options = {.limits = {.body_bytes_max = UINT64_MAX}}};
    server_open(&p->upstream, handler, NULL, &p->upstream_options);
    snprintf(upstream, sizeof upstream, "http://127.0.0.1:%d", server_port(&p->upstream));
    chain_open_at(&p->c, upstream, options);
}

static void handler_chain_close(handler_chain *p)
{
    chain_close_front(&p->c);
    weft_cancel(p->upstream.fiber);
    (void)weft_await(p->upstream.fiber);
    weft_close(p->upstream.listener);
}

/* The argument of a fiber that writes the first bytes of the test stream. */
typedef struct stream_writer {
    int fd;
    size_t bytes;
    int result;
} stream_writer;

static weft_value write_stream(void *arg)
{
    stream_writer *w = arg;
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

/* Read the head of a response and check a body of the test stream. */
static void read_stream(test_client *client, size_t bytes, size_t piece)
{
    static unsigned char data[64 << 10];
    client_expect(client, "\r\n\r\n");
    size_t head = (size_t)(body_of(client->received) - client->received);
    size_t done = client->received_bytes - head;
    assert_bytes_at((unsigned char *)client->received + head, done, 0);
    while (done < bytes) {
        ssize_t n = weft_read(client->fd, data, piece);
        ck_assert_int_gt(n, 0);
        assert_bytes_at(data, (size_t)n, done);
        done += (size_t)n;
    }
    ck_assert_uint_eq(done, bytes);
}

static int echo_body(weft_http_request *r, void *ctx)
{
    const void *piece;
    ssize_t n, rc = weft_http_begin(r, 200, weft_http_length(r));
    (void)ctx;
    while (rc >= 0 && (n = weft_http_read_piece(r, &piece)) > 0)
        rc = weft_http_write(r, piece, (size_t)n);
    return rc < 0 ? (int)rc : (int)n;
}

TEST(a_response_streams_back_while_its_request_is_still_sent)
{
    handler_chain p;
    test_client client;
    char head[128];
    const size_t bytes = 8 * MIB;
    handler_chain_open(&p, echo_body, &(weft_http_proxy_options){.body_bytes_max = UINT64_MAX});
    server_connect(&p.c.front, &client);
    snprintf(head, sizeof head, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", bytes);
    client_send(&client, head);
    stream_writer w = {client.fd, bytes, 0};
    weft_fiber writing = weft_spin(write_stream, &w);
    read_stream(&client, bytes, 64 << 10);
    ck_assert_int_eq(weft_await(writing), 0);
    ck_assert_int_eq(w.result, 0);
    client.received_bytes = 0;
    client_send(&client, GET "Content-Length: 2\r\n\r\nhi");
    client_expect(&client, "\r\n\r\nhi");
    weft_close(client.fd);
    handler_chain_close(&p);
}

static int send_large_body(weft_http_request *r, void *ctx)
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

static int discard_body(weft_http_request *r, void *ctx)
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

TEST(memory_does_not_grow_with_a_body)
{
    handler_chain p;
    test_client client;
    const size_t bytes = 64 * MIB;
    char head[128];
    handler_chain_open(&p, send_large_body, NULL);
    server_connect(&p.c.front, &client);
    long before = peak_kib();
    client_send(&client, GET "\r\n");
    read_stream(&client, bytes, 4096);
    ck_assert_int_lt(peak_kib() - before, GROWTH_KIB_MAX);
    weft_close(client.fd);
    handler_chain_close(&p);

    handler_chain_open(&p, discard_body, &(weft_http_proxy_options){.body_bytes_max = UINT64_MAX});
    server_connect(&p.c.front, &client);
    snprintf(head, sizeof head,
             "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
             bytes);
    client_send(&client, head);
    stream_writer w = {client.fd, bytes, 0};
    write_stream(&w);
    ck_assert_int_eq(w.result, 0);
    client_receive_all(&client);
    ck_assert_str_eq(body_of(client.received), "67108864");
    ck_assert_int_lt(peak_kib() - before, GROWTH_KIB_MAX);
    weft_close(client.fd);
    handler_chain_close(&p);
}

TEST(a_truncated_response_never_looks_complete)
{
    static const struct {
        const char *reply, *request;
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
        const script_step steps[] = {{.reply = rows[i].reply, .closes = true}};
        proxy_chain c;
        test_client client;
        ssize_t n;
        chain_open(&c, steps, 1, NULL);
        server_connect(&c.front, &client);
        client_send(&client, rows[i].request);
        while ((n = client_receive_some(&client)) > 0)
            continue;
        ck_assert_msg(n == -ECONNRESET, "row %zu: %zd", i, n);
        ck_assert_not_received(&client, "\r\n0\r\n");
        weft_close(client.fd);
        chain_close(&c);
    }
}

/* Send a body without a length, and reset the connection instead of closing it. */
static bool reset_within_body(script_server *sv, weft_stream *s)
{
    const struct linger reset = {.l_onoff = 1};
    weft_stream_puts(s, "HTTP/1.1 200 OK\r\n\r\nhello");
    weft_stream_flush(s);
    weft_sem_wait(&sv->gate);
    setsockopt(weft_stream_fd(s), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    return false;
}

/* Send a chunked body with a malformed chunk. */
static bool malform_chunk(script_server *sv, weft_stream *s)
{
    weft_stream_puts(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    weft_stream_flush(s);
    weft_sem_wait(&sv->gate);
    weft_stream_puts(s, "x\r\n");
    return true;
}

TEST(a_reset_does_not_end_a_response)
{
    static const script_step steps[] = {
        {.handle = reset_within_body}, {.handle = reset_within_body}, {.handle = malform_chunk}};
    static const char *const requests[] = {GET "\r\n", "GET / HTTP/1.0\r\n\r\n"};
    proxy_chain c;
    test_client client;
    ssize_t n;
    chain_open(&c, steps, COUNT_OF(steps), NULL);
    for (size_t i = 0; i < 2 * COUNT_OF(requests); i++) {
        server_connect(&c.front, &client);
        client_send(&client, requests[i % COUNT_OF(requests)]);
        client_expect(&client, "hello");
        release_replies(&c.upstream, 1);
        while ((n = client_receive_some(&client)) > 0)
            continue;
        ck_assert_int_eq(n, -ECONNRESET);
        ck_assert_not_received(&client, "\r\n0\r\n");
        weft_close(client.fd);
    }
    chain_close(&c);
}

static weft_sem conn_closed;

/* Send a part of a reply, and wait until the proxy closes the connection. */
static bool stall_within_body(script_server *sv, weft_stream *s)
{
    const void *data;
    (void)sv;
    weft_stream_puts(s, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello");
    weft_stream_flush(s);
    weft_stream_peek(s, 1, &data);
    weft_sem_post(&conn_closed);
    return false;
}

TEST(a_stalled_response_is_aborted)
{
    static const script_step steps[] = {{.handle = stall_within_body}};
    proxy_chain c;
    test_client client;
    ssize_t n;
    chain_open(&c, steps, 1, &(weft_http_proxy_options){.idle_s = 0.02});
    server_connect(&c.front, &client);
    client_send(&client, GET "\r\n");
    while ((n = client_receive_some(&client)) > 0)
        continue;
    ck_assert_int_eq(n, -ECONNRESET);
    ck_assert_int_eq(weft_sem_wait(&conn_closed), 0);
    weft_close(client.fd);
    chain_close(&c);
}

/* Wait without a reply until the proxy closes the connection. */
static bool wait_for_end(script_server *sv, weft_stream *s)
{
    char data[64];
    weft_sem_post(&sv->arrived);
    ssize_t n;
    while ((n = weft_stream_read(s, data, sizeof data)) > 0) {
        record_received(sv, data, (size_t)n);
        weft_sem_post(&sv->arrived);
    }
    weft_sem_post(&conn_closed);
    return false;
}

TEST(a_client_that_disconnects_ends_the_request_to_the_upstream_server)
{
    static const script_step steps[] = {{.handle = wait_for_end}};
    proxy_chain c;
    test_client client;
    chain_open(&c, steps, 1, NULL);
    server_connect(&c.front, &client);
    client_send(&client, GET "\r\n");
    ck_assert_int_eq(weft_sem_wait(&c.upstream.arrived), 0);
    weft_close(client.fd);
    ck_assert_int_eq(weft_sem_wait(&conn_closed), 0);

    /* Within a request body. The proxy must not forward an end of the body. */
    server_connect(&c.front, &client);
    client_send(&client,
                "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    while (strstr(c.upstream.received, "3\r\nabc\r\n") == NULL)
        ck_assert_int_eq(weft_sem_wait(&c.upstream.arrived), 0);
    weft_close(client.fd);
    ck_assert_int_eq(weft_sem_wait(&conn_closed), 0);
    ck_assert_server_not_received(&c.upstream, "abc\r\n0");

    /* During a stalled response. */
    static const script_step stalls[] = {{.handle = stall_within_body}};
    c.upstream.steps = stalls;
    server_connect(&c.front, &client);
    client_send(&client, GET "\r\n");
    client_expect(&client, "hello");
    weft_close(client.fd);
    ck_assert_int_eq(weft_sem_wait(&conn_closed), 0);
    chain_close(&c);
}

static int failures;

static void count_failure(weft_http_request *r, int error, const char *message, void *ctx)
{
    (void)r, (void)error, (void)message, (void)ctx;
    failures++;
}

/* Send a reply. Do not read the next request until the client has closed its connection. */
static bool hold_after_reply(script_server *sv, weft_stream *s)
{
    weft_stream_puts(s, OK("hello", "5"));
    weft_stream_flush(s);
    return weft_sem_wait(&sv->gate) == 0;
}

TEST(a_client_that_disconnects_after_its_response_is_not_a_failure)
{
    static const script_step steps[] = {{.handle = hold_after_reply}};
    proxy_chain c;
    test_client client;
    chain_open(&c, steps, 1, &(weft_http_proxy_options){.on_failure = count_failure});
    for (int i = 0; i < 20; i++) {
        server_connect(&c.front, &client);
        client_send(&client, GET "\r\n");
        client_expect(&client, "hello");
        weft_close(client.fd);
        release_replies(&c.upstream, 1);
    }
    chain_close(&c);
    ck_assert_int_eq(failures, 0);
}

TEST(a_response_before_the_end_of_the_request_body_is_forwarded)
{
    static const script_step rows[] = {
        {.reply = "HTTP/1.1 413 No\r\nContent-Length: 4\r\n\r\nmuch", .is_early = true},
        {.reply = "HTTP/1.1 413 No\r\nContent-Length: 4\r\n\r\nmuch",
         .is_early = true,
         .closes = true},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        proxy_chain c;
        test_client client;
        chain_open(&c, &rows[i], 1, &(weft_http_proxy_options){.body_bytes_max = UINT64_MAX});
        server_connect(&c.front, &client);
        client_send(&client, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 16777216\r\n\r\n");
        stream_writer w = {client.fd, 16 * MIB, 0};
        weft_fiber writing = weft_spin(write_stream, &w);
        client_expect(&client, "\r\n\r\nmuch");
        ck_assert_int_eq(status_of(client.received), 413);
        weft_cancel(writing);
        (void)weft_await(writing);
        weft_close(client.fd);
        chain_close(&c);
    }
}

static bool hold_without_reading(script_server *sv, weft_stream *s)
{
    (void)s;
    return weft_sem_wait(&sv->gate) == 0;
}

TEST(an_upstream_server_that_does_not_read_the_body_is_504)
{
    static const script_step steps[] = {{.handle = hold_without_reading}};
    proxy_chain c;
    test_client client;
    chain_open(&c, steps, 1,
               &(weft_http_proxy_options){.body_bytes_max = UINT64_MAX, .idle_s = 0.05});
    server_connect(&c.front, &client);
    client_send(&client, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 67108864\r\n\r\n");
    stream_writer w = {client.fd, 64 * MIB, 0};
    weft_fiber writing = weft_spin(write_stream, &w);
    client_expect(&client, "\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), 504);
    weft_cancel(writing);
    (void)weft_await(writing);
    weft_close(client.fd);
    chain_close(&c);
}

/* Connections */

TEST(a_connection_to_the_upstream_server_is_reused)
{
    static const script_step steps[] = {{.reply = OK("hello", "5")}};
    static const char *const requests[] = {
        GET_CLOSE "\r\n",
        POST_CLOSE "Content-Length: 3\r\n\r\nabc",
        POST_CLOSE "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        GET_CLOSE "\r\n",
    };
    proxy_chain c;
    test_client client;
    chain_open(&c, steps, 1, NULL);
    for (size_t i = 0; i < 3 * COUNT_OF(requests); i++) {
        chain_request(&c, &client, requests[i % COUNT_OF(requests)]);
        ck_assert_int_eq(status_of(client.received), 200);
    }
    ck_assert_uint_eq(c.upstream.requests, 3 * COUNT_OF(requests));
    ck_assert_uint_eq(c.upstream.conns, 1);
    chain_close(&c);
}

/* The upstream server reads the second request and closes the connection without a reply. */
TEST(only_an_idempotent_request_without_a_body_is_repeated)
{
    static const struct {
        const char *request;
        int status;
        size_t requests;
    } rows[] = {
        {GET_CLOSE "\r\n", 200, 3},
        {"DELETE / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 200, 3},
        {POST_CLOSE "Content-Length: 0\r\n\r\n", 502, 2},
        {POST_CLOSE "Content-Length: 3\r\n\r\nabc", 502, 2},
        {"PUT / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc", 502, 2},
    };
    static const script_step steps[] = {
        {.reply = OK("hello", "5")}, {.closes = true}, {.reply = OK("again", "5")}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        proxy_chain c;
        test_client client;
        chain_open(&c, steps, COUNT_OF(steps), NULL);
        chain_request(&c, &client, GET_CLOSE "\r\n");
        ck_assert_str_eq(body_of(client.received), "hello");
        chain_request(&c, &client, rows[i].request);
        ck_assert_msg(status_of(client.received) == rows[i].status, "row %zu: %s", i,
                      client.received);
        ck_assert_uint_eq(c.upstream.requests, rows[i].requests);
        chain_close(&c);
    }
}

static int reply_path_and_body(weft_http_request *r, void *ctx)
{
    char *body;
    (void)ctx;
    ssize_t n = weft_http_read_all(r, &body);
    return n < 0 ? (int)n : weft_http_reply_text(r, 200, "%s %s", weft_http_path(r), body);
}

static const handler_chain *shared_chain;
static int correct_responses;

static weft_value post_repeatedly(void *arg)
{
    static test_client clients[40];
    test_client *client = &clients[(intptr_t)arg];
    for (int i = 0; i < 5; i++) {
        char request[200], expected[64];
        snprintf(request, sizeof request,
                 "POST /%d/%d HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: "
                 "5\r\n\r\n%05d",
                 (int)(intptr_t)arg, i, i);
        snprintf(expected, sizeof expected, "/%d/%d %05d", (int)(intptr_t)arg, i, i);
        chain_request(&shared_chain->c, client, request);
        correct_responses += strcmp(body_of(client->received), expected) == 0;
    }
    return 0;
}

TEST(concurrent_requests_get_their_own_responses)
{
    handler_chain p;
    weft_fiber fibers[40];
    handler_chain_open(&p, reply_path_and_body, &(weft_http_proxy_options){.connections_max = 8});
    shared_chain = &p;
    for (size_t i = 0; i < COUNT_OF(fibers); i++)
        fibers[i] = weft_spin(post_repeatedly, (void *)(intptr_t)i);
    ck_assert_int_eq(weft_await_all(fibers, COUNT_OF(fibers), NULL), 0);
    ck_assert_int_eq(correct_responses, 5 * (int)COUNT_OF(fibers));
    handler_chain_close(&p);
}

/* Each thread has its own connections, which are closed when the thread ends. */
static weft_value request_in_cord(void *arg)
{
    proxy_chain *c = arg;
    test_client client;
    for (int i = 0; i < 3; i++) {
        client_open(&client, weft_http_serve_proxy, c->proxy, NULL);
        client_send(&client, GET_CLOSE "\r\n");
        client_receive_all(&client);
        client_close(&client);
        if (strcmp(body_of(client.received), "hello") != 0)
            return -EPROTO;
    }
    return 0;
}

TEST(several_threads_share_one_proxy)
{
    static const script_step steps[] = {{.reply = OK("hello", "5")}};
    proxy_chain c;
    test_client client;
    weft_cord cords[3];
    chain_open(&c, steps, 1, NULL);
    chain_request(&c, &client, GET_CLOSE "\r\n");
    for (size_t i = 0; i < COUNT_OF(cords); i++)
        cords[i] = weft_cord_start(request_in_cord, &c, NULL);
    for (size_t i = 0; i < COUNT_OF(cords); i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), 0);
    ck_assert_uint_eq(c.upstream.requests, 10);
    ck_assert_uint_eq(c.upstream.conns, 4);
    chain_close(&c);
}

/* Draining */

static weft_value close_front(void *arg)
{
    chain_close_front(arg);
    return 0;
}

TEST(a_draining_server_waits_for_the_response)
{
    static const script_step held[] = {{.reply = OK("hello", "5"), .is_held = true}};
    proxy_chain c;
    test_client client;
    chain_open(&c, held, 1, NULL);
    server_connect(&c.front, &client);
    client_send(&client, GET "\r\n");
    ck_assert_int_eq(weft_sem_wait(&c.upstream.arrived), 0);
    weft_fiber closing = weft_spin(close_front, &c);
    let_run();
    release_replies(&c.upstream, 1);
    client_receive_all(&client);
    ck_assert_str_eq(body_of(client.received), "hello");
    ck_assert_int_eq(weft_await(closing), 0);
    weft_close(client.fd);
    stop_server(&c.upstream);
}

TEST(a_server_cancels_forwarded_requests_when_its_drain_time_ends)
{
    static const script_step steps[] = {{.handle = wait_for_end}, {.handle = stall_within_body}};
    proxy_chain c;
    test_client clients[3];
    start_server(&c.upstream, steps, 2);
    c.front_options = (weft_http_options){.drain_s = 0.02};
    chain_open_at(&c, c.upstream.base, NULL);
    server_connect(&c.front, &clients[0]);
    client_send(&clients[0], GET "\r\n");
    ck_assert_int_eq(weft_sem_wait(&c.upstream.arrived), 0);
    server_connect(&c.front, &clients[1]);
    client_send(&clients[1], GET "\r\n");
    client_expect(&clients[1], "hello");
    server_connect(&c.front, &clients[2]);
    client_send(&clients[2], "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc");
    client_expect(&clients[2], "hello");
    chain_close_front(&c);
    for (size_t i = 0; i < COUNT_OF(clients); i++) {
        ck_assert_int_eq(weft_sem_wait(&conn_closed), 0);
        client_receive_all(&clients[i]);
        weft_close(clients[i].fd);
    }
    stop_server(&c.upstream);
}

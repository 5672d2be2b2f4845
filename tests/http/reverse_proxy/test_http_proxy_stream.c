/*
 * The reverse proxy: streamed bodies in both directions, truncated and stalled responses, clients
 * that disconnect, reuse of connections, and draining.
 */
#include "http/reverse_proxy/proxy_support.h"
#include "support/suite.h"

#define MIB ((size_t)1 << 20)

/* An upstream server with a handler. */
static test_server handler_server;

static void close_chain(void)
{
    chain_close();
    if (handler_server.fiber != 0)
        server_close(&handler_server);
}

FIXTURE(chain_open_hello, close_chain)

static void handler_chain_open(weft_http_handler *handler, const weft_http_proxy_options *options)
{
    static const weft_http_options o = {.limits = {.body_bytes_max = UINT64_MAX}};
    close_chain();
    server_open(&handler_server, handler, NULL, &o);
    const char *url = format("http://127.0.0.1:%d", server_port(&handler_server));
    chain_open_at(url, options);
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

/* Write the first bytes of the test stream to the client's connection, in a fiber. */
static stream_writer writer;

static weft_fiber spin_writer(size_t bytes)
{
    writer = (stream_writer){client.fd, bytes, 0};
    return weft_spin(write_stream, &writer);
}

/* Read the head of a response and check a body of the test stream. */
static void read_stream(size_t bytes, size_t piece)
{
    static unsigned char data[64 << 10];
    client_expect(&client, "\r\n\r\n");
    size_t head = (size_t)(body_of(client.received) - client.received);
    size_t done = client.received_bytes - head;
    assert_bytes_at((unsigned char *)client.received + head, done, 0);
    while (done < bytes) {
        ssize_t n = weft_read(client.fd, data, piece);
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
    while (rc >= 0 && (n = weft_http_read_piece(r, &piece)) > 0)
        rc = weft_http_write(r, piece, (size_t)n);
    return rc < 0 ? (int)rc : (int)n;
}

#define UNLIMITED                    \
    &(weft_http_proxy_options)       \
    {                                \
        .body_bytes_max = UINT64_MAX \
    }

TEST(a_response_streams_back_while_its_request_is_still_sent)
{
    handler_chain_open(echo_body, UNLIMITED);
    chain_send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 8388608\r\n\r\n");
    weft_fiber writing = spin_writer(8 * MIB);
    read_stream(8 * MIB, 64 << 10);
    ck_assert_int_eq(weft_await(writing), 0);
    ck_assert_int_eq(writer.result, 0);
    client.received_bytes = 0;
    client_send(&client, GET "Content-Length: 2\r\n\r\nhi");
    client_expect(&client, "\r\n\r\nhi");
}

/* Twice the growth of memory that memory_does_not_grow_with_a_body allows. */
#define LARGE_BYTES (32 * MIB)

static int send_large_body(weft_http_request *r, void *ctx)
{
    static unsigned char data[64 << 10];
    int rc = weft_http_begin(r, 200, (int64_t)LARGE_BYTES);
    for (size_t done = 0; rc >= 0 && done < LARGE_BYTES; done += sizeof data) {
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
    handler_chain_open(send_large_body, NULL);
    server_connect(&front, &client);
    long before = peak_kib();
    client_send(&client, GET "\r\n");
    read_stream(LARGE_BYTES, 64 << 10);
    ck_assert_int_lt(peak_kib() - before, GROWTH_KIB_MAX);

    handler_chain_open(discard_body, UNLIMITED);
    chain_send(
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 33554432\r\nConnection: close\r\n\r\n");
    ck_assert_int_eq(weft_await(spin_writer(LARGE_BYTES)), 0);
    ck_assert_int_eq(writer.result, 0);
    client_receive_all(&client);
    ck_assert_str_eq(body_of(client.received), "33554432");
    ck_assert_int_lt(peak_kib() - before, GROWTH_KIB_MAX);
}

static void assert_truncated(const char *request, const char *reply)
{
    chain_open(STEPS({.reply = reply, .closes = true}), NULL);
    chain_send(request);
    assert_client_reset();
}

#define OK_LINE "HTTP/1.1 200 OK\r\n"
#define CHUNKED OK_LINE "Transfer-Encoding: chunked\r\n\r\n"

TEST(a_truncated_response_never_looks_complete)
{
    assert_truncated(GET "\r\n", OK_LINE "Content-Length: 9\r\n\r\nhello");
    assert_truncated(GET "\r\n", CHUNKED "9\r\nhello");
    assert_truncated(GET "\r\n", CHUNKED "5\r\nhello\r\n");
    assert_truncated(GET "\r\n", CHUNKED "5\r\nhello\r\n0\r\n");
    assert_truncated("GET / HTTP/1.0\r\n\r\n", CHUNKED "5\r\nhello\r\n");
    assert_truncated(POST_CLOSE "Content-Length: 3\r\n\r\nabc", CHUNKED "5\r\nhello\r\n");
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
    static const char *const requests[] = {GET "\r\n", "GET / HTTP/1.0\r\n\r\n"};
    chain_open(STEPS({.handle = reset_within_body}, {.handle = reset_within_body},
                     {.handle = malform_chunk}),
               NULL);
    for (size_t i = 0; i < 2 * COUNT_OF(requests); i++) {
        chain_send(requests[i % COUNT_OF(requests)]);
        client_expect(&client, "hello");
        release_replies(&upstream, 1);
        assert_client_reset();
    }
}

static weft_sem conn_closed;

/* Send a part of a reply, and wait until the proxy closes the connection. */
static bool stall_within_body(script_server *sv, weft_stream *s)
{
    const void *data;
    weft_stream_puts(s, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello");
    weft_stream_flush(s);
    weft_stream_peek(s, 1, &data);
    weft_sem_post(&conn_closed);
    return false;
}

TEST(a_stalled_response_is_aborted)
{
    chain_open(STEPS({.handle = stall_within_body}), &(weft_http_proxy_options){.idle_s = 0.02});
    chain_send(GET "\r\n");
    assert_client_reset();
    ck_assert_int_eq(weft_sem_wait(&conn_closed), 0);
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
    chain_open(steps, 1, NULL);
    chain_send(GET "\r\n");
    ck_assert_int_eq(weft_sem_wait(&upstream.arrived), 0);
    drop_client();
    ck_assert_int_eq(weft_sem_wait(&conn_closed), 0);

    /* Within a request body. The proxy must not forward an end of the body. */
    chain_send("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    while (strstr(upstream.received, "3\r\nabc\r\n") == NULL)
        ck_assert_int_eq(weft_sem_wait(&upstream.arrived), 0);
    drop_client();
    ck_assert_int_eq(weft_sem_wait(&conn_closed), 0);
    ck_assert_lacks(upstream.received, "abc\r\n0");

    /* During a stalled response. */
    upstream.steps[0] = (script_step){.handle = stall_within_body};
    chain_send(GET "\r\n");
    client_expect(&client, "hello");
    drop_client();
    ck_assert_int_eq(weft_sem_wait(&conn_closed), 0);
}

static int failures;

static void count_failure(weft_http_request *r, int error, const char *message, void *ctx)
{
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
    chain_open(STEPS({.handle = hold_after_reply}),
               &(weft_http_proxy_options){.on_failure = count_failure});
    for (int i = 0; i < 20; i++) {
        chain_send(GET "\r\n");
        client_expect(&client, "hello");
        drop_client();
        release_replies(&upstream, 1);
    }
    chain_close();
    ck_assert_int_eq(failures, 0);
}

TEST(a_response_before_the_end_of_the_request_body_is_forwarded)
{
    for (int closes = 0; closes <= 1; closes++) {
        chain_open(STEPS({.reply = "HTTP/1.1 413 No\r\nContent-Length: 4\r\n\r\nmuch",
                          .is_early = true,
                          .closes = closes}),
                   UNLIMITED);
        chain_send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 16777216\r\n\r\n");
        weft_fiber writing = spin_writer(16 * MIB);
        client_expect(&client, "\r\n\r\nmuch");
        ck_assert_int_eq(status_of(client.received), 413);
        (void)weft_stop(writing, 0);
    }
}

static bool hold_without_reading(script_server *sv, weft_stream *s)
{
    return weft_sem_wait(&sv->gate) == 0;
}

TEST(an_upstream_server_that_does_not_read_the_body_is_504)
{
    chain_open(STEPS({.handle = hold_without_reading}),
               &(weft_http_proxy_options){.body_bytes_max = UINT64_MAX, .idle_s = 0.05});
    chain_send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 67108864\r\n\r\n");
    weft_fiber writing = spin_writer(64 * MIB);
    client_expect(&client, "\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), 504);
    (void)weft_stop(writing, 0);
}

/* Connections */

TEST(a_connection_to_the_upstream_server_is_reused)
{
    static const char *const requests[] = {
        GET_CLOSE "\r\n",
        POST_CLOSE "Content-Length: 3\r\n\r\nabc",
        POST_CLOSE "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        GET_CLOSE "\r\n",
    };
    for (size_t i = 0; i < 3 * COUNT_OF(requests); i++) {
        assert_reply(requests[i % COUNT_OF(requests)], 200);
    }
    ck_assert_uint_eq(upstream.requests, 3 * COUNT_OF(requests));
    ck_assert_uint_eq(upstream.conns, 1);
}

/* The upstream server reads the second request and closes the connection without a reply. */
static void assert_second_reply(const char *request, int status, size_t requests)
{
    chain_open(STEPS({.reply = OK("hello", "5")}, {.closes = true}, {.reply = OK("again", "5")}),
               NULL);
    assert_reply(GET_CLOSE "\r\n", 200);
    assert_reply(request, status);
    ck_assert_uint_eq(upstream.requests, requests);
}

TEST(only_an_idempotent_request_without_a_body_is_repeated)
{
    assert_second_reply(GET_CLOSE "\r\n", 200, 3);
    assert_second_reply(
        "DELETE / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 200, 3);
    assert_second_reply(POST_CLOSE "Content-Length: 0\r\n\r\n", 502, 2);
    assert_second_reply(POST_CLOSE "Content-Length: 3\r\n\r\nabc", 502, 2);
    assert_second_reply(
        "PUT / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc", 502, 2);
}

static int reply_path_and_body(weft_http_request *r, void *ctx)
{
    char *body;
    ssize_t n = weft_http_read_all(r, &body);
    return n < 0 ? (int)n : weft_http_reply_text(r, 200, "%s %s", weft_http_path(r), body);
}

static int correct_responses;

static weft_value post_repeatedly(void *arg)
{
    static test_client clients[40];
    test_client *own = &clients[(intptr_t)arg];
    for (int i = 0; i < 5; i++) {
        char request[200], expected[64];
        snprintf(request, sizeof request,
                 "POST /%d/%d HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: "
                 "5\r\n\r\n%05d",
                 (int)(intptr_t)arg, i, i);
        snprintf(expected, sizeof expected, "/%d/%d %05d", (int)(intptr_t)arg, i, i);
        server_connect(&front, own);
        client_send(own, request);
        correct_responses += strcmp(body_of(client_receive_all(own)), expected) == 0;
        weft_close(own->fd);
    }
    return 0;
}

TEST(concurrent_requests_get_their_own_responses)
{
    weft_fiber fibers[40];
    handler_chain_open(reply_path_and_body, &(weft_http_proxy_options){.connections_max = 8});
    for (size_t i = 0; i < COUNT_OF(fibers); i++)
        fibers[i] = weft_spin(post_repeatedly, (void *)(intptr_t)i);
    ck_assert_int_eq(weft_await_all(fibers, COUNT_OF(fibers), NULL), 0);
    ck_assert_int_eq(correct_responses, 5 * (int)COUNT_OF(fibers));
}

/* Each thread has its own connections, which are closed when the thread ends. */
static weft_value request_in_cord(void *arg)
{
    test_client *own = calloc(1, sizeof *own);
    int rc = 0;
    for (int i = 0; i < 3 && rc == 0; i++) {
        client_open(own, weft_http_serve_proxy, proxy, NULL);
        client_send(own, GET_CLOSE "\r\n");
        rc = strcmp(body_of(client_receive_all(own)), "hello") == 0 ? 0 : -EPROTO;
        client_close(own);
    }
    free(own);
    return rc;
}

TEST(several_threads_share_one_proxy)
{
    weft_cord cords[3];
    chain_request(GET_CLOSE "\r\n");
    for (size_t i = 0; i < COUNT_OF(cords); i++)
        cords[i] = weft_cord_start(request_in_cord, NULL, NULL);
    for (size_t i = 0; i < COUNT_OF(cords); i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), 0);
    ck_assert_uint_eq(upstream.requests, 10);
    ck_assert_uint_eq(upstream.conns, 4);
}

/* Draining */

static weft_value close_front(void *arg)
{
    chain_close_front();
    return 0;
}

TEST(a_draining_server_waits_for_the_response)
{
    chain_open(STEPS({.reply = OK("hello", "5"), .is_held = true}), NULL);
    chain_send(GET "\r\n");
    ck_assert_int_eq(weft_sem_wait(&upstream.arrived), 0);
    weft_fiber closing = weft_spin(close_front, NULL);
    let_run();
    release_replies(&upstream, 1);
    client_receive_all(&client);
    ck_assert_str_eq(body_of(client.received), "hello");
    ck_assert_int_eq(weft_await(closing), 0);
}

TEST(a_server_cancels_forwarded_requests_when_its_drain_time_ends)
{
    test_client clients[3];
    front_options = (weft_http_options){.drain_s = 0.02};
    chain_open(STEPS({.handle = wait_for_end}, {.handle = stall_within_body}), NULL);
    server_connect(&front, &clients[0]);
    client_send(&clients[0], GET "\r\n");
    ck_assert_int_eq(weft_sem_wait(&upstream.arrived), 0);
    server_connect(&front, &clients[1]);
    client_send(&clients[1], GET "\r\n");
    client_expect(&clients[1], "hello");
    server_connect(&front, &clients[2]);
    client_send(&clients[2], "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc");
    client_expect(&clients[2], "hello");
    chain_close_front();
    for (size_t i = 0; i < COUNT_OF(clients); i++) {
        ck_assert_int_eq(weft_sem_wait(&conn_closed), 0);
        client_receive_all(&clients[i]);
        weft_close(clients[i].fd);
    }
}

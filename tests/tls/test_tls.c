/*
 * TLS connections: traffic in both directions, orderly and abrupt closes, and cancellation in every
 * state without lost or repeated bytes.
 */
#include "support/suite.h"
#include "tls/tls_fixture.h"

/* One direction of a connection that passes through the test, a few bytes at a time. */
typedef struct forwarder {
    int from, to;
    size_t bytes; /* forwarded so far */
} forwarder;

static weft_value forward_bytes(void *arg)
{
    forwarder *r = arg;
    char data[64];
    ssize_t n;
    while ((n = weft_read(r->from, data, 1 + random_below(sizeof data))) > 0) {
        if (weft_write_all(r->to, data, (size_t)n) < 0)
            break;
        r->bytes += (size_t)n;
        (void)weft_snooze();
    }
    (void)weft_shutdown(r->to, SHUT_WR);
    return 0;
}

/* The forwarders between both ends, and the descriptors of the ends. */
static int left[2], right[2];
static forwarder to_server, to_client;
static weft_fiber forwarders[2];

/* Connect p again, over forwarders. */
static void open_forwarded(void)
{
    close_ends(&p);
    ck_assert_int_eq(weft_socketpair(left), 0);
    ck_assert_int_eq(weft_socketpair(right), 0);
    to_server = (forwarder){left[1], right[1], 0};
    to_client = (forwarder){right[1], left[1], 0};
    forwarders[0] = weft_spin(forward_bytes, &to_server);
    forwarders[1] = weft_spin(forward_bytes, &to_client);
    handshake_over(&p, left[0], right[0]);
    ck_assert_good(p.client_rc);
    ck_assert_good(p.server_rc);
}

static void stop_forwarding_to_server(void)
{
    (void)cancel_and_await(forwarders[0]);
}

static void open_default_pair(void)
{
    renew_pair(NULL, NULL);
    connect_pair();
}

static void close_connections(void)
{
    close_end(&p.client);
    close_end(&p.server);
    for (size_t i = 0; forwarders[0] != 0 && i < 2; i++) {
        (void)weft_await(forwarders[i]);
        weft_close(i == 0 ? left[1] : right[1]);
    }
    end_pair();
}

FIXTURE(open_default_pair, close_connections)

/* Replace p by a connection with TLS 1.2 or 1.3 only. */
static void open_pair_of(int version)
{
    renew_pair(&(weft_tls_options){.version_min = version, .version_max = version}, NULL);
    connect_pair();
}

TEST_LOOP(a_client_and_a_server_connect_and_exchange_lines, 2)
{
    int version = 12 + _i;
    weft_tls_info info;
    open_pair_of(version);
    assert_line_passes(&p.client, &p.server);
    assert_line_passes(&p.server, &p.client);
    ck_assert_int_eq(weft_tls_describe(&p.client, &info), 0);
    ck_assert_int_eq(info.version, version);
    ck_assert_str_eq(info.cipher,
                     version == 13 ? "TLS_AES_256_GCM_SHA384" : "ECDHE-ECDSA-AES256-GCM-SHA384");
    ck_assert_str_eq(info.server_name, "localhost");
    ck_assert_str_eq(info.peer_subject, "CN=localhost");
    ck_assert(!info.is_resumed);
    ck_assert_int_eq(weft_tls_describe(&p.server, &info), 0);
    ck_assert_str_eq(info.server_name, "localhost");
    ck_assert_str_eq(info.peer_subject, "");
}

/* A test stream that one fiber writes and another fiber checks. */
typedef struct flow {
    weft_stream *from, *to;
    size_t bytes;
    size_t piece_max;
} flow;

static weft_value write_flow(void *arg)
{
    flow *f = arg;
    unsigned char *data = malloc(f->piece_max);
    for (size_t at = 0; at < f->bytes;) {
        size_t n = 1 + random_below((unsigned)f->piece_max);
        n = n < f->bytes - at ? n : f->bytes - at;
        fill_from(data, n, at);
        ck_assert_int_eq(weft_stream_write(f->from, data, n), (ssize_t)n);
        at += n;
    }
    free(data);
    return weft_stream_flush(f->from);
}

static weft_value read_flow(void *arg)
{
    flow *f = arg;
    unsigned char *data = malloc(f->piece_max);
    for (size_t at = 0; at < f->bytes;) {
        ssize_t n = weft_stream_read(f->to, data, 1 + random_below((unsigned)f->piece_max));
        ck_assert_int_gt(n, 0);
        assert_bytes_at(data, (size_t)n, at);
        at += (size_t)n;
    }
    free(data);
    return 0;
}

TEST_LOOP(megabytes_are_sent_in_both_directions_at_once, 2)
{
    open_pair_of(12 + _i);
    flow out = {&p.client, &p.server, 3 << 20, 100000};
    flow back = {&p.server, &p.client, 3 << 20, 30000};
    weft_fiber all[] = {weft_spin(write_flow, &out), weft_spin(write_flow, &back),
                        weft_spin(read_flow, &out), weft_spin(read_flow, &back)};
    for (size_t k = 0; k < COUNT_OF(all); k++)
        ck_assert_int_eq(weft_await(all[k]), 0);
}

TEST(writev_sends_several_spans_in_order)
{
    static unsigned char data[100000];
    fill_from(data, sizeof data, 0);
    struct iovec pieces[] = {{data, 0},           {data, 1},         {data + 1, 300},
                             {data + 301, 40000}, {data + 40301, 0}, {data + 40301, 59699}};
    flow f = {&p.client, &p.server, sizeof data, 5000};
    weft_fiber reader = weft_spin(read_flow, &f);
    ck_assert_int_eq(weft_stream_writev(&p.client, pieces, COUNT_OF(pieces)), sizeof data);
    ck_assert_int_eq(weft_stream_flush(&p.client), 0);
    ck_assert_int_eq(weft_await(reader), 0);
}

/* One side of a round: writes or reads until it is done, or its scope is cancelled. */
typedef struct part {
    weft_stream *stream;
    bool is_writer;
    weft_scope scope;
    size_t at;    /* offset in the test stream */
    size_t bytes; /* maximum to write or read */
    unsigned char data[40000];
} part;

static weft_value run_part(void *arg)
{
    part *t = arg;
    unsigned char *data = t->data;
    ssize_t n = 0;
    weft_scope_open(&t->scope, INFINITY);
    for (size_t end = t->at + t->bytes; t->at < end && n >= 0; t->at += n > 0 ? (size_t)n : 0) {
        size_t bytes = 1 + random_below(sizeof t->data);
        bytes = bytes < end - t->at ? bytes : end - t->at;
        if (t->is_writer)
            fill_from(data, bytes, t->at);
        n = t->is_writer ? weft_stream_write(t->stream, data, bytes)
                         : weft_stream_read(t->stream, data, bytes);
        ck_assert(n > 0 || n == -ECANCELED);
        if (t->is_writer && random_below(4) == 0)
            ck_assert_int_ge(weft_stream_flush(t->stream), -ECANCELED);
        else if (!t->is_writer && n > 0)
            assert_bytes_at(data, (size_t)n, t->at);
    }
    weft_scope_close(&t->scope);
    return 0;
}

/* Run one side or both until they wait, then cancel them. */
static void run_round(part *writer, part *reader)
{
    unsigned sides = 1 + random_below(3);
    writer->bytes = random_below(300000);
    reader->bytes = random_below(200000);
    weft_fiber w = sides & 1 ? weft_spin(run_part, writer) : 0;
    weft_fiber r = sides & 2 ? weft_spin(run_part, reader) : 0;
    let_run();
    if (w != 0 && weft_state_of(w) == WEFT_WAITING)
        weft_scope_cancel(&writer->scope);
    if (r != 0 && weft_state_of(r) == WEFT_WAITING)
        weft_scope_cancel(&reader->scope);
    ck_assert(w == 0 || weft_await(w) == 0);
    ck_assert(r == 0 || weft_await(r) == 0);
}

FIBER(flush_stream, weft_stream_flush(arg))

/* Read all bytes that the writer has written. */
static void finish_rounds(part *writer, part *reader)
{
    weft_fiber flusher = weft_spin(flush_stream, writer->stream);
    reader->bytes = writer->at - reader->at;
    run_part(reader);
    ck_assert_int_eq(weft_await(flusher), 0);
    ck_assert_uint_eq(reader->at, writer->at);
}

TEST_LOOP(cancelled_calls_neither_lose_nor_repeat_bytes, 2)
{
    open_pair_of(12 + _i);
    part writer = {.stream = &p.client, .is_writer = true}, reader = {.stream = &p.server};
    for (int k = 0; k < 40; k++)
        run_round(&writer, &reader);
    ck_assert_uint_gt(writer.at, 1000000);
    ck_assert_uint_gt(reader.at, 100000);
    finish_rounds(&writer, &reader);
}

TEST(a_cancelled_flush_continues_with_the_next_flush)
{
    part writer = {.stream = &p.client, .is_writer = true, .bytes = 8 << 20};
    weft_fiber w = weft_spin(run_part, &writer);
    let_run();
    weft_scope_cancel(&writer.scope);
    ck_assert_int_eq(weft_await(w), 0);
    WEFT_MOVE_ON_AFTER(0)
        ck_assert_int_eq(weft_stream_flush(&p.client), -ECANCELED);
    weft_fiber flusher = spin_waiting(flush_stream, &p.client);
    part reader = {.stream = &p.server, .bytes = writer.at};
    run_part(&reader);
    ck_assert_int_eq(weft_await(flusher), 0);
}

TEST(a_write_in_a_cancelled_scope_sends_nothing)
{
    static char data[100000];
    WEFT_MOVE_ON_AFTER(0)
        ck_assert_int_eq(weft_stream_write(&p.client, data, sizeof data), -ECANCELED);
    assert_line_passes(&p.client, &p.server);
}

TEST(records_may_arrive_in_small_pieces)
{
    open_forwarded();
    part writer = {.stream = &p.client, .is_writer = true}, reader = {.stream = &p.server};
    for (int k = 0; k < 10; k++)
        run_round(&writer, &reader);
    finish_rounds(&writer, &reader);
}

TEST_LOOP(closing_one_side_is_the_end_of_input_for_the_other, 2)
{
    char data[16];
    open_pair_of(12 + _i);
    ck_assert_int_eq(weft_stream_puts(&p.client, "last"), 4);
    ck_assert_int_eq(weft_stream_close(&p.client), 0);
    ck_assert_int_eq(weft_stream_read(&p.server, data, sizeof data), 4);
    ck_assert_int_eq(weft_stream_read(&p.server, data, sizeof data), 0);
    ck_assert_int_eq(weft_stream_read(&p.server, data, sizeof data), 0);
    ck_assert_int_eq(weft_stream_wait(&p.server), 0);
}

TEST(a_close_without_close_notify_is_econnreset)
{
    char data[16];
    open_forwarded();
    assert_line_passes(&p.client, &p.server);
    stop_forwarding_to_server();
    for (int k = 0; k < 2; k++) {
        ck_assert_int_eq(weft_stream_read(&p.server, data, sizeof data), -ECONNRESET);
        ck_assert_error(-ECONNRESET, "TLS: the peer closed the connection without close_notify");
        ck_assert_int_eq(weft_stream_wait(&p.server), 0);
    }
    assert_line_passes(&p.server, &p.client); /* the other direction still works */
}

TEST(one_side_may_shut_down_before_the_other)
{
    char data[16];
    ck_assert_int_eq(weft_stream_puts(&p.client, "question\n"), 9);
    ck_assert_int_eq(weft_tls_shutdown(&p.client), 0);
    ck_assert_int_eq(weft_tls_shutdown(&p.client), 0);
    ck_assert_line(&p.server, "question");
    ck_assert_int_eq(weft_stream_read(&p.server, data, sizeof data), 0);
    assert_line_passes(&p.server, &p.client);
    ck_assert_int_eq(weft_stream_puts(&p.client, "more"), 4);
    ck_assert_int_eq(weft_stream_flush(&p.client), -EPIPE);
    ck_assert_int_eq(weft_stream_close(&p.server), 0);
    ck_assert_int_eq(weft_stream_read(&p.client, data, sizeof data), 0);
    ck_assert_int_eq(weft_stream_close(&p.client), -EPIPE);
    ck_assert_int_eq(weft_tls_shutdown(&p.client), -EBADF);
}

TEST(a_write_after_the_peer_has_closed_is_epipe)
{
    ck_assert_int_eq(weft_stream_close(&p.server), 0);
    ck_assert_int_eq(weft_stream_puts(&p.client, "anybody?"), 8);
    ck_assert_int_eq(weft_stream_flush(&p.client), -EPIPE);
    ck_assert_int_eq(weft_stream_flush(&p.client), -EPIPE);
    ck_assert_int_eq(weft_stream_close(&p.client), -EPIPE);
}

static weft_value read_stream_byte(void *arg)
{
    char byte;
    return weft_stream_read(arg, &byte, 1);
}

static weft_value write_endlessly(void *arg)
{
    static const char data[30000];
    ssize_t n;
    while ((n = weft_stream_write(arg, data, sizeof data)) == sizeof data)
        ;
    return n;
}

TEST(closing_wakes_readers_and_writers)
{
    weft_fiber reader = weft_spin(read_stream_byte, &p.client);
    weft_fiber writer = weft_spin(write_endlessly, &p.client);
    let_run();
    ck_assert_int_eq(weft_state_of(reader), WEFT_WAITING);
    ck_assert_int_eq(weft_state_of(writer), WEFT_WAITING);
    ck_assert_int_eq(weft_stream_close(&p.client), -EBADF);
    ck_assert_int_eq(weft_await(reader), -EBADF);
    weft_value result = weft_await(writer);
    ck_assert(result == -EBADF || result > 0);
}

FIBER(wait_for_stream, weft_stream_wait(arg))

TEST(waiting_for_input_ignores_records_without_application_data)
{
    /* The session tickets of the server have arrived or will arrive. */
    weft_fiber waiter = spin_waiting(wait_for_stream, &p.client);
    send_text(&p.server, "x");
    ck_assert_int_eq(weft_await(waiter), 0);
    ck_assert_int_eq(read_stream_byte(&p.client), 1);
    waiter = weft_spin(wait_for_stream, &p.client);
    let_run();
    ck_assert_int_eq(cancel_and_await(waiter), -ECANCELED);
    waiter = weft_spin(wait_for_stream, &p.client);
    let_run();
    ck_assert_int_eq(weft_stream_close(&p.server), 0);
    ck_assert_int_eq(weft_await(waiter), 0);
    ck_assert_int_eq(read_stream_byte(&p.client), 0);
}

/* One side of a handshake, in a fiber. */
typedef struct attempt {
    weft_stream stream;
    weft_tls *tls;
    int fd;
    bool is_client;
    char message[256]; /* of the error */
} attempt;

static weft_value attempt_handshake(void *arg)
{
    attempt *a = arg;
    int rc = a->is_client ? weft_tls_connect(&a->stream, a->fd, a->tls, "localhost")
                          : weft_tls_accept(&a->stream, a->fd, a->tls);
    if (rc < 0 && weft_error() != NULL)
        snprintf(a->message, sizeof a->message, "%s", weft_error()->message);
    mark(rc < 0 ? "failed" : "open");
    return rc == -ECANCELED ? 0 : rc;
}

/* Assert that the other end has closed its descriptor, possibly after an alert. */
static void assert_closed(int fd)
{
    char data[256];
    ssize_t n;
    while ((n = weft_read(fd, data, sizeof data)) > 0)
        ;
    ck_assert(n == 0 || n == -ECONNRESET);
    ck_assert_int_eq(weft_close(fd), 0);
}

TEST(a_cancelled_handshake_closes_its_descriptor)
{
    for (int k = 0; k < 4; k++) {
        int fd[2];
        ck_assert_int_eq(weft_socketpair(fd), 0);
        attempt a = {.tls = k & 1 ? p.client_tls : p.server_tls, .fd = fd[0], .is_client = k & 1};
        weft_fiber f = weft_spin(attempt_handshake, &a);
        if (k & 2) /* otherwise cancel before the handshake starts */
            let_run();
        ck_assert_int_eq(weft_cancel(f), 0);
        (void)weft_await(f);
        if (!(k & 2))
            weft_close(fd[0]);
        assert_closed(fd[1]);
        ck_assert_int_eq(weft_stream_flush(&a.stream), -EBADF);
    }
}

/* Forward a limited number of bytes in each direction, then cancel or close. */
TEST(a_handshake_may_be_cancelled_or_cut_off_after_any_number_of_bytes)
{
    for (size_t limit = 0; limit < 3000; limit += 97) {
        ck_assert_int_eq(weft_socketpair(left), 0);
        ck_assert_int_eq(weft_socketpair(right), 0);
        attempt client = {.tls = p.client_tls, .fd = left[0], .is_client = true};
        attempt server = {.tls = p.server_tls, .fd = right[0]};
        weft_fiber both[] = {weft_spin(attempt_handshake, &client),
                             weft_spin(attempt_handshake, &server)};
        char data[97];
        for (size_t passed = 0; passed < limit; passed += sizeof data) {
            let_run();
            ssize_t n = weft_recv(left[1], data, sizeof data, MSG_DONTWAIT);
            if (n > 0)
                weft_write_all(right[1], data, (size_t)n);
            n = weft_recv(right[1], data, sizeof data, MSG_DONTWAIT);
            if (n > 0)
                weft_write_all(left[1], data, (size_t)n);
        }
        let_run();
        if (limit % 2 == 0) {
            weft_cancel(both[0]);
            weft_cancel(both[1]);
        }
        weft_close(left[1]);
        weft_close(right[1]);
        for (int k = 0; k < 2; k++) {
            weft_value rc = weft_await(both[k]);
            ck_assert(rc == 0 || rc == -ECANCELED || rc == -ECONNRESET);
        }
        weft_stream_close(&client.stream);
        weft_stream_close(&server.stream);
    }
}

/* Assert the error of a handshake with a peer that sends input. message may be NULL. */
static void assert_no_handshake(bool is_client, const char *input, int code, const char *message)
{
    int fd[2];
    ck_assert_int_eq(weft_socketpair(fd), 0);
    attempt a = {
        .tls = is_client ? p.client_tls : p.server_tls, .fd = fd[0], .is_client = is_client};
    weft_fiber f = weft_spin(attempt_handshake, &a);
    ck_assert_int_eq(weft_write_all(fd[1], input, strlen(input)), (ssize_t)strlen(input));
    ck_assert_int_eq(weft_shutdown(fd[1], SHUT_WR), 0);
    ck_assert_int_eq(weft_await(f), code);
    if (message != NULL)
        ck_assert_str_eq(a.message, message);
    assert_closed(fd[1]);
}

TEST(a_peer_that_does_not_use_tls_is_refused_with_a_message)
{
    static const char closed[] = "TLS: the peer closed the connection during the handshake";
    static const char not_tls[] = "TLS: the peer does not use TLS 1.2 or 1.3";
    assert_no_handshake(false, "", -ECONNRESET, closed);
    assert_no_handshake(false, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", -EPROTO,
                        "TLS: the client sent HTTP without TLS");
    assert_no_handshake(false, "\x16\x03\x01", -ECONNRESET, closed);
    assert_no_handshake(false, "\x16\x03\x01\x02\x01\x01\x01\x01\x01\x01\x01", -ECONNRESET, closed);
    assert_no_handshake(false, "SSH-2.0-OpenSSH_9.2p1\r\n\r\n", -EPROTO, not_tls);
    assert_no_handshake(false, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                        -EPROTO, NULL);
    assert_no_handshake(true, "220 ready\r\n", -EPROTO, not_tls);
}

TEST(modified_records_end_the_connection)
{
    /* An unencrypted record, sent to the client in place of the server. */
    static const char record[] = "\x17\x03\x03\x00\x20"
                                 "0123456789abcdef0123456789abcdef";
    char data[64];
    open_forwarded();
    let_run();
    stop_forwarding_to_server();
    assert_line_passes(&p.server, &p.client);
    ck_assert_int_eq(weft_write(left[1], record, sizeof record - 1), sizeof record - 1);
    ck_assert_int_eq(weft_stream_read(&p.client, data, sizeof data), -EPROTO);
    ck_assert_error(-EPROTO, "TLS: a record was modified in transit");
    ck_assert_int_eq(weft_stream_read(&p.client, data, sizeof data), -EPROTO);
    ck_assert_int_eq(weft_stream_puts(&p.client, "x"), 1);
    ck_assert_int_eq(weft_stream_flush(&p.client), -EPROTO);
    ck_assert_int_eq(weft_stream_close(&p.client), -EPROTO);
}

TEST(invalid_calls_are_refused)
{
    weft_stream s = {0};
    weft_tls_info info;
    int fd[2];
    ck_assert_int_eq(weft_tls_accept(&s, -ENOENT, p.server_tls), -ENOENT);
    ck_assert_int_eq(weft_tls_connect(&s, -ENOENT, p.client_tls, "localhost"), -ENOENT);
    ck_assert_int_eq(weft_tls_describe(&s, &info), -EBADF);
    ck_assert_int_eq(weft_tls_shutdown(&s), -EBADF);
    for (int k = 0; k < 5; k++) {
        weft_tls *const accepting[] = {p.client_tls, NULL};
        ck_assert_int_eq(weft_socketpair(fd), 0);
        ck_assert_fails(k < 2 ? weft_tls_accept(&s, fd[0], accepting[k])
                              : weft_tls_connect(&s, fd[0], k == 2 ? p.server_tls : p.client_tls,
                                                 k == 2   ? "localhost"
                                                 : k == 3 ? NULL
                                                          : ""),
                        -EINVAL);
        assert_closed(fd[1]);
    }
    ck_assert_int_eq(weft_socketpair(fd), 0);
    ck_assert_int_eq(weft_stream_open(&s, fd[0]), 0);
    ck_assert_int_eq(weft_tls_describe(&s, &info), -EINVAL);
    ck_assert_int_eq(weft_tls_shutdown(&s), -EINVAL);
    ck_assert_int_eq(weft_stream_close(&s), 0);
    weft_close(fd[1]);
    weft_tls_free(NULL);
}

TEST(a_connection_outlives_its_weft_tls)
{
    weft_tls_free(p.client_tls);
    weft_tls_free(p.server_tls);
    assert_line_passes(&p.client, &p.server);
    assert_line_passes(&p.server, &p.client);
    p.client_tls = p.server_tls = NULL;
}

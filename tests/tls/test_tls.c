/*
 * TLS connections: traffic in both directions, orderly and abrupt closes, and cancellation in every
 * state without lost or repeated bytes.
 */
#include "support/suite.h"
#include "support/tls_support.h"

#include <openssl/ssl.h>

static const int versions[] = {12, 13};

static weft_tls_options options_of_version(int version)
{
    return (weft_tls_options){.version_min = version, .version_max = version};
}

TEST(a_client_and_a_server_connect_and_exchange_lines)
{
    for (size_t i = 0; i < COUNT_OF(versions); i++) {
        tls_pair p = {0};
        weft_tls_options options = options_of_version(versions[i]);
        open_tls_pair(&p, &options, NULL);
        weft_tls_info info;
        ck_assert_int_eq(weft_stream_puts(&p.client, "hello\n"), 6);
        ck_assert_int_eq(weft_stream_flush(&p.client), 0);
        ck_assert_line(&p.server, "hello");
        ck_assert_int_eq(weft_stream_puts(&p.server, "and you\n"), 8);
        ck_assert_int_eq(weft_stream_flush(&p.server), 0);
        ck_assert_line(&p.client, "and you");
        ck_assert_int_eq(weft_tls_describe(&p.client, &info), 0);
        ck_assert_int_eq(info.version, versions[i]);
        ck_assert_str_eq(info.cipher, versions[i] == 13 ? "TLS_AES_256_GCM_SHA384"
                                                        : "ECDHE-ECDSA-AES256-GCM-SHA384");
        ck_assert_str_eq(info.server_name, "localhost");
        ck_assert_str_eq(info.peer_subject, "CN=localhost");
        ck_assert(!info.is_resumed);
        ck_assert_int_eq(weft_tls_describe(&p.server, &info), 0);
        ck_assert_str_eq(info.server_name, "localhost");
        ck_assert_str_eq(info.peer_subject, "");
        close_tls_pair(&p);
    }
    assert_nothing_pending();
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

TEST(megabytes_are_sent_in_both_directions_at_once)
{
    for (size_t i = 0; i < COUNT_OF(versions); i++) {
        tls_pair p = {0};
        weft_tls_options options = options_of_version(versions[i]);
        open_tls_pair(&p, &options, NULL);
        flow out = {&p.client, &p.server, 3 << 20, 100000};
        flow to_client = {&p.server, &p.client, 3 << 20, 30000};
        weft_fiber all[] = {weft_spin(write_flow, &out), weft_spin(write_flow, &to_client),
                            weft_spin(read_flow, &out), weft_spin(read_flow, &to_client)};
        for (size_t k = 0; k < COUNT_OF(all); k++)
            ck_assert_int_eq(weft_await(all[k]), 0);
        close_tls_pair(&p);
    }
    assert_nothing_pending();
}

TEST(writev_sends_several_spans_in_order)
{
    tls_pair p = {0};
    open_tls_pair(&p, NULL, NULL);
    static unsigned char data[100000];
    fill_from(data, sizeof data, 0);
    struct iovec pieces[] = {{data, 0},           {data, 1},         {data + 1, 300},
                             {data + 301, 40000}, {data + 40301, 0}, {data + 40301, 59699}};
    flow f = {&p.client, &p.server, sizeof data, 5000};
    weft_fiber reader = weft_spin(read_flow, &f);
    ck_assert_int_eq(weft_stream_writev(&p.client, pieces, COUNT_OF(pieces)), sizeof data);
    ck_assert_int_eq(weft_stream_flush(&p.client), 0);
    ck_assert_int_eq(weft_await(reader), 0);
    close_tls_pair(&p);
}

/* One side of a round: writes or reads until it is done, or its scope is cancelled. */
typedef struct part {
    weft_stream *stream;
    weft_scope scope;
    size_t at;    /* offset in the test stream */
    size_t bytes; /* maximum to write or read */
} part;

static weft_value write_part(void *arg)
{
    static unsigned char data[40000];
    part *t = arg;
    ssize_t n = 0;
    weft_scope_open(&t->scope, INFINITY);
    for (size_t end = t->at + t->bytes; t->at < end && n >= 0;) {
        size_t bytes = 1 + random_below(sizeof data);
        bytes = bytes < end - t->at ? bytes : end - t->at;
        fill_from(data, bytes, t->at);
        n = weft_stream_write(t->stream, data, bytes);
        ck_assert(n > 0 || n == -ECANCELED);
        t->at += n > 0 ? (size_t)n : 0;
        if (random_below(4) == 0)
            ck_assert_int_ge(weft_stream_flush(t->stream), -ECANCELED);
    }
    weft_scope_close(&t->scope);
    return 0;
}

static weft_value read_part(void *arg)
{
    static unsigned char data[40000];
    part *t = arg;
    ssize_t n = 0;
    weft_scope_open(&t->scope, INFINITY);
    for (size_t end = t->at + t->bytes; t->at < end && n >= 0;) {
        size_t bytes = 1 + random_below(sizeof data);
        n = weft_stream_read(t->stream, data, bytes < end - t->at ? bytes : end - t->at);
        ck_assert(n > 0 || n == -ECANCELED);
        if (n > 0)
            assert_bytes_at(data, (size_t)n, t->at);
        t->at += n > 0 ? (size_t)n : 0;
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
    weft_fiber w = sides & 1 ? weft_spin(write_part, writer) : 0;
    weft_fiber r = sides & 2 ? weft_spin(read_part, reader) : 0;
    let_run();
    if (w != 0 && weft_state_of(w) == WEFT_WAITING)
        weft_scope_cancel(&writer->scope);
    if (r != 0 && weft_state_of(r) == WEFT_WAITING)
        weft_scope_cancel(&reader->scope);
    ck_assert(w == 0 || weft_await(w) == 0);
    ck_assert(r == 0 || weft_await(r) == 0);
}

static weft_value flush_stream(void *arg)
{
    return weft_stream_flush(arg);
}

TEST(cancelled_calls_neither_lose_nor_repeat_bytes)
{
    for (size_t i = 0; i < COUNT_OF(versions); i++) {
        tls_pair p = {0};
        weft_tls_options options = options_of_version(versions[i]);
        open_tls_pair(&p, &options, NULL);
        part writer = {.stream = &p.client}, reader = {.stream = &p.server};
        for (int k = 0; k < 60; k++)
            run_round(&writer, &reader);
        ck_assert_uint_gt(writer.at, 1000000);
        ck_assert_uint_gt(reader.at, 100000);
        weft_fiber flusher = weft_spin(flush_stream, &p.client);
        reader.bytes = writer.at - reader.at;
        read_part(&reader);
        ck_assert_int_eq(weft_await(flusher), 0);
        ck_assert_uint_eq(reader.at, writer.at);
        close_tls_pair(&p);
    }
    assert_nothing_pending();
}

TEST(a_cancelled_flush_continues_with_the_next_flush)
{
    tls_pair p = {0};
    open_tls_pair(&p, NULL, NULL);
    part writer = {.stream = &p.client, .bytes = 8 << 20};
    weft_fiber w = weft_spin(write_part, &writer);
    let_run();
    weft_scope_cancel(&writer.scope);
    ck_assert_int_eq(weft_await(w), 0);
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_stream_flush(&p.client), -ECANCELED);
    }
    weft_fiber flusher = weft_spin(flush_stream, &p.client);
    let_run();
    ck_assert_int_eq(weft_state_of(flusher), WEFT_WAITING);
    part reader = {.stream = &p.server, .bytes = writer.at};
    read_part(&reader);
    ck_assert_int_eq(weft_await(flusher), 0);
    close_tls_pair(&p);
}

TEST(a_write_in_a_cancelled_scope_sends_nothing)
{
    tls_pair p = {0};
    static char data[100000];
    open_tls_pair(&p, NULL, NULL);
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_stream_write(&p.client, data, sizeof data), -ECANCELED);
    }
    ck_assert_int_eq(weft_stream_puts(&p.client, "after\n"), 6);
    ck_assert_int_eq(weft_stream_flush(&p.client), 0);
    ck_assert_line(&p.server, "after");
    close_tls_pair(&p);
}

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

TEST(records_may_arrive_in_small_pieces)
{
    tls_pair p = {0};
    int left[2], right[2];
    new_tls_pair(&p, NULL, NULL);
    ck_assert_int_eq(weft_socketpair(left), 0);
    ck_assert_int_eq(weft_socketpair(right), 0);
    forwarder to_server = {left[1], right[1], 0}, to_client = {right[1], left[1], 0};
    weft_fiber forwarders[] = {weft_spin(forward_bytes, &to_server),
                               weft_spin(forward_bytes, &to_client)};
    handshake_over(&p, left[0], right[0]);
    ck_assert_good(p.client_rc);
    ck_assert_good(p.server_rc);
    part writer = {.stream = &p.client}, reader = {.stream = &p.server};
    for (int k = 0; k < 10; k++)
        run_round(&writer, &reader);
    weft_fiber flusher = weft_spin(flush_stream, &p.client);
    reader.bytes = writer.at - reader.at;
    read_part(&reader);
    ck_assert_int_eq(weft_await(flusher), 0);
    close_tls_pair(&p);
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(weft_await(forwarders[i]), 0);
    weft_close(left[1]);
    weft_close(right[1]);
}

TEST(closing_one_side_is_the_end_of_input_for_the_other)
{
    for (size_t i = 0; i < COUNT_OF(versions); i++) {
        tls_pair p = {0};
        weft_tls_options options = options_of_version(versions[i]);
        char data[16];
        open_tls_pair(&p, &options, NULL);
        ck_assert_int_eq(weft_stream_puts(&p.client, "last"), 4);
        ck_assert_int_eq(weft_stream_close(&p.client), 0);
        ck_assert_int_eq(weft_stream_read(&p.server, data, sizeof data), 4);
        ck_assert_int_eq(weft_stream_read(&p.server, data, sizeof data), 0);
        ck_assert_int_eq(weft_stream_read(&p.server, data, sizeof data), 0);
        ck_assert_int_eq(weft_stream_wait(&p.server), 0);
        ck_assert_int_eq(weft_stream_close(&p.server), 0);
        free_tls_pair(&p);
    }
}

TEST(a_close_without_close_notify_is_econnreset)
{
    tls_pair p = {0};
    char data[16];
    int left[2], right[2];
    new_tls_pair(&p, NULL, NULL);
    ck_assert_int_eq(weft_socketpair(left), 0);
    ck_assert_int_eq(weft_socketpair(right), 0);
    forwarder to_server = {left[1], right[1], 0}, to_client = {right[1], left[1], 0};
    weft_fiber forwarders[] = {weft_spin(forward_bytes, &to_server),
                               weft_spin(forward_bytes, &to_client)};
    handshake_over(&p, left[0], right[0]);
    ck_assert_int_eq(weft_stream_puts(&p.client, "last"), 4);
    ck_assert_int_eq(weft_stream_flush(&p.client), 0);
    ck_assert_int_eq(weft_stream_read(&p.server, data, sizeof data), 4);
    ck_assert_int_eq(weft_cancel(forwarders[0]), 0);
    (void)weft_await(forwarders[0]);
    for (int k = 0; k < 2; k++) {
        ck_assert_int_eq(weft_stream_read(&p.server, data, sizeof data), -ECONNRESET);
        ck_assert_error(-ECONNRESET, "TLS: the peer closed the connection without close_notify");
        ck_assert_int_eq(weft_stream_wait(&p.server), 0);
    }
    /* The other direction still works. */
    ck_assert_int_eq(weft_stream_puts(&p.server, "still here\n"), 11);
    ck_assert_int_eq(weft_stream_flush(&p.server), 0);
    ck_assert_line(&p.client, "still here");
    close_tls_pair(&p);
    (void)weft_await(forwarders[1]);
    weft_close(left[1]);
    weft_close(right[1]);
}

TEST(one_side_may_shut_down_before_the_other)
{
    tls_pair p = {0};
    char data[16];
    open_tls_pair(&p, NULL, NULL);
    ck_assert_int_eq(weft_stream_puts(&p.client, "question\n"), 9);
    ck_assert_int_eq(weft_tls_shutdown(&p.client), 0);
    ck_assert_int_eq(weft_tls_shutdown(&p.client), 0);
    ck_assert_line(&p.server, "question");
    ck_assert_int_eq(weft_stream_read(&p.server, data, sizeof data), 0);
    ck_assert_int_eq(weft_stream_puts(&p.server, "answer\n"), 7);
    ck_assert_int_eq(weft_stream_flush(&p.server), 0);
    ck_assert_line(&p.client, "answer");
    ck_assert_int_eq(weft_stream_puts(&p.client, "more"), 4);
    ck_assert_int_eq(weft_stream_flush(&p.client), -EPIPE);
    ck_assert_int_eq(weft_stream_close(&p.server), 0);
    ck_assert_int_eq(weft_stream_read(&p.client, data, sizeof data), 0);
    ck_assert_int_eq(weft_stream_close(&p.client), -EPIPE);
    ck_assert_int_eq(weft_tls_shutdown(&p.client), -EBADF);
    free_tls_pair(&p);
}

TEST(a_write_after_the_peer_has_closed_is_epipe)
{
    tls_pair p = {0};
    open_tls_pair(&p, NULL, NULL);
    ck_assert_int_eq(weft_stream_close(&p.server), 0);
    ck_assert_int_eq(weft_stream_puts(&p.client, "anybody?"), 8);
    ck_assert_int_eq(weft_stream_flush(&p.client), -EPIPE);
    ck_assert_int_eq(weft_stream_flush(&p.client), -EPIPE);
    ck_assert_int_eq(weft_stream_close(&p.client), -EPIPE);
    free_tls_pair(&p);
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
    tls_pair p = {0};
    open_tls_pair(&p, NULL, NULL);
    weft_fiber reader = weft_spin(read_stream_byte, &p.client);
    weft_fiber writer = weft_spin(write_endlessly, &p.client);
    let_run();
    ck_assert_int_eq(weft_state_of(reader), WEFT_WAITING);
    ck_assert_int_eq(weft_state_of(writer), WEFT_WAITING);
    ck_assert_int_eq(weft_stream_close(&p.client), -EBADF);
    ck_assert_int_eq(weft_await(reader), -EBADF);
    weft_value result = weft_await(writer);
    ck_assert(result == -EBADF || result > 0);
    ck_assert_int_eq(weft_stream_close(&p.server), 0);
    free_tls_pair(&p);
    assert_nothing_pending();
}

static weft_value wait_for_stream(void *arg)
{
    return weft_stream_wait(arg);
}

TEST(waiting_for_input_ignores_records_without_application_data)
{
    tls_pair p = {0};
    open_tls_pair(&p, NULL, NULL);
    /* The session tickets of the server have arrived or will arrive. */
    weft_fiber waiter = weft_spin(wait_for_stream, &p.client);
    let_run();
    ck_assert_int_eq(weft_state_of(waiter), WEFT_WAITING);
    ck_assert_int_eq(weft_stream_puts(&p.server, "x"), 1);
    ck_assert_int_eq(weft_stream_flush(&p.server), 0);
    ck_assert_int_eq(weft_await(waiter), 0);
    ck_assert_int_eq(read_stream_byte(&p.client), 1);
    waiter = weft_spin(wait_for_stream, &p.client);
    let_run();
    ck_assert_int_eq(weft_cancel(waiter), 0);
    ck_assert_int_eq(weft_await(waiter), -ECANCELED);
    waiter = weft_spin(wait_for_stream, &p.client);
    let_run();
    ck_assert_int_eq(weft_stream_close(&p.server), 0);
    ck_assert_int_eq(weft_await(waiter), 0);
    ck_assert_int_eq(read_stream_byte(&p.client), 0);
    ck_assert_int_eq(weft_stream_close(&p.client), 0);
    free_tls_pair(&p);
    assert_nothing_pending();
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
    tls_pair p = {0};
    new_tls_pair(&p, NULL, NULL);
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
    free_tls_pair(&p);
    assert_nothing_pending();
}

/* Forward a limited number of bytes in each direction, then cancel or close. */
TEST(a_handshake_may_be_cancelled_or_cut_off_after_any_number_of_bytes)
{
    tls_pair p = {0};
    new_tls_pair(&p, NULL, NULL);
    for (size_t limit = 0; limit < 3000; limit += 97) {
        int left[2], right[2];
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
    free_tls_pair(&p);
    assert_nothing_pending();
}

/* Input of clients that do not use TLS, and the error of the server. */
static const struct {
    const char *input;
    int code;
    const char *message; /* NULL: any */
} bad_clients[] = {
    {"", -ECONNRESET, "TLS: the peer closed the connection during the handshake"},
    {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", -EPROTO, "TLS: the client sent HTTP without TLS"},
    {"\x16\x03\x01", -ECONNRESET, "TLS: the peer closed the connection during the handshake"},
    {"\x16\x03\x01\x02\x01\x01\x01\x01\x01\x01\x01", -ECONNRESET,
     "TLS: the peer closed the connection during the handshake"},
    {"SSH-2.0-OpenSSH_9.2p1\r\n\r\n", -EPROTO, "TLS: the peer does not use TLS 1.2 or 1.3"},
    {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", -EPROTO, NULL},
};

TEST(a_client_that_does_not_use_tls_is_refused_with_a_message)
{
    tls_pair p = {0};
    new_tls_pair(&p, NULL, NULL);
    for (size_t i = 0; i < COUNT_OF(bad_clients); i++) {
        int fd[2];
        size_t bytes = strlen(bad_clients[i].input);
        ck_assert_int_eq(weft_socketpair(fd), 0);
        attempt a = {.tls = p.server_tls, .fd = fd[0]};
        weft_fiber f = weft_spin(attempt_handshake, &a);
        if (bytes > 0)
            ck_assert_int_eq(weft_write(fd[1], bad_clients[i].input, bytes), (ssize_t)bytes);
        ck_assert_int_eq(weft_shutdown(fd[1], SHUT_WR), 0);
        ck_assert_int_eq(weft_await(f), bad_clients[i].code);
        if (bad_clients[i].message != NULL)
            ck_assert_str_eq(a.message, bad_clients[i].message);
        assert_closed(fd[1]);
    }
    free_tls_pair(&p);
}

TEST(a_server_that_does_not_use_tls_is_refused_with_a_message)
{
    tls_pair p = {0};
    int fd[2];
    new_tls_pair(&p, NULL, NULL);
    ck_assert_int_eq(weft_socketpair(fd), 0);
    attempt a = {.tls = p.client_tls, .fd = fd[0], .is_client = true};
    weft_fiber f = weft_spin(attempt_handshake, &a);
    ck_assert_int_eq(weft_write(fd[1], "220 ready\r\n", 11), 11);
    ck_assert_int_eq(weft_await(f), -EPROTO);
    ck_assert_str_eq(a.message, "TLS: the peer does not use TLS 1.2 or 1.3");
    assert_closed(fd[1]);
    free_tls_pair(&p);
}

TEST(modified_records_end_the_connection)
{
    tls_pair p = {0};
    char data[64];
    int left[2], right[2];
    new_tls_pair(&p, NULL, NULL);
    ck_assert_int_eq(weft_socketpair(left), 0);
    ck_assert_int_eq(weft_socketpair(right), 0);
    forwarder to_server = {left[1], right[1], 0}, to_client = {right[1], left[1], 0};
    weft_fiber forwarders[] = {weft_spin(forward_bytes, &to_server),
                               weft_spin(forward_bytes, &to_client)};
    handshake_over(&p, left[0], right[0]);
    let_run();
    ck_assert_int_eq(weft_cancel(forwarders[0]), 0);
    (void)weft_await(forwarders[0]);
    ck_assert_int_eq(weft_stream_puts(&p.server, "before"), 6);
    ck_assert_int_eq(weft_stream_flush(&p.server), 0);
    ck_assert_int_eq(weft_stream_read(&p.client, data, sizeof data), 6);
    /* An unencrypted record, sent to the client in place of the server. */
    ck_assert_int_eq(weft_write(left[1],
                                "\x17\x03\x03\x00\x20"
                                "0123456789abcdef0123456789abcdef",
                                37),
                     37);
    ck_assert_int_eq(weft_stream_read(&p.client, data, sizeof data), -EPROTO);
    ck_assert_error(-EPROTO, "TLS: a record was modified in transit");
    ck_assert_int_eq(weft_stream_read(&p.client, data, sizeof data), -EPROTO);
    ck_assert_int_eq(weft_stream_puts(&p.client, "x"), 1);
    ck_assert_int_eq(weft_stream_flush(&p.client), -EPROTO);
    ck_assert_int_eq(weft_stream_close(&p.client), -EPROTO);
    ck_assert_int_eq(weft_stream_close(&p.server), 0);
    (void)weft_await(forwarders[1]);
    weft_close(left[1]);
    weft_close(right[1]);
    free_tls_pair(&p);
}

TEST(invalid_calls_are_refused)
{
    tls_pair p = {0};
    weft_stream s = {0};
    weft_tls_info info;
    int fd[2];
    new_tls_pair(&p, NULL, NULL);
    ck_assert_int_eq(weft_tls_accept(&s, -ENOENT, p.server_tls), -ENOENT);
    ck_assert_int_eq(weft_tls_connect(&s, -ENOENT, p.client_tls, "localhost"), -ENOENT);
    ck_assert_int_eq(weft_tls_describe(&s, &info), -EBADF);
    ck_assert_int_eq(weft_tls_shutdown(&s), -EBADF);
    for (int k = 0; k < 5; k++) {
        ck_assert_int_eq(weft_socketpair(fd), 0);
        ck_assert_int_eq(k == 0   ? weft_tls_accept(&s, fd[0], p.client_tls)
                         : k == 1 ? weft_tls_accept(&s, fd[0], NULL)
                         : k == 2 ? weft_tls_connect(&s, fd[0], p.server_tls, "localhost")
                         : k == 3 ? weft_tls_connect(&s, fd[0], p.client_tls, NULL)
                                  : weft_tls_connect(&s, fd[0], p.client_tls, ""),
                         -EINVAL);
        ck_assert_any_error(-EINVAL);
        assert_closed(fd[1]);
    }
    ck_assert_int_eq(weft_socketpair(fd), 0);
    ck_assert_int_eq(weft_stream_open(&s, fd[0]), 0);
    ck_assert_int_eq(weft_tls_describe(&s, &info), -EINVAL);
    ck_assert_int_eq(weft_tls_shutdown(&s), -EINVAL);
    ck_assert_int_eq(weft_stream_close(&s), 0);
    weft_close(fd[1]);
    weft_tls_free(NULL);
    free_tls_pair(&p);
}

TEST(a_connection_outlives_its_weft_tls)
{
    tls_pair p = {0};
    open_tls_pair(&p, NULL, NULL);
    weft_tls_free(p.client_tls);
    weft_tls_free(p.server_tls);
    ck_assert_int_eq(weft_stream_puts(&p.client, "hello\n"), 6);
    ck_assert_int_eq(weft_stream_flush(&p.client), 0);
    ck_assert_line(&p.server, "hello");
    ck_assert_int_eq(weft_stream_puts(&p.server, "hello\n"), 6);
    ck_assert_int_eq(weft_stream_flush(&p.server), 0);
    ck_assert_line(&p.client, "hello");
    p.client_tls = p.server_tls = NULL;
    close_tls_pair(&p);
}

static int close_result_at_exit; /* the expected result of weft_stream_close */

static weft_value close_at_exit(void *arg)
{
    weft_value rc = weft_suspend();
    int result = weft_stream_close(arg);
    if (result != close_result_at_exit)
        fprintf(stderr, "weft_stream_close returned %d\n", result);
    return rc;
}

static weft_value write_until_exit(void *arg)
{
    (void)write_endlessly(arg);
    return 0;
}

static int exit_with_connections(void)
{
    static tls_pair p;
    open_tls_pair(&p, NULL, NULL);
    weft_spin(close_at_exit, &p.client);
    weft_spin(write_until_exit, &p.server);
    let_run();
    return 0;
}

/* The cleanup of OpenSSL then runs before that of weft. */
static int exit_after_openssl(void)
{
    weft_self();
    OPENSSL_init_ssl(0, NULL);
    close_result_at_exit = -EBADF;
    return exit_with_connections();
}

TEST(a_process_may_exit_with_open_connections)
{
    assert_silent(run_apart(exit_with_connections), 0);
    if (!is_sanitized()) /* LeakSanitizer reports memory that OpenSSL no longer references */
        assert_silent(run_apart(exit_after_openssl), 0);
}

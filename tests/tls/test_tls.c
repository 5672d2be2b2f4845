/*
 * TLS connections: bytes in both directions, endings of every kind, and calls that are cut short in
 * every state without a byte lost or doubled.
 */
#include "tls_support.h"

#include <openssl/ssl.h>

static const int versions[] = {12, 13};

static weft_tls_options of_version(int version)
{
    return (weft_tls_options){.version_min = version, .version_max = version};
}

START_TEST(a_client_and_a_server_shake_hands_and_talk)
{
    for (size_t i = 0; i < COUNT_OF(versions); i++) {
        pair p = {0};
        weft_tls_options options = of_version(versions[i]);
        open_pair(&p, &options, NULL);
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
        close_pair(&p);
    }
    assert_nothing_pending();
}
END_TEST

/* A stream of byte_at, written by one fiber and checked by another one. */
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

START_TEST(megabytes_go_in_both_directions_at_once)
{
    for (size_t i = 0; i < COUNT_OF(versions); i++) {
        pair p = {0};
        weft_tls_options options = of_version(versions[i]);
        open_pair(&p, &options, NULL);
        flow out = {&p.client, &p.server, 3 << 20, 100000};
        flow back = {&p.server, &p.client, 3 << 20, 30000};
        weft_fiber all[] = {weft_spin(write_flow, &out), weft_spin(write_flow, &back),
                            weft_spin(read_flow, &out), weft_spin(read_flow, &back)};
        for (size_t k = 0; k < COUNT_OF(all); k++)
            ck_assert_int_eq(weft_await(all[k]), 0);
        close_pair(&p);
    }
    assert_nothing_pending();
}
END_TEST

START_TEST(several_pieces_arrive_in_a_row)
{
    pair p = {0};
    open_pair(&p, NULL, NULL);
    static unsigned char data[100000];
    fill_from(data, sizeof data, 0);
    struct iovec pieces[] = {{data, 0},           {data, 1},         {data + 1, 300},
                             {data + 301, 40000}, {data + 40301, 0}, {data + 40301, 59699}};
    flow f = {&p.client, &p.server, sizeof data, 5000};
    weft_fiber reader = weft_spin(read_flow, &f);
    ck_assert_int_eq(weft_stream_writev(&p.client, pieces, COUNT_OF(pieces)), sizeof data);
    ck_assert_int_eq(weft_stream_flush(&p.client), 0);
    ck_assert_int_eq(weft_await(reader), 0);
    close_pair(&p);
}
END_TEST

/* One side's part of a round: it goes on until it is done, or its scope is cancelled. */
typedef struct part {
    weft_stream *stream;
    weft_scope scope;
    size_t at;    /* in the stream of byte_at */
    size_t bytes; /* to write or read, at most */
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

/* Let one side go on, or both, as far as they come, then cut them short. */
static void play_round(part *writer, part *reader)
{
    unsigned who = 1 + random_below(3);
    writer->bytes = random_below(300000);
    reader->bytes = random_below(200000);
    weft_fiber w = who & 1 ? weft_spin(write_part, writer) : 0;
    weft_fiber r = who & 2 ? weft_spin(read_part, reader) : 0;
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

START_TEST(calls_that_are_cancelled_lose_and_double_nothing)
{
    for (size_t i = 0; i < COUNT_OF(versions); i++) {
        pair p = {0};
        weft_tls_options options = of_version(versions[i]);
        open_pair(&p, &options, NULL);
        part writer = {.stream = &p.client}, reader = {.stream = &p.server};
        for (int k = 0; k < 60; k++)
            play_round(&writer, &reader);
        ck_assert_uint_gt(writer.at, 1000000);
        ck_assert_uint_gt(reader.at, 100000);
        weft_fiber flusher = weft_spin(flush_stream, &p.client);
        reader.bytes = writer.at - reader.at;
        read_part(&reader);
        ck_assert_int_eq(weft_await(flusher), 0);
        ck_assert_uint_eq(reader.at, writer.at);
        close_pair(&p);
    }
    assert_nothing_pending();
}
END_TEST

START_TEST(a_flush_that_is_cancelled_is_not_said_to_be_done)
{
    pair p = {0};
    open_pair(&p, NULL, NULL);
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
    close_pair(&p);
}
END_TEST

START_TEST(nothing_is_taken_from_one_who_is_cancelled)
{
    pair p = {0};
    static char data[100000];
    open_pair(&p, NULL, NULL);
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_stream_write(&p.client, data, sizeof data), -ECANCELED);
    }
    ck_assert_int_eq(weft_stream_puts(&p.client, "after\n"), 6);
    ck_assert_int_eq(weft_stream_flush(&p.client), 0);
    ck_assert_line(&p.server, "after");
    close_pair(&p);
}
END_TEST

/* A connection whose bytes pass through the test, a few at a time. */
typedef struct relay {
    int from, to;
    size_t bytes; /* that have passed */
} relay;

static weft_value relay_bytes(void *arg)
{
    relay *r = arg;
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

START_TEST(records_may_come_in_the_smallest_pieces)
{
    pair p = {0};
    int left[2], right[2];
    make_sides(&p, NULL, NULL);
    ck_assert_int_eq(weft_socketpair(left), 0);
    ck_assert_int_eq(weft_socketpair(right), 0);
    relay there = {left[1], right[1], 0}, back = {right[1], left[1], 0};
    weft_fiber relays[] = {weft_spin(relay_bytes, &there), weft_spin(relay_bytes, &back)};
    shake_over(&p, left[0], right[0]);
    ck_assert_good(p.client_rc);
    ck_assert_good(p.server_rc);
    part writer = {.stream = &p.client}, reader = {.stream = &p.server};
    for (int k = 0; k < 10; k++)
        play_round(&writer, &reader);
    weft_fiber flusher = weft_spin(flush_stream, &p.client);
    reader.bytes = writer.at - reader.at;
    read_part(&reader);
    ck_assert_int_eq(weft_await(flusher), 0);
    close_pair(&p);
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(weft_await(relays[i]), 0);
    weft_close(left[1]);
    weft_close(right[1]);
}
END_TEST

START_TEST(the_end_of_the_other_side_is_the_end_of_the_input)
{
    for (size_t i = 0; i < COUNT_OF(versions); i++) {
        pair p = {0};
        weft_tls_options options = of_version(versions[i]);
        char data[16];
        open_pair(&p, &options, NULL);
        ck_assert_int_eq(weft_stream_puts(&p.client, "last"), 4);
        ck_assert_int_eq(weft_stream_close(&p.client), 0);
        ck_assert_int_eq(weft_stream_read(&p.server, data, sizeof data), 4);
        ck_assert_int_eq(weft_stream_read(&p.server, data, sizeof data), 0);
        ck_assert_int_eq(weft_stream_read(&p.server, data, sizeof data), 0);
        ck_assert_int_eq(weft_stream_wait(&p.server), 0);
        ck_assert_int_eq(weft_stream_close(&p.server), 0);
        free_sides(&p);
    }
}
END_TEST

START_TEST(a_connection_that_ends_without_a_last_word_is_cut_off)
{
    pair p = {0};
    char data[16];
    int left[2], right[2];
    make_sides(&p, NULL, NULL);
    ck_assert_int_eq(weft_socketpair(left), 0);
    ck_assert_int_eq(weft_socketpair(right), 0);
    relay there = {left[1], right[1], 0}, back = {right[1], left[1], 0};
    weft_fiber relays[] = {weft_spin(relay_bytes, &there), weft_spin(relay_bytes, &back)};
    shake_over(&p, left[0], right[0]);
    ck_assert_int_eq(weft_stream_puts(&p.client, "last"), 4);
    ck_assert_int_eq(weft_stream_flush(&p.client), 0);
    ck_assert_int_eq(weft_stream_read(&p.server, data, sizeof data), 4);
    ck_assert_int_eq(weft_cancel(relays[0]), 0);
    (void)weft_await(relays[0]);
    for (int k = 0; k < 2; k++) {
        ck_assert_int_eq(weft_stream_read(&p.server, data, sizeof data), -ECONNRESET);
        ck_assert_words(-ECONNRESET, "TLS: the connection was closed without a last word");
        ck_assert_int_eq(weft_stream_wait(&p.server), 0);
    }
    /* The other direction is not concerned. */
    ck_assert_int_eq(weft_stream_puts(&p.server, "still here\n"), 11);
    ck_assert_int_eq(weft_stream_flush(&p.server), 0);
    ck_assert_line(&p.client, "still here");
    close_pair(&p);
    (void)weft_await(relays[1]);
    weft_close(left[1]);
    weft_close(right[1]);
}
END_TEST

START_TEST(one_side_may_end_before_the_other)
{
    pair p = {0};
    char data[16];
    open_pair(&p, NULL, NULL);
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
    free_sides(&p);
}
END_TEST

START_TEST(a_write_to_one_who_is_gone_fails)
{
    pair p = {0};
    open_pair(&p, NULL, NULL);
    ck_assert_int_eq(weft_stream_close(&p.server), 0);
    ck_assert_int_eq(weft_stream_puts(&p.client, "anybody?"), 8);
    ck_assert_int_eq(weft_stream_flush(&p.client), -EPIPE);
    ck_assert_int_eq(weft_stream_flush(&p.client), -EPIPE);
    ck_assert_int_eq(weft_stream_close(&p.client), -EPIPE);
    free_sides(&p);
}
END_TEST

static weft_value read_byte(void *arg)
{
    char byte;
    return weft_stream_read(arg, &byte, 1);
}

static weft_value write_without_end(void *arg)
{
    static const char data[30000];
    ssize_t n;
    while ((n = weft_stream_write(arg, data, sizeof data)) == sizeof data)
        ;
    return n;
}

START_TEST(closing_wakes_those_who_read_and_write)
{
    pair p = {0};
    open_pair(&p, NULL, NULL);
    weft_fiber reader = weft_spin(read_byte, &p.client);
    weft_fiber writer = weft_spin(write_without_end, &p.client);
    let_run();
    ck_assert_int_eq(weft_state_of(reader), WEFT_WAITING);
    ck_assert_int_eq(weft_state_of(writer), WEFT_WAITING);
    ck_assert_int_eq(weft_stream_close(&p.client), -EBADF);
    ck_assert_int_eq(weft_await(reader), -EBADF);
    weft_value said = weft_await(writer);
    ck_assert(said == -EBADF || said > 0);
    ck_assert_int_eq(weft_stream_close(&p.server), 0);
    free_sides(&p);
    assert_nothing_pending();
}
END_TEST

static weft_value wait_for_stream(void *arg)
{
    return weft_stream_wait(arg);
}

START_TEST(waiting_for_input_is_not_over_with_what_is_for_tls_alone)
{
    pair p = {0};
    open_pair(&p, NULL, NULL);
    /* The server's tickets are here, or come. */
    weft_fiber waiter = weft_spin(wait_for_stream, &p.client);
    let_run();
    ck_assert_int_eq(weft_state_of(waiter), WEFT_WAITING);
    ck_assert_int_eq(weft_stream_puts(&p.server, "x"), 1);
    ck_assert_int_eq(weft_stream_flush(&p.server), 0);
    ck_assert_int_eq(weft_await(waiter), 0);
    ck_assert_int_eq(read_byte(&p.client), 1);
    waiter = weft_spin(wait_for_stream, &p.client);
    let_run();
    ck_assert_int_eq(weft_cancel(waiter), 0);
    ck_assert_int_eq(weft_await(waiter), -ECANCELED);
    waiter = weft_spin(wait_for_stream, &p.client);
    let_run();
    ck_assert_int_eq(weft_stream_close(&p.server), 0);
    ck_assert_int_eq(weft_await(waiter), 0);
    ck_assert_int_eq(read_byte(&p.client), 0);
    ck_assert_int_eq(weft_stream_close(&p.client), 0);
    free_sides(&p);
    assert_nothing_pending();
}
END_TEST

/* A handshake by itself. */
typedef struct attempt {
    weft_stream stream;
    weft_tls *tls;
    int fd;
    bool is_client;
    char words[256];
} attempt;

static weft_value attempt_handshake(void *arg)
{
    attempt *a = arg;
    int rc = a->is_client ? weft_tls_connect(&a->stream, a->fd, a->tls, "localhost")
                          : weft_tls_accept(&a->stream, a->fd, a->tls);
    if (rc < 0 && weft_error() != NULL)
        snprintf(a->words, sizeof a->words, "%s", weft_error()->message);
    mark(rc < 0 ? "failed" : "open");
    return rc == -ECANCELED ? 0 : rc;
}

/* The descriptor is closed: the other end finds the end, or an alert and the end. */
static void assert_hung_up(int fd)
{
    char data[256];
    ssize_t n;
    while ((n = weft_read(fd, data, sizeof data)) > 0)
        ;
    ck_assert(n == 0 || n == -ECONNRESET);
    ck_assert_int_eq(weft_close(fd), 0);
}

START_TEST(a_handshake_that_is_cancelled_closes_its_descriptor)
{
    pair p = {0};
    make_sides(&p, NULL, NULL);
    for (int k = 0; k < 4; k++) {
        int fd[2];
        ck_assert_int_eq(weft_socketpair(fd), 0);
        attempt a = {.tls = k & 1 ? p.client_tls : p.server_tls, .fd = fd[0], .is_client = k & 1};
        weft_fiber f = weft_spin(attempt_handshake, &a);
        if (k & 2) /* else before it has begun */
            let_run();
        ck_assert_int_eq(weft_cancel(f), 0);
        (void)weft_await(f);
        if (!(k & 2))
            weft_close(fd[0]);
        assert_hung_up(fd[1]);
        ck_assert_int_eq(weft_stream_flush(&a.stream), -EBADF);
    }
    free_sides(&p);
    assert_nothing_pending();
}
END_TEST

/* Pass on so many bytes of a handshake in each direction, then nothing. */
START_TEST(a_handshake_may_be_cancelled_or_cut_at_any_byte)
{
    pair p = {0};
    make_sides(&p, NULL, NULL);
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
    free_sides(&p);
    assert_nothing_pending();
}
END_TEST

/* What a client that does not speak TLS says, and what is said of it. */
static const struct {
    const char *said;
    int code;
    const char *words;
} strangers[] = {
    {"", -ECONNRESET, "TLS: the other side hung up during the handshake"},
    {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", -EPROTO, "TLS: a request of HTTP without TLS"},
    {"\x16\x03\x01", -ECONNRESET, "TLS: the other side hung up during the handshake"},
    {"\x16\x03\x01\x02\x01\x01\x01\x01\x01\x01\x01", -ECONNRESET,
     "TLS: the other side hung up during the handshake"},
    {"SSH-2.0-OpenSSH_9.2p1\r\n\r\n", -EPROTO,
     "TLS: the other side does not speak TLS, or not 1.2 or 1.3"},
    {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", -EPROTO, NULL},
};

START_TEST(whoever_does_not_speak_tls_is_refused_with_words)
{
    pair p = {0};
    make_sides(&p, NULL, NULL);
    for (size_t i = 0; i < COUNT_OF(strangers); i++) {
        int fd[2];
        size_t bytes = strlen(strangers[i].said);
        ck_assert_int_eq(weft_socketpair(fd), 0);
        attempt a = {.tls = p.server_tls, .fd = fd[0]};
        weft_fiber f = weft_spin(attempt_handshake, &a);
        if (bytes > 0)
            ck_assert_int_eq(weft_write(fd[1], strangers[i].said, bytes), (ssize_t)bytes);
        ck_assert_int_eq(weft_shutdown(fd[1], SHUT_WR), 0);
        ck_assert_int_eq(weft_await(f), strangers[i].code);
        if (strangers[i].words != NULL)
            ck_assert_str_eq(a.words, strangers[i].words);
        assert_hung_up(fd[1]);
    }
    free_sides(&p);
}
END_TEST

START_TEST(a_server_that_does_not_speak_tls_is_refused_with_words)
{
    pair p = {0};
    int fd[2];
    make_sides(&p, NULL, NULL);
    ck_assert_int_eq(weft_socketpair(fd), 0);
    attempt a = {.tls = p.client_tls, .fd = fd[0], .is_client = true};
    weft_fiber f = weft_spin(attempt_handshake, &a);
    ck_assert_int_eq(weft_write(fd[1], "220 ready\r\n", 11), 11);
    ck_assert_int_eq(weft_await(f), -EPROTO);
    ck_assert_str_eq(a.words, "TLS: the other side does not speak TLS, or not 1.2 or 1.3");
    assert_hung_up(fd[1]);
    free_sides(&p);
}
END_TEST

START_TEST(bytes_that_were_changed_on_their_way_end_the_connection)
{
    pair p = {0};
    char data[64];
    int left[2], right[2];
    make_sides(&p, NULL, NULL);
    ck_assert_int_eq(weft_socketpair(left), 0);
    ck_assert_int_eq(weft_socketpair(right), 0);
    relay there = {left[1], right[1], 0}, back = {right[1], left[1], 0};
    weft_fiber relays[] = {weft_spin(relay_bytes, &there), weft_spin(relay_bytes, &back)};
    shake_over(&p, left[0], right[0]);
    let_run();
    ck_assert_int_eq(weft_cancel(relays[0]), 0);
    (void)weft_await(relays[0]);
    ck_assert_int_eq(weft_stream_puts(&p.server, "before"), 6);
    /*
     * A record that nobody has encrypted. The relay has ended that direction; so from the client.
     */
    ck_assert_int_eq(weft_stream_flush(&p.server), 0);
    ck_assert_int_eq(weft_stream_read(&p.client, data, sizeof data), 6);
    ck_assert_int_eq(weft_write(left[1],
                                "\x17\x03\x03\x00\x20"
                                "0123456789abcdef0123456789abcdef",
                                37),
                     37);
    ck_assert_int_eq(weft_stream_read(&p.client, data, sizeof data), -EPROTO);
    ck_assert_words(-EPROTO, "TLS: what came has been changed on its way");
    ck_assert_int_eq(weft_stream_read(&p.client, data, sizeof data), -EPROTO);
    ck_assert_int_eq(weft_stream_puts(&p.client, "x"), 1);
    ck_assert_int_eq(weft_stream_flush(&p.client), -EPROTO);
    ck_assert_int_eq(weft_stream_close(&p.client), -EPROTO);
    ck_assert_int_eq(weft_stream_close(&p.server), 0);
    (void)weft_await(relays[1]);
    weft_close(left[1]);
    weft_close(right[1]);
    free_sides(&p);
}
END_TEST

START_TEST(calls_that_make_no_sense_are_refused)
{
    pair p = {0};
    weft_stream s = {0};
    weft_tls_info info;
    int fd[2];
    make_sides(&p, NULL, NULL);
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
        ck_assert_any_words(-EINVAL);
        assert_hung_up(fd[1]);
    }
    ck_assert_int_eq(weft_socketpair(fd), 0);
    ck_assert_int_eq(weft_stream_open(&s, fd[0]), 0);
    ck_assert_int_eq(weft_tls_describe(&s, &info), -EINVAL);
    ck_assert_int_eq(weft_tls_shutdown(&s), -EINVAL);
    ck_assert_int_eq(weft_stream_close(&s), 0);
    weft_close(fd[1]);
    weft_tls_free(NULL);
    free_sides(&p);
}
END_TEST

START_TEST(a_connection_outlives_what_it_was_made_with)
{
    pair p = {0};
    open_pair(&p, NULL, NULL);
    weft_tls_free(p.client_tls);
    weft_tls_free(p.server_tls);
    ck_assert_int_eq(weft_stream_puts(&p.client, "hello\n"), 6);
    ck_assert_int_eq(weft_stream_flush(&p.client), 0);
    ck_assert_line(&p.server, "hello");
    ck_assert_int_eq(weft_stream_puts(&p.server, "hello\n"), 6);
    ck_assert_int_eq(weft_stream_flush(&p.server), 0);
    ck_assert_line(&p.client, "hello");
    p.client_tls = p.server_tls = NULL;
    close_pair(&p);
}
END_TEST

static int said_at_exit; /* by the close of a stream */

static weft_value close_at_exit(void *arg)
{
    weft_value rc = weft_suspend();
    int said = weft_stream_close(arg);
    if (said != said_at_exit)
        fprintf(stderr, "it was %d\n", said);
    return rc;
}

static weft_value write_until_exit(void *arg)
{
    (void)write_without_end(arg);
    return 0;
}

static int exit_with_connections(void)
{
    static pair p;
    open_pair(&p, NULL, NULL);
    weft_spin(close_at_exit, &p.client);
    weft_spin(write_until_exit, &p.server);
    let_run();
    return 0;
}

/* OpenSSL's own clean-up is called before ours, then. */
static int exit_after_openssl(void)
{
    weft_self();
    OPENSSL_init_ssl(0, NULL);
    said_at_exit = -EBADF;
    return exit_with_connections();
}

START_TEST(a_process_may_end_in_the_middle_of_it)
{
    assert_silent(run_apart(exit_with_connections), 0);
    if (!is_sanitized()) /* what OpenSSL has lost by then, LeakSanitizer finds */
        assert_silent(run_apart(exit_after_openssl), 0);
}
END_TEST

int main(void)
{
    const TTest *const *const tests[] = {
        &a_client_and_a_server_shake_hands_and_talk,
        &megabytes_go_in_both_directions_at_once,
        &several_pieces_arrive_in_a_row,
        &calls_that_are_cancelled_lose_and_double_nothing,
        &a_flush_that_is_cancelled_is_not_said_to_be_done,
        &nothing_is_taken_from_one_who_is_cancelled,
        &records_may_come_in_the_smallest_pieces,
        &the_end_of_the_other_side_is_the_end_of_the_input,
        &a_connection_that_ends_without_a_last_word_is_cut_off,
        &one_side_may_end_before_the_other,
        &a_write_to_one_who_is_gone_fails,
        &closing_wakes_those_who_read_and_write,
        &waiting_for_input_is_not_over_with_what_is_for_tls_alone,
        &a_handshake_that_is_cancelled_closes_its_descriptor,
        &a_handshake_may_be_cancelled_or_cut_at_any_byte,
        &whoever_does_not_speak_tls_is_refused_with_words,
        &a_server_that_does_not_speak_tls_is_refused_with_words,
        &bytes_that_were_changed_on_their_way_end_the_connection,
        &calls_that_make_no_sense_are_refused,
        &a_connection_outlives_what_it_was_made_with,
        &a_process_may_end_in_the_middle_of_it,
    };
    return run_suite("tls", tests, COUNT_OF(tests));
}

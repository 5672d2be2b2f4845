/*
 * TLS with a peer that uses features that weft does not: key updates, fragmented messages, and
 * renegotiation. The peer is OpenSSL over memory, driven one call at a time.
 */
#include "support/suite.h"
#include "support/tls_support.h"
#include "tls/tls_certs.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

/* A certificate for localhost. */
static test_cert *cert;

static void create_cert(void)
{
    cert = issue_cert((cert_options){.names = "DNS:localhost"});
}

FIXTURE(create_cert, free_certs)

/* The peer. Its output stays in out until send_raw. */
typedef struct raw {
    SSL_CTX *ctx;
    SSL *ssl;
    BIO *in, *out;
    int fd;
} raw;

static void open_raw(raw *r, bool is_server, int version)
{
    r->ctx = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
    SSL_CTX_set_max_proto_version(r->ctx, version == 12 ? TLS1_2_VERSION : TLS1_3_VERSION);
    SSL_CTX_set_session_id_context(r->ctx, (const unsigned char *)"raw", 3);
    ck_assert_int_eq(SSL_CTX_use_cert_and_key(r->ctx, cert->x, cert->key, NULL, 1), 1);
    r->ssl = SSL_new(r->ctx);
    r->in = BIO_new(BIO_s_mem());
    r->out = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(r->in, -1);
    SSL_set_bio(r->ssl, r->in, r->out);
    if (is_server)
        SSL_set_accept_state(r->ssl);
    else
        SSL_set_connect_state(r->ssl);
}

static void close_raw(raw *r)
{
    SSL_free(r->ssl);
    SSL_CTX_free(r->ctx);
    weft_close(r->fd);
}

/* Send at most bytes_max bytes of the output of the peer. */
static void send_raw(raw *r, size_t bytes_max)
{
    char *data;
    size_t bytes = (size_t)BIO_get_mem_data(r->out, &data);
    bytes = bytes < bytes_max ? bytes : bytes_max;
    char *copy = malloc(bytes + 1);
    ck_assert_int_eq(BIO_read(r->out, copy, (int)bytes + (bytes == 0)),
                     bytes > 0 ? (int)bytes : -1);
    if (bytes > 0)
        ck_assert_int_eq(weft_write_all(r->fd, copy, bytes), (ssize_t)bytes);
    free(copy);
}

static void receive_raw(raw *r)
{
    char data[16384];
    ssize_t n = weft_read(r->fd, data, sizeof data);
    ck_assert_int_gt(n, 0);
    ck_assert_int_eq(BIO_write(r->in, data, (int)n), (int)n);
}

static void handshake_raw(raw *r)
{
    while (SSL_do_handshake(r->ssl) != 1) {
        send_raw(r, SIZE_MAX);
        receive_raw(r);
    }
}

static void puts_raw(raw *r, const char *text)
{
    ck_assert_int_eq(SSL_write(r->ssl, text, (int)strlen(text)), (int)strlen(text));
}

/* Read and compare this text. */
static void expect_raw(raw *r, const char *text)
{
    char data[256];
    int used = 0, n;
    while (used < (int)strlen(text)) {
        while ((n = SSL_read(r->ssl, data + used, (int)sizeof data - used)) <= 0)
            receive_raw(r);
        used += n;
    }
    ck_assert_int_eq(used, (int)strlen(text));
    ck_assert_mem_eq(data, text, strlen(text));
}

/* The end that uses weft. */
typedef struct weft_side {
    weft_tls *tls;
    weft_stream stream;
    int fd;
    bool is_server;
} weft_side;

static weft_value open_weft_side(void *arg)
{
    weft_side *o = arg;
    return o->is_server ? weft_tls_accept(&o->stream, o->fd, o->tls)
                        : weft_tls_connect(&o->stream, o->fd, o->tls, "localhost");
}

/* Create and connect both sides. options are for the weft side, without the certificate. */
static void connect_raw(weft_side *o, raw *r, weft_tls_options options, int version)
{
    int fd[2];
    if (o->is_server)
        options.identity = identity_of(cert);
    else
        options.ca_pem = cert->cert_pem;
    o->tls = o->is_server ? weft_tls_server_new(&options) : weft_tls_client_new(&options);
    ck_assert_ptr_nonnull(o->tls);
    if (r->ssl == NULL)
        open_raw(r, !o->is_server, version);
    ck_assert_int_eq(weft_socketpair(fd), 0);
    o->fd = fd[0];
    r->fd = fd[1];
    weft_fiber f = weft_spin(open_weft_side, o);
    handshake_raw(r);
    send_raw(r, SIZE_MAX);
    ck_assert_good(weft_await(f));
}

static void close_both(weft_side *o, raw *r)
{
    (void)weft_stream_close(&o->stream);
    weft_tls_free(o->tls);
    close_raw(r);
}

TEST(keys_are_updated_when_the_peer_requests_it)
{
    for (int k = 0; k < 2; k++) {
        weft_side o = {.is_server = k == 1};
        raw r = {0};
        connect_raw(&o, &r, (weft_tls_options){0}, 13);
        for (int i = 0; i < 5; i++) {
            ck_assert_int_eq(SSL_key_update(r.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
            puts_raw(&r, "with new keys\n");
            send_raw(&r, SIZE_MAX);
            ck_assert_line(&o.stream, "with new keys");
            send_text(&o.stream, "with ours\n");
            expect_raw(&r, "with ours\n");
        }
        close_both(&o, &r);
    }
}

static weft_value read_line(void *arg)
{
    ck_assert_line(arg, "end");
    return 0;
}

/* Request new keys many times without reading the replies. */
static weft_value request_keys_repeatedly(void *arg)
{
    raw *r = arg;
    for (int i = 0; i < 10000; i++) {
        ck_assert_int_eq(SSL_key_update(r->ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        ck_assert_int_eq(SSL_do_handshake(r->ssl), 1);
        send_raw(r, SIZE_MAX);
    }
    puts_raw(r, "end\n");
    send_raw(r, SIZE_MAX);
    return 0;
}

static weft_value read_and_discard(void *arg)
{
    char data[4096];
    while (weft_read(*(int *)arg, data, sizeof data) > 0)
        ;
    return 0;
}

TEST(a_peer_that_requests_key_updates_without_reading_blocks)
{
    weft_side o = {.is_server = true};
    raw r = {0};
    connect_raw(&o, &r, (weft_tls_options){0}, 13);
    weft_fiber reader = weft_spin(read_line, &o.stream),
               writer = spin_waiting(request_keys_repeatedly, &r);
    ck_assert_int_eq(weft_state_of(reader), WEFT_WAITING);
    weft_fiber discarder = weft_spin(read_and_discard, &r.fd);
    ck_assert_int_eq(weft_await(reader), 0);
    ck_assert_int_eq(weft_await(writer), 0);
    weft_cancel(discarder);
    (void)weft_await(discarder);
    close_both(&o, &r);
}

TEST(renegotiation_is_refused)
{
    weft_side o = {0};
    raw r = {0};
    connect_raw(&o, &r, (weft_tls_options){0}, 12);
    weft_fiber reader = weft_spin(read_line, &o.stream);
    ck_assert_int_eq(SSL_renegotiate(r.ssl), 1);
    ck_assert_int_eq(SSL_do_handshake(r.ssl), 1); /* a HelloRequest */
    puts_raw(&r, "end\n");
    send_raw(&r, SIZE_MAX);
    ck_assert_int_eq(weft_await(reader), 0);
    send_text(&o.stream, "still here\n");
    char data[64];
    int n;
    while ((n = SSL_read(r.ssl, data, sizeof data)) <= 0 && SSL_want_read(r.ssl))
        receive_raw(&r);
    /* An OpenSSL server closes the connection after a no_renegotiation alert. */
    ck_assert_int_le(n, 0);
    ck_assert_int_eq(ERR_GET_REASON(ERR_peek_error()), SSL_R_NO_RENEGOTIATION);
    close_both(&o, &r);
}

/* Read until cancelled. */
static weft_value read_until_cancelled(void *arg)
{
    char byte;
    ck_assert_int_eq(weft_stream_read(arg, &byte, 1), -ECANCELED);
    return 0;
}

static weft_value write_line(void *arg)
{
    ssize_t n = weft_stream_puts(arg, "a line\n");
    int rc = n < 0 ? (int)n : weft_stream_flush(arg);
    mark("written ");
    return rc;
}

TEST(a_write_waits_for_the_rest_of_a_fragmented_handshake_message)
{
    /* A ticket with the client's certificate is longer than a record of max_send_fragment. */
    test_cert *alice = issue_cert(
        (cert_options){.subject = "alice, whose name is what makes it long", .is_rsa = true});
    for (int k = 0; k < 2; k++) { /* with and without a concurrent reader */
        weft_side o = {0};
        raw r = {0};
        open_raw(&r, true, 13);
        SSL_set_verify(r.ssl, SSL_VERIFY_PEER, NULL);
        ck_assert_int_eq(X509_STORE_add_cert(SSL_CTX_get_cert_store(r.ctx), alice->x), 1);
        SSL_set_max_send_fragment(r.ssl, 512);
        SSL_set_num_tickets(r.ssl, 0);
        connect_raw(&o, &r, (weft_tls_options){.identity = identity_of(alice)}, 13);
        ck_assert_int_eq(SSL_new_session_ticket(r.ssl), 1);
        puts_raw(&r, "end\n");
        char *data;
        ck_assert_int_gt(BIO_get_mem_data(r.out, &data), 700);
        send_raw(&r, 600); /* the first record, and a part of the next */
        weft_fiber reader = spin_waiting(k == 0 ? read_line : read_until_cancelled, &o.stream);
        if (k == 1) {
            weft_cancel(reader);
            (void)weft_await(reader);
        }
        weft_fiber writer = weft_spin(write_line, &o.stream);
        let_run();
        mark("sent ");
        send_raw(&r, SIZE_MAX);
        if (k == 1)
            reader = weft_spin(read_line, &o.stream);
        ck_assert_int_eq(weft_await(writer), 0);
        ck_assert_int_eq(weft_await(reader), 0);
        expect_raw(&r, "a line\n");
        close_both(&o, &r);
    }
    ck_assert_trail("sent written sent written ");
}

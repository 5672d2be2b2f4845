/* Helpers for the tests of TLS: generated certificates, and both ends of a connection. */
#ifndef TESTS_SUPPORT_TLS_SUPPORT_H
#define TESTS_SUPPORT_TLS_SUPPORT_H

#include "support/net_support.h"

#include <weft/web.h>

/* A certificate for localhost, generated once in each test. */
static char *local_cert, *local_key;

static inline void make_local_cert(void)
{
    if (local_cert == NULL)
        ck_assert_int_eq(weft_tls_self_signed("localhost,127.0.0.1", 2, &local_cert, &local_key),
                         0);
}

/* Assert success. A failure prints the message of the last error. */
#define ck_assert_good(rc)                                                          \
    do {                                                                            \
        int ck_rc = (int)(rc);                                                      \
        ck_assert_msg(ck_rc >= 0, "%s is %d: %s", #rc, ck_rc,                       \
                      weft_error() != NULL ? weft_error()->message : "no message"); \
    } while (0)

#define ck_assert_line(stream, expected)                          \
    do {                                                          \
        char *ck_text = NULL;                                     \
        ck_assert_good(weft_stream_line(stream, &ck_text, NULL)); \
        ck_assert_str_eq(ck_text, expected);                      \
    } while (0)

/* Both ends of a connection in one process. */
typedef struct tls_pair {
    weft_tls *client_tls, *server_tls;
    weft_stream client, server;
    int fd[2]; /* of the client, of the server */
    int client_rc, server_rc;
    const char *name; /* the server name that the client requests; NULL: localhost */
} tls_pair;

static inline weft_value accept_tls_end(void *arg)
{
    tls_pair *p = arg;
    p->server_rc = weft_tls_accept(&p->server, p->fd[1], p->server_tls);
    return 0;
}

/* Perform the handshake over two descriptors. Store the results in p. */
static inline void handshake_over(tls_pair *p, int client_fd, int server_fd)
{
    p->fd[0] = client_fd;
    p->fd[1] = server_fd;
    weft_fiber server = weft_spin(accept_tls_end, p);
    p->client_rc = weft_tls_connect(&p->client, p->fd[0], p->client_tls,
                                    p->name != NULL ? p->name : "localhost");
    ck_assert_int_eq(weft_await(server), 0);
}

static inline void handshake(tls_pair *p)
{
    int fd[2];
    ck_assert_int_eq(weft_socketpair(fd), 0);
    handshake_over(p, fd[0], fd[1]);
}

/*
 * Create both contexts. By default the server has the certificate for localhost and the client
 * trusts it.
 */
static inline void new_tls_pair(tls_pair *p, const weft_tls_options *for_server,
                                const weft_tls_options *for_client)
{
    weft_tls_options s = for_server != NULL ? *for_server : (weft_tls_options){0};
    weft_tls_options c = for_client != NULL ? *for_client : (weft_tls_options){0};
    make_local_cert();
    if (s.identity.cert_pem == NULL && s.identity.cert_file == NULL && s.choose == NULL)
        s.identity = (weft_tls_identity){.cert_pem = local_cert, .key_pem = local_key};
    if (c.ca_pem == NULL && c.ca_file == NULL)
        c.ca_pem = local_cert;
    p->server_tls = weft_tls_server_new(&s);
    ck_assert_msg(p->server_tls != NULL, "%s", p->server_tls == NULL ? weft_error()->message : "");
    p->client_tls = weft_tls_client_new(&c);
    ck_assert_msg(p->client_tls != NULL, "%s", p->client_tls == NULL ? weft_error()->message : "");
}

static inline void open_tls_pair(tls_pair *p, const weft_tls_options *for_server,
                                 const weft_tls_options *for_client)
{
    new_tls_pair(p, for_server, for_client);
    handshake(p);
    ck_assert_good(p->client_rc);
    ck_assert_good(p->server_rc);
}

static inline void free_tls_pair(tls_pair *p)
{
    weft_tls_free(p->client_tls);
    weft_tls_free(p->server_tls);
    free(local_cert);
    free(local_key);
    local_cert = local_key = NULL;
}

static inline void close_ends(tls_pair *p)
{
    ck_assert_good(weft_stream_close(&p->client));
    ck_assert_good(weft_stream_close(&p->server));
}

/* Write and flush a text. */
static inline void send_text(weft_stream *s, const char *text)
{
    ck_assert_int_eq(weft_stream_puts(s, text), (ssize_t)strlen(text));
    ck_assert_int_eq(weft_stream_flush(s), 0);
}

/* Send a line from one stream to the other. */
static inline void assert_line_passes(weft_stream *from, weft_stream *to)
{
    send_text(from, "a line\n");
    ck_assert_line(to, "a line");
}

#endif

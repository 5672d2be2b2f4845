/* What the tests of TLS share: certificates made on the spot, and two ends of a connection. */
#ifndef TESTS_TLS_SUPPORT_H
#define TESTS_TLS_SUPPORT_H

#include "net_support.h"

/* A certificate for localhost, made once in a test. */
static char *local_cert, *local_key;

static inline void make_local(void)
{
    if (local_cert == NULL)
        ck_assert_int_eq(weft_tls_self_signed("localhost,127.0.0.1", 2, &local_cert, &local_key),
                         0);
}

/* Fail with the last error's words. */
#define ck_assert_good(rc)                                                             \
    do {                                                                               \
        int ck_rc = (int)(rc);                                                         \
        ck_assert_msg(ck_rc >= 0, "%s is %d: %s", #rc, ck_rc,                          \
                      weft_error() != NULL ? weft_error()->message : "without words"); \
    } while (0)

#define ck_assert_line(stream, expected)                          \
    do {                                                          \
        char *ck_text = NULL;                                     \
        ck_assert_good(weft_stream_line(stream, &ck_text, NULL)); \
        ck_assert_str_eq(ck_text, expected);                      \
    } while (0)

/* Both ends of a connection, in one process. */
typedef struct pair {
    weft_tls *client_tls, *server_tls;
    weft_stream client, server;
    int fd[2]; /* the client's, the server's */
    int client_rc, server_rc;
    const char *name; /* that the client asks for; NULL: localhost */
} pair;

static inline weft_value accept_end(void *arg)
{
    pair *p = arg;
    p->server_rc = weft_tls_accept(&p->server, p->fd[1], p->server_tls);
    return 0;
}

/* Shake hands over two descriptors; the results are in p. */
static inline void shake_over(pair *p, int client_fd, int server_fd)
{
    p->fd[0] = client_fd;
    p->fd[1] = server_fd;
    weft_fiber server = weft_spin(accept_end, p);
    p->client_rc = weft_tls_connect(&p->client, p->fd[0], p->client_tls,
                                    p->name != NULL ? p->name : "localhost");
    ck_assert_int_eq(weft_await(server), 0);
}

static inline void shake(pair *p)
{
    int fd[2];
    ck_assert_int_eq(weft_socketpair(fd), 0);
    shake_over(p, fd[0], fd[1]);
}

/* The options get the certificate for localhost, and whom to trust, unless they say otherwise. */
static inline void make_sides(pair *p, const weft_tls_options *server,
                              const weft_tls_options *client)
{
    weft_tls_options s = server != NULL ? *server : (weft_tls_options){0};
    weft_tls_options c = client != NULL ? *client : (weft_tls_options){0};
    make_local();
    if (s.identity.cert_pem == NULL && s.identity.cert_file == NULL && s.choose == NULL)
        s.identity = (weft_tls_identity){.cert_pem = local_cert, .key_pem = local_key};
    if (c.ca_pem == NULL && c.ca_file == NULL)
        c.ca_pem = local_cert;
    p->server_tls = weft_tls_server_new(&s);
    ck_assert_msg(p->server_tls != NULL, "%s", p->server_tls == NULL ? weft_error()->message : "");
    p->client_tls = weft_tls_client_new(&c);
    ck_assert_msg(p->client_tls != NULL, "%s", p->client_tls == NULL ? weft_error()->message : "");
}

static inline void open_pair(pair *p, const weft_tls_options *server,
                             const weft_tls_options *client)
{
    make_sides(p, server, client);
    shake(p);
    ck_assert_good(p->client_rc);
    ck_assert_good(p->server_rc);
}

static inline void free_sides(pair *p)
{
    weft_tls_free(p->client_tls);
    weft_tls_free(p->server_tls);
    free(local_cert);
    free(local_key);
    local_cert = local_key = NULL;
}

static inline void close_pair(pair *p)
{
    ck_assert_good(weft_stream_close(&p->client));
    ck_assert_good(weft_stream_close(&p->server));
    free_sides(p);
}

#endif

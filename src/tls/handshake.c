/*
 * Shaking hands, as server and as client: which certificate a client gets, which protocol, which
 * session is resumed. What OpenSSL calls here does not block: where the program's choose function
 * is to be asked, OpenSSL is left with a request to be called again.
 */
#include "tls/tls.h"

#include <weft/error.h>
#include <weft/io.h>
#include <weft/offload.h>

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static int use_cert(SSL *ssl, const weft__tls_cert *cert)
{
    return SSL_use_cert_and_key(ssl, cert->leaf, cert->key, cert->chain, 1);
}

/*
 * The certificates for a name: those that have it, else those that cover it by a wildcard, else the
 * first. Several, if they are of different kinds, are for OpenSSL to choose from.
 */
static int use_by_name(weft__tls_conn *c)
{
    const weft__tls_config *config = c->config;
    int best = 0;
    for (size_t i = 0; c->server_name != NULL && i < config->cert_count; i++) {
        int match = weft__tls_cert_match(config->certs[i], c->server_name);
        best = match > best ? match : best;
    }
    if (best == 0)
        return SSL_get_certificate(c->ssl) != NULL ||
               (config->cert_count > 0 && use_cert(c->ssl, config->certs[0]));
    SSL_certs_clear(c->ssl);
    for (size_t i = config->cert_count; i-- > 0;) /* the first of a kind is set last, and stays */
        if (weft__tls_cert_match(config->certs[i], c->server_name) == best &&
            !use_cert(c->ssl, config->certs[i]))
            return 0;
    return 1;
}

/*
 * The name in the extension: a list with one entry, type 0 (RFC 6066, 3). False: it makes no sense.
 */
static bool parse_name(const unsigned char *data, size_t bytes, char *name)
{
    if (bytes < 5 || (size_t)(data[0] << 8 | data[1]) != bytes - 2 || data[2] != 0)
        return false;
    size_t n = (size_t)(data[3] << 8 | data[4]);
    if (n == 0 || n != bytes - 5 || n >= SERVER_NAME_ROOM)
        return false;
    for (size_t i = 0; i < n; i++) {
        name[i] = (char)tolower(data[5 + i]);
        if (!isalnum((unsigned char)name[i]) && (name[i] == '\0' || strchr("-._", name[i]) == NULL))
            return false;
    }
    name[n - (name[n - 1] == '.')] = '\0';
    return true;
}

/* What the client asks for, before OpenSSL has looked at it. */
static int find_name(weft__tls_conn *c)
{
    const unsigned char *data;
    size_t bytes;
    char name[SERVER_NAME_ROOM];
    if (c->server_name != NULL ||
        !SSL_client_hello_get0_ext(c->ssl, TLSEXT_TYPE_server_name, &data, &bytes) ||
        !parse_name(data, bytes, name))
        return 0;
    c->server_name = strdup(name);
    return c->server_name != NULL ? 0 : -ENOMEM;
}

static int on_client_hello(SSL *ssl, int *alert, void *arg)
{
    (void)arg;
    weft__tls_conn *c = SSL_get_app_data(ssl);
    weft__tls_handshake *h = c->handshake;
    *alert = SSL_AD_INTERNAL_ERROR;
    if (h == NULL || find_name(c) < 0)
        return SSL_CLIENT_HELLO_ERROR;
    if (c->tls->options.choose != NULL && !h->has_chosen)
        return SSL_CLIENT_HELLO_RETRY;
    *alert = SSL_AD_UNRECOGNIZED_NAME;
    if (h->refusal < 0)
        return SSL_CLIENT_HELLO_ERROR;
    if (h->chosen != NULL) {
        SSL_certs_clear(ssl);
        return use_cert(ssl, h->chosen) ? SSL_CLIENT_HELLO_SUCCESS : SSL_CLIENT_HELLO_ERROR;
    }
    return use_by_name(c) ? SSL_CLIENT_HELLO_SUCCESS : SSL_CLIENT_HELLO_ERROR;
}

/* The first of ours that the client has, too; if there is none, RFC 7301, 3.2 wants it to end. */
static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_bytes,
                   const unsigned char *in, unsigned in_bytes, void *arg)
{
    (void)arg;
    const weft__tls_config *config = ((weft__tls_conn *)SSL_get_app_data(ssl))->config;
    const unsigned char *ours = config->alpn, *end = ours + config->alpn_bytes;
    for (; ours < end; ours += 1 + *ours)
        for (const unsigned char *theirs = in; theirs < in + in_bytes; theirs += 1 + *theirs)
            if (*ours == *theirs && memcmp(ours + 1, theirs + 1, *ours) == 0) {
                *out = theirs + 1;
                *out_bytes = *theirs;
                return SSL_TLSEXT_ERR_OK;
            }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static int on_session(SSL *ssl, SSL_SESSION *session)
{
    weft__tls_conn *c = SSL_get_app_data(ssl);
    if (c->place != NULL && SSL_SESSION_is_resumable(session))
        weft__tls_session_keep(c, session);
    return 0; /* the reference is still the caller's */
}

void weft__tls_set_callbacks(SSL_CTX *ctx, const weft_tls *tls, bool has_alpn)
{
    if (!tls->is_server) {
        SSL_CTX_sess_set_new_cb(ctx, on_session);
        return;
    }
    SSL_CTX_set_client_hello_cb(ctx, on_client_hello, NULL);
    if (has_alpn)
        SSL_CTX_set_alpn_select_cb(ctx, on_alpn, NULL);
}

typedef struct loading {
    weft_tls_identity identity;
    weft__tls_cert *cert;
} loading;

static weft_value load_cert(void *arg)
{
    loading *l = arg;
    return weft__tls_cert_load(&l->identity, &l->cert);
}

/* What choose has chosen. Files are read by another thread, from names that nobody changes. */
static int load_chosen(weft__tls_handshake *h, const weft_tls_identity *identity)
{
    loading l = {{0}, NULL};
    int rc;
    if (identity->cert_file == NULL && identity->key_file == NULL) {
        rc = weft__tls_cert_load(identity, &h->chosen);
        return rc;
    }
    rc = weft__tls_identity_copy(&l.identity, identity);
    if (rc == 0)
        rc = (int)weft_offload_with(load_cert, &l, &(weft_offload_options){.is_kept = true});
    weft__tls_identity_free(&l.identity);
    h->chosen = l.cert;
    return rc;
}

/* Ask the program which certificate this client gets, outside of OpenSSL. */
static void choose(weft__tls_conn *c)
{
    weft__tls_handshake *h = c->handshake;
    weft_tls_identity identity = {0};
    h->has_chosen = true;
    int rc = c->tls->options.choose(c->server_name, &identity, c->tls->options.choose_ctx);
    if (rc > 0)
        rc = load_chosen(h, &identity);
    else if (rc == 0 && c->config->cert_count == 0)
        rc = weft_fail(-EPROTO, "no certificate for %s",
                       c->server_name != NULL ? c->server_name : "a client that names no server");
    h->refusal = rc < 0 ? rc : 0;
}

static bool is_hung_up(ssize_t error)
{
    return error == -EPIPE || error == -ECONNRESET;
}

static int need_input(weft__tls_conn *c)
{
    int rc = weft__tls_drain(c);
    /* One that takes no more may have said why. */
    ssize_t n = rc < 0 && !is_hung_up(rc) ? rc : weft__tls_fill(c);
    if (n == 0 || is_hung_up(n))
        return weft_fail(-ECONNRESET, "TLS: the other side hung up during the handshake");
    return n < 0 ? (int)n : 0;
}

static int refuse(weft__tls_conn *c)
{
    int rc = weft__tls_explain(c);
    rc = c->handshake->refusal < 0 ? c->handshake->refusal : rc;
    weft__tls_push(c); /* the alert */
    weft__tls_hang_up(c);
    return rc;
}

static int shake_hands(weft__tls_conn *c)
{
    for (;;) {
        weft__tls_begin();
        int rc = SSL_do_handshake(c->ssl);
        if (rc == 1)
            return 0;
        switch (SSL_get_error(c->ssl, rc)) {
        case SSL_ERROR_WANT_READ:
            rc = need_input(c);
            break;
        case SSL_ERROR_WANT_CLIENT_HELLO_CB:
            choose(c);
            rc = 0;
            break;
        case SSL_ERROR_WANT_WRITE:
            return -ENOMEM; /* the only reason that our BIO has */
        default:
            return refuse(c);
        }
        if (rc < 0)
            return rc;
    }
}

/* A handshake's last flight goes out before the first read; a server's tickets if they can. */
static int finish(weft__tls_conn *c)
{
    if (SSL_is_server(c->ssl)) {
        weft__tls_push(c);
        return 0;
    }
    int rc = weft__tls_drain(c);
    return is_hung_up(rc) ? 0 : rc; /* the next read says why */
}

/* With a reference to what the weft_tls is now. */
static weft__tls_conn *new_conn(weft_tls *tls, int fd)
{
    weft__tls_conn *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->tls = weft__tls_ref(tls);
    c->fd = fd;
    c->users = 1;
    pthread_mutex_lock(&tls->lock);
    c->config = weft__tls_config_ref(tls->config);
    pthread_mutex_unlock(&tls->lock);
    c->ssl = SSL_new(c->config->ctx);
    if (c->ssl == NULL || weft__tls_attach(c) < 0) {
        weft__tls_conn_free(c);
        ERR_clear_error();
        return NULL;
    }
    SSL_set_app_data(c->ssl, c);
    if (tls->is_server)
        SSL_set_accept_state(c->ssl);
    else
        SSL_set_connect_state(c->ssl);
    return c;
}

static int handshake(weft__tls_conn *c)
{
    weft__tls_handshake h = {0};
    c->handshake = &h;
    int rc = shake_hands(c);
    if (rc == 0)
        rc = finish(c);
    c->handshake = NULL;
    weft__tls_cert_unref(h.chosen);
    return rc;
}

/* The port of the other side; 0 if it has none. */
static unsigned port_of(int fd)
{
    struct sockaddr_storage a;
    socklen_t bytes = sizeof a;
    if (getpeername(fd, (struct sockaddr *)&a, &bytes) < 0)
        return 0;
    if (a.ss_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)&a)->sin_port);
    return a.ss_family == AF_INET6 ? ntohs(((const struct sockaddr_in6 *)&a)->sin6_port) : 0;
}

/* A session from before, if there is one. */
static void resume(weft__tls_conn *c)
{
    if (c->tls->options.has_no_tickets ||
        asprintf(&c->place, "%s:%u", c->server_name, port_of(c->fd)) < 0) {
        c->place = NULL;
        return;
    }
    SSL_SESSION *session = weft__tls_session_take(c->tls, c->place);
    if (session != NULL)
        SSL_set_session(c->ssl, session);
    SSL_SESSION_free(session);
}

/*
 * "Example.org." and "[::1]" as they stand in certificates. NULL: no memory, or no name. One that
 * begins with a dot is none: to OpenSSL it would be any name that ends so.
 */
static char *normalise(const char *name)
{
    size_t n = strlen(name);
    if (name[0] == '.' || strncmp(name, "[.", 2) == 0)
        return NULL;
    if (n > 2 && name[0] == '[' && name[n - 1] == ']')
        return strndup(name + 1, n - 2);
    n -= n > 1 && name[n - 1] == '.';
    char *copy = n > 0 && n < SERVER_NAME_ROOM ? strndup(name, n) : NULL;
    for (size_t i = 0; copy != NULL && i < n; i++)
        copy[i] = (char)tolower((unsigned char)copy[i]);
    return copy;
}

/* Whom we ask for, and whose certificate it has to be. */
static int name_server(weft__tls_conn *c, const char *server_name)
{
    c->server_name = normalise(server_name);
    if (c->server_name == NULL)
        return weft_fail(-EINVAL, "no name of a server: %s", server_name);
    X509_VERIFY_PARAM *param = SSL_get0_param(c->ssl);
    unsigned char address[sizeof(struct in6_addr)];
    if (inet_pton(AF_INET, c->server_name, address) == 1 ||
        inet_pton(AF_INET6, c->server_name, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(param, c->server_name) ? 0 : -ENOMEM;
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                                               X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    if (!X509_VERIFY_PARAM_set1_host(param, c->server_name, 0) ||
        !SSL_set_tlsext_host_name(c->ssl, c->server_name)) {
        ERR_clear_error();
        return weft_fail(-EINVAL, "no name of a server: %s", server_name);
    }
    return 0;
}

static int begin(weft__tls_conn *c, const char *server_name)
{
    int rc = 0;
    if (!c->tls->is_server) {
        rc = name_server(c, server_name);
        if (rc == 0)
            resume(c);
    }
    return rc < 0 ? rc : handshake(c);
}

/* The descriptor is closed unless the stream is open. */
static int open_stream(weft_stream *stream, int fd, weft_tls *tls, const char *server_name)
{
    weft__tls_conn *c = weft__tls_is_over() ? NULL : new_conn(tls, fd);
    int rc = c == NULL ? -ENOMEM : begin(c, server_name);
    if (rc == 0)
        rc = weft_stream_open_with(stream, &weft__tls_stream, c);
    if (rc < 0) {
        (void)weft_close(fd);
        if (c != NULL)
            weft__tls_conn_free(c);
    }
    return rc;
}

static int refuse_call(int fd, const char *words)
{
    (void)weft_close(fd);
    return weft_fail(-EINVAL, "%s", words);
}

int weft_tls_accept(weft_stream *stream, int fd, weft_tls *tls)
{
    if (fd < 0)
        return fd;
    if (tls == NULL || !tls->is_server)
        return refuse_call(fd, "weft_tls_accept needs a server's weft_tls");
    return open_stream(stream, fd, tls, NULL);
}

int weft_tls_connect(weft_stream *stream, int fd, weft_tls *tls, const char *server_name)
{
    if (fd < 0)
        return fd;
    if (tls == NULL || tls->is_server || server_name == NULL)
        return refuse_call(fd, "weft_tls_connect needs a client's weft_tls and a name");
    return open_stream(stream, fd, tls, server_name);
}

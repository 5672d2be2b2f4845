/*
 * Handshakes of servers and clients: choose the certificate, the protocol (ALPN) and the session to
 * resume. OpenSSL's callbacks must not block, but the choose function of the program may block. If
 * choose is set, on_client_hello suspends the handshake. handshake_run then calls choose and
 * continues the handshake.
 */
#include "tls/alpn.h"
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

static int ssl_use_cert(SSL *ssl, const weft__tls_cert *cert)
{
    return SSL_use_cert_and_key(ssl, cert->leaf, cert->key, cert->chain, 1);
}

/*
 * Set the certificates for the client's server name: all certificates with the name, else all with
 * a matching wildcard, else the first certificate. If several certificates have different key
 * types, OpenSSL chooses one of them. Return 0 on failure.
 */
static int use_certs_by_name(weft__tls_conn *c)
{
    const weft__tls_config *config = c->config;
    int best = 0;
    for (size_t i = 0; c->server_name != NULL && i < config->cert_count; i++) {
        int match = weft__tls_cert_match(config->certs[i], c->server_name);
        best = match > best ? match : best;
    }
    if (best == 0)
        return SSL_get_certificate(c->ssl) != NULL ||
               (config->cert_count > 0 && ssl_use_cert(c->ssl, config->certs[0]));
    SSL_certs_clear(c->ssl);
    /* A certificate replaces an earlier one with the same key type. Set the first one last. */
    for (size_t i = config->cert_count; i-- > 0;)
        if (weft__tls_cert_match(config->certs[i], c->server_name) == best &&
            !ssl_use_cert(c->ssl, config->certs[i]))
            return 0;
    return 1;
}

/*
 * Parse the server_name extension: a list with one entry of type 0 (RFC 6066, 3). Return false if
 * the extension is malformed.
 */
static bool sni_parse(const unsigned char *data, size_t bytes, char *name)
{
    if (bytes < 5 || (size_t)(data[0] << 8 | data[1]) != bytes - 2 || data[2] != 0)
        return false;
    size_t n = (size_t)(data[3] << 8 | data[4]);
    if (n == 0 || n != bytes - 5 || n >= SERVER_NAME_BYTES)
        return false;
    for (size_t i = 0; i < n; i++) {
        name[i] = (char)tolower(data[5 + i]);
        if (!isalnum((unsigned char)name[i]) && (name[i] == '\0' || strchr("-._", name[i]) == NULL))
            return false;
    }
    name[n - (name[n - 1] == '.')] = '\0';
    return true;
}

/* Set c->server_name from the client hello. OpenSSL has not parsed the extension yet. */
static int sni_find(weft__tls_conn *c)
{
    const unsigned char *data;
    size_t bytes;
    char name[SERVER_NAME_BYTES];
    if (c->server_name != NULL ||
        !SSL_client_hello_get0_ext(c->ssl, TLSEXT_TYPE_server_name, &data, &bytes) ||
        !sni_parse(data, bytes, name))
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
    if (h == NULL || sni_find(c) < 0)
        return SSL_CLIENT_HELLO_ERROR;
    if (c->tls->options.choose != NULL && !h->has_called_choose)
        return SSL_CLIENT_HELLO_RETRY;
    *alert = SSL_AD_UNRECOGNIZED_NAME;
    if (h->choose_error < 0)
        return SSL_CLIENT_HELLO_ERROR;
    if (h->chosen_cert != NULL) {
        SSL_certs_clear(ssl);
        return ssl_use_cert(ssl, h->chosen_cert) ? SSL_CLIENT_HELLO_SUCCESS
                                                 : SSL_CLIENT_HELLO_ERROR;
    }
    return use_certs_by_name(c) ? SSL_CLIENT_HELLO_SUCCESS : SSL_CLIENT_HELLO_ERROR;
}

/*
 * Choose the server's first protocol that the client offers. If the client offers none of the
 * server's protocols, RFC 7301, 3.2, requires an alert.
 */
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
    if (c->server_key != NULL && SSL_SESSION_is_resumable(session))
        weft__tls_session_add(c, session);
    return 0; /* OpenSSL keeps its reference */
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

typedef struct cert_load {
    weft_tls_identity identity;
    weft__tls_cert *cert;
} cert_load;

static weft_value cert_load_blocking(void *arg)
{
    cert_load *l = arg;
    return weft__tls_cert_load(&l->identity, &l->cert);
}

/*
 * Load the certificate that choose has selected. A worker thread reads the files. The strings are
 * copied first, because another handshake may call choose during the load.
 */
static int load_chosen_cert(weft__tls_handshake *h, const weft_tls_identity *identity)
{
    cert_load l = {{0}, NULL};
    int rc;
    if (identity->cert_file == NULL && identity->key_file == NULL) {
        rc = weft__tls_cert_load(identity, &h->chosen_cert);
        return rc;
    }
    rc = weft__tls_identity_copy(&l.identity, identity);
    if (rc == 0)
        rc = (int)weft_offload_with(cert_load_blocking, &l,
                                    &(weft_offload_options){.is_kept = true});
    weft__tls_identity_free(&l.identity);
    h->chosen_cert = l.cert;
    return rc;
}

/* Call the choose function of the program, outside of OpenSSL's callbacks. */
static void choose_cert(weft__tls_conn *c)
{
    weft__tls_handshake *h = c->handshake;
    weft_tls_identity identity = {0};
    h->has_called_choose = true;
    int rc = c->tls->options.choose(c->server_name, &identity, c->tls->options.choose_ctx);
    if (rc > 0)
        rc = load_chosen_cert(h, &identity);
    else if (rc == 0 && c->config->cert_count == 0)
        rc = weft_fail(-EPROTO, "no certificate for %s",
                       c->server_name != NULL ? c->server_name : "a client without a server name");
    h->choose_error = rc < 0 ? rc : 0;
}

static bool error_is_disconnect(ssize_t error)
{
    return error == -EPIPE || error == -ECONNRESET;
}

static int handshake_read(weft__tls_conn *c)
{
    int rc = weft__tls_conn_drain(c);
    /* Read even after a disconnect, because the peer may have sent an alert before. */
    ssize_t n = rc < 0 && !error_is_disconnect(rc) ? rc : weft__tls_conn_fill(c);
    if (n == 0 || error_is_disconnect(n))
        return weft_fail(-ECONNRESET, "TLS: the peer closed the connection during the handshake");
    return n < 0 ? (int)n : 0;
}

static int handshake_fail(weft__tls_conn *c)
{
    int rc = weft__tls_error_explain(c);
    rc = c->handshake->choose_error < 0 ? c->handshake->choose_error : rc;
    weft__tls_conn_try_send(c); /* the alert */
    weft__tls_conn_hang_up(c);
    return rc;
}

static int handshake_run(weft__tls_conn *c)
{
    for (;;) {
        weft__tls_clear_errors();
        int rc = SSL_do_handshake(c->ssl);
        if (rc == 1)
            return 0;
        switch (SSL_get_error(c->ssl, rc)) {
        case SSL_ERROR_WANT_READ:
            rc = handshake_read(c);
            break;
        case SSL_ERROR_WANT_CLIENT_HELLO_CB:
            choose_cert(c);
            rc = 0;
            break;
        case SSL_ERROR_WANT_WRITE:
            return -ENOMEM; /* a write to the BIO fails only if memory is exhausted */
        default:
            return handshake_fail(c);
        }
        if (rc < 0)
            return rc;
    }
}

/*
 * Send the remaining output of the handshake. A client must send its last messages before the first
 * read. A server sends its tickets only if it can do so without waiting.
 */
static int handshake_finish(weft__tls_conn *c)
{
    if (SSL_is_server(c->ssl)) {
        weft__tls_conn_try_send(c);
        return 0;
    }
    int rc = weft__tls_conn_drain(c);
    return error_is_disconnect(rc) ? 0 : rc; /* the next read returns the error */
}

/* Create a connection with the current config. Return NULL if memory is exhausted. */
static weft__tls_conn *tls_conn_new(weft_tls *tls, int fd)
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
    if (c->ssl == NULL || weft__tls_bio_attach(c) < 0) {
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
    int rc = handshake_run(c);
    if (rc == 0)
        rc = handshake_finish(c);
    c->handshake = NULL;
    weft__tls_cert_unref(h.chosen_cert);
    return rc;
}

/* Return the peer's port. Return 0 if fd is not an IP socket. */
static unsigned peer_port_of(int fd)
{
    struct sockaddr_storage a;
    socklen_t bytes = sizeof a;
    if (getpeername(fd, (struct sockaddr *)&a, &bytes) < 0)
        return 0;
    if (a.ss_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)&a)->sin_port);
    return a.ss_family == AF_INET6 ? ntohs(((const struct sockaddr_in6 *)&a)->sin6_port) : 0;
}

/* Resume an earlier session with this server, if the client has one. */
static void session_resume(weft__tls_conn *c)
{
    if (c->tls->options.has_no_tickets ||
        asprintf(&c->server_key, "%s:%u", c->server_name, peer_port_of(c->fd)) < 0) {
        c->server_key = NULL;
        return;
    }
    SSL_SESSION *session = weft__tls_session_take(c->tls, c->server_key);
    if (session != NULL)
        SSL_set_session(c->ssl, session);
    SSL_SESSION_free(session);
}

/*
 * Return a name in the form of certificates: lower case, without brackets and without a final dot.
 * Return NULL if memory is exhausted or the name is invalid. A name must not start with a dot,
 * because OpenSSL would match all names with that suffix.
 */
static char *normalise_name(const char *name)
{
    size_t n = strlen(name);
    if (name[0] == '.' || strncmp(name, "[.", 2) == 0)
        return NULL;
    if (n > 2 && name[0] == '[' && name[n - 1] == ']')
        return strndup(name + 1, n - 2);
    n -= n > 1 && name[n - 1] == '.';
    char *copy = n > 0 && n < SERVER_NAME_BYTES ? strndup(name, n) : NULL;
    for (size_t i = 0; copy != NULL && i < n; i++)
        copy[i] = (char)tolower((unsigned char)copy[i]);
    return copy;
}

/* Set the name that the client sends, and for which the certificate must be valid. */
static int set_server_name(weft__tls_conn *c, const char *server_name)
{
    c->server_name = normalise_name(server_name);
    if (c->server_name == NULL)
        return weft_fail(-EINVAL,
                         "weft_tls_connect: server_name is not a host name or an address: %s",
                         server_name);
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
        return weft_fail(-EINVAL,
                         "weft_tls_connect: server_name is not a host name or an address: %s",
                         server_name);
    }
    return 0;
}

/* Offer only one protocol, if the configuration offers protocols. */
static int set_protocol(weft__tls_conn *c, const char *protocol)
{
    unsigned char alpn[64];
    size_t bytes = strlen(protocol);
    if (c->config->alpn_bytes == 0 || bytes >= sizeof alpn)
        return 0;
    alpn[0] = (unsigned char)bytes;
    memcpy(alpn + 1, protocol, bytes);
    return SSL_set_alpn_protos(c->ssl, alpn, (unsigned)bytes + 1) == 0 ? 0 : -ENOMEM;
}

static int conn_begin(weft__tls_conn *c, const char *server_name, const char *protocol)
{
    int rc = 0;
    if (!c->tls->is_server) {
        rc = set_server_name(c, server_name);
        if (rc == 0 && protocol != NULL)
            rc = set_protocol(c, protocol);
        if (rc == 0)
            session_resume(c);
    }
    return rc < 0 ? rc : handshake(c);
}

/* Perform the handshake and open the stream. On failure, close fd. */
static int open_tls_stream(weft_stream *stream, int fd, weft_tls *tls, const char *server_name,
                           const char *protocol)
{
    weft__tls_conn *c = weft__tls_is_cleaned_up() ? NULL : tls_conn_new(tls, fd);
    int rc = c == NULL ? -ENOMEM : conn_begin(c, server_name, protocol);
    if (rc == 0)
        rc = weft_stream_open_with(stream, &weft__tls_stream, c);
    if (rc < 0) {
        (void)weft_close(fd);
        if (c != NULL)
            weft__tls_conn_free(c);
    }
    return rc;
}

static int fail_invalid_args(int fd, const char *message)
{
    (void)weft_close(fd);
    return weft_fail(-EINVAL, "%s", message);
}

int weft_tls_accept(weft_stream *stream, int fd, weft_tls *tls)
{
    if (fd < 0)
        return fd;
    if (tls == NULL || !tls->is_server)
        return fail_invalid_args(fd, "weft_tls_accept: tls is NULL or belongs to a client");
    return open_tls_stream(stream, fd, tls, NULL, NULL);
}

int weft_tls_connect(weft_stream *stream, int fd, weft_tls *tls, const char *server_name)
{
    return weft__tls_connect_only(stream, fd, tls, server_name, NULL);
}

int weft__tls_connect_only(weft_stream *stream, int fd, weft_tls *tls, const char *server_name,
                           const char *protocol)
{
    if (fd < 0)
        return fd;
    if (tls == NULL || tls->is_server || server_name == NULL)
        return fail_invalid_args(
            fd, "weft_tls_connect: tls is NULL or belongs to a server, or server_name is NULL");
    return open_tls_stream(stream, fd, tls, server_name, protocol);
}

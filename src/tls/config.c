/*
 * An SSL_CTX from options: what a weft_tls is to OpenSSL. Files are read here, so all of it runs
 * where a thread may block.
 */
#include "tls/tls.h"

#include <weft/error.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * With forward secrecy and authenticated encryption; all that has TLS 1.2 and is kept up has them.
 */
#define SERVER_CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"

/* Where systems keep the authorities that they trust, in one file. */
static const char *const system_files[] = {
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
};

/* "h2,http/1.1" as it stands on the wire. */
static int encode_alpn(weft__tls_config *config, const char *list)
{
    size_t bytes = strlen(list) + 1;
    unsigned char *at = config->alpn = malloc(bytes);
    if (at == NULL)
        return -ENOMEM;
    for (const char *name = list;; name++) {
        size_t n = strcspn(name, ",");
        if (n == 0 || n > 255 || bytes > UINT16_MAX)
            return weft_fail(-EINVAL, "no list of protocols: %s", list);
        *at++ = (unsigned char)n;
        memcpy(at, name, n);
        at += n;
        name += n;
        if (*name == '\0')
            break;
    }
    config->alpn_bytes = bytes;
    return 0;
}

static int set_versions(SSL_CTX *ctx, const weft_tls_options *o)
{
    int min = o->version_min != 0 ? o->version_min : 12;
    int max = o->version_max != 0 ? o->version_max : 13;
    if ((min != 12 && min != 13) || (max != 12 && max != 13) || min > max)
        return weft_fail(-EINVAL, "no versions of TLS: %d to %d", min, max);
    if (!SSL_CTX_set_min_proto_version(ctx, min == 12 ? TLS1_2_VERSION : TLS1_3_VERSION) ||
        !SSL_CTX_set_max_proto_version(ctx, max == 12 ? TLS1_2_VERSION : TLS1_3_VERSION))
        return weft__tls_fail(-EINVAL, "cannot set the versions of TLS");
    return 0;
}

static int set_ciphers(SSL_CTX *ctx, const weft_tls *tls)
{
    const char *ciphers = tls->options.ciphers;
    if (ciphers == NULL && tls->is_server)
        ciphers = SERVER_CIPHERS;
    if (ciphers == NULL || SSL_CTX_set_cipher_list(ctx, ciphers))
        return 0;
    ERR_clear_error();
    return weft_fail(-EINVAL, "no ciphers of TLS 1.2: %s", ciphers);
}

/* Trust all certificates of a PEM text. */
static int trust_pem(SSL_CTX *ctx, const char *pem, const char *where)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    if (bio == NULL)
        return -ENOMEM;
    X509_STORE *store = SSL_CTX_get_cert_store(ctx);
    size_t count = 0;
    bool is_added = true;
    X509 *x;
    while (is_added && (x = PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL)) != NULL) {
        is_added = X509_STORE_add_cert(store, x);
        count++;
        X509_free(x);
    }
    BIO_free(bio);
    bool is_whole = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    ERR_clear_error();
    if (is_added && is_whole && count > 0)
        return 0;
    return weft_fail(-EINVAL, "%s: no good certificates of authorities in PEM", where);
}

static int trust_file(SSL_CTX *ctx, const char *path)
{
    char *pem;
    int rc = weft__tls_file_read(path, &pem);
    if (rc < 0)
        return rc;
    rc = trust_pem(ctx, pem, path);
    free(pem);
    return rc;
}

/*
 * OpenSSL's own way would read small files in a folder during handshakes. It is what is left if no
 * file is known.
 */
static int trust_system(SSL_CTX *ctx)
{
    const char *path = getenv(X509_get_default_cert_file_env());
    if (path != NULL)
        return trust_file(ctx, path);
    bool has_folder = getenv(X509_get_default_cert_dir_env()) != NULL;
    for (size_t i = 0; !has_folder && i < sizeof system_files / sizeof *system_files; i++)
        if (access(system_files[i], R_OK) == 0)
            return trust_file(ctx, system_files[i]);
    if (!SSL_CTX_set_default_verify_paths(ctx))
        return weft__tls_fail(-ENOENT, "cannot find whom the system trusts");
    return 0;
}

/* Whose certificates a server asks for, so that a client with several knows which to show. */
static int name_authorities(SSL_CTX *ctx)
{
    STACK_OF(X509_OBJECT) *all = X509_STORE_get0_objects(SSL_CTX_get_cert_store(ctx));
    for (int i = 0; i < sk_X509_OBJECT_num(all); i++) {
        X509 *x = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(all, i));
        if (x != NULL && !SSL_CTX_add_client_CA(ctx, x))
            return -ENOMEM;
    }
    return 0;
}

static int trust(SSL_CTX *ctx, const weft_tls *tls)
{
    const weft_tls_options *o = &tls->options;
    int rc = 0;
    if (o->ca_file != NULL)
        rc = trust_file(ctx, o->ca_file);
    if (rc == 0 && o->ca_pem != NULL)
        rc = trust_pem(ctx, o->ca_pem, "a text in memory");
    if (rc == 0 && o->ca_file == NULL && o->ca_pem == NULL)
        rc = trust_system(ctx);
    return rc == 0 && tls->is_server && (o->ca_file != NULL || o->ca_pem != NULL)
               ? name_authorities(ctx)
               : rc;
}

/* What is wrong is kept in words: when OpenSSL has failed, it does not show the certificate. */
static int on_verify(int is_good, X509_STORE_CTX *store)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    weft__tls_conn *c = SSL_get_app_data(ssl);
    X509 *x = X509_STORE_CTX_get_current_cert(store);
    if (!is_good && x != NULL && c->handshake != NULL)
        weft__tls_tell_names(x, c->handshake->names, sizeof c->handshake->names);
    return is_good;
}

/* A client goes on without trust; describe shows no subject then. */
static int accept_any(int is_good, X509_STORE_CTX *store)
{
    (void)is_good, (void)store;
    return 1;
}

static int set_verify(SSL_CTX *ctx, const weft_tls *tls)
{
    weft_tls_verify verify = tls->options.verify;
    if (verify == WEFT_TLS_VERIFY_DEFAULT)
        verify = tls->is_server ? WEFT_TLS_VERIFY_NONE : WEFT_TLS_VERIFY_REQUIRED;
    bool is_told = tls->options.ca_file != NULL || tls->options.ca_pem != NULL;
    if (verify < WEFT_TLS_VERIFY_NONE || verify > WEFT_TLS_VERIFY_REQUIRED)
        return weft_fail(-EINVAL, "no way to verify: %d", (int)verify);
    if (verify == WEFT_TLS_VERIFY_NONE) {
        SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
        return is_told ? trust(ctx, tls) : 0; /* for a mistake in it to be heard of */
    }
    bool is_any = verify == WEFT_TLS_VERIFY_OPTIONAL && !tls->is_server;
    int missing = verify == WEFT_TLS_VERIFY_REQUIRED ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0;
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | missing, is_any ? accept_any : on_verify);
    return trust(ctx, tls);
}

static int use_cert(SSL_CTX *ctx, const weft__tls_cert *cert)
{
    if (SSL_CTX_use_cert_and_key(ctx, cert->leaf, cert->key, cert->chain, 1))
        return 0;
    return weft__tls_fail(-EINVAL, "the certificate cannot be used");
}

static int load_cert(weft__tls_config *config, const weft_tls_identity *identity)
{
    weft__tls_cert *cert;
    int rc = weft__tls_cert_load(identity, &cert);
    if (rc == 0)
        config->certs[config->cert_count++] = cert;
    return rc;
}

static int load_certs(weft__tls_config *config, const weft_tls *tls)
{
    bool has_first = !weft__tls_identity_is_empty(&tls->options.identity);
    config->certs = calloc(tls->added_count + 1, sizeof(weft__tls_cert *));
    if (config->certs == NULL)
        return -ENOMEM;
    int rc = has_first ? load_cert(config, &tls->options.identity) : 0;
    for (size_t i = 0; rc == 0 && i < tls->added_count; i++)
        rc = load_cert(config, &tls->added[i]);
    if (rc == 0 && config->cert_count > 0)
        rc = use_cert(config->ctx, config->certs[0]);
    return rc;
}

static void set_sessions(SSL_CTX *ctx, const weft_tls *tls)
{
    /* A server keeps none, all is in the tickets; a client keeps them by name, in sessions.c. */
    SSL_CTX_set_session_cache_mode(ctx, tls->is_server || tls->options.has_no_tickets
                                            ? SSL_SESS_CACHE_OFF
                                            : SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    if (tls->options.has_no_tickets) {
        SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
        SSL_CTX_set_num_tickets(ctx, 0);
    }
    /* Without it no session in which the client has shown a certificate is resumed. */
    SSL_CTX_set_session_id_context(ctx, (const unsigned char *)"weft", 4);
}

static int set_up(weft__tls_config *config, const weft_tls *tls)
{
    SSL_CTX *ctx = config->ctx;
    const weft_tls_options *o = &tls->options;
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    set_sessions(ctx, tls);
    int rc = set_versions(ctx, o);
    if (rc == 0)
        rc = set_ciphers(ctx, tls);
    if (rc == 0 && o->alpn != NULL)
        rc = encode_alpn(config, o->alpn);
    if (rc == 0)
        rc = load_certs(config, tls);
    if (rc == 0)
        rc = set_verify(ctx, tls);
    if (rc == 0 && !tls->is_server && config->alpn_bytes > 0)
        rc = SSL_CTX_set_alpn_protos(ctx, config->alpn, (unsigned)config->alpn_bytes) == 0
                 ? 0
                 : -ENOMEM;
    if (rc == 0)
        weft__tls_set_callbacks(ctx, tls, config->alpn_bytes > 0);
    return rc;
}

int weft__tls_config_load(const weft_tls *tls, weft__tls_config **out)
{
    weft__tls_config *config = calloc(1, sizeof *config);
    if (config == NULL)
        return -ENOMEM;
    atomic_init(&config->refs, 1);
    ERR_clear_error();
    config->ctx = SSL_CTX_new(tls->is_server ? TLS_server_method() : TLS_client_method());
    int rc =
        config->ctx == NULL ? weft__tls_fail(-ENOMEM, "OpenSSL cannot begin") : set_up(config, tls);
    if (rc < 0)
        weft__tls_config_unref(config);
    else
        *out = config;
    return rc;
}

int weft__tls_config_extend(const weft__tls_config *from, weft__tls_cert *cert,
                            weft__tls_config **out)
{
    weft__tls_config *config = calloc(1, sizeof *config);
    if (config == NULL)
        return -ENOMEM;
    atomic_init(&config->refs, 1);
    config->certs = calloc(from->cert_count + 1, sizeof(weft__tls_cert *));
    config->alpn = from->alpn != NULL ? malloc(from->alpn_bytes) : NULL;
    if (config->certs == NULL || (from->alpn != NULL && config->alpn == NULL)) {
        weft__tls_config_unref(config);
        return -ENOMEM;
    }
    SSL_CTX_up_ref(from->ctx);
    config->ctx = from->ctx;
    if (from->alpn != NULL)
        memcpy(config->alpn, from->alpn, from->alpn_bytes);
    config->alpn_bytes = from->alpn_bytes;
    for (size_t i = 0; i < from->cert_count; i++)
        config->certs[config->cert_count++] = weft__tls_cert_ref(from->certs[i]);
    config->certs[config->cert_count++] = weft__tls_cert_ref(cert);
    *out = config;
    return 0;
}

weft__tls_config *weft__tls_config_ref(weft__tls_config *config)
{
    atomic_fetch_add_explicit(&config->refs, 1, memory_order_relaxed);
    return config;
}

void weft__tls_config_unref(weft__tls_config *config)
{
    if (atomic_fetch_sub_explicit(&config->refs, 1, memory_order_acq_rel) != 1)
        return;
    SSL_CTX_free(config->ctx);
    for (size_t i = 0; i < config->cert_count; i++)
        weft__tls_cert_unref(config->certs[i]);
    free(config->certs);
    free(config->alpn);
    free(config);
}

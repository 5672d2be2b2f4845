/* Create an SSL_CTX from options. The functions read files and may block the thread. */
#include "tls/tls.h"

#include <weft/error.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Ciphers with forward secrecy and authenticated encryption. All current clients with TLS 1.2
 * support these ciphers.
 */
#define SERVER_CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"

/* Files with the system's CA certificates, on Debian, on Red Hat, and on other systems. */
static const char *const system_ca_files[] = {
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
};

/* Encode a list, for example "h2,http/1.1", in wire format (RFC 7301, 3.1). */
static int encode_alpn(weft__tls_config *config, const char *list)
{
    size_t bytes = strlen(list) + 1;
    unsigned char *out = config->alpn = malloc(bytes);
    if (out == NULL)
        return -ENOMEM;
    for (const char *name = list;; name++) {
        size_t n = strcspn(name, ",");
        if (n == 0 || n > 255 || bytes > UINT16_MAX)
            return weft_fail(-EINVAL, "alpn is not a list of protocols: %s", list);
        *out++ = (unsigned char)n;
        memcpy(out, name, n);
        out += n;
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
        return weft_fail(-EINVAL, "version_min is %d, version_max is %d", min, max);
    if (!SSL_CTX_set_min_proto_version(ctx, min == 12 ? TLS1_2_VERSION : TLS1_3_VERSION) ||
        !SSL_CTX_set_max_proto_version(ctx, max == 12 ? TLS1_2_VERSION : TLS1_3_VERSION))
        return weft__tls_fail(-EINVAL, "cannot set version_min and version_max");
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
    return weft_fail(-EINVAL, "ciphers has no cipher of TLS 1.2: %s", ciphers);
}

/* Trust all certificates of a PEM text. source is the name of the text in error messages. */
static int trust_pem(SSL_CTX *ctx, const char *pem, const char *source)
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
    /* At the end of the text, OpenSSL reports that no certificate starts. */
    bool is_complete = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    ERR_clear_error();
    if (is_added && is_complete && count > 0)
        return 0;
    return weft_fail(-EINVAL, "%s: not a PEM list of CA certificates", source);
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
 * Trust the CA certificates of the system: those in SSL_CERT_FILE or in a known file. OpenSSL's
 * default directory is the last choice, because OpenSSL reads files of the directory during
 * handshakes.
 */
static int trust_system(SSL_CTX *ctx)
{
    const char *path = getenv(X509_get_default_cert_file_env());
    if (path != NULL)
        return trust_file(ctx, path);
    bool has_cert_dir = getenv(X509_get_default_cert_dir_env()) != NULL;
    for (size_t i = 0; !has_cert_dir && i < sizeof system_ca_files / sizeof *system_ca_files; i++)
        if (access(system_ca_files[i], R_OK) == 0)
            return trust_file(ctx, system_ca_files[i]);
    if (!SSL_CTX_set_default_verify_paths(ctx))
        return weft__tls_fail(-ENOENT, "cannot load the CA certificates of the system");
    return 0;
}

/*
 * Send the names of the trusted CAs to clients, so that a client with several certificates can
 * choose a certificate.
 */
static int set_client_ca_names(SSL_CTX *ctx)
{
    STACK_OF(X509_OBJECT) *objects = X509_STORE_get0_objects(SSL_CTX_get_cert_store(ctx));
    for (int i = 0; i < sk_X509_OBJECT_num(objects); i++) {
        X509 *x = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(objects, i));
        if (x != NULL && !SSL_CTX_add_client_CA(ctx, x))
            return -ENOMEM;
    }
    return 0;
}

static int set_trusted_cas(SSL_CTX *ctx, const weft_tls *tls)
{
    const weft_tls_options *o = &tls->options;
    int rc = 0;
    if (o->ca_file != NULL)
        rc = trust_file(ctx, o->ca_file);
    if (rc == 0 && o->ca_pem != NULL)
        rc = trust_pem(ctx, o->ca_pem, "ca_pem");
    if (rc == 0 && o->ca_file == NULL && o->ca_pem == NULL)
        rc = trust_system(ctx);
    return rc == 0 && tls->is_server && (o->ca_file != NULL || o->ca_pem != NULL)
               ? set_client_ca_names(ctx)
               : rc;
}

/*
 * Store the names of an invalid certificate for the error message, because OpenSSL does not return
 * the certificate after a failure.
 */
static int on_verify(int is_valid, X509_STORE_CTX *store)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    weft__tls_conn *c = SSL_get_app_data(ssl);
    X509 *x = X509_STORE_CTX_get_current_cert(store);
    if (!is_valid && x != NULL && c->handshake != NULL)
        weft__tls_cert_names_text(x, c->handshake->cert_names, sizeof c->handshake->cert_names);
    return is_valid;
}

/* Accept an invalid certificate. weft_tls_describe then returns an empty peer_subject. */
static int on_verify_accept(int is_valid, X509_STORE_CTX *store)
{
    (void)is_valid, (void)store;
    return 1;
}

static int set_verify(SSL_CTX *ctx, const weft_tls *tls)
{
    weft_tls_verify verify = tls->options.verify;
    if (verify == WEFT_TLS_VERIFY_DEFAULT)
        verify = tls->is_server ? WEFT_TLS_VERIFY_NONE : WEFT_TLS_VERIFY_REQUIRED;
    bool has_own_cas = tls->options.ca_file != NULL || tls->options.ca_pem != NULL;
    if (verify < WEFT_TLS_VERIFY_NONE || verify > WEFT_TLS_VERIFY_REQUIRED)
        return weft_fail(-EINVAL, "verify is %d", (int)verify);
    if (verify == WEFT_TLS_VERIFY_NONE) {
        SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
        /* Load CA certificates even if they are not used, to report errors in the options. */
        return has_own_cas ? set_trusted_cas(ctx, tls) : 0;
    }
    bool accepts_invalid = verify == WEFT_TLS_VERIFY_OPTIONAL && !tls->is_server;
    int required_flag = verify == WEFT_TLS_VERIFY_REQUIRED ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0;
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | required_flag,
                       accepts_invalid ? on_verify_accept : on_verify);
    return set_trusted_cas(ctx, tls);
}

static int ctx_use_cert(SSL_CTX *ctx, const weft__tls_cert *cert)
{
    if (SSL_CTX_use_cert_and_key(ctx, cert->leaf, cert->key, cert->chain, 1))
        return 0;
    return weft__tls_fail(-EINVAL, "cannot use the certificate");
}

static int config_load_cert(weft__tls_config *config, const weft_tls_identity *identity)
{
    weft__tls_cert *cert;
    int rc = weft__tls_cert_load(identity, &cert);
    if (rc == 0)
        config->certs[config->cert_count++] = cert;
    return rc;
}

static int config_load_certs(weft__tls_config *config, const weft_tls *tls)
{
    bool has_identity = !weft__tls_identity_is_empty(&tls->options.identity);
    config->certs = calloc(tls->added_count + 1, sizeof(weft__tls_cert *));
    if (config->certs == NULL)
        return -ENOMEM;
    int rc = has_identity ? config_load_cert(config, &tls->options.identity) : 0;
    for (size_t i = 0; rc == 0 && i < tls->added_count; i++)
        rc = config_load_cert(config, &tls->added[i]);
    if (rc == 0 && config->cert_count > 0)
        rc = ctx_use_cert(config->ctx, config->certs[0]);
    return rc;
}

static void set_sessions(SSL_CTX *ctx, const weft_tls *tls)
{
    /* A server stores sessions only in tickets. sessions.c stores the sessions of a client. */
    SSL_CTX_set_session_cache_mode(ctx, tls->is_server || tls->options.has_no_tickets
                                            ? SSL_SESS_CACHE_OFF
                                            : SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    if (tls->options.has_no_tickets) {
        SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
        SSL_CTX_set_num_tickets(ctx, 0);
    }
    /* Without a context id, OpenSSL does not resume sessions with client certificates. */
    SSL_CTX_set_session_id_context(ctx, (const unsigned char *)"weft", 4);
}

static int config_set_up(weft__tls_config *config, const weft_tls *tls)
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
        rc = config_load_certs(config, tls);
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
    int rc = config->ctx == NULL ? weft__tls_fail(-ENOMEM, "TLS: cannot initialise OpenSSL")
                                 : config_set_up(config, tls);
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

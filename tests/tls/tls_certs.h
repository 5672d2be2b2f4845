/* Certificates for the tests of TLS: valid, expired, self-signed, or signed by a test authority. */
#ifndef TESTS_TLS_TLS_CERTS_H
#define TESTS_TLS_TLS_CERTS_H

#include "support/support.h"

#include <weft/web.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

/* The contents of a certificate. */
typedef struct cert_options {
    const char *subject; /* common name; NULL: test */
    const char *names;   /* subjectAltName in the format of OpenSSL, "DNS:a.org,IP:127.0.0.1" */
    bool is_authority;
    bool is_rsa;
    int begin_days;                 /* from now */
    int end_days;                   /* from now; 0: 10 */
    const struct test_cert *issuer; /* NULL: self-signed */
} cert_options;

typedef struct test_cert {
    X509 *x;
    EVP_PKEY *key;
    char *cert_pem;
    char *key_pem;
} test_cert;

static inline void add_extension(X509 *x, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx_nodb(&ctx);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    ck_assert_ptr_nonnull(extension);
    ck_assert_int_eq(X509_add_ext(x, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

static inline char *bio_to_text(BIO *bio)
{
    char *data;
    long bytes = BIO_get_mem_data(bio, &data);
    char *text = calloc(1, (size_t)bytes + 1);
    ck_assert_ptr_nonnull(text);
    memcpy(text, data, (size_t)bytes);
    BIO_free(bio);
    return text;
}

static inline void fill_certificate(X509 *x, EVP_PKEY *key, const cert_options *w)
{
    static long serial = 1;
    X509_NAME *subject = X509_get_subject_name(x);
    const char *name = w->subject != NULL ? w->subject : "test";
    X509_set_version(x, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(x), serial++);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(x, w->issuer != NULL ? X509_get_subject_name(w->issuer->x) : subject);
    X509_time_adj_ex(X509_getm_notBefore(x), w->begin_days, w->begin_days == 0 ? -60 : 0, NULL);
    X509_time_adj_ex(X509_getm_notAfter(x), w->end_days != 0 ? w->end_days : 10, 0, NULL);
    X509_set_pubkey(x, key);
    add_extension(x, NID_basic_constraints, w->is_authority ? "critical,CA:TRUE" : "CA:FALSE");
    if (w->names != NULL)
        add_extension(x, NID_subject_alt_name, w->names);
}

/* All certificates of the test, for free_certs. */
static test_cert issued[16];
static size_t issued_count;

/* Create a certificate and its key. free_certs frees both. */
static inline test_cert *issue_cert(cert_options w)
{
    ck_assert_uint_lt(issued_count, COUNT_OF(issued));
    test_cert *i = &issued[issued_count++];
    i->x = X509_new();
    i->key = w.is_rsa ? EVP_RSA_gen(2048) : EVP_EC_gen("P-256");
    ck_assert(i->x != NULL && i->key != NULL);
    fill_certificate(i->x, i->key, &w);
    ck_assert_int_gt(X509_sign(i->x, w.issuer != NULL ? w.issuer->key : i->key, EVP_sha256()), 0);
    BIO *cert = BIO_new(BIO_s_mem()), *key = BIO_new(BIO_s_mem());
    ck_assert_int_eq(PEM_write_bio_X509(cert, i->x), 1);
    ck_assert_int_eq(PEM_write_bio_PrivateKey(key, i->key, NULL, NULL, 0, NULL, NULL), 1);
    i->cert_pem = bio_to_text(cert);
    i->key_pem = bio_to_text(key);
    return i;
}

static inline test_cert *issue_ca(const char *subject)
{
    return issue_cert((cert_options){.subject = subject, .is_authority = true});
}

/* Create a certificate that ca has signed. names may be NULL. */
static inline test_cert *issue_for(const test_cert *ca, const char *subject, const char *names)
{
    return issue_cert((cert_options){.subject = subject, .names = names, .issuer = ca});
}

static inline void free_certs(void)
{
    while (issued_count > 0) {
        test_cert *i = &issued[--issued_count];
        X509_free(i->x);
        EVP_PKEY_free(i->key);
        free(i->cert_pem);
        free(i->key_pem);
    }
}

static inline weft_tls_identity identity_of(const test_cert *i)
{
    return (weft_tls_identity){.cert_pem = i->cert_pem, .key_pem = i->key_pem};
}

/* Write text to a new temporary file and return its path. The caller calls remove_temp_file. */
static inline char *write_temp_file(const char *text)
{
    char *path = strdup("/tmp/weft-tls-XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

static inline void overwrite_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static inline void remove_temp_file(char *path)
{
    unlink(path);
    free(path);
}

#endif

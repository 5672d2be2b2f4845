/* Create a key and a self-signed certificate, for tests and development. */
#include "tls/tls.h"

#include <weft/error.h>
#include <weft/offload.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

/* The validity starts 1 hour ago, because the clock of the peer may be slow. */
#define NOT_BEFORE_S (-3600)
#define DAYS_MAX 36500

typedef struct cert_request {
    const char *names;
    int days;
    char *cert_pem;
    char *key_pem;
} cert_request;

static bool add_extension(X509 *x, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, x, x, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool is_added = extension != NULL && X509_add_ext(x, extension, -1);
    X509_EXTENSION_free(extension);
    return is_added;
}

/* Convert a text to an IP address, or else to a DNS name. Return NULL if memory is exhausted. */
static GENERAL_NAME *general_name_new(const char *text)
{
    GENERAL_NAME *name = GENERAL_NAME_new();
    if (name == NULL)
        return NULL;
    ASN1_OCTET_STRING *address = a2i_IPADDRESS(text);
    if (address != NULL) {
        GENERAL_NAME_set0_value(name, GEN_IPADD, address);
        return name;
    }
    ERR_clear_error();
    ASN1_IA5STRING *host = ASN1_IA5STRING_new();
    if (host == NULL || !ASN1_STRING_set(host, text, -1)) {
        ASN1_IA5STRING_free(host);
        GENERAL_NAME_free(name);
        return NULL;
    }
    GENERAL_NAME_set0_value(name, GEN_DNS, host);
    return name;
}

/*
 * Add the names of a list. The function splits list in place. The function does not use OpenSSL's
 * text syntax, because a name could contain directives of that syntax.
 */
static bool add_names(X509 *x, char *list)
{
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    bool is_ok = names != NULL;
    char *rest = list;
    for (char *text; is_ok && (text = strsep(&rest, ",")) != NULL;) {
        GENERAL_NAME *name = general_name_new(text);
        is_ok = name != NULL && sk_GENERAL_NAME_push(names, name) > 0;
        if (!is_ok)
            GENERAL_NAME_free(name);
    }
    is_ok = is_ok && X509_add1_ext_i2d(x, NID_subject_alt_name, names, 0, 0);
    GENERAL_NAMES_free(names);
    return is_ok;
}

static bool set_serial(X509 *x)
{
    uint64_t number;
    return RAND_bytes((unsigned char *)&number, sizeof number) == 1 &&
           ASN1_INTEGER_set_uint64(X509_get_serialNumber(x), number >> 1 | 1);
}

static bool set_subject(X509 *x, const char *names)
{
    X509_NAME *subject = X509_get_subject_name(x);
    size_t n = strcspn(names, ",");
    n = n < 64 ? n : 64; /* the maximum length of a common name (RFC 5280, A.1) */
    return X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)names,
                                      (int)n, -1, 0) &&
           X509_set_issuer_name(x, subject);
}

static bool cert_fill_in(X509 *x, EVP_PKEY *key, const cert_request *request)
{
    char *list = strdup(request->names);
    bool is_ok = list != NULL && X509_set_version(x, X509_VERSION_3) && set_serial(x) &&
                 X509_gmtime_adj(X509_getm_notBefore(x), NOT_BEFORE_S) != NULL &&
                 X509_time_adj_ex(X509_getm_notAfter(x), request->days, 0, NULL) != NULL &&
                 set_subject(x, request->names) && X509_set_pubkey(x, key) &&
                 add_extension(x, NID_basic_constraints, "critical,CA:FALSE") &&
                 add_extension(x, NID_key_usage, "critical,digitalSignature") &&
                 add_extension(x, NID_ext_key_usage, "serverAuth,clientAuth") &&
                 add_extension(x, NID_subject_key_identifier, "hash") && add_names(x, list) &&
                 X509_sign(x, key, EVP_sha256()) > 0;
    free(list);
    return is_ok;
}

/* Return the contents of bio as a string. Return NULL if memory is exhausted. */
static char *bio_text(BIO *bio)
{
    char *data;
    long bytes = BIO_get_mem_data(bio, &data);
    return bytes > 0 ? weft__tls_copy_text(data, (size_t)bytes) : NULL;
}

static bool write_pem(cert_request *request, X509 *x, EVP_PKEY *key)
{
    BIO *cert = BIO_new(BIO_s_mem()), *private_key = BIO_new(BIO_s_mem());
    if (cert != NULL && private_key != NULL && PEM_write_bio_X509(cert, x) &&
        PEM_write_bio_PrivateKey(private_key, key, NULL, NULL, 0, NULL, NULL)) {
        request->cert_pem = bio_text(cert);
        request->key_pem = bio_text(private_key);
    }
    BIO_free(cert);
    BIO_free(private_key);
    return request->cert_pem != NULL && request->key_pem != NULL;
}

static weft_value create_cert(void *arg)
{
    cert_request *request = arg;
    if (weft__tls_init() < 0)
        return weft_fail(-ENOMEM, "weft_tls_self_signed: cannot initialise OpenSSL");
    ERR_clear_error();
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    bool is_ok =
        key != NULL && x != NULL && cert_fill_in(x, key, request) && write_pem(request, x, key);
    X509_free(x);
    EVP_PKEY_free(key);
    if (is_ok)
        return 0;
    free(request->cert_pem);
    free(request->key_pem);
    return weft__tls_fail(-EINVAL, "weft_tls_self_signed: cannot create a certificate");
}

static bool names_are_valid(const char *names)
{
    size_t n = names != NULL ? strlen(names) : 0;
    if (n == 0 || names[0] == ',' || names[n - 1] == ',' || strstr(names, ",,") != NULL)
        return false;
    for (size_t i = 0; i < n; i++)
        if (names[i] <= ' ' || names[i] > '~')
            return false;
    return true;
}

int weft_tls_self_signed(const char *names, int days, char **cert_pem, char **key_pem)
{
    if (!names_are_valid(names) || cert_pem == NULL || key_pem == NULL)
        return weft_fail(
            -EINVAL, "weft_tls_self_signed: names is invalid, or cert_pem or key_pem is NULL: %s",
            names != NULL ? names : "NULL");
    if (days < 1 || days > DAYS_MAX)
        return weft_fail(-EINVAL, "weft_tls_self_signed: days is %d, not in 1..36500", days);
    cert_request request = {names, days, NULL, NULL};
    int rc =
        (int)weft_offload_with(create_cert, &request, &(weft_offload_options){.is_kept = true});
    if (rc < 0)
        return rc;
    *cert_pem = request.cert_pem;
    *key_pem = request.key_pem;
    return 0;
}

/* A key and a certificate that it signs itself, for trying things. */
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

/* So that a clock that is a little late does not mind. */
#define BEGIN_S (-3600)
#define DAYS_MAX 36500

typedef struct order {
    const char *names;
    int days;
    char *cert_pem;
    char *key_pem;
} order;

static bool add_extension(X509 *x, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, x, x, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool is_added = extension != NULL && X509_add_ext(x, extension, -1);
    X509_EXTENSION_free(extension);
    return is_added;
}

/* One name of the list: an address or not. */
static GENERAL_NAME *make_name(const char *text)
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

/* By hand: OpenSSL's own syntax would let a name say more than a name. Cuts list into pieces. */
static bool add_names(X509 *x, char *list)
{
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    bool is_good = names != NULL;
    char *rest = list;
    for (char *text; is_good && (text = strsep(&rest, ",")) != NULL;) {
        GENERAL_NAME *name = make_name(text);
        is_good = name != NULL && sk_GENERAL_NAME_push(names, name) > 0;
        if (!is_good)
            GENERAL_NAME_free(name);
    }
    is_good = is_good && X509_add1_ext_i2d(x, NID_subject_alt_name, names, 0, 0);
    GENERAL_NAMES_free(names);
    return is_good;
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
    n = n < 64 ? n : 64; /* a common name has no more */
    return X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)names,
                                      (int)n, -1, 0) &&
           X509_set_issuer_name(x, subject);
}

static bool fill_in(X509 *x, EVP_PKEY *key, const order *o)
{
    char *list = strdup(o->names);
    bool is_good = list != NULL && X509_set_version(x, X509_VERSION_3) && set_serial(x) &&
                   X509_gmtime_adj(X509_getm_notBefore(x), BEGIN_S) != NULL &&
                   X509_time_adj_ex(X509_getm_notAfter(x), o->days, 0, NULL) != NULL &&
                   set_subject(x, o->names) && X509_set_pubkey(x, key) &&
                   add_extension(x, NID_basic_constraints, "critical,CA:FALSE") &&
                   add_extension(x, NID_key_usage, "critical,digitalSignature") &&
                   add_extension(x, NID_ext_key_usage, "serverAuth,clientAuth") &&
                   add_extension(x, NID_subject_key_identifier, "hash") && add_names(x, list) &&
                   X509_sign(x, key, EVP_sha256()) > 0;
    free(list);
    return is_good;
}

/* What has been written to bio, as a string; NULL: no memory. */
static char *text_of(BIO *bio)
{
    char *data;
    long bytes = BIO_get_mem_data(bio, &data);
    return bytes > 0 ? weft__tls_text(data, (size_t)bytes) : NULL;
}

static bool write_out(order *o, X509 *x, EVP_PKEY *key)
{
    BIO *cert = BIO_new(BIO_s_mem()), *secret = BIO_new(BIO_s_mem());
    if (cert != NULL && secret != NULL && PEM_write_bio_X509(cert, x) &&
        PEM_write_bio_PrivateKey(secret, key, NULL, NULL, 0, NULL, NULL)) {
        o->cert_pem = text_of(cert);
        o->key_pem = text_of(secret);
    }
    BIO_free(cert);
    BIO_free(secret);
    return o->cert_pem != NULL && o->key_pem != NULL;
}

static weft_value make(void *arg)
{
    order *o = arg;
    if (weft__tls_init() < 0)
        return weft_fail(-ENOMEM, "OpenSSL cannot begin");
    ERR_clear_error();
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    bool is_good = key != NULL && x != NULL && fill_in(x, key, o) && write_out(o, x, key);
    X509_free(x);
    EVP_PKEY_free(key);
    if (is_good)
        return 0;
    free(o->cert_pem);
    free(o->key_pem);
    return weft__tls_fail(-EINVAL, "no certificate can be made");
}

static bool are_names(const char *names)
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
    if (!are_names(names) || cert_pem == NULL || key_pem == NULL)
        return weft_fail(-EINVAL, "no names for a certificate: %s", names != NULL ? names : "none");
    if (days < 1 || days > DAYS_MAX)
        return weft_fail(-EINVAL, "a certificate for %d days", days);
    order o = {names, days, NULL, NULL};
    int rc = (int)weft_offload_with(make, &o, &(weft_offload_options){.is_kept = true});
    if (rc < 0)
        return rc;
    *cert_pem = o.cert_pem;
    *key_pem = o.key_pem;
    return 0;
}

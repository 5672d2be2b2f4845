/* Load certificates and keys from PEM files or PEM text, and find the names of certificates. */
#include "tls/tls.h"

#include "base/libc.h"

#include <weft/error.h>

#include <ctype.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Larger than any list of CA certificates. A larger file is a mistake. */
#define FILE_BYTES_MAX ((size_t)16 << 20)

static ssize_t file_read_all(int fd, char **text)
{
    size_t size = 8192, used = 0;
    ssize_t n = 1;
    char *data = NULL;
    while (n > 0) {
        char *more = data == NULL || used == size ? realloc(data, (size *= 2) + 1) : data;
        if (more == NULL || used > FILE_BYTES_MAX) {
            free(more != NULL ? more : data);
            return more == NULL ? -ENOMEM : -EFBIG;
        }
        data = more;
        n = TEMP_FAILURE_RETRY(read(fd, data + used, size - used));
        used += n > 0 ? (size_t)n : 0;
    }
    if (n < 0) {
        n = -errno;
        free(data);
        return n;
    }
    data[used] = '\0';
    *text = data;
    return 0;
}

int weft__tls_file_read(const char *path, char **text)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int rc = fd < 0 ? -errno : (int)file_read_all(fd, text);
    if (fd >= 0)
        close(fd);
    return rc == 0 ? 0 : weft_fail(rc, "cannot read %s: %s", path, weft__tls_error_text(rc));
}

char *weft__tls_copy_text(const void *data, size_t bytes)
{
    char *text = malloc(bytes + 1);
    if (text == NULL)
        return NULL;
    if (bytes > 0)
        memcpy(text, data, bytes);
    text[bytes] = '\0';
    return text;
}

bool weft__tls_identity_is_empty(const weft_tls_identity *i)
{
    return i->cert_file == NULL && i->key_file == NULL && i->cert_pem == NULL && i->key_pem == NULL;
}

static int identity_copy_text(const char **to, const char *from)
{
    *to = from != NULL ? strdup(from) : NULL;
    return from != NULL && *to == NULL ? -ENOMEM : 0;
}

int weft__tls_identity_copy(weft_tls_identity *to, const weft_tls_identity *from)
{
    int rc = identity_copy_text(&to->cert_file, from->cert_file);
    rc |= identity_copy_text(&to->key_file, from->key_file);
    rc |= identity_copy_text(&to->cert_pem, from->cert_pem);
    rc |= identity_copy_text(&to->key_pem, from->key_pem);
    if (rc != 0)
        weft__tls_identity_free(to);
    return rc != 0 ? -ENOMEM : 0;
}

void weft__tls_identity_free(weft_tls_identity *i)
{
    free((char *)(uintptr_t)i->cert_file);
    free((char *)(uintptr_t)i->key_file);
    free((char *)(uintptr_t)i->cert_pem);
    free((char *)(uintptr_t)i->key_pem);
    *i = (weft_tls_identity){0};
}

/* Fail for encrypted keys, because no user can enter a password. ctx is the flag is_encrypted. */
static int refuse_password(char *buffer, int size, int is_for_writing, void *ctx)
{
    (void)buffer, (void)size, (void)is_for_writing;
    *(bool *)ctx = true;
    return -1;
}

/* Parse a certificate and its chain. source is the name of the text in error messages. */
static int cert_parse_chain(weft__tls_cert *cert, const char *pem, const char *source)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    cert->chain = sk_X509_new_null();
    if (bio == NULL || cert->chain == NULL) {
        BIO_free(bio);
        return -ENOMEM;
    }
    bool is_encrypted;
    X509 *x = cert->leaf = PEM_read_bio_X509_AUX(bio, NULL, refuse_password, &is_encrypted);
    while (x != NULL && (x = PEM_read_bio_X509(bio, NULL, refuse_password, &is_encrypted)) != NULL)
        if (!sk_X509_push(cert->chain, x)) {
            X509_free(x);
            break;
        }
    BIO_free(bio);
    /* At the end of the text, OpenSSL reports that no certificate starts. */
    if (cert->leaf == NULL || ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
        return weft_fail(-EINVAL, "%s: not a PEM certificate", source);
    ERR_clear_error();
    return 0;
}

static int cert_parse_key(weft__tls_cert *cert, const char *pem, const char *source)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    if (bio == NULL)
        return -ENOMEM;
    bool is_encrypted = false;
    cert->key = PEM_read_bio_PrivateKey(bio, NULL, refuse_password, &is_encrypted);
    BIO_free(bio);
    ERR_clear_error();
    if (cert->key == NULL)
        return weft_fail(-EINVAL, is_encrypted ? "%s: the key has a password" : "%s: no PEM key",
                         source);
    if (!X509_check_private_key(cert->leaf, cert->key)) {
        ERR_clear_error();
        return weft_fail(-EINVAL, "%s: the key does not match the certificate", source);
    }
    return 0;
}

/* If path is not NULL, set *out to the text of the file, else to pem. The caller frees *owned. */
static int get_pem(const char *path, const char *pem, const char **out, char **owned)
{
    int rc = path != NULL ? weft__tls_file_read(path, owned) : 0;
    *out = path != NULL ? *owned : pem;
    return rc;
}

static int identity_parse(weft__tls_cert *cert, const weft_tls_identity *i)
{
    char *cert_owned = NULL, *key_owned = NULL;
    const char *cert_pem, *key_pem;
    const char *source = i->cert_file != NULL ? i->cert_file : "cert_pem";
    const char *key_source = i->key_file != NULL ? i->key_file : "key_pem";
    if (i->cert_file == NULL && i->cert_pem == NULL)
        return weft_fail(-EINVAL, "identity has no certificate");
    if ((i->cert_file != NULL && i->cert_pem != NULL) ||
        (i->key_file != NULL && i->key_pem != NULL))
        return weft_fail(-EINVAL,
                         "identity has both a file and a PEM text for a certificate or key");
    int rc = get_pem(i->cert_file, i->cert_pem, &cert_pem, &cert_owned);
    if (rc == 0)
        rc = cert_parse_chain(cert, cert_pem, source);
    if (rc == 0)
        rc = get_pem(i->key_file, i->key_pem, &key_pem, &key_owned);
    /* The key may be in the same PEM text as the certificates. */
    if (rc == 0)
        rc = key_pem != NULL ? cert_parse_key(cert, key_pem, key_source)
                             : cert_parse_key(cert, cert_pem, source);
    free(cert_owned);
    if (key_owned != NULL)
        OPENSSL_cleanse(key_owned, strlen(key_owned));
    free(key_owned);
    return rc;
}

/* Add a name in lower case. Skip empty names, long names and names with a NUL. */
static int cert_add_name(weft__tls_cert *cert, const ASN1_STRING *s)
{
    int bytes = ASN1_STRING_length(s);
    const char *text = (const char *)ASN1_STRING_get0_data(s);
    if (bytes <= 0 || bytes >= SERVER_NAME_BYTES || memchr(text, '\0', (size_t)bytes) != NULL)
        return 0;
    char **names = realloc(cert->names, (cert->name_count + 1) * sizeof *names);
    if (names == NULL)
        return -ENOMEM;
    cert->names = names;
    char *name = weft__tls_copy_text(text, (size_t)bytes);
    if (name == NULL)
        return -ENOMEM;
    for (char *c = name; *c != '\0'; c++)
        *c = (char)tolower((unsigned char)*c);
    names[cert->name_count++] = name;
    return 0;
}

static int cert_add_common_name(weft__tls_cert *cert)
{
    X509_NAME *subject = X509_get_subject_name(cert->leaf);
    int index = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (index < 0)
        return 0;
    return cert_add_name(cert, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, index)));
}

/*
 * Add the DNS names of subjectAltName. If subjectAltName has no DNS name, add the common name (RFC
 * 6125, 6.4.4).
 */
static int cert_find_names(weft__tls_cert *cert)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(cert->leaf, NID_subject_alt_name, NULL, NULL);
    int rc = 0;
    for (int i = 0; rc == 0 && i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type == GEN_DNS)
            rc = cert_add_name(cert, name->d.dNSName);
    }
    GENERAL_NAMES_free(names);
    ERR_clear_error();
    return rc == 0 && cert->name_count == 0 ? cert_add_common_name(cert) : rc;
}

int weft__tls_cert_load(const weft_tls_identity *identity, weft__tls_cert **out)
{
    weft__tls_cert *cert = calloc(1, sizeof *cert);
    if (cert == NULL)
        return -ENOMEM;
    atomic_init(&cert->refs, 1);
    ERR_clear_error();
    int rc = identity_parse(cert, identity);
    if (rc == 0)
        rc = cert_find_names(cert);
    if (rc < 0)
        weft__tls_cert_unref(cert);
    else
        *out = cert;
    return rc;
}

weft__tls_cert *weft__tls_cert_ref(weft__tls_cert *cert)
{
    atomic_fetch_add_explicit(&cert->refs, 1, memory_order_relaxed);
    return cert;
}

void weft__tls_cert_unref(weft__tls_cert *cert)
{
    if (cert == NULL || atomic_fetch_sub_explicit(&cert->refs, 1, memory_order_acq_rel) != 1)
        return;
    X509_free(cert->leaf);
    sk_X509_pop_free(cert->chain, X509_free);
    EVP_PKEY_free(cert->key);
    for (size_t i = 0; i < cert->name_count; i++)
        free(cert->names[i]);
    free(cert->names);
    free(cert);
}

/* Return whether a pattern matches a name. The asterisk of "*.example.org" matches one label. */
static bool wildcard_covers(const char *pattern, const char *name)
{
    const char *dot = strchr(name, '.');
    return pattern[0] == '*' && pattern[1] == '.' && dot != NULL && dot > name &&
           strcmp(pattern + 1, dot) == 0;
}

int weft__tls_cert_match(const weft__tls_cert *cert, const char *name)
{
    int best = 0;
    for (size_t i = 0; i < cert->name_count; i++) {
        if (strcmp(cert->names[i], name) == 0)
            return 2;
        if (wildcard_covers(cert->names[i], name))
            best = 1;
    }
    return best;
}

/* Why something of TLS has failed, in words that a person understands. */
#include "tls/tls.h"

#include <weft/error.h>

#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

typedef struct explanation {
    int reason;
    int code;
    const char *words;
} explanation;

/* What we found out. Whatever is not here is -EPROTO, in OpenSSL's words. */
static const explanation found[] = {
    {SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, -EACCES, "the client has shown no certificate"},
    {SSL_R_HTTP_REQUEST, -EPROTO, "a request of HTTP without TLS"},
    {SSL_R_HTTPS_PROXY_REQUEST, -EPROTO, "a request of HTTP without TLS"},
    {SSL_R_WRONG_VERSION_NUMBER, -EPROTO, "the other side does not speak TLS, or not 1.2 or 1.3"},
    {SSL_R_UNSUPPORTED_PROTOCOL, -EPROTO, "no version of TLS that both sides allow"},
    {SSL_R_VERSION_TOO_LOW, -EPROTO, "no version of TLS that both sides allow"},
    {SSL_R_NO_PROTOCOLS_AVAILABLE, -EPROTO, "no version of TLS that both sides allow"},
    {SSL_R_NO_SHARED_CIPHER, -EPROTO, "no cipher that both sides have"},
    {SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, -EPROTO,
     "no certificate of a kind that both sides have"},
    {SSL_R_NO_APPLICATION_PROTOCOL, -EPROTO, "no protocol (ALPN) that both sides have"},
    {SSL_R_NO_SUITABLE_KEY_SHARE, -EPROTO, "no group for the key exchange that both sides have"},
    {SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC, -EPROTO, "what came has been changed on its way"},
};

/* What the other side has found out, by the number of its alert (RFC 8446, 6). */
static const explanation told[] = {
    {SSL_AD_HANDSHAKE_FAILURE, -EPROTO, "no cipher or certificate that both sides have"},
    {SSL_AD_BAD_CERTIFICATE, -EACCES, "our certificate is bad"},
    {SSL_AD_UNSUPPORTED_CERTIFICATE, -EACCES, "our certificate is of a kind that it does not take"},
    {SSL_AD_CERTIFICATE_REVOKED, -EACCES, "our certificate was revoked"},
    {SSL_AD_CERTIFICATE_EXPIRED, -EACCES, "our certificate has expired"},
    {SSL_AD_CERTIFICATE_UNKNOWN, -EACCES, "it does not take our certificate"},
    {SSL_AD_UNKNOWN_CA, -EACCES, "it does not know who signed our certificate"},
    {SSL_AD_ACCESS_DENIED, -EACCES, "we are not let in"},
    {TLS13_AD_CERTIFICATE_REQUIRED, -EACCES, "it wants a certificate, and we have shown none"},
    {SSL_AD_PROTOCOL_VERSION, -EPROTO, "no version of TLS that both sides allow"},
    {SSL_AD_INSUFFICIENT_SECURITY, -EPROTO, "our ciphers are too weak"},
    {SSL_AD_NO_APPLICATION_PROTOCOL, -EPROTO, "no protocol (ALPN) that both sides have"},
    {SSL_AD_UNRECOGNIZED_NAME, -EPROTO, "it is not the server of that name"},
    {SSL_AD_INTERNAL_ERROR, -EPROTO, "it has trouble of its own"},
    {SSL_AD_USER_CANCELLED, -ECONNRESET, "it has changed its mind"},
};

/* What is wrong with a certificate. Whatever is not here is said in OpenSSL's words. */
static const explanation mistrust[] = {
    {X509_V_ERR_CERT_HAS_EXPIRED, 0, "it has expired"},
    {X509_V_ERR_CERT_NOT_YET_VALID, 0, "it is not valid yet"},
    {X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, 0, "it is signed by itself"},
    {X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, 0, "it is signed by one whom we do not trust"},
    {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, 0, "it is signed by one whom we do not know"},
    {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, 0, "it is signed by one whom we do not know"},
    {X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, 0, "it is signed by one whom we do not know"},
    {X509_V_ERR_INVALID_PURPOSE, 0, "it is meant for something else"},
    {X509_V_ERR_CERT_REVOKED, 0, "it was revoked"},
    {X509_V_ERR_CERT_SIGNATURE_FAILURE, 0, "its signature is wrong"},
};

#define FIND(table, reason) find(table, sizeof(table) / sizeof *(table), reason)

static const explanation *find(const explanation *table, size_t count, int reason)
{
    for (size_t i = 0; i < count; i++)
        if (table[i].reason == reason)
            return &table[i];
    return NULL;
}

const char *weft__tls_error_text(int code)
{
    const char *text = strerrordesc_np(-code);
    return text != NULL ? text : "unknown error";
}

/* OpenSSL's words for its first error. */
static const char *text_of(unsigned long error)
{
    if (ERR_SYSTEM_ERROR(error))
        return weft__tls_error_text(-(int)ERR_GET_REASON(error));
    const char *text = ERR_reason_error_string(error);
    return text != NULL ? text : "OpenSSL does not say why";
}

int weft__tls_fail(int code, const char *attempted)
{
    unsigned long error = ERR_peek_error();
    /* One that OpenSSL knows nothing of is ours. */
    bool is_memory = error == 0 || ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE;
    weft_fail(is_memory ? -ENOMEM : code, "%s: %s", attempted,
              is_memory ? "no memory" : text_of(error));
    ERR_clear_error();
    return is_memory ? -ENOMEM : code;
}

void weft__tls_tell_names(X509 *x, char *text, size_t room)
{
    GENERAL_NAMES *all = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < sk_GENERAL_NAME_num(all); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(all, i);
        if (name->type != GEN_DNS || used >= room)
            continue;
        int n = snprintf(text + used, room - used, "%s%.*s", used > 0 ? ", " : ", but for ",
                         ASN1_STRING_length(name->d.dNSName),
                         (const char *)ASN1_STRING_get0_data(name->d.dNSName));
        used += n > 0 ? (size_t)n : 0;
    }
    GENERAL_NAMES_free(all);
}

static int explain_mistrust(weft__tls_conn *c)
{
    long result = SSL_get_verify_result(c->ssl);
    const explanation *e = FIND(mistrust, (int)result);
    const char *whose = !SSL_is_server(c->ssl) ? c->server_name : "the client";
    if (result == X509_V_ERR_HOSTNAME_MISMATCH || result == X509_V_ERR_IP_ADDRESS_MISMATCH)
        return weft_fail(-EACCES, "the certificate is not for %s%s", whose,
                         c->handshake != NULL ? c->handshake->names : "");
    return weft_fail(-EACCES, "the certificate of %s is not trusted: %s", whose,
                     e != NULL ? e->words : X509_verify_cert_error_string(result));
}

static int explain_reason(weft__tls_conn *c, unsigned long error)
{
    int reason = ERR_GET_REASON(error);
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
        return explain_mistrust(c);
    if (reason == ERR_R_MALLOC_FAILURE)
        return weft_fail(-ENOMEM, "no memory for TLS");
    bool is_told = reason > SSL_AD_REASON_OFFSET && reason <= SSL_AD_REASON_OFFSET + 255;
    const explanation *e =
        is_told ? FIND(told, reason - SSL_AD_REASON_OFFSET) : FIND(found, reason);
    return weft_fail(e != NULL ? e->code : -EPROTO, "TLS: %s%s",
                     is_told ? "the other side says: " : "", e != NULL ? e->words : text_of(error));
}

int weft__tls_explain(weft__tls_conn *c)
{
    unsigned long error = ERR_peek_error();
    int code = error == 0 ? weft_fail(-EPROTO, "TLS: the other side does not do as it should")
                          : explain_reason(c, error);
    ERR_clear_error();
    return code;
}

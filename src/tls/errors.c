/* Convert errors of OpenSSL to errno values and messages. */
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
    const char *message;
} explanation;

/* Errors that this side detects. For other errors, the code is -EPROTO with OpenSSL's text. */
static const explanation local_errors[] = {
    {SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, -EACCES, "the client sent no certificate"},
    {SSL_R_HTTP_REQUEST, -EPROTO, "the client sent HTTP without TLS"},
    {SSL_R_HTTPS_PROXY_REQUEST, -EPROTO, "the client sent HTTP without TLS"},
    {SSL_R_WRONG_VERSION_NUMBER, -EPROTO, "the peer does not use TLS 1.2 or 1.3"},
    {SSL_R_UNSUPPORTED_PROTOCOL, -EPROTO, "no common version of TLS"},
    {SSL_R_VERSION_TOO_LOW, -EPROTO, "no common version of TLS"},
    {SSL_R_NO_PROTOCOLS_AVAILABLE, -EPROTO, "no common version of TLS"},
    {SSL_R_NO_SHARED_CIPHER, -EPROTO, "no common cipher"},
    {SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, -EPROTO, "no common signature algorithm"},
    {SSL_R_NO_APPLICATION_PROTOCOL, -EPROTO, "no common protocol (ALPN)"},
    {SSL_R_NO_SUITABLE_KEY_SHARE, -EPROTO, "no common key exchange group"},
    {SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC, -EPROTO, "a record was modified in transit"},
};

/* Errors that the peer reports, by the number of the alert (RFC 8446, 6). */
static const explanation peer_alerts[] = {
    {SSL_AD_HANDSHAKE_FAILURE, -EPROTO, "no common cipher or certificate"},
    {SSL_AD_BAD_CERTIFICATE, -EACCES, "the certificate of this side is invalid"},
    {SSL_AD_UNSUPPORTED_CERTIFICATE, -EACCES,
     "the certificate of this side has an unsupported type"},
    {SSL_AD_CERTIFICATE_REVOKED, -EACCES, "the certificate of this side was revoked"},
    {SSL_AD_CERTIFICATE_EXPIRED, -EACCES, "the certificate of this side has expired"},
    {SSL_AD_CERTIFICATE_UNKNOWN, -EACCES, "the certificate of this side was rejected"},
    {SSL_AD_UNKNOWN_CA, -EACCES, "the certificate of this side is signed by an unknown CA"},
    {SSL_AD_ACCESS_DENIED, -EACCES, "access denied"},
    {TLS13_AD_CERTIFICATE_REQUIRED, -EACCES, "this side sent no certificate"},
    {SSL_AD_PROTOCOL_VERSION, -EPROTO, "no common version of TLS"},
    {SSL_AD_INSUFFICIENT_SECURITY, -EPROTO, "the ciphers of this side are too weak"},
    {SSL_AD_NO_APPLICATION_PROTOCOL, -EPROTO, "no common protocol (ALPN)"},
    {SSL_AD_UNRECOGNIZED_NAME, -EPROTO, "unknown server name"},
    {SSL_AD_INTERNAL_ERROR, -EPROTO, "internal error"},
    {SSL_AD_USER_CANCELLED, -ECONNRESET, "the handshake was cancelled"},
};

/* Errors of the peer's certificate. For other errors, the message is OpenSSL's text. */
static const explanation verify_errors[] = {
    {X509_V_ERR_CERT_HAS_EXPIRED, 0, "it has expired"},
    {X509_V_ERR_CERT_NOT_YET_VALID, 0, "it is not valid yet"},
    {X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, 0, "it is self-signed"},
    {X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, 0, "its root CA is not trusted"},
    {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, 0, "it is signed by an unknown CA"},
    {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, 0, "it is signed by an unknown CA"},
    {X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, 0, "it is signed by an unknown CA"},
    {X509_V_ERR_INVALID_PURPOSE, 0, "it is for another purpose"},
    {X509_V_ERR_CERT_REVOKED, 0, "it was revoked"},
    {X509_V_ERR_CERT_SIGNATURE_FAILURE, 0, "its signature is invalid"},
};

#define FIND(table, reason) explanation_find(table, sizeof(table) / sizeof *(table), reason)

static const explanation *explanation_find(const explanation *table, size_t count, int reason)
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

/* Return OpenSSL's text for an error in its queue. */
static const char *openssl_text(unsigned long error)
{
    if (ERR_SYSTEM_ERROR(error))
        return weft__tls_error_text(-(int)ERR_GET_REASON(error));
    const char *text = ERR_reason_error_string(error);
    return text != NULL ? text : "OpenSSL reports no reason";
}

int weft__tls_fail(int code, const char *action)
{
    unsigned long error = ERR_peek_error();
    /* If OpenSSL's queue is empty, an allocation of weft has failed. */
    bool is_without_memory = error == 0 || ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE;
    weft_fail(is_without_memory ? -ENOMEM : code, "%s: %s", action,
              is_without_memory ? "memory is exhausted" : openssl_text(error));
    ERR_clear_error();
    return is_without_memory ? -ENOMEM : code;
}

void weft__tls_cert_names_text(X509 *x, char *text, size_t bytes)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type != GEN_DNS || used >= bytes)
            continue;
        int n = snprintf(text + used, bytes - used, "%s%.*s", used > 0 ? ", " : ", only for ",
                         ASN1_STRING_length(name->d.dNSName),
                         (const char *)ASN1_STRING_get0_data(name->d.dNSName));
        used += n > 0 ? (size_t)n : 0;
    }
    GENERAL_NAMES_free(names);
}

static int explain_verify_error(weft__tls_conn *c)
{
    long result = SSL_get_verify_result(c->ssl);
    const explanation *e = FIND(verify_errors, (int)result);
    const char *peer = !SSL_is_server(c->ssl) ? c->server_name : "the client";
    if (result == X509_V_ERR_HOSTNAME_MISMATCH || result == X509_V_ERR_IP_ADDRESS_MISMATCH)
        return weft_fail(-EACCES, "the certificate is not for %s%s", peer,
                         c->handshake != NULL ? c->handshake->cert_names : "");
    return weft_fail(-EACCES, "the certificate of %s is not trusted: %s", peer,
                     e != NULL ? e->message : X509_verify_cert_error_string(result));
}

static int explain_reason(weft__tls_conn *c, unsigned long error)
{
    int reason = ERR_GET_REASON(error);
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
        return explain_verify_error(c);
    if (reason == ERR_R_MALLOC_FAILURE)
        return weft_fail(-ENOMEM, "TLS: memory is exhausted");
    bool is_alert = reason > SSL_AD_REASON_OFFSET && reason <= SSL_AD_REASON_OFFSET + 255;
    const explanation *e =
        is_alert ? FIND(peer_alerts, reason - SSL_AD_REASON_OFFSET) : FIND(local_errors, reason);
    return weft_fail(e != NULL ? e->code : -EPROTO, "TLS: %s%s",
                     is_alert ? "the peer reports: " : "",
                     e != NULL ? e->message : openssl_text(error));
}

int weft__tls_error_explain(weft__tls_conn *c)
{
    unsigned long error = ERR_peek_error();
    int code = error == 0 ? weft_fail(-EPROTO, "TLS: the peer violated the protocol")
                          : explain_reason(c, error);
    ERR_clear_error();
    return code;
}

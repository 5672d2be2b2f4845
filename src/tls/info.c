/* Describe a TLS connection: version, cipher, protocol and peer. */
#include "base/result.h"
#include "tls/tls.h"

#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>

static int find_alpn(weft__tls_conn *c)
{
    const unsigned char *name;
    unsigned bytes;
    SSL_get0_alpn_selected(c->ssl, &name, &bytes);
    c->alpn = weft__tls_copy_text(name, bytes);
    return c->alpn != NULL ? 0 : -ENOMEM;
}

/* Return the subject in the format of RFC 2253. Return NULL if memory is exhausted. */
static char *subject_of(X509 *x)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *text = NULL, *data;
    if (bio != NULL && X509_NAME_print_ex(bio, X509_get_subject_name(x), 0, XN_FLAG_RFC2253) >= 0) {
        long bytes = BIO_get_mem_data(bio, &data);
        text = weft__tls_copy_text(data, bytes > 0 ? (size_t)bytes : 0);
    }
    BIO_free(bio);
    ERR_clear_error();
    return text;
}

static int find_subject(weft__tls_conn *c)
{
    X509 *x = SSL_get0_peer_certificate(c->ssl);
    bool is_verified = x != NULL && SSL_get_verify_mode(c->ssl) != SSL_VERIFY_NONE &&
                       SSL_get_verify_result(c->ssl) == X509_V_OK;
    c->subject = is_verified ? subject_of(x) : strdup("");
    return c->subject != NULL ? 0 : -ENOMEM;
}

int weft__tls_describe(weft_stream *stream, weft_tls_info *info, size_t size)
{
    weft__tls_conn *c = weft_stream_ctx(stream, &weft__tls_stream);
    if (c == NULL)
        return weft_stream_fd(stream) == -EBADF ? -EBADF : -EINVAL;
    if ((c->alpn == NULL && find_alpn(c) < 0) || (c->subject == NULL && find_subject(c) < 0))
        return -ENOMEM;
    weft_tls_info full = {
        .version = SSL_version(c->ssl) == TLS1_3_VERSION ? 13 : 12,
        .cipher = SSL_get_cipher_name(c->ssl),
        .alpn = c->alpn,
        .server_name = c->server_name != NULL ? c->server_name : "",
        .peer_subject = c->subject,
        .is_resumed = SSL_session_reused(c->ssl) != 0,
    };
    weft__result_copy(info, size, &full, sizeof full);
    return 0;
}

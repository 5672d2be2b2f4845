/* TLS in a build without OpenSSL. The functions fail with -ENOTSUP. */
#include "tls/alpn.h"

#include <weft/error.h>
#include <weft/io.h>
#include <weft/tls.h>

#include <errno.h>

static int tls_unsupported(void)
{
    return weft_fail(-ENOTSUP, "TLS: weft was built without OpenSSL");
}

weft_tls *weft_tls_server_new(const weft_tls_options *options)
{
    (void)options;
    tls_unsupported();
    return NULL;
}

weft_tls *weft_tls_client_new(const weft_tls_options *options)
{
    (void)options;
    tls_unsupported();
    return NULL;
}

void weft_tls_free(weft_tls *tls)
{
    (void)tls;
}

int weft_tls_add(weft_tls *tls, const weft_tls_identity *identity)
{
    (void)tls, (void)identity;
    return tls_unsupported();
}

int weft_tls_reload(weft_tls *tls)
{
    (void)tls;
    return tls_unsupported();
}

/* Close fd, as weft_tls_accept and weft_tls_connect do on failure. */
static int tls_unsupported_close(int fd)
{
    if (fd < 0)
        return fd;
    (void)weft_close(fd);
    return tls_unsupported();
}

int weft_tls_accept(weft_stream *stream, int fd, weft_tls *tls)
{
    (void)stream, (void)tls;
    return tls_unsupported_close(fd);
}

int weft_tls_connect(weft_stream *stream, int fd, weft_tls *tls, const char *server_name)
{
    (void)stream, (void)tls, (void)server_name;
    return tls_unsupported_close(fd);
}

int weft__tls_connect_only(weft_stream *stream, int fd, weft_tls *tls, const char *server_name,
                           const char *protocol)
{
    (void)protocol;
    return weft_tls_connect(stream, fd, tls, server_name);
}

int weft__tls_describe(weft_stream *stream, weft_tls_info *info, size_t size)
{
    (void)info, (void)size;
    return weft_stream_fd(stream) == -EBADF ? -EBADF : -EINVAL;
}

int weft_tls_shutdown(weft_stream *stream)
{
    return weft_stream_fd(stream) == -EBADF ? -EBADF : -EINVAL;
}

int weft_tls_self_signed(const char *names, int days, char **cert_pem, char **key_pem)
{
    (void)names, (void)days, (void)cert_pem, (void)key_pem;
    return tls_unsupported();
}

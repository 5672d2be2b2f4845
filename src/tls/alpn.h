/* Connect with one protocol, for the HTTP client. */
#ifndef WEFT_TLS_ALPN_H
#define WEFT_TLS_ALPN_H

#include <weft/tls.h>

/*
 * Like weft_tls_connect. If tls offers protocols (ALPN) and protocol is not NULL, offer only
 * protocol.
 */
int weft__tls_connect_only(weft_stream *stream, int fd, weft_tls *tls, const char *server_name,
                           const char *protocol);

#endif

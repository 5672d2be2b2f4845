/*
 * The PROXY protocol, versions 1 and 2: a header in which a load balancer describes the client,
 * before the first byte of the connection.
 *
 *     header.c  parse a header, without I/O
 *     accept.c  read the header of a connection, and replace its peer
 */
#ifndef WEFT_HTTP_PROXY_PROTOCOL_PROXY_PROTOCOL_H
#define WEFT_HTTP_PROXY_PROTOCOL_PROXY_PROTOCOL_H

#include "http/server/server.h"
#include "http/url/ip.h"

#include <sys/types.h>

/* The longest header of version 1, with CRLF. */
#define WEFT__PROXY_V1_BYTES_MAX 107
/* The fixed part of a header of version 2. */
#define WEFT__PROXY_V2_BYTES 16
/* The longest addresses of version 2: two paths of Unix sockets. */
#define WEFT__PROXY_V2_ADDRESS_BYTES_MAX 216
/* The longest addresses and further data (TLV) of version 2 that the server accepts. */
#define WEFT__PROXY_V2_LENGTH_MAX 4096
/* The number of bytes in which weft__proxy_header_parse finds the addresses of any header. */
#define WEFT__PROXY_HEADER_BYTES (WEFT__PROXY_V2_BYTES + WEFT__PROXY_V2_ADDRESS_BYTES_MAX)

typedef struct weft__proxy_header {
    bool has_client; /* false: the connection has no other client, for example a health check */
    weft__ip client;
} weft__proxy_header;

/*
 * Parse the first bytes of a connection. bytes is at most WEFT__PROXY_HEADER_BYTES.
 *
 * If the sender names a Unix socket or an unknown protocol, has_client is false.
 *
 * Returns the length of the header. A header of version 2 may be longer than bytes, and the caller
 * skips the rest. Returns 0 if all bytes are the begin of a header that is not complete, or:
 * -EBADMSG if the bytes are not the begin of a valid header
 * -EMSGSIZE if the header is too long
 */
ssize_t weft__proxy_header_parse(weft__proxy_header *header, const uint8_t *data, size_t bytes);

/*
 * If the peer of a new connection must send a header, read the header within first_byte_s. Replace
 * *peer and c->peer by the client that the header names, also in the counts of the server. The
 * drain cancels the call. If the call fails, the call has logged and closed the connection.
 *
 * Returns 0, the error that ended the read, or:
 * -EBADMSG if the header is malformed
 * -EBUSY if the client has too many connections
 * -ECONNRESET if the peer closes the connection
 * -EMSGSIZE if the header is too long
 * -ENOMEM if memory is exhausted
 * -ETIMEDOUT if the header arrives too late
 */
int weft__proxy_header_accept(weft__conn *c, weft__peer *peer);

/* Return whether a peer must send a header. */
static inline bool weft__proxy_header_is_due(const weft__server *s, const weft__peer *peer)
{
    return s->options.proxy_protocol_peers != NULL && weft__peer_is_in(peer, &s->proxy_peers);
}

#endif

/*
 * A limit on the unsent bytes of each peer. Unsent bytes are bytes of replies that the peer has not
 * acknowledged. The limit applies to all connections of a peer together.
 *
 * Each connection counts the bytes that it writes (weft__conn.unsent). The connection adds these
 * bytes in batches to the count of its peer (weft__peer_count.unsent). Both counts are upper
 * bounds. The server reads the exact numbers from the kernel only when the count of a peer reaches
 * the limit. Unix peers have no limit.
 */
#ifndef WEFT_HTTP_SERVER_UNSENT_LIMIT_H
#define WEFT_HTTP_SERVER_UNSENT_LIMIT_H

#include "http/server/server.h"

/* The maximum size of one write to a peer. */
#define WEFT__UNSENT_WRITE_BYTES_MAX ((size_t)256 << 10)

/* Add the connection's new unsent bytes to the count of its peer. */
void weft__unsent_limit_report(weft__conn *c);

/* Count bytes that the caller has written to a connection. */
static inline void weft__unsent_limit_add(weft__conn *c, size_t bytes)
{
    c->unsent += bytes;
    if (UNLIKELY(c->unsent - c->unsent_counted >= WEFT__OUT_BYTES))
        weft__unsent_limit_report(c);
}

/*
 * Wait until the connection may write more bytes. Returns the maximum size of the next write, an
 * error of weft_sleep, or:
 * -ETIMEDOUT if the peer acknowledges bytes too slowly
 */
ssize_t weft__unsent_limit_allow(weft__conn *c, weft__min_rate *rate);

/*
 * Wait until the peer has acknowledged most of the connection's bytes. Call this function before
 * the close, because the server cannot count the bytes of a closed connection.
 */
void weft__unsent_limit_await_acks(weft__conn *c);

/*
 * Remove the connection's bytes from the count of its peer. The caller must then close the
 * descriptor.
 */
void weft__unsent_limit_remove(weft__conn *c);

/*
 * Return the number of unacknowledged bytes of a connection (SIOCOUTQ), or 0 if the ioctl(2) fails.
 * After a reset, the result still includes the bytes that the kernel has discarded.
 */
size_t weft__conn_unacked_bytes(const weft__conn *c);

#endif

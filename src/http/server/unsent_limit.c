/* The limit on the unsent bytes of a peer (unsent_limit.h). */
#include "http/server/unsent_limit.h"

#include <weft/time.h>

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* The maximum size of a write while the peer exceeds its limit. */
#define OVER_LIMIT_WRITE_BYTES ((size_t)16 << 10)
/* The minimum time between two reads of the kernel's send queues. */
#define RECOUNT_S 0.02
/* The maximum number of uncounted bytes that may remain in the kernel after a close. */
#define UNCOUNTED_BYTES_MAX ((size_t)64 << 10)

/* Return true after a reset. A reset discards the bytes in the send queue. */
static bool conn_is_reset(const weft__conn *c)
{
    uint8_t state; /* the first member of struct tcp_info */
    socklen_t bytes = sizeof state;
    return getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &state, &bytes) == 0 && state == TCP_CLOSE;
}

size_t weft__conn_unacked_bytes(const weft__conn *c)
{
    int bytes;
    return ioctl(c->fd, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? (size_t)bytes : 0;
}

/* Like weft__conn_unacked_bytes, but returns 0 after a reset. */
static size_t conn_queued_bytes(const weft__conn *c)
{
    size_t bytes = weft__conn_unacked_bytes(c);
    return bytes > 0 && !conn_is_reset(c) ? bytes : 0;
}

/* Return the counts of the connection's peer, or NULL if the peer has no limit. */
static weft__peer_count *peer_count_of(const weft__conn *c)
{
    return weft__conn_limit_find(&c->server->conn_limit, &c->peer);
}

COLD void weft__unsent_limit_report(weft__conn *c)
{
    weft__peer_count *count = peer_count_of(c);
    if (count != NULL)
        count->unsent += c->unsent - c->unsent_counted;
    c->unsent_counted = c->unsent;
}

/* Read the send queues of all connections of a peer, at most once per RECOUNT_S. */
static COLD void recount_unsent(weft__server *s, weft__peer_count *count)
{
    double now = weft_now();
    if (now - count->recounted_s < RECOUNT_S)
        return;
    count->recounted_s = now;
    count->unsent = 0;
    WEFT__LIST_FOR(node, &s->conns) {
        weft__conn *c = CONTAINER_OF(node, weft__conn, link);
        if (c->is_hung_up || c->peer.is_unix || weft__peer_network(&c->peer) != count->network)
            continue;
        c->unsent = c->unsent_counted = conn_queued_bytes(c);
        count->unsent += c->unsent;
    }
}

/* Return true if a write of the maximum size would not exceed the limit. */
static bool peer_is_below_limit(const weft__conn *c, const weft__peer_count *count)
{
    uint64_t max = c->server->options.limits.unsent_bytes_per_peer_max;
    return count == NULL || count->unsent + WEFT__UNSENT_WRITE_BYTES_MAX <= max;
}

/*
 * Wait for RECOUNT_S, within the minimum rate. Bytes that the peer acknowledges count as
 * transferred.
 */
static int wait_for_acks(weft__conn *c, weft__min_rate *rate)
{
    weft__min_rate_call call;
    size_t before = weft__conn_unacked_bytes(c);
    int rc = weft__min_rate_open(&call, rate, c->server);
    if (rc < 0)
        return rc;
    rc = weft_sleep(RECOUNT_S);
    size_t after = weft__conn_unacked_bytes(c);
    int late = weft__min_rate_close(&call, before > after ? before - after : 0);
    return rc < 0 && late < 0 ? late : rc;
}

ssize_t weft__unsent_limit_allow(weft__conn *c, weft__min_rate *rate)
{
    for (;;) {
        weft__peer_count *count = peer_count_of(c);
        if (!peer_is_below_limit(c, count))
            recount_unsent(c->server, count);
        if (peer_is_below_limit(c, count))
            return (ssize_t)WEFT__UNSENT_WRITE_BYTES_MAX;
        if (conn_queued_bytes(c) == 0)
            return (ssize_t)OVER_LIMIT_WRITE_BYTES;
        int rc = wait_for_acks(c, rate);
        if (rc < 0)
            return rc;
    }
}

void weft__unsent_limit_await_acks(weft__conn *c)
{
    if (c->unsent <= UNCOUNTED_BYTES_MAX || peer_count_of(c) == NULL ||
        weft_stream_flush(&c->stream) < 0)
        return;
    while (conn_queued_bytes(c) > UNCOUNTED_BYTES_MAX && !c->server->is_draining &&
           weft_sleep(RECOUNT_S) == 0)
        ;
}

void weft__unsent_limit_remove(weft__conn *c)
{
    weft__peer_count *count = c->unsent_counted > 0 ? peer_count_of(c) : NULL;
    if (count != NULL)
        count->unsent -= c->unsent_counted < count->unsent ? c->unsent_counted : count->unsent;
    c->unsent = c->unsent_counted = 0;
    c->is_hung_up = true;
}

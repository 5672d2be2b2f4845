/*
 * Bytes of replies that were written and that the peer has not acknowledged, over all connections
 * of a peer. The count is an upper bound, which costs an addition. Only when it reaches the limit
 * is the kernel asked.
 */
#include "http/server.h"

#include <weft/time.h>

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* What a connection may write at a time while its peer is beyond its limit. */
#define OWN_BYTES ((size_t)16 << 10)
/* Seconds between two questions to the kernel. */
#define ASK_AGAIN_S 0.02
/* Bytes of a closed connection that may be left in the kernel uncounted. */
#define LEFT_BYTES ((size_t)64 << 10)

/* Was the connection reset? The kernel has dropped its bytes then. */
static bool is_closed(const weft__conn *c)
{
    uint8_t state; /* the first member of struct tcp_info */
    socklen_t bytes = sizeof state;
    return getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &state, &bytes) == 0 && state == TCP_CLOSE;
}

/* Unacknowledged bytes, even those that a reset has dropped. */
static size_t unacknowledged(const weft__conn *c)
{
    int bytes;
    return ioctl(c->fd, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? (size_t)bytes : 0;
}

/* Unacknowledged bytes in the kernel. */
static size_t untaken(const weft__conn *c)
{
    size_t bytes = unacknowledged(c);
    return bytes > 0 && !is_closed(c) ? bytes : 0;
}

/* The counts of its peer; NULL: the peer has no limit. */
static weft__peer_count *count_of(const weft__conn *c)
{
    return weft__peers_find(&c->server->peers, &c->peer);
}

COLD void weft__unsent_tell(weft__conn *c)
{
    weft__peer_count *count = count_of(c);
    if (count != NULL)
        count->unsent += c->unsent - c->unsent_told;
    c->unsent_told = c->unsent;
}

/* Ask the kernel about all connections of a peer, at most once in ASK_AGAIN_S. */
static COLD void ask_kernel(weft__server *s, weft__peer_count *count)
{
    double now = weft_now();
    if (now - count->asked_s < ASK_AGAIN_S)
        return;
    count->asked_s = now;
    count->unsent = 0;
    WEFT__LIST_FOR(node, &s->conns) {
        weft__conn *c = CONTAINER_OF(node, weft__conn, link);
        if (c->is_hung_up || c->peer.is_unix || weft__peer_network(&c->peer) != count->network)
            continue;
        c->unsent = c->unsent_told = untaken(c);
        count->unsent += c->unsent;
    }
}

/* Is there room for a part? */
static bool has_room(const weft__conn *c, const weft__peer_count *count)
{
    uint64_t max = c->server->options.limits.unsent_bytes_per_peer_max;
    return count == NULL || count->unsent + WEFT__UNSENT_PART_BYTES <= max;
}

/* Wait, at the cost of the peer's pace. What it acknowledges meanwhile counts as moved. */
static int wait_a_moment(weft__conn *c, weft__pace *pace)
{
    weft__pace_turn turn;
    size_t before = unacknowledged(c);
    int rc = weft__pace_open(&turn, pace, c->server);
    if (rc < 0)
        return rc;
    rc = weft_sleep(ASK_AGAIN_S);
    size_t after = unacknowledged(c);
    int late = weft__pace_close(&turn, before > after ? before - after : 0);
    return rc < 0 && late < 0 ? late : rc;
}

ssize_t weft__unsent_allow(weft__conn *c, weft__pace *pace)
{
    for (;;) {
        weft__peer_count *count = count_of(c);
        if (!has_room(c, count))
            ask_kernel(c->server, count);
        if (has_room(c, count))
            return (ssize_t)WEFT__UNSENT_PART_BYTES;
        if (untaken(c) == 0)
            return (ssize_t)OWN_BYTES;
        int rc = wait_a_moment(c, pace);
        if (rc < 0)
            return rc;
    }
}

void weft__unsent_settle(weft__conn *c)
{
    if (c->unsent <= LEFT_BYTES || count_of(c) == NULL || weft_stream_flush(&c->stream) < 0)
        return;
    while (untaken(c) > LEFT_BYTES && !c->server->is_draining && weft_sleep(ASK_AGAIN_S) == 0)
        ;
}

void weft__unsent_forget(weft__conn *c)
{
    weft__peer_count *count = c->unsent_told > 0 ? count_of(c) : NULL;
    if (count != NULL)
        count->unsent -= c->unsent_told < count->unsent ? c->unsent_told : count->unsent;
    c->unsent = c->unsent_told = 0;
    c->is_hung_up = true;
}

/*
 * A rate limit for the TLS handshakes of each peer, by network (peer.h).
 *
 * The table has a fixed size. Peers therefore cannot exhaust memory. If too many peers are active,
 * a new peer replaces the longest idle peer of its bucket.
 */
#ifndef WEFT_HTTP_SERVER_HANDSHAKE_LIMIT_H
#define WEFT_HTTP_SERVER_HANDSHAKE_LIMIT_H

#include "http/server/peer.h"

typedef struct weft__handshake_slot {
    uint64_t network;
    double due_s; /* due time of the next handshake at an even rate; 0: the slot is free */
} weft__handshake_slot;

/* The table of a server. All-zero is empty. */
typedef struct weft__handshake_limit {
    weft__handshake_slot *slots; /* NULL before the first handshake */
    uint64_t factor;             /* from weft__peer_hash_factor */
} weft__handshake_limit;

/*
 * Count a handshake of a peer at the time now_s. The limit is per_s handshakes per second. One
 * burst may contain per_s handshakes. The call returns 0 if the peer is a Unix peer, per_s is
 * infinite, or memory is exhausted. The call does not count a handshake that fails with -EAGAIN.
 *
 * Returns the number of seconds that the handshake must wait, or:
 * -EAGAIN if the handshake would wait longer than wait_s_max
 */
double weft__handshake_limit_enter(weft__handshake_limit *limit, const weft__peer *peer,
                                   double now_s, double per_s, double wait_s_max);

/* Free the table. */
void weft__handshake_limit_close(weft__handshake_limit *limit);

#endif

/*
 * The counts of each peer of a server: connections, and unsent bytes of replies.
 *
 * The table is a hash table with open addressing. The key is the peer's network (peer.h). See
 * unsent_limit.h for the unsent bytes. Both counts share a slot because they have the same key and
 * lifetime.
 */
#ifndef WEFT_HTTP_SERVER_CONN_LIMIT_H
#define WEFT_HTTP_SERVER_CONN_LIMIT_H

#include "http/server/peer.h"

#include <stddef.h>
#include <stdint.h>

/* A slot of the table: the counts of one network. */
typedef struct weft__peer_count {
    uint64_t network;
    size_t count;       /* connections; 0: the slot is free */
    uint64_t unsent;    /* upper bound of unacknowledged bytes; written by unsent_limit.c */
    double recounted_s; /* when unsent_limit.c last read the kernel's queues; 0: never */
} weft__peer_count;

/* A table of counts. All-zero is empty. */
typedef struct weft__conn_limit {
    weft__peer_count *slots; /* NULL if slots_count is 0 */
    size_t slots_count;      /* a power of two, or 0 */
    size_t used;             /* slots with connections, at most half of slots_count */
    uint64_t factor;         /* from weft__peer_hash_factor */
    unsigned shift;          /* 64 minus the number of bits of a slot index */
} weft__conn_limit;

/*
 * Return the counts of a peer. The pointer is valid until the next weft__conn_limit_enter or
 * weft__conn_limit_leave. Returns NULL if the peer is a Unix peer or has no connection.
 */
weft__peer_count *weft__conn_limit_find(const weft__conn_limit *limit, const weft__peer *peer);

/*
 * Count a new connection of a peer. The call does not count Unix peers. Returns 0, or:
 * -EBUSY if the peer has max connections
 * -ENOMEM if memory is exhausted
 */
int weft__conn_limit_enter(weft__conn_limit *limit, const weft__peer *peer, size_t max);

/* Remove a connection that weft__conn_limit_enter counted. */
void weft__conn_limit_leave(weft__conn_limit *limit, const weft__peer *peer);

/* Free the table. */
void weft__conn_limit_close(weft__conn_limit *limit);

#endif

/* Who connects: an address, and how many connections each has. */
#ifndef WEFT_HTTP_PEERS_H
#define WEFT_HTTP_PEERS_H

#include "http/ip.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct weft__peer {
    weft__ip ip;
    bool is_unix; /* came by a socket that has no address */
} weft__peer;

typedef struct weft__peer_count {
    uint64_t network;
    size_t count;    /* 0: the slot is free */
    uint64_t unsent; /* an upper bound of unacknowledged bytes of replies: see unsent.c */
    double asked_s;  /* when the kernel was asked about them */
} weft__peer_count;

/* Counts by address, or by the /64 of IPv6: an open hash table. All-zero is empty. */
typedef struct weft__peers {
    weft__peer_count *slots; /* a power of two of them */
    size_t room;
    size_t used;
    uint64_t factor; /* odd: what a network is multiplied with to find its slot */
    unsigned shift;  /* how many bits of the product are left out */
} weft__peers;

/* Whose connection it is. */
void weft__peer_of_fd(weft__peer *peer, int fd);

/* The network of a peer: an address of IPv4, or the /64 of one of IPv6. */
uint64_t weft__peer_network(const weft__peer *peer);

/* A secret odd number, for a table whose keys peers can choose. */
uint64_t weft__peers_factor(void);

/* The counts of a peer, valid until a connection enters or leaves; NULL: none. */
weft__peer_count *weft__peers_find(const weft__peers *peers, const weft__peer *peer);

/* One more, unless it has max already: 0, -EBUSY, -ENOMEM. */
int weft__peers_enter(weft__peers *peers, const weft__peer *peer, size_t max);

/* One less. */
void weft__peers_leave(weft__peers *peers, const weft__peer *peer);

void weft__peers_close(weft__peers *peers);

#endif

/*
 * The peer of a connection: its IP address and its network.
 *
 * A network is an IPv4 address or an IPv6 /64. Limits count peers by network. A Unix peer is a peer
 * on a Unix socket. Unix peers have no address and no limits.
 */
#ifndef WEFT_HTTP_SERVER_PEER_H
#define WEFT_HTTP_SERVER_PEER_H

#include "http/url/ip.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct weft__peer {
    weft__ip ip;  /* all-zero if is_unix is set or the peer has disconnected */
    bool is_unix; /* the socket is not an IP socket */
} weft__peer;

/* Set *peer to the peer of a connected socket. */
void weft__peer_of_fd(weft__peer *peer, int fd);

/* Return whether a list of ranges contains a peer. "unix" in the list means all Unix peers. */
bool weft__peer_is_in(const weft__peer *peer, const weft__cidr_list *list);

/* Return the network of a peer, as a key for hash tables. The peer must not be a Unix peer. */
uint64_t weft__peer_network(const weft__peer *peer);

/*
 * Return a random odd factor for multiplicative hashing of networks. The factor must be
 * unpredictable, because peers can choose their addresses.
 */
uint64_t weft__peer_hash_factor(void);

#endif

/* The peer of a connection (peer.h). */
#include "http/server/peer.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

/* The number of bytes of an IPv6 address that identify a customer of a provider: a /64. */
#define NETWORK_BYTES 8

void weft__peer_of_fd(weft__peer *p, int fd)
{
    struct sockaddr_storage from = {0};
    socklen_t bytes = sizeof from;
    *p = (weft__peer){0};
    if (getpeername(fd, (struct sockaddr *)&from, &bytes) == 0)
        p->is_unix = !weft__ip_of(&p->ip, (struct sockaddr *)&from);
    else /* a disconnected TCP peer must not get the trust of a Unix peer */
        p->is_unix = errno != ENOTCONN;
}

bool weft__peer_is_in(const weft__peer *p, const weft__cidr_list *list)
{
    return p->is_unix ? list->has_unix : weft__cidr_has_ip(list, &p->ip);
}

uint64_t weft__peer_network(const weft__peer *p)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    bool is_v4 = memcmp(p->ip.bytes, mapped, sizeof mapped) == 0;
    uint64_t network;
    memcpy(&network, p->ip.bytes + (is_v4 ? 8 : 0), NETWORK_BYTES);
    return network;
}

uint64_t weft__peer_hash_factor(void)
{
    uint64_t factor;
    if (getrandom(&factor, sizeof factor, GRND_NONBLOCK) != sizeof factor)
        factor = UINT64_C(0x9e3779b97f4a7c15); /* no entropy is available early after boot */
    return factor | 1;
}

/*
 * Connections counted by address. A slot that is left is filled again from behind: no tombstones.
 */
#include "http/peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define ROOM_BITS_FIRST 6
/* Bytes of an IPv6 address that a provider gives to one customer. */
#define NETWORK_BYTES 8

void weft__peer_of_fd(weft__peer *p, int fd)
{
    struct sockaddr_storage from = {0};
    socklen_t bytes = sizeof from;
    *p = (weft__peer){0};
    if (getpeername(fd, (struct sockaddr *)&from, &bytes) == 0)
        p->is_unix = !weft__ip_of(&p->ip, (struct sockaddr *)&from);
    else /* who has gone already is nobody: not one who is trusted for being local */
        p->is_unix = errno != ENOTCONN;
}

uint64_t weft__peer_network(const weft__peer *p)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    bool is_v4 = memcmp(p->ip.bytes, mapped, sizeof mapped) == 0;
    uint64_t network;
    memcpy(&network, p->ip.bytes + (is_v4 ? 8 : 0), NETWORK_BYTES);
    return network;
}

/*
 * By the highest bits of a product, which all bits of the network have a part in: those of one
 * provider differ in a few. The factor is one that nobody can know, to choose addresses by it.
 */
static size_t place_of(const weft__peers *ps, uint64_t network)
{
    return (size_t)((network * ps->factor) >> ps->shift);
}

uint64_t weft__peers_factor(void)
{
    uint64_t factor;
    if (getrandom(&factor, sizeof factor, GRND_NONBLOCK) != sizeof factor)
        factor = UINT64_C(0x9e3779b97f4a7c15); /* early after boot */
    return factor | 1;
}

/* Where the network is, or the free slot where it would be. */
static weft__peer_count *find(const weft__peers *ps, uint64_t network)
{
    size_t i = place_of(ps, network);
    while (ps->slots[i].count != 0 && ps->slots[i].network != network)
        i = (i + 1) & (ps->room - 1);
    return &ps->slots[i];
}

static int grow(weft__peers *ps)
{
    weft__peers bigger = {.room = (size_t)1 << ROOM_BITS_FIRST,
                          .shift = 64 - ROOM_BITS_FIRST,
                          .used = ps->used,
                          .factor = weft__peers_factor()};
    if (ps->room > 0) {
        bigger.room = 2 * ps->room;
        bigger.shift = ps->shift - 1;
    }
    bigger.slots = calloc(bigger.room, sizeof *bigger.slots);
    if (bigger.slots == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < ps->room; i++)
        if (ps->slots[i].count != 0)
            *find(&bigger, ps->slots[i].network) = ps->slots[i];
    free(ps->slots);
    *ps = bigger;
    return 0;
}

weft__peer_count *weft__peers_find(const weft__peers *ps, const weft__peer *p)
{
    if (p->is_unix || ps->room == 0)
        return NULL;
    weft__peer_count *slot = find(ps, weft__peer_network(p));
    return slot->count > 0 ? slot : NULL;
}

int weft__peers_enter(weft__peers *ps, const weft__peer *p, size_t max)
{
    if (p->is_unix)
        return 0;
    if (2 * ps->used >= ps->room) {
        int rc = grow(ps);
        if (rc < 0)
            return rc;
    }
    uint64_t network = weft__peer_network(p);
    weft__peer_count *slot = find(ps, network);
    if (slot->count >= max)
        return -EBUSY;
    ps->used += slot->count == 0;
    slot->network = network;
    slot->count++;
    return 0;
}

/* Those behind a slot that was left may have been pushed there by it: each is put in anew. */
static void close_gap(weft__peers *ps, size_t gap)
{
    for (size_t i = (gap + 1) & (ps->room - 1); ps->slots[i].count != 0;
         i = (i + 1) & (ps->room - 1)) {
        weft__peer_count moved = ps->slots[i];
        ps->slots[i] = (weft__peer_count){0};
        *find(ps, moved.network) = moved;
    }
}

void weft__peers_leave(weft__peers *ps, const weft__peer *p)
{
    if (p->is_unix)
        return;
    weft__peer_count *slot = find(ps, weft__peer_network(p));
    if (--slot->count > 0)
        return;
    *slot = (weft__peer_count){0};
    ps->used--;
    close_gap(ps, (size_t)(slot - ps->slots));
}

void weft__peers_close(weft__peers *ps)
{
    free(ps->slots);
    *ps = (weft__peers){0};
}

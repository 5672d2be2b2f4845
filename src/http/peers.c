/*
 * Connections counted by address. A slot that is left is filled again from behind: no tombstones.
 */
#include "http/peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST ((size_t)64)
/* Bytes of an IPv6 address that a provider gives to one customer. */
#define NETWORK_BYTES 8

void weft__peer_of_fd(weft__peer *p, int fd)
{
    struct sockaddr_storage from = {0};
    socklen_t bytes = sizeof from;
    *p = (weft__peer){0};
    p->is_unix = getpeername(fd, (struct sockaddr *)&from, &bytes) < 0 ||
                 !weft__ip_of(&p->ip, (struct sockaddr *)&from);
}

/* Not 0. A multiplicative hash of what tells networks apart. */
static uint64_t key_of(const weft__peer *p)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    bool is_v4 = memcmp(p->ip.bytes, mapped, sizeof mapped) == 0;
    uint64_t network;
    memcpy(&network, p->ip.bytes + (is_v4 ? 8 : 0), NETWORK_BYTES);
    return (network * UINT64_C(0x9e3779b97f4a7c15)) | 1;
}

/* Where the key is, or the free slot where it would be. */
static weft__peer_count *find(const weft__peers *ps, uint64_t key)
{
    size_t i = (size_t)(key >> 32) & (ps->room - 1);
    while (ps->slots[i].key != 0 && ps->slots[i].key != key)
        i = (i + 1) & (ps->room - 1);
    return &ps->slots[i];
}

static int grow(weft__peers *ps)
{
    weft__peers bigger = {.room = ps->room != 0 ? 2 * ps->room : ROOM_FIRST, .used = ps->used};
    bigger.slots = calloc(bigger.room, sizeof *bigger.slots);
    if (bigger.slots == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < ps->room; i++)
        if (ps->slots[i].key != 0)
            *find(&bigger, ps->slots[i].key) = ps->slots[i];
    free(ps->slots);
    *ps = bigger;
    return 0;
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
    uint64_t key = key_of(p);
    weft__peer_count *slot = find(ps, key);
    if (slot->count >= max)
        return -EBUSY;
    ps->used += slot->key == 0;
    slot->key = key;
    slot->count++;
    return 0;
}

/* Those behind a slot that was left may have been pushed there by it: each is put in anew. */
static void close_gap(weft__peers *ps, size_t gap)
{
    for (size_t i = (gap + 1) & (ps->room - 1); ps->slots[i].key != 0;
         i = (i + 1) & (ps->room - 1)) {
        weft__peer_count moved = ps->slots[i];
        ps->slots[i] = (weft__peer_count){0};
        *find(ps, moved.key) = moved;
    }
}

void weft__peers_leave(weft__peers *ps, const weft__peer *p)
{
    if (p->is_unix)
        return;
    weft__peer_count *slot = find(ps, key_of(p));
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

/*
 * The table of peer counts (conn_limit.h). The table uses linear probing, and deletion without
 * tombstones.
 */
#include "http/server/conn_limit.h"

#include <errno.h>
#include <stdlib.h>

#define SLOT_BITS_FIRST 6

/*
 * Use the highest bits of the product, because these bits depend on all bits of the network. The
 * networks of one provider differ in only a few bits.
 */
static size_t slot_index_of(const weft__conn_limit *limit, uint64_t network)
{
    return (size_t)((network * limit->factor) >> limit->shift);
}

/* Return the slot of a network, or the free slot for a new entry. */
static weft__peer_count *slot_find(const weft__conn_limit *limit, uint64_t network)
{
    size_t i = slot_index_of(limit, network);
    while (limit->slots[i].count != 0 && limit->slots[i].network != network)
        i = (i + 1) & (limit->slots_count - 1);
    return &limit->slots[i];
}

static int conn_limit_grow(weft__conn_limit *limit)
{
    weft__conn_limit larger = {.slots_count = (size_t)1 << SLOT_BITS_FIRST,
                               .shift = 64 - SLOT_BITS_FIRST,
                               .used = limit->used,
                               .factor = weft__peer_hash_factor()};
    if (limit->slots_count > 0) {
        larger.slots_count = 2 * limit->slots_count;
        larger.shift = limit->shift - 1;
    }
    larger.slots = calloc(larger.slots_count, sizeof *larger.slots);
    if (larger.slots == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < limit->slots_count; i++)
        if (limit->slots[i].count != 0)
            *slot_find(&larger, limit->slots[i].network) = limit->slots[i];
    free(limit->slots);
    *limit = larger;
    return 0;
}

weft__peer_count *weft__conn_limit_find(const weft__conn_limit *limit, const weft__peer *p)
{
    if (p->is_unix || limit->slots_count == 0)
        return NULL;
    weft__peer_count *slot = slot_find(limit, weft__peer_network(p));
    return slot->count > 0 ? slot : NULL;
}

int weft__conn_limit_enter(weft__conn_limit *limit, const weft__peer *p, size_t max)
{
    if (p->is_unix)
        return 0;
    if (2 * limit->used >= limit->slots_count) {
        int rc = conn_limit_grow(limit);
        if (rc < 0)
            return rc;
    }
    uint64_t network = weft__peer_network(p);
    weft__peer_count *slot = slot_find(limit, network);
    if (slot->count >= max)
        return -EBUSY;
    limit->used += slot->count == 0;
    slot->network = network;
    slot->count++;
    return 0;
}

/* Reinsert the entries after a freed slot. The removed entry may have displaced these entries. */
static void slots_close_gap(weft__conn_limit *limit, size_t gap)
{
    for (size_t i = (gap + 1) & (limit->slots_count - 1); limit->slots[i].count != 0;
         i = (i + 1) & (limit->slots_count - 1)) {
        weft__peer_count moved = limit->slots[i];
        limit->slots[i] = (weft__peer_count){0};
        *slot_find(limit, moved.network) = moved;
    }
}

void weft__conn_limit_leave(weft__conn_limit *limit, const weft__peer *p)
{
    if (p->is_unix)
        return;
    weft__peer_count *slot = slot_find(limit, weft__peer_network(p));
    if (--slot->count > 0)
        return;
    *slot = (weft__peer_count){0};
    limit->used--;
    slots_close_gap(limit, (size_t)(slot - limit->slots));
}

void weft__conn_limit_close(weft__conn_limit *limit)
{
    free(limit->slots);
    *limit = (weft__conn_limit){0};
}

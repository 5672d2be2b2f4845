/*
 * The handshake limit (handshake_limit.h): the generic cell rate algorithm with one slot per peer.
 */
#include "http/server/handshake_limit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/*
 * The table has 4,096 slots in 64 KiB. Servers usually have fewer peers with a handshake within one
 * second.
 */
#define SLOT_BITS 12
/* The number of slots in a bucket. A network uses one slot of its bucket. */
#define SLOTS_PER_BUCKET 8

static bool slots_open(weft__handshake_limit *limit)
{
    if (limit->slots == NULL) {
        limit->slots = calloc((size_t)1 << SLOT_BITS, sizeof *limit->slots);
        limit->factor = weft__peer_hash_factor();
    }
    return limit->slots != NULL;
}

/*
 * Return the slot of a network. If the network has no slot, reuse the longest idle slot of its
 * bucket.
 */
static weft__handshake_slot *slot_find(const weft__handshake_limit *limit, uint64_t network)
{
    size_t first =
        (size_t)((network * limit->factor) >> (64 - SLOT_BITS)) & ~(size_t)(SLOTS_PER_BUCKET - 1);
    weft__handshake_slot *idlest = &limit->slots[first];
    for (size_t i = first; i < first + SLOTS_PER_BUCKET; i++) {
        weft__handshake_slot *slot = &limit->slots[i];
        if (slot->due_s > 0 && slot->network == network)
            return slot;
        if (slot->due_s < idlest->due_s)
            idlest = slot;
    }
    *idlest = (weft__handshake_slot){.network = network};
    return idlest;
}

double weft__handshake_limit_enter(weft__handshake_limit *limit, const weft__peer *p, double now_s,
                                   double per_s, double wait_s_max)
{
    if (p->is_unix || isinf(per_s) || !slots_open(limit))
        return 0;
    double interval_s = 1 / per_s, burst_s = fmax(1 - interval_s, 0);
    weft__handshake_slot *slot = slot_find(limit, weft__peer_network(p));
    double due_s = fmax(slot->due_s, now_s), wait_s = fmax(due_s - burst_s - now_s, 0);
    if (wait_s > wait_s_max)
        return -EAGAIN;
    slot->due_s = due_s + interval_s;
    return wait_s;
}

void weft__handshake_limit_close(weft__handshake_limit *limit)
{
    free(limit->slots);
    *limit = (weft__handshake_limit){0};
}

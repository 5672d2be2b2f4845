/* Rate limits per peer (rates.h): the generic cell rate algorithm, a slot for each peer. */
#include "http/rates.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* 64 KiB: more slots than peers that shake hands within a second. */
#define SLOT_BITS 12
/* A peer may take one of so many slots. */
#define WAYS 8

static bool open_slots(weft__rates *rs)
{
    if (rs->slots == NULL) {
        rs->slots = calloc((size_t)1 << SLOT_BITS, sizeof *rs->slots);
        rs->factor = weft__peers_factor();
    }
    return rs->slots != NULL;
}

/* The slot of a network: its own, or the one that has been idle for longest. */
static weft__rate *find_rate(const weft__rates *rs, uint64_t network)
{
    size_t first = (size_t)((network * rs->factor) >> (64 - SLOT_BITS)) & ~(size_t)(WAYS - 1);
    weft__rate *idlest = &rs->slots[first];
    for (size_t i = first; i < first + WAYS; i++) {
        weft__rate *r = &rs->slots[i];
        if (r->due_s > 0 && r->network == network)
            return r;
        if (r->due_s < idlest->due_s)
            idlest = r;
    }
    *idlest = (weft__rate){.network = network};
    return idlest;
}

double weft__rates_enter(weft__rates *rs, const weft__peer *p, double now_s, double per_s,
                         double wait_s_max)
{
    if (p->is_unix || isinf(per_s) || !open_slots(rs))
        return 0;
    double between_s = 1 / per_s, at_once_s = fmax(1 - between_s, 0);
    weft__rate *r = find_rate(rs, weft__peer_network(p));
    double due_s = fmax(r->due_s, now_s), wait_s = fmax(due_s - at_once_s - now_s, 0);
    if (wait_s > wait_s_max)
        return -EAGAIN;
    r->due_s = due_s + between_s;
    return wait_s;
}

void weft__rates_close(weft__rates *rs)
{
    free(rs->slots);
    *rs = (weft__rates){0};
}

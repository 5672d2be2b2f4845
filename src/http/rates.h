/*
 * Rate limits per peer: a table of a fixed size, which peers cannot make grow, holds the next free
 * time of each. If too many peers are busy at once, the least busy one is forgotten.
 */
#ifndef WEFT_HTTP_RATES_H
#define WEFT_HTTP_RATES_H

#include "http/peers.h"

typedef struct weft__rate {
    uint64_t network;
    double due_s; /* when its next event is due if they are spread evenly; 0: the slot is free */
} weft__rate;

/* All-zero is empty. */
typedef struct weft__rates {
    weft__rate *slots; /* NULL: none was needed yet */
    uint64_t factor;   /* odd and secret: what a network is multiplied by */
} weft__rates;

/*
 * Count one event of a peer at now_s. At most per_s events a second are allowed, in bursts of as
 * many. Returns the seconds that the event has to wait, or -EAGAIN if that is more than wait_s_max:
 * then it does not count. A peer without an address never waits.
 */
double weft__rates_enter(weft__rates *rates, const weft__peer *peer, double now_s, double per_s,
                         double wait_s_max);

void weft__rates_close(weft__rates *rates);

#endif

/*
 * How often each peer does something that costs us much: a place in time for each, in a table of a
 * fixed size, which a stranger cannot make grow. Where too many peers are busy at once, the one
 * that is least so is forgotten.
 */
#ifndef WEFT_HTTP_RATES_H
#define WEFT_HTTP_RATES_H

#include "http/peers.h"

typedef struct weft__rate {
    uint64_t network;
    double due_s; /* when its next one would be due, were they spread evenly; 0: the slot is free */
} weft__rate;

/* All-zero is empty. */
typedef struct weft__rates {
    weft__rate *slots; /* NULL: none was needed yet */
    uint64_t factor;   /* odd, and unknown to others: what a network is multiplied with */
} weft__rates;

/*
 * One more of a peer, at a time, of at most so many a second, of which as many may come at once.
 * Returns how many seconds it has to wait for its turn, 0 if it has not; -EAGAIN if that would be
 * more than wait_s_max: then it does not count. A peer without an address never waits.
 */
double weft__rates_enter(weft__rates *rates, const weft__peer *peer, double now_s, double per_s,
                         double wait_s_max);

void weft__rates_close(weft__rates *rates);

#endif

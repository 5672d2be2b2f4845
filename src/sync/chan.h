/* A channel from the inside, for what waits on several at once: select. */
#ifndef WEFT_SYNC_CHAN_H
#define WEFT_SYNC_CHAN_H

#include "core/passage.h"

#include <weft/chan.h>

struct weft__shared;

/* The size of the items of the passage that a shared channel does not use. */
#define WEFT__ELSEWHERE SIZE_MAX

struct weft_chan {
    /*
     * Its limit is the capacity; the ring has all the room from the start. That of a shared channel
     * is never used, and never ready: it is empty, its limit is 0, and the size of its items is
     * that of none. So the ways part where a call asks for the size anyhow, or would have to wait:
     * those that are not shared pay nothing.
     */
    weft__passage passage;
    weft__cord *owner;           /* whose fibers last waited in it; NULL: none's yet, or shared */
    struct weft__shared *shared; /* NULL: it belongs to the fibers of one thread */
};

#endif

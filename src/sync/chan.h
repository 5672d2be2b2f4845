/* The definition of struct weft_chan, for chan.c and select. */
#ifndef WEFT_SYNC_CHAN_H
#define WEFT_SYNC_CHAN_H

#include "core/sched/fifo.h"

#include <weft/chan.h>

struct weft__chan_shared;

/* The item size that marks the unused fifo of a shared channel. No real item has this size. */
#define WEFT__ITEM_BYTES_SHARED SIZE_MAX

struct weft_chan {
    /*
     * fifo.limit is the capacity. The ring has its full size from the start.
     *
     * A shared channel does not use this fifo. The fifo is then empty, its limit is 0, and its item
     * size is WEFT__ITEM_BYTES_SHARED. The fast paths for values check the item size anyway. The
     * calls for items find that the fifo is not ready. Channels that are not shared therefore need
     * no extra check.
     */
    weft__fifo fifo;
    weft__cord *owner; /* the cord of the fibers that waited last; NULL: none yet, or shared */
    struct weft__chan_shared *shared; /* NULL: the channel is not shared */
};

#endif

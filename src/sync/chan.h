/* A channel from the inside, for what waits on several at once: select. */
#ifndef WEFT_SYNC_CHAN_H
#define WEFT_SYNC_CHAN_H

#include "core/passage.h"

#include <weft/chan.h>

struct weft_chan {
    weft__passage passage; /* its limit is the capacity; the ring has all the room from the start */
};

#endif

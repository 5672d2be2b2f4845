/* A queue from the inside, for what waits on several at once: select. */
#ifndef WEFT_SYNC_QUEUE_H
#define WEFT_SYNC_QUEUE_H

#include "core/passage.h"

#include <weft/queue.h>

struct weft_queue {
    weft__passage passage; /* of values; the ring grows with what is in it */
};

#endif

/* The definition of struct weft_queue, for queue.c and select. */
#ifndef WEFT_SYNC_QUEUE_H
#define WEFT_SYNC_QUEUE_H

#include "core/sched/fifo.h"

#include <weft/queue.h>

struct weft_queue {
    weft__fifo fifo; /* holds weft_value items; the ring grows on demand */
};

#endif

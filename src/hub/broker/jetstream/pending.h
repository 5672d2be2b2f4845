/* Pending messages: those that were delivered and not acknowledged. */
#ifndef WEFT_HUB_BROKER_JETSTREAM_PENDING_H
#define WEFT_HUB_BROKER_JETSTREAM_PENDING_H

#include "hub/broker/jetstream/consumer.h"

/* "$JS.ACK", two names, five numbers, and the dots. */
#define WEFT__ACK_SUBJECT_BYTES (8 + 2 * (WEFT__CONFIG_NAME_BYTES_MAX + 1) + 5 * 21)

weft__pending *weft__pending_find(const weft__consumer *c, uint64_t seq);

/* Create a pending message that is neither waiting nor due. Returns NULL if memory is exhausted. */
weft__pending *weft__pending_new(weft__consumer *c, uint64_t seq);
void weft__pending_remove(weft__consumer *c, weft__pending *pending);

/* Wait for an acknowledgement. Without one, the message is due after a time. */
void weft__pending_wait(weft__consumer *c, weft__pending *pending, int64_t time_ns);

/* Make the messages due whose acknowledgement is late. Return the time of the next. */
int64_t weft__pending_run_timers(weft__consumer *c, int64_t now_ns);

void weft__pending_free_all(weft__consumer *c);

#endif

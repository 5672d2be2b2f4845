/* JetStream: the entry points of connections and timers. */
#ifndef WEFT_HUB_BROKER_JETSTREAM_JETSTREAM_H
#define WEFT_HUB_BROKER_JETSTREAM_JETSTREAM_H

#include "hub/wire/output.h"

#include <weft/hub_broker.h>

/*
 * Handle a message of a client: a request to the API, an acknowledgement, or a message that a
 * stream stores. Returns the number of receivers in JetStream.
 */
size_t weft__jetstream_publish(weft_hub_broker *b, const weft__publication *p);

/* Run the timers of all streams and consumers. Return the time of the next. */
int64_t weft__jetstream_run_timers(weft_hub_broker *b, int64_t now_ns);

/* Free all streams. */
void weft__jetstream_free(weft_hub_broker *b);

#endif

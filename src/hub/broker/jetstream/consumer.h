/*
 * Consumers: deliver the messages of a stream to clients that pull them, and again until they are
 * acknowledged.
 *
 * A message is new until its first delivery, and then pending until it is acknowledged. A pending
 * message waits for its acknowledgement, ordered by the time at which that is late, or is due for
 * another delivery.
 */
#ifndef WEFT_HUB_BROKER_JETSTREAM_CONSUMER_H
#define WEFT_HUB_BROKER_JETSTREAM_CONSUMER_H

#include "hub/broker/jetstream/stream.h"

/* A message that was delivered and not acknowledged. */
typedef struct weft__pending {
    weft__hash_node by_seq;
    weft__list node; /* in waiting or due of the consumer */
    uint64_t seq, consumer_seq;
    uint64_t deliveries;
    int64_t late_ns; /* deliver again at this time */
    bool is_due;
} weft__pending;

typedef struct weft__consumer {
    weft__list node; /* in consumers of the stream */
    weft__stream *stream;
    weft__consumer_config config;
    char name[WEFT__CONFIG_NAME_BYTES_MAX + 1];
    int64_t created_ns;
    int64_t active_ns; /* of the last pull or acknowledgement */

    uint64_t next_seq;      /* messages from here on are new */
    uint64_t new_count;     /* of the new messages that match the filter */
    uint64_t delivered_seq; /* of the last first delivery; 0: none */
    uint64_t consumer_seq;  /* counts deliveries */

    weft__hash pending;
    weft__list waiting; /* by late_ns, earliest first */
    weft__list due;     /* in the order in which they were late */
    size_t due_count;

    weft__list pulls; /* requests of clients (pull.h) */
    size_t pull_count;
    size_t no_wait_count; /* of the pulls that do not wait */
} weft__consumer;

weft__consumer *weft__consumer_find(const weft__stream *stream, weft__slice name);

/* Create a consumer, or update an existing one. name is "" for a random name. */
weft__api_error weft__consumer_create(weft__stream *stream, const weft__consumer_config *config,
                                      const char *name, weft__consumer **out);

/* Delete a consumer. Its pulls get the status 409. */
void weft__consumer_delete(weft__consumer *c);

/* Return the number of messages that can be delivered now, apart from max_ack_pending. */
uint64_t weft__consumer_available(const weft__consumer *c);

/* Deliver as many messages as there are pulls. */
void weft__consumer_pump(weft__consumer *c);

/* Handle an acknowledgement of the message with a sequence of the stream. */
void weft__consumer_ack(weft__consumer *c, uint64_t seq, const weft__publication *p);

/* A message was stored, or is about to be removed. */
void weft__consumer_stored(weft__consumer *c, const weft__stored_msg *m);
void weft__consumer_removed(weft__consumer *c, const weft__stored_msg *m);

/* Run the timers of a consumer. Return the time of the next. May delete the consumer. */
int64_t weft__consumer_run_timers(weft__consumer *c, int64_t now_ns);

#endif

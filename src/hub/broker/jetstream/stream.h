/*
 * Streams: what a broker stores, and for how long.
 *
 * A stream stores the messages whose subjects match its own. Limits remove old messages or reject
 * new ones. In a work queue, an acknowledgement removes the message.
 */
#ifndef WEFT_HUB_BROKER_JETSTREAM_STREAM_H
#define WEFT_HUB_BROKER_JETSTREAM_STREAM_H

#include "hub/broker/broker.h"
#include "hub/broker/jetstream/api_error.h"
#include "hub/broker/jetstream/config.h"
#include "hub/broker/store.h"

typedef struct weft__stream {
    weft__list node; /* in streams of the broker */
    weft_hub_broker *broker;
    weft__stream_config config;
    int64_t created_ns;
    weft__store store;
    weft__hash ids;        /* of the last messages with the header Nats-Msg-Id */
    weft__list ids_by_age; /* oldest first */
    weft__list consumers;
    size_t consumer_count;
} weft__stream;

/* Return the stream with a name, or NULL. */
weft__stream *weft__stream_find(const weft_hub_broker *b, weft__slice name);

/*
 * Create a stream, or find a stream with an equal configuration. On success, the stream owns the
 * content of *config, or the content is freed.
 */
weft__api_error weft__stream_create(weft_hub_broker *b, weft__stream_config *config,
                                    weft__stream **out);

/* Delete a stream with its consumers. */
void weft__stream_delete(weft__stream *stream);

bool weft__stream_has_subject(const weft__stream *stream, weft__slice subject);

/* Store a message of a client, and reply to the client. */
void weft__stream_publish(weft__stream *stream, const weft__publication *p);

/* Remove a message, also from the consumers. */
void weft__stream_remove(weft__stream *stream, weft__stored_msg *m);

/*
 * Remove the messages that match a pattern and whose sequence is less than before_seq, except for
 * the last keep of them. An empty pattern matches all. Returns the number of removed messages.
 */
uint64_t weft__stream_purge(weft__stream *stream, weft__slice pattern, uint64_t before_seq,
                            uint64_t keep);

/* Run the timers of the stream and its consumers. Return the time of the next. */
int64_t weft__stream_run_timers(weft__stream *stream, int64_t now_ns);

#endif

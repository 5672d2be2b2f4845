/* The ids of the last messages of a stream (header Nats-Msg-Id), by which it notices duplicates. */
#ifndef WEFT_HUB_BROKER_JETSTREAM_MESSAGE_ID_H
#define WEFT_HUB_BROKER_JETSTREAM_MESSAGE_ID_H

#include "hub/broker/jetstream/stream.h"

typedef struct weft__message_id {
    weft__hash_node node;
    weft__list by_age;
    uint64_t seq;
    int64_t time_ns;
    size_t bytes;
    char text[];
} weft__message_id;

/* Return the id of a message within the duplicate window, or NULL. */
const weft__message_id *weft__message_id_find(weft__stream *stream, weft__slice id);

/* Return the id of the last message with an id, or NULL. */
const weft__message_id *weft__message_id_last(const weft__stream *stream);

/*
 * Remember an id for the next message. If the message is not stored, forget the id again. Returns
 * NULL if memory is exhausted.
 */
weft__message_id *weft__message_id_add(weft__stream *stream, weft__slice id);
void weft__message_id_forget(weft__stream *stream, weft__message_id *id);

void weft__message_ids_free(weft__stream *stream);

#endif

/* The ids of the last messages of a stream. See message_id.h. */
#include "hub/broker/jetstream/message_id.h"

#include <stdlib.h>

void weft__message_id_forget(weft__stream *stream, weft__message_id *id)
{
    weft__hash_remove(&stream->ids, &id->node);
    weft__list_unlink(&id->by_age);
    free(id);
}

/* Ids are forgotten when another message needs them: an idle stream keeps its last ids. */
static void ids_expire(weft__stream *stream)
{
    int64_t now_ns = weft__broker_now_ns(stream->broker);
    while (!weft__list_is_empty(&stream->ids_by_age)) {
        weft__message_id *id = CONTAINER_OF(stream->ids_by_age.next, weft__message_id, by_age);
        int64_t window_ns = stream->config.values[WEFT__STREAM_DUPLICATE_WINDOW];
        if (weft__broker_time_after(id->time_ns, window_ns) > now_ns)
            return;
        weft__message_id_forget(stream, id);
    }
}

const weft__message_id *weft__message_id_find(weft__stream *stream, weft__slice text)
{
    ids_expire(stream);
    WEFT__HASH_FOR(node, &stream->ids, weft__hash_bytes(text.data, text.bytes)) {
        weft__message_id *id = CONTAINER_OF(node, weft__message_id, node);
        if (id->bytes == text.bytes && memcmp(id->text, text.data, text.bytes) == 0)
            return id;
    }
    return NULL;
}

const weft__message_id *weft__message_id_last(const weft__stream *stream)
{
    return weft__list_is_empty(&stream->ids_by_age)
               ? NULL
               : CONTAINER_OF(stream->ids_by_age.prev, weft__message_id, by_age);
}

weft__message_id *weft__message_id_add(weft__stream *stream, weft__slice text)
{
    weft__message_id *id = malloc(sizeof *id + text.bytes);
    if (id == NULL)
        return NULL;
    id->seq = stream->store.last_seq + 1;
    id->time_ns = weft__broker_now_ns(stream->broker);
    id->bytes = text.bytes;
    memcpy(id->text, text.data, text.bytes);
    if (weft__hash_insert(&stream->ids, &id->node, weft__hash_bytes(text.data, text.bytes)) < 0) {
        free(id);
        return NULL;
    }
    weft__list_insert(&stream->ids_by_age, &id->by_age);
    return id;
}

void weft__message_ids_free(weft__stream *stream)
{
    while (!weft__list_is_empty(&stream->ids_by_age))
        weft__message_id_forget(stream,
                                CONTAINER_OF(stream->ids_by_age.next, weft__message_id, by_age));
    weft__hash_free(&stream->ids);
}

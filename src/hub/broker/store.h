/*
 * The messages of a stream, by sequence and by subject.
 *
 * The index by sequence is an array of chunks in order. A chunk has the messages of 256 sequences,
 * and exists while it has a message. So a stream of which only few old messages remain needs little
 * memory, and the next message after a sequence is found in logarithmic time.
 */
#ifndef WEFT_HUB_BROKER_STORE_H
#define WEFT_HUB_BROKER_STORE_H

#include "hub/text/hash.h"
#include "hub/wire/output.h"

/* The messages of one subject. Exists while it has a message. */
typedef struct weft__subject_log {
    weft__hash_node node;
    weft__list messages; /* oldest first */
    size_t count;
    size_t bytes; /* of subject */
    char subject[];
} weft__subject_log;

typedef struct weft__stored_msg {
    weft__list in_log;
    weft__subject_log *log;
    uint64_t seq;
    int64_t time_ns;
    size_t headers_bytes, payload_bytes;
    char data[]; /* the headers, then the payload */
} weft__stored_msg;

typedef struct weft__chunk weft__chunk;

/* All-zero is empty. */
typedef struct weft__store {
    weft__chunk **chunks;
    size_t chunk_count, chunk_capacity;
    weft__hash logs;
    uint64_t count, bytes; /* of the messages; bytes as nats-server counts them */
    uint64_t last_seq;     /* of the last message, also after its removal */
    int64_t last_ns;
} weft__store;

static inline weft__slice weft__stored_msg_subject(const weft__stored_msg *m)
{
    return (weft__slice){m->log->subject, m->log->bytes};
}

static inline weft__slice weft__stored_msg_headers(const weft__stored_msg *m)
{
    return (weft__slice){m->data, m->headers_bytes};
}

static inline weft__slice weft__stored_msg_payload(const weft__stored_msg *m)
{
    return (weft__slice){m->data + m->headers_bytes, m->payload_bytes};
}

/* The size of a message as nats-server counts it in memory. */
size_t weft__store_cost(const weft__publication *p);

/* Append a message with the next sequence. Returns NULL if memory is exhausted. */
weft__stored_msg *weft__store_append(weft__store *store, const weft__publication *p,
                                     int64_t time_ns);

/* Return the first message whose sequence is not less than seq, or NULL. */
weft__stored_msg *weft__store_from(const weft__store *store, uint64_t seq);

/* Return the message with a sequence, or NULL. */
weft__stored_msg *weft__store_find(const weft__store *store, uint64_t seq);

/* Return the messages of a subject without wildcards, or NULL. */
weft__subject_log *weft__store_log(const weft__store *store, weft__slice subject);

/* Return the newest message whose subject matches a pattern, or NULL. */
weft__stored_msg *weft__store_last(const weft__store *store, weft__slice pattern);

/* Remove and free a message. */
void weft__store_remove(weft__store *store, weft__stored_msg *m);

/* Free all messages. */
void weft__store_free(weft__store *store);

#endif

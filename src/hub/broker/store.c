/* The messages of a stream. See store.h. */
#include "hub/broker/store.h"

#include "hub/text/subject.h"

#include <stdlib.h>

#define CHUNK_MESSAGES 256u /* a power of 2 */
#define CHUNKS_FIRST 8
#define MESSAGE_OVERHEAD_BYTES 16 /* that nats-server adds to each message in memory */

struct weft__chunk {
    uint64_t first_seq; /* a multiple of CHUNK_MESSAGES */
    size_t count;       /* of the slots that are not NULL */
    weft__stored_msg *slots[CHUNK_MESSAGES];
};

size_t weft__store_cost(const weft__publication *p)
{
    return p->subject.bytes + p->headers.bytes + p->payload.bytes + MESSAGE_OVERHEAD_BYTES;
}

static size_t message_cost(const weft__stored_msg *m)
{
    return m->log->bytes + m->headers_bytes + m->payload_bytes + MESSAGE_OVERHEAD_BYTES;
}

/* Return the index of the first chunk that can have a sequence not less than seq. */
static size_t chunk_search(const weft__store *store, uint64_t seq)
{
    size_t low = 0, high = store->chunk_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (store->chunks[middle]->first_seq + (CHUNK_MESSAGES - 1) < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Return the chunk of the next sequence. Create the chunk if it does not exist. */
static weft__chunk *chunk_for_append(weft__store *store, uint64_t seq)
{
    uint64_t first_seq = seq & ~(uint64_t)(CHUNK_MESSAGES - 1);
    if (store->chunk_count > 0 && store->chunks[store->chunk_count - 1]->first_seq == first_seq)
        return store->chunks[store->chunk_count - 1];
    if (store->chunk_count == store->chunk_capacity) {
        size_t capacity = store->chunk_capacity == 0 ? CHUNKS_FIRST : 2 * store->chunk_capacity;
        weft__chunk **chunks = realloc(store->chunks, capacity * sizeof(weft__chunk *));
        if (chunks == NULL)
            return NULL;
        store->chunks = chunks;
        store->chunk_capacity = capacity;
    }
    weft__chunk *chunk = calloc(1, sizeof *chunk);
    if (chunk == NULL)
        return NULL;
    chunk->first_seq = first_seq;
    store->chunks[store->chunk_count++] = chunk;
    return chunk;
}

static void chunk_remove(weft__store *store, size_t index)
{
    free(store->chunks[index]);
    store->chunk_count--;
    memmove(&store->chunks[index], &store->chunks[index + 1],
            (store->chunk_count - index) * sizeof(weft__chunk *));
}

weft__subject_log *weft__store_log(const weft__store *store, weft__slice subject)
{
    WEFT__HASH_FOR(node, &store->logs, weft__hash_bytes(subject.data, subject.bytes)) {
        weft__subject_log *log = CONTAINER_OF(node, weft__subject_log, node);
        if (log->bytes == subject.bytes && memcmp(log->subject, subject.data, subject.bytes) == 0)
            return log;
    }
    return NULL;
}

static weft__subject_log *log_create(weft__store *store, weft__slice subject)
{
    weft__subject_log *log = malloc(sizeof *log + subject.bytes + 1);
    if (log == NULL)
        return NULL;
    log->count = 0;
    log->bytes = subject.bytes;
    memcpy(log->subject, subject.data, subject.bytes);
    log->subject[subject.bytes] = '\0';
    weft__list_init(&log->messages);
    if (weft__hash_insert(&store->logs, &log->node, weft__hash_bytes(subject.data, subject.bytes)) <
        0) {
        free(log);
        return NULL;
    }
    return log;
}

static void log_remove_if_empty(weft__store *store, weft__subject_log *log)
{
    if (log->count > 0)
        return;
    weft__hash_remove(&store->logs, &log->node);
    free(log);
}

static weft__stored_msg *message_new(const weft__publication *p, uint64_t seq, int64_t time_ns)
{
    weft__stored_msg *m = malloc(sizeof *m + p->headers.bytes + p->payload.bytes);
    if (m == NULL)
        return NULL;
    m->seq = seq;
    m->time_ns = time_ns;
    m->headers_bytes = p->headers.bytes;
    m->payload_bytes = p->payload.bytes;
    if (p->headers.bytes > 0)
        memcpy(m->data, p->headers.data, p->headers.bytes);
    if (p->payload.bytes > 0)
        memcpy(m->data + p->headers.bytes, p->payload.data, p->payload.bytes);
    return m;
}

weft__stored_msg *weft__store_append(weft__store *store, const weft__publication *p,
                                     int64_t time_ns)
{
    uint64_t seq = store->last_seq + 1;
    weft__stored_msg *m = message_new(p, seq, time_ns);
    if (m == NULL)
        return NULL;
    weft__subject_log *log = weft__store_log(store, p->subject);
    if (log == NULL && (log = log_create(store, p->subject)) == NULL)
        goto no_log;
    weft__chunk *chunk = chunk_for_append(store, seq);
    if (chunk == NULL)
        goto no_chunk;
    chunk->slots[seq - chunk->first_seq] = m;
    chunk->count++;
    m->log = log;
    weft__list_insert(&log->messages, &m->in_log);
    log->count++;
    store->last_seq = seq;
    store->last_ns = time_ns;
    store->count++;
    store->bytes += message_cost(m);
    return m;

no_chunk:
    log_remove_if_empty(store, log);
no_log:
    free(m);
    return NULL;
}

weft__stored_msg *weft__store_from(const weft__store *store, uint64_t seq)
{
    for (size_t i = chunk_search(store, seq); i < store->chunk_count; i++) {
        const weft__chunk *chunk = store->chunks[i];
        size_t slot = seq > chunk->first_seq ? seq - chunk->first_seq : 0;
        for (; slot < CHUNK_MESSAGES; slot++)
            if (chunk->slots[slot] != NULL)
                return chunk->slots[slot];
    }
    return NULL;
}

weft__stored_msg *weft__store_find(const weft__store *store, uint64_t seq)
{
    weft__stored_msg *m = weft__store_from(store, seq);
    return m != NULL && m->seq == seq ? m : NULL;
}

weft__stored_msg *weft__store_last(const weft__store *store, weft__slice pattern)
{
    const weft__subject_log *log = weft__store_log(store, pattern);
    if (log != NULL)
        return CONTAINER_OF(log->messages.prev, weft__stored_msg, in_log);
    if (weft__subject_is_valid(pattern, false))
        return NULL;
    for (size_t i = store->chunk_count; i-- > 0;)
        for (size_t slot = CHUNK_MESSAGES; slot-- > 0;) {
            weft__stored_msg *m = store->chunks[i]->slots[slot];
            if (m != NULL && weft__subject_matches(pattern, weft__stored_msg_subject(m)))
                return m;
        }
    return NULL;
}

void weft__store_remove(weft__store *store, weft__stored_msg *m)
{
    size_t index = chunk_search(store, m->seq);
    weft__chunk *chunk = store->chunks[index];
    chunk->slots[m->seq - chunk->first_seq] = NULL;
    if (--chunk->count == 0)
        chunk_remove(store, index);
    store->count--;
    store->bytes -= message_cost(m);
    weft__list_unlink(&m->in_log);
    m->log->count--;
    log_remove_if_empty(store, m->log);
    free(m);
}

void weft__store_free(weft__store *store)
{
    for (weft__stored_msg *m; (m = weft__store_from(store, 0)) != NULL;)
        weft__store_remove(store, m);
    free(store->chunks);
    weft__hash_free(&store->logs);
}

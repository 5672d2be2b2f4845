/*
 * Entries of streams: read one, or write one with an expected sequence (compare and set).
 *
 * Keys, logs, queues and names are all made of entries. An entry has a subject. Its sequence is
 * larger than the sequences of all earlier entries of its stream.
 */
#ifndef WEFT_HUB_JETSTREAM_ENTRY_H
#define WEFT_HUB_JETSTREAM_ENTRY_H

#include "hub/jetstream/api.h"

/* The header that distinguishes the writes of all hubs. */
#define WEFT__JS_ATTEMPT_HEADER "Weft-Attempt"

/* A stored entry. Free it with weft__js_entry_free. */
typedef struct weft__js_entry {
    char *memory; /* headers and data; NULL: none */
    weft__slice headers, data;
    uint64_t sequence;
    bool is_deleted; /* a marker of a key-value bucket: the key does not exist */
} weft__js_entry;

void weft__js_entry_free(weft__js_entry *e);

/*
 * Read the last entry of a subject. The leader of the stream replies: the entry is not older than
 * the last write that has returned. Returns 0, or:
 * -ENOENT if the stream or the entry does not exist
 */
int weft__js_read_last(weft_hub *hub, const char *stream, const char *subject, weft__js_entry *out);

/* Like weft__js_read_last, for the first entry of a subject whose sequence is at least sequence. */
int weft__js_read_next(weft_hub *hub, const char *stream, const char *subject, uint64_t sequence,
                       weft__js_entry *out);

/* An entry to write. */
typedef struct weft__js_write {
    const char *stream, *subject;
    weft__slice data;
    /* The sequence of the last entry of the subject. 0: none, or a marker. Or ANY_REVISION. */
    uint64_t expected;
    const char *id; /* not NULL: an entry with this id is stored once; expected must be ANY */
    const char *operation; /* KV-Operation of a key-value bucket; NULL: a value */
    /* Called if the stream does not exist, to create it. NULL: the write fails with -ENOENT. */
    int (*create_stream)(weft_hub *hub);
    double attempt_s; /* time limit of an attempt; 0: WEFT__JS_ATTEMPT_S */
} weft__js_write;

/*
 * Write an entry, and try again until a majority of the servers has it. *sequence is then the
 * sequence of the entry. Returns 0, or:
 * 1 if an entry with the id was stored before
 * -ENOENT if the stream does not exist
 * -ESTALE if the last entry of the subject is another one than expected
 */
int weft__js_write_entry(weft_hub *hub, const weft__js_write *w, uint64_t *sequence);

#endif

/* Private parts of the state of sessions and streams. See http/h2/session.h. */
#ifndef WEFT_HTTP_H2_STATE_H
#define WEFT_HTTP_H2_STATE_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number of ended streams that a session remembers. */
#define WEFT__H2_IDS_MAX 128

/* The ids of the last streams with some property. */
typedef struct weft__h2_ids {
    int32_t ids[WEFT__H2_IDS_MAX];
    size_t count; /* of all ids so far */
} weft__h2_ids;

/* The position in the input. See input.c. */
typedef struct weft__h2_input_state {
    size_t preface_bytes; /* of the preface of a client that have arrived */
    weft__buffer part;    /* the first bytes of a frame; empty: the input begins with a frame */
    /* A DATA frame, whose bytes pass before the frame is complete. */
    bool is_in_data;
    bool is_data_end; /* the frame has END_STREAM */
    bool is_data_ignored;
    int32_t data_id;
    uint32_t data_left;
    uint32_t padding_left;
} weft__h2_input_state;

/* The head that is arriving. See head_in.c. */
typedef struct weft__h2_head_in {
    int32_t id;      /* 0: none */
    bool is_end;     /* HEADERS has END_STREAM */
    bool is_first;   /* the head of a request */
    bool is_ignored; /* the stream was refused, or does not exist any more */
    size_t bytes;
    size_t fields;
} weft__h2_head_in;

/* A window for the input of a stream or a connection, and what the body may still have. */
typedef struct weft__h2_inflow {
    int64_t window_left; /* bytes that the peer may send */
    uint32_t consumed;   /* bytes that were read, and not yet added to the window */
    int64_t body_left;   /* stream: bytes until the announced length of the body; -1: unknown */
} weft__h2_inflow;

/* Settings of the peer. */
typedef struct weft__h2_peer_settings {
    uint32_t streams_max;
    uint32_t window_bytes; /* of a new stream */
    bool allows_connect;
} weft__h2_peer_settings;

/* The levels of urgency (RFC 9218, 4.1), and the default. */
#define WEFT__H2_URGENCIES 8
#define WEFT__H2_URGENCY_DEFAULT 3

/* The priority of a stream. */
typedef struct weft__h2_priority {
    uint8_t urgency; /* 0 is the highest */
    bool is_incremental;
} weft__h2_priority;

/* The number of lists by which a session finds streams. */
#define WEFT__H2_BUCKETS 64

#endif

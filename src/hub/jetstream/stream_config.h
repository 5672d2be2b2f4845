/*
 * Streams and consumers: find one, or create it. An existing one must have the same configuration
 * in all that an option of the API says. An operator may change the rest.
 */
#ifndef WEFT_HUB_JETSTREAM_STREAM_CONFIG_H
#define WEFT_HUB_JETSTREAM_STREAM_CONFIG_H

#include "hub/jetstream/api.h"

/* NATS permits at most 5 replicas. */
#define WEFT__JS_REPLICAS_MAX 5

/* The configuration of a stream. */
typedef struct weft__js_stream {
    const char *name, *subject;
    const char *description; /* also compared; NULL: none */
    bool is_work_queue;      /* an entry is removed when a worker has acknowledged it */
    bool is_key_value;       /* laid out as a bucket of NATS's key-value store */
    bool is_in_memory;
    unsigned replicas;       /* 0: of the hub, or as the existing stream */
    int64_t max_msgs;        /* 0: unlimited; further entries are refused */
    int64_t max_per_subject; /* 0: unlimited; older entries are removed */
    int64_t max_age_ns;      /* 0: unlimited */
    int64_t dedupe_ns;       /* 0: 2 minutes, or max_age_ns if that is less */
} weft__js_stream;

/*
 * Create a stream, or find it. Returns 0, an error of weft__js_api, or:
 * -EEXIST if the stream exists with another configuration; the message names the field
 */
int weft__js_stream_create(weft_hub *hub, const weft__js_stream *s);

/*
 * Find a stream, whatever its configuration is. Returns 0, or -ENOENT or an error of weft__js_api.
 */
int weft__js_stream_find(weft_hub *hub, const char *name);

/* A field of a configuration, and the value that it must have. */
typedef struct weft__js_field {
    const char *path; /* in the reply, for example "config.max_age" */
    int64_t number;   /* compared if text is NULL */
    const char *text;
} weft__js_field;

/* Return 0 if a reply has all fields, or -EEXIST and words that name the first one that differs. */
int weft__js_fields_compare(const weft__js_answer *a, const char *object,
                            const weft__js_field *fields, size_t n);

/* Convert an option in seconds to nanoseconds. */
int64_t weft__js_ns(double seconds);

/* Return whether an option in seconds is valid: 0, or from 1 ms to 100 years. */
bool weft__js_is_duration(double seconds);

#endif

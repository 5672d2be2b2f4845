/*
 * Configurations of streams and consumers, as JSON and as arrays of numbers.
 *
 * A table describes the fields. A field that the JSON does not have is 0, as in nats-server, and 0
 * stands for the default of the field.
 */
#ifndef WEFT_HUB_BROKER_JETSTREAM_CONFIG_H
#define WEFT_HUB_BROKER_JETSTREAM_CONFIG_H

#include "hub/broker/json_out.h"
#include "hub/text/json_read.h"

#define WEFT__CONFIG_NAME_BYTES_MAX 255
#define WEFT__CONFIG_SUBJECT_BYTES_MAX 511
#define WEFT__CONFIG_DESCRIPTION_BYTES_MAX 511

typedef enum weft__stream_field {
    WEFT__STREAM_RETENTION,
    WEFT__STREAM_MAX_CONSUMERS,
    WEFT__STREAM_MAX_MSGS,
    WEFT__STREAM_MAX_BYTES,
    WEFT__STREAM_MAX_AGE,
    WEFT__STREAM_MAX_MSGS_PER_SUBJECT,
    WEFT__STREAM_MAX_MSG_SIZE,
    WEFT__STREAM_DISCARD,
    WEFT__STREAM_DISCARD_NEW_PER_SUBJECT,
    WEFT__STREAM_STORAGE,
    WEFT__STREAM_NUM_REPLICAS,
    WEFT__STREAM_DUPLICATE_WINDOW,
    WEFT__STREAM_NO_ACK,
    WEFT__STREAM_ALLOW_DIRECT,
    WEFT__STREAM_MIRROR_DIRECT,
    WEFT__STREAM_SEALED,
    WEFT__STREAM_DENY_DELETE,
    WEFT__STREAM_DENY_PURGE,
    WEFT__STREAM_ALLOW_ROLLUP,
    WEFT__STREAM_FIELDS
} weft__stream_field;

typedef enum weft__retention {
    WEFT__RETENTION_LIMITS,
    WEFT__RETENTION_INTEREST,
    WEFT__RETENTION_WORKQUEUE
} weft__retention;

typedef enum weft__discard { WEFT__DISCARD_OLD, WEFT__DISCARD_NEW } weft__discard;

typedef enum weft__consumer_field {
    WEFT__CONSUMER_DELIVER_POLICY,
    WEFT__CONSUMER_OPT_START_SEQ,
    WEFT__CONSUMER_ACK_POLICY,
    WEFT__CONSUMER_ACK_WAIT,
    WEFT__CONSUMER_MAX_DELIVER,
    WEFT__CONSUMER_REPLAY_POLICY,
    WEFT__CONSUMER_MAX_WAITING,
    WEFT__CONSUMER_MAX_ACK_PENDING,
    WEFT__CONSUMER_INACTIVE_THRESHOLD,
    WEFT__CONSUMER_NUM_REPLICAS,
    WEFT__CONSUMER_MEM_STORAGE,
    WEFT__CONSUMER_FIELDS
} weft__consumer_field;

typedef enum weft__deliver_policy {
    WEFT__DELIVER_ALL,
    WEFT__DELIVER_LAST,
    WEFT__DELIVER_NEW,
    WEFT__DELIVER_BY_START_SEQ
} weft__deliver_policy;

typedef enum weft__ack_policy {
    WEFT__ACK_NONE,
    WEFT__ACK_ALL,
    WEFT__ACK_EXPLICIT
} weft__ack_policy;

/* All-zero is empty. Free with weft__stream_config_free. */
typedef struct weft__stream_config {
    char name[WEFT__CONFIG_NAME_BYTES_MAX + 1];
    char description[WEFT__CONFIG_DESCRIPTION_BYTES_MAX + 1]; /* "": none */
    char **subjects;
    size_t subject_count;
    int64_t values[WEFT__STREAM_FIELDS];
} weft__stream_config;

typedef struct weft__consumer_config {
    char durable_name[WEFT__CONFIG_NAME_BYTES_MAX + 1]; /* "": none */
    char name[WEFT__CONFIG_NAME_BYTES_MAX + 1];         /* "": none */
    char filter[WEFT__CONFIG_SUBJECT_BYTES_MAX + 1];    /* "": all messages */
    int64_t values[WEFT__CONSUMER_FIELDS];
} weft__consumer_config;

/*
 * Read a configuration, and fill in the defaults. Returns 0, or:
 * -EBADMSG if a field has the wrong type, or a value that does not exist
 * -EMSGSIZE if a string is too long
 * -ENOMEM if memory is exhausted
 */
int weft__stream_config_read(weft__stream_config *config, const weft__json_doc *doc);
int weft__consumer_config_read(weft__consumer_config *config, const weft__json_doc *doc);

bool weft__stream_config_is_equal(const weft__stream_config *a, const weft__stream_config *b);
void weft__stream_config_free(weft__stream_config *config);

/* Write a configuration as a JSON object. */
void weft__stream_config_write(const weft__stream_config *config, weft__json_out *out);
void weft__consumer_config_write(const weft__consumer_config *config, weft__json_out *out);

#endif

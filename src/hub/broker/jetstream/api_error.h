/* Errors of the API of JetStream, with the numbers and texts of nats-server. */
#ifndef WEFT_HUB_BROKER_JETSTREAM_API_ERROR_H
#define WEFT_HUB_BROKER_JETSTREAM_API_ERROR_H

#include "hub/broker/json_out.h"

/* name, code, err_code, description */
#define WEFT__API_ERRORS(X)                                                                        \
    X(BAD_REQUEST, 400, 10003, "bad request")                                                      \
    X(CONSUMER_FIXED, 500, 10012, "deliver policy can not be updated")                             \
    X(CONSUMER_UNSUPPORTED, 500, 10012, "the broker supports pull consumers without ack all")      \
    X(CONSUMER_NOT_FOUND, 404, 10014, "consumer not found")                                        \
    X(CONSUMER_NAME_MISMATCH, 400, 10017,                                                          \
      "consumer name in subject does not match durable name in request")                           \
    X(NO_MEMORY, 503, 10023, "insufficient resources")                                             \
    X(BAD_JSON, 400, 10025, "invalid JSON")                                                        \
    X(NO_MESSAGE, 404, 10037, "no message found")                                                  \
    X(NO_SEQUENCE, 400, 10043, "sequence not found")                                               \
    X(STREAM_AGE, 500, 10052, "max age needs to be >= 100ms")                                      \
    X(STREAM_DISCARD, 500, 10052, "discard new per subject requires discard new policy to be set") \
    X(STREAM_NAME, 500, 10052, "stream name is required and can not contain '.', '*', '>'")        \
    X(STREAM_SUBJECT, 500, 10052, "invalid subject")                                               \
    X(STREAM_UNSUPPORTED, 500, 10052, "the broker supports retention limits and workqueue")        \
    X(STREAM_WINDOW, 500, 10052, "duplicates window can not be larger then max age")               \
    X(MESSAGE_TOO_LARGE, 400, 10054, "message size exceeds maximum allowed")                       \
    X(STREAM_NAME_MISMATCH, 400, 10056, "stream name in subject does not match request")           \
    X(DELETE_DENIED, 500, 10057, "message delete not permitted")                                   \
    X(STREAM_EXISTS, 400, 10058, "stream name already in use with a different configuration")      \
    X(STREAM_NOT_FOUND, 404, 10059, "stream not found")                                            \
    X(OTHER_STREAM, 400, 10060, "expected stream does not match")                                  \
    X(STREAM_OVERLAP, 400, 10065, "subjects overlap with an existing stream")                      \
    X(STREAM_UPDATE, 500, 10069, "the broker does not update streams")                             \
    X(OTHER_LAST_ID, 400, 10070, "wrong last msg ID")                                              \
    X(OTHER_LAST_SEQUENCE, 400, 10071, "wrong last sequence")                                      \
    X(STREAM_REPLICAS, 500, 10074, "replicas > 1 not supported in non-clustered mode")             \
    X(TOO_MANY_MESSAGES, 503, 10077, "maximum messages exceeded")                                  \
    X(TOO_MANY_BYTES, 503, 10077, "maximum bytes exceeded")                                        \
    X(TOO_MANY_PER_SUBJECT, 503, 10077, "maximum messages per subject exceeded")                   \
    X(QUEUE_NEEDS_ACK, 400, 10084, "consumer in pull mode requires ack policy")                    \
    X(CONSUMER_FILTER, 400, 10093,                                                                 \
      "consumer filter subject is not a valid subset of the interest subjects")                    \
    X(QUEUE_IS_TAKEN, 400, 10099,                                                                  \
      "multiple non-filtered consumers not allowed on workqueue stream")                           \
    X(QUEUE_FILTER, 400, 10100, "filtered consumer not unique on workqueue stream")                \
    X(QUEUE_DELIVERS_ALL, 400, 10101, "consumer must be deliver all on workqueue stream")          \
    X(PURGE_DENIED, 500, 10110, "stream purge not permitted")                                      \
    X(ROLLUP_DENIED, 500, 10111, "rollup not permitted")

#define WEFT__API_ERROR_ENUM(name, code, err_code, description) WEFT__API_##name,
typedef enum weft__api_error {
    WEFT__API_OK,
    WEFT__API_ERRORS(WEFT__API_ERROR_ENUM) WEFT__API_ERROR_COUNT
} weft__api_error;
#undef WEFT__API_ERROR_ENUM

/*
 * Write the member "error". If number is not NULL, the description ends with ": " and the number.
 */
void weft__api_error_write(weft__api_error error, const uint64_t *number, weft__json_out *out);

/* Return the error for a negative errno: WEFT__API_BAD_JSON or WEFT__API_NO_MEMORY. */
weft__api_error weft__api_error_of(int code);

#endif

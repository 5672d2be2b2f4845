/*
 * Parse the protocol of NATS, of both directions: the client reads INFO, MSG, HMSG, PING, PONG, +OK
 * and -ERR; the broker reads CONNECT, PUB, HPUB, SUB, UNSUB, PING and PONG.
 */
#ifndef WEFT_HUB_WIRE_PARSE_H
#define WEFT_HUB_WIRE_PARSE_H

#include "hub/text/slice.h"

#include <stdint.h>
#include <sys/types.h>

#define WEFT__LINE_BYTES_MAX (32 * 1024) /* of a line, except for INFO and CONNECT */
#define WEFT__INFO_BYTES_MAX (256 * 1024)
#define WEFT__HEADERS_BYTES_MAX (64 * 1024)

typedef enum weft__verb {
    WEFT__VERB_INFO,
    WEFT__VERB_CONNECT,
    WEFT__VERB_PUB, /* also HPUB */
    WEFT__VERB_SUB,
    WEFT__VERB_UNSUB,
    WEFT__VERB_MSG, /* also HMSG */
    WEFT__VERB_PING,
    WEFT__VERB_PONG,
    WEFT__VERB_OK,
    WEFT__VERB_ERR,
} weft__verb;

/* A parsed operation. The slices point into the input. */
typedef struct weft__op_line {
    weft__verb verb;
    weft__slice args;    /* of INFO and CONNECT: the JSON; of -ERR: the text without quotes */
    weft__slice subject; /* of PUB, SUB and MSG */
    weft__slice reply;   /* of PUB and MSG; empty: none */
    weft__slice queue;   /* of SUB; empty: none */
    uint64_t sid;        /* of SUB, UNSUB and MSG; always a number in this implementation */
    uint64_t messages_max; /* of UNSUB; 0: at once */
    weft__slice headers;   /* of PUB and MSG; empty: none */
    weft__slice payload;   /* of PUB and MSG */
} weft__op_line;

/*
 * Parse the first operation of data.
 *
 * Returns the number of bytes of the operation. Returns 0 if the operation is not complete; *need is
 * then the number of bytes that the operation needs at least, more than bytes. Returns:
 * -EMSGSIZE if a line, the headers or the payload exceed their limits
 * -EPROTO if the data violates the protocol
 */
ssize_t weft__wire_parse(const char *data, size_t bytes, size_t payload_bytes_max,
                         weft__op_line *op, size_t *need);

#endif

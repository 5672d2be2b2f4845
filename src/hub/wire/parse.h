/*
 * Parse the protocol of NATS, of both directions. The client reads INFO, MSG, HMSG, PING, PONG, +OK
 * and -ERR. The broker reads CONNECT, PUB, HPUB, SUB, UNSUB, PING and PONG. The caller rejects
 * operations of the wrong direction.
 *
 * The parser is strict. A line ends with CRLF. Fields are separated by spaces or tabs, and have no
 * control characters. Verbs are in upper case. The parser does not check
 * subjects (weft__subject_is_valid) and headers (weft__header_is_valid): a server passes on what
 * any client has published, and one bad message must not end the connection of its receivers.
 */
#ifndef WEFT_HUB_WIRE_PARSE_H
#define WEFT_HUB_WIRE_PARSE_H

#include "hub/text/slice.h"

#include <stdint.h>
#include <sys/types.h>

/* Limits of a line with its CRLF. */
#define WEFT__LINE_BYTES_MAX (32 * 1024)  /* except for INFO and CONNECT */
#define WEFT__INFO_BYTES_MAX (256 * 1024) /* of INFO and CONNECT */

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

/*
 * A parsed operation. The slices point into the input. Fields that the verb does not have are zero.
 */
typedef struct weft__op_line {
    weft__verb verb;
    weft__slice args;      /* of INFO and CONNECT: the JSON; of -ERR: the text without quotes */
    weft__slice subject;   /* of PUB, SUB and MSG */
    weft__slice reply;     /* of PUB and MSG; empty: none */
    weft__slice queue;     /* of SUB; empty: none */
    uint64_t sid;          /* of SUB, UNSUB and MSG; the parser accepts only numbers */
    uint64_t messages_max; /* of UNSUB; 0: at once */
    weft__slice headers;   /* of PUB and MSG; empty: none */
    weft__slice payload;   /* of PUB and MSG */
} weft__op_line;

/*
 * Parse the first operation of data.
 *
 * payload_bytes_max limits the payload and the headers together. It is at most SIZE_MAX / 2.
 *
 * Returns the number of bytes of the operation. Returns 0 if the operation is not complete; *need
 * is then the number of bytes that the operation has at least. *need is larger than bytes. On
 * failure or 0, *op is not defined. The result does not depend on how the input is split. Returns:
 * -EMSGSIZE if a line, or the headers and the payload, exceed their limit
 * -EPROTO if the data violates the protocol
 */
ssize_t weft__wire_parse(const char *data, size_t bytes, size_t payload_bytes_max,
                         weft__op_line *op, size_t *need);

#endif

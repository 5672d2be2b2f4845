/*
 * HTTP/1 messages: an incremental parser for requests and responses. The parser does no I/O and
 * uses no fibers or clocks. llhttp parses the bytes. This parser adds the checks of RFC 9112 that
 * llhttp omits.
 *
 * A parsed head is a set of offsets into the caller's bytes. The bytes may move until the head is
 * complete. The caller then copies the head and calls weft__message_nul_terminate. The parser
 * returns the body in pieces, without copying.
 */
#ifndef WEFT_HTTP_H1_MESSAGE_H
#define WEFT_HTTP_H1_MESSAGE_H

#include "http/message/head.h"

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef enum weft__message_kind { WEFT__REQUEST, WEFT__RESPONSE } weft__message_kind;

/* The parser's position in a chunked body. */
typedef enum weft__chunk_part {
    WEFT__CHUNK_IN_SIZE,
    WEFT__CHUNK_IN_EXTENSION,
    WEFT__CHUNK_IN_DATA, /* or in the trailers, or in a CRLF */
} weft__chunk_part;

/* The parser's position in chunk extensions (RFC 9112, 7.1.1): ";name" or ";name=value". */
typedef enum weft__extension_part {
    WEFT__EXT_BEFORE_SEMICOLON,
    WEFT__EXT_BEFORE_NAME,
    WEFT__EXT_IN_NAME,
    WEFT__EXT_AFTER_NAME, /* in the blanks before "=" or ";" */
    WEFT__EXT_BEFORE_VALUE,
    WEFT__EXT_IN_VALUE,
    WEFT__EXT_IN_QUOTES,
    WEFT__EXT_IN_ESCAPE, /* after a backslash in quotes */
    WEFT__EXT_AFTER_QUOTES,
    WEFT__EXT_BAD,
} weft__extension_part;

typedef struct weft__message {
    llhttp_t parser;
    const weft__message_limits *limits;

    /* The head. Valid after weft__message_head has returned the length of the head. */
    weft__head_span method; /* of a request */
    weft__head_span target; /* of a request */
    weft__field *fields;    /* lent by the caller, or allocated; NULL: none */
    weft__field *lent;      /* memory that the caller has lent for fields; NULL: none */
    uint32_t fields_count;
    uint32_t fields_capacity;
    int version;        /* 10 or 11 */
    int status;         /* of a response; for a rejected request: the status of the reply */
    const char *reason; /* why the message was rejected, for the log; NULL: not rejected */
    int64_t length;     /* of the body; -1: chunked, or until the connection ends */
    bool is_chunked;
    bool ends_with_connection; /* a response with a body that ends with the connection */
    bool is_keep_alive;        /* the connection may carry another message */
    bool is_upgrade;           /* a request for, or a switch to, another protocol or a tunnel */
    bool expects_continue;     /* a request with Expect: 100-continue */
    /*
     * The request that a response belongs to. The caller sets these fields. weft__message_reset
     * keeps them.
     */
    bool is_to_head;    /* HEAD: the response has no body */
    bool is_to_connect; /* CONNECT: a 2xx response has no body and opens a tunnel */
    bool is_to_upgrade; /* Upgrade: a 101 response switches to the other protocol */

    /* The body. */
    bool is_complete; /* the whole message is parsed, with trailers */

    /* Trailers: pairs of NUL-terminated name and value, allocated by the parser; NULL: none. */
    char *trailers;
    size_t trailers_bytes;

    /* The parser's state. Only the source files of the parser use these fields. */
    const char *base;         /* the first byte of the head, while llhttp runs */
    uint32_t seen;            /* bytes of the head that llhttp has read */
    uint32_t line_at;         /* offset of the first line, after empty lines */
    uint32_t fields_at;       /* offset of the first field; 0: the first line is incomplete */
    uint32_t name_end;        /* end of the last field's name */
    uint32_t head_bytes;      /* length of the head; 0: incomplete */
    int failure;              /* the result of all further calls; 0: none */
    bool has_too_many_fields; /* more than fields_max */
    bool has_unknown_method; /* llhttp has read GET in place of a method that it does not support */
    bool is_paused;          /* a callback has stopped llhttp */
    uint64_t left;           /* remaining bytes of a body with a length */
    const char *piece;       /* of the body, from a callback */
    size_t piece_bytes;
    uint32_t framing_bytes; /* bytes of framing since the last byte of the body */
    size_t extra_bytes;     /* total framing beyond the minimum: extensions, trailers */
    char last;              /* the last byte of framing; 0: the last byte was body */
    weft__chunk_part part;
    weft__extension_part extension;
    uint32_t trailers_count;
    size_t trailers_capacity;
    size_t trailer_at; /* offset of the name or value that is being read */
} weft__message;

/* Prepare for the first message. limits must remain valid while the caller uses m. */
void weft__message_open(weft__message *m, weft__message_kind kind,
                        const weft__message_limits *limits);

/*
 * Lend memory for fields, until the message is closed. fields has space for capacity fields. fields
 * may be NULL. The call releases the memory of the previous message. If a head has more fields, the
 * parser allocates memory.
 */
void weft__message_lend(weft__message *m, weft__field *fields, uint32_t capacity);

/* Prepare for the next message of the connection. The call keeps allocated memory. */
void weft__message_reset(weft__message *m);

/* Free fields and trailers. */
void weft__message_close(weft__message *m);

/*
 * Parse the head. data must contain all bytes received since the start of the message, including
 * the bytes of earlier calls. The call skips up to 2 empty lines before a request line (RFC 9112,
 * 2.2). The empty lines belong to the head. If the call rejects a request, status is 400, 414, 417,
 * 431, 501 or 505.
 *
 * Returns the length of the head, 0 if the head is incomplete, or:
 * -EBADMSG if the head violates the protocol or a limit
 * -ENOMEM if memory is exhausted
 */
ssize_t weft__message_head(weft__message *m, const char *data, size_t bytes);

/*
 * Write a NUL after the method, the target, each name and each value. head must be the caller's
 * copy of the complete head.
 */
void weft__message_nul_terminate(weft__message *m, char *head);

/*
 * Parse the body. data must contain the received bytes that earlier calls have not used. *used is
 * the number of bytes that this call has used. A piece ends at data + *used. If the call returns 0
 * and is_complete is not set, more bytes are necessary.
 *
 * Returns 1 if the call has found a piece of the body, 0 if not, or:
 * -EBADMSG if the chunks violate the protocol
 * -EBADMSG if the trailers exceed a limit
 * -ENOMEM if memory is exhausted
 */
int weft__message_body(weft__message *m, const char *data, size_t bytes, size_t *used,
                       const char **piece, size_t *piece_bytes);

/*
 * Handle the end of the connection. Returns 0 if the message is complete, the error of an earlier
 * call, or:
 * -ECONNRESET if the message is incomplete
 */
int weft__message_end(weft__message *m);

/* Return the fields of a complete head. text must be the caller's copy of the head. */
static inline weft__head weft__message_fields(const weft__message *m, const char *text)
{
    return (weft__head){text, m->fields, m->fields_count};
}

/* Like weft__head_field, for the fields of a message. */
static inline const weft__field *weft__message_field(const weft__message *m, const char *text,
                                                     const char *name, uint32_t *index)
{
    const weft__head head = weft__message_fields(m, text);
    return weft__head_field(&head, name, index);
}

/*
 * Return the trailers. text is NULL if the message has no trailers or is incomplete.
 */
static inline weft__trailers weft__message_trailers(const weft__message *m)
{
    return (weft__trailers){m->is_complete ? m->trailers : NULL, m->trailers_bytes};
}

#endif

/*
 * Messages of HTTP/1: a request or an answer, read from bytes as they come. Pure: knows nothing of
 * descriptors, fibers or time. llhttp does the parsing; what it leaves to its users is here, and is
 * refused as RFC 9112 wants it.
 *
 * The head is kept as offsets into the caller's bytes, which may move in between, until it is
 * complete and the caller puts it where it stays (weft__message_settle). The body is handed on
 * piece by piece, in place.
 */
#ifndef WEFT_HTTP_MESSAGE_H
#define WEFT_HTTP_MESSAGE_H

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Where something is in the head: so many bytes from an offset. */
typedef struct weft__span {
    uint32_t at;
    uint32_t bytes;
} weft__span;

typedef struct weft__field {
    weft__span name;
    weft__span value; /* without white space around it */
} weft__field;

/* What a message may be at most. */
typedef struct weft__message_limits {
    size_t line_bytes_max; /* the first line */
    size_t head_bytes_max; /* all of it; of more than UINT32_MAX that many */
    size_t fields_max;
} weft__message_limits;

typedef enum weft__message_kind { WEFT__REQUEST, WEFT__ANSWER } weft__message_kind;

/* Where a body in chunks is. */
typedef enum weft__chunk_part {
    WEFT__IN_SIZE,
    WEFT__IN_EXTENSION,
    WEFT__IN_CHUNK, /* or in the trailers, or between two lines */
} weft__chunk_part;

/* Where the extensions of a chunk are (RFC 9112, 7.1.1): ";name", or ";name=value". */
typedef enum weft__extension_part {
    WEFT__BEFORE_EXTENSION, /* a semicolon has to come */
    WEFT__BEFORE_NAME,
    WEFT__IN_NAME,
    WEFT__BEHIND_NAME, /* in the white space before what goes on */
    WEFT__BEFORE_VALUE,
    WEFT__IN_VALUE,
    WEFT__IN_QUOTES,
    WEFT__IN_ESCAPE, /* behind a backslash in quotes */
    WEFT__BEHIND_QUOTES,
    WEFT__EXTENSION_IS_BAD,
} weft__extension_part;

typedef struct weft__message {
    llhttp_t parser;
    const weft__message_limits *limits;

    /* The head: valid once weft__message_head has returned its length. */
    weft__span method; /* as it came; a request's */
    weft__span target;
    weft__field *fields; /* lent, or allocated and kept from one message to the next; NULL */
    weft__field *lent;   /* memory of the caller's for them; NULL: none */
    uint32_t fields_count;
    uint32_t fields_room;
    int version;        /* 10 or 11 */
    int status;         /* an answer's; a request that is refused: what to answer with */
    const char *reason; /* why it was refused, in a few words; NULL: it was not */
    int64_t length;     /* of the body; -1: chunks, or until the connection ends */
    bool is_chunked;
    bool ends_with_connection; /* an answer whose body has no other end */
    bool is_kept;              /* the connection may be used again afterwards */
    bool is_upgrade;       /* asked for with Connection: upgrade, or CONNECT; an answer's: done */
    bool expects_continue; /* a request's Expect: 100-continue */
    /* Set by the caller, and kept by weft__message_reset: what the answer is to. */
    bool is_to_head;    /* it has no body */
    bool is_to_connect; /* a 2xx has no body, and the connection is a tunnel then */

    /* The body. */
    bool is_complete; /* nothing of this message is left, trailers included */

    /* Trailers: kept in memory of the message's own, name and value NUL-terminated in pairs. */
    char *trailers;
    size_t trailers_bytes;

    /* How far it is. Private to message*.c. */
    const char *base;    /* while llhttp runs: where the head's bytes begin now */
    uint32_t seen;       /* bytes of the head that llhttp has had */
    uint32_t line_at;    /* where the first line begins, behind empty ones */
    uint32_t fields_at;  /* where it ends; 0: it is not complete */
    uint32_t name_end;   /* of the last field */
    uint32_t head_bytes; /* 0: not complete */
    int failure;         /* what every further call returns; 0: none */
    bool is_over;        /* there are more fields than there may be */
    bool has_own_method; /* llhttp does not know the method, and was shown another in its place */
    bool is_paused;      /* llhttp stopped where a callback wanted it to */
    uint64_t left;       /* of a body with a length */
    const char *piece;   /* of the body, while llhttp runs */
    size_t piece_bytes;
    uint32_t gap;       /* bytes of framing since the last byte of the body */
    size_t extra_bytes; /* framing in all beyond what chunks need: extensions, trailers */
    char last;          /* byte of framing; 0: none since the body */
    weft__chunk_part part;
    weft__extension_part extension; /* where it is in one */
    uint32_t trailers_count;
    size_t trailers_room;
    size_t trailer_at; /* where the name or value begins that is being read */
} weft__message;

/* Make ready for a first message; limits are not copied. */
void weft__message_open(weft__message *m, weft__message_kind kind,
                        const weft__message_limits *limits);

/* Memory for so many fields, as long as they are enough, until the message is closed. */
void weft__message_lend(weft__message *m, weft__field *fields, uint32_t room);

/* Make ready for the next one on the same connection. What was allocated is kept. */
void weft__message_reset(weft__message *m);

/* Release what was allocated, fields and trailers; also to save memory between two messages. */
void weft__message_close(weft__message *m);

/*
 * Go on with the head: data is all that has come of it from its first byte on, whether seen before
 * or not. Returns how many bytes the head has, 0 if it is not complete yet; -EBADMSG if it breaks
 * the protocol or a limit, status says how a request is to be answered (400, 414, 417, 431, 501,
 * 505); -ENOMEM. An empty line or two before a request line are skipped (RFC 9112, 2.2) and belong
 * to the head.
 */
ssize_t weft__message_head(weft__message *m, const char *data, size_t bytes);

/*
 * Once the head is complete and its bytes are where they stay, in memory of the caller's: puts a
 * NUL behind the method, the target, each name and each value.
 */
void weft__message_settle(weft__message *m, char *head);

/*
 * Go on with the body: data is what has come and was not used yet. 1: there is a piece of it, in
 * place, and it ends at data + *used; 0: no piece, *used bytes were framing; if is_complete is set,
 * that was the end, else more has to come (call again with what follows *used). -EBADMSG if the
 * chunks break the protocol or the trailers a limit; -ENOMEM.
 */
int weft__message_body(weft__message *m, const char *data, size_t bytes, size_t *used,
                       const char **piece, size_t *piece_bytes);

/* The connection has ended: 0 if the message may end so, else -ECONNRESET. */
int weft__message_end(weft__message *m);

/* A field by its name, whatever the case; the next after *index, which starts at 0; NULL. */
const weft__field *weft__message_field(const weft__message *m, const char *head, const char *name,
                                       uint32_t *index);

/* A field behind the body, whatever the case of its name; NULL: none, or not all of it has come. */
const char *weft__message_trailer(const weft__message *m, const char *name);

/* The name of the trailer behind another one, of a former call; NULL: of the first. NULL: none. */
const char *weft__message_next_trailer(const weft__message *m, const char *name,
                                       const char **value);

#endif

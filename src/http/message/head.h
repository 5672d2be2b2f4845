/*
 * The head of a message, independent of the protocol: fields as offsets into text, and trailers.
 * The codecs of HTTP/1 and HTTP/2 fill in these structures. Servers and proxies read them.
 */
#ifndef WEFT_HTTP_MESSAGE_HEAD_H
#define WEFT_HTTP_MESSAGE_HEAD_H

#include <stddef.h>
#include <stdint.h>

/* A span of the head: an offset and a length. */
typedef struct weft__head_span {
    uint32_t at;
    uint32_t bytes;
} weft__head_span;

typedef struct weft__field {
    weft__head_span name;
    weft__head_span value; /* without surrounding blanks */
} weft__field;

/* The fields of a complete head. text has a NUL after each name and each value. */
typedef struct weft__head {
    const char *text; /* NULL: no head */
    const weft__field *fields;
    uint32_t fields_count;
} weft__head;

/* Trailers: pairs of NUL-terminated name and value. */
typedef struct weft__trailers {
    const char *text; /* NULL: none */
    size_t bytes;
} weft__trailers;

typedef struct weft__message_limits {
    size_t line_bytes_max; /* the first line, without CRLF */
    size_t head_bytes_max; /* the whole head; values above UINT32_MAX mean UINT32_MAX */
    size_t fields_max;     /* number of fields, and of trailers */
} weft__message_limits;

/*
 * Find the next field with this name. The case of name does not matter. Set *index to 0 before the
 * first call. Returns NULL if no further field exists.
 */
const weft__field *weft__head_field(const weft__head *head, const char *name, uint32_t *index);

/*
 * Return the name of the next trailer, and set *value to its value. name is the result of the
 * previous call. If name is NULL, the call returns the first trailer. Returns NULL if no further
 * trailer exists.
 */
const char *weft__trailers_next(const weft__trailers *trailers, const char *name,
                                const char **value);

/*
 * Return the value of the first trailer with this name. The case of name does not matter. Returns
 * NULL if the trailer does not exist.
 */
const char *weft__trailers_find(const weft__trailers *trailers, const char *name);

#endif

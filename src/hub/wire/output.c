/* Append operations of NATS to a buffer. See output.h. */
#include "hub/wire/output.h"

#include "base/json_text.h"

#include <stdarg.h>
#include <stdio.h>

#define FIRST_BYTES 256     /* of a buffer for texts */
#define NUMBER_BYTES_MAX 20 /* digits of UINT64_MAX */
/* "HMSG", three numbers, the spaces before the fields, two CRLFs. */
#define FRAME_BYTES_MAX (4 + 3 * NUMBER_BYTES_MAX + 5 + 4)

static inline char *put_bytes(char *end, const void *data, size_t bytes)
{
    if (bytes > 0)
        memcpy(end, data, bytes);
    return end + bytes;
}

static inline char *put_number(char *end, uint64_t number)
{
    char digits[NUMBER_BYTES_MAX], *first = digits + sizeof digits;
    do
        *--first = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    return put_bytes(end, first, (size_t)(digits + sizeof digits - first));
}

/* Put a space and a field. */
static inline char *put_field(char *end, weft__slice field)
{
    *end++ = ' ';
    return put_bytes(end, field.data, field.bytes);
}

static inline char *put_number_field(char *end, uint64_t number)
{
    *end++ = ' ';
    return put_number(end, number);
}

static inline char *put_crlf(char *end)
{
    return put_bytes(end, "\r\n", 2);
}

/* Add the sizes of the parts of a message. Returns SIZE_MAX if the sum does not fit. */
static size_t publication_bytes(const weft__publication *p)
{
    size_t sum = FRAME_BYTES_MAX;
    if (__builtin_add_overflow(sum, p->subject.bytes, &sum) ||
        __builtin_add_overflow(sum, p->reply.bytes, &sum) ||
        __builtin_add_overflow(sum, p->headers.bytes, &sum) ||
        __builtin_add_overflow(sum, p->payload.bytes, &sum))
        return SIZE_MAX;
    return sum;
}

/* Put the end of the line, which has the sizes, and the body. */
static char *put_body(char *end, const weft__publication *p)
{
    if (p->headers.bytes > 0)
        end = put_number_field(end, p->headers.bytes);
    end = put_number_field(end, p->headers.bytes + p->payload.bytes);
    end = put_crlf(end);
    end = put_bytes(end, p->headers.data, p->headers.bytes);
    end = put_bytes(end, p->payload.data, p->payload.bytes);
    return put_crlf(end);
}

/* Append a message. verb is "HPUB" or "HMSG": without headers, the first letter is left out. */
static int output_publication(weft__buffer *out, const weft__publication *p, const char verb[5],
                              const uint64_t *sid)
{
    int rc = weft__buffer_reserve(out, publication_bytes(p));
    if (rc < 0)
        return rc;
    char *end = out->data + out->bytes;
    end = p->headers.bytes > 0 ? put_bytes(end, verb, 4) : put_bytes(end, verb + 1, 3);
    end = put_field(end, p->subject);
    if (sid != NULL)
        end = put_number_field(end, *sid);
    if (p->reply.bytes > 0)
        end = put_field(end, p->reply);
    out->bytes = (size_t)(put_body(end, p) - out->data);
    return 0;
}

int weft__output_pub(weft__buffer *out, const weft__publication *p)
{
    return output_publication(out, p, "HPUB", NULL);
}

int weft__output_msg(weft__buffer *out, const weft__publication *p, uint64_t sid)
{
    return output_publication(out, p, "HMSG", &sid);
}

int weft__output_sub(weft__buffer *out, weft__slice subject, weft__slice queue, uint64_t sid)
{
    int rc = weft__buffer_reserve(out, FRAME_BYTES_MAX + subject.bytes + queue.bytes);
    if (rc < 0)
        return rc;
    char *end = put_bytes(out->data + out->bytes, "SUB", 3);
    end = put_field(end, subject);
    if (queue.bytes > 0)
        end = put_field(end, queue);
    end = put_number_field(end, sid);
    out->bytes = (size_t)(put_crlf(end) - out->data);
    return 0;
}

int weft__output_unsub(weft__buffer *out, uint64_t sid)
{
    int rc = weft__buffer_reserve(out, FRAME_BYTES_MAX);
    if (rc < 0)
        return rc;
    char *end = put_bytes(out->data + out->bytes, "UNSUB", 5);
    end = put_number_field(end, sid);
    out->bytes = (size_t)(put_crlf(end) - out->data);
    return 0;
}

/* Like weft__buffer_reserve. A new buffer gets room for a few small texts. */
static inline int output_reserve(weft__buffer *out, size_t bytes)
{
    bool is_new = out->capacity == 0;
    return weft__buffer_reserve(out, is_new && bytes < FIRST_BYTES ? FIRST_BYTES : bytes);
}

int weft__output_text(weft__buffer *out, const char *text)
{
    size_t bytes = strlen(text);
    int rc = output_reserve(out, bytes);
    if (rc < 0)
        return rc;
    put_bytes(out->data + out->bytes, text, bytes);
    out->bytes += bytes;
    return 0;
}

int weft__output_printf(weft__buffer *out, const char *format, ...)
{
    /* Format once if the text fits into the room that is left, otherwise twice. */
    int rc = output_reserve(out, 1);
    for (int i = 0; i < 2 && rc == 0; i++) {
        va_list args;
        va_start(args, format);
        size_t room = out->capacity - out->bytes;
        int bytes = vsnprintf(out->data + out->bytes, room, format, args);
        va_end(args);
        if (bytes < 0)
            return -ENOMEM;
        if ((size_t)bytes < room) { /* the NUL is not part of the output */
            out->bytes += (size_t)bytes;
            return 0;
        }
        rc = output_reserve(out, (size_t)bytes + 1);
    }
    return rc;
}

int weft__output_json_string(weft__buffer *out, const char *text)
{
    size_t bytes = strlen(text);
    if (bytes > SIZE_MAX / WEFT__JSON_ESCAPE_BYTES_MAX - 2)
        return -ENOMEM;
    int rc = output_reserve(out, bytes * WEFT__JSON_ESCAPE_BYTES_MAX + 2);
    if (rc < 0)
        return rc;
    char *end = out->data + out->bytes;
    *end++ = '"';
    end = weft__json_put_text(end, text, bytes);
    *end++ = '"';
    out->bytes = (size_t)(end - out->data);
    return 0;
}

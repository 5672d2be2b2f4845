/*
 * Feed messages to the HTTP/1 parser in parts of any size, for the tests and the fuzzer. The result
 * is a line of text, so that different splits can be compared. Each call of the parser gets its own
 * copy of the input, which is freed after the call. ASan therefore detects a read beyond the input,
 * and a pointer that the parser has kept.
 */
#ifndef TESTS_HTTP_H1_MESSAGE_FEED_H
#define TESTS_HTTP_H1_MESSAGE_FEED_H

#include "http/h1/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The kind of a message: a request, a response, or a response to HEAD or CONNECT. */
typedef enum feed_kind {
    FEED_REQUEST,
    FEED_RESPONSE,
    FEED_RESPONSE_TO_HEAD,
    FEED_RESPONSE_TO_CONNECT
} feed_kind;

typedef struct feed {
    weft__message message;
    const char *data; /* the whole input */
    size_t bytes;
    size_t arrived; /* bytes that the parser may use so far */
    size_t at;      /* the start of the message, later the first unused byte of its body */
    size_t split;   /* the first split bytes arrive at once ... */
    size_t step;    /* ... then step bytes at a time */
    char *outcome;  /* the result as text */
    size_t outcome_bytes;
    size_t outcome_room;
    bool is_in_body; /* the outcome has an open brace */
} feed;

#define FEED_CHECK(condition)                                                        \
    do {                                                                             \
        if (!(condition)) {                                                          \
            fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
            abort();                                                                 \
        }                                                                            \
    } while (0)

static inline void feed_record_bytes(feed *f, const char *text, size_t bytes)
{
    if (f->outcome_bytes + bytes + 1 > f->outcome_room) {
        f->outcome_room = 2 * (f->outcome_bytes + bytes + 1);
        f->outcome = realloc(f->outcome, f->outcome_room);
        FEED_CHECK(f->outcome != NULL);
    }
    memcpy(f->outcome + f->outcome_bytes, text, bytes);
    f->outcome_bytes += bytes;
    f->outcome[f->outcome_bytes] = '\0';
}

__attribute__((format(printf, 2, 3))) static inline void feed_record(feed *f, const char *format,
                                                                     ...)
{
    char text[128];
    va_list args;
    va_start(args, format);
    int bytes = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    FEED_CHECK(bytes >= 0 && (size_t)bytes < sizeof text);
    feed_record_bytes(f, text, (size_t)bytes);
}

/* Let more bytes arrive. Return false if there are none. */
static inline bool feed_more(feed *f)
{
    if (f->arrived == f->bytes)
        return false;
    size_t step = f->arrived < f->split ? f->split - f->arrived : f->step;
    f->arrived += step < f->bytes - f->arrived ? step : f->bytes - f->arrived;
    return true;
}

/* Return a copy in an allocation of exactly this size. */
static inline char *feed_copy(const char *data, size_t bytes)
{
    char *copy = malloc(bytes > 0 ? bytes : 1);
    FEED_CHECK(copy != NULL);
    memcpy(copy, data, bytes);
    return copy;
}

/* Check that a span lies in the head, is unchanged, and is NUL-terminated. */
static inline void feed_check_span(const feed *f, const char *head, weft__head_span span)
{
    FEED_CHECK((size_t)span.at + span.bytes < f->message.head_bytes);
    FEED_CHECK(memcmp(head + span.at, f->data + f->at + span.at, span.bytes) == 0);
    FEED_CHECK(strlen(head + span.at) == span.bytes);
}

/*
 * Check an accepted head: each line ends with CRLF, no line is folded, and there is no other
 * control character except tabs.
 */
static inline void feed_check_bytes(const char *head, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)head[i];
        FEED_CHECK(c >= ' ' || c == '\t' || c == '\r' || c == '\n');
        FEED_CHECK(c != 0x7f);
        FEED_CHECK(c != '\n' || (i > 0 && head[i - 1] == '\r'));
        FEED_CHECK(c != '\r' || (i + 1 < bytes && head[i + 1] == '\n'));
        FEED_CHECK(i == 0 || head[i - 1] != '\n' || (c != ' ' && c != '\t'));
    }
    FEED_CHECK(bytes >= 4 && memcmp(head + bytes - 4, "\r\n\r\n", 4) == 0);
}

/* Count the fields with this name. */
static inline uint32_t feed_count_fields(const weft__message *m, const char *head, const char *name)
{
    uint32_t count = 0, index = 0;
    while (weft__message_field(m, head, name, &index) != NULL)
        count++;
    return count;
}

/* Check that the fields determine the framing unambiguously. */
static inline void feed_check_framing(const weft__message *m, const char *head)
{
    uint32_t lengths = feed_count_fields(m, head, "content-length");
    uint32_t encodings = feed_count_fields(m, head, "TRANSFER-ENCODING");
    FEED_CHECK(lengths + encodings <= 1);
    FEED_CHECK(!m->is_chunked || encodings == 1);
    FEED_CHECK(m->length <= 0 || lengths == 1);
    FEED_CHECK(m->is_complete == (m->length == 0));
    if (m->parser.type == HTTP_REQUEST) {
        FEED_CHECK(m->is_chunked == (encodings == 1) && !m->ends_with_connection);
        FEED_CHECK(feed_count_fields(m, head, "Host") <= 1);
        FEED_CHECK(m->version == 10 || feed_count_fields(m, head, "Host") == 1);
    }
}

static inline void feed_check_fields(const feed *f, const char *head)
{
    const weft__message *m = &f->message;
    for (uint32_t i = 0; i < m->fields_count; i++) {
        const weft__field *field = &m->fields[i];
        feed_check_span(f, head, field->name);
        feed_check_span(f, head, field->value);
        FEED_CHECK(field->name.bytes > 0);
        FEED_CHECK(strpbrk(head + field->name.at, " \t\r\n:;,\"") == NULL);
        FEED_CHECK(strpbrk(head + field->value.at, "\r\n\x01\x1f\x7f") == NULL);
        uint32_t index = i;
        FEED_CHECK(weft__message_field(m, head, head + field->name.at, &index) == field);
        FEED_CHECK(index == i + 1);
    }
}

/* Record the version, and everything that differs from a keep-alive message without a body. */
static inline void feed_record_head(feed *f)
{
    const weft__message *m = &f->message;
    feed_record(f, " %d.%d", m->version / 10, m->version % 10);
    if (!m->is_keep_alive)
        feed_record(f, " close");
    if (m->is_upgrade)
        feed_record(f, " upgrade");
    if (m->expects_continue)
        feed_record(f, " expect");
    if (m->is_chunked)
        feed_record(f, " chunked");
    else if (m->ends_with_connection)
        feed_record(f, " endless");
    else if (m->length > 0)
        feed_record(f, " length=%lld", (long long)m->length);
}

static inline void feed_check_head(feed *f, size_t bytes)
{
    weft__message *m = &f->message;
    char *head = feed_copy(f->data + f->at, bytes);
    feed_check_bytes(head, bytes);
    weft__message_nul_terminate(m, head);
    if (m->parser.type == HTTP_REQUEST) {
        feed_check_span(f, head, m->method);
        feed_check_span(f, head, m->target);
        feed_record_bytes(f, head + m->method.at, m->method.bytes);
        feed_record(f, " ");
        feed_record_bytes(f, head + m->target.at, m->target.bytes);
    } else {
        feed_record(f, "%d", m->status);
    }
    feed_check_fields(f, head);
    feed_check_framing(m, head);
    feed_record_head(f);
    free(head);
}

/* Parse a head. Return false if the head is malformed or incomplete. */
static inline bool feed_head(feed *f)
{
    weft__message *m = &f->message;
    ssize_t rc;
    do {
        char *copy = feed_copy(f->data + f->at, f->arrived - f->at);
        rc = weft__message_head(m, copy, f->arrived - f->at);
        free(copy);
    } while (rc == 0 && feed_more(f));
    if (rc < 0) {
        FEED_CHECK(rc == -EBADMSG);
        FEED_CHECK((m->parser.type == HTTP_REQUEST) == (m->status >= 400));
        FEED_CHECK(weft__message_head(m, f->data, f->bytes) == rc); /* the error persists */
        feed_record(f, "!%d", m->status);
        return false;
    }
    if (rc == 0) {
        FEED_CHECK(weft__message_end(m) == -ECONNRESET);
        feed_record(f, "more");
        return false;
    }
    FEED_CHECK((size_t)rc <= f->arrived - f->at && (size_t)rc == m->head_bytes);
    feed_check_head(f, (size_t)rc);
    f->at += (size_t)rc;
    return true;
}

/* Call the parser of the body once. Return false if the body is malformed. */
static inline bool feed_piece(feed *f, bool *needs_more)
{
    weft__message *m = &f->message;
    size_t bytes = f->arrived - f->at, used, piece_bytes;
    const char *piece;
    char *copy = feed_copy(f->data + f->at, bytes);
    int rc = weft__message_body(m, copy, bytes, &used, &piece, &piece_bytes);
    FEED_CHECK(rc >= 0 || (rc == -EBADMSG && !m->is_complete));
    if (rc >= 0) {
        FEED_CHECK(used <= bytes);
        f->at += used;
    }
    if (rc == 1) {
        FEED_CHECK(piece_bytes > 0 && piece >= copy && piece + piece_bytes == copy + used);
        feed_record_bytes(f, f->is_in_body ? "" : " {", f->is_in_body ? 0 : 2);
        f->is_in_body = true;
        feed_record_bytes(f, piece, piece_bytes);
    }
    *needs_more = rc == 0 && !m->is_complete;
    FEED_CHECK(!*needs_more || used == bytes);
    free(copy);
    return rc >= 0;
}

static inline void feed_record_trailers(feed *f)
{
    const weft__message *m = &f->message;
    for (size_t i = 0; i < m->trailers_bytes;) {
        size_t name = strlen(m->trailers + i);
        size_t value = strlen(m->trailers + i + name + 1);
        feed_record(f, " ");
        feed_record_bytes(f, m->trailers + i, name);
        feed_record(f, "=");
        feed_record_bytes(f, m->trailers + i + name + 1, value);
        i += name + value + 2;
        FEED_CHECK(i <= m->trailers_bytes);
    }
}

/* Parse a body. Return false if the message is malformed or incomplete. */
static inline bool feed_body(feed *f)
{
    weft__message *m = &f->message;
    bool is_good = true, needs_more = false;
    f->is_in_body = false;
    while (is_good && !m->is_complete && (!needs_more || feed_more(f)))
        is_good = feed_piece(f, &needs_more);
    if (f->is_in_body)
        feed_record(f, "}");
    if (is_good && m->is_complete)
        feed_record_trailers(f);
    else if (is_good)
        feed_record(f, weft__message_end(m) == 0 ? " end" : " more");
    else
        feed_record(f, " !body");
    return is_good && m->is_complete;
}

/*
 * Parse all messages in data and return the result as text. The first `split` bytes arrive at once,
 * then `step` bytes at a time. The caller frees the result.
 */
static inline char *feed_all(feed_kind kind, const weft__message_limits *limits, const char *data,
                             size_t bytes, size_t split, size_t step, size_t *outcome_bytes)
{
    feed f = {.data = data, .bytes = bytes, .step = step, .split = split};
    weft__message *m = &f.message;
    weft__message_open(m, kind == FEED_REQUEST ? WEFT__REQUEST : WEFT__RESPONSE, limits);
    m->is_to_head = kind == FEED_RESPONSE_TO_HEAD;
    m->is_to_connect = kind == FEED_RESPONSE_TO_CONNECT;
    feed_record_bytes(&f, "", 0);
    while (f.at < bytes) {
        if (f.at > 0)
            feed_record(&f, " | ");
        if (!feed_head(&f) || !feed_body(&f))
            break;
        if (m->is_upgrade && f.at < bytes) {
            feed_record(&f, " +%zu", bytes - f.at);
            break;
        }
        weft__message_reset(m);
    }
    weft__message_close(m);
    *outcome_bytes = f.outcome_bytes;
    return f.outcome;
}

#endif

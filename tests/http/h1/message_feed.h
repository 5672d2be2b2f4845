/*
 * Messages fed to the parser in pieces, and what came out as one line of text, so that two ways of
 * feeding can be compared. Each call of the parser gets a copy of the bytes that is as long as they
 * are and gone afterwards: what it remembers must be offsets, and a byte too far is seen by ASan.
 * For the tests and the fuzzer.
 */
#ifndef TESTS_MESSAGE_FEED_H
#define TESTS_MESSAGE_FEED_H

#include "http/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a message is, and what an answer is to. */
typedef enum feed_kind { FEED_REQUEST, FEED_ANSWER, FEED_TO_HEAD, FEED_TO_CONNECT } feed_kind;

typedef struct feed {
    weft__message message;
    const char *data; /* everything that comes */
    size_t bytes;
    size_t come;   /* so far */
    size_t at;     /* where the message begins, later what of its body was not used yet */
    size_t step;   /* how many bytes come at a time ... */
    size_t split;  /* ... after so many at once */
    char *outcome; /* what came out */
    size_t outcome_bytes;
    size_t outcome_room;
    bool is_in_body; /* the outcome has an open brace */
} feed;

#define FEED_CHECK(condition)                                                             \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            abort();                                                                      \
        }                                                                                 \
    } while (0)

static inline void feed_tell_bytes(feed *f, const char *text, size_t bytes)
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

__attribute__((format(printf, 2, 3))) static inline void feed_tell(feed *f, const char *format, ...)
{
    char text[128];
    va_list args;
    va_start(args, format);
    int bytes = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    FEED_CHECK(bytes >= 0 && (size_t)bytes < sizeof text);
    feed_tell_bytes(f, text, (size_t)bytes);
}

/* Some more bytes come; false: there are none. */
static inline bool feed_more(feed *f)
{
    if (f->come == f->bytes)
        return false;
    size_t step = f->come < f->split ? f->split - f->come : f->step;
    f->come += step < f->bytes - f->come ? step : f->bytes - f->come;
    return true;
}

/* A copy of bytes that ends where they do. */
static inline char *feed_copy(const char *data, size_t bytes)
{
    char *copy = malloc(bytes > 0 ? bytes : 1);
    FEED_CHECK(copy != NULL);
    memcpy(copy, data, bytes);
    return copy;
}

/* A span lies in the head, is what it was there, and has a NUL behind it where there was none. */
static inline void feed_check_span(const feed *f, const char *head, weft__span span)
{
    FEED_CHECK((size_t)span.at + span.bytes < f->message.head_bytes);
    FEED_CHECK(memcmp(head + span.at, f->data + f->at + span.at, span.bytes) == 0);
    FEED_CHECK(strlen(head + span.at) == span.bytes);
}

/*
 * Whatever else a head is: its lines end with CRLF, none is folded, there is nothing else below a
 * space.
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

/* How many fields have that name. */
static inline uint32_t feed_count(const weft__message *m, const char *head, const char *name)
{
    uint32_t count = 0, index = 0;
    while (weft__message_field(m, head, name, &index) != NULL)
        count++;
    return count;
}

/* The framing is what its fields say, and they leave no choice. */
static inline void feed_check_framing(const weft__message *m, const char *head)
{
    uint32_t lengths = feed_count(m, head, "content-length");
    uint32_t encodings = feed_count(m, head, "TRANSFER-ENCODING");
    FEED_CHECK(lengths + encodings <= 1);
    FEED_CHECK(!m->is_chunked || encodings == 1);
    FEED_CHECK(m->length <= 0 || lengths == 1);
    FEED_CHECK(m->is_complete == (m->length == 0));
    if (m->parser.type == HTTP_REQUEST) {
        FEED_CHECK(m->is_chunked == (encodings == 1) && !m->ends_with_connection);
        FEED_CHECK(feed_count(m, head, "Host") <= 1);
        FEED_CHECK(m->version == 10 || feed_count(m, head, "Host") == 1);
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

/* What of a head is not as it usually is. */
static inline void feed_tell_head(feed *f)
{
    const weft__message *m = &f->message;
    feed_tell(f, " %d.%d", m->version / 10, m->version % 10);
    if (!m->is_kept)
        feed_tell(f, " close");
    if (m->is_upgrade)
        feed_tell(f, " upgrade");
    if (m->expects_continue)
        feed_tell(f, " expect");
    if (m->is_chunked)
        feed_tell(f, " chunked");
    else if (m->ends_with_connection)
        feed_tell(f, " endless");
    else if (m->length > 0)
        feed_tell(f, " length=%lld", (long long)m->length);
}

static inline void feed_settle(feed *f, size_t bytes)
{
    weft__message *m = &f->message;
    char *head = feed_copy(f->data + f->at, bytes);
    feed_check_bytes(head, bytes);
    weft__message_settle(m, head);
    if (m->parser.type == HTTP_REQUEST) {
        feed_check_span(f, head, m->method);
        feed_check_span(f, head, m->target);
        feed_tell_bytes(f, head + m->method.at, m->method.bytes);
        feed_tell(f, " ");
        feed_tell_bytes(f, head + m->target.at, m->target.bytes);
    } else {
        feed_tell(f, "%d", m->status);
    }
    feed_check_fields(f, head);
    feed_check_framing(m, head);
    feed_tell_head(f);
    free(head);
}

/* The head: false if there is no message in it, or not yet. */
static inline bool feed_head(feed *f)
{
    weft__message *m = &f->message;
    ssize_t rc;
    do {
        char *copy = feed_copy(f->data + f->at, f->come - f->at);
        rc = weft__message_head(m, copy, f->come - f->at);
        free(copy);
    } while (rc == 0 && feed_more(f));
    if (rc < 0) {
        FEED_CHECK(rc == -EBADMSG);
        FEED_CHECK((m->parser.type == HTTP_REQUEST) == (m->status >= 400));
        FEED_CHECK(weft__message_head(m, f->data, f->bytes) == rc); /* and so for ever */
        feed_tell(f, "!%d", m->status);
        return false;
    }
    if (rc == 0) {
        FEED_CHECK(weft__message_end(m) == -ECONNRESET);
        feed_tell(f, "more");
        return false;
    }
    FEED_CHECK((size_t)rc <= f->come - f->at && (size_t)rc == m->head_bytes);
    feed_settle(f, (size_t)rc);
    f->at += (size_t)rc;
    return true;
}

/* One call for the body; false: it is malformed. */
static inline bool feed_piece(feed *f, bool *needs_more)
{
    weft__message *m = &f->message;
    size_t bytes = f->come - f->at, used, piece_bytes;
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
        feed_tell_bytes(f, f->is_in_body ? "" : " {", f->is_in_body ? 0 : 2);
        f->is_in_body = true;
        feed_tell_bytes(f, piece, piece_bytes);
    }
    *needs_more = rc == 0 && !m->is_complete;
    FEED_CHECK(!*needs_more || used == bytes);
    free(copy);
    return rc >= 0;
}

static inline void feed_tell_trailers(feed *f)
{
    const weft__message *m = &f->message;
    for (size_t i = 0; i < m->trailers_bytes;) {
        size_t name = strlen(m->trailers + i);
        size_t value = strlen(m->trailers + i + name + 1);
        feed_tell(f, " ");
        feed_tell_bytes(f, m->trailers + i, name);
        feed_tell(f, "=");
        feed_tell_bytes(f, m->trailers + i + name + 1, value);
        i += name + value + 2;
        FEED_CHECK(i <= m->trailers_bytes);
    }
}

/* The body: false if the message is not complete. */
static inline bool feed_body(feed *f)
{
    weft__message *m = &f->message;
    bool is_good = true, needs_more = false;
    f->is_in_body = false;
    while (is_good && !m->is_complete && (!needs_more || feed_more(f)))
        is_good = feed_piece(f, &needs_more);
    if (f->is_in_body)
        feed_tell(f, "}");
    if (is_good && m->is_complete)
        feed_tell_trailers(f);
    else if (is_good)
        feed_tell(f, weft__message_end(m) == 0 ? " end" : " more");
    else
        feed_tell(f, " !body");
    return is_good && m->is_complete;
}

/*
 * Everything that these bytes are, one message after the other: the first `split` bytes come at
 * once, then `step` at a time. The result is to be freed.
 */
static inline char *feed_all(feed_kind kind, const weft__message_limits *limits, const char *data,
                             size_t bytes, size_t split, size_t step, size_t *outcome_bytes)
{
    feed f = {.data = data, .bytes = bytes, .step = step, .split = split};
    weft__message *m = &f.message;
    weft__message_open(m, kind == FEED_REQUEST ? WEFT__REQUEST : WEFT__ANSWER, limits);
    m->is_to_head = kind == FEED_TO_HEAD;
    m->is_to_connect = kind == FEED_TO_CONNECT;
    feed_tell_bytes(&f, "", 0);
    while (f.at < bytes) {
        if (f.at > 0)
            feed_tell(&f, " | ");
        if (!feed_head(&f) || !feed_body(&f))
            break;
        if (m->is_upgrade && f.at < bytes) {
            feed_tell(&f, " +%zu", bytes - f.at);
            break;
        }
        weft__message_reset(m);
    }
    weft__message_close(m);
    *outcome_bytes = f.outcome_bytes;
    return f.outcome;
}

#endif

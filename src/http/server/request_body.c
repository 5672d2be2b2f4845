/*
 * The body of a request. The server reads the body only when the handler calls a read function.
 * body_bytes_max and the minimum rate limit the reads.
 */
#include "http/server/server.h"

#include <weft/error.h>

#include <stdlib.h>

/* The maximum length of an unread body that the server skips to keep the connection open. */
#define SKIP_BYTES_MAX ((uint64_t)64 << 10)
/* If more than this number of bytes remain, the connection uses a larger read buffer. */
#define LARGE_BYTES ((uint64_t)4 << 10)
/* The size of the first allocation for a chunked body in weft_http_read_all. */
#define CAPACITY_FIRST ((size_t)4 << 10)

int64_t weft_http_length(const weft_http_request *r)
{
    return r->conn->message.length;
}

int weft_http_limit_body(weft_http_request *r, uint64_t bytes_max)
{
    if (r->body_bytes > 0)
        return -EALREADY;
    r->body_bytes_max = bytes_max;
    return 0;
}

int weft__bodies_reserve(weft__server *s, uint64_t bytes)
{
    if (bytes > s->options.limits.bodies_bytes_max - s->bodies_bytes)
        return -ENOBUFS;
    s->bodies_bytes += bytes;
    return 0;
}

/* Fail all further reads with this error. The connection cannot handle another request. */
static int body_fail(weft_http_request *r, int error)
{
    r->body_error = error;
    r->conn->must_close = true;
    return error;
}

/* Send 100 (Continue) if the client waits for that response (RFC 9110, 10.1.1). */
static int send_continue(weft_http_request *r)
{
    static const char continue_text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!r->conn->message.expects_continue || r->has_continued)
        return 0;
    r->has_continued = true;
    if (r->state != WEFT__REPLY_NONE)
        return -EPIPE; /* after the final reply, the client does not send the body */
    ssize_t n = weft_stream_write(&r->conn->stream, continue_text, sizeof continue_text - 1);
    return n < 0 ? (int)n : 0;
}

/* Return true if the rest of the body is long or has an unknown length. */
static bool body_is_large(const weft_http_request *r)
{
    int64_t length = r->conn->message.length;
    return length < 0 || (uint64_t)length - r->body_bytes > LARGE_BYTES;
}

/*
 * Send 100 (Continue) if necessary. Then send buffered output and wait for input, like
 * weft_stream_peek.
 */
static ssize_t body_peek_more(weft_http_request *r)
{
    weft__conn *c = r->conn;
    const void *ignored;
    int rc = send_continue(r);
    ssize_t n = rc < 0 ? rc : weft_stream_peek(&c->stream, 1, &ignored);
    /*
     * After an error, output may remain unsent. The next write must then be ready to wait. Another
     * fiber writes the output of a proxied reply, so this call has not flushed that output.
     */
    if (!r->is_proxied)
        c->unflushed = n < 0 ? WEFT__OUT_BYTES : 0;
    return n;
}

/* Wait for more bytes of the body, at the minimum rate. Returns 0 or an error. */
static int body_wait_for_more(weft_http_request *r)
{
    weft__conn *c = r->conn;
    if (body_is_large(r))
        weft__conn_enlarge_buffer(c);
    weft__min_rate_call call;
    int rc = weft__min_rate_open(&call, &r->in_rate, r->conn->server);
    if (rc < 0)
        return rc;
    ssize_t n = body_peek_more(r);
    uint64_t bytes = n > 0 ? (uint64_t)n : 0;
    int late = weft__min_rate_close(&call, bytes);
    if (n > 0)
        return 0;
    if (n == 0)
        return weft__message_end(&c->message);
    return late < 0 ? late : (int)n;
}

static int body_check_limit(const weft_http_request *r)
{
    int64_t length = r->conn->message.length;
    uint64_t bytes = length > 0 ? (uint64_t)length : r->body_bytes;
    if (bytes <= r->body_bytes_max)
        return 0;
    return weft_fail(-EMSGSIZE, "weft_http_read: the body is longer than %llu bytes",
                     (unsigned long long)r->body_bytes_max);
}

/*
 * Get the next piece of the body without copying. Returns 1, 0 at the end of the body, or an error.
 */
static int body_next_piece(weft_http_request *r, const char **piece, size_t *bytes)
{
    weft__conn *c = r->conn;
    int rc = body_check_limit(r);
    while (rc == 0 && !c->message.is_complete) {
        const void *data;
        size_t used = 0;
        ssize_t n = weft_stream_peek(&c->stream, 0, &data);
        if (n <= 0) {
            rc = n < 0 ? (int)n : body_wait_for_more(r);
            continue;
        }
        rc = weft__message_body(&c->message, data, (size_t)n, &used, piece, bytes);
        /* Skipped bytes remain valid until the stream reads again. */
        (void)weft_stream_skip(&c->stream, used);
    }
    if (rc <= 0)
        return rc;
    r->has_continued = true;
    r->body_bytes += *bytes;
    rc = body_check_limit(r);
    return rc < 0 ? rc : 1;
}

ssize_t weft_http_read_piece(weft_http_request *r, const void **data)
{
    *data = "";
    if (r->body_error < 0)
        return r->body_error;
    if (r->piece_bytes == 0) {
        int rc = body_next_piece(r, &r->piece, &r->piece_bytes);
        if (rc <= 0) {
            r->piece_bytes = 0;
            /* A cancelled read loses no bytes. The caller may repeat the read. */
            return rc == 0 || rc == -ECANCELED ? rc : body_fail(r, rc);
        }
    }
    size_t bytes = r->piece_bytes;
    *data = r->piece;
    r->piece_bytes = 0;
    return (ssize_t)bytes;
}

ssize_t weft_http_read(weft_http_request *r, void *data, size_t bytes)
{
    const void *piece;
    if (bytes == 0)
        return 0;
    ssize_t n = weft_http_read_piece(r, &piece);
    if (n <= 0)
        return n;
    size_t taken = (size_t)n < bytes ? (size_t)n : bytes;
    memcpy(data, piece, taken);
    r->piece = (const char *)piece + taken;
    r->piece_bytes = (size_t)n - taken;
    return (ssize_t)taken;
}

/* The bytes that weft_http_read_all has read, in one growing allocation in the arena. */
typedef struct whole_body {
    char *bytes; /* NULL if capacity is 0 */
    size_t count;
    size_t capacity;
} whole_body;

/* Return the number of unread bytes, or 0 if the length is unknown. */
static size_t body_bytes_left(const weft_http_request *r)
{
    int64_t length = r->conn->message.length;
    return length > 0 ? (size_t)((uint64_t)length - r->body_bytes) : 0;
}

/*
 * Reserve memory for more bytes and a NUL. If the length is known, reserve memory for the whole
 * body. Otherwise double the capacity.
 */
static int whole_body_reserve(weft_http_request *r, whole_body *w, size_t bytes)
{
    size_t needed = w->count + bytes + 1, capacity = needed + body_bytes_left(r);
    if (w->capacity >= needed)
        return 0;
    if (r->conn->message.is_chunked) {
        capacity = w->capacity != 0 ? w->capacity : CAPACITY_FIRST;
        while (capacity < needed)
            capacity *= 2;
    }
    char *larger = weft__arena_resize(&r->conn->arena, w->bytes, w->capacity, capacity);
    if (larger == NULL)
        return -ENOMEM;
    w->bytes = larger;
    w->capacity = capacity;
    return 0;
}

static int whole_body_add(weft_http_request *r, whole_body *w, const void *piece, size_t bytes)
{
    int rc = weft__bodies_reserve(r->conn->server, bytes);
    if (rc == 0) {
        r->body_reserved += bytes;
        rc = whole_body_reserve(r, w, bytes);
    }
    if (rc < 0)
        return body_fail(r, rc); /* without the lost piece, the body is incomplete */
    memcpy(w->bytes + w->count, piece, bytes);
    w->count += bytes;
    return 0;
}

ssize_t weft_http_read_all(weft_http_request *r, char **data)
{
    whole_body all = {0};
    const void *piece;
    ssize_t n;
    while ((n = weft_http_read_piece(r, &piece)) > 0) {
        int rc = whole_body_add(r, &all, piece, (size_t)n);
        if (rc < 0)
            return rc;
    }
    int rc = n < 0 ? (int)n : whole_body_reserve(r, &all, 0);
    if (rc < 0)
        return rc;
    all.bytes[all.count] = '\0';
    *data = all.bytes;
    return (ssize_t)all.count;
}

bool weft__body_is_skippable(const weft_http_request *r)
{
    const weft__message *m = &r->conn->message;
    if (m->is_complete)
        return true;
    if (r->body_error < 0 || (m->expects_continue && !r->has_continued))
        return false;
    return m->length < 0 || (uint64_t)m->length - r->body_bytes <= SKIP_BYTES_MAX;
}

int weft__body_skip(weft_http_request *r)
{
    if (r->conn->message.is_complete)
        return 0;
    if (!weft__body_is_skippable(r))
        return -EMSGSIZE;
    uint64_t limit = r->body_bytes + SKIP_BYTES_MAX;
    const void *ignored;
    ssize_t n;
    while ((n = weft_http_read_piece(r, &ignored)) > 0)
        if (r->body_bytes > limit)
            return -EMSGSIZE;
    return (int)n;
}

int weft__body_discard_arrived(weft_http_request *r)
{
    weft__conn *c = r->conn;
    weft__message *m = &c->message;
    while (r->body_error == 0 && m->is_chunked && !m->is_complete) {
        const void *data;
        const char *piece;
        size_t used, bytes;
        ssize_t n = weft_stream_peek(&c->stream, 0, &data);
        if (n <= 0)
            break;
        int rc = weft__message_body(m, data, (size_t)n, &used, &piece, &bytes);
        (void)weft_stream_skip(&c->stream, used);
        if (rc < 0)
            return body_fail(r, rc);
        r->has_continued = true;
        r->body_bytes += bytes;
    }
    return 0;
}

const char *weft_http_trailer(const weft_http_request *r, const char *name)
{
    return weft__message_trailer(&r->conn->message, name);
}

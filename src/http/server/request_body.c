/*
 * The body of a request. The server reads the body only when the handler calls a read function.
 * body_bytes_max and the minimum rate limit the reads.
 */
#include "http/server/server.h"

#include <weft/error.h>

#include <stdlib.h>

/* The maximum length of an unread body that the server skips to keep the connection open. */
#define SKIP_BYTES_MAX ((uint64_t)64 << 10)
/* The size of the first allocation for a chunked body in weft_http_read_all. */
#define CAPACITY_FIRST ((size_t)4 << 10)

int64_t weft_http_length(const weft_http_request *r)
{
    return r->body_length;
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

int weft__body_fail(weft_http_request *r, int error)
{
    r->body_error = error;
    return error;
}

int weft__body_send_continue(weft_http_request *r)
{
    if (!r->expects_continue || r->has_continued)
        return 0;
    r->has_continued = true;
    if (r->state != WEFT__REPLY_NONE)
        return -EPIPE; /* after the final reply, the client does not send the body */
    return r->codec->send_interim(r, 100, NULL);
}

static int body_check_limit(const weft_http_request *r)
{
    int64_t length = r->body_length;
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
    int rc = body_check_limit(r);
    if (rc == 0 && !r->is_body_complete)
        rc = r->codec->read(r, piece, bytes);
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
            return rc == 0 || rc == -ECANCELED ? rc : weft__body_fail(r, rc);
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
    int64_t length = r->body_length;
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
    if (r->body_length < 0) {
        capacity = w->capacity != 0 ? w->capacity : CAPACITY_FIRST;
        while (capacity < needed)
            capacity *= 2;
    }
    char *larger = weft__arena_resize(r->arena, w->bytes, w->capacity, capacity);
    if (larger == NULL)
        return -ENOMEM;
    w->bytes = larger;
    w->capacity = capacity;
    return 0;
}

static int whole_body_add(weft_http_request *r, whole_body *w, const void *piece, size_t bytes)
{
    int rc = weft__bodies_reserve(r->server, bytes);
    if (rc == 0) {
        r->body_reserved += bytes;
        rc = whole_body_reserve(r, w, bytes);
    }
    if (rc < 0)
        return weft__body_fail(r, rc); /* without the lost piece, the body is incomplete */
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
    if (r->is_body_complete)
        return true;
    if (r->body_error < 0 || (r->expects_continue && !r->has_continued))
        return false;
    return r->body_length < 0 || (uint64_t)r->body_length - r->body_bytes <= SKIP_BYTES_MAX;
}

int weft__body_skip(weft_http_request *r)
{
    if (r->is_body_complete)
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
    return r->codec->discard_arrived != NULL ? r->codec->discard_arrived(r) : 0;
}

const char *weft_http_trailer(const weft_http_request *r, const char *name)
{
    return weft__trailers_find(&r->request_trailers, name);
}

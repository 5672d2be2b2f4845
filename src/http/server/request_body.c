/*
 * The body of a request: read when the handler wants it, at the pace of the peer, within its limit.
 */
#include "http/server.h"

#include <weft/error.h>

#include <stdlib.h>

/* What of an unread body is worth reading so that the connection can be kept. */
#define SKIP_BYTES_MAX ((uint64_t)64 << 10)
/* What is left of a body that is worth a larger buffer. */
#define LARGE_BYTES ((uint64_t)4 << 10)
/* What is made room for before anything has come, when all of it is wanted at once. */
#define ROOM_FIRST ((size_t)4 << 10)

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

int weft__bodies_take(weft__server *s, uint64_t bytes)
{
    if (bytes > s->options.limits.bodies_bytes_max - s->bodies_bytes)
        return -ENOBUFS;
    s->bodies_bytes += bytes;
    return 0;
}

/* Nothing more can be read, nor a further request. */
static int fail(weft_http_request *r, int error)
{
    r->body_error = error;
    r->conn->is_to_close = true;
    return error;
}

/* A client that asked whether it should send its body waits for this; one that sent it does not. */
static int invite(weft_http_request *r)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!r->conn->message.expects_continue || r->has_continued)
        return 0;
    r->has_continued = true;
    if (r->state != WEFT__REPLY_NONE)
        return -EPIPE; /* it has its reply, and no reason to send anything */
    ssize_t n = weft_stream_write(&r->conn->stream, go_on, sizeof go_on - 1);
    return n < 0 ? (int)n : 0;
}

/* More of it than a head is to come, or who knows. */
static bool is_large(const weft_http_request *r)
{
    int64_t length = r->conn->message.length;
    return length < 0 || (uint64_t)length - r->body_bytes > LARGE_BYTES;
}

/* Say that it is wanted, and what else waits to be sent, and wait for it: as weft_stream_peek. */
static ssize_t ask_for_more(weft_http_request *r)
{
    weft__conn *c = r->conn;
    const void *ignored;
    int rc = invite(r);
    ssize_t n = rc < 0 ? rc : weft_stream_peek(&c->stream, 1, &ignored);
    /*
     * A peer that takes nothing is one to be waited for, whatever is said to it next. Output of
     * another fiber, a reverse proxy's, was not flushed.
     */
    if (!r->is_relayed)
        c->unflushed = n < 0 ? WEFT__OUT_BYTES : 0;
    return n;
}

/* Wait for more of it: 0, or an error. */
static int wait_for_more(weft_http_request *r)
{
    weft__conn *c = r->conn;
    if (is_large(r))
        weft__conn_widen(c);
    weft__pace_turn turn;
    int rc = weft__pace_open(&turn, &r->in_pace, r->conn->server);
    if (rc < 0)
        return rc;
    ssize_t n = ask_for_more(r);
    uint64_t bytes = n > 0 ? (uint64_t)n : 0;
    int late = weft__pace_close(&turn, bytes);
    if (n > 0)
        return 0;
    if (n == 0)
        return weft__message_end(&c->message);
    return late < 0 ? late : (int)n;
}

static int check_limit(const weft_http_request *r)
{
    int64_t length = r->conn->message.length;
    uint64_t bytes = length > 0 ? (uint64_t)length : r->body_bytes;
    if (bytes <= r->body_bytes_max)
        return 0;
    return weft_fail(-EMSGSIZE, "a body of more than %llu bytes",
                     (unsigned long long)r->body_bytes_max);
}

/* The next piece as it comes: 1, or 0 at the end, or an error. */
static int next_piece(weft_http_request *r, const char **piece, size_t *bytes)
{
    weft__conn *c = r->conn;
    int rc = check_limit(r);
    while (rc == 0 && !c->message.is_complete) {
        const void *data;
        size_t used = 0;
        ssize_t n = weft_stream_peek(&c->stream, 0, &data);
        if (n <= 0) {
            rc = n < 0 ? (int)n : wait_for_more(r);
            continue;
        }
        rc = weft__message_body(&c->message, data, (size_t)n, &used, piece, bytes);
        /* What is skipped stays in the buffer until something is read into it. */
        (void)weft_stream_skip(&c->stream, used);
    }
    if (rc <= 0)
        return rc;
    r->has_continued = true;
    r->body_bytes += *bytes;
    rc = check_limit(r);
    return rc < 0 ? rc : 1;
}

ssize_t weft_http_read_piece(weft_http_request *r, const void **data)
{
    *data = "";
    if (r->body_error < 0)
        return r->body_error;
    if (r->piece_bytes == 0) {
        int rc = next_piece(r, &r->piece, &r->piece_bytes);
        if (rc <= 0) {
            r->piece_bytes = 0;
            /* Cancelled, nothing is lost: it can be tried again. */
            return rc == 0 || rc == -ECANCELED ? rc : fail(r, rc);
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

/* A whole body while it is read: a block of the arena that grows with it. */
typedef struct whole {
    char *bytes;
    size_t count;
    size_t room;
} whole;

/* Bytes of the body behind the last piece, if its length is known; else 0. */
static size_t announced_rest(const weft_http_request *r)
{
    int64_t length = r->conn->message.length;
    return length > 0 ? (size_t)((uint64_t)length - r->body_bytes) : 0;
}

/* Make room for so many bytes and a NUL: exactly, if the length is known, else twice as much. */
static int whole_reserve(weft_http_request *r, whole *w, size_t bytes)
{
    size_t needed = w->count + bytes + 1, room = needed + announced_rest(r);
    if (w->room >= needed)
        return 0;
    if (r->conn->message.is_chunked) {
        room = w->room != 0 ? w->room : ROOM_FIRST;
        while (room < needed)
            room *= 2;
    }
    char *larger = weft__arena_resize(&r->conn->arena, w->bytes, w->room, room);
    if (larger == NULL)
        return -ENOMEM;
    w->bytes = larger;
    w->room = room;
    return 0;
}

static int whole_add(weft_http_request *r, whole *w, const void *piece, size_t bytes)
{
    int rc = weft__bodies_take(r->conn->server, bytes);
    if (rc == 0) {
        r->body_held += bytes;
        rc = whole_reserve(r, w, bytes);
    }
    if (rc < 0)
        return fail(r, rc); /* the piece is lost, and with it the body */
    memcpy(w->bytes + w->count, piece, bytes);
    w->count += bytes;
    return 0;
}

ssize_t weft_http_read_all(weft_http_request *r, char **data)
{
    whole all = {0};
    const void *piece;
    ssize_t n;
    while ((n = weft_http_read_piece(r, &piece)) > 0) {
        int rc = whole_add(r, &all, piece, (size_t)n);
        if (rc < 0)
            return rc;
    }
    int rc = n < 0 ? (int)n : whole_reserve(r, &all, 0);
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

int weft__body_glance(weft_http_request *r)
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
            return fail(r, rc);
        r->has_continued = true;
        r->body_bytes += bytes;
    }
    return 0;
}

const char *weft_http_trailer(const weft_http_request *r, const char *name)
{
    return weft__message_trailer(&r->conn->message, name);
}

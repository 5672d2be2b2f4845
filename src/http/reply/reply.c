/* Replies: the head, the end, and what becomes of those that a handler has left open. */
#include "http/date.h"
#include "http/server.h"
#include "http/status.h"

#include <weft/error.h>
#include <weft/io.h>

/* The lines that are ours: more than the longest there can be of them, with their numbers. */
#define OWN_BYTES 320

/* Text in the making; there is room for all of it. */
typedef struct head {
    char *bytes;
    size_t count;
} head;

static inline void add(head *h, const char *text, size_t bytes)
{
    memcpy(h->bytes + h->count, text, bytes);
    h->count += bytes;
}

#define ADD_LITERAL(h, text) add((h), (text), sizeof(text) - 1)

static void add_number(head *h, uint64_t number)
{
    char digits[20];
    size_t n = sizeof digits;
    do {
        digits[--n] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    add(h, digits + n, sizeof digits - n);
}

static void add_field(head *h, const weft__reply_field *f)
{
    add(h, f->name, f->name_bytes);
    ADD_LITERAL(h, ": ");
    add(h, f->value, f->value_bytes);
    ADD_LITERAL(h, "\r\n");
}

static void add_fields(head *h, const weft__reply_field *f)
{
    for (; f != NULL; f = f->next)
        add_field(h, f);
}

/* What they take, at most. */
static size_t bytes_of_fields(const weft__reply_field *f)
{
    size_t bytes = 0;
    for (; f != NULL; f = f->next)
        bytes += f->name_bytes + f->value_bytes + sizeof ": \r\n";
    return bytes;
}

static void add_status(head *h, int status)
{
    size_t bytes;
    const char *line = weft__status_line(status, &bytes);
    if (line != NULL) {
        add(h, line, bytes);
        return;
    }
    const char *text = weft__status_text(status);
    ADD_LITERAL(h, "HTTP/1.1 ");
    add_number(h, (uint64_t)status);
    ADD_LITERAL(h, " ");
    add(h, text, strlen(text));
    ADD_LITERAL(h, "\r\n");
}

/*
 * RFC 9110, 6.4.1 and 8.6: no body, and no length; of a 304 it would be that of what was not sent.
 */
static bool is_without_body(int status)
{
    return status == 204 || status == 304;
}

static void add_framing(head *h, const weft_http_request *r)
{
    if (r->is_chunked) {
        ADD_LITERAL(h, "Transfer-Encoding: chunked\r\n");
    } else if (r->length >= 0 && !is_without_body(r->status)) {
        ADD_LITERAL(h, "Content-Length: ");
        add_number(h, (uint64_t)r->length);
        ADD_LITERAL(h, "\r\n");
    }
}

static void add_connection(head *h, const weft_http_request *r)
{
    if (weft__conn_is_last(r->conn))
        ADD_LITERAL(h, "Connection: close\r\n");
    else if (r->conn->message.version == 10)
        ADD_LITERAL(h, "Connection: keep-alive\r\n");
}

static void compose(head *h, const weft_http_request *r)
{
    const char *server = r->conn->server->options.server_name;
    add_status(h, r->status);
    if (!r->is_relayed || weft__reply_field_of(r, "Date") == NULL) {
        ADD_LITERAL(h, "Date: ");
        add(h, weft__date_now(), WEFT__DATE_LENGTH);
        ADD_LITERAL(h, "\r\n");
    }
    if (server != NULL && !r->is_relayed) {
        ADD_LITERAL(h, "Server: ");
        add(h, server, strlen(server));
        ADD_LITERAL(h, "\r\n");
    }
    if (r->type != NULL) {
        ADD_LITERAL(h, "Content-Type: ");
        add(h, r->type, strlen(r->type));
        ADD_LITERAL(h, "\r\n");
    }
    add_fields(h, r->fields);
    add_framing(h, r);
    add_connection(h, r);
    ADD_LITERAL(h, "\r\n");
}

/* At most. */
static size_t head_bytes(const weft_http_request *r)
{
    const char *server = r->conn->server->options.server_name;
    size_t bytes = OWN_BYTES + (server != NULL ? strlen(server) : 0);
    bytes += r->type != NULL ? strlen(r->type) : 0;
    return bytes + bytes_of_fields(r->fields);
}

int weft__reply_cut(weft_http_request *r, int rc)
{
    r->state = WEFT__REPLY_CUT;
    r->conn->is_to_close = true;
    return rc;
}

/* What is usual: head and body are small, and the stream has room for both. */
static bool send_in_place(weft_http_request *r, size_t room, const struct iovec *behind, int count)
{
    weft__conn *c = r->conn;
    for (int i = 0; i < count; i++)
        room += behind[i].iov_len;
    if (room > WEFT__OUT_BYTES - c->unflushed)
        return false;
    head h = {weft_stream_reserve(&c->stream, room), 0};
    if (h.bytes == NULL)
        return false;
    compose(&h, r);
    for (int i = 0; i < count; i++)
        add(&h, behind[i].iov_base, behind[i].iov_len);
    weft_stream_commit(&c->stream, h.count);
    c->unflushed += h.count;
    weft__unsent_add(c, h.count);
    return true;
}

int weft__reply_send_head(weft_http_request *r, const struct iovec *behind, int count)
{
    size_t room = head_bytes(r);
    r->state = WEFT__REPLY_BODY;
    r->conn->is_to_close = weft__conn_is_last(r->conn); /* what is said is kept to */
    if (send_in_place(r, room, behind, count))
        return 0;
    head h = {weft__arena_alloc(&r->conn->arena, room), 0};
    if (h.bytes == NULL)
        return weft__reply_cut(r, -ENOMEM);
    compose(&h, r);
    struct iovec pieces[WEFT__BEHIND_MAX + 1] = {{h.bytes, h.count}};
    for (int i = 0; i < count; i++)
        pieces[i + 1] = behind[i];
    return weft__reply_put(r, pieces, count + 1);
}

/* Where the end of the body is to be seen. */
static void choose_framing(weft_http_request *r)
{
    r->is_chunked = r->length < 0 && r->conn->message.version >= 11 && !is_without_body(r->status);
    if (r->length < 0 && !r->is_chunked && !r->is_bodiless)
        r->conn->is_to_close = true;
}

int weft_http_begin(weft_http_request *r, int status, int64_t length)
{
    if (r->state != WEFT__REPLY_NONE)
        return -EALREADY;
    if (status < 200 || status > 999 || length < -1)
        return weft_fail(-EINVAL, "a reply with status %d and %lld bytes", status,
                         (long long)length);
    r->status = status;
    r->announced = r->length = length;
    r->is_bodiless = is_without_body(status) || weft__request_is(r, HTTP_HEAD);
    int rc = weft__reply_encode(r);
    if (rc < 0)
        return rc;
    r->state = WEFT__REPLY_BEGUN;
    weft__pace_start(&r->out_pace, r->conn->server);
    /* A client that was not told to send its body does not, or does: nobody knows what follows. */
    if (r->conn->message.expects_continue && !r->has_continued)
        r->conn->is_to_close = true;
    choose_framing(r);
    return 0;
}

/* What the chunks end with, trailers included. */
static int send_last_chunk(weft_http_request *r)
{
    size_t bytes = sizeof "0\r\n\r\n" + bytes_of_fields(r->trailers);
    head h = {weft__arena_alloc(&r->conn->arena, bytes), 0};
    if (h.bytes == NULL)
        return -ENOMEM;
    ADD_LITERAL(&h, "0\r\n");
    add_fields(&h, r->trailers);
    ADD_LITERAL(&h, "\r\n");
    return weft__reply_put(r, &(struct iovec){h.bytes, h.count}, 1);
}

/* All of it is in hand, so its length is known after all: no chunks are needed. */
static int send_held_whole(weft_http_request *r)
{
    bool is_known = !r->is_bodiless || (r->encoding == NULL && r->written <= WEFT__OUT_BYTES);
    r->is_chunked = r->is_chunked && !is_known;
    if (is_known)
        r->length = r->is_bodiless ? (int64_t)r->written : (int64_t)r->held_bytes;
    r->sent += r->held_bytes;
    return weft__reply_send_head(r, &(struct iovec){r->held, r->held_bytes}, r->held_bytes > 0);
}

static int finish_body(weft_http_request *r)
{
    int rc = weft__reply_encode_end(r);
    if (rc < 0)
        return rc;
    if (r->state == WEFT__REPLY_BEGUN && r->length < 0 && r->trailers == NULL)
        return send_held_whole(r);
    if (r->state == WEFT__REPLY_BEGUN || r->held_bytes > 0)
        rc = weft__reply_release(r);
    if (rc == 0 && r->is_chunked && !r->is_bodiless)
        rc = send_last_chunk(r);
    return rc;
}

int weft_http_end(weft_http_request *r)
{
    if (r->state == WEFT__REPLY_NONE || r->state > WEFT__REPLY_BODY)
        return r->state == WEFT__REPLY_NONE ? -EINVAL : -EALREADY;
    if (r->failure < 0) /* also if the handler did not look */
        return weft__reply_cut(r, r->failure);
    if (!r->is_bodiless && r->announced >= 0 && r->written < (uint64_t)r->announced)
        return weft__reply_cut(r, -ENODATA);
    int rc = finish_body(r);
    if (rc < 0)
        return weft__reply_cut(r, rc);
    r->state = WEFT__REPLY_ENDED;
    return 0;
}

/* The status that an error of a handler becomes; 0: the peer is gone. */
static int status_of(const weft_http_request *r, int error)
{
    bool is_bodys = error == r->body_error;
    switch (error) {
    case -ENOENT:
        return 404;
    case -EACCES:
    case -EPERM:
        return 403;
    case -EMSGSIZE:
        return 413;
    case -EBADMSG:
    case -EINVAL:
        return 400;
    case -ETIMEDOUT:
        return is_bodys ? 408 : 504;
    case -ECONNRESET:
        return is_bodys ? 0 : 500;
    case -EAGAIN:
    case -EBUSY:
    case -EMFILE:
    case -ENFILE:
    case -ENOBUFS:
    case -ENOMEM:
    case -ECANCELED:
        return 503;
    default:
        return 500;
    }
}

void weft__reply_take_back(weft_http_request *r)
{
    weft__reply_encode_drop(r);
    r->state = WEFT__REPLY_NONE;
    r->is_relayed = false;
    r->fields = NULL;
    r->trailers = NULL;
    r->held_bytes = 0;
    r->written = r->sent = 0;
    r->failure = 0;
}

/* Discard the reply that the handler has begun, of which nothing has gone out. */
static void reply_failure(weft_http_request *r, int error)
{
    int status = status_of(r, error);
    weft__reply_take_back(r);
    if (status == 503)
        (void)weft_http_set(r, "Retry-After", "1");
    if (status == 0)
        (void)weft__reply_cut(r, error);
    else
        (void)weft_http_reply_status(r, status);
}

void weft__reply_finish(weft_http_request *r, int result)
{
    weft__conn *c = r->conn;
    if (result >= 0 && r->state == WEFT__REPLY_NONE) /* it may not have looked */
        result = r->body_error;
    if (result < 0 && r->state <= WEFT__REPLY_BEGUN)
        reply_failure(r, result);
    else if (r->state == WEFT__REPLY_NONE)
        (void)weft_http_reply(r, 204, NULL, NULL, 0);
    else if (r->state <= WEFT__REPLY_BODY)
        (void)(result < 0 ? weft__reply_cut(r, result) : weft_http_end(r));
    if (r->state < WEFT__REPLY_ENDED) /* not even that could be said */
        (void)weft__reply_cut(r, result);
    weft__reply_encode_drop(r);
    c->is_cut = r->state == WEFT__REPLY_CUT;
    if (!c->is_to_close && weft__body_skip(r) < 0)
        c->is_to_close = true;
    c->has_unread = r->state == WEFT__REPLY_ENDED && !c->message.is_complete;
}

uint64_t weft__reply_refuse(weft__conn *c, int status, const char *text)
{
    /* Its body, if it has one, is nobody's. */
    weft_http_request r = {
        .conn = c, .method = "", .target = "", .path = "", .body_error = -EBADMSG};
    c->is_to_close = true;
    if (text != NULL)
        (void)weft_http_reply_text(&r, status, "%s", text);
    else
        (void)weft_http_reply_status(&r, status);
    return r.sent;
}

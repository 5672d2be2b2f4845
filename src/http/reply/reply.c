/*
 * The head and the end of a reply. This file also completes the reply after the handler has
 * returned, and maps errors of handlers to statuses.
 */
#include "http/reply/reply.h"
#include "http/server/unsent_limit.h"
#include "http/text/date.h"
#include "http/text/status.h"

#include <weft/error.h>
#include <weft/io.h>

/* An upper bound of the length of the lines that the server adds. */
#define OWN_FIELDS_BYTES 320

/* A head that is being composed. The caller must allocate enough memory. */
typedef struct head_buffer {
    char *bytes;
    size_t count;
} head_buffer;

static inline void head_add(head_buffer *h, const char *text, size_t bytes)
{
    memcpy(h->bytes + h->count, text, bytes);
    h->count += bytes;
}

#define ADD_LITERAL(h, text) head_add((h), (text), sizeof(text) - 1)

static void head_add_number(head_buffer *h, uint64_t number)
{
    char digits[20];
    size_t n = sizeof digits;
    do {
        digits[--n] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    head_add(h, digits + n, sizeof digits - n);
}

static void head_add_field(head_buffer *h, const weft__reply_field *f)
{
    head_add(h, f->name, f->name_bytes);
    ADD_LITERAL(h, ": ");
    head_add(h, f->value, f->value_bytes);
    ADD_LITERAL(h, "\r\n");
}

static void head_add_fields(head_buffer *h, const weft__reply_field *f)
{
    for (; f != NULL; f = f->next)
        head_add_field(h, f);
}

/* Return an upper bound of the length of the formatted fields. */
static size_t bytes_of_fields(const weft__reply_field *f)
{
    size_t bytes = 0;
    for (; f != NULL; f = f->next)
        bytes += f->name_bytes + f->value_bytes + sizeof ": \r\n";
    return bytes;
}

static void head_add_status(head_buffer *h, int status)
{
    size_t bytes;
    const char *line = weft__status_line(status, &bytes);
    if (line != NULL) {
        head_add(h, line, bytes);
        return;
    }
    const char *text = weft__status_text(status);
    ADD_LITERAL(h, "HTTP/1.1 ");
    head_add_number(h, (uint64_t)status);
    ADD_LITERAL(h, " ");
    head_add(h, text, strlen(text));
    ADD_LITERAL(h, "\r\n");
}

/*
 * Return true for a status without a body and without Content-Length (RFC 9110, 6.4.1 and 8.6). In
 * a 304, Content-Length would be the length of the body of a 200.
 */
static bool status_has_no_body(int status)
{
    return status == 204 || status == 304;
}

static void head_add_framing(head_buffer *h, const weft_http_request *r)
{
    if (r->is_chunked) {
        ADD_LITERAL(h, "Transfer-Encoding: chunked\r\n");
    } else if (r->length >= 0 && !status_has_no_body(r->status)) {
        ADD_LITERAL(h, "Content-Length: ");
        head_add_number(h, (uint64_t)r->length);
        ADD_LITERAL(h, "\r\n");
    }
}

static void head_add_connection(head_buffer *h, const weft_http_request *r)
{
    if (weft__conn_must_close(r->conn))
        ADD_LITERAL(h, "Connection: close\r\n");
    else if (r->conn->message.version == 10)
        ADD_LITERAL(h, "Connection: keep-alive\r\n");
}

static void head_compose(head_buffer *h, const weft_http_request *r)
{
    const char *server = r->conn->server->options.server_name;
    head_add_status(h, r->status);
    if (!r->is_proxied || weft__reply_field_of(r, "Date") == NULL) {
        ADD_LITERAL(h, "Date: ");
        head_add(h, weft__date_now(), WEFT__DATE_LENGTH);
        ADD_LITERAL(h, "\r\n");
    }
    if (server != NULL && !r->is_proxied) {
        ADD_LITERAL(h, "Server: ");
        head_add(h, server, strlen(server));
        ADD_LITERAL(h, "\r\n");
    }
    if (r->type != NULL) {
        ADD_LITERAL(h, "Content-Type: ");
        head_add(h, r->type, strlen(r->type));
        ADD_LITERAL(h, "\r\n");
    }
    head_add_fields(h, r->fields);
    head_add_framing(h, r);
    head_add_connection(h, r);
    ADD_LITERAL(h, "\r\n");
}

/* Return an upper bound of the length of the head. */
static size_t head_bytes(const weft_http_request *r)
{
    const char *server = r->conn->server->options.server_name;
    size_t bytes = OWN_FIELDS_BYTES + (server != NULL ? strlen(server) : 0);
    bytes += r->type != NULL ? strlen(r->type) : 0;
    return bytes + bytes_of_fields(r->fields);
}

int weft__reply_abort(weft_http_request *r, int rc)
{
    r->state = WEFT__REPLY_ABORTED;
    r->conn->must_close = true;
    return rc;
}

int weft__reply_send_head(weft_http_request *r, const struct iovec *body, int count)
{
    size_t bytes_max = head_bytes(r);
    r->state = WEFT__REPLY_BODY;
    r->conn->must_close = weft__conn_must_close(r->conn); /* as the Connection header announces */
    head_buffer h = {weft__arena_alloc(&r->conn->arena, bytes_max), 0};
    if (h.bytes == NULL)
        return weft__reply_abort(r, -ENOMEM);
    head_compose(&h, r);
    struct iovec iov[WEFT__REPLY_IOV_MAX + 1] = {{h.bytes, h.count}};
    for (int i = 0; i < count; i++)
        iov[i + 1] = body[i];
    return weft__reply_writev(r, iov, count + 1);
}

/*
 * Choose how to mark the end of the body: by its length, by chunks, or by the end of the
 * connection.
 */
static void choose_framing(weft_http_request *r)
{
    r->is_chunked =
        r->length < 0 && r->conn->message.version >= 11 && !status_has_no_body(r->status);
    if (r->length < 0 && !r->is_chunked && !r->is_bodiless)
        r->conn->must_close = true;
}

int weft_http_begin(weft_http_request *r, int status, int64_t length)
{
    if (r->state != WEFT__REPLY_NONE)
        return -EALREADY;
    if (status < 200 || status > 999 || length < -1)
        return weft_fail(-EINVAL, "weft_http_begin: status is %d, length is %lld", status,
                         (long long)length);
    r->status = status;
    r->announced = r->length = length;
    r->is_bodiless = status_has_no_body(status) || weft__request_is(r, HTTP_HEAD);
    int rc = weft__reply_encode(r);
    if (rc < 0)
        return rc;
    r->state = WEFT__REPLY_BEGUN;
    weft__min_rate_start(&r->out_rate, r->conn->server);
    /*
     * A client that has not received 100 (Continue) may send or omit its body. The bytes that
     * follow are ambiguous.
     */
    if (r->conn->message.expects_continue && !r->has_continued)
        r->conn->must_close = true;
    choose_framing(r);
    return 0;
}

/* Send the last chunk and the trailers. */
static int send_last_chunk(weft_http_request *r)
{
    size_t bytes = sizeof "0\r\n\r\n" + bytes_of_fields(r->trailers);
    head_buffer h = {weft__arena_alloc(&r->conn->arena, bytes), 0};
    if (h.bytes == NULL)
        return -ENOMEM;
    ADD_LITERAL(&h, "0\r\n");
    head_add_fields(&h, r->trailers);
    ADD_LITERAL(&h, "\r\n");
    return weft__reply_writev(r, &(struct iovec){h.bytes, h.count}, 1);
}

/*
 * Send the head and a body that is completely held. The length of the body is known, so the reply
 * needs no chunks.
 */
static int send_held_body(weft_http_request *r)
{
    bool is_known = !r->is_bodiless || (r->encoding == NULL && r->written <= WEFT__OUT_BYTES);
    r->is_chunked = r->is_chunked && !is_known;
    if (is_known)
        r->length = r->is_bodiless ? (int64_t)r->written : (int64_t)r->held_bytes;
    r->sent += r->held_bytes;
    return weft__reply_send_head(r, &(struct iovec){r->held, r->held_bytes}, r->held_bytes > 0);
}

static int reply_finish_body(weft_http_request *r)
{
    int rc = weft__reply_encode_end(r);
    if (rc < 0)
        return rc;
    if (r->state == WEFT__REPLY_BEGUN && r->length < 0 && r->trailers == NULL)
        return send_held_body(r);
    if (r->state == WEFT__REPLY_BEGUN || r->held_bytes > 0)
        rc = weft__reply_flush_held(r);
    if (rc == 0 && r->is_chunked && !r->is_bodiless)
        rc = send_last_chunk(r);
    return rc;
}

int weft_http_end(weft_http_request *r)
{
    if (r->state == WEFT__REPLY_NONE || r->state > WEFT__REPLY_BODY)
        return r->state == WEFT__REPLY_NONE ? -EINVAL : -EALREADY;
    if (r->failure < 0) /* even if the handler has ignored the error */
        return weft__reply_abort(r, r->failure);
    if (!r->is_bodiless && r->announced >= 0 && r->written < (uint64_t)r->announced)
        return weft__reply_abort(r, -ENODATA);
    int rc = reply_finish_body(r);
    if (rc < 0)
        return weft__reply_abort(r, rc);
    r->state = WEFT__REPLY_ENDED;
    return 0;
}

/* Return the status for an error that a handler returned, or 0 if the connection is lost. */
static int status_of_error(const weft_http_request *r, int error)
{
    bool is_body_error = error == r->body_error;
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
        return is_body_error ? 408 : 504;
    case -ECONNRESET:
        return is_body_error ? 0 : 500;
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

void weft__reply_reset(weft_http_request *r)
{
    weft__reply_encode_drop(r);
    r->state = WEFT__REPLY_NONE;
    r->is_proxied = false;
    r->fields = NULL;
    r->trailers = NULL;
    r->held_bytes = 0;
    r->written = r->sent = 0;
    r->failure = 0;
}

/*
 * Discard a reply and send the status for an error instead. No part of the reply may have been
 * sent.
 */
static void reply_with_error(weft_http_request *r, int error)
{
    int status = status_of_error(r, error);
    weft__reply_reset(r);
    if (status == 503)
        (void)weft_http_set(r, "Retry-After", "1");
    if (status == 0)
        (void)weft__reply_abort(r, error);
    else
        (void)weft_http_reply_status(r, status);
}

void weft__reply_finish(weft_http_request *r, int result)
{
    weft__conn *c = r->conn;
    if (result >= 0 && r->state == WEFT__REPLY_NONE) /* the handler may have ignored the error */
        result = r->body_error;
    if (result < 0 && r->state <= WEFT__REPLY_BEGUN)
        reply_with_error(r, result);
    else if (r->state == WEFT__REPLY_NONE)
        (void)weft_http_reply(r, 204, NULL, NULL, 0);
    else if (r->state <= WEFT__REPLY_BODY)
        (void)(result < 0 ? weft__reply_abort(r, result) : weft_http_end(r));
    if (r->state < WEFT__REPLY_ENDED) /* sending the reply has failed */
        (void)weft__reply_abort(r, result);
    weft__reply_encode_drop(r);
    c->is_aborted = r->state == WEFT__REPLY_ABORTED;
    if (!c->must_close && weft__body_skip(r) < 0)
        c->must_close = true;
    c->has_unread = r->state == WEFT__REPLY_ENDED && !c->message.is_complete;
}

uint64_t weft__reply_reject(weft__conn *c, int status, const char *text)
{
    /* body_error prevents reads of the request's body. */
    weft_http_request r = {
        .conn = c, .method = "", .target = "", .path = "", .body_error = -EBADMSG};
    c->must_close = true;
    if (text != NULL)
        (void)weft_http_reply_text(&r, status, "%s", text);
    else
        (void)weft_http_reply_status(&r, status);
    return r.sent;
}

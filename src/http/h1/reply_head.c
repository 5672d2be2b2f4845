/* The head of a reply of HTTP/1, informational responses, the end of a chunked body, upgrades. */
#include "http/h1/conn.h"
#include "http/reply/reply.h"
#include "http/text/date.h"
#include "http/text/format.h"
#include "http/text/status.h"

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
    char digits[WEFT__DECIMAL_BYTES];
    size_t bytes;
    const char *first = weft__format_decimal(digits, number, &bytes);
    head_add(h, first, bytes);
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

static inline void head_add_status(head_buffer *h, int status)
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

static void head_add_framing(head_buffer *h, const weft_http_request *r, bool is_chunked)
{
    if (is_chunked) {
        ADD_LITERAL(h, "Transfer-Encoding: chunked\r\n");
    } else if (r->length >= 0 && !weft__status_has_no_body(r->status)) {
        ADD_LITERAL(h, "Content-Length: ");
        head_add_number(h, (uint64_t)r->length);
        ADD_LITERAL(h, "\r\n");
    }
}

static void head_compose(head_buffer *h, const weft_http_request *r, const weft__h1_conn *c)
{
    const char *server = r->server->options.server_name;
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
    head_add_framing(h, r, c->is_chunked);
    if (c->must_close)
        ADD_LITERAL(h, "Connection: close\r\n");
    else if (r->version == 10)
        ADD_LITERAL(h, "Connection: keep-alive\r\n");
    ADD_LITERAL(h, "\r\n");
}

/* Return an upper bound of the length of the head. */
static size_t head_bytes(const weft_http_request *r)
{
    const char *server = r->server->options.server_name;
    size_t bytes = OWN_FIELDS_BYTES + (server != NULL ? strlen(server) : 0);
    bytes += r->type != NULL ? strlen(r->type) : 0;
    return bytes + bytes_of_fields(r->fields);
}

/*
 * Choose how to mark the end of the body: by its length, by chunks, or by the end of the
 * connection. Decide whether the connection can carry another request.
 */
static void choose_framing(weft__h1_conn *h, const weft_http_request *r)
{
    h->is_chunked = r->length < 0 && r->version >= 11 && !weft__status_has_no_body(r->status);
    if (weft__h1_is_last(r) || r->server->is_draining || r->server->is_settling ||
        (r->length < 0 && !h->is_chunked && !r->is_bodiless))
        h->must_close = true;
}

int weft__h1_send_head(weft_http_request *r, const struct iovec *body, int count, bool is_last)
{
    weft__h1_conn *c = weft__h1_conn_of(r);
    char size[WEFT__H1_SIZE_BYTES];
    (void)is_last; /* the length or the last chunk marks the end */
    choose_framing(c, r);
    head_buffer h = {weft__arena_alloc(r->arena, head_bytes(r)), 0};
    if (h.bytes == NULL)
        return weft__reply_abort(r, -ENOMEM);
    head_compose(&h, r, c);
    struct iovec iov[WEFT__H1_IOV_MAX];
    iov[0] = (struct iovec){h.bytes, h.count};
    return weft__h1_writev(r, iov, 1 + weft__h1_add_body(c, iov + 1, size, body, count));
}

/* Send the last chunk and the trailers. */
static int send_last_chunk(weft_http_request *r)
{
    size_t bytes = sizeof "0\r\n\r\n" + bytes_of_fields(r->trailers);
    head_buffer h = {weft__arena_alloc(r->arena, bytes), 0};
    if (h.bytes == NULL)
        return -ENOMEM;
    ADD_LITERAL(&h, "0\r\n");
    head_add_fields(&h, r->trailers);
    ADD_LITERAL(&h, "\r\n");
    return weft__h1_writev(r, &(struct iovec){h.bytes, h.count}, 1);
}

int weft__h1_send_end(weft_http_request *r)
{
    return weft__h1_conn_of(r)->is_chunked && !r->is_bodiless ? send_last_chunk(r) : 0;
}

/* Compose and write a head without a body. */
static int send_head_of(weft_http_request *r, int status, const char *protocol,
                        const weft__reply_field *fields)
{
    size_t bytes = OWN_FIELDS_BYTES + bytes_of_fields(fields);
    bytes += protocol != NULL ? strlen(protocol) : 0;
    head_buffer h = {weft__arena_alloc(r->arena, bytes), 0};
    if (h.bytes == NULL)
        return -ENOMEM;
    head_add_status(&h, status);
    if (protocol != NULL) {
        ADD_LITERAL(&h, "Connection: Upgrade\r\nUpgrade: ");
        head_add(&h, protocol, strlen(protocol));
        ADD_LITERAL(&h, "\r\n");
    }
    head_add_fields(&h, fields);
    ADD_LITERAL(&h, "\r\n");
    return weft__h1_writev(r, &(struct iovec){h.bytes, h.count}, 1);
}

int weft__h1_send_interim(weft_http_request *r, int status, const weft__reply_field *fields)
{
    return send_head_of(r, status, NULL, fields);
}

int weft__h1_upgrade(weft_http_request *r, const char *protocol, weft_stream **stream)
{
    int rc = send_head_of(r, 101, protocol, r->fields);
    if (rc < 0)
        return rc;
    r->status = 101;
    rc = weft__h1_flush(r);
    if (rc < 0)
        return weft__reply_abort(r, rc); /* the head is in the output buffer */
    *stream = &r->conn->stream;
    return 0;
}

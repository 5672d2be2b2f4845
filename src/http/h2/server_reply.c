/* Replies of HTTP/2. Names of the server itself are constants. */
#include "http/h2/server.h"
#include "http/reply/reply.h"
#include "http/text/ctype.h"
#include "http/text/date.h"
#include "http/text/field.h"
#include "http/text/format.h"
#include "http/text/status.h"

#include <stdio.h>

/* The number of fields that the server adds. */
#define OWN_FIELDS 6
/* The number of fields of a head with space on the stack. */
#define FIELDS_LENT 16

/* The fields of a head. */
typedef struct head_fields {
    nghttp2_nv *fields;
    size_t count;
} head_fields;

static uint8_t *bytes_of(const char *text)
{
    return (uint8_t *)(uintptr_t)text;
}

/* Add a field with a constant name. */
static inline void add_own(head_fields *h, const char *name, size_t name_bytes, const char *value,
                           size_t value_bytes)
{
    h->fields[h->count++] = (nghttp2_nv){bytes_of(name), bytes_of(value), name_bytes, value_bytes,
                                         NGHTTP2_NV_FLAG_NONE};
}

#define ADD_OWN(h, name, value, value_bytes) \
    add_own((h), (name), sizeof(name) - 1, (value), (value_bytes))

/*
 * Return true for fields that concern the connection. A message of HTTP/2 must not have them (RFC
 * 9113, 8.2.2).
 */
static bool name_is_connection_specific(const char *name, size_t bytes)
{
    static const char *const names[] = {"connection", "keep-alive", "proxy-connection",
                                        "transfer-encoding", "upgrade"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (bytes == strlen(names[i]) && memcmp(name, names[i], bytes) == 0)
            return true;
    return false;
}

/* Return the name in lower case (RFC 9113, 8.2). Returns NULL if memory is exhausted. */
static const char *lower_name(weft_http_request *r, const char *name, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && (name[i] < 'A' || name[i] > 'Z'))
        i++;
    if (i == bytes)
        return name;
    char *lower = weft__arena_copy(r->arena, name, bytes);
    for (; lower != NULL && i < bytes; i++)
        if (lower[i] >= 'A' && lower[i] <= 'Z')
            lower[i] = (char)(lower[i] | 0x20);
    return lower;
}

/* Add the fields of a handler. Returns 0 or -ENOMEM. */
static int add_fields(head_fields *h, weft_http_request *r, const weft__reply_field *f)
{
    for (; f != NULL; f = f->next) {
        const char *name = lower_name(r, f->name, f->name_bytes);
        if (name == NULL)
            return -ENOMEM;
        if (name_is_connection_specific(name, f->name_bytes))
            continue;
        weft__span value = weft__field_trim(f->value, f->value_bytes); /* RFC 9113, 8.2.1 */
        h->fields[h->count++] = (nghttp2_nv){bytes_of(name), bytes_of(value.at), f->name_bytes,
                                             value.bytes, NGHTTP2_NV_FLAG_NONE};
    }
    return 0;
}

static size_t count_fields(const weft__reply_field *f)
{
    size_t count = 0;
    for (; f != NULL; f = f->next)
        count++;
    return count;
}

/* Provide memory for a head. lent has space for FIELDS_LENT fields. Returns 0 or -ENOMEM. */
static int open_fields(head_fields *h, weft_http_request *r, nghttp2_nv *lent,
                       const weft__reply_field *fields)
{
    size_t count = OWN_FIELDS + count_fields(fields);
    h->count = 0;
    h->fields = count <= FIELDS_LENT ? lent : weft__arena_alloc(r->arena, count * sizeof *lent);
    return h->fields != NULL ? 0 : -ENOMEM;
}

/* Write the three digits of a status. */
static void write_status(char digits[3], int status)
{
    digits[0] = (char)('0' + status / 100);
    digits[1] = (char)('0' + status / 10 % 10);
    digits[2] = (char)('0' + status % 10);
}

static void add_date_and_server(head_fields *h, const weft_http_request *r)
{
    const char *server = r->server->options.server_name;
    if (!r->is_proxied || weft__reply_field_of(r, "Date") == NULL)
        ADD_OWN(h, "date", weft__date_now(), WEFT__DATE_LENGTH);
    if (server != NULL && !r->is_proxied)
        ADD_OWN(h, "server", server, strlen(server));
}

/* Compose and send the head of the reply. If is_last is set, with a body and its end. */
static int send_head_with(weft_http_request *r, const void *body, size_t bytes, bool is_last)
{
    weft__h2_stream *st = &weft__h2_request_of(r)->stream;
    nghttp2_nv lent[FIELDS_LENT];
    char status[3], length[WEFT__DECIMAL_BYTES];
    size_t length_bytes;
    head_fields h;
    int rc = open_fields(&h, r, lent, r->fields);
    if (rc < 0)
        return rc;
    write_status(status, r->status);
    ADD_OWN(&h, ":status", status, sizeof status);
    add_date_and_server(&h, r);
    if (r->type != NULL)
        ADD_OWN(&h, "content-type", r->type, strlen(r->type));
    rc = add_fields(&h, r, r->fields);
    if (rc < 0)
        return rc;
    if (r->length >= 0 && !weft__status_has_no_body(r->status)) {
        const char *digits = weft__format_decimal(length, (uint64_t)r->length, &length_bytes);
        ADD_OWN(&h, "content-length", digits, length_bytes);
    }
    return is_last && bytes > 0 ? weft__h2_stream_reply(st, h.fields, h.count, body, bytes)
                                : weft__h2_stream_head(st, h.fields, h.count, is_last);
}

/* Write bytes of the body once, at the minimum rate. Set *is_late if the credit is exhausted. */
static ssize_t write_once_at_min_rate(weft_http_request *r, const char *data, size_t bytes,
                                      bool is_last, bool *is_late)
{
    weft__h2_stream *st = &weft__h2_request_of(r)->stream;
    weft__min_rate_call call;
    int rc = weft__min_rate_open(&call, &r->out_rate, r->server);
    if (rc < 0)
        return rc;
    ssize_t n = is_last ? weft__h2_stream_write_last(st, data, bytes)
                        : weft__h2_stream_write(st, data, bytes);
    rc = weft__min_rate_close(&call, n > 0 ? (uint64_t)n : 0);
    *is_late = rc < 0;
    return n < 0 && rc < 0 ? rc : n;
}

static int write_at_min_rate(weft_http_request *r, const char *data, size_t bytes, bool is_last)
{
    while (bytes > 0) {
        bool is_late = false;
        ssize_t n = write_once_at_min_rate(r, data, bytes, is_last, &is_late);
        if (n < 0)
            return (int)n;
        if ((size_t)n < bytes && !is_late) { /* the stream ended, or the write was cancelled */
            int error = weft__h2_stream_error(&weft__h2_request_of(r)->stream);
            return error < 0 ? error : -ECANCELED;
        }
        data += n;
        bytes -= (size_t)n;
    }
    return 0;
}

/*
 * Return true if a body of known length is complete with the bytes of this call. The end is then in
 * the frame of the last byte.
 */
static bool body_is_complete(const weft_http_request *r)
{
    return r->length >= 0 && r->sent == (uint64_t)r->length && r->trailers == NULL;
}

int weft__h2_send_body(weft_http_request *r, const struct iovec *body, int count)
{
    int rc = 0;
    bool is_complete = body_is_complete(r);
    for (int i = 0; i < count && rc == 0; i++)
        rc = write_at_min_rate(r, body[i].iov_base, body[i].iov_len, is_complete && i == count - 1);
    return rc < 0 ? weft__reply_abort(r, rc) : 0;
}

/*
 * A status of 2xx would open the tunnel of an extended CONNECT (RFC 8441, 4). Only weft__h2_upgrade
 * may do that: the handler does not know the protocol.
 */
static void refuse_tunnel(weft_http_request *r)
{
    const weft__h2_request *q = weft__h2_request_of(r);
    if (UNLIKELY(q->protocol.bytes > 0) && !q->is_upgrading && r->status / 100 == 2)
        r->status = 501;
}

int weft__h2_send_head(weft_http_request *r, const struct iovec *body, int count, bool is_last)
{
    weft__h2_stream *st = &weft__h2_request_of(r)->stream;
    int rc;
    refuse_tunnel(r);
    /* weft__h2_stream_reply takes a short body without waiting. */
    if (count == 0)
        rc = send_head_with(r, NULL, 0, is_last);
    else if (count == 1 && is_last && body->iov_len <= WEFT__OUT_BYTES)
        rc = send_head_with(r, body->iov_base, body->iov_len, true);
    else {
        rc = send_head_with(r, NULL, 0, false);
        if (rc == 0)
            rc = weft__h2_send_body(r, body, count);
        if (rc == 0 && is_last && !st->is_ending)
            rc = weft__h2_stream_end(st);
    }
    return rc < 0 ? weft__reply_abort(r, rc) : 0;
}

/* Send the trailers. Repeat the wait for the body at the minimum rate. */
static int send_trailers(weft_http_request *r)
{
    weft__h2_stream *st = &weft__h2_request_of(r)->stream;
    nghttp2_nv lent[FIELDS_LENT];
    head_fields h;
    int rc = open_fields(&h, r, lent, r->trailers);
    if (rc == 0)
        rc = add_fields(&h, r, r->trailers);
    if (rc < 0 || h.count == 0)
        return rc < 0 ? rc : weft__h2_stream_end(st);
    for (;;) {
        weft__min_rate_call call;
        size_t before = weft__h2_stream_unsent(st);
        rc = weft__min_rate_open(&call, &r->out_rate, r->server);
        if (rc < 0)
            return rc;
        rc = weft__h2_stream_end_with(st, h.fields, h.count);
        size_t sent = before - weft__h2_stream_unsent(st);
        int late = weft__min_rate_close(&call, sent);
        if (rc == 0 || late == 0 || sent == 0)
            return rc < 0 && late < 0 ? late : rc;
    }
}

int weft__h2_send_end(weft_http_request *r)
{
    weft__h2_stream *st = &weft__h2_request_of(r)->stream;
    if (st->is_ending)
        return weft__h2_stream_error(st);
    return r->trailers != NULL ? send_trailers(r) : weft__h2_stream_end(st);
}

/* The session sends all bytes that flow control allows, without a flush. */
int weft__h2_flush(weft_http_request *r)
{
    int rc = weft__h2_stream_error(&weft__h2_request_of(r)->stream);
    return rc < 0 ? weft__reply_abort(r, rc) : 0;
}

int weft__h2_send_interim(weft_http_request *r, int status, const weft__reply_field *fields)
{
    nghttp2_nv lent[FIELDS_LENT];
    char digits[3];
    head_fields h;
    int rc = open_fields(&h, r, lent, fields);
    if (rc < 0)
        return rc;
    write_status(digits, status);
    ADD_OWN(&h, ":status", digits, sizeof digits);
    rc = add_fields(&h, r, fields);
    return rc < 0 ? rc
                  : weft__h2_stream_interim(&weft__h2_request_of(r)->stream, h.fields, h.count);
}

int weft__h2_reply_finish(weft_http_request *r)
{
    weft__h2_stream *st = &weft__h2_request_of(r)->stream;
    for (;;) {
        weft__min_rate_call call;
        size_t before = weft__h2_stream_unsent(st);
        if (st->is_local_ended && before == 0)
            return 0;
        int rc = weft__min_rate_open(&call, &r->out_rate, r->server);
        if (rc < 0)
            return rc;
        rc = weft__h2_stream_finish(st);
        size_t sent = before - weft__h2_stream_unsent(st);
        int late = weft__min_rate_close(&call, sent);
        if (rc == 0 || late == 0 || sent == 0)
            return rc < 0 && late < 0 ? late : rc;
    }
}

/* Responses of HTTP/2: heads, trailers and bodies of a stream. */
#include "http/client/h2.h"

#include <weft/error.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The capacity for the first fields of a head. */
#define FIELDS_FIRST 16u

static weft__h2_fetch *fetch_of(weft__h2_stream *st)
{
    return CONTAINER_OF(st, weft__h2_fetch, st);
}

void weft__h2_response_clear(weft__h2_fetch *x)
{
    free(x->text.data);
    free(x->trailers.data);
    free(x->fields);
    *x = (weft__h2_fetch){.fetch = x->fetch, .conn = x->conn};
}

/*
 * Events.
 */

static int reserve_field(weft__h2_fetch *x)
{
    if (x->fields_count < x->fields_capacity)
        return 0;
    uint32_t capacity = x->fields_capacity > 0 ? 2 * x->fields_capacity : FIELDS_FIRST;
    weft__field *fields = realloc(x->fields, capacity * sizeof *fields);
    if (fields == NULL)
        return -ENOMEM;
    x->fields = fields;
    x->fields_capacity = capacity;
    return 0;
}

int weft__h2_response_on_field(weft__h2_session *s, weft__h2_stream *st, const char *name,
                               size_t name_bytes, const char *value, size_t value_bytes)
{
    weft__h2_fetch *x = fetch_of(st);
    (void)s;
    x->fetch->has_input = true;
    if (name[0] == ':')
        return 0;
    weft__strbuf *w = x->has_head ? &x->trailers : &x->text;
    if (!x->has_head && reserve_field(x) < 0)
        return x->error = -ENOMEM;
    uint32_t at = (uint32_t)w->bytes;
    weft__strbuf_add(w, name, name_bytes + 1);
    weft__strbuf_add(w, value, value_bytes + 1);
    if (w->has_failed)
        return x->error = -ENOMEM;
    if (!x->has_head)
        x->fields[x->fields_count++] = (weft__field){
            {at, (uint32_t)name_bytes}, {at + (uint32_t)name_bytes + 1, (uint32_t)value_bytes}};
    return 0;
}

/* Reject the response. */
static void reject(weft__h2_fetch *x, int error)
{
    x->error = error;
    weft__h2_stream_reset(&x->st, NGHTTP2_CANCEL);
}

static void take_interim(weft__h2_fetch *x)
{
    x->has_continue |= x->st.status == 100;
    x->text.bytes = 0;
    x->fields_count = 0;
    if (++x->interims > WEFT__FETCH_INTERIM_MAX)
        reject(x, -EBADMSG);
}

void weft__h2_response_on_head(weft__h2_session *s, weft__h2_stream *st, weft__h2_head kind)
{
    weft__h2_fetch *x = fetch_of(st);
    (void)s;
    x->fetch->has_input = true;
    if (st->is_head_too_large) {
        reject(x, -EMSGSIZE);
    } else if (kind == WEFT__H2_INTERIM) {
        take_interim(x);
    } else if (kind == WEFT__H2_RESPONSE) {
        x->has_head = true;
        if (x->fetch->upgrade == NULL)
            weft__h2_stream_stop_write(st);
    }
    weft_cond_broadcast(&x->changed);
}

void weft__h2_response_on_close(weft__h2_session *s, weft__h2_stream *st)
{
    (void)s;
    weft_cond_broadcast(&fetch_of(st)->changed);
}

/*
 * Heads.
 */

static int fail_rejected(const weft_fetch *f, int error)
{
    if (error == -EMSGSIZE)
        return weft_fail(error, "the head of the response has more than %zu bytes",
                         f->fetcher->options.head_bytes_max);
    if (error == -EBADMSG)
        return weft_fail(error, "the server sent more than %d interim responses",
                         WEFT__FETCH_INTERIM_MAX);
    return error;
}

int weft__h2_response_error(weft_fetch *f)
{
    const weft__h2_fetch *x = f->h2;
    if (x->error < 0)
        return fail_rejected(f, x->error);
    uint32_t code = x->st.code;
    int error = weft__h2_stream_error(&x->st);
    if (error == -EMSGSIZE)
        return weft_fail(error, "the head of the request is too long");
    if (x->st.is_closed && (code == NGHTTP2_REFUSED_STREAM || code == NGHTTP2_HTTP_1_1_REQUIRED)) {
        f->is_unprocessed = true;
        f->is_refused = x->st.is_reset_by_peer;
        f->needs_http1 |= code == NGHTTP2_HTTP_1_1_REQUIRED;
    }
    if (error == -EBADMSG)
        return weft_fail(error, "the response violates HTTP/2");
    if (x->st.is_reset_by_peer)
        return weft_fail(-ECONNRESET, "the server reset the stream with %s",
                         nghttp2_http2_strerror(code));
    return error < 0 ? error : -ECONNRESET;
}

/* Return the length of the body, or -1 if it is unknown. */
static int64_t body_length(const weft_fetch *f)
{
    const weft__h2_stream *st = &f->h2->st;
    if (st->is_remote_ended && weft__h2_stream_available(st) == 0)
        return 0;
    const char *text = weft_fetch_header(f, "Content-Length");
    return text != NULL ? strtoll(text, NULL, 10) : -1; /* message.c has checked the number */
}

/* Move the head to the fetch. */
static void fill_in_response(weft_fetch *f)
{
    weft__h2_fetch *x = f->h2;
    weft__message *m = &f->response;
    weft__message_close(m);
    free(f->head);
    f->head = x->text.data;
    m->fields = x->fields;
    m->fields_count = x->fields_count;
    m->fields_capacity = x->fields_capacity;
    x->text = (weft__strbuf){0};
    x->fields = NULL;
    x->fields_count = x->fields_capacity = 0;
    m->status = x->st.status;
    m->version = 20;
    m->is_keep_alive = true;
    m->ends_with_connection = m->is_chunked = m->is_upgrade = false;
    m->length = body_length(f);
    m->is_complete = m->length == 0 && x->st.is_remote_ended;
}

int weft__h2_response_read_head(weft_fetch *f)
{
    weft__h2_fetch *x = f->h2;
    while (!x->has_head && !x->st.is_closed && x->error == 0) {
        int rc = weft_cond_wait(&x->changed, NULL);
        if (rc < 0)
            return rc;
    }
    if (!x->has_head || x->error < 0)
        return weft__h2_response_error(f);
    fill_in_response(f);
    return f->response.status;
}

/*
 * Bodies.
 */

/* The body is complete. */
static ssize_t end_body(weft_fetch *f)
{
    weft__h2_fetch *x = f->h2;
    weft__message *m = &f->response;
    free(m->trailers);
    m->trailers = x->trailers.data;
    m->trailers_bytes = x->trailers.bytes;
    m->trailers_capacity = x->trailers.capacity;
    x->trailers = (weft__strbuf){0};
    m->is_complete = true;
    return 0;
}

ssize_t weft__h2_response_next(weft_fetch *f, const char **piece)
{
    const void *data;
    if (f->response.is_complete)
        return 0;
    ssize_t n = weft__h2_stream_piece(&f->h2->st, &data);
    if (n == 0)
        return end_body(f);
    if (n < 0)
        return n == -ECANCELED ? n : weft__h2_response_error(f);
    f->in_bytes += n;
    *piece = data;
    return n;
}

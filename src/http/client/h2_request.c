/* Requests of HTTP/2: list the fields, open a stream, send the body. */
#include "base/compiler.h"
#include "http/client/h2.h"
#include "http/text/ctype.h"
#include "http/text/field.h"

#include <weft/error.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The head of a request: name, NUL, value, NUL of each field. */
typedef struct head_text {
    weft__strbuf text;
    size_t count;
    bool is_upgrade;
} head_text;

/* Append a name in lower case (RFC 9113, 8.2). */
static void add_name(weft__strbuf *w, const char *name)
{
    size_t at = w->bytes;
    weft__strbuf_add(w, name, strlen(name) + 1);
    for (; at < w->bytes; at++)
        w->data[at] = weft__ctype_lower(w->data[at]);
}

static void end_value(head_text *h)
{
    weft__strbuf_add(&h->text, "", 1);
    h->count++;
}

static void add_h2_field(void *ctx, const char *name, const char *value)
{
    head_text *h = ctx;
    /* RFC 9113, 8.2.2 and 8.3.1: frames and pseudo fields replace these fields. */
    if (strcasecmp(name, "Connection") == 0 || strcasecmp(name, "Host") == 0 ||
        strcasecmp(name, "Transfer-Encoding") == 0)
        return;
    /* RFC 8441, 5: the opening handshake of HTTP/2 has no key. */
    if (h->is_upgrade && strcasecmp(name, "Sec-WebSocket-Key") == 0)
        return;
    weft__span trimmed = weft__field_trim(value, strlen(value)); /* RFC 9113, 8.2.1 */
    add_name(&h->text, name);
    weft__strbuf_add(&h->text, trimmed.at, trimmed.bytes);
    end_value(h);
}

/* Add the pseudo fields (RFC 9113, 8.3.1). */
static void add_pseudo_fields(head_text *h, const weft_fetch *f)
{
    const char *host = weft__fetch_host_field(f);
    add_h2_field(h, ":method", h->is_upgrade ? "CONNECT" : f->method);
    if (h->is_upgrade)
        add_h2_field(h, ":protocol", f->upgrade);
    add_h2_field(h, ":scheme", f->url.scheme);
    add_name(&h->text, ":authority");
    if (host != NULL)
        weft__strbuf_add(&h->text, host, strlen(host));
    else
        weft__fetch_add_authority(&h->text, &f->url);
    end_value(h);
    add_name(&h->text, ":path");
    weft__strbuf_printf(&h->text, "%s%s%s", f->url.path, f->url.has_query ? "?" : "", f->url.query);
    end_value(h);
}

/* Return the fields for the session. The caller frees them. Returns NULL if memory is exhausted. */
static nghttp2_nv *make_fields(const head_text *h)
{
    nghttp2_nv *fields = h->text.has_failed ? NULL : malloc(h->count * sizeof *fields);
    char *at = h->text.data;
    for (size_t i = 0; fields != NULL && i < h->count; i++) {
        size_t name_bytes = strlen(at);
        char *value = at + name_bytes + 1;
        size_t value_bytes = strlen(value);
        fields[i] = (nghttp2_nv){(uint8_t *)at, (uint8_t *)value, name_bytes, value_bytes,
                                 NGHTTP2_NV_FLAG_NONE};
        if (strcmp(at, "authorization") == 0 || strcmp(at, "cookie") == 0)
            fields[i].flags = NGHTTP2_NV_FLAG_NO_INDEX; /* RFC 7541, 7.1.3 */
        at = value + value_bytes + 1;
    }
    return fields;
}

/* Report the head as lines of text, pseudo fields included. */
static COLD void trace_head(weft_fetch *f, const head_text *h)
{
    weft__strbuf lines = {0};
    const char *at = h->text.data;
    for (size_t i = 0; i < h->count; i++) {
        const char *value = at + strlen(at) + 1;
        weft__strbuf_printf(&lines, "%s: %s\r\n", at, value);
        at = value + strlen(value) + 1;
    }
    weft__strbuf_printf(&lines, "\r\n");
    if (!lines.has_failed)
        weft__fetch_trace(f, WEFT_FETCH_REQUEST, lines.data);
    free(lines.data);
}

/* Open a stream with the head of the request. */
static int send_head(weft_fetch *f)
{
    weft__h2_fetch *x = f->h2;
    head_text h = {.is_upgrade = f->upgrade != NULL};
    add_pseudo_fields(&h, f);
    weft__fetch_list_fields(f, add_h2_field, &h);
    nghttp2_nv *fields = make_fields(&h);
    bool is_end = !f->has_body && !h.is_upgrade;
    int rc = -ENOMEM;
    weft__h2_response_clear(x);
    if (fields != NULL && f->fetcher->options.trace != NULL)
        trace_head(f, &h);
    if (fields != NULL)
        rc = weft__h2_stream_open(&x->conn->h2->session, &x->st, fields, h.count, is_end);
    free(fields);
    free(h.text.data);
    if (rc != -ESHUTDOWN)
        return rc;
    /* The connection has no stream ids left. The request can be sent on another connection. */
    weft__origin_unshare(x->conn);
    weft__h2_session_goaway(&x->conn->h2->session, NGHTTP2_NO_ERROR);
    f->is_unprocessed = true;
    return -ECONNRESET;
}

/*
 * Wait for 100 (Continue) or a final response, for a limited time. Return 0 to send the body.
 * Return -EPIPE if a final response has arrived or the stream has ended. Otherwise, return an
 * error.
 */
static int await_continue(weft_fetch *f)
{
    weft__h2_fetch *x = f->h2;
    int rc = 0;
    if (!weft__fetch_expects_continue(f))
        return 0;
    WEFT_MOVE_ON_AFTER(WEFT__FETCH_CONTINUE_S)
        while (rc == 0 && !x->has_continue && !x->has_head && !x->st.is_closed)
            rc = weft_cond_wait(&x->changed, NULL);
    if (rc == -ECANCELED && !weft_is_cancelled())
        rc = 0;
    return rc == 0 && (x->has_head || x->st.is_closed) ? -EPIPE : rc;
}

/*
 * Send a body in memory. If the server responds before the body is sent, copy the rest: the server
 * may read the body and send its response at the same time.
 */
static int send_body(weft_fetch *f)
{
    weft__h2_fetch *x = f->h2;
    const char *body = f->request.body;
    size_t bytes = f->request.body_bytes, done = 0;
    if (bytes == 0)
        return weft__h2_stream_end(&x->st);
    while (done < bytes) {
        ssize_t n = weft__h2_stream_write_last(&x->st, body + done, bytes - done);
        done += n > 0 ? (size_t)n : 0;
        if (n < 0 && x->has_head && !x->st.is_closed)
            return weft__h2_stream_write_later(&x->st, body + done, bytes - done);
        if (n < 0)
            return n == -EPIPE || n == -ECONNRESET ? -EPIPE : (int)n;
    }
    return 0;
}

int weft__h2_request_send(weft_fetch *f)
{
    f->out_left = f->out_length;
    int rc = send_head(f);
    if (rc < 0)
        return rc;
    f->is_unsent = false;
    if (!f->has_body)
        return 0;
    rc = await_continue(f);
    return rc == 0 && !f->is_streamed ? send_body(f) : rc;
}

ssize_t weft__h2_request_write(weft_fetch *f, const char *data, size_t bytes)
{
    weft__h2_fetch *x = f->h2;
    bool is_last = f->out_length >= 0 && bytes == (uint64_t)f->out_left;
    for (size_t done = 0; done < bytes;) {
        if (x->has_head || x->st.is_closed)
            return -EPIPE;
        ssize_t n = is_last ? weft__h2_stream_write_last(&x->st, data + done, bytes - done)
                            : weft__h2_stream_write(&x->st, data + done, bytes - done);
        if (n < 0)
            return n == -ECONNRESET ? -EPIPE : n;
        done += (size_t)n;
    }
    return (ssize_t)bytes;
}

int weft__h2_request_end(weft_fetch *f)
{
    weft__h2_fetch *x = f->h2;
    bool has_ended = x->st.is_ending || x->st.is_closed; /* the last write may have ended it */
    int rc = has_ended ? 0 : weft__h2_stream_end(&x->st);
    f->is_ended = true;
    return rc;
}

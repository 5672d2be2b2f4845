/* A connection of HTTP/1: wait for requests, parse their heads, call the handler. */
#include "http/h1/conn.h"
#include "http/h1/internal.h"
#include "http/reply/reply.h"
#include "http/rest/rest.h"
#include "http/server/unsent_limit.h"

#include <weft/fiber.h>
#include <weft/time.h>

#include <math.h>

/* The number of headers with space in the arena. Most clients send fewer headers. */
#define FIELDS_LENT 24

/* The length of the preface of HTTP/2. */
#define PREFACE_BYTES 24

/* Results of waiting for a request, in addition to errors. */
enum {
    WAIT_CLOSED = 0,  /* the peer has closed the connection */
    WAIT_READY = 1,   /* input has arrived */
    WAIT_TIMEOUT = 2, /* the time has elapsed, or the server is draining */
    WAIT_RESTS = 3,   /* the connection rests, and its fiber must end */
};

/* Return the timeout for the first byte of the next request. */
static double request_timeout_s(const weft__h1_conn *h)
{
    const weft_http_limits *l = &h->conn->server->options.limits;
    return h->requests == 0 ? l->first_byte_s : l->idle_s;
}

/* Like weft_stream_peek, but store the result in h->input and h->input_bytes. */
static ssize_t h1_peek(weft__h1_conn *h, size_t min)
{
    const void *data;
    ssize_t n = weft_stream_peek(&h->conn->stream, min, &data);
    h->input = data;
    h->input_bytes = n > 0 ? (size_t)n : 0;
    return n;
}

/*
 * Wait for input. If is_trimmed is set, the stream has no read buffer during the wait. Returns
 * WAIT_* or an error.
 */
static int h1_wait_within(weft__h1_conn *h, double timeout_s, bool is_trimmed)
{
    weft__conn *c = h->conn;
    weft_scope scope;
    int rc = weft_scope_open(&scope, timeout_s);
    if (rc < 0)
        return rc;
    c->wait_scope = &scope;
    ssize_t n = is_trimmed ? weft_stream_wait(&c->stream) : 0;
    if (n == 0)
        n = h1_peek(h, 1);
    c->wait_scope = NULL;
    h->unflushed = 0;
    bool was_cancelled = weft_scope_is_cancelled(&scope);
    (void)weft_scope_close(&scope);
    if (n > 0)
        return WAIT_READY;
    return n < 0 && was_cancelled ? WAIT_TIMEOUT : (int)n;
}

static int h1_resume(weft__conn *c, void *state, int reason);

static const weft__rest_type h1_rest_type = {.resume = h1_resume};

/*
 * Put a silent connection to rest for *timeout_s seconds. Over TLS, wait once more without buffers,
 * which frees them, and subtract the time of that wait. Returns WAIT_RESTS, WAIT_TIMEOUT if the
 * connection cannot rest, or the result of the wait.
 */
static int h1_rest(weft__h1_conn *h, double *timeout_s)
{
    weft__conn *c = h->conn;
    double trim_s = c->is_tls ? weft__rest_after_s : 0;
    if (*timeout_s <= trim_s || c->server->group == NULL)
        return WAIT_TIMEOUT;
    int rc = c->is_tls ? h1_wait_within(h, trim_s, true) : WAIT_TIMEOUT;
    *timeout_s -= trim_s;
    if (rc != WAIT_TIMEOUT || c->server->is_draining)
        return rc;
    void *state = (void *)(uintptr_t)h->requests;
    rc = weft__conn_rest(c, &h1_rest_type, state, *timeout_s);
    return rc == 0 ? WAIT_RESTS : WAIT_TIMEOUT;
}

/*
 * Wait for the next request of an idle connection. A reply that the peer has not acknowledged
 * occupies kernel memory. The minimum rate of a body therefore applies to the acknowledgements. The
 * connection rests when the peer has acknowledged everything.
 */
static int h1_wait_idle(weft__h1_conn *h, double timeout_s)
{
    weft__conn *c = h->conn;
    const weft_http_limits *l = &c->server->options.limits;
    size_t before = weft__conn_unacked_bytes(c);
    if (before > 0)
        weft_trim_stack();
    while (before > 0 && timeout_s > l->slow_s) {
        int rc = h1_wait_within(h, l->slow_s, true);
        size_t now = weft__conn_unacked_bytes(c);
        if (rc != WAIT_TIMEOUT || c->server->is_draining)
            return rc;
        double acked = (double)before - (double)now;
        c->is_aborted = now > 0 && acked < l->slow_s * l->body_bytes_per_s_min;
        if (c->is_aborted)
            return WAIT_TIMEOUT;
        before = now;
        timeout_s -= l->slow_s;
    }
    int rc = before == 0 ? h1_rest(h, &timeout_s) : WAIT_TIMEOUT;
    if (rc != WAIT_TIMEOUT || c->server->is_draining)
        return rc;
    weft_trim_stack();
    return h1_wait_within(h, timeout_s, true);
}

/* Wait for the first byte of the next request. Returns WAIT_* or an error. */
static int h1_wait(weft__h1_conn *h, double timeout_s)
{
    double rest_s = weft__rest_after_s;
    int rc = h1_wait_within(h, timeout_s < rest_s ? timeout_s : rest_s, false);
    if (rc != WAIT_TIMEOUT || timeout_s <= rest_s || h->conn->server->is_draining)
        return rc;
    return h1_wait_idle(h, timeout_s - rest_s);
}

static int h1_wait_for_request(weft__h1_conn *h)
{
    weft__conn *c = h->conn;
    if (h1_peek(h, 0) > 0)
        return WAIT_READY;
    if (c->has_large_buffer)
        weft__conn_set_buffer(c, false);
    if (c->server->is_draining)
        return WAIT_TIMEOUT;
    return h1_wait(h, request_timeout_s(h));
}

/* Return the time that is left for the rest of the head. */
static double h1_head_time_left(const weft__h1_conn *h)
{
    if (h->head_end_s == 0 || h->requests > 0)
        return h->conn->server->options.limits.head_s;
    return fmax(h->head_end_s - weft_now(), 0);
}

/* Read the rest of an incomplete head. Returns the length of the head, or an error. */
static ssize_t h1_read_head(weft__h1_conn *h)
{
    weft_scope scope;
    ssize_t head = weft_scope_open(&scope, h1_head_time_left(h));
    while (head == 0) {
        size_t seen = h->input_bytes;
        ssize_t n = h1_peek(h, seen + 1);
        if (n >= 0 && (size_t)n <= seen)
            n = -ECONNRESET; /* the input ends within the head */
        head = n < 0 ? n : weft__message_head(&h->message, h->input, h->input_bytes);
    }
    if (weft_scope_close(&scope) == -ETIMEDOUT && head < 0 && head != -EBADMSG)
        return -ETIMEDOUT;
    return head;
}

/* Parse the head of the next request. Returns the length of the head, or an error. */
static ssize_t h1_parse_head(weft__h1_conn *h)
{
    h->begun_s = weft__counts_must_time(h->conn->server->counts) ? weft_now() : 0;
    weft__message_lend(&h->message, weft__arena_alloc(&h->arena, FIELDS_LENT * sizeof(weft__field)),
                       FIELDS_LENT);
    ssize_t head = weft__message_head(&h->message, h->input, h->input_bytes);
    return head == 0 ? h1_read_head(h) : head;
}

static weft_stream *h1_hijack(weft_http_request *r)
{
    return &r->conn->stream;
}

const weft__codec weft__h1_codec = {
    .read = weft__h1_read,
    .discard_arrived = weft__h1_discard_arrived,
    .send_interim = weft__h1_send_interim,
    .send_head = weft__h1_send_head,
    .send_body = weft__h1_send_body,
    .send_end = weft__h1_send_end,
    .flush = weft__h1_flush,
    .send_file = weft__h1_send_file,
    .upgrade = weft__h1_upgrade,
    .hijack = h1_hijack,
    .end_upgraded = weft__h1_end_upgraded,
    .await_abandoned = weft__h1_await_abandoned,
};

/* Copy the head to the arena and open the request. Returns 0, or the status of a rejection. */
static int h1_open_request(weft__h1_conn *h, weft_http_request *r, size_t head_bytes,
                           const char **reason)
{
    const weft__message *m = &h->message;
    char *text = weft__arena_copy(&h->arena, h->input, head_bytes);
    if (text == NULL) {
        *reason = "memory is exhausted";
        return 503;
    }
    (void)weft_stream_skip(&h->conn->stream, head_bytes);
    weft__message_nul_terminate(&h->message, text);
    r->head = weft__message_fields(m, text);
    r->method = text + m->method.at;
    r->target = text + m->target.at;
    r->version = m->version;
    r->body_length = m->length;
    r->is_body_complete = m->is_complete;
    r->expects_continue = m->expects_continue;
    r->is_upgrade = m->is_upgrade;
    return weft__request_open(r, reason);
}

/* Complete the reply, and skip the rest of the request's body. */
static void h1_finish_request(weft__h1_conn *h, weft_http_request *r, int result)
{
    weft__conn *c = h->conn;
    weft__reply_finish(r, result);
    c->is_aborted = r->state == WEFT__REPLY_ABORTED;
    if (r->state != WEFT__REPLY_ENDED || weft__h1_is_last(r))
        h->must_close = true;
    if (!h->must_close && weft__body_skip(r) < 0)
        h->must_close = true;
    c->has_unread = (r->state == WEFT__REPLY_ENDED && !r->is_body_complete) ||
                    (r->state == WEFT__REPLY_UPGRADED && r->is_body_abandoned);
}

/* noinline: the frame of an idle connection must not contain the request. */
static __attribute__((noinline)) void h1_handle_request(weft__h1_conn *h, size_t head_bytes)
{
    weft__server *s = h->conn->server;
    weft_http_request r = {.codec = &weft__h1_codec,
                           .codec_ctx = h,
                           .conn = h->conn,
                           .server = s,
                           .arena = &h->arena,
                           .begun_s = h->begun_s};
    const char *reason = "";
    WEFT__COUNT_REQUEST(s->counts, http1);
    int status = h1_open_request(h, &r, head_bytes, &reason);
    h->requests++;
    if (status != 0) {
        h->must_close = true;
        h->conn->has_unread = true;
        if (r.head.text != NULL)
            weft__request_reject(&r, status, reason);
        else
            weft__h1_reject(h, status, reason, NULL);
        return;
    }
    if (!h->message.is_keep_alive || h->requests >= s->options.limits.requests_max)
        h->must_close = true;
    h1_finish_request(h, &r, s->handler(&r, s->ctx));
    weft__counts_end_request(&r);
    if (s->options.log != NULL)
        weft__request_log(&r);
    weft__bodies_release(&r);
}

/*
 * Return true if a client that may use HTTP/2 has begun with a preface of another protocol. RFC
 * 9113, 3.4 requires the end of the connection. A reply of HTTP/1 would look like a frame.
 */
static bool h1_has_other_preface(const weft__h1_conn *h)
{
    size_t at = h->message.line_at;
    const char *end = memchr(h->input + at, '\n', h->input_bytes - at);
    return h->requests == 0 && !h->conn->server->options.has_no_http2 && end != NULL &&
           weft__message_line_is_other_preface(h->input + at, (size_t)(end + 1 - h->input) - at);
}

/*
 * Reject a request after -EBADMSG, -ENOMEM or -ETIMEDOUT. After any other error, the connection is
 * lost.
 */
static COLD void h1_reject_head(weft__h1_conn *h, ssize_t error)
{
    bool is_rejected = error == -EBADMSG || error == -ETIMEDOUT || error == -ENOMEM;
    if (is_rejected)
        WEFT__COUNT_REQUEST(h->conn->server->counts, http1);
    (void)h1_peek(h, 0); /* the failed peek has cleared h->input */
    if (error == -EBADMSG && h1_has_other_preface(h))
        weft__h1_drop(h, "a preface of another protocol");
    else if (error == -EBADMSG)
        weft__h1_reject(h, h->message.status, h->message.reason, NULL);
    else if (error == -ETIMEDOUT)
        weft__h1_reject(h, 408, "headers arrived too slowly", NULL);
    else if (error == -ENOMEM)
        weft__h1_reject(h, 503, "memory is exhausted", NULL);
}

/* Return true if the input is the start of the preface of HTTP/2, as far as it has arrived. */
static bool input_is_h2_preface(const weft__h1_conn *h)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    size_t bytes = h->input_bytes < PREFACE_BYTES ? h->input_bytes : PREFACE_BYTES;
    return memcmp(h->input, preface, bytes) == 0;
}

/*
 * Return true if the first input of a connection is the preface of HTTP/2 (RFC 9113, 3.3). Wait for
 * the whole preface within head_s. If the input is the head of HTTP/1 after all, the time of this
 * wait counts.
 */
static COLD bool h1_is_h2(weft__h1_conn *h)
{
    if (h->conn->server->options.has_no_http2)
        return false;
    h->head_end_s = weft_now() + h->conn->server->options.limits.head_s;
    WEFT_MOVE_ON_AFTER(h1_head_time_left(h)) {
        size_t seen = 0;
        while (h->input_bytes > seen && h->input_bytes < PREFACE_BYTES && input_is_h2_preface(h)) {
            seen = h->input_bytes;
            (void)h1_peek(h, seen + 1);
        }
    }
    (void)h1_peek(h, 0); /* a failed peek has cleared h->input */
    return h->input_bytes >= PREFACE_BYTES && input_is_h2_preface(h);
}

static int h1_handle_requests(weft__h1_conn *h)
{
    while (!h->must_close) {
        int rc = h1_wait_for_request(h);
        if (rc != WAIT_READY) /* without a request, send no reply */
            return rc < 0 ? rc : 0;
        if (UNLIKELY(h->requests == 0 && h->input[0] == 'P') && h1_is_h2(h))
            return WEFT__H1_IS_H2;
        ssize_t head = h1_parse_head(h);
        if (head < 0) {
            h1_reject_head(h, head);
            return (int)head;
        }
        h1_handle_request(h, (size_t)head);
        weft__message_close(&h->message);
        weft__message_reset(&h->message);
        weft__arena_close(&h->arena);
    }
    return 0;
}

/* Reply to plain HTTP on a TLS port. Without a reply, browsers do not show the cause. */
static COLD void reject_plain_http(weft__h1_conn *h)
{
    h->begun_s = h->conn->server->options.log != NULL ? weft_now() : 0;
    if (h1_peek(h, 1) <= 0)
        return;
    WEFT__COUNT_REQUEST(h->conn->server->counts, http1);
    weft__h1_reject(h, 400, "plain HTTP on a TLS port",
                    "400 Bad Request\n\nThis port requires HTTPS, but the request did not use "
                    "TLS. Use https:// instead of http://.\n");
}

/* Free the memory of a connection. Returns rc, the result of weft__h1_conn_run. */
static int h1_close(weft__h1_conn *h, int rc)
{
    h->conn->has_unflushed = h->unflushed > 0;
    weft__message_close(&h->message);
    weft__arena_close(&h->arena);
    return rc;
}

int weft__h1_conn_run(weft__conn *c, bool is_valid_protocol)
{
    int rc = -EPROTO;
    weft__h1_conn h = {.conn = c, .arena = {.block_cache = &c->server->block_cache}};
    weft__message_open(&h.message, WEFT__REQUEST, &c->server->message_limits);
    if (is_valid_protocol)
        rc = h1_handle_requests(&h);
    else
        reject_plain_http(&h);
    return h1_close(&h, rc);
}

/*
 * Continue a connection that has rested. state is the number of its requests so far. The time limit
 * of the rest still applies, because input of TLS need not be a part of a request. A request that
 * arrived before the drain of the server gets its reply.
 */
static int h1_resume(weft__conn *c, void *state, int reason)
{
    weft__h1_conn h = {
        .conn = c, .arena = {.block_cache = &c->server->block_cache}, .requests = (uintptr_t)state};
    if (reason < 0)
        return 0;
    double left_s = c->rest_until_s - weft_now();
    weft__message_open(&h.message, WEFT__REQUEST, &c->server->message_limits);
    int rc = h1_wait(&h, c->server->is_draining ? weft__rest_after_s : fmax(left_s, 0));
    if (rc == WAIT_READY)
        return h1_close(&h, h1_handle_requests(&h));
    return h1_close(&h, rc < 0 ? rc : 0);
}

/* The fiber of a request of HTTP/2, the body of the request, and upgrades. */
#include "http/h2/server.h"
#include "http/reply/reply.h"

#include <weft/fiber.h>
#include <weft/time.h>

static int set_priority(weft_http_request *r, int urgency, bool is_incremental)
{
    weft__h2_stream_set_priority(&weft__h2_request_of(r)->stream, urgency, is_incremental);
    return 0;
}

const weft__codec weft__h2_codec = {
    .read = weft__h2_read,
    .send_interim = weft__h2_send_interim,
    .send_head = weft__h2_send_head,
    .send_body = weft__h2_send_body,
    .send_end = weft__h2_send_end,
    .flush = weft__h2_flush,
    .set_priority = set_priority,
    .upgrade = weft__h2_upgrade,
    .end_upgraded = weft__h2_end_upgraded,
    .await_abandoned = weft__h2_await_abandoned,
};

/* The body of the request */

/* Release the memory of input that the handler has read. */
static void input_release(weft__h2_request *q, uint64_t bytes)
{
    bytes = bytes < q->in_reserved ? bytes : q->in_reserved;
    q->in_reserved -= bytes;
    q->request.server->bodies_bytes -= bytes;
}

/* Send 100 (Continue) if necessary, and wait for input at the minimum rate. */
static ssize_t body_await_piece(weft__h2_request *q, const void **data)
{
    weft_http_request *r = &q->request;
    weft__min_rate_call call;
    int rc = weft__body_send_continue(r);
    if (rc == 0)
        rc = weft__min_rate_open(&call, &r->in_rate, r->server);
    if (rc < 0)
        return rc;
    ssize_t n = weft__h2_stream_piece(&q->stream, data);
    int late = weft__min_rate_close(&call, n > 0 ? (uint64_t)n : 0);
    return n < 0 && late < 0 ? late : n;
}

int weft__h2_read(weft_http_request *r, const char **piece, size_t *bytes)
{
    weft__h2_request *q = weft__h2_request_of(r);
    const void *data;
    bool must_wait = weft__h2_stream_available(&q->stream) == 0 && !q->stream.is_remote_ended;
    ssize_t n = must_wait ? body_await_piece(q, &data) : weft__h2_stream_piece(&q->stream, &data);
    if (n < 0)
        return (int)n;
    if (n == 0) {
        r->is_body_complete = true;
        r->request_trailers = (weft__trailers){q->trailers, q->trailers_bytes};
        return 0;
    }
    input_release(q, (uint64_t)n);
    *piece = data;
    *bytes = (size_t)n;
    return 1;
}

/* A client that has closed its side of the connection has gone, as in HTTP/1. */
int weft__h2_await_abandoned(weft_http_request *r)
{
    weft__h2_request *q = weft__h2_request_of(r);
    while (!q->stream.is_closed && !q->conn->session.has_input_ended) {
        int rc = weft_cond_wait(&q->ended, NULL);
        if (rc < 0)
            return rc;
    }
    return -ECONNRESET;
}

/* Extended CONNECT (RFC 8441) */

int weft__h2_upgrade(weft_http_request *r, const char *protocol, weft_stream **stream)
{
    weft__h2_request *q = weft__h2_request_of(r);
    (void)protocol; /* the client has named it */
    weft_stream *s = weft__arena_alloc(r->arena, sizeof *s);
    int rc = s != NULL ? weft_stream_open_with(s, &weft__h2_transport, &q->stream) : -ENOMEM;
    if (rc < 0)
        return rc;
    r->status = 200;
    r->length = -1;
    q->is_upgrading = true;
    rc = weft__h2_send_head(r, NULL, 0, false);
    if (rc < 0) {
        (void)weft_stream_close(s);
        return rc;
    }
    r->state = WEFT__REPLY_UPGRADED;
    q->upgraded = s;
    *stream = s;
    return 0;
}

int weft__h2_end_upgraded(weft_http_request *r)
{
    weft__h2_request *q = weft__h2_request_of(r);
    int rc = weft_stream_flush(q->upgraded);
    return rc < 0 ? rc : weft__h2_stream_end(&q->stream);
}

/* The fiber */

/*
 * Flush and end the stream of an upgraded request, within slow_s. Reset the stream if bytes are
 * lost, or if the handler has failed: the client must not mistake a part for the whole.
 */
static void end_upgraded_stream(weft__h2_request *q)
{
    int rc = q->request.state == WEFT__REPLY_ABORTED ? -EPIPE : 0, late = 0;
    WEFT_CANCEL_AFTER(q->request.server->options.limits.slow_s, late)
        rc = rc < 0 ? rc : weft_stream_flush(q->upgraded);
    if (rc < 0)
        weft__h2_stream_reset(&q->stream, NGHTTP2_CONNECT_ERROR);
    (void)weft_stream_close(q->upgraded);
    (void)weft__h2_reply_finish(&q->request);
}

/* Complete the reply on the stream. An incomplete reply resets the stream. */
static void finish_stream(weft__h2_request *q)
{
    weft_http_request *r = &q->request;
    bool is_complete = r->state == WEFT__REPLY_ENDED;
    if (q->upgraded != NULL)
        end_upgraded_stream(q);
    else if (is_complete && weft__h2_reply_finish(r) < 0)
        is_complete = false;
    if (!is_complete && q->upgraded == NULL)
        weft__h2_stream_reset(&q->stream, NGHTTP2_INTERNAL_ERROR);
    weft__h2_stream_close(&q->stream, NGHTTP2_CANCEL);
}

static void handle_request(weft__h2_request *q)
{
    weft_http_request *r = &q->request;
    weft__server *s = r->server;
    const char *reason = "";
    WEFT__COUNT_REQUEST(s->counts, http2);
    int status = weft__h2_request_open(q, &reason);
    if (status != 0) {
        weft__request_reject(r, status, reason);
        r->state = WEFT__REPLY_ENDED; /* the reply was another request's: see weft__reply_reject */
        finish_stream(q);
        return;
    }
    int result = s->handler(r, s->ctx);
    weft__reply_finish(r, result);
    if (result < 0 && q->upgraded != NULL)
        (void)weft__reply_abort(r, result);
    if (r->must_close)
        weft__h2_session_goaway(&q->conn->session, NGHTTP2_NO_ERROR);
    finish_stream(q);
    weft__counts_end_request(r);
    if (s->options.log != NULL)
        weft__request_log(r);
    weft__bodies_release(r);
}

static weft_value request_main(void *arg)
{
    weft__h2_request *q = arg;
    handle_request(q);
    weft__h2_request_free(q);
    return 0;
}

/* The fiber was cancelled before it ran. */
static void request_drop(void *arg)
{
    weft__h2_request *q = arg;
    weft__h2_stream_close(&q->stream, NGHTTP2_CANCEL);
    weft__h2_request_free(q);
}

void weft__h2_request_spin(weft__h2_request *q)
{
    weft__h2_server_conn *h = q->conn;
    weft__server *s = h->conn->server;
    const weft_spin_options spin = {
        .name = "http2", .stack_bytes = s->options.stack_bytes, .drop = request_drop};
    q->request.codec = &weft__h2_codec;
    q->request.codec_ctx = q;
    q->request.conn = h->conn;
    q->request.server = s;
    q->request.arena = &q->arena;
    q->request.version = 20;
    q->request.begun_s = q->begun_s;
    q->has_fiber = true;
    h->fibers++;
    if (weft_group_spin_with(&h->group, request_main, q, &spin) == 0) {
        weft__h2_stream_close(&q->stream, NGHTTP2_REFUSED_STREAM);
        weft__h2_request_free(q);
    }
}

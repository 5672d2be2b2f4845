/*
 * A connection of HTTP/2: the loop of its reader, its time limits, the drain, and the events of its
 * session.
 */
#include "http/h2/internal.h"
#include "http/h2/server.h"
#include "http/rest/rest.h"
#include "http/server/unsent_limit.h"

#include <weft/fiber.h>
#include <weft/time.h>

#include <math.h>
#include <stdlib.h>

/*
 * A connection returns its buffers after this idle time. An earlier return would slow down busy
 * connections.
 */
#define TRIM_AFTER_S 1.0
/*
 * Use the larger read buffer from this many bytes of input in a step. The other read buffer is in
 * the stack of the connection, and costs no memory. It has 1,023 bytes.
 */
#define LARGE_BUFFER_FROM 1000
/* The time for the reply to a PING, before a drain refuses further streams. */
#define NOTICE_S 1.0
/* A stream whose reply has ended before the request stays open for this time. */
#define LINGER_S 1.0
/* The maximum number of fibers, as a multiple of streams_max. Fibers of reset streams count. */
#define FIBERS_PER_STREAM 2

/* A deadline counts as reached this time before, because sums of times are rounded. */
#define DEADLINE_SLACK_S 1e-3

/* Results of a step, in addition to those of weft__h2_session_step. */
enum {
    STEP_TIMEOUT = 2,
    STEP_RESTS = 3, /* the connection rests, and its fiber must end */
};

static const weft_http_limits *limits_of(const weft__h2_server_conn *h)
{
    return &h->conn->server->options.limits;
}

/* End the connection with GOAWAY and a code. Returns -EBADMSG. */
static int conn_terminate(weft__h2_server_conn *h, uint32_t code)
{
    weft__h2_session_terminate(&h->session, code, -EBADMSG);
    return -EBADMSG;
}

/*
 * Records of requests.
 */

void weft__h2_request_free(weft__h2_request *q)
{
    weft__h2_server_conn *h = q->conn;
    weft__arena arena = q->arena; /* holds q itself */
    h->conn->server->bodies_bytes -= q->in_reserved;
    if (q->has_fiber && --h->fibers == 0 && h->is_waiting_busy)
        weft__h2_session_nudge(&h->session);
    weft__arena_close(&arena);
}

static weft__h2_request *request_of_stream(weft__h2_stream *st)
{
    return CONTAINER_OF(st, weft__h2_request, stream);
}

/*
 * Events of the session.
 */

static weft__h2_stream *on_open(weft__h2_session *s, int32_t id)
{
    weft__h2_server_conn *h = s->ctx;
    weft__arena arena = {.block_cache = &h->conn->server->block_cache};
    (void)id;
    if (h->fibers >= FIBERS_PER_STREAM * limits_of(h)->streams_max)
        return NULL;
    weft__h2_request *q = weft__arena_alloc(&arena, sizeof *q);
    if (q == NULL)
        return NULL;
    if (h->input_s == 0)
        h->input_s = weft_now();
    *q = (weft__h2_request){.conn = h, .arena = arena, .begun_s = h->input_s};
    h->requests++;
    h->rested_s = 0;
    h->is_trimmed = false;
    return &q->stream;
}

static int on_field(weft__h2_session *s, weft__h2_stream *st, const char *name, size_t name_bytes,
                    const char *value, size_t value_bytes)
{
    (void)s;
    return weft__h2_request_add(request_of_stream(st), name, name_bytes, value, value_bytes);
}

static void on_head(weft__h2_session *s, weft__h2_stream *st, weft__h2_head kind)
{
    weft__h2_request *q = request_of_stream(st);
    (void)s;
    q->is_head_complete = true;
    if (kind == WEFT__H2_REQUEST)
        weft__h2_request_spin(q);
}

/* Count the input. Its memory is limited for each stream, and for all connections together. */
static void on_data(weft__h2_session *s, weft__h2_stream *st, size_t bytes)
{
    weft__h2_server_conn *h = s->ctx;
    weft__h2_request *q = request_of_stream(st);
    if (q->upgraded != NULL)
        return;
    if (weft__bodies_reserve(h->conn->server, bytes) < 0)
        weft__h2_stream_reset(st, NGHTTP2_ENHANCE_YOUR_CALM);
    else
        q->in_reserved += bytes;
}

static void on_close(weft__h2_session *s, weft__h2_stream *st)
{
    weft__h2_request *q = request_of_stream(st);
    (void)s;
    (void)weft_cond_broadcast(&q->ended);
    if (q->has_fiber)
        return;
    weft__h2_stream_close(st, NGHTTP2_CANCEL);
    weft__h2_request_free(q);
}

/* Wake the fibers that wait until the client abandons their request. */
static void on_input_end(weft__h2_session *s)
{
    WEFT__LIST_FOR(node, &s->streams)
        (void)weft_cond_broadcast(
            &request_of_stream(CONTAINER_OF(node, weft__h2_stream, node))->ended);
}

static void on_pong(weft__h2_session *s)
{
    weft__h2_server_conn *h = s->ctx;
    if (h->noticed_s > 0)
        weft__h2_session_goaway(s, NGHTTP2_NO_ERROR);
}

/* Write output and flush it. Returns the number of bytes taken, or an error. */
static ssize_t write_and_flush(weft__conn *c, const void *data, size_t bytes)
{
    ssize_t n = weft_stream_write(&c->stream, data, bytes);
    int rc = n > 0 ? weft_stream_flush(&c->stream) : 0;
    weft__unsent_limit_add(c, n > 0 ? (uint64_t)n : 0);
    return rc < 0 ? rc : n;
}

/* Write output in the reader, within the scope of its step. */
static ssize_t write_briefly(weft__conn *c, const void *data, size_t bytes)
{
    int rc = weft_scope_reset(c->wait_scope, WEFT__H2_BRIEF_S);
    return rc < 0 ? rc : write_and_flush(c, data, bytes);
}

/* Write output at the minimum rate, within the limit of the peer. */
static ssize_t on_write(weft__h2_session *s, const void *data, size_t bytes)
{
    weft__h2_server_conn *h = s->ctx;
    weft__conn *c = h->conn;
    weft__min_rate_call call;
    ssize_t allowed =
        bytes <= WEFT__OUT_BYTES ? (ssize_t)bytes : weft__unsent_limit_allow(c, &h->rate);
    if (allowed < 0)
        return allowed;
    bytes = (size_t)allowed < bytes ? (size_t)allowed : bytes;
    if (s->is_brief) /* too short to count */
        return write_briefly(c, data, bytes);
    int rc = weft__min_rate_open(&call, &h->rate, c->server);
    if (rc < 0)
        return rc;
    ssize_t n = write_and_flush(c, data, bytes);
    int late = weft__min_rate_close(&call, n > 0 ? (uint64_t)n : 0);
    return n < 0 && late < 0 ? late : n;
}

static const weft__h2_events events = {
    .on_open = on_open,
    .on_field = on_field,
    .on_head = on_head,
    .on_data = on_data,
    .on_close = on_close,
    .on_input_end = on_input_end,
    .on_pong = on_pong,
    .write = on_write,
};

/*
 * The reader.
 */

/* Return true if no request is in progress. */
static bool conn_is_idle(const weft__h2_server_conn *h)
{
    return h->fibers == 0 && h->session.streams_count == 0;
}

/* Return the time at which the reader must end its wait, apart from lingering streams. */
static double conn_limit_s(const weft__h2_server_conn *h)
{
    const weft_http_limits *l = limits_of(h);
    if (h->head_begun_s > 0)
        return h->head_begun_s + l->head_s;
    if (h->noticed_s > 0 && !h->session.is_going_away)
        return h->noticed_s + NOTICE_S;
    if (h->session.counts.frames[NGHTTP2_SETTINGS] == 0)
        return h->begun_s + l->first_byte_s;
    if (!conn_is_idle(h))
        return INFINITY;
    double trim_s = h->is_trimmed ? INFINITY : h->rested_s + TRIM_AFTER_S;
    double rest_s = h->conn->server->group != NULL ? h->waits_s + weft__rest_after_s : INFINITY;
    return fmin(h->rested_s + l->idle_s, fmin(trim_s, rest_s));
}

/* Return the time at which the reader must end its wait. */
static double conn_deadline_s(const weft__h2_server_conn *h)
{
    return fmin(conn_limit_s(h), weft__h2_session_linger_end_s(&h->session));
}

/*
 * Use the larger read buffer after a step with much input. The stream must not hold input.
 */
static void conn_prepare_wait(weft__h2_server_conn *h)
{
    size_t bytes = h->session.received_bytes - h->received_bytes;
    h->received_bytes = h->session.received_bytes;
    if (bytes >= LARGE_BUFFER_FROM && !h->conn->has_large_buffer)
        weft__conn_set_buffer(h->conn, true);
}

/* Note when the connection becomes idle. The next request sets rested_s to 0 again. */
static void conn_note_idle(weft__h2_server_conn *h, double now)
{
    if (h->rested_s == 0 && conn_is_idle(h))
        h->rested_s = now;
}

/* Return the time until the reader must end its wait. */
static double conn_time_left(weft__h2_server_conn *h)
{
    double now = weft_now();
    conn_note_idle(h, now);
    h->waits_s = now;
    return fmax(conn_deadline_s(h) - now, 0);
}

/*
 * Set the time limit of the next step. All steps share a scope, because a later deadline costs
 * less than another scope. A scope that was cancelled cannot be used again.
 */
static int scope_renew(weft_scope *scope, double left_s)
{
    if (!weft_scope_is_cancelled(scope))
        return weft_scope_reset(scope, left_s);
    (void)weft_scope_close(scope);
    return weft_scope_open(scope, left_s);
}

/* Wait for input and handle it. Returns the result of weft__h2_session_step, or STEP_TIMEOUT. */
static int conn_step(weft__h2_server_conn *h, weft_scope *scope)
{
    weft__conn *c = h->conn;
    double left_s = conn_time_left(h);
    int rc = scope_renew(scope, left_s);
    if (rc < 0)
        return rc;
    c->wait_scope = scope;
    h->input_s = 0;
    h->is_waiting_busy = left_s == INFINITY;
    if (h->is_trimmed && !h->session.is_going_away) /* wait without a read buffer */
        rc = weft_stream_wait(&c->stream);
    if (rc == 0)
        rc = weft__h2_session_step(&h->session);
    h->is_waiting_busy = false;
    c->wait_scope = NULL;
    return rc == -ECANCELED && weft_scope_is_cancelled(scope) ? STEP_TIMEOUT : rc;
}

/* Return the memory that an idle connection does not need. */
static void conn_trim(weft__h2_server_conn *h)
{
    h->is_trimmed = true;
    weft__h2_session_trim(&h->session);
    if (h->conn->has_large_buffer)
        weft__conn_set_buffer(h->conn, false);
    weft_trim_stack();
}

static int conn_resume(weft__conn *c, void *state, int reason);
static void conn_drop(void *state);

static const weft__rest_type rest_type = {.resume = conn_resume, .drop = conn_drop};

/*
 * Put an idle connection to rest. If the connection cannot rest, the reader waits and tries again.
 * Returns STEP_RESTS, or 1 to continue.
 */
static int conn_rest(weft__h2_server_conn *h)
{
    weft__h2_session *s = &h->session;
    double left_s = h->rested_s + limits_of(h)->idle_s - weft_now();
    bool is_quiet = !s->is_going_away && !weft__h2_session_has_output(s) &&
                    weft__h2_session_linger_end_s(s) == INFINITY;
    if (!is_quiet || weft__conn_rest(h->conn, &rest_type, h, fmax(left_s, 0)) < 0)
        return 1;
    s->reader = 0;
    return STEP_RESTS;
}

/*
 * Announce the end, and refuse further streams after a round trip. A connection without a request
 * ends at once.
 */
static void conn_drain(weft__h2_server_conn *h)
{
    weft__h2_session *s = &h->session;
    if (conn_is_idle(h) ||
        (h->noticed_s > 0 && weft_now() + DEADLINE_SLACK_S >= h->noticed_s + NOTICE_S)) {
        weft__h2_session_goaway(s, NGHTTP2_NO_ERROR);
    } else if (h->noticed_s == 0) {
        h->noticed_s = weft_now();
        weft__h2_session_notice(s);
        weft__h2_session_ping(s);
    }
}

/*
 * Handle the end of a wait by its deadline or by the drain. An idle connection first returns its
 * buffers. Then it rests: at once, or over TLS after a wait in which TLS returns its buffers.
 * Returns 1 to continue, STEP_RESTS, or an error.
 */
static int conn_time_out(weft__h2_server_conn *h)
{
    const weft_http_limits *l = limits_of(h);
    double now = weft_now() + DEADLINE_SLACK_S;
    weft__h2_session_linger_end(&h->session, now);
    conn_note_idle(h, now);
    if (now < conn_deadline_s(h)) /* the drain has ended the wait */
        return 1;
    if (h->head_begun_s > 0)
        return conn_terminate(h, NGHTTP2_ENHANCE_YOUR_CALM);
    if (h->session.counts.frames[NGHTTP2_SETTINGS] == 0)
        return conn_terminate(h, NGHTTP2_SETTINGS_TIMEOUT);
    if (!conn_is_idle(h))
        return 1;
    bool was_trimmed = h->is_trimmed;
    if (now >= h->rested_s + l->idle_s)
        weft__h2_session_goaway(&h->session, NGHTTP2_NO_ERROR);
    else if (!was_trimmed)
        conn_trim(h);
    return was_trimmed || !h->conn->is_tls ? conn_rest(h) : 1;
}

/* Note when a head begins to arrive. */
static void conn_note_head(weft__h2_server_conn *h)
{
    uint64_t number = weft__h2_session_head_number(&h->session);
    if (number == h->head_number)
        return;
    h->head_number = number;
    h->head_begun_s = number > 0 ? weft_now() : 0;
    h->head_at = h->session.received_bytes;
}

/* Apply the limits after a step. Returns 1 to continue, or an error. */
static int conn_check(weft__h2_server_conn *h)
{
    conn_note_head(h);
    if (weft__h2_flood_check(h) < 0)
        return conn_terminate(h, NGHTTP2_ENHANCE_YOUR_CALM);
    if (h->requests >= limits_of(h)->requests_max)
        weft__h2_session_goaway(&h->session, NGHTTP2_NO_ERROR);
    /* A busy reader does not time out. */
    if (weft__h2_session_linger_end_s(&h->session) != INFINITY)
        weft__h2_session_linger_end(&h->session, weft_now());
    return 1;
}

static int conn_loop(weft__h2_server_conn *h)
{
    weft_scope scope;
    int rc = weft_scope_open(&scope, INFINITY);
    if (rc < 0)
        return rc;
    for (rc = 1; rc == 1;) {
        if (h->conn->server->is_draining)
            conn_drain(h);
        conn_prepare_wait(h);
        rc = conn_step(h, &scope);
        if (rc == STEP_TIMEOUT)
            rc = conn_time_out(h);
        else if (rc == 1)
            rc = conn_check(h);
    }
    (void)weft_scope_close(&scope);
    return rc;
}

/* Wait until the fibers of all requests have ended, send the last output, and free h. */
static void conn_finish(weft__h2_server_conn *h)
{
    int rc = weft_group_close(&h->group);
    WEFT_MOVE_ON_AFTER(limits_of(h)->slow_s)
        (void)weft__h2_session_finish(&h->session);
    (void)rc; /* fibers of requests do not fail */
    h->conn->has_unread = true;
    conn_drop(h);
}

static int open_session(weft__h2_server_conn *h)
{
    const weft_http_limits *l = limits_of(h);
    const weft__h2_options options = {
        .allows_connect = true,
        .linger_s = LINGER_S,
        .streams_max = l->streams_max < UINT32_MAX ? (uint32_t)l->streams_max : UINT32_MAX,
        .head_bytes_max = (uint32_t)l->head_bytes_max, /* serve.c limits it */
        .fields_max = l->headers_max < UINT32_MAX / 2 ? (uint32_t)l->headers_max + 5 : UINT32_MAX,
    };
    h->session.ctx = h;
    return weft__h2_session_open(&h->session, &h->conn->stream, &events, &options);
}

/* Free a connection that has no fiber. */
static void conn_drop(void *state)
{
    weft__h2_server_conn *h = state;
    weft__h2_session_close(&h->session);
    free(h);
}

/* Run the reader until the connection ends or rests. Then free h, unless the connection rests. */
static int conn_run(weft__h2_server_conn *h)
{
    weft__conn *c = h->conn;
    c->write_bytes = 1; /* the session buffers output */
    weft__conn_set_buffer(c, false);
    int rc = weft_group_open(&h->group);
    if (rc == 0)
        rc = conn_loop(h);
    if (rc != STEP_RESTS) {
        conn_finish(h);
        return rc;
    }
    return weft_group_close(&h->group); /* the group has no fibers, so the call does not wait */
}

/* Continue a connection that has rested. The loop finds the reason itself. */
static int conn_resume(weft__conn *c, void *state, int reason)
{
    weft__h2_server_conn *h = state;
    (void)reason;
    h->conn = c;
    h->session.stream = &c->stream;
    return conn_run(h);
}

int weft__h2_server_run(weft__conn *c)
{
    weft__h2_server_conn *h = malloc(sizeof *h);
    if (h == NULL)
        return -ENOMEM;
    *h = (weft__h2_server_conn){.conn = c, .begun_s = weft_now()};
    h->rested_s = h->begun_s;
    weft__min_rate_start(&h->rate, c->server);
    weft__h2_flood_start(h);
    int rc = open_session(h);
    if (rc == 0)
        return conn_run(h);
    free(h);
    return rc;
}

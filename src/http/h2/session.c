/* Open and close an HTTP/2 session, handle its input, and end it. */
#include "http/h2/internal.h"

#include <weft/fiber.h>
#include <weft/scope.h>
#include <weft/time.h>

#include <math.h>

#define STREAMS_MAX_DEFAULT 100u
#define STREAM_WINDOW_DEFAULT (64u << 10)
#define STREAM_WINDOW_MAX_DEFAULT (1u << 20)
#define CONNECTION_WINDOW_DEFAULT (1u << 20)
#define BUFFERED_BYTES_DEFAULT ((size_t)8 << 20)
#define HEAD_BYTES_DEFAULT (64u << 10)
#define FIELDS_DEFAULT 256u
#define UNSENT_BYTES_DEFAULT ((size_t)16 << 10)

/* The dynamic table for heads of this end (RFC 7541, 4.2). The peer may limit it further. */
#define DEFLATE_TABLE_BYTES 4096

/* The code that ends the wait of the reader. is_nudged distinguishes it from other interrupts. */
#define NUDGE (-EINTR)

static uint32_t or_default(uint32_t value, uint32_t by_default)
{
    return value != 0 ? value : by_default;
}

static void set_options(weft__h2_session *s, const weft__h2_options *options)
{
    weft__h2_options o = options != NULL ? *options : (weft__h2_options){0};
    o.streams_max = or_default(o.streams_max, STREAMS_MAX_DEFAULT);
    o.stream_window_bytes = or_default(o.stream_window_bytes, STREAM_WINDOW_DEFAULT);
    o.stream_window_bytes_max = or_default(o.stream_window_bytes_max, STREAM_WINDOW_MAX_DEFAULT);
    o.connection_window_bytes = or_default(o.connection_window_bytes, CONNECTION_WINDOW_DEFAULT);
    o.head_bytes_max = or_default(o.head_bytes_max, HEAD_BYTES_DEFAULT);
    o.fields_max = or_default(o.fields_max, FIELDS_DEFAULT);
    if (o.buffered_bytes_max == 0)
        o.buffered_bytes_max = BUFFERED_BYTES_DEFAULT;
    if (o.unsent_bytes_max == 0)
        o.unsent_bytes_max = UNSENT_BYTES_DEFAULT;
    s->options = o;
}

/* The memory of nghttp2. Own functions let the fault tests make allocations of nghttp2 fail. */

static void *ng_malloc(size_t bytes, void *ctx)
{
    (void)ctx;
    return malloc(bytes);
}

static void ng_free(void *data, void *ctx)
{
    (void)ctx;
    free(data);
}

static void *ng_calloc(size_t count, size_t bytes, void *ctx)
{
    (void)ctx;
    return calloc(count, bytes);
}

static void *ng_realloc(void *data, size_t bytes, void *ctx)
{
    (void)ctx;
    return realloc(data, bytes);
}

/* Create the state for the compression of heads. */
static int open_compression(weft__h2_session *s)
{
    static nghttp2_mem mem = {NULL, ng_malloc, ng_free, ng_calloc, ng_realloc};
    int rc = nghttp2_hd_inflate_new2(&s->inflater, &mem); /* nghttp2 keeps the address */
    if (rc == 0)
        rc = nghttp2_hd_deflate_new2(&s->deflater, DEFLATE_TABLE_BYTES, &mem);
    return rc == 0 ? 0 : -ENOMEM;
}

/* Free all memory of the session. */
static void session_free(weft__h2_session *s)
{
    if (s->inflater != NULL)
        nghttp2_hd_inflate_del(s->inflater);
    if (s->deflater != NULL)
        nghttp2_hd_deflate_del(s->deflater);
    s->inflater = NULL;
    s->deflater = NULL;
    weft__buffer_free(&s->fill);
    weft__buffer_free(&s->send);
    weft__buffer_free(&s->in.part);
    free(s->lingering);
    s->lingering = NULL;
}

int weft__h2_session_open(weft__h2_session *s, weft_stream *stream, const weft__h2_events *events,
                          const weft__h2_options *options)
{
    *s = (weft__h2_session){.ctx = s->ctx, .stream = stream, .events = events, .next_id = 1};
    set_options(s, options);
    s->is_client = s->options.is_client;
    s->in.preface_bytes = s->is_client ? NGHTTP2_CLIENT_MAGIC_LEN : 0;
    s->goaway_id = INT32_MAX;
    weft__list_init(&s->streams);
    for (int i = 0; i < WEFT__H2_URGENCIES; i++)
        weft__list_init(&s->ready[i]);
    weft__h2_settings_init(s);
    int rc = open_compression(s);
    if (rc == 0) {
        weft__h2_settings_send(s);
        rc = s->failure;
    }
    if (rc < 0)
        session_free(s);
    return rc;
}

/* Cancel the writer, and wait for its end. */
static void stop_writer(weft__h2_session *s)
{
    s->is_output_closed = true;
    if (!s->is_writing)
        return;
    if (s->writer != 0)
        (void)weft_cancel(s->writer);
    WEFT_SHIELD(INFINITY)
        while (s->is_writing)
            (void)weft_cond_wait(&s->written, NULL);
}

void weft__h2_session_close(weft__h2_session *s)
{
    if (s->inflater == NULL)
        return;
    weft__h2_session_fail(s, -ECONNRESET);
    stop_writer(s);
    session_free(s);
}

void weft__h2_session_nudge(weft__h2_session *s)
{
    if (s->is_waiting && !s->is_nudged && s->reader != weft_self())
        s->is_nudged = weft_interrupt(s->reader, NUDGE) == 0;
}

void weft__h2_session_fail(weft__h2_session *s, int error)
{
    if (s->failure < 0)
        return;
    s->failure = error;
    s->is_going_away = true;
    while (!weft__list_is_empty(&s->streams)) {
        weft__h2_stream *st = CONTAINER_OF(s->streams.next, weft__h2_stream, node);
        weft__h2_stream_detach(st, error);
    }
    weft_cond_broadcast(&s->written);
    weft__h2_session_nudge(s);
}

void weft__h2_connection_fail(weft__h2_session *s, uint32_t code)
{
    if (s->is_terminated || s->failure < 0)
        return;
    s->is_terminated = true;
    weft__h2_frame_goaway(s, s->processed_id, code);
}

/*
 * Return whether the connection has no further use: GOAWAY was sent or received, or the input has
 * ended, and no stream is left.
 */
static bool session_is_over(weft__h2_session *s)
{
    if (s->has_input_ended && s->streams_count == 0 && !weft__h2_session_has_output(s))
        return true;
    bool is_last = s->is_goaway_sent || s->is_goaway_received;
    return s->is_terminated || (is_last && s->streams_count + weft__h2_linger_count(s) == 0);
}

void weft__h2_session_check_end(weft__h2_session *s)
{
    if (s->is_waiting && session_is_over(s))
        weft__h2_session_nudge(s);
}

/* End the session because it needs no further input. Return the result of the step. */
static int session_end(weft__h2_session *s)
{
    bool is_regular = s->is_goaway_sent || s->is_goaway_received || s->has_input_ended;
    weft__h2_session_fail(s, is_regular ? -ECONNRESET : -EBADMSG);
    return is_regular ? 0 : -EBADMSG;
}

/* Let the fiber of a request run. Returns 0 or an error. */
static int run_request(weft__h2_session *s)
{
    int rc = weft_snooze();
    if (rc < 0 && rc != -ECANCELED)
        weft__h2_session_fail(s, rc);
    return rc < 0 ? rc : s->failure;
}

/*
 * Handle input. If may_switch, let the fiber of each request run after its head. *taken is the
 * number of bytes that were used. Returns as weft__h2_session_step does.
 */
static int feed(weft__h2_session *s, const char *data, size_t bytes, bool may_switch, size_t *taken)
{
    int rc = s->failure;
    size_t at = 0;
    s->is_feeding = true;
    s->received_bytes += bytes;
    while (rc == 0 && at < bytes) {
        at += weft__h2_input(s, data + at, bytes - at);
        rc = s->failure;
        if (rc == 0 && s->has_request && may_switch)
            rc = run_request(s);
    }
    s->received_bytes -= bytes - at;
    *taken = at;
    weft__h2_output(s);
    s->is_feeding = false;
    if (rc < 0 || s->failure < 0)
        return s->failure < 0 ? s->failure : rc;
    return session_is_over(s) ? session_end(s) : 1;
}

int weft__h2_session_feed(weft__h2_session *s, const void *data, size_t bytes)
{
    int rc = feed(s, data, bytes, false, &bytes);
    weft__h2_output(s);
    return rc;
}

/*
 * Wait for input, and return it as weft_stream_peek does. After the end of the input, wait until
 * the session is over: see weft__h2_session_check_end.
 */
static ssize_t wait_for_input(weft__h2_session *s, const void **data)
{
    s->is_waiting = true;
    ssize_t n = s->has_input_ended ? weft_sleep(INFINITY) : weft_stream_peek(s->stream, 1, data);
    s->is_waiting = false;
    bool is_nudged = s->is_nudged && n == NUDGE;
    s->is_nudged = false;
    return is_nudged ? -EAGAIN : n;
}

/*
 * Return whether a stream cannot end without further input: the request is incomplete, or the reply
 * waits for a window.
 */
static bool stream_needs_input(const weft__h2_stream *st)
{
    bool has_window = st->session->send_window > 0 && st->send_window > 0;
    return !st->is_remote_ended || (weft__h2_stream_unsent(st) > 0 && !has_window);
}

/* Fail the streams that cannot end after the end of the input. */
static void fail_stuck_streams(weft__h2_session *s)
{
    for (weft__list *node = s->streams.next, *next; node != &s->streams; node = next) {
        weft__h2_stream *st = CONTAINER_OF(node, weft__h2_stream, node);
        int32_t id = st->id;
        next = node->next;
        if (!stream_needs_input(st))
            continue;
        weft__h2_stream_detach(st, -ECONNRESET);
        weft__h2_frame_reset(s, id, NGHTTP2_CANCEL);
        if (s->failure < 0)
            return;
    }
    weft__h2_output(s);
}

/*
 * Handle the end of the input. The peer may still read: a server replies to complete requests.
 * First let runnable fibers handle the input that arrived with the end. A client has no further
 * use for the connection.
 */
static int end_input(weft__h2_session *s)
{
    s->has_input_ended = true;
    int rc = weft_snooze();
    weft__h2_output_write_briefly(s);
    if (s->failure == 0 && (s->is_client || s->is_output_closed))
        weft__h2_session_fail(s, -ECONNRESET);
    if (s->failure < 0)
        return 0;
    fail_stuck_streams(s);
    if (s->events->on_input_end != NULL)
        s->events->on_input_end(s);
    return rc < 0 ? rc : 1;
}

int weft__h2_session_step(weft__h2_session *s)
{
    const void *data;
    s->reader = weft_self();
    if (s->failure < 0)
        return s->failure;
    weft__h2_output(s);
    if (s->must_write)
        weft__h2_output_write(s);
    if (s->failure == 0 && s->has_input_ended)
        fail_stuck_streams(s);
    if (s->failure == 0 && session_is_over(s))
        return session_end(s);
    bool must_wait = s->failure == 0 && !s->has_new_deadline;
    s->has_new_deadline = false;
    ssize_t n = must_wait ? wait_for_input(s, &data) : -EAGAIN;
    if (s->failure < 0)
        return s->failure;
    if (n == -EAGAIN || n == -ECANCELED)
        return n == -EAGAIN ? 1 : -ECANCELED;
    if (n == 0)
        return end_input(s);
    if (n < 0) {
        s->is_output_closed = true;
        weft__h2_session_fail(s, (int)n);
        return (int)n;
    }
    size_t taken;
    int rc = feed(s, data, (size_t)n, true, &taken);
    (void)weft_stream_skip(s->stream, taken);
    if (rc == 1)
        weft__h2_output_write_briefly(s);
    else
        weft__h2_output(s);
    return s->failure < 0 && rc == 1 ? s->failure : rc;
}

bool weft__h2_session_has_output(const weft__h2_session *s)
{
    return s->is_writing || s->fill.bytes > 0 ||
           (!s->is_output_closed && weft__h2_schedule_has_next(s));
}

int weft__h2_session_finish(weft__h2_session *s)
{
    weft__h2_output(s);
    if (!s->is_writing && s->fill.bytes + s->send.bytes > 0) /* without a reader, or memory */
        weft__h2_output_write(s);
    while (s->is_writing) {
        int rc = weft_cond_wait(&s->written, NULL);
        if (rc < 0)
            return rc;
    }
    return s->is_output_closed ? s->failure : 0;
}

void weft__h2_session_notice(weft__h2_session *s)
{
    if (s->failure < 0 || s->is_goaway_sent || s->has_notice)
        return;
    s->has_notice = true;
    weft__h2_frame_goaway(s, INT32_MAX, NGHTTP2_NO_ERROR);
    weft__h2_output(s);
}

void weft__h2_session_goaway(weft__h2_session *s, uint32_t code)
{
    if (s->failure < 0 || s->is_goaway_sent)
        return;
    s->is_goaway_sent = s->is_going_away = true;
    weft__h2_session_linger_end(s, INFINITY);
    weft__h2_frame_goaway(s, s->processed_id, code);
    weft__h2_output(s);
    weft__h2_session_check_end(s);
}

void weft__h2_session_terminate(weft__h2_session *s, uint32_t code, int error)
{
    if (s->failure < 0)
        return;
    weft__h2_connection_fail(s, code);
    s->is_goaway_sent = true;
    weft__h2_output(s);
    weft__h2_session_fail(s, error);
}

void weft__h2_session_ping(weft__h2_session *s)
{
    if (s->failure < 0)
        return;
    weft__h2_frame_ping(s, (const uint8_t[8]){0}, false);
    weft__h2_output(s);
}

void weft__h2_session_forget(weft__h2_session *s)
{
    s->is_output_closed = true;
    s->is_writing = s->is_waiting = false;
    s->reader = s->writer = 0;
    s->written = (weft_cond){0};
    WEFT__LIST_FOR(node, &s->streams) {
        weft__h2_stream *st = CONTAINER_OF(node, weft__h2_stream, node);
        st->readable = st->writable = (weft_cond){0};
        st->is_reading = st->is_writing = false;
    }
    weft__h2_session_fail(s, -ECONNRESET);
}

void weft__h2_session_trim(weft__h2_session *s)
{
    weft__h2_linger_trim(s);
    if (s->fill.bytes == 0)
        weft__buffer_free(&s->fill);
    if (!s->is_writing && s->send.bytes == 0)
        weft__buffer_free(&s->send);
}

size_t weft__h2_session_streams_left(const weft__h2_session *s)
{
    size_t max = s->peer.streams_max;
    return s->streams_count < max ? max - s->streams_count : 0;
}

bool weft__h2_session_allows_connect(const weft__h2_session *s)
{
    return s->peer.allows_connect;
}

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

/* The maximum length of a head that nghttp2 sends, compressed. */
#define SENT_HEAD_BYTES_MAX ((size_t)1 << 20)

/* The initial window of a connection (RFC 9113, 6.9.2). */
#define WINDOW_INITIAL 65535u

/* The code that ends the wait of the reader. is_nudged distinguishes it from other interrupts. */
#define NUDGE (-EINTR)

int weft__h2_error_of(ssize_t result)
{
    switch (result) {
    case NGHTTP2_ERR_NOMEM:
        return -ENOMEM;
    case NGHTTP2_ERR_BAD_CLIENT_MAGIC:
    case NGHTTP2_ERR_FLOODED:
        return -EBADMSG;
    case NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE:
        return -ESHUTDOWN;
    case NGHTTP2_ERR_CALLBACK_FAILURE:
        return -ENOMEM; /* callbacks fail only if memory is exhausted */
    default:
        return result < 0 ? -EPROTO : 0;
    }
}

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

/* Create the session of nghttp2. */
static int create_nghttp2(weft__h2_session *s)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    nghttp2_mem mem = weft__h2_memory(s);
    int rc = nghttp2_session_callbacks_new(&callbacks);
    if (rc == 0)
        rc = nghttp2_option_new(&option);
    if (rc != 0)
        goto done;
    weft__h2_receive_set_callbacks(callbacks, s->is_client);
    weft__h2_body_out_set_callbacks(callbacks);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_max_send_header_block_length(option, SENT_HEAD_BYTES_MAX);
    nghttp2_option_set_no_closed_streams(option, 1); /* only priorities of RFC 7540 need them */
    if (!s->is_client)
        nghttp2_option_set_builtin_recv_extension_type(option, NGHTTP2_PRIORITY_UPDATE);
    rc = s->is_client ? nghttp2_session_client_new3(&s->ng, callbacks, s, option, &mem)
                      : nghttp2_session_server_new3(&s->ng, callbacks, s, option, &mem);
done:
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return rc;
}

/* Give the settings to nghttp2, as the first frame. */
static int submit_settings(weft__h2_session *s)
{
    const weft__h2_options *o = &s->options;
    const nghttp2_settings_entry entries[] = {
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, o->stream_window_bytes},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, o->head_bytes_max},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
        /* The last entries differ: a client without push has no use for a limit of streams. */
        {s->is_client ? NGHTTP2_SETTINGS_ENABLE_PUSH : NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
         s->is_client ? 0 : o->streams_max},
        {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
    };
    size_t count = sizeof entries / sizeof entries[0] - (o->allows_connect ? 0 : 1);
    int rc = nghttp2_submit_settings(s->ng, NGHTTP2_FLAG_NONE, entries, count);
    if (rc == 0 && o->connection_window_bytes > WINDOW_INITIAL)
        rc = nghttp2_session_set_local_window_size(s->ng, NGHTTP2_FLAG_NONE, 0,
                                                   (int32_t)o->connection_window_bytes);
    return rc;
}

int weft__h2_session_open(weft__h2_session *s, weft_stream *stream, const weft__h2_events *events,
                          const weft__h2_options *options)
{
    *s = (weft__h2_session){.ctx = s->ctx, .stream = stream, .events = events};
    set_options(s, options);
    s->is_client = s->options.is_client;
    s->has_frames = true;
    s->check.skip = NGHTTP2_CLIENT_MAGIC_LEN;
    weft__list_init(&s->streams);
    int rc = create_nghttp2(s);
    if (rc == 0)
        rc = submit_settings(s);
    if (rc != 0) {
        nghttp2_session_del(s->ng);
        weft__h2_memory_release(s);
        s->ng = NULL;
    }
    return weft__h2_error_of(rc);
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
    if (s->ng == NULL)
        return;
    weft__h2_session_fail(s, -ECONNRESET);
    stop_writer(s);
    nghttp2_session_del(s->ng);
    weft__h2_memory_release(s);
    s->ng = NULL;
    weft__buffer_free(&s->fill);
    weft__buffer_free(&s->send);
    free(s->lingering);
    s->lingering = NULL;
}

void weft__h2_session_nudge(weft__h2_session *s)
{
    if (s->is_waiting && !s->is_nudged && s->reader != weft_self())
        s->is_nudged = weft_interrupt(s->reader, NUDGE) == 0;
}

/* End a stream with an error. nghttp2 forgets the record. */
static void fail_stream(weft__h2_session *s, weft__h2_stream *st, int error)
{
    (void)nghttp2_session_set_stream_user_data(s->ng, st->id, NULL);
    weft__h2_stream_detach(st, error);
}

void weft__h2_session_fail(weft__h2_session *s, int error)
{
    if (s->failure < 0)
        return;
    s->failure = error;
    s->is_going_away = true;
    while (!weft__list_is_empty(&s->streams))
        fail_stream(s, CONTAINER_OF(s->streams.next, weft__h2_stream, node), error);
    weft_cond_broadcast(&s->written);
    weft__h2_session_nudge(s);
}

void weft__h2_session_check(weft__h2_session *s, int result)
{
    if (LIKELY(nghttp2_is_fatal(result) == 0))
        return;
    s->is_output_closed = true;
    weft__h2_session_fail(s, weft__h2_error_of(result));
}

/*
 * Return whether the connection has no further use: GOAWAY was sent or received, or the input has
 * ended, and no stream is left.
 */
static bool session_is_over(weft__h2_session *s)
{
    if (s->has_input_ended && s->streams_count == 0 && !weft__h2_session_has_output(s))
        return true;
    return nghttp2_session_want_read(s->ng) == 0 && nghttp2_session_want_write(s->ng) == 0;
}

void weft__h2_session_check_end(weft__h2_session *s)
{
    if (s->is_waiting && session_is_over(s))
        weft__h2_session_nudge(s);
}

/* End the session because nghttp2 needs no further input. Return the result of the step. */
static int session_end(weft__h2_session *s)
{
    bool is_regular = s->is_goaway_sent || s->is_goaway_received || s->has_input_ended;
    weft__h2_session_fail(s, is_regular ? -ECONNRESET : -EBADMSG);
    return is_regular ? 0 : -EBADMSG;
}

/* End the session after an error of nghttp2 in its input. Return the error. */
static int feed_fail(weft__h2_session *s, ssize_t result)
{
    int error = weft__h2_error_of(result);
    bool is_magic = result == NGHTTP2_ERR_BAD_CLIENT_MAGIC;
    if (error != -ENOMEM) /* a bad preface, or a flood that nghttp2 has detected */
        (void)nghttp2_session_terminate_session(s->ng, is_magic ? NGHTTP2_PROTOCOL_ERROR
                                                                : NGHTTP2_ENHANCE_YOUR_CALM);
    weft__h2_output(s);
    weft__h2_session_fail(s, error);
    return error;
}

/* Pass input to nghttp2, up to the end of the first head. Reduce *bytes if nghttp2 takes less. */
static int feed_part(weft__h2_session *s, const void *data, size_t *bytes)
{
    s->is_in_callback = true;
    s->has_request = false;
    ssize_t n = s->is_client ? nghttp2_session_mem_recv(s->ng, data, *bytes)
                             : weft__h2_check_recv(s, data, bytes);
    s->is_in_callback = false;
    return n < 0 ? feed_fail(s, n) : s->failure;
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
 * Pass input to nghttp2. If may_switch, let the fiber of each request run after its head. *taken is
 * the number of bytes that nghttp2 has got. Returns as weft__h2_session_step does.
 */
static int feed(weft__h2_session *s, const char *data, size_t bytes, bool may_switch, size_t *taken)
{
    int rc = s->failure;
    size_t at = 0;
    s->is_feeding = true;
    s->received_bytes += bytes;
    while (rc == 0 && at < bytes) {
        size_t n = bytes - at;
        rc = feed_part(s, data + at, &n);
        at += n;
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
    weft__h2_output_continue(s);
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
 * Fail the streams that cannot end without further input: the request is incomplete, or the reply
 * waits for a window.
 */
static void fail_stuck_streams(weft__h2_session *s)
{
    bool is_blocked = !s->has_frames && nghttp2_session_want_write(s->ng) == 0;
    for (weft__list *node = s->streams.next, *next; node != &s->streams; node = next) {
        weft__h2_stream *st = CONTAINER_OF(node, weft__h2_stream, node);
        int32_t id = st->id;
        next = node->next;
        if (st->is_remote_ended && !(is_blocked && weft__h2_stream_unsent(st) > 0))
            continue;
        fail_stream(s, st, -ECONNRESET);
        weft__h2_session_check(
            s, nghttp2_submit_rst_stream(s->ng, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL));
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
    weft__h2_output_continue(s);
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
        weft__h2_output_continue(s);
    return s->failure < 0 && rc == 1 ? s->failure : rc;
}

bool weft__h2_session_has_output(const weft__h2_session *s)
{
    return s->is_writing || s->fill.bytes > 0 ||
           (!s->is_output_closed && nghttp2_session_want_write(s->ng) != 0);
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
    weft__h2_session_check(s, nghttp2_submit_shutdown_notice(s->ng));
    weft__h2_output(s);
}

void weft__h2_session_goaway(weft__h2_session *s, uint32_t code)
{
    if (s->failure < 0 || s->is_goaway_sent)
        return;
    int32_t last = nghttp2_session_get_last_proc_stream_id(s->ng);
    s->is_goaway_sent = s->is_going_away = true;
    weft__h2_session_linger_end(s, INFINITY);
    weft__h2_session_check(s, nghttp2_submit_goaway(s->ng, NGHTTP2_FLAG_NONE, last, code, NULL, 0));
    weft__h2_output(s);
    weft__h2_session_check_end(s);
}

void weft__h2_session_terminate(weft__h2_session *s, uint32_t code, int error)
{
    if (s->failure < 0)
        return;
    s->is_goaway_sent = nghttp2_session_terminate_session(s->ng, code) == 0;
    weft__h2_output(s);
    weft__h2_session_fail(s, error);
}

void weft__h2_session_ping(weft__h2_session *s)
{
    if (s->failure < 0)
        return;
    weft__h2_session_check(s, nghttp2_submit_ping(s->ng, NGHTTP2_FLAG_NONE, NULL));
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
    size_t max =
        nghttp2_session_get_remote_settings(s->ng, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    return s->streams_count < max ? max - s->streams_count : 0;
}

bool weft__h2_session_allows_connect(const weft__h2_session *s)
{
    return nghttp2_session_get_remote_settings(s->ng, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) ==
           1;
}

/*
 * Connections of HTTP/2 in the client. All fetches of an origin share a connection. Its reader is a
 * daemon, a child of the main fiber, because the connection outlives the fiber that has opened it.
 * The reader of an idle connection ends after a short time, so that an idle program has no fiber.
 */
#include "http/client/h2.h"

#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/time.h>

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>

/* The reader of an idle connection waits for this time. A new request is likely to come soon. */
#define LINGER_S 0.2
/* Check a connection that was idle for this time before a fetch uses it. */
#define CHECK_AFTER_S 10.0
/* The time limit of the reply to a PING. */
#define PONG_S 2.0
/* weft reports a reader that does not end in this time. */
#define STOP_S 10.0
/* The time limit of the last output of a connection. */
#define GOODBYE_S 0.1

/* Windows: a fast reader can use a path of 4 MiB, for example 320 Mbit/s with 100 ms. */
#define STREAM_WINDOW ((uint32_t)256 << 10)
#define STREAM_WINDOW_MAX ((uint32_t)4 << 20)
#define CONNECTION_WINDOW ((uint32_t)8 << 20)
/* The least number of bytes that a field takes in a head. */
#define FIELD_BYTES_MIN 32

static weft__h2_conn *conn_of(weft__h2_session *s)
{
    return CONTAINER_OF(s, weft__h2_conn, session);
}

static void on_settings(weft__h2_session *s)
{
    weft_cond_broadcast(&conn_of(s)->event);
    weft__origin *origin = conn_of(s)->conn->origin;
    if (origin != NULL) /* the number of streams may have changed */
        weft_cond_broadcast(&origin->changed);
}

static void on_goaway(weft__h2_session *s, int32_t last_id, uint32_t code)
{
    (void)last_id, (void)code;
    weft__origin_unshare(conn_of(s)->conn);
}

static void on_pong(weft__h2_session *s)
{
    weft_cond_broadcast(&conn_of(s)->event);
}

static const weft__h2_events events = {.on_field = weft__h2_response_on_field,
                                       .on_head = weft__h2_response_on_head,
                                       .on_close = weft__h2_response_on_close,
                                       .on_settings = on_settings,
                                       .on_goaway = on_goaway,
                                       .on_pong = on_pong};

/*
 * The reader.
 */

/* The connection has ended. If no fetch uses it, free it. */
static void conn_ended(weft__h2_conn *h)
{
    weft__fetch_conn *c = h->conn;
    weft__h2_session_fail(&h->session, -ECONNRESET);
    h->is_ended = true;
    weft__origin_unshare(c);
    if (h->is_closing || c->users > 0)
        return;
    weft__conn_pool_set_idle(c, false);
    weft__conn_free(c, true);
}

/* Handle input until the connection ends, or no fetch needs it. Return the result of a step. */
static int reader_loop(weft__h2_conn *h)
{
    int rc;
    do {
        rc = weft_scope_open(&h->scope, h->conn->users > 0 ? INFINITY : LINGER_S);
        if (rc < 0)
            return rc;
        h->has_scope = true;
        do
            rc = weft__h2_session_step(&h->session);
        while (rc > 0 && !h->is_closing);
        h->has_scope = false;
        (void)weft_scope_close(&h->scope);
    } while (rc == -ECANCELED && !weft_is_cancelled() && !h->is_closing &&
             (h->conn->users > 0 || weft__h2_session_has_output(&h->session)));
    return rc;
}

static weft_value reader_run(void *arg)
{
    weft__h2_conn *h = arg;
    h->reader = weft_self();
    int rc = h->is_closing ? 0 : reader_loop(h);
    bool is_idle = rc == -ECANCELED && !weft_is_cancelled();
    h->session.reader = 0;
    h->has_reader = false;
    weft_cond_broadcast(&h->event);
    if (!is_idle && !h->is_closing)
        conn_ended(h);
    return 0;
}

static void reader_drop(void *arg)
{
    weft__h2_conn *h = arg;
    h->has_reader = false;
    weft_cond_broadcast(&h->event);
    if (!h->is_closing)
        conn_ended(h);
}

static int start_reader(weft__h2_conn *h)
{
    if (h->has_reader)
        return 0;
    const weft_spin_options options = {
        .name = "http/2", .parent = weft_main(), .is_daemon = true, .drop = reader_drop};
    int rc = weft_go_with(reader_run, h, &options);
    h->has_reader = rc == 0;
    return rc;
}

/* Cancel the reader and wait for its end, and for the end of its child, the writer. */
static void stop_reader(weft__h2_conn *h)
{
    if (h->reader != 0 && h->reader != weft_self())
        (void)weft_terminate(h->reader, STOP_S);
    WEFT_SHIELD(INFINITY)
        while (h->has_reader)
            (void)weft_cond_wait(&h->event, NULL);
}

/*
 * Open and close.
 */

int weft__h2_conn_open(weft__fetch_conn *c)
{
    weft__h2_conn *h = calloc(1, sizeof *h);
    if (h == NULL)
        return -ENOMEM;
    size_t head_bytes = c->fetcher->options.head_bytes_max;
    const weft__h2_options options = {
        .is_client = true,
        .is_daemon = true,
        .stream_window_bytes = STREAM_WINDOW,
        .stream_window_bytes_max = STREAM_WINDOW_MAX,
        .connection_window_bytes = CONNECTION_WINDOW,
        /* A fiber may read several responses one after another. */
        .buffered_bytes_max = SIZE_MAX,
        .head_bytes_max = (uint32_t)head_bytes,
        .fields_max = (uint32_t)(head_bytes / FIELD_BYTES_MIN + 1),
    };
    weft_stream_configure(
        &c->stream, &(weft_stream_options){.read_bytes = WEFT__FETCH_READ_BYTES, .write_bytes = 1});
    h->conn = c;
    int rc = weft__h2_session_open(&h->session, &c->stream, &events, &options);
    if (rc < 0) {
        free(h);
        return rc;
    }
    c->h2 = h;
    return 0;
}

void weft__h2_conn_close(weft__fetch_conn *c, bool is_aborted)
{
    weft__h2_conn *h = c->h2;
    h->is_closing = true;
    stop_reader(h);
    weft__h2_session_goaway(&h->session, NGHTTP2_NO_ERROR);
    if (!is_aborted && !h->session.is_output_closed)
        WEFT_MOVE_ON_AFTER(GOODBYE_S)
            (void)weft__h2_session_finish(&h->session);
    weft__h2_session_close(&h->session);
    free(h);
    c->h2 = NULL;
}

static weft__h2_fetch *fetch_of_node(weft__list *node)
{
    weft__h2_stream *st = CONTAINER_OF(node, weft__h2_stream, node);
    return CONTAINER_OF(st, weft__h2_fetch, st);
}

void weft__h2_conn_forget(weft__fetch_conn *c)
{
    weft__h2_conn *h = c->h2;
    h->has_reader = h->has_scope = h->is_checking = false;
    h->reader = 0;
    h->event = (weft_cond){0};
    weft__list *streams = &h->session.streams;
    WEFT__LIST_FOR(node, streams)
        fetch_of_node(node)->changed = (weft_cond){0};
    h->session.is_output_closed = true;
    while (!weft__list_is_empty(streams)) {
        weft__h2_fetch *x = fetch_of_node(streams->next);
        x->conn = NULL;
        weft__h2_stream_close(&x->st, NGHTTP2_CANCEL);
    }
    weft__h2_session_forget(&h->session);
}

/*
 * Use.
 */

bool weft__h2_conn_has_room(const weft__fetch_conn *c)
{
    return !c->h2->is_checking && weft__h2_session_streams_left(&c->h2->session) > 0;
}

/* Return whether input has arrived that no reader has handled. */
static bool has_unread_input(weft__fetch_conn *c)
{
    const void *data;
    struct pollfd p = {.fd = c->fd, .events = POLLIN | POLLRDHUP};
    return !c->h2->has_reader &&
           (poll(&p, 1, 0) != 0 || weft_stream_peek(&c->stream, 0, &data) != 0);
}

/* Send PING and wait for the reply. The connection is not idle meanwhile. */
static int await_pong(weft__h2_conn *h)
{
    int rc = 0, late = 0;
    uint64_t pongs = h->session.counts.pongs;
    weft__h2_session_ping(&h->session);
    WEFT_CANCEL_AFTER(PONG_S, late)
        while (rc == 0 && !h->is_ended && h->session.counts.pongs == pongs)
            rc = weft_cond_wait(&h->event, NULL);
    if (late < 0)
        weft__h2_session_fail(&h->session, -ETIMEDOUT);
    return late < 0 ? 0 : rc;
}

int weft__h2_conn_check(weft__fetch_conn *c)
{
    weft__h2_conn *h = c->h2;
    if (c->users > 0 || (weft_now() - c->idle_since < CHECK_AFTER_S && !has_unread_input(c)))
        return 0;
    int rc = start_reader(h);
    if (rc < 0)
        return rc;
    c->users++; /* the connection must not be freed */
    h->is_checking = true;
    weft__conn_pool_set_idle(c, false);
    rc = await_pong(h);
    h->is_checking = false;
    c->users--;
    if (c->origin != NULL)
        weft_cond_broadcast(&c->origin->changed);
    if (c->users == 0 && h->is_ended)
        weft__conn_free(c, true);
    else if (c->users == 0)
        weft__conn_pool_set_idle(c, true);
    return rc < 0 ? rc : 1;
}

int weft__h2_conn_attach(weft__fetch_conn *c, weft_fetch *f)
{
    weft__h2_conn *h = c->h2;
    if (f->h2 == NULL)
        f->h2 = calloc(1, sizeof *f->h2);
    int rc = f->h2 != NULL ? start_reader(h) : -ENOMEM;
    if (rc < 0)
        return rc;
    f->h2->fetch = f;
    f->h2->conn = c;
    f->is_reused = h->session.counts.frames[NGHTTP2_HEADERS] > 0;
    f->codec = &weft__fetch_h2;
    c->users++;
    weft__conn_pool_set_idle(c, false);
    if (h->has_scope)
        (void)weft_scope_reset(&h->scope, INFINITY);
    return 0;
}

/* Release the stream of a fetch. The connection stays, or becomes idle. */
static void h2_release(weft_fetch *f, bool is_reusable)
{
    weft__h2_fetch *x = f->h2;
    weft__fetch_conn *c = x != NULL ? x->conn : NULL;
    (void)is_reusable;
    f->piece_bytes = 0;
    if (c == NULL)
        return;
    x->conn = NULL;
    if (x->has_tunnel) {
        (void)weft__h2_stream_end(&x->st); /* the close of the stream then flushes nothing */
        (void)weft_stream_close(&x->tunnel);
    }
    weft__h2_stream_close(&x->st, NGHTTP2_CANCEL);
    weft__h2_response_clear(x);
    c->users--;
    weft_cond_signal(&f->origin->changed);
    if (c->users == 0 && c->h2->is_ended) {
        weft__conn_free(c, true);
    } else if (c->users == 0 && c->origin != NULL) {
        weft__conn_pool_set_idle(c, true);
        if (c->h2->has_scope)
            (void)weft_scope_reset(&c->h2->scope, LINGER_S);
    }
    weft__origin_leave(f);
}

int weft__h2_conn_allows_connect(weft_fetch *f)
{
    weft__h2_conn *h = f->h2->conn->h2;
    while (h->session.counts.frames[NGHTTP2_SETTINGS] == 0 && !h->is_ended) {
        int rc = weft_cond_wait(&h->event, NULL);
        if (rc < 0)
            return rc;
    }
    return !h->is_ended && weft__h2_session_allows_connect(&h->session);
}

weft_stream *weft__h2_conn_tunnel(weft_fetch *f)
{
    weft__h2_fetch *x = f->h2;
    x->has_tunnel = weft_stream_open_with(&x->tunnel, &weft__h2_transport, &x->st) == 0;
    return &x->tunnel;
}

void weft__h2_fetch_free(weft_fetch *f)
{
    free(f->h2);
    f->h2 = NULL;
}

const weft__fetch_codec weft__fetch_h2 = {.send = weft__h2_request_send,
                                          .write = weft__h2_request_write,
                                          .end = weft__h2_request_end,
                                          .read_head = weft__h2_response_read_head,
                                          .next = weft__h2_response_next,
                                          .release = h2_release};

weft__fetch_conn *weft__h2_fetch_conn(const weft_fetch *f)
{
    return f->h2 != NULL ? f->h2->conn : NULL;
}

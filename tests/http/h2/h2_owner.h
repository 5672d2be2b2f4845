/* Owners of HTTP/2 sessions for tests: a server that runs a handler per stream, and a client. */
#ifndef TESTS_HTTP_H2_H2_OWNER_H
#define TESTS_HTTP_H2_H2_OWNER_H

#include "base/compiler.h"
#include "http/h2/session.h"
#include "support/suite.h"

#include <weft/web.h>

typedef struct h2_end h2_end;

/* A stream of either end. */
typedef struct h2_exchange {
    weft__h2_stream st;
    h2_end *end;
    char fields[4096];   /* "name: value\n" of all heads */
    char heads[16];      /* a letter per head: Q request, I interim, R response, T trailers */
    size_t data_bytes;   /* of all on_data */
    int closes;          /* calls of on_close */
    bool has_handler;    /* a fiber runs the handler */
    weft_cond has_event; /* a head has arrived, or the stream has ended */
} h2_exchange;

typedef int h2_handler(h2_exchange *x);

/* An end of a connection. */
struct h2_end {
    weft__h2_session session;
    weft_stream stream;
    int fd;
    bool is_tls; /* stream is open */
    weft__h2_options options;
    h2_handler *handler; /* of a server */
    weft_fiber fiber;
    int result;        /* of the last step */
    size_t writes;     /* calls that write to the connection */
    size_t cancels;    /* cancelled steps */
    bool is_impatient; /* cancel each step soon, and repeat it */
    bool refuses;      /* refuse new streams */
    int goaways;
    int32_t goaway_last;
    int settings;
    int pongs;
    weft_cond has_event;
};

static h2_end *h2_end_of(weft__h2_session *s)
{
    return s->ctx;
}

static h2_exchange *h2_exchange_of(weft__h2_stream *st)
{
    return CONTAINER_OF(st, h2_exchange, st);
}

static weft__h2_stream *h2_on_open(weft__h2_session *s, int32_t id)
{
    (void)id;
    h2_exchange *x = h2_end_of(s)->refuses ? NULL : calloc(1, sizeof *x);
    if (x == NULL)
        return NULL;
    x->end = h2_end_of(s);
    return &x->st;
}

static int h2_on_field(weft__h2_session *s, weft__h2_stream *st, const char *name,
                       size_t name_bytes, const char *value, size_t value_bytes)
{
    (void)s;
    h2_exchange *x = h2_exchange_of(st);
    size_t at = strlen(x->fields);
    if (strlen(name) != name_bytes || strlen(value) != value_bytes)
        return -EINVAL;
    snprintf(x->fields + at, sizeof x->fields - at, "%s: %s\n", name, value);
    return strcmp(name, "x-refuse") == 0 ? -EINVAL : 0;
}

static void h2_free(h2_exchange *x)
{
    weft__h2_stream_close(&x->st, NGHTTP2_CANCEL);
    free(x);
}

static weft_value h2_handler_run(void *arg)
{
    h2_exchange *x = arg;
    int rc = x->end->handler(x);
    if (rc == 0)
        (void)weft__h2_stream_finish(&x->st);
    h2_free(x);
    return 0;
}

static void h2_handler_drop(void *arg)
{
    h2_free(arg);
}

static void h2_on_head(weft__h2_session *s, weft__h2_stream *st, weft__h2_head kind)
{
    h2_exchange *x = h2_exchange_of(st);
    x->heads[strlen(x->heads)] = "QIRT"[kind];
    weft_cond_broadcast(&x->has_event);
    if (kind != WEFT__H2_REQUEST)
        return;
    x->has_handler =
        weft_go_with(h2_handler_run, x,
                     &(weft_spin_options){.parent = s->reader, .drop = h2_handler_drop}) == 0;
    if (!x->has_handler)
        weft__h2_stream_reset(st, NGHTTP2_INTERNAL_ERROR);
}

static void h2_on_data(weft__h2_session *s, weft__h2_stream *st, size_t bytes)
{
    (void)s;
    h2_exchange_of(st)->data_bytes += bytes;
}

static void h2_on_close(weft__h2_session *s, weft__h2_stream *st)
{
    h2_exchange *x = h2_exchange_of(st);
    x->closes++;
    weft_cond_broadcast(&x->has_event);
    if (!s->is_client && !x->has_handler)
        h2_free(x);
}

static void h2_on_settings(weft__h2_session *s)
{
    h2_end_of(s)->settings++;
    weft_cond_broadcast(&h2_end_of(s)->has_event);
}

static void h2_on_goaway(weft__h2_session *s, int32_t last_id, uint32_t code)
{
    (void)code;
    h2_end_of(s)->goaways++;
    h2_end_of(s)->goaway_last = last_id;
    weft_cond_broadcast(&h2_end_of(s)->has_event);
}

static void h2_on_pong(weft__h2_session *s)
{
    h2_end_of(s)->pongs++;
    weft_cond_broadcast(&h2_end_of(s)->has_event);
}

static const weft__h2_events h2_test_events = {
    .on_open = h2_on_open,
    .on_field = h2_on_field,
    .on_head = h2_on_head,
    .on_data = h2_on_data,
    .on_close = h2_on_close,
    .on_settings = h2_on_settings,
    .on_goaway = h2_on_goaway,
    .on_pong = h2_on_pong,
};

/* Make a step. Returns its result, or 1 if the step was cancelled because of is_impatient. */
static int h2_end_step(h2_end *e)
{
    int rc = 0, late = 0;
    if (!e->is_impatient)
        return weft__h2_session_step(&e->session);
    WEFT_CANCEL_AFTER(1e-5 * (double)(e->cancels % 7), late)
        rc = weft__h2_session_step(&e->session);
    if (late == 0)
        return rc;
    e->cancels++;
    rc = weft_snooze();
    return rc < 0 ? rc : 1;
}

/* The reader of an end. */
static weft_value h2_end_run(void *arg)
{
    h2_end *e = arg;
    do
        e->result = h2_end_step(e);
    while (e->result > 0);
    if (e->result <= 0 && e->result != -ECANCELED)
        (void)weft__h2_session_finish(&e->session);
    weft__h2_session_fail(&e->session, -ECONNRESET);
    (void)weft_terminate_children(10);
    weft__h2_session_close(&e->session);
    (void)weft_stream_close(&e->stream);
    weft_cond_broadcast(&e->has_event);
    return 0;
}

/* The reader was cancelled before it began. */
static void h2_end_drop(void *arg)
{
    h2_end *e = arg;
    weft__h2_session_close(&e->session);
    (void)weft_stream_close(&e->stream);
}

/* A stream over a descriptor that counts the writes. */

static ssize_t h2_counted_read(void *ctx, void *data, size_t bytes)
{
    return weft_read(((h2_end *)ctx)->fd, data, bytes);
}

static ssize_t h2_counted_write(void *ctx, const struct iovec *pieces, int count)
{
    ((h2_end *)ctx)->writes++;
    return weft_writev(((h2_end *)ctx)->fd, pieces, count);
}

static int h2_counted_close(void *ctx)
{
    return weft_close(((h2_end *)ctx)->fd);
}

static const weft_stream_type h2_counted = {
    .read = h2_counted_read, .writev = h2_counted_write, .close = h2_counted_close};

/* Open an end over fd, and spin its reader. Returns 0 or an error. */
static int h2_end_open(h2_end *e, int fd)
{
    e->fd = fd;
    int rc = e->is_tls ? 0 : weft_stream_open_with(&e->stream, &h2_counted, e);
    if (rc == 0)
        rc = weft_stream_configure(
            &e->stream, &(weft_stream_options){.read_bytes = 16 << 10, .write_bytes = 1});
    e->session.ctx = e;
    if (rc == 0)
        rc = weft__h2_session_open(&e->session, &e->stream, &h2_test_events, &e->options);
    if (rc < 0) {
        (void)weft_stream_close(&e->stream);
        return rc;
    }
    e->fiber = weft_spin_with(h2_end_run, e, &(weft_spin_options){.drop = h2_end_drop});
    if (e->fiber != 0)
        return 0;
    h2_end_drop(e);
    return -ENOMEM;
}

static inline nghttp2_nv h2_nv(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                        strlen(value), NGHTTP2_NV_FLAG_NONE};
}

#define H2_GET                                                                                  \
    (nghttp2_nv[]){h2_nv(":method", "GET"), h2_nv(":scheme", "http"), h2_nv(":authority", "a"), \
                   h2_nv(":path", "/")},                                                        \
        4
#define H2_POST                                                                                  \
    (nghttp2_nv[]){h2_nv(":method", "POST"), h2_nv(":scheme", "http"), h2_nv(":authority", "a"), \
                   h2_nv(":path", "/")},                                                         \
        4
#define H2_OK (nghttp2_nv[]){h2_nv(":status", "200")}, 1

/* Wait until a final head, or the end of the stream, has arrived. Returns 0 or an error. */
static inline int h2_await_head(h2_exchange *x)
{
    int rc = 0;
    while (rc == 0 && strchr(x->heads, 'R') == NULL && x->closes == 0)
        rc = weft_cond_wait(&x->has_event, NULL);
    return rc;
}

/* Read the body. Returns its length or an error. If data is not NULL, append the body to it. */
static inline ssize_t h2_read_all(h2_exchange *x, char *data)
{
    const void *piece;
    ssize_t n, sum = 0;
    while ((n = weft__h2_stream_piece(&x->st, &piece)) > 0) {
        if (data != NULL)
            memcpy(data + sum, piece, (size_t)n);
        sum += n;
    }
    return n < 0 ? n : sum;
}

/* The byte of a body at an offset. */
static inline char h2_byte_at(size_t at)
{
    return (char)('a' + at % 23 + (at >> 12) % 3);
}

static inline void h2_fill_body(char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = h2_byte_at(i);
}

/* Read a body that h2_fill_body has filled. Returns its length or an error. */
static inline ssize_t h2_check_body(h2_exchange *x)
{
    const void *piece;
    ssize_t n;
    size_t sum = 0;
    while ((n = weft__h2_stream_piece(&x->st, &piece)) > 0)
        for (ssize_t i = 0; i < n; i++, sum++)
            if (((const char *)piece)[i] != h2_byte_at(sum))
                return -EILSEQ;
    return n < 0 ? n : (ssize_t)sum;
}

#endif

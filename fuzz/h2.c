/*
 * Fuzz HTTP/2 sessions. The first byte selects the role and how the input is split:
 *
 * S  a server, which echoes bodies
 * s  the same with tight limits
 * C  a client with three requests
 * c  the same with tight limits
 *
 * Bit 4 selects a server, bit 5 tight limits. The session gets the input without
 * I/O. The owner handles the streams between two parts of the input.
 */
#include "http/h2/internal.h"
#include "require.h"

#include <weft/fiber.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define STREAMS_MAX 16

typedef struct exchange {
    weft__h2_stream st;
    bool is_used;
    bool has_head; /* the head of the peer is complete */
    bool has_replied;
    bool is_closed;
    size_t fields; /* of the head that is arriving */
} exchange;

static exchange exchanges[STREAMS_MAX];
static weft_stream no_stream;

static exchange *unused_exchange(void)
{
    for (size_t i = 0; i < STREAMS_MAX; i++)
        if (!exchanges[i].is_used) {
            exchanges[i] = (exchange){.is_used = true};
            return &exchanges[i];
        }
    return NULL;
}

static exchange *exchange_of(weft__h2_stream *st)
{
    exchange *x = CONTAINER_OF(st, exchange, st);
    REQUIRE(x->is_used && !x->is_closed && st->session != NULL);
    return x;
}

static weft__h2_stream *on_open(weft__h2_session *s, int32_t id)
{
    (void)s;
    REQUIRE(id > 0);
    exchange *x = unused_exchange();
    return x != NULL ? &x->st : NULL;
}

static int on_field(weft__h2_session *s, weft__h2_stream *st, const char *name, size_t name_bytes,
                    const char *value, size_t value_bytes)
{
    REQUIRE(strlen(name) == name_bytes && value[value_bytes] == '\0');
    exchange_of(st)->fields++;
    REQUIRE(exchange_of(st)->fields <= s->options.fields_max);
    return strcmp(name, "x-refuse") == 0 ? -EINVAL : 0;
}

static void on_head(weft__h2_session *s, weft__h2_stream *st, weft__h2_head kind)
{
    exchange *x = exchange_of(st);
    x->fields = 0;
    REQUIRE(s->is_client == (kind == WEFT__H2_RESPONSE || kind == WEFT__H2_INTERIM) ||
            kind == WEFT__H2_TRAILERS);
    REQUIRE(!s->is_client || kind == WEFT__H2_TRAILERS || (st->status >= 100 && st->status < 1000));
    x->has_head |= kind == WEFT__H2_REQUEST || kind == WEFT__H2_RESPONSE;
}

static void on_data(weft__h2_session *s, weft__h2_stream *st, size_t bytes)
{
    REQUIRE(exchange_of(st)->has_head && bytes > 0 && s->buffered_bytes >= bytes);
    REQUIRE(weft__h2_stream_available(st) <= s->options.stream_window_bytes_max);
}

static void on_close(weft__h2_session *s, weft__h2_stream *st)
{
    (void)s;
    exchange_of(st)->is_closed = true;
}

static const weft__h2_events events = {.on_open = on_open,
                                       .on_field = on_field,
                                       .on_head = on_head,
                                       .on_data = on_data,
                                       .on_close = on_close};

#define NV(name, value)                                                           \
    {                                                                             \
        (uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, sizeof name - 1, \
            sizeof value - 1, 0                                                   \
    }

static void close_exchange(exchange *x)
{
    weft__h2_stream_close(&x->st, NGHTTP2_CANCEL);
    x->is_used = false;
}

/* Read what has arrived. A server sends it back. */
static void handle(exchange *x)
{
    static const nghttp2_nv head[] = {NV(":status", "200"), NV("server", "fuzz")};
    bool is_server = x->st.session != NULL && !x->st.session->is_client;
    const void *piece;
    if (is_server && x->has_head && !x->has_replied && !x->is_closed) {
        x->has_replied = true;
        (void)weft__h2_stream_head(&x->st, head, 2, false);
    }
    while (weft__h2_stream_available(&x->st) > 0) {
        ssize_t n = weft__h2_stream_piece(&x->st, &piece);
        REQUIRE(n > 0);
        /* The length limits the copy, so that the write does not wait for a window. */
        size_t held = x->st.held.bytes - x->st.held_at;
        if (is_server && held + (size_t)n <= x->st.session->options.unsent_bytes_max)
            (void)weft__h2_stream_write(&x->st, piece, (size_t)n);
    }
    if (is_server && x->st.is_remote_ended && x->has_replied)
        (void)weft__h2_stream_end(&x->st);
    if (x->is_closed)
        close_exchange(x);
}

static void handle_all(weft__h2_session *s)
{
    size_t buffered = 0, open = 0;
    s->fill.bytes = 0; /* the output is sent */
    for (size_t i = 0; i < STREAMS_MAX; i++)
        if (exchanges[i].is_used)
            handle(&exchanges[i]);
    for (size_t i = 0; i < STREAMS_MAX; i++)
        if (exchanges[i].is_used) {
            buffered += exchanges[i].st.in_bytes + exchanges[i].st.piece_bytes;
            open += !exchanges[i].is_closed;
        }
    REQUIRE(s->buffered_bytes == buffered);
    REQUIRE(s->streams_count == open);
    s->fill.bytes = 0;
}

static void open_requests(weft__h2_session *s)
{
    static const nghttp2_nv head[] = {NV(":method", "POST"), NV(":scheme", "http"),
                                      NV(":authority", "a"), NV(":path", "/")};
    for (int i = 0; i < 3; i++) {
        exchange *x = unused_exchange();
        int rc = weft__h2_stream_open(s, &x->st, head, 4, i == 0);
        REQUIRE(rc == 0);
        if (i == 2)
            REQUIRE(weft__h2_stream_write(&x->st, "body", 4) == 4);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0 || weft_self() == 0)
        return 0;
    bool is_tight = (data[0] & 0x20) != 0, is_client = (data[0] & 0x10) == 0;
    weft__h2_options options = {.is_client = is_client};
    if (is_tight)
        options = (weft__h2_options){.is_client = is_client,
                                     .streams_max = 3,
                                     .stream_window_bytes = 10,
                                     .stream_window_bytes_max = 20,
                                     .buffered_bytes_max = 15,
                                     .head_bytes_max = 200,
                                     .fields_max = 5,
                                     .unsent_bytes_max = 8};
    weft__h2_session s = {0};
    REQUIRE(weft__h2_session_open(&s, &no_stream, &events, &options) == 0);
    if (is_client)
        open_requests(&s);
    size_t step = is_tight ? 1 + bytes % 13 : bytes;
    int rc = 1;
    for (size_t at = 1; at < bytes && rc > 0; at += step) {
        rc = weft__h2_session_feed(&s, data + at, bytes - at < step ? bytes - at : step);
        handle_all(&s);
    }
    weft__h2_session_fail(&s, -ECONNRESET);
    for (size_t i = 0; i < STREAMS_MAX; i++)
        if (exchanges[i].is_used)
            close_exchange(&exchanges[i]);
    REQUIRE(s.buffered_bytes == 0 && s.streams_count == 0);
    weft__h2_session_close(&s);
    return 0;
}

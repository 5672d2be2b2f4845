/*
 * Limits on frames that cost the server more than the client. A budget allows events at a rate. A
 * client may use the budget of BURST_S seconds at once.
 *
 * resets counts streams that the client resets, and frames that force the server to reset a stream
 * or to reject it. Such a client makes the server work without reading the replies ("rapid reset").
 *
 * control counts frames that carry neither a request nor a body: PING, SETTINGS, PRIORITY,
 * PRIORITY_UPDATE, WINDOW_UPDATE, CONTINUATION, and DATA without a byte. Requests and the bytes of
 * replies enlarge this budget, because a client may answer them with such frames.
 */
#include "http/h2/server.h"

#include <weft/time.h>

#include <math.h>

/* The number of seconds whose budget a client may use at once. */
#define BURST_S 10.0
/* Control frames that each request allows, in addition to the rate. */
#define CONTROL_PER_REQUEST 10.0
/* Bytes of replies that allow one more control frame. */
#define SENT_BYTES_PER_CONTROL 64.0
/* The frames of a head, with padding, may have this many times head_bytes_max. */
#define HEAD_FRAMES_FACTOR 16

void weft__h2_flood_start(weft__h2_server_conn *h)
{
    const weft_http_limits *l = &h->conn->server->options.limits;
    h->resets = (weft__h2_budget){.credit = BURST_S * l->resets_per_s_max};
    h->control = (weft__h2_budget){.credit = BURST_S * l->control_frames_per_s_max};
    h->checked_s = h->begun_s;
}

/* Use the credit for the events since the last call. Returns false if the credit is exhausted. */
static bool budget_spend(weft__h2_budget *b, uint64_t events, double earned, double rate)
{
    double credit = fmin(b->credit + earned, BURST_S * rate);
    b->credit = credit - (double)(events - b->events);
    b->events = events;
    return b->credit >= 0;
}

static uint64_t control_frames(const weft__h2_counts *c)
{
    return c->frames[NGHTTP2_PING] + c->frames[NGHTTP2_SETTINGS] + c->frames[NGHTTP2_PRIORITY] +
           c->frames[NGHTTP2_WINDOW_UPDATE] + c->frames[NGHTTP2_CONTINUATION] +
           c->frames[WEFT__H2_FRAMES_OTHER] + c->empty_data;
}

/* Return true if the frames of the head that is arriving are much longer than the head may be. */
static bool head_is_flood(const weft__h2_server_conn *h)
{
    size_t max = h->conn->server->options.limits.head_bytes_max;
    return h->head_begun_s > 0 &&
           (h->session.received_bytes - h->head_at) / HEAD_FRAMES_FACTOR > (uint64_t)max;
}

int weft__h2_flood_check(weft__h2_server_conn *h)
{
    const weft_http_limits *l = &h->conn->server->options.limits;
    const weft__h2_session *s = &h->session;
    const weft__h2_counts *c = &s->counts;
    uint64_t resets = c->frames[NGHTTP2_RST_STREAM] + c->bad_frames + c->refused;
    uint64_t control = control_frames(c);
    if (head_is_flood(h))
        return -EBADMSG;
    if (resets == h->resets.events && control == h->control.events)
        return 0;
    double now = weft_now(), seconds = now - h->checked_s;
    double earned = seconds * l->control_frames_per_s_max +
                    CONTROL_PER_REQUEST * (double)(c->opened - h->opened) +
                    (double)(s->sent_bytes - h->sent_bytes) / SENT_BYTES_PER_CONTROL;
    h->checked_s = now;
    h->opened = c->opened;
    h->sent_bytes = s->sent_bytes;
    bool is_calm =
        budget_spend(&h->resets, resets, seconds * l->resets_per_s_max, l->resets_per_s_max);
    is_calm &= budget_spend(&h->control, control, earned, l->control_frames_per_s_max);
    return is_calm ? 0 : -EBADMSG;
}

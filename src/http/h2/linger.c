/*
 * Streams that linger. A server has sent the whole reply, but the body of the request has not
 * ended. RST_STREAM(NO_ERROR) ends such a stream (RFC 9113, 8.1). A client that is sending may lose
 * the reply then, and frames that are on the way could not be checked. The server therefore forgets
 * the record of the stream, checks and discards the input, and sends RST_STREAM later: when the
 * window of the stream is used up, after linger_s, if too many streams linger, or before GOAWAY.
 *
 * The input opens the window of the connection again, but not the window of the stream.
 */
#include "http/h2/internal.h"

#include <weft/time.h>

#include <math.h>

/* The maximum number of streams that linger. The oldest one ends if there are more. */
#define LINGERING_MAX 50

typedef struct lingering {
    int32_t id;
    double end_s;
    weft__h2_inflow inflow;
    int64_t send_window; /* only to detect that the peer exceeds the maximum */
} lingering;

struct weft__h2_lingering {
    size_t count;
    lingering streams[LINGERING_MAX]; /* oldest first */
};

size_t weft__h2_linger_count(const weft__h2_session *s)
{
    return s->lingering != NULL ? s->lingering->count : 0;
}

/* Return the position of a stream, or the number of streams. */
static size_t lingering_index(const weft__h2_session *s, int32_t id)
{
    size_t count = weft__h2_linger_count(s), i = 0;
    while (i < count && s->lingering->streams[i].id != id)
        i++;
    return i;
}

weft__h2_inflow *weft__h2_linger_find(weft__h2_session *s, int32_t id)
{
    size_t i = lingering_index(s, id);
    return i < weft__h2_linger_count(s) ? &s->lingering->streams[i].inflow : NULL;
}

int64_t *weft__h2_linger_send_window(weft__h2_session *s, int32_t id)
{
    size_t i = lingering_index(s, id);
    return i < weft__h2_linger_count(s) ? &s->lingering->streams[i].send_window : NULL;
}

void weft__h2_linger_grow_windows(weft__h2_session *s, int64_t bytes)
{
    for (size_t i = 0; i < weft__h2_linger_count(s); i++)
        s->lingering->streams[i].inflow.window_left += bytes;
}

bool weft__h2_linger_remove(weft__h2_session *s, int32_t id)
{
    size_t i = lingering_index(s, id);
    if (i == weft__h2_linger_count(s))
        return false;
    weft__h2_lingering *l = s->lingering;
    memmove(&l->streams[i], &l->streams[i + 1], (l->count - i - 1) * sizeof l->streams[0]);
    l->count--;
    return true;
}

/* End the oldest stream. The caller calls weft__h2_output. */
static void end_oldest(weft__h2_session *s)
{
    int32_t id = s->lingering->streams[0].id;
    weft__h2_linger_remove(s, id);
    weft__h2_frame_reset(s, id, NGHTTP2_NO_ERROR);
}

int weft__h2_linger_add(weft__h2_session *s, const weft__h2_stream *st)
{
    if (s->options.linger_s <= 0 || s->is_going_away)
        return -EPERM;
    if (st->inflow.window_left <= 0)
        return -ENOBUFS;
    if (s->lingering == NULL)
        s->lingering = calloc(1, sizeof *s->lingering);
    if (s->lingering == NULL)
        return -ENOMEM;
    weft__h2_lingering *l = s->lingering;
    if (l->count == LINGERING_MAX)
        end_oldest(s);
    l->streams[l->count++] =
        (lingering){st->id, weft_now() + s->options.linger_s, st->inflow, st->send_window};
    if (l->count == 1) { /* the reader must look at weft__h2_session_linger_end_s */
        s->has_new_deadline = true;
        weft__h2_session_nudge(s);
    }
    return 0;
}

void weft__h2_linger_discard(weft__h2_session *s, int32_t id, size_t bytes)
{
    const weft__h2_inflow *flow = weft__h2_linger_find(s, id);
    weft__h2_consume_connection(s, bytes);
    if (flow == NULL || flow->window_left > 0)
        return;
    weft__h2_linger_remove(s, id);
    weft__h2_frame_reset(s, id, NGHTTP2_NO_ERROR);
}

double weft__h2_session_linger_end_s(const weft__h2_session *s)
{
    return weft__h2_linger_count(s) > 0 ? s->lingering->streams[0].end_s : INFINITY;
}

void weft__h2_session_linger_end(weft__h2_session *s, double now)
{
    if (weft__h2_linger_count(s) == 0)
        return;
    while (weft__h2_linger_count(s) > 0 && s->failure == 0 && now >= s->lingering->streams[0].end_s)
        end_oldest(s);
    weft__h2_output(s);
}

void weft__h2_linger_trim(weft__h2_session *s)
{
    if (weft__h2_linger_count(s) > 0)
        return;
    free(s->lingering);
    s->lingering = NULL;
}

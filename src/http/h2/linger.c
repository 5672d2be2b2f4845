/*
 * Streams that linger. A server has sent the whole reply, but the body of the request has not
 * ended. RST_STREAM(NO_ERROR) ends such a stream (RFC 9113, 8.1). A client that is sending may lose
 * the reply then, and nghttp2 would not check frames that are on the way. The server therefore
 * forgets the record of the stream, discards the input, and sends RST_STREAM later: when the window
 * of the stream is used up, after linger_s, if too many streams linger, or before GOAWAY.
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
} lingering;

struct weft__h2_lingering {
    size_t count;
    lingering streams[LINGERING_MAX]; /* oldest first */
};

static size_t lingering_count(const weft__h2_session *s)
{
    return s->lingering != NULL ? s->lingering->count : 0;
}

/* Return the position of a stream, or the number of streams. */
static size_t lingering_find(const weft__h2_session *s, int32_t id)
{
    size_t count = lingering_count(s), i = 0;
    while (i < count && s->lingering->streams[i].id != id)
        i++;
    return i;
}

bool weft__h2_linger_remove(weft__h2_session *s, int32_t id)
{
    size_t i = lingering_find(s, id);
    if (i == lingering_count(s))
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
    weft__h2_session_check(
        s, nghttp2_submit_rst_stream(s->ng, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR));
}

int weft__h2_linger_add(weft__h2_session *s, int32_t id)
{
    if (s->options.linger_s <= 0 || s->is_going_away)
        return -EPERM;
    if (nghttp2_session_get_stream_local_window_size(s->ng, id) <= 0)
        return -ENOBUFS;
    if (s->lingering == NULL)
        s->lingering = calloc(1, sizeof *s->lingering);
    if (s->lingering == NULL)
        return -ENOMEM;
    weft__h2_lingering *l = s->lingering;
    if (l->count == LINGERING_MAX)
        end_oldest(s);
    l->streams[l->count++] = (lingering){id, weft_now() + s->options.linger_s};
    if (l->count == 1) { /* the reader must look at weft__h2_session_linger_end_s */
        s->has_new_deadline = true;
        weft__h2_session_nudge(s);
    }
    return 0;
}

int weft__h2_linger_discard(weft__h2_session *s, int32_t id, size_t bytes)
{
    if (lingering_find(s, id) == lingering_count(s))
        return nghttp2_session_consume(s->ng, id, bytes);
    int rc = nghttp2_session_consume_connection(s->ng, bytes);
    if (rc == 0 && nghttp2_session_get_stream_local_window_size(s->ng, id) <= 0 &&
        weft__h2_linger_remove(s, id))
        rc = nghttp2_submit_rst_stream(s->ng, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
    return rc;
}

double weft__h2_session_linger_end_s(const weft__h2_session *s)
{
    return lingering_count(s) > 0 ? s->lingering->streams[0].end_s : INFINITY;
}

void weft__h2_session_linger_end(weft__h2_session *s, double now)
{
    if (lingering_count(s) == 0)
        return;
    while (lingering_count(s) > 0 && s->failure == 0 && now >= s->lingering->streams[0].end_s)
        end_oldest(s);
    weft__h2_output(s);
}

void weft__h2_linger_trim(weft__h2_session *s)
{
    if (lingering_count(s) > 0)
        return;
    free(s->lingering);
    s->lingering = NULL;
}

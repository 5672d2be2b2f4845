/* Responses, for all protocols: the body in pieces, its decompression, and its end. */
#include "http/client/fetch.h"

#include <weft/scope.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>

/*
 * Limits for reading and discarding the rest of a body. If the rest is longer or slower, the client
 * closes the connection.
 */
#define DRAIN_BYTES ((int64_t)64 << 10)
#define DRAIN_S 0.05

void weft__fetch_response_reset(weft_fetch *f)
{
    weft__h1_response_discard(&f->response, &f->head);
    weft__inflate_free(f->inflate);
    f->inflate = NULL;
    f->has_response = false;
    f->is_ended = false;
    f->in_bytes = 0;
    f->piece_bytes = 0;
}

/* Finish a complete response: release the connection. The last piece becomes invalid. */
static ssize_t response_finish(weft_fetch *f)
{
    f->state = WEFT__FETCH_DONE;
    weft__conn_pool_release(f, f->response.is_keep_alive && !f->response.ends_with_connection &&
                                   !f->wants_close);
    return 0;
}

ssize_t weft__fetch_response_next(weft_fetch *f, const char **piece)
{
    return f->codec->next(f, piece);
}

ssize_t weft__fetch_response_raw(weft_fetch *f, const char **piece)
{
    if (f->state == WEFT__FETCH_DONE)
        return 0;
    ssize_t n = weft__fetch_response_next(f, piece);
    if (n == 0)
        return response_finish(f);
    /* A cancelled read has not consumed any bytes, so the next read continues. */
    return n < 0 && n != -ECANCELED ? weft__fetch_fail(f, (int)n) : n;
}

ssize_t weft__fetch_response_piece(weft_fetch *f, const char **piece)
{
    if (f->inflate == NULL)
        return weft__fetch_response_raw(f, piece);
    for (;;) {
        ssize_t n = weft__inflate_take(f->inflate, piece);
        if (n < 0)
            return weft__fetch_fail(f, (int)n);
        if (n > 0)
            return n;
        const char *raw;
        n = weft__fetch_response_raw(f, &raw);
        if (n == 0 && !weft__inflate_is_whole(f->inflate))
            return weft__fetch_fail(f, -EBADMSG);
        if (n <= 0)
            return n;
        weft__inflate_feed(f->inflate, raw, (size_t)n);
    }
}

/* Return whether to close the connection without reading the rest of the body. */
static bool response_is_long(const weft_fetch *f)
{
    const weft__message *m = &f->response;
    return f->codec == &weft__fetch_h2 || !m->is_keep_alive || m->ends_with_connection ||
           m->length - f->in_bytes > DRAIN_BYTES;
}

bool weft__fetch_response_drain(weft_fetch *f)
{
    const int64_t in_bytes_max = f->in_bytes + DRAIN_BYTES;
    const char *piece;
    ssize_t n = response_is_long(f) || f->must_close ? -ECANCELED : 1;
    /*
     * Shield the reads. Otherwise, a deadline of the caller could cancel a read of the drain. The
     * scope of the caller would then report a cancellation that no call of the caller has returned.
     */
    WEFT_SHIELD(INFINITY)
        WEFT_MOVE_ON_AFTER(DRAIN_S)
            while (n > 0 && f->in_bytes <= in_bytes_max)
                n = weft__fetch_response_raw(f, &piece);
    return n == 0;
}

static int response_open_inflate(weft_fetch *f)
{
    const char *coding = weft_fetch_header(f, "Content-Encoding");
    if (!f->decodes_gzip || coding == NULL || f->response.is_complete ||
        (strcasecmp(coding, "gzip") != 0 && strcasecmp(coding, "x-gzip") != 0))
        return 0;
    f->inflate = weft__inflate_new();
    return f->inflate != NULL ? 0 : -ENOMEM;
}

int weft__fetch_response_await(weft_fetch *f)
{
    int rc = f->has_response ? f->response.status : f->codec->read_head(f);
    if (rc < 0)
        return rc;
    f->has_response = true;
    rc = response_open_inflate(f);
    if (rc < 0)
        return rc;
    f->state = WEFT__FETCH_READING;
    weft__fetch_trace(f, WEFT_FETCH_RESPONSE, "");
    if (f->response.is_complete && f->response.status != 101) /* the response has no body */
        response_finish(f);
    return f->response.status;
}

/* What comes back to the client: heads, the interim ones among them, and bodies piece by piece. */
#include "http/fetch.h"

#include <weft/error.h>
#include <weft/scope.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Answers with 1xx before the real one; a server that sends more has no end. */
#define INTERIM_MAX 32
/* What is left of a body is read and dropped if it is no more, and no longer away, than this. */
#define DRAIN_BYTES ((int64_t)64 << 10)
#define DRAIN_S 0.05

/*
 * Heads.
 */

/* So many bytes are there of the head: is it whole? As weft__message_head; -EMSGSIZE. */
static ssize_t parse_head(weft__message *m, const char *data, size_t bytes)
{
    size_t max = m->limits->head_bytes_max - 1; /* so it is here that too much is found out */
    ssize_t rc = weft__message_head(m, data, bytes < max ? bytes : max);
    if (rc == 0 && bytes >= max)
        return weft_fail(-EMSGSIZE, "an answer whose head has more than %zu bytes", max);
    if (rc == -EBADMSG)
        return weft_fail(-EBADMSG, "an answer that is no HTTP");
    return rc;
}

/* Wait until a head is in the stream's buffer: *data, as long as is returned. */
static ssize_t await_head(weft_stream *s, weft__message *m, const void **data, bool *has_input)
{
    for (size_t wanted = 1;;) {
        ssize_t n = weft_stream_peek(s, wanted, data);
        if (n < 0)
            return n;
        *has_input |= n > 0;
        if (n == 0)
            return -ECONNRESET; /* without words: it may be sent again */
        if ((size_t)n < wanted)
            return weft_fail(-ECONNRESET, "the server has hung up within an answer");
        ssize_t rc = parse_head(m, *data, (size_t)n);
        if (rc != 0)
            return rc;
        wanted = (size_t)n + 1;
    }
}

/* One head, whichever; it is the caller's to free. Its status; none that changes the protocol. */
static int read_head(weft_stream *s, weft__message *m, char **head, bool *has_input)
{
    const void *data;
    ssize_t bytes = await_head(s, m, &data, has_input);
    if (bytes < 0)
        return (int)bytes;
    *head = malloc((size_t)bytes + 1);
    if (*head == NULL)
        return -ENOMEM;
    memcpy(*head, data, (size_t)bytes);
    weft_stream_skip(s, (size_t)bytes);
    weft__message_settle(m, *head);
    return m->status != 101 ? m->status
                            : weft_fail(-EBADMSG, "a server that changes the protocol unasked");
}

static bool is_interim(int status)
{
    return status >= 100 && status < 200;
}

static void forget_head(weft__message *m, char **head)
{
    weft__message_reset(m);
    free(*head);
    *head = NULL;
}

int weft__answer_read(weft_stream *s, weft__message *m, char **head, bool *has_input)
{
    for (int i = 0; i < INTERIM_MAX; i++) {
        int status = read_head(s, m, head, has_input);
        if (!is_interim(status))
            return status;
        forget_head(m, head);
    }
    return weft_fail(-EBADMSG, "a server that answers %d times in between", INTERIM_MAX);
}

int weft__answer_interim(weft_fetch *f)
{
    int status = read_head(&f->conn->stream, &f->answer, &f->head, &f->has_input);
    if (status < 0)
        return status;
    f->is_answered = !is_interim(status);
    if (f->is_answered)
        return -EPIPE;
    forget_head(&f->answer, &f->head);
    return 0;
}

void weft__answer_reset(weft_fetch *f)
{
    forget_head(&f->answer, &f->head);
    weft__inflate_free(f->inflate);
    f->inflate = NULL;
    f->is_answered = false;
    f->is_ended = false;
    f->in_bytes = 0;
    f->piece_bytes = 0;
}

/*
 * Bodies.
 */

/* All of it has come. The last piece, if the caller looks at it, is there no more. */
static ssize_t finish(weft_fetch *f)
{
    f->state = WEFT__FETCH_OVER;
    weft__pool_give(f, f->answer.is_kept && !f->answer.ends_with_connection && !f->is_last);
    return 0;
}

/* The connection has ended. */
static ssize_t finish_at_end(weft_fetch *f)
{
    int rc = weft__message_end(&f->answer);
    if (rc < 0)
        return weft_fail(-ECONNRESET, "the server has hung up within an answer");
    f->answer.is_kept = false;
    return finish(f);
}

static ssize_t next_raw(weft_fetch *f, const char **piece)
{
    weft_stream *s = &f->conn->stream;
    for (size_t wanted = 0;;) {
        if (f->taken > 0)
            weft_stream_skip(s, f->taken);
        f->taken = 0;
        if (f->answer.is_complete)
            return finish(f);
        const void *data;
        ssize_t n = weft_stream_peek(s, wanted, &data);
        if (n < 0)
            return n;
        if ((size_t)n < wanted)
            return finish_at_end(f);
        size_t used = 0, bytes = 0;
        int rc = n > 0 ? weft__message_body(&f->answer, data, (size_t)n, &used, piece, &bytes) : 0;
        f->taken = used;
        if (rc != 0) {
            f->in_bytes += (int64_t)bytes;
            return rc < 0 ? rc : (ssize_t)bytes;
        }
        wanted = (size_t)n - used + 1;
    }
}

ssize_t weft__answer_raw(weft_fetch *f, const char **piece)
{
    if (f->state == WEFT__FETCH_OVER)
        return 0;
    ssize_t n = next_raw(f, piece);
    /* A cancelled read has taken nothing: the next one goes on. */
    return n < 0 && n != -ECANCELED ? weft__fetch_cut(f, (int)n) : n;
}

ssize_t weft__answer_piece(weft_fetch *f, const char **piece)
{
    if (f->inflate == NULL)
        return weft__answer_raw(f, piece);
    for (;;) {
        ssize_t n = weft__inflate_take(f->inflate, piece);
        if (n < 0)
            return weft__fetch_cut(f, (int)n);
        if (n > 0)
            return n;
        const char *raw;
        n = weft__answer_raw(f, &raw);
        if (n == 0 && !weft__inflate_is_whole(f->inflate))
            return weft__fetch_cut(f, -EBADMSG);
        if (n <= 0)
            return n;
        weft__inflate_feed(f->inflate, raw, (size_t)n);
    }
}

/* Is more on its way than is worth waiting for? */
static bool is_long(const weft_fetch *f)
{
    const weft__message *m = &f->answer;
    return !m->is_kept || m->ends_with_connection || m->length - f->in_bytes > DRAIN_BYTES;
}

bool weft__answer_drain(weft_fetch *f)
{
    const int64_t most = f->in_bytes + DRAIN_BYTES;
    const char *piece;
    ssize_t n = is_long(f) || f->is_spoiled ? -ECANCELED : 1;
    WEFT_MOVE_ON_AFTER(DRAIN_S)
        while (n > 0 && f->in_bytes <= most)
            n = weft__answer_raw(f, &piece);
    return n == 0;
}

static int open_inflate(weft_fetch *f)
{
    const char *coding = weft_fetch_header(f, "Content-Encoding");
    if (!f->takes_gzip || coding == NULL || f->answer.is_complete ||
        (strcasecmp(coding, "gzip") != 0 && strcasecmp(coding, "x-gzip") != 0))
        return 0;
    f->inflate = weft__inflate_new();
    return f->inflate != NULL ? 0 : -ENOMEM;
}

int weft__answer_head(weft_fetch *f)
{
    int rc = f->is_answered
                 ? f->answer.status
                 : weft__answer_read(&f->conn->stream, &f->answer, &f->head, &f->has_input);
    if (rc < 0)
        return rc;
    f->is_answered = true;
    rc = open_inflate(f);
    if (rc < 0)
        return rc;
    f->state = WEFT__FETCH_READING;
    if (f->answer.is_complete) /* it has no body */
        finish(f);
    return f->answer.status;
}

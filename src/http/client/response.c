/* What comes back to the client: heads, the interim ones among them, and bodies piece by piece. */
#include "http/fetch.h"

#include <weft/error.h>
#include <weft/scope.h>

#include <errno.h>
#include <math.h>
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

/* Bytes that a head may have: one less than the parser takes, so that more is noticed here. */
static size_t head_bytes_max(const weft__message *m)
{
    return m->limits->head_bytes_max - 1;
}

static int refuse_long_head(const weft__message *m)
{
    return weft_fail(-EMSGSIZE, "an answer whose head has more than %zu bytes", head_bytes_max(m));
}

/* So many bytes are there of the head: is it whole? As weft__message_head; -EMSGSIZE. */
static ssize_t parse_head(weft__message *m, const char *data, size_t bytes)
{
    size_t max = head_bytes_max(m);
    ssize_t rc = weft__message_head(m, data, bytes < max ? bytes : max);
    return rc == 0 && bytes >= max ? refuse_long_head(m) : rc;
}

/* Wait for at least so many bytes: as weft_stream_peek, but the end is an error. */
static ssize_t await_bytes(weft_stream *s, size_t wanted, const void **data, bool *has_input)
{
    ssize_t n = weft_stream_peek(s, wanted, data);
    if (n < 0)
        return n;
    *has_input |= n > 0;
    if (n == 0)
        return -ECONNRESET; /* without words: it may be sent again */
    if ((size_t)n < wanted)
        return weft_fail(-ECONNRESET, "the server has hung up within an answer");
    return n;
}

/*
 * Wait until a head is in the stream's buffer at *data, and return its length. -EBADMSG if it is
 * malformed; *bytes of it have arrived.
 */
static ssize_t await_head(weft_stream *s, weft__message *m, const void **data, size_t *bytes,
                          bool *has_input)
{
    for (*bytes = 0;;) {
        ssize_t n = await_bytes(s, *bytes + 1, data, has_input);
        if (n < 0)
            return n;
        *bytes = (size_t)n;
        ssize_t rc = parse_head(m, *data, (size_t)n);
        if (rc != 0)
            return rc;
    }
}

/* Wait until the empty line behind a head is in the stream's buffer: the head's length. */
static ssize_t await_head_end(weft_stream *s, const weft__message *m, const void **data)
{
    bool has_input = true;
    for (size_t wanted = 1;;) {
        ssize_t n = await_bytes(s, wanted, data, &has_input);
        if (n < 0)
            return n;
        size_t max = head_bytes_max(m);
        const char *end = memmem(*data, (size_t)n < max ? (size_t)n : max, "\r\n\r\n", 4);
        if (end != NULL)
            return end + 4 - (const char *)*data;
        if ((size_t)n >= max)
            return refuse_long_head(m);
        wanted = (size_t)n + 1;
    }
}

/* Parse a head that the parser has refused once more, with what can be repaired: 0 or an error. */
static int parse_repaired(weft__message *m, char *head, size_t bytes)
{
    weft__message_reset(m);
    ssize_t repaired = weft__head_repair(head, bytes);
    ssize_t rc = repaired < 0 ? repaired : weft__message_head(m, head, (size_t)repaired);
    if (rc < 0)
        return (int)rc;
    return rc == repaired ? 0 : -EBADMSG;
}

/* Take a head of so many bytes out of the stream; the caller frees it. */
static int take_head(weft_stream *s, const void *data, size_t bytes, char **head)
{
    *head = malloc(bytes + 1);
    if (*head == NULL)
        return -ENOMEM;
    memcpy(*head, data, bytes);
    weft_stream_skip(s, bytes);
    return 0;
}

/* Wait for the whole of a head that the parser has refused, and repair it: 0 or an error. */
static int take_repaired(weft_stream *s, weft__message *m, char **head)
{
    const void *data;
    ssize_t bytes = await_head_end(s, m, &data);
    int rc = bytes < 0 ? (int)bytes : take_head(s, data, (size_t)bytes, head);
    if (rc == 0)
        rc = parse_repaired(m, *head, (size_t)bytes);
    if (rc == 0)
        weft__message_settle(m, *head);
    return rc;
}

int weft__answer_take(weft_stream *s, weft__message *m, char **head, bool *has_input)
{
    const void *data;
    size_t come;
    ssize_t bytes = await_head(s, m, &data, &come, has_input);
    int rc = bytes < 0 ? (int)bytes : take_head(s, data, (size_t)bytes, head);
    if (rc == 0)
        weft__message_settle(m, *head);
    else if (rc == -EBADMSG && weft__head_is_repairable(data, come))
        rc = take_repaired(s, m, head);
    if (rc == -EBADMSG)
        return weft_fail(rc, "an answer that is not HTTP");
    return rc < 0 ? rc : m->status;
}

/* One head; the caller frees it. Its status; none that changes the protocol. */
static int read_head(weft_stream *s, weft__message *m, char **head, bool *has_input)
{
    int status = weft__answer_take(s, m, head, has_input);
    return status != 101 ? status
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
static ssize_t end_with_connection(weft_fetch *f)
{
    int rc = weft__message_end(&f->answer);
    if (rc < 0)
        return weft_fail(-ECONNRESET, "the server has hung up within an answer");
    f->answer.is_kept = false;
    return 0;
}

ssize_t weft__answer_next(weft_fetch *f, const char **piece)
{
    weft_stream *s = &f->conn->stream;
    for (size_t wanted = 0;;) {
        if (f->taken > 0)
            weft_stream_skip(s, f->taken);
        f->taken = 0;
        if (f->answer.is_complete)
            return 0;
        const void *data;
        ssize_t n = weft_stream_peek(s, wanted, &data);
        if (n < 0)
            return n;
        if ((size_t)n < wanted)
            return end_with_connection(f);
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
    ssize_t n = weft__answer_next(f, piece);
    if (n == 0)
        return finish(f);
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
    /* Shielded: a deadline of the caller that passes now has cut no call of the caller short. */
    WEFT_SHIELD(INFINITY)
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

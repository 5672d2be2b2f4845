/* Responses of HTTP/1: interim heads, the final head, then the body in pieces. */
#include "http/client/fetch.h"

#include <weft/error.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Heads.
 */

/*
 * Return the length limit of a head. The limit of the parser is 1 byte higher, so that functions of
 * this file report a long head.
 */
static size_t head_bytes_max(const weft__message *m)
{
    return m->limits->head_bytes_max - 1;
}

static int fail_long_head(const weft__message *m)
{
    return weft_fail(-EMSGSIZE, "the head of the response has more than %zu bytes",
                     head_bytes_max(m));
}

/*
 * Parse the bytes received so far. Like weft__message_head, but return -EMSGSIZE if the head is too
 * long.
 */
static ssize_t parse_head(weft__message *m, const char *data, size_t bytes)
{
    size_t max = head_bytes_max(m);
    ssize_t rc = weft__message_head(m, data, bytes < max ? bytes : max);
    return rc == 0 && bytes >= max ? fail_long_head(m) : rc;
}

/*
 * Wait for at least wanted bytes. Like weft_stream_peek, but return -ECONNRESET at the end of the
 * stream. Set *has_input if a byte has arrived.
 */
static ssize_t await_bytes(weft_stream *s, size_t wanted, const void **data, bool *has_input)
{
    ssize_t n = weft_stream_peek(s, wanted, data);
    if (n < 0)
        return n;
    *has_input |= n > 0;
    if (n == 0)
        return -ECONNRESET; /* without a message, because the client may retry the request */
    if ((size_t)n < wanted)
        return weft_fail(-ECONNRESET,
                         "the server closed the connection before the end of the response");
    return n;
}

/*
 * Wait until the buffer of the stream contains a complete head. *data points to the buffer. *bytes
 * is the number of received bytes. Return the length of the head. Return -EBADMSG if the head is
 * malformed.
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

/*
 * Wait until the buffer of the stream contains the empty line after a head. *data points to the
 * buffer. Return the length of the head, or an error.
 */
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
            return fail_long_head(m);
        wanted = (size_t)n + 1;
    }
}

/* Repair a head that the parser has rejected, and parse the head again. Return 0 or an error. */
static int parse_repaired(weft__message *m, char *head, size_t bytes)
{
    weft__message_reset(m);
    ssize_t repaired = weft__head_repair(head, bytes);
    ssize_t rc = repaired < 0 ? repaired : weft__message_head(m, head, (size_t)repaired);
    if (rc < 0)
        return (int)rc;
    return rc == repaired ? 0 : -EBADMSG;
}

/* Copy a head and remove it from the stream. The caller frees *head. Return 0 or -ENOMEM. */
static int take_head_bytes(weft_stream *s, const void *data, size_t bytes, char **head)
{
    *head = malloc(bytes + 1);
    if (*head == NULL)
        return -ENOMEM;
    memcpy(*head, data, bytes);
    weft_stream_skip(s, bytes);
    return 0;
}

/*
 * Wait for the rest of a head that the parser has rejected, and repair the head. Return 0 or an
 * error.
 */
static int take_repaired(weft_stream *s, weft__message *m, char **head)
{
    const void *data;
    ssize_t bytes = await_head_end(s, m, &data);
    int rc = bytes < 0 ? (int)bytes : take_head_bytes(s, data, (size_t)bytes, head);
    if (rc == 0)
        rc = parse_repaired(m, *head, (size_t)bytes);
    if (rc == 0)
        weft__message_nul_terminate(m, *head);
    return rc;
}

int weft__fetch_response_take_head(weft_stream *s, weft__message *m, char **head, bool *has_input)
{
    const void *data;
    size_t received;
    ssize_t bytes = await_head(s, m, &data, &received, has_input);
    int rc = bytes < 0 ? (int)bytes : take_head_bytes(s, data, (size_t)bytes, head);
    if (rc == 0)
        weft__message_nul_terminate(m, *head);
    else if (rc == -EBADMSG && weft__head_is_repairable(data, received))
        rc = take_repaired(s, m, head);
    if (rc == -EBADMSG)
        return weft_fail(rc, "the response is not HTTP/1");
    return rc < 0 ? rc : m->status;
}

/*
 * Read one head. The caller frees *head. Return the status, or an error. Return -EBADMSG for 101,
 * unless the request and the response have an Upgrade field.
 */
static int read_one_head(weft_stream *s, weft__message *m, char **head, bool *has_input)
{
    int status = weft__fetch_response_take_head(s, m, head, has_input);
    return status != 101 || (m->is_to_upgrade && m->is_upgrade)
               ? status
               : weft_fail(-EBADMSG, "the server sent 101, but request or response has no Upgrade");
}

static bool status_is_interim(int status)
{
    return status >= 100 && status < 200 && status != 101;
}

int weft__fetch_response_read_head(weft_stream *s, weft__message *m, char **head, bool *has_input)
{
    for (int i = 0; i < WEFT__FETCH_INTERIM_MAX; i++) {
        int status = read_one_head(s, m, head, has_input);
        if (!status_is_interim(status))
            return status;
        weft__h1_response_discard(m, head);
    }
    return weft_fail(-EBADMSG, "the server sent %d interim responses", WEFT__FETCH_INTERIM_MAX);
}

int weft__h1_response_interim(weft_fetch *f)
{
    int status = read_one_head(&f->conn->stream, &f->response, &f->head, &f->has_input);
    if (status < 0)
        return status;
    f->has_response = !status_is_interim(status);
    if (f->has_response)
        return -EPIPE;
    weft__h1_response_discard(&f->response, &f->head);
    return 0;
}

void weft__h1_response_discard(weft__message *m, char **head)
{
    weft__message_reset(m);
    free(*head);
    *head = NULL;
}

int weft__h1_response_await(weft_fetch *f)
{
    return weft__fetch_response_read_head(&f->conn->stream, &f->response, &f->head, &f->has_input);
}

/*
 * Bodies.
 */

/*
 * Handle the end of the connection. Return 0 if the end of the connection is the end of the body.
 * Otherwise, return -ECONNRESET.
 */
static ssize_t response_end_with_conn(weft_fetch *f)
{
    int rc = weft__message_end(&f->response);
    if (rc < 0)
        return weft_fail(-ECONNRESET,
                         "the server closed the connection before the end of the response");
    f->response.is_keep_alive = false;
    return 0;
}

ssize_t weft__h1_response_next(weft_fetch *f, const char **piece)
{
    weft_stream *s = &f->conn->stream;
    for (size_t wanted = 0;;) {
        if (f->taken > 0)
            weft_stream_skip(s, f->taken);
        f->taken = 0;
        if (f->response.is_complete)
            return 0;
        const void *data;
        ssize_t n = weft_stream_peek(s, wanted, &data);
        if (n < 0)
            return n;
        if ((size_t)n < wanted)
            return response_end_with_conn(f);
        size_t used = 0, bytes = 0;
        int rc =
            n > 0 ? weft__message_body(&f->response, data, (size_t)n, &used, piece, &bytes) : 0;
        f->taken = used;
        if (rc != 0) {
            f->in_bytes += (int64_t)bytes;
            return rc < 0 ? rc : (ssize_t)bytes;
        }
        wanted = (size_t)n - used + 1;
    }
}

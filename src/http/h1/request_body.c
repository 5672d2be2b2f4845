/* The body of a request of HTTP/1: reads at the minimum rate, and the wait for the client's end. */
#include "http/h1/conn.h"

/* If more than this number of bytes remain, the connection uses a larger read buffer. */
#define LARGE_BYTES ((uint64_t)4 << 10)

/* Return true if the rest of the body is long or has an unknown length. */
static bool body_is_large(const weft_http_request *r)
{
    return r->body_length < 0 || (uint64_t)r->body_length - r->body_bytes > LARGE_BYTES;
}

/*
 * Send 100 (Continue) if necessary. Then send buffered output and wait for input, like
 * weft_stream_peek.
 */
static ssize_t body_peek_more(weft_http_request *r)
{
    weft__h1_conn *h = weft__h1_conn_of(r);
    const void *ignored;
    int rc = weft__body_send_continue(r);
    ssize_t n = rc < 0 ? rc : weft_stream_peek(&h->conn->stream, 1, &ignored);
    /*
     * After an error, output may remain unsent. The next write must then be ready to wait. Another
     * fiber writes the output of a proxied reply, so this call has not flushed that output.
     */
    if (!r->is_proxied)
        h->unflushed = n < 0 ? WEFT__OUT_BYTES : 0;
    return n;
}

/* Wait for more bytes of the body, at the minimum rate. Returns 0 or an error. */
static int body_wait_for_more(weft_http_request *r)
{
    weft__h1_conn *h = weft__h1_conn_of(r);
    if (body_is_large(r) && !h->conn->has_large_buffer)
        weft__conn_set_buffer(h->conn, true);
    weft__min_rate_call call;
    int rc = weft__min_rate_open(&call, &r->in_rate, r->server);
    if (rc < 0)
        return rc;
    ssize_t n = body_peek_more(r);
    uint64_t bytes = n > 0 ? (uint64_t)n : 0;
    int late = weft__min_rate_close(&call, bytes);
    if (n > 0)
        return 0;
    if (n == 0)
        return weft__message_end(&h->message);
    return late < 0 ? late : (int)n;
}

/* Parse buffered input. Returns the result of weft__message_body. */
static int body_parse(weft_http_request *r, const void *data, size_t input_bytes,
                      const char **piece, size_t *bytes)
{
    weft__h1_conn *h = weft__h1_conn_of(r);
    size_t used = 0;
    int rc = weft__message_body(&h->message, data, input_bytes, &used, piece, bytes);
    /* Skipped bytes remain valid until the stream reads again. */
    (void)weft_stream_skip(&h->conn->stream, used);
    r->is_body_complete = h->message.is_complete;
    if (r->is_body_complete)
        r->request_trailers = weft__message_trailers(&h->message);
    return rc;
}

int weft__h1_read(weft_http_request *r, const char **piece, size_t *bytes)
{
    int rc = 0;
    while (rc == 0 && !r->is_body_complete) {
        const void *data;
        ssize_t n = weft_stream_peek(&r->conn->stream, 0, &data);
        if (n > 0)
            rc = body_parse(r, data, (size_t)n, piece, bytes);
        else
            rc = n < 0 ? (int)n : body_wait_for_more(r);
    }
    return rc;
}

/*
 * The server can reject malformed chunks even if the handler ignores the body. A body with a length
 * cannot be malformed.
 */
int weft__h1_discard_arrived(weft_http_request *r)
{
    while (r->body_error == 0 && r->body_length < 0 && !r->is_body_complete) {
        const void *data;
        const char *piece;
        size_t bytes;
        ssize_t n = weft_stream_peek(&r->conn->stream, 0, &data);
        if (n <= 0)
            break;
        int rc = body_parse(r, data, (size_t)n, &piece, &bytes);
        if (rc < 0)
            return weft__body_fail(r, rc);
        r->has_continued = true;
        r->body_bytes += bytes;
    }
    return 0;
}

/*
 * Input after the body is the next request. The wait then ends, because the end of the connection
 * is behind that request.
 */
int weft__h1_await_abandoned(weft_http_request *r)
{
    const void *ignored;
    ssize_t n = weft_stream_peek(&r->conn->stream, 1, &ignored);
    if (n > 0)
        return 0;
    return n == 0 ? -ECONNRESET : (int)n;
}

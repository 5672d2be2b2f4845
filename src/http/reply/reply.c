/*
 * The head and the end of a reply. This file also completes the reply after the handler has
 * returned, and maps errors of handlers to statuses.
 */
#include "http/reply/reply.h"
#include "http/text/status.h"

#include <weft/error.h>

int weft__reply_abort(weft_http_request *r, int rc)
{
    r->state = WEFT__REPLY_ABORTED;
    return rc;
}

int weft_http_begin(weft_http_request *r, int status, int64_t length)
{
    if (r->state != WEFT__REPLY_NONE)
        return -EALREADY;
    if (status < 200 || status > 999 || length < -1)
        return weft_fail(-EINVAL, "weft_http_begin: status is %d, length is %lld", status,
                         (long long)length);
    r->status = status;
    r->announced = r->length = length;
    r->is_bodiless = weft__status_has_no_body(status) || weft__request_is(r, "HEAD");
    int rc = weft__reply_encode(r);
    if (rc < 0)
        return rc;
    r->state = WEFT__REPLY_BEGUN;
    weft__min_rate_start(&r->out_rate, r->server);
    /*
     * A client that has not received 100 (Continue) may send or omit its body. The bytes that
     * follow are ambiguous.
     */
    if (r->expects_continue && !r->has_continued)
        r->is_body_abandoned = true;
    return 0;
}

/* Send the head and a body that is completely held. The length of the body is then known. */
static int send_held_body(weft_http_request *r)
{
    bool is_known = !r->is_bodiless || (r->encoding == NULL && r->written <= WEFT__OUT_BYTES);
    if (is_known)
        r->length = r->is_bodiless ? (int64_t)r->written : (int64_t)r->held_bytes;
    r->sent += r->held_bytes;
    return weft__reply_send_head(r, &(struct iovec){r->held, r->held_bytes}, r->held_bytes > 0,
                                 true);
}

static int reply_finish_body(weft_http_request *r)
{
    int rc = weft__reply_encode_end(r);
    if (rc < 0)
        return rc;
    if (r->state == WEFT__REPLY_BEGUN && r->length < 0 && r->trailers == NULL)
        return send_held_body(r);
    if (r->state == WEFT__REPLY_BEGUN || r->held_bytes > 0)
        rc = weft__reply_flush_held(r);
    return rc < 0 || r->is_bodiless ? rc : r->codec->send_end(r);
}

int weft_http_end(weft_http_request *r)
{
    if (r->state == WEFT__REPLY_NONE || r->state > WEFT__REPLY_BODY)
        return r->state == WEFT__REPLY_NONE ? -EINVAL : -EALREADY;
    if (r->failure < 0) /* even if the handler has ignored the error */
        return weft__reply_abort(r, r->failure);
    if (!r->is_bodiless && r->announced >= 0 && r->written < (uint64_t)r->announced)
        return weft__reply_abort(r, -ENODATA);
    int rc = reply_finish_body(r);
    if (rc < 0)
        return weft__reply_abort(r, rc);
    r->state = WEFT__REPLY_ENDED;
    return 0;
}

/* Return the status for an error that a handler returned, or 0 if the connection is lost. */
static int status_of_error(const weft_http_request *r, int error)
{
    bool is_body_error = error == r->body_error;
    switch (error) {
    case -ENOENT:
        return 404;
    case -EACCES:
    case -EPERM:
        return 403;
    case -EMSGSIZE:
        return 413;
    case -EBADMSG:
    case -EINVAL:
        return 400;
    case -ETIMEDOUT:
        return is_body_error ? 408 : 504;
    case -ECONNRESET:
        return is_body_error ? 0 : 500;
    case -EAGAIN:
    case -EBUSY:
    case -EMFILE:
    case -ENFILE:
    case -ENOBUFS:
    case -ENOMEM:
    case -ECANCELED:
        return 503;
    default:
        return 500;
    }
}

void weft__reply_reset(weft_http_request *r)
{
    weft__reply_encode_drop(r);
    r->state = WEFT__REPLY_NONE;
    r->is_proxied = false;
    r->fields = NULL;
    r->trailers = NULL;
    r->held_bytes = 0;
    r->written = r->sent = 0;
    r->failure = 0;
}

/*
 * Discard a reply and send the status for an error instead. No part of the reply may have been
 * sent.
 */
static void reply_with_error(weft_http_request *r, int error)
{
    int status = status_of_error(r, error);
    weft__reply_reset(r);
    if (status == 503)
        (void)weft_http_set(r, "Retry-After", "1");
    if (status == 0)
        (void)weft__reply_abort(r, error);
    else
        (void)weft_http_reply_status(r, status);
}

void weft__reply_finish(weft_http_request *r, int result)
{
    if (result >= 0 && r->state == WEFT__REPLY_NONE) /* the handler may have ignored the error */
        result = r->body_error;
    if (result < 0 && r->state <= WEFT__REPLY_BEGUN)
        reply_with_error(r, result);
    else if (r->state == WEFT__REPLY_NONE)
        (void)weft_http_reply(r, 204, NULL, NULL, 0);
    else if (r->state <= WEFT__REPLY_BODY)
        (void)(result < 0 ? weft__reply_abort(r, result) : weft_http_end(r));
    if (r->state < WEFT__REPLY_ENDED) /* sending the reply has failed */
        (void)weft__reply_abort(r, result);
    weft__reply_encode_drop(r);
}

uint64_t weft__reply_reject(const weft_http_request *rejected, int status, const char *text)
{
    /* body_error prevents reads of the request's body. */
    weft_http_request r = {.codec = rejected->codec,
                           .codec_ctx = rejected->codec_ctx,
                           .conn = rejected->conn,
                           .server = rejected->server,
                           .arena = rejected->arena,
                           .method = rejected->method,
                           .target = "",
                           .path = "",
                           .version = rejected->version,
                           .is_body_complete = rejected->is_body_complete,
                           .body_error = -EBADMSG};
    if (text != NULL)
        (void)weft_http_reply_text(&r, status, "%s", text);
    else
        (void)weft_http_reply_status(&r, status);
    return r.sent;
}

/*
 * One exchange of the reverse proxy: get a connection to the upstream server, send the head of the
 * request, forward the response. The exchange runs in the fiber of the handler, in a scope. The
 * upload fiber cancels this scope if the exchange cannot succeed.
 */
#include "http/reverse_proxy/reverse_proxy.h"

#include <weft/time.h>

#include <stdlib.h>
#include <strings.h>

/* The maximum number of interim responses (1xx) before the final response. */
#define INTERIM_MAX 32
/*
 * The duration of a wait after which the proxy starts the upload fiber. The upload fiber detects
 * that the client disconnects. Most responses arrive earlier, so most requests without a body need
 * no second fiber.
 */
#define UPLOAD_START_S 0.05
/* The time limit of the wait for the end of the upload after the response is complete. */
#define UPLOAD_END_S 0.05

int weft__exchange_fail(weft__exchange *p, int error, const char *reason)
{
    if (p->failure == 0) /* otherwise, keep the reason of the upload fiber */
        p->reason = reason;
    return error;
}

/* The connection and the head of the request. */

static int connect_in_time(weft__exchange *p, bool is_fresh)
{
    weft_scope scope;
    int rc = weft_scope_open(&scope, p->proxy->options.connect_s);
    if (rc < 0)
        return rc;
    rc = weft__conn_pool_acquire(p->f, is_fresh);
    int late = weft_scope_close(&scope);
    if (rc < 0 && late < 0)
        return weft__exchange_fail(p, late, "the connection to the upstream server timed out");
    return rc < 0 ? weft__exchange_fail(p, rc, "cannot connect to the upstream server") : 0;
}

static int write_request_head(weft__exchange *p)
{
    weft__strbuf w = {0};
    weft__reverse_proxy_request_head(&w, p);
    struct iovec head = {w.data, w.bytes};
    int rc = w.has_failed ? -ENOMEM
                          : weft__reverse_proxy_write(&p->f->conn->stream, &head, 1,
                                                      p->proxy->options.idle_s);
    free(w.data);
    return rc < 0 ? weft__exchange_fail(p, rc, "cannot send the request to the upstream server")
                  : 0;
}

static bool request_has_body(const weft__exchange *p)
{
    return weft_http_length(p->r) != 0;
}

/* Connect and send the head. If the request has a body, start the upload fiber. */
static int open_exchange(weft__exchange *p, bool is_fresh)
{
    int rc = connect_in_time(p, is_fresh);
    if (rc == 0)
        rc = write_request_head(p);
    if (rc < 0)
        return rc;
    p->f->is_unsent = false;
    p->sent_s = weft_now();
    if (!request_has_body(p) && !weft__exchange_is_sent(p))
        weft_latch_done(&p->sent_latch);
    weft_latch_done(&p->head_latch);
    return request_has_body(p) && p->upload == 0 ? weft__upload_start(p) : 0;
}

/*
 * Return whether to send the request again. A server may close an idle connection while the proxy
 * sends a request on that connection (RFC 9112, 9.3.1).
 */
static bool exchange_may_retry(const weft__exchange *p, int error)
{
    const weft_fetch *f = p->f;
    return (error == -ECONNRESET || error == -EPIPE) && f->is_reused && !f->has_input &&
           !p->has_begun_body && p->failure == 0 &&
           (f->is_unsent || weft__method_is_idempotent(weft_http_method(p->r)));
}

/*
 * The head of the response.
 */

/*
 * Return the remaining time for the first byte. The time limit starts when the proxy has sent the
 * whole request.
 */
static double first_byte_left_s(const weft__exchange *p)
{
    double limit_s = p->proxy->options.first_byte_s;
    if (!weft__exchange_is_sent(p))
        return limit_s;
    double left_s = limit_s - (weft_now() - p->sent_s);
    return left_s > 0 ? left_s : 0;
}

/*
 * Return the time limit of the next wait. If the upload fiber has not started, the limit is at most
 * UPLOAD_START_S.
 */
static double wait_limit_s(const weft__exchange *p, double limit_s)
{
    return p->upload == 0 && limit_s > UPLOAD_START_S ? UPLOAD_START_S : limit_s;
}

/*
 * Handle the timeout of a wait. If is_over, return -ETIMEDOUT. Otherwise, start the upload fiber
 * unless the fiber has started. Return 0 to wait again, or an error.
 */
static int start_upload_or_time_out(weft__exchange *p, bool is_over)
{
    if (is_over)
        return -ETIMEDOUT;
    return p->upload == 0 ? weft__upload_start(p) : 0;
}

static int exchange_take_head(weft__exchange *p)
{
    weft_fetch *f = p->f;
    for (;;) {
        weft_scope scope;
        int rc = weft_scope_open(&scope, wait_limit_s(p, first_byte_left_s(p)));
        if (rc < 0)
            return rc;
        rc =
            weft__fetch_response_take_head(&f->conn->stream, &f->response, &f->head, &f->has_input);
        int late = weft_scope_close(&scope);
        if (rc >= 0 || late == 0)
            return rc < 0 ? weft__exchange_fail(p, rc,
                                                "cannot read a response from the upstream server")
                          : rc;
        rc = start_upload_or_time_out(p, weft__exchange_is_sent(p) && first_byte_left_s(p) == 0);
        if (rc < 0)
            return weft__exchange_fail(p, rc, "the response of the upstream server timed out");
    }
}

/* Return whether to forward an interim response to the client (RFC 9110, 15.2). */
static bool interim_is_for_client(const weft__exchange *p, int status)
{
    if (weft_http_version(p->r) == 10)
        return false;
    return status != 100 || (p->r->expects_continue && !p->has_sent_continue);
}

static int forward_interim(weft__exchange *p, int status)
{
    if (!interim_is_for_client(p, status))
        return 0;
    p->has_sent_continue |= status == 100;
    int rc = weft__reverse_proxy_interim(p, status);
    return rc < 0 ? weft__exchange_fail(p, rc, "cannot send an interim response to the client") : 0;
}

/*
 * Forward interim responses. Return the status of the final response or 101. On failure, return an
 * error.
 */
static int await_response(weft__exchange *p)
{
    for (int i = 0; i < INTERIM_MAX; i++) {
        int status = exchange_take_head(p);
        if (status < 0 || status == 101 || status >= 200)
            return status;
        int rc = forward_interim(p, status);
        weft__fetch_response_reset(p->f);
        if (rc < 0)
            return rc;
    }
    return weft__exchange_fail(p, -EBADMSG, "the upstream server sent too many interim responses");
}

/*
 * The response.
 */

/* Return the length for the head of the reply. Return -1 if the length is unknown. */
static int64_t response_length(const weft_fetch *f)
{
    if (!f->response.is_to_head)
        return f->response.length;
    const char *text = weft_fetch_header(f, "Content-Length");
    return text != NULL ? strtoll(text, NULL, 10) : -1;
}

static int begin_reply(weft__exchange *p, int status)
{
    weft_http_request *r = p->r;
    /*
     * The client has not received 100 and has not sent a byte of its body. The client may or may
     * not send the body later. The connection therefore cannot be reused.
     */
    if (r->expects_continue && !p->has_sent_continue && r->body_bytes == 0)
        r->is_body_abandoned = true;
    int rc = weft__reverse_proxy_reply_fields(p);
    r->is_proxied = true;
    if (rc == 0)
        rc = weft_http_begin(r, status, response_length(p->f));
    /*
     * A reply that ends before its head is sent gets a Content-Length. A response to HEAD may lack
     * Content-Length. Flush to send the head before the end of the reply.
     */
    return rc == 0 && p->f->response.is_to_head ? weft_http_flush(r) : rc;
}

static ssize_t response_next_piece(weft__exchange *p, const char **piece)
{
    double limit_s = p->proxy->options.idle_s;
    for (;;) {
        weft_scope scope;
        double wait_s = wait_limit_s(p, limit_s);
        ssize_t n = weft_scope_open(&scope, wait_s);
        if (n < 0)
            return n;
        n = weft__fetch_response_next(p->f, piece);
        int late = weft_scope_close(&scope);
        if (n >= 0 || late == 0)
            return n < 0 ? weft__exchange_fail(p, (int)n,
                                               "the response of the upstream server ended early")
                         : n;
        int rc = start_upload_or_time_out(p, wait_s == limit_s);
        if (rc < 0)
            return weft__exchange_fail(p, rc, "the upstream server stopped sending its response");
    }
}

/* Like weft__fetch_response_next, but without waiting. Return -EAGAIN if no byte has arrived. */
static ssize_t response_try_next_piece(const weft__exchange *p, const char **piece)
{
    weft_scope scope;
    ssize_t n = weft_scope_open(&scope, 0);
    if (n < 0)
        return n;
    n = weft__fetch_response_next(p->f, piece);
    int late = weft_scope_close(&scope);
    return n < 0 && late < 0 ? -EAGAIN : n;
}

/*
 * Return the next piece. Flush the reply only before a wait. Pieces that have already arrived then
 * share a flush.
 */
static ssize_t flush_and_next_piece(weft__exchange *p, const char **piece)
{
    ssize_t n = response_try_next_piece(p, piece);
    if (n != -EAGAIN)
        return n < 0 ? weft__exchange_fail(p, (int)n,
                                           "the response of the upstream server ended early")
                     : n;
    int rc = weft_http_flush(p->r);
    return rc < 0 ? weft__exchange_fail(p, rc, "cannot send the response to the client")
                  : response_next_piece(p, piece);
}

static int forward_body(weft__exchange *p)
{
    const char *piece;
    ssize_t n;
    while ((n = flush_and_next_piece(p, &piece)) > 0) {
        ssize_t rc = weft_http_write(p->r, piece, (size_t)n);
        if (rc < 0)
            return weft__exchange_fail(p, (int)rc, "cannot send the response to the client");
    }
    return (int)n;
}

static int forward_response(weft__exchange *p, int status)
{
    int rc = begin_reply(p, status);
    if (rc < 0)
        return weft__exchange_fail(p, rc, "cannot forward the response");
    rc = forward_body(p);
    if (rc == 0)
        rc = weft__reverse_proxy_reply_trailers(p);
    return rc == 0 ? weft_http_end(p->r) : rc;
}

/*
 * Release the connection after a complete response. The connection is reusable only if the proxy
 * has sent the whole request.
 */
static void exchange_release_conn(weft__exchange *p)
{
    weft_fetch *f = p->f;
    if (p->r->is_body_complete && !weft__exchange_is_sent(p)) {
        (void)weft_http_flush(p->r);
        WEFT_MOVE_ON_AFTER(UPLOAD_END_S)
            (void)weft_latch_wait(&p->sent_latch);
    }
    bool is_sent = weft__exchange_is_sent(p);
    weft__upload_stop(p);
    weft__conn_pool_release(f, is_sent && f->response.is_keep_alive &&
                                   !f->response.ends_with_connection);
}

/*
 * Send the request. Send the request again if exchange_may_retry returns true. Return the status of
 * the response, or an error.
 */
static int exchange_heads(weft__exchange *p)
{
    for (bool is_fresh = false;; is_fresh = true) {
        int rc = open_exchange(p, is_fresh);
        if (rc == 0)
            rc = await_response(p);
        else if ((rc == -EPIPE || rc == -ECONNRESET) && p->f->conn != NULL && !p->f->is_reused)
            rc = await_response(p); /* the upstream server may have sent a response first */
        if (rc >= 0 || !exchange_may_retry(p, rc))
            return rc;
        if (weft_latch_count(&p->head_latch) == 0)
            weft_latch_add(&p->head_latch, 1);
        weft__fetch_response_reset(p->f);
        weft__conn_pool_drop(p->f);
    }
}

int weft__exchange_run(weft__exchange *p)
{
    int status = exchange_heads(p);
    if (status < 0)
        return status;
    if (status == 101)
        return weft__tunnel_run(p);
    int rc = forward_response(p, status);
    if (rc == 0)
        exchange_release_conn(p);
    return rc;
}

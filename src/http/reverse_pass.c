/*
 * One exchange of the reverse proxy: a connection to the upstream server, the request's head, its
 * answer as it comes. Runs in the handler's fiber, inside the pass's scope, which the upload fiber
 * cancels when the exchange makes no sense any more.
 */
#include "http/reverse.h"
#include "http/status.h"

#include <weft/time.h>

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* The most interim answers (1xx) that are passed on before the final one. */
#define INTERIM_MAX 32
/*
 * How long a wait may take before a fiber watches the client: most answers are faster, and need
 * neither that fiber nor its system calls.
 */
#define WATCH_AFTER_S 0.05
/* How long the upload may still take to notice that it is done, once the answer is. */
#define SETTLE_S 0.05

int weft__pass_fail(weft__pass *p, int error, const char *words)
{
    if (p->failure == 0) /* else the upload fiber has said what is wrong */
        p->words = words;
    return error;
}

/*
 * The connection and the request's head.
 */

static int connect_in_time(weft__pass *p, bool is_fresh)
{
    weft_scope scope;
    int rc = weft_scope_open(&scope, p->proxy->options.connect_s);
    if (rc < 0)
        return rc;
    rc = weft__pool_take(p->f, is_fresh);
    int late = weft_scope_close(&scope);
    if (rc < 0 && late < 0)
        return weft__pass_fail(p, late, "no connection to the upstream server in time");
    return rc < 0 ? weft__pass_fail(p, rc, "no connection to the upstream server") : 0;
}

/* Write a head to either side, and free it. */
static int write_words(const weft__pass *p, weft_stream *to, weft__words *w)
{
    struct iovec head = {w->data, w->bytes};
    int rc = w->has_failed ? -ENOMEM : weft__reverse_write(to, &head, 1, p->proxy->options.idle_s);
    free(w->data);
    return rc;
}

static int write_head(weft__pass *p)
{
    weft__words w = {0};
    weft__reverse_request(&w, p);
    int rc = write_words(p, &p->f->conn->stream, &w);
    return rc < 0 ? weft__pass_fail(p, rc, "the upstream server takes no request") : 0;
}

static bool has_body(const weft__pass *p)
{
    return weft_http_length(p->r) != 0;
}

/* Connect and send the head. Then the body may follow, if there is one. */
static int open_exchange(weft__pass *p, bool is_fresh)
{
    int rc = connect_in_time(p, is_fresh);
    if (rc == 0)
        rc = write_head(p);
    if (rc < 0)
        return rc;
    p->f->is_unsent = false;
    p->sent_s = weft_now();
    if (!has_body(p) && !weft__pass_is_sent(p))
        weft_latch_done(&p->unsent);
    weft_latch_done(&p->unopened);
    return has_body(p) && p->upload == 0 ? weft__upload_start(p) : 0;
}

/* The server has closed a connection that was kept just when it was used (RFC 9112, 9.3.1). */
static bool may_repeat(const weft__pass *p, int why)
{
    const weft_fetch *f = p->f;
    return (why == -ECONNRESET || why == -EPIPE) && f->is_reused && !f->has_input &&
           !p->has_begun && p->failure == 0 &&
           (f->is_unsent || weft__method_is_idempotent(weft_http_method(p->r)));
}

/*
 * The head of the answer.
 */

/* How long it may still take: it is not late before all of the request is sent. */
static double patience_s(const weft__pass *p)
{
    double limit_s = p->proxy->options.first_byte_s;
    if (!weft__pass_is_sent(p))
        return limit_s;
    double left_s = limit_s - (weft_now() - p->sent_s);
    return left_s > 0 ? left_s : 0;
}

/* How long to wait before a fiber watches the client: a limit, or less. */
static double unwatched_s(const weft__pass *p, double limit_s)
{
    return p->upload == 0 && limit_s > WATCH_AFTER_S ? WATCH_AFTER_S : limit_s;
}

/* The time of a wait is up: 0 if it goes on with the client watched, -ETIMEDOUT, or an error. */
static int watch_or_give_up(weft__pass *p, bool is_over)
{
    if (is_over)
        return -ETIMEDOUT;
    return p->upload == 0 ? weft__upload_start(p) : 0;
}

static int take_head(weft__pass *p)
{
    weft_fetch *f = p->f;
    for (;;) {
        weft_scope scope;
        int rc = weft_scope_open(&scope, unwatched_s(p, patience_s(p)));
        if (rc < 0)
            return rc;
        rc = weft__answer_take(&f->conn->stream, &f->answer, &f->head, &f->has_input);
        int late = weft_scope_close(&scope);
        if (rc >= 0 || late == 0)
            return rc < 0 ? weft__pass_fail(p, rc, "the upstream server gives no answer") : rc;
        rc = watch_or_give_up(p, weft__pass_is_sent(p) && patience_s(p) == 0);
        if (rc < 0)
            return weft__pass_fail(p, rc, "the upstream server gives no answer in time");
    }
}

/* Is an interim answer of any use to the client (RFC 9110, 15.2)? */
static bool is_for_client(const weft__pass *p, int status)
{
    if (weft_http_version(p->r) == 10)
        return false;
    return status != 100 || (p->r->conn->message.expects_continue && !p->is_invited);
}

static int pass_interim(weft__pass *p, int status)
{
    weft__words w = {0};
    if (!is_for_client(p, status))
        return 0;
    p->is_invited |= status == 100;
    weft__words_print(&w, "HTTP/1.1 %d %s\r\n", status, weft__status_text(status));
    weft__reverse_interim(&w, p->f);
    weft__words_print(&w, "\r\n");
    int rc = write_words(p, &p->r->conn->stream, &w);
    return rc < 0 ? weft__pass_fail(p, rc, "the client takes no interim answer") : 0;
}

/* The status of the answer, 101 too; interim ones before it are passed on. */
static int await_answer(weft__pass *p)
{
    for (int i = 0; i < INTERIM_MAX; i++) {
        int status = take_head(p);
        if (status < 0 || status == 101 || status >= 200)
            return status;
        int rc = pass_interim(p, status);
        weft__answer_reset(p->f);
        if (rc < 0)
            return rc;
    }
    return weft__pass_fail(p, -EBADMSG, "the upstream server sends interim answers without end");
}

/*
 * The answer.
 */

/* The length to announce; -1: it is not known. */
static int64_t length_of(const weft_fetch *f)
{
    if (!f->answer.is_to_head)
        return f->answer.length;
    const char *text = weft_fetch_header(f, "Content-Length");
    return text != NULL ? strtoll(text, NULL, 10) : -1;
}

static int begin_reply(weft__pass *p, int status)
{
    weft_http_request *r = p->r;
    /* A client that was not invited and has sent nothing may or may not send its body now. */
    if (r->conn->message.expects_continue && !p->is_invited && r->body_bytes == 0)
        r->conn->is_to_close = true;
    int rc = weft__reverse_fields(p);
    r->is_relayed = true;
    if (rc == 0)
        rc = weft_http_begin(r, status, length_of(p->f));
    /* A reply that ends before its head is sent gets a length, which this one does not have. */
    return rc == 0 && p->f->answer.is_to_head ? weft_http_flush(r) : rc;
}

static ssize_t next_piece(weft__pass *p, const char **piece)
{
    double limit_s = p->proxy->options.idle_s;
    for (;;) {
        weft_scope scope;
        double turn_s = unwatched_s(p, limit_s);
        ssize_t n = weft_scope_open(&scope, turn_s);
        if (n < 0)
            return n;
        n = weft__answer_next(p->f, piece);
        int late = weft_scope_close(&scope);
        if (n >= 0 || late == 0)
            return n < 0 ? weft__pass_fail(p, (int)n, "the upstream server breaks off its answer")
                         : n;
        int rc = watch_or_give_up(p, turn_s == limit_s);
        if (rc < 0)
            return weft__pass_fail(p, rc, "the upstream server does not go on with its answer");
    }
}

/* The next piece without waiting: as weft__answer_next, or -EAGAIN. */
static ssize_t next_piece_at_hand(const weft__pass *p, const char **piece)
{
    weft_scope scope;
    ssize_t n = weft_scope_open(&scope, 0);
    if (n < 0)
        return n;
    n = weft__answer_next(p->f, piece);
    int late = weft_scope_close(&scope);
    return n < 0 && late < 0 ? -EAGAIN : n;
}

/* The next piece. What was written goes out before one is waited for, and not earlier. */
static ssize_t flush_and_next_piece(weft__pass *p, const char **piece)
{
    ssize_t n = next_piece_at_hand(p, piece);
    if (n != -EAGAIN)
        return n < 0 ? weft__pass_fail(p, (int)n, "the upstream server breaks off its answer") : n;
    int rc = weft_http_flush(p->r);
    return rc < 0 ? weft__pass_fail(p, rc, "the client takes no more of the answer")
                  : next_piece(p, piece);
}

static int pass_body(weft__pass *p)
{
    const char *piece;
    ssize_t n;
    while ((n = flush_and_next_piece(p, &piece)) > 0) {
        ssize_t rc = weft_http_write(p->r, piece, (size_t)n);
        if (rc < 0)
            return weft__pass_fail(p, (int)rc, "the client takes no more of the answer");
    }
    return (int)n;
}

static int pass_answer(weft__pass *p, int status)
{
    int rc = begin_reply(p, status);
    if (rc < 0)
        return weft__pass_fail(p, rc, "the answer cannot be passed on");
    rc = pass_body(p);
    if (rc == 0)
        rc = weft__reverse_reply_trailers(p);
    return rc == 0 ? weft_http_end(p->r) : rc;
}

/* All has come, and all was sent: the connection serves the next request. */
static void keep_connection(weft__pass *p)
{
    weft_fetch *f = p->f;
    if (p->r->conn->message.is_complete && !weft__pass_is_sent(p)) {
        (void)weft_http_flush(p->r);
        WEFT_MOVE_ON_AFTER(SETTLE_S)
            (void)weft_latch_wait(&p->unsent);
    }
    bool is_sent = weft__pass_is_sent(p);
    weft__upload_stop(p);
    weft__pool_give(f, is_sent && f->answer.is_kept && !f->answer.ends_with_connection);
}

/* The status of the answer, or an error. Sends the request again if may_repeat. */
static int exchange(weft__pass *p)
{
    for (bool is_fresh = false;; is_fresh = true) {
        int rc = open_exchange(p, is_fresh);
        if (rc == 0)
            rc = await_answer(p);
        else if ((rc == -EPIPE || rc == -ECONNRESET) && p->f->conn != NULL && !p->f->is_reused)
            rc = await_answer(p); /* the answer may say why the request was refused */
        if (rc >= 0 || !may_repeat(p, rc))
            return rc;
        if (weft_latch_count(&p->unopened) == 0)
            weft_latch_add(&p->unopened, 1);
        weft__answer_reset(p->f);
        weft__pool_drop(p->f);
    }
}

int weft__pass_run(weft__pass *p)
{
    int status = exchange(p);
    if (status < 0)
        return status;
    if (status == 101)
        return weft__tunnel_run(p);
    int rc = pass_answer(p, status);
    if (rc == 0)
        keep_connection(p);
    return rc;
}

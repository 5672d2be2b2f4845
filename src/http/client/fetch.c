/*
 * The client's requests from the first word to the last: an exchange with a server, again on
 * another connection if the kept one was closed, again elsewhere if it is redirected; and what
 * callers ask about the answer.
 */
#include "http/fetch.h"

#include <weft/error.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ALL_BYTES_FIRST ((size_t)4 << 10)

int weft__fetch_cut(weft_fetch *f, int why)
{
    f->state = WEFT__FETCH_CUT;
    f->failure = why;
    weft__pool_give(f, false);
    return why;
}

/*
 * Making one.
 */

static void release(weft_fetch *f)
{
    weft__message_close(&f->answer);
    weft__inflate_free(f->inflate);
    weft__proxy_close(&f->proxy);
    if (f->url.memory != NULL)
        weft_url_close(&f->url);
    free(f->url_text);
    free(f->authorization);
    free(f->ask_memory);
    free(f->head);
    free(f->all);
    f->fetcher->open_count--;
    free(f);
}

static int set_method(weft_fetch *f)
{
    const char *method = f->ask.method;
    if (method == NULL)
        method = f->has_body ? "POST" : "GET";
    int n = snprintf(f->method, sizeof f->method, "%s", method);
    if ((size_t)n >= sizeof f->method)
        return weft_fail(-EINVAL, "a method of %d letters", n);
    f->answer.is_to_head = strcmp(f->method, "HEAD") == 0;
    return 0;
}

/* What follows from what is asked. */
static int set_up(weft_fetch *f)
{
    weft_url url;
    int rc = set_method(f);
    if (rc < 0)
        return rc;
    rc = weft_url_open(&url, f->ask.url);
    if (rc < 0)
        return rc == -EINVAL ? weft_fail(rc, "no URL: %s", f->ask.url) : rc;
    rc = weft__fetch_aim(f, &url);
    if (rc < 0) {
        weft_url_close(&url);
        return rc;
    }
    const weft_fetch_request *ask = &f->ask;
    f->is_last = weft__ask_field(ask, "Connection") != NULL;
#ifdef WEFT_HAS_GZIP
    /* A range is one of the compressed bytes, which would make no sense uncompressed. */
    f->takes_gzip = !f->fetcher->options.has_no_gzip &&
                    weft__ask_field(ask, "Accept-Encoding") == NULL &&
                    weft__ask_field(ask, "Range") == NULL;
#endif
    return f->is_streamed ? weft__ask_copy(f) : 0;
}

/* Body_length is -2 if the body is in the request. */
static int make(weft_fetcher *fetcher, const weft_fetch_request *ask, int64_t body_length,
                weft_fetch **made)
{
    *made = NULL;
    int rc = weft__ask_check(ask);
    if (rc < 0)
        return rc;
    fetcher = fetcher != NULL ? fetcher : weft__fetcher_own();
    weft_fetch *f = fetcher != NULL ? calloc(1, sizeof *f) : NULL;
    if (f == NULL)
        return -ENOMEM;
    f->fetcher = fetcher;
    f->ask = *ask;
    f->is_streamed = body_length != -2;
    f->has_body = f->is_streamed || ask->body != NULL;
    f->out_length = f->is_streamed ? body_length : (int64_t)ask->body_bytes;
    fetcher->open_count++;
    weft__message_open(&f->answer, WEFT__ANSWER, &fetcher->limits);
    rc = fetcher->is_closing ? -EBADF : set_up(f);
    if (rc < 0)
        release(f);
    else
        *made = f;
    return rc;
}

int weft__fetch_make(weft_fetcher *fetcher, const weft_fetch_request *ask, weft_fetch **made)
{
    return make(fetcher, ask, -2, made);
}

/*
 * An exchange.
 */

/* A request, sent; only its answer is missing, unless its body is still to be written. */
static int attempt(weft_fetch *f, bool is_fresh)
{
    f->is_reused = false;
    int rc = weft__pool_take(f, is_fresh);
    if (rc < 0)
        return rc;
    rc = weft__ask_send(f);
    bool is_refused = rc == -EPIPE || rc == -ECONNRESET;
    if (!is_refused || (f->is_reused && f->is_unsent))
        return rc;
    f->is_spoiled = true; /* there may be an answer that says why */
    return 0;
}

bool weft__method_is_idempotent(const char *method)
{
    static const char *const methods[] = {"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(method, methods[i]) == 0)
            return true;
    return false;
}

/* The server has closed a connection that was kept just when it was used (RFC 9112, 9.3.1). */
static bool may_repeat(const weft_fetch *f, int why)
{
    bool has_whole_body = !f->is_streamed || !f->has_body;
    return (why == -ECONNRESET || why == -EPIPE) && f->is_reused && !f->has_input &&
           (f->is_unsent || (has_whole_body && weft__method_is_idempotent(f->method)));
}

/* The status; 0 if the body is still to be written. */
static int exchange(weft_fetch *f)
{
    for (bool is_fresh = false;; is_fresh = true) {
        int rc = attempt(f, is_fresh);
        bool is_to_go_on = f->is_streamed && f->has_body;
        if (rc == 0 && !is_to_go_on)
            rc = weft__answer_head(f);
        if (rc >= 0 || !may_repeat(f, rc))
            return rc;
        weft__answer_reset(f);
        weft__pool_drop(f);
    }
}

/* The answer is there: is it the last? Its status; or it has failed, and is cut. */
static int settle(weft_fetch *f, int status)
{
    while (status >= 0) {
        int rc = weft__redirect_follow(f);
        if (rc == 0)
            return status;
        if (rc > 0) {
            weft__answer_drain(f);
            weft__pool_give(f, false); /* unless it was kept then */
            weft__answer_reset(f);
            rc = exchange(f);
        }
        status = rc;
    }
    return weft__fetch_cut(f, status);
}

/*
 * Asking.
 */

int weft_fetch_send(weft_fetcher *fetcher, const weft_fetch_request *request, weft_fetch **fetch)
{
    weft_fetch *f;
    *fetch = NULL;
    int rc = make(fetcher, request, -2, &f);
    if (rc < 0)
        return rc;
    rc = settle(f, exchange(f));
    f->ask = (weft_fetch_request){0}; /* it was the caller's */
    if (rc < 0)
        release(f);
    else
        *fetch = f;
    return rc;
}

int weft_fetch_get(weft_fetcher *fetcher, const char *url, weft_fetch **fetch)
{
    return weft_fetch_send(fetcher, &(weft_fetch_request){.url = url}, fetch);
}

int weft_fetch_post(weft_fetcher *fetcher, const char *url, const char *type, const void *body,
                    size_t bytes, weft_fetch **fetch)
{
    const weft_fetch_request request = {
        .method = "POST", .url = url, .type = type, .body = body, .body_bytes = bytes};
    return weft_fetch_send(fetcher, &request, fetch);
}

int weft_fetch_open(weft_fetcher *fetcher, const weft_fetch_request *request, int64_t body_length,
                    weft_fetch **fetch)
{
    weft_fetch *f;
    *fetch = NULL;
    if (body_length < -1 || (request != NULL && request->body != NULL))
        return weft_fail(-EINVAL, "a body of %lld bytes to be written", (long long)body_length);
    int rc = make(fetcher, request, body_length, &f);
    if (rc < 0)
        return rc;
    rc = exchange(f);
    if (rc < 0) {
        weft__pool_give(f, false);
        release(f);
        return rc;
    }
    f->state = WEFT__FETCH_SENDING;
    *fetch = f;
    return 0;
}

ssize_t weft_fetch_write(weft_fetch *f, const void *data, size_t bytes)
{
    if (f->state == WEFT__FETCH_CUT)
        return f->failure;
    if (f->state != WEFT__FETCH_SENDING || f->is_spoiled)
        return -EPIPE;
    if (f->is_ended)
        return weft_fail(-EINVAL, "a body that was ended");
    if (f->out_length >= 0 && bytes > (uint64_t)f->out_left)
        return weft_fail(-EMSGSIZE, "a body of more than the %lld bytes announced",
                         (long long)f->out_length);
    ssize_t n = weft__ask_write(f, data, bytes);
    if (n == -EPIPE)
        f->is_spoiled = true;
    else if (n < 0)
        return weft__fetch_cut(f, (int)n); /* how much has gone out is not known */
    else if (f->out_length >= 0)
        f->out_left -= n;
    return n;
}

/* Cancelled, it can be waited for again. */
int weft_fetch_wait(weft_fetch *f)
{
    if (f->state != WEFT__FETCH_SENDING)
        return f->state == WEFT__FETCH_CUT ? f->failure : f->answer.status;
    if (!f->is_spoiled && f->out_length >= 0 && f->out_left > 0)
        return weft_fail(-ENODATA, "a body that lacks %lld bytes", (long long)f->out_left);
    int rc = f->is_spoiled ? 0 : weft__ask_end(f);
    if (rc == -EPIPE || rc == -ECONNRESET) {
        f->is_spoiled = true;
        rc = 0;
    }
    if (rc == 0)
        rc = weft__answer_head(f);
    return rc == -ECANCELED ? rc : settle(f, rc);
}

/*
 * The answer.
 */

int weft_fetch_status(const weft_fetch *f)
{
    return f->state == WEFT__FETCH_READING || f->state == WEFT__FETCH_OVER ? f->answer.status : 0;
}

const char *weft_fetch_header(const weft_fetch *f, const char *name)
{
    uint32_t index = 0;
    if (f->head == NULL)
        return NULL;
    const weft__field *field = weft__message_field(&f->answer, f->head, name, &index);
    return field != NULL ? f->head + field->value.at : NULL;
}

int weft_fetch_header_at(const weft_fetch *f, size_t index, const char **name, const char **value)
{
    if (f->head == NULL || index >= f->answer.fields_count)
        return -ENOENT;
    *name = f->head + f->answer.fields[index].name.at;
    *value = f->head + f->answer.fields[index].value.at;
    return 0;
}

const char *weft_fetch_trailer(const weft_fetch *f, const char *name)
{
    return weft__message_trailer(&f->answer, name);
}

const char *weft_fetch_url(const weft_fetch *f)
{
    return f->url_text;
}

/* The answer to a HEAD tells what there would be. */
int64_t weft_fetch_length(const weft_fetch *f)
{
    if (f->inflate != NULL || weft_fetch_status(f) == 0)
        return -1;
    if (!f->answer.is_to_head)
        return f->answer.length;
    const char *text = weft_fetch_header(f, "Content-Length");
    return text != NULL ? strtoll(text, NULL, 10) : -1;
}

/* 0, or why there is nothing to read. */
static int check_read(const weft_fetch *f)
{
    if (f->state == WEFT__FETCH_CUT)
        return f->failure;
    if (f->state != WEFT__FETCH_READING && f->state != WEFT__FETCH_OVER)
        return weft_fail(-EINVAL, "an answer that was not waited for");
    return 0;
}

ssize_t weft_fetch_read_piece(weft_fetch *f, const void **data)
{
    int rc = check_read(f);
    if (rc < 0)
        return rc;
    const char *piece = f->piece;
    ssize_t n = f->piece_bytes > 0 ? (ssize_t)f->piece_bytes : weft__answer_piece(f, &piece);
    f->piece_bytes = 0;
    *data = n > 0 ? piece : "";
    return n;
}

ssize_t weft_fetch_read(weft_fetch *f, void *data, size_t bytes)
{
    int rc = check_read(f);
    if (rc < 0 || bytes == 0)
        return rc;
    if (f->piece_bytes == 0) {
        const char *piece;
        ssize_t n = weft__answer_piece(f, &piece);
        if (n <= 0)
            return n;
        f->piece = piece;
        f->piece_bytes = (size_t)n;
    }
    size_t n = bytes < f->piece_bytes ? bytes : f->piece_bytes;
    memcpy(data, f->piece, n);
    f->piece += n;
    f->piece_bytes -= n;
    return (ssize_t)n;
}

/* Room for so many bytes more, and a NUL, in f->all. */
static int make_room(weft_fetch *f, size_t bytes)
{
    size_t max = f->fetcher->options.body_bytes_max;
    if (bytes > max || f->all_bytes > max - bytes)
        return weft_fail(-EMSGSIZE, "%s: a body of more than %zu bytes", f->url_text, max);
    size_t room = f->all_room > 0 ? f->all_room : ALL_BYTES_FIRST;
    while (room - f->all_bytes <= bytes)
        room *= 2;
    if (room == f->all_room)
        return 0;
    char *all = realloc(f->all, room);
    if (all == NULL)
        return -ENOMEM;
    f->all = all;
    f->all_room = room;
    return 0;
}

/* Cancelled, the next call goes on with what has come. */
ssize_t weft_fetch_read_all(weft_fetch *f, char **data)
{
    ssize_t n;
    do {
        const void *piece;
        n = weft_fetch_read_piece(f, &piece);
        if (n < 0)
            return n;
        int rc = make_room(f, (size_t)n);
        if (rc < 0)
            return weft__fetch_cut(f, rc);
        memcpy(f->all + f->all_bytes, piece, (size_t)n);
        f->all_bytes += (size_t)n;
    } while (n > 0);
    f->all[f->all_bytes] = '\0';
    *data = f->all;
    return (ssize_t)f->all_bytes;
}

void weft_fetch_close(weft_fetch *f)
{
    if (f == NULL)
        return;
    if (f->state == WEFT__FETCH_READING)
        weft__answer_drain(f);
    weft__pool_give(f, false); /* unless it was kept then */
    release(f);
}

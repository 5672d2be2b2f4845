/*
 * A fetch: an exchange with a server, a retry if the server has closed an idle connection, and
 * further exchanges for redirects. The file also contains the public functions of a response.
 */
#include "http/client/fetch.h"

#include <weft/error.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BODY_BYTES_FIRST ((size_t)4 << 10)
/*
 * The number of times that the client sends a request that the server refuses, or that the server
 * has not processed before it has closed the connection. The latter also happens to requests that
 * wait for their turn at a server that closes connections often.
 */
#define ATTEMPTS_MAX 5
#define UNPROCESSED_MAX 100

int weft__fetch_fail(weft_fetch *f, int error)
{
    f->state = WEFT__FETCH_FAILED;
    f->failure = error;
    weft__conn_pool_release(f, false);
    return error;
}

/*
 * Creating.
 */

static void fetch_release(weft_fetch *f)
{
    weft__message_close(&f->response);
    weft__inflate_free(f->inflate);
    weft__h2_fetch_free(f);
    weft__proxy_close(&f->proxy);
    if (f->url.scheme != NULL)
        weft_url_close(&f->url);
    free(f->url_text);
    free(f->authorization);
    free(f->request_memory);
    free(f->head);
    free(f->body);
    f->fetcher->open_count--;
    free(f);
}

static int set_method(weft_fetch *f)
{
    const char *method = f->request.method;
    if (method == NULL)
        method = f->has_body ? "POST" : "GET";
    int n = snprintf(f->method, sizeof f->method, "%s", method);
    if ((size_t)n >= sizeof f->method)
        return weft_fail(-EINVAL, "weft_fetch: method has %d bytes", n);
    f->response.is_to_head = strcmp(f->method, "HEAD") == 0;
    return 0;
}

/* Set the method, the URL and the flags of a fetch from its request. */
static int fetch_set_up(weft_fetch *f)
{
    weft_url url;
    int rc = set_method(f);
    if (rc < 0)
        return rc;
    rc = weft_url_open(&url, f->request.url);
    if (rc < 0)
        return rc == -EINVAL ? weft_fail(rc, "weft_fetch: url is not a URL: %s", f->request.url)
                             : rc;
    rc = weft__fetch_set_url(f, &url);
    if (rc < 0) {
        weft_url_close(&url);
        return rc;
    }
    const weft_fetch_request *request = &f->request;
    f->wants_close = weft__fetch_request_field(request, "Connection") != NULL;
#ifdef WEFT_HAS_GZIP
    /* Range counts compressed bytes. The client cannot decompress a part of a gzip body. */
    f->decodes_gzip = !f->fetcher->options.has_no_gzip &&
                      weft__fetch_request_field(request, "Accept-Encoding") == NULL &&
                      weft__fetch_request_field(request, "Range") == NULL;
#endif
    return f->is_streamed ? weft__fetch_request_copy(f) : 0;
}

/*
 * Create a fetch. If body_length is -2, the body is in request. Otherwise, weft_fetch_write sends
 * the body. If body_length is -1, the length of the body is unknown.
 */
static int fetch_create(weft_fetcher *fetcher, const weft_fetch_request *request,
                        int64_t body_length, weft_fetch **fetch)
{
    *fetch = NULL;
    int rc = weft__fetch_request_check(request);
    if (rc < 0)
        return rc;
    fetcher = fetcher != NULL ? fetcher : weft__fetcher_of_thread();
    weft_fetch *f = fetcher != NULL ? calloc(1, sizeof *f) : NULL;
    if (f == NULL)
        return -ENOMEM;
    f->fetcher = fetcher;
    f->codec = &weft__fetch_h1;
    f->request = *request;
    f->is_streamed = body_length != -2;
    f->has_body = f->is_streamed || request->body != NULL;
    f->out_length = f->is_streamed ? body_length : (int64_t)request->body_bytes;
    fetcher->open_count++;
    weft__message_open(&f->response, WEFT__RESPONSE, &fetcher->limits);
    rc = fetcher->is_closing ? -EBADF : fetch_set_up(f);
    if (rc < 0)
        fetch_release(f);
    else
        *fetch = f;
    return rc;
}

int weft__fetch_make(weft_fetcher *fetcher, const weft_fetch_request *request, weft_fetch **fetch)
{
    return fetch_create(fetcher, request, -2, fetch);
}

/*
 * An exchange.
 */

/* Get a connection and send the request, without a streamed body. */
static int fetch_attempt(weft_fetch *f, bool is_fresh)
{
    f->is_reused = false;
    int rc = weft__conn_pool_acquire(f, is_fresh);
    if (rc < 0)
        return rc;
    rc = f->codec->send(f);
    bool is_closed = rc == -EPIPE || rc == -ECONNRESET;
    if (!is_closed || f->is_unprocessed || (f->is_reused && f->is_unsent))
        return rc;
    f->must_close = true; /* the server may have sent a response before it closed the connection */
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

/*
 * Return whether to send the request again. A server may close an idle connection while the client
 * sends a request on that connection (RFC 9112, 9.3.1). A server of HTTP/2 can report that it has
 * not processed a request (RFC 9113, 8.7).
 */
static bool fetch_may_retry(const weft_fetch *f, int error, int attempts)
{
    bool has_whole_body = !f->is_streamed || !f->has_body;
    if (error != -ECONNRESET && error != -EPIPE)
        return false;
    if (f->is_unprocessed)
        return (has_whole_body || f->is_unsent) &&
               attempts < (f->is_refused ? ATTEMPTS_MAX : UNPROCESSED_MAX);
    return f->is_reused && !f->has_input && attempts < 2 &&
           (f->is_unsent || (has_whole_body && weft__method_is_idempotent(f->method)));
}

/*
 * Run one exchange. Return the status of the response. If the body is streamed, return 0 before the
 * body.
 */
static int fetch_exchange(weft_fetch *f)
{
    for (int attempts = 1;; attempts++) {
        int rc = fetch_attempt(f, attempts > 1);
        bool has_more_body = f->is_streamed && f->has_body;
        if (rc == 0 && !has_more_body)
            rc = weft__fetch_response_await(f);
        if (rc >= 0 || !fetch_may_retry(f, rc, attempts))
            return rc;
        weft__fetch_response_reset(f);
        weft__conn_pool_drop(f);
    }
}

/* Follow redirects. Return the status of the last response. On failure, close the connection. */
static int fetch_follow_redirects(weft_fetch *f, int status)
{
    while (status >= 0) {
        int rc = weft__redirect_follow(f);
        if (rc == 0)
            return status;
        if (rc > 0) {
            weft__fetch_response_drain(f);
            weft__conn_pool_release(f, false); /* no-op after a complete drain */
            weft__fetch_response_reset(f);
            rc = fetch_exchange(f);
        }
        status = rc;
    }
    return weft__fetch_fail(f, status);
}

/*
 * Sending.
 */

int weft_fetch_send(weft_fetcher *fetcher, const weft_fetch_request *request, weft_fetch **fetch)
{
    weft_fetch *f;
    *fetch = NULL;
    int rc = fetch_create(fetcher, request, -2, &f);
    if (rc < 0)
        return rc;
    rc = fetch_follow_redirects(f, fetch_exchange(f));
    f->request = (weft_fetch_request){0}; /* the request belongs to the caller */
    if (rc < 0)
        fetch_release(f);
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
        return weft_fail(-EINVAL, "weft_fetch_open: body_length is %lld, or request has a body",
                         (long long)body_length);
    int rc = fetch_create(fetcher, request, body_length, &f);
    if (rc < 0)
        return rc;
    rc = fetch_exchange(f);
    if (rc < 0) {
        weft__conn_pool_release(f, false);
        fetch_release(f);
        return rc;
    }
    f->state = WEFT__FETCH_SENDING;
    *fetch = f;
    return 0;
}

ssize_t weft_fetch_write(weft_fetch *f, const void *data, size_t bytes)
{
    if (f->state == WEFT__FETCH_FAILED)
        return f->failure;
    if (f->state != WEFT__FETCH_SENDING || f->must_close)
        return -EPIPE;
    if (f->is_ended)
        return weft_fail(-EINVAL, "weft_fetch_write: the body has ended");
    if (f->out_length >= 0 && bytes > (uint64_t)f->out_left)
        return weft_fail(-EMSGSIZE,
                         "weft_fetch_write: the body has more than the announced %lld bytes",
                         (long long)f->out_length);
    ssize_t n = f->codec->write(f, data, bytes);
    if (n == -EPIPE)
        f->must_close = true;
    else if (n < 0)
        return weft__fetch_fail(f, (int)n); /* the number of bytes sent is unknown */
    else if (f->out_length >= 0)
        f->out_left -= n;
    return n;
}

/* After -ECANCELED, the caller may call weft_fetch_wait again. */
int weft_fetch_wait(weft_fetch *f)
{
    if (f->state != WEFT__FETCH_SENDING)
        return f->state == WEFT__FETCH_FAILED ? f->failure : f->response.status;
    if (!f->must_close && f->out_length >= 0 && f->out_left > 0)
        return weft_fail(-ENODATA, "weft_fetch_wait: the body lacks %lld bytes",
                         (long long)f->out_left);
    int rc = f->must_close ? 0 : f->codec->end(f);
    if (rc == -EPIPE || rc == -ECONNRESET) {
        f->must_close = true;
        rc = 0;
    }
    if (rc == 0)
        rc = weft__fetch_response_await(f);
    return rc == -ECANCELED ? rc : fetch_follow_redirects(f, rc);
}

/*
 * The response.
 */

int weft_fetch_status(const weft_fetch *f)
{
    return f->state == WEFT__FETCH_READING || f->state == WEFT__FETCH_DONE ? f->response.status : 0;
}

int weft_fetch_version(const weft_fetch *f)
{
    return weft_fetch_status(f) != 0 ? f->response.version : 0;
}

weft_stream *weft_fetch_tls(weft_fetch *f)
{
    weft__fetch_conn *c = f->conn != NULL ? f->conn : weft__h2_fetch_conn(f);
    return c != NULL && c->is_tls ? &c->stream : NULL;
}

const char *weft_fetch_header(const weft_fetch *f, const char *name)
{
    uint32_t index = 0;
    if (f->head == NULL)
        return NULL;
    const weft__field *field = weft__message_field(&f->response, f->head, name, &index);
    return field != NULL ? f->head + field->value.at : NULL;
}

int weft_fetch_header_at(const weft_fetch *f, size_t index, const char **name, const char **value)
{
    if (f->head == NULL || index >= f->response.fields_count)
        return -ENOENT;
    *name = f->head + f->response.fields[index].name.at;
    *value = f->head + f->response.fields[index].value.at;
    return 0;
}

const char *weft_fetch_trailer(const weft_fetch *f, const char *name)
{
    const weft__trailers trailers = weft__message_trailers(&f->response);
    return weft__trailers_find(&trailers, name);
}

const char *weft_fetch_url(const weft_fetch *f)
{
    return f->url_text;
}

/* For HEAD, return Content-Length, the length of the response to GET. */
int64_t weft_fetch_length(const weft_fetch *f)
{
    if (f->inflate != NULL || weft_fetch_status(f) == 0)
        return -1;
    if (!f->response.is_to_head)
        return f->response.length;
    const char *text = weft_fetch_header(f, "Content-Length");
    return text != NULL ? strtoll(text, NULL, 10) : -1;
}

/* Return 0 if the fetch has a response. Otherwise, return an error. */
static int fetch_check_read(const weft_fetch *f)
{
    if (f->state == WEFT__FETCH_FAILED)
        return f->failure;
    if (f->state != WEFT__FETCH_READING && f->state != WEFT__FETCH_DONE)
        return weft_fail(-EINVAL, "weft_fetch_read: call weft_fetch_wait first");
    return 0;
}

ssize_t weft_fetch_read_piece(weft_fetch *f, const void **data)
{
    int rc = fetch_check_read(f);
    if (rc < 0)
        return rc;
    const char *piece = f->piece;
    ssize_t n =
        f->piece_bytes > 0 ? (ssize_t)f->piece_bytes : weft__fetch_response_piece(f, &piece);
    f->piece_bytes = 0;
    *data = n > 0 ? piece : "";
    return n;
}

ssize_t weft_fetch_read(weft_fetch *f, void *data, size_t bytes)
{
    int rc = fetch_check_read(f);
    if (rc < 0 || bytes == 0)
        return rc;
    if (f->piece_bytes == 0) {
        const char *piece;
        ssize_t n = weft__fetch_response_piece(f, &piece);
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

/* Reserve memory in f->body for more bytes and a NUL. */
static int read_all_reserve(weft_fetch *f, size_t bytes)
{
    size_t max = f->fetcher->options.body_bytes_max;
    if (bytes > max || f->body_bytes > max - bytes)
        return weft_fail(-EMSGSIZE, "%s: the body has more than %zu bytes", f->url_text, max);
    size_t capacity = f->body_capacity > 0 ? f->body_capacity : BODY_BYTES_FIRST;
    while (capacity - f->body_bytes <= bytes)
        capacity *= 2;
    if (capacity == f->body_capacity)
        return 0;
    char *body = realloc(f->body, capacity);
    if (body == NULL)
        return -ENOMEM;
    f->body = body;
    f->body_capacity = capacity;
    return 0;
}

/* After -ECANCELED, the next call continues. */
ssize_t weft_fetch_read_all(weft_fetch *f, char **data)
{
    ssize_t n;
    do {
        const void *piece;
        n = weft_fetch_read_piece(f, &piece);
        if (n < 0)
            return n;
        int rc = read_all_reserve(f, (size_t)n);
        if (rc < 0)
            return weft__fetch_fail(f, rc);
        memcpy(f->body + f->body_bytes, piece, (size_t)n);
        f->body_bytes += (size_t)n;
    } while (n > 0);
    f->body[f->body_bytes] = '\0';
    *data = f->body;
    return (ssize_t)f->body_bytes;
}

void weft_fetch_close(weft_fetch *f)
{
    if (f == NULL)
        return;
    if (f->state == WEFT__FETCH_READING)
        weft__fetch_response_drain(f);
    weft__conn_pool_release(f, false); /* no-op after a complete drain */
    fetch_release(f);
}

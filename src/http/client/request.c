/*
 * Check a request, format the head and send the head. Send a body as a whole or in chunks. The
 * checks ensure that no text of the caller adds a line to the head.
 */
#include "http/client/fetch.h"
#include "http/text/field.h"

#include <weft/error.h>
#include <weft/io.h>
#include <weft/scope.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The number of bytes of the body between two checks for an early response. */
#define OUT_PIECE_BYTES ((size_t)16 << 10)
/*
 * The time limit of a wait for data after TLS input. The input may contain only a session ticket.
 */
#define PEEK_S 0.001
/*
 * The time limit of a wait for 100 Continue. RFC 9110, 10.1.1, advises against an indefinite wait.
 */
#define CONTINUE_S 1.0

/*
 * Checking.
 */

static bool text_is_token(const char *text)
{
    return text != NULL && weft__field_is_token(text, strlen(text));
}

bool weft__fetch_is_field_value(const char *text)
{
    return text != NULL && weft__field_is_value(text, strlen(text));
}

static bool name_is_one_of(const char *name, const char *const names[])
{
    while (*names != NULL && strcasecmp(name, *names) != 0)
        names++;
    return *names != NULL;
}

/*
 * Return whether a field is reserved for the client. Reserved fields frame messages or manage the
 * connection.
 */
static bool field_is_reserved(const weft_fetch_field *field)
{
    static const char *const names[] = {
        "Content-Length", "Transfer-Encoding", "Upgrade",          "TE",
        "Trailer",        "Keep-Alive",        "Proxy-Connection", NULL};
    return name_is_one_of(field->name, names) ||
           (strcasecmp(field->name, "Connection") == 0 && strcasecmp(field->value, "close") != 0);
}

static int check_field(const weft_fetch_field *field)
{
    if (!text_is_token(field->name))
        return weft_fail(-EINVAL, "weft_fetch: the name of a field is not a token");
    if (!weft__fetch_is_field_value(field->value))
        return weft_fail(-EINVAL, "weft_fetch: the field %s has an invalid value", field->name);
    if (field_is_reserved(field))
        return weft_fail(-EPERM, "weft_fetch: the field %s is reserved for the client",
                         field->name);
    return 0;
}

int weft__fetch_request_check(const weft_fetch_request *request)
{
    if (request == NULL || request->url == NULL)
        return weft_fail(-EINVAL, "weft_fetch: url is NULL");
    if (request->method != NULL &&
        (!text_is_token(request->method) || strcmp(request->method, "CONNECT") == 0))
        return weft_fail(-EINVAL, "weft_fetch: method is invalid: %s", request->method);
    if (request->type != NULL && !weft__fetch_is_field_value(request->type))
        return weft_fail(-EINVAL, "weft_fetch: type is invalid: %s", request->type);
    if ((request->fields == NULL && request->fields_count > 0) ||
        (request->body == NULL && request->body_bytes > 0) || request->body_bytes > INT64_MAX)
        return weft_fail(-EINVAL, "weft_fetch: fields or body is NULL, or body_bytes is too large");
    size_t hosts = 0;
    for (size_t i = 0; i < request->fields_count; i++) {
        int rc = check_field(&request->fields[i]);
        if (rc < 0)
            return rc;
        hosts += strcasecmp(request->fields[i].name, "Host") == 0;
    }
    return hosts <= 1 ? 0 : weft_fail(-EINVAL, "weft_fetch: fields has two Host fields");
}

const char *weft__fetch_request_field(const weft_fetch_request *request, const char *name)
{
    for (size_t i = 0; i < request->fields_count; i++)
        if (strcasecmp(request->fields[i].name, name) == 0)
            return request->fields[i].value;
    return NULL;
}

/* Copy a text with its NUL to *end, and advance *end. Return the copy. */
static const char *copy_text(char **end, const char *text)
{
    char *copy = *end;
    *end = stpcpy(copy, text) + 1;
    return copy;
}

int weft__fetch_request_copy(weft_fetch *f)
{
    const weft_fetch_request from = f->request;
    size_t bytes = from.fields_count * sizeof *from.fields;
    for (size_t i = 0; i < from.fields_count; i++)
        bytes += strlen(from.fields[i].name) + strlen(from.fields[i].value) + 2;
    bytes += from.type != NULL ? strlen(from.type) + 1 : 1;
    weft_fetch_field *fields = malloc(bytes);
    if (fields == NULL)
        return -ENOMEM;
    char *end = (char *)(fields + from.fields_count);
    for (size_t i = 0; i < from.fields_count; i++) {
        fields[i].name = copy_text(&end, from.fields[i].name);
        fields[i].value = copy_text(&end, from.fields[i].value);
    }
    f->request = (weft_fetch_request){.fields = fields, .fields_count = from.fields_count};
    if (from.type != NULL)
        f->request.type = copy_text(&end, from.type);
    f->request_memory = fields;
    return 0;
}

/*
 * The head.
 */

static void request_add_authority(weft__strbuf *w, const weft_url *url)
{
    weft__strbuf_add_host(w, url->host);
    if (url->port != (strcmp(url->scheme, "https") == 0 ? 443 : 80))
        weft__strbuf_printf(w, ":%d", url->port);
}

/*
 * Return whether the client sends the request to a proxy, with the URL in absolute-form. The client
 * sends a request for https through a tunnel instead.
 */
static bool uses_http_proxy(const weft_fetch *f)
{
    return f->proxy.is_used && strcmp(f->url.scheme, "http") == 0;
}

static void request_add_first_line(weft__strbuf *w, const weft_fetch *f)
{
    weft__strbuf_printf(w, "%s ", f->method);
    if (uses_http_proxy(f)) {
        weft__strbuf_printf(w, "http://");
        request_add_authority(w, &f->url);
    }
    weft__strbuf_printf(w, "%s%s%s HTTP/1.1\r\n", f->url.path, f->url.has_query ? "?" : "",
                        f->url.query);
}

static bool request_has_field(const weft_fetch *f, const char *name)
{
    return weft__fetch_request_field(&f->request, name) != NULL;
}

/*
 * Return whether to omit a field. After a redirect to another origin, omit credentials and Host.
 * After a redirect that drops the body, omit fields that describe the body. Send
 * Proxy-Authorization only to a proxy.
 */
static bool field_is_omitted(const weft_fetch *f, const char *name)
{
    static const char *const secret[] = {"Authorization", "Cookie", "Proxy-Authorization", "Host",
                                         NULL};
    static const char *const of_body[] = {"Content-Type",
                                          "Content-Encoding",
                                          "Content-Language",
                                          "Content-Location",
                                          "Digest",
                                          "Expect",
                                          NULL};
    if (f->is_cross_origin && name_is_one_of(name, secret))
        return true;
    if (!uses_http_proxy(f) && strcasecmp(name, "Proxy-Authorization") == 0)
        return true;
    return f->redirects > 0 && !f->has_body && name_is_one_of(name, of_body);
}

static void request_add_fields(weft__strbuf *w, const weft_fetch *f)
{
    for (size_t i = 0; i < f->request.fields_count; i++) {
        const weft_fetch_field *field = &f->request.fields[i];
        if (!field_is_omitted(f, field->name))
            weft__strbuf_printf(w, "%s: %s\r\n", field->name, field->value);
    }
}

/*
 * Append the fields that frame the body. POST, PUT and PATCH without a body need Content-Length: 0
 * (RFC 9110, 8.6).
 */
static void request_add_framing(weft__strbuf *w, const weft_fetch *f)
{
    if (f->has_body && f->request.type != NULL && !request_has_field(f, "Content-Type"))
        weft__strbuf_printf(w, "Content-Type: %s\r\n", f->request.type);
    if (f->has_body && f->out_length < 0)
        weft__strbuf_printf(w, "Transfer-Encoding: chunked\r\n");
    else if (f->has_body && f->out_length > 0)
        weft__strbuf_printf(w, "Content-Length: %lld\r\n", (long long)f->out_length);
    else if (strcmp(f->method, "POST") == 0 || strcmp(f->method, "PUT") == 0 ||
             strcmp(f->method, "PATCH") == 0)
        weft__strbuf_printf(w, "Content-Length: 0\r\n");
}

static void request_add_credentials(weft__strbuf *w, const weft_fetch *f)
{
    if (f->authorization != NULL && (f->is_cross_origin || !request_has_field(f, "Authorization")))
        weft__strbuf_printf(w, "Authorization: %s\r\n", f->authorization);
    if (!uses_http_proxy(f) || f->proxy.url.user[0] == '\0' ||
        request_has_field(f, "Proxy-Authorization"))
        return;
    char *basic = weft__basic_auth_new(f->proxy.url.user);
    w->has_failed |= basic == NULL;
    weft__strbuf_printf(w, "Proxy-Authorization: %s\r\n", basic != NULL ? basic : "");
    free(basic);
}

static void request_add_head(weft__strbuf *w, const weft_fetch *f)
{
    request_add_first_line(w, f);
    if (f->is_cross_origin || !request_has_field(f, "Host")) {
        weft__strbuf_printf(w, "Host: ");
        request_add_authority(w, &f->url);
        weft__strbuf_printf(w, "\r\n");
    }
    if (f->fetcher->user_agent[0] != '\0' && !request_has_field(f, "User-Agent"))
        weft__strbuf_printf(w, "User-Agent: %s\r\n", f->fetcher->user_agent);
    if (!request_has_field(f, "Accept"))
        weft__strbuf_printf(w, "Accept: */*\r\n");
    if (f->decodes_gzip)
        weft__strbuf_printf(w, "Accept-Encoding: gzip\r\n");
    request_add_credentials(w, f);
    request_add_framing(w, f);
    request_add_fields(w, f);
    weft__strbuf_printf(w, "\r\n");
}

/*
 * Sending.
 */

/*
 * Check input that arrives while the client sends the body. Return:
 *
 * - 1 if a response has arrived, the connection has ended, or a read has failed
 * - 0 for a TLS record without data
 * - -ECANCELED if the caller is cancelled
 */
static int peek_response(weft_fetch *f)
{
    const void *data;
    ssize_t n = weft_stream_peek(&f->conn->stream, 0, &data);
    if (n != 0 || !f->conn->is_tls)
        return n < 0 ? (int)n : 1;
    WEFT_MOVE_ON_AFTER(PEEK_S)
        n = weft_stream_peek(&f->conn->stream, 1, &data);
    if (n == -ECANCELED)
        return weft_is_cancelled() ? -ECANCELED : 0;
    return 1; /* the next read reports an error */
}

/*
 * Wait until the connection is writable. Return 0. Return -EPIPE if a response or the end of the
 * connection arrives first. Return another error if the wait fails.
 */
static int wait_until_writable(weft_fetch *f)
{
    for (;;) {
        struct pollfd p = {.fd = f->conn->fd, .events = POLLIN | POLLOUT};
        int events = poll(&p, 1, 0) > 0 ? p.revents : 0;
        if (events == 0)
            events = weft_wait_fd(f->conn->fd, POLLIN | POLLOUT);
        if (events < 0)
            return events;
        if ((events & ~POLLOUT) != 0) {
            int rc = peek_response(f);
            if (rc != 0)
                return rc < 0 ? rc : -EPIPE;
        }
        if ((events & POLLOUT) != 0)
            return 0;
    }
}

static ssize_t write_body_piece(weft_fetch *f, const char *data, size_t bytes)
{
    weft_stream *s = &f->conn->stream;
    if (f->out_length >= 0)
        return weft_stream_write(s, data, bytes);
    char size[24];
    int size_bytes = snprintf(size, sizeof size, "%zx\r\n", bytes);
    const struct iovec pieces[] = {
        {size, (size_t)size_bytes}, {(char *)(uintptr_t)data, bytes}, {(char *)"\r\n", 2}};
    size_t sum = (size_t)size_bytes + bytes + 2;
    ssize_t n = weft_stream_writev(s, pieces, 3);
    if (n < 0 || (size_t)n == sum)
        return n;
    return weft_is_cancelled() ? -ECANCELED
                               : -EPIPE; /* the chunk is truncated, the connection is unusable */
}

ssize_t weft__fetch_request_write(weft_fetch *f, const char *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        size_t n = bytes - done < OUT_PIECE_BYTES ? bytes - done : OUT_PIECE_BYTES;
        int rc = wait_until_writable(f);
        ssize_t written = rc < 0 ? rc : write_body_piece(f, data + done, n);
        if (written < 0)
            return written == -ECONNRESET ? -EPIPE : written;
        done += f->out_length < 0 ? n : (size_t)written;
    }
    return (ssize_t)bytes;
}

int weft__fetch_request_end(weft_fetch *f)
{
    weft_stream *s = &f->conn->stream;
    if (f->has_body && f->out_length < 0 && !f->is_ended) {
        ssize_t n = weft_stream_puts(s, "0\r\n\r\n");
        if (n < 0)
            return (int)n;
    }
    f->is_ended = true;
    return weft_stream_flush(s);
}

/*
 * If the request has "Expect: 100-continue", wait for 100 or for a final response (RFC 9110,
 * 10.1.1). The wait takes at most CONTINUE_S. Return 0 to send the body. Return -EPIPE if a final
 * response has arrived or the connection has ended. Otherwise, return an error.
 */
static int await_continue(weft_fetch *f)
{
    const char *expected = weft__fetch_request_field(&f->request, "Expect");
    if (expected == NULL || strcasecmp(expected, "100-continue") != 0)
        return 0;
    const void *data;
    ssize_t n = 0;
    WEFT_MOVE_ON_AFTER(CONTINUE_S)
        n = weft_stream_peek(&f->conn->stream, 1, &data);
    if (n == -ECANCELED)
        return weft_is_cancelled() ? (int)n : 0;
    return n <= 0 ? -EPIPE : weft__fetch_response_interim(f);
}

/* Send the body. Send a short body together with the head. */
static int request_send_body(weft_fetch *f, size_t head_bytes)
{
    const char *body = f->request.body;
    size_t bytes = f->request.body_bytes;
    if (head_bytes + bytes <= WEFT__FETCH_WRITE_BYTES &&
        weft__fetch_request_field(&f->request, "Expect") == NULL) {
        ssize_t n = weft_stream_write(&f->conn->stream, body, bytes);
        return n < 0 ? (int)n : weft_stream_flush(&f->conn->stream);
    }
    int rc = weft_stream_flush(&f->conn->stream);
    if (rc < 0)
        return rc;
    f->is_unsent = false;
    rc = await_continue(f);
    ssize_t n = rc < 0 ? rc : weft__fetch_request_write(f, body, bytes);
    return n < 0 ? (int)n : weft_stream_flush(&f->conn->stream);
}

int weft__fetch_request_send(weft_fetch *f)
{
    weft__strbuf w = {0};
    request_add_head(&w, f);
    ssize_t n = w.has_failed ? -ENOMEM : weft_stream_write(&f->conn->stream, w.data, w.bytes);
    free(w.data);
    if (n < 0)
        return (int)n;
    f->out_left = f->out_length;
    int rc = f->has_body && !f->is_streamed ? request_send_body(f, w.bytes)
                                            : weft_stream_flush(&f->conn->stream);
    if (rc < 0)
        return rc;
    f->is_unsent = false;
    return f->has_body && f->is_streamed ? await_continue(f) : 0;
}

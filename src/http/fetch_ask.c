/*
 * What the client sends: what a caller may ask for, the head of a request, its body in one piece or
 * in chunks. Nothing that a caller passes in can begin a line of its own.
 */
#include "http/fetch.h"
#include "http/field.h"

#include <weft/error.h>
#include <weft/io.h>
#include <weft/scope.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Of the body at a time: between two of these it is seen whether there is an answer already. */
#define OUT_PIECE_BYTES ((size_t)16 << 10)
/* How long TLS input that may be no answer at all (a session ticket) is looked at. */
#define LOOK_S 0.001
/* How long a server may take to say that it wants the body: RFC 9110, 10.1.1, wants no more. */
#define GO_AHEAD_S 1.0

/*
 * What may be asked.
 */

static bool is_token(const char *text)
{
    return text != NULL && weft__field_is_token(text, strlen(text));
}

bool weft__is_value(const char *text)
{
    return text != NULL && weft__field_is_value(text, strlen(text));
}

static bool is_one_of(const char *name, const char *const names[])
{
    while (*names != NULL && strcasecmp(name, *names) != 0)
        names++;
    return *names != NULL;
}

/* What frames messages and rules the connection is the client's own. */
static bool is_ours(const weft_fetch_field *field)
{
    static const char *const names[] = {
        "Content-Length", "Transfer-Encoding", "Upgrade",          "TE",
        "Trailer",        "Keep-Alive",        "Proxy-Connection", NULL};
    return is_one_of(field->name, names) ||
           (strcasecmp(field->name, "Connection") == 0 && strcasecmp(field->value, "close") != 0);
}

static int check_field(const weft_fetch_field *field)
{
    if (!is_token(field->name))
        return weft_fail(-EINVAL, "a field whose name is none");
    if (!weft__is_value(field->value))
        return weft_fail(-EINVAL, "the field %s has a value that is none", field->name);
    if (is_ours(field))
        return weft_fail(-EPERM, "the field %s is the client's own", field->name);
    return 0;
}

int weft__ask_check(const weft_fetch_request *ask)
{
    if (ask == NULL || ask->url == NULL)
        return weft_fail(-EINVAL, "a request without a URL");
    if (ask->method != NULL && (!is_token(ask->method) || strcmp(ask->method, "CONNECT") == 0))
        return weft_fail(-EINVAL, "no method for a request: %s", ask->method);
    if (ask->type != NULL && !weft__is_value(ask->type))
        return weft_fail(-EINVAL, "no type for a body: %s", ask->type);
    if ((ask->fields == NULL && ask->fields_count > 0) ||
        (ask->body == NULL && ask->body_bytes > 0) || ask->body_bytes > INT64_MAX)
        return weft_fail(-EINVAL, "a request that is not all there");
    size_t hosts = 0;
    for (size_t i = 0; i < ask->fields_count; i++) {
        int rc = check_field(&ask->fields[i]);
        if (rc < 0)
            return rc;
        hosts += strcasecmp(ask->fields[i].name, "Host") == 0;
    }
    return hosts <= 1 ? 0 : weft_fail(-EINVAL, "a request with two Host fields");
}

const char *weft__ask_field(const weft_fetch_request *ask, const char *name)
{
    for (size_t i = 0; i < ask->fields_count; i++)
        if (strcasecmp(ask->fields[i].name, name) == 0)
            return ask->fields[i].value;
    return NULL;
}

/* With its NUL; returns where it is. */
static const char *put_copy(char **at, const char *text)
{
    char *copy = *at;
    *at = stpcpy(copy, text) + 1;
    return copy;
}

int weft__ask_copy(weft_fetch *f)
{
    const weft_fetch_request from = f->ask;
    size_t bytes = from.fields_count * sizeof *from.fields;
    for (size_t i = 0; i < from.fields_count; i++)
        bytes += strlen(from.fields[i].name) + strlen(from.fields[i].value) + 2;
    bytes += from.type != NULL ? strlen(from.type) + 1 : 1;
    weft_fetch_field *fields = malloc(bytes);
    if (fields == NULL)
        return -ENOMEM;
    char *at = (char *)(fields + from.fields_count);
    for (size_t i = 0; i < from.fields_count; i++) {
        fields[i].name = put_copy(&at, from.fields[i].name);
        fields[i].value = put_copy(&at, from.fields[i].value);
    }
    f->ask = (weft_fetch_request){.fields = fields, .fields_count = from.fields_count};
    if (from.type != NULL)
        f->ask.type = put_copy(&at, from.type);
    f->ask_memory = fields;
    return 0;
}

/*
 * The head.
 */

static void add_authority(weft__words *w, const weft_url *url)
{
    weft__words_host(w, url->host);
    if (url->port != (strcmp(url->scheme, "https") == 0 ? 443 : 80))
        weft__words_print(w, ":%d", url->port);
}

/* A plain proxy is told the whole URL; who is behind a tunnel, or is asked directly, the path. */
static bool goes_by_proxy(const weft_fetch *f)
{
    return f->proxy.is_used && strcmp(f->url.scheme, "http") == 0;
}

static void add_first_line(weft__words *w, const weft_fetch *f)
{
    weft__words_print(w, "%s ", f->method);
    if (goes_by_proxy(f)) {
        weft__words_print(w, "http://");
        add_authority(w, &f->url);
    }
    weft__words_print(w, "%s%s%s HTTP/1.1\r\n", f->url.path, f->url.has_query ? "?" : "",
                      f->url.query);
}

static bool has_field(const weft_fetch *f, const char *name)
{
    return weft__ask_field(&f->ask, name) != NULL;
}

/* Secrets, and what was said of one host, are not for another; nor what was said of a body. */
static bool is_left_out(const weft_fetch *f, const char *name)
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
    if (f->is_abroad && is_one_of(name, secret))
        return true;
    if (!goes_by_proxy(f) && strcasecmp(name, "Proxy-Authorization") == 0)
        return true;
    return f->redirects > 0 && !f->has_body && is_one_of(name, of_body);
}

static void add_fields(weft__words *w, const weft_fetch *f)
{
    for (size_t i = 0; i < f->ask.fields_count; i++) {
        const weft_fetch_field *field = &f->ask.fields[i];
        if (!is_left_out(f, field->name))
            weft__words_print(w, "%s: %s\r\n", field->name, field->value);
    }
}

/* Methods that mean something by their body say so if they have none (RFC 9110, 8.6). */
static void add_framing(weft__words *w, const weft_fetch *f)
{
    if (f->has_body && f->ask.type != NULL && !has_field(f, "Content-Type"))
        weft__words_print(w, "Content-Type: %s\r\n", f->ask.type);
    if (f->has_body && f->out_length < 0)
        weft__words_print(w, "Transfer-Encoding: chunked\r\n");
    else if (f->has_body && f->out_length > 0)
        weft__words_print(w, "Content-Length: %lld\r\n", (long long)f->out_length);
    else if (strcmp(f->method, "POST") == 0 || strcmp(f->method, "PUT") == 0 ||
             strcmp(f->method, "PATCH") == 0)
        weft__words_print(w, "Content-Length: 0\r\n");
}

static void add_credentials(weft__words *w, const weft_fetch *f)
{
    if (f->authorization != NULL && (f->is_abroad || !has_field(f, "Authorization")))
        weft__words_print(w, "Authorization: %s\r\n", f->authorization);
    if (!goes_by_proxy(f) || f->proxy.url.user[0] == '\0' || has_field(f, "Proxy-Authorization"))
        return;
    char *basic = weft__words_basic(f->proxy.url.user);
    w->has_failed |= basic == NULL;
    weft__words_print(w, "Proxy-Authorization: %s\r\n", basic != NULL ? basic : "");
    free(basic);
}

static void add_head(weft__words *w, const weft_fetch *f)
{
    add_first_line(w, f);
    if (f->is_abroad || !has_field(f, "Host")) {
        weft__words_print(w, "Host: ");
        add_authority(w, &f->url);
        weft__words_print(w, "\r\n");
    }
    if (f->fetcher->user_agent[0] != '\0' && !has_field(f, "User-Agent"))
        weft__words_print(w, "User-Agent: %s\r\n", f->fetcher->user_agent);
    if (!has_field(f, "Accept"))
        weft__words_print(w, "Accept: */*\r\n");
    if (f->takes_gzip)
        weft__words_print(w, "Accept-Encoding: gzip\r\n");
    add_credentials(w, f);
    add_framing(w, f);
    add_fields(w, f);
    weft__words_print(w, "\r\n");
}

/*
 * Sending.
 */

/*
 * Input while the body is on its way is an answer, or the end. Under TLS it may be neither: the
 * stream has to look inside. 1, 0, or an error.
 */
static int look_for_answer(weft_fetch *f)
{
    const void *data;
    ssize_t n = weft_stream_peek(&f->conn->stream, 0, &data);
    if (n != 0 || !f->conn->is_tls)
        return n < 0 ? (int)n : 1;
    WEFT_MOVE_ON_AFTER(LOOK_S)
        n = weft_stream_peek(&f->conn->stream, 1, &data);
    if (n == -ECANCELED)
        return weft_is_cancelled() ? -ECANCELED : 0;
    return 1; /* also if it fails: that is for who reads */
}

/* Wait until there is room to write to. 0; -EPIPE if there is an answer, or the end. */
static int wait_for_room(weft_fetch *f)
{
    for (;;) {
        struct pollfd p = {.fd = f->conn->fd, .events = POLLIN | POLLOUT};
        int events = poll(&p, 1, 0) > 0 ? p.revents : 0;
        if (events == 0)
            events = weft_wait_fd(f->conn->fd, POLLIN | POLLOUT);
        if (events < 0)
            return events;
        if ((events & ~POLLOUT) != 0) {
            int rc = look_for_answer(f);
            if (rc != 0)
                return rc < 0 ? rc : -EPIPE;
        }
        if ((events & POLLOUT) != 0)
            return 0;
    }
}

static ssize_t write_piece(weft_fetch *f, const char *data, size_t bytes)
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
    return weft_is_cancelled() ? -ECANCELED : -EPIPE; /* half a chunk: nothing can follow */
}

ssize_t weft__ask_write(weft_fetch *f, const char *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        size_t n = bytes - done < OUT_PIECE_BYTES ? bytes - done : OUT_PIECE_BYTES;
        int rc = wait_for_room(f);
        ssize_t written = rc < 0 ? rc : write_piece(f, data + done, n);
        if (written < 0)
            return written == -ECONNRESET ? -EPIPE : written;
        done += f->out_length < 0 ? n : (size_t)written;
    }
    return (ssize_t)bytes;
}

int weft__ask_end(weft_fetch *f)
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
 * If the caller has said that he expects to be told, wait a little for that, or for an answer that
 * makes the body needless (RFC 9110, 10.1.1). 0, or -EPIPE for that.
 */
static int await_go_ahead(weft_fetch *f)
{
    const char *expected = weft__ask_field(&f->ask, "Expect");
    if (expected == NULL || strcasecmp(expected, "100-continue") != 0)
        return 0;
    const void *data;
    ssize_t n = 0;
    WEFT_MOVE_ON_AFTER(GO_AHEAD_S)
        n = weft_stream_peek(&f->conn->stream, 1, &data);
    if (n == -ECANCELED)
        return weft_is_cancelled() ? (int)n : 0;
    return n <= 0 ? -EPIPE : weft__answer_interim(f);
}

/* One that is short goes out with the head, when the answer is waited for. */
static int send_body(weft_fetch *f, size_t head_bytes)
{
    const char *body = f->ask.body;
    size_t bytes = f->ask.body_bytes;
    if (head_bytes + bytes <= WEFT__FETCH_WRITE_BYTES &&
        weft__ask_field(&f->ask, "Expect") == NULL) {
        ssize_t n = weft_stream_write(&f->conn->stream, body, bytes);
        return n < 0 ? (int)n : weft_stream_flush(&f->conn->stream);
    }
    int rc = weft_stream_flush(&f->conn->stream);
    if (rc < 0)
        return rc;
    f->is_unsent = false;
    rc = await_go_ahead(f);
    ssize_t n = rc < 0 ? rc : weft__ask_write(f, body, bytes);
    return n < 0 ? (int)n : weft_stream_flush(&f->conn->stream);
}

int weft__ask_send(weft_fetch *f)
{
    weft__words w = {0};
    add_head(&w, f);
    ssize_t n = w.has_failed ? -ENOMEM : weft_stream_write(&f->conn->stream, w.data, w.bytes);
    free(w.data);
    if (n < 0)
        return (int)n;
    f->out_left = f->out_length;
    int rc = f->has_body && !f->is_streamed ? send_body(f, w.bytes)
                                            : weft_stream_flush(&f->conn->stream);
    if (rc < 0)
        return rc;
    f->is_unsent = false;
    return f->has_body && f->is_streamed ? await_go_ahead(f) : 0;
}

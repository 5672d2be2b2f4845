/*
 * A gateway for tests of handlers. The test speaks HTTP/1.1, the server under test HTTP/2. The
 * tests of handlers therefore run with both protocols, unchanged. The gateway forwards one request
 * after another. It ends the connection if the server resets a stream.
 */
#ifndef TESTS_HTTP_H2_GATEWAY_H
#define TESTS_HTTP_H2_GATEWAY_H

#include "base/compiler.h"
#include "http/h2/session.h"
#include "http/text/status.h"
#include "support/support.h"

#include <weft/web.h>

#define GATEWAY_FIELDS_MAX 200

typedef struct gateway {
    weft_stream client, server;
    weft__h2_session session;
    weft_fiber reader;
} gateway;

/* A request of the gateway. */
typedef struct gateway_exchange {
    weft__h2_stream st;
    gateway *g;
    char *line;    /* "GET / HTTP/1.1" */
    char *request; /* the fields of the request */
    char *heads;   /* of interim responses and the response, as text */
    char *trailers;
    int status;   /* of the response; 0: not arrived */
    bool is_head; /* the request is HEAD */
    bool has_length, is_chunked, is_last;
    uint64_t left; /* bytes of the body of the request */
    weft_cond changed;
} gateway_exchange;

static inline char *gateway_append(char *text, const char *format, ...) WEFT_PRINTF(2, 3);
static inline char *gateway_append(char *text, const char *format, ...)
{
    char *more, *all;
    va_list args;
    va_start(args, format);
    ck_assert_int_ge(vasprintf(&more, format, args), 0);
    va_end(args);
    ck_assert_int_ge(asprintf(&all, "%s%s", text != NULL ? text : "", more), 0);
    free(more);
    free(text);
    return all;
}

/* Write a name as HTTP/1 servers do: Content-Type. */
static inline void gateway_title(char *name)
{
    bool is_first = true;
    if (strcmp(name, "etag") == 0)
        name[1] = 'T';
    for (; *name != '\0'; name++) {
        if (is_first && *name >= 'a' && *name <= 'z')
            *name = (char)(*name - 32);
        is_first = *name == '-';
    }
}

static inline int gateway_on_field(weft__h2_session *s, weft__h2_stream *st, const char *name,
                                   size_t name_bytes, const char *value, size_t value_bytes)
{
    gateway_exchange *x = CONTAINER_OF(st, gateway_exchange, st);
    char title[100];
    (void)s, (void)value_bytes;
    if (name[0] == ':') {
        x->heads =
            gateway_append(x->heads, "HTTP/1.1 %s %s\r\n", value, weft__status_text(atoi(value)));
        return 0;
    }
    ck_assert_uint_lt(name_bytes, sizeof title);
    snprintf(title, sizeof title, "%s", name);
    gateway_title(title);
    char **text = x->status != 0 ? &x->trailers : &x->heads;
    *text = gateway_append(*text, "%s: %s\r\n", title, value);
    x->has_length |= strcmp(name, "content-length") == 0;
    return 0;
}

static inline void gateway_on_head(weft__h2_session *s, weft__h2_stream *st, weft__h2_head kind)
{
    gateway_exchange *x = CONTAINER_OF(st, gateway_exchange, st);
    (void)s;
    if (kind == WEFT__H2_INTERIM)
        x->heads = gateway_append(x->heads, "\r\n");
    else if (kind == WEFT__H2_RESPONSE)
        x->status = st->status;
    weft_cond_broadcast(&x->changed);
}

static inline void gateway_on_close(weft__h2_session *s, weft__h2_stream *st)
{
    (void)s;
    weft_cond_broadcast(&CONTAINER_OF(st, gateway_exchange, st)->changed);
}

/* Read the lines up to an empty line. Return false at the end of the input. */
static inline bool gateway_read_lines(gateway *g, char **lines)
{
    char *line;
    size_t bytes;
    *lines = gateway_append(NULL, "%s", "");
    while (weft_stream_line(&g->client, &line, &bytes) == 1) {
        if (bytes == 0)
            return true;
        *lines = gateway_append(*lines, "%s\n", line);
    }
    return false;
}

/* Split lines "name: value" into fields. Return their number. */
static inline size_t gateway_fields(char *lines, nghttp2_nv *fields, size_t count)
{
    for (char *line = lines, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        char *value = strchr(line, ':');
        *end = '\0';
        ck_assert_ptr_nonnull(value);
        *value++ = '\0';
        value += strspn(value, " ");
        for (size_t n = strlen(value); n > 0 && value[n - 1] == ' '; n--)
            value[n - 1] = '\0';
        for (char *c = line; *c != '\0'; c++)
            *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + 32 : *c);
        ck_assert_uint_lt(count, GATEWAY_FIELDS_MAX);
        fields[count++] = (nghttp2_nv){(uint8_t *)line, (uint8_t *)value, strlen(line),
                                       strlen(value), NGHTTP2_NV_FLAG_NONE};
    }
    return count;
}

static inline nghttp2_nv gateway_nv(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                        strlen(value), NGHTTP2_NV_FLAG_NONE};
}

/* Handle a field of the request that concerns the connection. Return whether to forward it. */
static inline bool gateway_filter(gateway_exchange *x, const nghttp2_nv *f)
{
    const char *name = (const char *)f->name, *value = (const char *)f->value;
    if (strcmp(name, "content-length") == 0)
        x->left = strtoull(value, NULL, 10);
    if (strcmp(name, "transfer-encoding") == 0)
        x->is_chunked = true;
    else if (strcmp(name, "connection") == 0)
        x->is_last = strstr(value, "close") != NULL;
    else
        return strcmp(name, "host") != 0 && strcmp(name, "keep-alive") != 0;
    return false;
}

/* Send the head of the request. */
static inline int gateway_send_head(gateway_exchange *x)
{
    static __thread nghttp2_nv all[GATEWAY_FIELDS_MAX], sent[GATEWAY_FIELDS_MAX];
    char *target = strchr(x->line, ' '), *version = strrchr(x->line, ' ');
    *target++ = *version++ = '\0';
    if (strncmp(target, "http://", 7) == 0) /* the authority is that of Host */
        target += 7 + strcspn(target + 7, "/");
    x->is_head = strcmp(x->line, "HEAD") == 0;
    x->is_last = strcmp(version, "HTTP/1.0") == 0;
    size_t count = gateway_fields(x->request, all, 0), n = 4;
    sent[0] = gateway_nv(":method", x->line);
    sent[1] = gateway_nv(":scheme", "http");
    sent[2] = gateway_nv(":path", target);
    sent[3] = gateway_nv(":authority", "none");
    for (size_t i = 0; i < count; i++) {
        if (strcmp((char *)all[i].name, "host") == 0)
            sent[3] = gateway_nv(":authority", (char *)all[i].value);
        if (gateway_filter(x, &all[i]))
            sent[n++] = all[i];
    }
    return weft__h2_stream_open(&x->g->session, &x->st, sent, n, !x->is_chunked && x->left == 0);
}

static inline int gateway_copy(gateway_exchange *x, uint64_t bytes)
{
    const void *data;
    ssize_t n = 1;
    while (bytes > 0 && n > 0) {
        n = weft_stream_peek(&x->g->client, 1, &data);
        n = n > 0 && (uint64_t)n > bytes ? (ssize_t)bytes : n;
        ssize_t sent = n > 0 ? weft__h2_stream_write(&x->st, data, (size_t)n) : -ECONNRESET;
        if (sent < 0)
            return (int)sent;
        (void)weft_stream_skip(&x->g->client, (size_t)sent);
        bytes -= (uint64_t)sent;
    }
    return 0;
}

/* Forward chunks and trailers. */
static inline int gateway_copy_chunks(gateway_exchange *x)
{
    static __thread nghttp2_nv fields[GATEWAY_FIELDS_MAX];
    char *line, *lines;
    int rc;
    while ((rc = weft_stream_line(&x->g->client, &line, NULL)) == 1) {
        uint64_t bytes = strtoull(line, NULL, 16);
        if (bytes == 0)
            break;
        rc = gateway_copy(x, bytes);
        if (rc < 0 || weft_stream_line(&x->g->client, &line, NULL) != 1)
            return rc < 0 ? rc : -ECONNRESET;
    }
    if (rc != 1 || !gateway_read_lines(x->g, &lines))
        return -ECONNRESET;
    size_t count = gateway_fields(lines, fields, 0);
    rc = count > 0 ? weft__h2_stream_end_with(&x->st, fields, count) : weft__h2_stream_end(&x->st);
    free(lines);
    return rc;
}

/* Forward the body of the request. */
static inline weft_value gateway_upload(void *arg)
{
    gateway_exchange *x = arg;
    int rc = x->is_chunked ? gateway_copy_chunks(x) : gateway_copy(x, x->left);
    if (rc == 0 && !x->is_chunked)
        rc = weft__h2_stream_end(&x->st);
    if (rc == -ECONNRESET) /* the test has closed its connection, or the server the stream */
        weft__h2_stream_reset(&x->st, NGHTTP2_CANCEL);
    return 0;
}

/* Write heads that have arrived. */
static inline int gateway_write_heads(gateway_exchange *x)
{
    if (x->heads == NULL)
        return 0;
    weft_stream_puts(&x->g->client, x->heads);
    free(x->heads);
    x->heads = NULL;
    return weft_stream_flush(&x->g->client);
}

static inline int gateway_await_response(gateway_exchange *x)
{
    while (x->status == 0) {
        int rc = gateway_write_heads(x);
        if (x->st.is_closed)
            return -ECONNRESET;
        if (rc == 0)
            rc = weft_cond_wait(&x->changed, NULL);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Forward the response. Return 0 if it is complete. */
static inline int gateway_download(gateway_exchange *x)
{
    weft_stream *to = &x->g->client;
    const void *piece;
    ssize_t n = gateway_await_response(x);
    if (n < 0)
        return (int)n;
    bool has_body = !x->is_head && x->status != 204 && x->status != 304;
    bool is_chunked = has_body && !x->has_length;
    x->heads =
        gateway_append(x->heads, "%s\r\n", is_chunked ? "Transfer-Encoding: chunked\r\n" : "");
    int rc = gateway_write_heads(x);
    while (rc == 0 && (n = weft__h2_stream_piece(&x->st, &piece)) > 0) {
        if (is_chunked)
            weft_stream_printf(to, "%zx\r\n", (size_t)n);
        weft_stream_write(to, piece, (size_t)n);
        weft_stream_puts(to, is_chunked ? "\r\n" : "");
        rc = weft_stream_flush(to);
    }
    if (rc < 0)
        return rc;
    if (n == 0 && is_chunked)
        weft_stream_printf(to, "0\r\n%s\r\n", x->trailers != NULL ? x->trailers : "");
    return n < 0 ? (int)n : weft_stream_flush(to);
}

/* Forward one request. Return whether another request may follow. */
static inline bool gateway_exchange_run(gateway_exchange *x)
{
    if (!gateway_read_lines(x->g, &x->request))
        return false;
    char *end = strchr(x->request, '\n');
    if (end == NULL)
        return true; /* an empty line */
    *end = '\0';
    x->line = strdup(x->request);
    memmove(x->request, end + 1, strlen(end + 1) + 1);
    if (gateway_send_head(x) < 0)
        return false;
    weft_fiber upload = x->is_chunked || x->left > 0 ? weft_spin(gateway_upload, x) : 0;
    int rc = gateway_download(x);
    if (upload != 0) {
        if (!x->st.is_local_ended) /* the server does not want the body */
            rc = -EPIPE;
        weft_cancel(upload);
        WEFT_SHIELD(10)
            (void)weft_await(upload);
    }
    weft__h2_stream_close(&x->st, NGHTTP2_CANCEL);
    return rc == 0 && !x->is_last;
}

static inline weft_value gateway_read(void *arg)
{
    gateway *g = arg;
    while (weft__h2_session_step(&g->session) == 1)
        ;
    return 0;
}

/* Forward all requests, then close both connections. */
static inline weft_value gateway_run(void *arg)
{
    gateway *g = arg;
    g->reader = weft_spin(gateway_read, g);
    bool has_next = true;
    while (has_next && g->session.failure == 0) {
        gateway_exchange x = {.g = g};
        has_next = gateway_exchange_run(&x);
        free(x.line);
        free(x.request);
        free(x.heads);
        free(x.trailers);
    }
    (void)weft_stream_close(&g->client);
    weft_cancel(g->reader);
    WEFT_SHIELD(10)
        (void)weft_await(g->reader);
    weft__h2_session_close(&g->session);
    (void)weft_stream_close(&g->server);
    free(g);
    return 0;
}

/* Spin a gateway between a descriptor of HTTP/1 and one of HTTP/2. It owns both. */
static inline void gateway_open(int client_fd, int server_fd)
{
    static const weft__h2_events events = {
        .on_field = gateway_on_field, .on_head = gateway_on_head, .on_close = gateway_on_close};
    gateway *g = calloc(1, sizeof *g);
    ck_assert_ptr_nonnull(g);
    g->session.ctx = g;
    ck_assert_int_eq(weft_stream_open(&g->client, client_fd), 0);
    ck_assert_int_eq(weft_stream_open(&g->server, server_fd), 0);
    ck_assert_int_eq(weft_stream_configure(&g->server, &(weft_stream_options){.write_bytes = 1}),
                     0);
    ck_assert_int_eq(weft__h2_session_open(&g->session, &g->server, &events,
                                           &(weft__h2_options){.is_client = true}),
                     0);
    ck_assert_uint_ne(weft_spin(gateway_run, g), 0);
}

/* Replace a descriptor of HTTP/1 by one behind a gateway. */
static inline int gateway_before(int server_fd)
{
    int pair[2];
    ck_assert_int_eq(weft_socketpair(pair), 0);
    gateway_open(pair[1], server_fd);
    return pair[0];
}

#endif

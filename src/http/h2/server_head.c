/*
 * The head of a request of HTTP/2. The session has checked the syntax of the fields, the presence
 * and order of pseudo fields, and Content-Length. This file stores the fields as text with offsets,
 * and makes the checks that depend on the server.
 *
 * A handler sees the request as if it had arrived by HTTP/1.1: the authority is the Host header,
 * several Cookie headers are one, and an extended CONNECT (RFC 8441) is a GET with an Upgrade
 * header.
 */
#include "http/h1/internal.h"
#include "http/h2/server.h"
#include "http/text/ctype.h"
#include "http/text/field.h"
#include "http/url/host.h"

/* The first capacities. The head of a browser's request fits in them. */
#define TEXT_CAPACITY_FIRST ((size_t)704)
#define FIELDS_CAPACITY_FIRST 24
#define TRAILERS_CAPACITY_FIRST ((size_t)256)

/*
 * Provide space for further bytes in a buffer in the arena. The buffer may move. Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
static int text_reserve(weft__h2_request *q, char **buffer, size_t count, size_t *capacity,
                        size_t first, size_t bytes)
{
    if (LIKELY(count + bytes <= *capacity))
        return 0;
    size_t larger = *capacity == 0 ? first : *capacity;
    while (larger < count + bytes)
        larger *= 2;
    char *memory = weft__arena_resize(&q->arena, *buffer, count, larger);
    if (memory == NULL)
        return -ENOMEM;
    *buffer = memory;
    *capacity = larger;
    return 0;
}

/* Append text and a NUL. The buffer has the space. */
static inline void text_append(char *buffer, size_t *count, const char *text, size_t bytes)
{
    memcpy(buffer + *count, text, bytes);
    buffer[*count + bytes] = '\0';
    *count += bytes + 1;
}

static int head_reserve(weft__h2_request *q, size_t bytes)
{
    return text_reserve(q, &q->text, q->text_bytes, &q->text_capacity, TEXT_CAPACITY_FIRST, bytes);
}

/* Append a string to the text of the head, which has the space. */
static inline weft__head_span head_append(weft__h2_request *q, const char *text, size_t bytes)
{
    weft__head_span span = {(uint32_t)q->text_bytes, (uint32_t)bytes};
    text_append(q->text, &q->text_bytes, text, bytes);
    return span;
}

/* Store the value of a pseudo field. */
static int head_add_value(weft__h2_request *q, const char *value, size_t bytes,
                          weft__head_span *stored)
{
    int rc = head_reserve(q, bytes + 1);
    if (rc == 0)
        *stored = head_append(q, value, bytes);
    return rc;
}

static int fields_grow(weft__h2_request *q)
{
    uint32_t capacity = q->fields_capacity == 0 ? FIELDS_CAPACITY_FIRST : 2 * q->fields_capacity;
    weft__field *fields = weft__arena_resize(
        &q->arena, q->fields, q->fields_capacity * sizeof *fields, capacity * sizeof *fields);
    if (fields == NULL)
        return -ENOMEM;
    q->fields = fields;
    q->fields_capacity = capacity;
    return 0;
}

static int head_add_field(weft__h2_request *q, const char *name, size_t name_bytes,
                          const char *value, size_t value_bytes, weft__head_span *stored)
{
    int rc = head_reserve(q, name_bytes + value_bytes + 2);
    if (rc == 0 && q->fields_count == q->fields_capacity)
        rc = fields_grow(q);
    if (rc < 0)
        return rc;
    weft__field *f = &q->fields[q->fields_count++];
    f->name = head_append(q, name, name_bytes);
    f->value = head_append(q, value, value_bytes);
    if (stored != NULL)
        *stored = f->value;
    return 0;
}

static bool is_name(const char *name, size_t bytes, const char *expected)
{
    return bytes == strlen(expected) && memcmp(name, expected, bytes) == 0;
}

/*
 * Check the scheme. A proxy that ends TLS forwards https without TLS, so that the scheme need not
 * be that of the connection (RFC 9110, 7.4).
 */
static void check_scheme(weft__h2_request *q, const char *value, size_t bytes)
{
    q->has_bad_scheme = (bytes != 4 && bytes != 5) || !weft__ctype_match(value, "https", bytes);
}

static int add_pseudo_field(weft__h2_request *q, const char *name, const char *value,
                            size_t value_bytes)
{
    switch (name[2]) { /* the session accepts no other names */
    case 'e':          /* :method */
        return head_add_value(q, value, value_bytes, &q->method);
    case 'a': /* :path */
        return head_add_value(q, value, value_bytes, &q->path);
    case 'u': /* :authority */
        return head_add_field(q, "host", 4, value, value_bytes, &q->authority);
    case 'r': /* :protocol */
        return head_add_field(q, "upgrade", 7, value, value_bytes, &q->protocol);
    default: /* :scheme */
        check_scheme(q, value, value_bytes);
        return 0;
    }
}

/* Check a Host header against the authority, which replaces it (RFC 9113, 8.3.1). */
static void check_host(weft__h2_request *q, const char *value, size_t bytes)
{
    const char *authority = q->text + q->authority.at;
    if (bytes != q->authority.bytes || !weft__ctype_match(authority, value, bytes))
        q->has_bad_host = true;
}

/* Return true for trailers that determine the framing or the routing of a message. */
static bool trailer_is_forbidden(const char *name, size_t bytes)
{
    return is_name(name, bytes, "host") || is_name(name, bytes, "content-length");
}

static int add_trailer(weft__h2_request *q, const char *name, size_t name_bytes, const char *value,
                       size_t value_bytes)
{
    if (trailer_is_forbidden(name, name_bytes))
        return 0;
    int rc = text_reserve(q, &q->trailers, q->trailers_bytes, &q->trailers_capacity,
                          TRAILERS_CAPACITY_FIRST, name_bytes + value_bytes + 2);
    if (rc < 0)
        return rc;
    text_append(q->trailers, &q->trailers_bytes, name, name_bytes);
    text_append(q->trailers, &q->trailers_bytes, value, value_bytes);
    return 0;
}

int weft__h2_request_add(weft__h2_request *q, const char *name, size_t name_bytes,
                         const char *value, size_t value_bytes)
{
    if (q->is_head_complete)
        return add_trailer(q, name, name_bytes, value, value_bytes);
    if (name[0] == ':')
        return add_pseudo_field(q, name, value, value_bytes);
    if (q->authority.bytes > 0 && is_name(name, name_bytes, "host")) {
        check_host(q, value, value_bytes);
        return 0;
    }
    if (is_name(name, name_bytes, "cookie"))
        q->cookies_count++;
    q->has_expect |= is_name(name, name_bytes, "expect");
    q->has_length |= is_name(name, name_bytes, "content-length");
    return head_add_field(q, name, name_bytes, value, value_bytes, NULL);
}

static bool field_is_cookie(const weft__h2_request *q, const weft__field *f)
{
    return f->name.bytes == 6 && memcmp(q->text + f->name.at, "cookie", 6) == 0;
}

/*
 * Join the values of all Cookie headers (RFC 9113, 8.2.3). Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
static int join_cookies(weft__h2_request *q)
{
    size_t bytes = 0, count = 0;
    for (uint32_t i = 0; i < q->fields_count; i++)
        bytes += field_is_cookie(q, &q->fields[i]) ? q->fields[i].value.bytes + 2 : 0;
    char *all = weft__arena_alloc(&q->arena, bytes);
    if (all == NULL)
        return -ENOMEM;
    uint32_t kept = 0;
    weft__field *first = NULL;
    for (uint32_t i = 0; i < q->fields_count; i++) {
        weft__field *f = &q->fields[i];
        if (field_is_cookie(q, f)) {
            memcpy(all + count, q->text + f->value.at, f->value.bytes);
            memcpy(all + count + f->value.bytes, "; ", 2);
            count += f->value.bytes + 2;
            if (first != NULL)
                continue;
            first = &q->fields[kept];
        }
        q->fields[kept++] = *f;
    }
    q->fields_count = kept;
    return head_add_value(q, all, count - 2, &first->value);
}

static int reject_for(const char **reason, const char *text, int status)
{
    *reason = text;
    return status;
}

/* Return whether text is a valid host with an optional port. */
static bool host_is_valid(weft__h2_server_conn *h, const char *text)
{
    weft__host host;
    size_t bytes = strlen(text);
    if (bytes == h->authority_bytes && memcmp(text, h->authority, bytes) == 0)
        return true;
    if (weft__host_parse(&host, text, bytes) < 0)
        return false;
    if (bytes <= sizeof h->authority) {
        memcpy(h->authority, text, bytes);
        h->authority_bytes = bytes;
    }
    return true;
}

/* Return 0 if the request names a valid host, or the status of a rejection. */
static int check_authority(const weft__h2_request *q, const char **reason)
{
    const char *text =
        q->authority.bytes > 0 ? q->text + q->authority.at : weft_http_header(&q->request, "Host");
    if (text == NULL || q->has_bad_host || (text[0] != '\0' && !host_is_valid(q->conn, text)))
        return reject_for(reason, "a missing or invalid host", 400);
    return 0;
}

/* Set the description of the body. Returns 0, or the status of a rejection. */
static int set_body(weft__h2_request *q, const char **reason)
{
    weft_http_request *r = &q->request;
    const char *length = q->has_length ? weft_http_header(r, "Content-Length") : NULL;
    const char *expect = q->has_expect ? weft_http_header(r, "Expect") : NULL;
    bool has_no_body = q->stream.is_remote_ended && q->stream.in_bytes == 0;
    r->body_length = length != NULL ? strtoll(length, NULL, 10) : has_no_body ? 0 : -1;
    r->is_body_complete = has_no_body;
    if (expect == NULL)
        return 0;
    if (!weft__field_is_word(expect, strlen(expect), "100-continue"))
        return reject_for(reason, "an unknown expectation", 417);
    r->expects_continue = !r->is_body_complete;
    return 0;
}

/* Set the method and the target. Returns 0, or the status of a rejection. */
static int set_target(weft__h2_request *q, const char **reason)
{
    weft_http_request *r = &q->request;
    size_t line_bytes_max = r->server->options.limits.line_bytes_max;
    r->method = q->text + q->method.at;
    r->target = q->text + (q->path.bytes > 0 ? q->path.at : q->authority.at);
    if (q->method.bytes > WEFT__METHOD_BYTES_MAX ||
        !weft__field_is_token(r->method, q->method.bytes))
        return reject_for(reason, "an invalid method", 400);
    if (q->has_bad_scheme)
        return reject_for(reason, "a scheme other than http and https", 400);
    if (q->path.bytes > line_bytes_max)
        return reject_for(reason, "a target that is too long", 414);
    if (q->path.bytes > 0 && strcmp(r->target, "*") != 0 && /* message.c checks the method of "*" */
        !weft__path_is_valid(r->target, q->path.bytes))
        return reject_for(reason, "a malformed target", 400);
    if (q->protocol.bytes == 0)
        return 0;
    r->method = "GET";
    r->is_upgrade = true;
    r->is_body_complete = true; /* the bytes that follow belong to the other protocol */
    r->body_length = 0;
    return 0;
}

int weft__h2_request_open(weft__h2_request *q, const char **reason)
{
    weft_http_request *r = &q->request;
    r->method = r->target = "";
    if (q->stream.is_head_too_large || q->fields_count > r->server->options.limits.headers_max)
        return reject_for(reason, "headers that are too long or too many", 431);
    if (q->cookies_count > 1 && join_cookies(q) < 0)
        return reject_for(reason, "memory is exhausted", 503);
    r->head = (weft__head){q->text, q->fields, q->fields_count};
    int status = set_body(q, reason);
    if (status == 0)
        status = set_target(q, reason);
    if (status == 0)
        status = check_authority(q, reason);
    return status == 0 ? weft__request_open(r, reason) : status;
}

/*
 * The request as the caller sees it: check a request, copy it, and list its fields for the codecs.
 * The checks ensure that no text of the caller adds a line to the head.
 */
#include "http/client/fetch.h"
#include "http/text/field.h"

#include <weft/error.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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
 * Fields.
 */

void weft__fetch_add_authority(weft__strbuf *w, const weft_url *url)
{
    weft__strbuf_add_host(w, url->host);
    if (url->port != (strcmp(url->scheme, "https") == 0 ? 443 : 80))
        weft__strbuf_printf(w, ":%d", url->port);
}

bool weft__fetch_uses_http_proxy(const weft_fetch *f)
{
    return f->proxy.is_used && !weft__fetch_is_tunneled(f);
}

static bool request_has_field(const weft_fetch *f, const char *name)
{
    return weft__fetch_request_field(&f->request, name) != NULL;
}

const char *weft__fetch_host_field(const weft_fetch *f)
{
    return f->is_cross_origin ? NULL : weft__fetch_request_field(&f->request, "Host");
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
    if (!weft__fetch_uses_http_proxy(f) && strcasecmp(name, "Proxy-Authorization") == 0)
        return true;
    return f->redirects > 0 && !f->has_body && name_is_one_of(name, of_body);
}

static void list_caller_fields(const weft_fetch *f, weft__fetch_add_field *add, void *ctx)
{
    for (size_t i = 0; i < f->request.fields_count; i++) {
        const weft_fetch_field *field = &f->request.fields[i];
        if (!field_is_omitted(f, field->name))
            add(ctx, field->name, field->value);
    }
}

/* List the fields of the body. POST, PUT and PATCH need Content-Length: 0 (RFC 9110, 8.6). */
static void list_body_fields(const weft_fetch *f, weft__fetch_add_field *add, void *ctx)
{
    char length[24];
    snprintf(length, sizeof length, "%lld", f->has_body ? (long long)f->out_length : 0);
    bool needs_length = (f->has_body && f->out_length > 0) || strcmp(f->method, "POST") == 0 ||
                        strcmp(f->method, "PUT") == 0 || strcmp(f->method, "PATCH") == 0;
    if (f->has_body && f->request.type != NULL && !request_has_field(f, "Content-Type"))
        add(ctx, "Content-Type", f->request.type);
    if (f->has_body && f->out_length < 0)
        add(ctx, "Transfer-Encoding", "chunked");
    else if (needs_length)
        add(ctx, "Content-Length", length);
}

void weft__fetch_list_fields(const weft_fetch *f, weft__fetch_add_field *add, void *ctx)
{
    if (f->fetcher->user_agent[0] != '\0' && !request_has_field(f, "User-Agent"))
        add(ctx, "User-Agent", f->fetcher->user_agent);
    if (!request_has_field(f, "Accept"))
        add(ctx, "Accept", "*/*");
    if (f->decodes_gzip)
        add(ctx, "Accept-Encoding", "gzip");
    if (f->authorization != NULL && (f->is_cross_origin || !request_has_field(f, "Authorization")))
        add(ctx, "Authorization", f->authorization);
    list_body_fields(f, add, ctx);
    list_caller_fields(f, add, ctx);
}

bool weft__fetch_expects_continue(const weft_fetch *f)
{
    const char *expected = weft__fetch_request_field(&f->request, "Expect");
    return expected != NULL && strcasecmp(expected, "100-continue") == 0;
}

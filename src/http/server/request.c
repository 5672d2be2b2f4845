/* The head of a request: method, path, headers, parameters, cookies. */
#include "http/server/server.h"
#include "http/text/cookie.h"
#include "http/url/path.h"

#include <weft/error.h>
#include <weft/url.h>

const char *weft_http_method(const weft_http_request *r)
{
    return r->method;
}

const char *weft_http_target(const weft_http_request *r)
{
    return r->target;
}

const char *weft_http_path(const weft_http_request *r)
{
    return r->path;
}

const char *weft_http_query(const weft_http_request *r)
{
    return r->query;
}

int weft_http_version(const weft_http_request *r)
{
    return r->version;
}

void *weft_http_alloc(weft_http_request *r, size_t bytes)
{
    void *data = weft__arena_alloc(r->arena, bytes);
    if (data == NULL)
        weft_fail(-ENOMEM, "weft_http_alloc: memory is exhausted, bytes is %zu", bytes);
    return data;
}

bool weft_http_is_draining(const weft_http_request *r)
{
    return r->server->is_draining;
}

weft_stream *weft_http_tls(weft_http_request *r)
{
    return r->conn->is_tls ? &r->conn->stream : NULL;
}

const char *weft_http_header(const weft_http_request *r, const char *name)
{
    uint32_t index = 0;
    const weft__field *f = weft__head_field(&r->head, name, &index);
    return f != NULL ? r->head.text + f->value.at : NULL;
}

int weft_http_header_at(const weft_http_request *r, size_t index, const char **name,
                        const char **value)
{
    const weft__head *h = &r->head;
    if (index >= h->fields_count)
        return -ENOENT;
    *name = h->text + h->fields[index].name.at;
    *value = h->text + h->fields[index].value.at;
    return 0;
}

/* Parameters */

static const char *find_param(const weft__param *p, const char *name)
{
    while (p != NULL && strcmp(p->name, name) != 0)
        p = p->next;
    return p != NULL ? p->value : NULL;
}

const char *weft_http_param(const weft_http_request *r, const char *name)
{
    return find_param(r->params, name);
}

/*
 * Parse the parameters of a query or form, in their order. The call changes text and skips
 * malformed parameters. On failure, *params is NULL. Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
static int parse_params(weft_http_request *r, char *text, weft__param **params)
{
    weft__param *first = NULL, **end = &first;
    char *name, *value;
    int rc;
    *params = NULL;
    while ((rc = weft_url_next_param(&text, &name, &value)) != 0) {
        if (rc < 0)
            continue;
        weft__param *p = weft__arena_alloc(r->arena, sizeof *p);
        if (p == NULL)
            return -ENOMEM;
        *p = (weft__param){NULL, name, value};
        *end = p;
        end = &p->next;
    }
    *params = first;
    return 0;
}

const char *weft_http_query_param(weft_http_request *r, const char *name)
{
    if (!r->has_query_params) {
        char *copy = weft__arena_copy(r->arena, r->query, strlen(r->query));
        r->has_query_params = copy != NULL && parse_params(r, copy, &r->query_params) == 0;
    }
    if (!r->has_query_params)
        weft_fail(-ENOMEM, "weft_http_query_param: memory is exhausted");
    return find_param(r->query_params, name);
}

static int read_form(weft_http_request *r)
{
    static const char type[] = "application/x-www-form-urlencoded";
    const char *content_type = weft_http_header(r, "Content-Type");
    char *text;
    if (content_type == NULL || strncasecmp(content_type, type, sizeof type - 1) != 0 ||
        strchr("; \t", content_type[sizeof type - 1]) == NULL)
        return -EINVAL;
    ssize_t n = weft_http_read_all(r, &text);
    if (n < 0)
        return (int)n;
    if (memchr(text, '\0', (size_t)n) != NULL)
        return -EINVAL;
    return parse_params(r, text, &r->form);
}

const char *weft_http_form(weft_http_request *r, const char *name, int *error)
{
    if (!r->has_form) {
        r->has_form = true;
        r->form_error = read_form(r);
    }
    if (r->form_error < 0)
        weft_fail(r->form_error, "weft_http_form: cannot read the form");
    if (error != NULL)
        *error = r->form_error;
    return find_param(r->form, name);
}

const char *weft_http_cookie(weft_http_request *r, const char *name)
{
    uint32_t index = 0;
    const weft__field *f;
    while ((f = weft__head_field(&r->head, "Cookie", &index)) != NULL) {
        weft__span value;
        if (!weft__cookie_find(r->head.text + f->value.at, name, &value))
            continue;
        const char *copy = weft__arena_copy(r->arena, value.at, value.bytes);
        if (copy == NULL)
            weft_fail(-ENOMEM, "weft_http_cookie: memory is exhausted, name is %s", name);
        return copy;
    }
    return NULL;
}

/* The target */

/*
 * Return the path and the query of a target, without the scheme and authority of an absolute
 * target.
 */
static const char *target_path(const char *target)
{
    const char *authority = target[0] != '/' ? strstr(target, "://") : NULL;
    if (authority == NULL)
        return target;
    const char *path = strpbrk(authority + 3, "/?");
    return path != NULL ? path : "/";
}

static int reject_with(const char **reason, const char *text, int status)
{
    *reason = text;
    return status;
}

/* Set path and query from the target. Returns 0, or the status of a rejection. */
static int request_set_path(weft_http_request *r, const char **reason)
{
    const char *path = target_path(r->target);
    size_t bytes = strcspn(path, "?");
    r->query = path[bytes] == '?' ? path + bytes + 1 : "";
    if (path[0] != '/') /* "*", or "http://host?query" */
        bytes = path[0] == '?' ? 0 : bytes;
    r->path = weft__arena_copy(r->arena, bytes > 0 ? path : "/", bytes > 0 ? bytes : 1);
    if (r->path == NULL)
        return reject_with(reason, "memory is exhausted", 503);
    return r->path[0] == '/' && !r->server->options.has_raw_path && weft__path_clean(r->path) < 0
               ? reject_with(reason, "a path with an invalid character or above the root", 400)
               : 0;
}

int weft__request_open(weft_http_request *r, const char **reason)
{
    r->body_bytes_max = r->server->options.limits.body_bytes_max;
    weft__min_rate_start(&r->in_rate, r->server);
    r->out_rate = r->in_rate;
    /*
     * Reject CONNECT. A successful reply would turn the connection into a tunnel. Handlers do not
     * support tunnels.
     */
    if (weft__request_is(r, "CONNECT"))
        return reject_with(reason, "the CONNECT method", 501);
    /* Without Content-Length, the end of the body would be unknown (RFC 1945, 7.2.2). */
    if (r->version == 10 && r->body_length == 0 && !weft_http_header(r, "Content-Length") &&
        (weft__request_is(r, "POST") || weft__request_is(r, "PUT")))
        return reject_with(reason, "a body without Content-Length", 411);
    return request_set_path(r, reason);
}

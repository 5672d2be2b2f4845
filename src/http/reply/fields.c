/* The headers and trailers of a reply, as handlers set them, until it begins. */
#include "http/cookie.h"
#include "http/field.h"
#include "http/server.h"

#include <weft/error.h>

/* Framing is the server's: a handler that could set it could break what follows. */
static bool is_own(const char *name)
{
    static const char *const own[] = {"Date", "Content-Length", "Transfer-Encoding", "Connection",
                                      "Trailer"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcasecmp(name, own[i]) == 0)
            return true;
    return false;
}

static int check(const char *name, const char *value)
{
    if (!weft__field_is_token(name, strlen(name)) || !weft__field_is_value(value, strlen(value)))
        return weft_fail(-EINVAL, "a header with characters that do not belong there");
    return is_own(name) ? weft_fail(-EPERM, "the header %s is the server's own", name) : 0;
}

static weft__reply_field *new_field(weft_http_request *r, const char *name, const char *value)
{
    weft__arena *a = &r->conn->arena;
    size_t name_bytes = strlen(name), value_bytes = strlen(value);
    if (name_bytes > UINT32_MAX || value_bytes > UINT32_MAX)
        return NULL;
    weft__reply_field *f = weft__arena_alloc(a, sizeof *f);
    char *name_copy = weft__arena_copy(a, name, name_bytes);
    char *value_copy = weft__arena_copy(a, value, value_bytes);
    if (f == NULL || name_copy == NULL || value_copy == NULL)
        return NULL;
    *f = (weft__reply_field){.name = name_copy,
                             .value = value_copy,
                             .name_bytes = (uint32_t)name_bytes,
                             .value_bytes = (uint32_t)value_bytes};
    return f;
}

static void append(weft__reply_field **list, weft__reply_field *f)
{
    while (*list != NULL)
        list = &(*list)->next;
    *list = f;
}

static void drop(weft__reply_field **list, const char *name)
{
    while (*list != NULL) {
        if (strcasecmp((*list)->name, name) == 0)
            *list = (*list)->next;
        else
            list = &(*list)->next;
    }
}

static int add_unchecked(weft_http_request *r, weft__reply_field **list, const char *name,
                         const char *value)
{
    weft__reply_field *f = new_field(r, name, value);
    if (f != NULL)
        append(list, f);
    return f != NULL ? 0 : -ENOMEM;
}

int weft__reply_relay_field(weft_http_request *r, const char *name, const char *value)
{
    return add_unchecked(r, &r->fields, name, value);
}

int weft__reply_relay_trailer(weft_http_request *r, const char *name, const char *value)
{
    return add_unchecked(r, &r->trailers, name, value);
}

static int store(weft_http_request *r, weft__reply_field **list, const char *name,
                 const char *value, bool replaces)
{
    int rc = check(name, value);
    if (rc < 0)
        return rc;
    weft__reply_field *f = new_field(r, name, value);
    if (f == NULL)
        return -ENOMEM;
    if (replaces)
        drop(list, name);
    append(list, f);
    return 0;
}

static int put(weft_http_request *r, const char *name, const char *value, bool replaces)
{
    if (r->state != WEFT__REPLY_NONE)
        return -EALREADY;
    if (strcasecmp(name, "Connection") == 0 && strcasecmp(value, "close") == 0) {
        r->conn->is_to_close = true;
        return 0;
    }
    return store(r, &r->fields, name, value, replaces);
}

int weft_http_set(weft_http_request *r, const char *name, const char *value)
{
    return put(r, name, value, true);
}

int weft_http_add(weft_http_request *r, const char *name, const char *value)
{
    return put(r, name, value, false);
}

const char *weft__reply_field_of(const weft_http_request *r, const char *name)
{
    for (const weft__reply_field *f = r->fields; f != NULL; f = f->next)
        if (strcasecmp(f->name, name) == 0)
            return f->value;
    return NULL;
}

void weft__reply_drop_field(weft_http_request *r, const char *name)
{
    drop(&r->fields, name);
}

static bool says_it_varies(const weft__reply_field *f)
{
    return strcasecmp(f->name, "Vary") == 0 &&
           (weft__field_has_token(f->value, f->value_bytes, "Accept-Encoding") ||
            weft__field_has_token(f->value, f->value_bytes, "*"));
}

int weft__reply_add_vary(weft_http_request *r)
{
    for (const weft__reply_field *f = r->fields; f != NULL; f = f->next)
        if (says_it_varies(f))
            return 0;
    return weft_http_add(r, "Vary", "Accept-Encoding");
}

int weft_http_set_trailer(weft_http_request *r, const char *name, const char *value)
{
    if (r->state >= WEFT__REPLY_ENDED)
        return -EALREADY;
    return store(r, &r->trailers, name, value, true);
}

int weft_http_set_cookie(weft_http_request *r, const char *name, const char *value,
                         const weft_http_cookie_options *options)
{
    ssize_t bytes = weft__cookie_write(NULL, 0, name, value, options);
    if (bytes < 0)
        return (int)bytes;
    char *text = weft__arena_alloc(&r->conn->arena, (size_t)bytes + 1);
    if (text == NULL)
        return -ENOMEM;
    (void)weft__cookie_write(text, (size_t)bytes + 1, name, value, options);
    return weft_http_add(r, "Set-Cookie", text);
}

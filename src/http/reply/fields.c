/*
 * The headers and trailers of a reply, in insertion order. Handlers cannot set Date or the headers
 * that frame a reply, except Connection: close.
 */
#include "http/reply/reply.h"
#include "http/text/cookie.h"
#include "http/text/field.h"

#include <weft/error.h>

/*
 * Return true for headers that the server sets itself. A wrong Content-Length could corrupt the
 * next reply on the connection.
 */
static bool field_is_reserved(const char *name)
{
    static const char *const reserved[] = {"Date", "Content-Length", "Transfer-Encoding",
                                           "Connection", "Trailer"};
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (strcasecmp(name, reserved[i]) == 0)
            return true;
    return false;
}

static int field_check(const char *name, const char *value)
{
    if (!weft__field_is_token(name, strlen(name)))
        return weft_fail(-EINVAL, "header %s: name has an invalid character", name);
    if (!weft__field_is_value(value, strlen(value)))
        return weft_fail(-EINVAL, "header %s: value has an invalid character", name);
    return field_is_reserved(name)
               ? weft_fail(-EPERM, "header %s: the server itself sets this header", name)
               : 0;
}

static weft__reply_field *field_new(weft_http_request *r, const char *name, const char *value)
{
    weft__arena *a = r->arena;
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

static void field_append(weft__reply_field **list, weft__reply_field *f)
{
    while (*list != NULL)
        list = &(*list)->next;
    *list = f;
}

static void field_drop(weft__reply_field **list, const char *name)
{
    while (*list != NULL) {
        if (strcasecmp((*list)->name, name) == 0)
            *list = (*list)->next;
        else
            list = &(*list)->next;
    }
}

int weft__reply_add_unchecked(weft_http_request *r, weft__reply_field **list, const char *name,
                              const char *value)
{
    weft__reply_field *f = field_new(r, name, value);
    if (f != NULL)
        field_append(list, f);
    return f != NULL ? 0 : -ENOMEM;
}

static int field_store(weft_http_request *r, weft__reply_field **list, const char *name,
                       const char *value, bool replaces)
{
    int rc = field_check(name, value);
    if (rc < 0)
        return rc;
    weft__reply_field *f = field_new(r, name, value);
    if (f == NULL)
        return -ENOMEM;
    if (replaces)
        field_drop(list, name);
    field_append(list, f);
    return 0;
}

static int reply_set_field(weft_http_request *r, const char *name, const char *value, bool replaces)
{
    if (r->state != WEFT__REPLY_NONE)
        return -EALREADY;
    if (strcasecmp(name, "Connection") == 0 && strcasecmp(value, "close") == 0) {
        r->must_close = true;
        return 0;
    }
    return field_store(r, &r->fields, name, value, replaces);
}

int weft_http_set(weft_http_request *r, const char *name, const char *value)
{
    return reply_set_field(r, name, value, true);
}

int weft_http_add(weft_http_request *r, const char *name, const char *value)
{
    return reply_set_field(r, name, value, false);
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
    field_drop(&r->fields, name);
}

static bool field_varies_by_encoding(const weft__reply_field *f)
{
    return strcasecmp(f->name, "Vary") == 0 &&
           (weft__field_has_token(f->value, f->value_bytes, "Accept-Encoding") ||
            weft__field_has_token(f->value, f->value_bytes, "*"));
}

int weft__reply_add_vary(weft_http_request *r)
{
    for (const weft__reply_field *f = r->fields; f != NULL; f = f->next)
        if (field_varies_by_encoding(f))
            return 0;
    return weft_http_add(r, "Vary", "Accept-Encoding");
}

int weft_http_set_trailer(weft_http_request *r, const char *name, const char *value)
{
    if (r->state >= WEFT__REPLY_ENDED)
        return -EALREADY;
    return field_store(r, &r->trailers, name, value, true);
}

int weft_http_set_cookie(weft_http_request *r, const char *name, const char *value,
                         const weft_http_cookie_options *options)
{
    ssize_t bytes = weft__cookie_write(NULL, 0, name, value, options);
    if (bytes < 0)
        return (int)bytes;
    char *text = weft__arena_alloc(r->arena, (size_t)bytes + 1);
    if (text == NULL)
        return -ENOMEM;
    (void)weft__cookie_write(text, (size_t)bytes + 1, name, value, options);
    return weft_http_add(r, "Set-Cookie", text);
}

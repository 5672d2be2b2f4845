/* Find a cookie in a Cookie field, and write a Set-Cookie field (RFC 6265). */
#include "http/text/cookie.h"

#include "http/text/ctype.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/*
 * Reading.
 */

static weft__span strip_quotes(weft__span value)
{
    if (value.bytes < 2 || value.at[0] != '"' || value.at[value.bytes - 1] != '"')
        return value;
    return (weft__span){value.at + 1, value.bytes - 2};
}

/* Return whether a pair "name=value" has this name. If so, store its value in *value. */
static bool pair_is_named(weft__span pair, const char *name, weft__span *value)
{
    const char *equals = memchr(pair.at, '=', pair.bytes);
    if (equals == NULL)
        return false;
    size_t name_bytes = (size_t)(equals - pair.at);
    weft__span pair_name = weft__field_trim(pair.at, name_bytes);
    if (pair_name.bytes != strlen(name) || memcmp(pair_name.at, name, pair_name.bytes) != 0)
        return false;
    *value = strip_quotes(weft__field_trim(equals + 1, pair.bytes - name_bytes - 1));
    return true;
}

bool weft__cookie_find(const char *header, const char *name, weft__span *value)
{
    for (;;) {
        size_t bytes = strcspn(header, ";");
        if (pair_is_named(weft__field_trim(header, bytes), name, value))
            return true;
        if (header[bytes] == '\0')
            return false;
        header += bytes + 1;
    }
}

/*
 * Writing.
 */

static bool text_is_all(const char *text, unsigned kinds)
{
    while (weft__ctype_is(*text, kinds))
        text++;
    return *text == '\0';
}

static bool is_cookie_path(const char *path)
{
    if (path[0] != '/')
        return false;
    for (; *path != '\0'; path++)
        if (*path == ';' || weft__ctype_is_control(*path) || (unsigned char)*path >= 0x80)
            return false;
    return true;
}

static bool is_cookie_domain(const char *domain)
{
    return *domain != '\0' && text_is_all(domain, WEFT__CTYPE_UNRESERVED);
}

/* Return a value of SameSite in its canonical case. Return NULL if the value is unknown. */
static const char *same_site_canonical(const char *text)
{
    static const char *const values[] = {"Lax", "Strict", "None"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (weft__field_is_word(text, strlen(text), values[i]))
            return values[i];
    return NULL;
}

/* Return whether name starts with prefix. Ignore case, as browsers do. */
static bool name_has_prefix(const char *name, const char *prefix)
{
    size_t bytes = strlen(prefix);
    return strlen(name) >= bytes && weft__field_is_word(name, bytes, prefix);
}

static bool cookie_obeys_prefix(const char *name, const weft_http_cookie_options *o)
{
    if (name_has_prefix(name, "__Secure-"))
        return o->is_secure;
    if (name_has_prefix(name, "__Host-"))
        return o->is_secure && o->domain == NULL && o->path != NULL && strcmp(o->path, "/") == 0;
    return true;
}

static bool cookie_is_valid(const char *name, const char *value, const weft_http_cookie_options *o)
{
    const char *same_site = o->same_site == NULL ? "" : same_site_canonical(o->same_site);
    return weft__field_is_token(name, strlen(name)) && text_is_all(value, WEFT__CTYPE_COOKIE) &&
           (o->path == NULL || is_cookie_path(o->path)) &&
           (o->domain == NULL || is_cookie_domain(o->domain)) && !isnan(o->max_age_s) &&
           same_site != NULL && (strcmp(same_site, "None") != 0 || o->is_secure) &&
           cookie_obeys_prefix(name, o);
}

/* The output so far. Bytes that do not fit into room are counted, but not written. */
typedef struct cookie_writer {
    char *into;
    size_t room;
    size_t bytes;
} cookie_writer;

static void cookie_put(cookie_writer *w, const char *text)
{
    size_t bytes = strlen(text);
    if (w->bytes + 1 < w->room) {
        size_t left = w->room - w->bytes - 1;
        size_t fitting = bytes < left ? bytes : left;
        memcpy(w->into + w->bytes, text, fitting);
        w->into[w->bytes + fitting] = '\0';
    }
    w->bytes += bytes;
}

static void cookie_put_attribute(cookie_writer *w, const char *name, const char *value)
{
    if (value == NULL)
        return;
    cookie_put(w, name);
    cookie_put(w, value);
}

/* Round up, because Max-Age=0 would delete the cookie. Limit the result to INT32_MAX. */
static long whole_seconds(double seconds)
{
    const long age_max = INT32_MAX;
    if (seconds >= (double)age_max)
        return age_max;
    long whole = (long)seconds;
    return whole + (seconds > (double)whole);
}

static void cookie_put_age(cookie_writer *w, double max_age_s)
{
    if (max_age_s < 0) { /* old clients ignore Max-Age and need Expires */
        cookie_put(w, "; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT");
    } else if (max_age_s > 0) {
        char digits[24];
        snprintf(digits, sizeof digits, "%ld", whole_seconds(max_age_s));
        cookie_put_attribute(w, "; Max-Age=", digits);
    }
}

ssize_t weft__cookie_write(char *into, size_t room, const char *name, const char *value,
                           const weft_http_cookie_options *options)
{
    const weft_http_cookie_options o = options != NULL ? *options : (weft_http_cookie_options){0};
    if (!cookie_is_valid(name, value, &o))
        return -EINVAL;
    cookie_writer w = {into, room, 0};
    if (room > 0)
        into[0] = '\0';
    cookie_put(&w, name);
    cookie_put_attribute(&w, "=", value);
    cookie_put_attribute(&w, "; Path=", o.path);
    cookie_put_attribute(&w, "; Domain=", o.domain);
    cookie_put_age(&w, o.max_age_s);
    if (o.is_secure)
        cookie_put(&w, "; Secure");
    if (o.is_http_only)
        cookie_put(&w, "; HttpOnly");
    cookie_put_attribute(
        &w, "; SameSite=", o.same_site != NULL ? same_site_canonical(o.same_site) : NULL);
    return (ssize_t)w.bytes;
}

/* Cookies, read and written. */
#include "http/cookie.h"

#include "http/chars.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/*
 * Reading.
 */

static weft__piece without_quotes(weft__piece value)
{
    if (value.bytes < 2 || value.at[0] != '"' || value.at[value.bytes - 1] != '"')
        return value;
    return (weft__piece){value.at + 1, value.bytes - 2};
}

/* A pair "name=value": is it that name? */
static bool is_named(weft__piece pair, const char *name, weft__piece *value)
{
    const char *equals = memchr(pair.at, '=', pair.bytes);
    if (equals == NULL)
        return false;
    size_t name_bytes = (size_t)(equals - pair.at);
    weft__piece own = weft__field_trim(pair.at, name_bytes);
    if (own.bytes != strlen(name) || memcmp(own.at, name, own.bytes) != 0)
        return false;
    *value = without_quotes(weft__field_trim(equals + 1, pair.bytes - name_bytes - 1));
    return true;
}

bool weft__cookie_find(const char *header, const char *name, weft__piece *value)
{
    for (;;) {
        size_t bytes = strcspn(header, ";");
        if (is_named(weft__field_trim(header, bytes), name, value))
            return true;
        if (header[bytes] == '\0')
            return false;
        header += bytes + 1;
    }
}

/*
 * Writing.
 */

static bool is_all(const char *text, unsigned kinds)
{
    while (weft__char_is(*text, kinds))
        text++;
    return *text == '\0';
}

static bool is_path(const char *path)
{
    if (path[0] != '/')
        return false;
    for (; *path != '\0'; path++)
        if (*path == ';' || weft__char_is_control(*path) || (unsigned char)*path >= 0x80)
            return false;
    return true;
}

static bool is_domain(const char *domain)
{
    return *domain != '\0' && is_all(domain, WEFT__CHAR_UNRESERVED);
}

/* The word as it is to be written; NULL if it is none of the three. */
static const char *same_site_of(const char *text)
{
    static const char *const words[] = {"Lax", "Strict", "None"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (weft__field_is_word(text, strlen(text), words[i]))
            return words[i];
    return NULL;
}

/* Browsers compare these whatever the case. */
static bool has_prefix(const char *name, const char *prefix)
{
    size_t bytes = strlen(prefix);
    return strlen(name) >= bytes && weft__field_is_word(name, bytes, prefix);
}

static bool keeps_prefix(const char *name, const weft_http_cookie_options *o)
{
    if (has_prefix(name, "__Secure-"))
        return o->is_secure;
    if (has_prefix(name, "__Host-"))
        return o->is_secure && o->domain == NULL && o->path != NULL && strcmp(o->path, "/") == 0;
    return true;
}

static bool is_valid(const char *name, const char *value, const weft_http_cookie_options *o)
{
    const char *same_site = o->same_site == NULL ? "" : same_site_of(o->same_site);
    return weft__field_is_token(name, strlen(name)) && is_all(value, WEFT__CHAR_COOKIE) &&
           (o->path == NULL || is_path(o->path)) && (o->domain == NULL || is_domain(o->domain)) &&
           !isnan(o->max_age_s) && same_site != NULL &&
           (strcmp(same_site, "None") != 0 || o->is_secure) && keeps_prefix(name, o);
}

/* What is written so far; beyond room it is only counted. */
typedef struct writing {
    char *into;
    size_t room;
    size_t bytes;
} writing;

static void put(writing *w, const char *text)
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

static void put_attribute(writing *w, const char *name, const char *value)
{
    if (value == NULL)
        return;
    put(w, name);
    put(w, value);
}

/* Rounded up, or a short life would be none. Browsers cut a long one themselves. */
static long whole_seconds(double seconds)
{
    const long most = INT32_MAX;
    if (seconds >= (double)most)
        return most;
    long whole = (long)seconds;
    return whole + (seconds > (double)whole);
}

static void put_age(writing *w, double max_age_s)
{
    if (max_age_s < 0) { /* the date is for who does not know Max-Age */
        put(w, "; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT");
    } else if (max_age_s > 0) {
        char digits[24];
        snprintf(digits, sizeof digits, "%ld", whole_seconds(max_age_s));
        put_attribute(w, "; Max-Age=", digits);
    }
}

ssize_t weft__cookie_write(char *into, size_t room, const char *name, const char *value,
                           const weft_http_cookie_options *options)
{
    const weft_http_cookie_options o = options != NULL ? *options : (weft_http_cookie_options){0};
    if (!is_valid(name, value, &o))
        return -EINVAL;
    writing w = {into, room, 0};
    if (room > 0)
        into[0] = '\0';
    put(&w, name);
    put_attribute(&w, "=", value);
    put_attribute(&w, "; Path=", o.path);
    put_attribute(&w, "; Domain=", o.domain);
    put_age(&w, o.max_age_s);
    if (o.is_secure)
        put(&w, "; Secure");
    if (o.is_http_only)
        put(&w, "; HttpOnly");
    put_attribute(&w, "; SameSite=", o.same_site != NULL ? same_site_of(o.same_site) : NULL);
    return (ssize_t)w.bytes;
}

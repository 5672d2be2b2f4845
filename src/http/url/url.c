/*
 * Parse, resolve and write URLs (RFC 3986). Clients send some characters in paths and queries that
 * RFC 3986 forbids, for example brackets and bars. These functions accept such characters. Text
 * that other parsers interpret differently is an error.
 */
#include "http/text/ctype.h"
#include "http/text/field.h"
#include "http/url/host.h"

#include <weft/url.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The parts of a URL or of a relative reference, as spans of the text. */
typedef struct url_parts {
    weft__span scheme;
    weft__span user;
    weft__span host;
    int port;                  /* WEFT__PORT_NONE: none */
    weft__span base_directory; /* path of the base URL up to its last slash; precedes path */
    weft__span path;
    weft__span query;
    weft__span fragment;
    bool has_scheme, has_authority, has_query;
    weft__host host_port; /* memory of host */
} url_parts;

static weft__span span_of(const char *text)
{
    return (weft__span){text, strlen(text)};
}

static bool scheme_is(weft__span text, const char *word)
{
    return weft__field_is_word(text.at, text.bytes, word);
}

/* Return the default port of a scheme. Return 0 if the scheme is unknown. */
static int default_port_of(weft__span scheme)
{
    if (scheme_is(scheme, "http") || scheme_is(scheme, "ws"))
        return 80;
    if (scheme_is(scheme, "https") || scheme_is(scheme, "wss"))
        return 443;
    return 0;
}

/*
 * Parsing.
 */

/*
 * Return whether the text is visible ASCII with complete escapes. A backslash is forbidden, because
 * some parsers treat a backslash as a slash.
 */
static bool text_is_valid(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 0x7f || *text == '\\')
            return false;
        if (*text == '%' && !weft__ctype_is_escape(text))
            return false;
    }
    return true;
}

/*
 * Remove the text before one of the characters from *text, and return the removed text. If *text
 * has none of the characters, remove all of *text.
 */
static weft__span take_until(const char **text, const char *characters)
{
    weft__span span = {*text, strcspn(*text, characters)};
    *text += span.bytes;
    return span;
}

/*
 * Parse the scheme, if present. A colon in the first segment always ends a scheme (RFC 3986, 4.2).
 */
static bool take_scheme(const char **text, url_parts *p)
{
    const char *end = *text + strcspn(*text, ":/?#");
    if (*end != ':')
        return true;
    for (const char *c = *text; c < end; c++)
        if (!weft__ctype_is(*c, WEFT__CTYPE_ALPHA | WEFT__CTYPE_DIGIT) && strchr("+-.", *c) == NULL)
            return false;
    p->scheme = (weft__span){*text, (size_t)(end - *text)};
    p->has_scheme = true;
    *text = end + 1;
    return weft__ctype_is(p->scheme.at[0], WEFT__CTYPE_ALPHA);
}

static bool user_is_valid(weft__span user)
{
    for (size_t i = 0; i < user.bytes; i++)
        if (!weft__ctype_is(user.at[i], WEFT__CTYPE_UNRESERVED | WEFT__CTYPE_SUB_DELIM) &&
            user.at[i] != '%' && user.at[i] != ':')
            return false;
    return true;
}

/*
 * Parse user, host and port. A second at sign would be ambiguous. The second at sign becomes a part
 * of the host, where at signs are invalid.
 */
static bool parse_authority(weft__span text, url_parts *p)
{
    const char *at_sign = memchr(text.at, '@', text.bytes);
    if (at_sign != NULL) {
        p->user = (weft__span){text.at, (size_t)(at_sign - text.at)};
        text = (weft__span){at_sign + 1, text.bytes - p->user.bytes - 1};
    }
    if (!user_is_valid(p->user) || weft__host_parse(&p->host_port, text.at, text.bytes) < 0)
        return false;
    p->host = span_of(p->host_port.name);
    p->port = p->host_port.port;
    return at_sign == NULL || p->host.bytes > 0;
}

static bool take_authority(const char **text, url_parts *p)
{
    if (strncmp(*text, "//", 2) != 0)
        return true;
    *text += 2;
    p->has_authority = true;
    return parse_authority(take_until(text, "/?#"), p);
}

static int url_split(const char *text, url_parts *p)
{
    static const weft__span nothing = {"", 0};
    *p = (url_parts){.scheme = nothing,
                     .user = nothing,
                     .host = nothing,
                     .port = WEFT__PORT_NONE,
                     .base_directory = nothing,
                     .query = nothing,
                     .fragment = nothing};
    if (!text_is_valid(text) || !take_scheme(&text, p) || !take_authority(&text, p))
        return -EINVAL;
    p->path = take_until(&text, "?#");
    if (p->path.bytes == 0 && p->has_authority)
        p->path = (weft__span){"/", 1};
    if (*text == '?') {
        text++;
        p->has_query = true;
        p->query = take_until(&text, "#");
    }
    if (*text == '#')
        p->fragment = span_of(text + 1);
    return 0;
}

/*
 * Building.
 */

/* Append a span and a NUL to the memory at *end. Return the appended text. */
static char *put_span(char **end, weft__span span)
{
    char *text = *end;
    memcpy(text, span.at, span.bytes);
    text[span.bytes] = '\0';
    *end += span.bytes + 1;
    return text;
}

static char *put_span_lower(char **end, weft__span span)
{
    char *text = put_span(end, span);
    for (char *c = text; *c != '\0'; c++)
        *c = weft__ctype_lower(*c);
    return text;
}

static char *put_path(char **end, const url_parts *p)
{
    char *path = put_span(end, p->base_directory);
    (*end)--;
    put_span(end, p->path);
    return path;
}

/* Return whether the host is missing. The known schemes require a host (RFC 9110, 4.2.1). */
static bool lacks_host(const url_parts *p)
{
    return p->host.bytes == 0 && default_port_of(p->scheme) != 0;
}

static int url_build(weft_url *url, const url_parts *p)
{
    if (lacks_host(p))
        return -EINVAL;
    size_t bytes = p->scheme.bytes + p->user.bytes + p->host.bytes + p->base_directory.bytes +
                   p->path.bytes + p->query.bytes + p->fragment.bytes;
    char *end = malloc(bytes + 8); /* includes a NUL after each part */
    if (end == NULL)
        return -ENOMEM;
    *url = (weft_url){0};
    url->weft__private[0] = end;
    url->scheme = put_span_lower(&end, p->scheme);
    url->user = put_span(&end, p->user);
    url->host = put_span(&end, p->host);
    url->port = p->port != WEFT__PORT_NONE ? p->port : default_port_of(p->scheme);
    url->path = put_path(&end, p);
    url->query = put_span(&end, p->query);
    url->fragment = put_span(&end, p->fragment);
    url->has_query = p->has_query;
    return 0;
}

int weft_url_open(weft_url *url, const char *text)
{
    url_parts p;
    int rc = url_split(text, &p);
    if (rc == 0 && !p.has_scheme)
        rc = -EINVAL;
    return rc < 0 ? rc : url_build(url, &p);
}

void weft_url_close(weft_url *url)
{
    free(url->weft__private[0]); /* the memory of all strings */
    *url = (weft_url){0};
}

/* Resolving (RFC 3986, 5.2). */

static bool text_begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Remove the last segment and the slash before it. */
static char *drop_last_segment(const char *path, char *end)
{
    while (end > path && *--end != '/')
        continue;
    return end;
}

/*
 * Remove dot segments in place (RFC 3986, 5.2.4). from is the start of the remaining input, to is
 * the end of the output.
 */
static void remove_dots(char *path)
{
    const char *from = path;
    char *to = path;
    while (*from != '\0') {
        if (text_begins_with(from, "../")) {
            from += 3;
        } else if (text_begins_with(from, "./")) {
            from += 2;
        } else if (strcmp(from, ".") == 0 || strcmp(from, "..") == 0) {
            break;
        } else if (text_begins_with(from, "/./")) {
            from += 2;
        } else if (strcmp(from, "/.") == 0) {
            *to++ = '/';
            break;
        } else if (text_begins_with(from, "/../")) {
            to = drop_last_segment(path, to);
            from += 3;
        } else if (strcmp(from, "/..") == 0) {
            to = drop_last_segment(path, to);
            *to++ = '/';
            break;
        } else {
            do {
                *to++ = *from++;
            } while (*from != '/' && *from != '\0');
        }
    }
    *to = '\0';
}

/* Return the path of a base URL up to and including its last slash. */
static weft__span base_directory_of(const weft_url *base)
{
    const char *slash = strrchr(base->path, '/');
    return (weft__span){base->path, slash != NULL ? (size_t)(slash + 1 - base->path) : 0};
}

static void url_inherit_path(url_parts *p, const weft_url *base)
{
    if (p->path.bytes > 0) {
        if (p->path.at[0] != '/')
            p->base_directory = base_directory_of(base);
        return;
    }
    p->path = span_of(base->path);
    if (!p->has_query) {
        p->query = span_of(base->query);
        p->has_query = base->has_query;
    }
}

/* Copy the missing parts from the base URL. */
static void url_inherit(url_parts *p, const weft_url *base)
{
    p->scheme = span_of(base->scheme);
    if (p->has_authority)
        return;
    p->user = span_of(base->user);
    p->host = span_of(base->host);
    p->port = base->port;
    url_inherit_path(p, base);
}

int weft_url_open_in(weft_url *url, const weft_url *base, const char *reference)
{
    url_parts p;
    int rc = url_split(reference, &p);
    if (rc < 0)
        return rc;
    bool has_own_path = p.path.bytes > 0;
    if (!p.has_scheme)
        url_inherit(&p, base);
    rc = url_build(url, &p);
    if (rc == 0 && has_own_path)
        remove_dots(url->path);
    return rc;
}

/*
 * Writing.
 */

size_t weft_url_write(char *into, size_t room, const weft_url *url)
{
    char port[16] = "";
    if (url->port != 0 && url->port != default_port_of(span_of(url->scheme)))
        snprintf(port, sizeof port, ":%d", url->port);
    /*
     * A path that starts with "//" needs an authority, even an empty authority. Otherwise, a parser
     * would treat the start of the path as an authority.
     */
    bool has_authority = url->host[0] != '\0' || text_begins_with(url->path, "//");
    bool has_brackets = strchr(url->host, ':') != NULL;
    int bytes =
        snprintf(into, room, "%s:%s%s%s%s%s%s%s%s%s%s%s%s", url->scheme, has_authority ? "//" : "",
                 url->user, url->user[0] != '\0' ? "@" : "", has_brackets ? "[" : "", url->host,
                 has_brackets ? "]" : "", port, url->path, url->has_query ? "?" : "", url->query,
                 url->fragment[0] != '\0' ? "#" : "", url->fragment);
    return bytes > 0 ? (size_t)bytes : 0;
}

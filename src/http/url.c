/*
 * URLs: taken apart, resolved against others, and written. RFC 3986; characters that it has not,
 * but that are seen in paths and queries all the same, like brackets and bars, pass: what could be
 * read in two ways does not.
 */
#include "http/chars.h"
#include "http/field.h"
#include "http/host.h"

#include <weft/url.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The parts of a URL or a reference, where they are in the text. */
typedef struct parts {
    weft__piece scheme;
    weft__piece user;
    weft__piece host;
    int port;           /* WEFT__PORT_NONE: not said */
    weft__piece folder; /* what comes before the path: of the URL that it is relative to */
    weft__piece path;
    weft__piece query;
    weft__piece fragment;
    bool has_scheme, has_authority, has_query;
    weft__host place; /* what host points to */
} parts;

static weft__piece piece_of(const char *text)
{
    return (weft__piece){text, strlen(text)};
}

static bool is(weft__piece text, const char *word)
{
    return weft__field_is_word(text.at, text.bytes, word);
}

/* The port that is meant where none is written; 0: the scheme has none that is known here. */
static int port_of(weft__piece scheme)
{
    if (is(scheme, "http") || is(scheme, "ws"))
        return 80;
    if (is(scheme, "https") || is(scheme, "wss"))
        return 443;
    return 0;
}

/*
 * Taking apart.
 */

/* Visible ASCII, no backslash, which some take for a slash, and whole escapes. */
static bool has_good_characters(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 0x7f || *text == '\\')
            return false;
        if (*text == '%' && !weft__char_is_escape(text))
            return false;
    }
    return true;
}

/* Cut off what is before one of the characters, or the end. */
static weft__piece take_until(const char **text, const char *characters)
{
    weft__piece piece = {*text, strcspn(*text, characters)};
    *text += piece.bytes;
    return piece;
}

/* A colon in the first segment is behind a scheme, or else it is none: RFC 3986, 4.2. */
static bool take_scheme(const char **text, parts *p)
{
    const char *end = *text + strcspn(*text, ":/?#");
    if (*end != ':')
        return true;
    for (const char *c = *text; c < end; c++)
        if (!weft__char_is(*c, WEFT__CHAR_ALPHA | WEFT__CHAR_DIGIT) && strchr("+-.", *c) == NULL)
            return false;
    p->scheme = (weft__piece){*text, (size_t)(end - *text)};
    p->has_scheme = true;
    *text = end + 1;
    return weft__char_is(p->scheme.at[0], WEFT__CHAR_ALPHA);
}

static bool is_user(weft__piece user)
{
    for (size_t i = 0; i < user.bytes; i++)
        if (!weft__char_is(user.at[i], WEFT__CHAR_UNRESERVED | WEFT__CHAR_SUB_DELIM) &&
            user.at[i] != '%' && user.at[i] != ':')
            return false;
    return true;
}

/*
 * Of two at signs either might be meant. The second is in what should be a host, and fails there.
 */
static bool parse_authority(weft__piece text, parts *p)
{
    const char *at = memchr(text.at, '@', text.bytes);
    if (at != NULL) {
        p->user = (weft__piece){text.at, (size_t)(at - text.at)};
        text = (weft__piece){at + 1, text.bytes - p->user.bytes - 1};
    }
    if (!is_user(p->user) || weft__host_parse(&p->place, text.at, text.bytes) < 0)
        return false;
    p->host = piece_of(p->place.name);
    p->port = p->place.port;
    return at == NULL || p->host.bytes > 0;
}

static bool take_authority(const char **text, parts *p)
{
    if (strncmp(*text, "//", 2) != 0)
        return true;
    *text += 2;
    p->has_authority = true;
    return parse_authority(take_until(text, "/?#"), p);
}

static int split(const char *text, parts *p)
{
    static const weft__piece nothing = {"", 0};
    *p = (parts){.scheme = nothing,
                 .user = nothing,
                 .host = nothing,
                 .port = WEFT__PORT_NONE,
                 .folder = nothing,
                 .query = nothing,
                 .fragment = nothing};
    if (!has_good_characters(text) || !take_scheme(&text, p) || !take_authority(&text, p))
        return -EINVAL;
    p->path = take_until(&text, "?#");
    if (p->path.bytes == 0 && p->has_authority)
        p->path = (weft__piece){"/", 1};
    if (*text == '?') {
        text++;
        p->has_query = true;
        p->query = take_until(&text, "#");
    }
    if (*text == '#')
        p->fragment = piece_of(text + 1);
    return 0;
}

/*
 * Putting together.
 */

/* Copy a piece to where there is room, with a NUL behind it. */
static char *put(char **room, weft__piece piece)
{
    char *at = *room;
    memcpy(at, piece.at, piece.bytes);
    at[piece.bytes] = '\0';
    *room += piece.bytes + 1;
    return at;
}

static char *put_lower(char **room, weft__piece piece)
{
    char *text = put(room, piece);
    for (char *c = text; *c != '\0'; c++)
        *c = weft__char_lower(*c);
    return text;
}

static char *put_path(char **room, const parts *p)
{
    char *path = put(room, p->folder);
    (*room)--;
    put(room, p->path);
    return path;
}

/* Where something stands for a host, it cannot be empty: RFC 9110, 4.2.1. */
static bool lacks_host(const parts *p)
{
    return p->host.bytes == 0 && port_of(p->scheme) != 0;
}

static int build(weft_url *url, const parts *p)
{
    if (lacks_host(p))
        return -EINVAL;
    size_t bytes = p->scheme.bytes + p->user.bytes + p->host.bytes + p->folder.bytes +
                   p->path.bytes + p->query.bytes + p->fragment.bytes;
    char *room = malloc(bytes + 8); /* a NUL for each */
    if (room == NULL)
        return -ENOMEM;
    url->memory = room;
    url->scheme = put_lower(&room, p->scheme);
    url->user = put(&room, p->user);
    url->host = put(&room, p->host);
    url->port = p->port != WEFT__PORT_NONE ? p->port : port_of(p->scheme);
    url->path = put_path(&room, p);
    url->query = put(&room, p->query);
    url->fragment = put(&room, p->fragment);
    url->has_query = p->has_query;
    return 0;
}

int weft_url_open(weft_url *url, const char *text)
{
    parts p;
    int rc = split(text, &p);
    if (rc == 0 && !p.has_scheme)
        rc = -EINVAL;
    return rc < 0 ? rc : build(url, &p);
}

void weft_url_close(weft_url *url)
{
    free(url->memory);
    *url = (weft_url){0};
}

/*
 * Resolving: RFC 3986, 5.2.
 */

static bool begins_with(const char *text, const char *words)
{
    return strncmp(text, words, strlen(words)) == 0;
}

/* Take back the last segment, and the slash before it. */
static char *drop_last(const char *path, char *end)
{
    while (end > path && *--end != '/')
        continue;
    return end;
}

/* In place, as section 5.2.4 has it: what is left to do is at from, what is done before to. */
static void remove_dots(char *path)
{
    const char *from = path;
    char *to = path;
    while (*from != '\0') {
        if (begins_with(from, "../")) {
            from += 3;
        } else if (begins_with(from, "./")) {
            from += 2;
        } else if (strcmp(from, ".") == 0 || strcmp(from, "..") == 0) {
            break;
        } else if (begins_with(from, "/./")) {
            from += 2;
        } else if (strcmp(from, "/.") == 0) {
            *to++ = '/';
            break;
        } else if (begins_with(from, "/../")) {
            to = drop_last(path, to);
            from += 3;
        } else if (strcmp(from, "/..") == 0) {
            to = drop_last(path, to);
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

/* What the path is relative to: the base's up to its last slash. */
static weft__piece folder_of(const weft_url *base)
{
    const char *slash = strrchr(base->path, '/');
    return (weft__piece){base->path, slash != NULL ? (size_t)(slash + 1 - base->path) : 0};
}

static void inherit_path(parts *p, const weft_url *base)
{
    if (p->path.bytes > 0) {
        if (p->path.at[0] != '/')
            p->folder = folder_of(base);
        return;
    }
    p->path = piece_of(base->path);
    if (!p->has_query) {
        p->query = piece_of(base->query);
        p->has_query = base->has_query;
    }
}

/* What the reference does not say is as in its base. */
static void inherit(parts *p, const weft_url *base)
{
    p->scheme = piece_of(base->scheme);
    if (p->has_authority)
        return;
    p->user = piece_of(base->user);
    p->host = piece_of(base->host);
    p->port = base->port;
    inherit_path(p, base);
}

int weft_url_open_in(weft_url *url, const weft_url *base, const char *reference)
{
    parts p;
    int rc = split(reference, &p);
    if (rc < 0)
        return rc;
    bool has_own_path = p.path.bytes > 0;
    if (!p.has_scheme)
        inherit(&p, base);
    rc = build(url, &p);
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
    if (url->port != 0 && url->port != port_of(piece_of(url->scheme)))
        snprintf(port, sizeof port, ":%d", url->port);
    /* Without the two slashes, two in the path would be them. */
    bool has_authority = url->host[0] != '\0' || begins_with(url->path, "//");
    bool has_brackets = strchr(url->host, ':') != NULL;
    int bytes =
        snprintf(into, room, "%s:%s%s%s%s%s%s%s%s%s%s%s%s", url->scheme, has_authority ? "//" : "",
                 url->user, url->user[0] != '\0' ? "@" : "", has_brackets ? "[" : "", url->host,
                 has_brackets ? "]" : "", port, url->path, url->has_query ? "?" : "", url->query,
                 url->fragment[0] != '\0' ? "#" : "", url->fragment);
    return bytes > 0 ? (size_t)bytes : 0;
}

/*
 * URLs and what is in them: RFC 3986, and forms as browsers send them. Pure functions on strings.
 */
#ifndef WEFT_URL_H
#define WEFT_URL_H

#include <weft/base.h>

#include <sys/types.h>

WEFT_BEGIN

/* The parts of a URL, decoded where it says so; "" for one that is not there. */
typedef struct weft_url {
    char *scheme;   /* in lower case */
    char *user;     /* as written: user, or user:password */
    char *host;     /* in lower case, decoded, without the brackets of an IPv6 address */
    int port;       /* what is written, else the scheme's (80, 443); 0: neither */
    char *path;     /* as written; "/" if there is none but a host */
    char *query;    /* as written, without the question mark */
    char *fragment; /* as written, without the hash */
    bool has_query; /* there is a question mark */
    char *memory;   /* what the strings are in. Private. */
} weft_url;

/**
 * Parse an absolute URL. -EINVAL if it is none: a bad scheme, user, host, port or escape; a space,
 * a backslash, a control character or one beyond ASCII anywhere; no host with http, https, ws or
 * wss. -ENOMEM. To be closed with weft_url_close.
 */
WEFT_API int weft_url_open(weft_url *url, const char *text);

/**
 * The same for a reference, resolved against the URL that it was found in (RFC 3986, 5.2), which
 * stays as it is: url is another one.
 */
WEFT_API int weft_url_open_in(weft_url *url, const weft_url *base, const char *reference);

/**
 * Write it as text. As snprintf(3): returns what it takes, and cuts to room. The scheme's own port
 * is left out, and so are "#", "@" and ":" with nothing behind or before them.
 */
WEFT_API size_t weft_url_write(char *into, size_t room, const weft_url *url);

/** Release its strings. */
WEFT_API void weft_url_close(weft_url *url);

/**
 * Decode %41 in place; '+' is a space if is_form. Returns the length, which tells of NULs in it,
 * with a NUL behind it; -EINVAL for a malformed escape: text is as it was then.
 */
WEFT_API ssize_t weft_url_decode(char *text, bool is_form);

/**
 * Write text so that it can stand in a path segment, a query's name or value: all but letters,
 * digits and "-._~" escaped. As snprintf(3): returns what it takes, and cuts to room, between
 * escapes.
 */
WEFT_API size_t weft_url_encode(char *into, size_t room, const char *text);

/**
 * The next parameter of a query or form, decoded, in place: *rest starts as the text and is moved
 * on, *name and *value point into it ("" for a missing value). 1, or 0 at the end; -EINVAL for a
 * malformed escape, or a NUL: the next call goes on behind it.
 */
WEFT_API int weft_url_next_param(char **rest, char **name, char **value);

WEFT_END

#endif

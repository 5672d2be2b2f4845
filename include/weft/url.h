/* URLs (RFC 3986) and URL-encoded forms. The functions open no connections. */
#ifndef WEFT_URL_H
#define WEFT_URL_H

#include <weft/base.h>

#include <sys/types.h>

WEFT_BEGIN

/* The parts of a URL. A missing part is "". */
typedef struct weft_url {
    char *scheme;           /* in lower case */
    char *user;             /* as written: "user" or "user:password" */
    char *host;             /* in lower case, decoded, without the brackets of an IPv6 address */
    int port;               /* as written, else the default of the scheme (80, 443), else 0 */
    char *path;             /* as written; "/" if the URL has "//", but no path */
    char *query;            /* as written, without the question mark */
    char *fragment;         /* as written, without the hash */
    bool has_query;         /* the URL has a question mark */
    void *weft__private[4]; /* do not access */
} weft_url;

/**
 * Parse an absolute URL.
 *
 * The caller closes url with weft_url_close.
 *
 * Returns 0, or:
 * -EINVAL if text has no scheme
 * -EINVAL if the scheme, the user, the host, the port or an escape is invalid
 * -EINVAL if text contains a space, a backslash, a control character or a non-ASCII character
 * -EINVAL if the scheme is http, https, ws or wss, and text has no host
 * -ENOMEM if memory is exhausted
 */
WEFT_API int weft_url_open(weft_url *url, const char *text);

/**
 * Like weft_url_open, for a reference relative to base.
 *
 * The call resolves the reference as in RFC 3986, 5.2. url and base must be different objects.
 */
WEFT_API int weft_url_open_in(weft_url *url, const weft_url *base, const char *reference);

/**
 * Write a URL as text.
 *
 * Like snprintf(3), the call writes at most room bytes, including the NUL. The call omits the
 * default port of the scheme, an empty user and an empty fragment.
 *
 * Returns the length of the complete text without the NUL.
 */
WEFT_API size_t weft_url_write(char *into, size_t room, const weft_url *url);

/** Free the strings of a URL. */
WEFT_API void weft_url_close(weft_url *url);

/**
 * Decode percent-escapes in place.
 *
 * If is_form is true, '+' becomes a space. The result ends with a NUL and may contain further NULs.
 * If the call fails, text does not change.
 *
 * Returns the length of the result without the last NUL, or:
 * -EINVAL if an escape is malformed
 */
WEFT_API ssize_t weft_url_decode(char *text, bool is_form);

/**
 * Escape text for a path segment, or for a name or value of a query.
 *
 * The call escapes all characters except letters, digits and "-._~". Like snprintf(3), the call
 * writes at most room bytes, including the NUL. The call does not truncate inside an escape.
 *
 * Returns the length of the complete text without the NUL.
 */
WEFT_API size_t weft_url_encode(char *into, size_t room, const char *text);

/**
 * Decode the next parameter of a query or form, in place.
 *
 * Before the first call, set *rest to the text. Each call advances *rest, even if the call fails.
 * *name and *value point into the text. A missing value is "".
 *
 * Returns 1, 0 at the end of the text, or:
 * -EINVAL if an escape decodes to a NUL
 * -EINVAL if an escape is malformed
 */
WEFT_API int weft_url_next_param(char **rest, char **name, char **value);

WEFT_END

#endif

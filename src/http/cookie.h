/* Cookies: RFC 6265. */
#ifndef WEFT_HTTP_COOKIE_H
#define WEFT_HTTP_COOKIE_H

#include "http/field.h"

#include <weft/http.h>

#include <stdbool.h>
#include <sys/types.h>

/*
 * Find a cookie in the value of a Cookie field; the first of several of this name, which is the one
 * with the longest path. *value is in the text, without blanks and without a pair of quotes around
 * it. False if it is not there.
 */
bool weft__cookie_find(const char *header, const char *name, weft__piece *value);

/*
 * Write the value of a Set-Cookie field; options may be NULL. As snprintf(3): returns what it
 * takes, and cuts to room. -EINVAL if it could not be read back as it is meant, or no browser would
 * take it: name is no token, value has blanks, quotes, commas, semicolons, backslashes or bytes
 * beyond ASCII (encode it, with weft_url_encode say); path does not begin with a slash, or has a
 * semicolon or a control character; domain is no name; max_age_s is no number; same_site is
 * another word, or "None" and not is_secure; the name begins with "__Secure-" and not is_secure, or
 * with "__Host-" and it has a domain, or not the path "/", or not is_secure.
 */
ssize_t weft__cookie_write(char *into, size_t room, const char *name, const char *value,
                           const weft_http_cookie_options *options);

#endif

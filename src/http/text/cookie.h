/* Cookies (RFC 6265): find a cookie in a request, write a cookie for a reply. */
#ifndef WEFT_HTTP_TEXT_COOKIE_H
#define WEFT_HTTP_TEXT_COOKIE_H

#include "http/text/field.h"

#include <weft/http.h>

#include <stdbool.h>
#include <sys/types.h>

/*
 * Find a cookie in header, the value of a Cookie field. Store its value in *value, without blanks
 * and quotes around it. *value points into header. If several cookies have this name, find the
 * first. Browsers send the cookie with the longest path first. Return false if no cookie has this
 * name.
 */
bool weft__cookie_find(const char *header, const char *name, weft__span *value);

/*
 * Write the value of a Set-Cookie field with a NUL. options may be NULL. Return the length of the
 * whole value. If the value does not fit into room bytes, truncate the value as snprintf(3) does.
 *
 * Browsers ignore some cookies, and a server could not parse others. For these cookies, return
 * -EINVAL:
 *
 * - name is not a token.
 * - value has a blank, quotation mark, comma, semicolon, backslash, control character or non-ASCII
 *   byte. Encode such values, for example with weft_url_encode.
 * - path does not start with a slash.
 * - path has a semicolon, a control character or a non-ASCII byte.
 * - domain is empty, or has a character that is not unreserved (RFC 3986).
 * - max_age_s is NaN.
 * - same_site is not "Lax", "Strict" or "None".
 * - same_site is "None" without is_secure.
 * - name starts with "__Secure-" without is_secure.
 * - name starts with "__Host-" without is_secure, without the path "/", or with a domain.
 */
ssize_t weft__cookie_write(char *into, size_t room, const char *name, const char *value,
                           const weft_http_cookie_options *options);

#endif

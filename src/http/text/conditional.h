/* Conditional requests (RFC 9110, 13): choose between the resource, 304 and 412. */
#ifndef WEFT_HTTP_TEXT_CONDITIONAL_H
#define WEFT_HTTP_TEXT_CONDITIONAL_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The conditional fields of a request, and the current state of the resource. If the request lacks
 * a field, its pointer is NULL. If a field is repeated, the caller joins the values with commas.
 */
typedef struct weft__conditional {
    const char *method;
    const char *if_match;
    const char *if_none_match;
    const char *if_modified_since;
    const char *if_unmodified_since;
    const char *if_range;
    const char *etag; /* with quotes; a weak tag starts with "W/"; NULL: none */
    int64_t mtime;    /* in seconds since 1970; WEFT__DATE_NONE: unknown */
    /* the current time in seconds since 1970, for If-Range; 0: do not compare mtime with now */
    int64_t now;
} weft__conditional;

/*
 * Check the conditions in the order of RFC 9110, 13.2.2. Return 0 if the request may proceed.
 * Otherwise, return the status of the reply: 304 or 412.
 */
int weft__conditional_check(const weft__conditional *c);

/*
 * Return whether the server may honour Range. The method must be GET. If the request has If-Range,
 * the value of If-Range must be:
 *
 * - the strong entity tag of the resource, or
 * - the date in mtime, if mtime is before the current second. A file may change again within a
 *   second.
 */
bool weft__conditional_allows_range(const weft__conditional *c);

#endif

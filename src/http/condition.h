/* Conditional requests: RFC 9110, 13. */
#ifndef WEFT_HTTP_CONDITION_H
#define WEFT_HTTP_CONDITION_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The fields, NULL for what the request has not (several of one name joined with commas), and what
 * there is now.
 */
typedef struct weft__condition {
    const char *method;
    const char *if_match;
    const char *if_none_match;
    const char *if_modified_since;
    const char *if_unmodified_since;
    const char *if_range;
    const char *etag; /* with its quotes, "W/" before it if it is weak; NULL: none */
    int64_t mtime;    /* in seconds since 1970; WEFT__DATE_NONE: not known */
    int64_t now;      /* the same, for If-Range; 0: do not ask whether mtime is of this second */
} weft__condition;

/* 0: go on; 304 or 412: answer with that. In the order of RFC 9110, 13.2.2. */
int weft__condition_check(const weft__condition *c);

/*
 * May a Range be honoured? For GET only, and if If-Range, where there is one, holds: the same
 * strong entity tag, or the same date, if nothing can have changed since within its second.
 */
bool weft__condition_allows_range(const weft__condition *c);

#endif

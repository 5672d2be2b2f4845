/* Reason phrases and status lines of status codes. */
#ifndef WEFT_HTTP_TEXT_STATUS_H
#define WEFT_HTTP_TEXT_STATUS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Return the reason phrase of a status, for example "Not Found". Return "" if the status is not
 * registered.
 */
const char *weft__status_text(int status);

/*
 * Return a status line, for example "HTTP/1.1 404 Not Found\r\n". Store its length in *bytes.
 * Return NULL if the status is not registered. The caller must then format the line.
 */
const char *weft__status_line(int status, size_t *bytes);

/*
 * Return true for a status without a body and without Content-Length (RFC 9110, 6.4.1 and 8.6). In
 * a 304, Content-Length would be the length of the body of a 200.
 */
static inline bool weft__status_has_no_body(int status)
{
    return status == 204 || status == 304;
}

#endif

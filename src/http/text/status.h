/* Reason phrases and status lines of status codes. */
#ifndef WEFT_HTTP_TEXT_STATUS_H
#define WEFT_HTTP_TEXT_STATUS_H

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

#endif

/* Status codes: what they mean, and the line that says so. */
#ifndef WEFT_HTTP_STATUS_H
#define WEFT_HTTP_STATUS_H

#include <stddef.h>

/* "Not Found"; "" for one that is not registered with IANA. */
const char *weft__status_text(int status);

/*
 * "HTTP/1.1 404 Not Found\r\n", and its length; NULL for one that is not registered, whose line the
 * caller has to write.
 */
const char *weft__status_line(int status, size_t *bytes);

#endif

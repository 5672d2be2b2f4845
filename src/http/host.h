/* Hosts and ports as they are written in URLs and in the Host field. */
#ifndef WEFT_HTTP_HOST_H
#define WEFT_HTTP_HOST_H

#include <stddef.h>

#define WEFT__HOST_NAME_BYTES 256
#define WEFT__PORT_NONE (-1)

typedef struct weft__host {
    char name[WEFT__HOST_NAME_BYTES]; /* in lower case, decoded, without brackets */
    int port; /* 0 to 65535; WEFT__PORT_NONE: none, or nothing behind the colon */
} weft__host;

/*
 * Take "host", "host:port", "[::1]" or "[::1]:port" apart. A name is of what RFC 3986 has in one,
 * letters, digits and -._~!$&'()*+,;=, which is so after decoding, too; in brackets is an IPv6
 * address without a zone. An empty host is one only if nothing else is there: name is "" then. A
 * dot at the end of a name stays. -EINVAL if it is no such thing; *out is of no use then.
 */
int weft__host_parse(weft__host *out, const char *text, size_t bytes);

#endif

/* Parse hosts and ports of URLs and of Host fields (RFC 3986, 3.2.2). */
#ifndef WEFT_HTTP_URL_HOST_H
#define WEFT_HTTP_URL_HOST_H

#include <stdbool.h>
#include <stddef.h>

#define WEFT__HOST_NAME_BYTES 256
#define WEFT__PORT_NONE (-1)

typedef struct weft__host {
    char name[WEFT__HOST_NAME_BYTES]; /* in lower case, decoded, without brackets */
    int port;                         /* 0 to 65535; WEFT__PORT_NONE: the port is absent or empty */
} weft__host;

/*
 * Parse "host", "host:port", "[::1]" or "[::1]:port". Brackets must contain an IPv6 address without
 * a zone. A decoded name consists of letters, digits and -._~!$&'()*+,;= only. The name keeps a
 * trailing dot. An empty text gives an empty name.
 *
 * Return 0, or -EINVAL if the text is malformed. If the call fails, *out is undefined.
 */
int weft__host_parse(weft__host *out, const char *text, size_t bytes);

/*
 * Parse a port. Leading zeros are allowed. If the text is empty, *port is WEFT__PORT_NONE. Return
 * false if the text is malformed or the port is above 65535.
 */
bool weft__port_parse(const char *text, size_t bytes, int *port);

/*
 * Return the length of the IPv6 address at the start of text, including its brackets. Return 0 if
 * the address is malformed. text[0] must be the opening bracket.
 */
size_t weft__ipv6_literal_bytes(const char *text, size_t bytes);

#endif

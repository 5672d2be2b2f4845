/*
 * Parsing of addresses for weft_listen and weft_dial. Parsing looks up no names and allocates no
 * memory.
 */
#ifndef WEFT_IO_NAMES_ADDRESS_H
#define WEFT_IO_NAMES_ADDRESS_H

#include <sys/socket.h>
#include <sys/un.h>

/* A DNS name has at most 253 bytes, and may end in a dot. */
#define WEFT__HOST_BYTES 256
#define WEFT__SERVICE_BYTES 32

typedef struct weft__address {
    int family; /* AF_UNIX, AF_INET, AF_INET6; AF_UNSPEC: AF_INET or AF_INET6 */
    int type;   /* SOCK_STREAM, SOCK_DGRAM */

    char host[WEFT__HOST_BYTES];       /* without brackets; "": none */
    char service[WEFT__SERVICE_BYTES]; /* a port number up to 65535, or a service name */

    struct sockaddr_un path; /* the path of a unix socket, used instead of host and service */
    socklen_t path_bytes;
} weft__address;

/*
 * Parse an address. Returns NULL on success. If the address is invalid, the call returns a message,
 * and *out is undefined.
 */
const char *weft__address_parse(const char *net, const char *addr, weft__address *out);

/* Return whether the address has a socket file. A socket file exists until a process removes it. */
static inline _Bool weft__address_has_file(const weft__address *a)
{
    return a->family == AF_UNIX && a->path.sun_path[0] != '\0';
}

#endif

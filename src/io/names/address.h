/*
 * Addresses as weft_listen and weft_dial are given them, taken apart. Nothing is looked up and
 * nothing allocated.
 */
#ifndef WEFT_IO_ADDRESS_H
#define WEFT_IO_ADDRESS_H

#include <sys/socket.h>
#include <sys/un.h>

/* A name of the DNS has at most 253 bytes, and may end in a dot. */
#define WEFT__HOST_BYTES 256
#define WEFT__SERVICE_BYTES 32

typedef struct weft__address {
    int family; /* AF_UNIX, AF_INET, AF_INET6; AF_UNSPEC: either of the last two */
    int type;   /* SOCK_STREAM, SOCK_DGRAM */

    char host[WEFT__HOST_BYTES];       /* without brackets; "": none was given */
    char service[WEFT__SERVICE_BYTES]; /* a port's number, at most 65535, or its name */

    struct sockaddr_un path; /* with AF_UNIX, instead of these */
    socklen_t path_bytes;
} weft__address;

/* Take them apart. NULL, or in words what is wrong with them; *out is of no use then. */
const char *weft__address_parse(const char *net, const char *addr, weft__address *out);

/* Does it have a file, which is there until someone removes it? */
static inline _Bool weft__address_has_file(const weft__address *a)
{
    return a->family == AF_UNIX && a->path.sun_path[0] != '\0';
}

#endif

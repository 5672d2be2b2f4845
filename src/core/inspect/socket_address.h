/* The addresses of a socket as text, for snapshots. */
#ifndef WEFT_CORE_INSPECT_SOCKET_ADDRESS_H
#define WEFT_CORE_INSPECT_SOCKET_ADDRESS_H

#include <stdbool.h>

/* "127.0.0.1:80", "[::1]:80", "unix:/run/x", "unix:@x"; "": none. */
typedef struct weft__socket_text {
    char text[128];
} weft__socket_text;

/* Get the addresses of a socket and of its peer. Return false if fd is not a socket. */
bool weft__socket_describe(int fd, weft__socket_text *local, weft__socket_text *peer);

#endif

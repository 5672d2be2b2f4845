/* Receiving from sockets, for the hooks of recv and read. */
#ifndef WEFT_POSIX_IO_RECV_H
#define WEFT_POSIX_IO_RECV_H

#include <stddef.h>
#include <sys/socket.h>

/* One call of recv, recvfrom or recvmsg. */
typedef struct weft__recv_call {
    int fd, flags;
    void *buffer;
    size_t bytes;
    struct sockaddr *address; /* NULL: recv */
    socklen_t *address_bytes;
    struct msghdr *message; /* not NULL: recvmsg, and the fields from buffer on are unused */
} weft__recv_call;

/* Receive in a fiber. Returns as recv(2): -1 and errno on failure. The hooks must be on. */
ssize_t weft__recv_in_fiber(const weft__recv_call *call);

#endif

/* Blocking writes: calls that return after all bytes are written. */
#ifndef WEFT_POSIX_IO_SEND_H
#define WEFT_POSIX_IO_SEND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* A call that writes, and how far it is. */
typedef struct weft__write_call {
    int fd, flags; /* flags of send */
    const struct iovec *pieces;
    size_t count;
    size_t bytes;                 /* of all pieces */
    const struct msghdr *message; /* the first attempt sends this message; NULL: only the pieces */
    /*
     * Make the real call without blocking, for the bytes after the first `done`. Returns the number
     * of bytes, or -1 and errno. EAGAIN: the call would wait.
     */
    ssize_t (*attempt)(const struct weft__write_call *c, size_t done);
    bool is_socket;
} weft__write_call;

/*
 * Write all bytes in a fiber. Returns as write(2). If the write fails or is cancelled half way, the
 * call returns the number of bytes written. The next call then fails. The hooks must be on.
 */
ssize_t weft__write_in_fiber(const weft__write_call *call);

/* The `attempt` function for sockets. */
ssize_t weft__send_attempt(const weft__write_call *call, size_t done);

#endif

/*
 * The inspection socket: a UNIX socket through which `weft top` and `weft profile` look into the
 * process.
 *
 * The socket exists only on request. To open the socket without a change of the program, set
 * WEFT_INSPECT to its path:
 *
 *     WEFT_INSPECT=/run/user/1000/weft-%p ./server &
 *     weft top $!
 *
 * The path must be absolute or relative to the working directory. weft replaces %p by the process
 * id, and %% by %. weft opens the socket when the first thread calls weft. If the socket cannot be
 * opened, weft prints one line, and the program continues.
 *
 * A client can read the names, states, waits and backtraces of all fibers, and profiles. A client
 * cannot change fibers. Only processes of the same user and of root can connect. A client is
 * served by a separate thread, even while all cords compute. While a client of `weft top` is
 * connected, weft_account is on in all cords. src/core/inspect_socket/request.h documents the
 * protocol.
 */
#ifndef WEFT_INSPECT_SOCKET_H
#define WEFT_INSPECT_SOCKET_H

#include <weft/base.h>

WEFT_BEGIN

/**
 * Open the inspection socket of the process.
 *
 * The call creates a UNIX socket with mode 0600. If path names a socket of the caller on which no
 * process listens, the call replaces the socket. The call never replaces another file. When the
 * process exits, weft removes the socket. A child of fork(2) does not serve the socket of its
 * parent, and may open its own. Any thread may call this function.
 *
 * Returns 0, an error of socket(2) or bind(2), or:
 * -EADDRINUSE if another process listens on path
 * -EAGAIN if no thread can be created
 * -EALREADY if the process has an inspection socket
 * -EEXIST if path is not a socket, or belongs to another user
 * -EINVAL if path is NULL or empty, or contains a % that is not followed by p or %
 * -ENAMETOOLONG if the expanded path has more than 107 bytes
 * -ENOMEM if memory is exhausted
 * -ENOTRECOVERABLE in a child of plain fork(2)
 */
WEFT_API int weft_inspect_socket_open(const char *path);

/**
 * Close and remove the inspection socket. Disconnect all clients.
 *
 * The thread of the socket disconnects the clients after the call has returned. If the socket is
 * not open, the call does nothing. Any thread may call this function.
 */
WEFT_API void weft_inspect_socket_close(void);

WEFT_END

#endif

/* Hooks that make connections: connect, accept, accept4. */
#include "posix/io/fd_wait.h"

#include <weft/io.h>
#include <weft/net.h>

HOOK_DEFINE(int, connect, (int fd, const struct sockaddr *address, socklen_t bytes))
{
    if (!weft__hook_is_on() || !weft__fd_may_wait(fd))
        return REAL(connect)(fd, address, bytes);
    weft__hook_wait w;
    weft__hook_wait_begin(&w, WEFT__HOOK_RESTARTS, weft__fd_send_limit_s(fd, weft__fd_note(fd)));
    int rc = weft_connect(fd, address, bytes);
    return (int)weft__hook_result(weft__fd_wait_end(&w, rc, -EINPROGRESS));
}

/* Return whether accept waits. If the descriptor does not listen, the real call fails at once. */
static bool accept_may_wait(int fd)
{
    int error = errno, is_listening = 0;
    socklen_t bytes = sizeof is_listening;
    int rc = getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &bytes);
    errno = error;
    return rc == 0 && is_listening && weft__fd_may_wait(fd);
}

/*
 * Wait until a connection is there. Returns 0 or -errno.
 *
 * Several fibers may wait for one listener, and one of them takes the connection. poll(2) must
 * therefore repeat the check. The fiber does not switch between the check and accept4(2), so no
 * other fiber of the thread can take the connection. If another thread or process takes the
 * connection in between, or the peer resets it, accept4(2) blocks the thread until the next
 * connection. To prevent this, the listener would have to be non-blocking, which other users of the
 * listener would notice.
 */
static intptr_t wait_for_connection(int fd)
{
    intptr_t rc = 0;
    uint32_t generation = weft__fd_generation_here(fd);
    weft__hook_wait w;
    weft__hook_wait_begin(&w, WEFT__HOOK_RESTARTS, weft__fd_recv_limit_s(fd, weft__fd_note(fd)));
    do
        rc = weft__fd_await(fd, POLLIN, generation);
    while (rc >= 0 && weft__fd_ready(fd, POLLIN) == 0);
    return weft__fd_wait_end(&w, rc, -EAGAIN);
}

HOOK_DEFINE(int, accept4, (int fd, struct sockaddr *address, socklen_t *bytes, int flags))
{
    if (weft__hook_is_on() && weft__fd_ready(fd, POLLIN) == 0 && accept_may_wait(fd)) {
        int error = errno;
        intptr_t rc = wait_for_connection(fd);
        if (rc < 0)
            return weft__hook_fail(rc);
        errno = error;
    }
    return REAL(accept4)(fd, address, bytes, flags);
}

HOOK_DEFINE(int, accept, (int fd, struct sockaddr *address, socklen_t *bytes))
{
    return weft__hook_accept4(fd, address, bytes, 0);
}

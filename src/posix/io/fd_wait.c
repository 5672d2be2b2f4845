/* Waits of hooks for one descriptor, see fd_wait.h. */
#include "posix/io/fd_wait.h"

#include <weft/io.h>
#include <weft/time.h>

bool weft__fd_may_wait(int fd)
{
    int error = errno, flags = REAL(fcntl)(fd, F_GETFL);
    errno = error;
    return flags >= 0 && !(flags & O_NONBLOCK);
}

int weft__fd_ready(int fd, int events)
{
    struct pollfd p = {.fd = fd, .events = (short)events};
    return REAL(poll)(&p, 1, 0) > 0 ? p.revents : 0;
}

/* Returns 0 if the socket has no limit, or if fd is not a socket. */
static double socket_limit_s(int fd, int option)
{
    int error = errno;
    struct timeval limit = {0};
    socklen_t bytes = sizeof limit;
    int rc = getsockopt(fd, SOL_SOCKET, option, &limit, &bytes);
    errno = error;
    return rc == 0 ? weft__seconds_of_timeval(&limit) : 0;
}

/* Few sockets have a limit, so the note has only the fact that there is one. */
static double limit_s(int fd, uint32_t note, int option, uint32_t known, uint32_t limited)
{
    if ((note & (known | limited)) == known)
        return WEFT__HOOK_FOREVER;
    double seconds = socket_limit_s(fd, option);
    if (!(note & known))
        weft__fd_note_change(fd, limited, known | (seconds > 0 ? limited : 0));
    return seconds > 0 ? seconds : WEFT__HOOK_FOREVER;
}

double weft__fd_recv_limit_s(int fd, uint32_t note)
{
    return limit_s(fd, note, SO_RCVTIMEO, WEFT__NOTE_RECV_KNOWN, WEFT__NOTE_RECV_LIMIT);
}

double weft__fd_send_limit_s(int fd, uint32_t note)
{
    return limit_s(fd, note, SO_SNDTIMEO, WEFT__NOTE_SEND_KNOWN, WEFT__NOTE_SEND_LIMIT);
}

intptr_t weft__fd_await(int fd, int events, uint32_t generation)
{
    intptr_t rc = weft_wait_fd(fd, events);
    return weft__fd_generation_here(fd) != generation ? -EBADF : rc;
}

intptr_t weft__fd_wait_end(weft__hook_wait *w, intptr_t result, intptr_t late)
{
    intptr_t ended = weft__hook_wait_end(w, result);
    return ended != result ? late : result;
}

int weft__hook_retry_pause(double *delay_s)
{
    *delay_s = *delay_s > 0 ? 2 * *delay_s : WEFT__HOOK_RETRY_FIRST_S;
    if (*delay_s > WEFT__HOOK_RETRY_MAX_S)
        *delay_s = WEFT__HOOK_RETRY_MAX_S;
    return weft_sleep(*delay_s);
}

size_t weft__iovec_bytes(const struct iovec *pieces, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += pieces[i].iov_len;
    return bytes;
}

int weft__iovec_tail(const struct iovec *pieces, size_t count, size_t skip,
                     struct iovec out[WEFT__IOVEC_WINDOW])
{
    int n = 0;
    for (size_t i = 0; i < count && n < WEFT__IOVEC_WINDOW; i++) {
        size_t bytes = pieces[i].iov_len;
        size_t skipped = skip < bytes ? skip : bytes;
        skip -= skipped;
        if (skipped < bytes)
            out[n++] = (struct iovec){(char *)pieces[i].iov_base + skipped, bytes - skipped};
    }
    return n;
}

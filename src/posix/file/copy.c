/* Hooks of sendfile and splice, for blocking descriptors. weft copies, and never raises SIGPIPE. */
#include "posix/io/fd_wait.h"

#include <weft/io.h>

#include <signal.h>
#include <sys/sendfile.h>
#include <unistd.h>

/* Return a result of weft. After EPIPE, raise SIGPIPE as the kernel does. */
static ssize_t copy_result(intptr_t n, int error)
{
    if (n == -EPIPE)
        raise(SIGPIPE);
    errno = error;
    return weft__hook_result(n);
}

/* The kernel copies at most this number of bytes in one call. */
#define COPY_BYTES_MAX 0x7ffff000

/* Returns the bytes sent, even if the rest failed. The next call then fails. */
static ssize_t sendfile_in_fiber(int out, int in, off_t *offset, size_t bytes)
{
    int error = errno;
    off_t begin = *offset;
    weft__hook_wait w;
    weft__hook_wait_begin(&w, WEFT__HOOK_RESTARTS, weft__fd_send_limit_s(out, weft__fd_note(out)));
    intptr_t n = weft_sendfile(out, in, offset, bytes < COPY_BYTES_MAX ? bytes : COPY_BYTES_MAX);
    n = weft__fd_wait_end(&w, n, -EAGAIN);
    if (n < 0 && *offset > begin)
        n = *offset - begin;
    return copy_result(n, error);
}

/* An input without a position, for example a pipe, takes the real call. */
HOOK_DEFINE(ssize_t, sendfile64, (int out, int in, off64_t *offset, size_t bytes))
{
    off_t position = -1;
    if (weft__hook_is_on() && weft__fd_may_wait(out))
        position = offset != NULL ? *offset : lseek(in, 0, SEEK_CUR);
    if (position < 0)
        return REAL(sendfile64)(out, in, offset, bytes);
    ssize_t n = sendfile_in_fiber(out, in, &position, bytes);
    if (n > 0 && offset != NULL)
        *offset = position;
    else if (n > 0)
        lseek(in, position, SEEK_SET);
    return n;
}

HOOK_DEFINE(ssize_t, sendfile, (int out, int in, off_t *offset, size_t bytes))
{
    return weft__hook_sendfile64(out, in, offset, bytes);
}

HOOK_DEFINE(ssize_t, splice,
            (int in, off64_t *offset_in, int out, off64_t *offset_out, size_t bytes,
             unsigned flags))
{
    if (!weft__hook_is_on() || flags & SPLICE_F_NONBLOCK || !weft__fd_may_wait(in) ||
        !weft__fd_may_wait(out))
        return REAL(splice)(in, offset_in, out, offset_out, bytes, flags);
    int error = errno;
    weft__hook_wait w;
    weft__hook_wait_begin(&w, WEFT__HOOK_RESTARTS, WEFT__HOOK_FOREVER);
    intptr_t n = weft_splice(in, offset_in, out, offset_out, bytes, flags);
    return copy_result(weft__hook_wait_end(&w, n), error);
}

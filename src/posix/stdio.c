/* Streams of stdio that wait with weft: a cookie that calls hooks. */
#include "posix/hook.h"

#include <weft/error.h>
#include <weft/posix.h>

#include <fcntl.h>
#include <stdint.h>
#include <string.h>

ssize_t weft__hook_read(int fd, void *buffer, size_t bytes);
ssize_t weft__hook_write(int fd, const void *buffer, size_t bytes);
int weft__hook_close(int fd);

/* The cookie of a stream is its descriptor. */
static int fd_of_cookie(void *cookie)
{
    return (int)(intptr_t)cookie;
}

static ssize_t stream_read(void *cookie, char *buffer, size_t bytes)
{
    return weft__hook_read(fd_of_cookie(cookie), buffer, bytes);
}

/* Write all bytes. On failure return the bytes that are written, as stdio requires. */
static ssize_t stream_write(void *cookie, const char *buffer, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = weft__hook_write(fd_of_cookie(cookie), buffer + done, bytes - done);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

/* Fails with ESPIPE for sockets and pipes. */
static int stream_seek(void *cookie, off64_t *offset, int whence)
{
    off64_t at = lseek64(fd_of_cookie(cookie), *offset, whence);
    if (at < 0)
        return -1;
    *offset = at;
    return 0;
}

static int stream_close(void *cookie)
{
    return weft__hook_close(fd_of_cookie(cookie));
}

/* Return whether the descriptor allows the mode. */
static bool mode_is_allowed(const char *mode, int flags)
{
    bool is_both = strchr(mode, '+') != NULL;
    int access = flags & O_ACCMODE;
    if (access == O_RDWR)
        return true;
    return !is_both && (mode[0] == 'r' ? access == O_RDONLY : access == O_WRONLY);
}

/* Check the arguments of weft_fdopen. Returns 0 or -errno. */
static int check_stream(int fd, const char *mode)
{
    if (mode == NULL || mode[0] == '\0' || strchr("rwa", mode[0]) == NULL)
        return weft_fail(-EINVAL, "weft_fdopen: mode is '%s'", mode != NULL ? mode : "NULL");
    int flags = REAL(fcntl)(fd, F_GETFL);
    if (flags < 0)
        return weft_fail(-errno, "weft_fdopen: descriptor %d: %s", fd, strerror(errno));
    if (!mode_is_allowed(mode, flags))
        return weft_fail(-EINVAL, "weft_fdopen: descriptor %d does not allow mode '%s'", fd, mode);
    if (mode[0] == 'a' && (flags & O_APPEND) == 0 && REAL(fcntl)(fd, F_SETFL, flags | O_APPEND) < 0)
        return weft_fail(-errno, "weft_fdopen: descriptor %d: %s", fd, strerror(errno));
    if (strchr(mode, 'e') != NULL && REAL(fcntl)(fd, F_SETFD, FD_CLOEXEC) < 0)
        return weft_fail(-errno, "weft_fdopen: descriptor %d: %s", fd, strerror(errno));
    return 0;
}

FILE *weft_fdopen(int fd, const char *mode)
{
    static const cookie_io_functions_t functions = {stream_read, stream_write, stream_seek,
                                                    stream_close};
    int rc = check_stream(fd, mode);
    FILE *file = rc == 0 ? fopencookie((void *)(intptr_t)fd, mode, functions) : NULL;
    if (rc == 0 && file == NULL)
        rc = weft_fail(-errno, "weft_fdopen: descriptor %d: %s", fd, strerror(errno));
    if (file == NULL) {
        errno = -rc;
        return NULL;
    }
    file->_fileno = fd; /* so that fileno(3) works; fopencookie does not use the number */
    return file;
}

/* The I/O calls: each is one operation of the backend, or a loop of them. */
#include "core/op.h"

#include <weft/error.h>
#include <weft/io.h>

#include <poll.h>

ssize_t weft_read(int fd, void *buffer, size_t bytes)
{
    weft__op op = {.code = WEFT__OP_READ, .fd = fd, .u.buffer = {buffer, bytes}};
    return weft__op_run(&op);
}

ssize_t weft_write(int fd, const void *buffer, size_t bytes)
{
    weft__op op = {.code = WEFT__OP_WRITE, .fd = fd, .u.buffer = {(void *)buffer, bytes}};
    return weft__op_run(&op);
}

ssize_t weft_write_all(int fd, const void *buffer, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = weft_write(fd, (const char *)buffer + done, bytes - done);
        if (n < 0 || (size_t)n > bytes - done)
            return n; /* failed, or interrupted with a value that no write returns */
        done += (size_t)n;
    }
    return (ssize_t)bytes;
}

ssize_t weft_read_full(int fd, void *buffer, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t n = weft_read(fd, (char *)buffer + done, bytes - done);
        if (n < 0 || (size_t)n > bytes - done)
            return n; /* failed, or interrupted with a value that no read returns */
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

int weft_accept(int fd, struct sockaddr *address, socklen_t *bytes)
{
    weft__op op = {.code = WEFT__OP_ACCEPT, .fd = fd, .u.accept = {address, bytes}};
    return (int)weft__op_run(&op);
}

int weft_connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
    weft__op op = {.code = WEFT__OP_CONNECT, .fd = fd, .u.connect = {address, bytes}};
    return (int)weft__op_run(&op);
}

int weft_wait_fd(int fd, int events)
{
    if ((events & (POLLIN | POLLOUT)) == 0)
        return weft_fail(-EINVAL, "waiting for no event");
    weft__op op = {.code = WEFT__OP_WAIT, .fd = fd, .u.events = events & (POLLIN | POLLOUT)};
    return (int)weft__op_run(&op);
}

int weft_close(int fd)
{
    weft__cord *c = weft__cord_here();
    return c != NULL ? c->backend->type->close_fd(c->backend, fd) : -ENOMEM;
}

int weft_pipe(int fd[2])
{
    weft__cord *c = weft__cord_here();
    weft__backend *b = c != NULL ? weft__cord_backend(c) : NULL;
    return b != NULL ? b->type->pipe(b, fd) : -ENOMEM;
}

int weft_socketpair(int fd[2])
{
    weft__cord *c = weft__cord_here();
    weft__backend *b = c != NULL ? weft__cord_backend(c) : NULL;
    return b != NULL ? b->type->socketpair(b, fd) : -ENOMEM;
}

const char *weft_backend_why(void)
{
    weft__cord *c = weft__cord_here();
    return c != NULL ? c->backend_why : "there is no memory for one";
}

const char *weft_backend_name(void)
{
    weft__cord *c = weft__cord_here();
    return c != NULL ? c->backend->type->name : "none";
}

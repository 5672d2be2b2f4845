/* Operations of a selector on descriptors, and sleep. See selector.h. */
#include "selector/selector.h"

#include "backend/fd_generation.h"
#include "backend/syscall/call.h"

#include <errno.h>

/* Submit an operation. Copy its code, its descriptor and its arguments from op. */
static weft_value submit(weft_selector *s, weft_selector_op *host, const weft__op *op)
{
    weft__record *r;
    int rc = weft__record_new(s, host, &r);
    if (rc < 0)
        return rc;
    r->op.code = op->code;
    r->op.fd = op->fd;
    r->op.u = op->u;
    return weft__record_submit(r);
}

/* Limit the size of a transfer as the kernel does. */
static size_t clamp_bytes(size_t bytes)
{
    return bytes < WEFT__RW_BYTES_MAX ? bytes : WEFT__RW_BYTES_MAX;
}

static weft_value transfer(weft_selector *s, weft_selector_op *host, weft__opcode code, int fd,
                           void *data, size_t bytes, int64_t offset)
{
    if (offset < WEFT_SELECTOR_CURRENT)
        return -EINVAL;
    return submit(
        s, host,
        &(weft__op){.code = code, .fd = fd, .u.buffer = {data, clamp_bytes(bytes), offset}});
}

weft_value weft_selector_read(weft_selector *s, weft_selector_op *op, int fd, void *data,
                              size_t bytes, int64_t offset)
{
    return transfer(s, op, WEFT__OP_READ, fd, data, bytes, offset);
}

weft_value weft_selector_write(weft_selector *s, weft_selector_op *op, int fd, const void *data,
                               size_t bytes, int64_t offset)
{
    return transfer(s, op, WEFT__OP_WRITE, fd, (void *)data, bytes, offset);
}

static weft_value packet(weft_selector *s, weft_selector_op *host, weft__opcode code, int fd,
                         void *data, size_t bytes, int flags)
{
    if (flags & MSG_WAITALL)
        return -EINVAL;
    return submit(
        s, host,
        &(weft__op){.code = code, .fd = fd, .u.packet = {data, clamp_bytes(bytes), flags}});
}

weft_value weft_selector_recv(weft_selector *s, weft_selector_op *op, int fd, void *data,
                              size_t bytes, int flags)
{
    return packet(s, op, WEFT__OP_RECV, fd, data, bytes, flags);
}

weft_value weft_selector_send(weft_selector *s, weft_selector_op *op, int fd, const void *data,
                              size_t bytes, int flags)
{
    return packet(s, op, WEFT__OP_SEND, fd, (void *)data, bytes, flags);
}

weft_value weft_selector_accept(weft_selector *s, weft_selector_op *op, int fd,
                                struct sockaddr *address, socklen_t *address_bytes)
{
    return submit(s, op,
                  &(weft__op){.code = WEFT__OP_ACCEPT,
                              .fd = fd,
                              .u.accept = {address, address_bytes, .keeps_flags = true}});
}

weft_value weft_selector_connect(weft_selector *s, weft_selector_op *op, int fd,
                                 const struct sockaddr *address, socklen_t address_bytes)
{
    return submit(
        s, op,
        &(weft__op){.code = WEFT__OP_CONNECT, .fd = fd, .u.connect = {address, address_bytes}});
}

weft_value weft_selector_wait_fd(weft_selector *s, weft_selector_op *op, int fd, int events)
{
    if (events == 0 || (events & ~(POLLIN | POLLOUT | POLLPRI)) != 0)
        return -EINVAL;
    int rc = events == POLLPRI ? weft__call_check_waitable(fd) : 0; /* no file is urgent */
    if (rc < 0)
        return rc;
    return submit(s, op, &(weft__op){.code = WEFT__OP_WAIT, .fd = fd, .u.events = events});
}

static void sleep_fire(weft__timer *timer)
{
    weft__record_complete(CONTAINER_OF(timer, weft__record, timer), 0);
}

weft_value weft_selector_sleep(weft_selector *s, weft_selector_op *op, double seconds)
{
    weft__record *r;
    int rc = weft__record_new(s, op, &r);
    if (rc < 0)
        return rc;
    r->timer.fire = sleep_fire;
    rc = weft__record_arm(r, &r->timer, seconds);
    if (rc == 0)
        return weft__record_wait(r);
    weft__record_free(r);
    return rc;
}

/* Advance the generation first: cords may cache state about the number. */
int weft_selector_close_fd(weft_selector *s, int fd)
{
    int rc = weft__selector_use(s);
    if (rc < 0)
        return rc;
    if (fd < 0)
        return -EBADF;
    weft__backend *b = weft__selector_backend(s);
    weft__fd_advance(fd);
    return b->type->close_fd(b, fd);
}

/*
 * Hooks that move bytes: io_read, io_write, io_pread, io_pwrite.
 *
 * A hook makes one attempt and returns -EAGAIN, and Ruby then calls io_wait. read_nonblock depends
 * on this. There are two exceptions:
 *
 * - A descriptor in blocking mode that is not a socket has no such attempt: regular files,
 *   inherited pipes and terminals. The fiber then waits for the transfer itself.
 * - If Ruby fills the buffer of an IO, the caller is not read_nonblock. The hook waits itself: that
 *   saves a second call of the hook. See fill_hint.h for the attempt that it also saves.
 *
 * The arguments of the hooks have changed three times. RUBY_FIBER_SCHEDULER_VERSION says how.
 */
#include "fill_hint.h"
#include "scheduler.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <ruby/fiber/scheduler.h>
#include <ruby/io.h>
#include <ruby/io/buffer.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef RUBY_FIBER_SCHEDULER_VERSION
#define RUBY_FIBER_SCHEDULER_VERSION 1 /* Ruby 3.1 */
#endif

#define FILLS_IN_A_ROW_MAX 16

static ID id_io_wait;

struct transfer {
    VALUE self, io;
    bool is_write;
    char *data;
    size_t bytes;     /* the most that data can take or give */
    size_t bytes_min; /* wait until this number has moved; 0: one attempt */
    int64_t position; /* in the file, or WEFT_SELECTOR_CURRENT */
};

static weft_value attempt_nonblocking(const struct transfer *transfer, int fd)
{
    ssize_t bytes = transfer->is_write ? write(fd, transfer->data, transfer->bytes)
                                       : read(fd, transfer->data, transfer->bytes);
    return bytes < 0 ? -errno : bytes;
}

/* Transfer what the page cache or a pipe has. Return -EAGAIN if the kernel would have to wait. */
static weft_value attempt_in_memory(const struct transfer *transfer, int fd)
{
    struct iovec span = {transfer->data, transfer->bytes};
    ssize_t bytes = transfer->is_write ? pwritev2(fd, &span, 1, transfer->position, RWF_NOWAIT)
                                       : preadv2(fd, &span, 1, transfer->position, RWF_NOWAIT);
    if (bytes < 0)
        return errno == EOPNOTSUPP || errno == ENOSYS || errno == ESPIPE ? -EAGAIN : -errno;
    return bytes;
}

static weft_value attempt_socket(const struct transfer *transfer, int fd)
{
    int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
    ssize_t bytes = transfer->is_write ? send(fd, transfer->data, transfer->bytes, flags)
                                       : recv(fd, transfer->data, transfer->bytes, flags);
    return bytes < 0 ? -errno : bytes;
}

/*
 * Transfer through memory of our own, and suspend the fiber. Another fiber may close the IO, and
 * Ruby then frees the IO's buffer: the kernel must not use that buffer meanwhile.
 */
static weft_value transfer_wait(struct transfer *transfer, int fd)
{
    struct scheduler *scheduler = scheduler_get(transfer->self);
    weft_selector *selector = scheduler_selector(scheduler);
    VALUE memory;
    char *copy = ALLOCV(memory, transfer->bytes);
    struct operation operation;
    operation_init(&operation, operation_wake, NULL);
    weft_value result;
    if (transfer->is_write) {
        memcpy(copy, transfer->data, transfer->bytes);
        result = weft_selector_write(selector, &operation.op, fd, copy, transfer->bytes,
                                     transfer->position);
    } else {
        result = weft_selector_read(selector, &operation.op, fd, copy, transfer->bytes,
                                    transfer->position);
    }
    result = operation_wait(scheduler, &operation, result, "io", INFINITY);
    if (!transfer->is_write && result > 0) {
        rb_io_descriptor(transfer->io); /* raises IOError if the IO is closed */
        memcpy(transfer->data, copy, (size_t)result);
    }
    ALLOCV_END(memory);
    return result;
}

/* Make one attempt. Return the number of bytes or a negative errno. */
static weft_value transfer_attempt(struct transfer *transfer)
{
    int fd = rb_io_descriptor(transfer->io);
    weft_value result;
    if (transfer->position == WEFT_SELECTOR_CURRENT) {
        result = attempt_socket(transfer, fd);
        if (result != -ENOTSOCK)
            return result;
        if (fcntl(fd, F_GETFL) & O_NONBLOCK)
            return attempt_nonblocking(transfer, fd);
    }
    result = attempt_in_memory(transfer, fd);
    return result == -EAGAIN ? transfer_wait(transfer, fd) : result;
}

static void transfer_await_readiness(struct transfer *transfer)
{
    int events = transfer->is_write ? RUBY_IO_WRITABLE : RUBY_IO_READABLE;
    rb_funcall(transfer->self, id_io_wait, 3, transfer->io, INT2FIX(events), Qnil);
}

static void transfer_advance(struct transfer *transfer, size_t bytes)
{
    transfer->data += bytes;
    transfer->bytes -= bytes;
    if (transfer->position != WEFT_SELECTOR_CURRENT)
        transfer->position += (int64_t)bytes;
}

#ifdef HAVE_RB_IO_T_RBUF

/* Return whether Ruby fills the buffer of an IO. The field is deprecated, without a replacement. */
static bool transfer_is_fill(const struct transfer *transfer)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    return !transfer->is_write && transfer->position == WEFT_SELECTOR_CURRENT &&
           RFILE(transfer->io)->fptr->rbuf.ptr == transfer->data;
#pragma GCC diagnostic pop
}

/* Wait, then check that no other fiber has closed the IO: Ruby would have freed its buffer. */
static bool fill_await_readiness(struct transfer *transfer)
{
    transfer_await_readiness(transfer);
    rb_io_descriptor(transfer->io); /* raises IOError if the IO is closed */
    return transfer_is_fill(transfer);
}

/* A fiber whose input always comes in time must not starve the others. */
static void fill_be_fair(struct scheduler *scheduler)
{
    if (++scheduler->fills_in_a_row < FILLS_IN_A_ROW_MAX)
        return;
    scheduler->switches_before_poll = 0; /* fibers may be ready after a poll only */
    scheduler_yield(scheduler);
}

/* Fill the buffer of an IO. Return the number of bytes or a negative errno. */
static VALUE transfer_fill(struct transfer *transfer)
{
    struct scheduler *scheduler = scheduler_get(transfer->self);
    int fd = rb_io_descriptor(transfer->io);
    if (fill_hint_take(scheduler, fd) && !fill_await_readiness(transfer))
        return INT2FIX(-EBADF);
    fill_be_fair(scheduler);
    weft_value result;
    while ((result = transfer_attempt(transfer)) == -EAGAIN || result == -EINTR) {
        if (result == -EINTR)
            continue;
        fill_hint_set(scheduler, fd);
        if (!fill_await_readiness(transfer))
            return INT2FIX(-EBADF);
    }
    return LONG2NUM(result);
}

#else

static bool transfer_is_fill(const struct transfer *transfer)
{
    (void)transfer;
    return false;
}

static VALUE transfer_fill(struct transfer *transfer)
{
    (void)transfer;
    return Qnil;
}

#endif

/* Run a transfer. Return the number of bytes as an Integer, or a negative errno. */
static VALUE transfer_run(struct transfer *transfer)
{
    if (transfer_is_fill(transfer))
        return transfer_fill(transfer);
    size_t total = 0;
    while (transfer->bytes > 0) {
        weft_value result = transfer_attempt(transfer);
        if (result == -EINTR)
            continue;
        if (result == -EAGAIN && total < transfer->bytes_min) {
            transfer_await_readiness(transfer);
            continue;
        }
        if (result < 0 && total == 0)
            return INT2NUM((int)result);
        if (result > 0)
            total += (size_t)result;
        if (result <= 0 || total >= transfer->bytes_min)
            break;
        transfer_advance(transfer, (size_t)result);
    }
    RB_GC_GUARD(transfer->self);
    RB_GC_GUARD(transfer->io);
    return SIZET2NUM(total);
}

/* Set the memory of a transfer: buffer from offset on. */
static void transfer_set_buffer(struct transfer *transfer, VALUE buffer, size_t offset)
{
    void *data;
    size_t size;
    if (transfer->is_write)
        rb_io_buffer_get_bytes_for_reading(buffer, (const void **)&data, &size);
    else
        rb_io_buffer_get_bytes_for_writing(buffer, &data, &size);
    if (offset > size)
        rb_raise(rb_eArgError, "the offset is after the end of the buffer");
    transfer->data = (char *)data + offset;
    transfer->bytes = size - offset;
}

/* Set the memory and the number of bytes from the last arguments of a hook. */
static void transfer_set_range(struct transfer *transfer, VALUE buffer, const VALUE *arguments)
{
#if RUBY_FIBER_SCHEDULER_VERSION == 1 /* length */
    transfer_set_buffer(transfer, buffer, 0);
    transfer->bytes_min = NUM2SIZET(arguments[0]);
#elif RUBY_FIBER_SCHEDULER_VERSION <= 3 /* length, offset */
    transfer_set_buffer(transfer, buffer, NUM2SIZET(arguments[1]));
    transfer->bytes_min = NUM2SIZET(arguments[0]);
#else                                   /* offset, length: one transfer of at most length bytes */
    transfer_set_buffer(transfer, buffer, NUM2SIZET(arguments[0]));
    size_t bytes_max = NUM2SIZET(arguments[1]);
    if (transfer->bytes > bytes_max)
        transfer->bytes = bytes_max;
#endif
}

#define RANGE_ARGUMENTS (RUBY_FIBER_SCHEDULER_VERSION == 1 ? 1 : 2)

static VALUE transfer_at_current(int argc, VALUE *argv, VALUE self, bool is_write)
{
    rb_check_arity(argc, 2 + RANGE_ARGUMENTS, 2 + RANGE_ARGUMENTS);
    struct transfer transfer = {
        .self = self, .io = argv[0], .is_write = is_write, .position = WEFT_SELECTOR_CURRENT};
    transfer_set_range(&transfer, argv[1], argv + 2);
    return transfer_run(&transfer);
}

static VALUE hook_io_read(int argc, VALUE *argv, VALUE self)
{
    return transfer_at_current(argc, argv, self, false);
}

static VALUE hook_io_write(int argc, VALUE *argv, VALUE self)
{
    return transfer_at_current(argc, argv, self, true);
}

#if RUBY_FIBER_SCHEDULER_VERSION >= 2

static VALUE transfer_at_position(int argc, VALUE *argv, VALUE self, bool is_write)
{
    rb_check_arity(argc, 5, 5);
    struct transfer transfer = {
        .self = self, .io = argv[0], .is_write = is_write, .position = NUM2OFFT(argv[2])};
    transfer_set_range(&transfer, argv[1], argv + 3);
    return transfer_run(&transfer);
}

static VALUE hook_io_pread(int argc, VALUE *argv, VALUE self)
{
    return transfer_at_position(argc, argv, self, false);
}

#endif

#if RUBY_FIBER_SCHEDULER_VERSION >= 3

static VALUE hook_io_pwrite(int argc, VALUE *argv, VALUE self)
{
    return transfer_at_position(argc, argv, self, true);
}

#endif

/*
 * Ruby 3.1 passes a wrong position to io_pread and io_pwrite. Ruby 3.3 and 3.4 call io_pwrite
 * without the GVL.
 */
void init_transfer_hooks(VALUE klass)
{
    id_io_wait = rb_intern("io_wait");
    rb_define_method(klass, "io_read", hook_io_read, -1);
    rb_define_method(klass, "io_write", hook_io_write, -1);
#if RUBY_FIBER_SCHEDULER_VERSION >= 2
    rb_define_method(klass, "io_pread", hook_io_pread, -1);
#endif
#if RUBY_FIBER_SCHEDULER_VERSION >= 3
    rb_define_method(klass, "io_pwrite", hook_io_pwrite, -1);
#endif
}

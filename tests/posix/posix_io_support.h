/* Descriptors and signal handlers for the tests of hooked calls on descriptors. */
#ifndef TESTS_POSIX_POSIX_IO_SUPPORT_H
#define TESTS_POSIX_POSIX_IO_SUPPORT_H

#include "posix/posix_support.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define MIB ((size_t)1 << 20)

/* Hook the calls of this program, and make its thread a cord. Before, all hooks are off. */
static inline void adopt_in_cord(void)
{
    adopt_program();
    ck_assert_uint_ne(weft_self(), 0);
}

/* The result of a call of libc in the form of weft: a negative errno on failure. */
static inline weft_value result_of(ssize_t returned)
{
    return returned < 0 ? -errno : returned;
}

/* Assert that a call fails with an error. */
#define ck_assert_errno(call, error)      \
    do {                                  \
        errno = 0;                        \
        ck_assert_int_eq((call), -1);     \
        ck_assert_int_eq(errno, (error)); \
    } while (0)

static inline void open_pipe(int fd[2])
{
    ck_assert_int_eq(pipe2(fd, O_CLOEXEC), 0);
}

static inline void open_pair(int fd[2], int type)
{
    ck_assert_int_eq(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fd), 0);
}

static inline void set_nonblocking(int fd)
{
    ck_assert_int_eq(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

static inline void assert_is_blocking(int fd)
{
    ck_assert_int_eq(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
}

static inline void put_text(int fd, const char *text)
{
    ck_assert_int_eq(weft_write_all(fd, text, strlen(text)), (ssize_t)strlen(text));
}

/* Return an empty file without a name. */
static inline int open_temporary_file(void)
{
    char path[] = "/tmp/weft-posix-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(unlink(path), 0);
    return fd;
}

/* Allocated bytes that differ at all places. */
static inline char *new_pattern(size_t bytes)
{
    char *data = malloc(bytes);
    ck_assert_ptr_nonnull(data);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (char)(i * 31 + i / 251 + i / 65521);
    return data;
}

/* A fiber that reads all bytes of a descriptor with weft, and compares them. */
typedef struct draining {
    int fd;
    const char *expected;
    size_t bytes;
} draining;

static inline weft_value drain(void *arg)
{
    const draining *d = arg;
    char *data = malloc(d->bytes);
    ck_assert_int_eq(weft_read_full(d->fd, data, d->bytes), (ssize_t)d->bytes);
    ck_assert(memcmp(data, d->expected, d->bytes) == 0);
    free(data);
    return 0;
}

/* A fiber that stores the result of a call. The value of a cancelled fiber would be -ECANCELED. */
typedef struct observed {
    weft_fn *fn;
    void *arg;
    weft_value result;
} observed;

static inline weft_value observe(void *arg)
{
    observed *o = arg;
    o->result = o->fn(o->arg);
    return 0;
}

/* Run a call in a fiber until it waits, and cancel the fiber. Return the result of the call. */
static inline weft_value cancelled_result(weft_fn *fn, void *arg)
{
    observed o = {fn, arg, 0};
    weft_fiber f = spin_waiting(observe, &o);
    cancel_and_await(f);
    return o.result;
}

/* Handlers that count. */

static volatile sig_atomic_t signals_seen;

static inline void count_signal(int signal)
{
    (void)signal;
    signals_seen++;
}

static inline void handle_signal(int signal, int flags)
{
    struct sigaction action = {.sa_handler = count_signal, .sa_flags = flags};
    signals_seen = 0;
    ck_assert_int_eq(sigaction(signal, &action, NULL), 0);
}

#endif

/*
 * Helpers for the tests of descriptors and sockets: a stream of known bytes, counts of open
 * descriptors and pending operations, listeners, and full pipes.
 */
#ifndef TESTS_SUPPORT_NET_SUPPORT_H
#define TESTS_SUPPORT_NET_SUPPORT_H

#include "support/random.h"
#include "support/support.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/un.h>

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#endif

/* Assert that no operation is pending in the backend and no timer is armed. */
static inline void assert_nothing_pending(void)
{
    weft_counters counters;
    weft_stats(&counters);
    ck_assert_uint_eq(counters.ops_pending, 0);
    ck_assert_uint_eq(counters.timers, 0);
}

/*
 * The byte at offset i of the test stream. The period is long, so that a lost or repeated byte is
 * detected.
 */
static inline unsigned char byte_at(size_t i)
{
    return (unsigned char)(i * 31 + i / 251 + i / 65521);
}

static inline void fill_from(unsigned char *data, size_t bytes, size_t offset)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = byte_at(offset + i);
}

/* Assert that data equals the test stream from offset on. */
static inline void assert_bytes_at(const unsigned char *data, size_t bytes, size_t offset)
{
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != byte_at(offset + i))
            ck_abort_msg("byte %zu of the stream is wrong", offset + i);
}

static inline void assert_all(const unsigned char *data, size_t bytes, unsigned char value)
{
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != value)
            ck_abort_msg("byte %zu of the buffer was written to", i);
}

/* Make the backend open all its descriptors. Call this before the first count_descriptors. */
static inline void warm_up(void)
{
    int fd[2];
    char byte;
    ck_assert_int_eq(weft_pipe(fd), 0);
    WEFT_MOVE_ON_AFTER(0.0001)
        ck_assert_int_eq(weft_read(fd[0], &byte, 1), -ECANCELED);
    ck_assert_int_eq(weft_close(fd[0]), 0);
    ck_assert_int_eq(weft_close(fd[1]), 0);
}

/* Raise the limit of open descriptors to wanted, or to the hard limit. Return the new limit. */
static inline size_t raise_descriptor_limit(size_t wanted)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    }
    return limit.rlim_cur;
}

/* A socket address of any family, in the form that system calls take. */
typedef struct endpoint {
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_un un;
    } u;
    socklen_t bytes;
} endpoint;

static inline int listen_at(endpoint *p, int backlog)
{
    int fd = socket(p->u.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, &p->u.any, p->bytes), 0);
    ck_assert_int_eq(listen(fd, backlog), 0);
    p->bytes = sizeof p->u;
    ck_assert_int_eq(getsockname(fd, &p->u.any, &p->bytes), 0);
    return fd;
}

static inline endpoint tcp_endpoint(void)
{
    endpoint p = {.bytes = sizeof p.u.in};
    p.u.in.sin_family = AF_INET;
    p.u.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return p;
}

/* Listen on a free port of the loopback address. */
static inline int listen_tcp(endpoint *p, int backlog)
{
    *p = tcp_endpoint();
    return listen_at(p, backlog);
}

/* Listen at an abstract address that the kernel chooses. */
static inline int listen_unix(endpoint *p, int backlog)
{
    *p = (endpoint){.bytes = sizeof(sa_family_t)};
    p->u.un.sun_family = AF_UNIX;
    return listen_at(p, backlog);
}

/* Return a socket of the family of p, to connect with. */
static inline int socket_for(const endpoint *p)
{
    int fd = socket(p->u.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    return fd;
}

/* Create a connected TCP pair over loopback, with the smallest send buffer. */
static inline void tcp_pair(int fd[2])
{
    endpoint p;
    int listener = listen_tcp(&p, 1), least = 1;
    fd[1] = socket_for(&p);
    ck_assert_int_eq(setsockopt(fd[1], SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
    ck_assert_int_eq(connect(fd[1], &p.u.any, p.bytes), 0);
    fd[0] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(fd[0], 0);
    close(listener);
}

/* Streams of each kind. fd[0] reads what fd[1] writes. */
enum { STREAM_PIPE, STREAM_UNIX, STREAM_TCP, STREAM_KINDS };

static inline void open_stream(int fd[2], int kind)
{
    if (kind == STREAM_TCP)
        tcp_pair(fd);
    else
        ck_assert_int_eq(kind == STREAM_PIPE ? weft_pipe(fd) : weft_socketpair(fd), 0);
}

/*
 * True while written bytes are in transit to the peer. The kernel may free buffer space later
 * although the peer does not read.
 */
static inline bool is_in_flight(int fd)
{
    int queued, unsent;
    return ioctl(fd, SIOCOUTQNSD, &unsent) == 0 && ioctl(fd, SIOCOUTQ, &queued) == 0 &&
           queued != unsent;
}

/* Write without weft and without blocking until the buffer is full. Return the bytes written. */
static inline size_t fill_up(int fd)
{
    static const char block[4096];
    size_t total = 0;
    int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    for (size_t bytes = sizeof block; bytes > 0;) {
        ssize_t n = write(fd, block, bytes);
        if (n > 0)
            total += (size_t)n;
        else if (is_in_flight(fd))
            sched_yield();
        else
            bytes /= 2;
    }
    fcntl(fd, F_SETFL, flags);
    return total;
}

#endif

/*
 * What the tests of descriptors and sockets share: numbers that come out the same each time, what
 * is still open or pending, listeners, full pipes.
 */
#ifndef TESTS_NET_SUPPORT_H
#define TESTS_NET_SUPPORT_H

#include "support.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#endif

/* On sim only the pipes and sockets that weft made do not block the thread. */
static inline bool is_in_memory(void)
{
    return strcmp(weft_backend_name(), "sim") == 0;
}

static inline size_t ops_pending(void)
{
    weft_counters counters;
    weft_stats(&counters);
    return counters.ops_pending;
}

/* Nobody holds anything: no operation is with the backend, no timer armed. */
static inline void assert_nothing_pending(void)
{
    weft_counters counters;
    weft_stats(&counters);
    ck_assert_uint_eq(counters.ops_pending, 0);
    ck_assert_uint_eq(counters.timers, 0);
}

/* Each test begins with the same numbers. */
static uint64_t random_state = 88172645463325252;

static inline unsigned random_below(unsigned n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state >> 33) % n;
}

/* What stands at a place of a stream. Its period is long: what is missing or doubled shows. */
static inline unsigned char byte_at(size_t i)
{
    return (unsigned char)(i * 31 + i / 251 + i / 65521);
}

static inline void fill_from(unsigned char *data, size_t bytes, size_t place)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = byte_at(place + i);
}

/* These are the bytes that stand at a place of the stream. */
static inline void assert_bytes_at(const unsigned char *data, size_t bytes, size_t place)
{
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != byte_at(place + i))
            ck_abort_msg("byte %zu of the stream is wrong", place + i);
}

static inline void assert_all(const unsigned char *data, size_t bytes, unsigned char value)
{
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != value)
            ck_abort_msg("byte %zu of the buffer was written to", i);
}

/* Descriptors that this process has open. */
static inline size_t count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(folder);
    size_t n = 0;
    while (readdir(folder) != NULL)
        n++;
    closedir(folder);
    return n - 3; /* ".", "..", and the folder itself */
}

/* Have the backend open what it needs, so that descriptors can be counted from here on. */
static inline void warm_up(void)
{
    int fd[2];
    char byte;
    ck_assert_int_eq(weft_pipe(fd), 0);
    WEFT_MOVE_ON_AFTER(0.0001) {
        ck_assert_int_eq(weft_read(fd[0], &byte, 1), -ECANCELED);
    }
    ck_assert_int_eq(weft_close(fd[0]), 0);
    ck_assert_int_eq(weft_close(fd[1]), 0);
}

/* So many descriptors may be open, or as many as there can be; returns how many. */
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

/* An address of any family, as the system calls want it. */
typedef struct place {
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_un un;
    } u;
    socklen_t bytes;
} place;

static inline int listen_at(place *p, int backlog)
{
    int fd = socket(p->u.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, &p->u.any, p->bytes), 0);
    ck_assert_int_eq(listen(fd, backlog), 0);
    p->bytes = sizeof p->u;
    ck_assert_int_eq(getsockname(fd, &p->u.any, &p->bytes), 0);
    return fd;
}

static inline place tcp_place(void)
{
    place p = {.bytes = sizeof p.u.in};
    p.u.in.sin_family = AF_INET;
    p.u.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return p;
}

/* A listener on a free port of this machine. */
static inline int listen_tcp(place *p, int backlog)
{
    *p = tcp_place();
    return listen_at(p, backlog);
}

/* A listener at an abstract address that the kernel picks. */
static inline int listen_unix(place *p, int backlog)
{
    *p = (place){.bytes = sizeof(sa_family_t)};
    p->u.un.sun_family = AF_UNIX;
    return listen_at(p, backlog);
}

/* A socket to connect to p with. */
static inline int socket_for(const place *p)
{
    int fd = socket(p->u.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    return fd;
}

/* Two ends of a connection over loopback, buffers as small as they get. */
static inline void tcp_pair(int fd[2])
{
    place p;
    int listener = listen_tcp(&p, 1), small = 1;
    fd[1] = socket_for(&p);
    ck_assert_int_eq(setsockopt(fd[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    ck_assert_int_eq(connect(fd[1], &p.u.any, p.bytes), 0);
    fd[0] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(fd[0], 0);
    close(listener);
}

/*
 * Is some of what was written to a TCP connection on its way still? Then there may be room again in
 * a moment, although nobody reads.
 */
static inline bool is_in_flight(int fd)
{
    int queued, unsent;
    return ioctl(fd, SIOCOUTQNSD, &unsent) == 0 && ioctl(fd, SIOCOUTQ, &queued) == 0 &&
           queued != unsent;
}

/* Write until there is no more room, without blocking and without weft; returns how much. */
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

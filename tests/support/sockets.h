/*
 * Sockets for tests: addresses on this machine, pairs that are connected, one who receives. What a
 * test does, it does with descriptors that block and with some that do not (the two modes): the
 * result is the same.
 */
#ifndef TESTS_SOCKETS_H
#define TESTS_SOCKETS_H

#include "support.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/un.h>

static inline size_t ops_pending(void)
{
    weft_counters counters;
    weft_stats(&counters);
    return counters.ops_pending;
}

static inline void close_both(const int fd[2])
{
    ck_assert_int_eq(weft_close(fd[0]), 0);
    ck_assert_int_eq(weft_close(fd[1]), 0);
    ck_assert_uint_eq(ops_pending(), 0);
}

/* The two rounds of a test: flags for socket(2). */
static const int modes[] = {SOCK_CLOEXEC, SOCK_CLOEXEC | SOCK_NONBLOCK};

/* A call must leave the descriptor as it was. */
static inline void assert_mode(int fd, int mode)
{
    ck_assert_int_eq(!(fcntl(fd, F_GETFL) & O_NONBLOCK), !(mode & SOCK_NONBLOCK));
}

typedef struct address {
    struct sockaddr_storage storage;
    socklen_t bytes;
} address;

static inline struct sockaddr *raw(address *a)
{
    return (struct sockaddr *)&a->storage;
}

/* This machine, port 0. */
static inline address loopback(int family)
{
    address a = {.bytes = sizeof(struct sockaddr_in)};
    if (family == AF_INET) {
        *(struct sockaddr_in *)&a.storage =
            (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    } else {
        *(struct sockaddr_in6 *)&a.storage =
            (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
        a.bytes = sizeof(struct sockaddr_in6);
    }
    return a;
}

/* A name in the abstract space, which needs no cleaning up. */
static inline address abstract(int number)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int n = snprintf(name.sun_path + 1, 60, "weft-net-%d-%d", (int)getpid(), number);
    address a = {.bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)};
    memcpy(&a.storage, &name, sizeof name);
    return a;
}

/* A socket that is bound to a free port, or to that name; *a becomes its address. -1: no IPv6. */
static inline int bound(address *a, int type)
{
    int fd = socket(a->storage.ss_family, type, 0);
    if (fd < 0 || (bind(fd, raw(a), a->bytes) < 0 && errno == EADDRNOTAVAIL)) {
        ck_assert_int_eq(a->storage.ss_family, AF_INET6);
        close(fd);
        return -1;
    }
    a->bytes = sizeof a->storage;
    ck_assert_int_eq(getsockname(fd, raw(a), &a->bytes), 0);
    return fd;
}

static inline int listening(address *a, int mode, int backlog)
{
    int fd = bound(a, SOCK_STREAM | mode);
    if (fd >= 0)
        ck_assert_int_eq(listen(fd, backlog), 0);
    return fd;
}

static inline int unconnected(int family, int mode)
{
    int fd = socket(family, SOCK_STREAM | mode, 0);
    ck_assert_int_ge(fd, 0);
    return fd;
}

enum { TCP4, TCP6, UNIX, KINDS };

/* Two connected stream sockets. False: no IPv6 here. */
static inline bool connected(int fd[2], int kind, int mode)
{
    address a = kind == UNIX ? abstract(0) : loopback(kind == TCP4 ? AF_INET : AF_INET6), peer;
    int listener = listening(&a, mode, 1);
    if (listener < 0)
        return false;
    fd[0] = unconnected(a.storage.ss_family, mode);
    ck_assert_int_eq(weft_connect(fd[0], raw(&a), a.bytes), 0);
    peer.bytes = sizeof peer.storage;
    fd[1] = weft_accept(listener, raw(&peer), &peer.bytes);
    ck_assert_int_ge(fd[1], 0);
    ck_assert_int_eq(peer.storage.ss_family, a.storage.ss_family);
    ck_assert(fcntl(fd[1], F_GETFD) & FD_CLOEXEC);
    ck_assert_int_eq(weft_close(listener), 0);
    assert_mode(fd[0], mode);
    if (mode & SOCK_NONBLOCK)
        ck_assert_int_eq(fcntl(fd[1], F_SETFL, O_NONBLOCK), 0);
    else
        ck_assert_int_eq(fcntl(fd[1], F_SETFL, 0), 0);
    return true;
}

static inline void unix_pair(int fd[2], int type, int mode)
{
    ck_assert_int_eq(socketpair(AF_UNIX, type | mode, 0, fd), 0);
}

/* One who receives: its value is the result. */
typedef struct receiving {
    int fd;
    int flags;
    size_t bytes; /* how many it wants */
    char data[64];
} receiving;

static inline weft_value receive(void *arg)
{
    receiving *r = arg;
    return weft_recv(r->fd, r->data, r->bytes, r->flags);
}

/* A fiber that waits in its recv. */
static inline weft_fiber spin_receiver(receiving *r, int fd, size_t bytes, int flags)
{
    *r = (receiving){.fd = fd, .bytes = bytes, .flags = flags};
    weft_fiber f = weft_spin(receive, r);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    return f;
}

/* A message of one byte and at most one descriptor. */
typedef struct parcel {
    int fd;
    char byte;
    struct iovec piece;
    struct msghdr header;
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control;
} parcel;

static inline struct msghdr *wrap(parcel *p)
{
    p->piece = (struct iovec){&p->byte, 1};
    p->header = (struct msghdr){.msg_iov = &p->piece,
                                .msg_iovlen = 1,
                                .msg_control = p->control.room,
                                .msg_controllen = sizeof p->control.room};
    memset(p->control.room, 0, sizeof p->control.room);
    return &p->header;
}

#endif

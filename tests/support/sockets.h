/*
 * Sockets for tests: loopback addresses, connected pairs, and a receiving fiber. Each test runs
 * with blocking and with non-blocking descriptors, and expects the same result.
 */
#ifndef TESTS_SUPPORT_SOCKETS_H
#define TESTS_SUPPORT_SOCKETS_H

#include "support/support.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/un.h>

/* The flags for socket(2), one entry for each round of a test. */
static const int blocking_modes[] = {SOCK_CLOEXEC, SOCK_CLOEXEC | SOCK_NONBLOCK};

/* Assert that a call left the blocking mode unchanged. */
static inline void assert_blocking_mode(int fd, int mode)
{
    ck_assert_int_eq(!(fcntl(fd, F_GETFL) & O_NONBLOCK), !(mode & SOCK_NONBLOCK));
}

typedef struct address {
    struct sockaddr_storage storage;
    socklen_t bytes;
} address;

static inline struct sockaddr *sockaddr_of(address *a)
{
    return (struct sockaddr *)&a->storage;
}

/* The loopback address with port 0. */
static inline address loopback_address(int family)
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

/* An abstract Unix address, which needs no cleanup. */
static inline address abstract_address(int number)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int n = snprintf(name.sun_path + 1, 60, "weft-net-%d-%d", (int)getpid(), number);
    address a = {.bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)};
    memcpy(&a.storage, &name, sizeof name);
    return a;
}

/*
 * Return a socket bound to *a, and store its address there. Port 0 selects a free port. Return -1
 * without IPv6.
 */
static inline int bind_address(address *a, int type)
{
    int fd = socket(a->storage.ss_family, type, 0);
    if (fd < 0 || (bind(fd, sockaddr_of(a), a->bytes) < 0 && errno == EADDRNOTAVAIL)) {
        ck_assert_int_eq(a->storage.ss_family, AF_INET6);
        close(fd);
        return -1;
    }
    a->bytes = sizeof a->storage;
    ck_assert_int_eq(getsockname(fd, sockaddr_of(a), &a->bytes), 0);
    return fd;
}

static inline int listen_address(address *a, int mode, int backlog)
{
    int fd = bind_address(a, SOCK_STREAM | mode);
    if (fd >= 0)
        ck_assert_int_eq(listen(fd, backlog), 0);
    return fd;
}

static inline int new_stream_socket(int family, int mode)
{
    int fd = socket(family, SOCK_STREAM | mode, 0);
    ck_assert_int_ge(fd, 0);
    return fd;
}

enum { TCP4, TCP6, UNIX, KINDS };

/* Connect two stream sockets. Return false if there is no IPv6. */
static inline bool connect_sockets(int fd[2], int kind, int mode)
{
    address a = kind == UNIX ? abstract_address(0)
                             : loopback_address(kind == TCP4 ? AF_INET : AF_INET6),
            peer;
    int listener = listen_address(&a, mode, 1);
    if (listener < 0)
        return false;
    fd[0] = new_stream_socket(a.storage.ss_family, mode);
    ck_assert_int_eq(weft_connect(fd[0], sockaddr_of(&a), a.bytes), 0);
    peer.bytes = sizeof peer.storage;
    fd[1] = weft_accept(listener, sockaddr_of(&peer), &peer.bytes);
    ck_assert_int_ge(fd[1], 0);
    ck_assert_int_eq(peer.storage.ss_family, a.storage.ss_family);
    address own = {.bytes = sizeof own.storage};
    ck_assert_int_eq(getsockname(fd[0], sockaddr_of(&own), &own.bytes), 0);
    ck_assert_mem_eq(&own.storage, &peer.storage, own.bytes); /* with the port */
    ck_assert(fcntl(fd[1], F_GETFD) & FD_CLOEXEC);
    ck_assert_int_eq(weft_close(listener), 0);
    assert_blocking_mode(fd[0], mode);
    ck_assert_int_eq(fcntl(fd[1], F_SETFL, mode & SOCK_NONBLOCK ? O_NONBLOCK : 0), 0);
    return true;
}

static inline void unix_pair(int fd[2], int type, int mode)
{
    ck_assert_int_eq(socketpair(AF_UNIX, type | mode, 0, fd), 0);
}

/* The argument of a receiving fiber. */
typedef struct receiving {
    int fd;
    int flags;
    size_t bytes; /* the size of the receive */
    char data[64];
} receiving;

static inline weft_value receive(void *arg)
{
    receiving *r = arg;
    return weft_recv(r->fd, r->data, r->bytes, r->flags);
}

/* Return a fiber that waits in weft_recv. */
static inline weft_fiber spin_receiver(receiving *r, int fd, size_t bytes, int flags)
{
    *r = (receiving){.fd = fd, .bytes = bytes, .flags = flags};
    return spin_waiting(receive, r);
}

/* A message of one byte with at most one descriptor. */
typedef struct fd_message {
    int fd;
    char byte;
    struct iovec iov;
    struct msghdr header;
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control;
} fd_message;

static inline struct msghdr *fd_message_wrap(fd_message *p)
{
    p->iov = (struct iovec){&p->byte, 1};
    p->header = (struct msghdr){.msg_iov = &p->iov,
                                .msg_iovlen = 1,
                                .msg_control = p->control.room,
                                .msg_controllen = sizeof p->control.room};
    memset(p->control.room, 0, sizeof p->control.room);
    return &p->header;
}

#endif

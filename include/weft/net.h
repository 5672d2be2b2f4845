/*
 * Sockets: the system call's arguments; blocks the calling fiber only. What io.h says of
 * cancellation and of closing holds here, too; a peer that is gone is -EPIPE and no signal.
 */
#ifndef WEFT_NET_H
#define WEFT_NET_H

#include <weft/base.h>

#include <netdb.h>
#include <sys/socket.h>
#include <sys/types.h>

WEFT_BEGIN

struct addrinfo; /* which <netdb.h> keeps back in strict C */

/**
 * Receive; flags as in recv(2). MSG_DONTWAIT makes it -EAGAIN instead of waiting. MSG_WAITALL waits
 * for all of the bytes of a stream: cut short, it returns what came, and the error at the next
 * call. (With MSG_PEEK, and for datagrams, it has no effect.)
 */
WEFT_SWITCHPOINT ssize_t weft_recv(int fd, void *buffer, size_t bytes, int flags) WEFT_MUST_CHECK;

/** Send; may send fewer bytes. As send(2). */
WEFT_SWITCHPOINT ssize_t weft_send(int fd, const void *buffer, size_t bytes, int flags);

/** Receive, and from whom. address and address_bytes as in recvfrom(2), may be NULL. */
WEFT_SWITCHPOINT ssize_t weft_recvfrom(int fd, void *buffer, size_t bytes, int flags,
                                       struct sockaddr *address,
                                       socklen_t *address_bytes) WEFT_MUST_CHECK;

/** Send to an address. As sendto(2). */
WEFT_SWITCHPOINT ssize_t weft_sendto(int fd, const void *buffer, size_t bytes, int flags,
                                     const struct sockaddr *address, socklen_t address_bytes);

/** Receive a message with its address and control data (descriptors, say). As recvmsg(2). */
WEFT_SWITCHPOINT ssize_t weft_recvmsg(int fd, struct msghdr *message, int flags) WEFT_MUST_CHECK;

/** Send a message with its address and control data. As sendmsg(2). */
WEFT_SWITCHPOINT ssize_t weft_sendmsg(int fd, const struct msghdr *message, int flags);

/**
 * Take the next connection; its descriptor is close-on-exec. address and bytes as in accept(2), may
 * be NULL. The listening socket may be non-blocking afterwards.
 */
WEFT_SWITCHPOINT int weft_accept(int fd, struct sockaddr *address,
                                 socklen_t *bytes) WEFT_MUST_CHECK;

/**
 * Connect a socket. As connect(2). Cancelled, the attempt goes on in the kernel: call it again to
 * wait for its outcome, or close the socket.
 */
WEFT_SWITCHPOINT int weft_connect(int fd, const struct sockaddr *address, socklen_t bytes);

/** Close one direction of a connection, or both. As shutdown(2); wakes who waits in it. */
WEFT_API int weft_shutdown(int fd, int how);

/** Two connected stream sockets, close-on-exec. In memory on the sim backend. */
WEFT_API int weft_socketpair(int fd[2]) WEFT_MUST_CHECK;

/**
 * What weft_accept_loop calls for each connection, which is the callee's from then on; getpeername
 * tells whose it is. It may block, but connections wait meanwhile: spin a fiber for each. A
 * negative result ends the loop.
 */
typedef int weft_on_conn(int fd, void *ctx);

/**
 * Accept connections until on_conn says stop, the call is cancelled or the listener fails; returns
 * that error. What passes goes on: a connection that was gone before it was taken is skipped, and
 * when descriptors or memory run out (EMFILE, ENFILE, ENOBUFS, ENOMEM) it says so once on stderr
 * and tries again after a while. The kernel may accept some ahead; none is lost: what it had
 * accepted when the loop ended is what the next weft_accept on fd in this thread returns.
 */
WEFT_SWITCHPOINT int weft_accept_loop(int fd, weft_on_conn *on_conn, void *ctx);

/** What weft_recv_loop calls with what has come; not kept afterwards. Negative ends the loop. */
typedef int weft_on_data(const void *data, size_t bytes, void *ctx);

/**
 * Read from a descriptor, a socket or not, until it ends: 0 then, else the error, or what on_data
 * returned. It needs no buffer of the caller's. Other fibers that read from fd wait until it is
 * over. No byte is lost: what had been received when the loop ended is what the next read on fd in
 * this thread returns, with weft (weft_splice, which cannot, is -EINVAL then). A datagram of no
 * bytes ends it as well.
 */
WEFT_SWITCHPOINT int weft_recv_loop(int fd, weft_on_data *on_data, void *ctx);

/**
 * A socket that listens at an address: net is "tcp", "tcp4", "tcp6", "unix", or for datagrams
 * "udp", "udp4", "udp6", "unixgram" (bound, nothing to accept). addr is "host:port", "[::1]:port",
 * ":port" (all interfaces, IPv6 and IPv4 unless net says which), or for the unix ones a path or
 * "@name", an abstract address. A port is a number or a service's name; port 0 takes a free one,
 * which getsockname tells. Of a name's addresses the first one that can be had is taken.
 *
 * A tcp listener may take a port that is in TIME_WAIT; a unix socket's file that nobody listens at
 * any more is replaced, any other file is not. Closing leaves a unix socket's file.
 *
 * Returns the descriptor, close-on-exec and non-blocking. -EINVAL for a net or an address that is
 * none; else what weft_resolve, socket(2), bind(2) and listen(2) say. weft_error() has the words.
 */
WEFT_SWITCHPOINT int weft_listen(const char *net, const char *addr) WEFT_MUST_CHECK;

/**
 * Connect to an address, as weft_listen has them; ":port" is this machine. A name's addresses are
 * tried as RFC 8305 says: IPv6 and IPv4 in turn, the next one when one has failed or has not
 * answered for 250 ms, by fibers that end with the call; the first that answers wins, and the
 * others are closed. For datagrams it is the first address that the kernel can reach.
 *
 * Returns the descriptor, close-on-exec and non-blocking, a tcp one with TCP_NODELAY; or what
 * weft_resolve says, or the error of the last attempt. -EINVAL for a net or an address that is
 * none. weft_error() has the words.
 */
WEFT_SWITCHPOINT int weft_dial(const char *net, const char *addr) WEFT_MUST_CHECK;

/**
 * The addresses of a name, as getaddrinfo(3), whose arguments these are; any of the first three may
 * be NULL. *out is for weft_resolve_free. The lookup blocks no other fiber, and a cancelled one is
 * left at once. -ENOENT: no such name or service, or not in this family; -EAGAIN: the name server
 * does not answer, or cannot just now; -EIO: it will not, or what it says makes no sense; -EINVAL
 * for hints that make no sense or an out that is NULL; -ENOMEM. weft_error() has the words.
 *
 * The hosts file and the name servers of resolv.conf are asked on the thread's own backend, IPv6
 * and IPv4 at once; the order is that of RFC 6724. Both files are read again when they have
 * changed. Where nsswitch.conf or gai.conf want more, for AI_IDN, on the sim backend, and if weft
 * was built without c-ares, the C library does it, in a thread of the pool.
 */
WEFT_SWITCHPOINT int weft_resolve(const char *host, const char *service,
                                  const struct addrinfo *hints,
                                  struct addrinfo **out) WEFT_MUST_CHECK;

/** Free what weft_resolve returned, by its first entry; NULL is nothing. */
WEFT_API void weft_resolve_free(struct addrinfo *addresses);

/* Where names are looked up; all-zero is as the system's files say. */
typedef struct weft_resolver_options {
    const char *servers;     /* "127.0.0.1:5353,[::1]:53,10.0.0.1"; NULL: those of resolv.conf */
    const char *search;      /* domains to try behind a name, "a.org b.org"; NULL: the same */
    const char *hosts_path;  /* NULL: /etc/hosts */
    const char *resolv_path; /* NULL: /etc/resolv.conf */
    double timeout_s;        /* of the first try, doubled for each that follows; 0: resolv.conf's */
    int tries;               /* at each server; 0: resolv.conf's */
} weft_resolver_options;

/**
 * Settings of the calling thread's own for weft_resolve, weft_dial and weft_listen; the texts are
 * copied. From then on names are looked up in that hosts file and by those servers alone, whatever
 * nsswitch.conf says. NULL: back to the system's. Lookups under way end as they were begun. Returns
 * 0; -EINVAL for a server that is no address, or a number that is negative or NaN; -EOPNOTSUPP on
 * the sim backend, and if weft was built without c-ares; -ENOMEM.
 */
WEFT_API int weft_resolver(const weft_resolver_options *options);

WEFT_END

#endif

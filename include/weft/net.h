/*
 * Sockets: system calls that block only the calling fiber.
 *
 * The rules of io.h for cancellation and for closing apply. A send to a closed peer returns -EPIPE
 * and raises no SIGPIPE. The comment of a call may name a manual page. The page describes the
 * arguments, the results and the errors. Calls return errors as negative errno values.
 */
#ifndef WEFT_NET_H
#define WEFT_NET_H

#include <weft/base.h>

#include <netdb.h>
#include <sys/socket.h>
#include <sys/types.h>

WEFT_BEGIN

struct addrinfo; /* <netdb.h> does not declare this struct in strict C */

/**
 * Receive bytes from a socket. See recv(2).
 *
 * If flags contains MSG_DONTWAIT, the call returns -EAGAIN instead of waiting. If flags contains
 * MSG_WAITALL, the call waits for all bytes of a stream. If an error or a cancellation ends that
 * wait, the call returns the number of bytes received. The next call then returns the error.
 * MSG_WAITALL has no effect on datagrams or with MSG_PEEK.
 *
 * Returns the number of bytes received, 0 at the end of the input, or an error of recv(2).
 */
WEFT_SWITCHPOINT ssize_t weft_recv(int fd, void *buffer, size_t bytes, int flags) WEFT_MUST_CHECK;

/**
 * Send bytes to a socket. See send(2).
 *
 * The call may send fewer bytes than requested. Returns the number of bytes sent, or an error of
 * send(2).
 */
WEFT_SWITCHPOINT ssize_t weft_send(int fd, const void *buffer, size_t bytes, int flags);

/**
 * Receive bytes and the address of the sender. See recvfrom(2).
 *
 * If address is NULL, the call stores no address and ignores address_bytes. The flags MSG_DONTWAIT
 * and MSG_WAITALL have the meaning that weft_recv describes.
 */
WEFT_SWITCHPOINT ssize_t weft_recvfrom(int fd, void *buffer, size_t bytes, int flags,
                                       struct sockaddr *address,
                                       socklen_t *address_bytes) WEFT_MUST_CHECK;

/**
 * Send bytes to an address. See sendto(2).
 *
 * The call may send fewer bytes than requested. Returns the number of bytes sent, or an error of
 * sendto(2).
 */
WEFT_SWITCHPOINT ssize_t weft_sendto(int fd, const void *buffer, size_t bytes, int flags,
                                     const struct sockaddr *address, socklen_t address_bytes);

/**
 * Receive a message with its address and control data. See recvmsg(2).
 *
 * Control data may contain descriptors. The flags MSG_DONTWAIT and MSG_WAITALL have the meaning
 * that weft_recv describes.
 */
WEFT_SWITCHPOINT ssize_t weft_recvmsg(int fd, struct msghdr *message, int flags) WEFT_MUST_CHECK;

/** Send a message with its address and control data. See sendmsg(2). */
WEFT_SWITCHPOINT ssize_t weft_sendmsg(int fd, const struct msghdr *message, int flags);

/**
 * Accept a connection. See accept(2).
 *
 * The returned descriptor is close-on-exec. address and bytes may both be NULL. The call may set
 * the listening socket to non-blocking.
 */
WEFT_SWITCHPOINT int weft_accept(int fd, struct sockaddr *address,
                                 socklen_t *bytes) WEFT_MUST_CHECK;

/**
 * Connect a socket. See connect(2).
 *
 * After a cancellation, the attempt continues in the kernel. Call weft_connect again to wait for
 * the result, or close the socket.
 */
WEFT_SWITCHPOINT int weft_connect(int fd, const struct sockaddr *address, socklen_t bytes);

/**
 * Shut down one or both directions of a connection. See shutdown(2).
 *
 * The call wakes the fibers that wait in a direction that is shut down.
 */
WEFT_API int weft_shutdown(int fd, int how);

/**
 * Create two connected stream sockets with close-on-exec set.
 *
 * On the sim backend, the sockets are in memory. Returns 0, or an error of socketpair(2).
 */
WEFT_API int weft_socketpair(int fd[2]) WEFT_MUST_CHECK;

/**
 * The callback of weft_accept_loop for one connection.
 *
 * The callback owns fd. Use getpeername(2) to get the address of the peer. The callback may block,
 * but further connections then wait. To handle connections concurrently, create a fiber for each
 * connection. A negative result ends the loop.
 */
typedef int weft_on_conn(int fd, void *ctx);

/**
 * Accept connections, and call on_conn for each connection.
 *
 * The call returns when on_conn returns a negative value, the call is cancelled, or the listener
 * fails. The call skips a connection that fails before it is accepted. If descriptors or memory are
 * exhausted (EMFILE, ENFILE, ENOBUFS, ENOMEM), the call reports the shortage once on stderr. The
 * call then tries again every 50 ms.
 *
 * The kernel may accept connections in advance. The end of the loop loses no connection. The next
 * weft_accept on fd in this thread returns the connections that the kernel has already accepted.
 *
 * Returns the error that ended the loop, the negative result of on_conn, or:
 * -EBADF if fd is not open
 * -EBADF if a fiber closes fd during the call
 */
WEFT_SWITCHPOINT int weft_accept_loop(int fd, weft_on_conn *on_conn, void *ctx);

/**
 * The callback of weft_recv_loop for received bytes.
 *
 * data is valid only during the callback. A negative result ends the loop.
 */
typedef int weft_on_data(const void *data, size_t bytes, void *ctx);

/**
 * Read from a descriptor until the input ends. Pass the bytes to on_data.
 *
 * fd may be any descriptor, not only a socket. The caller needs no buffer. An empty datagram also
 * ends the loop. on_data may read from fd. A read in another fiber may wait until the loop ends.
 *
 * The end of the loop loses no byte. The kernel may have received further bytes for the loop. The
 * next read from fd in this thread returns these bytes. weft_splice cannot read them.
 *
 * Returns 0 at the end of the input, the error of the read, the negative result of on_data, or:
 * -EBADF if fd is not open
 * -EBADF if a fiber closes fd during the call
 * -ENOMEM if memory is exhausted
 */
WEFT_SWITCHPOINT int weft_recv_loop(int fd, weft_on_data *on_data, void *ctx);

/**
 * Open a socket that listens at an address.
 *
 * For connections, net is "tcp", "tcp4", "tcp6" or "unix". For datagrams, net is "udp", "udp4",
 * "udp6" or "unixgram". A datagram socket is bound and accepts no connections.
 *
 * For tcp and udp, addr is "host:port", "[::1]:port" or ":port". A socket for ":port" listens on
 * all interfaces. The socket accepts IPv6 and IPv4, unless net selects one of the two. A port is a
 * number or the name of a service. If the port is 0, the kernel chooses a free port. getsockname(2)
 * returns the chosen port. If a name has several addresses, the call uses the first address that
 * works. For unix and unixgram, addr is a path, or "@name" for an abstract address.
 *
 * A tcp listener may use a port in TIME_WAIT. The call replaces the file of a unix socket if no
 * process listens on the socket. The call never replaces any other file. Closing the socket does
 * not remove the file.
 *
 * The descriptor is close-on-exec and non-blocking. If the call fails, weft_error() returns the
 * message.
 *
 * Returns the descriptor, an error of weft_resolve, socket(2), bind(2) or listen(2), or:
 * -EINVAL if addr is invalid
 * -EINVAL if net is unknown
 */
WEFT_SWITCHPOINT int weft_listen(const char *net, const char *addr) WEFT_MUST_CHECK;

/**
 * Connect to an address.
 *
 * net and addr have the form that weft_listen describes. ":port" is a port of this machine. If a
 * name has several addresses, the call tries the addresses as in RFC 8305. The attempts alternate
 * between IPv6 and IPv4. The next attempt starts when the previous attempt fails or has not
 * connected after 250 ms. Each attempt has its own fiber, which ends before the call returns. The
 * call returns the first connection and closes all further connections. For datagrams, the call
 * uses the first address that the kernel can reach.
 *
 * The descriptor is close-on-exec and non-blocking. A tcp socket also has TCP_NODELAY set. If the
 * call fails, weft_error() returns the message.
 *
 * Returns the descriptor, an error of weft_resolve, the error of the last attempt, or:
 * -EINVAL if addr is invalid
 * -EINVAL if net is unknown
 * -ENOMEM if memory is exhausted
 */
WEFT_SWITCHPOINT int weft_dial(const char *net, const char *addr) WEFT_MUST_CHECK;

/**
 * Look up the addresses of a name. See getaddrinfo(3).
 *
 * host, service and hints may be NULL. The caller frees *out with weft_resolve_free. The lookup
 * blocks no other fiber. A cancelled call returns at once.
 *
 * The lookup uses the hosts file and the name servers of resolv.conf, on the backend of the thread.
 * The call looks up IPv6 and IPv4 addresses at the same time. The order of the addresses follows
 * RFC 6724. After a change of the hosts file or resolv.conf, weft reads the changed file again.
 *
 * In these cases, a worker thread calls getaddrinfo(3) instead:
 *   - nsswitch.conf or gai.conf requires other sources or another order
 *   - hints contains a family or a flag that weft does not support, for example AI_IDN
 *   - the backend is sim
 *   - weft was built without c-ares
 *
 * After weft_set_resolver, a lookup uses only the given sources. Unsupported hints are then an
 * error. If the call fails, weft_error() returns the message.
 *
 * Returns 0, or:
 * -EAGAIN if no thread can be created for getaddrinfo(3)
 * -EAGAIN if the name server does not respond
 * -EAGAIN if the name server fails temporarily
 * -EINVAL if hints is invalid
 * -EINVAL if hints is not supported after weft_set_resolver
 * -EINVAL if out is NULL
 * -EIO if the name server rejects the query
 * -EIO if the response of the name server is invalid
 * -ENOENT if the name has no address in the family
 * -ENOENT if the name or the service does not exist
 * -ENOMEM if memory is exhausted
 */
WEFT_SWITCHPOINT int weft_resolve(const char *host, const char *service,
                                  const struct addrinfo *hints,
                                  struct addrinfo **out) WEFT_MUST_CHECK;

/**
 * Free the result of weft_resolve.
 *
 * addresses is the first entry of the result. If addresses is NULL, the call does nothing.
 */
WEFT_API void weft_resolve_free(struct addrinfo *addresses);

/* Sources of name lookups. All-zero is the default. */
typedef struct weft_resolver_options {
    const char *servers; /* "127.0.0.1:5353,[::1]:53,10.0.0.1"; NULL: as in resolv.conf */
    const char *search;  /* domains to append to a name: "a.org b.org"; NULL: as in resolv.conf */
    const char *hosts_path;  /* NULL: /etc/hosts */
    const char *resolv_path; /* NULL: /etc/resolv.conf */
    double timeout_s; /* of the first try, doubled for each further try; 0: as in resolv.conf */
    int tries;        /* per server; 0: as in resolv.conf */
} weft_resolver_options;

/**
 * Set the resolver options of the calling thread.
 *
 * The options apply to weft_resolve, weft_dial and weft_listen. The call copies the strings. After
 * the call, weft looks up names only in the given hosts file and with the given servers. Lookups
 * then ignore nsswitch.conf. If options is NULL, the call restores the settings of the system.
 * Lookups in progress continue with the previous options.
 *
 * Returns 0, or:
 * -EINVAL if a server is not an address
 * -EINVAL if timeout_s is negative or NaN
 * -EINVAL if tries is negative
 * -ENOMEM if memory is exhausted
 * -EOPNOTSUPP if the backend is sim
 * -EOPNOTSUPP if weft was built without c-ares
 */
WEFT_API int weft_set_resolver(const weft_resolver_options *options);

WEFT_END

#endif

/*
 * A channel of c-ares, with sockets registered in weft and the settings of the thread. c-ares
 * retries each server. After a truncated response, c-ares switches to TCP. Sorting, search domains
 * and the hosts file are disabled in c-ares.
 */
#include "io/names/cares.h"

#include "core/op/op.h"
#include "io/names/system_files.h"

#include <weft/io.h>

/* c-ares 1.34 declares functions deprecated that have no replacement in c-ares 1.18. */
#define CARES_NO_DEPRECATED
#include <ares.h>
#include <errno.h>
#include <math.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/uio.h>

_Static_assert(WEFT__CARES_FDS_MAX == ARES_GETSOCK_MAXNUM,
               "c-ares reports at most WEFT__CARES_FDS_MAX sockets");

/*
 * Sockets. c-ares opens and closes its sockets through weft, because the backend stores state per
 * descriptor. The functions below never block.
 */

static ares_socket_t cares_socket_open(int family, int type, int protocol, void *ctx)
{
    (void)ctx;
    int fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
    if (fd < 0)
        return fd;
    weft__fd_created(fd);
    if (type == SOCK_STREAM)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return fd;
}

static int cares_socket_close(ares_socket_t fd, void *ctx)
{
    (void)ctx;
    return weft_close(fd) < 0 ? -1 : 0;
}

static int cares_socket_connect(ares_socket_t fd, const struct sockaddr *to, ares_socklen_t bytes,
                                void *ctx)
{
    (void)ctx;
    return connect(fd, to, bytes);
}

/*
 * Return whether a packet has the header of a response to one question (RFC 1035, section 4.1.1).
 */
static bool is_response(const unsigned char *packet, ares_ssize_t bytes)
{
    return bytes >= 12 && packet[2] & 0x80 && packet[4] == 0 && packet[5] == 1;
}

/*
 * Receive a packet, and store its response code. With c-ares 1.18, only the response code
 * distinguishes a server that rejects a query from an unreachable server. c-ares ends the affected
 * query before it reads the next packet.
 *
 * Skip datagrams that are not responses. Any host can send such a datagram, and c-ares 1.34 would
 * then fail all queries of the socket.
 */
static ares_ssize_t cares_socket_receive(ares_socket_t fd, void *buffer, size_t bytes, int flags,
                                         struct sockaddr *from, ares_socklen_t *from_bytes,
                                         void *ctx)
{
    weft__cares *ch = ctx;
    const unsigned char *packet = buffer;
    const ares_socklen_t from_capacity = from_bytes != NULL ? *from_bytes : 0;
    const bool is_datagram = from != NULL;
    ares_ssize_t n;
    do {
        if (from_bytes != NULL)
            *from_bytes = from_capacity;
        n = recvfrom(fd, buffer, bytes, flags, from, from_bytes);
    } while (is_datagram && n >= 0 && !is_response(packet, n));
    ch->rcode = is_datagram && n > 0 ? packet[3] & 15 : 0;
    return n;
}

static bool is_datagram_socket(int fd)
{
    int type = 0;
    socklen_t bytes = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type == SOCK_DGRAM;
}

/*
 * Send a packet. If the send buffer has no space for a datagram, report success. c-ares then treats
 * the datagram as lost and retries.
 */
static ares_ssize_t cares_socket_transmit(ares_socket_t fd, const struct iovec *pieces, int count,
                                          void *ctx)
{
    (void)ctx;
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)pieces,
                             .msg_iovlen = (size_t)count};
    ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);
    if (n >= 0 || (errno != EAGAIN && errno != ENOBUFS) || !is_datagram_socket(fd))
        return n;
    n = 0;
    for (int i = 0; i < count; i++)
        n += (ssize_t)pieces[i].iov_len;
    return n;
}

static const struct ares_socket_functions cares_socket_functions = {
    cares_socket_open, cares_socket_close, cares_socket_connect, cares_socket_receive,
    cares_socket_transmit};

/* Settings. */

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static int library_status;

static void cares_library_init(void)
{
    library_status = ares_library_init(ARES_LIB_INIT_ALL);
}

static int cares_init(weft__cares *ch, const weft__dns_settings *s, struct ares_options *o,
                      int mask)
{
    if (ares_init_options(&ch->ares, o, mask) != ARES_SUCCESS) {
        ch->ares = NULL;
        return -ENOMEM;
    }
    ares_set_socket_functions(ch->ares, &cares_socket_functions, ch);
    if (s->servers == NULL || ares_set_servers_ports_csv(ch->ares, s->servers) == ARES_SUCCESS)
        return 0;
    return -ENOMEM;
}

int weft__cares_open(weft__cares *ch, const weft__dns_settings *s, const char *resolv)
{
    pthread_once(&library_once, cares_library_init);
    if (library_status != ARES_SUCCESS)
        return -ENOMEM;
    weft__resolv_options resolv_options = weft__resolv_options_read(resolv);
    if (s->timeout_s > 0)
        resolv_options.timeout_ms =
            s->timeout_s < 1e6 ? (int)(s->timeout_s * 1000 + 0.999) : 1000000000;
    if (s->tries > 0)
        resolv_options.tries = s->tries;
    char only_servers[] = "b";
    struct ares_options o = {
        .flags = resolv_options.uses_tcp ? ARES_FLAG_USEVC : 0,
        .timeout = resolv_options.timeout_ms,
        .tries = resolv_options.tries,
        .lookups = only_servers,
        .resolvconf_path = (char *)(uintptr_t)s->resolv_path, /* c-ares copies the path */
    };
    int rc = weft__search_read(&ch->search, s->search, resolv);
    if (rc == 0)
        rc = cares_init(ch, s, &o,
                        ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
                            ARES_OPT_RESOLVCONF);
    if (rc < 0)
        weft__cares_close(ch);
    return rc;
}

void weft__cares_close(weft__cares *ch)
{
    if (ch->ares != NULL)
        ares_destroy(ch->ares);
    weft__search_free(&ch->search);
    *ch = (weft__cares){0};
}

void weft__cares_cancel(weft__cares *ch)
{
    ares_cancel(ch->ares);
}

/* c-ares 1.34 closes the socket of a timed-out query only in the next call. */
void weft__cares_close_unused(weft__cares *ch)
{
    if (ch->ares != NULL)
        ares_process_fd(ch->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}

/* Waiting. */

/* Do not use the macros of c-ares for these bits, because the macros shift into the sign bit. */
int weft__cares_clauses(weft__cares *ch, weft_clause *out)
{
    ares_socket_t fds[ARES_GETSOCK_MAXNUM];
    unsigned bits = (unsigned)ares_getsock(ch->ares, fds, ARES_GETSOCK_MAXNUM);
    int count = 0;
    for (int i = 0; i < ARES_GETSOCK_MAXNUM; i++) {
        bool is_read = bits >> i & 1, is_written = bits >> (i + ARES_GETSOCK_MAXNUM) & 1;
        if (is_read || is_written)
            out[count++] =
                weft_clause_fd(fds[i], (is_read ? POLLIN : 0) | (is_written ? POLLOUT : 0));
    }
    return count;
}

double weft__cares_timeout(weft__cares *ch)
{
    struct timeval storage;
    const struct timeval *left = ares_timeout(ch->ares, NULL, &storage);
    if (left == NULL)
        return INFINITY;
    double seconds = (double)left->tv_sec + (double)left->tv_usec / 1e6;
    return seconds > 0 ? seconds : 0;
}

/*
 * If the socket has an error, report the socket as readable and writable. c-ares then detects the
 * error.
 */
void weft__cares_handle(weft__cares *ch, int fd, int events)
{
    ch->rcode = 0;
    bool is_broken = events & (POLLERR | POLLHUP);
    ares_process_fd(ch->ares, is_broken || events & POLLIN ? fd : ARES_SOCKET_BAD,
                    is_broken || events & POLLOUT ? fd : ARES_SOCKET_BAD);
}

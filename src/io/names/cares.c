/*
 * A channel of c-ares: its sockets are weft's, its settings those of the thread. c-ares tries each
 * server as often as it is told, and goes on by TCP when an answer was cut off; it does not sort
 * here, nor search domains, nor read the hosts file.
 */
#include "io/resolve_channel.h"

#include "core/op.h"
#include "io/resolve_system.h"

#include <weft/io.h>

#define CARES_NO_DEPRECATED /* c-ares 1.18 has only the calls that 1.34 calls old */
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

_Static_assert(WEFT__CHANNEL_FDS_MAX == ARES_GETSOCK_MAXNUM, "as many as c-ares tells of");

/*
 * Sockets. They are opened and closed as weft's, as the backend keeps what it knows of a
 * descriptor until then; the calls themselves never wait.
 */

static ares_socket_t open_socket(int family, int type, int protocol, void *ctx)
{
    (void)ctx;
    int fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
    if (fd < 0)
        return fd;
    weft__fd_made(fd);
    if (type == SOCK_STREAM)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return fd;
}

static int close_socket(ares_socket_t fd, void *ctx)
{
    (void)ctx;
    return weft_close(fd) < 0 ? -1 : 0;
}

static int connect_socket(ares_socket_t fd, const struct sockaddr *to, ares_socklen_t bytes,
                          void *ctx)
{
    (void)ctx;
    return connect(fd, to, bytes);
}

/* RFC 1035, section 4.1.1: a header, which says that it is a response to one question. */
static bool is_response(const unsigned char *packet, ares_ssize_t bytes)
{
    return bytes >= 12 && packet[2] & 0x80 && packet[4] == 0 && packet[5] == 1;
}

/*
 * c-ares 1.18 tells a server that refuses from one that is not there only by the packet: it is
 * remembered until the question that it belongs to is given up, which happens before the next.
 *
 * Skip a datagram that is not a response: c-ares 1.34 fails all questions of a socket that
 * receives one, and anybody can send it.
 */
static ares_ssize_t receive(ares_socket_t fd, void *buffer, size_t bytes, int flags,
                            struct sockaddr *from, ares_socklen_t *from_bytes, void *ctx)
{
    weft__channel *ch = ctx;
    const unsigned char *packet = buffer;
    const ares_socklen_t from_room = from_bytes != NULL ? *from_bytes : 0;
    const bool is_datagram = from != NULL;
    ares_ssize_t n;
    do {
        if (from_bytes != NULL)
            *from_bytes = from_room;
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

/* A datagram for which there is no room is lost, as it might be on its way: it is sent again. */
static ares_ssize_t transmit(ares_socket_t fd, const struct iovec *pieces, int count, void *ctx)
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

static const struct ares_socket_functions sockets = {open_socket, close_socket, connect_socket,
                                                     receive, transmit};

/*
 * Settings.
 */

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static int library_status;

static void init_library(void)
{
    library_status = ares_library_init(ARES_LIB_INIT_ALL);
}

static int open_with(weft__channel *ch, const weft__dns_settings *s, struct ares_options *o,
                     int mask)
{
    if (ares_init_options(&ch->ares, o, mask) != ARES_SUCCESS) {
        ch->ares = NULL;
        return -ENOMEM;
    }
    ares_set_socket_functions(ch->ares, &sockets, ch);
    if (s->servers == NULL || ares_set_servers_ports_csv(ch->ares, s->servers) == ARES_SUCCESS)
        return 0;
    return -ENOMEM;
}

int weft__channel_open(weft__channel *ch, const weft__dns_settings *s, const char *resolv)
{
    pthread_once(&library_once, init_library);
    if (library_status != ARES_SUCCESS)
        return -ENOMEM;
    weft__patience p = weft__patience_read(resolv);
    if (s->timeout_s > 0)
        p.timeout_ms = s->timeout_s < 1e6 ? (int)(s->timeout_s * 1000 + 0.999) : 1000000000;
    if (s->tries > 0)
        p.tries = s->tries;
    char only_servers[] = "b";
    struct ares_options o = {
        .flags = p.is_by_tcp ? ARES_FLAG_USEVC : 0,
        .timeout = p.timeout_ms,
        .tries = p.tries,
        .lookups = only_servers,
        .resolvconf_path = (char *)(uintptr_t)s->resolv_path, /* it is copied */
    };
    int rc = weft__search_read(&ch->search, s->search, resolv);
    if (rc == 0)
        rc = open_with(ch, s, &o,
                       ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
                           ARES_OPT_RESOLVCONF);
    if (rc < 0)
        weft__channel_close(ch);
    return rc;
}

void weft__channel_close(weft__channel *ch)
{
    if (ch->ares != NULL)
        ares_destroy(ch->ares);
    weft__search_free(&ch->search);
    *ch = (weft__channel){0};
}

void weft__channel_cancel(weft__channel *ch)
{
    ares_cancel(ch->ares);
}

/* c-ares 1.34 closes the socket of a question that timed out only when it is called again. */
void weft__channel_tidy(weft__channel *ch)
{
    if (ch->ares != NULL)
        ares_process_fd(ch->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}

/*
 * Waiting.
 */

/* The macros of c-ares for its bits shift into the sign. */
int weft__channel_clauses(weft__channel *ch, weft_clause *out)
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

double weft__channel_timeout(weft__channel *ch)
{
    struct timeval room;
    const struct timeval *left = ares_timeout(ch->ares, NULL, &room);
    if (left == NULL)
        return INFINITY;
    double seconds = (double)left->tv_sec + (double)left->tv_usec / 1e6;
    return seconds > 0 ? seconds : 0;
}

/* An error is told by what is read. */
void weft__channel_handle(weft__channel *ch, int fd, int events)
{
    ch->rcode = 0;
    bool is_broken = events & (POLLERR | POLLHUP);
    ares_process_fd(ch->ares, is_broken || events & POLLIN ? fd : ARES_SOCKET_BAD,
                    is_broken || events & POLLOUT ? fd : ARES_SOCKET_BAD);
}

/*
 * The listeners of `weft serve`. Each cord has its own TCP listener on the same port. The kernel
 * distributes connections among the listeners. For a Unix socket, each cord has a duplicate of one
 * descriptor.
 *
 * The first TCP listener is bound without SO_REUSEPORT. The bind therefore fails if another server
 * uses the port. For port 0, the kernel chooses the port of the first listener. All other listeners
 * use the same port.
 */
#include "command/serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool address_is_any(const struct sockaddr_storage *address)
{
    const struct sockaddr_in6 *ipv6 = (const struct sockaddr_in6 *)address;
    const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)address;
    return address->ss_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&ipv6->sin6_addr)
                                          : ipv4->sin_addr.s_addr == htonl(INADDR_ANY);
}

/* Set address and url from the bound address. */
static int listener_describe(serve_listener *listener, const char *scheme)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    char host[INET6_ADDRSTRLEN];
    if (getsockname(listener->fd, (struct sockaddr *)&address, &bytes) < 0)
        return -errno;
    bool is_ipv6 = address.ss_family == AF_INET6;
    const struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)&address;
    const struct sockaddr_in *ipv4 = (struct sockaddr_in *)&address;
    if (inet_ntop(address.ss_family, is_ipv6 ? (void *)&ipv6->sin6_addr : (void *)&ipv4->sin_addr,
                  host, sizeof host) == NULL)
        return -errno;
    unsigned port = ntohs(is_ipv6 ? ipv6->sin6_port : ipv4->sin_port);
    snprintf(listener->address, sizeof listener->address, is_ipv6 ? "[%s]:%u" : "%s:%u", host,
             port);
    if (address_is_any(&address))
        snprintf(listener->url, sizeof listener->url, "%s://localhost:%u/", scheme, port);
    else
        snprintf(listener->url, sizeof listener->url, "%s://%s/", scheme, listener->address);
    return 0;
}

/* Let the listeners of the other cords bind to the same port. */
static int listener_share_port(const serve_listener *listener)
{
    int on = 1;
    return setsockopt(listener->fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) < 0 ? -errno : 0;
}

/* Listen on an address. */
static int listener_open(serve_listener *listener, const char *address, const char *scheme)
{
    *listener = (serve_listener){.is_unix = strchr(address, '/') != NULL};
    listener->fd = weft_listen(listener->is_unix ? "unix" : "tcp", address);
    if (listener->fd < 0)
        return listener->fd; /* weft_listen has recorded the error */
    if (!listener->is_unix)
        return listener_describe(listener, scheme);
    snprintf(listener->url, sizeof listener->url, "%s on %s", scheme, address);
    return 0;
}

static int listener_fail(const char *address, int error)
{
    return weft_fail(error, "cannot listen on %s: %s", address, strerror(-error));
}

int serve_listener_open(serve_listener *listener, const serve_settings *s)
{
    int rc = listener_open(listener, s->listen, serve_has_tls(s) ? "https" : "http");
    if (listener->fd < 0)
        return rc;
    if (rc == 0 && !listener->is_unix)
        rc = listener_share_port(listener);
    return rc < 0 ? listener_fail(s->listen, rc) : 0;
}

int serve_metrics_listener_open(serve_listener *listener, const serve_settings *s)
{
    if (s->metrics == NULL)
        return 0;
    int rc = listener_open(listener, s->metrics, "http");
    return rc < 0 && listener->fd >= 0 ? listener_fail(s->metrics, rc) : rc;
}

int serve_listener_for_cord(serve_listener *listener, unsigned number)
{
    if (listener->is_unix) {
        int fd = fcntl(listener->fd, F_DUPFD_CLOEXEC, 0);
        return fd < 0 ? -errno : fd;
    }
    return number == 0 ? listener->fd : weft_listen("tcp", listener->address);
}

/*
 * Where `weft serve` listens. Each cord has a listener of its own at the same port, among which the
 * kernel spreads the connections. The first one is opened without sharing the port: so another
 * server that has it, also one of ours, is noticed, and port 0 is chosen once for all.
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

static bool is_any(const struct sockaddr_storage *at)
{
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)at;
    const struct sockaddr_in *four = (const struct sockaddr_in *)at;
    return at->ss_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr)
                                     : four->sin_addr.s_addr == htonl(INADDR_ANY);
}

/* What it is bound to, as text that weft_listen takes. */
static int describe(serve_place *place, const char *scheme)
{
    struct sockaddr_storage at;
    socklen_t bytes = sizeof at;
    char host[INET6_ADDRSTRLEN];
    if (getsockname(place->fd, (struct sockaddr *)&at, &bytes) < 0)
        return -errno;
    bool is_six = at.ss_family == AF_INET6;
    const struct sockaddr_in6 *six = (struct sockaddr_in6 *)&at;
    const struct sockaddr_in *four = (struct sockaddr_in *)&at;
    if (inet_ntop(at.ss_family, is_six ? (void *)&six->sin6_addr : (void *)&four->sin_addr, host,
                  sizeof host) == NULL)
        return -errno;
    unsigned port = ntohs(is_six ? six->sin6_port : four->sin_port);
    snprintf(place->address, sizeof place->address, is_six ? "[%s]:%u" : "%s:%u", host, port);
    if (is_any(&at))
        snprintf(place->url, sizeof place->url, "%s://localhost:%u/", scheme, port);
    else
        snprintf(place->url, sizeof place->url, "%s://%s/", scheme, place->address);
    return 0;
}

static int share_port(serve_place *place, const char *scheme)
{
    int yes = 1;
    int rc = describe(place, scheme);
    if (rc == 0 && setsockopt(place->fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes) < 0)
        rc = -errno;
    return rc;
}

int serve_place_open(serve_place *place, const serve_settings *s)
{
    const char *scheme = serve_has_tls(s) ? "https" : "http";
    *place = (serve_place){.is_unix = strchr(s->listen, '/') != NULL};
    place->fd = weft_listen(place->is_unix ? "unix" : "tcp", s->listen);
    if (place->fd < 0)
        return place->fd; /* it has words */
    int rc = 0;
    if (place->is_unix)
        snprintf(place->url, sizeof place->url, "%s at %s", scheme, s->listen);
    else
        rc = share_port(place, scheme);
    return rc < 0 ? weft_fail(rc, "cannot listen at %s: %s", s->listen, strerror(-rc)) : 0;
}

int serve_place_listen(serve_place *place, unsigned number)
{
    if (place->is_unix) {
        int fd = fcntl(place->fd, F_DUPFD_CLOEXEC, 0);
        return fd < 0 ? -errno : fd;
    }
    return number == 0 ? place->fd : weft_listen("tcp", place->address);
}

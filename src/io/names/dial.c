/*
 * Sockets for textual addresses. weft_listen opens listening sockets. weft_dial connects to the
 * first of several addresses that accepts a connection.
 */
#include "io/names/dial.h"

#include "core/op/op.h"

#include "core/fiber/error.h"
#include "core/lifetime/cancel.h"
#include "core/lifetime/tree.h"
#include "io/names/address.h"

#include <weft/error.h>
#include <weft/fiber.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/scope.h>

#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int parse_address(const char *net, const char *addr, weft__address *out)
{
    const char *fault = weft__address_parse(net, addr, out);
    if (fault == NULL)
        return 0;
    return weft_fail(-EINVAL, "%s %s: %s", net != NULL ? net : "?", addr != NULL ? addr : "?",
                     fault);
}

/* Record a message for an error other than -ECANCELED. */
static int dial_explain(int result, const char *attempted, const char *addr)
{
    if (result >= 0 || result == -ECANCELED)
        return result;
    return weft_fail(result, "%s %s: %s", attempted, addr, weft__error_text(result));
}

static struct addrinfo unix_addrinfo(weft__address *a)
{
    return (struct addrinfo){.ai_family = AF_UNIX,
                             .ai_socktype = a->type,
                             .ai_addr = (struct sockaddr *)&a->path,
                             .ai_addrlen = a->path_bytes};
}

/* Open a non-blocking socket, so that the backend cannot block in a call for it. */
static int net_socket_open(const struct addrinfo *address)
{
    int type = address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK;
    int fd = socket(address->ai_family, type, address->ai_protocol);
    if (fd < 0)
        return -errno;
    weft__fd_created(fd);
    return fd;
}

static void set_socket_option(int fd, int level, int option, int value)
{
    (void)setsockopt(fd, level, option, &value, sizeof value);
}

static bool is_tcp(const struct addrinfo *address)
{
    return address->ai_socktype == SOCK_STREAM && address->ai_family != AF_UNIX;
}

/* Listening. */

static int listen_at(const struct addrinfo *address, bool is_v6_only)
{
    int fd = net_socket_open(address);
    if (fd < 0)
        return fd;
    /* Do not set SO_REUSEADDR for datagrams, because two sockets could then bind the same port. */
    if (is_tcp(address))
        set_socket_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (address->ai_family != AF_UNIX && weft__cord_here()->shares_ports)
        set_socket_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    if (address->ai_family == AF_INET6)
        set_socket_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, is_v6_only);
    int rc = bind(fd, address->ai_addr, address->ai_addrlen);
    if (rc == 0 && address->ai_socktype == SOCK_STREAM)
        rc = listen(fd, SOMAXCONN);
    if (rc == 0)
        return fd;
    rc = -errno;
    weft_close(fd);
    return rc;
}

/*
 * Return whether path is a socket file that no process listens on. A socket file outlives its
 * process.
 */
static bool is_socket_stale(const struct addrinfo *address, const char *path)
{
    struct stat status;
    if (lstat(path, &status) < 0 || !S_ISSOCK(status.st_mode))
        return false;
    int fd = net_socket_open(address);
    if (fd < 0)
        return false;
    bool is_refused =
        connect(fd, address->ai_addr, address->ai_addrlen) < 0 && errno == ECONNREFUSED;
    weft_close(fd);
    return is_refused;
}

/*
 * Listen on a unix socket. If its file is stale, replace the file. If two processes do so at the
 * same time, each may remove the file of the other process.
 */
static int listen_unix(weft__address *a)
{
    struct addrinfo address = unix_addrinfo(a);
    int fd = listen_at(&address, false);
    if (fd != -EADDRINUSE || !weft__address_has_file(a) ||
        !is_socket_stale(&address, a->path.sun_path))
        return fd;
    if (unlink(a->path.sun_path) < 0 && errno != ENOENT)
        return -errno;
    return listen_at(&address, false);
}

/* Listen on the first address that can be bound. */
static int listen_first(const struct addrinfo *addresses, bool is_v6_only)
{
    int result = -ENOENT;
    for (const struct addrinfo *address = addresses; address != NULL && result < 0;
         address = address->ai_next)
        result = listen_at(address, is_v6_only);
    return result;
}

static int listen_host(const weft__address *a, const char *addr)
{
    const bool is_wildcard = a->host[0] == '\0';
    const char *all = a->family == AF_INET ? "0.0.0.0" : "::";
    const struct addrinfo hints = {.ai_family = a->family, .ai_socktype = a->type};
    struct addrinfo *addresses;
    int result = weft_resolve(is_wildcard ? all : a->host, a->service, &hints, &addresses);
    if (result != 0)
        return result;
    result = listen_first(addresses, a->family == AF_INET6);
    weft_resolve_free(addresses);
    /*
     * An IPv6 socket for the wildcard also accepts IPv4 connections. If IPv6 is disabled, use IPv4.
     */
    bool is_ipv6_disabled = result == -EAFNOSUPPORT || result == -EADDRNOTAVAIL;
    if (is_ipv6_disabled && is_wildcard && a->family == AF_UNSPEC)
        return weft_listen(a->type == SOCK_STREAM ? "tcp4" : "udp4", addr);
    return dial_explain(result, "cannot listen at", addr);
}

int weft_listen(const char *net, const char *addr)
{
    weft__address a;
    int rc = parse_address(net, addr, &a);
    if (rc < 0)
        return rc;
    if (a.family == AF_UNIX)
        return dial_explain(listen_unix(&a), "cannot listen at", addr);
    return listen_host(&a, addr);
}

/* Connecting. */

static int connect_to(const struct addrinfo *address)
{
    int fd = net_socket_open(address);
    if (fd < 0)
        return fd;
    if (is_tcp(address))
        set_socket_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    int rc = weft_connect(fd, address->ai_addr, address->ai_addrlen);
    if (rc == 0)
        return fd;
    weft_close(fd);
    return rc;
}

/* A connection attempt to one address. Each attempt has its own fiber. */
typedef struct attempt {
    const struct addrinfo *address;
    weft_fiber fiber; /* 0: not started, or ended and awaited */
    int result;       /* the descriptor or -errno; initially -ECANCELED */
} attempt;

typedef struct race {
    attempt *attempts; /* in the order of starting */
    size_t count, started, running;
    weft_fiber *ids;     /* the fibers to wait for; the capacity is count */
    int result;          /* of the attempt that ended last */
    bool is_interrupted; /* an error interrupted the caller; the error is in result */
} race;

static const struct addrinfo *next_of(const struct addrinfo *address, int family, bool is_wanted)
{
    while (address != NULL && (address->ai_family == family) != is_wanted)
        address = address->ai_next;
    return address;
}

/*
 * Alternate between the families. The family of the first address is first (RFC 8305, section 4).
 */
static void attempts_init(const struct addrinfo *addresses, attempt *attempts)
{
    int family = addresses->ai_family;
    const struct addrinfo *next[2] = {addresses, next_of(addresses, family, false)};
    for (int side = 0; next[0] != NULL || next[1] != NULL; side = !side) {
        if (next[side] == NULL)
            continue;
        *attempts++ = (attempt){.address = next[side], .result = -ECANCELED};
        next[side] = next_of(next[side]->ai_next, family, side == 0);
    }
}

/* Connect. Return 0 in all cases, because an error would be raised in the caller of weft_dial. */
static weft_value attempt_run(void *arg)
{
    attempt *a = arg;
    a->result = connect_to(a->address);
    return 0;
}

static void race_start_next(race *r)
{
    attempt *a = &r->attempts[r->started++];
    weft__fiber *self = weft__cord_self->current;
    bool was_open = weft__tree_open(self, true);
    a->fiber = weft_spin_with(attempt_run, a, &(weft_spin_options){.name = "dial"});
    weft__tree_open(self, was_open);
    if (a->fiber != 0)
        r->running++;
    else
        r->result = weft_error() != NULL ? weft_error()->code : -ENOMEM;
}

static size_t race_list_running(race *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->started; i++)
        if (r->attempts[i].fiber != 0)
            r->ids[n++] = r->attempts[i].fiber;
    return n;
}

static void race_record_end(race *r, weft_fiber fiber)
{
    attempt *a = r->attempts;
    while (a->fiber != fiber)
        a++;
    a->fiber = 0;
    r->running--;
    r->result = a->result;
}

/* Wait until an attempt has ended, or until the next attempt should start. */
static void race_await_one(race *r)
{
    enum { NONE = 1 }; /* no attempt returns this value */
    weft_value value = NONE;
    size_t n = race_list_running(r);
    weft_scope delay;
    weft_scope_open(&delay, r->started < r->count ? WEFT__DIAL_DELAY_S : INFINITY);
    int first = weft_await_any(r->ids, n, &value);
    bool is_late = weft_scope_close(&delay) == -ETIMEDOUT;
    if (value != NONE) {
        race_record_end(r, r->ids[first]);
    } else if (!is_late || first != -ECANCELED) {
        r->is_interrupted = true;
        r->result = first;
    }
}

/* Start attempts until one attempt has connected or all attempts have failed. */
static void race_run(race *r)
{
    while (!r->is_interrupted && r->result < 0 && (r->started < r->count || r->running > 0)) {
        if (r->started < r->count)
            race_start_next(r);
        if (r->running > 0)
            race_await_one(r);
    }
}

/* Stop the remaining attempts. Close the connections that were established too late. */
static void race_end(race *r)
{
    const int winner = r->is_interrupted ? -1 : r->result;
    size_t n = race_list_running(r);
    for (size_t i = 0; i < n; i++)
        weft_stop(r->ids[i], 0);
    WEFT_SHIELD(INFINITY) {
        for (size_t i = 0; i < n; i++)
            while (weft_await(r->ids[i]) != -ESRCH)
                continue; /* the fiber has ended, or the wait was interrupted; await again */
    }
    for (size_t i = 0; i < r->started; i++)
        if (r->attempts[i].result >= 0 && r->attempts[i].result != winner)
            weft_close(r->attempts[i].result);
}

static size_t count_addresses(const struct addrinfo *addresses)
{
    size_t count = 0;
    for (; addresses != NULL; addresses = addresses->ai_next)
        count++;
    return count;
}

int weft__dial_any(const struct addrinfo *addresses)
{
    race r = {.count = count_addresses(addresses), .result = -ENOENT};
    if (r.count == 1)
        return connect_to(addresses);
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (c->current->pending)
        return (int)weft__call_refuse(c);
    r.attempts = malloc(r.count * (sizeof *r.attempts + sizeof *r.ids));
    if (r.attempts == NULL)
        return -ENOMEM;
    r.ids = (weft_fiber *)(r.attempts + r.count);
    attempts_init(addresses, r.attempts);
    race_run(&r);
    race_end(&r);
    free(r.attempts);
    return r.result;
}

/*
 * Connect a datagram socket to the first usable address. The call does not wait, because connecting
 * a datagram socket fails or succeeds at once.
 */
static int dial_datagrams(const struct addrinfo *addresses)
{
    int result = -ENOENT;
    for (const struct addrinfo *address = addresses; address != NULL && result < 0;
         address = address->ai_next)
        result = connect_to(address);
    return result;
}

int weft_dial(const char *net, const char *addr)
{
    weft__address a;
    int result = parse_address(net, addr, &a);
    if (result < 0)
        return result;
    if (a.family == AF_UNIX) {
        struct addrinfo address = unix_addrinfo(&a);
        return dial_explain(connect_to(&address), "cannot connect to", addr);
    }
    const struct addrinfo hints = {.ai_family = a.family, .ai_socktype = a.type};
    struct addrinfo *addresses;
    result = weft_resolve(a.host[0] != '\0' ? a.host : NULL, a.service, &hints, &addresses);
    if (result != 0 || addresses == NULL)
        return result;
    result = a.type == SOCK_STREAM ? weft__dial_any(addresses) : dial_datagrams(addresses);
    weft_resolve_free(addresses);
    return dial_explain(result, "cannot connect to", addr);
}

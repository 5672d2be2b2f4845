/*
 * Sockets by the text of their address: those that listen, and those that connect, to whichever of
 * several addresses answers first.
 */
#include "io/dial.h"

#include "core/op.h"

#include "core/alarm.h"
#include "core/error.h"
#include "core/tree.h"
#include "io/address.h"

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

static int parse(const char *net, const char *addr, weft__address *out)
{
    const char *wrong = weft__address_parse(net, addr, out);
    if (wrong == NULL)
        return 0;
    return weft_fail(-EINVAL, "%s %s: %s", net != NULL ? net : "?", addr != NULL ? addr : "?",
                     wrong);
}

/* Words for an error, but not for one that the caller was told from outside. */
static int explain(int result, const char *attempted, const char *addr)
{
    if (result >= 0 || result == -ECANCELED)
        return result;
    return weft_fail(result, "%s %s: %s", attempted, addr, weft__error_text(result));
}

static struct addrinfo unix_place(weft__address *a)
{
    return (struct addrinfo){.ai_family = AF_UNIX,
                             .ai_socktype = a->type,
                             .ai_addr = (struct sockaddr *)&a->path,
                             .ai_addrlen = a->path_bytes};
}

/* Non-blocking, so that the backend need not take care that it is not held up. */
static int open_socket(const struct addrinfo *at)
{
    int type = at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK;
    int fd = socket(at->ai_family, type, at->ai_protocol);
    if (fd < 0)
        return -errno;
    weft__fd_made(fd);
    return fd;
}

static void set_option(int fd, int level, int option, int value)
{
    (void)setsockopt(fd, level, option, &value, sizeof value);
}

static bool is_tcp(const struct addrinfo *at)
{
    return at->ai_socktype == SOCK_STREAM && at->ai_family != AF_UNIX;
}

/*
 * Listening.
 */

static int listen_at(const struct addrinfo *at, bool is_v6_only)
{
    int fd = open_socket(at);
    if (fd < 0)
        return fd;
    /* Not for datagrams, where it would let two take the same port. */
    if (is_tcp(at))
        set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (at->ai_family != AF_UNIX && weft__cord_here()->shares_ports)
        set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    if (at->ai_family == AF_INET6)
        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, is_v6_only);
    int rc = bind(fd, at->ai_addr, at->ai_addrlen);
    if (rc == 0 && at->ai_socktype == SOCK_STREAM)
        rc = listen(fd, SOMAXCONN);
    if (rc == 0)
        return fd;
    rc = -errno;
    weft_close(fd);
    return rc;
}

/* Nobody is there any more: the file of a socket outlives its process. */
static bool is_stale(const struct addrinfo *at, const char *path)
{
    struct stat status;
    if (lstat(path, &status) < 0 || !S_ISSOCK(status.st_mode))
        return false;
    int fd = open_socket(at);
    if (fd < 0)
        return false;
    bool is_refused = connect(fd, at->ai_addr, at->ai_addrlen) < 0 && errno == ECONNREFUSED;
    weft_close(fd);
    return is_refused;
}

/* Two who replace the same file at the same moment may take it from each other. */
static int listen_unix(weft__address *a)
{
    struct addrinfo at = unix_place(a);
    int fd = listen_at(&at, false);
    if (fd != -EADDRINUSE || !weft__address_has_file(a) || !is_stale(&at, a->path.sun_path))
        return fd;
    if (unlink(a->path.sun_path) < 0 && errno != ENOENT)
        return -errno;
    return listen_at(&at, false);
}

/* At the first of the addresses that can be had. */
static int listen_first(const struct addrinfo *addresses, bool is_v6_only)
{
    int result = -ENOENT;
    for (const struct addrinfo *at = addresses; at != NULL && result < 0; at = at->ai_next)
        result = listen_at(at, is_v6_only);
    return result;
}

static int listen_host(const weft__address *a, const char *addr)
{
    const bool is_everywhere = a->host[0] == '\0';
    const char *all = a->family == AF_INET ? "0.0.0.0" : "::";
    const struct addrinfo hints = {.ai_family = a->family, .ai_socktype = a->type};
    struct addrinfo *addresses;
    int result = weft_resolve(is_everywhere ? all : a->host, a->service, &hints, &addresses);
    if (result != 0)
        return result;
    result = listen_first(addresses, a->family == AF_INET6);
    weft_resolve_free(addresses);
    /* An IPv6 socket serves IPv4, too, but IPv6 may be switched off. */
    bool is_off = result == -EAFNOSUPPORT || result == -EADDRNOTAVAIL;
    if (is_off && is_everywhere && a->family == AF_UNSPEC)
        return weft_listen(a->type == SOCK_STREAM ? "tcp4" : "udp4", addr);
    return explain(result, "cannot listen at", addr);
}

int weft_listen(const char *net, const char *addr)
{
    weft__address a;
    int rc = parse(net, addr, &a);
    if (rc < 0)
        return rc;
    if (a.family == AF_UNIX)
        return explain(listen_unix(&a), "cannot listen at", addr);
    return listen_host(&a, addr);
}

/*
 * Connecting.
 */

static int connect_to(const struct addrinfo *at)
{
    int fd = open_socket(at);
    if (fd < 0)
        return fd;
    if (is_tcp(at))
        set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    int rc = weft_connect(fd, at->ai_addr, at->ai_addrlen);
    if (rc == 0)
        return fd;
    weft_close(fd);
    return rc;
}

/* One address's attempt, by a fiber of its own. */
typedef struct attempt {
    const struct addrinfo *at;
    weft_fiber fiber; /* 0: not begun, or over and awaited */
    int result;       /* the descriptor, or -errno; until then, as if it had been cancelled */
} attempt;

typedef struct race {
    attempt *attempts; /* in their turn */
    size_t count, begun, running;
    weft_fiber *ids; /* room for count: those that are waited for */
    int result;      /* of the last attempt that is over */
    bool is_cut;     /* by an error, which is the result then */
} race;

static const struct addrinfo *next_of(const struct addrinfo *at, int family, bool is_wanted)
{
    while (at != NULL && (at->ai_family == family) != is_wanted)
        at = at->ai_next;
    return at;
}

/* The families by turns, the first address's first: RFC 8305, section 4. */
static void put_in_turn(const struct addrinfo *addresses, attempt *attempts)
{
    int family = addresses->ai_family;
    const struct addrinfo *next[2] = {addresses, next_of(addresses, family, false)};
    for (int turn = 0; next[0] != NULL || next[1] != NULL; turn = !turn) {
        if (next[turn] == NULL)
            continue;
        *attempts++ = (attempt){.at = next[turn], .result = -ECANCELED};
        next[turn] = next_of(next[turn]->ai_next, family, turn == 0);
    }
}

/* It never fails, or its error would be raised in the caller of weft_dial. */
static weft_value run_attempt(void *arg)
{
    attempt *a = arg;
    a->result = connect_to(a->at);
    return 0;
}

static void begin_next(race *r)
{
    attempt *a = &r->attempts[r->begun++];
    weft__fiber *self = weft__cord_self->current;
    bool was_open = weft__tree_open(self, true);
    a->fiber = weft_spin_with(run_attempt, a, &(weft_spin_options){.name = "dial"});
    weft__tree_open(self, was_open);
    if (a->fiber != 0)
        r->running++;
    else
        r->result = weft_error() != NULL ? weft_error()->code : -ENOMEM;
}

static size_t list_running(race *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->begun; i++)
        if (r->attempts[i].fiber != 0)
            r->ids[n++] = r->attempts[i].fiber;
    return n;
}

static void note_end(race *r, weft_fiber fiber)
{
    attempt *a = r->attempts;
    while (a->fiber != fiber)
        a++;
    a->fiber = 0;
    r->running--;
    r->result = a->result;
}

/* Wait until one of those that run is over, or the next one's time has come. */
static void await_one(race *r)
{
    enum { NONE = 1 }; /* an attempt's value is 0 */
    weft_value value = NONE;
    size_t n = list_running(r);
    weft_scope turn;
    weft_scope_open(&turn, r->begun < r->count ? WEFT__DIAL_DELAY_S : INFINITY);
    int first = weft_await_any(r->ids, n, &value);
    bool is_late = weft_scope_close(&turn) == -ETIMEDOUT;
    if (value != NONE) {
        note_end(r, r->ids[first]);
    } else if (!is_late || first != -ECANCELED) {
        r->is_cut = true;
        r->result = first;
    }
}

/* Begin attempts until one has connected or all have failed. */
static void run_race(race *r)
{
    while (!r->is_cut && r->result < 0 && (r->begun < r->count || r->running > 0)) {
        if (r->begun < r->count)
            begin_next(r);
        if (r->running > 0)
            await_one(r);
    }
}

/* Stop what still runs, and close what came too late. Nothing is left behind. */
static void end_race(race *r)
{
    const int winner = r->is_cut ? -1 : r->result;
    size_t n = list_running(r);
    for (size_t i = 0; i < n; i++)
        weft_stop(r->ids[i], 0);
    WEFT_SHIELD(INFINITY) {
        for (size_t i = 0; i < n; i++)
            while (weft_await(r->ids[i]) != -ESRCH)
                continue; /* it has ended, or the wait was interrupted: ask again */
    }
    for (size_t i = 0; i < r->begun; i++)
        if (r->attempts[i].result >= 0 && r->attempts[i].result != winner)
            weft_close(r->attempts[i].result);
}

static size_t count_of(const struct addrinfo *addresses)
{
    size_t count = 0;
    for (; addresses != NULL; addresses = addresses->ai_next)
        count++;
    return count;
}

int weft__dial_any(const struct addrinfo *addresses)
{
    race r = {.count = count_of(addresses), .result = -ENOENT};
    if (r.count == 1)
        return connect_to(addresses);
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (c->current->alarm)
        return (int)weft__refuse(c);
    r.attempts = malloc(r.count * (sizeof *r.attempts + sizeof *r.ids));
    if (r.attempts == NULL)
        return -ENOMEM;
    r.ids = (weft_fiber *)(r.attempts + r.count);
    put_in_turn(addresses, r.attempts);
    run_race(&r);
    end_race(&r);
    free(r.attempts);
    return r.result;
}

/* Nothing to wait for: an address that cannot be is refused at once. */
static int dial_datagrams(const struct addrinfo *addresses)
{
    int result = -ENOENT;
    for (const struct addrinfo *at = addresses; at != NULL && result < 0; at = at->ai_next)
        result = connect_to(at);
    return result;
}

int weft_dial(const char *net, const char *addr)
{
    weft__address a;
    int result = parse(net, addr, &a);
    if (result < 0)
        return result;
    if (a.family == AF_UNIX) {
        struct addrinfo at = unix_place(&a);
        return explain(connect_to(&at), "cannot connect to", addr);
    }
    const struct addrinfo hints = {.ai_family = a.family, .ai_socktype = a.type};
    struct addrinfo *addresses;
    result = weft_resolve(a.host[0] != '\0' ? a.host : NULL, a.service, &hints, &addresses);
    if (result != 0 || addresses == NULL)
        return result;
    result = a.type == SOCK_STREAM ? weft__dial_any(addresses) : dial_datagrams(addresses);
    weft_resolve_free(addresses);
    return explain(result, "cannot connect to", addr);
}

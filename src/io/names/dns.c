/*
 * The DNS client of a thread. The driver is the fiber that runs its lookups. The driver starts
 * queued lookups, reads the hosts file, and queries name servers through c-ares. The driver waits
 * for the sockets and timers of c-ares, and wakes the waiting fibers. Only the driver calls c-ares,
 * because c-ares needs about 9 KiB of stack, and a fiber may have only 16 KiB. Other fibers only
 * add their lookups to a list.
 *
 * The driver is a child of the main fiber. The driver exists only while a fiber waits for a lookup.
 * The driver cannot be cancelled.
 */
#include "io/names/dns.h"

#include "core/lifetime/cancel.h"
#include "core/lifetime/tree.h"
#include "core/op/op.h"
#include "io/names/cares.h"
#include "io/names/system_files.h"

#include <weft/scope.h>
#include <weft/select.h>

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/*
 * The maximum number of concurrent lookups. Further lookups are queued. A lookup has two queries.
 * The responses to the queries of all lookups must fit into the receive buffer of the socket.
 */
#define LOOKUPS_MAX 100
/* The stack size of the driver: several times the need of the frames, c-ares and the C library. */
#define STACK_BYTES ((size_t)64 << 10)
/* The result of the driver's wait after driver_wake. */
#define DRIVER_WOKEN (-EINTR)

struct weft__dns {
    weft__dns_settings *settings;
    weft__cares cares; /* opened by the first lookup */
    weft__conf resolv; /* the resolv.conf that the channel uses */
    weft__conf hosts;
    weft_fiber driver; /* 0: none */
    weft__list queued; /* lookups that have not started */
    weft__list done;   /* finished lookups with fibers that have not been woken */
    size_t wanted;     /* unfinished lookups with a waiting fiber */
    size_t active;     /* lookups in c-ares, including abandoned lookups */
    bool is_retired;
    int error; /* errno of the driver's failed wait; 0: none */
};

void weft__dns_settings_unref(weft__dns_settings *s)
{
    if (s != NULL && --s->refs == 0)
        free(s);
}

weft__dns *weft__dns_new(weft__dns_settings *s)
{
    weft__dns *d = calloc(1, sizeof *d);
    if (d == NULL)
        return NULL;
    d->settings = s;
    s->refs++;
    weft__list_init(&d->queued);
    weft__list_init(&d->done);
    weft__conf_refresh(&d->resolv, s->resolv_path);
    return d;
}

bool weft__dns_is_stale(const weft__dns *d)
{
    return weft__conf_is_stale(&d->resolv, d->settings->resolv_path);
}

static void dns_free(weft__dns *d)
{
    weft__cares_close(&d->cares);
    weft__conf_free(&d->resolv);
    weft__conf_free(&d->hosts);
    weft__dns_settings_unref(d->settings);
    free(d);
}

void weft__dns_retire(weft__dns *d)
{
    if (d == NULL)
        return;
    d->is_retired = true;
    if (d->driver == 0)
        dns_free(d);
}

/* Waiting for a lookup. */

static bool leave_dns_wait(weft__fiber *f);

static const weft__wait_kind waits_dns = {"a name server", .leave = leave_dns_wait};

/*
 * Make the driver check its lists. If the driver is not waiting, the next wait of the driver
 * returns at once.
 */
static void driver_wake(weft__dns *d)
{
    (void)weft_interrupt(d->driver, DRIVER_WOKEN);
}

/* Abandon a lookup. If c-ares still uses the lookup, lookup_on_result frees the lookup later. */
static void waiter_abandon(weft__dns_waiter *w)
{
    weft__lookup *l = w->lookup;
    weft__dns *d = l->dns;
    bool is_last = !w->is_done && --d->wanted == 0;
    w->lookup = NULL;
    l->waiter = NULL;
    if (!weft__list_is_empty(&l->link)) {
        weft__list_remove(&l->link);
        weft__lookup_free(l);
    }
    if (is_last)
        driver_wake(d);
}

static bool leave_dns_wait(weft__fiber *f)
{
    weft__unhold_op(weft__cord_self, f);
    waiter_abandon(f->wait_object);
    return true;
}

static weft_value driver_main(void *arg);

/*
 * Start the driver, and run the driver up to its first wait. A driver that has not run could be
 * stopped and would then never run. After its first run, the driver is shielded.
 */
static int start_driver(weft__cord *c, weft__dns *d)
{
    bool was_open = weft__tree_open(c->main, true);
    weft_fiber id = weft__new_with(
        driver_main, d,
        &(weft_spin_options){
            .name = "names", .parent = c->main->id, .stack_bytes = STACK_BYTES, .is_daemon = true},
        __builtin_return_address(0));
    weft__tree_open(c->main, was_open);
    if (id == 0)
        return -ENOMEM;
    weft__fiber_find(c, id)->is_unawaited = true;
    d->driver = id;
    int rc = (int)weft_start(id);
    if (rc == 0)
        return 0;
    d->driver = 0; /* the main fiber and its children are ending */
    weft_cancel(id);
    return rc;
}

int weft__dns_begin(weft__cord *c, weft__dns *d, weft__lookup *l, weft__dns_waiter *w)
{
    *w = (weft__dns_waiter){c->current, l, false};
    l->waiter = w;
    l->dns = d;
    l->code = 0;
    weft__list_insert(&d->queued, &l->link);
    d->wanted++;
    if (d->driver != 0) {
        driver_wake(d);
        return 0;
    }
    int rc = start_driver(c, d);
    if (rc == 0)
        return 0;
    weft__list_remove(&l->link);
    d->wanted--;
    return rc;
}

weft_value weft__dns_wait(weft__cord *c, weft__dns_waiter *w)
{
    if (w->is_done)
        return 0;
    if (c->current->pending) {
        waiter_abandon(w);
        return weft__call_refuse(c);
    }
    weft__hold_op(c, c->current);
    return weft__wait(c, &waits_dns, w);
}

/* Results. */

static void lookup_finish(weft__lookup *l, int code)
{
    l->code = code;
    l->waiter->is_done = true;
    l->dns->wanted--;
    weft__list_insert(&l->dns->done, &l->link);
}

/*
 * Wake the fibers of finished lookups. lookup_finish does not wake fibers, because the driver must
 * end before the last fiber continues.
 */
static void wake_waiters(weft__dns *d)
{
    weft__cord *c = weft__cord_self;
    for (weft__list *node; (node = weft__list_pop(&d->done)) != NULL;) {
        weft__fiber *f = CONTAINER_OF(node, weft__lookup, link)->waiter->fiber;
        if (f->waits_in != &waits_dns)
            continue; /* not waiting yet; weft__dns_wait will return at once */
        weft__unhold_op(c, f);
        weft__wake(c, f, 0, WEFT__TAIL);
    }
}

/* Finish a lookup with addresses. Convert the addresses as the hints require. */
static void lookup_finish_with(weft__lookup *l, weft__ip_addrs *ips, const char *canonical)
{
    const int flags = l->hints.ai_flags;
    weft__ip_addrs_order(ips);
    weft__ip_addrs_map(ips, l->family, flags);
    if (ips->count == 0) {
        lookup_finish(l, EAI_NODATA);
        return;
    }
    l->found = weft__addrinfo_build(ips, l->ports, flags, flags & AI_CANONNAME ? canonical : NULL);
    lookup_finish(l, l->found != NULL ? 0 : EAI_MEMORY);
}

/* Handle the result of weft__cares_query. */
static void lookup_on_result(void *arg, int code, weft__ip_addrs *ips, const char *canonical)
{
    weft__lookup *l = arg;
    weft__dns *d = l->dns;
    d->active--;
    if (l->waiter == NULL) { /* abandoned */
        weft__lookup_free(l);
        return;
    }
    l->error = d->error;
    if (d->error != 0)
        lookup_finish(l, EAI_SYSTEM);
    else if (code != 0)
        lookup_finish(l, code);
    else
        lookup_finish_with(l, ips, canonical);
}

/*
 * Add the loopback addresses if the host is localhost. The name localhost always means this machine
 * (RFC 6761, section 6.3).
 *
 * Returns 0, or:
 * -ENOENT if the host is not localhost
 * -ENOMEM if memory is exhausted
 */
static int find_loopback(const char *host, int family, weft__ip_addrs *out)
{
    const struct in_addr v4 = {htonl(INADDR_LOOPBACK)};
    if (strcasecmp(host, "localhost") != 0)
        return -ENOENT;
    bool is_ok = family == AF_INET6 || weft__ip_addrs_add(out, AF_INET, &v4);
    is_ok = is_ok && (family == AF_INET || weft__ip_addrs_add(out, AF_INET6, &in6addr_loopback));
    return is_ok ? 0 : -ENOMEM;
}

/*
 * Look up a name in the hosts file. Handle localhost even if the hosts file does not list it.
 *
 * Returns 0, an error of weft__conf_refresh, or:
 * -ENOENT if the name is not found
 * -ENOMEM if memory is exhausted
 */
static int find_in_files(weft__dns *d, const char *host, int family, weft__ip_addrs *out,
                         char **canonical)
{
    int rc = weft__conf_refresh(&d->hosts, d->settings->hosts_path);
    if (rc == 0)
        rc = weft__hosts_find(d->hosts.text, host, family, out, canonical);
    return rc == -ENOENT ? find_loopback(host, family, out) : rc;
}

/* Finish a lookup without a name server. Returns false if the lookup needs a name server. */
static bool lookup_finish_by_files(weft__dns *d, weft__lookup *l, int family)
{
    weft__ip_addrs ips = {0};
    char *canonical = NULL;
    int rc = find_in_files(d, l->host, family, &ips, &canonical);
    l->error = -rc;
    if (rc == 0)
        lookup_finish_with(l, &ips, canonical != NULL ? canonical : l->host);
    else if (rc != -ENOENT)
        lookup_finish(l, EAI_SYSTEM);
    free(canonical);
    weft__ip_addrs_free(&ips);
    return rc != -ENOENT;
}

static int dns_open_cares(weft__dns *d)
{
    if (weft__cares_is_open(&d->cares))
        return 0;
    return weft__cares_open(&d->cares, d->settings, d->resolv.text);
}

static void lookup_start(weft__dns *d, weft__lookup *l)
{
    const int flags = l->hints.ai_flags;
    l->family = l->hints.ai_family;
    if (flags & AI_ADDRCONFIG)
        l->family = weft__local_family(l->family);
    if (l->family < 0) {
        lookup_finish(l, EAI_NONAME);
        return;
    }
    bool is_mapped = l->family == AF_INET6 && flags & AI_V4MAPPED;
    int family = is_mapped ? AF_UNSPEC : l->family;
    if (lookup_finish_by_files(d, l, family))
        return;
    if (dns_open_cares(d) < 0) {
        lookup_finish(l, EAI_MEMORY);
        return;
    }
    d->active++;
    weft__cares_query(&d->cares, l->host, family, lookup_on_result, l);
}

/* The driver. */

static void start_queued(weft__dns *d)
{
    while (d->active < LOOKUPS_MAX && !weft__list_is_empty(&d->queued))
        lookup_start(d, CONTAINER_OF(weft__list_pop(&d->queued), weft__lookup, link));
}

/*
 * Fail all lookups in c-ares, because the driver cannot wait for the sockets. error must be
 * negative.
 */
static void dns_fail_all(weft__dns *d, int error)
{
    d->error = -error;
    weft__cares_cancel(&d->cares);
    d->error = 0;
}

/*
 * Wait for the sockets and timers of c-ares, or for driver_wake. Then let c-ares handle the events.
 */
static void dns_run_cares(weft__dns *d)
{
    weft_clause clauses[WEFT__CARES_FDS_MAX + 1];
    int fds = weft__cares_clauses(&d->cares, clauses);
    double left_s = weft__cares_timeout(&d->cares);
    clauses[fds] = isinf(left_s) ? weft_clause_never() : weft_clause_time(left_s);
    int first = weft_select(clauses, (size_t)fds + 1);
    if (first == DRIVER_WOKEN)
        return;
    if (first < 0)
        dns_fail_all(d, first);
    else if (first == fds)
        weft__cares_handle(&d->cares, -1, 0);
    else if (first < fds && clauses[first].value < 0)
        dns_fail_all(d, (int)clauses[first].value); /* an immediate retry would be a busy loop */
    else if (first < fds)
        weft__cares_handle(&d->cares, clauses[first].of.fd, (int)clauses[first].value);
}

static bool has_waiters(weft__dns *d)
{
    while (d->wanted == 0 && d->active > 0)
        weft__cares_cancel(&d->cares); /* the call closes sockets and may switch, so check again */
    return d->wanted > 0;
}

static weft_value driver_main(void *arg)
{
    weft__dns *d = arg;
    WEFT_SHIELD(INFINITY) {
        while (has_waiters(d)) {
            wake_waiters(d);
            start_queued(d);
            if (d->active > 0 && d->wanted > 0)
                dns_run_cares(d);
        }
    }
    weft__cares_close_unused(&d->cares);
    d->driver = 0;
    wake_waiters(d);
    if (d->is_retired)
        dns_free(d);
    return 0;
}

/*
 * The lookups of a thread and the fiber that has them answered: it takes what is asked, looks into
 * the hosts file, lets c-ares ask the name servers, waits for their sockets and for c-ares' timers,
 * and wakes who asked. All calls of c-ares are made by it, on its stack (they take some 9 KiB, and
 * a fiber may have 16 in all): the others only put their lookup into a list.
 *
 * It is a child of the main fiber, and there only while somebody waits for an answer. It cannot be
 * cancelled: it ends when it has nothing left to do, which is when those have who asked.
 */
#include "io/resolve_dns.h"

#include "core/alarm.h"
#include "core/op.h"
#include "core/tree.h"
#include "io/resolve_channel.h"
#include "io/resolve_system.h"

#include <weft/scope.h>
#include <weft/select.h>

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/*
 * Lookups at once, the others wait: two questions each, whose answers have to fit into the
 * socket's buffer.
 */
#define LOOKUPS_MAX 100
/* What its frames, c-ares and the C library take, several times. */
#define STACK_BYTES ((size_t)64 << 10)
/* What its wait returns when it is to look what there is to do. */
#define ROUSED (-EINTR)

struct weft__dns {
    weft__dns_settings *settings;
    weft__channel channel; /* opened at the first lookup */
    weft__conf resolv;     /* as the channel was made by it */
    weft__conf hosts;
    weft_fiber driver; /* 0: none */
    weft__list asked;  /* lookups that have not been begun */
    weft__list done;   /* that are over, their askers not woken yet */
    size_t wanted;     /* lookups that somebody waits for and that are not over */
    size_t begun;      /* that c-ares has, wanted or not */
    bool is_retired;
    int error; /* errno: why the fiber cannot wait; 0: it can */
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
    weft__list_init(&d->asked);
    weft__list_init(&d->done);
    weft__conf_refresh(&d->resolv, s->resolv_path);
    return d;
}

bool weft__dns_is_old(const weft__dns *d)
{
    return weft__conf_is_old(&d->resolv, d->settings->resolv_path);
}

static void dns_free(weft__dns *d)
{
    weft__channel_close(&d->channel);
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

/*
 * The asker's side.
 */

static bool leave_answer(weft__fiber *f);

static const weft__wait_kind waits_answer = {"a name server", .leave = leave_answer};

/* Have the fiber look what there is to do. If it does not wait, it will. */
static void rouse(weft__dns *d)
{
    (void)weft_interrupt(d->driver, ROUSED);
}

/* Nobody waits for it any more; c-ares may still have it. */
static void give_up(weft__asker *a)
{
    weft__lookup *l = a->lookup;
    weft__dns *d = l->dns;
    bool is_last = !a->is_done && --d->wanted == 0;
    a->lookup = NULL;
    l->asker = NULL;
    if (!weft__list_is_empty(&l->link)) {
        weft__list_remove(&l->link);
        weft__lookup_free(l);
    }
    if (is_last)
        rouse(d);
}

static bool leave_answer(weft__fiber *f)
{
    weft__unhold_op(weft__cord_self, f);
    give_up(f->wait_object);
    return true;
}

static weft_value drive(void *arg);

/*
 * A fiber that drives, run as far as to its first wait. Before that it could be stopped, and would
 * never run; from then on it is shielded.
 */
static int start_driver(weft__cord *c, weft__dns *d)
{
    bool was_open = weft__tree_open(c->main, true);
    weft_fiber id = weft__new_with(
        drive, d,
        &(weft_spin_options){
            .name = "names", .parent = c->main->id, .stack_bytes = STACK_BYTES, .is_daemon = true});
    weft__tree_open(c->main, was_open);
    if (id == 0)
        return -ENOMEM;
    weft__fiber_find(c, id)->is_unawaited = true;
    d->driver = id;
    int rc = (int)weft_start(id);
    if (rc == 0)
        return 0;
    d->driver = 0; /* main is ending, and with it what it is given for a child */
    weft_cancel(id);
    return rc;
}

int weft__dns_begin(weft__cord *c, weft__dns *d, weft__lookup *l, weft__asker *a)
{
    *a = (weft__asker){c->current, l, false};
    l->asker = a;
    l->dns = d;
    l->code = 0;
    weft__list_insert(&d->asked, &l->link);
    d->wanted++;
    if (d->driver != 0) {
        rouse(d);
        return 0;
    }
    int rc = start_driver(c, d);
    if (rc == 0)
        return 0;
    weft__list_remove(&l->link);
    d->wanted--;
    return rc;
}

weft_value weft__dns_wait(weft__cord *c, weft__asker *a)
{
    if (a->is_done)
        return 0;
    if (c->current->alarm) {
        give_up(a);
        return weft__refuse(c);
    }
    weft__hold_op(c, c->current);
    return weft__wait(c, &waits_answer, a);
}

/*
 * Answers.
 */

static void finish(weft__lookup *l, int code)
{
    l->code = code;
    l->asker->is_done = true;
    l->dns->wanted--;
    weft__list_insert(&l->dns->done, &l->link);
}

/* Not at once: so the fiber that drives is gone before the last one goes on. */
static void wake_askers(weft__dns *d)
{
    weft__cord *c = weft__cord_self;
    for (weft__list *node; (node = weft__list_pop(&d->done)) != NULL;) {
        weft__fiber *f = CONTAINER_OF(node, weft__lookup, link)->asker->fiber;
        if (f->waits_in != &waits_answer)
            continue; /* it is about to wait, and will not */
        weft__unhold_op(c, f);
        weft__wake(c, f, 0, WEFT__TAIL);
    }
}

/* Addresses have been found: as the hints want them, for the caller. */
static void finish_with(weft__lookup *l, weft__ips *ips, const char *canonical)
{
    const int flags = l->hints.ai_flags;
    weft__ips_order(ips);
    weft__ips_map(ips, l->family, flags);
    if (ips->count == 0) {
        finish(l, EAI_NODATA);
        return;
    }
    l->found = weft__found_build(ips, l->ports, flags, flags & AI_CANONNAME ? canonical : NULL);
    finish(l, l->found != NULL ? 0 : EAI_MEMORY);
}

/* For weft__channel_ask. */
static void take_answer(void *arg, int code, weft__ips *ips, const char *canonical)
{
    weft__lookup *l = arg;
    weft__dns *d = l->dns;
    d->begun--;
    if (l->asker == NULL) { /* too late */
        weft__lookup_free(l);
        return;
    }
    l->error = d->error;
    if (d->error != 0)
        finish(l, EAI_SYSTEM);
    else if (code != 0)
        finish(l, code);
    else
        finish_with(l, ips, canonical);
}

/*
 * RFC 6761, section 6.3: localhost is this machine, whatever the files and servers say of it. 0;
 * -ENOENT; -ENOMEM.
 */
static int find_loopback(const char *host, int family, weft__ips *out)
{
    const struct in_addr v4 = {htonl(INADDR_LOOPBACK)};
    if (strcasecmp(host, "localhost") != 0)
        return -ENOENT;
    bool is_good = family == AF_INET6 || weft__ips_add(out, AF_INET, &v4);
    is_good = is_good && (family == AF_INET || weft__ips_add(out, AF_INET6, &in6addr_loopback));
    return is_good ? 0 : -ENOMEM;
}

/* What is known without asking a server. 0; -ENOENT: nothing; another error. */
static int look_into_files(weft__dns *d, const char *host, int family, weft__ips *out,
                           char **canonical)
{
    int rc = weft__conf_refresh(&d->hosts, d->settings->hosts_path);
    if (rc == 0)
        rc = weft__hosts_find(d->hosts.text, host, family, out, canonical);
    return rc == -ENOENT ? find_loopback(host, family, out) : rc;
}

/* True: the lookup is over. */
static bool finish_by_files(weft__dns *d, weft__lookup *l, int family)
{
    weft__ips ips = {0};
    char *canonical = NULL;
    int rc = look_into_files(d, l->host, family, &ips, &canonical);
    l->error = -rc;
    if (rc == 0)
        finish_with(l, &ips, canonical != NULL ? canonical : l->host);
    else if (rc != -ENOENT)
        finish(l, EAI_SYSTEM);
    free(canonical);
    weft__ips_free(&ips);
    return rc != -ENOENT;
}

static int open_channel(weft__dns *d)
{
    if (weft__channel_is_open(&d->channel))
        return 0;
    return weft__channel_open(&d->channel, d->settings, d->resolv.text);
}

static void begin(weft__dns *d, weft__lookup *l)
{
    const int flags = l->hints.ai_flags;
    l->family = l->hints.ai_family;
    if (flags & AI_ADDRCONFIG)
        l->family = weft__family_here(l->family);
    if (l->family < 0) {
        finish(l, EAI_NONAME);
        return;
    }
    bool is_mapped = l->family == AF_INET6 && flags & AI_V4MAPPED;
    int family = is_mapped ? AF_UNSPEC : l->family;
    if (finish_by_files(d, l, family))
        return;
    if (open_channel(d) < 0) {
        finish(l, EAI_MEMORY);
        return;
    }
    d->begun++;
    weft__channel_ask(&d->channel, l->host, family, take_answer, l);
}

/*
 * The fiber.
 */

static void begin_some(weft__dns *d)
{
    while (d->begun < LOOKUPS_MAX && !weft__list_is_empty(&d->asked))
        begin(d, CONTAINER_OF(weft__list_pop(&d->asked), weft__lookup, link));
}

/* Fail all lookups with an error, which is negative: the fiber cannot wait for the servers. */
static void give_up_waiting(weft__dns *d, int error)
{
    d->error = -error;
    weft__channel_cancel(&d->channel);
    d->error = 0;
}

/* Wait for the sockets and the timers of c-ares, or to be roused; let it handle what has come. */
static void run_channel(weft__dns *d)
{
    weft_clause clauses[WEFT__CHANNEL_FDS_MAX + 1];
    int fds = weft__channel_clauses(&d->channel, clauses);
    double left_s = weft__channel_timeout(&d->channel);
    clauses[fds] = isinf(left_s) ? weft_clause_never() : weft_clause_time(left_s);
    int first = weft_select(clauses, (size_t)fds + 1);
    if (first == ROUSED)
        return;
    if (first < 0)
        give_up_waiting(d, first);
    else if (first == fds)
        weft__channel_handle(&d->channel, -1, 0);
    else if (first < fds && clauses[first].value < 0)
        give_up_waiting(d,
                        (int)clauses[first].value); /* to try again at once would be a busy loop */
    else if (first < fds)
        weft__channel_handle(&d->channel, clauses[first].of.fd, (int)clauses[first].value);
}

static bool is_wanted(weft__dns *d)
{
    while (d->wanted == 0 && d->begun > 0)
        weft__channel_cancel(&d->channel); /* which closes sockets: there may be more afterwards */
    return d->wanted > 0;
}

static weft_value drive(void *arg)
{
    weft__dns *d = arg;
    WEFT_SHIELD(INFINITY) {
        while (is_wanted(d)) {
            wake_askers(d);
            begin_some(d);
            if (d->begun > 0 && d->wanted > 0)
                run_channel(d);
        }
    }
    weft__channel_tidy(&d->channel);
    d->driver = 0;
    wake_askers(d);
    if (d->is_retired)
        dns_free(d);
    return 0;
}

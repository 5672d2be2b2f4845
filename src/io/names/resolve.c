/*
 * Names to addresses. What needs no looking up is done in place; the DNS is asked on the thread's
 * own backend (resolve_dns.c) where that gives the answer that the C library would give; the rest
 * is the C library's, whose lookup blocks, so it is made by a thread of the pool.
 */
#include "io/resolve.h"

#include "core/alarm.h"
#include "core/error.h"
#include "core/op.h"
#ifdef WEFT_HAS_CARES
#include "io/resolve_names.h"
#endif

#include <weft/error.h>
#include <weft/net.h>

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Of no hints, as the C library has it. */
#define FLAGS_DEFAULT (AI_V4MAPPED | AI_ADDRCONFIG)

static char *append(char **end, const char *text)
{
    if (text == NULL)
        return NULL;
    char *copy = *end;
    *end = stpcpy(copy, text) + 1;
    return copy;
}

weft__lookup *weft__lookup_new(const char *host, const char *service, const struct addrinfo *hints)
{
    size_t host_bytes = host != NULL ? strlen(host) + 1 : 0;
    size_t service_bytes = service != NULL ? strlen(service) + 1 : 0;
    weft__lookup *l = malloc(sizeof *l + host_bytes + service_bytes);
    if (l == NULL)
        return NULL;
    *l = (weft__lookup){.has_hints = hints != NULL};
    if (hints != NULL)
        l->hints = *hints;
    else
        l->hints.ai_flags = FLAGS_DEFAULT;
    weft__list_init(&l->link);
    char *end = l->text;
    l->host = append(&end, host);
    l->service = append(&end, service);
    return l;
}

void weft__lookup_free(weft__lookup *l)
{
    weft_resolve_free(l->found);
    weft_resolve_free(l->ports);
    free(l);
}

/*
 * By the C library.
 */

/* Is it this machine, whether the hosts file lists it or not (RFC 6761, section 6.3)? */
static bool is_localhost(const char *host, const struct addrinfo *hints)
{
    return host != NULL && strcasecmp(host, "localhost") == 0 &&
           (hints == NULL || !(hints->ai_flags & AI_NUMERICHOST));
}

/* Without a name and without AI_PASSIVE, getaddrinfo returns the loopback addresses. */
static int look_up_localhost(const char *service, const struct addrinfo *hints,
                             struct addrinfo **out)
{
    static char name[] = "localhost";
    struct addrinfo *found, own = hints != NULL ? *hints : (struct addrinfo){0};
    const bool is_named = own.ai_flags & AI_CANONNAME;
    own.ai_flags &= ~(AI_PASSIVE | AI_CANONNAME);
    int code = getaddrinfo(NULL, service != NULL ? service : "0", &own, &found);
    if (code != 0)
        return code;
    found->ai_canonname = is_named ? name : NULL;
    *out = weft__found_copy(found);
    found->ai_canonname = NULL;
    freeaddrinfo(found);
    return *out != NULL ? 0 : EAI_MEMORY;
}

/* getaddrinfo, into a list of ours. */
static int look_up(const char *host, const char *service, const struct addrinfo *hints,
                   struct addrinfo **out)
{
    struct addrinfo *found;
    int code = getaddrinfo(host, service, hints, &found);
    if ((code == EAI_NONAME || code == EAI_AGAIN) && is_localhost(host, hints) &&
        look_up_localhost(service, hints, out) == 0)
        return 0;
    if (code != 0)
        return code;
    *out = weft__found_copy(found);
    freeaddrinfo(found);
    return *out != NULL ? 0 : EAI_MEMORY;
}

static void drop(void *arg)
{
    weft__lookup_free(arg);
}

/* For the pool. */
static intptr_t run_lookup(void *arg)
{
    weft__lookup *l = arg;
    l->code = look_up(l->host, l->service, l->has_hints ? &l->hints : NULL, &l->found);
    l->error = errno;
    return 0;
}

/*
 * Have the pool run it. *l is NULL afterwards if it was given up; then this returns why. Else 0 and
 * its code, or an error: it could not be run.
 */
static int run_by_pool(weft__lookup **l)
{
    weft__op op = {
        .code = WEFT__OP_CALL, .fd = -1, .u.call = {run_lookup, *l, drop, WEFT__LANE_NAMES}};
    int rc = (int)weft__op_run(&op);
    *l = op.u.call.arg; /* NULL once it is drop's */
    return rc;
}

/*
 * Numbers for both need neither files nor servers, and little stack: some 3 KiB, where a name may
 * take 30. Flags that would make it more are left to the pool.
 */
static bool resolve_numbers(const char *host, const char *service, const struct addrinfo *hints,
                            struct addrinfo **out)
{
    static const int harmless = AI_PASSIVE | AI_CANONNAME | AI_NUMERICHOST | AI_NUMERICSERV;
    struct addrinfo numeric = {0};
    if (hints != NULL)
        numeric = *hints;
    if (host == NULL || (numeric.ai_flags & ~harmless) != 0)
        return false;
    numeric.ai_flags |= AI_NUMERICHOST | AI_NUMERICSERV;
    struct addrinfo *found;
    if (look_up(host, service, &numeric, &found) != 0)
        return false;
    for (struct addrinfo *one = found; one != NULL; one = one->ai_next)
        one->ai_flags = hints != NULL ? hints->ai_flags : FLAGS_DEFAULT;
    *out = found;
    return true;
}

/*
 * What it comes to.
 */

static int errno_of(int code, int error)
{
    switch (code) {
    case EAI_NONAME:
    case EAI_SERVICE:
    case EAI_NODATA:
    case EAI_ADDRFAMILY:
        return -ENOENT;
    case EAI_AGAIN:
        return -EAGAIN;
    case EAI_BADFLAGS:
    case EAI_FAMILY:
    case EAI_SOCKTYPE:
        return -EINVAL;
    case EAI_MEMORY:
        return -ENOMEM;
    case EAI_SYSTEM:
        return error > 0 ? -error : -EIO;
    default: /* EAI_FAIL: the name server cannot, now or ever */
        return -EIO;
    }
}

static int fail(const weft__lookup *l)
{
    int code = errno_of(l->code, l->error);
    const char *name = l->host != NULL ? l->host : l->service;
    return weft_fail(code, "%s: %s", name != NULL ? name : "neither host nor service",
                     l->code == EAI_SYSTEM ? weft__error_text(code) : gai_strerror(l->code));
}

/* What came of a lookup that nobody gave up. */
static int take_result(weft__lookup *l, struct addrinfo **out)
{
    if (l->code != 0)
        return fail(l);
    *out = l->found;
    l->found = NULL;
    return 0;
}

/*
 * By the DNS.
 */

#ifdef WEFT_HAS_CARES
/*
 * The types, protocols and ports that each address is to come with: what the C library says of a
 * number, for which it has to look up a service at most. As run_by_pool.
 */
static int find_ports(weft__lookup **lookup)
{
    weft__lookup *l = *lookup;
    const struct addrinfo hints = {.ai_family = AF_INET,
                                   .ai_socktype = l->hints.ai_socktype,
                                   .ai_protocol = l->hints.ai_protocol,
                                   .ai_flags = l->hints.ai_flags & AI_NUMERICSERV};
    static const char any[] = "0.0.0.0";
    if (resolve_numbers(any, l->service, &hints, &l->ports))
        return 0;
    weft__lookup *service = weft__lookup_new(any, l->service, &hints);
    if (service == NULL)
        return -ENOMEM;
    int rc = run_by_pool(&service);
    if (service == NULL) {
        weft__lookup_free(l);
        *lookup = NULL;
        return rc;
    }
    l->code = service->code;
    l->error = service->error;
    l->ports = service->found;
    service->found = NULL;
    weft__lookup_free(service);
    return rc;
}

/* Have the DNS run it, if it is for that. As run_by_pool, but *is_run says whether it was. */
static int run_by_dns(weft__cord *c, weft__lookup **l, bool *is_run)
{
    weft__dns *dns;
    weft__asker asker;
    *is_run = false;
    int rc = weft__names_choose(c, *l, &dns);
    if (rc < 0 || dns == NULL)
        return rc;
    rc = find_ports(l);
    *is_run = true;
    if (rc != 0 || *l == NULL || (*l)->code != 0)
        return rc;
    if (c->current->alarm) /* set while the service was looked up */
        return (int)weft__refuse(c);
    rc = weft__names_choose(c, *l, &dns); /* again: it may be another by now */
    *is_run = rc == 0 && dns != NULL && (rc = weft__dns_begin(c, dns, *l, &asker)) == 0;
    if (!*is_run)
        return weft__names_are_own(c) ? rc : 0;
    rc = (int)weft__dns_wait(c, &asker);
    *l = asker.lookup;
    return rc;
}
#endif

/* As run_by_pool. */
static int run(weft__cord *c, weft__lookup **l)
{
#ifdef WEFT_HAS_CARES
    bool is_run;
    if (c->current->alarm)
        return (int)weft__refuse(c);
    int rc = run_by_dns(c, l, &is_run);
    if (is_run || rc < 0)
        return rc;
#else
    (void)c;
#endif
    return run_by_pool(l);
}

int weft_resolve(const char *host, const char *service, const struct addrinfo *hints,
                 struct addrinfo **out)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (out == NULL)
        return weft_fail(-EINVAL, "nowhere to put the addresses");
    if (!c->current->alarm && resolve_numbers(host, service, hints, out))
        return 0;
    weft__lookup *l = weft__lookup_new(host, service, hints);
    if (l == NULL)
        return -ENOMEM;
    int rc = run(c, &l);
    if (l == NULL) /* given up, and freed when those are done who have it */
        return rc;
    if (rc == 0)
        rc = take_result(l, out);
    weft__lookup_free(l);
    return rc;
}

void weft_resolve_free(struct addrinfo *addresses)
{
    free(addresses);
}

#ifndef WEFT_HAS_CARES
int weft_resolver(const weft_resolver_options *options)
{
    return options == NULL ? 0 : weft_fail(-EOPNOTSUPP, "weft was built without c-ares");
}
#endif

/*
 * Lookups of names. Numeric addresses are converted in place. The DNS client of the thread (dns.c)
 * looks up other names if DNS gives the same result as the C library. Otherwise a worker calls the
 * C library, which blocks.
 */
#include "io/names/resolve.h"

#include "core/fiber/error.h"
#include "core/lifetime/cancel.h"
#include "core/op/op.h"
#ifdef WEFT_HAS_CARES
#include "io/names/resolver.h"
#endif

#include <weft/error.h>
#include <weft/net.h>

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The flags that the C library uses for getaddrinfo without hints. */
#define FLAGS_DEFAULT (AI_V4MAPPED | AI_ADDRCONFIG)

static char *text_append(char **end, const char *text)
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
    l->host = text_append(&end, host);
    l->service = text_append(&end, service);
    return l;
}

void weft__lookup_free(weft__lookup *l)
{
    weft_resolve_free(l->found);
    weft_resolve_free(l->ports);
    free(l);
}

/* Lookups by the C library. */

/*
 * Return whether the host is localhost. The name means this machine even if the hosts file does not
 * list it (RFC 6761, section 6.3).
 */
static bool is_localhost(const char *host, const struct addrinfo *hints)
{
    return host != NULL && strcasecmp(host, "localhost") == 0 &&
           (hints == NULL || !(hints->ai_flags & AI_NUMERICHOST));
}

/*
 * Look up the loopback addresses. getaddrinfo returns the loopback addresses if the host is NULL
 * and AI_PASSIVE is not set.
 */
static int call_getaddrinfo_localhost(const char *service, const struct addrinfo *hints,
                                      struct addrinfo **out)
{
    static char name[] = "localhost";
    struct addrinfo *found, local_hints = hints != NULL ? *hints : (struct addrinfo){0};
    const bool is_named = local_hints.ai_flags & AI_CANONNAME;
    local_hints.ai_flags &= ~(AI_PASSIVE | AI_CANONNAME);
    int code = getaddrinfo(NULL, service != NULL ? service : "0", &local_hints, &found);
    if (code != 0)
        return code;
    found->ai_canonname = is_named ? name : NULL;
    *out = weft__addrinfo_copy(found);
    found->ai_canonname = NULL;
    freeaddrinfo(found);
    return *out != NULL ? 0 : EAI_MEMORY;
}

/* Call getaddrinfo, and copy its list. */
static int call_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                            struct addrinfo **out)
{
    struct addrinfo *found;
    int code = getaddrinfo(host, service, hints, &found);
    if ((code == EAI_NONAME || code == EAI_AGAIN) && is_localhost(host, hints) &&
        call_getaddrinfo_localhost(service, hints, out) == 0)
        return 0;
    if (code != 0)
        return code;
    *out = weft__addrinfo_copy(found);
    freeaddrinfo(found);
    return *out != NULL ? 0 : EAI_MEMORY;
}

static void lookup_drop(void *arg)
{
    weft__lookup_free(arg);
}

/* Call getaddrinfo in a worker. */
static intptr_t lookup_call_libc(void *arg)
{
    weft__lookup *l = arg;
    l->code = call_getaddrinfo(l->host, l->service, l->has_hints ? &l->hints : NULL, &l->found);
    l->error = errno;
    return 0;
}

/*
 * Run a lookup in a worker. If the fiber abandons the lookup, the call sets *l to NULL and returns
 * the error that interrupted the call. Otherwise the caller still owns *l, and a completed lookup
 * has its result code. Returns 0, or an error if the lookup could not run.
 */
static int lookup_run_in_worker(weft__lookup **l)
{
    weft__op op = {.code = WEFT__OP_CALL,
                   .fd = -1,
                   .u.call = {lookup_call_libc, *l, lookup_drop, WEFT__WORKER_QUEUE_NAMES}};
    int rc = (int)weft__op_run(&op);
    *l = op.u.call.arg; /* NULL: abandoned; lookup_drop frees the lookup */
    return rc;
}

/*
 * Convert a numeric host and a numeric service. The conversion needs no files, no servers and about
 * 3 KiB of stack. The lookup of a name may need 30 KiB. Returns false if a worker must do the
 * lookup, for example because of other flags.
 */
static bool resolve_numbers(const char *host, const char *service, const struct addrinfo *hints,
                            struct addrinfo **out)
{
    static const int allowed_flags = AI_PASSIVE | AI_CANONNAME | AI_NUMERICHOST | AI_NUMERICSERV;
    struct addrinfo numeric = {0};
    if (hints != NULL)
        numeric = *hints;
    if (host == NULL || (numeric.ai_flags & ~allowed_flags) != 0)
        return false;
    numeric.ai_flags |= AI_NUMERICHOST | AI_NUMERICSERV;
    struct addrinfo *found;
    if (call_getaddrinfo(host, service, &numeric, &found) != 0)
        return false;
    for (struct addrinfo *entry = found; entry != NULL; entry = entry->ai_next)
        entry->ai_flags = hints != NULL ? hints->ai_flags : FLAGS_DEFAULT;
    *out = found;
    return true;
}

/* Results. */

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
    default: /* EAI_FAIL: a permanent failure of the name server */
        return -EIO;
    }
}

static int lookup_fail(const weft__lookup *l)
{
    int code = errno_of(l->code, l->error);
    const char *name = l->host != NULL ? l->host : l->service;
    return weft_fail(code, "%s: %s", name != NULL ? name : "host and service are NULL",
                     l->code == EAI_SYSTEM ? weft__error_text(code) : gai_strerror(l->code));
}

/* Take the result of a lookup that was not abandoned. */
static int lookup_take_result(weft__lookup *l, struct addrinfo **out)
{
    if (l->code != 0)
        return lookup_fail(l);
    *out = l->found;
    l->found = NULL;
    return 0;
}

/* Lookups by DNS. */

#ifdef WEFT_HAS_CARES
/*
 * Find the types, protocols and ports for each address. They are the result of the C library for a
 * numeric host. Only a service name needs a lookup. For the return value, see lookup_run_in_worker.
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
    int rc = lookup_run_in_worker(&service);
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

/*
 * Run a lookup by DNS if possible. The call sets *has_run if the lookup has run or must not run
 * again. For the return value, see lookup_run_in_worker.
 */
static int lookup_run_dns(weft__cord *c, weft__lookup **l, bool *has_run)
{
    weft__dns *dns;
    weft__dns_waiter waiter;
    *has_run = false;
    int rc = weft__resolver_choose(c, *l, &dns);
    if (rc < 0 || dns == NULL)
        return rc;
    rc = find_ports(l);
    *has_run = true;
    if (rc != 0 || *l == NULL || (*l)->code != 0)
        return rc;
    if (c->current->pending) /* the caller was cancelled during the lookup of the service */
        return (int)weft__call_refuse(c);
    /* Choose again, because the options may have changed meanwhile. */
    rc = weft__resolver_choose(c, *l, &dns);
    *has_run = rc == 0 && dns != NULL && (rc = weft__dns_begin(c, dns, *l, &waiter)) == 0;
    if (!*has_run)
        return weft__resolver_is_custom(c) ? rc : 0;
    rc = (int)weft__dns_wait(c, &waiter);
    *l = waiter.lookup;
    return rc;
}
#endif

/* Run a lookup. For the return value, see lookup_run_in_worker. */
static int lookup_run(weft__cord *c, weft__lookup **l)
{
#ifdef WEFT_HAS_CARES
    bool has_run;
    if (c->current->pending)
        return (int)weft__call_refuse(c);
    int rc = lookup_run_dns(c, l, &has_run);
    if (has_run || rc < 0)
        return rc;
#else
    (void)c;
#endif
    return lookup_run_in_worker(l);
}

int weft_resolve(const char *host, const char *service, const struct addrinfo *hints,
                 struct addrinfo **out)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (out == NULL)
        return weft_fail(-EINVAL, "weft_resolve: out is NULL");
    if (!c->current->pending && resolve_numbers(host, service, hints, out))
        return 0;
    weft__lookup *l = weft__lookup_new(host, service, hints);
    if (l == NULL)
        return -ENOMEM;
    int rc = lookup_run(c, &l);
    if (l == NULL) /* the lookup is abandoned, and its current owner frees it */
        return rc;
    if (rc == 0)
        rc = lookup_take_result(l, out);
    weft__lookup_free(l);
    return rc;
}

void weft_resolve_free(struct addrinfo *addresses)
{
    free(addresses);
}

#ifndef WEFT_HAS_CARES
int weft_set_resolver(const weft_resolver_options *options)
{
    return options == NULL
               ? 0
               : weft_fail(-EOPNOTSUPP, "weft_set_resolver: weft was built without c-ares");
}
#endif

/*
 * A query for a name. The query tries the name as is and with each search domain. For each of these
 * names, two queries of c-ares run in parallel, one per family (RFC 8305, section 3). A single
 * query of c-ares could cover both families, but would report only the status of the last family. A
 * failure in one family, without addresses in the other family, would then look like a missing
 * name.
 */
#include "io/names/cares.h"

#include <ares.h>
#include <stdlib.h>
#include <string.h>

/* Response codes of RFC 1035, section 4.1.1. */
enum { RCODE_NOTIMP = 4, RCODE_REFUSED = 5 };

typedef struct query {
    weft__cares *cares;
    weft__cares_on_result *on_result;
    void *arg;
    int family;
    int step;           /* number of names tried */
    int pending;        /* families of the current name without a response */
    weft__ip_addrs ips; /* of both families */
    char *canonical;    /* NULL: unknown */
    int error_code;     /* code of a family that failed; 0: none */
    bool has_name;      /* the name exists, but without addresses */
    char host[];
} query;

/*
 * Convert a status of c-ares to a code of getaddrinfo. Only rcode distinguishes a server that
 * rejects a query from an unreachable server. See cares_socket_receive in cares.c.
 */
static int code_of(int status, int rcode)
{
    switch (status) {
    case ARES_SUCCESS:
        return 0;
    case ARES_ENOTFOUND:
    case ARES_EBADNAME:
    case ARES_ENONAME:
        return EAI_NONAME;
    case ARES_ENODATA:
        return EAI_NODATA;
    case ARES_ECONNREFUSED:
        return rcode == RCODE_REFUSED || rcode == RCODE_NOTIMP ? EAI_FAIL : EAI_AGAIN;
    case ARES_ESERVFAIL:
    case ARES_ETIMEOUT:
    case ARES_ECANCELLED:
    case ARES_EDESTRUCTION:
        return EAI_AGAIN;
    case ARES_ENOMEM:
        return EAI_MEMORY;
    default: /* a rejected query or a malformed response */
        return EAI_FAIL;
    }
}

static void query_finish(query *q, int code)
{
    q->on_result(q->arg, code, &q->ips, q->canonical);
    weft__ip_addrs_free(&q->ips);
    free(q->canonical);
    free(q);
}

/* Responses. */

static int ips_take_nodes(const struct ares_addrinfo *found, weft__ip_addrs *ips)
{
    for (const struct ares_addrinfo_node *n = found->nodes; n != NULL; n = n->ai_next) {
        const weft__ip_addr *ip = (const weft__ip_addr *)n->ai_addr;
        const void *bytes =
            n->ai_family == AF_INET ? (const void *)&ip->v4.sin_addr : &ip->v6.sin6_addr;
        if (!weft__ip_addrs_add(ips, n->ai_family, bytes))
            return EAI_MEMORY;
    }
    return found->nodes != NULL ? 0 : EAI_NODATA;
}

/*
 * Return the last name in the chain of aliases. If there is no alias, return the queried name.
 * Returns NULL if memory is exhausted.
 */
static char *canonical_of(const struct ares_addrinfo *found, const char *host)
{
    const char *name = found->name != NULL ? found->name : host;
    for (const struct ares_addrinfo_cname *c = found->cnames; c != NULL; c = c->next)
        name = c->name;
    return strdup(name);
}

static int query_take_found(query *q, const struct ares_addrinfo *found)
{
    int code = ips_take_nodes(found, &q->ips);
    if (code != 0 || q->canonical != NULL)
        return code;
    q->canonical = canonical_of(found, q->host);
    return q->canonical != NULL ? 0 : EAI_MEMORY;
}

static void query_try_next(query *q);

static void on_response(void *arg, int status, int timeouts, struct ares_addrinfo *found)
{
    (void)timeouts;
    query *q = arg;
    int code = code_of(status, q->cares->rcode);
    if (code == 0)
        code = query_take_found(q, found);
    if (found != NULL)
        ares_freeaddrinfo(found);
    if (code == EAI_NODATA)
        q->has_name = true;
    else if (code != 0 && code != EAI_NONAME)
        q->error_code = code;
    if (--q->pending > 0)
        return;
    if (q->ips.count > 0)
        query_finish(q, q->error_code == EAI_MEMORY ? EAI_MEMORY : 0);
    else if (q->error_code != 0)
        query_finish(q, q->error_code);
    else
        query_try_next(q);
}

/* Names to try. */

/*
 * Return the domain for the current step. Returns "" for the name as is, and NULL if no step is
 * left.
 */
static const char *domain_of_step(const query *q)
{
    const weft__search *s = &q->cares->search;
    int dots = 0;
    for (const char *p = q->host; *p != '\0'; p++)
        dots += *p == '.';
    if (q->host[strlen(q->host) - 1] == '.')
        return q->step == 0 ? "" : NULL;
    int as_is_step = dots >= s->ndots ? 0 : s->count;
    if (q->step > s->count)
        return NULL;
    if (q->step == as_is_step)
        return "";
    return weft__search_domain(s, q->step - (q->step > as_is_step));
}

/*
 * Return the name with its domain. The trailing dot prevents a search by c-ares. Returns NULL if
 * memory is exhausted.
 */
static char *full_name(const char *host, const char *domain)
{
    domain += strspn(domain, ".");
    char *name = malloc(strlen(host) + strlen(domain) + 3);
    if (name == NULL)
        return NULL;
    char *end = stpcpy(name, host);
    if (*domain != '\0' && end[-1] != '.')
        *end++ = '.';
    end = stpcpy(end, domain);
    if (end[-1] != '.')
        strcpy(end, ".");
    return name;
}

/*
 * Query all families of a name. The call may free q, because all responses may arrive before the
 * call returns.
 */
static void query_send(query *q, const char *name)
{
    struct ares_addrinfo_hints hints = {.ai_family = q->family, .ai_flags = ARES_AI_NOSORT};
    ares_channel ares = q->cares->ares;
    q->pending = q->family == AF_UNSPEC ? 2 : 1;
    if (q->family == AF_UNSPEC) {
        hints.ai_family = AF_INET6;
        ares_getaddrinfo(ares, name, NULL, &hints, on_response, q);
        hints.ai_family = AF_INET;
    }
    ares_getaddrinfo(ares, name, NULL, &hints, on_response, q);
}

static void query_try_next(query *q)
{
    const char *domain = domain_of_step(q);
    q->step++;
    if (domain == NULL) {
        query_finish(q, q->has_name ? EAI_NODATA : EAI_NONAME);
        return;
    }
    char *name = full_name(q->host, domain);
    if (name == NULL) {
        query_finish(q, EAI_MEMORY);
        return;
    }
    query_send(q, name);
    free(name);
}

void weft__cares_query(weft__cares *ch, const char *host, int family,
                       weft__cares_on_result *on_result, void *arg)
{
    query *q = malloc(sizeof *q + strlen(host) + 1);
    if (q == NULL) {
        on_result(arg, EAI_MEMORY, NULL, NULL);
        return;
    }
    *q = (query){.cares = ch, .on_result = on_result, .arg = arg, .family = family};
    strcpy(q->host, host);
    ch->rcode = 0;
    query_try_next(q);
}

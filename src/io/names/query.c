/*
 * A question to the name servers: a name, as it is and behind each domain of the search, and for
 * each of these both families at once (RFC 8305, section 3), as two questions of c-ares. It does
 * both at once by itself, too, but tells only how the last one went: a name whose addresses could
 * not be had, and that has none in the other family, would be no name at all.
 */
#include "io/resolve_channel.h"

#include <ares.h>
#include <stdlib.h>
#include <string.h>

/* Of the response codes of RFC 1035, section 4.1.1. */
enum { RCODE_NOTIMP = 4, RCODE_REFUSED = 5 };

typedef struct question {
    weft__channel *channel;
    weft__on_answer *answer;
    void *arg;
    int family;
    int step;        /* names that have been tried */
    int open;        /* of the one that is tried now, families that are not answered */
    weft__ips ips;   /* of both */
    char *canonical; /* NULL: not known */
    int trouble;     /* code of a family that could not be asked; 0: none */
    bool has_name;   /* there is such a name, but without addresses */
    char host[];
} question;

/*
 * What c-ares says, as getaddrinfo would. A server that refuses is told from one that is not there
 * only by its packet: see receive in resolve_channel.c.
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
    default: /* refused, not understood, or no answer to be understood */
        return EAI_FAIL;
    }
}

static void conclude(question *q, int code)
{
    q->answer(q->arg, code, &q->ips, q->canonical);
    weft__ips_free(&q->ips);
    free(q->canonical);
    free(q);
}

/*
 * Answers.
 */

static int take_nodes(const struct ares_addrinfo *found, weft__ips *ips)
{
    for (const struct ares_addrinfo_node *n = found->nodes; n != NULL; n = n->ai_next) {
        const weft__ip *ip = (const weft__ip *)n->ai_addr;
        const void *bytes =
            n->ai_family == AF_INET ? (const void *)&ip->v4.sin_addr : &ip->v6.sin6_addr;
        if (!weft__ips_add(ips, n->ai_family, bytes))
            return EAI_MEMORY;
    }
    return found->nodes != NULL ? 0 : EAI_NODATA;
}

/* Where the chain of aliases ends; without one it is the name as it was asked for. */
static char *canonical_of(const struct ares_addrinfo *found, const char *host)
{
    const char *name = found->name != NULL ? found->name : host;
    for (const struct ares_addrinfo_cname *c = found->cnames; c != NULL; c = c->next)
        name = c->name;
    return strdup(name);
}

static int take_found(question *q, const struct ares_addrinfo *found)
{
    int code = take_nodes(found, &q->ips);
    if (code != 0 || q->canonical != NULL)
        return code;
    q->canonical = canonical_of(found, q->host);
    return q->canonical != NULL ? 0 : EAI_MEMORY;
}

static void try_next(question *q);

static void on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *found)
{
    (void)timeouts;
    question *q = arg;
    int code = code_of(status, q->channel->rcode);
    if (code == 0)
        code = take_found(q, found);
    if (found != NULL)
        ares_freeaddrinfo(found);
    if (code == EAI_NODATA)
        q->has_name = true;
    else if (code != 0 && code != EAI_NONAME)
        q->trouble = code;
    if (--q->open > 0)
        return;
    if (q->ips.count > 0)
        conclude(q, q->trouble == EAI_MEMORY ? EAI_MEMORY : 0);
    else if (q->trouble != 0)
        conclude(q, q->trouble);
    else
        try_next(q);
}

/*
 * Names to try.
 */

/* The domain to try in this step: "" for the name as it is; NULL: there is none left. */
static const char *domain_of_step(const question *q)
{
    const weft__search *s = &q->channel->search;
    int dots = 0;
    for (const char *at = q->host; *at != '\0'; at++)
        dots += *at == '.';
    if (q->host[strlen(q->host) - 1] == '.')
        return q->step == 0 ? "" : NULL;
    int as_it_is = dots >= s->ndots ? 0 : s->count;
    if (q->step > s->count)
        return NULL;
    if (q->step == as_it_is)
        return "";
    return weft__search_domain(s, q->step - (q->step > as_it_is));
}

/* The name with its domain, and a dot at the end, so that c-ares searches none. */
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

/* The question may be gone when this returns: an answer can come at once. */
static void ask(question *q, const char *name)
{
    struct ares_addrinfo_hints hints = {.ai_family = q->family, .ai_flags = ARES_AI_NOSORT};
    ares_channel ares = q->channel->ares;
    q->open = q->family == AF_UNSPEC ? 2 : 1;
    if (q->family == AF_UNSPEC) {
        hints.ai_family = AF_INET6;
        ares_getaddrinfo(ares, name, NULL, &hints, on_answer, q);
        hints.ai_family = AF_INET;
    }
    ares_getaddrinfo(ares, name, NULL, &hints, on_answer, q);
}

static void try_next(question *q)
{
    const char *domain = domain_of_step(q);
    q->step++;
    if (domain == NULL) {
        conclude(q, q->has_name ? EAI_NODATA : EAI_NONAME);
        return;
    }
    char *name = full_name(q->host, domain);
    if (name == NULL) {
        conclude(q, EAI_MEMORY);
        return;
    }
    ask(q, name);
    free(name);
}

void weft__channel_ask(weft__channel *ch, const char *host, int family, weft__on_answer *answer,
                       void *arg)
{
    question *q = malloc(sizeof *q + strlen(host) + 1);
    if (q == NULL) {
        answer(arg, EAI_MEMORY, NULL, NULL);
        return;
    }
    *q = (question){.channel = ch, .answer = answer, .arg = arg, .family = family};
    strcpy(q->host, host);
    ch->rcode = 0;
    try_next(q);
}

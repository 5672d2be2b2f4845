/*
 * How a thread has names looked up: by which settings, and whether the DNS (resolve_dns.c) gives
 * the answer that the C library would give, or the C library has to be asked itself.
 */
#include "io/resolve_names.h"

#include "core/fork.h"
#include "io/resolve_system.h"

#include <weft/error.h>
#include <weft/net.h>

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define HOSTS_PATH "/etc/hosts"
#define RESOLV_PATH "/etc/resolv.conf"
#define NSSWITCH_PATH "/etc/nsswitch.conf"
#define GAI_PATH "/etc/gai.conf"

/* Flags of getaddrinfo that are understood here. */
#define FLAGS_KNOWN \
    (AI_PASSIVE | AI_CANONNAME | AI_NUMERICSERV | AI_ADDRCONFIG | AI_V4MAPPED | AI_ALL)

/* What a thread has. */
typedef struct names {
    weft__dns_settings *settings;
    weft__dns *dns;        /* NULL: none yet, or what it read has changed */
    weft__sources sources; /* meaningless if is_own */
    bool is_own;           /* as weft_resolver set it */
    uint32_t depth;        /* of the process that dns is of; see core/fork.h */
} names;

static weft_key key; /* 0: there was none left */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void names_free(void *value)
{
    names *n = value;
    weft__dns_retire(n->dns);
    weft__dns_settings_unref(n->settings);
    free(n);
}

static void make_key(void)
{
    key = weft_key_new(names_free);
}

/*
 * Settings.
 */

static size_t bytes_of(const char *text)
{
    return text != NULL ? strlen(text) + 1 : 0;
}

static const char *append(char **end, const char *text)
{
    if (text == NULL)
        return NULL;
    char *copy = *end;
    *end = stpcpy(copy, text) + 1;
    return copy;
}

static weft__dns_settings *settings_new(const weft_resolver_options *o)
{
    const char *hosts = o->hosts_path != NULL ? o->hosts_path : HOSTS_PATH;
    const char *resolv = o->resolv_path != NULL ? o->resolv_path : RESOLV_PATH;
    weft__dns_settings *s = malloc(sizeof *s + bytes_of(o->servers) + bytes_of(o->search) +
                                   bytes_of(hosts) + bytes_of(resolv));
    if (s == NULL)
        return NULL;
    *s = (weft__dns_settings){.refs = 1, .timeout_s = o->timeout_s, .tries = o->tries};
    char *end = s->text;
    s->servers = append(&end, o->servers);
    s->search = append(&end, o->search);
    s->hosts_path = append(&end, hosts);
    s->resolv_path = append(&end, resolv);
    return s;
}

/* Do these settings hold instead of what there was. Lookups under way go on as they were begun. */
static void settle_on(names *n, weft__dns_settings *s, bool is_own)
{
    weft__dns_retire(n->dns);
    weft__dns_settings_unref(n->settings);
    n->dns = NULL;
    n->settings = s;
    n->is_own = is_own;
}

static bool is_port(const char *text)
{
    char *end;
    long port = text[0] != '-' && text[0] != '+' ? strtol(text, &end, 10) : 0;
    return port > 0 && port <= 65535 && *end == '\0';
}

/* "1.2.3.4", "1.2.3.4:53", "::1", "[::1]", "[::1]:53"; the text is changed. */
static bool is_server(char *text)
{
    struct in6_addr address;
    if (inet_pton(AF_INET6, text, &address) == 1)
        return true;
    int family = *text == '[' ? AF_INET6 : AF_INET;
    char *end = text + strcspn(text, family == AF_INET6 ? "]" : ":");
    bool is_closed = family == AF_INET || *end == ']';
    char *port = end + (*end == ']');
    if (!is_closed || (*port != '\0' && (*port != ':' || !is_port(port + 1))))
        return false;
    *end = '\0';
    return inet_pton(family, text + (family == AF_INET6), &address) == 1;
}

/* 0, -EINVAL, -ENOMEM. */
static int check_servers(const char *servers)
{
    if (servers == NULL)
        return 0;
    char *text = strdup(servers), *rest = text, *one;
    if (text == NULL)
        return -ENOMEM;
    int rc = 0;
    while (rc == 0 && (one = strsep(&rest, ",")) != NULL)
        if (!is_server(one))
            rc = weft_fail(-EINVAL, "%s: not the address of a name server", one);
    free(text);
    return rc;
}

static int check(const weft__cord *c, const weft_resolver_options *o)
{
    if (c->backend->type->is_closed)
        return weft_fail(-EOPNOTSUPP, "no name server can be asked on the %s backend",
                         c->backend->type->name);
    if (!(o->timeout_s >= 0) || o->tries < 0)
        return weft_fail(-EINVAL, "neither the time nor the tries can be negative");
    return check_servers(o->servers);
}

/*
 * The thread's.
 */

/* By the system's settings, which nobody has changed yet. */
static int use_system(names *n)
{
    static const weft_resolver_options none;
    weft__dns_settings *s = settings_new(&none);
    if (s == NULL)
        return -ENOMEM;
    settle_on(n, s, false);
    weft__conf nsswitch = {0}, gai = {0}, resolv = {0};
    weft__conf_refresh(&nsswitch, NSSWITCH_PATH);
    weft__conf_refresh(&gai, GAI_PATH);
    weft__conf_refresh(&resolv, RESOLV_PATH);
    n->sources = weft__sources_read(nsswitch.text, gai.text, resolv.text);
    weft__conf_free(&nsswitch);
    weft__conf_free(&gai);
    weft__conf_free(&resolv);
    return 0;
}

/* NULL: no memory, or no key. */
static names *names_here(weft__cord *c)
{
    pthread_once(&once, make_key);
    names *n = key != 0 ? weft__cord_local(c, key) : NULL;
    if (n != NULL && n->depth != weft__fork_depth) {
        n->dns = NULL; /* the parent's: the fiber that drives it is not here */
        n->depth = weft__fork_depth;
    }
    if (n != NULL || key == 0 || (n = calloc(1, sizeof *n)) == NULL)
        return n;
    n->depth = weft__fork_depth;
    if (use_system(n) == 0 && weft__cord_local_set(c, key, n) == 0)
        return n;
    names_free(n);
    return NULL;
}

bool weft__names_are_own(const weft__cord *c)
{
    const names *n = key != 0 ? weft__cord_local(c, key) : NULL;
    return n != NULL && n->is_own;
}

/* Its DNS, by files that are as they were. */
static int choose_dns(names *n, weft__dns **out)
{
    if (n->dns != NULL && weft__dns_is_old(n->dns)) {
        weft__dns_retire(n->dns);
        n->dns = NULL;
        if (!n->is_own && use_system(n) < 0)
            return -ENOMEM;
    }
    if (n->dns == NULL)
        n->dns = weft__dns_new(n->settings);
    *out = n->dns;
    return n->dns != NULL ? 0 : -ENOMEM;
}

/* Numbers need no name server, and the C library knows more notations for them. */
static bool is_number(const char *host)
{
    struct in_addr address;
    return strchr(host, ':') != NULL || inet_aton(host, &address) != 0;
}

int weft__names_choose(weft__cord *c, const weft__lookup *l, weft__dns **out)
{
    *out = NULL;
    if (l->host == NULL || *l->host == '\0' || is_number(l->host) || c->backend->type->is_closed ||
        l->hints.ai_flags & AI_NUMERICHOST)
        return 0;
    names *n = names_here(c);
    if (n == NULL)
        return key != 0 ? -ENOMEM : 0;
    const int family = l->hints.ai_family;
    bool is_known = (l->hints.ai_flags & ~FLAGS_KNOWN) == 0 &&
                    (family == AF_UNSPEC || family == AF_INET || family == AF_INET6);
    if (n->is_own && !is_known)
        return weft_fail(-EINVAL, "%s: hints that weft_resolver's settings do not go with",
                         l->host);
    if (!is_known || (!n->is_own && !weft__sources_are_enough(&n->sources, l->host)))
        return 0;
    return choose_dns(n, out);
}

int weft_resolver(const weft_resolver_options *options)
{
    weft__cord *c = weft__cord_here();
    names *n = c != NULL ? names_here(c) : NULL;
    if (n == NULL)
        return weft__no_cord();
    if (options == NULL)
        return use_system(n);
    int rc = check(c, options);
    if (rc < 0)
        return rc;
    weft__dns_settings *s = settings_new(options);
    if (s == NULL)
        return -ENOMEM;
    settle_on(n, s, true);
    return 0;
}

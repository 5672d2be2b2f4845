/*
 * The resolver of a thread: its settings, and the choice between DNS (dns.c) and the C library.
 * With the settings of the system, DNS is used only if it gives the same result as the C library.
 */
#include "io/names/resolver.h"

#include "core/cord/fork.h"
#include "io/names/system_files.h"

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

/* Flags of getaddrinfo that DNS lookups support. */
#define FLAGS_KNOWN \
    (AI_PASSIVE | AI_CANONNAME | AI_NUMERICSERV | AI_ADDRCONFIG | AI_V4MAPPED | AI_ALL)

/* The resolver of a thread. */
typedef struct resolver {
    weft__dns_settings *settings;
    weft__dns *dns;        /* NULL: none yet, or resolv.conf has changed */
    weft__sources sources; /* undefined if is_custom */
    bool is_custom;        /* set by weft_set_resolver */
    uint32_t depth;        /* weft__fork_depth of the process that created dns (core/cord/fork.h) */
} resolver;

static weft_key resolver_key; /* 0: no key was available */
static pthread_once_t resolver_once = PTHREAD_ONCE_INIT;

static void resolver_free(void *value)
{
    resolver *r = value;
    weft__dns_retire(r->dns);
    weft__dns_settings_unref(r->settings);
    free(r);
}

static void resolver_make_key(void)
{
    resolver_key = weft_key_new(resolver_free);
}

/* Settings. */

static size_t text_bytes(const char *text)
{
    return text != NULL ? strlen(text) + 1 : 0;
}

static const char *settings_append_text(char **end, const char *text)
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
    weft__dns_settings *s = malloc(sizeof *s + text_bytes(o->servers) + text_bytes(o->search) +
                                   text_bytes(hosts) + text_bytes(resolv));
    if (s == NULL)
        return NULL;
    *s = (weft__dns_settings){.refs = 1, .timeout_s = o->timeout_s, .tries = o->tries};
    char *end = s->text;
    s->servers = settings_append_text(&end, o->servers);
    s->search = settings_append_text(&end, o->search);
    s->hosts_path = settings_append_text(&end, hosts);
    s->resolv_path = settings_append_text(&end, resolv);
    return s;
}

/* Replace the settings. Pending lookups continue with the previous settings. */
static void resolver_set(resolver *r, weft__dns_settings *s, bool is_custom)
{
    weft__dns_retire(r->dns);
    weft__dns_settings_unref(r->settings);
    r->dns = NULL;
    r->settings = s;
    r->is_custom = is_custom;
}

static bool is_port_number(const char *text)
{
    char *end;
    long port = text[0] != '-' && text[0] != '+' ? strtol(text, &end, 10) : 0;
    return port > 0 && port <= 65535 && *end == '\0';
}

/*
 * Return whether text is an address with an optional port: "1.2.3.4", "1.2.3.4:53", "::1", "[::1]"
 * or "[::1]:53". The call modifies text.
 */
static bool is_server(char *text)
{
    struct in6_addr address;
    if (inet_pton(AF_INET6, text, &address) == 1)
        return true;
    int family = *text == '[' ? AF_INET6 : AF_INET;
    char *end = text + strcspn(text, family == AF_INET6 ? "]" : ":");
    bool is_closed = family == AF_INET || *end == ']';
    char *port = end + (*end == ']');
    if (!is_closed || (*port != '\0' && (*port != ':' || !is_port_number(port + 1))))
        return false;
    *end = '\0';
    return inet_pton(family, text + (family == AF_INET6), &address) == 1;
}

/*
 * Check a list of name servers.
 *
 * Returns 0, or:
 * -EINVAL if an entry is not the address of a name server
 * -ENOMEM if memory is exhausted
 */
static int check_servers(const char *servers)
{
    if (servers == NULL)
        return 0;
    char *text = strdup(servers), *rest = text, *server;
    if (text == NULL)
        return -ENOMEM;
    int rc = 0;
    while (rc == 0 && (server = strsep(&rest, ",")) != NULL)
        if (!is_server(server))
            rc = weft_fail(-EINVAL,
                           "weft_set_resolver: servers: %s is not the address of a name server",
                           server);
    free(text);
    return rc;
}

static int check_resolver_options(const weft__cord *c, const weft_resolver_options *o)
{
    if (c->backend->type->is_self_contained)
        return weft_fail(-EOPNOTSUPP, "weft_set_resolver: the %s backend cannot query name servers",
                         c->backend->type->name);
    if (!(o->timeout_s >= 0) || o->tries < 0)
        return weft_fail(-EINVAL, "weft_set_resolver: timeout_s or tries is negative or NaN");
    return check_servers(o->servers);
}

/* The resolver of the thread. */

/*
 * Use the settings of the system.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
static int resolver_use_system(resolver *r)
{
    static const weft_resolver_options defaults;
    weft__dns_settings *s = settings_new(&defaults);
    if (s == NULL)
        return -ENOMEM;
    resolver_set(r, s, false);
    weft__conf nsswitch = {0}, gai = {0}, resolv = {0};
    weft__conf_refresh(&nsswitch, NSSWITCH_PATH);
    weft__conf_refresh(&gai, GAI_PATH);
    weft__conf_refresh(&resolv, RESOLV_PATH);
    r->sources = weft__sources_read(nsswitch.text, gai.text, resolv.text);
    weft__conf_free(&nsswitch);
    weft__conf_free(&gai);
    weft__conf_free(&resolv);
    return 0;
}

/* Return the resolver of the thread. Returns NULL if memory is exhausted or no key is available. */
static resolver *resolver_of_cord(weft__cord *c)
{
    pthread_once(&resolver_once, resolver_make_key);
    resolver *r = resolver_key != 0 ? weft__cord_local(c, resolver_key) : NULL;
    if (r != NULL && r->depth != weft__fork_depth) {
        r->dns =
            NULL; /* belongs to the parent process; the driver does not exist in this process */
        r->depth = weft__fork_depth;
    }
    if (r != NULL || resolver_key == 0 || (r = calloc(1, sizeof *r)) == NULL)
        return r;
    r->depth = weft__fork_depth;
    if (resolver_use_system(r) == 0 && weft__cord_local_set(c, resolver_key, r) == 0)
        return r;
    resolver_free(r);
    return NULL;
}

bool weft__resolver_is_custom(const weft__cord *c)
{
    const resolver *r = resolver_key != 0 ? weft__cord_local(c, resolver_key) : NULL;
    return r != NULL && r->is_custom;
}

/*
 * Return the DNS client of the resolver. If resolv.conf has changed, replace the DNS client.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
static int choose_dns(resolver *r, weft__dns **out)
{
    if (r->dns != NULL && weft__dns_is_stale(r->dns)) {
        weft__dns_retire(r->dns);
        r->dns = NULL;
        if (!r->is_custom && resolver_use_system(r) < 0)
            return -ENOMEM;
    }
    if (r->dns == NULL)
        r->dns = weft__dns_new(r->settings);
    *out = r->dns;
    return r->dns != NULL ? 0 : -ENOMEM;
}

/*
 * Return whether host is a numeric address. Only the C library accepts all notations of such
 * addresses.
 */
static bool is_number(const char *host)
{
    struct in_addr address;
    return strchr(host, ':') != NULL || inet_aton(host, &address) != 0;
}

int weft__resolver_choose(weft__cord *c, const weft__lookup *l, weft__dns **out)
{
    *out = NULL;
    if (l->host == NULL || *l->host == '\0' || is_number(l->host) ||
        c->backend->type->is_self_contained || l->hints.ai_flags & AI_NUMERICHOST)
        return 0;
    resolver *r = resolver_of_cord(c);
    if (r == NULL)
        return resolver_key != 0 ? -ENOMEM : 0;
    const int family = l->hints.ai_family;
    bool is_known = (l->hints.ai_flags & ~FLAGS_KNOWN) == 0 &&
                    (family == AF_UNSPEC || family == AF_INET || family == AF_INET6);
    if (r->is_custom && !is_known)
        return weft_fail(
            -EINVAL, "weft_resolve: %s: hints are not supported after weft_set_resolver", l->host);
    if (!is_known || (!r->is_custom && !weft__sources_suffice(&r->sources, l->host)))
        return 0;
    return choose_dns(r, out);
}

int weft_set_resolver(const weft_resolver_options *options)
{
    weft__cord *c = weft__cord_here();
    resolver *r = c != NULL ? resolver_of_cord(c) : NULL;
    if (r == NULL)
        return weft__no_cord();
    if (options == NULL)
        return resolver_use_system(r);
    int rc = check_resolver_options(c, options);
    if (rc < 0)
        return rc;
    weft__dns_settings *s = settings_new(options);
    if (s == NULL)
        return -ENOMEM;
    resolver_set(r, s, true);
    return 0;
}

/*
 * The reverse proxies of `weft serve`. A failure of an upstream server is printed by a fiber of the
 * main thread, at most once per second and proxy, so that a slow reader of stderr does not delay
 * requests.
 */
#include "command/serve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* The time between two reports of failures. */
#define REPORT_S 1.0

typedef struct serve_proxy {
    const serve_proxy_rule *rule;
    weft_http_proxy *proxy;
    pthread_mutex_t lock; /* guards failures and message; never held across a switch */
    uint64_t failures;    /* since the last report */
    char message[256];    /* of the first of these failures */
} serve_proxy;

struct serve_proxies {
    weft_tls *tls;       /* of clients; NULL: the default */
    weft_fiber reporter; /* 0: none */
    size_t count;
    serve_proxy at[];
};

/*
 * Failures.
 */

static void note_failure(weft_http_request *request, int error, const char *message, void *ctx)
{
    serve_proxy *p = ctx;
    pthread_mutex_lock(&p->lock);
    if (p->failures++ == 0)
        snprintf(p->message, sizeof p->message, "%s %.100s: %s: %s", weft_http_method(request),
                 weft_http_path(request), message, strerror(-error));
    pthread_mutex_unlock(&p->lock);
}

static void report_failures(serve_proxy *p)
{
    char message[sizeof p->message];
    pthread_mutex_lock(&p->lock);
    uint64_t failures = p->failures;
    memcpy(message, p->message, sizeof message);
    p->failures = 0;
    pthread_mutex_unlock(&p->lock);
    if (failures > 1)
        serve_print("--proxy %s%s: %s (and %llu more)", p->rule->host, p->rule->path, message,
                    (unsigned long long)failures - 1);
    else if (failures == 1)
        serve_print("--proxy %s%s: %s", p->rule->host, p->rule->path, message);
}

static weft_value report_all_failures(void *arg)
{
    serve_proxies *proxies = arg;
    while (weft_sleep(REPORT_S) == 0)
        for (size_t i = 0; i < proxies->count; i++)
            report_failures(&proxies->at[i]);
    return 0;
}

/*
 * Opening.
 */

/* Add the route of a proxy for a host. A host without its own proxies gets those for all hosts. */
static int add_route(serve_site *site, serve_proxy *p, const char *host)
{
    char pattern[1024];
    const char *path = strcmp(p->rule->path, "/") == 0 ? "" : p->rule->path;
    int bytes = snprintf(pattern, sizeof pattern, "%s%s/{path...}", host, path);
    int rc = bytes < 0 || (size_t)bytes >= sizeof pattern ? -EINVAL : 0;
    if (rc == 0)
        rc = weft_http_route(site->routes, NULL, pattern, weft_http_serve_proxy, p->proxy);
    if (rc == -EEXIST && host != p->rule->host) /* the host has its own proxy for the prefix */
        return 0;
    return rc < 0 ? weft_fail(rc, "--proxy %s%s: %s", p->rule->host, p->rule->path, strerror(-rc))
                  : 0;
}

static int proxy_open(serve_site *site, serve_proxy *p, const serve_settings *s)
{
    const weft_http_proxy_options options = {
        .tls = site->proxies->tls,
        .prefix = p->rule->path,
        .unix_socket = p->rule->unix_socket,
        .sends_upstream_host = s->sends_upstream_host,
        .first_byte_s = s->proxy_timeout_s,
        .idle_s = s->proxy_timeout_s,
        .on_failure = note_failure,
        .on_failure_ctx = p,
    };
    p->proxy = weft_http_proxy_new(p->rule->url, &options);
    if (p->proxy == NULL)
        return weft_fail(weft_error()->code, "--proxy %s%s: %s", p->rule->host, p->rule->path,
                         weft_error()->message);
    return add_route(site, p, p->rule->host);
}

/* Add the proxies for all hosts to the hosts that have a directory. */
static int add_routes_of_hosts(serve_site *site, const serve_settings *s)
{
    int rc = 0;
    for (size_t i = 0; i < site->proxies->count; i++)
        for (size_t k = 0; rc == 0 && k < s->hosts_count; k++)
            if (site->proxies->at[i].rule->host[0] == '\0' && s->hosts[k].dir != NULL)
                rc = add_route(site, &site->proxies->at[i], s->hosts[k].name);
    return rc;
}

static int open_client_tls(serve_proxies *proxies, const char *ca_file)
{
    if (ca_file == NULL)
        return 0;
    proxies->tls = weft_tls_client_new(&(weft_tls_options){.ca_file = ca_file, .alpn = "http/1.1"});
    return proxies->tls != NULL
               ? 0
               : weft_fail(weft_error()->code, "--proxy-ca: %s", weft_error()->message);
}

int serve_proxies_open(serve_site *site, const serve_settings *s)
{
    serve_proxies *proxies = calloc(1, sizeof *proxies + s->proxies_count * sizeof *proxies->at);
    if (proxies == NULL)
        return weft_fail(-ENOMEM, "memory is exhausted");
    site->proxies = proxies;
    int rc = open_client_tls(proxies, s->proxy_ca);
    for (size_t i = 0; rc == 0 && i < s->proxies_count; i++) {
        serve_proxy *p = &proxies->at[proxies->count++];
        p->rule = &s->proxies[i];
        pthread_mutex_init(&p->lock, NULL);
        rc = proxy_open(site, p, s);
    }
    if (rc == 0)
        rc = add_routes_of_hosts(site, s);
    if (rc < 0)
        return rc;
    const weft_spin_options options = {.name = "proxy failures", .is_daemon = true};
    proxies->reporter = weft_spin_with(report_all_failures, proxies, &options);
    return proxies->reporter != 0 ? 0 : weft_error()->code;
}

void serve_proxies_close(serve_proxies *proxies)
{
    if (proxies == NULL)
        return;
    for (size_t i = 0; i < proxies->count; i++) {
        report_failures(&proxies->at[i]);
        (void)weft_http_proxy_free(proxies->at[i].proxy);
        pthread_mutex_destroy(&proxies->at[i].lock);
    }
    weft_tls_free(proxies->tls);
    free(proxies);
}

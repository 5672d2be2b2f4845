/*
 * Proxies by the environment: http_proxy, https_proxy, all_proxy and no_proxy, as other clients
 * read them.
 */
#include "http/fetch.h"
#include "http/ip.h"

#include <weft/error.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The value of a variable in lower case, else in upper case; NULL: neither, or empty. */
static const char *variable(const char *lower, const char *upper)
{
    const char *value = getenv(lower);
    if ((value == NULL || *value == '\0') && upper != NULL)
        value = getenv(upper);
    return value != NULL && *value != '\0' ? value : NULL;
}

/*
 * HTTP_PROXY does not count: in a CGI program it is the request's "Proxy" field, a stranger's word.
 */
static const char *proxy_for(const weft_url *url)
{
    const char *proxy = strcmp(url->scheme, "https") == 0 ? variable("https_proxy", "HTTPS_PROXY")
                                                          : variable("http_proxy", NULL);
    return proxy != NULL ? proxy : variable("all_proxy", "ALL_PROXY");
}

/* "10.0.0.0/8", or one address. */
static bool is_in_network(const char *host, const char *network)
{
    weft__ip ip;
    weft__cidr range;
    return weft__ip_parse(&ip, host, strlen(host)) &&
           weft__cidr_read(&range, network, strlen(network)) && weft__cidr_covers(&range, &ip);
}

/* The host itself, or one below it: "example.org" and ".example.org" both cover a.example.org. */
static bool is_in_domain(const char *host, const char *domain)
{
    domain += *domain == '.';
    size_t host_bytes = strlen(host), bytes = strlen(domain);
    if (bytes == 0 || host_bytes < bytes || strcasecmp(host + host_bytes - bytes, domain) != 0)
        return false;
    return host_bytes == bytes || host[host_bytes - bytes - 1] == '.';
}

/* Cut a port off, and brackets: it is -1 without one. */
static int split_port(char **entry)
{
    char *colon = strrchr(*entry, ':');
    bool has_brackets = **entry == '[';
    int port = -1;
    if (colon != NULL && (has_brackets ? colon[-1] == ']' : strchr(*entry, ':') == colon)) {
        port = atoi(colon + 1);
        *colon = '\0';
    }
    size_t bytes = strlen(*entry);
    if (has_brackets && bytes > 1 && (*entry)[bytes - 1] == ']') {
        (*entry)[bytes - 1] = '\0';
        (*entry)++;
    }
    return port;
}

static bool covers(char *entry, const weft_url *url)
{
    if (strcmp(entry, "*") == 0)
        return true;
    int port = split_port(&entry);
    if (port >= 0 && port != url->port)
        return false;
    return is_in_domain(url->host, entry) || is_in_network(url->host, entry);
}

/* 1: it is in no_proxy. 0, -ENOMEM. */
static int is_excepted(const weft_url *url)
{
    const char *value = variable("no_proxy", "NO_PROXY");
    if (value == NULL)
        return 0;
    char *list = strdup(value), *rest = NULL;
    if (list == NULL)
        return -ENOMEM;
    bool is_covered = false;
    for (char *entry = strtok_r(list, ", \t", &rest); entry != NULL && !is_covered;
         entry = strtok_r(NULL, ", \t", &rest))
        is_covered = covers(entry, url);
    free(list);
    return is_covered;
}

/* What is written without a scheme is http. */
static int open_url(weft_url *url, const char *text)
{
    if (strstr(text, "://") != NULL)
        return weft_url_open(url, text);
    weft__words w = {0};
    weft__words_print(&w, "http://%s", text);
    int rc = w.has_failed ? -ENOMEM : weft_url_open(url, w.data);
    free(w.data);
    return rc;
}

int weft__proxy_open(weft__proxy *p, const weft_url *url)
{
    *p = (weft__proxy){0};
    const char *text = proxy_for(url);
    int rc = text != NULL ? is_excepted(url) : 1;
    if (rc != 0)
        return rc < 0 ? rc : 0;
    rc = open_url(&p->url, text);
    if (rc < 0)
        return rc == -EINVAL ? weft_fail(rc, "the proxy of the environment is no URL") : rc;
    p->is_used = true;
    if (strcmp(p->url.scheme, "http") == 0)
        return 0;
    rc = weft_fail(-ENOTSUP, "a proxy that speaks %s", p->url.scheme);
    weft__proxy_close(p);
    return rc;
}

void weft__proxy_close(weft__proxy *p)
{
    if (p->is_used)
        weft_url_close(&p->url);
    *p = (weft__proxy){0};
}

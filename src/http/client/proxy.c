/* Choose a proxy from the variables http_proxy, https_proxy, all_proxy and no_proxy. */
#include "http/client/fetch.h"
#include "http/url/ip.h"

#include <weft/error.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/*
 * Return the value of the first variable that is set and not empty. upper may be NULL. Return NULL
 * if no variable has a value.
 */
static const char *env_value(const char *lower, const char *upper)
{
    const char *value = getenv(lower);
    if ((value == NULL || *value == '\0') && upper != NULL)
        value = getenv(upper);
    return value != NULL && *value != '\0' ? value : NULL;
}

/*
 * Return the proxy for a URL, or NULL. Ignore HTTP_PROXY, because a CGI program receives the
 * "Proxy" field of a request in HTTP_PROXY.
 */
static const char *env_proxy_for(const weft_url *url)
{
    const char *proxy = strcmp(url->scheme, "https") == 0 ? env_value("https_proxy", "HTTPS_PROXY")
                                                          : env_value("http_proxy", NULL);
    return proxy != NULL ? proxy : env_value("all_proxy", "ALL_PROXY");
}

/* Return whether host is an address in a network. network is a CIDR range or an address. */
static bool is_in_network(const char *host, const char *network)
{
    weft__ip ip;
    weft__cidr range;
    return weft__ip_parse(&ip, host, strlen(host)) &&
           weft__cidr_read(&range, network, strlen(network)) && weft__cidr_covers(&range, &ip);
}

/*
 * Return whether host is domain or a subdomain. "example.org" and ".example.org" both cover
 * a.example.org.
 */
static bool is_in_domain(const char *host, const char *domain)
{
    domain += *domain == '.';
    size_t host_bytes = strlen(host), bytes = strlen(domain);
    if (bytes == 0 || host_bytes < bytes || strcasecmp(host + host_bytes - bytes, domain) != 0)
        return false;
    return host_bytes == bytes || host[host_bytes - bytes - 1] == '.';
}

/*
 * Remove the port and the brackets of an entry. Return the port. Return -1 if the entry has no
 * port.
 */
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

static bool entry_covers(char *entry, const weft_url *url)
{
    if (strcmp(entry, "*") == 0)
        return true;
    int port = split_port(&entry);
    if (port >= 0 && port != url->port)
        return false;
    return is_in_domain(url->host, entry) || is_in_network(url->host, entry);
}

/*
 * Return 1 if no_proxy covers the URL. Return 0 if no_proxy does not cover the URL. Return -ENOMEM
 * if memory is exhausted.
 */
static int is_in_no_proxy(const weft_url *url)
{
    const char *value = env_value("no_proxy", "NO_PROXY");
    if (value == NULL)
        return 0;
    char *list = strdup(value), *rest = NULL;
    if (list == NULL)
        return -ENOMEM;
    bool is_covered = false;
    for (char *entry = strtok_r(list, ", \t", &rest); entry != NULL && !is_covered;
         entry = strtok_r(NULL, ", \t", &rest))
        is_covered = entry_covers(entry, url);
    free(list);
    return is_covered;
}

/* Parse the URL of a proxy. The default scheme is http. */
static int proxy_url_open(weft_url *url, const char *text)
{
    if (strstr(text, "://") != NULL)
        return weft_url_open(url, text);
    weft__strbuf w = {0};
    weft__strbuf_printf(&w, "http://%s", text);
    int rc = w.has_failed ? -ENOMEM : weft_url_open(url, w.data);
    free(w.data);
    return rc;
}

int weft__proxy_open(weft__proxy *p, const weft_url *url)
{
    *p = (weft__proxy){0};
    const char *text = env_proxy_for(url);
    int rc = text != NULL ? is_in_no_proxy(url) : 1;
    if (rc != 0)
        return rc < 0 ? rc : 0;
    rc = proxy_url_open(&p->url, text);
    if (rc < 0)
        return rc == -EINVAL ? weft_fail(rc, "the proxy in the environment is not a URL") : rc;
    p->is_used = true;
    if (strcmp(p->url.scheme, "http") == 0)
        return 0;
    rc = weft_fail(-ENOTSUP, "the proxy in the environment has the scheme %s, not http",
                   p->url.scheme);
    weft__proxy_close(p);
    return rc;
}

void weft__proxy_close(weft__proxy *p)
{
    if (p->is_used)
        weft_url_close(&p->url);
    *p = (weft__proxy){0};
}

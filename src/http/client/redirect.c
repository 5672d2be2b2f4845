/* Set the URL of a fetch, with credentials and a proxy. Follow redirects. */
#include "http/client/fetch.h"

#include <weft/error.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Format a URL without its user, because callers may log the text. Return NULL if memory is
 * exhausted.
 */
static char *url_text_of(const weft_url *url)
{
    weft__strbuf w = {0};
    weft__strbuf_printf(&w, "%s://", url->scheme);
    weft__strbuf_add_host(&w, url->host);
    if (url->port != (strcmp(url->scheme, "https") == 0 ? 443 : 80))
        weft__strbuf_printf(&w, ":%d", url->port);
    weft__strbuf_printf(&w, "%s%s%s%s%s", url->path, url->has_query ? "?" : "", url->query,
                        url->fragment[0] != '\0' ? "#" : "", url->fragment);
    return weft__strbuf_take(&w);
}

static bool url_is_web(const weft_url *url)
{
    return (strcmp(url->scheme, "http") == 0 || strcmp(url->scheme, "https") == 0) &&
           url->host[0] != '\0' && url->port > 0;
}

static bool is_same_origin(const weft_url *a, const weft_url *b)
{
    return strcmp(a->scheme, b->scheme) == 0 && strcmp(a->host, b->host) == 0 && a->port == b->port;
}

/*
 * Find the credentials for a URL. A user in the URL has priority. Otherwise, keep the credentials
 * of the current URL if both URLs have the same origin.
 */
static int authorization_for(const weft_fetch *f, const weft_url *url, char **authorization)
{
    *authorization = NULL;
    if (url->user[0] != '\0')
        *authorization = weft__basic_auth_new(url->user);
    else if (f->authorization != NULL && is_same_origin(&f->url, url))
        *authorization = strdup(f->authorization);
    else
        return 0;
    return *authorization != NULL ? 0 : -ENOMEM;
}

int weft__fetch_set_url(weft_fetch *f, weft_url *url)
{
    if (!url_is_web(url))
        return weft_fail(-EINVAL, "weft_fetch: url is not an http or https URL");
    char *authorization = NULL, *text = url_text_of(url);
    weft__proxy proxy = {0};
    int rc = text != NULL ? authorization_for(f, url, &authorization) : -ENOMEM;
    if (rc == 0 && !f->fetcher->options.has_no_proxy)
        rc = weft__proxy_open(&proxy, url);
    if (rc < 0) {
        free(text);
        free(authorization);
        return rc;
    }
    weft__proxy_close(&f->proxy);
    free(f->url_text);
    free(f->authorization);
    if (f->url.scheme != NULL)
        weft_url_close(&f->url);
    f->url = *url;
    f->url_text = text;
    f->authorization = authorization;
    f->proxy = proxy;
    return 0;
}

/*
 * Return the method of the next request (RFC 9110, 15.4). 303 changes all methods except HEAD to
 * GET. 301 and 302 change POST to GET, as in browsers.
 */
static const char *redirect_method(const weft_fetch *f)
{
    int status = f->response.status;
    bool is_post = strcmp(f->method, "POST") == 0;
    if (status == 303)
        return strcmp(f->method, "HEAD") == 0 ? "HEAD" : "GET";
    return (status == 301 || status == 302) && is_post ? "GET" : f->method;
}

/*
 * Resolve Location. A Location without a fragment inherits the fragment of the URL (RFC 9110,
 * 10.2.2).
 */
static int open_location(const weft_fetch *f, const char *location, weft_url *url)
{
    if (f->url.fragment[0] == '\0' || strchr(location, '#') != NULL)
        return weft_url_open_in(url, &f->url, location);
    weft__strbuf w = {0};
    weft__strbuf_printf(&w, "%s#%s", location, f->url.fragment);
    int rc = w.has_failed ? -ENOMEM : weft_url_open_in(url, &f->url, w.data);
    free(w.data);
    return rc;
}

/*
 * Return whether the client may follow a redirect to url. A redirect from https to http would
 * expose the request.
 */
static bool may_redirect_to(const weft_fetch *f, const weft_url *url)
{
    bool is_downgrade = strcmp(f->url.scheme, "https") == 0 && strcmp(url->scheme, "http") == 0;
    return url_is_web(url) && !is_downgrade;
}

static int redirect_to(weft_fetch *f, weft_url *url, const char *method)
{
    if (f->redirects >= f->fetcher->options.redirects_max)
        return weft_fail(-ELOOP, "%s: the client has already followed %d redirects", f->url_text,
                         f->redirects);
    bool is_cross_origin = !is_same_origin(&f->url, url);
    int rc = weft__fetch_set_url(f, url);
    if (rc < 0)
        return rc;
    f->redirects++;
    f->is_cross_origin |= is_cross_origin;
    if (method != f->method) {
        f->has_body = false;
        snprintf(f->method, sizeof f->method, "%s", method);
    }
    return 1;
}

int weft__redirect_follow(weft_fetch *f)
{
    int status = f->response.status;
    const char *location = weft_fetch_header(f, "Location");
    bool is_redirect = (status >= 301 && status <= 303) || status == 307 || status == 308;
    if (!is_redirect || location == NULL || f->fetcher->options.redirects_max < 0)
        return 0;
    const char *method = redirect_method(f);
    if (f->is_streamed && f->has_body && method == f->method)
        return 0; /* the client cannot send the body again */
    weft_url url;
    int rc = open_location(f, location, &url);
    if (rc < 0)
        return rc == -EINVAL ? 0 : rc;
    rc = may_redirect_to(f, &url) ? redirect_to(f, &url, method) : 0;
    if (rc <= 0)
        weft_url_close(&url);
    return rc;
}

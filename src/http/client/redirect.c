/* Where a request of the client goes: to the URL that it was given, then to where it is sent. */
#include "http/fetch.h"

#include <weft/error.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Without the user: it is for logs and people. */
static char *text_of(const weft_url *url)
{
    weft__words w = {0};
    weft__words_print(&w, "%s://", url->scheme);
    weft__words_host(&w, url->host);
    if (url->port != (strcmp(url->scheme, "https") == 0 ? 443 : 80))
        weft__words_print(&w, ":%d", url->port);
    weft__words_print(&w, "%s%s%s%s%s", url->path, url->has_query ? "?" : "", url->query,
                      url->fragment[0] != '\0' ? "#" : "", url->fragment);
    if (!w.has_failed)
        return w.data;
    free(w.data);
    return NULL;
}

static bool is_web(const weft_url *url)
{
    return (strcmp(url->scheme, "http") == 0 || strcmp(url->scheme, "https") == 0) &&
           url->host[0] != '\0' && url->port > 0;
}

static bool is_same_origin(const weft_url *a, const weft_url *b)
{
    return strcmp(a->scheme, b->scheme) == 0 && strcmp(a->host, b->host) == 0 && a->port == b->port;
}

/* The user of a URL speaks for it; without one, who spoke for this origin before. */
static int authorize(const weft_fetch *f, const weft_url *url, char **authorization)
{
    *authorization = NULL;
    if (url->user[0] != '\0')
        *authorization = weft__words_basic(url->user);
    else if (f->authorization != NULL && is_same_origin(&f->url, url))
        *authorization = strdup(f->authorization);
    else
        return 0;
    return *authorization != NULL ? 0 : -ENOMEM;
}

int weft__fetch_aim(weft_fetch *f, weft_url *url)
{
    if (!is_web(url))
        return weft_fail(-EINVAL, "a URL that is neither http nor https");
    char *authorization = NULL, *text = text_of(url);
    weft__proxy proxy = {0};
    int rc = text != NULL ? authorize(f, url, &authorization) : -ENOMEM;
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
    if (f->url.memory != NULL)
        weft_url_close(&f->url);
    f->url = *url;
    f->url_text = text;
    f->authorization = authorization;
    f->proxy = proxy;
    return 0;
}

/*
 * RFC 9110, 15.4: 303 is a GET in any case, 301 and 302 make one of a POST, as everybody does; all
 * others are repeated as they were.
 */
static const char *method_then(const weft_fetch *f)
{
    int status = f->answer.status;
    bool is_post = strcmp(f->method, "POST") == 0;
    if (status == 303)
        return strcmp(f->method, "HEAD") == 0 ? "HEAD" : "GET";
    return (status == 301 || status == 302) && is_post ? "GET" : f->method;
}

/* The answer's Location, with our fragment if it has none (RFC 9110, 10.2.2). */
static int open_location(const weft_fetch *f, const char *location, weft_url *url)
{
    if (f->url.fragment[0] == '\0' || strchr(location, '#') != NULL)
        return weft_url_open_in(url, &f->url, location);
    weft__words w = {0};
    weft__words_print(&w, "%s#%s", location, f->url.fragment);
    int rc = w.has_failed ? -ENOMEM : weft_url_open_in(url, &f->url, w.data);
    free(w.data);
    return rc;
}

/* Is it the client's to go there? What was to be secret stays so: not from https to http. */
static bool is_open_to(const weft_fetch *f, const weft_url *url)
{
    bool is_less = strcmp(f->url.scheme, "https") == 0 && strcmp(url->scheme, "http") == 0;
    return is_web(url) && !is_less;
}

static int go_to(weft_fetch *f, weft_url *url, const char *method)
{
    if (f->redirects >= f->fetcher->options.redirects_max)
        return weft_fail(-ELOOP, "%s: redirected %d times", f->url_text, f->redirects);
    bool is_abroad = !is_same_origin(&f->url, url);
    int rc = weft__fetch_aim(f, url);
    if (rc < 0)
        return rc;
    f->redirects++;
    f->is_abroad |= is_abroad;
    if (method != f->method) {
        f->has_body = false;
        snprintf(f->method, sizeof f->method, "%s", method);
    }
    return 1;
}

int weft__redirect_follow(weft_fetch *f)
{
    int status = f->answer.status;
    const char *location = weft_fetch_header(f, "Location");
    bool is_redirect = (status >= 301 && status <= 303) || status == 307 || status == 308;
    if (!is_redirect || location == NULL || f->fetcher->options.redirects_max < 0)
        return 0;
    const char *method = method_then(f);
    if (f->is_streamed && f->has_body && method == f->method)
        return 0; /* the body is gone */
    weft_url url;
    int rc = open_location(f, location, &url);
    if (rc < 0)
        return rc == -EINVAL ? 0 : rc;
    rc = is_open_to(f, &url) ? go_to(f, &url, method) : 0;
    if (rc <= 0)
        weft_url_close(&url);
    return rc;
}

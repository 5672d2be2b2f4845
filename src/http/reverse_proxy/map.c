/*
 * Paths of a proxy for a part of a site. The path of the upstream server, the base, replaces the
 * prefix of the request's path. In a Location of the response, the prefix replaces the base.
 */
#include "http/reverse_proxy/reverse_proxy.h"
#include "http/text/ctype.h"
#include "http/text/field.h"
#include "http/url/path.h"

#include <stdlib.h>

/*
 * Return the rest of a path after a prefix. Return NULL if the path does not start with the prefix,
 * or the prefix ends within a segment.
 */
static const char *path_after(const char *path, const char *prefix)
{
    size_t bytes = strlen(prefix);
    if (strncmp(path, prefix, bytes) != 0)
        return NULL;
    return strchr("/?#", path[bytes]) != NULL ? path + bytes : NULL; /* also at the end */
}

/*
 * Return whether the upstream server may normalise a path: the path has an empty segment, or a
 * segment "." or "..", possibly with escapes.
 */
static bool path_is_unusual(const char *path, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (path[i] == '%' && i + 2 < bytes && weft__ctype_match(path + i, "%2e", 3))
            return true;
        if (path[i] != '/' || i + 1 == bytes)
            continue;
        size_t dots = strspn(path + i + 1, ".");
        char end = i + 1 + dots < bytes ? path[i + 1 + dots] : '/';
        if (path[i + 1] == '/' || (dots > 0 && dots <= 2 && end == '/'))
            return true;
    }
    return false;
}

static void add_escaped(weft__strbuf *w, const char *path)
{
    size_t capacity = 3 * strlen(path) + 1;
    char *escaped = malloc(capacity);
    if (escaped == NULL) {
        w->has_failed = true;
        return;
    }
    weft__strbuf_add(w, escaped, weft__path_escape(escaped, capacity, path));
    free(escaped);
}

void weft__reverse_proxy_map_target(weft__strbuf *w, const weft__exchange *p, const char *target)
{
    const weft_http_proxy *proxy = p->proxy;
    size_t path_bytes = strcspn(target, "?");
    const char *rest =
        path_is_unusual(target, path_bytes) ? NULL : path_after(target, proxy->prefix);
    const char *normalised = path_after(weft_http_path(p->r), proxy->prefix);
    if (normalised == NULL) {
        weft__strbuf_printf(w, "%s%s", target[0] == '/' ? "" : "/", target);
        return;
    }
    weft__strbuf_printf(w, "%s", proxy->base);
    if (proxy->base[0] == '\0' && (rest != NULL ? rest : normalised)[0] != '/')
        weft__strbuf_printf(w, "/");
    if (rest != NULL) {
        weft__strbuf_printf(w, "%s", rest);
    } else {
        add_escaped(w, normalised);
        weft__strbuf_printf(w, "%s", target + path_bytes);
    }
}

/* Return the rest of an absolute URL of this host, or NULL. */
static const char *url_after_host(const char *url, const char *host, size_t host_bytes)
{
    const char *authority = strstr(url, "://");
    if (authority == NULL || host_bytes == 0)
        return NULL;
    authority += 3;
    size_t bytes = strcspn(authority, "/?#");
    return bytes == host_bytes && weft__ctype_match(authority, host, bytes) ? authority + bytes
                                                                            : NULL;
}

/* Return the path of a Location on the upstream server. Return NULL for another server. */
static const char *location_path(const weft__exchange *p, const char *location)
{
    size_t bytes;
    const char *host = weft__request_target_host(p->r, &bytes);
    if (location[0] == '/')
        return location[1] == '/' ? NULL : location;
    if (strncasecmp(location, "http", 4) != 0)
        return NULL;
    const char *path = url_after_host(location, p->proxy->authority, strlen(p->proxy->authority));
    return path != NULL ? path : url_after_host(location, host, bytes);
}

const char *weft__reverse_proxy_map_location(const weft__exchange *p, const char *location)
{
    const weft_http_proxy *proxy = p->proxy;
    const char *path = location_path(p, location);
    const char *rest = path != NULL ? path_after(path, proxy->base) : NULL;
    if (rest == NULL)
        return location;
    const char *slash = proxy->prefix[0] == '\0' && rest[0] != '/' ? "/" : "";
    size_t bytes = strlen(proxy->prefix) + strlen(slash) + strlen(rest) + 1;
    char *mapped = weft_http_alloc(p->r, bytes);
    if (mapped == NULL)
        return location;
    stpcpy(stpcpy(stpcpy(mapped, proxy->prefix), slash), rest);
    return mapped;
}

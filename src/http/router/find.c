/*
 * The search in the tree of routes. The search finds the most specific match first. At each
 * segment, the search tries a word before {name}, and {name} before {name...}. The search abandons
 * a branch without a route for the method. The search compares each node with only one segment. The
 * search therefore enters a node at most once.
 */
#include "http/router/route.h"

#include <string.h>

typedef struct search {
    const char *method;
    bool is_head;
    const char *end; /* end of the path */
    weft__route_match *match;
    size_t count; /* parameters bound on the current branch */
    weft__route_methods
        *methods; /* not NULL: collect the methods of all matches, return no route */
} search;

static void collect_method(weft__route_methods *m, const char *method)
{
    size_t bytes = strlen(method);
    for (const char *at = m->text; (at = strstr(at, method)) != NULL; at += bytes)
        if ((at == m->text || at[-1] == ' ') && (at[bytes] == ',' || at[bytes] == '\0'))
            return;
    if (m->bytes + bytes + 3 > sizeof m->text)
        return;
    const char *separator = m->bytes > 0 ? ", " : "";
    memcpy(m->text + m->bytes, separator, strlen(separator));
    m->bytes += strlen(separator);
    memcpy(m->text + m->bytes, method, bytes + 1);
    m->bytes += bytes;
}

static void collect_methods(weft__route_methods *m, const weft__route *list)
{
    for (const weft__route *r = list; r != NULL; r = r->next) {
        if (r->method == NULL)
            continue;
        collect_method(m, r->method);
        if (strcmp(r->method, "GET") == 0)
            collect_method(m, "HEAD");
    }
}

/*
 * Return the route for the method. For HEAD, the second choice is the route for GET. The last
 * choice is the route for all methods.
 */
static const weft__route *pick_route(search *s, const weft__route *list)
{
    const weft__route *get = NULL, *any = NULL;
    if (s->methods != NULL) {
        collect_methods(s->methods, list);
        return NULL;
    }
    for (const weft__route *r = list; r != NULL; r = r->next) {
        if (r->method == NULL)
            any = r;
        else if (strcmp(r->method, s->method) == 0)
            return r;
        else if (s->is_head && strcmp(r->method, "GET") == 0)
            get = r;
    }
    return get != NULL ? get : any;
}

static void bind_value(search *s, const char *at, size_t bytes)
{
    s->match->values[s->count].at = at;
    s->match->values[s->count].bytes = bytes;
}

/* Match the node's {name...} with the rest of the path. A match ends the search. */
static const weft__route *pick_rest(search *s, const weft__route_node *n, const char *at)
{
    const weft__route *r = n->rest_routes != NULL ? pick_route(s, n->rest_routes) : NULL;
    if (r != NULL)
        bind_value(s, at, (size_t)(s->end - at));
    return r;
}

static const weft__route *descend_node(search *s, const weft__route_node *n, const char *at);

static const weft__route *descend_param_node(search *s, const weft__route_node *n, const char *at,
                                             const char *end, const char *next)
{
    if (n->param == NULL || end == at)
        return NULL;
    bind_value(s, at, (size_t)(end - at));
    s->count++;
    const weft__route *r = descend_node(s, n->param, next);
    if (r == NULL)
        s->count--;
    return r;
}

/*
 * Search below a node. at is the start of the next segment, or NULL at the end of the path. The
 * depth of the tree limits the recursion.
 */
static const weft__route *descend_node(search *s, const weft__route_node *n, const char *at)
{
    const weft__route *r;
    if (at == NULL) {
        r = pick_route(s, n->routes);
        return r != NULL ? r : pick_rest(s, n, s->end);
    }
    const char *end = memchr(at, '/', (size_t)(s->end - at));
    const char *next = end != NULL ? end + 1 : NULL;
    end = end != NULL ? end : s->end;
    const weft__route_node *word = weft__route_child(n, at, (size_t)(end - at));
    r = word != NULL ? descend_node(s, word, next) : NULL;
    if (r == NULL)
        r = descend_param_node(s, n, at, end, next);
    return r != NULL ? r : pick_rest(s, n, at);
}

static const weft__route *search_host(search *s, const weft__routes *routes, const char *host,
                                      size_t bytes, const char *path)
{
    const weft__route_node *root = weft__route_child(&routes->hosts, host, bytes);
    return root != NULL ? descend_node(s, root, path + 1) : NULL;
}

/* For "a.b.org", search "*.b.org" and then "*.org". */
static const weft__route *search_wildcards(search *s, const weft__routes *routes, const char *host,
                                           size_t bytes, const char *path)
{
    char pattern[256] = "*";
    const char *end = host + bytes, *dot = host;
    const weft__route *r = NULL;
    while (r == NULL && (dot = memchr(dot, '.', (size_t)(end - dot))) != NULL) {
        size_t left = (size_t)(end - dot);
        if (dot > host && left < sizeof pattern) {
            memcpy(pattern + 1, dot, left);
            r = search_host(s, routes, pattern, left + 1, path);
        }
        dot++;
    }
    return r;
}

static const weft__route *search_all(search *s, const weft__routes *routes, const char *host,
                                     const char *path)
{
    const weft__route *r = NULL;
    size_t bytes = strlen(host);
    if (bytes > 0 && host[bytes - 1] == '.') /* "example.org." is "example.org" */
        bytes--;
    if (bytes > 0 && routes->hosts.children_count > 0) {
        r = search_host(s, routes, host, bytes, path);
        if (r == NULL)
            r = search_wildcards(s, routes, host, bytes, path);
    }
    return r != NULL ? r : search_host(s, routes, "", 0, path);
}

bool weft__routes_find(const weft__routes *routes, const char *method, const char *host,
                       const char *path, weft__route_match *match)
{
    search s = {.method = method,
                .is_head = strcmp(method, "HEAD") == 0,
                .end = path + strlen(path),
                .match = match};
    match->route = search_all(&s, routes, host, path);
    return match->route != NULL;
}

static void collect_below(weft__route_methods *m, const weft__route_node *n)
{
    collect_methods(m, n->routes);
    collect_methods(m, n->rest_routes);
    for (size_t i = 0; i < n->children_count; i++)
        collect_below(m, n->children[i]);
    if (n->param != NULL)
        collect_below(m, n->param);
}

void weft__routes_methods(const weft__routes *routes, const char *host, const char *path,
                          weft__route_methods *methods)
{
    weft__route_match unused;
    *methods = (weft__route_methods){0};
    if (path == NULL) {
        collect_below(methods, &routes->hosts);
        return;
    }
    search s = {.method = "", .end = path + strlen(path), .match = &unused, .methods = methods};
    search_all(&s, routes, host, path);
}

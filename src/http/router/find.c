/*
 * Searching the tree of routes. Of all routes that match, the most particular one is found first:
 * at each segment a word is tried before {name}, and that before {name...}; who does not lead to a
 * route for the method is left again. Each node is visited once at most, as its depth says which
 * segment it is compared with.
 */
#include "http/route.h"

#include <string.h>

typedef struct search {
    const char *method;
    bool is_head;
    const char *end; /* of the path */
    weft__route_match *match;
    size_t count;                 /* params that are bound on the way to here */
    weft__route_methods *methods; /* not NULL: only collect them, find nothing */
} search;

static void collect(weft__route_methods *m, const char *method)
{
    size_t bytes = strlen(method);
    for (const char *at = m->text; (at = strstr(at, method)) != NULL; at += bytes)
        if ((at == m->text || at[-1] == ' ') && (at[bytes] == ',' || at[bytes] == '\0'))
            return;
    if (m->bytes + bytes + 3 > sizeof m->text)
        return;
    const char *between = m->bytes > 0 ? ", " : "";
    memcpy(m->text + m->bytes, between, strlen(between));
    m->bytes += strlen(between);
    memcpy(m->text + m->bytes, method, bytes + 1);
    m->bytes += bytes;
}

static void collect_list(weft__route_methods *m, const weft__route *list)
{
    for (const weft__route *r = list; r != NULL; r = r->next) {
        if (r->method == NULL)
            continue;
        collect(m, r->method);
        if (strcmp(r->method, "GET") == 0)
            collect(m, "HEAD");
    }
}

/* The one for the method: of its own, else GET's for HEAD, else the one for all. */
static const weft__route *pick(search *s, const weft__route *list)
{
    const weft__route *get = NULL, *any = NULL;
    if (s->methods != NULL) {
        collect_list(s->methods, list);
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

static void bind(search *s, const char *at, size_t bytes)
{
    s->match->values[s->count].at = at;
    s->match->values[s->count].bytes = bytes;
}

/* The node's {name...} for all that is left. Its param is not counted: the search ends with it. */
static const weft__route *pick_rest(search *s, const weft__route_node *n, const char *at)
{
    const weft__route *r = n->rests != NULL ? pick(s, n->rests) : NULL;
    if (r != NULL)
        bind(s, at, (size_t)(s->end - at));
    return r;
}

static const weft__route *descend(search *s, const weft__route_node *n, const char *at);

static const weft__route *descend_param(search *s, const weft__route_node *n, const char *at,
                                        const char *end, const char *next)
{
    if (n->param == NULL || end == at)
        return NULL;
    bind(s, at, (size_t)(end - at));
    s->count++;
    const weft__route *r = descend(s, n->param, next);
    if (r == NULL)
        s->count--;
    return r;
}

/* At is where the next segment begins; NULL: there is none. As deep as the tree. */
static const weft__route *descend(search *s, const weft__route_node *n, const char *at)
{
    const weft__route *r;
    if (at == NULL) {
        r = pick(s, n->routes);
        return r != NULL ? r : pick_rest(s, n, s->end);
    }
    const char *end = memchr(at, '/', (size_t)(s->end - at));
    const char *next = end != NULL ? end + 1 : NULL;
    end = end != NULL ? end : s->end;
    const weft__route_node *word = weft__route_word(n, at, (size_t)(end - at));
    r = word != NULL ? descend(s, word, next) : NULL;
    if (r == NULL)
        r = descend_param(s, n, at, end, next);
    return r != NULL ? r : pick_rest(s, n, at);
}

static const weft__route *search_host(search *s, const weft__routes *routes, const char *host,
                                      size_t bytes, const char *path)
{
    const weft__route_node *root = weft__route_word(&routes->hosts, host, bytes);
    return root != NULL ? descend(s, root, path + 1) : NULL;
}

/* "*.b.org" and "*.org" for "a.b.org". */
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
    if (bytes > 0 && host[bytes - 1] == '.') /* the root of names, which nobody writes */
        bytes--;
    if (bytes > 0 && routes->hosts.words_count > 0) {
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
    collect_list(m, n->routes);
    collect_list(m, n->rests);
    for (size_t i = 0; i < n->words_count; i++)
        collect_below(m, n->words[i]);
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

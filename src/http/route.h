/*
 * Routes as a tree of segments for each host. Pure: knows nothing of requests but their strings.
 * router.c makes a handler of it.
 */
#ifndef WEFT_HTTP_ROUTE_TREE_H
#define WEFT_HTTP_ROUTE_TREE_H

#include <weft/http.h>

#include <stddef.h>

#define WEFT__ROUTE_PARAMS_MAX 16   /* {name}s in one pattern */
#define WEFT__ROUTE_SEGMENTS_MAX 64 /* of a pattern: how deep a search goes */
#define WEFT__ROUTE_METHOD_BYTES_MAX 31

/* One route: what a pattern and a method lead to. */
typedef struct weft__route {
    struct weft__route *next; /* of the same pattern, for another method */
    const char *method;       /* NULL: all */
    weft_http_handler *handler;
    void *ctx;
    bool has_rest;      /* the last of the names is a {name...} */
    size_t names_count; /* of its params, in their order */
    const char *names[WEFT__ROUTE_PARAMS_MAX];
    char text[]; /* method and names */
} weft__route;

/* What a route was found with: where in the path its params are. */
typedef struct weft__route_match {
    const weft__route *route;
    struct {
        const char *at;
        size_t bytes;
    } values[WEFT__ROUTE_PARAMS_MAX];
} weft__route_match;

/* A place in the tree: what patterns have in common up to a segment. */
typedef struct weft__route_node {
    struct weft__route_node **words; /* children by their segment, sorted */
    size_t words_count;
    struct weft__route_node *param; /* the child for {name}; NULL: none */
    weft__route *routes;            /* whose patterns end here, one a method */
    weft__route *rests;             /* whose patterns end with {name...} after this */
    size_t word_bytes;
    const char *word; /* its own segment; or host, if it is the root of one. Behind the node. */
} weft__route_node;

/* All routes. All-zero has none. */
typedef struct weft__routes {
    weft__route_node hosts; /* its children are the roots of the trees, by host; "" is for all */
} weft__routes;

/* Methods for an Allow header, each once. All-zero has none. */
typedef struct weft__route_methods {
    size_t bytes;
    char text[512];
} weft__route_methods;

/* As weft_http_route. */
int weft__routes_add(weft__routes *routes, const char *method, const char *pattern,
                     weft_http_handler *handler, void *ctx);

/* The child of a node for a word; NULL if there is none. */
weft__route_node *weft__route_word(const weft__route_node *node, const char *word, size_t bytes);

/* Free all routes. */
void weft__routes_close(weft__routes *routes);

/*
 * The most particular of the routes that match host, path and method; false if there is none. Path
 * begins with a slash.
 */
bool weft__routes_find(const weft__routes *routes, const char *method, const char *host,
                       const char *path, weft__route_match *match);

/* The methods of all routes that match host and path, with HEAD for GET; path NULL: of all. */
void weft__routes_methods(const weft__routes *routes, const char *host, const char *path,
                          weft__route_methods *methods);

#endif

/*
 * Routes: one tree of path segments for each host. tree.c builds the trees. find.c searches the
 * trees. These functions do not depend on requests. router.c is the handler that uses the routes.
 */
#ifndef WEFT_HTTP_ROUTER_ROUTE_H
#define WEFT_HTTP_ROUTER_ROUTE_H

#include <weft/http.h>

#include <stddef.h>

#define WEFT__ROUTE_PARAMS_MAX 16   /* parameters of a pattern */
#define WEFT__ROUTE_SEGMENTS_MAX 64 /* segments of a pattern; limits the recursion */
#define WEFT__ROUTE_METHOD_BYTES_MAX 31

/* A route: the handler for a pattern and a method. */
typedef struct weft__route {
    struct weft__route *next; /* same pattern, another method; NULL: none */
    const char *method;       /* NULL: all methods */
    weft_http_handler *handler;
    void *ctx;
    bool has_rest;                             /* the last parameter is {name...} */
    size_t names_count;                        /* number of parameters */
    const char *names[WEFT__ROUTE_PARAMS_MAX]; /* in the order of the pattern */
    char text[];                               /* the bytes of method and names */
} weft__route;

/* A matching route, and the values of its parameters as spans of the path. */
typedef struct weft__route_match {
    const weft__route *route;
    struct {
        const char *at;
        size_t bytes;
    } values[WEFT__ROUTE_PARAMS_MAX];
} weft__route_match;

/* A node of a tree: a common prefix of patterns that ends with a segment. */
typedef struct weft__route_node {
    struct weft__route_node **children; /* one for each word, sorted by length and bytes */
    size_t children_count;
    struct weft__route_node *param; /* the child for {name}; NULL: none */
    weft__route *routes;            /* for patterns that end at this node, one for each method */
    weft__route *rest_routes;       /* for patterns that end at this node with {name...} */
    size_t word_bytes;
    const char *word; /* the segment, or the host of a root; stored after the node */
} weft__route_node;

/* All routes of a router. All-zero is empty. */
typedef struct weft__routes {
    weft__route_node
        hosts; /* each child is the root of a host's tree; the host "" means all hosts */
} weft__routes;

/* The value of an Allow header. Each method occurs once. All-zero is empty. */
typedef struct weft__route_methods {
    size_t bytes;
    char text[512];
} weft__route_methods;

/* Add a route, like weft_http_route. */
int weft__routes_add(weft__routes *routes, const char *method, const char *pattern,
                     weft_http_handler *handler, void *ctx);

/* Return the child of a node for a word, or NULL. */
weft__route_node *weft__route_child(const weft__route_node *node, const char *word, size_t bytes);

/* Free all routes. */
void weft__routes_close(weft__routes *routes);

/*
 * Find the most specific route that matches host, path and method. path must start with a slash.
 * Returns false if no route matches.
 */
bool weft__routes_find(const weft__routes *routes, const char *method, const char *host,
                       const char *path, weft__route_match *match);

/*
 * Collect the methods of all routes that match host and path. GET includes HEAD. If path is NULL,
 * collect the methods of all routes.
 */
void weft__routes_methods(const weft__routes *routes, const char *host, const char *path,
                          weft__route_methods *methods);

#endif

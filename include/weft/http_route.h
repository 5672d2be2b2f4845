/*
 * Routes: which handler answers which method and path, and virtual hosts.
 *
 *     weft_http_router *routes = weft_http_router_new();
 *     weft_http_route(routes, "GET", "/users/{id}", show_user, NULL);
 *     weft_http_route(routes, NULL, "/{path...}", weft_http_serve_files, site);
 *     weft_http_serve(":8080", weft_http_serve_routes, routes, NULL);
 */
#ifndef WEFT_HTTP_ROUTE_H
#define WEFT_HTTP_ROUTE_H

#include <weft/http.h>

WEFT_BEGIN

/* Methods and paths, and who handles them. */
typedef struct weft_http_router weft_http_router;

/** A router without routes; NULL if there is no memory. */
WEFT_API weft_http_router *weft_http_router_new(void) WEFT_MUST_CHECK;

/** Free it. */
WEFT_API void weft_http_router_free(weft_http_router *router);

/**
 * Add a route. Method is "GET" or another, or NULL for all; GET serves HEAD as well. Pattern is a
 * path as weft_http_path has it: "/users/{id}/photos"; {name} is one segment that is not empty,
 * {name...} at its end all that is left, which may be nothing ("/a/{name...}" is found for "/a",
 * too). It may begin with a host: "example.org/", "*.example.org/a", which has one or more labels
 * before it. Of all routes that match host, path and method, what is more particular wins: a host
 * before none, a word before {name}, that before {name...}, a method before none, in that order
 * from left to right; the order in which routes are added makes no difference. At most 64 segments
 * and 16 names. Routes are added before the router serves.
 *
 * -EINVAL for a bad pattern, with words, -EEXIST for one that is there, -ENOMEM.
 */
WEFT_API int weft_http_route(weft_http_router *router, const char *method, const char *pattern,
                             weft_http_handler *handler, void *ctx);

/**
 * The handler that calls the route's; ctx is the weft_http_router, which several threads may serve
 * at once. -ENOENT, which becomes 404, if there is none for the path; 405 with Allow if there is
 * one, but not for the method; OPTIONS is answered with Allow.
 */
WEFT_SWITCHPOINT int weft_http_serve_routes(weft_http_request *request, void *router);

WEFT_END

#endif

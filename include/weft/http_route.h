/*
 * Router: select a handler by host, method and path.
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

/* A set of routes. */
typedef struct weft_http_router weft_http_router;

/**
 * Create a router without routes.
 *
 * Returns the router. On failure, returns NULL and records for weft_error():
 * -ENOMEM if memory is exhausted
 */
WEFT_API weft_http_router *weft_http_router_new(void) WEFT_MUST_CHECK;

/** Free a router. If router is NULL, the call does nothing. */
WEFT_API void weft_http_router_free(weft_http_router *router);

/**
 * Add a route.
 *
 * Add all routes before the router serves requests. method is a method such as "GET". If method is
 * NULL, the route serves all methods. A route for GET also serves HEAD.
 *
 * pattern is a path in the form of weft_http_path, for example "/users/{id}/photos". {name} matches
 * one segment that is not empty. {name...} must be the last segment of a pattern. {name...} matches
 * the rest of the path. The rest may be empty: "/a/{name...}" matches "/a". A pattern may start
 * with a host: "example.org/", "*.example.org/a". The asterisk matches one or more labels. A
 * pattern may have at most 64 segments and 16 names.
 *
 * If several routes match, the router selects the most specific route. The order of the calls does
 * not matter. These rules apply to the parts of a pattern from left to right:
 * - A host takes precedence over a wildcard, and a wildcard over no host.
 * - In each segment, a word takes precedence over {name}, and {name} over {name...}.
 * - A method takes precedence over NULL.
 *
 * Returns 0, or:
 * -EEXIST if the router already has this method and pattern
 * -EINVAL if handler is NULL
 * -EINVAL if method or pattern is invalid
 * -ENOMEM if memory is exhausted
 */
WEFT_API int weft_http_route(weft_http_router *router, const char *method, const char *pattern,
                             weft_http_handler *handler, void *ctx);

/**
 * Call the handler of the matching route.
 *
 * This function is a handler. router must be a weft_http_router. Several threads may serve a router
 * at once. If the path has routes, but no route for the method, the handler replies with an Allow
 * header. The status is 204 for OPTIONS, and 405 for other methods.
 *
 * Returns the result of the route's handler, or:
 * -ENOENT if the path has no route
 * -ENOMEM if memory is exhausted
 */
WEFT_SWITCHPOINT int weft_http_serve_routes(weft_http_request *request, void *router);

WEFT_END

#endif

/*
 * The router as a handler. The handler binds parameters to the request, and replies if no route
 * matches.
 */
#include "http/router/route.h"
#include "http/server/server.h"

#include <weft/error.h>
#include <weft/http_route.h>

#include <stdio.h>
#include <stdlib.h>

struct weft_http_router {
    weft__routes routes;
};

weft_http_router *weft_http_router_new(void)
{
    weft_http_router *router = calloc(1, sizeof *router);
    if (router == NULL)
        weft_fail(-ENOMEM, "weft_http_router_new: memory is exhausted");
    return router;
}

void weft_http_router_free(weft_http_router *router)
{
    if (router == NULL)
        return;
    weft__routes_close(&router->routes);
    free(router);
}

int weft_http_route(weft_http_router *router, const char *method, const char *pattern,
                    weft_http_handler *handler, void *ctx)
{
    return weft__routes_add(&router->routes, method, pattern, handler, ctx);
}

/*
 * Set the route parameters of the request. The call uses a value at the end of the path without
 * copying. Other values need a NUL, so the call copies these values to the memory after the list.
 */
static int bind_params(weft_http_request *r, const weft__route_match *m)
{
    const weft__route *route = m->route;
    size_t count = route->names_count, bytes = count * sizeof(weft__param);
    r->params = NULL;
    r->rest = route->has_rest ? m->values[count - 1].at : NULL;
    for (size_t i = 0; i < count; i++)
        bytes += m->values[i].bytes + 1;
    weft__param *list = count > 0 ? weft_http_alloc(r, bytes) : NULL;
    if (list == NULL)
        return count > 0 ? -ENOMEM : 0;
    char *copy = (char *)(list + count);
    for (size_t i = 0; i < count; i++) {
        const char *at = m->values[i].at;
        size_t n = m->values[i].bytes;
        bool is_last = at[n] == '\0';
        list[i] = (weft__param){i + 1 < count ? &list[i + 1] : NULL, route->names[i],
                                is_last ? at : copy};
        if (!is_last)
            *(char *)mempcpy(copy, at, n) = '\0';
        copy += is_last ? 0 : n + 1;
    }
    r->params = list;
    return 0;
}

static bool request_has_method(const weft_http_request *request, const char *method)
{
    return strcmp(weft_http_method(request), method) == 0;
}

/* Reply with an Allow header. The status is 204 for OPTIONS, else 405. */
static int reply_with_methods(weft_http_request *request, weft__route_methods *methods)
{
    char allow[sizeof methods->text + sizeof ", OPTIONS"];
    bool has_options = strstr(methods->text, "OPTIONS") != NULL;
    const char *suffix = has_options ? "" : methods->bytes > 0 ? ", OPTIONS" : "OPTIONS";
    snprintf(allow, sizeof allow, "%s%s", methods->text, suffix);
    int rc = weft_http_set(request, "Allow", allow);
    if (rc < 0)
        return rc;
    if (request_has_method(request, "OPTIONS"))
        return weft_http_reply(request, 204, NULL, NULL, 0);
    return weft_http_reply_status(request, 405);
}

static int reply_unrouted(weft_http_request *request, const weft__routes *routes)
{
    weft__route_methods methods;
    const char *path = weft_http_path(request);
    /* The path "*" means the whole server. */
    bool is_path = path[0] == '/';
    weft__routes_methods(routes, weft_http_host(request), is_path ? path : NULL, &methods);
    if (is_path && methods.bytes == 0)
        return -ENOENT;
    return reply_with_methods(request, &methods);
}

int weft_http_serve_routes(weft_http_request *request, void *router)
{
    const weft__routes *routes = &((weft_http_router *)router)->routes;
    const char *path = weft_http_path(request);
    weft__route_match m;
    if (path[0] != '/' ||
        !weft__routes_find(routes, weft_http_method(request), weft_http_host(request), path, &m))
        return reply_unrouted(request, routes);
    int rc = bind_params(request, &m);
    return rc < 0 ? rc : m.route->handler(request, m.route->ctx);
}

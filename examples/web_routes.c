/* Routes, with parameters from the path, the query, a form and a cookie. */
#include <weft/web.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static char origin[64];

/* GET /users/{id}?greeting=Hello */
static int show_user(weft_http_request *r, void *ctx)
{
    (void)ctx;
    const char *greeting = weft_http_query_param(r, "greeting");
    return weft_http_reply_text(r, 200, "%s, %s\n", greeting != NULL ? greeting : "Hi",
                                weft_http_param(r, "id"));
}

/* POST /login with a form: set a cookie and redirect to /me. */
static int log_in(weft_http_request *r, void *ctx)
{
    (void)ctx;
    int error;
    const char *name = weft_http_form(r, "name", &error);
    if (name == NULL)
        return error < 0 ? error : -EINVAL; /* the error of the body, or 400 */
    weft_http_set_cookie(r, "name", name,
                         &(weft_http_cookie_options){.path = "/", .is_http_only = true});
    return weft_http_redirect(r, 303, "/me");
}

static int show_me(weft_http_request *r, void *ctx)
{
    (void)ctx;
    const char *name = weft_http_cookie(r, "name");
    return name != NULL ? weft_http_reply_text(r, 200, "You are %s\n", name)
                        : weft_http_reply_text(r, 401, "Not logged in\n");
}

static weft_http_router *make_routes(void)
{
    weft_http_router *routes = weft_http_router_new();
    if (routes == NULL || weft_http_route(routes, "GET", "/users/{id}", show_user, NULL) < 0 ||
        weft_http_route(routes, "POST", "/login", log_in, NULL) < 0 ||
        weft_http_route(routes, "GET", "/me", show_me, NULL) < 0)
        return NULL;
    return routes;
}

/* Listen on a free port. A real server calls weft_http_serve(":8080", ...) instead. */
static int listen_anywhere(void)
{
    struct sockaddr_in at;
    socklen_t bytes = sizeof at;
    int fd = weft_listen("tcp", "127.0.0.1:0");
    if (fd >= 0 && getsockname(fd, (struct sockaddr *)&at, &bytes) == 0)
        snprintf(origin, sizeof origin, "http://127.0.0.1:%d", ntohs(at.sin_port));
    return fd;
}

static weft_http_router *routes;

static weft_value serve(void *arg)
{
    return weft_http_serve_fd(*(int *)arg, weft_http_serve_routes, routes, NULL);
}

static void ask(const char *method, const char *path, const char *form, const char *cookie)
{
    char url[128], *body = "";
    snprintf(url, sizeof url, "%s%s", origin, path);
    const weft_fetch_field field = {"Cookie", cookie};
    weft_fetch *fetch = NULL;
    int status = weft_fetch_send(NULL,
                                 &(weft_fetch_request){
                                     .method = method,
                                     .url = url,
                                     .fields = &field,
                                     .fields_count = cookie != NULL,
                                     .type = "application/x-www-form-urlencoded",
                                     .body = form,
                                     .body_bytes = form != NULL ? strlen(form) : 0,
                                 },
                                 &fetch);
    if (status > 0)
        weft_fetch_read_all(fetch, &body);
    printf("%s %s: %d %s", method, path, status, body);
    weft_fetch_close(fetch);
}

int main(void)
{
    int listener = listen_anywhere();
    routes = make_routes();
    if (listener < 0 || routes == NULL)
        return 1;
    weft_fiber server = weft_spin(serve, &listener);
    ask("GET", "/users/42", NULL, NULL);
    ask("GET", "/users/J%C3%BCrgen?greeting=Good+morning", NULL, NULL);
    ask("POST", "/login", "name=ada", NULL); /* the redirect leads to /me, without a cookie */
    ask("GET", "/me", NULL, "name=ada");
    weft_terminate(server, 1.0);
    weft_http_router_free(routes);
}

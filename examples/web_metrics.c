/* A page of metrics for Prometheus, beside the page of the program. */
#include <weft/web.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static char origin[64];

static int hello(weft_http_request *r, void *ctx)
{
    (void)ctx;
    return weft_http_reply_text(r, 200, "Hello\n");
}

static weft_http_router *make_routes(void)
{
    weft_http_router *routes = weft_http_router_new();
    if (routes == NULL || weft_http_route(routes, "GET", "/", hello, NULL) < 0 ||
        weft_http_route(routes, "GET", "/metrics", weft_http_metrics, NULL) < 0)
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

/* Request a path. Print the lines of the reply that start with prefix. */
static void ask(const char *path, const char *prefix)
{
    char url[128], *body;
    snprintf(url, sizeof url, "%s%s", origin, path);
    weft_fetch *fetch = NULL;
    if (weft_fetch_get(NULL, url, &fetch) == 200 && weft_fetch_read_all(fetch, &body) > 0)
        for (char *line = strtok(body, "\n"); line != NULL; line = strtok(NULL, "\n"))
            if (strncmp(line, prefix, strlen(prefix)) == 0)
                puts(line);
    weft_fetch_close(fetch);
}

int main(void)
{
    int listener = listen_anywhere();
    routes = make_routes();
    if (listener < 0 || routes == NULL)
        return 1;
    weft_fiber server = weft_spin(serve, &listener);
    for (int i = 0; i < 3; i++)
        ask("/", "Hello");
    ask("/metrics", "weft_http_requests_total{protocol=\"http/1\"}");
    ask("/metrics", "# TYPE weft_wake_latency_seconds");

    /* The program itself can read the same counters. */
    weft_counters counters;
    weft_http_counters http;
    if (weft_stats_total(&counters) == 0 && weft_http_stats(&http) == 0)
        printf("%zu cord, %zu connection\n", counters.cords, http.connections);
    weft_terminate(server, 1.0);
    weft_http_router_free(routes);
}

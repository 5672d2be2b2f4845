/* A reverse proxy: pass requests on to another server, and stream the bodies. */
#include <weft/web.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char proxy[64], backend[64];

/* Called for each request that cannot be passed on. A real server would write a log. */
static void complain(weft_http_request *r, int error, const char *words, void *ctx)
{
    (void)error, (void)ctx;
    printf("%s %s: %s\n", weft_http_method(r), weft_http_target(r), words);
}

/* The backend: reply with the request's body, target and client address. */
static int say_back(weft_http_request *r, void *ctx)
{
    (void)ctx;
    const void *piece;
    ssize_t n, rc = 0;
    weft_http_set(r, "X-Client", weft_http_header(r, "X-Forwarded-For"));
    while (rc >= 0 && (n = weft_http_read_piece(r, &piece)) > 0)
        rc = weft_http_write(r, piece, (size_t)n);
    rc = rc < 0 ? rc : n < 0 ? n : weft_http_printf(r, "(%s)\n", weft_http_target(r));
    return rc < 0 ? (int)rc : 0;
}

/* Listen on a free port. A real server calls weft_http_serve(":8080", ...) instead. */
static int listen_anywhere(char *origin, size_t origin_bytes)
{
    struct sockaddr_in at;
    socklen_t bytes = sizeof at;
    int fd = weft_listen("tcp", "127.0.0.1:0");
    if (fd >= 0 && getsockname(fd, (struct sockaddr *)&at, &bytes) == 0)
        snprintf(origin, origin_bytes, "http://127.0.0.1:%d", ntohs(at.sin_port));
    return fd;
}

/* weft_http_serve_proxy handles fields, bodies in both directions, upgrades and timeouts. */
static weft_value serve_proxy(void *arg)
{
    weft_http_proxy *app =
        weft_http_proxy_new(backend, &(weft_http_proxy_options){.on_failure = complain});
    if (app == NULL)
        return weft_error()->code;
    int rc = weft_http_serve_fd(*(int *)arg, weft_http_serve_proxy, app, NULL);
    weft_http_proxy_free(app);
    return rc;
}

static weft_value serve_backend(void *arg)
{
    return weft_http_serve_fd(*(int *)arg, say_back, NULL, NULL);
}

static void get(const char *path, const char *body)
{
    char url[128], *text = "";
    const char *client = NULL;
    weft_fetch *fetch = NULL;
    snprintf(url, sizeof url, "%s%s", proxy, path);
    int status = body != NULL ? weft_fetch_post(NULL, url, "text/plain", body, strlen(body), &fetch)
                              : weft_fetch_get(NULL, url, &fetch);
    if (status > 0)
        weft_fetch_read_all(fetch, &text);
    if (status > 0)
        client = weft_fetch_header(fetch, "X-Client");
    printf("%d (client %s): %s", status, client != NULL ? client : "unknown", text);
    weft_fetch_close(fetch);
}

int main(void)
{
    int listener = listen_anywhere(proxy, sizeof proxy);
    int back_listener = listen_anywhere(backend, sizeof backend);
    if (listener < 0 || back_listener < 0)
        return 1;
    weft_spin(serve_proxy, &listener);
    weft_fiber behind = weft_spin(serve_backend, &back_listener);
    get("/a?b=c", NULL);
    get("/say", "a request body ");
    weft_terminate(behind, 5.0);
    close(back_listener);
    get("/say", "not delivered");
} /* both end with main */

/* The inspector: a page that shows the fibers of the program. */
#include <weft/web.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static char origin[64];

static weft_value wait_for_order(void *arg)
{
    (void)arg;
    return weft_receive();
}

/* Mount the inspector beside the other routes of the server. */
static weft_value serve(void *arg)
{
    weft_inspector *inspector = weft_inspector_new(NULL);
    weft_http_router *routes = weft_http_router_new();
    weft_http_route(routes, NULL, "/inspect/{path...}", weft_http_serve_inspector, inspector);
    weft_value rc = weft_http_serve_fd(*(int *)arg, weft_http_serve_routes, routes, NULL);
    weft_http_router_free(routes);
    weft_inspector_free(inspector);
    return rc;
}

/* A program without a server of its own runs this function in a cord. */
weft_value inspect_on_own_port(void *arg)
{
    (void)arg;
    return weft_inspect_serve("127.0.0.1:6060", NULL);
}

static int listen_anywhere(void)
{
    struct sockaddr_in at;
    socklen_t bytes = sizeof at;
    int fd = weft_listen("tcp", "127.0.0.1:0");
    if (fd >= 0 && getsockname(fd, (struct sockaddr *)&at, &bytes) == 0)
        snprintf(origin, sizeof origin, "http://127.0.0.1:%d", ntohs(at.sin_port));
    return fd;
}

/* Read the beginning of a reply, up to the end of its first line or event. */
static void look(const char *path, const char *wanted)
{
    char url[128];
    const void *piece;
    weft_fetch *fetch = NULL;
    snprintf(url, sizeof url, "%s%s", origin, path);
    int status = weft_fetch_get(NULL, url, &fetch);
    ssize_t bytes = status > 0 ? weft_fetch_read_piece(fetch, &piece) : 0;
    bool has_it = bytes > 0 && memmem(piece, (size_t)bytes, wanted, strlen(wanted)) != NULL;
    printf("%s: %d, %s\n", path, status, has_it ? wanted : "not found");
    weft_fetch_close(fetch);
}

int main(void)
{
    int listener = listen_anywhere();
    if (listener < 0)
        return 1;
    weft_spin(serve, &listener);
    weft_spin_with(wait_for_order, NULL, &(weft_spin_options){.name = "cook"});
    look("/inspect/", "<title>weft inspector</title>");
    look("/inspect/events?q=cook", "\"name\":\"cook\"");
    look("/inspect/events?q=cook", "\"wait\":\"a message\"");
}

/* A minimal web server. Main is its client. */
#include <weft/web.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

static char origin[64];

static int hello(weft_http_request *r, void *ctx)
{
    (void)ctx;
    return weft_http_reply_text(r, 200, "Hello, %s\n", weft_http_path(r) + 1);
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

static weft_value serve(void *arg)
{
    return weft_http_serve_fd(*(int *)arg, hello, NULL, NULL);
}

static void get(const char *path)
{
    char url[128], *body = "";
    weft_fetch *fetch = NULL;
    snprintf(url, sizeof url, "%s%s", origin, path);
    int status = weft_fetch_get(NULL, url, &fetch);
    if (status > 0)
        weft_fetch_read_all(fetch, &body);
    printf("GET %s: %d %s", path, status, body);
    weft_fetch_close(fetch);
}

int main(void)
{
    int listener = listen_anywhere();
    if (listener < 0)
        return 1;
    weft_spin(serve, &listener);
    get("/world");
    get("/a%20friend");
} /* the server ends with main */

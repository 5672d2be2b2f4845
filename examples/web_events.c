/* Server-sent events: a reply that continues while the page is open. */
#include <weft/web.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

static char origin[64];

/* Send events until the count ends or the client closes the connection. */
static int count_down(weft_http_request *r, void *ctx)
{
    (void)ctx;
    int rc = weft_http_events(r);
    for (int n = 3; rc == 0 && n > 0; n--) {
        char text[16];
        snprintf(text, sizeof text, "%d", n);
        rc = weft_http_event(r, "count", NULL, text);
        if (rc == 0)
            rc = weft_sleep(0.01);
    }
    return rc < 0 ? rc : weft_http_event(r, NULL, NULL, "lift-off");
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
    return weft_http_serve_fd(*(int *)arg, count_down, NULL, NULL);
}

int main(void)
{
    int listener = listen_anywhere();
    if (listener < 0)
        return 1;
    weft_spin(serve, &listener);
    weft_fetch *fetch = NULL;
    int status = weft_fetch_get(NULL, origin, &fetch);
    if (status < 0)
        return 1;
    printf("%d %s\n", status, weft_fetch_header(fetch, "Content-Type"));
    const void *piece;
    ssize_t n;
    while ((n = weft_fetch_read_piece(fetch, &piece)) > 0) /* each event as it arrives */
        printf("%.*s", (int)n, (const char *)piece);
    weft_fetch_close(fetch);
}

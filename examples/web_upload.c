/* A streamed request body, which may be larger than memory, up to a limit. */
#include <weft/web.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

static char origin[64];

/* Count the lines of the body, which may have up to 8 MiB. */
static int count_lines(weft_http_request *r, void *ctx)
{
    (void)ctx;
    weft_http_limit_body(r, 8 << 20);
    const void *piece;
    size_t lines = 0;
    ssize_t n;
    while ((n = weft_http_read_piece(r, &piece)) > 0)
        for (const char *at = piece; at < (const char *)piece + n; at++)
            lines += *at == '\n';
    if (n < 0)
        return (int)n; /* for -EMSGSIZE the server replies 413 */
    return weft_http_reply_text(r, 200, "%zu lines\n", lines);
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
    return weft_http_serve_fd(*(int *)arg, count_lines, NULL, NULL);
}

/* Send a body of unknown length, in chunks. */
static void send_lines(int count)
{
    weft_fetch *fetch = NULL;
    char *body = "";
    const weft_fetch_request request = {.url = origin, .type = "text/plain"};
    int rc = weft_fetch_open(NULL, &request, -1, &fetch);
    for (int i = 0; rc >= 0 && i < count; i++)
        rc = (int)weft_fetch_write(fetch, "a line of text\n", 15);
    int status = fetch != NULL ? weft_fetch_wait(fetch) : rc;
    if (status > 0)
        weft_fetch_read_all(fetch, &body);
    printf("%d lines sent: %d %s", count, status, body);
    weft_fetch_close(fetch);
}

int main(void)
{
    int listener = listen_anywhere();
    if (listener < 0)
        return 1;
    weft_spin(serve, &listener);
    send_lines(3);
    send_lines(100000);
    send_lines(1000000);
}

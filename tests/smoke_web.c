/*
 * A small program against libweft-web, in the common subset of C and C++. The build compiles it as
 * both languages and against installed packages. Details are tested elsewhere.
 */
#include <weft/web.h>

#include <stdio.h>
#include <string.h>

static int hello(weft_http_request *request, void *ctx)
{
    (void)ctx;
    return weft_http_reply_text(request, 200, "Hello, %s", weft_http_path(request) + 1);
}

static weft_value serve_conn(void *arg)
{
    return weft_http_serve_conn(*(int *)arg, hello, NULL, NULL);
}

/* Send one request over a socket pair. Return true if the reply has the expected body. */
static bool is_served(void)
{
    static const char request[] = "GET /web HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    char reply[512];
    int fd[2];
    if (weft_socketpair(fd) < 0)
        return false;
    weft_fiber server = weft_spin(serve_conn, &fd[1]);
    size_t bytes = 0;
    ssize_t n = weft_write(fd[0], request, sizeof request - 1);
    while (n > 0 && bytes < sizeof reply - 1) {
        n = weft_read(fd[0], reply + bytes, sizeof reply - 1 - bytes);
        bytes += n > 0 ? (size_t)n : 0;
    }
    reply[bytes] = '\0';
    weft_close(fd[0]);
    weft_await(server);
    return strncmp(reply, "HTTP/1.1 200", 12) == 0 && strstr(reply, "\r\n\r\nHello, web") != NULL;
}

int main(void)
{
    weft_url url;
    if (weft_url_open(&url, "https://example.org/a?b") < 0 || url.port != 443) {
        fprintf(stderr, "smoke_web.c: weft_url_open does not parse an https URL\n");
        return 1;
    }
    weft_url_close(&url);
    if (!is_served()) {
        fprintf(stderr, "smoke_web.c: the reply is not the expected one\n");
        return 1;
    }
    return 0;
}

/* The web client: fetch several pages at once, with a time limit. */
#include <weft/web.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

static char origin[64];

/* Reply after a delay: /50 takes 50 ms. */
static int be_slow(weft_http_request *r, void *ctx)
{
    (void)ctx;
    int rc = weft_sleep(atof(weft_http_path(r) + 1) / 1000);
    return rc < 0 ? rc : weft_http_reply_text(r, 200, "done\n");
}

/* Return the status of a page, or an error. */
static weft_value fetch(void *path)
{
    char url[96];
    weft_fetch *fetch = NULL;
    snprintf(url, sizeof url, "%s%s", origin, (const char *)path);
    int status = weft_fetch_get(NULL, url, &fetch);
    weft_fetch_close(fetch);
    return status;
}

/* Fetch all pages at once. After -ETIMEDOUT the remaining fetches are cancelled. */
static int fetch_all(char *const paths[], size_t n, double seconds, weft_value status[])
{
    weft_fiber fibers[8];
    int rc = 0, timed_out;
    WEFT_CANCEL_AFTER(seconds, timed_out) {
        for (size_t i = 0; i < n; i++)
            fibers[i] = weft_spin(fetch, paths[i]);
        rc = weft_await_all(fibers, n, status);
    }
    return timed_out < 0 ? timed_out : rc;
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

/* At exit, wait 0.1 s for handlers. The handler of the fetch that times out would take a minute. */
static weft_value serve(void *arg)
{
    const weft_http_options options = {.drain_s = 0.1};
    return weft_http_serve_fd(*(int *)arg, be_slow, NULL, &options);
}

int main(void)
{
    int listener = listen_anywhere();
    if (listener < 0)
        return 1;
    weft_spin(serve, &listener);

    weft_value status[3];
    char *quick[] = {"/30", "/20", "/10"}, *slow[] = {"/10", "/60000", "/20"};
    if (fetch_all(quick, 3, 30.0, status) == 0)
        printf("%d %d %d\n", (int)status[0], (int)status[1], (int)status[2]);
    int rc = fetch_all(slow, 3, 0.2, status);
    printf("%s\n", rc == -ETIMEDOUT ? "timed out" : "done");
}

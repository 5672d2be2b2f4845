/*
 * A web client: a redirect, a time limit, three pages at once, and a streamed upload. The server is
 * a fiber of the same program.
 */
#include <weft/web.h>

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static char base[64]; /* scheme, host and port of the server */
static weft_fetcher *fetcher;

/* Reply with the body in upper case, part by part. */
static int shout(weft_http_request *r)
{
    char data[16];
    ssize_t n;
    while ((n = weft_http_read(r, data, sizeof data)) > 0) {
        for (ssize_t i = 0; i < n; i++)
            data[i] = (char)toupper((unsigned char)data[i]);
        weft_http_write(r, data, (size_t)n);
    }
    return (int)n;
}

static int handle(weft_http_request *r, void *ctx)
{
    (void)ctx;
    const char *path = weft_http_path(r);
    if (strcmp(path, "/old") == 0)
        return weft_http_redirect(r, 301, "/new");
    if (strcmp(path, "/shout") == 0)
        return shout(r);
    if (strcmp(path, "/never") == 0)
        return weft_sleep(INFINITY);
    return weft_http_reply_text(r, 200, "this is %s", path);
}

/* Serve until cancelled. Wait at most 10 ms for handlers. */
static weft_value serve(void *arg)
{
    return weft_http_serve_fd(*(int *)arg, handle, NULL, &(weft_http_options){.drain_s = 0.01});
}

static int get(const char *path)
{
    char url[128], *text;
    snprintf(url, sizeof url, "%s%s", base, path);
    weft_fetch *f;
    int status = weft_fetch_get(fetcher, url, &f);
    if (status >= 0 && weft_fetch_read_all(f, &text) >= 0)
        printf("%s: %d, %s\n", path, status, text);
    weft_fetch_close(f);
    return status;
}

/* Return the length of a page in bytes. */
static weft_value measure(void *arg)
{
    char url[128], *text;
    snprintf(url, sizeof url, "%s%s", base, (const char *)arg);
    weft_fetch *f;
    weft_value n = weft_fetch_get(fetcher, url, &f);
    if (n >= 0)
        n = weft_fetch_read_all(f, &text);
    weft_fetch_close(f);
    return n;
}

static int upload(void)
{
    char url[128], data[64];
    snprintf(url, sizeof url, "%s/shout", base);
    weft_fetch *f;
    int rc = weft_fetch_open(fetcher, &(weft_fetch_request){.url = url}, -1, &f);
    if (rc < 0)
        return rc;
    weft_fetch_write(f, "warp ", 5);
    weft_fetch_write(f, "and weft", 8);
    rc = weft_fetch_wait(f);
    ssize_t n;
    while (rc > 0 && (n = weft_fetch_read(f, data, sizeof data)) > 0)
        printf("%.*s", (int)n, data);
    puts("");
    weft_fetch_close(f);
    return rc;
}

int main(void)
{
    int listener = weft_listen("tcp", "127.0.0.1:0"); /* any free port */
    struct sockaddr_in at = {0};
    socklen_t bytes = sizeof at;
    if (listener < 0 || getsockname(listener, (struct sockaddr *)&at, &bytes) < 0)
        return 1;
    snprintf(base, sizeof base, "http://127.0.0.1:%d", ntohs(at.sin_port));
    fetcher = weft_fetcher_new(&(weft_fetcher_options){.has_no_proxy = true});
    weft_fiber server = weft_spin(serve, &listener);

    get("/old");
    int rc = 0;
    WEFT_CANCEL_AFTER(0.1, rc)
        get("/never");
    puts(rc == -ETIMEDOUT ? "/never: timed out" : "/never: not timed out");
    weft_fiber three[] = {weft_spin(measure, "/one"), weft_spin(measure, "/twelve"),
                          weft_spin(measure, "/hundred")};
    weft_value lengths[3];
    weft_await_all(three, 3, lengths);
    printf("%d, %d and %d bytes\n", (int)lengths[0], (int)lengths[1], (int)lengths[2]);
    upload();
    weft_fetcher_free(fetcher);
    weft_cancel(server);
    weft_await(server);
}

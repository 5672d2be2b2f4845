/* A reverse proxy: what comes in goes on to another server, bodies piece by piece. */
#include <weft.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static char proxy[64], backend[64];
static weft_fetcher *fetcher; /* all fibers of a thread may share it; of all cords, one each */

/* Fields that are about the connection, or that each side says for itself. */
static bool is_of_the_connection(const char *name)
{
    static const char *const names[] = {
        "Connection", "Content-Length",    "Date",    "Expect",         "Host", "Keep-Alive", "TE",
        "Trailer",    "Transfer-Encoding", "Upgrade", "X-Forwarded-For"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Asks the backend: its status, or an error. *fetch, unless it is NULL, is to be closed. */
static int ask(weft_http_request *r, weft_fetch **fetch)
{
    char url[8300];
    const char *name, *value;
    weft_fetch_field fields[101]; /* a request has 100 at most */
    weft_fetch_request ask = {.method = weft_http_method(r), .url = url, .fields = fields};
    for (size_t i = 0; weft_http_header_at(r, i, &name, &value) == 0; i++)
        if (!is_of_the_connection(name))
            fields[ask.fields_count++] = (weft_fetch_field){name, value};
    fields[ask.fields_count++] = (weft_fetch_field){"X-Forwarded-For", weft_http_peer(r)};
    snprintf(url, sizeof url, "%s%s", backend, weft_http_target(r));
    if (weft_http_length(r) == 0)
        return weft_fetch_send(fetcher, &ask, fetch); /* can be repeated, if need be */

    const void *piece;
    ssize_t n, rc = weft_fetch_open(fetcher, &ask, weft_http_length(r), fetch);
    if (rc < 0)
        return (int)rc;
    while ((n = weft_http_read_piece(r, &piece)) > 0)
        if (weft_fetch_write(*fetch, piece, (size_t)n) < 0)
            break; /* it has answered already, or is gone: wait tells */
    return n < 0 ? (int)n : weft_fetch_wait(*fetch);
}

/* Its answer, as it comes: each piece goes out before the next one is waited for. */
static int pass_on(weft_http_request *r, weft_fetch *fetch)
{
    const char *name, *value;
    for (size_t i = 0; weft_fetch_header_at(fetch, i, &name, &value) == 0; i++)
        if (!is_of_the_connection(name))
            weft_http_add(r, name, value);
    const void *piece;
    ssize_t n, rc = weft_http_begin(r, weft_fetch_status(fetch), weft_fetch_length(fetch));
    while (rc >= 0 && (n = weft_fetch_read_piece(fetch, &piece)) != 0) {
        rc = n < 0 ? n : weft_http_write(r, piece, (size_t)n);
        if (rc >= 0)
            rc = weft_http_flush(r);
    }
    return rc < 0 ? (int)rc : 0; /* an error now cuts the connection: nobody takes half for all */
}

static int forward(weft_http_request *r, void *ctx)
{
    (void)ctx;
    weft_fetch *fetch = NULL;
    if (weft_http_target(r)[0] != '/')
        return -EINVAL;                  /* a whole URL, or the * of OPTIONS */
    weft_http_limit_body(r, UINT64_MAX); /* the backend has its own */
    int status = ask(r, &fetch);
    int rc = status >= 0            ? pass_on(r, fetch)
             : status == -ECANCELED ? status
                                    : weft_http_reply_status(r, 502);
    weft_fetch_close(fetch);
    return rc;
}

/* The backend: says back what it is sent, and who is said to have sent it. */
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

/* At any free port; a server has one that people know, and calls weft_http_serve(":8080", ...). */
static int listen_anywhere(char *origin, size_t origin_bytes)
{
    struct sockaddr_in at;
    socklen_t bytes = sizeof at;
    int fd = weft_listen("tcp", "127.0.0.1:0");
    if (fd >= 0 && getsockname(fd, (struct sockaddr *)&at, &bytes) == 0)
        snprintf(origin, origin_bytes, "http://127.0.0.1:%d", ntohs(at.sin_port));
    return fd;
}

static weft_value serve_proxy(void *arg)
{
    return weft_http_serve_fd(*(int *)arg, forward, NULL, NULL);
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
    printf("%d for %s: %s", status, client != NULL ? client : "nobody", text);
    weft_fetch_close(fetch);
}

int main(void)
{
    int door = listen_anywhere(proxy, sizeof proxy);
    int back_door = listen_anywhere(backend, sizeof backend);
    fetcher = weft_fetcher_new(&(weft_fetcher_options){.redirects_max = -1,
                                                       .has_no_proxy = true,
                                                       .has_no_gzip = true,
                                                       .connections_per_origin_max = 256});
    if (door < 0 || back_door < 0 || fetcher == NULL)
        return 1;
    weft_spin(serve_proxy, &door);
    weft_fiber behind = weft_spin(serve_backend, &back_door);
    get("/a?b=c", NULL);
    get("/say", "words there and back ");
    weft_terminate(behind, 5.0);
    close(back_door);
    get("/say", "to nobody");
} /* both end with main */

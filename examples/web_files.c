/* A directory of files, a handler, and a log line for each request. */
#include <weft/web.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char origin[64];

static int show_time(weft_http_request *r, void *ctx)
{
    (void)ctx;
    return weft_http_reply_text(r, 200, "noon\n");
}

static void write_log(const weft_http_record *record, void *ctx)
{
    (void)ctx;
    printf("  %s %s: %d, %llu bytes\n", record->method, record->target, record->status,
           (unsigned long long)record->bytes);
}

/* The most specific route wins. show_time handles /time, and files has all other paths. */
static int serve_site(int listener, const char *folder)
{
    weft_http_files *files = weft_http_files_new(folder, NULL);
    weft_http_router *routes = weft_http_router_new();
    int rc = files != NULL && routes != NULL ? 0 : -1;
    if (rc == 0)
        rc = weft_http_route(routes, "GET", "/time", show_time, NULL);
    if (rc == 0)
        rc = weft_http_route(routes, NULL, "/{path...}", weft_http_serve_files, files);
    if (rc == 0)
        rc = weft_http_serve_fd(listener, weft_http_serve_routes, routes,
                                &(weft_http_options){.gzip_level = 5, .log = write_log});
    weft_http_router_free(routes);
    if (files != NULL)
        weft_http_files_free(files);
    return rc;
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

static char folder[] = "/tmp/weft-web-files-XXXXXX", page[64];

static weft_value serve(void *arg)
{
    return serve_site(*(int *)arg, folder);
}

static void get(const char *path)
{
    char url[128], *body = "";
    weft_fetch *fetch = NULL;
    snprintf(url, sizeof url, "%s%s", origin, path);
    int status = weft_fetch_get(NULL, url, &fetch);
    if (status == 200)
        weft_fetch_read_all(fetch, &body);
    weft_fetch_close(fetch);
}

int main(void)
{
    int listener = listen_anywhere();
    if (listener < 0 || mkdtemp(folder) == NULL)
        return 1;
    snprintf(page, sizeof page, "%s/index.html", folder);
    FILE *file = fopen(page, "w");
    fputs("<h1>Hello</h1>\n", file);
    fclose(file);
    weft_fiber server = weft_spin(serve, &listener);
    get("/");
    get("/time");
    get("/none");
    weft_terminate(server, 1.0);
    unlink(page);
    rmdir(folder);
}

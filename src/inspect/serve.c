/* The handler of the inspector, and its own server. */
#include "http/files/files.h"
#include "http/server/server.h"
#include "http/url/ip.h"
#include "inspect/inspect.h"

#include <weft/error.h>
#include <weft/io.h>
#include <weft/net.h>

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

/* The page loads nothing from elsewhere, and no text of the program can run as a script. */
static const char *const headers[][2] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cache-Control", "no-store"},
};

static int set_headers(weft_http_request *r)
{
    int rc = 0;
    for (size_t h = 0; rc == 0 && h < sizeof headers / sizeof headers[0]; h++)
        rc = weft_http_set(r, headers[h][0], headers[h][1]);
    return rc;
}

static int serve_page_file(weft_http_request *r, const char *name)
{
    for (size_t f = 0; f < weft__page_files_count; f++) {
        const weft__page_file *file = &weft__page_files[f];
        if (strcmp(file->name, name) == 0)
            return weft_http_reply(r, 200, file->type, file->bytes, file->count);
    }
    return -ENOENT;
}

/* Serve a part that changes nothing. */
static int serve_reading(weft_http_request *r, weft_inspector *i, const char *name)
{
    const char *method = weft_http_method(r);
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        weft_http_set(r, "Allow", "GET, HEAD");
        return weft_http_reply_status(r, 405);
    }
    if (strcmp(name, "events") == 0)
        return weft__serve_events(r, i);
    if (strcmp(name, "fiber") == 0)
        return weft__serve_fiber(r, i);
    if (name[0] == '\0' && r->path[strlen(r->path) - 1] != '/')
        return weft__redirect_to_dir(r); /* the links of the page are relative */
    return serve_page_file(r, name);
}

static int refuse(weft_http_request *r)
{
    return weft_http_reply_text(r, 403,
                                "The inspector does not serve this client or this host.\n"
                                "See allows_remote and hosts of weft_inspector_options.\n");
}

int weft_http_serve_inspector(weft_http_request *r, void *inspector)
{
    weft_inspector *i = inspector;
    const char *name = r->rest != NULL ? r->rest : r->path + strspn(r->path, "/");
    int rc = set_headers(r);
    if (rc < 0)
        return rc;
    if (!weft__access_is_allowed(r, i))
        return refuse(r);
    if (strcmp(name, "stop") == 0)
        return weft__serve_stop(r, i);
    if (strcmp(name, "dump") == 0)
        return weft__serve_dump(r, i);
    return serve_reading(r, i, name);
}

/* Return whether only this machine can reach a listener. */
static bool is_loopback(int listener)
{
    union {
        struct sockaddr any;
        struct sockaddr_storage all;
    } at = {0};
    socklen_t bytes = sizeof at;
    weft__ip ip;
    weft__cidr loopback4, loopback6;
    if (getsockname(listener, &at.any, &bytes) < 0)
        return false;
    if (at.any.sa_family == AF_UNIX)
        return true;
    return weft__ip_of(&ip, &at.any) && weft__cidr_read(&loopback4, "127.0.0.0/8", 11) &&
           weft__cidr_read(&loopback6, "::1", 3) &&
           (weft__cidr_covers(&loopback4, &ip) || weft__cidr_covers(&loopback6, &ip));
}

/* Listen. Check the address before the first connection is accepted. */
static int inspect_listen(const char *address, const weft_inspector *i)
{
    int listener = weft_listen(strchr(address, '/') != NULL ? "unix" : "tcp", address);
    if (listener < 0 || i->options.allows_remote || is_loopback(listener))
        return listener;
    weft_close(listener);
    return weft_fail(-EPERM, "weft_inspect_serve: %s is not a loopback address", address);
}

int weft_inspect_serve(const char *address, const weft_inspector_options *options)
{
    weft_inspector *i = weft_inspector_new(options);
    if (i == NULL)
        return weft_error()->code;
    int rc = inspect_listen(address, i);
    if (rc >= 0) {
        const weft_http_options http = {.drain_s = 0.1, .closes_listener = true};
        rc = weft_http_serve_fd(rc, weft_http_serve_inspector, i, &http);
    }
    weft_inspector_free(i);
    return rc;
}

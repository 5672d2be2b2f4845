/*
 * weft serve: serve the files of a directory over HTTP or HTTPS, on all CPUs. The main thread
 * serves no requests. The main thread handles signals and writes the access log.
 */
#include "command/serve.h"
#include "command/command.h"

#include "base/cpu.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GZIP_LEVEL 5
/* The maximum time of the shutdown after the drain. */
#define SHUTDOWN_EXTRA_S 5.0
/* Limits of the page of metrics: connections, and the time to finish replies at the end. */
#define METRICS_CONNECTIONS_MAX 64
#define METRICS_DRAIN_S 1.0

typedef struct server {
    serve_settings settings;
    serve_site site;
    serve_listener listener;
    serve_listener metrics; /* fd is -1 without --metrics */
    serve_log log;
    serve_watch watch;
    weft_http_router *metrics_routes; /* NULL: none */
    unsigned cords;
    atomic_uint numbered_cords;  /* cords that have a number */
    atomic_uint listening_cords; /* cords that listen */
} server;

void serve_print(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    weft__command_print("serve", format, args);
    va_end(args);
}

const char *serve_error_message(int code)
{
    const weft_error_info *error = weft_error();
    return error != NULL && error->code == code ? error->message : strerror(-code);
}

/* Print an error. Return EXIT_FAILURE. */
static int print_error(int code)
{
    serve_print("%s", serve_error_message(code));
    return EXIT_FAILURE;
}

/* Print where the server forwards requests to. */
static void print_proxy(FILE *out, const server *s, const serve_proxy_rule *rule)
{
    const char *slash = strrchr(s->listener.url, '/'); /* ends the URL, unless the socket is Unix */
    bool is_url = slash != NULL && slash[1] == '\0';
    if (rule->host[0] == '\0' && is_url)
        fprintf(out, "%.*s%s -> ", (int)(slash - s->listener.url), s->listener.url, rule->path);
    else
        fprintf(out, "%s%s -> ", rule->host, rule->path);
    fprintf(out, "%s%s\n", rule->unix_socket != NULL ? "unix:" : "",
            rule->unix_socket != NULL ? rule->unix_socket : rule->url);
}

/* Print the URL. The last cord that starts to listen calls this function. */
static void print_ready(const server *s)
{
    if (s->settings.is_quiet)
        return;
    if (s->settings.is_self_signed)
        serve_print("the certificate is self-signed; browsers show a warning");
    /* Keep stdout free for the access log. */
    const char *log = s->settings.access_log;
    FILE *out = log != NULL && strcmp(log, "-") == 0 ? stderr : stdout;
    fprintf(out, "%s -> %s (%u cord%s, %s)\n", s->listener.url,
            s->site.files[0] != NULL ? s->settings.dir : "proxy", s->cords,
            s->cords == 1 ? "" : "s", weft_backend_name());
    for (size_t i = 0; i < s->settings.proxies_count; i++)
        print_proxy(out, s, &s->settings.proxies[i]);
    if (s->settings.metrics != NULL)
        fprintf(out, "%s%s -> metrics\n", s->metrics.url, s->metrics.is_unix ? "" : "metrics");
    fflush(out);
}

static weft_http_options http_options_of(server *s, unsigned number)
{
    const serve_settings *settings = &s->settings;
    weft_http_options o = {
        .limits = settings->limits,
        .tls = s->site.tls,
        .server_name = "weft",
        .trusted_peers = settings->trusted_peers,
        .trusted_headers = settings->trusted_headers,
        .proxy_protocol_peers = settings->proxy_protocol_peers,
        .gzip_level = settings->has_no_gzip ? 0 : GZIP_LEVEL,
        .drain_s = settings->drain_s,
        .has_no_http2 = settings->has_no_http2,
        .closes_listener = true,
        .error_page = weft_http_reply_error_page,
        .error_page_ctx = s->site.error_pages,
    };
    if (settings->connections_max > 0)
        o.limits.connections_max = (settings->connections_max - 1) / s->cords + 1;
    if (settings->handshakes_max > 0)
        o.limits.handshakes_per_peer_s_max = (double)settings->handshakes_max / s->cords;
    if (s->log.path != NULL) {
        o.log = serve_log_add;
        o.log_ctx = &s->log.buffers[number];
    }
    return o;
}

/* The main fiber of a cord. */
static weft_value serve_in_cord(void *arg)
{
    server *s = arg;
    unsigned number = atomic_fetch_add(&s->numbered_cords, 1);
    int listener = serve_listener_for_cord(&s->listener, number);
    if (listener < 0)
        return weft_fail(listener, "cannot listen on %s: %s", s->listener.address,
                         strerror(-listener));
    if (atomic_fetch_add(&s->listening_cords, 1) + 1 == s->cords)
        print_ready(s);
    const weft_http_options options = http_options_of(s, number);
    return weft_http_serve_fd(listener, weft_http_serve_routes, s->site.routes, &options);
}

/*
 * Serve the page of metrics, in a fiber of the main thread. The page is therefore available even if
 * handlers stall all other threads. The listener is separate, because the page is not for the
 * clients of the site.
 */
static weft_value serve_metrics(void *arg)
{
    server *s = arg;
    const weft_http_options options = {.limits.connections_max = METRICS_CONNECTIONS_MAX,
                                       .drain_s = METRICS_DRAIN_S};
    (void)weft_http_serve_fd(s->metrics.fd, weft_http_serve_routes, s->metrics_routes, &options);
    return 0;
}

/* Start to serve the page of metrics, if it has a listener. Return 0 or an error. */
static int server_start_metrics(server *s)
{
    if (s->metrics.fd < 0)
        return 0;
    s->metrics_routes = weft_http_router_new();
    if (s->metrics_routes == NULL)
        return -ENOMEM;
    int rc = weft_http_route(s->metrics_routes, "GET", "/metrics", weft_http_metrics, NULL);
    return rc < 0 ? rc : weft_spin(serve_metrics, s) != 0 ? 0 : -ENOMEM;
}

/*
 * Handle SIGHUP. Open connections keep the old certificates, and requests in progress the old
 * directories. Return 0, because an error would end the server.
 */
static weft_value reload_server(void *arg)
{
    server *s = arg;
    if (s->log.path != NULL)
        serve_log_reopen(&s->log);
    if (s->site.tls != NULL)
        serve_watch_reload(&s->watch);
    int rc = serve_site_reopen(&s->site);
    if (rc < 0)
        serve_print("%s; the old directory remains in use", serve_error_message(rc));
    else if (!s->settings.is_quiet)
        serve_print("the directories were opened again");
    return 0;
}

static int server_watch(server *s)
{
    s->watch = (serve_watch){.settings = &s->settings, .tls = s->site.tls};
    return serve_watch_start(&s->watch);
}

/* Open everything in the main thread, to report errors before the first cord starts. */
static int server_open_all(server *s)
{
    s->listener.fd = s->metrics.fd = -1;
    int rc = serve_site_open(&s->site, &s->settings);
    if (rc == 0)
        rc = serve_listener_open(&s->listener, &s->settings);
    if (rc == 0)
        rc = serve_metrics_listener_open(&s->metrics, &s->settings);
    if (rc == 0)
        rc = serve_log_open(&s->log, s->settings.access_log, s->settings.log_format, s->cords);
    if (rc == 0)
        rc = server_watch(s);
    if (rc == 0)
        rc = weft_on_signal(SIGHUP, reload_server, s);
    if (rc == 0)
        rc = weft_shutdown_on_signals(s->settings.drain_s + SHUTDOWN_EXTRA_S);
    if (rc == 0)
        rc = server_start_metrics(s);
    return rc;
}

static void server_close_all(server *s)
{
    (void)weft_on_signal(SIGHUP, NULL, NULL);
    serve_log_close(&s->log);
    /* Wait for a reload in progress, because the reload uses the site. */
    WEFT_SHIELD(INFINITY)
        (void)weft_terminate_children(INFINITY);
    if (s->listener.fd >= 0 && s->listener.is_unix) {
        (void)unlink(s->settings.listen);
        (void)close(s->listener.fd);
    }
    if (s->metrics.fd >= 0 && s->metrics.is_unix)
        (void)unlink(s->settings.metrics);
    if (s->metrics.fd >= 0)
        (void)weft_close(s->metrics.fd);
    weft_http_router_free(s->metrics_routes);
    serve_site_close(&s->site);
}

static int run_server(server *s)
{
    s->cords = s->settings.cords > 0 ? s->settings.cords : weft__cpu_count();
    int status = EXIT_SUCCESS;
    int rc = server_open_all(s);
    if (rc == 0)
        rc = weft_serve_cords(s->cords, serve_in_cord, s);
    if (rc != -ECANCELED)
        status = print_error(rc);
    server_close_all(s);
    return status;
}

int weft__command_serve(int argc, char **argv)
{
    server *s = calloc(1, sizeof *s);
    if (s == NULL)
        return weft__option_memory_error();
    int status = serve_read_options(&s->settings, argc, argv);
    if (status == 0 && s->settings.wants_help)
        serve_print_help();
    else if (status == 0)
        status = run_server(s);
    serve_free_options(&s->settings);
    free(s);
    return status;
}

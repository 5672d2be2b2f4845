/*
 * weft serve: the files of a folder over HTTP or HTTPS, on all CPUs. The main thread serves nobody:
 * it hears the signals and writes the access log.
 */
#include "command/serve.h"
#include "command/command.h"

#include "base/cpu.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GZIP_LEVEL 5
/* How long it takes at most to end what the drain time has not ended. */
#define END_S 5.0

typedef struct server {
    serve_settings settings;
    serve_site site;
    serve_place place;
    serve_log log;
    unsigned cords;
    atomic_uint begun;     /* cords that have a number */
    atomic_uint listening; /* cords that can be called */
} server;

static const char *words_of(int code)
{
    const weft_error_info *why = weft_error();
    return why != NULL && why->code == code ? why->message : strerror(-code);
}

/* One line, with what is wrong. */
static int complain(int code)
{
    fprintf(stderr, "weft: serve: %s\n", words_of(code));
    return EXIT_FAILURE;
}

/* By the last cord that listens: from now on all of them can be called. */
static void announce(const server *s)
{
    if (s->settings.is_quiet)
        return;
    if (s->settings.is_self_signed)
        fprintf(stderr, "weft: the certificate is signed by itself: browsers will warn\n");
    /* Not among the lines of a log that goes to stdout. */
    const char *log = s->settings.access_log;
    FILE *out = log != NULL && strcmp(log, "-") == 0 ? stderr : stdout;
    fprintf(out, "%s -> %s (%u cord%s, %s)\n", s->place.url, s->settings.dir, s->cords,
            s->cords == 1 ? "" : "s", weft_backend_name());
    fflush(out);
}

static weft_http_options options_of(server *s, unsigned number)
{
    const serve_settings *settings = &s->settings;
    weft_http_options o = {
        .limits = settings->limits,
        .tls = s->site.tls,
        .server_name = "weft",
        .trusted_peers = settings->trusted_peers,
        .trusted_headers = settings->trusted_headers,
        .gzip_level = settings->has_no_gzip ? 0 : GZIP_LEVEL,
        .drain_s = settings->drain_s,
        .closes_listener = true,
    };
    if (settings->connections_max > 0)
        o.limits.connections_max = (settings->connections_max + s->cords - 1) / s->cords;
    if (settings->handshakes_max > 0)
        o.limits.handshakes_per_peer_s_max = (double)settings->handshakes_max / s->cords;
    if (s->log.path != NULL) {
        o.log = serve_log_add;
        o.log_ctx = &s->log.lanes[number];
    }
    return o;
}

/* The main fiber of a cord. */
static weft_value serve_in_cord(void *arg)
{
    server *s = arg;
    unsigned number = atomic_fetch_add(&s->begun, 1);
    int listener = serve_place_listen(&s->place, number);
    if (listener < 0)
        return weft_fail(listener, "cannot listen at %s: %s", s->place.address,
                         strerror(-listener));
    if (atomic_fetch_add(&s->listening, 1) + 1 == s->cords)
        announce(s);
    const weft_http_options options = options_of(s, number);
    return weft_http_serve_fd(listener, weft_http_serve_routes, s->site.routes, &options);
}

static void reload_certificates(const server *s)
{
    int rc = weft_tls_reload(s->site.tls);
    if (rc < 0)
        fprintf(stderr, "weft: serve: %s; the old certificate is kept\n", words_of(rc));
    else if (!s->settings.is_quiet)
        fprintf(stderr, "weft: serve: the certificates were read again\n");
}

/* At SIGHUP. Connections go on with what they have. An error would end the server. */
static weft_value reload(void *arg)
{
    server *s = arg;
    if (s->log.path != NULL)
        serve_log_reopen(&s->log);
    if (s->site.tls != NULL)
        reload_certificates(s);
    int rc = serve_site_reopen(&s->site);
    if (rc < 0)
        fprintf(stderr, "weft: serve: %s; the old folder is kept\n", words_of(rc));
    else if (!s->settings.is_quiet)
        fprintf(stderr, "weft: serve: the folders were opened again\n");
    return 0;
}

/* Everything that can be wrong is found before the first cord starts. */
static int open_all(server *s)
{
    s->place.fd = -1;
    int rc = serve_site_open(&s->site, &s->settings);
    if (rc == 0)
        rc = serve_place_open(&s->place, &s->settings);
    if (rc == 0)
        rc = serve_log_open(&s->log, s->settings.access_log, s->cords);
    if (rc == 0)
        rc = weft_on_signal(SIGHUP, reload, s);
    if (rc == 0)
        rc = weft_shutdown_on_signals(s->settings.drain_s + END_S);
    return rc;
}

static void close_all(server *s)
{
    (void)weft_on_signal(SIGHUP, NULL, NULL);
    serve_log_close(&s->log);
    WEFT_SHIELD(INFINITY)
        (void)weft_terminate_children(
            INFINITY); /* a reload under way has the site's certificates */
    if (s->place.fd >= 0 && s->place.is_unix) {
        (void)unlink(s->settings.listen);
        (void)close(s->place.fd);
    }
    serve_site_close(&s->site);
}

static int serve(server *s)
{
    s->cords = s->settings.cords > 0 ? s->settings.cords : weft__cpu_count();
    int status = EXIT_GOOD;
    int rc = open_all(s);
    if (rc == 0)
        rc = weft_serve_cords(s->cords, serve_in_cord, s);
    if (rc != -ECANCELED)
        status = complain(rc);
    close_all(s);
    return status;
}

int weft__command_serve(int argc, char **argv)
{
    server *s = calloc(1, sizeof *s);
    if (s == NULL)
        return weft__command_misused("serve: no memory");
    int status = serve_read_options(&s->settings, argc, argv);
    if (status == 0 && s->settings.wants_help)
        serve_print_help();
    else if (status == 0)
        status = serve(s);
    serve_free_options(&s->settings);
    free(s);
    return status;
}

/*
 * A demonstration: a web page with live parts. Each part is a few lines of plain
 * sequential C. All parts run in one thread.
 *
 * usage: demo [DIRECTORY OF THE PAGE]
 *        demo --compare fibers|threads COUNT
 */
#include "compare.h"

#include <weft/web.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CROWD_MAX 100000
#define ERRANDS 6
#define UPLOAD_BYTES_MAX ((uint64_t)1 << 30)
#define UPLOAD_BYTES_PER_S (32 * 1024 * 1024.0)

static char origin[64]; /* "http://127.0.0.1:8080" */

/*
 * News: server-sent events for all open pages. tell_all adds an event to the board and wakes the
 * fibers of the pages. Each fiber sends the event. Fibers switch only in blocking calls, so no lock
 * is needed.
 */

#define NEWS_KEPT 512

typedef struct news {
    char kind[8];
    char text[504];
} news;

static news board[NEWS_KEPT];
static size_t news_count; /* since the start; the last NEWS_KEPT are on the board */
static char pulse[128];   /* the server's counters */
static size_t pulse_count;
static weft_cond more;
static int pages;

__attribute__((format(printf, 2, 3))) static void tell_all(const char *kind, const char *format,
                                                           ...)
{
    news *item = &board[news_count++ % NEWS_KEPT];
    va_list args;
    va_start(args, format);
    snprintf(item->kind, sizeof item->kind, "%s", kind);
    vsnprintf(item->text, sizeof item->text, format, args);
    va_end(args);
    weft_cond_broadcast(&more);
}

static void one_less(int *count)
{
    --*count;
}

/* GET /news, one request for each open page. When the page is closed, weft_http_event fails. */
static int show_news(weft_http_request *r, void *ctx)
{
    (void)ctx;
    size_t next = news_count > NEWS_KEPT ? news_count - NEWS_KEPT : 0, pulses = 0;
    pages++;
    WEFT_DEFER(one_less, &pages);
    int rc = weft_http_events(r);
    while (rc == 0) {
        if (next < news_count) {
            news item = board[next++ % NEWS_KEPT]; /* copy: the board may change meanwhile */
            rc = weft_http_event(r, item.kind, NULL, item.text);
        } else if (pulses != pulse_count) {
            pulses = pulse_count;
            rc = weft_http_event(r, "pulse", NULL, pulse);
        } else {
            rc = weft_cond_wait(&more, NULL);
        }
    }
    return rc;
}

/* Update the pulse. Called once a second. */
static weft_value beat(void *arg)
{
    (void)arg;
    static uint64_t switches; /* at the last beat */
    weft_counters now;
    weft_stats(&now);
    snprintf(pulse, sizeof pulse, "%zu %zu %llu %ld %d", ++pulse_count, now.fibers,
             (unsigned long long)(now.switches - switches), resident_kib(), pages);
    switches = now.switches;
    weft_cond_broadcast(&more);
    return 0;
}

/*
 * Crowd: thousands of fibers that sleep most of the time. A request starts them in a group. When
 * the page is closed, the request leaves the block of the group, and the fibers end.
 */

static weft_value doze(void *arg)
{
    size_t *wakes = arg;
    for (;;) {
        int rc = weft_sleep(0.5 + drand48());
        if (rc < 0)
            return rc; /* cancelled */
        ++*wakes;
    }
}

static int watch_crowd(weft_http_request *r, weft_group *crowd, const size_t *wakes)
{
    char text[64];
    int rc = 0;
    while (rc == 0) {
        snprintf(text, sizeof text, "%zu %zu %ld", weft_group_count(crowd), *wakes, resident_kib());
        rc = weft_http_event(r, "crowd", NULL, text);
        if (rc == 0)
            rc = weft_sleep(0.2);
    }
    return rc;
}

/* GET /crowd?n=10000 */
static int show_crowd(weft_http_request *r, void *ctx)
{
    (void)ctx;
    const char *asked = weft_http_query_param(r, "n");
    long n = asked != NULL ? strtol(asked, NULL, 10) : 0;
    if (n < 1 || n > CROWD_MAX)
        return weft_http_reply_text(r, 400, "n must be 1 to %d\n", CROWD_MAX);
    size_t wakes = 0;
    int rc = weft_http_events(r), ended;
    WEFT_GROUP(crowd, ended) {
        for (long i = 0; rc == 0 && i < n; i++)
            if (weft_group_spin(&crowd, doze, &wakes) == 0)
                rc = -EAGAIN;
        if (rc == 0)
            rc = watch_crowd(r, &crowd, &wakes);
        weft_group_cancel(&crowd);
    }
    return rc;
}

/*
 * Comparison: the same crowd as fibers and as threads. Each kind runs in a process of its own.
 */

static int compare_kind(weft_http_request *r, char *kind, char *count)
{
    char *const argv[] = {"demo", "--compare", kind, count, NULL};
    const weft_process_options options = {.path = "/proc/self/exe"};
    char text[128];
    weft_output measured;
    int status = weft_run(argv, NULL, 0, &options, &measured);
    if (status < 0)
        return status;
    snprintf(text, sizeof text, "%s %.100s", kind, status == 0 ? measured.out : "0 0 0 0");
    weft_output_free(&measured);
    return weft_http_event(r, "compared", NULL, text);
}

/* GET /compare?n=10000 */
static int compare_kinds(weft_http_request *r, void *ctx)
{
    (void)ctx;
    const char *asked = weft_http_query_param(r, "n");
    long n = asked != NULL ? strtol(asked, NULL, 10) : 0;
    if (n < 1 || n > COMPARE_MAX)
        return weft_http_reply_text(r, 400, "n must be 1 to %d\n", COMPARE_MAX);
    char count[16];
    snprintf(count, sizeof count, "%ld", n);
    int rc = weft_http_events(r);
    if (rc == 0)
        rc = compare_kind(r, "fibers", count);
    if (rc == 0)
        rc = compare_kind(r, "threads", count);
    return rc == 0 ? weft_http_event(r, "end", NULL, "") : rc;
}

/*
 * Errands: the server fetches slow pages from itself, one after the other or all at once.
 */

/* GET /slow?ms=300 */
static int be_slow(weft_http_request *r, void *ctx)
{
    (void)ctx;
    const char *ms = weft_http_query_param(r, "ms");
    int rc = weft_sleep(ms != NULL ? (double)(strtoul(ms, NULL, 10) % 2000) / 1000 : 0);
    return rc < 0 ? rc : weft_http_reply_text(r, 200, "done\n");
}

typedef struct errand {
    weft_fiber boss;
    int number;
} errand;

static weft_value run_errand(void *arg)
{
    const errand *e = arg;
    char url[96];
    snprintf(url, sizeof url, "%s/slow?ms=%d", origin, 250 + 100 * e->number);
    weft_fetch *fetch = NULL;
    int status = weft_fetch_get(NULL, url, &fetch);
    weft_fetch_close(fetch);
    return status < 0 ? status : weft_tell(e->boss, e->number);
}

/* Wait for the end of an errand, and send an event: "number milliseconds". */
static int report_errand(weft_http_request *r, double begun)
{
    weft_value number = weft_receive();
    if (weft_is_error(number))
        return (int)number;
    char text[32];
    snprintf(text, sizeof text, "%d %.0f", (int)number, 1000 * (weft_now() - begun));
    return weft_http_event(r, "done", NULL, text);
}

/* GET /errands?how=together or ?how=in-turn */
static int run_errands(weft_http_request *r, void *ctx)
{
    (void)ctx;
    const char *how = weft_http_query_param(r, "how");
    bool is_together = how != NULL && strcmp(how, "together") == 0;
    errand errands[ERRANDS];
    double begun = weft_now();
    int rc = weft_http_events(r), failed;
    WEFT_GROUP(all, failed) {
        for (int i = 0; rc == 0 && i < ERRANDS; i++) {
            errands[i] = (errand){.boss = weft_self(), .number = i};
            weft_group_spin(&all, run_errand, &errands[i]);
            if (!is_together)
                rc = report_errand(r, begun);
        }
        for (int i = 0; rc == 0 && is_together && i < ERRANDS; i++)
            rc = report_errand(r, begun);
    }
    if (rc == 0 && failed == 0)
        rc = weft_http_event(r, "end", NULL, "");
    return rc < 0 ? rc : failed;
}

/*
 * Input of the page: uploads and drawings.
 */

/*
 * POST /upload?id=7. Read the body in parts, at a limited rate. The sender waits, and the memory of
 * the server does not grow.
 */
static int take_upload(weft_http_request *r, void *ctx)
{
    (void)ctx;
    const char *id = weft_http_query_param(r, "id");
    const void *piece;
    unsigned long long total = 0;
    double begun = weft_now(), told = begun;
    weft_http_limit_body(r, UPLOAD_BYTES_MAX);
    ssize_t n;
    while ((n = weft_http_read_piece(r, &piece)) > 0) {
        total += (unsigned long long)n;
        if (weft_now() - told > 0.1) {
            told = weft_now();
            tell_all("upload", "%.16s %llu %ld", id != NULL ? id : "", total, resident_kib());
        }
        double ahead = begun + (double)total / UPLOAD_BYTES_PER_S - weft_now();
        int rc = ahead > 0.005 ? weft_sleep(ahead) : 0;
        if (rc < 0)
            return rc;
    }
    return n < 0 ? (int)n : weft_http_reply_text(r, 200, "%llu\n", total);
}

/* POST /draw with a hue and points, "210 10 10 12 14 ...". An empty body wipes the picture. */
static int take_line(weft_http_request *r, void *ctx)
{
    (void)ctx;
    char *line;
    ssize_t n = weft_http_read_all(r, &line);
    if (n < 0)
        return (int)n;
    if ((size_t)n >= sizeof board->text || strspn(line, "0123456789 ") != (size_t)n)
        return -EINVAL;
    tell_all(n > 0 ? "drawn" : "wiped", "%s", line);
    return weft_http_reply_status(r, 204);
}

/*
 * The server.
 */

static weft_http_router *make_routes(weft_http_files *page)
{
    weft_http_router *routes = weft_http_router_new();
    if (routes == NULL || weft_http_route(routes, "GET", "/news", show_news, NULL) < 0 ||
        weft_http_route(routes, "GET", "/crowd", show_crowd, NULL) < 0 ||
        weft_http_route(routes, "GET", "/compare", compare_kinds, NULL) < 0 ||
        weft_http_route(routes, "GET", "/slow", be_slow, NULL) < 0 ||
        weft_http_route(routes, "GET", "/errands", run_errands, NULL) < 0 ||
        weft_http_route(routes, "POST", "/upload", take_upload, NULL) < 0 ||
        weft_http_route(routes, "POST", "/draw", take_line, NULL) < 0 ||
        weft_http_route(routes, "GET", "/{path...}", weft_http_serve_files, page) < 0)
        return NULL;
    return routes;
}

/* Listen on port 8080, or on any free port. */
static int listen_somewhere(void)
{
    struct sockaddr_in at;
    socklen_t bytes = sizeof at;
    int fd = weft_listen("tcp", "127.0.0.1:8080");
    if (fd < 0)
        fd = weft_listen("tcp", "127.0.0.1:0");
    if (fd >= 0 && getsockname(fd, (struct sockaddr *)&at, &bytes) == 0)
        snprintf(origin, sizeof origin, "http://127.0.0.1:%d", ntohs(at.sin_port));
    return fd;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--compare") == 0)
        return compare_main(argv[2], strtol(argv[3], NULL, 10));
    weft_http_files *page = weft_http_files_new(argc > 1 ? argv[1] : "examples/demo", NULL);
    weft_http_router *routes = page != NULL ? make_routes(page) : NULL;
    int listener = routes != NULL ? listen_somewhere() : -1;
    if (listener < 0 || weft_every(1.0, beat, NULL) == 0) {
        fprintf(stderr, "demo: %s\n", weft_error() != NULL ? weft_error()->message : "no memory");
        return 1;
    }
    weft_shutdown_on_signals(3.0);
    printf("Open %s/ in a browser, preferably in two windows. Press Ctrl-C to stop.\n", origin);
    fflush(stdout);
    const weft_http_options options = {.gzip_level = 5, .drain_s = 0.2, .closes_listener = true};
    return weft_http_serve_fd(listener, weft_http_serve_routes, routes, &options) != -ECANCELED;
}

#include "pages.h"

#include "house.h"
#include "text.h"
#include "user.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define EVENT_S 15.0 /* the longest time without an event */

/* The page loads nothing from elsewhere, and no text of a user can run as a script. */
static const char *const headers[][2] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cache-Control", "no-cache"},
};

static int serve_page(weft_http_request *r, void *files)
{
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        int rc = weft_http_set(r, headers[i][0], headers[i][1]);
        if (rc < 0)
            return rc;
    }
    return weft_http_serve_files(r, files);
}

/* GET /rooms */
static int list_rooms(weft_http_request *r, void *ctx)
{
    (void)ctx;
    json_writer w = {0};
    json_open(&w, '{');
    house_write_rooms(&w);
    json_close(&w, '}');
    json_line(&w);
    int rc = w.has_failed ? -ENOMEM : weft_http_reply(r, 200, "application/json", w.text, w.bytes);
    free(w.text);
    return rc;
}

static room *find_room(weft_http_request *r)
{
    const char *name = weft_http_param(r, "room");
    return name != NULL && text_is_room(name) ? house_room(name, false) : NULL;
}

/* Return the number after "since=", or 0. */
static uint64_t since_of(weft_http_request *r)
{
    const char *since = weft_http_query_param(r, "since");
    return since != NULL ? strtoull(since, NULL, 10) : 0;
}

/* GET /rooms/{room}/history?since=12: the messages after number 12, one JSON object per line */
static int show_history(weft_http_request *r, void *ctx)
{
    (void)ctx;
    const room *of = find_room(r);
    if (of == NULL)
        return -ENOENT;
    json_writer w = {0};
    uint64_t since = since_of(r), first = history_first(&of->history);
    if (since > of->history.last)
        since = of->history.last;
    for (uint64_t seq = since < first ? first : since + 1; seq <= of->history.last; seq++) {
        history_write(&w, history_at(&of->history, seq), "");
        json_line(&w);
    }
    int rc =
        w.has_failed ? -ENOMEM : weft_http_reply(r, 200, "application/x-ndjson", w.text, w.bytes);
    free(w.text);
    return rc;
}

/* Wait for a message. After EVENT_S, send an empty event, which fails if the client has left. */
static int wait_for_message(weft_http_request *r, room *of)
{
    int rc = 0, timed_out;
    WEFT_CANCEL_AFTER(EVENT_S, timed_out) {
        rc = weft_cond_wait(&of->has_message, NULL);
    }
    return timed_out < 0 ? weft_http_event(r, "idle", NULL, "") : rc;
}

/*
 * GET /rooms/{room}/events?since=12: the messages after number 12, and then each new message, as
 * server-sent events
 */
static int show_events(weft_http_request *r, void *ctx)
{
    (void)ctx;
    room *of = find_room(r);
    if (of == NULL)
        return -ENOENT;
    uint64_t seq = since_of(r);
    int rc = weft_http_events(r);
    while (rc == 0) {
        if (seq + 1 < history_first(&of->history))
            seq = history_first(&of->history) - 1;
        if (seq >= of->history.last) {
            rc = wait_for_message(r, of);
            continue;
        }
        json_writer w = {0};
        history_write(&w, history_at(&of->history, ++seq), "");
        rc = w.has_failed ? -ENOMEM : weft_http_event(r, NULL, NULL, w.text);
        free(w.text);
    }
    return rc;
}

int pages_open(pages *p, const char *dir)
{
    p->files = weft_http_files_new(dir, NULL);
    p->inspector = weft_inspector_new(&(weft_inspector_options){.title = "weft chat"});
    if (p->files != NULL && p->inspector != NULL)
        p->routes = weft_http_router_new();
    const struct {
        const char *pattern;
        weft_http_handler *handler;
    } routes[] = {
        {"/ws", user_serve},
        {"/rooms", list_rooms},
        {"/rooms/{room}/history", show_history},
        {"/rooms/{room}/events", show_events},
        {"/{path...}", serve_page},
    };
    int rc = p->routes != NULL ? 0 : weft_error()->code;
    for (size_t i = 0; rc == 0 && i < sizeof routes / sizeof routes[0]; i++)
        rc = weft_http_route(p->routes, "GET", routes[i].pattern, routes[i].handler, p->files);
    if (rc == 0)
        rc = weft_http_route(p->routes, "GET", "/inspect/{path...}", weft_http_serve_inspector,
                             p->inspector);
    return rc;
}

void pages_close(pages *p)
{
    weft_http_router_free(p->routes);
    weft_inspector_free(p->inspector);
    weft_http_files_free(p->files);
}

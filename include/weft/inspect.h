/*
 * The inspector: a web page that shows the fibers of the running program.
 *
 * The page shows the tree of fibers, the reasons of all waits, the CPU share of cords and fibers,
 * the stacks and the last minute. A click on a fiber shows its backtrace. The page needs no file
 * and no other server.
 *
 *     weft_inspector *inspector = weft_inspector_new(NULL);
 *     weft_http_route(routes, NULL, "/inspect/{path...}", weft_http_serve_inspector, inspector);
 *
 * A program without a server of its own runs weft_inspect_serve in a fiber, or in a cord of its
 * own. In a cord of its own, the page continues if all other cords are stalled.
 *
 * The page is read-only. With a token, viewers can also stop a fiber, and write a dump of a fiber
 * to stderr. The browser sends the token in the header Authorization of a POST request. The
 * inspector refuses such requests from pages of other origins.
 *
 * Names, functions, addresses and backtraces are visible to each client that gets the page. By
 * default, only clients on the same machine get the page. The inspector also refuses a Host header
 * with an unknown name. A page of another site can then not read the inspector through a DNS name
 * that refers to this machine.
 *
 * While at least one viewer is connected, the inspector takes a snapshot each second, less often if
 * snapshots would need more than 2 % of a core. All viewers share the snapshots. Without viewers,
 * the inspector needs no time.
 */
#ifndef WEFT_INSPECT_H
#define WEFT_INSPECT_H

#include <weft/http.h>

WEFT_BEGIN

/* An inspector. */
typedef struct weft_inspector weft_inspector;

/* Options of an inspector. All-zero is the default. weft copies all strings. */
typedef struct weft_inspector_options {
    const char *title; /* the title of the page; NULL: the name of the program */
    /*
     * The token for the actions stop and dump: 16 to 256 visible ASCII characters. NULL: these
     * actions do not exist.
     */
    const char *token;
    /*
     * Names that the Host header may have, separated by commas: "debug.example.org". "*" allows all
     * names. IP addresses and "localhost" are always allowed. NULL: no other names.
     */
    const char *hosts;
    bool allows_remote;     /* also serve clients on other machines; false: 403 */
    bool has_no_accounting; /* do not measure the CPU time of fibers while a viewer is connected */
    size_t viewers_max;     /* connected viewers; 0: 16; 503 for further viewers */
    double period_s;        /* time between two snapshots, at most 3600 s; 0: 1 s */
    double cpu_share_max;   /* share of a core for snapshots, 0 to 1; 0: 0.02 */
} weft_inspector_options;

/**
 * Create an inspector. If options is NULL, the defaults apply.
 *
 * Any number of threads may serve the inspector.
 *
 * Returns the inspector. On failure, returns NULL and records for weft_error():
 * -EINVAL if period_s or cpu_share_max is out of range
 * -EINVAL if token has an invalid length or character
 * -ENOMEM if memory is exhausted
 */
WEFT_API weft_inspector *weft_inspector_new(const weft_inspector_options *options) WEFT_MUST_CHECK;

/** Free an inspector. No request may be in progress. If inspector is NULL, do nothing. */
WEFT_API void weft_inspector_free(weft_inspector *inspector);

/**
 * Serve the page of an inspector.
 *
 * This function is a handler. inspector must be a weft_inspector. Use a route that ends in
 * {name...} and serves all methods. The value of that name selects the part of the page. In other
 * routes, the path of the request selects the part.
 *
 * The handler replies 403 to clients and hosts that the options do not allow. A program that allows
 * remote clients should check their passwords before it calls the handler.
 *
 * While a viewer is connected, weft_account is on in all cords where the program has not called it.
 * When the last viewer has left, the inspector turns weft_account off again in these cords.
 *
 * Returns 0, an error of weft_http_reply, weft_http_event, weft_snapshot_take or weft_offload, or:
 * -EBUSY if viewers_max viewers are connected
 * -EINVAL if the query is not valid
 * -ENOENT if the page has no such part
 * -ENOMEM if memory is exhausted
 */
WEFT_SWITCHPOINT int weft_http_serve_inspector(weft_http_request *request, void *inspector);

/**
 * Listen on an address, and serve an inspector until the call is cancelled.
 *
 * address is as in weft_http_serve, for example "127.0.0.1:6060". If options is NULL, the defaults
 * apply.
 *
 * Returns -ECANCELED after a cancellation. Errors in addition to those of weft_http_serve and
 * weft_inspector_new:
 * -EPERM if other machines can reach the address, and options does not allow remote clients
 */
WEFT_SWITCHPOINT int weft_inspect_serve(const char *address, const weft_inspector_options *options);

WEFT_END

#endif

/*
 * The internals of the reverse proxy. The proxy forwards requests of the HTTP server over
 * connections of the HTTP client. An exchange is one forwarded request with its response.
 *
 *     reverse_proxy.c  proxies, their options, the connections of each thread; the handler
 *     head.c           fields of the request to the upstream server, and of the reply
 *     exchange.c       one exchange: connection, heads, response
 *     upload.c         the upload fiber: sends the body, waits until the client disconnects
 *     tunnel.c         bytes in both directions after an upgrade
 *     hop_by_hop.c     fields that a proxy does not forward
 *     map.c            replace the prefix of a path, and map Location back
 *
 * The handler runs in the fiber of the client's connection. This fiber reads from the upstream
 * server and writes the reply. The upload fiber reads from the client and writes the body of the
 * request. At most one fiber at a time therefore uses each direction of each connection.
 *
 * If a request has no body, the proxy starts the upload fiber only after a longer wait for the
 * response. The upload fiber then detects that the client disconnects. The upload fiber ends before
 * the handler returns.
 */
#ifndef WEFT_HTTP_REVERSE_PROXY_REVERSE_PROXY_H
#define WEFT_HTTP_REVERSE_PROXY_REVERSE_PROXY_H

#include "base/list.h"
#include "http/client/fetch.h"
#include "http/server/server.h"
#include "http/text/strbuf.h"

#include <weft/fiber.h>
#include <weft/http_proxy.h>

#include <math.h>
#include <pthread.h>

struct weft_http_proxy {
    weft_http_proxy_options options; /* with the defaults filled in; via and upgrades are copies */
    char *origin;                    /* "http://app:3000" */
    const char *authority;           /* "app:3000"; points into origin */
    char *prefix; /* of paths, without a slash at the end: "/api"; NULL: do not replace paths */
    char *base;   /* replaces prefix: "/v1"; "" for the root */
    char *unix_socket; /* NULL: connect to the host of origin */
    char *via;
    char *upgrades;               /* protocols that clients may request; NULL: all except h2c */
    pthread_key_t thread_fetcher; /* the weft__thread_fetcher of the calling thread */
    pthread_mutex_t lock;         /* protects thread_fetchers */
    weft__list thread_fetchers;   /* of all threads */
};

/* A request that the proxy forwards. */
typedef struct weft__exchange {
    weft_http_request *r;
    const weft_http_proxy *proxy;
    weft_fetch *f;      /* the connection to the upstream server, and the response */
    bool is_upgrade;    /* the client requests another protocol, and the options allow it */
    const char *ws_key; /* of a WebSocket whose client speaks HTTP/2; NULL: none */

    /* Shared by the fiber of the handler and the upload fiber. */
    weft_scope scope;      /* open in the fiber of the handler; the upload fiber can cancel scope */
    weft_fiber upload;     /* 0: not started */
    weft_latch head_latch; /* 1 until the head is sent */
    weft_latch sent_latch; /* 1 until the whole request is sent */
    double sent_s;         /* when sent_latch became 0 */
    bool has_begun_body;   /* the upload fiber may have sent a byte of the body */
    bool has_sent_continue; /* the client has received 100 Continue */
    bool has_client_closed; /* the client has closed the connection */
    int failure;            /* the error for which the upload fiber cancelled scope; 0: none */
    const char *reason;     /* the message for the failure; NULL: none */
} weft__exchange;

static inline bool weft__exchange_is_sent(const weft__exchange *p)
{
    return weft_latch_count(&p->sent_latch) == 0;
}

/* reverse_proxy.c */

/*
 * Return the fetcher of the calling thread. Create the fetcher at the first call. Return NULL on
 * failure.
 */
weft_fetcher *weft__reverse_proxy_fetcher(weft_http_proxy *proxy);

/* head.c */

/* Append the head of the request to the upstream server. If memory is exhausted, set has_failed. */
void weft__reverse_proxy_request_head(weft__strbuf *w, const weft__exchange *p);

/* Append the trailers of the request to the upstream server. */
void weft__reverse_proxy_trailers(weft__strbuf *w, const weft_http_request *r);

/* Forward an interim response to the client. Return 0 or an error. */
int weft__reverse_proxy_interim(const weft__exchange *p, int status);

/*
 * Return whether the response accepts p->ws_key. Return true if there is no such key (RFC 6455,
 * 4.1).
 */
bool weft__reverse_proxy_accepts_key(const weft__exchange *p);

/* Add the fields of the response, and Via, to the reply. Return 0 or -ENOMEM. */
int weft__reverse_proxy_reply_fields(const weft__exchange *p);

/* Add the trailers of the response to the reply. Return 0 or -ENOMEM. */
int weft__reverse_proxy_reply_trailers(const weft__exchange *p);

/* Return whether Via of the request names this proxy. */
bool weft__reverse_proxy_is_loop(const weft__exchange *p);

/*
 * Return the value of Max-Forwards in an OPTIONS or TRACE request. Return -1 for other methods, or
 * if the request has no such field. Return -EINVAL if the value is malformed.
 */
long weft__reverse_proxy_hops(const weft_http_request *r);

/* map.c */

/*
 * Append a target in which base replaces prefix. target is the path and the query of the request as
 * received. If target has an unusual form, append the normalised path of the request instead. The
 * request therefore cannot leave base with "..". If the path does not start with prefix, append
 * target unchanged.
 */
void weft__reverse_proxy_map_target(weft__strbuf *w, const weft__exchange *p, const char *target);

/*
 * Return the Location of a response for the client, in which prefix replaces base. Return location
 * itself if it names another server or another path, or if memory is exhausted.
 */
const char *weft__reverse_proxy_map_location(const weft__exchange *p, const char *location);

/* exchange.c */

/*
 * Forward the request to the upstream server and the response to the client. Return 0. On failure,
 * return an error and set p->reason.
 */
int weft__exchange_run(weft__exchange *p);

/* Set p->reason, unless the upload fiber has failed first. Return error. */
int weft__exchange_fail(weft__exchange *p, int error, const char *reason);

/* upload.c */

/* Start the upload fiber. Return 0 or -ENOMEM. */
int weft__upload_start(weft__exchange *p);

/*
 * Cancel the upload fiber and wait until the fiber has ended. If the upload fiber has not started,
 * do nothing.
 */
void weft__upload_stop(weft__exchange *p);

/*
 * Write buffers to a stream and flush the stream. The call changes the array. Return 0 or an error.
 * Return -ETIMEDOUT if the stream accepts no byte for idle_s.
 */
int weft__reverse_proxy_write(weft_stream *s, struct iovec *iov, int count, double idle_s);

/* tunnel.c */

/*
 * Forward a 101 response, then copy bytes in both directions. Return 0. On failure, return an error
 * and set p->reason.
 */
int weft__tunnel_run(weft__exchange *p);

#endif

/*
 * The reverse proxy inside: it passes a request of the server on by a connection of the web client.
 *
 *     reverse_proxy.c   proxies, their options, the connections of each thread; the handler
 *     reverse_head.c    fields of the request to the upstream server, and of the reply
 *     reverse_pass.c    one exchange: connection, head, interim answers, answer
 *     reverse_upload.c  the request's body, in a fiber of its own; notices a client that is gone
 *     reverse_tunnel.c  bytes both ways once the protocol has changed
 *     hop.c             fields that concern one connection only
 *
 * The handler's fiber talks to the upstream server and writes the reply. The upload fiber reads the
 * client's connection and writes the request's body. Without a body it is spun only when the
 * upstream server lets the client wait, to notice that the client hangs up. So each direction of
 * each connection has one fiber at a time. The upload fiber ends before the handler returns.
 */
#ifndef WEFT_HTTP_REVERSE_H
#define WEFT_HTTP_REVERSE_H

#include "base/list.h"
#include "http/fetch.h"
#include "http/server.h"

#include <weft/fiber.h>
#include <weft/http_proxy.h>

#include <math.h>
#include <pthread.h>

struct weft_http_proxy {
    weft_http_proxy_options options; /* without zeros; via and upgrades are the proxy's own */
    char *origin;                    /* "http://app:3000" */
    const char *authority;           /* in it: "app:3000" */
    char *via;
    char *upgrades;       /* NULL: all except h2c */
    pthread_key_t pool;   /* the thread's weft__reverse_pool */
    pthread_mutex_t lock; /* of pools */
    weft__list pools;     /* of all threads */
};

/* A request that is passed on. */
typedef struct weft__pass {
    weft_http_request *r;
    const weft_http_proxy *proxy;
    weft_fetch *f;   /* the connection to the upstream server, and the answer */
    bool is_upgrade; /* the client asks for another protocol, and it is allowed */

    /* Between the two fibers. */
    weft_scope scope;    /* of the handler's fiber; the upload fiber cancels it */
    weft_fiber upload;   /* 0: it was not spun */
    weft_latch unopened; /* 1 until the head is sent and the body may follow */
    weft_latch unsent;   /* 1 until all of the request is sent */
    double sent_s;       /* when that was */
    bool has_begun;      /* to send the body */
    bool is_invited;     /* the client was told to send its body */
    bool is_gone;        /* the client has hung up */
    int failure;         /* why the upload fiber has cancelled the scope; 0: it has not */
    const char *words;   /* what failed */
} weft__pass;

static inline bool weft__pass_is_sent(const weft__pass *p)
{
    return weft_latch_count(&p->unsent) == 0;
}

/* reverse_proxy.c */

/* The calling thread's connections; NULL: no memory. */
weft_fetcher *weft__reverse_fetcher(weft_http_proxy *proxy);

/* reverse_head.c */

/* Write the head of the request to the upstream server; has_failed if there is no memory. */
void weft__reverse_request(weft__words *w, const weft__pass *p);

/* Write the trailers of the request, one line each. */
void weft__reverse_trailers(weft__words *w, const weft_http_request *r);

/* Write the fields of an interim answer, one line each. */
void weft__reverse_interim(weft__words *w, const weft_fetch *f);

/* Add the answer's fields, and Via, to the reply: 0 or -ENOMEM. */
int weft__reverse_fields(const weft__pass *p);

/* Add the answer's trailers to the reply: 0 or -ENOMEM. */
int weft__reverse_reply_trailers(const weft__pass *p);

/* Has the request come through this proxy before? */
bool weft__reverse_is_loop(const weft__pass *p);

/* Max-Forwards of an OPTIONS or TRACE; -1: none. -EINVAL if it is not a number. */
long weft__reverse_hops(const weft_http_request *r);

/* reverse_pass.c */

/* Pass the request on and its answer back: 0, or an error with p->words. */
int weft__pass_run(weft__pass *p);

/* Fail with words. */
int weft__pass_fail(weft__pass *p, int error, const char *words);

/* reverse_upload.c */

/* Spin the upload fiber: 0 or an error. */
int weft__upload_start(weft__pass *p);

/* End the upload fiber, and wait for its end. */
void weft__upload_stop(weft__pass *p);

/*
 * Write pieces to a stream and flush. -ETIMEDOUT if no byte moves for idle_s. The pieces are
 * changed.
 */
int weft__reverse_write(weft_stream *s, struct iovec *pieces, int count, double idle_s);

/* reverse_tunnel.c */

/* The answer is a 101: pass it on, and then bytes both ways. 0, or an error with p->words. */
int weft__tunnel_run(weft__pass *p);

/* hop.c */

/*
 * Is a field of a message passed on (RFC 9110, 7.6.1)? Not if it concerns the connection or frames
 * the message.
 */
bool weft__hop_is_passed(const weft__message *m, const char *head, const char *name);

/* The same for a trailer, except fields about the proxies on the way. */
bool weft__hop_is_passed_trailer(const weft__message *m, const char *head, const char *name);

#endif

/*
 * The internal types of the HTTP client, and the functions that its files share. A fetcher is a
 * client with its connections. A fetch is one request with its response. An exchange is one message
 * pair on a connection. A fetch with redirects or a retry has several exchanges.
 *
 *     fetch.c            one fetch: connection, retry, redirects; the public functions
 *     fetcher.c          fetchers, and the default fetcher of each thread
 *     request.c          check a request, list its fields
 *     response.c         read the body of a response
 *     h1_request.c       send a request of HTTP/1
 *     h1_response.c      read a response of HTTP/1
 *     response_repair.c  repair heads that the parser rejects
 *     h2_request.c       send a request of HTTP/2
 *     h2_response.c      read a response of HTTP/2
 *     h2_conn.c          connections of HTTP/2
 *     h2_none.c          the same without nghttp2
 *     origin.c           the servers of a fetcher
 *     conn_pool.c        connections and their reuse
 *     dial.c             open a connection
 *     proxy.c            proxies from the environment
 *     redirect.c         the URL of a request; redirects
 *     gzip.c             decompress a response
 *     basic_auth.c       credentials from a URL
 *     upgrade.c          a request that switches to another protocol
 */
#ifndef WEFT_HTTP_CLIENT_FETCH_H
#define WEFT_HTTP_CLIENT_FETCH_H

#include "base/list.h"
#include "http/h1/message.h"
#include "http/text/strbuf.h"

#include <weft/fetch.h>
#include <weft/stream.h>
#include <weft/sync.h>
#include <weft/url.h>

/* The sizes of the buffers of a connection. */
#define WEFT__FETCH_READ_BYTES ((size_t)16 << 10)
#define WEFT__FETCH_WRITE_BYTES ((size_t)8 << 10)

/* The maximum number of interim responses (1xx) before the final response. */
#define WEFT__FETCH_INTERIM_MAX 32
/*
 * The time limit of a wait for 100 Continue. RFC 9110, 10.1.1, advises against an indefinite wait.
 */
#define WEFT__FETCH_CONTINUE_S 1.0

typedef struct weft__fetch_conn weft__fetch_conn;
typedef struct weft__h2_conn weft__h2_conn;

/* The target of connections: one scheme, host, port and proxy. */
typedef struct weft__origin {
    weft__list node; /* in origins of the fetcher */
    weft__list idle; /* connections of HTTP/1, most recently used first */
    weft_sem slots;  /* free slots; a fetch with a connection of HTTP/1 holds one slot */
    size_t users;    /* fetches that have a connection or wait for one */
    /* The connection of HTTP/2 on which fetches open streams; NULL: none. */
    weft__fetch_conn *shared;
    weft_cond changed; /* signalled when shared, its streams or is_dialing change */
    size_t dials;      /* finished attempts to open a shared connection */
    int dial_result;   /* of the last attempt */
    bool is_dialing;   /* a fetch opens a connection; others wait for its protocol */
    bool is_http1;     /* the server has chosen HTTP/1 */
    char key[];
} weft__origin;

struct weft__fetch_conn {
    weft_fetcher *fetcher;
    weft__list node;      /* in idle of the origin */
    weft__list recent;    /* in idle of the fetcher, most recently used last */
    weft__origin *origin; /* HTTP/2: NULL if the connection is not shared any more */
    weft_stream stream;
    int fd; /* owned by the stream */
    bool is_tls;
    double idle_since;
    weft__h2_conn *h2; /* NULL: HTTP/1 */
    weft__list all;    /* HTTP/2: in h2_conns of the fetcher */
    size_t users;      /* HTTP/2: fetches with a stream */
    bool is_freeing;   /* weft__conn_free was called */
};

struct weft_fetcher {
    weft_fetcher_options options; /* with the defaults filled in */
    /* created for the first https URL; NULL: none yet, or options.tls is used */
    weft_tls *own_tls;
    char *user_agent;
    char *unix_socket; /* NULL: connect to the host of a URL */
    weft__message_limits limits;
    weft__list origins;
    weft__list idle;
    size_t idle_count;
    weft__list h2_conns;  /* all connections of HTTP/2, also those that are not shared any more */
    weft_cond conn_freed; /* a connection of HTTP/2 has been freed */
    size_t open_count;    /* open fetches */
    pid_t pid;            /* the process that opened the connections */
    bool is_closing;
};

/*
 * A protocol. The functions work on a fetch with a connection. They return 0 or an error, unless
 * the comment says otherwise.
 */
typedef struct weft__fetch_codec {
    /* Send the head of the request. Send the body too, unless the body is streamed. */
    int (*send)(weft_fetch *f);
    /*
     * Send bytes of a streamed body. Returns bytes, or -EPIPE if a response has arrived or the
     * connection has ended.
     */
    ssize_t (*write)(weft_fetch *f, const char *data, size_t bytes);
    /* Send the end of a streamed body. */
    int (*end)(weft_fetch *f);
    /*
     * Wait for the head of the final response, and fill in response and head of the fetch. Returns
     * the status.
     */
    int (*read_head)(weft_fetch *f);
    /* See weft__fetch_response_next. */
    ssize_t (*next)(weft_fetch *f, const char **piece);
    /* See weft__conn_pool_release. */
    void (*release)(weft_fetch *f, bool is_reusable);
} weft__fetch_codec;

extern const weft__fetch_codec weft__fetch_h1;
extern const weft__fetch_codec weft__fetch_h2;

/* The proxy of a request. */
typedef struct weft__proxy {
    bool is_used;
    weft_url url; /* open only if is_used */
} weft__proxy;

typedef enum weft__fetch_state {
    WEFT__FETCH_NEW,
    WEFT__FETCH_SENDING, /* the head is sent; weft_fetch_write sends the body */
    WEFT__FETCH_READING, /* the response's head has arrived */
    WEFT__FETCH_DONE,    /* the response is complete; conn is NULL */
    WEFT__FETCH_FAILED,  /* the request has failed; conn is NULL */
} weft__fetch_state;

typedef struct weft__inflate weft__inflate;

struct weft_fetch {
    weft_fetcher *fetcher;
    weft__fetch_state state;
    int failure; /* the error of WEFT__FETCH_FAILED */

    /* The request. */
    weft_fetch_request request; /* the request of the caller during weft_fetch_send; later a copy */
    void *request_memory;       /* the memory of the copy; NULL: none */
    char method[32];
    weft_url url;
    char *url_text;
    char *authorization; /* "Basic ...", from the user in the URL; NULL: none */
    weft__proxy proxy;
    int redirects;
    bool is_streamed;     /* weft_fetch_write sends the body */
    bool has_body;        /* the request has a body; a redirect to GET clears has_body */
    bool is_cross_origin; /* a redirect led to another origin */
    bool decodes_gzip;    /* the client itself sends Accept-Encoding */
    bool wants_close;     /* the caller has set "Connection: close" */
    const char *upgrade;  /* the protocol of an Upgrade field; NULL: none */
    int64_t out_length;   /* length of the body; -1: chunked */
    int64_t out_left;     /* unsent bytes of a known length */
    bool is_ended;        /* the end of the body is written */

    /* The connection. */
    weft__origin *origin;           /* the fetch is a user of origin; NULL: none */
    bool has_slot;                  /* the fetch holds a slot of origin */
    const weft__fetch_codec *codec; /* of the last connection */
    weft__fetch_conn *conn;         /* HTTP/1; NULL: none */
    struct weft__h2_fetch *h2;      /* HTTP/2; NULL: the fetch has not used HTTP/2 */
    bool needs_http1;               /* the server has refused HTTP/2 for this request */
    bool is_refused;                /* the server has refused the request itself */
    bool is_unprocessed;            /* the server has not processed the request, and reports this */
    bool is_reused;                 /* the connection has carried an earlier request */
    bool is_unsent;                 /* the server cannot have received any byte of the request */
    bool has_input;                 /* a byte of the response has arrived */
    bool must_close;                /* the request is incomplete; the connection is not reusable */

    /* The response. HTTP/2 fills in the same fields of response. */
    weft__message response;
    char *head;        /* NUL-terminated names and values; NULL: none */
    bool has_response; /* head is complete */
    int64_t in_bytes;  /* received bytes of the body, before decompression */
    size_t taken;      /* bytes of the stream to skip before the next piece */
    const char *piece; /* unread bytes of the last piece, for weft_fetch_read */
    size_t piece_bytes;
    weft__inflate *inflate; /* NULL: the body is not decompressed */
    char *body;             /* the bytes that weft_fetch_read_all has read */
    size_t body_bytes;
    size_t body_capacity;
};

/* fetcher.c */

/*
 * Return the default fetcher of the calling thread. Create the fetcher at the first call. Return
 * NULL on failure.
 */
weft_fetcher *weft__fetcher_of_thread(void);

/*
 * Free the fetcher of an exiting thread. The cord of the thread has already ended. If fetches are
 * open, do not free the fetcher.
 */
void weft__fetcher_on_thread_exit(weft_fetcher *fetcher);

/* fetch.c */

/*
 * Create a fetch for an exchange that the caller runs itself. The fetch uses request only during
 * this call. Return 0 or an error.
 */
int weft__fetch_make(weft_fetcher *fetcher, const weft_fetch_request *request, weft_fetch **fetch);

/* Return whether a client may send a request with this method twice (RFC 9110, 9.2.2). */
bool weft__method_is_idempotent(const char *method);

/* Report a step of a fetch to the callback of the fetcher, if it has one. */
static inline void weft__fetch_trace(weft_fetch *f, weft_fetch_event event, const char *text)
{
    const weft_fetcher_options *o = &f->fetcher->options;
    if (o->trace != NULL)
        o->trace(f, event, text, o->trace_ctx);
}

/* Set the state of a fetch to failed, and close its connection. Return error. */
int weft__fetch_fail(weft_fetch *f, int error);

/* request.c */

/*
 * Check a request. Return 0, or:
 *
 * - -EINVAL if a part of the request is invalid
 * - -EPERM if a field is reserved for the client
 */
int weft__fetch_request_check(const weft_fetch_request *request);
bool weft__fetch_is_field_value(const char *text);
const char *weft__fetch_request_field(const weft_fetch_request *request, const char *name);

/* Copy the request, for use after the public call has returned. Return 0 or -ENOMEM. */
int weft__fetch_request_copy(weft_fetch *f);

/* Append the host of a URL, and its port unless the port is the default. */
void weft__fetch_add_authority(weft__strbuf *w, const weft_url *url);

/*
 * Return whether the client sends the request to a proxy, with the URL in absolute-form. The client
 * sends a request for https, or for another protocol, through a tunnel instead.
 */
bool weft__fetch_uses_http_proxy(const weft_fetch *f);

/* Return the Host field of the caller, or NULL. */
const char *weft__fetch_host_field(const weft_fetch *f);

typedef void weft__fetch_add_field(void *ctx, const char *name, const char *value);

/*
 * List the fields of the request in their order. Omit a Host field that is not the caller's. The
 * list has Transfer-Encoding, which only HTTP/1 sends.
 */
void weft__fetch_list_fields(const weft_fetch *f, weft__fetch_add_field *add, void *ctx);

/* Return whether the request has the field "Expect: 100-continue". */
bool weft__fetch_expects_continue(const weft_fetch *f);

/* basic_auth.c */

/*
 * Return "Basic " and the base64 code of user:password. user is the user of a URL. Return NULL if
 * memory is exhausted or an escape in user is malformed. The caller frees the text.
 */
char *weft__basic_auth_new(const char *user);

/* h1_response.c */

/*
 * Read one head of any status and remove the head from the stream. Set *has_input when a byte
 * arrives. The caller frees *head. Return the status, or an error.
 */
int weft__fetch_response_take_head(weft_stream *stream, weft__message *m, char **head,
                                   bool *has_input);

/*
 * Like weft__fetch_response_take_head, but skip interim heads. Return -EBADMSG for 101 without a
 * switch that m->is_to_upgrade allows.
 */
int weft__fetch_response_read_head(weft_stream *stream, weft__message *m, char **head,
                                   bool *has_input);

/*
 * Read one head. Return:
 *
 * - 0 if the response is interim
 * - -EPIPE if the response is final
 * - another error if the call cannot read the head
 */
int weft__h1_response_interim(weft_fetch *f);

/* Discard a head. */
void weft__h1_response_discard(weft__message *m, char **head);

/* Functions of weft__fetch_h1. */
int weft__h1_response_await(weft_fetch *f);
ssize_t weft__h1_response_next(weft_fetch *f, const char **piece);

/* response.c */

/* Wait for the head of the final response. Return the status, or an error. */
int weft__fetch_response_await(weft_fetch *f);

/* Discard the response before the next exchange. */
void weft__fetch_response_reset(weft_fetch *f);

/*
 * Read the next piece of the body, before decompression. Return its length, or 0 at the end of the
 * body. *piece is valid until the next call. The fetch keeps the connection, even at the end of the
 * body or after an error.
 */
ssize_t weft__fetch_response_next(weft_fetch *f, const char **piece);

/*
 * Like weft__fetch_response_next, but release the connection at the end of the body. Close the
 * connection after an error other than -ECANCELED.
 */
ssize_t weft__fetch_response_raw(weft_fetch *f, const char **piece);

/* Like weft__fetch_response_raw, but decompress the body. */
ssize_t weft__fetch_response_piece(weft_fetch *f, const char **piece);

/*
 * Read and discard the rest of the body, if the rest is short. Stop after a short time. Return
 * whether the body is complete.
 */
bool weft__fetch_response_drain(weft_fetch *f);

/* response_repair.c */

/*
 * The parser has rejected a head. Return whether the received part of the head has a line to
 * repair.
 */
bool weft__head_is_repairable(const char *head, size_t bytes);

/* Repair a complete head in place. Return the new length of the head, or -EBADMSG. */
ssize_t weft__head_repair(char *head, size_t bytes);

/* origin.c */

/*
 * Make f a user of its origin. Create the origin if necessary. Return 0 or -ENOMEM.
 */
int weft__origin_enter(weft_fetch *f);

/* Release the slot of f, if it has one. */
void weft__origin_release_slot(weft_fetch *f);

/* Release the slot of f. f is no longer a user of its origin. */
void weft__origin_leave(weft_fetch *f);

/* Free an origin without users and connections. */
void weft__origin_free_if_unused(weft__origin *origin);

/* Return whether f may use a shared connection. The origin may still choose HTTP/1.1 by ALPN. */
bool weft__origin_may_share(const weft_fetch *f);

/*
 * The origin has no shared connection any more. Wake the fetches that wait for it. conn no longer
 * refers to the origin.
 */
void weft__origin_unshare(weft__fetch_conn *conn);

/* conn_pool.c */

/*
 * Get a connection for f. For HTTP/1, wait for a slot unless f holds a slot. If is_fresh, do not
 * use an idle connection of HTTP/1. Set codec. Return 0 or an error.
 */
int weft__conn_pool_acquire(weft_fetch *f, bool is_fresh);

/*
 * Release the connection and the slot. If the connection is reusable, the connection becomes idle.
 * Otherwise, close the connection, or reset the stream of HTTP/2.
 */
void weft__conn_pool_release(weft_fetch *f, bool is_reusable);

/* The function of weft__fetch_h1. */
void weft__conn_pool_release_h1(weft_fetch *f, bool is_reusable);

/* Close all idle connections. */
void weft__conn_pool_clear(weft_fetcher *fetcher);

/* Close all connections of a fetcher without fetches, and wait for the end of their fibers. */
void weft__conn_pool_close(weft_fetcher *fetcher);

/* Close the connection of f. f keeps its slot. */
void weft__conn_pool_drop(weft_fetch *f);

/*
 * Release the slot of f, but keep the connection. A connection with another protocol is open for a
 * long time. Other fetches must not wait for its slot.
 */
void weft__conn_pool_detach(weft_fetch *f);

/* Add a connection to the idle connections of its fetcher, or remove it. */
void weft__conn_pool_set_idle(weft__fetch_conn *conn, bool is_idle);

/* Close and free a connection that no fetch uses. Send GOAWAY first, unless is_aborted. */
void weft__conn_free(weft__fetch_conn *conn, bool is_aborted);

/* h2_conn.c. Without nghttp2, weft__h2_conn_open fails, and no connection has h2. */

/* Begin HTTP/2 on a new connection. Return 0 or an error. */
int weft__h2_conn_open(weft__fetch_conn *conn);

/* End HTTP/2 on a connection without users. The stream stays open. */
void weft__h2_conn_close(weft__fetch_conn *conn, bool is_aborted);

/* Return whether a fetch can open a stream now. */
bool weft__h2_conn_has_room(const weft__fetch_conn *conn);

/*
 * Check a connection before its use. If the connection was idle for a long time, send PING and wait
 * for the reply. Return 0 if the connection is usable. Return 1 if the caller must look at the
 * origin again. Return an error if the caller is cancelled.
 */
int weft__h2_conn_check(weft__fetch_conn *conn);

/* Give f a stream of a connection. The connection must have room. Return 0 or an error. */
int weft__h2_conn_attach(weft__fetch_conn *conn, weft_fetch *f);

/*
 * Wait for the settings of the server. Return 1 if the settings allow extended CONNECT (RFC 8441),
 * 0 if not, or an error.
 */
int weft__h2_conn_allows_connect(weft_fetch *f);

/* Return a weft_stream over the stream of f. */
weft_stream *weft__h2_conn_tunnel(weft_fetch *f);

/* After fork, forget the fibers of the parent process, and end all streams. */
void weft__h2_conn_forget(weft__fetch_conn *conn);

/* Free the part of a fetch for HTTP/2. */
void weft__h2_fetch_free(weft_fetch *f);

/* Return the connection of a fetch that uses HTTP/2, or NULL. */
weft__fetch_conn *weft__h2_fetch_conn(const weft_fetch *f);

/* dial.c */

/*
 * Connect to the server of f, or to its proxy. Offer HTTP/2 if the origin may have a shared
 * connection. Return 0 or an error.
 */
int weft__fetch_dial(weft_fetch *f, weft__fetch_conn *c);

/* Return 1 if the server has chosen HTTP/2, 0 if not, or an error. */
int weft__fetch_conn_is_h2(const weft_fetch *f, weft__fetch_conn *c);

/*
 * Return whether the client sends the request through a tunnel of the proxy. The client does so for
 * https, and for another protocol (RFC 6455, 4.1).
 */
bool weft__fetch_is_tunneled(const weft_fetch *f);

/* proxy.c */

/*
 * Find the proxy for a URL in the environment. If the environment has no proxy for the URL,
 * p->is_used is false. If the call succeeds, the caller must call weft__proxy_close. Return 0, or:
 *
 * - -EINVAL if the proxy in the environment is not a URL
 * - -ENOMEM if memory is exhausted
 * - -ENOTSUP if the scheme of the proxy is not http
 */
int weft__proxy_open(weft__proxy *p, const weft_url *url);
void weft__proxy_close(weft__proxy *p);

/* redirect.c */

/*
 * Set the URL of f. If the call succeeds, f owns the memory of url. On failure, the caller still
 * owns url.
 */
int weft__fetch_set_url(weft_fetch *f, weft_url *url);

/*
 * If the response is a redirect that the client follows, set the new URL of f. Return:
 *
 * - 1 if the client follows a redirect
 * - 0 if the response is the final response
 * - an error if the call fails
 */
int weft__redirect_follow(weft_fetch *f);

/* gzip.c. In a build without zlib, weft__inflate_new always fails. */

weft__inflate *weft__inflate_new(void);
void weft__inflate_free(weft__inflate *z);
/* Set the compressed input. The previous input must be consumed. */
void weft__inflate_feed(weft__inflate *z, const char *data, size_t bytes);
/*
 * Decompress the next piece. Return its length, or:
 *
 * - 0 if more input is needed
 * - -EBADMSG if the input is malformed
 * - -ENOMEM if memory is exhausted
 */
ssize_t weft__inflate_take(weft__inflate *z, const char **piece);
/* Return whether the input so far ends with a complete gzip member. */
bool weft__inflate_is_whole(const weft__inflate *z);

#endif

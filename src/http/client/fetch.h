/*
 * The internal types of the HTTP client, and the functions that its files share. A fetcher is a
 * client with its connections. A fetch is one request with its response. An exchange is one message
 * pair on a connection. A fetch with redirects or a retry has several exchanges.
 *
 *     fetch.c            one fetch: connection, retry, redirects; the public functions
 *     fetcher.c          fetchers, and the default fetcher of each thread
 *     request.c          check, format and send a request
 *     response.c         read a response
 *     response_repair.c  repair heads that the parser rejects
 *     conn_pool.c        connections and their reuse
 *     dial.c             open a connection
 *     proxy.c            proxies from the environment
 *     redirect.c         the URL of a request; redirects
 *     gzip.c             decompress a response
 *     basic_auth.c       credentials from a URL
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

/* The target of connections: one scheme, host, port and proxy. */
typedef struct weft__origin {
    weft__list node; /* in origins of the fetcher */
    weft__list idle; /* connections, most recently used first */
    weft_sem slots;  /* free slots; a fetch with a connection holds one slot */
    size_t users;    /* fetches that hold a slot or wait for a slot */
    char key[];
} weft__origin;

typedef struct weft__fetch_conn {
    weft__list node;   /* in idle of the origin */
    weft__list recent; /* in idle of the fetcher, most recently used last */
    weft__origin *origin;
    weft_stream stream;
    int fd; /* owned by the stream */
    bool is_tls;
    double idle_since;
} weft__fetch_conn;

struct weft_fetcher {
    weft_fetcher_options options; /* with the defaults filled in */
    /* created for the first https URL; NULL: none yet, or options.tls is used */
    weft_tls *own_tls;
    char *user_agent;
    weft__message_limits limits;
    weft__list origins;
    weft__list idle;
    size_t idle_count;
    size_t open_count; /* open fetches */
    pid_t pid;         /* the process that opened the connections */
    bool is_closing;
};

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
    int64_t out_length;   /* length of the body; -1: chunked */
    int64_t out_left;     /* unsent bytes of a known length */
    bool is_ended;        /* the end of the body is written */

    /* The connection. conn is NULL if the fetch has no connection. */
    weft__origin *origin; /* the fetch holds a slot of origin; NULL: no slot */
    weft__fetch_conn *conn;
    bool is_reused;  /* the connection has carried an earlier request */
    bool is_unsent;  /* the server cannot have received any byte of the request */
    bool has_input;  /* a byte of the response has arrived */
    bool must_close; /* the request is incomplete; the connection is not reusable */

    /* The response. */
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

/*
 * Send the head of the request. Send the body too, unless the body is streamed. Return 0 or an
 * error.
 */
int weft__fetch_request_send(weft_fetch *f);

/*
 * Send bytes of the body. If the length of the body is unknown, send the bytes as chunks. Return
 * -EPIPE if a response has arrived or the connection has ended.
 */
ssize_t weft__fetch_request_write(weft_fetch *f, const char *data, size_t bytes);

/* Send the end of the body, and flush the stream. */
int weft__fetch_request_end(weft_fetch *f);

/* basic_auth.c */

/*
 * Return "Basic " and the base64 code of user:password. user is the user of a URL. Return NULL if
 * memory is exhausted or an escape in user is malformed. The caller frees the text.
 */
char *weft__basic_auth_new(const char *user);

/* response.c */

/*
 * Read one head of any status and remove the head from the stream. Set *has_input when a byte
 * arrives. The caller frees *head. Return the status, or an error.
 */
int weft__fetch_response_take_head(weft_stream *stream, weft__message *m, char **head,
                                   bool *has_input);

/* Wait for the head of the final response. Return the status, or an error. */
int weft__fetch_response_await(weft_fetch *f);

/*
 * Read one head. Return:
 *
 * - 0 if the response is interim
 * - -EPIPE if the response is final
 * - another error if the call cannot read the head
 */
int weft__fetch_response_interim(weft_fetch *f);

/* Discard the response before the next exchange. */
void weft__fetch_response_reset(weft_fetch *f);

/* Like weft__fetch_response_take_head, but skip interim heads. Return -EBADMSG for 101. */
int weft__fetch_response_read_head(weft_stream *stream, weft__message *m, char **head,
                                   bool *has_input);

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

/* conn_pool.c */

/*
 * Get a connection for f. Wait for a slot unless f holds a slot. If is_fresh, always open a new
 * connection. Otherwise, prefer an idle connection. Return 0 or an error.
 */
int weft__conn_pool_acquire(weft_fetch *f, bool is_fresh);

/*
 * Release the slot and the connection. If the connection is reusable, the connection becomes idle.
 * Otherwise, close the connection.
 */
void weft__conn_pool_release(weft_fetch *f, bool is_reusable);

/* Close all idle connections. */
void weft__conn_pool_clear(weft_fetcher *fetcher);

/* Close the connection of f. f keeps its slot. */
void weft__conn_pool_drop(weft_fetch *f);

/* dial.c */

/* Connect to the server of f, or to its proxy. Return 0 or an error. */
int weft__fetch_dial(weft_fetch *f, weft__fetch_conn *c);

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

/*
 * The HTTP server: servers, connections and requests.
 *
 *     serve.c         options, listeners, admission of connections, drain
 *     conn.c          a connection and its requests
 *     conn_log.c      log records, rejection of requests
 *     request.c       method, path, headers, parameters
 *     request_body.c  the request's body
 *     client_addr.c   the client's address, the scheme and the host
 *     min_rate.c      the minimum rate of a body
 *     upgrade.c       switch to another protocol
 *     events.c        server-sent events
 *
 * See http/reply/reply.h for replies. A connection is a variable on the stack of its fiber. An idle
 * connection therefore needs little other memory. The connection's arena holds the memory of the
 * current request. The server uses libweft only through its public API.
 */
#ifndef WEFT_HTTP_SERVER_SERVER_H
#define WEFT_HTTP_SERVER_SERVER_H

#include "base/compiler.h"
#include "base/list.h"
#include "http/h1/message.h"
#include "http/reply/gzip.h"
#include "http/server/arena.h"
#include "http/server/conn_limit.h"
#include "http/server/forwarded_field.h"
#include "http/server/handshake_limit.h"

#include <weft/group.h>
#include <weft/http.h>
#include <weft/scope.h>
#include <weft/sync.h>

#include <errno.h>
#include <string.h>

/* The size of a stream's output buffer, and of the buffer for the next chunk of a reply. */
#define WEFT__OUT_BYTES ((size_t)8 << 10)

/* Bits of trusted_headers: headers that the server uses if a trusted proxy sends them. */
enum {
    WEFT__TRUST_FOR = 1,       /* X-Forwarded-For */
    WEFT__TRUST_HOST = 2,      /* X-Forwarded-Host */
    WEFT__TRUST_PROTO = 4,     /* X-Forwarded-Proto */
    WEFT__TRUST_FORWARDED = 8, /* Forwarded */
};

/* A server: the state shared by all connections of one weft_http_serve. */
typedef struct weft__server {
    weft_http_options options; /* with defaults in place of zeros */
    weft__message_limits message_limits;
    weft_http_handler *handler;
    void *ctx;
    weft__cidr_list trusted;  /* options.trusted_peers */
    unsigned trusted_headers; /* WEFT__TRUST_* */
    weft__conn_limit conn_limit;
    weft__handshake_limit handshake_limit;
    weft__arena_block_cache block_cache; /* for the arenas of all connections */
    uint64_t bodies_bytes;               /* memory of bodies, at most bodies_bytes_max */
    weft__list conns;                    /* all connections */
    size_t conns_count;                  /* admitted connections, with or without a running fiber */
    weft_event drained;                  /* set when the last connection ends during the drain */
    weft_group *group;                   /* the group of the connections' fibers */
    bool is_draining; /* no new connections; no further request on an existing connection */
} weft__server;

/* The time credit of a peer for a body. See min_rate.c. */
typedef struct weft__min_rate {
    double credit_s;
} weft__min_rate;

/* A connection, on the stack of its fiber. */
typedef struct weft__conn {
    weft__server *server;
    weft__list link; /* in server->conns */
    weft_stream stream;
    weft__message message;
    weft__arena arena;
    weft__peer peer;
    weft_scope *wait_scope; /* scope of a wait that the drain cancels; NULL: none */
    char *memory;           /* the stream's read buffer, unless has_large_buffer is set */
    const char *input;      /* unread input, as of the last peek */
    size_t input_bytes;
    size_t requests;       /* number of requests so far */
    size_t unflushed;      /* upper bound of bytes in the output buffer, up to WEFT__OUT_BYTES */
    size_t unsent;         /* upper bound of unacknowledged bytes: see unsent_limit.h */
    size_t unsent_counted; /* the part of unsent that the peer's count includes */
    double begun_s;        /* when the first byte of the request arrived; 0 without a log */
    int fd;                /* the descriptor below the stream */
    bool is_tls;
    bool has_large_buffer; /* the stream has a larger read buffer, for a body */
    bool must_close;       /* close the connection after this reply */
    bool has_unread;       /* input is unread: conn.c must close with a lingering close */
    bool is_hung_up;       /* fd is closed and may belong to another connection */
    bool is_aborted;       /* a reply is incomplete: reset the connection */
} weft__conn;

/* A header or trailer of a reply, allocated in the arena. */
typedef struct weft__reply_field {
    struct weft__reply_field *next;
    const char *name;
    const char *value;
    uint32_t name_bytes;
    uint32_t value_bytes;
} weft__reply_field;

/* A parameter of a route, a query or a form. */
typedef struct weft__param {
    struct weft__param *next;
    const char *name;
    const char *value;
} weft__param;

typedef enum weft__reply_state {
    WEFT__REPLY_NONE,     /* not begun */
    WEFT__REPLY_BEGUN,    /* status and length are set, the head is not sent */
    WEFT__REPLY_BODY,     /* the head is sent, the body may follow */
    WEFT__REPLY_ENDED,    /* complete */
    WEFT__REPLY_UPGRADED, /* the connection uses another protocol */
    WEFT__REPLY_ABORTED,  /* incomplete: the connection is unusable */
} weft__reply_state;

/* A request and its reply, on the stack of the connection's fiber. */
struct weft_http_request {
    weft__conn *conn;
    char *head; /* copy of the head that conn->message refers to; NULL: rejected without a head */
    const char *method;
    const char *target;
    char *path;
    const char *query;
    const char *host;           /* NULL: weft_http_host has not run */
    const char *peer;           /* NULL: weft_http_peer has not run */
    weft__forwarded *forwarded; /* NULL: Forwarded is absent, not trusted, or not read yet */
    weft__param *params;        /* parameters of the route */
    const char *rest;           /* the value of the route's {name...}; NULL: none */
    weft__param *query_params;
    weft__param *form;
    bool has_query_params; /* query_params is set */
    bool has_form;         /* form and form_error are set */
    int form_error;        /* the error from reading the form; 0: none */

    /* The body of the request. */
    uint64_t body_bytes_max;
    uint64_t body_bytes;    /* bytes read so far */
    uint64_t body_reserved; /* part of the server's bodies_bytes */
    const char *piece;      /* the unread rest of the last piece */
    size_t piece_bytes;
    weft__min_rate in_rate;
    int body_error;     /* the result of all further reads; 0: none */
    bool has_continued; /* 100 (Continue) was sent or is not necessary */

    /* The reply. */
    weft__reply_state state;
    int status;
    int failure;       /* the error of a failed write; the reply is then incomplete; 0: none */
    int64_t announced; /* length of the body that the handler announced; -1: unknown */
    int64_t length;    /* length of the encoded body; -1: unknown */
    uint64_t written;  /* bytes of the body from the handler */
    uint64_t sent;     /* bytes of the encoded body */
    const char *type;  /* Content-Type that is not in fields; NULL: none */
    weft__reply_field *fields;
    weft__reply_field *trailers;
    char *held;           /* bytes for the next chunk, WEFT__OUT_BYTES; NULL: not allocated */
    size_t held_bytes;    /* bytes in held */
    weft__gzip *gzip;     /* the compressor; NULL: none */
    const char *encoding; /* "gzip", even for HEAD; NULL: none */
    weft__min_rate out_rate;
    bool is_chunked;
    bool is_bodiless; /* reply to HEAD, or a status without a body */
    bool is_proxied;  /* reply of an upstream server: keep its Date, Server and encoding */
};

static inline bool weft__request_is(const weft_http_request *r, llhttp_method_t method)
{
    return r->conn->message.parser.method == method;
}

/* conn_log.c */

/* Log a request after its handler has returned. options.log must be set. */
void weft__conn_log_request(weft_http_request *r);

/*
 * Reject a request without a complete head: send a reply with this status, and log the request. The
 * caller must then close the connection. reason is for the log. text is the body of the reply. If
 * text is NULL, the body is the status and its name.
 */
void weft__conn_reject(weft__conn *c, int status, const char *reason, const char *text);

/* Like weft__conn_reject, for a request with a complete head. */
void weft__conn_reject_request(weft_http_request *r, int status, const char *reason);

/* conn.c */

/*
 * Serve a connection in the calling fiber and close the connection. Returns 0, or the error that
 * ended the connection.
 */
int weft__conn_run(weft__server *server, int fd, const weft__peer *peer);

/*
 * Use a larger read buffer until the next request. Keep the small buffer if bodies_bytes_max is
 * reached or memory is exhausted. The stream must not have unread input.
 */
void weft__conn_enlarge_buffer(weft__conn *c);

/* Return true if the server must close the connection after a reply that begins now. */
static inline bool weft__conn_must_close(const weft__conn *c)
{
    return c->must_close || c->server->is_draining;
}

/* serve.c */

/*
 * Check and copy the options, and set defaults. Call weft__server_close even after an error. After
 * -EINVAL, weft_error() returns the message. Returns 0, or:
 * -EINVAL if an option is invalid
 * -EINVAL if handler is NULL
 * -ENOMEM if memory is exhausted
 */
int weft__server_open(weft__server *server, weft_http_handler *handler, void *ctx,
                      const weft_http_options *options);

/* Free the memory of a server. All connections must be closed. */
void weft__server_close(weft__server *server);

/* min_rate.c */

/* A blocking call that transfers bytes of a body. */
typedef struct weft__min_rate_call {
    weft__min_rate *rate;
    const weft__server *server;
    weft_scope scope; /* ends when the credit is exhausted */
    double from_s;
} weft__min_rate_call;

/* Set the credit to slow_s. */
void weft__min_rate_start(weft__min_rate *rate, const weft__server *server);

/* Limit the time of the following blocking calls to the credit. Returns 0 or an error. */
int weft__min_rate_open(weft__min_rate_call *call, weft__min_rate *rate,
                        const weft__server *server);

/*
 * End the limit and update the credit. bytes is the number of transferred bytes. Returns 0, or:
 * -ETIMEDOUT if the credit was exhausted
 */
int weft__min_rate_close(weft__min_rate_call *call, uint64_t bytes);

/* request.c */

/*
 * Set the fields of a request with a complete head. Returns 0, or the status of a rejection. After
 * a rejection, *reason is the reason for the log.
 */
int weft__request_open(weft_http_request *r, const char **reason);

/* client_addr.c */

/*
 * Parse a list such as "X-Forwarded-For, Forwarded". If names is NULL, the list is X-Forwarded-For.
 * After -EINVAL, weft_error() returns the message. Returns WEFT__TRUST_* bits, or:
 * -EINVAL if the list contains an unknown header
 */
int weft__trusted_headers_parse(const char *names);

/* Return true if the peer is a trusted proxy and trusted_headers contains this header. */
bool weft__request_trusts(const weft_http_request *r, const char *name);

/*
 * Join the values of all headers with this name, separated by commas. Returns NULL if memory is
 * exhausted.
 */
char *weft__request_join(weft_http_request *r, const char *name);

/* Return the host and port from the request itself. *bytes is the length, or 0 without a host. */
const char *weft__request_target_host(const weft_http_request *r, size_t *bytes);

/* Like weft__request_target_host, but prefer a host that a trusted proxy reports. */
const char *weft__request_authority(weft_http_request *r, size_t *bytes);

/* request_body.c */

/*
 * Reserve memory for a body. Returns 0, or:
 * -ENOBUFS if all bodies together would exceed bodies_bytes_max
 */
int weft__bodies_reserve(weft__server *s, uint64_t bytes);

/* Release the memory reserved for the request's body. */
static inline void weft__bodies_release(weft_http_request *r)
{
    r->conn->server->bodies_bytes -= r->body_reserved;
}

/*
 * Read and discard the rest of a short body. After an error, the caller must close the connection.
 * Returns 0, an error of weft_http_read, or:
 * -EMSGSIZE if the rest is too long
 */
int weft__body_skip(weft_http_request *r);

/*
 * Return false if weft__body_skip cannot succeed. The current reply must then be the last reply of
 * the connection.
 */
bool weft__body_is_skippable(const weft_http_request *r);

/*
 * Discard the received part of a chunked body, without waiting. The server can therefore reject
 * malformed chunks even if the handler ignores the body. Returns 0 or an error of weft_http_read.
 */
int weft__body_discard_arrived(weft_http_request *r);

#endif

/*
 * The HTTP server: servers, connections and requests. The protocol is the subject of a codec
 * (codec.h).
 *
 *     serve.c         options, listeners, admission of connections, drain
 *     conn.c          a connection: TLS, choice of the codec, close
 *     request.c       method, path, headers, parameters
 *     request_body.c  the request's body
 *     request_log.c   log records, rejection of requests
 *     client_addr.c   the client's address, the scheme and the host
 *     min_rate.c      the minimum rate of a body
 *     upgrade.c       switch to another protocol
 *
 * See http/reply/reply.h for replies. A connection is a variable on the stack of its fiber. A
 * silent connection has no fiber, see http/rest/rest.h. An arena holds the memory of a request. The
 * server uses libweft only through its public API.
 */
#ifndef WEFT_HTTP_SERVER_SERVER_H
#define WEFT_HTTP_SERVER_SERVER_H

#include "base/compiler.h"
#include "base/list.h"
#include "http/message/head.h"
#include "http/metrics/counts.h"
#include "http/reply/gzip.h"
#include "http/server/arena.h"
#include "http/server/codec.h"
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

/* A wait of a handler that the drain cancels, on the stack of its fiber. */
typedef struct weft__drain_wait {
    weft__list link; /* in drain_waits of the server */
    weft_scope *scope;
} weft__drain_wait;

/* A server: the state shared by all connections of one weft_http_serve. */
typedef struct weft__server {
    weft_http_options options; /* with defaults in place of zeros */
    weft__message_limits message_limits;
    weft_http_handler *handler;
    void *ctx;
    weft__counts *counts;        /* NULL: the server did not open */
    weft__cidr_list trusted;     /* options.trusted_peers */
    unsigned trusted_headers;    /* WEFT__TRUST_* */
    weft__cidr_list proxy_peers; /* options.proxy_protocol_peers */
    weft__conn_limit conn_limit;
    weft__handshake_limit handshake_limit;
    weft__arena_block_cache block_cache; /* for the arenas of all connections */
    uint64_t bodies_bytes;               /* memory of bodies, at most bodies_bytes_max */
    weft__list conns;                    /* all connections with a fiber */
    weft__list resting;                  /* all connections without a fiber (http/rest/rest.h) */
    weft__list drain_waits;              /* waits of handlers of upgraded requests */
    size_t conns_count;                  /* admitted connections, with or without a running fiber */
    weft_event drained;                  /* set when the last connection ends during the drain */
    weft_group *group;                   /* the group of the connections' fibers */
    bool is_settling; /* no new connections; no further request of HTTP/1 after the next reply */
    bool is_draining; /* no new connections; no further request on an existing connection */
} weft__server;

/* The time credit of a peer for a body. See min_rate.c. */
typedef struct weft__min_rate {
    double credit_s;
} weft__min_rate;

/* The part of a connection that all protocols have, on the stack of the connection's fiber. */
typedef struct weft__conn {
    weft__server *server;
    weft__list link; /* in server->conns */
    weft_stream stream;
    weft__peer peer;
    weft_scope *wait_scope; /* scope of a wait that the drain cancels; NULL: none */
    char *memory;           /* the stream's read buffer, unless has_large_buffer is set */
    size_t write_bytes;     /* size of the stream's output buffer; 0: the default */
    size_t unsent;          /* upper bound of unacknowledged bytes: see unsent_limit.h */
    size_t unsent_counted;  /* the part of unsent that the peer's count includes */
    int fd;                 /* the descriptor below the stream */
    bool is_tls;
    bool has_large_buffer;         /* the stream has a larger read buffer, for a body */
    bool has_unread;               /* input is unread: close with a lingering close */
    bool has_unflushed;            /* the output buffer may have bytes of a complete reply */
    bool is_hung_up;               /* fd is closed and may belong to another connection */
    bool is_aborted;               /* a reply is incomplete: reset the connection */
    bool rests;                    /* the connection rests, and its fiber ends (http/rest/rest.h) */
    struct weft__resting *resting; /* the record of the connection's rests; NULL: none yet */
    struct weft__upgraded *upgraded; /* another protocol continues the connection; NULL: none */
    double rest_until_s;             /* the end of the rest that input has ended; 0: none */
} weft__conn;

/* A header or trailer of a reply, allocated in the arena. */
struct weft__reply_field {
    weft__reply_field *next;
    const char *name;
    const char *value;
    uint32_t name_bytes;
    uint32_t value_bytes;
};

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

/* A request and its reply. The codec sets the first fields, up to is_upgrade. */
struct weft_http_request {
    const weft__codec *codec;
    void *codec_ctx; /* the codec's state of the connection or stream */
    weft__conn *conn;
    weft__server *server;
    weft__arena *arena; /* memory until the handler returns */
    weft__head head;    /* text is NULL: rejected without a head */
    const char *method;
    const char *target;
    weft__trailers request_trailers; /* set at the end of the body */
    double begun_s;        /* when the first byte of the request arrived; 0: not measured */
    int64_t body_length;   /* announced length of the body; -1: unknown */
    int version;           /* 10, 11 or 20; 0: unknown */
    bool is_body_complete; /* the body and its trailers have arrived and are read */
    bool expects_continue; /* the client waits for 100 (Continue) */
    bool is_upgrade;       /* the client requests another protocol */

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
    /*
     * The server does not read the rest of the body, or the client may or may not send the body. A
     * connection of HTTP/1 then cannot carry another request.
     */
    bool is_body_abandoned;

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
    bool must_close;     /* no further request on the connection: the handler asks for it */
    bool is_bodiless;    /* reply to HEAD, or a status without a body */
    bool is_proxied;     /* reply of an upstream server: keep its Date, Server and encoding */
    bool has_error_page; /* options.error_page has run */
};

/* Return true if the request has this method. */
static inline bool weft__request_is(const weft_http_request *r, const char *method)
{
    return r->method[0] == method[0] && strcmp(r->method, method) == 0;
}

/* request_log.c */

/* Log a request after its handler has returned. options.log must be set. */
void weft__request_log(weft_http_request *r);

/*
 * Reject a request with a complete head before any handler runs: send a reply with this status, and
 * log the request. reason is for the log.
 */
void weft__request_reject(weft_http_request *r, int status, const char *reason);

/* conn.c */

/* A result of weft__conn_run and weft__conn_resume: the connection is open and rests. */
#define WEFT__CONN_RESTS 1

/*
 * Serve a connection in the calling fiber and close the connection. If the peer names another
 * client (http/proxy_protocol/), the call changes *peer. Returns 0, the error that ended the
 * connection, or WEFT__CONN_RESTS.
 */
int weft__conn_run(weft__server *server, int fd, weft__peer *peer);

/*
 * Use a larger or the small read buffer. Keep the small buffer if bodies_bytes_max is reached or
 * memory is exhausted. The stream must not have unread input.
 */
void weft__conn_set_buffer(weft__conn *c, bool is_large);

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

/* upgrade.c */

/* Return 1 if the client requests a protocol, 0 if not, or -ENOMEM. */
int weft__upgrade_is_requested(weft_http_request *r, const char *protocol);

/* Let the drain of the server cancel a scope, until weft__drain_wait_end. */
void weft__drain_wait_begin(weft__drain_wait *w, weft_http_request *r, weft_scope *scope);
void weft__drain_wait_end(weft__drain_wait *w);

/*
 * Ignore the rest of the input of an upgraded request. The server then closes the connection so
 * that the peer gets all output.
 */
void weft__upgraded_abandon_input(weft_http_request *r);

/*
 * Close a connection before its first request, without waiting. Without TLS, send a reply with this
 * status.
 */
void weft__server_turn_away(const weft__server *server, int fd, int status);
/* Remove a closed connection from the counts of the server. */
void weft__server_leave(weft__server *server, const weft__peer *peer);

/* min_rate.c */

/* A blocking call that transfers bytes of a body. */
typedef struct weft__min_rate_call {
    weft__min_rate *rate;
    const weft__server *server;
    weft_scope scope; /* ends when the credit is exhausted */
    double from_s;
} weft__min_rate_call;

/* Set the credit to slow_s. */
static inline void weft__min_rate_start(weft__min_rate *rate, const weft__server *server)
{
    rate->credit_s = server->options.limits.slow_s;
}

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
    r->server->bodies_bytes -= r->body_reserved;
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
 * Discard the received part of a body, without waiting. The server can therefore reject malformed
 * input even if the handler ignores the body. Returns 0 or an error of weft_http_read.
 */
int weft__body_discard_arrived(weft_http_request *r);

/* Send 100 (Continue) if the client waits for that response (RFC 9110, 10.1.1). */
int weft__body_send_continue(weft_http_request *r);

/* Fail all further reads of the body with this error. Returns error. */
int weft__body_fail(weft_http_request *r, int error);

#endif

/*
 * The web server inside: a server, its connections, the request that each is at, and its reply.
 *
 *     serve.c    listens, admits connections, drains        peers.c    counts them by address
 *     conn.c     a connection: one request after the other  pace.c     how slow a peer may be
 *     request.c  what a request says                        body.c     its body
 *     reply.c    a reply: its head, its end                 reply_body.c  what is between
 *     conn_log.c what the log is told, also of requests that are refused
 *
 * A connection lives on the stack of its fiber, so that an idle one costs little beyond that; what
 * a request needs more is in its arena. All of it stands on the public API.
 */
#ifndef WEFT_HTTP_SERVER_H
#define WEFT_HTTP_SERVER_H

#include "base/compiler.h"
#include "base/list.h"
#include "http/arena.h"
#include "http/gzip.h"
#include "http/message.h"
#include "http/peers.h"
#include "http/rates.h"

#include <weft/group.h>
#include <weft/http.h>
#include <weft/scope.h>
#include <weft/sync.h>

#include <errno.h>
#include <string.h>

/* What is kept of output until it is flushed, and of a reply in chunks until it goes out as one. */
#define WEFT__OUT_BYTES ((size_t)8 << 10)

/* Headers of a trusted peer that are believed. */
enum {
    WEFT__TRUST_FOR = 1,   /* X-Forwarded-For */
    WEFT__TRUST_HOST = 2,  /* X-Forwarded-Host */
    WEFT__TRUST_PROTO = 4, /* X-Forwarded-Proto */
    WEFT__TRUST_FORWARDED = 8,
};

/* What the connections of one weft_http_serve share. */
typedef struct weft__server {
    weft_http_options options; /* with the defaults filled in */
    weft__message_limits message_limits;
    weft_http_handler *handler;
    void *ctx;
    weft__cidr_list trusted;  /* who is believed */
    unsigned trusted_headers; /* in what: WEFT__TRUST_* */
    weft__peers peers;
    weft__rates rates;       /* of their handshakes */
    weft__arena_stock stock; /* for the requests of all of them */
    uint64_t bodies_bytes;   /* taken by bodies, of bodies_bytes_max */
    weft__list conns;        /* all of them */
    size_t conns_count;
    weft_event left; /* set when the last one leaves while it drains */
    weft_group *group;
    bool is_draining; /* nothing more is accepted, and no further request is waited for */
} weft__server;

/* How long a peer may still be slow: see pace.c. */
typedef struct weft__pace {
    double credit_s;
} weft__pace;

typedef struct weft__conn {
    weft__server *server;
    weft__list link; /* in the server's conns */
    weft_stream stream;
    weft__message message;
    weft__arena arena;
    weft__peer peer;
    weft_scope *waiting; /* the scope in which it waits for a request to begin; NULL: it does not */
    char *memory;        /* of its stack, what the stream reads into unless a body is large */
    const char *input;   /* what has come and was not taken, where it was last looked at */
    size_t input_bytes;
    size_t requests;    /* that it has had */
    size_t unflushed;   /* bytes written since the stream was empty, at most */
    size_t unsent;      /* bytes that the peer may not have taken yet, at most */
    size_t unsent_told; /* those of them that are counted among its peer's */
    double begun_s;     /* when the first byte of this request came */
    int fd;             /* the stream's, at the bottom */
    bool is_tls;
    bool is_wide;     /* the stream has a larger buffer, for a body */
    bool is_to_close; /* after this reply */
    bool has_unread;  /* it is closed with input left: the reply must not be lost by that */
    bool is_hung_up;  /* its descriptor may not be its own any more */
    bool is_cut;      /* a reply was cut short: nobody is to take it for a whole one */
} weft__conn;

/* A header that a handler has set; in the arena. */
typedef struct weft__reply_field {
    struct weft__reply_field *next;
    const char *name;
    const char *value;
    uint32_t name_bytes;
    uint32_t value_bytes;
} weft__reply_field;

/* A name and what it stands for: a route's or a form's parameter. */
typedef struct weft__param {
    struct weft__param *next;
    const char *name;
    const char *value;
} weft__param;

typedef enum weft__reply_state {
    WEFT__REPLY_NONE,  /* nothing was said */
    WEFT__REPLY_BEGUN, /* status and length are known, the head has not gone out */
    WEFT__REPLY_BODY,  /* the head has gone out, the body may follow */
    WEFT__REPLY_ENDED,
    WEFT__REPLY_HANDED_OVER, /* to another protocol */
    WEFT__REPLY_CUT,         /* half said: the connection cannot be used any more */
} weft__reply_state;

struct weft_http_request {
    weft__conn *conn;
    char *head; /* its bytes; offsets of conn->message are into it */
    const char *method;
    const char *target;
    char *path;
    const char *query;
    const char *host; /* NULL: not looked at yet, as with the next three */
    const char *peer;
    weft__forwarded *forwarded; /* what it says; NULL: not read, or there is none */
    weft__param *params;        /* of the route */
    const char *rest;           /* what its {name...} stands for; NULL: it has none */
    weft__param *query_params;
    weft__param *form;
    bool has_query_params;
    bool has_form;
    int form_error;

    /* The body. */
    uint64_t body_bytes_max;
    uint64_t body_bytes; /* that have come */
    uint64_t body_held;  /* of the server's bodies_bytes */
    const char *piece;   /* what of the last piece was not taken yet */
    size_t piece_bytes;
    weft__pace in_pace;
    int body_error;     /* why no more of it can be read; 0: it can */
    bool has_continued; /* 100 was sent, or is not needed any more */

    /* The reply. */
    weft__reply_state state;
    int status;
    int failure;       /* why some of it was not written: it cannot end well any more; 0: all was */
    int64_t announced; /* the length of the body, by the handler; -1: not known */
    int64_t length;    /* the same as it goes out, encoded */
    uint64_t written;  /* of the body, by the handler */
    uint64_t sent;     /* of the body, as it goes out */
    const char *type;  /* Content-Type, in place of one among the fields; NULL */
    weft__reply_field *fields;
    weft__reply_field *trailers;
    char *held; /* of a reply of unknown length, not a chunk yet; WEFT__OUT_BYTES; NULL: none */
    size_t held_bytes;
    weft__gzip *gzip;     /* compresses it; NULL: no */
    const char *encoding; /* "gzip" if it goes out so, also to a HEAD; NULL */
    weft__pace out_pace;
    bool is_chunked;
    bool is_bodiless; /* to a HEAD, or by its status */
    bool is_relayed;  /* another server's: its Date and Server stay, and so does its coding */
};

static inline bool weft__request_is(const weft_http_request *r, llhttp_method_t method)
{
    return r->conn->message.parser.method == method;
}

/* conn_log.c */

/* Tell the log about a request that a handler had, if there is a log. */
void weft__conn_note(weft_http_request *r);

/*
 * Answer a request with a status before any handler sees it, and tell the log why; the connection
 * is closed afterwards. The reason is a few words, the text what the client gets to read; NULL:
 * what the status means.
 */
void weft__conn_refuse(weft__conn *c, int status, const char *reason, const char *text);

/* The same for a request whose head is settled. */
void weft__conn_refuse_settled(weft_http_request *r, int status, const char *reason);

/* conn.c */

/*
 * Serve a connection, which is a child's of the server's or the caller's own: 0, or why it was cut.
 */
int weft__conn_run(weft__server *server, int fd, const weft__peer *peer);

/* Read larger pieces from now on, until the next request; nothing may have come that is unread. */
void weft__conn_widen(weft__conn *c);

/* The connection has to be closed after this reply, which does not know it yet. */
static inline bool weft__conn_is_last(const weft__conn *c)
{
    return c->is_to_close || c->server->is_draining;
}

/* serve.c */

/* Copies the options with their defaults, and says what is wrong with them. */
int weft__server_open(weft__server *server, weft_http_handler *handler, void *ctx,
                      const weft_http_options *options);
void weft__server_close(weft__server *server);

/* unsent.c */

/* The most bytes that are written to a peer at once. */
#define WEFT__UNSENT_PART_BYTES ((size_t)256 << 10)

/* Count bytes that are written. */
void weft__unsent_tell(weft__conn *c);
static inline void weft__unsent_add(weft__conn *c, size_t bytes)
{
    c->unsent += bytes;
    if (UNLIKELY(c->unsent - c->unsent_told >= WEFT__OUT_BYTES))
        weft__unsent_tell(c);
}

/* How much may be written now, at most WEFT__UNSENT_PART_BYTES. Waits, or fails. */
ssize_t weft__unsent_allow(weft__conn *c, weft__pace *pace);

/* Before a close: wait until the peer has acknowledged most of what was written. */
void weft__unsent_settle(weft__conn *c);

/* The connection ends: stop counting its bytes. */
void weft__unsent_forget(weft__conn *c);

/* pace.c */

/* One blocking call, in which a body has to move on. */
typedef struct weft__pace_turn {
    weft__pace *pace;
    const weft__server *server;
    weft_scope scope;
    double from_s;
} weft__pace_turn;

void weft__pace_start(weft__pace *pace, const weft__server *server);
int weft__pace_open(weft__pace_turn *turn, weft__pace *pace, const weft__server *server);
/* So many bytes have moved. Returns 0, or -ETIMEDOUT if the time was up. */
int weft__pace_close(weft__pace_turn *turn, uint64_t bytes);

/* request.c */

/*
 * Work out path, query and so on, once the head is settled. Returns 0, or the status to refuse
 * with, and why.
 */
int weft__request_open(weft_http_request *r, const char **reason);

/* forward.c */

/* Which headers a list names: "X-Forwarded-For, Forwarded"; NULL: X-Forwarded-For. -EINVAL. */
int weft__trust_parse(const char *names);

/* Is the peer one of the server's trusted_peers, and believed in this header? */
bool weft__request_trusts(const weft_http_request *r, const char *name);

/* All fields of a name in one, with commas between them; NULL without memory. */
char *weft__request_join(weft_http_request *r, const char *name);

/* The host, and its port, that the request itself asks for: of so many bytes, maybe 0. */
const char *weft__request_asked_host(const weft_http_request *r, size_t *bytes);

/* The same, or what a trusted proxy says of it. */
const char *weft__request_authority(weft_http_request *r, size_t *bytes);

/* body.c */

/* Take so many bytes of the memory for all bodies: 0, or -ENOBUFS. */
int weft__bodies_take(weft__server *s, uint64_t bytes);

/* The request is over: give back the memory of its body. */
static inline void weft__body_release(weft_http_request *r)
{
    r->conn->server->bodies_bytes -= r->body_held;
}

/*
 * Read what is left of the body, if it is little: 0, or -EMSGSIZE if the connection is to be
 * closed.
 */
int weft__body_skip(weft_http_request *r);

/* Would it do so, as far as is known? If not, this reply is the last. */
bool weft__body_is_skippable(const weft_http_request *r);

/*
 * Throw away what has come of a body in chunks, without waiting: a reply that is not interested in
 * it must not hide that they are malformed. Returns 0, or what weft_http_read would.
 */
int weft__body_glance(weft_http_request *r);

/* reply.c */

/* Whatever the handler has left open. Its result tells what it thinks of it. */
void weft__reply_finish(weft_http_request *r, int result);

/*
 * Answer a request that never became one, and say that the connection is closed. The text says why;
 * NULL: what the status means. Returns how many bytes the body has.
 */
uint64_t weft__reply_refuse(weft__conn *c, int status, const char *text);

/* Take back a reply of which nothing has gone out: another one can be begun. */
void weft__reply_take_back(weft_http_request *r);

/* It cannot be ended well any more, nor the connection be kept; returns why. */
int weft__reply_cut(weft_http_request *r, int rc);

/* Pieces that may go out in one write with a head. */
#define WEFT__BEHIND_MAX 4

/* Send the head, and those pieces behind it. */
int weft__reply_send_head(weft_http_request *r, const struct iovec *behind, int count);

/* reply_fields.c */

/* A header that was set; NULL. */
const char *weft__reply_field_of(const weft_http_request *r, const char *name);

/* Add a field or a trailer of another server's answer, also one that is the server's own. */
int weft__reply_relay_field(weft_http_request *r, const char *name, const char *value);
int weft__reply_relay_trailer(weft_http_request *r, const char *name, const char *value);

/* As if none of that name had been set. */
void weft__reply_drop_field(weft_http_request *r, const char *name);

/* Say that Accept-Encoding makes a difference, beside what a handler has said of that. */
int weft__reply_add_vary(weft_http_request *r);

/* reply_body.c */

/* Skip so many bytes at the beginning of the pieces: those that have been written. */
void weft__pieces_advance(struct iovec *pieces, int count, size_t bytes);

/* Pieces to the stream, at the pace of the peer. */
int weft__reply_put(weft_http_request *r, const struct iovec *pieces, int count);

/* The head, if it has not gone out, and what is held. */
int weft__reply_release(weft_http_request *r);

/* reply_encode.c: whether it is compressed, as it begins; its pieces; its end; or never mind. */
int weft__reply_encode(weft_http_request *r);
int weft__reply_encode_write(weft_http_request *r, const void *data, size_t bytes);
int weft__reply_encode_flush(weft_http_request *r);
int weft__reply_encode_end(weft_http_request *r);
void weft__reply_encode_drop(weft_http_request *r);

/* A piece of the body as it goes out, encoded. */
int weft__reply_take(weft_http_request *r, const void *data, size_t bytes);

#endif

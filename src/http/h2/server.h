/*
 * The codec of HTTP/2 for servers, over a session (session.h).
 *
 *     server_conn.c     a connection: its loop, its time limits, the drain, the streams
 *     server_flood.c    limits on frames that cost the server more than the client
 *     server_head.c     the head of a request, trailers
 *     server_request.c  the fiber of a request; its body, upgrades
 *     server_reply.c    replies
 *
 * The fiber of the connection is the reader of the session. It ends when the connection has no
 * stream for a second (http/rest/rest.h), and input starts another one. It spins a fiber for each
 * request when the head is complete. A request has one record: the stream, the request and its
 * arena. The record itself is the first allocation of that arena, so that a short request needs one
 * cached block.
 */
#ifndef WEFT_HTTP_H2_SERVER_H
#define WEFT_HTTP_H2_SERVER_H

#include "http/h2/session.h"
#include "http/server/server.h"

/* The maximum length of an authority that a connection remembers. */
#define AUTHORITY_BYTES_MAX 64

/* A limit on the number of events per second. See server_flood.c. */
typedef struct weft__h2_budget {
    double credit;   /* events that may still happen */
    uint64_t events; /* events so far */
} weft__h2_budget;

/* A connection of HTTP/2, in the heap, because it outlives its fiber when it rests. */
typedef struct weft__h2_server_conn {
    weft__conn *conn; /* undefined while the connection rests */
    weft__h2_session session;
    weft_group group;        /* of the fibers of requests; not open while the connection rests */
    size_t fibers;           /* number of fibers of requests */
    size_t requests;         /* number of streams so far */
    double begun_s;          /* when the connection began */
    double rested_s;         /* when the connection became idle; 0: not yet */
    double waits_s;          /* when the reader began to wait for input */
    double input_s;          /* when the input arrived that is being handled; 0: not known yet */
    uint64_t head_number;    /* of the head that is arriving; 0: none */
    double head_begun_s;     /* when the head that is arriving began; 0: none is arriving */
    uint64_t head_at;        /* received_bytes of the session at that time */
    double noticed_s;        /* when the drain has announced the end; 0: not yet */
    weft__min_rate rate;     /* of all output */
    uint64_t received_bytes; /* received_bytes of the session before the last step */
    double checked_s;        /* of the last check of the budgets */
    uint64_t opened;         /* counts of the session at that time */
    uint64_t sent_bytes;
    weft__h2_budget resets;
    weft__h2_budget control;
    bool is_waiting_busy; /* the reader waits without a time limit: nudge it after the last fiber */
    bool is_trimmed;      /* the connection has returned its buffers */
    /* The last valid authority, to save its next check. Clients repeat it with each request. */
    char authority[AUTHORITY_BYTES_MAX];
    size_t authority_bytes;
} weft__h2_server_conn;

/* A request and its stream. The codec_ctx of the request. */
typedef struct weft__h2_request {
    weft__h2_stream stream;
    weft__h2_server_conn *conn;
    weft__arena arena; /* holds this record */
    weft_http_request request;
    char *text; /* of the head: NUL-terminated strings; NULL: none */
    size_t text_bytes;
    size_t text_capacity;
    weft__field *fields; /* NULL: none */
    uint32_t fields_count;
    uint32_t fields_capacity;
    uint32_t cookies_count;
    weft__head_span method; /* pseudo fields, in text; bytes is 0: absent */
    weft__head_span path;
    weft__head_span authority;
    weft__head_span protocol; /* of an extended CONNECT (RFC 8441) */
    char *trailers;           /* NULL: none */
    size_t trailers_bytes;
    size_t trailers_capacity;
    uint64_t in_reserved;  /* unread input, part of the server's bodies_bytes */
    double begun_s;        /* when the head began to arrive */
    weft_stream *upgraded; /* NULL: not upgraded */
    weft_cond ended;       /* the stream has ended */
    bool has_bad_scheme;   /* the scheme is neither http nor https */
    bool has_bad_host;     /* Host differs from the authority */
    bool has_expect;       /* an Expect header exists */
    bool has_length;       /* a Content-Length header exists */
    bool is_head_complete;
    bool is_upgrading; /* the handler accepts the protocol of an extended CONNECT */
    bool has_fiber;    /* the fiber of the request frees the record */
} weft__h2_request;

static inline weft__h2_request *weft__h2_request_of(const weft_http_request *r)
{
    return r->codec_ctx;
}

/* server_conn.c */

/*
 * Handle all requests of a connection. The caller must then close the connection. Returns 0, or the
 * error that ended the connection.
 */
int weft__h2_server_run(weft__conn *c);

/* Free the record of a request, whose stream must be closed. */
void weft__h2_request_free(weft__h2_request *q);

/* server_flood.c */

/* Start the budgets of a connection. */
void weft__h2_flood_start(weft__h2_server_conn *h);

/*
 * Count the frames of the last step. Returns 0, or:
 * -EBADMSG if the client exceeds a limit
 */
int weft__h2_flood_check(weft__h2_server_conn *h);

/* server_head.c */

/*
 * Add a field of the head, or a trailer after the head. Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__h2_request_add(weft__h2_request *q, const char *name, size_t name_bytes,
                         const char *value, size_t value_bytes);

/*
 * Set the fields of q->request. Returns 0, or the status of a rejection. After a rejection, *reason
 * is the reason for the log.
 */
int weft__h2_request_open(weft__h2_request *q, const char **reason);

/* server_request.c */

/*
 * Spin the fiber of a request with a complete head. The fiber frees the record. If no fiber can be
 * created, refuse the stream and free the record.
 */
void weft__h2_request_spin(weft__h2_request *q);

/* server_reply.c */

/* Wait until the reply is sent, at the minimum rate. Returns 0 or an error. */
int weft__h2_reply_finish(weft_http_request *r);

/* Functions of the codec. See http/server/codec.h. */

extern const weft__codec weft__h2_codec;

int weft__h2_read(weft_http_request *r, const char **piece, size_t *bytes);
int weft__h2_upgrade(weft_http_request *r, const char *protocol, weft_stream **stream);
int weft__h2_end_upgraded(weft_http_request *r);
int weft__h2_await_abandoned(weft_http_request *r);

int weft__h2_send_interim(weft_http_request *r, int status, const weft__reply_field *fields);
int weft__h2_send_head(weft_http_request *r, const struct iovec *body, int count, bool is_last);
int weft__h2_send_body(weft_http_request *r, const struct iovec *body, int count);
int weft__h2_send_end(weft_http_request *r);
int weft__h2_flush(weft_http_request *r);

#endif

/* HTTP/2 in the client. h2_conn.c has the connections, h2_request.c and h2_response.c the codec. */
#ifndef WEFT_HTTP_CLIENT_H2_H
#define WEFT_HTTP_CLIENT_H2_H

#include "http/client/fetch.h"
#include "http/h2/session.h"

#include <weft/scope.h>

/* A connection of HTTP/2. One fiber, the reader, handles its input while fetches use it. */
struct weft__h2_conn {
    weft__h2_session session;
    weft__fetch_conn *conn;
    weft_scope scope;  /* of the reader; its deadline ends the reader of an idle connection */
    weft_cond event;   /* a PING was answered, or the reader has ended */
    weft_fiber reader; /* the last reader, perhaps ended; 0: none, or not begun */
    bool has_reader;   /* a reader exists */
    bool has_scope;    /* scope is open */
    bool is_checking;  /* a fetch waits for the reply to a PING */
    bool is_closing;   /* weft__h2_conn_close waits for the end of the reader */
    bool is_ended;     /* the connection has ended */
};

/* The stream of a fetch. */
typedef struct weft__h2_fetch {
    weft__h2_stream st;
    weft_fetch *fetch;
    weft__fetch_conn *conn; /* NULL: the fetch has no stream */
    weft_cond changed;      /* a head has arrived, or the stream has ended */
    weft__strbuf text;      /* name, NUL, value, NUL of the fields that have arrived */
    weft__field *fields;    /* offsets into text */
    uint32_t fields_count;
    uint32_t fields_capacity;
    weft__strbuf trailers; /* name, NUL, value, NUL */
    int interims;          /* number of interim responses */
    int error;             /* why the client rejects the response; 0: none */
    bool has_continue;     /* 100 (Continue) has arrived */
    bool has_head;         /* the final head has arrived */
    weft_stream tunnel;    /* the weft_stream of an upgrade */
    bool has_tunnel;
} weft__h2_fetch;

/* h2_request.c */

/* Functions of weft__fetch_h2. */
int weft__h2_request_send(weft_fetch *f);
ssize_t weft__h2_request_write(weft_fetch *f, const char *data, size_t bytes);
int weft__h2_request_end(weft_fetch *f);

/* h2_response.c */

int weft__h2_response_read_head(weft_fetch *f);
ssize_t weft__h2_response_next(weft_fetch *f, const char **piece);

/* Events of the streams. */
int weft__h2_response_on_field(weft__h2_session *s, weft__h2_stream *st, const char *name,
                               size_t name_bytes, const char *value, size_t value_bytes);
void weft__h2_response_on_head(weft__h2_session *s, weft__h2_stream *st, weft__h2_head kind);
void weft__h2_response_on_close(weft__h2_session *s, weft__h2_stream *st);

/*
 * Return the error of a stream that has ended before its response. If the server has not processed
 * the request, note this in the fetch.
 */
int weft__h2_response_error(weft_fetch *f);

/* Discard what the stream has received. */
void weft__h2_response_clear(weft__h2_fetch *x);

#endif

/*
 * A connection of a client to a broker.
 *
 * The fiber of the connection reads and performs the operations of the client. A second fiber
 * writes the output, all of it at a time. Both are in the thread of the broker. The output is
 * bounded: a client that does not read is disconnected.
 */
#ifndef WEFT_HUB_BROKER_CONN_H
#define WEFT_HUB_BROKER_CONN_H

#include "hub/broker/broker.h"
#include "hub/text/json_read.h"
#include "hub/wire/parse.h"

#include <weft/stream.h>

typedef struct weft__broker_conn {
    weft__list node; /* in conns of the broker, while the fiber of the connection runs */
    weft_hub_broker *broker;
    uint64_t id;
    int fd; /* owned by input after the fiber has begun */
    weft_stream input;

    weft__buffer output;  /* appended by any fiber, taken by the writer */
    size_t sending_bytes; /* taken by the writer, and not yet sent */
    weft_cond changed;    /* signalled if there is output, or is_closed or is_ending is set */
    bool is_closed;       /* nothing more is read, written or delivered */
    bool is_ending;       /* the writer ends after the output */

    weft__list subs;
    weft__hash subs_by_sid;

    /* Of CONNECT. */
    char *name; /* NULL: none */
    bool is_verbose, is_echoing, has_headers, has_no_responders;

    bool is_isolated;
    unsigned pings;  /* without a reply or other input */
    int64_t ping_ns; /* the time of the next ping */
} weft__broker_conn;

/*
 * Create a connection over a descriptor. The caller holds the broker for the connection, runs
 * weft__broker_conn_run in a fiber of the broker's thread, and sets weft__broker_conn_drop. Returns
 * NULL if memory is exhausted; the caller still owns the descriptor and its hold of the broker.
 */
weft__broker_conn *weft__broker_conn_new(weft_hub_broker *b, int fd);

/* Serve a connection until it ends. Then close the descriptor and release the broker. A weft_fn. */
weft_value weft__broker_conn_run(void *arg);

/* Like weft__broker_conn_run, for a fiber that never ran. Any thread may call this function. */
void weft__broker_conn_drop(void *arg);

/* Append a message to the output of a client. If the output is full, disconnect the client. */
void weft__broker_conn_deliver(weft__broker_conn *conn, const weft__publication *p, uint64_t sid);

/* Append text to the output. */
void weft__broker_conn_send(weft__broker_conn *conn, const char *text);

/* Break a connection. Its fiber ends later. */
void weft__broker_conn_cut(weft__broker_conn *conn);

/* Send a ping if it is time. Return the time of the next ping. */
int64_t weft__broker_conn_ping(weft__broker_conn *conn, int64_t now_ns);

/*
 * Perform an operation of the client (verbs.c). Returns 0, or:
 * -EPROTO if the connection must be closed
 */
int weft__broker_conn_perform(weft__broker_conn *conn, const weft__op_line *op);

/* Wait until the connection is not isolated and the broker not paused (faults.c). */
int weft__broker_conn_pass_gate(weft__broker_conn *conn);
bool weft__broker_conn_is_held(const weft__broker_conn *conn);

#endif

/*
 * Connections without a fiber.
 *
 *     rest.c      connections at rest, and their next fiber
 *     upgraded.c  connections of another protocol, for example WebSocket
 *
 * A silent connection goes to rest: its fiber ends, and a record in the heap stays (weft__resting).
 * A watch (weft/fd_watch.h) creates the next fiber when input arrives or the time is over. The
 * connection remains counted in all limits of its server. The drain of the server ends it.
 *
 * Only connections of weft_http_serve can rest. weft_http_serve_conn serves a connection in the
 * fiber of its caller.
 */
#ifndef WEFT_HTTP_REST_REST_H
#define WEFT_HTTP_REST_REST_H

#include "http/server/server.h"

#include <weft/fd_watch.h>

/*
 * A connection goes to rest after this silent time, in seconds. Busy connections keep their fiber.
 */
#define WEFT__REST_AFTER_S 1.0
/* WEFT__REST_AFTER_S, or a shorter time in tests. */
extern double weft__rest_after_s;

/* How a protocol continues a connection that has rested. */
typedef struct weft__rest_type {
    /*
     * Continue a connection, in a new fiber. c is on the stack of that fiber, and its stream is
     * open. reason is 0 if input has arrived, or:
     * -ESHUTDOWN if the server drains
     * -ETIMEDOUT if the time is over
     *
     * The function may put the connection to rest again. Otherwise the caller closes the
     * connection. Returns 0, or the error that ended the connection.
     */
    int (*resume)(weft__conn *c, void *state, int reason);
    /*
     * Release the state of a connection that ends without a fiber. Blocking calls fail. NULL: the
     * state owns nothing.
     */
    void (*drop)(void *state);
    /* The state owns the stream and its descriptor. The stream of the connection is not open. */
    bool keeps_stream;
} weft__rest_type;

/*
 * A connection at rest. The record exists from the first rest until the connection is closed. If
 * each rest allocated it again, the heap would be fragmented.
 */
typedef struct weft__resting {
    weft__list link; /* in resting of the server; in no list while a fiber runs */
    weft_fd_watch watch;
    weft__server *server;
    const weft__rest_type *type;
    void *state;
    /* The stream over TLS, open only at rest. NULL: a plain connection, or type->keeps_stream */
    weft_stream *stream;
    double until_s; /* end of the rest, on the clock of weft_now; INFINITY: none */
    weft__peer peer;
    bool is_tls;
    int fd;
} weft__resting;

/*
 * Put a connection to rest for at most timeout_s seconds. The stream must have no input and no
 * output. On success, the caller must not use the connection, and its fiber must end.
 *
 * Returns 0. On failure, nothing has changed, and the caller waits in its fiber:
 * -EBUSY if the stream has input, or another fiber uses the stream
 * -EBUSY if the peer has not acknowledged all output
 * -EOPNOTSUPP if the connection belongs to weft_http_serve_conn
 * -ESHUTDOWN if the server drains
 * an error of weft_fd_watch_open
 */
int weft__conn_rest(weft__conn *c, const weft__rest_type *type, void *state, double timeout_s);

/*
 * Remove a record from the list of its server, and free it. The stream must not be open. If r is
 * NULL, the call does nothing.
 */
void weft__resting_free(weft__resting *r);

/*
 * Continue a connection in the calling fiber. Returns WEFT__CONN_RESTS if the
 * connection rests again. Otherwise the connection is closed, and the call returns the result of
 * resume, and frees r. (server/conn.c)
 */
int weft__conn_resume(weft__resting *r, int reason);

/*
 * End all connections at rest, because the server drains. Connections that must say goodbye get a
 * fiber.
 */
void weft__rest_drain(weft__server *s);

/* End all connections at rest without a fiber, because the server ends. */
void weft__rest_end(weft__server *s);

/*
 * Upgraded connections. The handler of a request adopts the connection, and returns. The connection
 * then belongs to the functions of a weft__upgraded_type.
 */

typedef struct weft__upgraded weft__upgraded;

typedef struct weft__upgraded_type {
    /*
     * Handle an event, in a fiber. The stream is weft__upgraded_enter(u). One fiber at a time is in
     * this function. The first call follows the return of the handler, in the same fiber.
     *
     * reason is 0 if input has arrived or at the first call, the reason of weft__upgraded_wake, or:
     * -ECANCELED if the fiber is cancelled: blocking calls fail, and the connection is closed next
     * -ESHUTDOWN if the server drains; the function should end the protocol, and return -1
     * -ETIMEDOUT if the time that the last call returned is over
     *
     * Returns the number of seconds for which to wait for input, or a negative number to close the
     * connection. While the connection waits, it has no fiber after the first second. The function
     * must have handled all input that has arrived in the stream. Its output is flushed.
     */
    double (*run)(weft__upgraded *u, int reason);
    /*
     * Release u. The server calls this function once, when the connection is closed. Blocking calls
     * may fail. The function must not create fibers.
     */
    void (*closed)(weft__upgraded *u);
} weft__upgraded_type;

/* An upgraded connection, in memory of its protocol. The fields are private to upgraded.c. */
struct weft__upgraded {
    const weft__upgraded_type *type;
    weft__conn *conn;           /* while a fiber runs; NULL: at rest */
    struct weft__resting *rest; /* while at rest; NULL: a fiber runs */
    weft_stream *stream;        /* NULL: at rest, and opened by the next weft__upgraded_enter */
    unsigned users;             /* calls between weft__upgraded_enter and _leave */
    int16_t wake_reason;        /* of weft__upgraded_wake; 0: none */
    uint16_t entries;           /* calls of weft__upgraded_enter, modulo 2^16 */
};

/*
 * Keep the connection of an upgraded request (weft_http_upgrade) after its handler has returned.
 * The handler must return next, and must not use the stream of weft_http_upgrade any more.
 *
 * Returns 0. On failure, nothing has changed:
 * -ENOMEM if memory is exhausted
 * -EOPNOTSUPP if the connection cannot rest: HTTP/2, or weft_http_serve_conn. The handler must then
 * serve the connection until its end.
 */
int weft__upgraded_adopt(weft__upgraded *u, const weft__upgraded_type *type, weft_http_request *r);

/*
 * Run an upgraded connection in the fiber of c, until the connection rests or must be closed.
 * Returns 0, or the error that ended the connection.
 */
int weft__upgraded_run(weft__conn *c, int reason);

/*
 * Return the stream of a connection, for a call in the current fiber. Any fiber of the thread may
 * call this function, also while the connection rests. Call weft__upgraded_leave after the call.
 * The pointer is valid until then. Returns NULL if memory is exhausted or the connection is closed.
 */
weft_stream *weft__upgraded_enter(weft__upgraded *u);

/*
 * End the use of the stream. The call flushes the output of a connection at rest, if the caller has
 * not done so. Output that cannot be flushed, for example in a cancelled fiber, remains for the
 * next call. The caller must then call weft__upgraded_wake first.
 */
WEFT_SWITCHPOINT void weft__upgraded_leave(weft__upgraded *u);

/* How the server ends a connection after run has returned a negative number. */
typedef enum weft__upgraded_end {
    WEFT__UPGRADED_CLOSE,  /* close; the default */
    WEFT__UPGRADED_LINGER, /* discard input, so that the peer gets all output */
    WEFT__UPGRADED_RESET,  /* discard unsent output */
} weft__upgraded_end;

/* Choose how to end the connection, in run. */
void weft__upgraded_set_end(weft__upgraded *u, weft__upgraded_end end);

/* Return whether the server drains, in run. */
bool weft__upgraded_is_draining(const weft__upgraded *u);

/*
 * Let the drain and weft__upgraded_wake cancel a scope while run waits in it. NULL: none. After the
 * wait, run should return, or check weft__upgraded_is_draining.
 */
void weft__upgraded_set_wait_scope(weft__upgraded *u, weft_scope *scope);

/*
 * Call run with a reason (a negative errno), soon, from a fiber. If run is running, the call
 * follows its return. Any fiber of the thread may call this function.
 */
void weft__upgraded_wake(weft__upgraded *u, int reason);

#endif

/* The classes of Ruby over the bridge: Weft::Server::Bridge and Weft::Server::Request. */
#ifndef WEFT_SERVER_EXT_H
#define WEFT_SERVER_EXT_H

#include "bridge.h"

#include <ruby.h>

extern VALUE cRequest;

/* env.c */

void init_env(void);

/* Return the environment of Rack for a request. template has the constant part. */
VALUE env_build(const exchange *x, VALUE template);

/* request.c */

void init_request(VALUE mServer);

/* Return a new request object that takes over the caller's reference. */
VALUE request_new(exchange *x, VALUE bridge, VALUE template);

/*
 * Mark the queues of all request objects. A notice may arrive for a request that is garbage but not
 * freed yet: its queues must still exist.
 */
void requests_mark_waiters(const bridge *b);

/* Wake the fibers and threads that wait for a change of an exchange. */
void request_wake(exchange *x);

/* head.c */

/*
 * Return a head from the headers of Rack, in memory of malloc. path and protocol are Strings or
 * nil. Return NULL if headers must be normalised first: a value is neither a String nor an Array of
 * Strings.
 */
reply_head *head_new(int status, VALUE headers, VALUE path, VALUE protocol);

/* io.c */

void init_request_io(void);

/* Return the exchange of a request object. */
exchange *request_exchange(VALUE self);

/* Create the queue in which a fiber waits for input (0) or for space (1). */
void request_prepare_wait(VALUE self, int direction);

#endif

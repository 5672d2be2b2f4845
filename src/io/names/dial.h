/* Connecting to the first of several addresses that accepts a connection. */
#ifndef WEFT_IO_NAMES_DIAL_H
#define WEFT_IO_NAMES_DIAL_H

#include <netdb.h>

/* The time before the next attempt starts in parallel, in seconds (RFC 8305, section 8). */
#define WEFT__DIAL_DELAY_S 0.25

/*
 * Connect a stream socket to one of the addresses, as weft_dial does. addresses must not be NULL.
 * Returns the descriptor, the error of the last attempt, or the error that interrupted the call.
 */
int weft__dial_any(const struct addrinfo *addresses);

#endif

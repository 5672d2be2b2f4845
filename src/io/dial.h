/* Connecting to the first of several addresses that answers. */
#ifndef WEFT_IO_DIAL_H
#define WEFT_IO_DIAL_H

#include <netdb.h>

/*
 * How long an attempt may go unanswered before the next one begins beside it: RFC 8305, section 8.
 */
#define WEFT__DIAL_DELAY_S 0.25

/*
 * A stream socket that is connected to one of the addresses, as weft_dial says, or the error of the
 * last attempt. Not NULL.
 */
int weft__dial_any(const struct addrinfo *addresses);

#endif

/*
 * Headers of NATS messages: a block of lines, each with CRLF. The first line is "NATS/1.0", or
 * "NATS/1.0 STATUS" or "NATS/1.0 STATUS TEXT". Fields follow as "Name: value". An empty line ends
 * the block. Names are compared without regard to case.
 *
 * All functions accept any bytes: a server does not check the headers that a client publishes. In
 * a block that is not well-formed, they find what they can.
 */
#ifndef WEFT_HUB_TEXT_HEADER_H
#define WEFT_HUB_TEXT_HEADER_H

#include "hub/text/slice.h"

#include <stdint.h>

/* Return whether a block of headers is well-formed. An empty block is not. */
bool weft__header_is_valid(weft__slice headers);

/* Return the status (100 to 999), or 0 if the block is empty or has no status. */
int weft__header_status(weft__slice headers);

/* Return the text after the status, or an empty slice. */
weft__slice weft__header_status_text(weft__slice headers);

/* Return the value of the first field with a name, without blanks around it. data NULL: none. */
weft__slice weft__header_find(weft__slice headers, const char *name);

/* Return the value of a field as a number. Returns otherwise if it is missing or not a number. */
uint64_t weft__header_number(weft__slice headers, const char *name, uint64_t otherwise);

#endif

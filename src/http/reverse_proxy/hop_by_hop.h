/* Hop-by-hop fields: headers and trailers that a proxy does not forward (RFC 9110, 7.6.1). */
#ifndef WEFT_HTTP_REVERSE_PROXY_HOP_BY_HOP_H
#define WEFT_HTTP_REVERSE_PROXY_HOP_BY_HOP_H

#include "http/message/head.h"

#include <stdbool.h>

/*
 * Return whether a proxy forwards this header of a message with this head. Return false for headers
 * that manage the connection or frame the message, and for headers that Connection names.
 */
bool weft__field_is_end_to_end(const weft__head *head, const char *name);

/*
 * Like weft__field_is_end_to_end, for a trailer. Also return false for the names of routing
 * headers, for example Host and Forwarded.
 */
bool weft__trailer_is_end_to_end(const weft__head *head, const char *name);

#endif

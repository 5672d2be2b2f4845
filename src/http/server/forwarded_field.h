/*
 * Parsers for headers in which proxies report the client's address, host and scheme:
 * X-Forwarded-For and Forwarded (RFC 7239). The parsers ignore reports of untrusted proxies.
 */
#ifndef WEFT_HTTP_SERVER_FORWARDED_FIELD_H
#define WEFT_HTTP_SERVER_FORWARDED_FIELD_H

#include "http/text/field.h"
#include "http/url/ip.h"

/*
 * Write the client's address to out: the peer, or an address in X-Forwarded-For. value is NULL if
 * the header is absent. If the header occurs several times, the caller must join the values with
 * commas.
 *
 * If the peer is trusted, the call reads the items from right to left. The client is the first
 * address that is not trusted, else the leftmost address. An item that is not an address ends the
 * search. The client is then the address to the right of that item, else the peer. The call ignores
 * empty items, ports and brackets.
 */
void weft__x_forwarded_for_read(char out[WEFT__IP_TEXT_BYTES], const char *value,
                                const weft__cidr_list *trusted, const struct sockaddr *peer);

/* The client as Forwarded describes it. */
typedef struct weft__forwarded {
    char peer[WEFT__IP_TEXT_BYTES]; /* address of the client or of the nearest known proxy */
    weft__span host;                /* the requested host; at is NULL if absent */
    weft__span proto;               /* the scheme; at is NULL if absent */
} weft__forwarded;

/*
 * Parse Forwarded. If the header occurs several times, the caller must join the values with commas.
 * The call unescapes values in place. The spans in *out point into value.
 *
 * The peer has added the last element. Each element names a client or proxy. A proxy that an
 * element names has added the element to the left. The call reads elements from right to left until
 * an element names an untrusted address or no address. host, proto and the client's address come
 * from the last element that the call reads. If that element names no address ("unknown", "_x"),
 * the client's address comes from the element to its right, else from the peer.
 *
 * A malformed element ends the search and has no effect. The text to the left of a malformed
 * element has no effect either, even if the text contains an unclosed quotation mark.
 */
void weft__forwarded_field_read(weft__forwarded *out, char *value, const weft__cidr_list *trusted,
                                const struct sockaddr *peer);

#endif

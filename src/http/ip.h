/*
 * Addresses of the internet, ranges of them, and whom to believe: peers that are trusted, and what
 * they say of whom they speak for.
 */
#ifndef WEFT_HTTP_IP_H
#define WEFT_HTTP_IP_H

#include "http/field.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* An address; one of IPv4 is kept as it is mapped into IPv6, and is equal to that. */
typedef struct weft__ip {
    uint8_t bytes[16];
} weft__ip;

/* Room for one as text. */
#define WEFT__IP_TEXT_BYTES INET6_ADDRSTRLEN

/* An address as text, without a port, a zone or brackets. False if it is none. */
bool weft__ip_parse(weft__ip *out, const char *text, size_t bytes);

/* A socket's address. False if it is of another family. */
bool weft__ip_of(weft__ip *out, const struct sockaddr *address);

/* As text; IPv4, mapped or not, in its own way. */
void weft__ip_write(const weft__ip *ip, char out[WEFT__IP_TEXT_BYTES]);

/* A peer as text: its address without port, or "unix". */
void weft__ip_write_peer(const struct sockaddr *peer, char out[WEFT__IP_TEXT_BYTES]);

/* Addresses that begin with the same bits. */
typedef struct weft__cidr {
    weft__ip ip;
    unsigned bits; /* of 128 */
} weft__cidr;

/* "10.0.0.0/8", or one address. False if it is neither. */
bool weft__cidr_read(weft__cidr *out, const char *text, size_t bytes);

/* Does it begin with these bits? No range of IPv6 covers an address of IPv4. */
bool weft__cidr_covers(const weft__cidr *range, const weft__ip *ip);

/* All-zero has nothing in it. */
typedef struct weft__cidr_list {
    weft__cidr *ranges;
    size_t count;
    bool has_unix; /* who comes by a unix socket is in it */
} weft__cidr_list;

/*
 * Addresses, ranges and "unix", with commas between them: "127.0.0.1, 10.0.0.0/8, ::1, unix"; NULL
 * or "" is nobody. -EINVAL, with words, for a bad one; -ENOMEM. To be closed.
 */
int weft__cidr_parse(weft__cidr_list *list, const char *text);

void weft__cidr_close(weft__cidr_list *list);

/*
 * Is this in it? Addresses of IPv4 are in ranges of IPv4 only, mapped or not: "::/0" is all of
 * IPv6.
 */
bool weft__cidr_has_ip(const weft__cidr_list *list, const weft__ip *ip);
bool weft__cidr_has(const weft__cidr_list *list, const struct sockaddr *address);

/*
 * Who the client is: the peer, or whom X-Forwarded-For (NULL: none; several fields joined with
 * commas) names, as far as those who say so are trusted: read from the right, the first that is
 * not. What is no address ends the search: then it is the one to the right of it. Empty items are
 * passed over; ports and brackets are left out.
 */
void weft__forwarded_for(char out[WEFT__IP_TEXT_BYTES], const char *value,
                         const weft__cidr_list *trusted, const struct sockaddr *peer);

/* What Forwarded (RFC 7239) says of the client. */
typedef struct weft__forwarded {
    char peer[WEFT__IP_TEXT_BYTES]; /* its address, or that of the nearest known proxy */
    weft__piece host;               /* the host that it has asked for; NULL: not said */
    weft__piece proto;              /* the scheme; NULL: not said */
} weft__forwarded;

/*
 * Read Forwarded, several fields joined with commas. Read elements from the right, as long as the
 * proxy that has added them is trusted: the peer first, then the one that it names. The last
 * element that is read gives host, proto and the client, unless it names no address ("unknown",
 * "_x"). A malformed element ends the search; text to the left of it has no effect, not even an
 * open quotation mark. Values are unescaped in place.
 */
void weft__forwarded_read(weft__forwarded *out, char *value, const weft__cidr_list *trusted,
                          const struct sockaddr *peer);

#endif

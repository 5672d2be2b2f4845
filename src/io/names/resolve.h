/*
 * Types that the parts of weft_resolve share: a lookup, the addresses found, and the list for the
 * caller.
 */
#ifndef WEFT_IO_NAMES_RESOLVE_H
#define WEFT_IO_NAMES_RESOLVE_H

#include "base/list.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

/* An address, without a port. */
typedef union weft__ip_addr {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} weft__ip_addr;

/* A list of addresses, in the order in which to try them. All-zero is empty. */
typedef struct weft__ip_addrs {
    weft__ip_addr *list;
    size_t count, capacity;
} weft__ip_addrs;

/*
 * Append an address. family must be AF_INET or AF_INET6. bytes points to the address in network
 * byte order. Returns false if memory is exhausted.
 */
bool weft__ip_addrs_add(weft__ip_addrs *ips, int family, const void *bytes);
void weft__ip_addrs_free(weft__ip_addrs *ips);

/*
 * Remove the addresses of other families. With AI_V4MAPPED, first convert IPv4 addresses to mapped
 * IPv6 addresses as getaddrinfo does. If family is AF_UNSPEC, the call does nothing.
 */
void weft__ip_addrs_map(weft__ip_addrs *ips, int family, int flags);

/* Sort addresses as RFC 6724, section 6 specifies. */
void weft__ip_addrs_order(weft__ip_addrs *ips);

/*
 * Build the list for the caller, in one allocation. weft_resolve_free frees the list. The list has
 * one entry for each combination of an address and an entry of ports. An entry of ports has a type,
 * a protocol and an IPv4 address with a port. Returns NULL if memory is exhausted.
 */
struct addrinfo *weft__addrinfo_build(const weft__ip_addrs *ips, const struct addrinfo *ports,
                                      int flags, const char *canonical);

/* Like weft__addrinfo_build, but from a list that getaddrinfo returned. */
struct addrinfo *weft__addrinfo_copy(const struct addrinfo *list);

/*
 * A lookup and its result. The arguments are copied, because the caller may abandon the lookup. The
 * caller owns the lookup until the caller passes it to a worker or to a DNS client.
 */
typedef struct weft__lookup {
    const char *host, *service; /* point into text, or NULL */
    struct addrinfo hints;
    bool has_hints;
    int code;               /* return value of getaddrinfo */
    int error;              /* errno, if code is EAI_SYSTEM */
    struct addrinfo *found; /* a list from weft__addrinfo_build; NULL: none */
    /* Types, protocols and ports for weft__addrinfo_build. NULL: not looked up. */
    struct addrinfo *ports;

    /* The following fields belong to the DNS client. */
    weft__list link;                 /* in queued or done */
    struct weft__dns *dns;           /* the DNS client that has the lookup */
    struct weft__dns_waiter *waiter; /* NULL: abandoned */
    /* The family of the hints, or the only family of this machine. */
    int family;
    char text[];
} weft__lookup;

weft__lookup *weft__lookup_new(const char *host, const char *service, const struct addrinfo *hints);
void weft__lookup_free(weft__lookup *l);

#endif

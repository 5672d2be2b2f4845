/*
 * What the parts of weft_resolve share: a lookup, the addresses that one finds, and the list that
 * the caller is given.
 */
#ifndef WEFT_IO_RESOLVE_H
#define WEFT_IO_RESOLVE_H

#include "base/list.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

/* An address, with no port yet. */
typedef union weft__ip {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} weft__ip;

/* Addresses, in the order in which they are to be tried. All-zero is none. */
typedef struct weft__ips {
    weft__ip *of;
    size_t count, room;
} weft__ips;

/* One more, of family AF_INET or AF_INET6; bytes as in a DNS answer. False: no memory. */
bool weft__ips_add(weft__ips *ips, int family, const void *bytes);
void weft__ips_free(weft__ips *ips);

/* Keep what was asked for; IPv4 as mapped IPv6 where the flags of getaddrinfo say so. */
void weft__ips_map(weft__ips *ips, int family, int flags);

/* Put them in the order of RFC 6724, section 6. */
void weft__ips_order(weft__ips *ips);

/*
 * The list for the caller: one allocation, which weft_resolve_free frees. For each address an entry
 * for each of ports, a list whose entries have a type, a protocol and, as IPv4, a port. NULL: no
 * memory.
 */
struct addrinfo *weft__found_build(const weft__ips *ips, const struct addrinfo *ports, int flags,
                                   const char *canonical);

/* The same from what getaddrinfo returned. */
struct addrinfo *weft__found_copy(const struct addrinfo *list);

/*
 * What is asked, in copies, as the asker may leave before the end; and what came of it. Of the
 * asker, until the pool or the DNS has it.
 */
typedef struct weft__lookup {
    const char *host, *service; /* in text; or NULL */
    struct addrinfo hints;
    bool has_hints;
    int code;               /* as getaddrinfo returns it */
    int error;              /* errno, when that is EAI_SYSTEM */
    struct addrinfo *found; /* as weft__found_build makes it; NULL: nothing */
    struct addrinfo *ports; /* the same, for the DNS: see there; NULL: not looked up yet */

    /* The rest is the DNS's own. */
    weft__list link;           /* among those that it has not begun */
    struct weft__dns *dns;     /* who has it */
    struct weft__asker *asker; /* NULL: it was given up */
    int family;                /* the hints', or the one that this machine has */
    char text[];
} weft__lookup;

weft__lookup *weft__lookup_new(const char *host, const char *service, const struct addrinfo *hints);
void weft__lookup_free(weft__lookup *l);

#endif

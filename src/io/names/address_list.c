/*
 * Lists of addresses, and the list for the caller. The list for the caller has the form of a list
 * from getaddrinfo, but is one allocation.
 */
#include "io/names/resolve.h"

#include <stdlib.h>
#include <string.h>

/* An entry of the list for the caller. The canonical name follows the last entry. */
typedef struct item {
    struct addrinfo info;
    weft__ip_addr address;
} item;

bool weft__ip_addrs_add(weft__ip_addrs *ips, int family, const void *bytes)
{
    if (ips->count == ips->capacity) {
        size_t capacity = ips->capacity > 0 ? 2 * ips->capacity : 8;
        weft__ip_addr *list = realloc(ips->list, capacity * sizeof *list);
        if (list == NULL)
            return false;
        ips->list = list;
        ips->capacity = capacity;
    }
    weft__ip_addr *ip = &ips->list[ips->count++];
    memset(ip, 0, sizeof *ip);
    ip->any.sa_family = (sa_family_t)family;
    if (family == AF_INET)
        memcpy(&ip->v4.sin_addr, bytes, sizeof ip->v4.sin_addr);
    else
        memcpy(&ip->v6.sin6_addr, bytes, sizeof ip->v6.sin6_addr);
    return true;
}

void weft__ip_addrs_free(weft__ip_addrs *ips)
{
    free(ips->list);
    *ips = (weft__ip_addrs){0};
}

static size_t count_of_family(const weft__ip_addrs *ips, int family)
{
    size_t count = 0;
    for (size_t i = 0; i < ips->count; i++)
        count += ips->list[i].any.sa_family == family;
    return count;
}

static void map_to_v6(weft__ip_addr *ip)
{
    struct in_addr v4 = ip->v4.sin_addr;
    memset(ip, 0, sizeof *ip);
    ip->v6.sin6_family = AF_INET6;
    ip->v6.sin6_addr.s6_addr[10] = ip->v6.sin6_addr.s6_addr[11] = 0xff;
    memcpy(&ip->v6.sin6_addr.s6_addr[12], &v4, sizeof v4);
}

void weft__ip_addrs_map(weft__ip_addrs *ips, int family, int flags)
{
    if (family == AF_UNSPEC)
        return;
    bool is_mapped = family == AF_INET6 && flags & AI_V4MAPPED &&
                     (flags & AI_ALL || count_of_family(ips, AF_INET6) == 0);
    size_t remaining = 0;
    for (size_t i = 0; i < ips->count; i++) {
        weft__ip_addr *ip = &ips->list[i];
        if (is_mapped && ip->any.sa_family == AF_INET)
            map_to_v6(ip);
        if (ip->any.sa_family == family)
            ips->list[remaining++] = *ip;
    }
    ips->count = remaining;
}

static size_t count_addrinfo(const struct addrinfo *list)
{
    size_t count = 0;
    for (; list != NULL; list = list->ai_next)
        count++;
    return count;
}

/* Allocate linked entries. The first entry points to the canonical name. */
static item *items_new(size_t count, const char *canonical)
{
    size_t bytes = canonical != NULL ? strlen(canonical) + 1 : 0;
    item *items = calloc(1, count * sizeof *items + bytes);
    if (items == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        items[i].info.ai_addr = &items[i].address.any;
        items[i].info.ai_next = i + 1 < count ? &items[i + 1].info : NULL;
    }
    if (canonical != NULL)
        items[0].info.ai_canonname = memcpy(&items[count], canonical, bytes);
    return items;
}

static void item_fill(item *it, const weft__ip_addr *ip, const struct addrinfo *port, int flags)
{
    const weft__ip_addr *from = (const weft__ip_addr *)port->ai_addr;
    bool is_v4 = ip->any.sa_family == AF_INET;
    it->address = *ip;
    if (is_v4)
        it->address.v4.sin_port = from->v4.sin_port;
    else
        it->address.v6.sin6_port = from->v4.sin_port;
    it->info.ai_flags = flags;
    it->info.ai_family = ip->any.sa_family;
    it->info.ai_socktype = port->ai_socktype;
    it->info.ai_protocol = port->ai_protocol;
    it->info.ai_addrlen = is_v4 ? sizeof ip->v4 : sizeof ip->v6;
}

struct addrinfo *weft__addrinfo_build(const weft__ip_addrs *ips, const struct addrinfo *ports,
                                      int flags, const char *canonical)
{
    item *items = items_new(ips->count * count_addrinfo(ports), canonical);
    if (items == NULL)
        return NULL;
    item *next = items;
    for (size_t i = 0; i < ips->count; i++)
        for (const struct addrinfo *port = ports; port != NULL; port = port->ai_next)
            item_fill(next++, &ips->list[i], port, flags);
    return &items->info;
}

struct addrinfo *weft__addrinfo_copy(const struct addrinfo *list)
{
    item *items = items_new(count_addrinfo(list), list->ai_canonname);
    if (items == NULL)
        return NULL;
    item *to = items;
    for (const struct addrinfo *from = list; from != NULL; from = from->ai_next, to++) {
        socklen_t bytes = from->ai_addrlen;
        if (bytes > sizeof to->address)
            bytes = sizeof to->address; /* no internet address is longer */
        memcpy(&to->address, from->ai_addr, bytes);
        to->info.ai_flags = from->ai_flags;
        to->info.ai_family = from->ai_family;
        to->info.ai_socktype = from->ai_socktype;
        to->info.ai_protocol = from->ai_protocol;
        to->info.ai_addrlen = bytes;
    }
    return &items->info;
}

/*
 * Names without a name server: the hosts file, whose text somebody else has read, and which
 * families this machine has addresses of.
 */
#include "io/resolve_system.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BLANKS " \t\r\f\v"

/* A line's end, or where its comment begins. */
static const char *end_of(const char *line)
{
    return line + strcspn(line, "#\n");
}

/* Is name one of the words in between? */
static bool has_name(const char *from, const char *to, const char *name)
{
    size_t bytes = strlen(name);
    while (from < to) {
        from += strspn(from, BLANKS);
        size_t word = strcspn(from, BLANKS "#\n");
        if (word == bytes && strncasecmp(from, name, bytes) == 0)
            return true;
        from += word > 0 ? word : 1;
    }
    return false;
}

static bool has_v4(const weft__ips *ips, struct in_addr address)
{
    for (size_t i = 0; i < ips->count; i++) {
        const weft__ip *ip = &ips->of[i];
        if (ip->any.sa_family == AF_INET && ip->v4.sin_addr.s_addr == address.s_addr)
            return true;
    }
    return false;
}

/* The IPv4 address that the C library reads in an IPv6 one. False: there is none. */
static bool read_v4_in_v6(const struct in6_addr *v6, int family, struct in_addr *out)
{
    if (family == AF_INET && IN6_IS_ADDR_LOOPBACK(v6)) {
        out->s_addr = htonl(INADDR_LOOPBACK);
        return true;
    }
    if (family == AF_INET6 || !IN6_IS_ADDR_V4MAPPED(v6))
        return false;
    memcpy(out, &v6->s6_addr[12], sizeof *out);
    return true;
}

/*
 * Add the address that a line begins with, if it is of the family, and if it is an IPv4 address, if
 * it is a new one. 0; -ENOENT: it is of the other family, or not an address; -ENOMEM.
 */
static int add_address(const char *line, size_t bytes, int family, weft__ips *out)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr v6;
    struct in_addr v4;
    if (bytes >= sizeof text)
        return -ENOENT;
    memcpy(text, line, bytes);
    text[bytes] = '\0';
    bool is_v4 = inet_pton(AF_INET, text, &v4) == 1;
    if (!is_v4 && inet_pton(AF_INET6, text, &v6) != 1)
        return -ENOENT;
    is_v4 = is_v4 || read_v4_in_v6(&v6, family, &v4);
    if (family != AF_UNSPEC && (family == AF_INET) != is_v4)
        return -ENOENT;
    if (is_v4 && has_v4(out, v4))
        return 0;
    return weft__ips_add(out, is_v4 ? AF_INET : AF_INET6, is_v4 ? (void *)&v4 : (void *)&v6)
               ? 0
               : -ENOMEM;
}

/* What a line says of the name. 0; -ENOENT: nothing; -ENOMEM. */
static int take_line(const char *line, const char *name, int family, weft__ips *out,
                     char **canonical)
{
    const char *end = end_of(line);
    const char *address = line + strspn(line, BLANKS);
    size_t bytes = strcspn(address, BLANKS "#\n");
    const char *names = address + bytes;
    if (bytes == 0 || !has_name(names, end, name))
        return -ENOENT;
    int rc = add_address(address, bytes, family, out);
    if (rc < 0 || *canonical != NULL)
        return rc;
    names += strspn(names, BLANKS);
    *canonical = strndup(names, strcspn(names, BLANKS "#\n"));
    return *canonical != NULL ? 0 : -ENOMEM;
}

int weft__hosts_find(const char *text, const char *name, int family, weft__ips *out,
                     char **canonical)
{
    int rc = -ENOENT;
    for (const char *line = text != NULL ? text : ""; *line != '\0';) {
        int one = take_line(line, name, family, out, canonical);
        if (one != -ENOENT)
            rc = one;
        if (rc == -ENOMEM)
            return rc;
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return rc;
}

int weft__family_here(int family)
{
    struct ifaddrs *all;
    if (getifaddrs(&all) < 0)
        return family;
    bool has_v4 = false, has_v6 = false;
    for (const struct ifaddrs *one = all; one != NULL; one = one->ifa_next) {
        if (one->ifa_addr == NULL)
            continue;
        const weft__ip *ip = (const weft__ip *)one->ifa_addr;
        if (ip->any.sa_family == AF_INET)
            has_v4 |= ip->v4.sin_addr.s_addr != htonl(INADDR_LOOPBACK);
        else if (ip->any.sa_family == AF_INET6)
            has_v6 |= !IN6_IS_ADDR_LOOPBACK(&ip->v6.sin6_addr);
    }
    freeifaddrs(all);
    if (family == AF_UNSPEC)
        return has_v4 == has_v6 ? AF_UNSPEC : has_v4 ? AF_INET : AF_INET6;
    return (family == AF_INET ? has_v4 : has_v6) ? family : -1;
}

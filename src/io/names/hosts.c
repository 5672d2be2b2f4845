/*
 * Lookups without a name server: the text of the hosts file, and the address families of this
 * machine.
 */
#include "io/names/system_files.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BLANKS " \t\r\f\v"

/* Return the end of a line, or the start of its comment. */
static const char *line_end(const char *line)
{
    return line + strcspn(line, "#\n");
}

/* Return whether name is a word of the text between from and to. */
static bool line_has_name(const char *from, const char *to, const char *name)
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

static bool has_v4(const weft__ip_addrs *ips, struct in_addr address)
{
    for (size_t i = 0; i < ips->count; i++) {
        const weft__ip_addr *ip = &ips->list[i];
        if (ip->any.sa_family == AF_INET && ip->v4.sin_addr.s_addr == address.s_addr)
            return true;
    }
    return false;
}

/*
 * Convert an IPv6 address to IPv4 in the cases in which the C library does. Returns false in all
 * other cases.
 */
static bool map_v6_to_v4(const struct in6_addr *v6, int family, struct in_addr *out)
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
 * Add the address at the start of a line. Skip duplicate IPv4 addresses.
 *
 * Returns 0, or:
 * -ENOENT if the text is not an address of the family
 * -ENOMEM if memory is exhausted
 */
static int ips_add_text(const char *line, size_t bytes, int family, weft__ip_addrs *out)
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
    is_v4 = is_v4 || map_v6_to_v4(&v6, family, &v4);
    if (family != AF_UNSPEC && (family == AF_INET) != is_v4)
        return -ENOENT;
    if (is_v4 && has_v4(out, v4))
        return 0;
    return weft__ip_addrs_add(out, is_v4 ? AF_INET : AF_INET6, is_v4 ? (void *)&v4 : (void *)&v6)
               ? 0
               : -ENOMEM;
}

/*
 * Add the address of a line if the line has the name.
 *
 * Returns 0, or:
 * -ENOENT if the line has no address of the family
 * -ENOENT if the line does not have the name
 * -ENOMEM if memory is exhausted
 */
static int hosts_take_line(const char *line, const char *name, int family, weft__ip_addrs *out,
                           char **canonical)
{
    const char *end = line_end(line);
    const char *address = line + strspn(line, BLANKS);
    size_t bytes = strcspn(address, BLANKS "#\n");
    const char *names = address + bytes;
    if (bytes == 0 || !line_has_name(names, end, name))
        return -ENOENT;
    int rc = ips_add_text(address, bytes, family, out);
    if (rc < 0 || *canonical != NULL)
        return rc;
    names += strspn(names, BLANKS);
    *canonical = strndup(names, strcspn(names, BLANKS "#\n"));
    return *canonical != NULL ? 0 : -ENOMEM;
}

int weft__hosts_find(const char *text, const char *name, int family, weft__ip_addrs *out,
                     char **canonical)
{
    int rc = -ENOENT;
    for (const char *line = text != NULL ? text : ""; *line != '\0';) {
        int line_rc = hosts_take_line(line, name, family, out, canonical);
        if (line_rc != -ENOENT)
            rc = line_rc;
        if (rc == -ENOMEM)
            return rc;
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return rc;
}

int weft__local_family(int family)
{
    struct ifaddrs *all;
    if (getifaddrs(&all) < 0)
        return family;
    bool has_v4 = false, has_v6 = false;
    for (const struct ifaddrs *entry = all; entry != NULL; entry = entry->ifa_next) {
        if (entry->ifa_addr == NULL)
            continue;
        const weft__ip_addr *ip = (const weft__ip_addr *)entry->ifa_addr;
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

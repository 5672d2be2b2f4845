/*
 * The order in which to try addresses (RFC 6724, section 6). The rules use the source address that
 * the kernel would choose for each destination. Rules 3, 4 and 7 are not implemented, because they
 * need the state of interfaces: deprecated addresses, home addresses and tunnels.
 */
#include "io/names/resolve.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A row of the policy table (RFC 6724, section 2.1). */
typedef struct policy {
    unsigned char prefix[16];
    int bits, precedence, label;
} policy;

/* Sorted by the length of the prefix, the longest first. */
static const policy policies[] = {
    {{[15] = 1}, 128, 50, 0},                /* ::1 */
    {{[10] = 0xff, [11] = 0xff}, 96, 35, 4}, /* ::ffff:0:0, IPv4 */
    {{0}, 96, 1, 3},                         /* IPv4-compatible */
    {{0x20, 0x01}, 32, 5, 5},                /* Teredo */
    {{0x20, 0x02}, 16, 30, 2},               /* 6to4 */
    {{0x3f, 0xfe}, 16, 1, 12},               /* 6bone */
    {{0xfe, 0xc0}, 10, 1, 11},               /* site-local */
    {{0xfc}, 7, 3, 13},                      /* unique local */
    {{0}, 0, 40, 1},
};

enum { SCOPE_LINK = 2, SCOPE_SITE = 5, SCOPE_GLOBAL = 14 };

/* An address to sort, and the inputs of the rules. */
typedef struct candidate {
    weft__ip_addr ip;
    size_t index; /* original position */
    bool has_source;
    bool is_same_scope, is_same_label;
    int precedence, scope;
    int common; /* length of the common prefix with the source, in bits; IPv6 only */
} candidate;

static struct in6_addr as_v6(const weft__ip_addr *ip)
{
    if (ip->any.sa_family == AF_INET6)
        return ip->v6.sin6_addr;
    struct in6_addr mapped = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(&mapped.s6_addr[12], &ip->v4.sin_addr, sizeof ip->v4.sin_addr);
    return mapped;
}

static int common_bits(const unsigned char *a, const unsigned char *b)
{
    int bits = 0;
    while (bits < 128 && ((a[bits / 8] ^ b[bits / 8]) & (0x80 >> bits % 8)) == 0)
        bits++;
    return bits;
}

static const policy *policy_of(const struct in6_addr *a)
{
    const policy *p = policies;
    while (common_bits(a->s6_addr, p->prefix) < p->bits)
        p++;
    return p;
}

static int scope_of(const struct in6_addr *a)
{
    if (IN6_IS_ADDR_V4MAPPED(a)) {
        const unsigned char *v4 = &a->s6_addr[12];
        return v4[0] == 127 || (v4[0] == 169 && v4[1] == 254) ? SCOPE_LINK : SCOPE_GLOBAL;
    }
    if (IN6_IS_ADDR_MULTICAST(a))
        return a->s6_addr[1] & 15;
    if (IN6_IS_ADDR_LOOPBACK(a) || IN6_IS_ADDR_LINKLOCAL(a))
        return SCOPE_LINK;
    return IN6_IS_ADDR_SITELOCAL(a) ? SCOPE_SITE : SCOPE_GLOBAL;
}

/*
 * Find the source address that the kernel would choose. Connecting a datagram socket sends no
 * packet.
 */
static bool find_source(const weft__ip_addr *to, weft__ip_addr *source)
{
    weft__ip_addr destination = *to;
    socklen_t bytes = to->any.sa_family == AF_INET ? sizeof destination.v4 : sizeof destination.v6;
    int fd = socket(to->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    if (bytes == sizeof destination.v4)
        destination.v4.sin_port = htons(53); /* any port except 0, which some systems reject */
    else
        destination.v6.sin6_port = htons(53);
    bool is_found = connect(fd, &destination.any, bytes) == 0;
    bytes = sizeof *source;
    is_found = is_found && getsockname(fd, &source->any, &bytes) == 0;
    close(fd);
    return is_found;
}

static candidate candidate_init(const weft__ip_addr *ip, size_t index)
{
    struct in6_addr to = as_v6(ip);
    const policy *p = policy_of(&to);
    candidate c = {.ip = *ip, .index = index, .precedence = p->precedence, .scope = scope_of(&to)};
    weft__ip_addr source;
    c.has_source = find_source(ip, &source);
    if (!c.has_source)
        return c;
    struct in6_addr from = as_v6(&source);
    c.is_same_scope = scope_of(&from) == c.scope;
    c.is_same_label = policy_of(&from)->label == p->label;
    /*
     * An IPv4 prefix does not indicate the distance. With IPv4, rule 9 would undo the rotation by
     * name servers.
     */
    if (ip->any.sa_family == AF_INET6)
        c.common = common_bits(to.s6_addr, from.s6_addr);
    return c;
}

/* Compare two candidates, for qsort. The comments are the numbers of the rules. */
static int candidate_compare(const void *left, const void *right)
{
    const candidate *a = left, *b = right;
    if (a->has_source != b->has_source) /* 1 */
        return b->has_source - a->has_source;
    if (a->is_same_scope != b->is_same_scope) /* 2 */
        return b->is_same_scope - a->is_same_scope;
    if (a->is_same_label != b->is_same_label) /* 5 */
        return b->is_same_label - a->is_same_label;
    if (a->precedence != b->precedence) /* 6 */
        return b->precedence - a->precedence;
    if (a->scope != b->scope) /* 8 */
        return a->scope - b->scope;
    if (a->ip.any.sa_family == b->ip.any.sa_family && a->common != b->common) /* 9 */
        return b->common - a->common;
    return a->index < b->index ? -1 : 1; /* 10 */
}

/* If memory is exhausted, the order remains unchanged. */
void weft__ip_addrs_order(weft__ip_addrs *ips)
{
    if (ips->count < 2)
        return;
    candidate *all = malloc(ips->count * sizeof *all);
    if (all == NULL)
        return;
    for (size_t i = 0; i < ips->count; i++)
        all[i] = candidate_init(&ips->list[i], i);
    qsort(all, ips->count, sizeof *all, candidate_compare);
    for (size_t i = 0; i < ips->count; i++)
        ips->list[i] = all[i].ip;
    free(all);
}

/* Parse and compare IP addresses and CIDR ranges. See ip.h. */
#include "http/url/ip.h"

#include "http/text/ctype.h"
#include "http/text/field.h"

#include <weft/error.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The prefix of IPv4-mapped IPv6 addresses, ::ffff:0:0/96. */
#define MAPPED_BYTES 12
#define MAPPED_BITS 96

static const uint8_t mapped[MAPPED_BYTES] = {[10] = 0xff, [11] = 0xff};

static bool is_mapped(const weft__ip *ip)
{
    return memcmp(ip->bytes, mapped, MAPPED_BYTES) == 0;
}

static void set_v4(weft__ip *out, const void *address)
{
    memcpy(out->bytes, mapped, MAPPED_BYTES);
    memcpy(out->bytes + MAPPED_BYTES, address, 4);
}

bool weft__ip_parse(weft__ip *out, const char *text, size_t bytes)
{
    char copy[WEFT__IP_TEXT_BYTES];
    if (bytes >= sizeof copy || memchr(text, '\0', bytes) != NULL)
        return false;
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    struct in_addr v4;
    if (inet_pton(AF_INET, copy, &v4) == 1) {
        set_v4(out, &v4);
        return true;
    }
    return inet_pton(AF_INET6, copy, out->bytes) == 1;
}

bool weft__ip_of(weft__ip *out, const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        set_v4(out, &((const struct sockaddr_in *)(const void *)address)->sin_addr);
    else if (address->sa_family == AF_INET6)
        memcpy(out->bytes, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
    else
        return false;
    return true;
}

void weft__ip_write(const weft__ip *ip, char out[WEFT__IP_TEXT_BYTES])
{
    if (is_mapped(ip))
        inet_ntop(AF_INET, ip->bytes + MAPPED_BYTES, out, WEFT__IP_TEXT_BYTES);
    else
        inet_ntop(AF_INET6, ip->bytes, out, WEFT__IP_TEXT_BYTES);
}

void weft__ip_write_peer(const struct sockaddr *peer, char out[WEFT__IP_TEXT_BYTES])
{
    weft__ip ip;
    if (weft__ip_of(&ip, peer))
        weft__ip_write(&ip, out);
    else
        strcpy(out, "unix");
}

/*
 * Ranges.
 */

/*
 * Parse the number of bits after the slash of a range. Return -1 if the number is malformed or
 * above bits_max.
 */
static int parse_bits(const char *text, size_t bytes, int bits_max)
{
    int bits = 0;
    if (bytes == 0 || bytes > 3)
        return -1;
    for (size_t i = 0; i < bytes; i++) {
        if (!weft__ctype_is(text[i], WEFT__CTYPE_DIGIT))
            return -1;
        bits = bits * 10 + (text[i] - '0');
    }
    return bits <= bits_max ? bits : -1;
}

bool weft__cidr_read(weft__cidr *out, const char *text, size_t bytes)
{
    const char *slash = memchr(text, '/', bytes);
    size_t ip_bytes = slash != NULL ? (size_t)(slash - text) : bytes;
    if (!weft__ip_parse(&out->ip, text, ip_bytes))
        return false;
    /*
     * In IPv6 notation, the number after the slash counts all 128 bits, even for an IPv4-mapped
     * address.
     */
    int prefix_bits = memchr(text, ':', ip_bytes) == NULL ? MAPPED_BITS : 0;
    int bits = 128 - prefix_bits;
    if (slash != NULL)
        bits = parse_bits(slash + 1, bytes - ip_bytes - 1, 128 - prefix_bits);
    out->bits = (unsigned)(prefix_bits + bits);
    return bits >= 0;
}

static int cidr_list_add(weft__cidr_list *list, weft__span item)
{
    if (weft__field_is_word(item.at, item.bytes, "unix")) {
        list->has_unix = true;
        return 0;
    }
    if (!weft__cidr_read(&list->ranges[list->count], item.at, item.bytes))
        return weft_fail(-EINVAL,
                         "trusted_peers: %.*s is not an address, a range of addresses or unix",
                         (int)item.bytes, item.at);
    list->count++;
    return 0;
}

static size_t count_commas(const char *text)
{
    size_t count = 0;
    while ((text = strchr(text, ',')) != NULL) {
        text++;
        count++;
    }
    return count;
}

int weft__cidr_parse(weft__cidr_list *list, const char *text)
{
    *list = (weft__cidr_list){0};
    if (text == NULL)
        return 0;
    list->ranges = calloc(count_commas(text) + 1, sizeof *list->ranges);
    if (list->ranges == NULL)
        return -ENOMEM;
    weft__span item;
    while (weft__field_next(&text, &item)) {
        int rc = cidr_list_add(list, item);
        if (rc < 0) {
            weft__cidr_close(list);
            return rc;
        }
    }
    return 0;
}

void weft__cidr_close(weft__cidr_list *list)
{
    free(list->ranges);
    *list = (weft__cidr_list){0};
}

bool weft__cidr_covers(const weft__cidr *range, const weft__ip *ip)
{
    if (is_mapped(ip) && range->bits < MAPPED_BITS)
        return false;
    unsigned bytes = range->bits / 8;
    if (memcmp(range->ip.bytes, ip->bytes, bytes) != 0)
        return false;
    unsigned rest = 8 - range->bits % 8;
    return rest == 8 || range->ip.bytes[bytes] >> rest == ip->bytes[bytes] >> rest;
}

bool weft__cidr_has_ip(const weft__cidr_list *list, const weft__ip *ip)
{
    for (size_t i = 0; i < list->count; i++)
        if (weft__cidr_covers(&list->ranges[i], ip))
            return true;
    return false;
}

bool weft__cidr_has(const weft__cidr_list *list, const struct sockaddr *address)
{
    weft__ip ip;
    if (address->sa_family == AF_UNIX)
        return list->has_unix;
    return weft__ip_of(&ip, address) && weft__cidr_has_ip(list, &ip);
}

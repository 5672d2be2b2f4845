/* Parse and compare IP addresses and CIDR ranges. */
#ifndef WEFT_HTTP_URL_IP_H
#define WEFT_HTTP_URL_IP_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/*
 * An IP address. An IPv4 address is stored as an IPv4-mapped IPv6 address (::ffff:0:0/96), and
 * equals this IPv6 address.
 */
typedef struct weft__ip {
    uint8_t bytes[16];
} weft__ip;

/* The size of a buffer for an address as text with a NUL. */
#define WEFT__IP_TEXT_BYTES INET6_ADDRSTRLEN

/* Parse an address without a port, a zone or brackets. Return false if the text is malformed. */
bool weft__ip_parse(weft__ip *out, const char *text, size_t bytes);

/* Convert a socket address. Return false if its family is not AF_INET or AF_INET6. */
bool weft__ip_of(weft__ip *out, const struct sockaddr *address);

/* Write an address as text. Write an IPv4-mapped address in IPv4 notation. */
void weft__ip_write(const weft__ip *ip, char out[WEFT__IP_TEXT_BYTES]);

/* Write the address of a peer as text, without the port. Write "unix" for other families. */
void weft__ip_write_peer(const struct sockaddr *peer, char out[WEFT__IP_TEXT_BYTES]);

/* A range of addresses. An address is in the range if its first bits equal those of ip. */
typedef struct weft__cidr {
    weft__ip ip;
    unsigned bits; /* the number of bits to compare, 0 to 128 */
} weft__cidr;

/* Parse a range, for example "10.0.0.0/8", or an address. Return false if the text is malformed. */
bool weft__cidr_read(weft__cidr *out, const char *text, size_t bytes);

/*
 * Return whether a range contains an address. A range with less than 96 bits never contains an IPv4
 * address.
 */
bool weft__cidr_covers(const weft__cidr *range, const weft__ip *ip);

/* A set of ranges. All-zero is the empty set. */
typedef struct weft__cidr_list {
    weft__cidr *ranges;
    size_t count;
    bool has_unix; /* the set contains peers on unix sockets */
} weft__cidr_list;

/*
 * Parse a list of addresses, ranges and "unix", for example "127.0.0.1, 10.0.0.0/8, ::1, unix". If
 * text is NULL or "", the list is empty. If the call succeeds, the caller must call
 * weft__cidr_close. If an item is malformed, the call records a message for weft_error(). Return 0,
 * or:
 *
 * - -EINVAL if an item is malformed
 * - -ENOMEM if memory is exhausted
 */
int weft__cidr_parse(weft__cidr_list *list, const char *text);

void weft__cidr_close(weft__cidr_list *list);

/*
 * Return whether a list contains an address. IPv4 addresses are only in IPv4 ranges and in ranges
 * of IPv4-mapped addresses. "::/0" contains all IPv6 addresses except the IPv4-mapped addresses.
 */
bool weft__cidr_has_ip(const weft__cidr_list *list, const weft__ip *ip);

/* Like weft__cidr_has_ip, but for a socket address. Check has_unix for a unix socket. */
bool weft__cidr_has(const weft__cidr_list *list, const struct sockaddr *address);

#endif

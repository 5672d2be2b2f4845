/* Parse hosts and ports. See host.h. */
#include "http/url/host.h"

#include "http/text/ctype.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#define PORT_MAX 65535

bool weft__port_parse(const char *text, size_t bytes, int *port)
{
    int number = 0;
    *port = WEFT__PORT_NONE;
    for (size_t i = 0; i < bytes; i++) {
        if (!weft__ctype_is(text[i], WEFT__CTYPE_DIGIT))
            return false;
        number = number * 10 + (text[i] - '0');
        if (number > PORT_MAX)
            return false;
        *port = number;
    }
    return true;
}

size_t weft__ipv6_literal_bytes(const char *text, size_t bytes)
{
    char address[INET6_ADDRSTRLEN];
    struct in6_addr parsed;
    const char *bracket = memchr(text, ']', bytes);
    size_t inside = bracket != NULL ? (size_t)(bracket - text) - 1 : 0;
    if (inside == 0 || inside >= sizeof address || memchr(text, '\0', inside + 1) != NULL)
        return 0;
    memcpy(address, text + 1, inside);
    address[inside] = '\0';
    return inet_pton(AF_INET6, address, &parsed) == 1 ? inside + 2 : 0;
}

/*
 * Copy an IPv6 address without its brackets, in lower case. Return the length of the address
 * including its brackets, or 0 if the address is malformed.
 */
static size_t parse_ipv6_literal(char *name, const char *text, size_t bytes)
{
    size_t used = weft__ipv6_literal_bytes(text, bytes);
    for (size_t i = 1; i + 1 < used; i++)
        *name++ = weft__ctype_lower(text[i]);
    *name = '\0';
    return used;
}

/*
 * Decode a name up to a colon or the end of the text. Return the encoded length of the name. Return
 * 0 if the name is malformed, empty or too long.
 */
static size_t parse_host_name(char *name, const char *text, size_t bytes)
{
    size_t from = 0, to = 0;
    while (from < bytes && text[from] != ':') {
        char c = text[from++];
        if (c == '%') {
            if (bytes - from < 2 || !weft__ctype_is_escape(&text[from - 1]))
                return 0;
            c = weft__ctype_unescape(&text[from - 1]);
            from += 2;
        }
        if (!weft__ctype_is(c, WEFT__CTYPE_UNRESERVED | WEFT__CTYPE_SUB_DELIM) ||
            to == WEFT__HOST_NAME_BYTES - 1)
            return 0;
        name[to++] = weft__ctype_lower(c);
    }
    name[to] = '\0';
    return from;
}

int weft__host_parse(weft__host *out, const char *text, size_t bytes)
{
    out->name[0] = '\0';
    out->port = WEFT__PORT_NONE;
    if (bytes == 0)
        return 0;
    size_t used = text[0] == '[' ? parse_ipv6_literal(out->name, text, bytes)
                                 : parse_host_name(out->name, text, bytes);
    if (used == 0)
        return -EINVAL;
    if (used == bytes)
        return 0;
    if (text[used] != ':' || !weft__port_parse(text + used + 1, bytes - used - 1, &out->port))
        return -EINVAL;
    return 0;
}

/* Hosts and ports, taken apart. */
#include "http/host.h"

#include "http/chars.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define PORT_MAX 65535

static bool parse_port(const char *text, const char *end, int *port)
{
    int number = 0;
    *port = WEFT__PORT_NONE;
    for (; text < end; text++) {
        if (!weft__char_is(*text, WEFT__CHAR_DIGIT))
            return false;
        number = number * 10 + (*text - '0');
        if (number > PORT_MAX)
            return false;
        *port = number;
    }
    return true;
}

/* The address between brackets, and how long it is with these. */
static size_t parse_address(char *name, const char *text, size_t bytes)
{
    const char *bracket = memchr(text, ']', bytes);
    if (bracket == NULL || (size_t)(bracket - text) > INET6_ADDRSTRLEN)
        return 0;
    size_t length = (size_t)(bracket - text) - 1;
    for (size_t i = 0; i < length; i++)
        name[i] = weft__char_lower(text[i + 1]);
    name[length] = '\0';
    struct in6_addr address;
    bool is_whole = memchr(name, '\0', length) == NULL;
    return is_whole && inet_pton(AF_INET6, name, &address) == 1 ? length + 2 : 0;
}

/* A name up to a colon or the end, and how long it is as written. */
static size_t parse_name(char *name, const char *text, size_t bytes)
{
    size_t from = 0, to = 0;
    while (from < bytes && text[from] != ':') {
        char c = text[from++];
        if (c == '%') {
            if (bytes - from < 2 || !weft__char_is_escape(&text[from - 1]))
                return 0;
            c = weft__char_unescape(&text[from - 1]);
            from += 2;
        }
        if (!weft__char_is(c, WEFT__CHAR_UNRESERVED | WEFT__CHAR_SUB_DELIM) ||
            to == WEFT__HOST_NAME_BYTES - 1)
            return 0;
        name[to++] = weft__char_lower(c);
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
    size_t used =
        text[0] == '[' ? parse_address(out->name, text, bytes) : parse_name(out->name, text, bytes);
    if (used == 0)
        return -EINVAL;
    if (used == bytes)
        return 0;
    if (text[used] != ':' || !parse_port(text + used + 1, text + bytes, &out->port))
        return -EINVAL;
    return 0;
}

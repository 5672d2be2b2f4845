/* Parsing of addresses. See address.h. */
#include "io/names/address.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define PORT_MAX 65535

static bool find_net(const char *net, weft__address *out)
{
    static const struct {
        const char *name;
        int family, type;
    } nets[] = {
        {"tcp", AF_UNSPEC, SOCK_STREAM}, {"tcp4", AF_INET, SOCK_STREAM},
        {"tcp6", AF_INET6, SOCK_STREAM}, {"unix", AF_UNIX, SOCK_STREAM},
        {"udp", AF_UNSPEC, SOCK_DGRAM},  {"udp4", AF_INET, SOCK_DGRAM},
        {"udp6", AF_INET6, SOCK_DGRAM},  {"unixgram", AF_UNIX, SOCK_DGRAM},
    };
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        if (strcmp(net, nets[i].name) != 0)
            continue;
        out->family = nets[i].family;
        out->type = nets[i].type;
        return true;
    }
    return false;
}

/*
 * Parse the path of a unix socket. An abstract name starts with a zero byte. The length of the
 * address determines the length of the name.
 */
static const char *parse_path(const char *addr, weft__address *out)
{
    size_t bytes = strlen(addr);
    bool is_abstract = addr[0] == '@';
    if (bytes <= is_abstract)
        return "the path is empty";
    if (bytes >= sizeof out->path.sun_path)
        return "the path has more than 107 bytes";
    out->path = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(out->path.sun_path, addr, bytes);
    if (is_abstract)
        out->path.sun_path[0] = '\0';
    out->path_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes + !is_abstract);
    return NULL;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/*
 * Return whether text is a port number or a service name. The C library would also accept spaces,
 * signs, and numbers modulo 65536. A service name has letters, digits and hyphens, and at least one
 * letter (RFC 6335, section 5.1).
 */
static bool is_service(const char *text)
{
    bool has_letter = false;
    unsigned port = 0;
    for (const char *p = text; *p != '\0'; p++) {
        char lower = (char)(*p | 0x20);
        if (lower >= 'a' && lower <= 'z')
            has_letter = true;
        else if (is_digit(*p))
            port = port > PORT_MAX ? port : port * 10 + (unsigned)(*p - '0');
        else if (*p != '-')
            return false;
    }
    return has_letter || (text[0] != '\0' && strchr(text, '-') == NULL && port <= PORT_MAX);
}

/* Find the host, and the colon after the host. Returns NULL on success, or a message. */
static const char *find_host(const char *addr, const char **host, const char **host_end,
                             const char **colon)
{
    *host = addr;
    *colon = strrchr(addr, ':');
    if (addr[0] != '[') {
        if (*colon == NULL)
            return "the port is missing";
        *host_end = *colon;
        bool has_colons = memchr(addr, ':', (size_t)(*colon - addr)) != NULL;
        return has_colons ? "an IPv6 address needs brackets" : NULL;
    }
    *host = addr + 1;
    *host_end = strchr(addr, ']');
    if (*host_end == NULL || *host_end == *host)
        return "the brackets are empty or not closed";
    *colon = *host_end + 1;
    return **colon == ':' ? NULL : "the port is missing";
}

static const char *parse_host_port(const char *addr, weft__address *out)
{
    const char *host, *host_end, *colon;
    const char *fault = find_host(addr, &host, &host_end, &colon);
    if (fault != NULL)
        return fault;
    size_t host_bytes = (size_t)(host_end - host), service_bytes = strlen(colon + 1);
    if (host_bytes >= sizeof out->host)
        return "the host has more than 255 bytes";
    if (service_bytes >= sizeof out->service || !is_service(colon + 1))
        return "the port is invalid";
    memcpy(out->host, host, host_bytes);
    out->host[host_bytes] = '\0';
    memcpy(out->service, colon + 1, service_bytes + 1);
    return NULL;
}

const char *weft__address_parse(const char *net, const char *addr, weft__address *out)
{
    if (net == NULL || !find_net(net, out))
        return "net is unknown";
    if (addr == NULL)
        return "addr is NULL";
    return out->family == AF_UNIX ? parse_path(addr, out) : parse_host_port(addr, out);
}

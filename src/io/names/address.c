/* Taking addresses apart, see address.h. */
#include "io/address.h"

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

/* A name in the abstract space begins with a zero byte and is as long as the address says. */
static const char *parse_path(const char *addr, weft__address *out)
{
    size_t bytes = strlen(addr);
    bool is_abstract = addr[0] == '@';
    if (bytes <= is_abstract)
        return "it has no name";
    if (bytes >= sizeof out->path.sun_path)
        return "a unix address has at most 107 bytes";
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
 * The C library would take spaces, signs, and a number modulo 65536. A name of a service is of
 * letters, digits and hyphens, with a letter in it (RFC 6335, section 5.1).
 */
static bool is_service(const char *text)
{
    bool has_letter = false;
    unsigned port = 0;
    for (const char *at = text; *at != '\0'; at++) {
        char lower = (char)(*at | 0x20);
        if (lower >= 'a' && lower <= 'z')
            has_letter = true;
        else if (is_digit(*at))
            port = port > PORT_MAX ? port : port * 10 + (unsigned)(*at - '0');
        else if (*at != '-')
            return false;
    }
    return has_letter || (text[0] != '\0' && strchr(text, '-') == NULL && port <= PORT_MAX);
}

/* Where the host is, and the colon after it. NULL, or what is wrong. */
static const char *find_host(const char *addr, const char **host, const char **host_end,
                             const char **colon)
{
    *host = addr;
    *colon = strrchr(addr, ':');
    if (addr[0] != '[') {
        if (*colon == NULL)
            return "it has no port";
        *host_end = *colon;
        bool has_colons = memchr(addr, ':', (size_t)(*colon - addr)) != NULL;
        return has_colons ? "an IPv6 address stands in brackets" : NULL;
    }
    *host = addr + 1;
    *host_end = strchr(addr, ']');
    if (*host_end == NULL || *host_end == *host)
        return "there is nothing between its brackets";
    *colon = *host_end + 1;
    return **colon == ':' ? NULL : "it has no port";
}

static const char *parse_host_port(const char *addr, weft__address *out)
{
    const char *host, *host_end, *colon;
    const char *wrong = find_host(addr, &host, &host_end, &colon);
    if (wrong != NULL)
        return wrong;
    size_t host_bytes = (size_t)(host_end - host), service_bytes = strlen(colon + 1);
    if (host_bytes >= sizeof out->host)
        return "a host's name has at most 255 bytes";
    if (service_bytes >= sizeof out->service || !is_service(colon + 1))
        return "its port is none";
    memcpy(out->host, host, host_bytes);
    out->host[host_bytes] = '\0';
    memcpy(out->service, colon + 1, service_bytes + 1);
    return NULL;
}

const char *weft__address_parse(const char *net, const char *addr, weft__address *out)
{
    if (net == NULL || !find_net(net, out))
        return "there is no such kind of network";
    if (addr == NULL)
        return "there is no address";
    return out->family == AF_UNIX ? parse_path(addr, out) : parse_host_port(addr, out);
}

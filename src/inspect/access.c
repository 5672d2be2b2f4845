/* Which requests the inspector serves: client, Host, Origin, token. */
#include "http/text/field.h"
#include "http/url/ip.h"
#include "inspect/inspect.h"

#include <string.h>

/* Return whether an address refers to this machine: 127.0.0.0/8, ::1, or a Unix socket. */
static bool is_local_peer(const char *peer)
{
    return strncmp(peer, "127.", 4) == 0 || strcmp(peer, "::1") == 0 || strcmp(peer, "unix") == 0 ||
           strncmp(peer, "::ffff:127.", 11) == 0;
}

static bool is_in_list(const char *list, const char *host)
{
    weft__span item;
    while (list != NULL && weft__field_next(&list, &item))
        if (weft__field_is_word(item.at, item.bytes, "*") ||
            weft__field_is_word(item.at, item.bytes, host))
            return true;
    return false;
}

/*
 * A site that wants to read the inspector with the visitor's browser lets its own name refer to
 * this machine (DNS rebinding). The browser then sends that name as Host. An address cannot refer
 * to something else.
 */
static bool is_known_host(const char *host, const char *hosts)
{
    weft__ip ip;
    size_t bytes = strlen(host);
    bool has_brackets = bytes > 2 && host[0] == '[' && host[bytes - 1] == ']';
    return strcmp(host, "localhost") == 0 ||
           weft__ip_parse(&ip, host + has_brackets, bytes - 2 * has_brackets) ||
           is_in_list(hosts, host);
}

bool weft__access_is_allowed(weft_http_request *r, const weft_inspector *i)
{
    if (!i->options.allows_remote && !is_local_peer(weft_http_peer(r)))
        return false;
    return is_known_host(weft_http_host(r), i->hosts);
}

/* Compare "http://host:port" with the scheme and the Host header of the request. */
static bool is_own_origin(weft_http_request *r, const char *origin)
{
    const char *scheme = weft_http_scheme(r), *host = weft_http_header(r, "Host");
    size_t bytes = strlen(scheme);
    if (strncmp(origin, scheme, bytes) != 0 || strncmp(origin + bytes, "://", 3) != 0)
        return false;
    origin += bytes + 3;
    /* A trusted proxy may have replaced Host. */
    return (host != NULL && strcasecmp(origin, host) == 0) ||
           strcasecmp(origin, weft_http_host(r)) == 0;
}

bool weft__access_is_same_origin(weft_http_request *r)
{
    const char *origin = weft_http_header(r, "Origin");
    const char *site = weft_http_header(r, "Sec-Fetch-Site");
    if (site != NULL && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0)
        return false;
    return origin == NULL || is_own_origin(r, origin);
}

bool weft__access_has_token(weft_http_request *r, const weft_inspector *i)
{
    static const char scheme[] = "Bearer ";
    const char *value = weft_http_header(r, "Authorization");
    if (value == NULL || strncasecmp(value, scheme, sizeof scheme - 1) != 0)
        return false;
    value += sizeof scheme - 1;
    size_t expected = strlen(i->token), bytes = strlen(value);
    unsigned difference = expected != bytes;
    for (size_t n = 0; n < bytes; n++)
        difference |= (unsigned)(value[n] ^ i->token[n % expected]);
    return difference == 0;
}

/* What proxies say of the client: X-Forwarded-For, and Forwarded (RFC 7239). */
#include "http/chars.h"
#include "http/field.h"
#include "http/ip.h"

#include <string.h>

static bool is_port(const char *text, size_t bytes)
{
    if (bytes == 0 || bytes > 5)
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (!weft__char_is(text[i], WEFT__CHAR_DIGIT))
            return false;
    return true;
}

/* "1.2.3.4", "1.2.3.4:80", "::1", "[::1]" or "[::1]:80". */
static bool parse_hop(weft__piece text, weft__ip *ip)
{
    if (weft__ip_parse(ip, text.at, text.bytes))
        return true;
    bool has_brackets = text.at[0] == '[';
    const char *end = memchr(text.at, has_brackets ? ']' : ':', text.bytes);
    if (end == NULL)
        return false;
    const char *begin = text.at + has_brackets;
    size_t bytes = (size_t)(end - begin);
    end += has_brackets;
    size_t left = text.bytes - (size_t)(end - text.at);
    if (has_brackets != (memchr(begin, ':', bytes) != NULL))
        return false;
    if (left > 0 && (*end != ':' || !is_port(end + 1, left - 1)))
        return false;
    return weft__ip_parse(ip, begin, bytes);
}

/* Cut the last item off a list. */
static weft__piece take_last(const char *list, size_t *bytes)
{
    size_t begin = *bytes;
    while (begin > 0 && list[begin - 1] != ',')
        begin--;
    weft__piece last = weft__field_trim(list + begin, *bytes - begin);
    *bytes = begin > 0 ? begin - 1 : 0;
    return last;
}

void weft__forwarded_for(char out[WEFT__IP_TEXT_BYTES], const char *value,
                         const weft__cidr_list *trusted, const struct sockaddr *peer)
{
    weft__ip_write_peer(peer, out);
    if (value == NULL || !weft__cidr_has(trusted, peer))
        return;
    size_t left = strlen(value);
    while (left > 0) {
        weft__ip hop;
        weft__piece item = take_last(value, &left);
        if (item.bytes == 0)
            continue; /* nobody has said anything: RFC 9110, 5.6.1.2 */
        if (!parse_hop(item, &hop))
            return;
        weft__ip_write(&hop, out);
        if (!weft__cidr_has_ip(trusted, &hop))
            return;
    }
}

/*
 * Forwarded: for=192.0.2.1;proto=https, for="[2001:db8::1]:80"
 */

/* What one element says. */
typedef struct element {
    weft__piece node; /* for */
    weft__piece by;
    weft__piece host;
    weft__piece proto;
} element;

/* Is the character behind an odd number of backslashes? */
static bool is_escaped(const char *text, size_t at)
{
    size_t begin = at;
    while (begin > 0 && text[begin - 1] == '\\')
        begin--;
    return (at - begin) % 2 != 0;
}

/*
 * Cut the last element off. Read from the right, quotation marks are told apart by what is inside
 * this element alone: a comma that is not in quotes is where it begins.
 */
static weft__piece take_last_element(const char *list, size_t *bytes)
{
    size_t begin = *bytes;
    bool is_quoted = false;
    for (; begin > 0 && (is_quoted || list[begin - 1] != ','); begin--)
        if (list[begin - 1] == '"' && !(is_quoted && is_escaped(list, begin - 1)))
            is_quoted = !is_quoted;
    weft__piece last = weft__field_trim(list + begin, *bytes - begin);
    *bytes = begin > 0 ? begin - 1 : 0;
    return last;
}

static char *skip_blanks(char *at, const char *end)
{
    while (at < end && weft__char_is_blank(*at))
        at++;
    return at;
}

static char *skip_token(char *at, const char *end)
{
    while (at < end && weft__char_is(*at, WEFT__CHAR_TOKEN))
        at++;
    return at;
}

/* Unescape a quoted string: what is behind it; NULL: it has no end. */
static char *take_quoted(char *at, const char *end, weft__piece *value)
{
    char *out = at;
    value->at = out;
    for (; at < end && *at != '"'; at++) {
        if (*at == '\\' && ++at == end)
            return NULL;
        *out++ = *at;
    }
    value->bytes = (size_t)(out - value->at);
    return at < end ? at + 1 : NULL;
}

static char *take_value(char *at, const char *end, weft__piece *value)
{
    if (at < end && *at == '"')
        return take_quoted(at + 1, end, value);
    char *behind = skip_token(at, end);
    *value = (weft__piece){at, (size_t)(behind - at)};
    return behind > at ? behind : NULL;
}

/* Where the value of a parameter belongs. Each may be said once. False: it was said before. */
static bool keep_value(element *e, weft__piece name, weft__piece value)
{
    static const struct {
        const char *name;
        size_t at;
    } known[] = {{"for", offsetof(element, node)},
                 {"by", offsetof(element, by)},
                 {"host", offsetof(element, host)},
                 {"proto", offsetof(element, proto)}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        weft__piece *place = (weft__piece *)((char *)e + known[i].at);
        if (!weft__field_is_word(name.at, name.bytes, known[i].name))
            continue;
        if (place->at != NULL)
            return false;
        *place = value;
    }
    return true;
}

/* One "name=value", at which it begins: what is behind it; NULL: it is malformed. */
static char *take_pair(element *e, char *at, const char *end)
{
    char *sign = skip_token(at, end);
    weft__piece name = {at, (size_t)(sign - at)}, value;
    if (name.bytes == 0 || sign == end || *sign != '=')
        return NULL;
    char *behind = take_value(sign + 1, end, &value);
    return behind != NULL && keep_value(e, name, value) ? behind : NULL;
}

/* Pairs with semicolons between them, which may have blanks around them. */
static bool parse_element(element *e, weft__piece text)
{
    char *at = (char *)(uintptr_t)text.at;
    const char *end = at + text.bytes;
    *e = (element){0};
    for (;;) {
        at = skip_blanks(at, end);
        if (at < end && *at != ';') {
            at = take_pair(e, at, end);
            at = at != NULL ? skip_blanks(at, end) : NULL;
        }
        if (at == NULL || at == end)
            return at != NULL;
        if (*at++ != ';')
            return false;
    }
}

/* Cut an obfuscated port off: "192.0.2.1:_x" (RFC 7239, 6). */
static weft__piece without_hidden_port(weft__piece node)
{
    const char *port = memrchr(node.at, ':', node.bytes);
    if (port != NULL && port + 1 < node.at + node.bytes && port[1] == '_')
        node.bytes = (size_t)(port - node.at);
    return node;
}

/* The address of a node. "unknown" and "_hidden" are none. */
static bool parse_node(weft__piece node, weft__ip *ip)
{
    if (node.at == NULL || node.bytes == 0)
        return false;
    node = without_hidden_port(node);
    return node.bytes > 0 && parse_hop(node, ip);
}

void weft__forwarded_read(weft__forwarded *out, char *value, const weft__cidr_list *trusted,
                          const struct sockaddr *peer)
{
    *out = (weft__forwarded){0};
    weft__ip_write_peer(peer, out->peer);
    size_t left = weft__cidr_has(trusted, peer) ? strlen(value) : 0;
    while (left > 0) {
        element e;
        weft__ip hop;
        weft__piece text = take_last_element(value, &left);
        if (text.bytes == 0)
            continue; /* RFC 9110, 5.6.1.2 */
        if (!parse_element(&e, text))
            return;
        out->host = e.host;
        out->proto = e.proto;
        if (!parse_node(e.node, &hop))
            return;
        weft__ip_write(&hop, out->peer);
        if (!weft__cidr_has_ip(trusted, &hop))
            return;
    }
}

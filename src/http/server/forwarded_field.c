/* Parsers for X-Forwarded-For and Forwarded (forwarded_field.h). */
#include "http/server/forwarded_field.h"
#include "http/text/ctype.h"

#include <string.h>

static bool is_port_number(const char *text, size_t bytes)
{
    if (bytes == 0 || bytes > 5)
        return false;
    for (size_t i = 0; i < bytes; i++)
        if (!weft__ctype_is(text[i], WEFT__CTYPE_DIGIT))
            return false;
    return true;
}

/* Parse an address such as "1.2.3.4", "1.2.3.4:80", "::1", "[::1]" or "[::1]:80". */
static bool parse_hop(weft__span text, weft__ip *ip)
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
    if (left > 0 && (*end != ':' || !is_port_number(end + 1, left - 1)))
        return false;
    return weft__ip_parse(ip, begin, bytes);
}

/* Remove and return the last item of a list. *bytes is the length of the list. */
static weft__span list_take_last(const char *list, size_t *bytes)
{
    size_t begin = *bytes;
    while (begin > 0 && list[begin - 1] != ',')
        begin--;
    weft__span last = weft__field_trim(list + begin, *bytes - begin);
    *bytes = begin > 0 ? begin - 1 : 0;
    return last;
}

void weft__x_forwarded_for_read(char out[WEFT__IP_TEXT_BYTES], const char *value,
                                const weft__cidr_list *trusted, const struct sockaddr *peer)
{
    weft__ip_write_peer(peer, out);
    if (value == NULL || !weft__cidr_has(trusted, peer))
        return;
    size_t left = strlen(value);
    while (left > 0) {
        weft__ip hop;
        weft__span item = list_take_last(value, &left);
        if (item.bytes == 0)
            continue; /* empty items are ignored (RFC 9110, 5.6.1.2) */
        if (!parse_hop(item, &hop))
            return;
        weft__ip_write(&hop, out);
        if (!weft__cidr_has_ip(trusted, &hop))
            return;
    }
}

/*
 * Forwarded, for example:
 * for=192.0.2.1;proto=https, for="[2001:db8::1]:80"
 */

/* The parameters of one element. A span is {NULL, 0} if its parameter is absent. */
typedef struct forwarded_element {
    weft__span node; /* the value of "for" */
    weft__span by;
    weft__span host;
    weft__span proto;
} forwarded_element;

/* Return true if an odd number of backslashes precedes text[index]. */
static bool is_escaped(const char *text, size_t index)
{
    size_t begin = index;
    while (begin > 0 && text[begin - 1] == '\\')
        begin--;
    return (index - begin) % 2 != 0;
}

/*
 * Remove and return the last element of a list. *bytes is the length of the list. The scan starts
 * at the right end and stops at the first comma outside of quotes. The text before that comma does
 * not affect the result.
 */
static weft__span list_take_last_element(const char *list, size_t *bytes)
{
    size_t begin = *bytes;
    bool is_quoted = false;
    for (; begin > 0 && (is_quoted || list[begin - 1] != ','); begin--)
        if (list[begin - 1] == '"' && !(is_quoted && is_escaped(list, begin - 1)))
            is_quoted = !is_quoted;
    weft__span last = weft__field_trim(list + begin, *bytes - begin);
    *bytes = begin > 0 ? begin - 1 : 0;
    return last;
}

static char *skip_blanks(char *at, const char *end)
{
    while (at < end && weft__ctype_is_blank(*at))
        at++;
    return at;
}

static char *skip_token(char *at, const char *end)
{
    while (at < end && weft__ctype_is(*at, WEFT__CTYPE_TOKEN))
        at++;
    return at;
}

/*
 * Unescape a quoted string in place. at points to the first character after the opening quote.
 * Returns the end of the string, or NULL if the closing quote is missing.
 */
static char *take_quoted(char *at, const char *end, weft__span *value)
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

static char *take_value(char *at, const char *end, weft__span *value)
{
    if (at < end && *at == '"')
        return take_quoted(at + 1, end, value);
    char *after = skip_token(at, end);
    *value = (weft__span){at, (size_t)(after - at)};
    return after > at ? after : NULL;
}

/*
 * Store the value of a parameter. Ignore unknown names. Returns false if the parameter is a
 * duplicate.
 */
static bool element_set(forwarded_element *e, weft__span name, weft__span value)
{
    static const struct {
        const char *name;
        size_t offset;
    } known[] = {{"for", offsetof(forwarded_element, node)},
                 {"by", offsetof(forwarded_element, by)},
                 {"host", offsetof(forwarded_element, host)},
                 {"proto", offsetof(forwarded_element, proto)}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        weft__span *target = (weft__span *)((char *)e + known[i].offset);
        if (!weft__field_is_word(name.at, name.bytes, known[i].name))
            continue;
        if (target->at != NULL)
            return false;
        *target = value;
    }
    return true;
}

/* Parse and store "name=value". Returns the end of the pair, or NULL if the pair is malformed. */
static char *element_take_pair(forwarded_element *e, char *at, const char *end)
{
    char *sign = skip_token(at, end);
    weft__span name = {at, (size_t)(sign - at)}, value;
    if (name.bytes == 0 || sign == end || *sign != '=')
        return NULL;
    char *after = take_value(sign + 1, end, &value);
    return after != NULL && element_set(e, name, value) ? after : NULL;
}

/*
 * Parse pairs separated by semicolons. Blanks around semicolons are allowed. Returns false if the
 * text is malformed.
 */
static bool element_parse(forwarded_element *e, weft__span text)
{
    char *at = (char *)(uintptr_t)text.at;
    const char *end = at + text.bytes;
    *e = (forwarded_element){0};
    for (;;) {
        at = skip_blanks(at, end);
        if (at < end && *at != ';') {
            at = element_take_pair(e, at, end);
            at = at != NULL ? skip_blanks(at, end) : NULL;
        }
        if (at == NULL || at == end)
            return at != NULL;
        if (*at++ != ';')
            return false;
    }
}

/* Remove an obfuscated port, as in "192.0.2.1:_x" (RFC 7239, 6). */
static weft__span without_hidden_port(weft__span node)
{
    const char *port = memrchr(node.at, ':', node.bytes);
    if (port != NULL && port + 1 < node.at + node.bytes && port[1] == '_')
        node.bytes = (size_t)(port - node.at);
    return node;
}

/* Parse the address of a node. Returns false for names such as "unknown" and "_hidden". */
static bool parse_node(weft__span node, weft__ip *ip)
{
    if (node.at == NULL || node.bytes == 0)
        return false;
    node = without_hidden_port(node);
    return node.bytes > 0 && parse_hop(node, ip);
}

void weft__forwarded_field_read(weft__forwarded *out, char *value, const weft__cidr_list *trusted,
                                const struct sockaddr *peer)
{
    *out = (weft__forwarded){0};
    weft__ip_write_peer(peer, out->peer);
    size_t left = weft__cidr_has(trusted, peer) ? strlen(value) : 0;
    while (left > 0) {
        forwarded_element e;
        weft__ip hop;
        weft__span text = list_take_last_element(value, &left);
        if (text.bytes == 0)
            continue; /* empty elements are ignored (RFC 9110, 5.6.1.2) */
        if (!element_parse(&e, text))
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

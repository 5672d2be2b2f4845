/* Whom proxies speak for: X-Forwarded-For. */
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

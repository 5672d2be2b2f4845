/* Parts of the handshake that both sides need: valid keys, and the subprotocol (RFC 6455, 4). */
#include "http/text/ctype.h"
#include "ws/ws.h"

#include <string.h>

/* The length of the base64 code of a key. */
#define KEY_TEXT_BYTES 24

static bool is_base64_digit(char c)
{
    return weft__ctype_is(c, WEFT__CTYPE_ALPHA | WEFT__CTYPE_DIGIT) || c == '+' || c == '/';
}

/* 16 bytes are 21 digits, a digit with 4 unused bits that are 0, and "==". */
bool weft__ws_key_is_valid(const char *key)
{
    size_t bytes = strlen(key);
    if (bytes != KEY_TEXT_BYTES || strcmp(key + bytes - 2, "==") != 0)
        return false;
    for (size_t i = 0; i < bytes - 3; i++)
        if (!is_base64_digit(key[i]))
            return false;
    return strchr("AQgw", key[bytes - 3]) != NULL;
}

/* Subprotocols are case-sensitive (RFC 6455, 11.5). */
static bool list_has(const char *list, weft__span wanted)
{
    weft__span item;
    while (weft__field_next(&list, &item))
        if (item.bytes == wanted.bytes && memcmp(item.at, wanted.at, item.bytes) == 0)
            return true;
    return false;
}

bool weft__ws_protocols_are_valid(const char *list)
{
    weft__span item;
    while (weft__field_next(&list, &item))
        if (!weft__field_is_token(item.at, item.bytes))
            return false;
    return true;
}

bool weft__ws_protocols_differ(const char *list)
{
    weft__span item;
    while (weft__field_next(&list, &item))
        if (list_has(list, item))
            return false;
    return true;
}

weft__span weft__ws_protocols_choose(const char *wanted, const char *offered)
{
    weft__span item;
    while (weft__field_next(&wanted, &item))
        if (list_has(offered, item))
            return item;
    return (weft__span){0};
}

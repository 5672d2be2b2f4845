/* Escapes in URLs and forms, and the parameters of these. */
#include "http/chars.h"
#include "http/path.h"

#include <weft/url.h>

#include <errno.h>
#include <string.h>

static bool has_bad_escape(const char *text)
{
    while ((text = strchr(text, '%')) != NULL) {
        if (!weft__char_is_escape(text))
            return true;
        text += 3;
    }
    return false;
}

ssize_t weft_url_decode(char *text, bool is_form)
{
    if (has_bad_escape(text))
        return -EINVAL;
    const char *from = text;
    char *to = text;
    while (*from != '\0') {
        char c = *from;
        if (c == '%') {
            c = weft__char_unescape(from);
            from += 2;
        } else if (c == '+' && is_form) {
            c = ' ';
        }
        from++;
        *to++ = c;
    }
    *to = '\0';
    return to - text;
}

/* A character as it is written, in at most three; how many. */
static size_t escape(char c, char spared, char out[3])
{
    static const char digits[] = "0123456789ABCDEF";
    out[0] = c;
    if (weft__char_is(c, WEFT__CHAR_UNRESERVED) || c == spared)
        return 1;
    out[0] = '%';
    out[1] = digits[(unsigned char)c >> 4];
    out[2] = digits[(unsigned char)c & 15];
    return 3;
}

/* All but one character; '\0': none is spared. */
static size_t escape_all(char *into, size_t room, const char *text, char spared)
{
    size_t bytes = 0, written = 0;
    for (; *text != '\0'; text++) {
        char escaped[3];
        size_t count = escape(*text, spared, escaped);
        if (bytes + count < room) { /* where one does not fit, none does that comes behind it */
            memcpy(into + bytes, escaped, count);
            written = bytes + count;
        }
        bytes += count;
    }
    if (room > 0)
        into[written] = '\0';
    return bytes;
}

size_t weft_url_encode(char *into, size_t room, const char *text)
{
    return escape_all(into, room, text, '\0');
}

size_t weft__path_escape(char *into, size_t room, const char *path)
{
    return escape_all(into, room, path, '/');
}

/* Cut at the character: returns what is behind it, at the end "". */
static char *cut(char *text, char at)
{
    char *end = strchrnul(text, at);
    if (*end == '\0')
        return end;
    *end = '\0';
    return end + 1;
}

/* Decoded without a NUL in it, or its reader would see less than was sent. */
static bool decode(char *text)
{
    ssize_t bytes = weft_url_decode(text, true);
    return bytes >= 0 && strlen(text) == (size_t)bytes;
}

int weft_url_next_param(char **rest, char **name, char **value)
{
    do {
        if (**rest == '\0')
            return 0;
        *name = *rest;
        *rest = cut(*rest, '&');
    } while (**name == '\0');
    *value = cut(*name, '=');
    return decode(*name) && decode(*value) ? 1 : -EINVAL;
}

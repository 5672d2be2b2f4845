/* Encode and decode escapes in URLs and forms, and parse parameters. */
#include "http/text/ctype.h"
#include "http/url/path.h"

#include <weft/url.h>

#include <errno.h>
#include <string.h>

static bool has_bad_escape(const char *text)
{
    while ((text = strchr(text, '%')) != NULL) {
        if (!weft__ctype_is_escape(text))
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
            c = weft__ctype_unescape(from);
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

/*
 * Escape a character, unless the character is unreserved or equals unescaped. Return the length of
 * the result in out.
 */
static size_t escape_char(char c, char unescaped, char out[3])
{
    static const char digits[] = "0123456789ABCDEF";
    out[0] = c;
    if (weft__ctype_is(c, WEFT__CTYPE_UNRESERVED) || c == unescaped)
        return 1;
    out[0] = '%';
    out[1] = digits[(unsigned char)c >> 4];
    out[2] = digits[(unsigned char)c & 15];
    return 3;
}

/* Escape a text, except the character unescaped. If unescaped is NUL, there is no exception. */
static size_t escape_all(char *into, size_t room, const char *text, char unescaped)
{
    size_t bytes = 0, written = 0;
    for (; *text != '\0'; text++) {
        char escaped[3];
        size_t count = escape_char(*text, unescaped, escaped);
        if (bytes + count < room) { /* after a character that does not fit, no character fits */
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

/*
 * Split the text at the first character c. Return the text after c. Return "" if the text has no c.
 */
static char *cut_at(char *text, char c)
{
    char *end = strchrnul(text, c);
    if (*end == '\0')
        return end;
    *end = '\0';
    return end + 1;
}

/*
 * Decode a name or a value of a parameter. Return false for an encoded NUL, because the caller
 * would read a truncated text.
 */
static bool decode_param(char *text)
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
        *rest = cut_at(*rest, '&');
    } while (**name == '\0');
    *value = cut_at(*name, '=');
    return decode_param(*name) && decode_param(*value) ? 1 : -EINVAL;
}

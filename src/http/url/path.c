/* Normalise the path of a request. See path.h. */
#include "http/url/path.h"

#include "http/text/ctype.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

static bool char_is_forbidden(char c)
{
    return c == '\\' || weft__ctype_is_control(c);
}

bool weft__path_is_name(const char *name)
{
    while (*name != '\0' && *name != '/' && !char_is_forbidden(*name))
        name++;
    return *name == '\0';
}

/*
 * Decode a segment from *from to *to, and advance both. The decoded segment is never longer, so
 * that source and destination may overlap. Return false if the segment is malformed or has a
 * forbidden character.
 */
static bool segment_move(const char **from, char **to)
{
    while (**from != '/' && **from != '\0') {
        char c = **from;
        if (c == '%') {
            if (!weft__ctype_is_escape(*from))
                return false;
            c = weft__ctype_unescape(*from);
            if (c == '/')
                return false;
            *from += 2;
        }
        if (char_is_forbidden(c))
            return false;
        (*from)++;
        *(*to)++ = c;
    }
    return true;
}

/* Return the start of the previous segment. Return NULL for the first segment. */
static char *segment_parent(const char *path, char *segment)
{
    if (segment == path + 1)
        return NULL;
    segment--;
    while (segment[-1] != '/')
        segment--;
    return segment;
}

/*
 * Resolve the segment if it is "." or "..". Return the new end of the path. Return NULL if the
 * segment leads above the root.
 */
static char *segment_resolve(const char *path, char *segment, char *end)
{
    ptrdiff_t bytes = end - segment;
    if (bytes == 1 && segment[0] == '.')
        return segment;
    if (bytes == 2 && segment[0] == '.' && segment[1] == '.')
        return segment_parent(path, segment);
    return end;
}

ssize_t weft__path_clean(char *path)
{
    if (path[0] != '/')
        return -EINVAL;
    const char *from = path + 1;
    char *to = path + 1;
    for (;;) {
        char *segment = to; /* after a slash */
        if (!segment_move(&from, &to))
            return -EINVAL;
        to = segment_resolve(path, segment, to);
        if (to == NULL)
            return -EINVAL;
        if (*from == '\0')
            break;
        from++;
        if (to[-1] != '/')
            *to++ = '/';
    }
    *to = '\0';
    return to - path;
}

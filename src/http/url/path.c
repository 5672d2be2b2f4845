/* The path of a request: decoded, and nothing left in it that leads up. */
#include "http/path.h"

#include "http/chars.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

static bool is_forbidden(char c)
{
    return c == '\\' || weft__char_is_control(c);
}

bool weft__path_is_name(const char *name)
{
    while (*name != '\0' && *name != '/' && !is_forbidden(*name))
        name++;
    return *name == '\0';
}

/*
 * Move a segment from one place to the other, decoded. It does not grow, so the two may overlap.
 */
static bool move_segment(const char **from, char **to)
{
    while (**from != '/' && **from != '\0') {
        char c = **from;
        if (c == '%') {
            if (!weft__char_is_escape(*from))
                return false;
            c = weft__char_unescape(*from);
            if (c == '/')
                return false;
            *from += 2;
        }
        if (is_forbidden(c))
            return false;
        (*from)++;
        *(*to)++ = c;
    }
    return true;
}

/* Where the folder begins in which this segment is; NULL: it is the root's. */
static char *parent_of(const char *path, char *segment)
{
    if (segment == path + 1)
        return NULL;
    segment--;
    while (segment[-1] != '/')
        segment--;
    return segment;
}

/* Take back a segment that names no place of its own. NULL: it leads out. */
static char *work_out(const char *path, char *segment, char *end)
{
    ptrdiff_t bytes = end - segment;
    if (bytes == 1 && segment[0] == '.')
        return segment;
    if (bytes == 2 && segment[0] == '.' && segment[1] == '.')
        return parent_of(path, segment);
    return end;
}

ssize_t weft__path_clean(char *path)
{
    if (path[0] != '/')
        return -EINVAL;
    const char *from = path + 1;
    char *to = path + 1;
    for (;;) {
        char *segment = to; /* there is a slash before it */
        if (!move_segment(&from, &to))
            return -EINVAL;
        to = work_out(path, segment, to);
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

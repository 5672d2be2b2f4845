/* The path of a request, as a handler sees it. */
#ifndef WEFT_HTTP_PATH_H
#define WEFT_HTTP_PATH_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * In place: decode each escape once, then work out "." and "..", so that %2e%2e is one, too;
 * several slashes in a row become one before that, as the file system takes them, so that no rule
 * about "/a" is passed by with "//a". A slash at the end stays. Returns the length; -EINVAL, with
 * the text of no use any more: it does not begin with a slash, leads out above the root, or has a
 * malformed escape, an encoded slash, a backslash or a control character, encoded or not. The
 * caller has cut off the query. Bytes above ASCII pass: what they mean is the file system's.
 *
 * It is done once: what %25 stands for is not looked at again.
 */
ssize_t weft__path_clean(char *path);

/* Write a path so that it can stand in a URL: as weft_url_encode, but that slashes stay. */
size_t weft__path_escape(char *into, size_t room, const char *path);

/* Can a request ask for a file of that name? Not with a backslash or a control character in it. */
bool weft__path_is_name(const char *name);

#endif

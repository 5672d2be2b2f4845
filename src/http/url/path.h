/* Normalise and escape the path of a request. */
#ifndef WEFT_HTTP_URL_PATH_H
#define WEFT_HTTP_URL_PATH_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Normalise a path in place. The caller must have removed the query. The steps are:
 *
 * - Decode each escape once. "%252e" becomes "%2e".
 * - Collapse repeated slashes, as the file system does. "//a" therefore cannot bypass a rule for
 *   "/a".
 * - Resolve "." and "..". The order of the steps ensures that "%2e%2e" is resolved too.
 *
 * The path keeps a trailing slash and non-ASCII bytes.
 *
 * Return the new length. Return -EINVAL and leave the text undefined if the path:
 *
 * - does not start with a slash
 * - leads above the root
 * - has a malformed escape or an encoded slash
 * - has a backslash or a control character, encoded or not
 */
ssize_t weft__path_clean(char *path);

/* Escape a path for a URL. Like weft_url_encode, but do not escape slashes. */
size_t weft__path_escape(char *into, size_t room, const char *path);

/*
 * Return whether the path of a request can contain a file name. A name with a slash, a backslash or
 * a control character is not possible.
 */
bool weft__path_is_name(const char *name);

#endif

/* Files over HTTP: serve a directory, or reply with one file. */
#ifndef WEFT_HTTP_FILES_H
#define WEFT_HTTP_FILES_H

#include <weft/http.h>

WEFT_BEGIN

/* Options of a served directory. All-zero is the default. weft copies all strings. */
typedef struct weft_http_files_options {
    const char *index; /* the file to serve for a directory; NULL: "index.html" */
    bool has_listing;  /* list up to 10,000 names of a directory without an index; false: 404 */
    bool has_hidden;   /* serve names that start with a dot */
    bool has_outside_links;    /* follow symbolic links that lead out of the directory */
    const char *cache_control; /* Cache-Control header; NULL: none */
} weft_http_files_options;

/* A served directory. */
typedef struct weft_http_files weft_http_files;

/**
 * Open a directory to serve. If options is NULL, the defaults apply.
 *
 * Any number of threads may serve the directory. The call resolves a relative name against the
 * current directory.
 *
 * Returns the served directory. On failure, returns NULL and records for weft_error() an error of
 * open(2), or:
 * -EINVAL if index is empty or contains a slash
 * -EINVAL if cache_control has an invalid character
 * -ENOMEM if memory is exhausted
 */
WEFT_SWITCHPOINT weft_http_files *
weft_http_files_new(const char *dir, const weft_http_files_options *options) WEFT_MUST_CHECK;

/**
 * Open the directory again by its name.
 *
 * New requests use the directory to which the name now refers. Requests in progress continue with
 * the old directory. Any thread may call this function, even while handlers serve the directory.
 * Without this call, the handler detects within 1 s that the name refers to another directory.
 *
 * If the call fails, the handler continues to serve the old directory. The call records the error
 * for weft_error().
 *
 * Returns 0, an error of open(2), or:
 * -ENOMEM if memory is exhausted
 */
WEFT_SWITCHPOINT int weft_http_files_reopen(weft_http_files *files);

/**
 * Free a served directory.
 *
 * No request may be in progress. If files is NULL, the call does nothing.
 */
WEFT_API void weft_http_files_free(weft_http_files *files);

/**
 * Serve the files of a directory.
 *
 * This function is a handler. files must be a weft_http_files. The handler serves GET and HEAD. The
 * handler replies 405 to other methods. In a route that ends in {name...}, the value of that name
 * is the path of the file. In other routes, the path of the request is the path of the file.
 *
 * For a path to a directory, the handler serves the index. If the final slash is missing, the
 * handler replies 301. The handler sets ETag, Last-Modified, and a Content-Type by the suffix of
 * the name. The handler supports conditional requests and ranges. If the client accepts gzip, the
 * handler sends the file with ".gz" appended to the name, if that file exists. The handler ignores
 * a .gz file that is older than the file itself.
 *
 * The handler serves only regular files. A path cannot leave the directory through "..". A path can
 * leave the directory through a symbolic link only with has_outside_links. Without has_hidden, the
 * handler does not serve a path with a name that starts with a dot. The only exception is the
 * directory /.well-known/.
 *
 * The handler serves changed contents at once. The handler detects other changes within 1 s: a new
 * .gz file, and another directory or symbolic link on the path or at the root. If the name of the
 * root does not refer to a directory, the handler continues to serve the old root.
 *
 * If the call returns an error in the list below, the handler has not begun a reply. An outer
 * handler can then send another reply.
 *
 * Returns 0. Errors in addition to those of weft_http_reply:
 * -EACCES if the program may not read the file
 * -EMFILE if the process has no free descriptor
 * -ENFILE if the system has no free descriptor
 * -ENOENT if the file does not exist
 * -ENOENT if the file is hidden, outside of the directory, or not a regular file
 * -ENOMEM if memory is exhausted
 */
WEFT_SWITCHPOINT int weft_http_serve_files(weft_http_request *request, void *files);

/**
 * Reply with an open regular file.
 *
 * The call supports conditional requests and ranges. type is the Content-Type. If type is NULL, the
 * suffix of name selects the type. The caller closes fd. If a file becomes shorter during the
 * reply, this function and weft_http_serve_files fail. The server then resets the connection.
 *
 * Returns 0. Errors in addition to those of weft_http_reply and fstat(2):
 * -EINVAL if fd is not a regular file
 */
WEFT_SWITCHPOINT int weft_http_reply_file(weft_http_request *request, int fd, const char *name,
                                          const char *type);

WEFT_END

#endif

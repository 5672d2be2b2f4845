/*
 * Files over HTTP: the folder of a web site, or one file as a reply.
 */
#ifndef WEFT_HTTP_FILES_H
#define WEFT_HTTP_FILES_H

#include <weft/http.h>

WEFT_BEGIN

/* How files are served; all-zero is the default. */
typedef struct weft_http_files_options {
    const char *index;         /* what stands for a folder; NULL: "index.html" */
    bool has_listing;          /* list a folder without an index, up to 10,000 names; else 404 */
    bool has_hidden;           /* serve names that begin with a dot, too */
    bool has_outside_links;    /* follow symbolic links that lead out of the folder */
    const char *cache_control; /* NULL: none */
} weft_http_files_options;

/* A folder to serve files from. */
typedef struct weft_http_files weft_http_files;

/**
 * Open a folder to be served, by any number of threads. A relative name is resolved now, from the
 * current folder. NULL if that fails; weft_error() says why.
 */
WEFT_SWITCHPOINT weft_http_files *
weft_http_files_new(const char *dir, const weft_http_files_options *options) WEFT_MUST_CHECK;

/**
 * Open the folder again by its name. New requests get the folder that the name leads to now;
 * requests that have begun go on with the old one. May be called while any thread serves the
 * folder. Without this call, requests notice within a second that the name leads to another folder
 * (a link was switched, or a folder replaced).
 *
 * Returns 0, or the error of opening the folder, with words for weft_error(); the old folder is
 * then still served.
 */
WEFT_SWITCHPOINT int weft_http_files_reopen(weft_http_files *files);

/** Free it, once nobody serves it any more. */
WEFT_API void weft_http_files_free(weft_http_files *files);

/**
 * The handler that serves the files of a folder; ctx is the weft_http_files. GET and HEAD, others
 * are 405; index, Content-Type by name, ETag and Last-Modified, conditional requests, ranges, a
 * file of the same name with .gz for who accepts that. Behind a route that ends in {name...} the
 * path is what that stands for. Nothing outside the folder can be had, by dots or by symbolic
 * links; only regular files, and of names that begin with a dot only /.well-known/.
 *
 * Changed contents are served at once. A new .gz sibling, or another folder or link on the path,
 * the root's own included, is noticed within one second. While the root's name leads nowhere, the
 * old root is served.
 *
 * Errors are returned before a reply is begun, so that a handler around it can answer otherwise:
 * -ENOENT for what is not there or may not be had, -EACCES for what may not be read.
 */
WEFT_SWITCHPOINT int weft_http_serve_files(weft_http_request *request, void *files);

/**
 * Reply with an open regular file, as above; type NULL: by its name. The descriptor stays the
 * caller's. -EINVAL if it is no regular file. A file that turns out to be shorter than it was ends
 * the connection, also above.
 */
WEFT_SWITCHPOINT int weft_http_reply_file(weft_http_request *request, int fd, const char *name,
                                          const char *type);

WEFT_END

#endif

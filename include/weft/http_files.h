/* Files over HTTP: serve a directory, or reply with one file. */
#ifndef WEFT_HTTP_FILES_H
#define WEFT_HTTP_FILES_H

#include <weft/http.h>

WEFT_BEGIN

/*
 * A rule for Cache-Control. patterns is a list: "*.css, *.js, assets/app-*.png". An asterisk
 * matches any text, and a question mark one character. A pattern with a slash applies to the path
 * of the file below the directory, other patterns to the name of the file. The path of an index is
 * "docs/index.html", the path of a listing "docs/".
 */
typedef struct weft_http_cache_rule {
    const char *patterns;
    const char *value; /* "public, max-age=3600"; "": send no Cache-Control */
} weft_http_cache_rule;

/* Options of a served directory. All-zero is the default. weft copies all strings and rules. */
typedef struct weft_http_files_options {
    const char *index; /* the file to serve for a directory; NULL: "index.html" */
    bool has_listing;  /* list up to 10,000 names of a directory without an index; false: 404 */
    bool has_hidden;   /* serve names that start with a dot */
    bool has_outside_links;    /* follow symbolic links that lead out of the directory */
    const char *cache_control; /* Cache-Control, if no rule matches; NULL: none */
    const weft_http_cache_rule *cache_rules; /* the first rule that matches applies */
    size_t cache_rules_count;
    bool has_no_precompressed; /* do not send the files .br and .gz beside a file */
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
 * -EINVAL if a rule of cache_rules has no pattern, no value or an invalid character
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
 * the name. The handler supports conditional requests and ranges.
 *
 * A precompressed file has the name of a file with ".br" (Brotli) or ".gz" (gzip) appended. If such
 * a file exists and the client accepts its coding, the handler sends the precompressed file with
 * its own ETag and Last-Modified. The handler ignores a precompressed file that is empty, or older
 * than the file itself.
 *
 * The handler serves only regular files. A path cannot leave the directory through "..". A path can
 * leave the directory through a symbolic link only with has_outside_links. Without has_hidden, the
 * handler does not serve a path with a name that starts with a dot. The only exception is the
 * directory /.well-known/.
 *
 * The handler serves changed contents at once. The handler detects other changes within 1 s: a new
 * precompressed file, and another directory or symbolic link on the path or at the root. If the
 * name of the root does not refer to a directory, the handler continues to serve the old root.
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

/* A file that replaces the text of an error. */
typedef struct weft_http_error_page {
    int status;       /* 400 to 599, or 4 or 5 for all other statuses 4xx or 5xx */
    const char *file; /* path of a regular file */
} weft_http_error_page;

/* Pages for errors. */
typedef struct weft_http_error_pages weft_http_error_pages;

/**
 * Open pages for errors.
 *
 * The server detects changed files as weft_http_serve_files does. Any number of threads may use the
 * pages. The call resolves a relative path against the current directory.
 *
 * Returns the pages. On failure, returns NULL and records for weft_error() an error of open(2), or:
 * -EEXIST if two pages have the same status
 * -EINVAL if a page has no file
 * -EINVAL if a status is not 4, 5 or in 400 to 599
 * -ENOENT if a path is not a regular file
 * -ENOMEM if memory is exhausted
 */
WEFT_SWITCHPOINT weft_http_error_pages *weft_http_error_pages_new(const weft_http_error_page *pages,
                                                                  size_t count) WEFT_MUST_CHECK;

/** Free pages for errors. No request may be in progress. If pages is NULL, do nothing. */
WEFT_API void weft_http_error_pages_free(weft_http_error_pages *pages);

/**
 * Reply to an error with a page.
 *
 * This function is a weft_http_error_handler, for the option error_page of a server. pages is a
 * weft_http_error_pages, or NULL. If pages has no page for the status, or the file no longer
 * exists, the call sends a short HTML page to clients that accept text/html. Other clients get a
 * text that names the status.
 *
 * Returns 0, or an error of weft_http_reply.
 */
WEFT_SWITCHPOINT int weft_http_reply_error_page(weft_http_request *request, int status,
                                                void *pages);

WEFT_END

#endif

/*
 * Served directories: lookups of paths, their cache, and replies with files.
 *
 *     files.c         the handler
 *     root.c          the root directory
 *     find.c          lookups (may block)
 *     open_beneath.c  opens files below the root (may block)
 *     cache.c         recent lookups
 *     reply.c         replies with a file: headers, ranges
 *     list.c          the names in a directory (may block)
 *     page.c          the HTML page of a listing
 *     cache_control.c rules for Cache-Control
 *     error_pages.c   pages for errors
 */
#ifndef WEFT_HTTP_FILES_FILES_H
#define WEFT_HTTP_FILES_FILES_H

#include "base/list.h"
#include "http/files/open_beneath.h"
#include "http/text/accept.h"
#include "http/text/date.h"

#include <weft/http_files.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

/* The maximum size of a file that a lookup keeps in memory. */
#define WEFT__FILE_CONTENT_BYTES_MAX ((uint64_t)16 << 10)
/* The maximum age of a cached lookup. The server checks the status of the file for each request. */
#define WEFT__LOOKUP_FRESH_S 1.0
/* The maximum number of cached lookups. The number is lower if RLIMIT_NOFILE is low. */
#define WEFT__LOOKUPS_MAX 256
/* The maximum number of names in a listing. */
#define WEFT__LIST_MAX 10000
/* The time between two checks whether the path of the root refers to another directory. */
#define WEFT__ROOT_CHECK_S 1.0

/* An open regular file. */
typedef struct weft__file {
    int fd; /* -1: none */
    struct stat status;
    char *content;        /* the whole file; NULL: not in memory */
    const char *type;     /* Content-Type */
    const char *encoding; /* Content-Encoding; NULL: none */
    bool varies;          /* a file with another encoding exists: set Vary */
    char etag[40];        /* strong, from size and modification time */
    char modified[WEFT__DATE_LENGTH + 1];
} weft__file;

/* An open root directory. Each lookup in the directory holds a reference. */
typedef struct weft__files_root {
    atomic_size_t refs;
    int fd;
    dev_t device;
    ino_t inode; /* with device: the identity of the directory while it is open */
    weft__open_beneath_kind kind;
    bool is_local; /* fstat(2) never waits for a network */
} weft__files_root;

typedef struct weft__listing_entry {
    char *name;
    bool is_dir;
    off_t bytes;
    time_t modified;
} weft__listing_entry;

/* The served names of a directory: the first WEFT__LIST_MAX, directories first. */
typedef struct weft__listing {
    weft__listing_entry *entries;
    size_t count, capacity;
    size_t total; /* number of names in the directory, at least count */
} weft__listing;

typedef enum weft__file_lookup_kind {
    WEFT__LOOKUP_FILE,
    WEFT__LOOKUP_DIR,     /* a directory, but the path does not end with a slash */
    WEFT__LOOKUP_LISTING, /* a directory without an index */
} weft__file_lookup_kind;

/*
 * The result of looking up a path. weft__file_lookup_run writes the result, in the calling thread
 * or in a worker. Afterwards only the fields of the cache change.
 */
typedef struct weft__file_lookup {
    weft_http_files *files;
    weft__files_root *root; /* the root at the time of the lookup */
    weft__file_lookup_kind kind;
    weft__file coded[WEFT__CODINGS]; /* the file, and precompressed files; fd -1: none */
    weft__listing listing;           /* if kind is WEFT__LOOKUP_LISTING */
    const char *cache_control;       /* Cache-Control; NULL: none */
    /* Fields of the cache, protected by its lock. */
    size_t refs;
    double looked_up_s; /* when a request last started a lookup of this name */
    weft__list bucket, lru_node;
    char *file_name; /* name, with the index if name is a directory */
    char name[];     /* the path below the root: "", "a/b.html", "a/" */
} weft__file_lookup;

#define WEFT__LOOKUP_BUCKETS 256

typedef struct weft__files_cache {
    pthread_mutex_t lock; /* held briefly, never across a switch */
    weft__list buckets[WEFT__LOOKUP_BUCKETS];
    weft__list lru; /* the most recently used lookup first */
    size_t count, count_max;
} weft__files_cache;

struct weft_http_files {
    atomic_size_t refs;              /* 1 for the owner, and 1 for each lookup */
    char *dir;                       /* absolute path of the root */
    weft__files_root *root;          /* protected by the lock of the cache */
    atomic_llong checked_ms;         /* when dir was last compared with the root */
    weft_http_files_options options; /* with copied strings and rules */
    weft__files_cache cache;
};

/* Release a reference. The last release frees files. */
void weft__files_unref(weft_http_files *files);

/* files.c */

/*
 * Find a file below the root, in the cache or with a lookup. The caller releases *found with
 * weft__files_cache_put. Returns 0 or an error of weft__file_lookup_run.
 */
int weft__files_find(weft_http_files *files, const char *name, weft__file_lookup **found);

/* Return the file with the coding that the client prefers. found->kind must be a file. */
const weft__file *weft__file_lookup_choose(const weft_http_request *request,
                                           const weft__file_lookup *found);

/* root.c */

/*
 * Open the root by its path and replace the previous root. After an error, weft_error() returns the
 * message. Returns 0 or an error.
 */
int weft__files_open_root(weft_http_files *files);

/*
 * Reopen the root if its path refers to another directory. The call checks at most once per
 * WEFT__ROOT_CHECK_S.
 */
void weft__files_follow_root(weft_http_files *files);

/* Return the current root with a new reference. */
weft__files_root *weft__files_root_get(weft_http_files *files);

/* Release a reference to a root. If root is NULL, the call does nothing. */
void weft__files_root_put(weft__files_root *root);

/* find.c */

/* Create an empty lookup with 1 reference. Returns NULL if memory is exhausted. */
weft__file_lookup *weft__file_lookup_new(weft_http_files *files, const char *name);

/*
 * Look up the path. The call blocks, unless is_cached_only is set. After an error, the lookup is
 * empty and can be run again. Returns 0, an error of open(2), or:
 * -EAGAIN if is_cached_only is set and the lookup would block
 * -ENOENT if the file does not exist or is not served
 */
int weft__file_lookup_run(weft__file_lookup *found, bool is_cached_only);

/*
 * Return true if the files have not changed since the lookup. The call does not block on a local
 * root.
 */
bool weft__file_lookup_is_current(const weft__file_lookup *found);

/* Free a lookup. If found is NULL, the call does nothing. */
void weft__file_lookup_free(weft__file_lookup *found);

/* Like weft__file_lookup_free, but on any thread. No fiber may have used the lookup. */
void weft__file_lookup_drop(void *found);

/* Set etag, modified and type of an open file from its status, its encoding and its name. */
void weft__file_describe(weft__file *file, const char *name);

/* cache_control.c */

/*
 * Copy the rules of options to *rules. The caller frees the rules, even after an error. After
 * -EINVAL, weft_error() returns the message. Returns 0, or:
 * -EINVAL if a rule is invalid
 * -ENOMEM if memory is exhausted
 */
int weft__cache_rules_copy(const weft_http_files_options *options,
                           const weft_http_cache_rule **rules);
void weft__cache_rules_free(const weft_http_cache_rule *rules, size_t count);

/* Return the Cache-Control of a path below the root, or NULL. */
const char *weft__cache_control_of(const weft_http_files_options *options, const char *name);

/* Return true if a path below the root matches a list of patterns. */
bool weft__cache_patterns_match(const char *patterns, const char *name);

/* list.c */

/* Read the names of a directory and close dir_fd. The call blocks. Returns 0 or an error. */
int weft__file_lookup_list(weft__file_lookup *found, int dir_fd);

/* Free the entries of a listing. */
void weft__listing_free(weft__listing *listing);

/* page.c */

/* Reply with a page that lists a directory. Returns 0 or an error. */
int weft__file_lookup_reply_listing(weft_http_request *request, const weft__file_lookup *found);

/* cache.c */

/* Initialise an empty cache. */
void weft__files_cache_open(weft__files_cache *cache);

/* Remove all lookups. */
void weft__files_cache_empty(weft__files_cache *cache);

/*
 * Return a lookup that is at most WEFT__LOOKUP_FRESH_S seconds old, with a new reference. Returns
 * NULL if the caller must look up the name.
 */
weft__file_lookup *weft__files_cache_get(weft__files_cache *cache, const char *name);

/*
 * Add a lookup and replace an earlier lookup of the same name. If the root was replaced, the call
 * does not add the lookup.
 */
void weft__files_cache_add(weft__files_cache *cache, weft__file_lookup *found);

/* Remove the lookup of a name. */
void weft__files_cache_remove(weft__files_cache *cache, const char *name);

/* Release a reference. The last release frees the lookup. */
void weft__files_cache_put(weft__files_cache *cache, weft__file_lookup *found);

/* files.c */

/*
 * Redirect to the path with a slash at its end. The location is the decoded path, escaped again.
 * Returns 0 or an error.
 */
int weft__redirect_to_dir(weft_http_request *request);

/* reply.c */

/*
 * Reply with a file. Evaluate conditional headers and ranges. cache_control may be NULL. Returns 0
 * or an error.
 */
int weft__file_reply(weft_http_request *request, const weft__file *file, const char *cache_control);

/*
 * Reply with a whole file and a status other than 200. Ignore conditional headers and ranges.
 * Returns 0 or an error.
 */
int weft__file_reply_with_status(weft_http_request *request, const weft__file *file, int status);

#endif

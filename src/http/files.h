/*
 * Files inside: what is found for a path, what is kept of it, and how a file becomes a reply.
 *
 *     files.c        the handler                     beneath.c     opening, never outside the root
 *     files_find.c   looking a path up, blocking     files_list.c  the names in a folder, blocking
 *     files_cache.c  what was found lately           files_page.c  the page that lists them
 *     files_root.c   the folder, if it changes       files_reply.c headers, ranges, the body
 */
#ifndef WEFT_HTTP_FILES_PARTS_H
#define WEFT_HTTP_FILES_PARTS_H

#include "base/list.h"
#include "http/beneath.h"
#include "http/date.h"

#include <weft/http_files.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

/* A file up to this size is kept in memory, with what was found of it. */
#define WEFT__FILE_CONTENT_BYTES_MAX ((uint64_t)16 << 10)
/* What was found is looked up anew after this; a file itself is looked at each time. */
#define WEFT__FOUND_S 1.0
/* Kept at most; fewer if the process may open few descriptors. */
#define WEFT__FOUND_MAX 256
/* A folder's entries that are listed: the first ones, in the order of the page. */
#define WEFT__LIST_MAX 10000
/* Seconds between two checks whether the root's name leads to another folder. */
#define WEFT__ROOT_S 1.0

/* A regular file, open. */
typedef struct weft__file {
    int fd; /* -1: there is none */
    struct stat status;
    char *content;        /* all of it; NULL: not kept */
    const char *type;     /* Content-Type */
    const char *encoding; /* Content-Encoding; NULL: none */
    bool varies;          /* there is another one for who accepts another encoding */
    char etag[40];        /* strong: size and time */
    char modified[WEFT__DATE_LENGTH + 1];
} weft__file;

/* An open root. Files that were found in it keep it open. */
typedef struct weft__files_root {
    atomic_size_t refs;
    int fd;
    dev_t device; /* which folder it is, with the next */
    ino_t inode;  /* not reused while it is open */
    weft__beneath_kind kind;
    bool is_local; /* asking for an open file's status does not wait for a network */
} weft__files_root;

/* A name in a folder, and what it is. */
typedef struct weft__entry {
    char *name;
    bool is_folder;
    off_t bytes;
    time_t modified;
} weft__entry;

/* The names in a folder that the server serves: the first WEFT__LIST_MAX, folders first. */
typedef struct weft__listing {
    weft__entry *entries;
    size_t count, room;
    size_t total; /* that there are */
} weft__listing;

typedef enum weft__found_kind {
    WEFT__FOUND_FILE,
    WEFT__FOUND_FOLDER, /* asked for without a slash at its end */
    WEFT__FOUND_LIST,   /* a folder without an index: listing has its names */
} weft__found_kind;

/* What was found for a path. Filled by a thread that may block, never changed after that. */
typedef struct weft__found {
    weft_http_files *files;
    weft__files_root *root; /* where it was looked for */
    weft__found_kind kind;
    weft__file plain;
    weft__file gzip; /* the precompressed one, if there is one that is not older */
    weft__listing listing;
    /* The cache's; under its lock. */
    size_t refs;
    double looked_s; /* when */
    weft__list bucket, age;
    char *file_name; /* that of the file: with the index, if it is a folder's */
    char name[];     /* the path below the root: "", "a/b.html", "a/" */
} weft__found;

#define WEFT__FOUND_BUCKETS 256

typedef struct weft__files_cache {
    pthread_mutex_t lock; /* held for a moment, never over a switch */
    weft__list buckets[WEFT__FOUND_BUCKETS];
    weft__list ages; /* used last first */
    size_t count, count_max;
} weft__files_cache;

struct weft_http_files {
    atomic_size_t refs;     /* one is the owner's, one each found's: a look-up may be left behind */
    char *dir;              /* the root's name, absolute */
    weft__files_root *root; /* the cache's lock is for it, too */
    atomic_llong checked_ms;         /* when it was last looked whether dir is still the root */
    weft_http_files_options options; /* strings are its own */
    weft__files_cache cache;
};

void weft__files_unref(weft_http_files *files);

/* files_root.c */

/* Open the root by its name, in place of the old one: 0, or an error with words. */
int weft__files_open_root(weft_http_files *files);

/* Open the root again if its name leads to another folder. Checks once in WEFT__ROOT_S. */
void weft__files_follow_root(weft_http_files *files);

/* The root as it is now, with a reference. */
weft__files_root *weft__files_root_get(weft_http_files *files);
void weft__files_root_put(weft__files_root *root);

/* files_find.c */

/* An empty one, with one reference; NULL if there is no memory. */
weft__found *weft__found_new(weft_http_files *files, const char *name);

/*
 * Look it up. Blocks, unless is_quick: -EAGAIN if it would. -ENOENT, -EACCES, -EMFILE, ... Has
 * found nothing then, and may be tried again.
 */
int weft__found_look(weft__found *found, bool is_quick);

/* Is a file that was found still what it was then? Does not wait. */
bool weft__found_is_current(const weft__found *found);

void weft__found_free(weft__found *found);

/* The same for what no fiber has used, on any thread: weft_offload's drop. */
void weft__found_drop(void *found);

/* Fill in what is said about an open file, from its status. */
void weft__file_describe(weft__file *file, const char *name);

/* files_list.c */

/* Read the names in a folder, which is closed. Blocks. */
int weft__found_list(weft__found *found, int folder);

void weft__listing_free(weft__listing *listing);

/* files_page.c */

/* Reply with a page that lists a folder, a part at a time: others run in between. */
int weft__found_reply_list(weft_http_request *request, const weft__found *found);

/* files_cache.c */

void weft__files_cache_open(weft__files_cache *cache);
void weft__files_cache_empty(weft__files_cache *cache);

/* What was found for a name within the last WEFT__FOUND_S, with a reference; NULL: look it up. */
weft__found *weft__files_cache_get(weft__files_cache *cache, const char *name);

/* Keep it for others, in place of what was found before, unless the root is another by now. */
void weft__files_cache_keep(weft__files_cache *cache, weft__found *found);

/* Forget what was found for a name. */
void weft__files_cache_forget(weft__files_cache *cache, const char *name);

/* Give a reference back. */
void weft__files_cache_put(weft__files_cache *cache, weft__found *found);

/* files_reply.c */

/* Reply with a file: conditions, ranges, and all. Cache-Control may be NULL. */
int weft__file_reply(weft_http_request *request, const weft__file *file, const char *cache_control);

#endif

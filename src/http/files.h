/*
 * Files inside: what is found for a path, what is kept of it, and how a file becomes a reply.
 *
 *     files.c        the handler                     beneath.c     opening, never outside the root
 *     files_find.c   looking a path up, blocking     files_list.c  the page that lists a folder
 *     files_cache.c  what was found lately           files_reply.c headers, ranges, the body
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
/* A folder's entries that are listed. */
#define WEFT__LIST_MAX 10000

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

typedef enum weft__found_kind {
    WEFT__FOUND_FILE,
    WEFT__FOUND_FOLDER, /* asked for without a slash at its end */
    WEFT__FOUND_LIST,   /* a folder without an index: page lists it */
} weft__found_kind;

/* What was found for a path. Filled by a thread that may block, never changed after that. */
typedef struct weft__found {
    weft_http_files *files;
    weft__found_kind kind;
    weft__file plain;
    weft__file gzip; /* the precompressed one, if there is one that is not older */
    char *page;
    size_t page_bytes;
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
    atomic_size_t refs; /* one is the owner's, one each found's: a look-up may be left behind */
    int root;
    dev_t device;
    weft__beneath_kind kind;
    bool is_local; /* asking for an open file's status does not wait for a network */
    weft_http_files_options options; /* strings are its own */
    weft__files_cache cache;
};

void weft__files_unref(weft_http_files *files);

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

/* Make the page of a folder, which is closed. Blocks. */
int weft__found_list(weft__found *found, int folder);

int weft__found_reply_list(weft_http_request *request, const weft__found *found);

/* files_cache.c */

void weft__files_cache_open(weft__files_cache *cache);
void weft__files_cache_empty(weft__files_cache *cache);

/* What was found for a name within the last WEFT__FOUND_S, with a reference; NULL: look it up. */
weft__found *weft__files_cache_get(weft__files_cache *cache, const char *name);

/* Keep it for others, in place of what was found before. */
void weft__files_cache_keep(weft__files_cache *cache, weft__found *found);

/* Forget what was found for a name. */
void weft__files_cache_forget(weft__files_cache *cache, const char *name);

/* Give a reference back. */
void weft__files_cache_put(weft__files_cache *cache, weft__found *found);

/* files_reply.c */

/* Reply with a file: conditions, ranges, and all. Cache-Control may be NULL. */
int weft__file_reply(weft_http_request *request, const weft__file *file, const char *cache_control);

#endif

/*
 * Waiting for a file to change: inotify on its folder and on the file, for one call.
 *
 * An event says that something has happened, a look at the file what. What blocks is done by the
 * pool, the events are read as from any descriptor.
 */
#include "core/op.h"

#include <weft/file.h>
#include <weft/io.h>
#include <weft/scope.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>

/* Of events: room for one at least, with the longest name. */
#define EVENTS_BYTES 1024

/* What is waited for, and what a look at it found. */
typedef struct watch {
    const char *path;
    const char *name; /* its last part */
    size_t name_bytes;
    int fd;          /* inotify's; -1: there is none */
    int file_id;     /* of its own events; -1: it has none */
    struct stat now; /* all-zero: there is no file */
} watch;

static void find_name(watch *w)
{
    const char *path = w->path;
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    w->name = path + begin;
    w->name_bytes = end - begin;
}

/* For the pool: what is there; that there is nothing is no error. */
static intptr_t look(void *arg)
{
    watch *w = arg;
    if (stat(w->path, &w->now) == 0)
        return 0;
    memset(&w->now, 0, sizeof w->now);
    return errno == ENOENT ? 0 : -errno;
}

/* The folder tells of a file that comes and goes, the file what happens to it by another name. */
static int add_watches(watch *w)
{
    uint32_t events = IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF | IN_CREATE |
                      IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO;
    bool is_here = w->name == w->path;
    char *folder = is_here ? strdup(".") : strndup(w->path, (size_t)(w->name - w->path));
    if (folder == NULL)
        return -ENOMEM;
    int rc = inotify_add_watch(w->fd, folder, events | IN_ONLYDIR) < 0 ? -errno : 0;
    free(folder);
    w->file_id = inotify_add_watch(w->fd, w->path, events); /* not there, or not to be read */
    return rc;
}

/* For the pool: first watch, then look, so that nothing happens in between. */
static intptr_t begin(void *arg)
{
    watch *w = arg;
    w->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (w->fd < 0)
        return -errno;
    int rc = add_watches(w);
    return rc < 0 ? rc : look(w);
}

static int run(intptr_t (*fn)(void *arg), watch *w)
{
    weft__op op = {.code = WEFT__OP_CALL, .fd = -1, .u.call = {fn, w, NULL}};
    return (int)weft__op_run(&op);
}

static bool concerns(const watch *w, const struct inotify_event *e)
{
    if (e->mask & IN_Q_OVERFLOW || (w->file_id >= 0 && e->wd == w->file_id))
        return true;
    if (e->len == 0) /* the folder itself */
        return e->mask & (IN_MOVE_SELF | IN_DELETE_SELF);
    return strlen(e->name) == w->name_bytes && memcmp(e->name, w->name, w->name_bytes) == 0;
}

/* 0 when something has happened, else what stopped the waiting. */
static int wait_event(const watch *w)
{
    union {
        struct inotify_event first;
        char data[EVENTS_BYTES];
    } events;
    for (;;) {
        ssize_t n = weft_read(w->fd, events.data, sizeof events);
        if (n <= 0 || n > (ssize_t)sizeof events)
            return (int)n;
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *e = (const void *)(events.data + at);
            if (concerns(w, e))
                return 0;
            at += (ssize_t)(sizeof *e + e->len);
        }
    }
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_nlink == b->st_nlink &&
           a->st_size == b->st_size && is_same_time(&a->st_mtim, &b->st_mtim) &&
           is_same_time(&a->st_ctim, &b->st_ctim);
}

static int wait_watched(watch *w, struct stat *known)
{
    if (known == NULL || is_same(known, &w->now)) {
        int rc = wait_event(w);
        if (rc != 0)
            return rc;
        /* A cancellation from here on is too late: it strikes at the next call. */
        WEFT_SHIELD(INFINITY) {
            rc = run(look, w);
        }
        if (rc != 0)
            return rc;
    }
    if (known != NULL)
        *known = w->now;
    return w->now.st_nlink > 0;
}

int weft_wait_change(const char *path, struct stat *known)
{
    watch w = {.path = path, .fd = -1};
    find_name(&w);
    int rc = run(begin, &w);
    if (w.fd >= 0)
        weft__fd_made(w.fd);
    if (rc == 0 && w.fd >= 0)
        rc = wait_watched(&w, known);
    if (w.fd >= 0)
        weft_close(w.fd);
    return rc;
}

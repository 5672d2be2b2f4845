/*
 * Waiting for a file to change. Each call watches the file and its directory with inotify.
 *
 * An event shows only that the file may have changed. A stat call detects the change. Workers run
 * the calls that block. The fiber reads the events from the inotify descriptor.
 */
#include "core/op/op.h"

#include <weft/file.h>
#include <weft/io.h>
#include <weft/scope.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>

/* The size of the buffer for events, in bytes. At least one event with the longest name fits. */
#define EVENTS_BYTES 1024

/* A watched file, and the result of its last stat. */
typedef struct file_watch {
    const char *path;
    const char *name; /* the last component of path, not terminated */
    size_t name_bytes;
    int fd;          /* the inotify descriptor; -1: none */
    int file_id;     /* the watch descriptor of the file; -1: none */
    struct stat now; /* all-zero: the file does not exist */
} file_watch;

static void file_watch_set_name(file_watch *w)
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

/* Get the status of the file, in a worker. A missing file is not an error. */
static intptr_t file_watch_stat(void *arg)
{
    file_watch *w = arg;
    if (stat(w->path, &w->now) == 0)
        return 0;
    memset(&w->now, 0, sizeof w->now);
    return errno == ENOENT ? 0 : -errno;
}

/*
 * Watch the directory and the file. Events of the directory report creation, removal and renaming.
 * Events of the file report changes through another hard link.
 */
static int add_watches(file_watch *w)
{
    uint32_t events = IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF | IN_CREATE |
                      IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO;
    bool is_bare_name = w->name == w->path;
    char *directory = is_bare_name ? strdup(".") : strndup(w->path, (size_t)(w->name - w->path));
    if (directory == NULL)
        return -ENOMEM;
    int rc = inotify_add_watch(w->fd, directory, events | IN_ONLYDIR) < 0 ? -errno : 0;
    free(directory);
    /* The call fails if the file does not exist or is unreadable. */
    w->file_id = inotify_add_watch(w->fd, w->path, events);
    return rc;
}

/*
 * Open the watches and get the status of the file, in a worker. Add the watches first, so that no
 * change is missed in between.
 */
static intptr_t file_watch_open(void *arg)
{
    file_watch *w = arg;
    w->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (w->fd < 0)
        return -errno;
    int rc = add_watches(w);
    return rc < 0 ? rc : file_watch_stat(w);
}

static int run_in_worker(intptr_t (*fn)(void *arg), file_watch *w)
{
    weft__op op = {.code = WEFT__OP_CALL, .fd = -1, .u.call = {fn, w, NULL}};
    return (int)weft__op_run(&op);
}

static bool event_concerns(const file_watch *w, const struct inotify_event *e)
{
    if (e->mask & IN_Q_OVERFLOW || (w->file_id >= 0 && e->wd == w->file_id))
        return true;
    if (e->len == 0) /* an event of the directory itself */
        return e->mask & (IN_MOVE_SELF | IN_DELETE_SELF);
    return strlen(e->name) == w->name_bytes && memcmp(e->name, w->name, w->name_bytes) == 0;
}

/*
 * Wait for an event that concerns the file. Returns 0 after an event, or the error that interrupted
 * the wait.
 */
static int file_watch_next(const file_watch *w)
{
    union {
        struct inotify_event first;
        char data[EVENTS_BYTES];
    } events;
    for (;;) {
        ssize_t n = weft_read(w->fd, events.data, sizeof events);
        if (n <= 0 || n > (ssize_t)sizeof events)
            return (int)n;
        for (ssize_t offset = 0; offset < n;) {
            const struct inotify_event *e = (const void *)(events.data + offset);
            if (event_concerns(w, e))
                return 0;
            offset += (ssize_t)(sizeof *e + e->len);
        }
    }
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool is_same_stat(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_nlink == b->st_nlink &&
           a->st_size == b->st_size && is_same_time(&a->st_mtim, &b->st_mtim) &&
           is_same_time(&a->st_ctim, &b->st_ctim);
}

static int file_watch_wait(file_watch *w, struct stat *known)
{
    if (known == NULL || is_same_stat(known, &w->now)) {
        int rc = file_watch_next(w);
        if (rc != 0)
            return rc;
        /*
         * The event is consumed, so a cancellation must not interrupt the stat call. The
         * cancellation takes effect at the next call.
         */
        WEFT_SHIELD(INFINITY) {
            rc = run_in_worker(file_watch_stat, w);
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
    file_watch w = {.path = path, .fd = -1};
    file_watch_set_name(&w);
    int rc = run_in_worker(file_watch_open, &w);
    if (w.fd >= 0)
        weft__fd_created(w.fd);
    if (rc == 0 && w.fd >= 0)
        rc = file_watch_wait(&w, known);
    if (w.fd >= 0)
        weft_close(w.fd);
    return rc;
}

/*
 * The names in a folder, read and sorted by the thread that looked it up. Only names that the
 * server serves are listed. Of a large folder the first ones are kept, in the order of the page.
 */
#include "http/files.h"
#include "http/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* What a name is, or leads to; a link only as far as it would be served. */
static int status_of(const weft__found *f, int folder, const char *name, struct stat *out)
{
    char path[PATH_MAX];
    if (fstatat(folder, name, out, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISLNK(out->st_mode))
        return 0;
    if ((size_t)snprintf(path, sizeof path, "%s%s", f->name, name) >= sizeof path)
        return -ENAMETOOLONG;
    int fd = weft__beneath_open(f->root->fd, path, O_PATH, f->root->kind, false);
    int rc = fd < 0 ? fd : fstat(fd, out) < 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

/* 1 for a folder, 0 for a file, -1 for anything else, which is left out. Follows links. */
static int kind_of(const weft__found *f, int folder, const struct dirent *d)
{
    struct stat status;
    if (d->d_type == DT_REG || d->d_type == DT_DIR)
        return d->d_type == DT_DIR;
    if ((d->d_type != DT_LNK && d->d_type != DT_UNKNOWN) ||
        status_of(f, folder, d->d_name, &status) < 0 ||
        (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)))
        return -1;
    return S_ISDIR(status.st_mode);
}

static int compare(const void *a, const void *b)
{
    const weft__entry *x = a, *y = b;
    if (x->is_folder != y->is_folder)
        return x->is_folder ? -1 : 1;
    int rc = strcasecmp(x->name, y->name);
    return rc != 0 ? rc : strcmp(x->name, y->name);
}

/* Sort the names, and keep the first ones. */
static void keep_first(weft__listing *l)
{
    if (l->count > 0)
        qsort(l->entries, l->count, sizeof *l->entries, compare);
    while (l->count > WEFT__LIST_MAX)
        free(l->entries[--l->count].name);
}

/* Twice as many names as are listed are sorted at a time: memory does not grow with the folder. */
static int make_room(weft__listing *l)
{
    if (l->count == 2 * WEFT__LIST_MAX)
        keep_first(l);
    if (l->count < l->room)
        return 0;
    size_t room = l->room > 0 ? 2 * l->room : 64;
    weft__entry *entries = realloc(l->entries, room * sizeof *entries);
    if (entries == NULL)
        return -ENOMEM;
    l->entries = entries;
    l->room = room;
    return 0;
}

static bool is_listed(const weft__found *f, const char *name)
{
    bool is_hidden = name[0] == '.' && !f->files->options.has_hidden;
    return !is_hidden && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           weft__path_is_name(name);
}

static int add_entry(weft__listing *l, const weft__found *f, int folder, const struct dirent *d)
{
    int is_folder = is_listed(f, d->d_name) ? kind_of(f, folder, d) : -1;
    if (is_folder < 0)
        return 0;
    int rc = make_room(l);
    char *copy = rc == 0 ? strdup(d->d_name) : NULL;
    if (copy == NULL)
        return -ENOMEM;
    l->entries[l->count++] = (weft__entry){.name = copy, .is_folder = is_folder > 0};
    l->total++;
    return 0;
}

static int read_names(weft__listing *l, const weft__found *f, DIR *dir)
{
    int rc = 0;
    const struct dirent *next;
    errno = 0;
    while (rc == 0 && (next = readdir(dir)) != NULL) {
        rc = add_entry(l, f, dirfd(dir), next);
        errno = 0;
    }
    return rc == 0 && errno != 0 ? -errno : rc;
}

/* Can it be served? A folder must be one that can be entered. */
static bool fill_in(const weft__found *f, int folder, weft__entry *e)
{
    struct stat status;
    if (faccessat(folder, e->name, e->is_folder ? X_OK : R_OK, AT_EACCESS) < 0 ||
        status_of(f, folder, e->name, &status) < 0)
        return false;
    e->bytes = status.st_size;
    e->modified = status.st_mtim.tv_sec;
    return true;
}

/* Leave out names that cannot be served. */
static void fill_in_all(weft__listing *l, const weft__found *f, int folder)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->count; i++) {
        if (fill_in(f, folder, &l->entries[i])) {
            l->entries[kept++] = l->entries[i];
        } else {
            free(l->entries[i].name);
            l->total--;
        }
    }
    l->count = kept;
}

int weft__found_list(weft__found *found, int folder)
{
    weft__listing *l = &found->listing;
    DIR *dir = fdopendir(folder);
    if (dir == NULL) {
        int rc = -errno;
        close(folder);
        return rc;
    }
    int rc = read_names(l, found, dir);
    if (rc == 0) {
        keep_first(l);
        fill_in_all(l, found, dirfd(dir));
    }
    closedir(dir);
    return rc; /* what was read is freed with what was found */
}

void weft__listing_free(weft__listing *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->entries[i].name);
    free(l->entries);
    *l = (weft__listing){0};
}

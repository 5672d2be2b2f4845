/*
 * The listing of a directory. The worker of the lookup reads and sorts the names. A listing
 * contains only names that the server serves. For a large directory, the listing contains the first
 * WEFT__LIST_MAX names.
 */
#include "http/files/files.h"
#include "http/url/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/*
 * Get the status of a name. Follow a symbolic link only if the server would serve the target of the
 * link.
 */
static int entry_status(const weft__file_lookup *f, int dir_fd, const char *name, struct stat *out)
{
    char path[PATH_MAX];
    if (fstatat(dir_fd, name, out, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISLNK(out->st_mode))
        return 0;
    if ((size_t)snprintf(path, sizeof path, "%s%s", f->name, name) >= sizeof path)
        return -ENAMETOOLONG;
    int fd = weft__open_beneath(f->root->fd, path, O_PATH, f->root->kind, false);
    int rc = fd < 0 ? fd : fstat(fd, out) < 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

/*
 * Return 1 for a directory, 0 for a regular file, or -1 for another type. The call follows links.
 */
static int entry_kind(const weft__file_lookup *f, int dir_fd, const struct dirent *d)
{
    struct stat status;
    if (d->d_type == DT_REG || d->d_type == DT_DIR)
        return d->d_type == DT_DIR;
    if ((d->d_type != DT_LNK && d->d_type != DT_UNKNOWN) ||
        entry_status(f, dir_fd, d->d_name, &status) < 0 ||
        (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)))
        return -1;
    return S_ISDIR(status.st_mode);
}

static int entry_compare(const void *a, const void *b)
{
    const weft__listing_entry *x = a, *y = b;
    if (x->is_dir != y->is_dir)
        return x->is_dir ? -1 : 1;
    int rc = strcasecmp(x->name, y->name);
    return rc != 0 ? rc : strcmp(x->name, y->name);
}

/* Sort the names and keep the first WEFT__LIST_MAX. */
static void listing_truncate(weft__listing *l)
{
    if (l->count > 0)
        qsort(l->entries, l->count, sizeof *l->entries, entry_compare);
    while (l->count > WEFT__LIST_MAX)
        free(l->entries[--l->count].name);
}

/*
 * Reserve space for one more entry. Truncate at 2 * WEFT__LIST_MAX entries to limit the memory for
 * a large directory.
 */
static int listing_reserve(weft__listing *l)
{
    if (l->count == 2 * WEFT__LIST_MAX)
        listing_truncate(l);
    if (l->count < l->capacity)
        return 0;
    size_t capacity = l->capacity > 0 ? 2 * l->capacity : 64;
    weft__listing_entry *entries = realloc(l->entries, capacity * sizeof *entries);
    if (entries == NULL)
        return -ENOMEM;
    l->entries = entries;
    l->capacity = capacity;
    return 0;
}

static bool name_is_listed(const weft__file_lookup *f, const char *name)
{
    bool is_hidden = name[0] == '.' && !f->files->options.has_hidden;
    return !is_hidden && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           weft__path_is_name(name);
}

static int listing_add(weft__listing *l, const weft__file_lookup *f, int dir_fd,
                       const struct dirent *d)
{
    int is_dir = name_is_listed(f, d->d_name) ? entry_kind(f, dir_fd, d) : -1;
    if (is_dir < 0)
        return 0;
    int rc = listing_reserve(l);
    char *copy = rc == 0 ? strdup(d->d_name) : NULL;
    if (copy == NULL)
        return -ENOMEM;
    l->entries[l->count++] = (weft__listing_entry){.name = copy, .is_dir = is_dir > 0};
    l->total++;
    return 0;
}

static int listing_read(weft__listing *l, const weft__file_lookup *f, DIR *dir)
{
    int rc = 0;
    const struct dirent *next;
    errno = 0;
    while (rc == 0 && (next = readdir(dir)) != NULL) {
        rc = listing_add(l, f, dirfd(dir), next);
        errno = 0;
    }
    return rc == 0 && errno != 0 ? -errno : rc;
}

/*
 * Set the size and time of an entry. Returns false if the server cannot read the file or enter the
 * directory.
 */
static bool entry_fill_in(const weft__file_lookup *f, int dir_fd, weft__listing_entry *e)
{
    struct stat status;
    if (faccessat(dir_fd, e->name, e->is_dir ? X_OK : R_OK, AT_EACCESS) < 0 ||
        entry_status(f, dir_fd, e->name, &status) < 0)
        return false;
    e->bytes = status.st_size;
    e->modified = status.st_mtim.tv_sec;
    return true;
}

/* Complete all entries. Remove entries that the server cannot serve. */
static void listing_fill_in(weft__listing *l, const weft__file_lookup *f, int dir_fd)
{
    size_t left = 0;
    for (size_t i = 0; i < l->count; i++) {
        if (entry_fill_in(f, dir_fd, &l->entries[i])) {
            l->entries[left++] = l->entries[i];
        } else {
            free(l->entries[i].name);
            l->total--;
        }
    }
    l->count = left;
}

int weft__file_lookup_list(weft__file_lookup *found, int dir_fd)
{
    weft__listing *l = &found->listing;
    DIR *dir = fdopendir(dir_fd);
    if (dir == NULL) {
        int rc = -errno;
        close(dir_fd);
        return rc;
    }
    int rc = listing_read(l, found, dir);
    if (rc == 0) {
        listing_truncate(l);
        listing_fill_in(l, found, dirfd(dir));
    }
    closedir(dir);
    return rc; /* the caller frees the entries with the lookup */
}

void weft__listing_free(weft__listing *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->entries[i].name);
    free(l->entries);
    *l = (weft__listing){0};
}

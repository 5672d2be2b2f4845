/*
 * The lookup of a path. This file contains all system calls that may wait for the disk. If
 * is_cached_only is set, the kernel uses only its caches (RESOLVE_CACHED, RWF_NOWAIT). On a busy
 * site, such lookups nearly always succeed. Otherwise a worker runs the lookup.
 */
#include "base/libc.h"
#include "http/files/files.h"
#include "http/text/mime.h"

#include <weft/io.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* Precompressed files. */
static const struct {
    const char *suffix;   /* appended to the name of the original file */
    const char *encoding; /* Content-Encoding */
    const char *mark;     /* in the ETag, because each coding needs its own ETag */
} codings[WEFT__CODINGS] = {
    [WEFT__CODING_GZIP] = {".gz", "gzip", "-gz"},
    [WEFT__CODING_BROTLI] = {".br", "br", "-br"},
};
#define SUFFIX_BYTES_MAX 3

/* Opening a FIFO or a device must not block. root_open_file checks the type after the open. */
#define FILE_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY)

weft__file_lookup *weft__file_lookup_new(weft_http_files *files, const char *name)
{
    const char *index = files->options.index;
    size_t bytes = strlen(name) + 1;
    weft__file_lookup *f = calloc(1, sizeof *f + 2 * bytes + strlen(index) + SUFFIX_BYTES_MAX);
    if (f == NULL)
        return NULL;
    memcpy(f->name, name, bytes);
    f->file_name = f->name + bytes;
    bool is_dir = bytes == 1 || name[bytes - 2] == '/';
    stpcpy(stpcpy(f->file_name, name), is_dir ? index : "");
    atomic_fetch_add(&files->refs, 1);
    f->files = files;
    f->root = weft__files_root_get(files);
    f->refs = 1;
    for (size_t i = 0; i < WEFT__CODINGS; i++)
        f->coded[i].fd = -1;
    f->cache_control = weft__cache_control_of(&files->options, f->file_name);
    weft__list_init(&f->bucket);
    weft__list_init(&f->lru_node);
    return f;
}

static void file_release(weft__file *file, int (*close_fd)(int fd))
{
    if (file->fd >= 0)
        close_fd(file->fd);
    free(file->content);
    *file = (weft__file){.fd = -1};
}

static void lookup_release(weft__file_lookup *f, int (*close_fd)(int fd))
{
    for (size_t i = 0; i < WEFT__CODINGS; i++)
        file_release(&f->coded[i], close_fd);
    weft__listing_free(&f->listing);
}

static void lookup_free_with(weft__file_lookup *f, int (*close_fd)(int fd))
{
    if (f == NULL)
        return;
    lookup_release(f, close_fd);
    weft__files_root_put(f->root);
    weft__files_unref(f->files);
    free(f);
}

void weft__file_lookup_free(weft__file_lookup *found)
{
    lookup_free_with(found, weft_close);
}

void weft__file_lookup_drop(void *found)
{
    lookup_free_with(found, close);
}

/* Return the mark of an encoding in an ETag. */
static const char *etag_mark_of(const char *encoding)
{
    for (size_t i = 0; encoding != NULL && i < WEFT__CODINGS; i++)
        if (encoding == codings[i].encoding)
            return codings[i].mark;
    return "";
}

void weft__file_describe(weft__file *file, const char *name)
{
    const struct stat *s = &file->status;
    /*
     * Omit the inode, because inodes differ between copies of a site and reveal details of the
     * disk.
     */
    snprintf(file->etag, sizeof file->etag, "\"%" PRIx64 "-%" PRIx64 "%s\"", (uint64_t)s->st_size,
             (uint64_t)s->st_mtim.tv_sec * 1000000000 + (uint64_t)s->st_mtim.tv_nsec,
             etag_mark_of(file->encoding));
    weft__date_write(file->modified, s->st_mtim.tv_sec);
    if (file->type == NULL)
        file->type = weft__mime_of(name);
}

/* Map errors that mean "no such file" to -ENOENT. Keep other errors, for example -EACCES. */
static int lookup_error(int error)
{
    static const int absent[] = {ENOTDIR, ELOOP, EXDEV, ENAMETOOLONG, ENXIO, ENODEV, EINVAL};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        if (error == -absent[i])
            return -ENOENT;
    return error;
}

/* Open a file of any type and get its status. Returns a descriptor or an error. */
static int root_open(const weft__files_root *root, const char *name, struct stat *status,
                     bool is_cached_only)
{
    int fd = weft__open_beneath(root->fd, name, FILE_FLAGS, root->kind, is_cached_only);
    if (fd < 0)
        return is_cached_only && fd != -ENOENT ? -EAGAIN : lookup_error(fd);
    if (fstat(fd, status) == 0)
        return fd;
    int rc = -errno;
    close(fd);
    return rc;
}

/*
 * Read a small file into memory. If the file is not in memory, the server sends the file from its
 * descriptor. Returns 0, or:
 * -EAGAIN if is_cached_only is set and the read fails
 */
static int read_content(weft__file *file, bool is_cached_only)
{
    size_t bytes = (size_t)file->status.st_size;
    if (bytes == 0 || bytes > WEFT__FILE_CONTENT_BYTES_MAX)
        return 0;
    char *content = malloc(bytes);
    if (content == NULL)
        return 0;
    ssize_t n =
        preadv2(file->fd, &(struct iovec){content, bytes}, 1, 0, is_cached_only ? RWF_NOWAIT : 0);
    if (n == (ssize_t)bytes) {
        file->content = content;
        return 0;
    }
    free(content);
    return is_cached_only ? -EAGAIN : 0;
}

/*
 * Open a regular file or a directory. If the file is a directory, *dir_fd is its descriptor. If
 * dir_fd is NULL, a directory is an error. Returns 0 for a regular file, 1 for a directory, or an
 * error.
 */
static int root_open_file(const weft__files_root *root, const char *name, weft__file *file,
                          int *dir_fd, bool is_cached_only)
{
    int fd = root_open(root, name, &file->status, is_cached_only);
    if (fd < 0)
        return fd;
    if (S_ISREG(file->status.st_mode)) {
        file->fd = fd;
        return read_content(file, is_cached_only);
    }
    if (S_ISDIR(file->status.st_mode) && dir_fd != NULL) {
        *dir_fd = fd;
        return 1;
    }
    close(fd);
    return -ENOENT;
}

/* Compare the times of two files. If a has no fraction of a second, compare only seconds. */
static bool is_older(const struct stat *a, const struct stat *b)
{
    const struct timespec *at = &a->st_mtim, *bt = &b->st_mtim;
    return at->tv_sec < bt->tv_sec ||
           (at->tv_sec == bt->tv_sec && at->tv_nsec != 0 && at->tv_nsec < bt->tv_nsec);
}

/*
 * Look up a precompressed file. Ignore an empty file, and a file that is older than the original.
 * Such files are incomplete or have the contents of an earlier version. Programs such as brotli
 * copy the time of the original without its fraction.
 */
static int look_up_coded(weft__file_lookup *f, weft__coding coding, bool is_cached_only)
{
    weft__file *file = &f->coded[coding], *original = &f->coded[WEFT__CODING_IDENTITY];
    char *end = f->file_name + strlen(f->file_name);
    strcpy(end, codings[coding].suffix);
    int rc = root_open_file(f->root, f->file_name, file, NULL, is_cached_only);
    *end = '\0';
    if (rc == -EAGAIN && is_cached_only)
        return rc;
    if (rc < 0 || file->status.st_size == 0 || is_older(&file->status, &original->status)) {
        file_release(file, close);
        return 0;
    }
    file->encoding = codings[coding].encoding;
    weft__file_describe(file, f->file_name);
    file->varies = original->varies = true;
    return 0;
}

static int lookup_finish_file(weft__file_lookup *f, bool is_cached_only)
{
    int rc = 0;
    f->kind = WEFT__LOOKUP_FILE;
    weft__file_describe(&f->coded[WEFT__CODING_IDENTITY], f->file_name);
    for (int i = WEFT__CODING_GZIP; rc == 0 && i < WEFT__CODINGS; i++)
        if (!f->files->options.has_no_precompressed)
            rc = look_up_coded(f, (weft__coding)i, is_cached_only);
    return rc;
}

/* Look up the listing of a directory without an index. */
static int look_up_listing(weft__file_lookup *f, bool is_cached_only)
{
    int dir_fd;
    if (!f->files->options.has_listing)
        return -ENOENT;
    if (is_cached_only)
        return -EAGAIN;
    int rc = root_open_file(f->root, f->name, &f->coded[WEFT__CODING_IDENTITY], &dir_fd, false);
    if (rc != 1)
        return rc < 0 ? rc : -ENOENT;
    f->kind = WEFT__LOOKUP_LISTING;
    f->cache_control = weft__cache_control_of(&f->files->options, f->name);
    return weft__file_lookup_list(f, dir_fd);
}

static int look_up_path(weft__file_lookup *f, bool is_cached_only)
{
    bool is_index = strcmp(f->name, f->file_name) != 0;
    int dir_fd;
    int rc = root_open_file(f->root, f->file_name, &f->coded[WEFT__CODING_IDENTITY],
                            is_index ? NULL : &dir_fd, is_cached_only);
    if (rc == -ENOENT && is_index)
        return look_up_listing(f, is_cached_only);
    if (rc <= 0)
        return rc < 0 ? rc : lookup_finish_file(f, is_cached_only);
    close(dir_fd);
    f->kind = WEFT__LOOKUP_DIR;
    return 0;
}

int weft__file_lookup_run(weft__file_lookup *found, bool is_cached_only)
{
    int rc = look_up_path(found, is_cached_only);
    if (rc < 0)
        lookup_release(found, close);
    return rc;
}

static bool file_is_unchanged(const weft__file *file)
{
    const struct stat *cached = &file->status;
    struct stat current;
    if (file->fd < 0)
        return true;
    return fstat(file->fd, &current) == 0 && current.st_size == cached->st_size &&
           current.st_nlink == cached->st_nlink && current.st_mode == cached->st_mode &&
           memcmp(&current.st_mtim, &cached->st_mtim, sizeof current.st_mtim) == 0 &&
           memcmp(&current.st_ctim, &cached->st_ctim, sizeof current.st_ctim) == 0;
}

bool weft__file_lookup_is_current(const weft__file_lookup *found)
{
    bool is_current = true;
    for (size_t i = 0; is_current && i < WEFT__CODINGS; i++)
        is_current = file_is_unchanged(&found->coded[i]);
    return is_current;
}

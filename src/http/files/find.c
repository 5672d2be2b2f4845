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

#define GZIP_SUFFIX ".gz"

/* Opening a FIFO or a device must not block. root_open_file checks the type after the open. */
#define FILE_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY)

weft__file_lookup *weft__file_lookup_new(weft_http_files *files, const char *name)
{
    const char *index = files->options.index;
    size_t bytes = strlen(name) + 1;
    weft__file_lookup *f = calloc(1, sizeof *f + 2 * bytes + strlen(index) + strlen(GZIP_SUFFIX));
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
    f->uncompressed.fd = f->gzip.fd = -1;
    weft__list_init(&f->bucket);
    weft__list_init(&f->lru_node);
    return f;
}

static void lookup_release(weft__file_lookup *f, int (*close_fd)(int fd))
{
    weft__file *files[] = {&f->uncompressed, &f->gzip};
    for (size_t i = 0; i < 2; i++) {
        if (files[i]->fd >= 0)
            close_fd(files[i]->fd);
        free(files[i]->content);
        *files[i] = (weft__file){.fd = -1};
    }
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

void weft__file_describe(weft__file *file, const char *name)
{
    const struct stat *s = &file->status;
    /*
     * Omit the inode, because inodes differ between copies of a site and reveal details of the
     * disk.
     */
    snprintf(file->etag, sizeof file->etag, "\"%" PRIx64 "-%" PRIx64 "\"", (uint64_t)s->st_size,
             (uint64_t)s->st_mtim.tv_sec * 1000000000 + (uint64_t)s->st_mtim.tv_nsec);
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

/*
 * Look up the precompressed file. Ignore a precompressed file that is older than the original file.
 */
static int look_up_gzip(weft__file_lookup *f, bool is_cached_only)
{
    const struct timespec *gzip_mtime = &f->gzip.status.st_mtim,
                          *mtime = &f->uncompressed.status.st_mtim;
    char *end = f->file_name + strlen(f->file_name);
    memcpy(end, GZIP_SUFFIX, sizeof GZIP_SUFFIX);
    int rc = root_open_file(f->root, f->file_name, &f->gzip, NULL, is_cached_only);
    *end = '\0';
    if (rc == -EAGAIN && is_cached_only)
        return rc;
    bool is_older = gzip_mtime->tv_sec < mtime->tv_sec ||
                    (gzip_mtime->tv_sec == mtime->tv_sec && gzip_mtime->tv_nsec < mtime->tv_nsec);
    if (rc == 0 && !is_older)
        return 0;
    if (f->gzip.fd >= 0)
        close(f->gzip.fd);
    free(f->gzip.content);
    f->gzip = (weft__file){.fd = -1};
    return 0;
}

static int lookup_finish_file(weft__file_lookup *f, bool is_cached_only)
{
    int rc = look_up_gzip(f, is_cached_only);
    if (rc < 0)
        return rc;
    f->kind = WEFT__LOOKUP_FILE;
    weft__file_describe(&f->uncompressed, f->file_name);
    if (f->gzip.fd < 0)
        return 0;
    weft__file_describe(&f->gzip, f->file_name);
    f->gzip.encoding = "gzip";
    f->uncompressed.varies = f->gzip.varies = true;
    return 0;
}

/* Look up the listing of a directory without an index. */
static int look_up_listing(weft__file_lookup *f, bool is_cached_only)
{
    int dir_fd;
    if (!f->files->options.has_listing)
        return -ENOENT;
    if (is_cached_only)
        return -EAGAIN;
    int rc = root_open_file(f->root, f->name, &f->uncompressed, &dir_fd, false);
    if (rc != 1)
        return rc < 0 ? rc : -ENOENT;
    f->kind = WEFT__LOOKUP_LISTING;
    return weft__file_lookup_list(f, dir_fd);
}

static int look_up_path(weft__file_lookup *f, bool is_cached_only)
{
    bool is_index = strcmp(f->name, f->file_name) != 0;
    int dir_fd;
    int rc = root_open_file(f->root, f->file_name, &f->uncompressed, is_index ? NULL : &dir_fd,
                            is_cached_only);
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
    return file_is_unchanged(&found->uncompressed) && file_is_unchanged(&found->gzip);
}

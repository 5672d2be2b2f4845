/*
 * Looking a path up: all that may have to wait for the disk, in one go, for a thread of the pool.
 * First it is tried in place, with the kernel told to answer only from memory: of a busy site that
 * is nearly always enough.
 */
#include "base/libc.h"
#include "http/files.h"
#include "http/mime.h"

#include <weft/io.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define GZIP_END ".gz"

/* A FIFO or a device is opened before it is known to be one: that must not wait for anybody. */
#define FILE_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY)

weft__found *weft__found_new(weft_http_files *files, const char *name)
{
    const char *index = files->options.index;
    size_t bytes = strlen(name) + 1;
    weft__found *f = calloc(1, sizeof *f + 2 * bytes + strlen(index) + strlen(GZIP_END));
    if (f == NULL)
        return NULL;
    memcpy(f->name, name, bytes);
    f->file_name = f->name + bytes;
    bool is_folder = bytes == 1 || name[bytes - 2] == '/';
    stpcpy(stpcpy(f->file_name, name), is_folder ? index : "");
    atomic_fetch_add(&files->refs, 1);
    f->files = files;
    f->root = weft__files_root_get(files);
    f->refs = 1;
    f->plain.fd = f->gzip.fd = -1;
    weft__list_init(&f->bucket);
    weft__list_init(&f->age);
    return f;
}

static void release(weft__found *f, int (*close_fd)(int fd))
{
    weft__file *both[] = {&f->plain, &f->gzip};
    for (size_t i = 0; i < 2; i++) {
        if (both[i]->fd >= 0)
            close_fd(both[i]->fd);
        free(both[i]->content);
        *both[i] = (weft__file){.fd = -1};
    }
    weft__listing_free(&f->listing);
}

static void free_with(weft__found *f, int (*close_fd)(int fd))
{
    if (f == NULL)
        return;
    release(f, close_fd);
    weft__files_root_put(f->root);
    weft__files_unref(f->files);
    free(f);
}

void weft__found_free(weft__found *found)
{
    free_with(found, weft_close);
}

void weft__found_drop(void *found)
{
    free_with(found, close);
}

void weft__file_describe(weft__file *file, const char *name)
{
    const struct stat *s = &file->status;
    /* Not the inode: it tells about the disk, and differs between copies of a site. */
    snprintf(file->etag, sizeof file->etag, "\"%" PRIx64 "-%" PRIx64 "\"", (uint64_t)s->st_size,
             (uint64_t)s->st_mtim.tv_sec * 1000000000 + (uint64_t)s->st_mtim.tv_nsec);
    weft__date_write(file->modified, s->st_mtim.tv_sec);
    if (file->type == NULL)
        file->type = weft__mime_of(name);
}

/* What is in the way of a file is as good as no file; but who may not read it is told so. */
static int plain_error(int error)
{
    static const int absent[] = {ENOTDIR, ELOOP, EXDEV, ENAMETOOLONG, ENXIO, ENODEV, EINVAL};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        if (error == -absent[i])
            return -ENOENT;
    return error;
}

/* Open what has that name, whatever it is: its descriptor. */
static int open_any(const weft__files_root *root, const char *name, struct stat *status,
                    bool is_quick)
{
    int fd = weft__beneath_open(root->fd, name, FILE_FLAGS, root->kind, is_quick);
    if (fd < 0)
        return is_quick && fd != -ENOENT ? -EAGAIN : plain_error(fd);
    if (fstat(fd, status) == 0)
        return fd;
    int rc = -errno;
    close(fd);
    return rc;
}

/* All of a small file; without it the file is sent from the descriptor. */
static int read_content(weft__file *file, bool is_quick)
{
    size_t bytes = (size_t)file->status.st_size;
    if (bytes == 0 || bytes > WEFT__FILE_CONTENT_BYTES_MAX)
        return 0;
    char *content = malloc(bytes);
    if (content == NULL)
        return 0;
    ssize_t n = preadv2(file->fd, &(struct iovec){content, bytes}, 1, 0, is_quick ? RWF_NOWAIT : 0);
    if (n == (ssize_t)bytes) {
        file->content = content;
        return 0;
    }
    free(content);
    return is_quick ? -EAGAIN : 0;
}

/* 0 for a regular file; 1 for a folder, which *folder is the descriptor of. */
static int open_file(const weft__files_root *root, const char *name, weft__file *file, int *folder,
                     bool is_quick)
{
    int fd = open_any(root, name, &file->status, is_quick);
    if (fd < 0)
        return fd;
    if (S_ISREG(file->status.st_mode)) {
        file->fd = fd;
        return read_content(file, is_quick);
    }
    if (S_ISDIR(file->status.st_mode) && folder != NULL) {
        *folder = fd;
        return 1;
    }
    close(fd);
    return -ENOENT;
}

/* The one that somebody has compressed before, if that was not before the last change. */
static int look_for_gzip(weft__found *f, bool is_quick)
{
    const struct timespec *made = &f->gzip.status.st_mtim, *changed = &f->plain.status.st_mtim;
    char *end = f->file_name + strlen(f->file_name);
    memcpy(end, GZIP_END, sizeof GZIP_END);
    int rc = open_file(f->root, f->file_name, &f->gzip, NULL, is_quick);
    *end = '\0';
    if (rc == -EAGAIN && is_quick)
        return rc;
    bool is_older = made->tv_sec < changed->tv_sec ||
                    (made->tv_sec == changed->tv_sec && made->tv_nsec < changed->tv_nsec);
    if (rc == 0 && !is_older)
        return 0;
    if (f->gzip.fd >= 0)
        close(f->gzip.fd);
    free(f->gzip.content);
    f->gzip = (weft__file){.fd = -1};
    return 0;
}

static int finish_file(weft__found *f, bool is_quick)
{
    int rc = look_for_gzip(f, is_quick);
    if (rc < 0)
        return rc;
    f->kind = WEFT__FOUND_FILE;
    weft__file_describe(&f->plain, f->file_name);
    if (f->gzip.fd < 0)
        return 0;
    weft__file_describe(&f->gzip, f->file_name);
    f->gzip.encoding = "gzip";
    f->plain.varies = f->gzip.varies = true;
    return 0;
}

/* A folder without an index. */
static int look_at_list(weft__found *f, bool is_quick)
{
    int folder;
    if (!f->files->options.has_listing)
        return -ENOENT;
    if (is_quick)
        return -EAGAIN;
    int rc = open_file(f->root, f->name, &f->plain, &folder, false);
    if (rc != 1)
        return rc < 0 ? rc : -ENOENT;
    f->kind = WEFT__FOUND_LIST;
    return weft__found_list(f, folder);
}

static int look_at(weft__found *f, bool is_quick)
{
    bool is_index = strcmp(f->name, f->file_name) != 0;
    int folder;
    int rc = open_file(f->root, f->file_name, &f->plain, is_index ? NULL : &folder, is_quick);
    if (rc == -ENOENT && is_index)
        return look_at_list(f, is_quick);
    if (rc <= 0)
        return rc < 0 ? rc : finish_file(f, is_quick);
    close(folder);
    f->kind = WEFT__FOUND_FOLDER;
    return 0;
}

int weft__found_look(weft__found *found, bool is_quick)
{
    int rc = look_at(found, is_quick);
    if (rc < 0)
        release(found, close);
    return rc;
}

static bool is_same(const weft__file *file)
{
    const struct stat *was = &file->status;
    struct stat is;
    if (file->fd < 0)
        return true;
    return fstat(file->fd, &is) == 0 && is.st_size == was->st_size &&
           is.st_nlink == was->st_nlink && is.st_mode == was->st_mode &&
           memcmp(&is.st_mtim, &was->st_mtim, sizeof is.st_mtim) == 0 &&
           memcmp(&is.st_ctim, &was->st_ctim, sizeof is.st_ctim) == 0;
}

bool weft__found_is_current(const weft__found *found)
{
    return is_same(&found->plain) && is_same(&found->gzip);
}

/*
 * The root directory. The server opens the root by its path. The server opens the root again when
 * the path refers to another directory, for example after a deployment has replaced a symbolic
 * link.
 */
#include "http/files/files.h"

#include <weft/error.h>
#include <weft/file.h>
#include <weft/io.h>
#include <weft/time.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/vfs.h>
#include <unistd.h>

/* File systems on which fstat(2) may wait for another machine or process. */
#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC 0x65735546
#endif
#define CIFS_MAGIC 0xff534d42

static bool is_local(int fd)
{
    static const unsigned long remote[] = {NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC, CIFS_MAGIC,
                                           FUSE_SUPER_MAGIC, V9FS_MAGIC,      CEPH_SUPER_MAGIC,
                                           AFS_SUPER_MAGIC,  CODA_SUPER_MAGIC};
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0)
        return false;
    for (size_t i = 0; i < sizeof remote / sizeof *remote; i++)
        if ((unsigned long)fs.f_type == remote[i])
            return false;
    return true;
}

weft__files_root *weft__files_root_get(weft_http_files *files)
{
    pthread_mutex_lock(&files->cache.lock);
    weft__files_root *root = files->root;
    atomic_fetch_add(&root->refs, 1);
    pthread_mutex_unlock(&files->cache.lock);
    return root;
}

void weft__files_root_put(weft__files_root *root)
{
    if (root == NULL || atomic_fetch_sub(&root->refs, 1) > 1)
        return;
    close(root->fd); /* not weft_close, because the thread may be a worker */
    free(root);
}

/* Set the fields of an open root. */
static int describe_root(weft__files_root *root, bool has_outside_links)
{
    struct stat status;
    int rc = weft_fstat(root->fd, &status);
    if (rc < 0)
        return rc;
    root->device = status.st_dev;
    root->inode = status.st_ino;
    root->is_local = is_local(root->fd);
    root->kind =
        has_outside_links ? WEFT__OPEN_BENEATH_ALL_LINKS : weft__open_beneath_choose(root->fd);
    return 0;
}

static int open_root(const weft_http_files *files, weft__files_root **out)
{
    weft__files_root *root = calloc(1, sizeof *root);
    if (root == NULL)
        return -ENOMEM;
    atomic_init(&root->refs, 1);
    root->fd = weft_open(files->dir, O_PATH | O_DIRECTORY);
    int rc = root->fd < 0 ? root->fd : describe_root(root, files->options.has_outside_links);
    if (rc == 0) {
        *out = root;
        return 0;
    }
    if (root->fd >= 0)
        weft_close(root->fd);
    free(root);
    return rc;
}

/* Replace the root. Requests in progress keep the previous root. New requests use the new root. */
static void replace_root(weft_http_files *files, weft__files_root *root)
{
    pthread_mutex_lock(&files->cache.lock);
    weft__files_root *previous = files->root;
    files->root = root;
    pthread_mutex_unlock(&files->cache.lock);
    weft__files_cache_empty(&files->cache);
    weft__files_root_put(previous);
}

static long long now_ms(void)
{
    return (long long)(weft_now() * 1000);
}

int weft__files_open_root(weft_http_files *files)
{
    weft__files_root *root;
    int rc = open_root(files, &root);
    if (rc < 0)
        return weft_fail(rc, "cannot open directory %s", files->dir);
    atomic_store(&files->checked_ms, now_ms());
    replace_root(files, root);
    return 0;
}

int weft_http_files_reopen(weft_http_files *files)
{
    return weft__files_open_root(files);
}

/*
 * Return true if the path refers to another directory. Returns false if the path does not refer to
 * a directory.
 */
static bool root_is_replaced(weft_http_files *files)
{
    struct stat status;
    if (weft_stat(files->dir, &status) < 0 || !S_ISDIR(status.st_mode))
        return false;
    weft__files_root *root = weft__files_root_get(files);
    bool is_same = status.st_dev == root->device && status.st_ino == root->inode;
    weft__files_root_put(root);
    return !is_same;
}

void weft__files_follow_root(weft_http_files *files)
{
    long long now = now_ms(), checked = atomic_load(&files->checked_ms);
    if (now - checked < (long long)(WEFT__ROOT_CHECK_S * 1000) ||
        !atomic_compare_exchange_strong(&files->checked_ms, &checked, now))
        return; /* checked recently, or another thread is checking */
    weft__files_root *root;
    if (root_is_replaced(files) && open_root(files, &root) == 0)
        replace_root(files, root); /* otherwise keep the previous root */
}
